//! Tells the thread of main that the job is over, whatever it waits for.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::Thread;

/// Whether the job is over, and whom to tell.
#[derive(Default)]
pub(super) struct Ending {
    is_over: AtomicBool,
    main: OnceLock<Thread>,
}

impl Ending {
    /// Names the thread of main, once. Look at [`is_over`](Self::is_over) after that.
    pub(super) fn wakes(&self, main: Thread) {
        // It was named before if this fails, and is the same.
        let _ = self.main.set(main);
    }

    /// The job is over.
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
