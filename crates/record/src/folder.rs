//! The files of a recording: their names, and their bounds when they are read.

use crate::error::RecordError;
use crate::event::{JobEnding, RecordedEvent, What};
use crate::header::{Header, VERSION, VERSION_MIN};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};

const HEADER: &str = "recording.json";
/// All versions of the format use this name.
const EVENTS: &str = "happenings.jsonl";
const ENDING: &str = "ending.json";

/// Maximum size of the header in bytes. A job of 100,000 PEs has 10 MB, and the links between 900
/// sites take 60 MB.
const HEADER_BYTES_MAX: u64 = 64 << 20;
/// Maximum size of the events in bytes. The writer stops before it.
const EVENTS_BYTES_MAX: u64 = 64 << 20;
/// Size of the events in bytes from which the writer drops the frequent ones, so that losses and
/// warnings near the end of a long job still have room.
const FREQUENT_BYTES_MAX: u64 = 56 << 20;
/// Maximum size of the error of a failed job in bytes, so that the ending stays below its maximum:
/// as JSON, the error is at most six times as long.
const FAILURE_BYTES_MAX: usize = 64 << 10;
/// Maximum size of the line about the verification in bytes; that of a built-in job has about a
/// hundred.
const VERIFIED_BYTES_MAX: usize = 1 << 10;
/// Maximum size of the file of a node in bytes, above all sensible budgets.
const NODE_BYTES_MAX: u64 = 1 << 30;
/// Maximum size of the ending in bytes.
const ENDING_BYTES_MAX: u64 = 1 << 20;

/// Writes the files of one recording.
///
/// ```
/// use gridspan_record::{RecordedEvent, Header, JobEnding, Recording, RecordingFolder, What};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let parent = tempfile::tempdir()?;
/// # let folder = parent.path().join("recording");
/// let header = Header { job: "leanmd".to_owned(), ..Header::default() };
/// let mut files = RecordingFolder::create(&folder, &header)?;
/// files.add(&RecordedEvent { at_ns: 5, what: What::Warning { text: "slow disk".to_owned() } })?;
/// files.end(&JobEnding { at_ns: 10, ..JobEnding::default() })?;
///
/// let recording = Recording::read(&folder)?;
/// assert_eq!(recording.header.job, "leanmd");
/// assert_eq!(recording.end_ns(), 10);
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct RecordingFolder {
    folder: PathBuf,
    events: File,
    events_bytes: u64,
    /// Sizes of the events in bytes: frequent events are dropped beyond the first, and all events
    /// beyond the second.
    limits: [u64; 2],
    /// Number of events that were handed in.
    events_added: u64,
    /// Number of events of each kind that were dropped.
    dropped: BTreeMap<&'static str, u64>,
}

impl RecordingFolder {
    /// Checks that the files of a recording can be written to a folder: that it does not exist, or
    /// is empty.
    ///
    /// # Errors
    ///
    /// [`RecordError::NotEmpty`], and [`RecordError::Io`] if the folder cannot be read.
    pub fn check(folder: &Path) -> Result<(), RecordError> {
        match fs::read_dir(folder).map(|mut entries| entries.next().is_some()) {
            Ok(false) => Ok(()),
            Ok(true) => Err(RecordError::NotEmpty { folder: folder.to_owned() }),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            Err(error) => Err(RecordError::Io { path: folder.to_owned(), error }),
        }
    }

    /// Creates the folder, and writes the header.
    ///
    /// # Errors
    ///
    /// [`RecordError::NotEmpty`], [`RecordError::HeaderTooLarge`], and [`RecordError::Io`] if a
    /// file cannot be written.
    pub fn create(folder: &Path, header: &Header) -> Result<Self, RecordError> {
        Self::check(folder)?;
        let header = header_json(folder, header, HEADER_BYTES_MAX)?;
        at(folder, fs::create_dir_all(folder))?;
        let path = folder.join(EVENTS);
        let events = at(&path, OpenOptions::new().append(true).create(true).open(&path))?;
        replace(&folder.join(HEADER), &header)?;
        Ok(Self {
            folder: folder.to_owned(),
            events,
            events_bytes: 0,
            limits: [FREQUENT_BYTES_MAX, EVENTS_BYTES_MAX],
            events_added: 0,
            dropped: BTreeMap::new(),
        })
    }

