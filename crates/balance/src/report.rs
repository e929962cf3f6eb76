//! Effects of a plan, in numbers and reasons: for `gridctl balance replay` and for logs.

use crate::cost::replicas::predict_with;
use crate::cost::{CostModel, Prediction};
use crate::plan::{Plan, PlanError};
use crate::snapshot::{ActorKey, Snapshot};
use crate::strategies::capacity::Capacity;
use gridspan_topology::PeId;
use serde::{Deserialize, Serialize};

/// A plan compared with no change.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PlanReport {
    /// Prediction for the present placement.
    pub before: Prediction,
    /// Prediction for the placement after the plan.
    pub after: Prediction,
    /// Number of actors that move.
    pub migrations: u64,
    /// Number of these that change their site.
    pub migrations_between_sites: u64,
    /// Bytes of state that move.
    pub bytes_moved: u64,
    /// Bytes of these that move between sites.
    pub bytes_between_sites: u64,
    /// Reason for each move, in the order of the plan.
    pub explanations: Vec<Explanation>,
}

/// Reason for one move.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Explanation {
    /// The actor.
    pub actor: ActorKey,
    /// The PE on which it lives.
    pub from: PeId,
    /// The PE on which it will live.
    pub to: PeId,
    /// Main reason for the move.
    pub reason: Reason,
    /// Decrease of its messages between sites, once all moves are done; negative if they become
    /// more. A message counts at both of its ends.
    pub wide_area_saved: i64,
    /// Decrease of its messages between PEs, counted in the same way.
    pub between_pes_saved: i64,
    /// Load of its PE, relative to the PE's fair share.
    pub from_fullness: f64,
    /// Load of its new PE before the moves, relative to that PE's fair share.
    pub to_fullness: f64,
    /// Bytes of its state.
    pub bytes: u64,
}

/// Main reason for a move; the first that applies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Reason {
    /// Work that cannot be moved slows its PE.
    ForeignLoad,
    /// Fewer of its messages cross sites.
    FewerWideAreaMessages,
    /// Its PE has more than its share, and more than the PE to which it moves.
    BusyPe,
    /// Fewer of its messages leave their PE.
    FewerMessages,
    /// None of these: it makes room for another actor, or spreads actors that wait for other sites.
    MakesRoom,
}

/// Fullness from which a PE has more than its share.
const BUSY: f64 = 1.03;
/// The PE is slowed if its background takes more than this share of the time of its actors.
const SLOWED: f64 = 0.10;

impl PlanReport {
    /// Reports the effects of `plan` on `snapshot`, as predicted by `model`.
    ///
    /// # Errors
    ///
    /// [`PlanError`] if the moves do not fit the snapshot.
    pub fn of(snapshot: &Snapshot, plan: &Plan, model: &CostModel) -> Result<Self, PlanError> {
        let now: Vec<PeId> = snapshot.actors.iter().map(|actor| actor.pe).collect();
        let then = plan.mapping(snapshot)?;
        let explanations = Explainer::new(snapshot, &then).explain(plan);
        let site = |pe| snapshot.layout.site_of(pe);
        let between = || explanations.iter().filter(|e| site(e.from) != site(e.to));
        let bytes = |sum: u64, e: &Explanation| sum.saturating_add(e.bytes);
        Ok(Self {
            before: predict_with(snapshot, &now, &snapshot.replicas, model),
            after: predict_with(snapshot, &then, &plan.replicas(snapshot), model),
            migrations: plan.moves.len() as u64,
            migrations_between_sites: between().count() as u64,
            bytes_moved: explanations.iter().fold(0, bytes),
            bytes_between_sites: between().fold(0, bytes),
            explanations,
        })
    }
}

struct Explainer<'a> {
    snapshot: &'a Snapshot,
    /// Decrease of each actor's messages between sites and between PEs.
    saved: Vec<(i64, i64)>,
    fullness: Vec<f64>,
}

impl<'a> Explainer<'a> {
    fn new(snapshot: &'a Snapshot, then: &[PeId]) -> Self {
        let mut saved = vec![(0_i64, 0_i64); snapshot.actors.len()];
        let site = |pe| snapshot.layout.site_of(pe);
        for edge in &snapshot.edges {
            let ends = [edge.from as usize, edge.to as usize];
            let now = ends.map(|end| snapshot.actors[end].pe);
            let then = ends.map(|end| then[end]);
            let messages = i64::try_from(edge.messages).unwrap_or(i64::MAX);
            let change = |before: bool, after: bool| {
                messages.saturating_mul(i64::from(before) - i64::from(after))
            };
            let wide = change(site(now[0]) != site(now[1]), site(then[0]) != site(then[1]));
            let pes = change(now[0] != now[1], then[0] != then[1]);
            for end in ends {
                saved[end].0 = saved[end].0.saturating_add(wide);
                saved[end].1 = saved[end].1.saturating_add(pes);
            }
        }
        let capacity = Capacity::of(snapshot);
        let mut loads = vec![0.0; snapshot.pes.len()];
        for (actor, &work) in snapshot.actors.iter().zip(&capacity.works) {
            loads[actor.pe.index()] += work as f64;
        }
        let targets = capacity.targets();
        // The fullness of a PE whose share is zero counts as 2 if it has any load.
        let fullness = |(load, target): (&f64, &f64)| {
            if *target > 0.0 {
                load / target
            } else if *load > 0.0 {
                2.0
            } else {
                0.0
            }
        };
        Self { snapshot, saved, fullness: loads.iter().zip(&targets).map(fullness).collect() }
    }

