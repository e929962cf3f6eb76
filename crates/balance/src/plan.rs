//! What a strategy decides: which actors move where.

use crate::snapshot::{ActorKey, ActorLoad, Snapshot};
use gridspan_topology::PeId;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use thiserror::Error;

/// A list of migrations, each actor at most once.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Plan {
    /// The migrations; they happen at once, so that their order means nothing.
    pub moves: Vec<Move>,
}

/// One migration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Move {
    /// Which actor.
    pub actor: ActorKey,
    /// Where it lives.
    pub from: PeId,
    /// Where it will live; another PE.
    pub to: PeId,
}

/// Why a plan does not fit a snapshot. Nothing was moved; the strategy that made it is at fault, or
/// it was made from another snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum PlanError {
    /// The snapshot does not know the actor.
    #[error("{actor} is not in the snapshot; plan from the snapshot that is to be changed")]
    NoSuchActor {
        /// The actor.
        actor: ActorKey,
    },
    /// The actor lives elsewhere.
    #[error("{actor} lives on {actual}, not on {from}; plan from the latest snapshot")]
    LivesElsewhere {
        /// The actor.
        actor: ActorKey,
        /// Where the plan takes it from.
        from: PeId,
        /// Where it lives.
        actual: PeId,
    },
    /// The PE it should move to does not exist.
    #[error("{actor} is to move to {to}, which does not exist; choose a PE of the layout")]
    NoSuchPe {
        /// The actor.
        actor: ActorKey,
        /// The PE refused.
        to: PeId,
    },
    /// The actor must stay.
    #[error("{actor} cannot migrate; leave it where it is")]
    NotMigratable {
        /// The actor.
        actor: ActorKey,
    },
    /// The actor would move to where it is.
    #[error("{actor} is to move to where it is; leave the move out")]
    StaysPut {
        /// The actor.
        actor: ActorKey,
    },
    /// The actor would move twice.
    #[error("{actor} is to move twice; keep one of the moves")]
    MovedTwice {
        /// The actor.
        actor: ActorKey,
    },
}

impl Plan {
    /// The plan that leaves everything where it is.
    pub const fn none() -> Self {
        Self { moves: Vec::new() }
    }

    /// The moves that bring each migratable actor to where `place` wants it. `place` is asked in
    /// the order of the snapshot and only for actors that may move; who is there already stays.
    pub fn placing(snapshot: &Snapshot, mut place: impl FnMut(&ActorLoad) -> PeId) -> Self {
        let mut moves = Vec::new();
        for actor in snapshot.actors.iter().filter(|actor| actor.migratable) {
            let to = place(actor);
            if to != actor.pe {
                moves.push(Move { actor: actor.id, from: actor.pe, to });
            }
        }
        Self { moves }
    }

    /// The moves that bring each migratable actor to its entry in `mapping`, one for each actor of
    /// the snapshot, in its order; actors without an entry stay.
    pub fn to_mapping(snapshot: &Snapshot, mapping: &[PeId]) -> Self {
        let mut moves = Vec::new();
        for (actor, &to) in snapshot.actors.iter().zip(mapping) {
            if actor.migratable && to != actor.pe {
                moves.push(Move { actor: actor.id, from: actor.pe, to });
            }
        }
        Self { moves }
    }

    /// The plan that takes this one back.
    #[must_use]
    pub fn inverse(&self) -> Self {
        let back = |step: &Move| Move { actor: step.actor, from: step.to, to: step.from };
        Self { moves: self.moves.iter().map(back).collect() }
    }

    /// How many bytes of state move; actors that the snapshot does not know count nothing.
    pub fn bytes(&self, snapshot: &Snapshot) -> u64 {
        let moving: BTreeSet<ActorKey> = self.moves.iter().map(|step| step.actor).collect();
        let actors = snapshot.actors.iter().filter(|actor| moving.contains(&actor.id));
        actors.fold(0, |sum, actor| sum.saturating_add(actor.bytes))
    }

    /// Whether nothing moves.
    pub fn is_empty(&self) -> bool {
        self.moves.is_empty()
    }

    /// Whether the plan can be carried out on what `snapshot` describes.
    pub fn validate(&self, snapshot: &Snapshot) -> Result<(), PlanError> {
        self.checked_targets(snapshot).map(|_| ())
    }

    /// The PE of each actor of `snapshot`, in its order, once the plan is carried out.
    pub fn mapping(&self, snapshot: &Snapshot) -> Result<Vec<PeId>, PlanError> {
        let targets = self.checked_targets(snapshot)?;
        Ok(snapshot
            .actors
            .iter()
            .map(|actor| targets.get(&actor.id).copied().unwrap_or(actor.pe))
            .collect())
    }

    /// Where each moving actor moves to, if the plan fits the snapshot.
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
    use crate::fixture::{actor, snapshot};

    fn step(n: u128, from: u32, to: u32) -> Move {
        Move { actor: actor(n), from: PeId(from), to: PeId(to) }
    }

    #[test]
    fn a_plan_that_fits_gives_the_new_mapping() {
        let plan = Plan { moves: vec![step(2, 2, 0), step(0, 0, 3)] };

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
    fn placing_moves_who_may_move_and_is_elsewhere() {
        // The last actor cannot migrate.
        let plan = Plan::placing(&snapshot(&[0, 1, 2, 3]), |_| PeId(1));

        assert_eq!(plan.moves, [step(0, 0, 1), step(2, 2, 1)]);
    }

    #[test]
    fn a_plan_that_does_not_fit_is_refused() {
        let refusal = |moves: &[Move]| {
            Plan { moves: moves.to_vec() }.validate(&snapshot(&[0, 1, 2])).unwrap_err()
        };
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
}
