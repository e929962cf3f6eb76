//! A whole recording: the records of all PEs of a job, and the events of the job.

use crate::clocks;
use crate::error::RecordError;
use crate::event::{JobEnding, RecordedEvent};
use crate::folder::{RecordingFolder, node_path, read_ending, read_events, read_header, read_node};
use crate::frame::{FrameError, decode_records, encode_records};
use crate::header::Header;
use crate::pe_record::PeRecord;
use crate::validity::{problem_of_events, problem_of_header, problem_of_record};
use serde::{Deserialize, Serialize};
use std::path::Path;

/// Maximum size of the files of all nodes together in bytes: a reader holds all of them in memory.
const NODES_BYTES_MAX: u64 = 2 << 30;

/// A whole recording.
///
/// ```
/// use gridspan_record::{Header, PeRecord, RecordedNode, RecordedPe, Recording, Span};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let parent = tempfile::tempdir()?;
/// # let folder = parent.path().join("recording");
/// let header = Header {
///     sites: vec!["lyon".to_owned()],
///     nodes: vec![RecordedNode::default()],
///     pes: vec![RecordedPe::default()],
///     ..Header::default()
/// };
/// let span = Span { begin_ns: 10, duration_ns: 30, ..Span::default() };
/// let pe = PeRecord { types: vec!["Cell".to_owned()], spans: vec![span], ..PeRecord::default() };
/// let recording = Recording { header, pes: vec![pe], ..Recording::default() };
/// recording.write(&folder)?;
///
/// let read = Recording::read(&folder)?;
/// assert_eq!(read, recording);
/// assert_eq!((read.end_ns(), read.site_of(0), read.dropped_share()), (40, 0, 0.0));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Recording {
    /// What was known before the job ran.
    pub header: Header,
    /// How the job ended; `None` if it was cut off.
    pub ending: Option<JobEnding>,
    /// Events of the whole job.
    pub events: Vec<RecordedEvent>,
    /// What the PEs have recorded, in the order of PEs. PEs of missing nodes are left out.
    pub pes: Vec<PeRecord>,
    /// Nodes without a file.
    pub missing: Vec<u32>,
}

impl Recording {
    /// Reads a recording, and corrects the clocks of hosts so that no message is received before it
    /// was sent, and that no record of node 0 ends after the job. All times and indices in the
    /// result are valid: types, PEs, sites and nodes exist, and spans are in order. Fails on
    /// damaged files, on versions of the format that it does not know, and on more than 2 GiB.
    pub fn read(folder: &Path) -> Result<Self, RecordError> {
        let header = read_header(folder)?;
        if let Some(problem) = problem_of_header(&header) {
            return Err(RecordError::Malformed { path: folder.to_owned(), problem });
        }
        let mut events = read_events(folder)?;
        let ending = read_ending(folder)?;
        if let Some(problem) = problem_of_events(&header, &events, ending.as_ref()) {
            return Err(RecordError::Malformed { path: folder.to_owned(), problem });
        }
        // The file has the events in the order in which their reports came; some come late.
        events.sort_by_key(|event| event.at_ns);
        let mut recording = Self { events, ending, header, pes: Vec::new(), missing: Vec::new() };
        let mut total = 0;
        for node in (0..).take(recording.header.nodes.len()) {
            let path = node_path(folder, node);
            let Some(bytes) = read_node(&path)? else {
                recording.missing.push(node);
                continue;
            };
            total += bytes.len() as u64;
            if total > NODES_BYTES_MAX {
                let limit = NODES_BYTES_MAX;
                return Err(RecordError::TooLarge { path: folder.to_owned(), bytes: total, limit });
            }
            recording.pes.extend(records_of_node(&recording.header, node, &path, &bytes)?);
        }
        recording.pes.sort_by_key(|record| record.pe);
        if recording.pes.windows(2).any(|pair| pair[0].pe == pair[1].pe) {
            let problem = "a PE has two records".to_owned();
            return Err(RecordError::Malformed { path: folder.to_owned(), problem });
        }
        let end_ns = recording.ending.as_ref().map(|ending| ending.at_ns);
        clocks::correct(&recording.header, end_ns, &mut recording.pes);
        Ok(recording)
    }

    /// Writes the files of a recording. Fails if the folder is not empty.
    pub fn write(&self, folder: &Path) -> Result<(), RecordError> {
        let mut files = RecordingFolder::create(folder, &self.header)?;
        for event in &self.events {
            files.add(event)?;
        }
        for node in (0..).take(self.header.nodes.len()) {
            if self.missing.contains(&node) {
                continue;
            }
            let is_there = |record: &&PeRecord| {
                self.header.pes.get(record.pe as usize).is_some_and(|pe| pe.node == node)
            };
            let records: Vec<PeRecord> = self.pes.iter().filter(is_there).cloned().collect();
            files.add_to_node(node, &encode_records(&records))?;
            files.complete_node(node)?;
        }
        self.ending.as_ref().map_or(Ok(()), |ending| files.end(ending))
    }

