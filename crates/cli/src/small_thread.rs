//! Threads with a small stack, of which there may be several for each process of a job.

use std::io;
use std::thread;

/// Stack size of the threads, which have no deep calls.
const STACK_BYTES: usize = 256 << 10;

/// Starts a thread for work without deep calls.
pub(crate) fn spawn(name: &str, run: impl FnOnce() + Send + 'static) -> io::Result<()> {
    thread::Builder::new().name(name.to_owned()).stack_size(STACK_BYTES).spawn(run).map(drop)
}
