//! `refine`: RefineLB. Makes few moves, after which no PE ends much later than the others.

use crate::plan::Plan;
use crate::snapshot::Snapshot;
use crate::strategies::capacity::Capacity;
use crate::strategies::load_evening::LoadEvening;
use crate::strategies::strategy::Strategy;
use gridspan_topology::PeId;

/// Moves actors from PEs that exceed their share by more than 3 % to those with most room, inside
/// the site first. It considers only loads, speeds and background.
///
/// ```
/// use gridspan_balance::{MakeStrategy, Refine, Strategy};
///
/// assert_eq!(Refine.make(7).name(), "refine"); // with the seed of the job
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct Refine;

/// Maximum ratio of a PE's load to its share.
const SLACK: f64 = 1.03;

impl Strategy for Refine {
    fn name(&self) -> &'static str {
        "refine"
    }

    fn plan(&mut self, snapshot: &Snapshot) -> Plan {
        let capacity = Capacity::of(snapshot);
        let mut pe_of: Vec<u32> = snapshot.actors.iter().map(|actor| actor.pe.0).collect();
        let mut loads = vec![0.0; snapshot.pes.len()];
        let mut items = Vec::new();
        for (at, actor) in snapshot.actors.iter().enumerate() {
            loads[actor.pe.index()] += capacity.works[at] as f64;
            if actor.migratable {
                items.push((capacity.works[at], at as u32));
            }
        }
        LoadEvening {
            pe_of: &mut pe_of,
            items,
            loads,
            targets: capacity.targets(),
            slack: SLACK,
            sites: snapshot.layout.pes().map(|pe| snapshot.layout.site_of(pe).0).collect(),
            may_leave_site: true,
            closed: vec![false; snapshot.pes.len()],
        }
        .run();
        let mapping: Vec<PeId> = pe_of.into_iter().map(PeId).collect();
        Plan::to_mapping(snapshot, &mapping)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::snapshot;

    #[test]
    fn an_even_placement_is_kept() {
        let mut snapshot = snapshot(&[0, 1, 2]);
        snapshot.actors.iter_mut().for_each(|a| a.load = std::time::Duration::from_millis(10));
        snapshot.pes[3].background = std::time::Duration::from_millis(10);

        assert!(Refine.plan(&snapshot).is_empty());
    }

    #[test]
    fn few_actors_leave_a_busy_pe_and_stay_in_its_site_if_they_can() {
        let pes: Vec<u32> = (0..21).map(|n| [0, 0, 2, 3][n % 4]).collect();
        let mut snapshot = snapshot(&pes);
        snapshot.actors.iter_mut().for_each(|a| a.load = std::time::Duration::from_millis(10));
        snapshot.actors[20].load = std::time::Duration::ZERO;

        let plan = Refine.plan(&snapshot);

        assert_eq!(plan.moves.len(), 5);
        assert!(plan.moves.iter().all(|step| (step.from, step.to) == (PeId(0), PeId(1))));
    }
}
