//! `vacate`: moves actors away from PEs that other users' work slows, and back when that ends.
//!
//! Dynamite (Iskra, Hendrikse, van Albada, Overeinder and Sloot (2000), "Performance Measurements
//! on Dynamite/DPVM") moves tasks from loaded nodes to those least loaded at the moment; this makes
//! runs longer where the load moves on or where every other node is already overloaded. Here work
//! goes to the PEs that get most of their processor over a long time, and only as much leaves as
//! foreign load takes away. The strategy starts without knowledge of foreign load, and each plan
//! updates it. The strategy also remembers the former PE of each actor that it moves away. The
//! actor returns once that PE is quiet, if the PE would then be less full than the one on which the
//! actor lives.

use crate::plan::Plan;
use crate::snapshot::{ActorKey, PeLoad, Snapshot};
use crate::strategies::capacity::Capacity;
use crate::strategies::load_evening::LoadEvening;
use crate::strategies::strategy::Strategy;
use gridspan_topology::PeId;
use std::collections::BTreeMap;
use std::time::Duration;

/// Remembers foreign load, and the actors that were moved away from it.
///
/// ```
/// use gridspan_balance::{MakeStrategy, Strategy, Vacate};
///
/// assert_eq!(Vacate::default().make(7).name(), "vacate"); // with the seed of the job
/// ```
#[derive(Clone, Debug, Default)]
pub struct Vacate {
    /// The part of its time that each PE usually loses to foreign load.
    usual: Vec<f64>,
    origins: BTreeMap<ActorKey, PeId>,
}

/// A PE that loses at least this part of its time to foreign load is slowed.
const SLOWED: f64 = 0.10;
/// A PE that loses less than this part of its time is quiet again.
const QUIET: f64 = 0.05;
/// Weight of the latest window in the usual part.
const NEWS: f64 = 0.2;
/// Maximum usual part that counts: the usual part is only an estimate.
const USUAL_MAX: f64 = 0.9;
/// Maximum ratio of a PE's load to its share.
const SLACK: f64 = 1.03;
/// An actor returns only to a PE that is less full by this part.
const BETTER: f64 = 0.03;

