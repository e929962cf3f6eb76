//! The workers of a pool, from main's side.

use super::engine::Work;
use super::lineage::Repeats;
use super::message::{WorkerMessage, at};
use super::statistics::StealStatistics;
use super::worker::Worker;
use crate::address::id::Sender;
use crate::error::{AskError, GridError};
use crate::job::collection::Collection;
use crate::job::creation::Per;
use crate::job::grid::Grid;
use crate::message::codec;
use crate::message::limits::PIECE_BYTES_MAX;
use crate::pe::Core;
use crate::pe::actor::reference::CollectionRef;
use crate::reduce::Op;
use bytes::Bytes;
use gridspan_topology::{NodeId, PeId};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

/// The timeout of a task: none. If the job ends before the task, the wait ends too.
pub(super) const FOREVER: Duration = Duration::MAX;

/// Workers for one kind of work.
pub(super) struct Pool<W: Work> {
    pub(super) workers: Collection<Worker<W>>,
    pub(super) grid: Grid,
    is_closed: Arc<AtomicBool>,
    reports: Arc<Reports>,
    /// Number of streams so far.
    pub(super) streams: Arc<AtomicU64>,
}

/// Reports of all workers for [`Pool::statistics`].
#[derive(Default)]
struct Reports {
    is_under_way: AtomicBool,
    /// Number of reports whose calls main has dropped. Their results come before those of others.
    given_up: AtomicU32,
}

/// A report under way.
struct Report<'a> {
    reports: &'a Reports,
    /// Number of results that have not come, including the result of this report.
    awaited: u32,
}

impl Drop for Report<'_> {
    fn drop(&mut self) {
        self.reports.given_up.store(self.awaited, Ordering::SeqCst);
        self.reports.is_under_way.store(false, Ordering::SeqCst);
    }
}

impl<W: Work> Clone for Pool<W> {
    fn clone(&self) -> Self {
        let Self { workers, grid, is_closed, reports, streams } = self;
        let (is_closed, streams) = (Arc::clone(is_closed), Arc::clone(streams));
        let reports = Arc::clone(reports);
        Self { workers: workers.clone(), grid: grid.clone(), is_closed, reports, streams }
    }
}

impl<W: Work> Pool<W> {
    /// Makes the workers. `method` is the method with which the job adds the type. If main drops
    /// the future before it resolves, the workers are freed again.
    pub(super) async fn open(grid: &Grid, method: &'static str) -> Result<Self, GridError> {
        let created = grid.create_group_or(Per::Pe, |_| (), close_unclaimed::<W>).await;
        let workers = created.map_err(|error| match error {
            GridError::NotRegistered(_) => {
                GridError::NoSuchTask { name: W::name().to_owned(), method: method.to_owned() }
            }
            other => other,
        })?;
        let (is_closed, reports, streams) = Default::default();
        Ok(Self { workers, grid: grid.clone(), is_closed, reports, streams })
    }

    /// Fails if the pool is closed.
    pub(super) fn check_open(&self) -> Result<(), GridError> {
        if self.is_closed.load(Ordering::SeqCst) { Err(GridError::PoolClosed) } else { Ok(()) }
    }

    /// Runs a root on a PE.
    pub(super) async fn run(&self, pe: PeId, root: W::Item) -> Result<W::Output, GridError> {
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
        let begin = |reply| WorkerMessage::Begin { item, repeats: Repeats::default(), reply };
        let output: Option<Bytes> = worker.ask(FOREVER, begin).await?;
        let output = output.ok_or(GridError::PoolClosed)?;
        let decoded = codec::decode(W::name(), &output);
        decoded.map_err(|error| AskError::from(error).into())
    }

    /// The best value of the bound that the first node knows.
    pub(super) async fn bound(&self) -> Result<Option<i64>, GridError> {
        self.check_open()?;
        let worker = self.workers.member(at(PeId(0)));
        worker.ask(FOREVER, |reply| WorkerMessage::Bound { reply }).await
    }

    /// Counts of the messages that nodes have sent each other so far.
    pub(super) async fn statistics(&self) -> Result<StealStatistics, GridError> {
        self.check_open()?;
        let lost = self.grid.lost_founders().await?;
        // Main may have closed the pool meanwhile; then no worker would report.
        self.check_open()?;
        if !lost.is_empty() || self.reports.is_under_way.swap(true, Ordering::SeqCst) {
            return self.statistics_without(&lost).await;
        }
        let earlier = self.reports.given_up.load(Ordering::SeqCst);
        let mut report = Report { reports: &self.reports, awaited: earlier + 1 };
        self.workers.broadcast(WorkerMessage::Report);
        loop {
            let values: Vec<u64> = self.workers.reduction(Op::Sum).await?;
            report.awaited -= 1;
            if report.awaited == 0 {
                return Ok(StealStatistics::from_slice(&values));
            }
        }
    }

    /// The counts of all nodes but the lost ones. Asks the nodes one by one, since broadcasts and
    /// reductions need all nodes, and only one call at a time can await a reduction.
    async fn statistics_without(
        &self,
        lost: &BTreeSet<NodeId>,
    ) -> Result<StealStatistics, GridError> {
        let layout = self.grid.layout();
        let mut sum: Vec<u64> = Vec::new();
        for node in layout.nodes().filter(|node| !lost.contains(node)) {
            // Main may have closed the pool meanwhile; then the worker would not answer.
            self.check_open()?;
            let worker = self.workers.member(at(layout.leader(node)));
            let counts: Vec<u64> =
                worker.ask(FOREVER, |reply| WorkerMessage::Statistics { reply }).await?;
            sum.resize(sum.len().max(counts.len()), 0);
            sum.iter_mut().zip(counts).for_each(|(sum, count)| *sum = sum.saturating_add(count));
        }
        Ok(StealStatistics::from_slice(&sum))
    }

    /// Frees the workers.
    pub(super) fn close(&self) {
        if self.is_closed.swap(true, Ordering::SeqCst) {
            return;
        }
        // A broadcast might overtake a root that was handed in before, which then would get no
        // answer.
        for pe in (0..self.grid.layout().pe_count()).map(PeId) {
            self.workers.member(at(pe)).send(WorkerMessage::Close);
        }
    }
}

/// Frees the workers of a pool for which main no longer waits.
fn close_unclaimed<W: Work>(core: &mut Core, workers: CollectionRef<Worker<W>>) {
    for pe in (0..core.common.layout.pe_count()).map(PeId) {
        let worker = workers.at(at(pe));
        core.send::<Worker<W>>(Sender::Pe, worker.id, 0, WorkerMessage::Close);
    }
}
