//! The folder of a detached job. It has the output of the processes, and the state that another
//! launcher needs to attend to the job.
//!
//! | file | content |
//! | --- | --- |
//! | `output` | what the launcher prints |
//! | `NODE.out`, `NODE.err` | what the process of a node prints, with its control lines |
//! | `output.old`, `NODE.out.old`, `NODE.err.old` | their older parts; see `log_file` |
//! | `NODE.out.read`, `NODE.err.read` | number of bytes that a launcher has read |
//! | `NODE.in` | the named pipe for the lines of the launcher to the process |
//! | `NODE.origin` | where `NODE.out` and `NODE.err` begin in the streams of a kept node |
//! | `start.json` | the command that started the job: [`Start`] |
//! | `state.json` | the state of the job, as the launcher knows it: [`Saved`] |
//! | `lock` | locked while a launcher attends to the job |
//! | `refusal` | why the last launcher could not attend to the job |
//! | `exit` | the exit code, once the job has ended |
//!
//! The nodes of a job on several hosts are *kept* (see `gridspan::keeper`): they have folders on
//! their hosts, which get copies of `start.json` and `state.json`. Their files here are copies.
//!
//! Folders are in `$XDG_STATE_HOME/gridspan`, or in `~/.local/state/gridspan`. Only the user can
//! read them. When a job has ended, its folder stays, without the pipes and the files `*.read` and
//! `*.origin`, until `gridctl prune` removes it.

use crate::private;
use crate::roster::{NewNode, Roster};
use gridspan::keeper::{LauncherId, ProcessId, state_folder};
use gridspan_topology::{GridSpec, NodeId};
use rustix::fs::{FlockOperation, flock};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

/// Version of `start.json` and `state.json`.
const VERSION: u32 = 1;
/// Time for which a launcher tries to lock a folder.
const LOCK_PATIENCE: Duration = Duration::from_millis(500);
/// The file that makes a folder the folder of a job.
const START: &str = "start.json";
/// The file with the exit code.
const EXIT: &str = "exit";
/// Size in bytes of the blocks in which the system counts disk space.
const BLOCK_BYTES: u64 = 512;

/// The command that started a job.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Start {
    /// Arguments of gridctl.
    pub(crate) arguments: Vec<OsString>,
    /// The working folder of gridctl.
    pub(crate) folder: PathBuf,
    /// The variables of Gridspan in its environment, and those that it passes on to nodes.
    pub(crate) variables: Vec<(OsString, OsString)>,
    /// The grid. Its file may have changed before another launcher starts.
    pub(crate) grid: GridSpec,
    /// Whether the links between its sites are emulated.
    pub(crate) is_emulated: bool,
    /// Name of the machine on which gridctl ran.
    pub(crate) machine: String,
    /// Name of the folder of its kept nodes on each host, if the job has several hosts. Unlike the
    /// name of the job, it is unique among the jobs of all machines.
    #[serde(default)]
    pub(crate) kept: Option<String>,
    /// Name of the program.
    #[serde(default)]
    pub(crate) program: String,
    /// Identifier of the machine's boot, if the system has one.
    #[serde(default)]
    pub(crate) boot: Option<String>,
}

impl Start {
    /// Reads the content of `start.json`.
    pub(crate) fn from_bytes(bytes: &[u8]) -> io::Result<Self> {
        parsed(START, bytes)
    }

    /// Whether all processes of the job have ended because this machine, which started the job, has
    /// booted since. Kept nodes on other hosts continue.
    pub(crate) fn is_before_boot(&self) -> bool {
        let is_of_before = self.boot.is_some() && self.boot != boot();
        self.kept.is_none() && self.machine == machine() && is_of_before
    }
}

