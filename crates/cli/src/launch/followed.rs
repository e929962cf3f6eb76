//! The output of a process, from a pipe or from a file that is followed.
//!
//! The processes of a detached job write to files, so that their output is kept while no launcher
//! reads it. A launcher notes how much of a file it has read, and the next one reads from there.
//! What was read is moved out of a file that has reached its limit (see `log_file`).

use crate::job_folder::StreamFile;
use crate::log_file::LogLimit;
use std::fs::File;
use std::io::{self, PipeReader, Read, Seek, SeekFrom};
use std::os::unix::fs::FileExt;
use std::process::{ChildStderr, ChildStdout};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

/// Shortest and longest interval between looks at a file that has not grown.
const LOOK: [Duration; 2] = [Duration::from_millis(2), Duration::from_millis(50)];

/// Where the output of a process is read.
pub(super) trait Source: Read {
    /// Notes that all lines that were read have been passed on, except for the last `pending`
    /// bytes.
    fn note(&mut self, _pending: usize) {}
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
}

impl Followed {
    /// Opens the file where the launcher before has stopped to read. It ends when all was read
    /// after `is_over` has become true. The file is limited to about `log_limit` bytes.
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
        Ok(Self { file, mark, limit, read, is_over })
    }
}

impl Read for Followed {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        let [mut pause, longest] = LOOK;
        loop {
            // Nothing is written after the end of the process, which must be known before the look.
            let is_over = self.is_over.load(Ordering::Acquire);
            let read = self.file.read(to)?;
            if read > 0 || is_over {
                self.read += read as u64;
                return Ok(read);
            }
            thread::sleep(pause);
            pause = (pause * 2).min(longest);
        }
    }
}

impl Source for Followed {
    fn note(&mut self, pending: usize) {
        let done = self.read - pending as u64;
        match self.mark.write_all_at(&done.to_le_bytes(), 0) {
            Ok(()) => self.limit.note(done),
            Err(error) => {
                tracing::warn!(%error, "another launcher would print some lines again");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job_folder::StreamFile;
    use std::io::Write;

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