    /// Writes the header once more, when nodes have joined.
    ///
    /// # Errors
    ///
    /// [`RecordError::HeaderTooLarge`], and [`RecordError::Io`] if the file cannot be written.
    pub fn set_header(&self, header: &Header) -> Result<(), RecordError> {
        let content = header_json(&self.folder, header, HEADER_BYTES_MAX)?;
        replace(&self.folder.join(HEADER), &content)
    }

    /// Adds an event of the job, if it has room. All events have room up to 56 MiB; then
    /// broadcasts, rebalances, checkpoints and changes of links are dropped, and from 64 MiB on all
    /// others, too. Dropped events are counted, and a warning among the events says when the first
    /// one was dropped.
    ///
    /// # Errors
    ///
    /// [`RecordError`] if the file cannot be written.
    pub fn add(&mut self, event: &RecordedEvent) -> Result<(), RecordError> {
        self.events_added += 1;
        let [frequent_max, most] = self.limits;
        let limit = if is_frequent(&event.what) { frequent_max } else { most };
        if self.write_event(event, limit)? {
            return Ok(());
        }
        let is_first = self.dropped.is_empty();
        *self.dropped.entry(event.what.kind()).or_default() += 1;
        if is_first {
            let text = "the recording has no room for more broadcasts, rebalances, checkpoints and \
                        changes of links, and for others only until it is full; its end has the \
                        number of missing events of each kind";
            let what = What::Warning { text: text.to_owned() };
            self.write_event(&RecordedEvent { at_ns: event.at_ns, what }, most)?;
        }
        Ok(())
    }

    /// Returns the number of events that were handed in.
    pub fn events_added(&self) -> u64 {
        self.events_added
    }

    /// Returns the number of events that were dropped.
    pub fn events_dropped(&self) -> u64 {
        self.dropped.values().sum()
    }

    /// Writes an event, if the events then have at most `limit` bytes. Returns whether it did.
    fn write_event(&mut self, event: &RecordedEvent, limit: u64) -> Result<bool, RecordError> {
        let path = self.folder.join(EVENTS);
        let mut line = to_json(&path, event)?;
        line.push(b'\n');
        let bytes = self.events_bytes + line.len() as u64;
        if bytes > limit {
            return Ok(false);
        }
        self.events_bytes = bytes;
        at(&path, self.events.write_all(&line))?;
        Ok(true)
    }

    /// Adds records of a node, as [`encode_records`](crate::encode_records) returns them.
    /// [`complete_node`](Self::complete_node) makes them a part of the recording.
    ///
    /// # Errors
    ///
    /// [`RecordError::Io`] if the file cannot be written.
    pub fn add_to_node(&self, node: u32, bytes: &[u8]) -> Result<(), RecordError> {
        let path = partial(&node_path(&self.folder, node));
        let mut file = at(&path, OpenOptions::new().append(true).create(true).open(&path))?;
        at(&path, file.write_all(bytes))
    }

    /// Makes the records that were added for a node a part of the recording.
    ///
    /// # Errors
    ///
    /// [`RecordError::Io`] if nothing was added for the node, or the file cannot be renamed.
    pub fn complete_node(&self, node: u32) -> Result<(), RecordError> {
        let path = node_path(&self.folder, node);
        at(&path, fs::rename(partial(&path), &path))
    }

    /// Removes the records that were added for a node that is not complete.
    ///
    /// # Errors
    ///
    /// [`RecordError::Io`] if the file exists and cannot be removed.
    pub fn drop_node(&self, node: u32) -> Result<(), RecordError> {
        let path = partial(&node_path(&self.folder, node));
        match fs::remove_file(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            removed => at(&path, removed),
        }
    }

    /// Writes how the job ended, as the last file. Adds the numbers of events that were dropped
    /// here to those of the ending, and cuts an error above 64 KiB and a line about the
    /// verification above 1 KiB.
    ///
    /// # Errors
    ///
    /// [`RecordError`] if the file cannot be written.
    pub fn end(self, ending: &JobEnding) -> Result<(), RecordError> {
        let mut ending = ending.clone();
        ending.dropped_events = ending.dropped_events.saturating_add(self.events_dropped());
        for (kind, number) in &self.dropped {
            let sum = ending.dropped_kinds.entry((*kind).to_owned()).or_default();
            *sum = sum.saturating_add(*number);
        }
        ending.failure.iter_mut().for_each(|text| cut(text, FAILURE_BYTES_MAX));
        ending.verified.iter_mut().for_each(|text| cut(text, VERIFIED_BYTES_MAX));
        write_json(&self.folder.join(ENDING), &ending)
    }
}

