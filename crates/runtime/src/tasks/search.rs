//! Searches: trees whose nodes add to one total.

use super::engine::{Engine, Finished};
use super::frame::{FrameId, Up};
use super::work::Work;
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

/// A node of a tree that is searched. Nodes have no results of their own: each adds to the total, and
/// nobody waits for a single one.
pub trait Search: Serialize + DeserializeOwned + Send + 'static {
    /// What all nodes add to.
    type Total: Merge + Serialize + DeserializeOwned + Send + 'static;

    /// Visits the node: adds to the total, and spawns its children.
    fn visit(self, cx: &mut SearchContext<'_, Self>);
}

/// What a node can do while it is visited.
pub struct SearchContext<'a, S: Search> {
    engine: &'a mut Engine<Searching<S>>,
    frame: FrameId,
    children: u64,
}

impl<S: Search> SearchContext<'_, S> {
    /// Adds a child to the tree. It is visited here after this node, the newest first, or wherever it
    /// is stolen to.
    #[inline]
    pub fn spawn(&mut self, node: S) {
        self.engine.push(node, self.frame, 0);
        self.children += 1;
    }

    /// Adds to the total.
    #[inline]
    pub fn add(&mut self, add: impl FnOnce(&mut S::Total)) {
        // A frame is there as long as one of its items is.
        if let Some(frame) = self.engine.frames.get(self.frame) {
            add(&mut frame.state);
        }
    }

    /// The PE that visits this node.
    pub fn pe(&self) -> PeId {
        self.engine.pe
    }

    /// The time since the job began, as it was when the PE's turn began.
    pub fn now(&self) -> Time {
        self.engine.now
    }

    /// Takes so much longer in virtual time.
    pub fn charge(&mut self, time: Duration) {
        self.engine.charged += time;
    }

    /// Ends the job with an error.
    pub fn fail(&mut self, reason: impl Into<String>) {
        self.engine.fail(reason.into());
    }
}

/// Searches of one type as work.
pub(crate) struct Searching<S>(PhantomData<fn() -> S>);

impl<S: Search> Work for Searching<S> {
    type Item = S;
    type Output = S::Total;
    type State = S::Total;

    const SHARES_LOANS: bool = true;

    fn name() -> &'static str {
        type_name::<S>()
    }

    fn loan() -> S::Total {
        S::Total::default()
    }

    #[inline]
    fn run(engine: &mut Engine<Self>, node: S, frame: FrameId, _child: u32) {
        let mut cx = SearchContext { engine, frame, children: 0 };
        node.visit(&mut cx);
        let children = cx.children;
        note(engine, frame, 1, |frame| frame.pending += children);
    }

    fn report(engine: &mut Engine<Self>, id: FrameId, _child: u32, items: u64, total: S::Total) {
        note(engine, id, items, |frame| frame.state.merge(total));
    }
}

/// Notes that some items of a frame are done, and passes its total on if they were the last.
#[inline]
fn note<S: Search>(
    engine: &mut Engine<Searching<S>>,
    id: FrameId,
    items: u64,
    change: impl FnOnce(&mut super::frame::Frame<S::Total>),
) {
    let Some(frame) = engine.frames.get(id) else { return };
    change(frame);
    frame.pending -= items.min(frame.pending);
    if frame.pending > 0 {
        return;
    }
    let Some(frame) = engine.frames.release(id) else { return };
    engine.finished.push(match frame.up {
        Up::Lender(lender) => Finished::Loan(lender, frame.state),
        Up::Root(root) => Finished::Root(root, frame.state),
        // Searches open no frames but loans and roots.
        Up::Frame(..) => return,
    });
}