/// The state of a job, as its launcher knows it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Saved {
    /// The checkpoint with which each run began, 0 for the first, and its members by node number.
    /// Runs of long ago have no members here.
    pub(crate) runs: Vec<(u64, Vec<NodeId>)>,
    /// Number of times that the job went back to the last checkpoint.
    pub(crate) again: u32,
    /// The members of the present run that are not lost.
    pub(crate) left: Vec<NodeId>,
    /// Nodes that are not started again after their loss.
    pub(crate) given_up: Vec<NodeId>,
    /// Nodes that have never been members.
    pub(crate) spares: Vec<NodeId>,
    /// Nodes that were added to those of the grid, in this order.
    #[serde(default)]
    pub(crate) added: Vec<NewNode>,
    pub(crate) stage: Stage,
    /// Whether the job is to stop at the user's request.
    pub(crate) is_stopping: bool,
    /// Whether it continues after a loss of nodes.
    #[serde(default)]
    pub(crate) recovers: bool,
    /// Number of orders so far to pause the job for a change of its nodes or for its end.
    pub(crate) pauses: u64,
    /// The processes of the nodes, except for kept ones.
    pub(crate) processes: BTreeMap<NodeId, ProcessId>,
    /// The launcher that has saved this.
    #[serde(default)]
    pub(crate) launcher: LauncherId,
    /// Number of times that a launcher has saved something about the job.
    #[serde(default)]
    pub(crate) number: u64,
    /// The last run that has begun, as a position in `runs`. Later entries are proposals.
    #[serde(default)]
    pub(crate) agreed: usize,
}

impl Saved {
    /// A job with these members whose processes are being started.
    pub(crate) fn starting(members: Vec<NodeId>, processes: BTreeMap<NodeId, ProcessId>) -> Self {
        Self { runs: vec![(0, members.clone())], left: members, processes, ..Self::default() }
    }

    /// The content of `state.json`.
    pub(crate) fn to_bytes(&self) -> io::Result<Vec<u8>> {
        Ok(serde_json::to_vec(&Versioned { version: VERSION, content: self })?)
    }

    /// Reads the content of `state.json`.
    pub(crate) fn from_bytes(bytes: &[u8]) -> io::Result<Self> {
        parsed("state.json", bytes)
    }

    /// Whether all its nodes are among the `of_grid` nodes of the grid and the added ones.
    pub(crate) fn fits(&self, of_grid: u32) -> bool {
        let members = self.runs.iter().flat_map(|(_, members)| members).chain(&self.left);
        let others = self.given_up.iter().chain(&self.spares).chain(self.processes.keys());
        let nodes = of_grid as usize + self.added.len();
        members.chain(others).all(|node| node.index() < nodes)
    }

    /// Returns the epoch of the launcher and the number of this state. If keepers have different
    /// states, the one with the largest key is valid: the last one of the latest launcher.
    pub(crate) fn key(&self) -> (u64, u64) {
        (self.launcher.epoch, self.number)
    }
}

/// The stage of a job.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Stage {
    /// The launcher has not sent the members of the first run each other's addresses.
    #[default]
    Starting,
    /// It runs.
    Running,
    /// It returns to a checkpoint, or its nodes change.
    Changing,
    /// The launcher ends its processes.
    Ending,
}

/// Why a launcher could not attend to a job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Refusal {
    pub(crate) reason: String,
    /// Advice on the next step.
    pub(crate) hint: Option<String>,
}

#[derive(Serialize, Deserialize)]
struct Versioned<T> {
    version: u32,
    content: T,
}

/// The folder of a detached job.
#[derive(Clone, Debug)]
pub(crate) struct JobFolder {
    /// Name of the job.
    pub(crate) id: String,
    path: PathBuf,
}

/// The files of a node.
#[derive(Clone)]
pub(crate) struct NodeFiles {
    /// The named pipe from the launcher.
    pub(crate) input: PathBuf,
    /// Standard output, and standard error.
    pub(crate) streams: [StreamFile; 2],
    /// File with the positions in the streams of a kept node at which the files of `streams` begin.
    pub(crate) origin: PathBuf,
    /// Size in bytes above which the read part of a stream moves to another file.
    pub(crate) log_limit: u64,
}

/// A file to which a process writes.
#[derive(Clone)]
pub(crate) struct StreamFile(PathBuf);

impl JobFolder {
    /// Creates the folder of a job with this name. If there was such a job, adds a number to the
    /// name.
    pub(crate) fn create(name: &str, start: &Start) -> io::Result<Self> {
        let folder = Self::new_in(&state_folder()?, name)?;
        // Without this file, the folder is that of no job.
        folder.write(START, start).inspect_err(|_| drop(fs::remove_dir_all(&folder.path)))?;
        Ok(folder)
    }

