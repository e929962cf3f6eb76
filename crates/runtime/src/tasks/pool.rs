//! How main hands in a root task, and gets what comes of it.

use super::work::Work;
use super::worker::{Order, at};
use super::{Joining, Search, Searching, StealStatistics, Task, Worker};
use crate::error::{AskError, GridError};
use crate::grid::{Collection, Grid, Per};
use crate::reduce::Op;
use crate::{Job, codec};
use bytes::Bytes;
use gridspan_topology::PeId;
use std::time::Duration;

/// A task takes as long as it takes; if the job ends before, the wait does too.
const FOREVER: Duration = Duration::MAX;

/// Workers for tasks of one type, one on each PE.
pub struct TaskPool<T: Task>(Collection<Worker<Joining<T>>>);

/// Workers for searches of one type, one on each PE.
pub struct SearchPool<S: Search>(Collection<Worker<Searching<S>>>);

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
        Ok(TaskPool(self.create_group(Per::Pe, |_| ()).await?))
    }

    /// Opens a pool for searches of a type, which the job has added with [`Job::search`].
    pub async fn search_pool<S: Search>(&self) -> Result<SearchPool<S>, GridError> {
        Ok(SearchPool(self.create_group(Per::Pe, |_| ()).await?))
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

    /// The same, beginning on a PE of choice.
    pub async fn run_on(&self, pe: PeId, root: T) -> Result<T::Output, GridError> {
        run(&self.0, pe, root).await
    }

    /// What nodes have told each other so far to share the tasks of this pool.
    pub async fn statistics(&self) -> Result<StealStatistics, GridError> {
        statistics(&self.0).await
    }

    /// Frees the workers. What they still have to do is lost.
    pub fn close(self) {
        self.0.broadcast(Order::Close);
    }
}

impl<S: Search> SearchPool<S> {
    /// Visits a tree from its root. Resolves to the total of all its nodes.
    pub async fn run(&self, root: S) -> Result<S::Total, GridError> {
        self.run_on(PeId(0), root).await
    }

    /// The same, beginning on a PE of choice.
    pub async fn run_on(&self, pe: PeId, root: S) -> Result<S::Total, GridError> {
        run(&self.0, pe, root).await
    }

    /// What nodes have told each other so far to share the tasks of this pool.
    pub async fn statistics(&self) -> Result<StealStatistics, GridError> {
        statistics(&self.0).await
    }

    /// Frees the workers. What they still have to do is lost.
    pub fn close(self) {
        self.0.broadcast(Order::Close);
    }
}

async fn run<W: Work>(
    workers: &Collection<Worker<W>>,
    pe: PeId,
    root: W::Item,
) -> Result<W::Output, GridError> {
    let item: Bytes = codec::encode(&root).into();
    let worker = workers.member(at(pe));
    let output: Bytes = worker.ask(FOREVER, |reply| Order::Begin { item, reply }).await?;
    codec::decode(W::name(), &output).map_err(|error| AskError::Malformed(error.to_string()).into())
}

async fn statistics<W: Work>(
    workers: &Collection<Worker<W>>,
) -> Result<StealStatistics, GridError> {
    workers.broadcast(Order::Report);
    let values: Vec<u64> = workers.reduction(Op::Sum).await?;
    Ok(StealStatistics::from_slice(&values))
}
