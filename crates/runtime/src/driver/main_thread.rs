//! Runs main on the calling thread.

use super::switch::Switch;
use crate::MainFuture;
use crate::address::id::MAIN_PE;
use crate::error::{JobError, main_panicked};
use crate::job::main_handle::MainPort;
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

/// Polls main on this thread until it is done, and reports its outcome to PE 0. A panic is an
/// outcome, since the PEs have to stop. If the job ends earlier, main is dropped where it waits.
pub(super) fn run(program: Program, switch: &Arc<Switch>) {
    switch.ending.wakes(thread::current());
    let awaited = Arc::<Awaited>::default();
    let main = program.begin_main(port(switch), awaited.clone());
    if let Some(outcome) = block_on(main, &awaited, switch) {
        switch.inbox(MAIN_PE).push_action(end(outcome));
    }
}

/// Holders of main's waker besides the futures that main awaits: this thread twice, and
/// [`Awaited`].
const OWN_HOLDERS: usize = 3;

/// Time after which a thread that has woken main is expected to have released main's waker, even on
/// a busy machine.
const SETTLING: Duration = Duration::from_millis(100);

fn block_on(
    mut main: MainFuture,
    awaited: &Awaited,
    switch: &Switch,
) -> Option<Result<(), JobError>> {
    let (ending, state) = (&switch.ending, &switch.main);
    let unpark = Arc::new(Unpark(thread::current()));
    let waker = Waker::from(unpark.clone());
    awaited.set_waker(&waker);
    let mut context = Context::from_waker(&waker);
    let mut has_settled = false;
    loop {
        match catch_unwind(AssertUnwindSafe(|| main.as_mut().poll(&mut context))) {
            Ok(Poll::Ready(outcome)) => return Some(outcome),
            Ok(Poll::Pending) if ending.is_over() => {
                // The job has an outcome; a panic while main is dropped does not change it.
                let _ = catch_unwind(AssertUnwindSafe(|| drop(main)));
                return None;
            }
            Ok(Poll::Pending) => {
                let holders = Arc::strong_count(&unpark) - OWN_HOLDERS;
                let is_inside = awaited.is_all(holders);
                state.note_waiting(is_inside);
                if is_inside || has_settled {
                    thread::park();
                    has_settled = false;
                } else {
                    // The thread that has woken main may still hold main's waker.
                    let begin = Instant::now();
                    thread::park_timeout(SETTLING);
                    has_settled = begin.elapsed() >= SETTLING;
                }
                state.note_running();
            }
            Err(panic) => {
                return Some(Err(main_panicked(&*panic)));
            }
        }
    }
}

/// Passes main's requests to PE 0, which must be on this node.
fn port(switch: &Arc<Switch>) -> MainPort {
    let (switch, main) = (switch.clone(), thread::current().id());
    Arc::new(move |action| {
        if thread::current().id() != main {
            switch.main.note_helped();
        }
        switch.inbox(MAIN_PE).push_action(action);
    })
}
