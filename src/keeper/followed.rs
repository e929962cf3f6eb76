//! A file to which a node prints, read while it grows.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

/// Number of bytes read at once.
const READ_BYTES: usize = 64 << 10;
/// Shortest and longest interval between looks at a file that has not grown.
const LOOK: [Duration; 2] = [Duration::from_millis(2), Duration::from_millis(20)];

/// Passes on what is in the file from a position on, until all was read after `is_over` has become
/// true.
pub(super) fn follow(
    mut file: File,
    from: u64,
    is_over: &AtomicBool,
    mut pass_on: impl FnMut(&[u8]) -> io::Result<()>,
) -> io::Result<()> {
    file.seek(SeekFrom::Start(from))?;
    let mut buffer = vec![0; READ_BYTES];
    let [shortest, longest] = LOOK;
    let mut pause = shortest;
    loop {
        // Nothing is written after the end of the process, which must be known before the look.
        let is_last = is_over.load(Ordering::Acquire);
        match file.read(&mut buffer) {
            Ok(0) if is_last => return Ok(()),
            Ok(0) => {
                thread::sleep(pause);
                pause = (pause * 2).min(longest);
            }
            Ok(read) => {
                pass_on(&buffer[..read])?;
                pause = shortest;
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}
