//! Actors that live on two PEs at once, as one of the two knows them. How they come to that, and
//! part again, is told in `protocol`.

use crate::address::id::{ActorId, RebalanceId};
use crate::message::Frontier;
use crate::message::envelope::Header;
use crate::pe::delivery::Route;
use gridspan_topology::PeId;
use std::collections::{BTreeMap, BTreeSet};

/// Replicas of this PE whose actors have another one elsewhere.
#[derive(Default)]
pub(crate) struct Replicas {
    by_actor: BTreeMap<ActorId, ReplicaState>,
    /// Replicas that are to vanish.
    leaving: BTreeSet<ActorId>,
    /// Messages that replicas of this PE were given, which are handled elsewhere too.
    pub(crate) doubled: u64,
}

/// One of two replicas.
pub(crate) struct ReplicaState {
    /// Where the other one is.
    pub(crate) other: PeId,
    /// The actor's epoch while it has both.
    pub(crate) epoch: u32,
    /// To whom the replica sends. The first sends to all others.
    pub(crate) serves: BTreeSet<ActorId>,
    pub(crate) role: Role,
}

/// Which of the two replicas.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// The one that was there before, and stays.
    Primary(PrimaryStage),
    /// The other one. Once it is to vanish, how far it has to come before.
    Secondary { until: Option<Frontier> },
}

/// How far the primary is.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum PrimaryStage {
    /// The second one has been offered, on behalf of a plan, and is to be given up again if
    /// anything waits for that.
    Offered { plan: RebalanceId, then: Vec<Then> },
    /// Both handle everything. The PE of the second gives it broadcasts from this number on.
    Both { broadcasts: u64 },
    /// The second is about to vanish.
    Ending { broadcasts: u64, then: Vec<Then> },
}

/// What waits until an actor has one replica again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Then {
    /// A plan, which wanted just that.
    Report(RebalanceId),
    /// A plan that moves it.
    Move(PeId, RebalanceId),
    /// A move that it wished for.
    Wish(PeId),
}

impl Replicas {
    /// Whether all actors have one replica, as in nearly all jobs.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.by_actor.is_empty()
    }

    pub(crate) fn get(&self, id: ActorId) -> Option<&ReplicaState> {
        self.by_actor.get(&id)
    }

    pub(crate) fn get_mut(&mut self, id: ActorId) -> Option<&mut ReplicaState> {
        self.by_actor.get_mut(&id)
    }

    /// Where messages to an actor go that lives on the PE `me` and another one.
    pub(crate) fn route(&self, id: ActorId, me: PeId) -> Option<Route> {
        let replica = self.get(id).filter(|replica| replica.is_known())?;
        Some(Route { pe: me, second: Some(replica.other), epoch: replica.epoch })
    }

    pub(crate) fn insert(&mut self, id: ActorId, replica: ReplicaState) {
        self.by_actor.insert(id, replica);
    }

    pub(crate) fn remove(&mut self, id: ActorId) -> Option<ReplicaState> {
        self.leaving.remove(&id);
        self.by_actor.remove(&id)
    }

    /// A replica is to vanish once it has come so far.
    pub(crate) fn leave(&mut self, id: ActorId, epoch: u32, far: Frontier) {
        if let Some(replica) = self.by_actor.get_mut(&id).filter(|replica| replica.epoch == epoch)
            && let Role::Secondary { until } = &mut replica.role
        {
            *until = Some(far);
            self.leaving.insert(id);
        }
    }

    /// Replicas that are to vanish.
    pub(crate) fn leaving(&self) -> impl Iterator<Item = (ActorId, &ReplicaState)> {
        self.leaving.iter().filter_map(|&id| Some((id, self.get(id)?)))
    }

    /// All replicas, by actor.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (ActorId, &ReplicaState)> {
        self.by_actor.iter().map(|(&id, replica)| (id, replica))
    }

    /// Whether this is the replica of an actor.
    pub(crate) fn is_secondary(&self, id: ActorId) -> bool {
        self.get(id).is_some_and(ReplicaState::is_secondary)
    }
}

impl ReplicaState {
    pub(crate) fn is_secondary(&self) -> bool {
        matches!(self.role, Role::Secondary { .. })
    }

    /// Whether others may know of both replicas.
    pub(crate) fn is_known(&self) -> bool {
        !matches!(self.role, Role::Primary(PrimaryStage::Offered { .. }))
    }

    /// Whether messages to `receiver` leave from this replica. As long as one of the two may not
    /// send yet, or no more, the other does; what both send is dropped by its number.
    pub(crate) fn sends_to(&self, receiver: ActorId) -> bool {
        match self.role {
            Role::Primary(PrimaryStage::Both { .. }) => !self.serves.contains(&receiver),
            Role::Primary(PrimaryStage::Offered { .. } | PrimaryStage::Ending { .. }) => true,
            Role::Secondary { .. } => self.serves.contains(&receiver),
        }
    }

