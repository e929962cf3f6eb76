//! The interface between the runtime, which measures and moves actors, and the strategies that
//! decide on their placement.

use crate::plan::Plan;
use crate::snapshot::Snapshot;
use gridspan_topology::LinkChange;

/// Decides on which PEs actors live.
///
/// One node asks a strategy, and all nodes carry out its plan. A strategy reads no clock and does
/// not depend on the runtime: its input is the snapshot, its dice are seeded when it is made, and
/// its state from one call to the next is private. A strategy made with the same seed and asked
/// with the same snapshots gives the same plans.
///
/// ```
/// # use gridspan_balance::{ActorKey, ActorLoad, Edge, PeLoad, Snapshot};
/// # use gridspan_topology::{Layout, PeId};
/// # use std::time::Duration;
/// # let key = |index| ActorKey { collection: 0, index };
/// # let load = Duration::from_millis(100);
/// # let actors = (0..4).map(|index| ActorLoad::new(key(index), PeId(0), load));
/// # let (actors, pes) = (actors.collect(), vec![PeLoad::default(); 2]);
/// # let snapshot = Snapshot::new(actors, vec![], pes, Layout::single(2));
/// use gridspan_balance::{Plan, Strategy};
///
/// /// Spreads actors by their index.
/// struct Spread;
///
/// impl Strategy for Spread {
///     fn name(&self) -> &'static str { "spread" }
///
///     fn plan(&mut self, snapshot: &Snapshot) -> Plan {
///         let pes = u128::from(snapshot.layout.pe_count());
///         Plan::placing(snapshot, |actor| PeId((actor.id.index % pes) as u32))
///     }
/// }
///
/// assert_eq!(Spread.plan(&snapshot).moves.len(), 2);
/// ```
pub trait Strategy: Send {
    /// The name by which users select it. The name `none` means that the strategy never moves
    /// actors; a job then does not measure them.
    fn name(&self) -> &'static str;

    /// Seeds its dice. A job calls this once, with its own seed, before the first plan. Does
    /// nothing by default.
    fn seed(&mut self, _seed: u64) {}

    /// Returns the moves it proposes. For a snapshot that passes [`Snapshot::validate`], the plan
    /// passes [`Plan::validate`] against it.
    fn plan(&mut self, snapshot: &Snapshot) -> Plan;

    /// Returns whether it moves actors to shorten steps, so that a [`Gate`](crate::Gate) may judge
    /// its plans; `false` for strategies that move actors for another purpose, such as tests.
    fn predicts(&self) -> bool {
        true
    }

    /// Returns whether the [leaders](crate::leaders) of the sites should plan instead, so that no
    /// node needs a snapshot of all actors.
    fn is_led(&self) -> bool {
        false
    }

    /// Notifies it that a link between groups of nodes has changed. Does nothing by default.
    fn link_changed(&mut self, _change: &LinkChange) {}
}

/// Makes the strategy of a job: once where the coordinator starts, and again wherever it moves.
///
/// A [`Strategy`] that can be cloned makes copies of itself, and a
/// [`StrategyName`](crate::StrategyName) makes the strategy of that name.
///
/// ```
/// use gridspan_balance::{GridCut, MakeStrategy, Strategy, StrategyName};
///
/// // A value of a program, or the name that a user gives.
/// let chosen: StrategyName = "grid-cut".parse()?;
/// assert_eq!(chosen.make(7).name(), GridCut::default().make(7).name());
/// # Ok::<(), gridspan_balance::UnknownStrategy>(())
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a balancing strategy",
    label = "a strategy is a value, not a name",
    note = "write a value such as `GridCut::default()`; a name that a user gives becomes one by `name.parse::<StrategyName>()?`",
    note = "a custom strategy implements `Strategy`, `Clone` and `Sync`"
)]
pub trait MakeStrategy: Send + Sync + 'static {
    /// Returns the strategy as it is before the first plan, with its dice seeded.
    fn make(&self, seed: u64) -> Box<dyn Strategy>;
}

#[diagnostic::do_not_recommend]
impl<S: Strategy + Clone + Sync + 'static> MakeStrategy for S {
    fn make(&self, seed: u64) -> Box<dyn Strategy> {
        let mut strategy = self.clone();
        strategy.seed(seed);
        Box::new(strategy)
    }
}
