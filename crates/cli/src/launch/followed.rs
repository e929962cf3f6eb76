//! The output of a process, from a pipe or from a file that is followed.
//!
//! The processes of a detached job write to files, so that their output is kept while no launcher
//! reads it. A launcher notes how much of a file it has read, and the next one reads from there.
//! When the bytes read reach the limit of the file, the launcher moves them out of it (see
//! `log_file`).

use crate::job_folder::StreamFile;
use crate::log_file::LogLimit;
use std::fs::File;
use std::io::{self, PipeReader, Read, Seek, SeekFrom};
use std::os::unix::fs::FileExt;
use std::process::{ChildStderr, ChildStdout};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

/// Shortest and longest interval between reads of a file that has not grown.
const LOOK: [Duration; 2] = [Duration::from_millis(2), Duration::from_millis(50)];

/// Where the output of a process is read.
pub(super) trait Source: Read {
    /// Whether another launcher would go on at the position that was noted last.
    fn is_noted(&self) -> bool {
        false
    }

    /// Notes that all lines that were read have been passed on, except for the last `pending`
    /// bytes.
    fn note(&mut self, _pending: usize) {}

    /// Whether the bytes that were read last are old: an earlier launcher was to act on them.
    fn is_old(&self) -> bool {
        false
    }
}

impl Source for ChildStdout {}
impl Source for ChildStderr {}
impl Source for PipeReader {}

/// A file to which a process writes.
pub(super) struct Followed {
    file: File,
    mark: File,
    limit: LogLimit,
    read: u64,
    is_over: Arc<AtomicBool>,
    /// Length of the file when the process had ended.
    end: Option<u64>,
    /// The position before which all is old.
    live_from: Arc<AtomicU64>,
    is_old: bool,
}

impl Followed {
    /// Opens the file at the position up to which an earlier launcher has read it. Reading ends at
    /// the length that the file has once `is_over` is true, since processes that are left behind
    /// may write for ever. The file is limited to about `log_limit` bytes.
    pub(super) fn open(
        stream: &StreamFile,
        log_limit: u64,
        is_over: Arc<AtomicBool>,
    ) -> io::Result<Self> {
        let (mut file, mark) = (stream.open()?, stream.open_mark()?);
        let limit = LogLimit::new(stream.path(), log_limit)?;
        let mut bytes = [0; size_of::<u64>()];
        // A new file is empty.
        let read = match mark.read_exact_at(&mut bytes, 0) {
            Ok(()) => u64::from_le_bytes(bytes).min(file.metadata()?.len()),
            Err(_) => 0,
        };
        file.seek(SeekFrom::Start(read))?;
        let (live_from, is_old) = (Arc::default(), false);
        Ok(Self { file, mark, limit, read, is_over, end: None, live_from, is_old })
    }

    /// Sets the position before which all is old. It may change until something is written.
    pub(super) fn live_from(mut self, position: Arc<AtomicU64>) -> Self {
        self.live_from = position;
        self
    }
}

impl Read for Followed {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        let [mut pause, longest] = LOOK;
        loop {
            // The flag is read before the length, so that all that the process has written is in
            // the file.
            let is_over = self.is_over.load(Ordering::Acquire);
            if is_over && self.end.is_none() {
                self.end = Some(self.file.metadata()?.len());
            }
            let left = self.end.map_or(u64::MAX, |end| end.saturating_sub(self.read));
            let old = self.live_from.load(Ordering::SeqCst).saturating_sub(self.read);
            // One read returns either old bytes or new ones.
            let most = if old > 0 { old.min(left) } else { left };
            let room = to.len().min(usize::try_from(most).unwrap_or(usize::MAX));
            let read = self.file.read(&mut to[..room])?;
            if read > 0 || is_over {
                self.is_old = old > 0;
                self.read += read as u64;
                return Ok(read);
            }
            thread::sleep(pause);
            pause = (pause * 2).min(longest);
        }
    }
}

impl Source for Followed {
    fn is_noted(&self) -> bool {
        true
    }

    fn note(&mut self, pending: usize) {
        let done = self.read - pending as u64;
        match self.mark.write_all_at(&done.to_le_bytes(), 0) {
            Ok(()) => self.limit.note(done),
            Err(error) => {
                tracing::warn!(%error, "another launcher would print some lines again");
            }
        }
    }

    fn is_old(&self) -> bool {
        self.is_old
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job_folder::StreamFile;
    use std::io::Write;

    #[test]
    fn what_is_old_ends_at_a_position() {
        let folder = tempfile::tempdir().unwrap();
        let stream = StreamFile::at(folder.path().join("a-0.out"));
        stream.open_to_append().unwrap().write_all(b"oldnew").unwrap();
        let over = Arc::new(AtomicBool::new(true));
        let followed = Followed::open(&stream, u64::MAX, over).unwrap();
        let mut followed = followed.live_from(Arc::new(AtomicU64::new(3)));
        let mut buffer = [0; 64];
        for (expected, is_old) in [(3, true), (3, false), (0, false)] {
            assert_eq!(followed.read(&mut buffer).unwrap(), expected);
            assert_eq!(followed.is_old(), is_old);
        }
    }

    #[test]
    fn what_is_written_after_the_end_of_the_process_is_not_read() {
        let folder = tempfile::tempdir().unwrap();
        let stream = StreamFile::at(folder.path().join("a-0.out"));
        let mut left_behind = stream.open_to_append().unwrap();
        left_behind.write_all(b"one\ntwo\n").unwrap();
        let over = Arc::new(AtomicBool::new(true));
        let mut followed = Followed::open(&stream, u64::MAX, over).unwrap();
        let mut buffer = [0; 4];
        for expected in [4, 4, 0] {
            assert_eq!(followed.read(&mut buffer).unwrap(), expected);
            left_behind.write_all(b"more\n").unwrap();
        }
    }

    #[test]
    fn the_next_reader_begins_with_the_line_that_was_not_complete() {
        let folder = tempfile::tempdir().unwrap();
        let stream = StreamFile::at(folder.path().join("a-0.out"));
        let mut written = stream.open_to_append().unwrap();
        let is_over = Arc::new(AtomicBool::new(false));
        written.write_all(b"one\ntwo\nthr").unwrap();
        let mut first = Followed::open(&stream, 8, is_over.clone()).unwrap();
        let mut buffer = [0; 64];
        assert_eq!(first.read(&mut buffer).unwrap(), 11);
        first.note(3);
        drop(first);

        written.write_all(b"ee\n").unwrap();
        is_over.store(true, Ordering::Release);

        let mut rest = String::new();
        Followed::open(&stream, 8, is_over).unwrap().read_to_string(&mut rest).unwrap();
        assert_eq!(rest, "three\n");
        let older = std::fs::read_to_string(folder.path().join("a-0.out.old")).unwrap();
        assert!(older.ends_with("\none\ntwo\n"), "only what was read was moved out: {older}");
    }
}
