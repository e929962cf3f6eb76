//! Pools, through which main hands in root tasks and gets their results.

use super::engine::Work;
use super::pool_ref::TaskPoolRef;
use super::stream::{SearchStream, Stream, TaskStream};
use super::workers::Pool;
use super::{Joining, Search, Searching, StealStatistics, Task, Worker};
use crate::Job;
use crate::error::GridError;
use crate::job::grid::Grid;
use gridspan_topology::PeId;
use std::marker::PhantomData;

/// Workers for tasks of one type, one on each PE.
///
/// Before you make tasks long or large:
/// - A PE runs one task to its end before it does anything else. Other nodes can take tasks from it
///   meanwhile: the PE offers its waiting tasks in advance, all but the next one if tasks take more
///   than 10 µs. It offers the children of a task once the task has run.
/// - Messages of all priorities come before tasks.
/// - Waiting tasks are not messages, so [`Limits`](crate::Limits) do not bound them. A PE takes the
///   newest first, and so has about as many as the depth of the tree times the children of a task.
///   A stream bounds its tasks, by number and by bytes.
/// - A task of more than 60 MiB does not leave its node. An output of more than that for another
///   node ends the job.
/// - The job is not quiescent until all roots are done.
///
/// ```
/// use gridspan::TaskPool;
/// # use gridspan::{embed::Runner, prelude::*};
/// # #[derive(Serialize, Deserialize)]
/// # struct Fib(u32);
/// # impl Task for Fib {
/// #     type Output = u64;
/// #     type Join = u64;
/// #     fn run(self, cx: &mut TaskContext<'_, Self>) -> Step<Self> {
/// #         if self.0 < 2 {
/// #             return Step::Done(self.0.into());
/// #         }
/// #         cx.spawn(Fib(self.0 - 1));
/// #         cx.spawn(Fib(self.0 - 2));
/// #         Step::Sync(0)
/// #     }
/// #     fn collect(sum: &mut u64, _child: u32, output: u64) { *sum += output }
/// #     fn joined(sum: u64, _cx: &mut TaskContext<'_, Self>) -> Step<Self> { Step::Done(sum) }
/// # }
/// # let job = Job::new("fib").tasks::<Fib>().main(async |grid: Grid| {
/// let pool: TaskPool<Fib> = grid.task_pool().await?;
/// assert_eq!(pool.run(Fib(12)).await?, 144);
/// pool.close();
/// # Ok(())
/// # });
/// # Runner::on_threads(2).run(job).unwrap();
/// ```
pub struct TaskPool<T: Task>(Pool<Joining<T>>);

/// Workers for searches of one type, one on each PE. The notes of [`TaskPool`] on tasks hold for
/// nodes of the tree too.
///
/// ```
/// use gridspan::SearchPool;
/// # use gridspan::{embed::Runner, prelude::*};
/// # #[derive(Default, Serialize, Deserialize)]
/// # struct Count(u64);
/// # impl Merge for Count {
/// #     fn merge(&mut self, other: Self) { self.0 += other.0 }
/// # }
/// # #[derive(Serialize, Deserialize)]
/// # struct Node { height: u32 }
/// # impl Search for Node {
/// #     type Total = Count;
/// #     fn visit(self, cx: &mut SearchContext<'_, Self>) {
/// #         cx.total().0 += 1;
/// #         for _ in 0..2 * self.height.min(1) {
/// #             cx.spawn(Node { height: self.height - 1 });
/// #         }
/// #     }
/// # }
/// # let job = Job::new("tree").search::<Node>().main(async |grid: Grid| {
/// let pool: SearchPool<Node> = grid.search_pool().await?;
/// let nodes = pool.run(Node { height: 4 }).await?;
/// assert_eq!(nodes.0, 31);
/// pool.close();
/// # Ok(())
/// # });
/// # Runner::on_threads(2).run(job).unwrap();
/// ```
pub struct SearchPool<S: Search>(Pool<Searching<S>>);

/// A pool for one root. It closes when the call that opened it ends or main drops the future of
/// that call.
struct ClosedAtEnd<W: Work>(Pool<W>);

impl<W: Work> Drop for ClosedAtEnd<W> {
    fn drop(&mut self) {
        self.0.close();
    }
}

impl<T: Task> Clone for TaskPool<T> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<S: Search> Clone for SearchPool<S> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl Job {
    /// Adds a type of tasks.
    pub fn tasks<T: Task>(self) -> Self {
        self.workers::<Worker<Joining<T>>>(Joining::<T>::name())
    }

    /// Adds a type of searches.
    pub fn search<S: Search>(self) -> Self {
        self.workers::<Worker<Searching<S>>>(Searching::<S>::name())
    }
}

impl Grid {
    /// Opens a pool for tasks of type `T`. Fails if the job has not added the type with
    /// [`Job::tasks`].
    pub async fn task_pool<T: Task>(&self) -> Result<TaskPool<T>, GridError> {
        Ok(TaskPool(Pool::open(self, "tasks").await?))
    }

    /// Opens a pool for searches of type `S`. Fails if the job has not added the type with
    /// [`Job::search`].
    pub async fn search_pool<S: Search>(&self) -> Result<SearchPool<S>, GridError> {
        Ok(SearchPool(Pool::open(self, "search").await?))
    }

