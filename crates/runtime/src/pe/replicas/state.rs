//! Actors that live on two PEs at once, as one of the two PEs knows them. See `protocol` for how
//! replicas begin and end.

use crate::address::id::{ActorId, RebalanceId};
use crate::message::Frontier;
use crate::message::envelope::Header;
use crate::pe::delivery::Route;
use gridspan_topology::PeId;
use std::collections::{BTreeMap, BTreeSet};

/// The actors here that are replicated, with this PE's knowledge about the other replica.
#[derive(Default)]
pub(crate) struct Replicas {
    by_actor: BTreeMap<ActorId, ReplicaState>,
    /// Second replicas here that are about to be removed.
    leaving: BTreeSet<ActorId>,
    /// Actors here that have one replica again and have sent less than their former second replica:
    /// the frontier of the former replica, and the actions that wait.
    trailing: BTreeMap<ActorId, (Frontier, Vec<Then>)>,
    /// Number of messages to second replicas here, which the primary handles too.
    pub(crate) doubled: u64,
}

/// The state of one of an actor's two replicas.
pub(crate) struct ReplicaState {
    /// The PE of the other replica.
    pub(crate) other: PeId,
    /// The actor's epoch while it has two replicas.
    pub(crate) epoch: u32,
    /// The receivers to which the second replica sends. The primary sends to all others.
    pub(crate) serves: BTreeSet<ActorId>,
    pub(crate) role: Role,
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// The original, which stays.
    Primary(PrimaryStage),
    /// The second replica, with the point that it has to reach before it is removed, if it ends.
    Secondary { until: Option<Frontier> },
}

/// The stage of a primary in the protocol with its second replica.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum PrimaryStage {
    /// The second replica has been offered, on behalf of a plan or, without one, after a
    /// checkpoint. If actions wait, it ends again once it is accepted.
    Offered { plan: Option<RebalanceId>, then: Vec<Then> },
    /// Both handle all messages. The PE of the second replica delivers to it the broadcasts from
    /// this number on.
    Both { broadcasts: u64 },
    /// The second replica is about to be removed.
    Ending { broadcasts: u64, then: Vec<Then> },
}

/// An action that waits until an actor has one replica again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Then {
    /// Report the end of the replica to a plan.
    Report(RebalanceId),
    /// Move the actor for a plan.
    Move(PeId, RebalanceId),
    /// Move the actor at its own request.
    Wish(PeId),
    /// Nothing: a checkpoint is made when no actor has a replica.
    Checkpoint,
}