impl Strategy for Vacate {
    fn name(&self) -> &'static str {
        "vacate"
    }

    fn plan(&mut self, snapshot: &Snapshot) -> Plan {
        let foreign = self.learn(snapshot);
        let speed = |(pe, usual): (&PeLoad, &f64)| {
            pe.effective_speed().min(pe.speed * (1.0 - usual.min(USUAL_MAX)))
        };
        let speeds: Vec<f64> = snapshot.pes.iter().zip(&self.usual).map(speed).collect();
        let capacity = Capacity::with_speeds(snapshot, &speeds);
        let mut pe_of: Vec<u32> = snapshot.actors.iter().map(|actor| actor.pe.0).collect();
        let mut loads = vec![0.0; snapshot.pes.len()];
        for (at, &pe) in pe_of.iter().enumerate() {
            loads[pe as usize] += capacity.works[at] as f64;
        }
        self.send_back(snapshot, (&foreign, &capacity), &mut pe_of, &mut loads);
        let is_item =
            |at: usize| snapshot.actors[at].migratable && foreign[pe_of[at] as usize] >= SLOWED;
        let items: Vec<(u64, u32)> = (0..pe_of.len())
            .filter(|&at| is_item(at))
            .map(|at| (capacity.works[at], at as u32))
            .collect();
        let sites = snapshot.layout.pes().map(|pe| snapshot.layout.site_of(pe).0).collect();
        let before = pe_of.clone();
        LoadEvening {
            pe_of: &mut pe_of,
            items,
            loads,
            targets: capacity.targets(),
            slack: SLACK,
            sites,
            may_leave_site: true,
            closed: vec![false; snapshot.pes.len()],
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
    /// Returns the part of its time that each PE now loses to foreign load: the part of a processor
    /// that others get, or the measured background if that is greater. Updates the usual parts.
    fn learn(&mut self, snapshot: &Snapshot) -> Vec<f64> {
        let busy = snapshot.load_per_pe();
        let part = |(pe, load): (&PeLoad, &Duration)| {
            let background = pe.background.as_secs_f64();
            let all = background + load.as_secs_f64() + pe.idle.as_secs_f64();
            let waited = if all > 0.0 { background / all } else { 0.0 };
            waited.max(1.0 - pe.available)
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

    /// Moves actors back to a PE that is quiet again, if they are better off there, and forgets
    /// actors that are back or gone.
    fn send_back(
        &mut self,
        snapshot: &Snapshot,
        (foreign, capacity): (&[f64], &Capacity),
        pe_of: &mut [u32],
        loads: &mut [f64],
    ) {
        let targets = capacity.targets();
        let fullness = |load: f64, pe: usize| load / targets[pe].max(f64::MIN_POSITIVE);
        let mut kept = BTreeMap::new();
        for (at, actor) in snapshot.actors.iter().enumerate() {
            let Some(&origin) = self.origins.get(&actor.id) else { continue };
            let is_quiet = foreign.get(origin.index()).is_some_and(|foreign| *foreign < QUIET);
            if !snapshot.layout.contains(origin) || origin == actor.pe {
                continue;
            }
            let (here, there) = (actor.pe.index(), origin.index());
            let work = capacity.works[at] as f64;
            let is_better =
                fullness(loads[there] + work, there) < fullness(loads[here], here) * (1.0 - BETTER);
            if is_quiet && is_better && actor.migratable {
                pe_of[at] = origin.0;
                loads[here] -= work;
                loads[there] += work;
            }
            // The move may not be carried out, so the actor is remembered until it is seen there.
            kept.insert(actor.id, origin);
        }
        self.origins = kept;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::snapshot;

    /// Actors of 10 ms each, one on each of these PEs.
    fn even(pes: &[u32]) -> Snapshot {
        let mut snapshot = snapshot(pes);
        snapshot.actors.iter_mut().for_each(|a| a.load = Duration::from_millis(10));
        snapshot
    }

    fn carry_out(plan: &Plan, snapshot: &mut Snapshot) {
        for step in &plan.moves {
            let moved = snapshot.actors.iter_mut().find(|a| a.id == step.actor).unwrap();
            moved.pe = step.to;
        }
    }

    fn leave_and_return(load: fn(&mut Snapshot, bool)) {
        let mut snapshot = even(&[0, 1, 2, 3, 0, 1, 2, 3, 0, 1, 2, 3]);
        let mut vacate = Vacate::default();
        assert!(vacate.plan(&snapshot).is_empty());
        load(&mut snapshot, true);

        let away = vacate.plan(&snapshot);

        assert!(!away.is_empty() && away.moves.iter().all(|step| step.from == PeId(0)));
        carry_out(&away, &mut snapshot);
        load(&mut snapshot, false);
        // The usual part decreases with each window, and more actors return.
        let mut returned = 0;
        for _ in 0..20 {
            let back = vacate.plan(&snapshot);
            assert!(back.moves.iter().all(|step| step.to == PeId(0)));
            returned += back.moves.len();
            carry_out(&back, &mut snapshot);
        }
        assert_eq!(returned, away.moves.len());
        assert!(vacate.origins.is_empty());
    }

    #[test]
    fn actors_leave_a_pe_with_background_and_return_when_it_is_quiet() {
        leave_and_return(|snapshot, is_loaded| {
            let background = if is_loaded { 30 } else { 0 };
            snapshot.pes[0].background = Duration::from_millis(background);
        });
    }

    #[test]
    fn actors_leave_a_pe_that_shares_its_processor_and_return_when_it_is_free() {
        leave_and_return(|snapshot, is_loaded| {
            snapshot.pes[0].available = if is_loaded { 0.5 } else { 1.0 };
        });
    }

    #[test]
    fn a_return_that_was_not_carried_out_is_proposed_again() {
        let mut snapshot = even(&[0, 1, 2, 3, 0, 1, 2, 3, 0, 1, 2, 3]);
        let mut vacate = Vacate::default();
        snapshot.pes[0].available = 0.5;
        let away = vacate.plan(&snapshot);
        carry_out(&away, &mut snapshot);
        snapshot.pes[0].available = 1.0;

        let proposed = (0..20).map(|_| vacate.plan(&snapshot).moves.len()).last();

        assert_eq!(proposed, Some(away.moves.len()));
    }

    #[test]
    fn a_task_that_has_found_a_free_pe_stays_there() {
        let mut snapshot = even(&[0, 1]);
        let mut vacate = Vacate::default();
        snapshot.pes[0].available = 0.5;
        let away = vacate.plan(&snapshot);
        assert_eq!(away.moves.len(), 1);
        carry_out(&away, &mut snapshot);
        snapshot.pes[0].available = 1.0;

        assert!((0..20).all(|_| vacate.plan(&snapshot).is_empty()));
    }

    #[test]
    fn nothing_moves_if_every_pe_has_a_task_and_little_of_its_processor() {
        // Iskra et al. (2000), table 2, redundant decomposition: three processes on each processor,
        // one more on the first.
        let mut snapshot = even(&[0, 1, 2, 3]);
        for (pe, available) in snapshot.pes.iter_mut().zip([0.25, 0.25, 1.0 / 3.0, 1.0 / 3.0]) {
            pe.available = available;
        }

        assert!(Vacate::default().plan(&snapshot).is_empty());
    }
}
