//! Searches: trees whose nodes add to one total.

use super::bound::{Goal, LocalBound};
use super::engine::{Engine, Finished, Work};
use super::frame::{FrameId, QueuedTask, Up};
use super::lineage::LineageId;
use gridspan_topology::{PeId, Time};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::any::type_name;
use std::marker::PhantomData;
use std::time::Duration;

/// A result that is put together from parts, in any order and grouping.
pub trait Merge: Default {
    /// Adds another part. Must be associative and commutative, with the default as neutral element.
    fn merge(&mut self, other: Self);
}

/// A node of a tree that is searched. Nodes have no results of their own: each adds to the total,
/// and nobody waits for a single one.
///
/// A node may be visited more than once, like a [`Task`](crate::Task) that runs more than once; it
/// counts once.
pub trait Search: Serialize + DeserializeOwned + Send + 'static {
    /// What all nodes add to.
    type Total: Merge + Serialize + DeserializeOwned + Send + 'static;

    /// Which values of the pool's shared bound are better; see [`SearchContext::improve`].
    const GOAL: Goal = Goal::Maximise;

    /// Visits the node: adds to the total, and spawns its children.
    fn visit(self, cx: &mut SearchContext<'_, Self>);
}

/// What a node can do while it is visited.
pub struct SearchContext<'a, S: Search> {
    kept: &'a mut Vec<QueuedTask<S>>,
    frame: FrameId,
    lineage: LineageId,
    total: &'a mut S::Total,
    charged_ns: &'a mut u64,
    failure: &'a mut Option<String>,
    bound: &'a mut LocalBound,
    pe: PeId,
    now: Time,
}

impl<S: Search> SearchContext<'_, S> {
    /// Adds a child to the tree. It is visited here after this node, the newest first, or wherever
    /// it is stolen to.
    #[inline]
    pub fn spawn(&mut self, node: S) {
        let Self { frame, lineage, .. } = *self;
        self.kept.push(QueuedTask { item: node, frame, child: 0, lineage });
    }

    /// A part of the total, to add to.
    #[inline]
    pub fn total(&mut self) -> &mut S::Total {
        self.total
    }

    /// The best value of the bound of this pool that is known here, if there is any. It may be some
    /// milliseconds and a crossing old, never better than what some task has found.
    #[inline]
    pub fn bound(&self) -> Option<i64> {
        self.bound.value()
    }

    /// Improves the bound of this pool, if `value` is better by [`Search::GOAL`] than what is known
    /// here; returns whether it is. All nodes visited in the pool share it, whichever root they are
    /// below. Those visited on this node of the job see it at once, others when a message has
    /// brought it, also during a visit. In virtual time, a visit sees what others find when it is
    /// over.
    ///
    /// The worst of all values cannot be recorded, since it stands for none: `i64::MIN` where
    /// larger values are better, `i64::MAX` where smaller ones are. For those the answer is
    /// `false`.
    pub fn improve(&mut self, value: i64) -> bool {
        self.bound.improve(value, self.now + Duration::from_nanos(*self.charged_ns))
    }

    /// The PE that visits this node.
    pub fn pe(&self) -> PeId {
        self.pe
    }

    /// The time since the job began, as it was when the PE's turn began.
    pub fn now(&self) -> Time {
        self.now
    }

    /// Takes so much longer in virtual time.
    #[inline]
    pub fn charge(&mut self, time: Duration) {
        *self.charged_ns = self.charged_ns.saturating_add(time.as_nanos() as u64);
    }

    /// Ends the job with an error.
    pub fn fail(&mut self, reason: impl Into<String>) {
        self.failure.get_or_insert(reason.into());
    }
}

/// Searches of one type as work.
pub(crate) struct Searching<S>(PhantomData<fn() -> S>);

impl<S: Search> Work for Searching<S> {
    type Item = S;
    type Output = S::Total;
    type State = S::Total;

    const GOAL: Goal = S::GOAL;
    const SHARES_LOANS: bool = true;

    fn name() -> &'static str {
        type_name::<S>()
    }

    fn nothing() -> Option<S::Total> {
        Some(S::Total::default())
    }

    fn loan() -> S::Total {
        S::Total::default()
    }

    #[inline]
    fn run(engine: &mut Engine<Self>, node: S, id: FrameId, _child: u32) {
        let Engine { frames, kept, charged_ns, failure, pe, now, lineage, bound, .. } = engine;
        // A frame is there as long as one of its items is.
        let Some(frame) = frames.get(id) else { return };
        let before = kept.len();
        let total = &mut frame.state;
        let (pe, now, lineage) = (*pe, *now, *lineage);
        node.visit(&mut SearchContext {
            kept,
            frame: id,
            lineage,
            total,
            charged_ns,
            failure,
            bound,
            pe,
            now,
        });
        frame.pending += (kept.len() - before) as u64;
        frame.pending -= 1;
        if frame.pending == 0 {
            conclude(engine, id);
        }
    }

    fn report(engine: &mut Engine<Self>, id: FrameId, _child: u32, items: u64, total: S::Total) {
        let Some(frame) = engine.frames.get(id) else { return };
        frame.state.merge(total);
        frame.pending -= items.min(frame.pending);
        if frame.pending == 0 {
            conclude(engine, id);
        }
    }
}

/// Passes on the total of a frame whose items are all done.
fn conclude<S: Search>(engine: &mut Engine<Searching<S>>, id: FrameId) {
    let Some(frame) = engine.frames.release(id) else { return };
    engine.finished.push(match frame.up {
        Up::Lender(borrowed) => Finished::Loan(borrowed.lender, frame.state),
        Up::Root(root) => Finished::Root(root, frame.state),
        // Searches open no frames but loans and roots.
        Up::Frame(..) => return,
    });
}
