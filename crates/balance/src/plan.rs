//! Plans: the moves and replicas that a strategy proposes.

use crate::snapshot::{ActorKey, ActorLoad, Replica, Snapshot};
use gridspan_topology::PeId;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use thiserror::Error;

/// The moves of one rebalance, each actor at most once, and the replicas that begin and end.
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
/// use gridspan_balance::Plan;
///
/// // Every second actor goes to PE 1.
/// let plan = Plan::placing(&snapshot, |actor| PeId(actor.id.index as u32 % 2));
/// assert_eq!(plan.validate(&snapshot), Ok(()));
/// assert_eq!(plan.moves.len(), 2);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Plan {
    /// The migrations. They happen at once, so that their order has no meaning.
    pub moves: Vec<Move>,
    /// Replicas that begin, once all actors have moved.
    #[serde(default)]
    pub begin: Vec<Replica>,
    /// Replicas that end. An actor that moves loses its replica in any case.
    #[serde(default)]
    pub end: Vec<Replica>,
}

/// One migration.
///
/// ```
/// use gridspan_balance::{ActorKey, Move, Plan};
/// use gridspan_topology::PeId;
///
/// let actor = ActorKey { collection: 0, index: 7 };
/// let moves = vec![Move { actor, from: PeId(0), to: PeId(3) }];
/// let plan = Plan::of(moves);
/// # assert_eq!(plan.moves[0].to, PeId(3));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Move {
    /// The actor.
    pub actor: ActorKey,
    /// The PE on which it lives.
    pub from: PeId,
    /// The PE on which it will live; not `from`.
    pub to: PeId,
}

/// Why a plan does not fit a snapshot. Nothing was moved. Either the strategy is at fault, or the
/// plan was made from another snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum PlanError {
    /// The snapshot does not contain the actor.
    #[error("{actor} is not in the snapshot; plan from the latest snapshot")]
    NoSuchActor {
        /// The actor.
        actor: ActorKey,
    },
    /// The actor lives on another PE.
    #[error("{actor} lives on {actual}, not on {from}; plan from the latest snapshot")]
    LivesElsewhere {
        /// The actor.
        actor: ActorKey,
        /// The PE from which the plan moves it.
        from: PeId,
        /// The PE on which it lives.
        actual: PeId,
    },
    /// The PE to which it should move does not exist.
    #[error("{actor} would move to {to}, which does not exist; choose a PE of the layout")]
    NoSuchPe {
        /// The actor.
        actor: ActorKey,
        /// The PE refused.
        to: PeId,
    },
    /// The actor cannot have a replica there: it is not deterministic, cannot migrate, already has
    /// a replica, lives there, or the PE does not exist.
    #[error(
        "{actor} cannot have a replica on {at}; choose a deterministic actor without one and another PE"
    )]
    NoReplica {
        /// The actor.
        actor: ActorKey,
        /// The PE of the replica.
        at: PeId,
    },
    /// The actor has no such replica.
    #[error("{actor} has no such replica; end only replicas that the snapshot lists")]
    NoSuchReplica {
        /// The actor.
        actor: ActorKey,
    },
    /// The actor must stay.
    #[error("{actor} cannot migrate; leave it where it is")]
    NotMigratable {
        /// The actor.
        actor: ActorKey,
    },
    /// The actor would move to the PE on which it lives.
    #[error("{actor} would move to the PE on which it lives; leave the move out")]
    StaysPut {
        /// The actor.
        actor: ActorKey,
    },
    /// The actor would move twice.
    #[error("{actor} would move twice; keep one of the moves")]
    MovedTwice {
        /// The actor.
        actor: ActorKey,
    },
}

impl Plan {
    /// Returns the plan that changes nothing.
    pub const fn none() -> Self {
        Self { moves: Vec::new(), begin: Vec::new(), end: Vec::new() }
    }

    /// Returns the moves that bring each migratable actor to the PE that `place` returns for it.
    /// `place` is called in the order of the snapshot and only for actors that may move; an actor
    /// that is already there stays.
    pub fn placing(snapshot: &Snapshot, mut place: impl FnMut(&ActorLoad) -> PeId) -> Self {
        let mut moves = Vec::new();
        for actor in snapshot.actors.iter().filter(|actor| actor.migratable) {
            let to = place(actor);
            if to != actor.pe {
                moves.push(Move { actor: actor.id, from: actor.pe, to });
            }
        }
        Self::of(moves)
    }