    fn explain(&self, plan: &Plan) -> Vec<Explanation> {
        let actors = self.snapshot.actors.iter().enumerate();
        let known: std::collections::BTreeMap<ActorKey, usize> =
            actors.map(|(at, actor)| (actor.id, at)).collect();
        let busy = self.snapshot.load_per_pe();
        let explain = |step: &crate::plan::Move| {
            let at = *known.get(&step.actor)?;
            let (wide_area_saved, between_pes_saved) = self.saved[at];
            let [from_fullness, to_fullness] =
                [step.from, step.to].map(|pe| self.fullness[pe.index()]);
            let is_busier = from_fullness > BUSY && from_fullness > to_fullness;
            let background = self.snapshot.pes[step.from.index()].background.as_secs_f64();
            let own = busy[step.from.index()].as_secs_f64();
            let reason = if is_busier && background > own * SLOWED {
                Reason::ForeignLoad
            } else if wide_area_saved > 0 {
                Reason::FewerWideAreaMessages
            } else if is_busier {
                Reason::BusyPe
            } else if between_pes_saved > 0 {
                Reason::FewerMessages
            } else {
                Reason::MakesRoom
            };
            Some(Explanation {
                actor: step.actor,
                from: step.from,
                to: step.to,
                reason,
                wide_area_saved,
                between_pes_saved,
                from_fullness,
                to_fullness,
                bytes: self.snapshot.actors[at].bytes,
            })
        };
        plan.moves.iter().filter_map(explain).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::snapshot;
    use crate::plan::Move;
    use std::time::Duration;

    fn plan(snapshot: &Snapshot, moves: &[(usize, u32)]) -> Plan {
        let step = |&(at, to): &(usize, u32)| {
            let actor = &snapshot.actors[at];
            Move { actor: actor.id, from: actor.pe, to: PeId(to) }
        };
        Plan::of(moves.iter().map(step).collect())
    }

    #[test]
    fn a_report_counts_moves_and_messages_between_sites() {
        // A chain of ten messages each; PEs 0 and 1 are one site.
        let snapshot = snapshot(&[0, 2, 1, 3, 3]);
        let plan = plan(&snapshot, &[(1, 0)]);

        let report = PlanReport::of(&snapshot, &plan, &CostModel::default()).unwrap();

        assert_eq!((report.migrations, report.migrations_between_sites), (1, 1));
        assert_eq!((report.bytes_moved, report.bytes_between_sites), (1000, 1000));
        assert_eq!(report.before.wide_area.messages, 30);
        assert_eq!(report.after.wide_area.messages, 10);
        let explanation = report.explanations[0];
        assert_eq!(explanation.reason, Reason::FewerWideAreaMessages);
        assert_eq!((explanation.wide_area_saved, explanation.between_pes_saved), (20, 10));
    }

    #[test]
    fn load_and_foreign_load_are_reasons_for_moves() {
        let mut snapshot = snapshot(&[0, 0, 0, 0, 3]);
        snapshot.edges.clear();
        let plan = plan(&snapshot, &[(3, 1)]);
        let reason = |snapshot: &Snapshot| {
            PlanReport::of(snapshot, &plan, &CostModel::default()).unwrap().explanations[0].reason
        };

        assert_eq!(reason(&snapshot), Reason::BusyPe);
        snapshot.pes[0].background = Duration::from_millis(5);
        assert_eq!(reason(&snapshot), Reason::ForeignLoad);
    }

    #[test]
    fn a_stored_report_is_read_back_unchanged() {
        let snapshot = snapshot(&[0, 2, 1, 3, 3]);
        let plan = plan(&snapshot, &[(1, 0)]);
        let report = PlanReport::of(&snapshot, &plan, &CostModel::default()).unwrap();

        let stored = serde_json::to_string(&report).unwrap();

        assert_eq!(serde_json::from_str::<PlanReport>(&stored).unwrap(), report);
    }
}