impl Replicas {
    /// Whether no actor here is replicated, as in nearly all jobs.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.by_actor.is_empty()
    }

    /// Whether an actor here is replicated, or trails the replica that it had.
    pub(crate) fn is_any(&self) -> bool {
        !self.by_actor.is_empty() || !self.trailing.is_empty()
    }

    /// Defers actions until an actor here has sent as much as its former second replica.
    pub(crate) fn trail(&mut self, id: ActorId, reached: Frontier, then: Vec<Then>) {
        self.trailing.insert(id, (reached, then));
    }

    /// Defers an action if an actor trails its former second replica. Returns whether it does.
    pub(crate) fn defer(&mut self, id: ActorId, then: Then) -> bool {
        let trailing = self.trailing.get_mut(&id);
        trailing.map(|(_, waiting)| waiting.push(then)).is_some()
    }

    /// Forgets the move that an actor here has requested and that waits for the end of its replica.
    pub(crate) fn forget_wish(&mut self, id: ActorId) {
        let is_other = |then: &Then| !matches!(then, Then::Wish(_));
        if let Some((_, then)) = self.trailing.get_mut(&id) {
            then.retain(is_other);
        }
        if let Some(replica) = self.by_actor.get_mut(&id)
            && let Role::Primary(
                PrimaryStage::Offered { then, .. } | PrimaryStage::Ending { then, .. },
            ) = &mut replica.role
        {
            then.retain(is_other);
        }
    }

    /// Whether an actor trails its former second replica.
    pub(crate) fn is_trailing(&self, id: ActorId) -> bool {
        self.trailing.contains_key(&id)
    }

    /// The actors that trail their former second replicas, with the frontiers of those.
    pub(crate) fn trailing(&self) -> impl Iterator<Item = (ActorId, &Frontier)> {
        self.trailing.iter().map(|(&id, (reached, _))| (id, reached))
    }

    /// Removes an actor that does not trail any more. Returns the actions that have waited.
    pub(crate) fn stop_trailing(&mut self, id: ActorId) -> Vec<Then> {
        self.trailing.remove(&id).map_or_else(Vec::new, |(_, then)| then)
    }

    pub(crate) fn get(&self, id: ActorId) -> Option<&ReplicaState> {
        self.by_actor.get(&id)
    }

    pub(crate) fn get_mut(&mut self, id: ActorId) -> Option<&mut ReplicaState> {
        self.by_actor.get_mut(&id)
    }

    /// The route to an actor that lives on the PE `me` and on another PE.
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

    /// Marks a second replica for removal once it has reached the frontier `far`.
    pub(crate) fn leave(&mut self, id: ActorId, epoch: u32, far: Frontier) {
        if let Some(replica) = self.by_actor.get_mut(&id).filter(|replica| replica.epoch == epoch)
            && let Role::Secondary { until } = &mut replica.role
        {
            *until = Some(far);
            self.leaving.insert(id);
        }
    }

    /// The second replicas that are to be removed.
    pub(crate) fn leaving(&self) -> impl Iterator<Item = (ActorId, &ReplicaState)> {
        self.leaving.iter().filter_map(|&id| Some((id, self.get(id)?)))
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (ActorId, &ReplicaState)> {
        self.by_actor.iter().map(|(&id, replica)| (id, replica))
    }

    /// Whether the replica here is the second one of an actor.
    pub(crate) fn is_secondary(&self, id: ActorId) -> bool {
        self.get(id).is_some_and(ReplicaState::is_secondary)
    }
}

impl ReplicaState {
    pub(crate) fn is_secondary(&self) -> bool {
        matches!(self.role, Role::Secondary { .. })
    }

    /// Whether other PEs may know of both replicas.
    pub(crate) fn is_known(&self) -> bool {
        !matches!(self.role, Role::Primary(PrimaryStage::Offered { .. }))
    }

    /// Whether messages to `receiver` leave from this replica. While one of the two may not send,
    /// the other does; if both send, the receiver drops repeated numbers.
    pub(crate) fn sends_to(&self, receiver: ActorId) -> bool {
        match self.role {
            Role::Primary(PrimaryStage::Both { .. }) => !self.serves.contains(&receiver),
            Role::Primary(PrimaryStage::Offered { .. } | PrimaryStage::Ending { .. }) => true,
            Role::Secondary { .. } => self.serves.contains(&receiver),
        }
    }

    /// Whether the other replica may lack a message that has arrived here.
    pub(crate) fn owes(&self, header: &Header) -> bool {
        if header.is_broadcast {
            return match self.role {
                Role::Primary(PrimaryStage::Offered { .. }) => true,
                Role::Primary(
                    PrimaryStage::Both { broadcasts } | PrimaryStage::Ending { broadcasts, .. },
                ) => header.sequence < broadcasts,
                // A broadcast that this PE gives to all its members has no epoch; one that the
                // primary has passed on has the epoch of the replicas. All others are owed to the
                // actor by a PE that it has left.
                Role::Secondary { .. } => {
                    let is_given_here = header.epoch == 0 && header.hops == 0;
                    !is_given_here && header.epoch != self.epoch
                }
            };
        }
        // A sender that knows of both replicas has sent to both, with this epoch.
        !self.is_known() || header.epoch != self.epoch
    }

    /// The point that a replica has to reach before it is removed, if it ends.
    pub(crate) fn until(&self) -> Option<&Frontier> {
        match &self.role {
            Role::Secondary { until } => until.as_ref(),
            Role::Primary(_) => None,
        }
    }
}

