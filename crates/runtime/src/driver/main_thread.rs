//! Runs main on a thread of its own.

use super::switch::Switch;
use super::worker::panic_message;
use crate::MainFuture;
use crate::error::JobError;
use crate::grid::MainPort;
use gridspan_topology::PeId;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// Polls main on this thread until it is done. A panic is an outcome, since the PEs have to stop.
pub(super) fn block_on(mut main: MainFuture) -> Result<(), JobError> {
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let mut context = Context::from_waker(&waker);
    loop {
        match catch_unwind(AssertUnwindSafe(|| main.as_mut().poll(&mut context))) {
            Ok(Poll::Ready(outcome)) => return outcome,
            Ok(Poll::Pending) => thread::park(),
            Err(panic) => {
                let reason = panic_message(&*panic);
                return Err(JobError::Failed(format!("main panicked: {reason}")));
            }
        }
    }
}

/// Hands main's work to PE 0, which must be of this node.
pub(super) fn port(switch: &Arc<Switch>) -> MainPort {
    let switch = switch.clone();
    Arc::new(move |action| switch.inbox(PeId(0)).push_action(action))
}
