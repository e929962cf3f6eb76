//! Runs main on a thread of its own.

use super::ending::Ending;
use super::switch::Switch;
use crate::MainFuture;
use crate::error::{JobError, panic_message};
use crate::grid::MainPort;
use crate::program::end;
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

/// Polls main on this thread until it is done, and tells PE 0 how it ended. A panic is an outcome,
/// since the PEs have to stop. If the job ends before, main is dropped where it waits.
pub(super) fn run(main: MainFuture, switch: &Switch) {
    switch.ending.wakes(thread::current());
    if let Some(outcome) = block_on(main, &switch.ending) {
        switch.inbox(PeId(0)).push_action(end(outcome));
    }
}

fn block_on(mut main: MainFuture, ending: &Ending) -> Option<Result<(), JobError>> {
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let mut context = Context::from_waker(&waker);
    loop {
        match catch_unwind(AssertUnwindSafe(|| main.as_mut().poll(&mut context))) {
            Ok(Poll::Ready(outcome)) => return Some(outcome),
            Ok(Poll::Pending) if ending.is_over() => return None,
            Ok(Poll::Pending) => thread::park(),
            Err(panic) => {
                let reason = panic_message(&*panic);
                return Some(Err(JobError::Failed(format!("main panicked: {reason}"))));
            }
        }
    }
}

/// Hands main's work to PE 0, which must be of this node.
pub(super) fn port(switch: &Arc<Switch>) -> MainPort {
    let switch = switch.clone();
    Arc::new(move |action| switch.inbox(PeId(0)).push_action(action))
}
