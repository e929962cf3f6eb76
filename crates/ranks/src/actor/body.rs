//! The futures of a run, and where they wait while their actor migrates.

use crate::error::RankError;
use crate::executor::Wakeup;
use crate::local::{Local, Task};
use crate::program::{RankProgram, Run, RunEnd};
use gridspan_runtime::{NodeId, PeId};
use serde::{Deserialize, Serialize};
use std::any::Any;
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::Poll;

pub(super) type End<P> =
    Result<RunEnd<<P as RankProgram>::State, <P as RankProgram>::Value>, RankError>;

/// A run and the tasks that it has begun.
pub(super) struct Body<P: RankProgram> {
    run: Option<Run<P>>,
    wakeup: Wakeup,
    tasks: Vec<(Task, Wakeup)>,
}

impl<P: RankProgram> Body<P> {
    pub(super) fn new(run: Run<P>) -> Self {
        Self { run: Some(run), wakeup: Wakeup::new(), tasks: Vec::new() }
    }

    /// Polls the futures that were woken. Returns whether any was, and the end of the run.
    pub(super) fn poll(&mut self) -> (bool, Option<End<P>>) {
        let (mut is_woken, mut end) = (false, None);
        if let Some(run) = &mut self.run
            && let Some(polled) = self.wakeup.poll(run.as_mut())
        {
            is_woken = true;
            if let Poll::Ready(ended) = polled {
                self.run = None;
                end = Some(ended);
            }
        }
        self.tasks.retain_mut(|(task, wakeup)| match wakeup.poll(task.as_mut()) {
            None => true,
            Some(polled) => {
                is_woken = true;
                polled.is_pending()
            }
        });
        (is_woken, end)
    }

    /// Like [`poll`](Self::poll), but a panic ends the run with an error, and the futures must not
    /// be polled again. `before` is the panic of a window's operator that ran before this call; it
    /// has the same effect.
    pub(super) fn poll_caught(
        &mut self,
        before: Option<Box<dyn Any + Send>>,
    ) -> (bool, Option<End<P>>) {
        let polled = match before {
            Some(panic) => Err(panic),
            None => catch_unwind(AssertUnwindSafe(|| self.poll())),
        };
        match polled {
            Ok(polled) => polled,
            Err(panic) => {
                let reason = format!("it panicked: {}", panic_text(&*panic));
                (true, Some(Err(RankError::Failed(reason))))
            }
        }
    }

    /// Adds tasks, which are polled with the run.
    pub(super) fn add(&mut self, tasks: Vec<Task>) {
        self.tasks.extend(tasks.into_iter().map(|task| (task, Wakeup::new())));
    }
}

fn panic_text(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("no message")
}

/// Where the futures of a run are parked: the node, the PE, and their key in the [`Parking`].
#[derive(Clone, Copy, Serialize, Deserialize)]
pub(super) struct Parked {
    pub(super) node: NodeId,
    pub(super) pe: PeId,
    pub(super) number: u64,
}

/// The futures of migrating actors, and the state that these share with the actors: a resource of
/// the job.
pub(crate) struct Parking<P: RankProgram>(Mutex<ParkedBodies<P>>);

struct ParkedBodies<P: RankProgram> {
    last: u64,
    found: BTreeMap<u64, (Body<P>, Arc<Local>)>,
}

impl<P: RankProgram> Parking<P> {
    pub(crate) fn new() -> Self {
        Self(Mutex::new(ParkedBodies { last: 0, found: BTreeMap::new() }))
    }

    /// Keeps the futures of a run, and returns their key.
    pub(super) fn park(&self, body: Body<P>, local: Arc<Local>) -> u64 {
        let mut bodies = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        bodies.last += 1;
        let number = bodies.last;
        bodies.found.insert(number, (body, local));
        number
    }

    /// Removes and returns the futures with this key.
    pub(super) fn take(&self, number: u64) -> Option<(Body<P>, Arc<Local>)> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).found.remove(&number)
    }
}
