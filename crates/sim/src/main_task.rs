//! The job's main function, polled between events.

use gridspan_runtime::pe::Action;
use gridspan_runtime::{JobError, MainFuture, MainPort, Program};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Wake, Waker};

/// How often main may go on that wakes itself before anything else happens. Who waits for an actor
/// in this way is polled again after the next event.
const OWN_WAKES_MAX: u32 = 10_000;

/// Says that main should be polled.
struct Flag(AtomicBool);

impl Wake for Flag {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Main, and the work that it has for PE 0.
pub(crate) struct MainTask {
    future: Option<MainFuture>,
    flag: Arc<Flag>,
    waker: Waker,
    actions: Arc<Mutex<Vec<Action>>>,
}

impl MainTask {
    /// Takes main out of a program. It begins when it is polled first.
    pub(crate) fn new(program: Program) -> Self {
        let actions: Arc<Mutex<Vec<Action>>> = Arc::default();
        let queue = actions.clone();
        let port: MainPort = Arc::new(move |action| {
            queue.lock().unwrap_or_else(PoisonError::into_inner).push(action);
        });
        let flag = Arc::new(Flag(AtomicBool::new(true)));
        let waker = Waker::from(flag.clone());
        Self { future: Some(program.begin_main(port)), flag, waker, actions }
    }

    /// Polls main as long as it was woken, by others or by itself, up to a bound. Returns its
    /// outcome once.
    pub(crate) fn poll(&mut self) -> Option<Result<(), JobError>> {
        let future = self.future.as_mut()?;
        for _ in 0..OWN_WAKES_MAX {
            if !self.flag.0.swap(false, Ordering::Relaxed) {
                break;
            }
            let polled = future.as_mut().poll(&mut Context::from_waker(&self.waker));
            if let Poll::Ready(outcome) = polled {
                self.future = None;
                return Some(outcome);
            }
        }
        None
    }

    /// Whether main has returned.
    pub(crate) fn is_done(&self) -> bool {
        self.future.is_none()
    }

    /// What main wants PE 0 to do, in order.
    pub(crate) fn take_actions(&self) -> Vec<Action> {
        std::mem::take(&mut self.actions.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