    /// Returns the end of the job, or of the last span or event if the job was cut off.
    pub fn end_ns(&self) -> u64 {
        if let Some(ending) = &self.ending {
            return ending.at_ns;
        }
        let ends = self.pes.iter().map(PeRecord::known_until_ns);
        ends.chain(self.events.iter().map(|event| event.at_ns)).max().unwrap_or(0)
    }

    /// Returns the site of a PE; 0 for a PE that does not exist.
    pub fn site_of(&self, pe: u32) -> u32 {
        let node = self.header.pes.get(pe as usize).map(|pe| pe.node as usize);
        node.and_then(|node| self.header.nodes.get(node)).map_or(0, |node| node.site)
    }

    /// Returns the share of all spans that was dropped, `0.0..=1.0`.
    pub fn dropped_share(&self) -> f64 {
        let each = self.pes.iter().map(|record| record.dropped_spans);
        let dropped = each.fold(0, u64::saturating_add);
        let kept: usize = self.pes.iter().map(|record| record.spans.len()).sum();
        let all = dropped as f64 + kept as f64;
        if all == 0.0 { 0.0 } else { dropped as f64 / all }
    }

    /// Returns the number of events that had no room; 0 if the job was cut off, since the number is
    /// not known then.
    pub fn dropped_events(&self) -> u64 {
        self.ending.as_ref().map_or(0, |ending| ending.dropped_events)
    }
}

fn records_of_node(
    header: &Header,
    node: u32,
    path: &Path,
    bytes: &[u8],
) -> Result<Vec<PeRecord>, RecordError> {
    let path = || path.to_owned();
    let records = decode_records(bytes).map_err(|error| match error {
        FrameError::Truncated { at } => RecordError::Truncated { path: path(), at: at as u64 },
        FrameError::Checksum { at } => RecordError::Checksum { path: path(), at: at as u64 },
        error @ FrameError::Malformed { .. } => {
            RecordError::Malformed { path: path(), problem: error.to_string() }
        }
    })?;
    for record in &records {
        if let Some(problem) = problem_of_record(header, node, record) {
            let problem = format!("the record of PE {}: {problem}", record.pe);
            return Err(RecordError::Malformed { path: path(), problem });
        }
    }
    Ok(records)
}

#[cfg(test)]
mod tests {
    use super::Recording;
    use crate::answer::MainAnswer;
    use crate::error::RecordError;
    use crate::event::{JobEnding, RecordedEvent, RecordedHop, What};
    use crate::header::{DriverKind, Header, RecordedLink, RecordedNode, RecordedPe};
    use crate::pe_record::{Bin, OTHER, PeRecord, Span, SpanCause, TASK, TimedSpan, TypeTotal};
    use std::fs;

    /// Two nodes with a PE each; the second received a message of the first.
    fn recording() -> Recording {
        let node = |site| RecordedNode { site, host: "d01".to_owned(), name: format!("n{site}") };
        let link = RecordedLink { from: 0, to: 1, latency_us: 8000.0, ..RecordedLink::default() };
        let header = Header {
            job: "leanmd".to_owned(),
            command: vec!["run".to_owned(), "leanmd".to_owned()],
            driver: DriverKind::Processes,
            seed: 7,
            started_unix_ms: Some(1_700_000_000_000),
            sites: vec!["a".to_owned(), "b".to_owned()],
            nodes: vec![node(0), node(1)],
            pes: vec![RecordedPe::default(), RecordedPe { node: 1, speed: 0.5 }],
            links: vec![link],
            ..Header::default()
        };
        let cause = SpanCause { sent_ns: 50, received_ns: 90, bytes: 100, ..SpanCause::default() };
        let span = Span { begin_ns: 100, duration_ns: 20, cause: Some(cause), ..Span::default() };
        let pe = |pe| PeRecord {
            pe,
            types: vec!["Cell".to_owned()],
            bins: vec![Bin { busy_ns: vec![(0, 20), (TASK, 3), (OTHER, 1)], ..Bin::default() }],
            totals: vec![TypeTotal { number: 0, count: 1, total_ns: 20, max_ns: 20 }],
            spans: vec![span.clone()],
            dropped_spans: 3,
            ..PeRecord::default()
        };
        Recording {
            header,
            ending: Some(JobEnding { at_ns: 500, exit_code: 0, ..JobEnding::default() }),
            events: vec![
                RecordedEvent { at_ns: 10, what: What::Joined { node: 1 } },
                RecordedEvent { at_ns: 20, what: broadcast(1, 4) },
                RecordedEvent {
                    at_ns: 490,
                    what: What::Exited { node: 1, code: Some(7), signal: None },
                },
            ],
            pes: vec![pe(0), pe(1)],
            missing: vec![],
        }
    }

    /// A broadcast of node 0 that node `to` has `after_ns` later.
    fn broadcast(to: u32, after_ns: u64) -> What {
        let hop = RecordedHop { to, after_ns: Some(after_ns), ..RecordedHop::default() };
        let (root, bytes, reached, plan, duration_ns) = (0, 100_000, 1, 0, 5);
        What::Broadcast { root, bytes, reached, plan, duration_ns, hops: vec![hop] }
    }