    /// Runs a task and all that it spawns, in a separate pool. Resolves to its output. Fails as
    /// [`task_pool`](Self::task_pool) and [`TaskPool::run`] do. If the future is dropped before it
    /// resolves, unfinished tasks are lost.
    pub async fn run_tasks<T: Task>(&self, root: T) -> Result<T::Output, GridError> {
        let pool = ClosedAtEnd(self.task_pool::<T>().await?.0);
        let output = pool.0.run(PeId(0), root).await;
        drop(pool);
        output
    }

    /// Visits a tree from its root, in a separate pool. Resolves to the total of all its nodes.
    /// Fails as [`search_pool`](Self::search_pool) and [`SearchPool::run`] do. If the future is
    /// dropped before it resolves, nodes that were not visited are lost.
    pub async fn run_search<S: Search>(&self, root: S) -> Result<S::Total, GridError> {
        let pool = ClosedAtEnd(self.search_pool::<S>().await?.0);
        let total = pool.0.run(PeId(0), root).await;
        drop(pool);
        total
    }
}

impl<T: Task> TaskPool<T> {
    /// Runs a task and all that it spawns. Resolves to its output. Fails if the pool is closed
    /// before the end, or the task is larger than 60 MiB.
    pub async fn run(&self, root: T) -> Result<T::Output, GridError> {
        self.run_on(PeId(0), root).await
    }

    /// Runs a task like [`run`](Self::run), beginning on this PE. Fails if there is no such PE.
    pub async fn run_on(&self, pe: PeId, root: T) -> Result<T::Output, GridError> {
        self.0.run(pe, root).await
    }

    /// Runs tasks and all that they spawn, and gives their outputs as they come. The stream takes
    /// more tasks from the iterator as main takes outputs, so that a stream of any length takes
    /// bounded memory.
    pub fn stream(
        &self,
        roots: impl IntoIterator<Item = T, IntoIter: Send + 'static>,
    ) -> TaskStream<T> {
        TaskStream::new(Stream::new(self.0.clone(), roots))
    }

    /// Returns a reference to this pool, with which tasks of other pools spawn tasks here.
    pub fn reference(&self) -> TaskPoolRef<T> {
        TaskPoolRef { id: self.0.workers.reference().id(), kind: PhantomData }
    }

    /// Returns the best value of the pool's bound that the first node knows, if there is any. Tasks
    /// set it with [`TaskContext::improve`](crate::TaskContext::improve). Values from tasks on that
    /// node arrive at once, values from other nodes with a message. The call works while tasks run,
    /// and waits only for the task that the first PE is running. Fails if the pool is closed.
    pub async fn bound(&self) -> Result<Option<i64>, GridError> {
        self.0.bound().await
    }

    /// Returns counts of the messages that nodes have sent each other so far to share the tasks of
    /// this pool. Fails if the pool is closed.
    pub async fn statistics(&self) -> Result<StealStatistics, GridError> {
        self.0.statistics().await
    }

    /// Frees the workers. Unfinished work is lost; calls that wait for it, or that use a clone of
    /// the pool, fail with [`GridError::PoolClosed`].
    pub fn close(self) {
        self.0.close();
    }
}

impl<S: Search> SearchPool<S> {
    /// Visits a tree from its root. Resolves to the total of all its nodes. Fails if the pool is
    /// closed before the end, or the root is larger than 60 MiB.
    pub async fn run(&self, root: S) -> Result<S::Total, GridError> {
        self.run_on(PeId(0), root).await
    }

    /// Visits a tree like [`run`](Self::run), beginning on this PE. Fails if there is no such PE.
    pub async fn run_on(&self, pe: PeId, root: S) -> Result<S::Total, GridError> {
        self.0.run(pe, root).await
    }

    /// Visits trees from their roots, and gives their totals as they come. The stream takes more
    /// roots from the iterator as main takes totals, so that a stream of any length takes bounded
    /// memory.
    pub fn stream(
        &self,
        roots: impl IntoIterator<Item = S, IntoIter: Send + 'static>,
    ) -> SearchStream<S> {
        SearchStream::new(Stream::new(self.0.clone(), roots))
    }

    /// Returns the best value of the pool's bound that the first node knows, if there is any.
    /// Visits set it with [`SearchContext::improve`](crate::SearchContext::improve). Values from
    /// visits on that node arrive at once, values from other nodes with a message. The call works
    /// while tasks run, and waits only for the task that the first PE is running. Fails if the pool
    /// is closed.
    pub async fn bound(&self) -> Result<Option<i64>, GridError> {
        self.0.bound().await
    }

    /// Returns counts of the messages that nodes have sent each other so far to share the tasks of
    /// this pool. Fails if the pool is closed.
    pub async fn statistics(&self) -> Result<StealStatistics, GridError> {
        self.0.statistics().await
    }

    /// Frees the workers. Unfinished work is lost; calls that wait for it, or that use a clone of
    /// the pool, fail with [`GridError::PoolClosed`].
    pub fn close(self) {
        self.0.close();
    }
}