/// Cuts a text to at most `bytes_max` bytes.
fn cut(text: &mut String, bytes_max: usize) {
    let mut ends = (0..=text.len().min(bytes_max)).rev();
    let end = ends.find(|end| text.is_char_boundary(*end)).unwrap_or(0);
    text.truncate(end);
}

/// Whether a job may have events of this kind all the time. Others come with a loss, a change of
/// the members, or the end.
fn is_frequent(what: &What) -> bool {
    match what {
        What::Balanced { .. }
        | What::Checkpoint { .. }
        | What::LinkChanged { .. }
        | What::Broadcast { .. } => true,
        What::Lost { .. }
        | What::Recovered { .. }
        | What::Joined { .. }
        | What::Left { .. }
        | What::Warning { .. }
        | What::Exited { .. } => false,
    }
}

pub(crate) fn node_path(folder: &Path, node: u32) -> PathBuf {
    folder.join(format!("node-{node}.rec"))
}

/// The path of a file that is not complete.
fn partial(path: &Path) -> PathBuf {
    path.with_extension("partial")
}

pub(crate) fn read_header(folder: &Path) -> Result<Header, RecordError> {
    let path = folder.join(HEADER);
    let Some(bytes) = read(&path, HEADER_BYTES_MAX)? else {
        return Err(RecordError::NotARecording { folder: folder.to_owned() });
    };
    // A header of another version may have other fields.
    #[derive(Deserialize)]
    struct Versioned {
        version: u32,
    }
    let Versioned { version } = parse(&path, &bytes)?;
    if !(VERSION_MIN..=VERSION).contains(&version) {
        return Err(RecordError::Version { found: version, expected: VERSION });
    }
    parse(&path, &bytes)
}

/// Reads the events, without a last line that is incomplete because the job was cut off.
pub(crate) fn read_events(folder: &Path) -> Result<Vec<RecordedEvent>, RecordError> {
    let path = folder.join(EVENTS);
    let bytes = read(&path, EVENTS_BYTES_MAX)?.unwrap_or_default();
    let complete = bytes.iter().rposition(|byte| *byte == b'\n').unwrap_or(0);
    let lines = bytes[..complete].split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
    lines.map(|line| parse(&path, line)).collect()
}

pub(crate) fn read_ending(folder: &Path) -> Result<Option<JobEnding>, RecordError> {
    let path = folder.join(ENDING);
    read(&path, ENDING_BYTES_MAX)?.map(|bytes| parse(&path, &bytes)).transpose()
}

/// Returns the bytes of a node, or `None` if it has no file.
pub(crate) fn read_node(path: &Path) -> Result<Option<Vec<u8>>, RecordError> {
    read(path, NODE_BYTES_MAX)
}

/// Reads a file of at most `limit` bytes; `None` if it does not exist.
fn read(path: &Path, limit: u64) -> Result<Option<Vec<u8>>, RecordError> {
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(RecordError::Io { path: path.to_owned(), error }),
    };
    let bytes = at(path, file.metadata())?.len();
    let mut content = Vec::new();
    // The file may grow while it is read.
    let read = at(path, file.take(limit + 1).read_to_end(&mut content))? as u64;
    if read > limit {
        return Err(RecordError::TooLarge { path: path.to_owned(), bytes: bytes.max(read), limit });
    }
    Ok(Some(content))
}

fn parse<T: DeserializeOwned>(path: &Path, bytes: &[u8]) -> Result<T, RecordError> {
    serde_json::from_slice(bytes).map_err(|error| RecordError::Malformed {
        path: path.to_owned(),
        problem: error.to_string(),
    })
}

fn to_json<T: Serialize>(path: &Path, value: &T) -> Result<Vec<u8>, RecordError> {
    serde_json::to_vec(value).map_err(|error| RecordError::Malformed {
        path: path.to_owned(),
        problem: error.to_string(),
    })
}

/// Returns the content of the file of a header. A reader accepts at most `limit` bytes of it.
fn header_json(folder: &Path, header: &Header, limit: u64) -> Result<Vec<u8>, RecordError> {
    let content = to_json(&folder.join(HEADER), header)?;
    let bytes = content.len() as u64;
    match bytes > limit {
        true => Err(RecordError::HeaderTooLarge { bytes, limit }),
        false => Ok(content),
    }
}

fn write_json<T: Serialize>(path: &Path, value: &T) -> Result<(), RecordError> {
    replace(path, &to_json(path, value)?)
}

