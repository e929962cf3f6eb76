//! Runs main on a thread of its own.

use super::switch::Switch;
use crate::MainFuture;
use crate::address::id::MAIN_PE;
use crate::error::{JobError, panic_message};
use crate::job::grid::MainPort;
use crate::job::program::{Program, end};
use crate::job::promise::Awaited;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// Polls main on this thread until it is done, and tells PE 0 how it ended. A panic is an outcome,
/// since the PEs have to stop. If the job ends before, main is dropped where it waits.
pub(super) fn run(program: Program, switch: &Arc<Switch>) {
    switch.ending.wakes(thread::current());
    let awaited = Arc::<Awaited>::default();
    let main = program.begin_main(port(switch), awaited.clone());
    if let Some(outcome) = block_on(main, &awaited, switch) {
        switch.inbox(MAIN_PE).push_action(end(outcome));
    }
}

/// Who holds main's waker beside those that main waits for: this thread twice, and the counter.
const OWN_HOLDERS: usize = 3;

/// After this time a thread that has woken main has let go of its waker, however busy the machine
/// is.
const SETTLING: Duration = Duration::from_millis(100);

fn block_on(
    mut main: MainFuture,
    awaited: &Awaited,
    switch: &Switch,
) -> Option<Result<(), JobError>> {
    let (ending, state) = (&switch.ending, &switch.main);
    let unpark = Arc::new(Unpark(thread::current()));
    let waker = Waker::from(unpark.clone());
    awaited.is_woken_by(&waker);
    let mut context = Context::from_waker(&waker);
    let mut has_settled = false;
    loop {
        match catch_unwind(AssertUnwindSafe(|| main.as_mut().poll(&mut context))) {
            Ok(Poll::Ready(outcome)) => return Some(outcome),
            Ok(Poll::Pending) if ending.is_over() => {
                // The job has an outcome; a panic of what main holds changes nothing of it.
                let _ = catch_unwind(AssertUnwindSafe(|| drop(main)));
                return None;
            }
            Ok(Poll::Pending) => {
                let holders = Arc::strong_count(&unpark) - OWN_HOLDERS;
                let is_inside = awaited.is_all(holders);
                state.waits(is_inside);
                if is_inside || has_settled {
                    thread::park();
                    has_settled = false;
                } else {
                    // The thread that has woken main may still hold its waker.
                    let begin = Instant::now();
                    thread::park_timeout(SETTLING);
                    has_settled = begin.elapsed() >= SETTLING;
                }
                state.runs();
            }
            Err(panic) => {
                let reason = panic_message(&*panic);
                return Some(Err(JobError::Failed(format!("main panicked: {reason}"))));
            }
        }
    }
}

/// Hands main's work to PE 0, which must be of this node.
fn port(switch: &Arc<Switch>) -> MainPort {
    let (switch, main) = (switch.clone(), thread::current().id());
    Arc::new(move |action| {
        if thread::current().id() != main {
            switch.main.is_helped();
        }
        switch.inbox(MAIN_PE).push_action(action);
    })
}
