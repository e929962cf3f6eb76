//! References to pools that tasks can carry.

use crate::CollectionId;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::marker::PhantomData;

/// A reference to a pool, with which tasks of other pools spawn tasks there; see
/// [`TaskContext::spawn_in`](super::TaskContext::spawn_in).
///
/// ```
/// use gridspan::TaskPoolRef;
/// # use gridspan::{embed::Runner, prelude::*};
///
/// #[derive(Serialize, Deserialize)]
/// struct Square(u64);
///
/// #[derive(Serialize, Deserialize)]
/// struct SumOfSquares { below: u64, squares: TaskPoolRef<Square> }
///
/// # impl Task for Square {
/// #     type Output = u64;
/// #     type Join = ();
/// #     fn run(self, _cx: &mut TaskContext<Self>) -> Step<Self> { Step::Done(self.0 * self.0) }
/// #     fn collect((): &mut (), _child: u32, _output: u64) {}
/// #     fn joined((): (), _cx: &mut TaskContext<'_, Self>) -> Step<Self> { Step::Done(0) }
/// # }
/// impl Task for SumOfSquares {
///     type Output = u64;
///     type Join = u64;
///
///     fn run(self, cx: &mut TaskContext<'_, Self>) -> Step<Self> {
///         for number in 0..self.below {
///             cx.spawn_in(self.squares, Square(number), |square| square);
///         }
///         Step::Sync(0)
///     }
///
///     fn collect(sum: &mut u64, _child: u32, square: u64) { *sum += square }
///     fn joined(sum: u64, _cx: &mut TaskContext<'_, Self>) -> Step<Self> { Step::Done(sum) }
/// }
///
/// let job = Job::new("sum").tasks::<Square>().tasks::<SumOfSquares>().main(async |grid: Grid| {
///     let (squares, sums) = (grid.task_pool::<Square>().await?, grid.task_pool().await?);
///     let task = SumOfSquares { below: 5, squares: squares.reference() };
///     assert_eq!(sums.run(task).await?, 30);
///     Ok(())
/// });
/// # Runner::on_threads(2).run(job).unwrap();
/// ```
#[derive(Serialize, Deserialize)]
#[serde(bound = "")]
pub struct TaskPoolRef<T> {
    pub(super) id: CollectionId,
    pub(super) kind: PhantomData<fn() -> T>,
}

impl<T> Copy for TaskPoolRef<T> {}

impl<T> Clone for TaskPoolRef<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> fmt::Debug for TaskPoolRef<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("TaskPoolRef").field(&self.id).finish()
    }
}