    /// Returns the moves that bring each migratable actor to its PE in `mapping`. `mapping` is in
    /// the order of the snapshot's actors; actors without an entry stay.
    pub fn to_mapping(snapshot: &Snapshot, mapping: &[PeId]) -> Self {
        let mut moves = Vec::new();
        for (actor, &to) in snapshot.actors.iter().zip(mapping) {
            if actor.migratable && to != actor.pe {
                moves.push(Move { actor: actor.id, from: actor.pe, to });
            }
        }
        Self::of(moves)
    }

    /// Returns a plan of moves only.
    pub fn of(moves: Vec<Move>) -> Self {
        Self { moves, begin: Vec::new(), end: Vec::new() }
    }

    /// Returns the plan that undoes this one, which was made for `snapshot`. It also restores
    /// replicas that actors lost by moving.
    #[must_use]
    pub fn inverse(&self, snapshot: &Snapshot) -> Self {
        let back = |step: &Move| Move { actor: step.actor, from: step.to, to: step.from };
        let lost = self.lost_replicas();
        let begin =
            snapshot.replicas.iter().filter(|replica| lost.contains(&replica.actor)).cloned();
        let (moves, begin) = (self.moves.iter().map(back).collect(), begin.collect());
        Self { moves, begin, end: self.begin.clone() }
    }

    /// Returns the actors that lose their replicas: those in `end`, and those that move.
    fn lost_replicas(&self) -> BTreeSet<ActorKey> {
        let moving = self.moves.iter().map(|step| step.actor);
        moving.chain(self.end.iter().map(|replica| replica.actor)).collect()
    }

    /// Returns the replicas after the plan is carried out, by actor.
    pub fn replicas(&self, snapshot: &Snapshot) -> Vec<Replica> {
        let gone = self.lost_replicas();
        let stay = snapshot.replicas.iter().filter(|replica| !gone.contains(&replica.actor));
        let mut all: Vec<Replica> = stay.chain(&self.begin).cloned().collect();
        all.sort_by_key(|replica| replica.actor);
        all
    }

    /// Returns the part of the plan that still fits: the moves of actors that live where the plan
    /// moves them from, and the replicas that can still begin or end.
    pub(crate) fn still_fitting(&self, snapshot: &Snapshot) -> Self {
        let places: BTreeMap<ActorKey, PeId> =
            snapshot.actors.iter().map(|actor| (actor.id, actor.pe)).collect();
        let is_there = |step: &&Move| places.get(&step.actor) == Some(&step.from);
        let moves = self.moves.iter().filter(is_there).copied().collect();
        let end = self
            .end
            .iter()
            .filter(|replica| snapshot.replicas.contains(replica))
            .cloned()
            .collect();
        let mut fitting = Self { end, ..Self::of(moves) };
        let known: BTreeSet<ActorKey> =
            fitting.replicas(snapshot).iter().map(|t| t.actor).collect();
        let moved: BTreeMap<ActorKey, PeId> =
            fitting.moves.iter().map(|step| (step.actor, step.to)).collect();
        let then = |replica: &Replica| {
            moved.get(&replica.actor).or_else(|| places.get(&replica.actor)).copied()
        };
        let is_free = |replica: &&Replica| {
            !known.contains(&replica.actor) && then(replica).is_some_and(|pe| pe != replica.at)
        };
        fitting.begin = self.begin.iter().filter(is_free).cloned().collect();
        fitting
    }

    /// Returns the number of moves, and of replicas that begin or end.
    pub fn changes(&self) -> usize {
        self.moves.len() + self.begin.len() + self.end.len()
    }

    /// Returns the bytes of state that move or are copied, without those of actors that the
    /// snapshot does not contain.
    pub fn bytes(&self, snapshot: &Snapshot) -> u64 {
        let copied = self.begin.iter().map(|replica| replica.actor);
        let moving: BTreeSet<ActorKey> =
            self.moves.iter().map(|step| step.actor).chain(copied).collect();
        let actors = snapshot.actors.iter().filter(|actor| moving.contains(&actor.id));
        actors.fold(0, |sum, actor| sum.saturating_add(actor.bytes))
    }

