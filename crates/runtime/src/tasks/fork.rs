//! Tasks that fork and join.

use super::bound::Goal;
use super::engine::{Call, Engine, Finished, Work};
use super::frame::{Frame, FrameId, Up};
use super::pool_ref::TaskPoolRef;
use super::worker::Worker;
use crate::address::id::Sender;
use crate::message::codec;
use gridspan_topology::{PeId, Time};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::any::type_name;
use std::marker::PhantomData;
use std::time::Duration;

/// A task that may spawn other tasks of its type and wait for their outputs. It waits by returning
/// [`Step::Sync`], and the PE goes on with other work meanwhile.
///
/// A task may run more than once: again after a guest that ran it was lost, or as a backup while
/// another site runs it. Only its first output counts. So a task should have no effects beside its
/// output, or effects that may be repeated, such as an improvement of the bound.
///
/// ```
/// # use gridspan_runtime::{Step, Task, TaskContext};
/// # use serde::{Deserialize, Serialize};
/// /// The Fibonacci number of an index, the slow way.
/// #[derive(Serialize, Deserialize)]
/// struct Fib(u32);
///
/// impl Task for Fib {
///     type Output = u64;
///     type Join = u64;
///
///     fn run(self, cx: &mut TaskContext<'_, Self>) -> Step<Self> {
///         if self.0 < 2 {
///             return Step::Done(self.0.into());
///         }
///         cx.spawn(Fib(self.0 - 1));
///         cx.spawn(Fib(self.0 - 2));
///         Step::Sync(0)
///     }
///
///     fn collect(sum: &mut u64, _child: u32, output: u64) {
///         *sum += output;
///     }
///
///     fn joined(sum: u64, _cx: &mut TaskContext<'_, Self>) -> Step<Self> {
///         Step::Done(sum)
///     }
/// }
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a task",
    label = "this type does not implement `Task`",
    note = "write `impl Task for {Self}`; for a tree whose nodes only add to one total, `impl Search for {Self}` and `Job::search`"
)]
pub trait Task: Serialize + DeserializeOwned + Send + 'static {
    /// Its output.
    type Output: Serialize + DeserializeOwned + Send + 'static;
    /// The state that it keeps while its children run. It stays on its PE.
    type Join: Send + 'static;

    /// Which values of the pool's shared bound are better; see [`TaskContext::improve`].
    const GOAL: Goal = Goal::Maximise;

    /// Does the work, or spawns children that do it.
    fn run(self, cx: &mut TaskContext<'_, Self>) -> Step<Self>;

    /// Takes the output of a child. The children that a step has spawned are numbered from 0 in the
    /// order of spawning, and finish in any order.
    fn collect(join: &mut Self::Join, child: u32, output: Self::Output);

    /// Called when all children's outputs have been collected. May spawn more.
    fn joined(join: Self::Join, cx: &mut TaskContext<'_, Self>) -> Step<Self>;
}

/// The end of a step of a task.
///
/// ```
/// # use gridspan::{embed::Runner, prelude::*};
/// /// Adds up the numbers of a range.
/// #[derive(Serialize, Deserialize)]
/// struct Total { from: u64, to: u64 }
///
/// impl Task for Total {
///     # type Output = u64;
///     # type Join = u64;
///     fn run(self, cx: &mut TaskContext<'_, Self>) -> Step<Self> {
///         let Total { from, to } = self;
///         if to - from < 10 {
///             return Step::Done((from..to).sum());
///         }
///         let half = (from + to) / 2;
///         cx.spawn(Total { from, to: half });
///         cx.spawn(Total { from: half, to });
///         Step::Sync(0) // until both outputs have come
///     }
///     # fn collect(sum: &mut u64, _child: u32, output: u64) { *sum += output }
///     # fn joined(sum: u64, _cx: &mut TaskContext<'_, Self>) -> Step<Self> { Step::Done(sum) }
/// }
/// # let job = Job::new("total").tasks::<Total>().main(async |grid: Grid| {
/// # assert_eq!(grid.run_tasks(Total { from: 0, to: 100 }).await?, 4_950);
/// # Ok(())
/// # });
/// # Runner::on_threads(2).run(job).unwrap();
/// ```
#[derive(Debug)]
#[non_exhaustive]
pub enum Step<T: Task> {
    /// The task is done. This is an error if it has spawned children in this step, since they would
    /// be lost.
    Done(T::Output),
    /// The task continues in [`Task::joined`] when the children that it spawned are done.
    Sync(T::Join),
}

/// The actions of a running task.
///
/// ```
/// # use gridspan::{embed::Runner, prelude::*};
/// # #[derive(Serialize, Deserialize)]
/// # struct Probe(i64);
/// impl Task for Probe {
///     # type Output = ();
///     # type Join = ();
///     fn run(self, cx: &mut TaskContext<'_, Self>) -> Step<Self> {
///         cx.charge(Duration::from_micros(3)); // in virtual time
///         cx.improve(self.0); // all tasks of the pool see the best value
///         if self.0 < 10 {
///             cx.spawn(Probe(2 * self.0 + 1));
///         }
///         Step::Sync(())
///     }
///     # fn collect(_: &mut (), _child: u32, _: ()) {}
///     # fn joined(_: (), _cx: &mut TaskContext<'_, Self>) -> Step<Self> { Step::Done(()) }
/// }
/// # let job = Job::new("probe").tasks::<Probe>().main(async |grid: Grid| {
/// # let pool = grid.task_pool().await?;
/// # pool.run(Probe(1)).await?;
/// # assert_eq!(pool.bound().await?, Some(15));
/// # Ok(())
/// # });
/// # Runner::on_threads(2).run(job).unwrap();
/// ```
pub struct TaskContext<'a, T: Task> {
    engine: &'a mut Engine<Joining<T>>,
    /// The frame that the children work for, once there are any.
    frame: Option<FrameId>,
    children: u32,
}