    /// Whether the other replica may not have a message that came here.
    pub(crate) fn owes(&self, header: &Header) -> bool {
        if header.is_broadcast {
            return match self.role {
                Role::Primary(PrimaryStage::Offered { .. }) => true,
                Role::Primary(
                    PrimaryStage::Both { broadcasts } | PrimaryStage::Ending { broadcasts, .. },
                ) => header.sequence < broadcasts,
                // What this PE gives to all its members has no epoch, what the primary has passed
                // on has the replicas'. Anything else is owed to the actor by a PE that it has
                // left.
                Role::Secondary { .. } => {
                    let is_given_here = header.epoch == 0 && header.hops == 0;
                    !is_given_here && header.epoch != self.epoch
                }
            };
        }
        // Who knows of both replicas has sent it to both, and says so by the epoch.
        !self.is_known() || header.epoch != self.epoch
    }

    /// How far a replica has to come before it vanishes, if it is to.
    pub(crate) fn until(&self) -> Option<&Frontier> {
        match &self.role {
            Role::Secondary { until } => until.as_ref(),
            Role::Primary(_) => None,
        }
    }
}

impl Frontier {
    /// Whether all has been sent; `next` tells the number of the next message to a receiver.
    pub(crate) fn is_sent(&self, next: impl Fn(ActorId, i32) -> u64) -> bool {
        self.sent.iter().all(|&(to, channel, number)| next(to, channel) >= number)
    }

    /// Whether all has come; `next` tells the number of the next message from a sender,
    /// `broadcasts` that of the next broadcast.
    pub(crate) fn is_heard(&self, next: impl Fn(ActorId, i32) -> u64, broadcasts: u64) -> bool {
        broadcasts >= self.broadcasts
            && self.heard.iter().all(|&(from, channel, number)| next(from, channel) >= number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::address::id::CollectionId;
    use crate::address::index::Key;

    const PLAN: RebalanceId = RebalanceId(1);

    fn actor(key: u128) -> ActorId {
        ActorId { collection: CollectionId(1), key: Key(key) }
    }

    fn replica(role: Role) -> ReplicaState {
        ReplicaState { other: PeId(9), epoch: 4, serves: [actor(7)].into(), role }
    }

    fn header(source: ActorId, sequence: u64, epoch: u32) -> Header {
        let (to, origin) = (actor(1), PeId(0));
        Header {
            to,
            source,
            sequence,
            priority: 0,
            epoch,
            hops: 0,
            is_broadcast: false,
            origin,
            after: 0,
        }
    }

    #[test]
    fn each_receiver_is_sent_to_by_one_replica_while_both_work_and_by_the_first_otherwise() {
        let first = replica(Role::Primary(PrimaryStage::Both { broadcasts: 0 }));
        let second = replica(Role::Secondary { until: None });
        for key in [7, 8] {
            assert_ne!(first.sends_to(actor(key)), second.sends_to(actor(key)));
        }
        for stage in [
            PrimaryStage::Offered { plan: PLAN, then: vec![] },
            PrimaryStage::Ending { broadcasts: 0, then: vec![] },
        ] {
            let first = replica(Role::Primary(stage));
            assert!(first.sends_to(actor(7)) && first.sends_to(actor(8)));
        }
    }

    #[test]
    fn what_was_not_sent_to_both_is_passed_on_once() {
        for role in
            [Role::Primary(PrimaryStage::Both { broadcasts: 0 }), Role::Secondary { until: None }]
        {
            let one = replica(role);
            assert!(!one.owes(&header(actor(2), 0, 4)));
            assert!(one.owes(&header(actor(2), 0, 3)), "the sender knew of one replica");
            assert!(one.owes(&header(actor(2), 0, 0)), "the sender knew nothing");
        }
        let offered = replica(Role::Primary(PrimaryStage::Offered { plan: PLAN, then: vec![] }));
        assert!(offered.owes(&header(actor(2), 0, 4)), "nobody knows of both yet");
    }

    #[test]
    fn broadcasts_are_passed_on_until_the_other_pe_gives_them_itself() {
        let broadcast = |sequence| Header { is_broadcast: true, ..header(actor(2), sequence, 0) };
        let first = replica(Role::Primary(PrimaryStage::Both { broadcasts: 3 }));
        assert!(first.owes(&broadcast(2)) && !first.owes(&broadcast(3)));
        let second = replica(Role::Secondary { until: None });
        assert!(!second.owes(&broadcast(2)), "given by its own PE");
        assert!(!second.owes(&Header { epoch: 4, ..broadcast(2) }), "passed on by the first");
        let owed = Header { epoch: 3, ..broadcast(2) };
        assert!(second.owes(&owed), "owed by a PE that the actor has left");
    }

    #[test]
    fn a_replicas_is_done_when_it_has_sent_as_much_as_the_first_and_must_be_when_it_has_heard_as_much()
     {
        let until = Frontier {
            sent: vec![(actor(7), 0, 5), (actor(7), 16, 1)],
            heard: vec![(actor(2), 0, 3)],
            broadcasts: 2,
        };
        assert!(until.is_sent(|_, channel| if channel == 0 { 5 } else { 2 }));
        assert!(!until.is_sent(|_, channel| if channel == 0 { 4 } else { 2 }));
        assert!(until.is_heard(|_, _| 3, 2));
        assert!(!until.is_heard(|_, _| 2, 2) && !until.is_heard(|_, _| 3, 1));
        assert_eq!(replica(Role::Secondary { until: None }).until(), None, "nobody asked it to go");
    }
}
