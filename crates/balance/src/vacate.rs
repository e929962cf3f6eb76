//! `vacate`: away from PEs that other users' work slows, and back when that ends.
//!
//! Paper 4 (Dynamite) moves tasks off loaded nodes to those least loaded at the moment, and loses where the load moves on.
//! Following the balance report, section 3, rule 6, work goes to the PEs with the least foreign load over
//! a long time, and only as much leaves as the foreign load takes away. Start: nothing is remembered. Steady state: each plan updates the memory of foreign
//! load. An actor that was moved away is remembered with its PE and returns once that is quiet.

use crate::capacity::Capacity;
use crate::even::Even;
use crate::plan::Plan;
use crate::snapshot::{ActorKey, Snapshot};
use crate::strategy::Strategy;
use gridspan_topology::PeId;
use std::collections::BTreeMap;

/// Remembers foreign load, and who was moved away from it.
#[derive(Clone, Debug, Default)]
pub struct Vacate {
    /// The usual part of the time that each PE spends on foreign load.
    usual: Vec<f64>,
    origins: BTreeMap<ActorKey, PeId>,
}

/// A PE is slowed when foreign load takes this part of its time.
const SLOWED: f64 = 0.10;
/// And quiet again below this.
const QUIET: f64 = 0.05;
/// How much the latest window counts in what is usual.
const NEWS: f64 = 0.2;
/// How much more than its share a PE may have.
const SLACK: f64 = 1.03;

impl Strategy for Vacate {
    fn name(&self) -> &'static str {
        "vacate"
    }

    fn plan(&mut self, snapshot: &Snapshot) -> Plan {
        let foreign = self.learn(snapshot);
        let capacity = Capacity::of(snapshot);
        let mut pe_of: Vec<u32> = snapshot.actors.iter().map(|actor| actor.pe.0).collect();
        self.send_back(snapshot, &foreign, &mut pe_of);
        let mut loads = vec![0.0; snapshot.pes.len()];
        for (at, &pe) in pe_of.iter().enumerate() {
            loads[pe as usize] += capacity.works[at] as f64;
        }
        let is_item =
            |at: usize| snapshot.actors[at].migratable && foreign[pe_of[at] as usize] >= SLOWED;
        let items: Vec<(u64, u32)> = (0..pe_of.len())
            .filter(|&at| is_item(at))
            .map(|at| (capacity.works[at], at as u32))
            .collect();
        let sites = snapshot.layout.pes().map(|pe| snapshot.layout.site_of(pe).0).collect();
        let before = pe_of.clone();
        Even {
            pe_of: &mut pe_of,
            items,
            loads,
            targets: capacity.targets(),
            slack: SLACK,
            sites,
            may_leave_site: true,
            closed: self.usual.iter().map(|&usual| usual >= SLOWED).collect(),
        }
        .run();
        for (at, actor) in snapshot.actors.iter().enumerate() {
            if pe_of[at] != before[at] {
                self.origins.entry(actor.id).or_insert(PeId(before[at]));
            }
        }
        let mapping: Vec<PeId> = pe_of.into_iter().map(PeId).collect();
        Plan::to_mapping(snapshot, &mapping)
    }
}

impl Vacate {
    /// The part of its time that each PE now spends on foreign load. Updates what is usual.
    fn learn(&mut self, snapshot: &Snapshot) -> Vec<f64> {
        let busy = snapshot.load_per_pe();
        let part = |(pe, load): (&crate::snapshot::PeLoad, &std::time::Duration)| {
            let foreign = pe.background.as_secs_f64();
            let all = foreign + load.as_secs_f64() + pe.idle.as_secs_f64();
            if all > 0.0 { foreign / all } else { 0.0 }
        };
        let foreign: Vec<f64> = snapshot.pes.iter().zip(&busy).map(part).collect();
        if self.usual.len() != foreign.len() {
            self.usual = vec![0.0; foreign.len()];
        }
        for (usual, now) in self.usual.iter_mut().zip(&foreign) {
            *usual += NEWS * (now - *usual);
        }
        foreign
    }

    /// Returns those whose PE is quiet again, and forgets who is back or gone.
    fn send_back(&mut self, snapshot: &Snapshot, foreign: &[f64], pe_of: &mut [u32]) {
        let mut kept = BTreeMap::new();
        for (at, actor) in snapshot.actors.iter().enumerate() {
            let Some(&origin) = self.origins.get(&actor.id) else { continue };
            let is_quiet = foreign.get(origin.index()).is_some_and(|foreign| *foreign < QUIET);
            if !snapshot.layout.contains(origin) || origin == actor.pe {
                continue;
            }
            if is_quiet && actor.migratable {
                pe_of[at] = origin.0;
            } else {
                kept.insert(actor.id, origin);
            }
        }
        self.origins = kept;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::snapshot;
    use std::time::Duration;

    #[test]
    fn actors_leave_a_slowed_pe_and_return_when_it_is_quiet() {
        let mut snapshot = snapshot(&[0, 1, 2, 3, 0, 1, 2, 3, 0, 1, 2, 3]);
        snapshot.actors.iter_mut().for_each(|a| a.load = Duration::from_millis(10));
        let mut vacate = Vacate::default();
        assert!(vacate.plan(&snapshot).is_empty());
        snapshot.pes[0].background = Duration::from_millis(30);

        let away = vacate.plan(&snapshot);

        assert!(!away.is_empty() && away.moves.iter().all(|step| step.from == PeId(0)));
        for step in &away.moves {
            let moved = snapshot.actors.iter_mut().find(|a| a.id == step.actor).unwrap();
            moved.pe = step.to;
        }
        snapshot.pes[0].background = Duration::ZERO;
        assert_eq!(vacate.plan(&snapshot).moves.len(), away.moves.len());
        assert!(vacate.origins.is_empty());
    }
}
