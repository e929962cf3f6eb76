//! How main hands in a root task, and gets what comes of it.

use super::engine::Work;
use super::order::{Order, at};
use super::{Joining, Search, Searching, StealStatistics, Task, Worker};
use crate::error::{AskError, GridError};
use crate::grid::{Collection, Grid, Per};
use crate::limits::PIECE_BYTES_MAX;
use crate::reduce::Op;
use crate::{Job, codec};
use bytes::Bytes;
use gridspan_topology::PeId;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// A task takes as long as it takes; if the job ends before, the wait does too.
const FOREVER: Duration = Duration::MAX;

/// Workers for tasks of one type, one on each PE.
///
/// Before tasks are made long or large:
/// - A PE runs one task to its end before it does anything else. Other nodes need not wait for that: tasks that wait
///   lie open, all but the next one where they take more than 10 µs. What a task spawns lies open once it has run.
/// - Messages of all priorities come before tasks.
/// - Tasks that wait are no messages, so [`Limits`](crate::Limits) do not bound them. A PE takes the newest
///   first, and so has about as many as the depth of the tree times the children of a task.
/// - A task of more than 60 MiB is not given to other nodes, and an output of more than that cannot be sent to
///   one, which ends the job.
/// - The job is not quiescent as long as a root is not done.
pub struct TaskPool<T: Task>(Pool<Joining<T>>);

/// Workers for searches of one type, one on each PE. What [`TaskPool`] says of tasks is so for nodes of the
/// tree too.
pub struct SearchPool<S: Search>(Pool<Searching<S>>);

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
        self.actor::<Worker<Joining<T>>>()
    }

    /// Adds a type of searches.
    pub fn search<S: Search>(self) -> Self {
        self.actor::<Worker<Searching<S>>>()
    }
}

impl Grid {
    /// Opens a pool for tasks of a type, which the job has added with [`Job::tasks`].
    pub async fn task_pool<T: Task>(&self) -> Result<TaskPool<T>, GridError> {
        Ok(TaskPool(Pool::open(self, "tasks").await?))
    }

    /// Opens a pool for searches of a type, which the job has added with [`Job::search`].
    pub async fn search_pool<S: Search>(&self) -> Result<SearchPool<S>, GridError> {
        Ok(SearchPool(Pool::open(self, "search").await?))
    }

    /// Runs a task and all that it spawns, in a pool of their own. Resolves to its output.
    pub async fn run_tasks<T: Task>(&self, root: T) -> Result<T::Output, GridError> {
        let pool = self.task_pool().await?;
        let output = pool.run(root).await;
        pool.close();
        output
    }

    /// Visits a tree from its root, in a pool of its own. Resolves to the total of all its nodes.
    pub async fn run_search<S: Search>(&self, root: S) -> Result<S::Total, GridError> {
        let pool = self.search_pool().await?;
        let total = pool.run(root).await;
        pool.close();
        total
    }
}

impl<T: Task> TaskPool<T> {
    /// Runs a task and all that it spawns. Resolves to its output.
    pub async fn run(&self, root: T) -> Result<T::Output, GridError> {
        self.run_on(PeId(0), root).await
    }

    /// The same, beginning on a PE of choice. Fails if there is no such PE.
    pub async fn run_on(&self, pe: PeId, root: T) -> Result<T::Output, GridError> {
        self.0.run(pe, root).await
    }

    /// What nodes have told each other so far to share the tasks of this pool.
    pub async fn statistics(&self) -> Result<StealStatistics, GridError> {
        self.0.statistics().await
    }

    /// Frees the workers. What they still have to do is lost; who waits for it, or asks for more through a
    /// clone of the pool, gets [`GridError::PoolClosed`].
    pub fn close(self) {
        self.0.close();
    }
}

impl<S: Search> SearchPool<S> {
    /// Visits a tree from its root. Resolves to the total of all its nodes.
    pub async fn run(&self, root: S) -> Result<S::Total, GridError> {
        self.run_on(PeId(0), root).await
    }

    /// The same, beginning on a PE of choice. Fails if there is no such PE.
    pub async fn run_on(&self, pe: PeId, root: S) -> Result<S::Total, GridError> {
        self.0.run(pe, root).await
    }

    /// What nodes have told each other so far to share the tasks of this pool.
    pub async fn statistics(&self) -> Result<StealStatistics, GridError> {
        self.0.statistics().await
    }

    /// Frees the workers. What they still have to do is lost; who waits for it, or asks for more through a
    /// clone of the pool, gets [`GridError::PoolClosed`].
    pub fn close(self) {
        self.0.close();
    }
}

/// Workers for one kind of work.
struct Pool<W: Work> {
    workers: Collection<Worker<W>>,
    grid: Grid,
    is_closed: Arc<AtomicBool>,
}

impl<W: Work> Clone for Pool<W> {
    fn clone(&self) -> Self {
        let Self { workers, grid, is_closed } = self;
        let (workers, grid) = (workers.clone(), grid.clone());
        Self { workers, grid, is_closed: Arc::clone(is_closed) }
    }
}

impl<W: Work> Pool<W> {
    /// `method`: with which the job adds the type.
    async fn open(grid: &Grid, method: &'static str) -> Result<Self, GridError> {
        let created = grid.create_group(Per::Pe, |_| ()).await;
        let workers = created.map_err(|error| match error {
            GridError::NotRegistered(_) => GridError::NoSuchTask { name: W::name(), method },
            other => other,
        })?;
        Ok(Self { workers, grid: grid.clone(), is_closed: Arc::default() })
    }

    fn check_open(&self) -> Result<(), GridError> {
        if self.is_closed.load(Ordering::SeqCst) { Err(GridError::PoolClosed) } else { Ok(()) }
    }

    async fn run(&self, pe: PeId, root: W::Item) -> Result<W::Output, GridError> {
        self.check_open()?;
        let layout = self.grid.layout();
        if !layout.contains(pe) {
            return Err(GridError::NoSuchPe { pe, pes: layout.pe_count() });
        }
        let item: Bytes = codec::encode(&root).into();
        if item.len() > PIECE_BYTES_MAX {
            return Err(GridError::TooLarge { bytes: item.len(), limit: PIECE_BYTES_MAX });
        }
        let worker = self.workers.member(at(pe));
        let output: Option<Bytes> =
            worker.ask(FOREVER, |reply| Order::Begin { item, reply }).await?;
        let output = output.ok_or(GridError::PoolClosed)?;
        let decoded = codec::decode(W::name(), &output);
        decoded.map_err(|error| AskError::Malformed(error.to_string()).into())
    }

    async fn statistics(&self) -> Result<StealStatistics, GridError> {
        self.check_open()?;
        self.workers.broadcast(Order::Report);
        let values: Vec<u64> = self.workers.reduction(Op::Sum).await?;
        Ok(StealStatistics::from_slice(&values))
    }

    fn close(&self) {
        if self.is_closed.swap(true, Ordering::SeqCst) {
            return;
        }
        // A broadcast might overtake a root that was handed in before, and nobody would answer for that.
        for pe in (0..self.grid.layout().pe_count()).map(PeId) {
            self.workers.member(at(pe)).send(Order::Close);
        }
    }
}
