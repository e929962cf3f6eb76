//! Reads the file to which a node prints, while the file grows.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

/// Maximum number of bytes of one read.
const READ_BYTES: usize = 64 << 10;
/// Shortest and longest pause before the next read of a file that has not grown.
const LOOK: [Duration; 2] = [Duration::from_millis(2), Duration::from_millis(20)];

/// Passes on the bytes of the file from a position on. Once `is_over` is true, returns at the
/// present end of the file: processes that the node has left behind may write for ever.
pub(super) fn follow(
    mut file: File,
    from: u64,
    is_over: &AtomicBool,
    mut pass_on: impl FnMut(&[u8]) -> io::Result<()>,
) -> io::Result<()> {
    file.seek(SeekFrom::Start(from))?;
    let mut buffer = vec![0; READ_BYTES];
    let [shortest, longest] = LOOK;
    let (mut pause, mut position, mut end) = (shortest, from, None);
    loop {
        // The node writes nothing after it has ended, so `is_over` is read before the length.
        if end.is_none() && is_over.load(Ordering::Acquire) {
            end = Some(file.metadata()?.len());
        }
        let left = end.map_or(u64::MAX, |end| end.saturating_sub(position));
        let room = buffer.len().min(usize::try_from(left).unwrap_or(usize::MAX));
        match file.read(&mut buffer[..room]) {
            Ok(0) if end.is_some() => return Ok(()),
            Ok(0) => {
                thread::sleep(pause);
                pause = (pause * 2).min(longest);
            }
            Ok(read) => {
                position += read as u64;
                pass_on(&buffer[..read])?;
                pause = shortest;
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn what_is_written_after_the_end_of_the_node_is_not_passed_on() {
        let mut left_behind = tempfile::NamedTempFile::new().unwrap();
        // More than is read at once.
        left_behind.write_all(&vec![b'x'; 2 * READ_BYTES]).unwrap();
        let file = left_behind.reopen().unwrap();
        let mut passed = 0;

        follow(file, 1000, &AtomicBool::new(true), |bytes| {
            passed += bytes.len();
            left_behind.write_all(bytes)
        })
        .unwrap();

        assert_eq!(passed, 2 * READ_BYTES - 1000);
    }
}