impl Frontier {
    /// Whether everything has been sent; `next` returns the number of the next message to a
    /// receiver.
    pub(crate) fn is_sent(&self, next: impl Fn(ActorId, i32) -> u64) -> bool {
        self.sent.iter().all(|&(to, channel, number)| next(to, channel) >= number)
    }

    /// Whether everything has arrived; `next` returns the number of the next message from a sender,
    /// and `broadcasts` is the number of the next broadcast.
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
    fn one_replica_sends_to_each_receiver_while_both_work_otherwise_the_primary_does() {
        let first = replica(Role::Primary(PrimaryStage::Both { broadcasts: 0 }));
        let second = replica(Role::Secondary { until: None });
        for key in [7, 8] {
            assert_ne!(first.sends_to(actor(key)), second.sends_to(actor(key)));
        }
        for stage in [
            PrimaryStage::Offered { plan: Some(PLAN), then: vec![] },
            PrimaryStage::Ending { broadcasts: 0, then: vec![] },
        ] {
            let first = replica(Role::Primary(stage));
            assert!(first.sends_to(actor(7)) && first.sends_to(actor(8)));
        }
    }

    #[test]
    fn a_message_that_was_sent_to_one_replica_is_passed_on() {
        for role in
            [Role::Primary(PrimaryStage::Both { broadcasts: 0 }), Role::Secondary { until: None }]
        {
            let one = replica(role);
            assert!(!one.owes(&header(actor(2), 0, 4)));
            assert!(one.owes(&header(actor(2), 0, 3)), "the sender knew of one replica");
            assert!(one.owes(&header(actor(2), 0, 0)), "the sender knew nothing");
        }
        let offered = PrimaryStage::Offered { plan: Some(PLAN), then: vec![] };
        let offered = replica(Role::Primary(offered));
        assert!(offered.owes(&header(actor(2), 0, 4)), "no sender knows of both yet");
    }

    #[test]
    fn a_broadcast_is_passed_on_unless_the_other_pe_gives_it_itself() {
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
    fn actions_wait_while_an_actor_trails_its_former_replica() {
        let mut replicas = Replicas::default();
        assert!(!replicas.defer(actor(1), Then::Checkpoint));
        replicas.trail(actor(1), Frontier::default(), vec![Then::Report(PLAN)]);
        assert!(replicas.is_any() && replicas.is_empty());
        assert!(replicas.defer(actor(1), Then::Wish(PeId(3))));
        let waited = replicas.stop_trailing(actor(1));
        assert_eq!(waited, [Then::Report(PLAN), Then::Wish(PeId(3))]);
        assert!(!replicas.is_any());
    }

    #[test]
    fn a_forgotten_wish_leaves_the_other_actions() {
        let mut replicas = Replicas::default();
        let then = || vec![Then::Report(PLAN), Then::Wish(PeId(3))];
        let ending = PrimaryStage::Ending { broadcasts: 0, then: then() };
        replicas.insert(actor(1), replica(Role::Primary(ending)));
        replicas.trail(actor(2), Frontier::default(), then());
        for id in [actor(1), actor(2)] {
            replicas.forget_wish(id);
        }
        let left = PrimaryStage::Ending { broadcasts: 0, then: vec![Then::Report(PLAN)] };
        let role = replicas.get(actor(1)).map(|replica| &replica.role);
        assert_eq!(role, Some(&Role::Primary(left)));
        assert_eq!(replicas.stop_trailing(actor(2)), [Then::Report(PLAN)]);
    }

    #[test]
    fn a_frontier_is_reached_when_all_numbers_are() {
        let until = Frontier {
            sent: vec![(actor(7), 0, 5), (actor(7), 16, 1)],
            heard: vec![(actor(2), 0, 3)],
            broadcasts: 2,
        };
        assert!(until.is_sent(|_, channel| if channel == 0 { 5 } else { 2 }));
        assert!(!until.is_sent(|_, channel| if channel == 0 { 4 } else { 2 }));
        assert!(until.is_heard(|_, _| 3, 2));
        assert!(!until.is_heard(|_, _| 2, 2) && !until.is_heard(|_, _| 3, 1));
        assert_eq!(replica(Role::Secondary { until: None }).until(), None, "it need not end");
    }
}