    /// Returns whether the plan changes nothing.
    pub fn is_empty(&self) -> bool {
        self.changes() == 0
    }

    /// Checks that the plan can be carried out on `snapshot`. Fails at the first move or replica
    /// that cannot.
    pub fn validate(&self, snapshot: &Snapshot) -> Result<(), PlanError> {
        let places = self.mapping(snapshot)?;
        if let Some(replica) = self.end.iter().find(|replica| !snapshot.replicas.contains(replica))
        {
            return Err(PlanError::NoSuchReplica { actor: replica.actor });
        }
        let deterministic = snapshot.deterministic.iter().filter_map(|&at| {
            let actor = snapshot.actors.get(at as usize)?;
            actor.migratable.then(|| (actor.id, places[at as usize]))
        });
        let deterministic: BTreeMap<ActorKey, PeId> = deterministic.collect();
        let freed = self.lost_replicas();
        let kept = snapshot.replicas.iter().map(|replica| replica.actor);
        let mut taken: BTreeSet<ActorKey> = kept.filter(|actor| !freed.contains(actor)).collect();
        for &Replica { actor, at, .. } in &self.begin {
            let fits = deterministic.get(&actor).is_some_and(|&first| first != at);
            if !fits || !snapshot.layout.contains(at) || !taken.insert(actor) {
                return Err(PlanError::NoReplica { actor, at });
            }
        }
        Ok(())
    }

    /// Returns the PE of each actor of `snapshot`, in its order, after the plan is carried out.
    /// Fails if the moves do not fit the snapshot.
    pub fn mapping(&self, snapshot: &Snapshot) -> Result<Vec<PeId>, PlanError> {
        let targets = self.checked_targets(snapshot)?;
        Ok(snapshot
            .actors
            .iter()
            .map(|actor| targets.get(&actor.id).copied().unwrap_or(actor.pe))
            .collect())
    }