impl<T: Task> TaskContext<'_, T> {
    /// Spawns a child. It runs here after this step, the newest first, or wherever it is stolen to.
    #[inline]
    pub fn spawn(&mut self, task: T) {
        let frame = match self.frame {
            Some(frame) => frame,
            None => *self.frame.insert(self.engine.frames.reserve()),
        };
        self.engine.push(task, frame, self.children);
        self.children += 1;
    }

    /// Spawns a child in another pool, for tasks of another type, and waits for it as for other
    /// children. The PE goes on meanwhile with the tasks of both pools. `output` converts the
    /// child's output to the type that [`Task::collect`] takes.
    ///
    /// The child begins on this PE. If the pool is closed before the child is done, and main waits
    /// for this task, the job ends with an error.
    #[expect(clippy::needless_pass_by_value, reason = "a task is given away, as in `spawn`")]
    pub fn spawn_in<U: Task>(
        &mut self,
        pool: TaskPoolRef<U>,
        task: U,
        output: fn(U::Output) -> T::Output,
    ) {
        let frame = match self.frame {
            Some(frame) => frame,
            None => *self.frame.insert(self.engine.frames.reserve()),
        };
        let (child, item) = (self.children, codec::encode(&task).into());
        self.children += 1;
        self.engine.calls.push(Call {
            pool: pool.id,
            item,
            frame,
            child,
            convert: Box::new(move |bytes| codec::decode(type_name::<U>(), bytes).map(output)),
            send: |core, to, message| core.send::<Worker<Joining<U>>>(Sender::Pe, to, 0, message),
        });
    }

    /// Returns the best value of this pool's bound that is known here, if there is any. A better
    /// value from another node of the job may be missing for some milliseconds plus the latency
    /// between sites. A task that repeats work, as a backup or because a node is lost, sees a value
    /// that is worse by one, so that it finds equal values again. So prune only what is not better
    /// than this value, and put each value that the task finds into its output.
    #[inline]
    pub fn bound(&self) -> Option<i64> {
        self.engine.bound.seen_by(self.engine.lineage)
    }

    /// Improves the bound of this pool if `value` is better by [`Task::GOAL`] than the value known
    /// here. Returns whether it is. All tasks of the pool share the bound, whichever root they work
    /// for. Tasks see the value even while they run: tasks on this node at once, tasks on other
    /// nodes when a message has brought it. In virtual time, a running task does not see values
    /// that other tasks find meanwhile.
    ///
    /// The worst value cannot be recorded, since it means that there is none: `i64::MIN` where
    /// larger values are better, `i64::MAX` where smaller ones are. For that value the result is
    /// `false`.
    pub fn improve(&mut self, value: i64) -> bool {
        self.engine.improve(value)
    }

    /// The PE that runs this step.
    pub fn pe(&self) -> PeId {
        self.engine.pe
    }

    /// The time since the job began, as of the beginning of the PE's turn.
    pub fn now(&self) -> Time {
        self.engine.now
    }

    /// Makes the task take `time` longer in virtual time.
    #[inline]
    pub fn charge(&mut self, time: Duration) {
        let charged = &mut self.engine.charged_ns;
        let time_ns = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        *charged = charged.saturating_add(time_ns);
    }

    /// Ends the job with an error.
    pub fn fail(&mut self, reason: impl Into<String>) {
        self.engine.fail(reason.into());
    }
}

/// Implements [`Work`] for fork-join tasks of one type.
pub(crate) struct Joining<T>(PhantomData<fn() -> T>);

/// The state of a frame of fork-join tasks: that of the parent task, or `None` if the frame belongs
/// to a loan or a root.
pub(crate) struct Waiting<T: Task>(Option<T::Join>);

impl<T: Task> Work for Joining<T> {
    type Item = T;
    type Output = T::Output;
    type State = Waiting<T>;

    const GOAL: Goal = T::GOAL;
    const SHARES_LOANS: bool = false;

