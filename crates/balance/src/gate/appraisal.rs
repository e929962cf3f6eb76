//! The gain of a plan and the bytes that it would move, for the gate and for reports.

use crate::cost::replicas::predict_with;
use crate::cost::{CostModel, Prediction};
use crate::plan::{Plan, PlanError};
use crate::snapshot::{PeLoad, Snapshot};
use gridspan_topology::{Layout, NodeId, PeId, SiteId};
use std::collections::BTreeMap;

/// A plan compared with no change.
#[derive(Clone, Debug, PartialEq)]
pub struct Appraisal {
    /// Prediction for the present placement.
    pub before: Prediction,
    /// Prediction for the placement after the plan.
    pub after: Prediction,
    /// Bytes of state that would move inside sites.
    pub bytes_inside: u64,
    /// For each site, the part of `bytes_inside` that its busiest node would send or receive. An
    /// eighth of the bytes that move inside a node counts.
    pub bytes_busiest: BTreeMap<SiteId, u64>,
    /// Bytes of state that would move between sites.
    pub bytes_between_sites: u64,
    /// Whether most of the gain is due to foreign load, which is likely to end.
    pub is_passing: bool,
}

impl Appraisal {
    /// Appraises `plan` by `model`. The time is proportional to the number of actors and edges.
    ///
    /// # Errors
    ///
    /// [`PlanError`] if the plan does not fit the snapshot.
    pub fn of(snapshot: &Snapshot, plan: &Plan, model: &CostModel) -> Result<Self, PlanError> {
        let now: Vec<PeId> = snapshot.actors.iter().map(|actor| actor.pe).collect();
        if !plan.begin.is_empty() || !plan.end.is_empty() {
            plan.validate(snapshot)?;
        }
        let then = plan.mapping(snapshot)?;
        let actors = snapshot.actors.iter().zip(&then);
        let known: BTreeMap<_, (u64, PeId)> =
            actors.map(|(actor, &pe)| (actor.id, (actor.bytes, pe))).collect();
        let mut transfers = Transfers::new(snapshot);
        for step in &plan.moves {
            let bytes = known.get(&step.actor).map_or(0, |&(bytes, _)| bytes);
            transfers.add(step.from, step.to, bytes);
        }
        for replica in &plan.begin {
            if let Some(&(bytes, pe)) = known.get(&replica.actor) {
                transfers.add(pe, replica.at, bytes);
            }
        }
        let (inside, between) = (transfers.inside, transfers.between);
        let bytes_busiest = transfers.busiest();
        let replicas = plan.replicas(snapshot);
        let before = predict_with(snapshot, &now, &snapshot.replicas, model);
        let after = predict_with(snapshot, &then, &replicas, model);
        let gain = |before: &Prediction, after: &Prediction| {
            before.step.as_secs_f64() - after.step.as_secs_f64()
        };
        let is_slowed = |pe: &PeLoad| !pe.background.is_zero() || pe.available < 1.0;
        let is_passing = snapshot.pes.iter().any(is_slowed) && {
            let quiet = without_others(snapshot);
            let lasting = gain(
                &predict_with(&quiet, &now, &snapshot.replicas, model),
                &predict_with(&quiet, &then, &replicas, model),
            );
            lasting < gain(&before, &after) / 2.0
        };
        let (bytes_inside, bytes_between_sites) = (inside, between);
        Ok(Self { before, after, bytes_inside, bytes_busiest, bytes_between_sites, is_passing })
    }
}

/// Factor by which state moves faster between PEs of one node than between nodes.
const COPYING: u64 = 8;

/// The bytes that would move.
struct Transfers<'a> {
    layout: &'a Layout,
    inside: u64,
    between: u64,
    /// For each node, the bytes that it would send and receive inside its site. Bytes that move
    /// inside a node are divided by [`COPYING`].
    nodes: BTreeMap<NodeId, (u64, u64)>,
}

impl<'a> Transfers<'a> {
    fn new(snapshot: &'a Snapshot) -> Self {
        Self { layout: &snapshot.layout, inside: 0, between: 0, nodes: BTreeMap::new() }
    }

    fn add(&mut self, from: PeId, to: PeId, bytes: u64) {
        let [here, there] = [from, to].map(|pe| self.layout.node_of(pe));
        if self.layout.site_of(from) != self.layout.site_of(to) {
            self.between = self.between.saturating_add(bytes);
            return;
        }
        self.inside = self.inside.saturating_add(bytes);
        let bytes = if here == there { bytes / COPYING } else { bytes };
        let sent = &mut self.nodes.entry(here).or_default().0;
        *sent = sent.saturating_add(bytes);
        let got = &mut self.nodes.entry(there).or_default().1;
        *got = got.saturating_add(bytes);
    }

    fn busiest(&self) -> BTreeMap<SiteId, u64> {
        let mut busiest = BTreeMap::new();
        for (&node, &(sent, got)) in &self.nodes {
            let most: &mut u64 = busiest.entry(self.layout.site_of_node(node)).or_default();
            *most = sent.max(got).max(*most);
        }
        busiest
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
    use crate::fixtures::{actor, snapshot};
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
    fn bytes_inside_sites_and_between_sites_are_counted_separately() {
        // PEs 0 and 1 are one site; every actor has 1,000 bytes.
        let snapshot = snapshot(&[0, 0, 0, 0]);
        let plan = plan(&[(0, 0, 1), (1, 0, 2), (2, 0, 3)]);

        let appraisal = Appraisal::of(&snapshot, &plan, &CostModel::default()).unwrap();

        assert_eq!((appraisal.bytes_inside, appraisal.bytes_between_sites), (1000, 2000));
        assert!(appraisal.after.step < appraisal.before.step);
        // PE 0 and PE 1 are one node.
        assert_eq!(appraisal.bytes_busiest, BTreeMap::from([(SiteId(0), 1000 / COPYING)]));
    }

    #[test]
    fn a_gain_is_passing_if_foreign_load_is_its_cause() {
        let is_passing = |pes: &[u32], background_ms| {
            let mut snapshot = snapshot(pes);
            snapshot.edges.clear();
            snapshot.pes[0].background = Duration::from_millis(background_ms);
            Appraisal::of(&snapshot, &plan(&[(0, 0, 1)]), &CostModel::default()).unwrap().is_passing
        };

        assert!(is_passing(&[0, 2, 3, 3], 100), "only others slow PE 0");
        assert!(!is_passing(&[0, 0, 0, 0], 1), "PE 0 has all the work");
        assert!(!is_passing(&[0, 0, 0, 0], 0));
    }
}
