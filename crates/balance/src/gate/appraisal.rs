//! What a plan would bring and what would move, as the gate and reports need it.

use crate::cost::{CostModel, Prediction};
use crate::plan::{Plan, PlanError};
use crate::seats::predict_with;
use crate::snapshot::{PeLoad, Snapshot};
use gridspan_topology::PeId;
use std::collections::BTreeMap;

/// A plan beside doing nothing, in figures.
#[derive(Clone, Debug, PartialEq)]
pub struct Appraisal {
    /// As things are.
    pub before: Prediction,
    /// As they would be.
    pub after: Prediction,
    /// How many bytes of state would move inside sites.
    pub bytes_inside: u64,
    /// How many would move from one site to another.
    pub bytes_between_sites: u64,
    /// Whether most of the gain is due to other users' work, which is likely to pass.
    pub is_passing: bool,
}

impl Appraisal {
    /// What `model` says of `plan`. Takes time in proportion to actors and edges.
    pub fn of(snapshot: &Snapshot, plan: &Plan, model: &CostModel) -> Result<Self, PlanError> {
        let now: Vec<PeId> = snapshot.actors.iter().map(|actor| actor.pe).collect();
        if !plan.begin.is_empty() || !plan.end.is_empty() {
            plan.validate(snapshot)?;
        }
        let then = plan.mapping(snapshot)?;
        let bytes: BTreeMap<_, u64> =
            snapshot.actors.iter().map(|actor| (actor.id, actor.bytes)).collect();
        let site = |pe| snapshot.layout.site_of(pe);
        let (mut inside, mut between) = (0_u64, 0_u64);
        for step in &plan.moves {
            let sum = if site(step.from) == site(step.to) { &mut inside } else { &mut between };
            *sum = sum.saturating_add(bytes.get(&step.actor).copied().unwrap_or(0));
        }
        for twin in &plan.begin {
            let first = snapshot.actors.iter().zip(&then).find(|(actor, _)| actor.id == twin.actor);
            let is_near = first.is_some_and(|(_, &pe)| site(pe) == site(twin.at));
            let sum = if is_near { &mut inside } else { &mut between };
            *sum = sum.saturating_add(bytes.get(&twin.actor).copied().unwrap_or(0));
        }
        let twins = plan.twins(snapshot);
        let before = predict_with(snapshot, &now, &snapshot.twins, model);
        let after = predict_with(snapshot, &then, &twins, model);
        let gain = |before: &Prediction, after: &Prediction| {
            before.step.as_secs_f64() - after.step.as_secs_f64()
        };
        let is_slowed = |pe: &PeLoad| !pe.background.is_zero() || pe.available < 1.0;
        let is_passing = snapshot.pes.iter().any(is_slowed) && {
            let quiet = without_others(snapshot);
            let lasting = gain(
                &predict_with(&quiet, &now, &snapshot.twins, model),
                &predict_with(&quiet, &then, &twins, model),
            );
            lasting < gain(&before, &after) / 2.0
        };
        Ok(Self { before, after, bytes_inside: inside, bytes_between_sites: between, is_passing })
    }
}

fn without_others(snapshot: &Snapshot) -> Snapshot {
    let mut quiet = snapshot.clone();
    for pe in &mut quiet.pes {
        (pe.background, pe.available) = (std::time::Duration::ZERO, 1.0);
    }
    quiet
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::{actor, snapshot};
    use crate::plan::Move;
    use std::time::Duration;

    fn plan(moves: &[(u128, u32, u32)]) -> Plan {
        let step = |&(n, from, to): &(u128, u32, u32)| Move {
            actor: actor(n),
            from: PeId(from),
            to: PeId(to),
        };
        Plan::of(moves.iter().map(step).collect())
    }

    #[test]
    fn bytes_are_told_apart_by_whether_they_change_their_site() {
        // PEs 0 and 1 are one site; every actor has 1,000 bytes.
        let snapshot = snapshot(&[0, 0, 0, 0]);
        let plan = plan(&[(0, 0, 1), (1, 0, 2), (2, 0, 3)]);

        let appraisal = Appraisal::of(&snapshot, &plan, &CostModel::default()).unwrap();

        assert_eq!((appraisal.bytes_inside, appraisal.bytes_between_sites), (1000, 2000));
        assert!(appraisal.after.step < appraisal.before.step);
    }

    #[test]
    fn a_gain_passes_if_the_work_of_others_is_its_cause() {
        let is_passing = |pes: &[u32], background_ms| {
            let mut snapshot = snapshot(pes);
            snapshot.edges.clear();
            snapshot.pes[0].background = Duration::from_millis(background_ms);
            Appraisal::of(&snapshot, &plan(&[(0, 0, 1)]), &CostModel::default()).unwrap().is_passing
        };

        assert!(is_passing(&[0, 2, 3, 3], 100), "only others slow PE 0");
        assert!(!is_passing(&[0, 0, 0, 0], 1), "it has everything");
        assert!(!is_passing(&[0, 0, 0, 0], 0));
    }
}
