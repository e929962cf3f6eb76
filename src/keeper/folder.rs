//! The keeper's folder of a node.

use super::launcher_id::LauncherId;
use super::process_id::ProcessId;
use super::state_folder::{private_folder, state_folder};
use rustix::fs::{
    CWD, FallocateFlags, FileType, FlockOperation, Mode, OFlags, fallocate, fcntl_setfl, flock,
    mknodat,
};
use serde::de::DeserializeOwned;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::PathBuf;
use std::thread;
use std::time::Duration;

/// Interval between attempts to lock, and their largest number: changes take milliseconds.
const LOCK_PAUSE: Duration = Duration::from_millis(10);
const LOCK_TRIES: u32 = 500;
/// The names of the two streams of a node.
const STREAMS: [&str; 2] = ["out", "err"];

/// The keeper's folder of a node.
#[derive(Clone, Debug)]
pub(super) struct KeeperFolder(PathBuf);

impl KeeperFolder {
    /// Opens the folder of a node; `None` if no node of this name was started here.
    pub(super) fn open(job: &str, node: &str) -> io::Result<Option<Self>> {
        let folder = Self(state_folder()?.join(job).join(node));
        Ok(folder.0.join("launcher").exists().then_some(folder))
    }

    /// Creates the folder of a node, or opens the one that exists.
    pub(super) fn create(job: &str, node: &str) -> io::Result<Self> {
        let path = state_folder()?.join(job);
        private_folder(&path)?;
        let folder = Self(path.join(node));
        private_folder(&folder.0)?;
        Ok(folder)
    }

    /// Locks the files of the folder until the result is dropped.
    pub(super) fn lock(&self) -> io::Result<File> {
        for _ in 0..LOCK_TRIES {
            if let Some(lock) = self.try_lock("lock")? {
                return Ok(lock);
            }
            thread::sleep(LOCK_PAUSE);
        }
        Err(io::Error::new(io::ErrorKind::TimedOut, "another process has locked the node"))
    }

    /// Locks the pipe, to write a line to it, until the result is dropped. Waits as long as
    /// another bridge writes one.
    pub(super) fn lock_lines(&self) -> io::Result<File> {
        let file = self.opened("lines")?;
        flock(&file, FlockOperation::LockExclusive)?;
        Ok(file)
    }

    /// Waits until no bridge writes a line, and lets none write one until the result is dropped.
    /// Returns `None` if that takes longer than `patience`.
    pub(super) fn await_lines(&self, patience: Duration) -> io::Result<Option<File>> {
        let tries = patience.as_millis() / LOCK_PAUSE.as_millis();
        for _ in 0..tries {
            if let Some(lock) = self.try_lock("lines")? {
                return Ok(Some(lock));
            }
            thread::sleep(LOCK_PAUSE);
        }
        Ok(None)
    }

