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

/// A result that is assembled from parts, in any order and grouping.
///
/// ```
/// use gridspan::Merge;
///
/// /// Counts nodes, and keeps the greatest depth.
/// #[derive(Default, Debug, PartialEq)]
/// struct Seen { nodes: u64, depth: u32 }
///
/// impl Merge for Seen {
///     fn merge(&mut self, other: Self) {
///         self.nodes += other.nodes;
///         self.depth = self.depth.max(other.depth);
///     }
/// }
///
/// let mut seen = Seen { nodes: 3, depth: 2 };
/// seen.merge(Seen { nodes: 1, depth: 5 });
/// assert_eq!(seen, Seen { nodes: 4, depth: 5 });
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be the total of a search",
    label = "this type does not implement `Merge`",
    note = "write `impl Merge for {Self}`, which adds another part to this one; a number needs a struct around it"
)]
pub trait Merge: Default {
    /// Adds another part. Must be associative and commutative, with the default as the neutral
    /// element.
    fn merge(&mut self, other: Self);
}

/// A node of a tree that is searched. Nodes have no separate results: each adds to the total.
///
/// A node may be visited more than once, like a [`Task`](crate::Task) that runs more than once; it
/// counts once.
///
/// ```
/// # use gridspan::{embed::Runner, prelude::*};
/// # #[derive(Default, Serialize, Deserialize)]
/// # struct Count(u64);
/// # impl Merge for Count {
/// #     fn merge(&mut self, other: Self) { self.0 += other.0 }
/// # }
/// /// A node of a binary tree.
/// #[derive(Serialize, Deserialize)]
/// struct Node { height: u32 }
///
/// impl Search for Node {
///     type Total = Count;
///
///     fn visit(self, cx: &mut SearchContext<'_, Self>) {
///         cx.total().0 += 1;
///         if self.height > 0 {
///             cx.spawn(Node { height: self.height - 1 });
///             cx.spawn(Node { height: self.height - 1 });
///         }
///     }
/// }
/// # let job = Job::new("tree").search::<Node>().main(async |grid: Grid| {
/// let nodes = grid.run_search(Node { height: 4 }).await?;
/// assert_eq!(nodes.0, 31);
/// # Ok(())
/// # });
/// # Runner::on_threads(2).run(job).unwrap();
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a search",
    label = "this type does not implement `Search`",
    note = "write `impl Search for {Self}`; for tasks that each have a result, `impl Task for {Self}` and `Job::tasks`"
)]
pub trait Search: Serialize + DeserializeOwned + Send + 'static {
    /// The total that all nodes add to.
    type Total: Merge + Serialize + DeserializeOwned + Send + 'static;

    /// Which values of the pool's shared bound are better; see [`SearchContext::improve`].
    const GOAL: Goal = Goal::Maximise;

    /// Visits the node: adds to the total, and spawns its children.
    fn visit(self, cx: &mut SearchContext<'_, Self>);
}

/// The actions of a node while it is visited.
///
/// ```
/// # use gridspan::{embed::Runner, prelude::*};
/// # #[derive(Default, Serialize, Deserialize)]
/// # struct Nothing;
/// # impl Merge for Nothing {
/// #     fn merge(&mut self, _other: Self) {}
/// # }
/// /// A path of steps of 3 or 4, which ends at 10 or beyond.
/// #[derive(Serialize, Deserialize)]
/// struct Path { length: i64 }
///
/// impl Search for Path {
///     # type Total = Nothing;
///     # const GOAL: gridspan::Goal = gridspan::Goal::Minimise;
///     fn visit(self, cx: &mut SearchContext<'_, Self>) {
///         match self.length {
///             length if cx.bound().is_some_and(|best| length >= best) => {}
///             length if length >= 10 => drop(cx.improve(length)),
///             length => [3, 4].iter().for_each(|step| cx.spawn(Path { length: length + step })),
///         }
///     }
/// }
/// # let job = Job::new("shortest").search::<Path>().main(async |grid: Grid| {
/// # let pool = grid.search_pool().await?;
/// # pool.run(Path { length: 0 }).await?;
/// # assert_eq!(pool.bound().await?, Some(10));
/// # Ok(())
/// # });
/// # Runner::on_threads(2).run(job).unwrap();
/// ```
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

    /// Returns the part of the total to which this visit adds.
    #[inline]
    pub fn total(&mut self) -> &mut S::Total {
        self.total
    }

    /// Returns the best value of this pool's bound that is known here, if there is any. A better
    /// value that a visit on another node of the job has found may be missing for some milliseconds
    /// plus the latency between sites.
    ///
    /// A visit that repeats work, as a backup or because a node of the job is lost, sees a value
    /// that is worse by one, so that it finds equal values again. So prune only what is not better
    /// than this value, and add each value that the visit finds to the total.
    #[inline]
    pub fn bound(&self) -> Option<i64> {
        self.bound.seen_by(self.lineage)
    }

    /// Improves the bound of this pool if `value` is better by [`Search::GOAL`] than the value
    /// known here. Returns whether it is. All visits in the pool share the bound, whichever root
    /// they are below. Visits on this node of the job see the value at once, visits on other nodes
    /// when a message has brought it, also while they run. In virtual time, a visit does not see
    /// values that other visits find meanwhile.
    ///
    /// The worst value cannot be recorded, since it means that there is none: `i64::MIN` where
    /// larger values are better, `i64::MAX` where smaller ones are. For that value the result is
    /// `false`.
    pub fn improve(&mut self, value: i64) -> bool {
        let at = self.now + Duration::from_nanos(*self.charged_ns);
        self.bound.improve(value, at, self.lineage)
    }

    /// The PE that visits this node.
    pub fn pe(&self) -> PeId {
        self.pe
    }

    /// The time since the job began, as of the beginning of the PE's turn.
    pub fn now(&self) -> Time {
        self.now
    }

    /// Makes the visit take `time` longer in virtual time.
    #[inline]
    pub fn charge(&mut self, time: Duration) {
        let time_ns = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        *self.charged_ns = self.charged_ns.saturating_add(time_ns);
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

    fn so_far(total: &S::Total) -> Option<&S::Total> {
        Some(total)
    }

    #[inline]
    fn run(engine: &mut Engine<Self>, node: S, id: FrameId, _child: u32) {
        let Engine { frames, kept, charged_ns, failure, pe, now, lineage, bound, .. } = engine;
        // A frame exists as long as one of its items does.
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

/// Passes on the total of a frame when all its items are done.
fn conclude<S: Search>(engine: &mut Engine<Searching<S>>, id: FrameId) {
    let Some(frame) = engine.frames.release(id) else { return };
    engine.finished.push(match frame.up {
        Up::Lender(borrowed) => Finished::Loan(borrowed.lender, frame.state),
        Up::Root(root) => Finished::Root(root, frame.state),
        // Searches open frames for loans and roots only.
        Up::Frame(..) => return,
    });
}
