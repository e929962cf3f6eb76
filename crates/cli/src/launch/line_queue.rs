//! The lines that wait to be written to a process.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};

/// Lines for a process, which a thread writes. The thread closes the pipe to the process when the
/// queue is dropped.
pub(super) struct LineQueue {
    queue: Sender<String>,
    /// Number of lines that have not been written.
    unwritten: Arc<AtomicUsize>,
}

impl LineQueue {
    /// Creates a queue that counts its lines in `unwritten`. Also returns the thread's end of the
    /// queue.
    pub(super) fn new(unwritten: Arc<AtomicUsize>) -> (Self, Receiver<String>) {
        let (queue, incoming) = channel();
        (Self { queue, unwritten }, incoming)
    }

    /// Queues a line.
    pub(super) fn tell(&self, line: String) {
        self.unwritten.fetch_add(1, Ordering::SeqCst);
        // A process that has ended no longer reads; its end is noticed elsewhere.
        let _ = self.queue.send(line);
    }
}