/// Writes a file so that a reader sees all of it or the previous file.
fn replace(path: &Path, content: &[u8]) -> Result<(), RecordError> {
    let partial = partial(path);
    at(&partial, fs::write(&partial, content))?;
    at(path, fs::rename(&partial, path))
}

fn at<T>(path: &Path, result: io::Result<T>) -> Result<T, RecordError> {
    result.map_err(|error| RecordError::Io { path: path.to_owned(), error })
}

#[cfg(test)]
mod tests {
    use super::{
        ENDING, EVENTS, FAILURE_BYTES_MAX, HEADER, RecordingFolder, VERIFIED_BYTES_MAX,
        header_json, node_path, read_ending, read_events, read_header, read_node,
    };
    use crate::error::RecordError;
    use crate::event::{JobEnding, RecordedEvent, What};
    use crate::header::{Header, RecordedHost};
    use std::fs;

    #[test]
    fn a_folder_with_files_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("notes.txt"), "mine").unwrap();

        let refused = RecordingFolder::create(folder.path(), &Header::default());

        assert!(matches!(refused, Err(RecordError::NotEmpty { .. })), "{refused:?}");
        assert!(!folder.path().join(HEADER).exists());
    }

    #[test]
    fn the_records_of_a_node_count_once_they_are_complete() {
        let folder = tempfile::tempdir().unwrap();
        let files = RecordingFolder::create(folder.path(), &Header::default()).unwrap();
        let path = node_path(folder.path(), 4);
        for bytes in [b"one", b"two"] {
            files.add_to_node(4, bytes).unwrap();
            assert_eq!(read_node(&path).unwrap(), None);
        }
        files.complete_node(4).unwrap();
        assert_eq!(read_node(&path).unwrap().as_deref(), Some(&b"onetwo"[..]));

        files.add_to_node(5, b"one").unwrap();
        files.drop_node(5).unwrap();
        files.drop_node(6).unwrap();
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 3);
    }

    #[test]
    fn events_without_room_are_counted_and_rare_ones_have_room_for_longer() {
        let folder = tempfile::tempdir().unwrap();
        let mut files = RecordingFolder::create(folder.path(), &Header::default()).unwrap();
        files.limits = [100, 500];
        let checkpoint = |at_ns| RecordedEvent {
            at_ns,
            what: What::Checkpoint { number: 1, bytes: 2, duration_ns: 3, stopped_ns: None },
        };
        let lost = |at_ns| RecordedEvent { at_ns, what: What::Lost { nodes: vec![1] } };

        // A line of a checkpoint has 69 bytes, and that of a loss has 38.
        for at_ns in 1..=3 {
            files.add(&checkpoint(at_ns)).unwrap();
        }
        assert_eq!((files.events_added(), files.events_dropped()), (3, 2));
        files.add(&lost(4)).unwrap();
        assert_eq!((files.events_added(), files.events_dropped()), (4, 2));
        for at_ns in 5..=20 {
            files.add(&lost(at_ns)).unwrap();
        }
        let dropped = files.events_dropped();
        files.end(&JobEnding { at_ns: 30, dropped_events: 5, ..JobEnding::default() }).unwrap();

        let events = read_events(folder.path()).unwrap();
        assert_eq!(events[0], checkpoint(1));
        assert!(
            matches!(&events[1], RecordedEvent { at_ns: 2, what: What::Warning { text } }
                if text.contains("no room")),
            "{events:?}"
        );
        assert_eq!(events[2], lost(4));
        // The warning is none of those that were handed in.
        assert_eq!(events.len() as u64 - 1 + dropped, 20);
        assert!(fs::metadata(folder.path().join(EVENTS)).unwrap().len() <= 500);
        let ending = read_ending(folder.path()).unwrap().unwrap();
        assert_eq!(ending.dropped_events, 5 + dropped);
        let kinds: Vec<_> = ending.dropped_kinds.into_iter().collect();
        assert_eq!(kinds, [("checkpoint".to_owned(), 2), ("lost".to_owned(), dropped - 2)]);
    }

    #[test]
    fn long_texts_of_an_ending_are_cut_and_an_earlier_ending_lacks_what_came_later() {
        let folder = tempfile::tempdir().unwrap();
        let files = RecordingFolder::create(folder.path(), &Header::default()).unwrap();
        let failure = format!("x{}", "é".repeat(FAILURE_BYTES_MAX));
        let verified = Some("verified: yes".repeat(VERIFIED_BYTES_MAX));
        files.end(&JobEnding { failure: Some(failure), verified, ..JobEnding::default() }).unwrap();
        let ending = read_ending(folder.path()).unwrap().unwrap();
        assert_eq!(ending.verified.map(|line| line.len()), Some(VERIFIED_BYTES_MAX));
        let cut = ending.failure.unwrap();
        // `x` and characters of two bytes never fill an even number of bytes.
        assert_eq!(cut.len(), FAILURE_BYTES_MAX - 1);

        let before = r#"{"at_ns":5,"exit_code":1,"failure":null}"#;
        fs::write(folder.path().join(ENDING), before).unwrap();
        let ending = read_ending(folder.path()).unwrap().unwrap();
        assert_eq!(ending, JobEnding { at_ns: 5, exit_code: 1, ..JobEnding::default() });
    }

    #[test]
    fn a_header_that_no_reader_accepts_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let content = header_json(folder.path(), &Header::default(), 1 << 20).unwrap();
        let bytes = content.len() as u64;
        assert!(header_json(folder.path(), &Header::default(), bytes).is_ok());
        let refused = header_json(folder.path(), &Header::default(), bytes - 1).unwrap_err();
        assert!(refused.to_string().contains(&format!("take {bytes} bytes")), "{refused}");
    }

    #[test]
    fn a_folder_without_header_is_no_recording() {
        let folder = tempfile::tempdir().unwrap();
        let error = read_header(folder.path()).unwrap_err();
        assert!(matches!(error, RecordError::NotARecording { .. }), "{error}");
    }

    #[test]
    fn another_version_is_named_even_if_its_header_has_other_fields() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join(HEADER), r#"{"version": 7, "places": []}"#).unwrap();
        let error = read_header(folder.path()).unwrap_err();
        assert!(matches!(error, RecordError::Version { found: 7, expected: 3 }), "{error}");
    }

    /// A header as version 1 wrote it.
    const OF_VERSION_1: &str = r#"{"version":1,"job":"ring","command":["run","ring"],"driver":"processes","seed":3,
        "started_unix_ms":1700000000000,"sites":["a"],"nodes":[{"site":0,"host":"d01","name":"a-0"}],
        "pes":[{"node":0,"speed":1.0}],
        "links":[{"from":0,"to":0,"latency_us":50.0,"bytes_per_second":null,"loss":0.0}]}"#;

    #[test]
    fn a_header_of_version_1_is_read_without_what_came_later() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join(HEADER), OF_VERSION_1).unwrap();
        let header = read_header(folder.path()).unwrap();
        assert_eq!((header.version, &*header.job, header.seed), (1, "ring", 3));
        assert_eq!((header.nodes[0].host.as_str(), header.links[0].latency_us), ("d01", 50.0));
        assert_eq!(header.hosts, []);
        assert_eq!((header.build, header.gridctl), (None, None));
        fs::write(folder.path().join(HEADER), OF_VERSION_1.replace(":1,", ":0,")).unwrap();
        let error = read_header(folder.path()).unwrap_err();
        assert!(matches!(error, RecordError::Version { found: 0, .. }), "{error}");
    }

    #[test]
    fn processors_and_what_made_the_recording_are_read_as_written() {
        let folder = tempfile::tempdir().unwrap();
        let host = RecordedHost { name: "d01".to_owned(), cores: 4, hardware_threads: 8 };
        let build = Some("00c0ffee00c0ffee".to_owned());
        let gridctl = Some("0.1.0".to_owned());
        let header = Header { hosts: vec![host], build, gridctl, ..Header::default() };
        RecordingFolder::create(folder.path(), &header).unwrap();
        assert_eq!(read_header(folder.path()).unwrap(), header);
    }

    #[test]
    fn an_incomplete_last_event_is_left_out_and_another_bad_one_is_an_error() {
        let folder = tempfile::tempdir().unwrap();
        let mut files = RecordingFolder::create(folder.path(), &Header::default()).unwrap();
        let lost = RecordedEvent { at_ns: 3, what: What::Lost { nodes: vec![1] } };
        files.add(&lost).unwrap();
        let path = folder.path().join(EVENTS);
        let complete = fs::read_to_string(&path).unwrap();

        fs::write(&path, format!("{complete}{{\"at_ns\":4,\"wh")).unwrap();
        assert_eq!(read_events(folder.path()).unwrap(), [lost]);

        fs::write(&path, format!("{{\"at_ns\":4}}\n{complete}")).unwrap();
        let error = read_events(folder.path()).unwrap_err();
        assert!(matches!(error, RecordError::Malformed { .. }), "{error}");
    }
}
