//! `rotate`: moves every actor to the next PE. It balances nothing; it tests migration.

use crate::plan::Plan;
use crate::snapshot::Snapshot;
use crate::strategies::strategy::Strategy;
use gridspan_topology::PeId;

/// Moves every migratable actor to the next PE, and from the last PE to the first.
///
/// ```
/// use gridspan_balance::{MakeStrategy, Rotate, Strategy};
///
/// assert_eq!(Rotate.make(7).name(), "rotate"); // with the seed of the job
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct Rotate;

impl Strategy for Rotate {
    fn name(&self) -> &'static str {
        "rotate"
    }

    fn predicts(&self) -> bool {
        false
    }

    fn plan(&mut self, snapshot: &Snapshot) -> Plan {
        let last = snapshot.layout.pe_count().saturating_sub(1);
        Plan::placing(snapshot, |actor| PeId(if actor.pe.0 < last { actor.pe.0 + 1 } else { 0 }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::snapshot;
    use crate::snapshot::PeLoad;
    use gridspan_topology::Layout;

    #[test]
    fn migratable_actors_move_to_the_next_pe_and_from_the_last_to_the_first() {
        // The last actor cannot migrate.
        let snapshot = snapshot(&[0, 1, 3, 2, 2]);

        let mapping = Rotate.plan(&snapshot).mapping(&snapshot);

        assert_eq!(mapping, Ok([1, 2, 0, 3, 2].map(PeId).to_vec()));
    }

    #[test]
    fn on_a_single_pe_nothing_moves() {
        let mut snapshot = snapshot(&[0, 0, 0]);
        snapshot.layout = Layout::single(1);
        snapshot.pes = vec![PeLoad::default()];

        assert!(Rotate.plan(&snapshot).is_empty());
    }
}