    fn try_lock(&self, name: &str) -> io::Result<Option<File>> {
        let file = self.opened(name)?;
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(Some(file)),
            Err(rustix::io::Errno::WOULDBLOCK) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    fn opened(&self, name: &str) -> io::Result<File> {
        private_file().read(true).create(true).truncate(false).open(self.0.join(name))
    }

    /// The launcher that the keeper has accepted; one of epoch 0 if none.
    pub(super) fn launcher(&self) -> io::Result<LauncherId> {
        Ok(self.read("launcher")?.unwrap_or_default())
    }

    /// Accepts a launcher, durably.
    pub(super) fn accept(&self, launcher: &LauncherId) -> io::Result<()> {
        if self.read("launcher")?.as_ref() == Some(launcher) {
            return Ok(());
        }
        self.replace("launcher", &serde_json::to_vec(launcher)?)
    }

    /// The process of the node, if one was started.
    pub(super) fn node(&self) -> io::Result<Option<ProcessId>> {
        self.read("node")
    }

    /// The last bridge, if there was one.
    pub(super) fn bridge(&self) -> io::Result<Option<ProcessId>> {
        self.read("bridge")
    }

    pub(super) fn set_node(&self, node: ProcessId) -> io::Result<()> {
        self.replace("node", &serde_json::to_vec(&node)?)
    }

    pub(super) fn set_bridge(&self, bridge: ProcessId) -> io::Result<()> {
        self.replace("bridge", &serde_json::to_vec(&bridge)?)
    }

    /// Number of lines that the node has got.
    pub(super) fn taken(&self) -> io::Result<u64> {
        Ok(self.numbers::<1>("taken")?[0])
    }

    pub(super) fn set_taken(&self, taken: u64) -> io::Result<()> {
        self.set_numbers("taken", &[taken])
    }

    /// Number of bytes of each stream that a launcher has read.
    pub(super) fn read_so_far(&self) -> io::Result<[u64; 2]> {
        self.numbers("read")
    }

    pub(super) fn set_read_so_far(&self, read: [u64; 2]) -> io::Result<()> {
        self.set_numbers("read", &read)
    }

    /// The time since a launcher last reported how much it has read.
    pub(super) fn unread_for(&self) -> Option<Duration> {
        let modified = fs::metadata(self.0.join("read")).and_then(|it| it.modified()).ok()?;
        // If the clock was set back, the report counts as recent.
        Some(modified.elapsed().unwrap_or_default())
    }

    /// The lengths of the streams.
    pub(super) fn lengths(&self) -> [u64; 2] {
        STREAMS.map(|name| fs::metadata(self.0.join(name)).map_or(0, |it| it.len()))
    }

    /// Opens a stream to read it.
    pub(super) fn stream(&self, number: usize) -> io::Result<File> {
        File::open(self.0.join(STREAMS[number]))
    }

    /// Frees the space of the first `bytes` bytes of a stream. Its length stays the same.
    pub(super) fn free(&self, number: usize, bytes: u64) -> io::Result<()> {
        let file = private_file().open(self.0.join(STREAMS[number]))?;
        let how = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        Ok(fallocate(file, how, 0, bytes)?)
    }

    /// Opens the streams for a process that prints.
    pub(super) fn streams_to_append(&self) -> io::Result<[File; 2]> {
        let open = |name| {
            let mut options = OpenOptions::new();
            options.append(true).create(true).mode(0o600).open(self.0.join(name))
        };
        Ok([open(STREAMS[0])?, open(STREAMS[1])?])
    }

    /// Prepares the start of another process, after the previous one has ended.
    pub(super) fn begin(&self, start: &[u8]) -> io::Result<()> {
        for name in ["node", "taken", "in"] {
            match fs::remove_file(self.0.join(name)) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
        }
        self.set_read_so_far(self.lengths())?;
        self.replace("start.json", start)?;
        let (kind, mode) = (FileType::Fifo, Mode::RUSR | Mode::WUSR);
        Ok(mknodat(CWD, self.0.join("in"), kind, mode, 0)?)
    }

    /// Opens the pipe for both directions, so that it never ends and opening never waits.
    pub(super) fn pipe(&self) -> io::Result<File> {
        OpenOptions::new().read(true).write(true).open(self.0.join("in"))
    }

    /// Opens the pipe to write to the node; `None` if no process has it open.
    pub(super) fn pipe_to_node(&self) -> io::Result<Option<File>> {
        let wait = OFlags::NONBLOCK.bits().cast_signed();
        match OpenOptions::new().write(true).custom_flags(wait).open(self.0.join("in")) {
            Ok(file) => {
                fcntl_setfl(&file, OFlags::empty())?;
                Ok(Some(file))
            }
            Err(error) if error.raw_os_error() == Some(rustix::io::Errno::NXIO.raw_os_error()) => {
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    /// Saves the state for another launcher, durably.
    pub(super) fn save(&self, state: &[u8]) -> io::Result<()> {
        self.replace("state.json", state)
    }

    /// The last saved state; empty if there is none.
    pub(super) fn state(&self) -> io::Result<Vec<u8>> {
        match fs::read(self.0.join("state.json")) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
            read => read,
        }
    }

    /// Removes the folder, and that of the job if no other node is in it.
    pub(super) fn remove(&self) -> io::Result<()> {
        fs::remove_dir_all(&self.0)?;
        if let Some(job) = self.0.parent() {
            // This fails while the folder has files of other nodes or of the launcher.
            let _ = fs::remove_dir(job);
        }
        Ok(())
    }

    fn read<T: DeserializeOwned>(&self, name: &str) -> io::Result<Option<T>> {
        match fs::read(self.0.join(name)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            read => Ok(Some(serde_json::from_slice(&read?)?)),
        }
    }

    /// Replaces a file as a whole. When this returns, the content survives a crash of the machine.
    fn replace(&self, name: &str, bytes: &[u8]) -> io::Result<()> {
        let new = self.0.join(format!("{name}.new"));
        let mut file = private_file().create(true).truncate(true).open(&new)?;
        file.write_all(bytes)?;
        file.sync_all()?;
        fs::rename(new, self.0.join(name))?;
        File::open(&self.0)?.sync_all()
    }

    /// Reads numbers that are overwritten in place; zeros if there are none.
    fn numbers<const N: usize>(&self, name: &str) -> io::Result<[u64; N]> {
        let file = self.opened(name)?;
        let mut numbers = [0; N];
        for (at, number) in numbers.iter_mut().enumerate() {
            let mut bytes = [0; size_of::<u64>()];
            let place = (at * size_of::<u64>()) as u64;
            if file.read_exact_at(&mut bytes, place).is_ok() {
                *number = u64::from_le_bytes(bytes);
            }
        }
        Ok(numbers)
    }

    fn set_numbers(&self, name: &str, numbers: &[u64]) -> io::Result<()> {
        let bytes: Vec<u8> = numbers.iter().flat_map(|number| number.to_le_bytes()).collect();
        self.opened(name)?.write_all_at(&bytes, 0)
    }
}

fn private_file() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.write(true).mode(0o600);
    options
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_keeper_has_accepted_and_saved_is_read_again() {
        let temporary = Temporary::new("keeper");
        let folder = KeeperFolder(temporary.0.join("b-2"));
        private_folder(&folder.0).unwrap();
        assert_eq!(folder.launcher().unwrap(), LauncherId::default());
        assert_eq!((folder.taken().unwrap(), folder.read_so_far().unwrap()), (0, [0, 0]));
        assert_eq!(folder.state().unwrap(), b"");

        let launcher = LauncherId { epoch: 3, name: "7@here".to_owned() };
        folder.accept(&launcher).unwrap();
        folder.set_taken(4).unwrap();
        folder.set_read_so_far([5, 6]).unwrap();
        folder.save(b"{}").unwrap();

        assert_eq!(folder.launcher().unwrap(), launcher);
        assert_eq!((folder.taken().unwrap(), folder.read_so_far().unwrap()), (4, [5, 6]));
        assert_eq!(folder.state().unwrap(), b"{}");
        assert!(folder.unread_for().unwrap().as_secs() < 60);
        let lock = folder.lock().unwrap();
        assert!(folder.try_lock("lock").unwrap().is_none());
        drop(lock);
        assert!(folder.try_lock("lock").unwrap().is_some());
    }

    #[test]
    fn another_process_of_a_node_has_a_new_pipe_and_appends_to_the_streams() {
        let temporary = Temporary::new("begin");
        let folder = KeeperFolder(temporary.0.join("b-2"));
        private_folder(&folder.0).unwrap();
        folder.begin(b"{}").unwrap();
        folder.streams_to_append().unwrap()[0].write_all(b"before\n").unwrap();
        folder.set_taken(9).unwrap();
        let old = folder.pipe().unwrap();
        folder.pipe_to_node().unwrap().unwrap().write_all(b"line\n").unwrap();

        folder.begin(b"{}").unwrap();

        assert_eq!((folder.taken().unwrap(), folder.read_so_far().unwrap()), (0, [7, 0]));
        assert_eq!(folder.lengths(), [7, 0]);
        assert!(folder.pipe_to_node().unwrap().is_none(), "no process has the new pipe open");
        drop(old);
    }

    /// A folder that is removed at the end.
    struct Temporary(PathBuf);

    impl Temporary {
        fn new(name: &str) -> Self {
            let path = std::env::temp_dir().join(format!("gridspan-{name}-{}", std::process::id()));
            // An earlier test may have left it.
            let _ = fs::remove_dir_all(&path);
            fs::create_dir(&path).unwrap();
            Self(path)
        }
    }

    impl Drop for Temporary {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }
}
