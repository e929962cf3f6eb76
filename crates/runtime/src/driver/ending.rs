//! Notifies the thread of main that the job is over, whatever main waits for.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::Thread;

/// Whether the job is over, and the thread of main to wake then.
#[derive(Default)]
pub(super) struct Ending {
    is_over: AtomicBool,
    main: OnceLock<Thread>,
}

impl Ending {
    /// Sets the thread of main, once. Check [`is_over`](Self::is_over) after that.
    pub(super) fn wakes(&self, main: Thread) {
        // Fails only if the same thread was set before.
        let _ = self.main.set(main);
    }

    /// Sets that the job is over, and wakes the thread of main.
    pub(super) fn declare(&self) {
        self.is_over.store(true, Ordering::SeqCst);
        if let Some(main) = self.main.get() {
            main.unpark();
        }
    }

    pub(super) fn is_over(&self) -> bool {
        self.is_over.load(Ordering::SeqCst)
    }
}