    fn read_back(recording: &Recording) -> Result<Recording, RecordError> {
        let folder = tempfile::tempdir().unwrap();
        recording.write(folder.path()).unwrap();
        Recording::read(folder.path())
    }

    #[test]
    fn a_recording_is_read_as_it_was_written() {
        let written = recording();
        let read = read_back(&written).unwrap();
        assert_eq!(read, written);
        assert_eq!((read.end_ns(), read.site_of(1), read.dropped_share()), (500, 1, 0.75));
    }

    #[test]
    fn a_lost_node_is_missing_and_a_job_that_was_cut_off_has_no_ending() {
        let mut written = recording();
        written.pes.pop();
        written.missing = vec![1];
        written.ending = None;
        let read = read_back(&written).unwrap();
        assert_eq!(read, written);
        // The job ends with its last event.
        assert_eq!(read.end_ns(), 490);
    }

    #[test]
    fn damage_is_found_and_named() {
        let folder = tempfile::tempdir().unwrap();
        recording().write(folder.path()).unwrap();
        let path = folder.path().join("node-1.rec");
        let whole = fs::read(&path).unwrap();

        fs::write(&path, &whole[..whole.len() - 1]).unwrap();
        let error = Recording::read(folder.path()).unwrap_err();
        assert!(matches!(error, RecordError::Truncated { at: 0, .. }), "{error}");

        let mut flipped = whole;
        flipped[20] ^= 4;
        fs::write(&path, flipped).unwrap();
        let error = Recording::read(folder.path()).unwrap_err();
        assert!(matches!(error, RecordError::Checksum { at: 0, .. }), "{error}");

        fs::copy(folder.path().join("node-0.rec"), &path).unwrap();
        let error = Recording::read(folder.path()).unwrap_err().to_string();
        assert!(error.contains("PE of another node"), "{error}");
    }

    #[test]
    fn indices_that_lead_nowhere_are_refused() {
        let broken = |change: fn(&mut Recording)| {
            let mut recording = recording();
            change(&mut recording);
            read_back(&recording).unwrap_err().to_string()
        };
        let error = broken(|it| it.pes[0].spans[0].kind = 1);
        assert!(error.contains("unknown type"), "{error}");
        let error = broken(|it| it.pes[0].bins[0].add_sent(2, 1, 1));
        assert!(error.contains("unknown type or site"), "{error}");
        let error = broken(|it| it.pes[0].spans[0].cause.as_mut().unwrap().pe = 9);
        assert!(error.contains("unknown PE"), "{error}");
        let error = broken(|it| {
            it.pes[0].answers = vec![MainAnswer { asked_ns: 9, ..MainAnswer::default() }];
        });
        assert!(error.contains("an answer to main has an impossible time"), "{error}");
        let error = broken(|it| {
            it.pes[0].answers = vec![MainAnswer { span: Some((2, 0)), ..MainAnswer::default() }];
        });
        assert!(error.contains("an answer to main came from an unknown PE"), "{error}");
        let error = broken(|it| {
            it.pes[0].timed = vec![TimedSpan { number: 3, set_by: 3, ..TimedSpan::default() }];
        });
        assert!(error.contains("a timer is set after its message"), "{error}");
        let error = broken(|it| it.pes[0].kept_every = 3);
        assert!(error.contains("are not regular"), "{error}");
        let error = broken(|it| it.events[0].what = What::Left { node: 2 });
        assert!(error.contains("event at 10 ns: it names an unknown node"), "{error}");
        let (latency_us, bytes_per_second) = (1.0, None);
        let link = What::LinkChanged { from: 0, to: 2, latency_us, bytes_per_second };
        let event = RecordedEvent { at_ns: 10, what: link };
        let mut with_link = recording();
        with_link.events.push(event);
        let error = read_back(&with_link).unwrap_err().to_string();
        assert!(error.contains("unknown site"), "{error}");
        let error = broken(|it| it.events[0].what = broadcast(2, 5));
        assert!(error.contains("unknown node"), "{error}");
        let error = broken(|it| it.events[0].what = broadcast(1, u64::MAX));
        assert!(error.contains("impossible time"), "{error}");
        let exited = |it: &mut Recording| {
            it.events[0].what = What::Exited { node: 2, code: Some(7), signal: None };
        };
        let error = broken(exited);
        assert!(error.contains("unknown node"), "{error}");
        let error = broken(|it| it.events[0].at_ns = u64::MAX);
        assert!(error.contains("impossible time"), "{error}");
        let error = broken(|it| it.ending.as_mut().unwrap().at_ns = 1 << 62);
        assert!(error.contains("ending has an impossible time"), "{error}");
        let error = broken(|it| it.header.nodes[1].site = 5);
        assert!(error.contains("node 1 is in no site"), "{error}");
    }
}