    /// Returns the target of each moving actor, if the plan fits the snapshot.
    fn checked_targets(&self, snapshot: &Snapshot) -> Result<BTreeMap<ActorKey, PeId>, PlanError> {
        let known: BTreeMap<ActorKey, &ActorLoad> =
            snapshot.actors.iter().map(|actor| (actor.id, actor)).collect();
        let mut targets = BTreeMap::new();
        for &Move { actor, from, to } in &self.moves {
            let load = known.get(&actor).ok_or(PlanError::NoSuchActor { actor })?;
            if load.pe != from {
                return Err(PlanError::LivesElsewhere { actor, from, actual: load.pe });
            }
            if !snapshot.layout.contains(to) {
                return Err(PlanError::NoSuchPe { actor, to });
            }
            if !load.migratable {
                return Err(PlanError::NotMigratable { actor });
            }
            if from == to {
                return Err(PlanError::StaysPut { actor });
            }
            if targets.insert(actor, to).is_some() {
                return Err(PlanError::MovedTwice { actor });
            }
        }
        Ok(targets)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::{actor, snapshot};

    fn step(n: u128, from: u32, to: u32) -> Move {
        Move { actor: actor(n), from: PeId(from), to: PeId(to) }
    }

    #[test]
    fn a_plan_that_fits_gives_the_new_mapping() {
        let plan = Plan::of(vec![step(2, 2, 0), step(0, 0, 3)]);

        let mapping = plan.mapping(&snapshot(&[0, 1, 2, 3]));

        assert_eq!(mapping, Ok(vec![PeId(3), PeId(1), PeId(0), PeId(3)]));
    }

    #[test]
    fn the_empty_plan_changes_nothing() {
        let snapshot = snapshot(&[3, 1]);

        assert!(Plan::none().is_empty());
        assert_eq!(Plan::none().mapping(&snapshot), Ok(vec![PeId(3), PeId(1)]));
    }

    #[test]
    fn placing_moves_migratable_actors_that_are_elsewhere() {
        // The last actor cannot migrate.
        let plan = Plan::placing(&snapshot(&[0, 1, 2, 3]), |_| PeId(1));

        assert_eq!(plan.moves, [step(0, 0, 1), step(2, 2, 1)]);
    }

    #[test]
    fn a_plan_that_does_not_fit_is_refused() {
        let refusal =
            |moves: &[Move]| Plan::of(moves.to_vec()).validate(&snapshot(&[0, 1, 2])).unwrap_err();
        assert_eq!(refusal(&[step(9, 0, 1)]), PlanError::NoSuchActor { actor: actor(9) });
        assert_eq!(
            refusal(&[step(0, 1, 2)]),
            PlanError::LivesElsewhere { actor: actor(0), from: PeId(1), actual: PeId(0) }
        );
        assert_eq!(refusal(&[step(0, 0, 4)]), PlanError::NoSuchPe { actor: actor(0), to: PeId(4) });
        assert_eq!(refusal(&[step(2, 2, 0)]), PlanError::NotMigratable { actor: actor(2) });
        assert_eq!(refusal(&[step(0, 0, 0)]), PlanError::StaysPut { actor: actor(0) });
        assert_eq!(
            refusal(&[step(0, 0, 1), step(0, 0, 2)]),
            PlanError::MovedTwice { actor: actor(0) }
        );
    }

    fn replica(n: u128, at: u32) -> Replica {
        Replica { actor: actor(n), at: PeId(at), serves: vec![actor(n + 1)] }
    }

    /// Actors 0 and 1 are deterministic, and 1 has a replica on PE 3.
    fn deterministic() -> Snapshot {
        let mut snapshot = snapshot(&[0, 1, 2]);
        (snapshot.deterministic, snapshot.replicas) = (vec![0, 1], vec![replica(1, 3)]);
        snapshot
    }

    #[test]
    fn replicas_stay_unless_the_plan_ends_them_or_moves_their_actors() {
        let then = |plan: Plan| {
            assert_eq!(plan.validate(&deterministic()), Ok(()));
            plan.replicas(&deterministic())
        };
        assert_eq!(then(Plan::none()), [replica(1, 3)]);
        assert_eq!(then(Plan::of(vec![step(1, 1, 0)])), []);
        let swapped = Plan { begin: vec![replica(0, 2)], end: vec![replica(1, 3)], ..Plan::none() };
        assert_eq!(swapped.inverse(&deterministic()).begin, [replica(1, 3)]);
        assert_eq!(then(swapped), [replica(0, 2)]);
        let elsewhere =
            Plan { begin: vec![replica(1, 2)], end: vec![replica(1, 3)], ..Plan::none() };
        assert_eq!(then(elsewhere), [replica(1, 2)]);
    }

    #[test]
    fn undoing_a_plan_restores_the_replica_of_an_actor_that_has_moved() {
        let plan = Plan { begin: vec![replica(1, 2)], ..Plan::of(vec![step(1, 1, 0)]) };
        let mut after = deterministic();
        (after.actors[1].pe, after.replicas) = (PeId(0), plan.replicas(&deterministic()));

        let undo = plan.inverse(&deterministic()).still_fitting(&after);

        assert_eq!(undo.validate(&after), Ok(()));
        assert_eq!(undo.mapping(&after), Ok(vec![PeId(0), PeId(1), PeId(2)]));
        assert_eq!(undo.replicas(&after), [replica(1, 3)]);
    }

    #[test]
    fn replicas_that_do_not_fit_are_refused_and_left_out_of_an_undo() {
        let refused = |begin: Replica| {
            let plan = Plan { begin: vec![begin], ..Plan::none() };
            assert_eq!(plan.still_fitting(&deterministic()).changes(), 0);
            plan.validate(&deterministic()).is_err()
        };
        assert!(refused(replica(0, 0)), "it lives there");
        assert!(refused(replica(1, 2)), "it has a replica");
        assert!(refused(replica(9, 0)), "there is no such actor");
        let plan = Plan { begin: vec![replica(2, 0)], ..Plan::none() };
        assert!(plan.validate(&deterministic()).is_err(), "it is not deterministic");
        let plan = Plan { end: vec![replica(0, 3)], ..Plan::none() };
        assert_eq!(
            plan.validate(&deterministic()),
            Err(PlanError::NoSuchReplica { actor: actor(0) })
        );
    }
}
