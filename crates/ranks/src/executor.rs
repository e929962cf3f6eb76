//! Polls the futures that a handler has woken.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};

/// A flag that is set when a future is woken, and its waker.
pub(crate) struct Wakeup {
    flag: Arc<Flag>,
    waker: Waker,
}

struct Flag(AtomicBool);

impl Wake for Flag {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::Release);
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.0.store(true, Ordering::Release);
    }
}

impl Wakeup {
    /// The flag of a future that was not polled yet.
    pub(crate) fn new() -> Self {
        let flag = Arc::new(Flag(AtomicBool::new(true)));
        Self { waker: flag.clone().into(), flag }
    }

    /// Polls a future if it was woken; `None` if it was not.
    pub(crate) fn poll<F: Future + ?Sized>(&self, future: Pin<&mut F>) -> Option<Poll<F::Output>> {
        // Most calls find the flag unset, and a load costs less than a swap.
        let is_woken =
            self.flag.0.load(Ordering::Relaxed) && self.flag.0.swap(false, Ordering::Acquire);
        is_woken.then(|| future.poll(&mut Context::from_waker(&self.waker)))
    }
}