    /// Creates an empty folder that did not exist: several machines may share `all`.
    fn new_in(all: &Path, name: &str) -> io::Result<Self> {
        let (mut id, mut number) = (name.to_owned(), 1_u64);
        loop {
            let path = all.join(&id);
            match private::make_new_folder(&path) {
                Ok(()) => return Ok(Self { id, path }),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                    number += 1;
                    id = format!("{name}-{number}");
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// Returns the folder of a job that was started elsewhere, with the content that a keeper has.
    /// If the folder exists here, it takes over only a newer state.
    pub(crate) fn receive(id: &str, start: &Start, state: &Saved) -> io::Result<Self> {
        if let Ok(folder) = Self::open(id) {
            let own = folder.start()?;
            if own.kept != start.kept {
                let text = format!(
                    "{} belongs to another job; move it away, or run `gridctl prune` if that job has ended",
                    folder.path.display()
                );
                return Err(io::Error::new(io::ErrorKind::AlreadyExists, text));
            }
            if folder.is_attended()? {
                return Ok(folder);
            }
            if folder.saved()?.is_none_or(|own| own.key() < state.key()) {
                folder.save(state)?;
            }
            if own.machine != start.machine {
                // Machines share the folder.
                folder.write(START, start)?;
            }
            return Ok(folder);
        }
        let folder = Self { path: state_folder()?.join(id), id: id.to_owned() };
        private::make_new_folder(&folder.path).map_err(|error| match error.kind() {
            io::ErrorKind::AlreadyExists => {
                let text = format!(
                    "{} is not complete: try again, and remove it if it stays so",
                    folder.path.display()
                );
                io::Error::new(io::ErrorKind::AlreadyExists, text)
            }
            _ => error,
        })?;
        // `start.json` is written last, because it makes this the folder of a job.
        folder.save(state)?;
        folder.write(START, start)?;
        Ok(folder)
    }

    /// Opens the folder of a job.
    pub(crate) fn open(id: &str) -> io::Result<Self> {
        let found = Self::all()?.into_iter().find(|folder| folder.id == id);
        found.ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    /// Returns all folders, the latest job last.
    pub(crate) fn all() -> io::Result<Vec<Self>> {
        let mut found = Vec::new();
        for entry in fs::read_dir(state_folder()?)? {
            let entry = entry?;
            let start = entry.path().join(START);
            let began = fs::metadata(start).and_then(|it| it.modified());
            if let (Ok(id), Ok(began)) = (entry.file_name().into_string(), began) {
                found.push((began, Self { id, path: entry.path() }));
            }
        }
        found.sort_by(|(a, one), (b, other)| (a, &one.id).cmp(&(b, &other.id)));
        Ok(found.into_iter().map(|(_, folder)| folder).collect())
    }

    /// Returns the path of the folder.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Reads the command that started the job.
    pub(crate) fn start(&self) -> io::Result<Start> {
        self.read(START)
    }

    /// When the job was started.
    pub(crate) fn began(&self) -> io::Result<SystemTime> {
        fs::metadata(self.path.join(START))?.modified()
    }

    /// When the exit code was written, or else when a launcher last saved something.
    pub(crate) fn ended(&self) -> io::Result<SystemTime> {
        let modified = |name| fs::metadata(self.path.join(name)).and_then(|it| it.modified());
        modified(EXIT).or_else(|_| modified("state.json")).or_else(|_| modified(START))
    }

    /// The content of `start.json`.
    pub(crate) fn start_bytes(&self) -> io::Result<Vec<u8>> {
        fs::read(self.path.join(START))
    }

    /// Opens the output of the launcher, to append to it.
    pub(crate) fn output_to_append(&self) -> io::Result<File> {
        StreamFile(self.output()).open_to_append()
    }

    /// The path of the output of the launcher.
    pub(crate) fn output(&self) -> PathBuf {
        self.path.join("output")
    }

    /// Locks the job for this process until the result is dropped; `None` if another launcher
    /// attends to it.
    pub(crate) fn lock(&self) -> io::Result<Option<File>> {
        let until = Instant::now() + LOCK_PATIENCE;
        loop {
            let locked = self.locked(FlockOperation::NonBlockingLockExclusive)?;
            // Another process may hold the lock for a moment, to check whether a launcher attends
            // to the job.
            if locked.is_some() || Instant::now() > until {
                return Ok(locked);
            }
            thread::sleep(LOCK_PATIENCE / 50);
        }
    }

    /// Whether a launcher attends to the job.
    pub(crate) fn is_attended(&self) -> io::Result<bool> {
        Ok(self.locked(FlockOperation::NonBlockingLockShared)?.is_none())
    }

    fn locked(&self, operation: FlockOperation) -> io::Result<Option<File>> {
        // NFS grants shared locks only on files that are open for reading.
        let mut options = private::file();
        let options = options.read(true).create(true).truncate(false);
        let file = options.open(self.path.join("lock"))?;
        match flock(&file, operation) {
            Ok(()) => Ok(Some(file)),
            Err(rustix::io::Errno::WOULDBLOCK) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Saves the launcher's state of the job.
    pub(crate) fn save(&self, saved: &Saved) -> io::Result<()> {
        self.write("state.json", saved)
    }

    /// Reads the state that the last launcher saved; `None` if it saved none.
    pub(crate) fn saved(&self) -> io::Result<Option<Saved>> {
        match self.read("state.json") {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            read => read.map(Some),
        }
    }

    /// All nodes of the job that the last launcher knew.
    pub(crate) fn roster(&self) -> io::Result<Roster> {
        let mut roster = Roster::from(self.start()?.grid);
        let added = self.saved()?.map(|saved| saved.added).unwrap_or_default();
        roster.add(&added).map_err(io::Error::other)?;
        Ok(roster)
    }

    /// Records why a launcher cannot attend to the job; `None` removes the reason when another one
    /// tries.
    pub(crate) fn set_refusal(&self, refusal: Option<&Refusal>) -> io::Result<()> {
        match refusal {
            Some(refusal) => self.write("refusal", refusal),
            None => match fs::remove_file(self.path.join("refusal")) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
                _ => Ok(()),
            },
        }
    }

    /// Why the last launcher could not attend to the job.
    pub(crate) fn refusal(&self) -> Option<Refusal> {
        self.read("refusal").ok()
    }

    /// Records the exit code: the job has ended.
    pub(crate) fn note_exit(&self, code: u8) -> io::Result<()> {
        self.replace(EXIT, format!("{code}\n").as_bytes())
    }

    /// Records the exit code unless it is recorded already, and removes the files that only
    /// launchers need.
    pub(crate) fn end(&self, code: u8) -> io::Result<()> {
        if self.exit_code() != Some(code) {
            self.note_exit(code)?;
        }
        for entry in fs::read_dir(&self.path)? {
            let path = entry?.path();
            if path
                .extension()
                .is_some_and(|kind| ["in", "read", "origin"].iter().any(|only| kind == *only))
            {
                fs::remove_file(path)?;
            }
        }
        Ok(())
    }

    /// The exit code of the job, once it has ended.
    pub(crate) fn exit_code(&self) -> Option<u8> {
        fs::read_to_string(self.path.join(EXIT)).ok()?.trim().parse().ok()
    }

    /// Removes the folder. Returns the number of bytes that it took on the disk.
    pub(crate) fn remove(&self) -> io::Result<u64> {
        let mut freed = 0;
        // `start.json` is removed last: if this fails, the rest is still the folder of a job.
        let entries: Vec<_> = fs::read_dir(&self.path)?.collect::<io::Result<_>>()?;
        let (start, others): (Vec<_>, Vec<_>) =
            entries.iter().partition(|entry| entry.file_name() == START);
        for entry in others.into_iter().chain(start) {
            freed += entry.metadata()?.blocks() * BLOCK_BYTES;
            match entry.file_type()?.is_dir() {
                true => fs::remove_dir_all(entry.path())?,
                false => fs::remove_file(entry.path())?,
            }
        }
        fs::remove_dir(&self.path)?;
        Ok(freed)
    }

    /// The files of a node with this name, such as `a/0`.
    pub(crate) fn node(&self, name: &str, log_limit: u64) -> NodeFiles {
        let [input, origin] = ["in", "origin"].map(|kind| self.of_node(name, kind));
        NodeFiles { input, streams: self.streams(name), origin, log_limit }
    }

    /// The files for standard output and standard error of a node with this name.
    pub(crate) fn streams(&self, name: &str) -> [StreamFile; 2] {
        ["out", "err"].map(|kind| StreamFile(self.of_node(name, kind)))
    }

    fn of_node(&self, name: &str, kind: &str) -> PathBuf {
        self.path.join(format!("{}.{kind}", name.replace('/', "-")))
    }

    fn write<T: Serialize>(&self, name: &str, content: &T) -> io::Result<()> {
        self.replace(name, &serde_json::to_vec(&Versioned { version: VERSION, content })?)
    }

    /// Replaces a file as a whole: a launcher that is killed leaves either the old or the new one.
    /// When this returns, the new one survives a crash of the machine.
    fn replace(&self, name: &str, bytes: &[u8]) -> io::Result<()> {
        let new = self.path.join(format!("{name}.new"));
        let mut file = private::file().create(true).truncate(true).open(&new)?;
        file.write_all(bytes)?;
        file.sync_all()?;
        fs::rename(new, self.path.join(name))?;
        File::open(&self.path)?.sync_all()
    }

    fn read<T: for<'de> Deserialize<'de>>(&self, name: &str) -> io::Result<T> {
        parsed(name, &fs::read(self.path.join(name))?)
    }
}

fn parsed<T: for<'de> Deserialize<'de>>(name: &str, bytes: &[u8]) -> io::Result<T> {
    let read: Versioned<T> = serde_json::from_slice(bytes)?;
    match read.version {
        VERSION => Ok(read.content),
        _ => Err(io::Error::other(format!("{name} is of another version of gridctl"))),
    }
}

impl StreamFile {
    /// The file with this path.
    #[cfg(test)]
    pub(crate) fn at(path: PathBuf) -> Self {
        Self(path)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    /// Opens it for a process that prints.
    pub(crate) fn open_to_append(&self) -> io::Result<File> {
        OpenOptions::new().append(true).create(true).mode(0o600).open(&self.0)
    }

    /// Opens it for a reader.
    pub(crate) fn open(&self) -> io::Result<File> {
        File::open(&self.0)
    }

    /// Opens the file with the number of bytes that a launcher has read.
    pub(crate) fn open_mark(&self) -> io::Result<File> {
        let mut path = self.0.clone().into_os_string();
        path.push(".read");
        private::file().read(true).create(true).truncate(false).open(path)
    }

    /// Number of bytes that a launcher has read.
    pub(crate) fn read_so_far(&self) -> io::Result<u64> {
        let mut bytes = [0; size_of::<u64>()];
        // A new file is empty.
        match self.open_mark()?.read_exact_at(&mut bytes, 0) {
            Ok(()) => Ok(u64::from_le_bytes(bytes)),
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(0),
            Err(error) => Err(error),
        }
    }
}

/// Returns the folder with the status files of detached jobs, which outlive the session of the
/// user.
pub(crate) fn status_folder() -> io::Result<PathBuf> {
    let path = state_folder()?.join("status");
    private::make_folder(&path)?;
    Ok(path)
}

/// Returns this name for a job, or one with a number if a detached job has the name, which may have
/// ended. Commands find both kinds of jobs by their names, and the system reuses the ids of
/// processes that names contain.
pub(crate) fn unused_name(name: &str) -> String {
    // A user without a home has no detached jobs.
    state_folder().map_or_else(|_| name.to_owned(), |all| unused_in(&all, name))
}

fn unused_in(all: &Path, name: &str) -> String {
    let numbered = (2_u64..).map(|number| format!("{name}-{number}"));
    let mut names = std::iter::once(name.to_owned()).chain(numbered);
    names.find(|name| !all.join(name).exists()).unwrap_or_else(|| name.to_owned())
}

/// The name of this machine.
pub(crate) fn machine() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

/// Identifier of this machine's boot; `None` if the system has none.
pub(crate) fn boot() -> Option<String> {
    let text = fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
    Some(text.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder(of: &Path) -> JobFolder {
        JobFolder { id: "ring-1".to_owned(), path: of.to_owned() }
    }

    #[test]
    fn what_a_launcher_knows_is_read_by_the_next_one() {
        let path = tempfile::tempdir().unwrap();
        let folder = folder(path.path());
        assert_eq!(folder.saved().unwrap(), None);
        let processes = BTreeMap::from([(NodeId(2), ProcessId { pid: 5, began: 77 })]);
        let runs = vec![(0, vec![NodeId(0), NodeId(2)]), (3, vec![NodeId(2)])];
        let saved = Saved { runs, left: vec![NodeId(2)], processes, ..Saved::default() };
        folder.save(&saved).unwrap();
        assert_eq!(folder.saved().unwrap(), Some(saved));
        fs::write(path.path().join("state.json"), "{\"version\":9,\"content\":{}}").unwrap();
        assert!(folder.saved().is_err(), "another version");
        fs::write(path.path().join("state.json"), "[").unwrap();
        assert!(folder.saved().is_err(), "half a file");
    }

    #[test]
    fn a_new_job_gets_no_name_of_a_detached_one() {
        let all = tempfile::tempdir().unwrap();
        let start = "ring-7";
        assert_eq!(unused_in(all.path(), start), "ring-7");
        for (made, expected) in [("ring-7", "ring-7-2"), ("ring-7-2", "ring-7-3")] {
            fs::create_dir(all.path().join(made)).unwrap();
            assert_eq!(unused_in(all.path(), start), expected);
        }
        assert_eq!(unused_in(all.path(), "ring-70"), "ring-70");
    }

    #[test]
    fn a_state_with_nodes_that_the_job_does_not_have_does_not_fit() {
        let host = gridspan_topology::HostSpec::new("x", 1);
        let added = vec![NewNode { site: "a".to_owned(), host }];
        let runs = vec![(0, vec![NodeId(0), NodeId(1)]), (3, vec![NodeId(2)])];
        let saved = Saved { runs, added, ..Saved::default() };
        assert!(saved.fits(2) && !saved.fits(1));
        assert!(!Saved { left: vec![NodeId(3)], ..saved.clone() }.fits(2));
        assert!(!Saved { added: vec![], ..saved }.fits(2));
    }

    #[test]
    fn of_several_states_the_last_of_the_latest_launcher_holds() {
        let saved = |epoch, number| {
            let launcher = LauncherId { epoch, name: String::new() };
            Saved { launcher, number, ..Saved::default() }
        };
        assert!(saved(2, 1).key() > saved(1, 9).key());
        assert!(saved(2, 3).key() > saved(2, 2).key());
        let read = Saved::from_bytes(&saved(2, 3).to_bytes().unwrap()).unwrap();
        assert_eq!(read, saved(2, 3));
        assert!(Saved::from_bytes(b"{\"version\":9,\"content\":{}}").is_err());
    }

    #[test]
    fn a_refusal_is_noted_until_another_launcher_tries() {
        let path = tempfile::tempdir().unwrap();
        let folder = folder(path.path());
        folder.set_refusal(None).unwrap();
        let refusal = Refusal { reason: "too few".to_owned(), hint: None };
        folder.set_refusal(Some(&refusal)).unwrap();
        assert_eq!(folder.refusal(), Some(refusal));
        folder.set_refusal(None).unwrap();
        assert_eq!(folder.refusal(), None);
    }

    #[test]
    fn one_launcher_attends_to_a_job() {
        let path = tempfile::tempdir().unwrap();
        let folder = folder(path.path());
        assert!(!folder.is_attended().unwrap());
        let lock = folder.lock().unwrap();
        assert!(lock.is_some() && folder.lock().unwrap().is_none());
        assert!(folder.is_attended().unwrap());
        drop(lock);
        assert!(!folder.is_attended().unwrap());
        assert_eq!(folder.exit_code(), None);
        folder.end(143).unwrap();
        assert_eq!(folder.exit_code(), Some(143));
    }

    #[test]
    fn jobs_of_one_name_have_separate_folders() {
        let all = tempfile::tempdir().unwrap();
        let ids = [(); 3].map(|()| JobFolder::new_in(all.path(), "ring-1").unwrap().id);
        assert_eq!(ids, ["ring-1", "ring-1-2", "ring-1-3"]);
        assert!(JobFolder::new_in(&all.path().join("missing"), "ring-1").is_err());
    }

    #[test]
    fn the_folder_of_a_job_is_removed_with_all_that_it_has() {
        let path = tempfile::tempdir().unwrap();
        let folder = folder(&path.path().join("ring-1"));
        fs::create_dir(folder.path()).unwrap();
        fs::write(folder.path().join(START), [b' '; 10_000]).unwrap();
        fs::write(folder.output(), [b'x'; 100_000]).unwrap();
        fs::create_dir(folder.path().join("core")).unwrap();
        assert!(folder.remove().unwrap() > 0);
        assert!(!folder.path().exists());
        assert!(folder.remove().is_err());
    }

    #[test]
    fn a_job_is_of_before_the_last_start_of_its_own_machine_only() {
        let start = |machine: String, boot: Option<&str>| Start {
            kept: None,
            arguments: vec![],
            folder: PathBuf::new(),
            variables: vec![],
            grid: GridSpec::single(1),
            is_emulated: false,
            machine,
            program: "ring".to_owned(),
            boot: boot.map(str::to_owned),
        };
        assert!(start(machine(), Some("another")).is_before_boot());
        assert!(!start(machine(), boot().as_deref()).is_before_boot());
        assert!(!start(machine(), None).is_before_boot(), "of an older gridctl");
        assert!(!start("elsewhere".to_owned(), Some("another")).is_before_boot());
        let kept =
            Start { kept: Some("ring-1.a.5".to_owned()), ..start(machine(), Some("another")) };
        assert!(!kept.is_before_boot(), "its nodes on other hosts go on");
    }
}
