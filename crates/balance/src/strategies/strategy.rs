//! The seam between whoever measures and moves actors, and whoever decides where they should live.

use crate::plan::Plan;
use crate::snapshot::Snapshot;
use gridspan_topology::LinkChange;

/// Decides where actors should live.
///
/// A strategy is asked on one PE and its plan is carried out everywhere. It reads no clock and
/// knows no runtime: what it needs is in the snapshot, its dice are seeded when it is made, and
/// what it remembers from one call to the next is its own. The same strategy made with the same
/// seed and asked with the same snapshots gives the same plans.
pub trait Strategy: Send {
    /// The name by which users ask for it.
    fn name(&self) -> &'static str;

    /// The moves it proposes. For a snapshot that passes [`Snapshot::validate`], the plan passes
    /// [`Plan::validate`] against it.
    fn plan(&mut self, snapshot: &Snapshot) -> Plan;

    /// Whether it moves actors so that steps become shorter, and a [`Gate`](crate::Gate) may judge
    /// that. Those that move for the sake of moving say no.
    fn predicts(&self) -> bool {
        true
    }

    /// Whether a runtime should leave it to the [leaders](crate::leaders) of the sites, so that
    /// nobody needs a snapshot of all.
    fn is_led(&self) -> bool {
        false
    }

    /// A link between groups of nodes is no longer what it was. By default nothing follows.
    fn link_changed(&mut self, _change: &LinkChange) {}
}
