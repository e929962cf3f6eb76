//! A strategy that follows another one, and also adds and removes replicas of deterministic actors
//! at random.

use gridspan_balance::{
    ActorKey, MakeStrategy, Move, Plan, Replica, Snapshot, Strategy, StrategyName,
};
use gridspan_topology::PeId;
use gridspan_topology::dice::Dice;
use std::collections::BTreeSet;

/// Makes a strategy that follows the one of this name, and replicates at random.
pub(super) struct RandomlyReplicated(pub(super) StrategyName);

impl MakeStrategy for RandomlyReplicated {
    fn make(&self, seed: u64) -> Box<dyn Strategy> {
        Box::new(RandomReplication { inner: self.0.make(seed), dice: Dice::new(seed) })
    }
}

/// Follows another strategy, and replicates at random.
struct RandomReplication {
    inner: Box<dyn Strategy>,
    dice: Dice,
}

impl RandomReplication {
    /// Random actors, sorted, which a replica serves.
    fn some(&mut self, snapshot: &Snapshot) -> Vec<ActorKey> {
        let all = snapshot.actors.iter().map(|actor| actor.id);
        let mut some: Vec<ActorKey> = all.filter(|_| self.dice.chance(0.5)).collect();
        some.sort_unstable();
        some
    }
}

impl Strategy for RandomReplication {
    fn name(&self) -> &'static str {
        "random_replication"
    }

    fn plan(&mut self, snapshot: &Snapshot) -> Plan {
        let mut plan = self.inner.plan(snapshot);
        let Ok(mapping) = plan.mapping(snapshot) else { return plan };
        let moving: BTreeSet<ActorKey> = plan.moves.iter().map(|step: &Move| step.actor).collect();
        let stays = |replica: &&Replica| !moving.contains(&replica.actor);
        let ended = plan.end.iter().map(|replica| replica.actor).collect::<BTreeSet<_>>();
        for replica in snapshot.replicas.iter().filter(stays) {
            if self.dice.chance(0.4) && !ended.contains(&replica.actor) {
                plan.end.push(replica.clone());
            }
        }
        let taken: BTreeSet<ActorKey> =
            plan.replicas(snapshot).into_iter().map(|replica| replica.actor).collect();
        for &at in &snapshot.deterministic {
            let actor = snapshot.actors[at as usize].id;
            let pe = PeId(self.dice.below(u64::from(snapshot.layout.pe_count())) as u32);
            let fits = !taken.contains(&actor) && pe != mapping[at as usize];
            if self.dice.chance(0.6) && fits {
                let serves = self.some(snapshot);
                plan.begin.push(Replica { actor, at: pe, serves });
            }
        }
        plan
    }

    /// False: random replicas are not meant to make anything faster.
    fn predicts(&self) -> bool {
        false
    }
}