    fn name() -> &'static str {
        type_name::<T>()
    }

    fn nothing() -> Option<T::Output> {
        None
    }

    fn loan() -> Waiting<T> {
        Waiting(None)
    }

    fn so_far(_: &Waiting<T>) -> Option<&T::Output> {
        None
    }

    #[inline]
    fn run(engine: &mut Engine<Self>, task: T, frame: FrameId, child: u32) {
        let mut cx = TaskContext { engine, frame: None, children: 0 };
        let step = task.run(&mut cx);
        let TaskContext { frame: waits, children, .. } = cx;
        if let Some((frame, child, output)) =
            settle(engine, Up::Frame(frame, child), step, waits, children)
        {
            Self::report(engine, frame, child, 1, output);
        }
    }

    #[inline]
    fn report(
        engine: &mut Engine<Self>,
        frame: FrameId,
        child: u32,
        _items: u64,
        output: T::Output,
    ) {
        let mut next = Some((frame, child, output));
        while let Some((frame, child, output)) = next {
            next = collect(engine, frame, child, output);
        }
    }
}

/// Hands an output to a frame. Returns the frame's own output if that goes to another frame.
// Inlined, like `settle` and `pass_up`, so that outputs stay in registers.
#[inline(always)]
fn collect<T: Task>(
    engine: &mut Engine<Joining<T>>,
    id: FrameId,
    child: u32,
    output: T::Output,
) -> Option<(FrameId, u32, T::Output)> {
    let frame = engine.frames.get(id)?;
    let Some(join) = &mut frame.state.0 else {
        let loan = engine.frames.release(id)?;
        return pass_up(engine, loan.up, output);
    };
    T::collect(join, child, output);
    frame.pending -= 1;
    if frame.pending > 0 {
        return None;
    }
    let frame = engine.frames.release(id)?;
    engine.lineage = frame.lineage;
    let mut cx = TaskContext { engine, frame: None, children: 0 };
    let step = T::joined(frame.state.0?, &mut cx);
    let TaskContext { frame: waits, children, .. } = cx;
    settle(engine, frame.up, step, waits, children)
}

/// Makes a task wait for its children, or passes its output on.
#[inline(always)]
fn settle<T: Task>(
    engine: &mut Engine<Joining<T>>,
    up: Up,
    step: Step<T>,
    waits: Option<FrameId>,
    children: u32,
) -> Option<(FrameId, u32, T::Output)> {
    // Without children to wait for, the task goes on at once.
    settle_or(engine, up, step, (waits, children), go_on)
}

/// Settles a task. `go_on` continues one that returns `Step::Sync` without children.
#[inline(always)]
fn settle_or<T: Task>(
    engine: &mut Engine<Joining<T>>,
    up: Up,
    step: Step<T>,
    (waits, children): (Option<FrameId>, u32),
    go_on: impl FnOnce(&mut Engine<Joining<T>>, Up, T::Join) -> Option<(FrameId, u32, T::Output)>,
) -> Option<(FrameId, u32, T::Output)> {
    match (step, waits) {
        (Step::Sync(join), Some(id)) => {
            let (pending, lineage, state) = (children.into(), engine.lineage, Waiting(Some(join)));
            engine.frames.fill(id, Frame { up, pending, lineage, state });
            None
        }
        (Step::Done(output), None) => pass_up(engine, up, output),
        (Step::Sync(join), None) => go_on(engine, up, join),
        (Step::Done(_), Some(_)) => {
            fail_abandoned(engine, children);
            None
        }
    }
}

/// Continues a task that waits for no children.
#[cold]
fn go_on<T: Task>(
    engine: &mut Engine<Joining<T>>,
    up: Up,
    join: T::Join,
) -> Option<(FrameId, u32, T::Output)> {
    let mut cx = TaskContext { engine, frame: None, children: 0 };
    let step = T::joined(join, &mut cx);
    let TaskContext { frame: waits, children, .. } = cx;
    settle_or(engine, up, step, (waits, children), |engine, _, _| {
        engine.fail(format!(
            "a task of type {} returns Step::Sync twice without children; return Step::Done",
            type_name::<T>()
        ));
        None
    })
}

#[cold]
fn fail_abandoned<T: Task>(engine: &mut Engine<Joining<T>>, children: u32) {
    engine.fail(format!(
        "a task of type {} is done but has spawned {children} children; return Step::Sync",
        type_name::<T>()
    ));
}

/// Passes an output on. Returns it, with the frame and the child number, if it goes to a frame of
/// this PE.
#[inline(always)]
fn pass_up<T: Task>(
    engine: &mut Engine<Joining<T>>,
    up: Up,
    output: T::Output,
) -> Option<(FrameId, u32, T::Output)> {
    match up {
        Up::Frame(frame, child) => return Some((frame, child, output)),
        Up::Lender(borrowed) => {
            engine.finished.push(Finished::Loan(borrowed.lender, output));
        }
        Up::Root(root) => engine.finished.push(Finished::Root(root, output)),
    }
    None
}
