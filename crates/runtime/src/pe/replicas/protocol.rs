//! Replicas: a deterministic actor that lives on two PEs at once, so that actors at two sites that
//! communicate with it wait for one crossing instead of two.
//!
//! A deterministic actor is a determinate node in the sense of G. Kahn, "The semantics of a simple
//! language for parallel programming" (1974): its messages to each receiver are a monotonic
//! function of the messages that it gets from each sender, however the messages of different
//! senders interleave. So two replicas that get the same messages send the same ones, with the same
//! numbers, and the receiver drops repeated numbers. Neither order nor exactly-once delivery
//! depends on which nodes know of the replica. The rest of the protocol only ensures that both
//! replicas get all messages and that one of them sends.
//!
//! **Start.** The original (the *primary*) sends a copy of the actor to the PE of the second
//! replica: state, mailbox and counters, as for a migration. The primary continues meanwhile, and
//! passes on the messages that arrive for it. When the second is installed, the epoch rises, and
//! from then on each replica sends to its part of the receivers. The offer fixes these parts, and
//! they do not change: if a receiver moves to another site, the same replica still sends to it.
//!
//! **Steady state.** A sender that knows of both replicas sends to both, with the actor's epoch. A
//! replica that gets a message with another epoch passes it on to the other replica, and reports
//! both places to the sender. Contributions, broadcasts and answers leave from the primary, because
//! no receiver could detect repeated ones by numbers.
//!
//! **End.** A replica ends before the actor moves, before a checkpoint, or when a plan requires it.
//! From then on the primary sends to all receivers. It reports its progress to the second replica:
//! the numbers of its next messages to the receivers of the second. The second continues until
//! it has reached these numbers, and is then removed. All messages that it needs for this are on
//! their way to it, since the primary has handled them. Later messages reach the primary, or are
//! forwarded to it. If the second was ahead of the primary, the primary sends some messages again,
//! with the same numbers. Only after those can the actor move, or a checkpoint capture it,
//! which contains no message numbers. After a checkpoint the replica begins again.
//!
//! **Failure.** A PE that cannot take the replica refuses it. The actor stays on one PE, with a
//! higher epoch.

use super::{PrimaryStage, ReplicaState, Role, Then};
use crate::address::id::{ActorId, COORDINATOR, KindId, RebalanceId, Slot};
use crate::error::Misuse;
use crate::message::codec;
use crate::message::limits::PIECE_BYTES_MAX;
use crate::message::{CheckpointMessage, Control, MemberRecord, Migrant};
use crate::message::{Frontier, ReplicaControl, ReplicaOrder};
use crate::pe::PlantedFault;
use crate::pe::core::{Core, Store};
use crate::pe::delivery::Place;
use crate::pe::members::member::Member;
use crate::pe::migrate;
use gridspan_topology::PeId;
use std::collections::BTreeMap;

/// Offers a PE the second replica of an actor that lives here, for a plan or after a checkpoint.
pub(crate) fn begin(
    core: &mut Core,
    stores: &[Box<dyn Store>],
    ReplicaOrder { id, at, serves }: ReplicaOrder,
    plan: Option<RebalanceId>,
) {
    let replica = core.resident(id).filter(|_| core.may_have_replica(id, at));
    let Some((kind, slot)) = replica else { return core.note_begun(plan, false) };
    let queue = &mut core.queues[kind.index()];
    let (mailbox, bytes) = queue.extract(kind, slot, &mut core.lanes);
    core.ready_bytes -= bytes;
    core.refill(kind, slot, &mailbox);
    let Some(member) = core.member(kind, slot) else { return };
    let (record, held, epoch) =
        (migrate::record(member), migrate::held(member), member.epoch.saturating_add(1));
    let state = stores[kind.index()].encode(slot);
    let migrant = Box::new(Migrant { id, kind, epoch, state, mailbox, record, held });
    let bytes = codec::encoded_len(&migrant) + codec::encoded_len(&serves);
    if bytes > PIECE_BYTES_MAX {
        // No connection would carry it.
        tracing::warn!(collection = id.collection.0, index = ?id.key, bytes, "too large for a replica");
        return core.note_begun(plan, false);
    }
    // Waiting messages will be handled on the other PE too.
    core.created += copies(&migrant.mailbox, &migrant.held);
    let role = Role::Primary(PrimaryStage::Offered { plan, then: Vec::new() });
    let replica = ReplicaState { other: at, epoch, serves: serves.iter().copied().collect(), role };
    core.replicas.insert(id, replica);
    if let Some(member) = core.member(kind, slot) {
        member.is_replicated = true;
    }
    core.converse(at, ReplicaControl::Offer { migrant, serves });
}

/// How far a replica has come, compared with the other one.
enum Compared {
    /// It has sent as much.
    Reached,
    /// It has sent less, and has messages left to receive or handle.
    Behind,
    /// It has sent less, and has nothing left to handle.
    Differs,
}

fn copies<T, U>(mailbox: &[T], held: &[U]) -> u64 {
    (mailbox.len() + held.len()) as u64
}

/// Handles a control from the PE of the other replica. Returns actions that need not wait any
/// longer.
pub(crate) fn handle(
    core: &mut Core,
    stores: &mut [Box<dyn Store>],
    from: PeId,
    edge: ReplicaControl,
) -> Vec<(ActorId, Then)> {
    match edge {
        ReplicaControl::Offer { migrant, serves } => {
            let (id, epoch) = (migrant.id, migrant.epoch);
            let waiting = copies(&migrant.mailbox, &migrant.held);
            if let Err(reason) = take(core, stores, from, *migrant, serves) {
                core.processed += waiting;
                core.learn(id, Place::at(from, epoch.saturating_add(1)));
                core.converse(from, ReplicaControl::Refused { id, epoch, reason });
            }
        }
        ReplicaControl::Accepted { id, epoch, broadcasts } => {
            core.handle_accepted(id, epoch, broadcasts)
        }
        ReplicaControl::Refused { id, epoch, reason } => {
            tracing::warn!(collection = id.collection.0, index = ?id.key, %from, reason, "replica refused");
            return core.handle_refused(id, epoch);
        }
        ReplicaControl::End { id, epoch, until } => core.replicas.leave(id, epoch, until),
        ReplicaControl::Ended { id, epoch, reached } => {
            return core.handle_ended(id, epoch, reached);
        }
    }
    Vec::new()
}

/// Installs the second replica of an actor.
fn take(
    core: &mut Core,
    stores: &mut [Box<dyn Store>],
    from: PeId,
    migrant: Migrant,
    serves: Vec<ActorId>,
) -> Result<(), String> {
    let size = codec::encoded_len(&migrant);
    let Migrant { id, kind, epoch, state, mailbox, record, held } = migrant;
    let is_here = core.resident(id).is_some()
        || core.departing.contains_key(&id)
        || core.arriving.contains(&id);
    if is_here {
        return Err("the actor already lives there".to_owned());
    }
    // These broadcasts are owed to the actor on its new PE; a replica here would take them.
    if core.debts.contains_key(&id) {
        return Err("that PE still owes it broadcasts".to_owned());
    }
    if size > PIECE_BYTES_MAX || !core.has_room(size) {
        return Err(format!("there is no room for its {size} bytes"));
    }
    let Some(store) = stores.get_mut(kind.index()) else {
        return Err("its actor type is unknown there".to_owned());
    };
    let decoded = store.decode(&state).map_err(|error| error.to_string())?;
    let channels =
        migrate::channels(core, kind, &record, &held).map_err(|error| error.to_string())?;
    let broadcasts = core.collections.get(id.collection).map_or(0, |local| local.broadcasts.next);
    // Only the primary waits at sync points and reports the load so far.
    let record = MemberRecord { synced: false, load_ns: 0, ..record };
    let member = migrate::member(id, epoch, &record, channels, state.len() as u64);
    let member = Member { is_replicated: true, ..member };
    let slot = core.add_member(kind, member);
    let role = Role::Secondary { until: None };
    let serves = serves.into_iter().collect();
    core.replicas.insert(id, ReplicaState { other: from, epoch, serves, role });
    core.replicas.doubled += mailbox.len() as u64;
    core.refill(kind, slot, &mailbox);
    core.release_blocked(kind, slot);
    store.put_aside(slot, decoded);
    core.release_awaiting(id);
    core.converse(from, ReplicaControl::Accepted { id, epoch, broadcasts });
    Ok(())
}

/// Removes the second replicas that have sent all that they had to. Returns actions that need not
/// wait any longer, since the primary has sent as much as its second had.
pub(crate) fn settle(core: &mut Core, stores: &mut [Box<dyn Store>]) -> Vec<(ActorId, Then)> {
    for id in core.finished_replicas() {
        let Some((kind, slot)) = core.resident(id) else { continue };
        let Some(ReplicaState { other, epoch, .. }) = core.replicas.remove(id) else { continue };
        let store = &mut stores[kind.index()];
        store.prepare_change(core, slot);
        store.remove(slot);
        let reached = core.vacate_second((kind, slot));
        core.delivery.learn(id, Place::at(other, epoch.saturating_add(1)));
        core.converse(other, ReplicaControl::Ended { id, epoch, reached });
    }
    core.caught_up()
}

impl Core {
    fn converse(&mut self, to: PeId, edge: ReplicaControl) {
        self.post(to, Control::Replica(Box::new(edge)));
    }

    fn may_have_replica(&self, id: ActorId, at: PeId) -> bool {
        let local = self.collections.get(id.collection);
        let is_deterministic = local.is_some_and(|local| {
            self.common.is_deterministic(local.info.kind) && local.info.migratable()
        });
        is_deterministic
            && at != self.me
            && self.common.layout.contains(at)
            && self.replicas.get(id).is_none()
            && !self.replicas.is_trailing(id)
    }

    /// Reports that a replica has begun, or cannot: for a plan, or after a checkpoint.
    fn note_begun(&mut self, plan: Option<RebalanceId>, is_begun: bool) {
        match plan {
            Some(_) => self.note_moved(plan, is_begun),
            None => {
                let rebuilt = Control::Checkpoint(Box::new(CheckpointMessage::Rebuilt));
                self.post(COORDINATOR, rebuilt);
            }
        }
    }

    /// Whether an actor of this kind was declared deterministic, and so must not do `deed`. If so,
    /// ends the job with an error that names the deed.
    pub(crate) fn breaks_promise(&mut self, kind: KindId, deed: &str) -> bool {
        let is_deterministic = self.common.is_deterministic(kind);
        if is_deterministic {
            let actor = self.common.kind(kind).map_or("an actor", |kind| kind.name()).to_owned();
            self.fail(Misuse::NotAtReplicas { actor, deed: deed.to_owned() }.into());
        }
        is_deterministic
    }

    /// Handles the acceptance of the second replica: from now on each replica sends to its part of
    /// the receivers.
    fn handle_accepted(&mut self, id: ActorId, epoch: u32, broadcasts: u64) {
        let Some(replica) = self.replicas.get_mut(id).filter(|replica| replica.epoch == epoch)
        else {
            return;
        };
        let Role::Primary(PrimaryStage::Offered { plan, then }) = &mut replica.role else { return };
        let (plan, then) = (*plan, std::mem::take(then));
        replica.role = Role::Primary(PrimaryStage::Both { broadcasts });
        let replica = Some(replica.other);
        self.raise_epoch(id, epoch, replica);
        self.statistics.replicas += 1;
        self.note_begun(plan, true);
        for then in then {
            self.end_replica(id, then);
        }
    }

    fn handle_refused(&mut self, id: ActorId, epoch: u32) -> Vec<(ActorId, Then)> {
        if !self
            .replicas
            .get(id)
            .is_some_and(|replica| replica.epoch == epoch && !replica.is_known())
        {
            return Vec::new();
        }
        let Some(ReplicaState { role, .. }) = self.replicas.remove(id) else { return Vec::new() };
        let Role::Primary(PrimaryStage::Offered { plan, then }) = role else { return Vec::new() };
        self.raise_epoch(id, epoch.saturating_add(1), None);
        self.note_begun(plan, false);
        then.into_iter().map(|then| (id, then)).collect()
    }

    /// Sets the actor's epoch and replica, and reports its new place to its home.
    fn raise_epoch(&mut self, id: ActorId, epoch: u32, replica: Option<PeId>) {
        let is_replicated = replica.is_some();
        if let Some((kind, slot)) = self.resident(id)
            && let Some(member) = self.member(kind, slot)
        {
            (member.epoch, member.is_replicated) = (epoch, is_replicated);
        }
        let here = Place { replica, ..Place::at(self.me, epoch) };
        if let Some(home) = self.home(id).filter(|&home| home != self.me) {
            self.tell_place(home, id, here);
        }
    }

    /// Ends second replicas on behalf of a plan.
    pub(crate) fn end_replicas(&mut self, plan: RebalanceId, ended: &[ActorId]) {
        for &id in ended {
            match self.replicas.get(id).is_some_and(|replica| !replica.is_secondary()) {
                true => self.end_replica(id, Then::Report(plan)),
                false => self.note_moved(Some(plan), false),
            }
        }
    }

    /// Ends all second replicas whose primaries are here, for a checkpoint. Returns the orders to
    /// begin them again.
    pub(crate) fn end_all_replicas(&mut self) -> Vec<ReplicaOrder> {
        let orders = self.replicas_here();
        orders.iter().for_each(|order| self.end_replica(order.id, Then::Checkpoint));
        orders
    }

    /// Ends an actor's second replica; `next` follows when it is gone. Runs at the primary.
    pub(crate) fn end_replica(&mut self, id: ActorId, next: Then) {
        let Some(replica) = self.replicas.get_mut(id) else { return };
        let Role::Primary(stage) = &mut replica.role else { return };
        let broadcasts = match stage {
            PrimaryStage::Offered { then, .. } | PrimaryStage::Ending { then, .. } => {
                return then.push(next);
            }
            PrimaryStage::Both { broadcasts } => *broadcasts,
        };
        *stage = PrimaryStage::Ending { broadcasts, then: vec![next] };
        let (other, epoch, serves) = (replica.other, replica.epoch, replica.serves.clone());
        let Some(member) = self.resident(id).and_then(|(kind, slot)| self.member(kind, slot))
        else {
            return;
        };
        let MemberRecord { expected: heard, next, broadcasts, .. } = migrate::record(member);
        let sent = next.into_iter().filter(|(to, ..)| serves.contains(to)).collect();
        let until = Frontier { sent, heard, broadcasts };
        self.converse(other, ReplicaControl::End { id, epoch, until });
    }

    /// Second replicas that have sent all that they had to. If one has handled everything that the
    /// primary had handled when it asked the replica to end, but has sent less, the job ends: the
    /// actor is not deterministic.
    fn finished_replicas(&mut self) -> Vec<ActorId> {
        let (mut finished, mut broken) = (Vec::new(), None);
        let mut waiting: BTreeMap<KindId, BTreeMap<u32, u64>> = BTreeMap::new();
        for (id, replica) in self.replicas.leaving() {
            let Some((until, here)) = replica.until().zip(self.resident(id)) else { continue };
            match self.compare(here, until, &mut waiting) {
                Compared::Reached => finished.push(id),
                Compared::Behind => {}
                Compared::Differs => broken = Some(here.0),
            }
        }
        self.fail_differing(broken);
        finished
    }

    /// Removes the actors that have sent as much as their former second replicas, and returns the
    /// actions that have waited for that.
    fn caught_up(&mut self) -> Vec<(ActorId, Then)> {
        let (mut finished, mut broken) = (Vec::new(), None);
        let mut waiting = BTreeMap::new();
        for (id, reached) in self.replicas.trailing() {
            let Some(here) = self.resident(id) else {
                finished.push(id);
                continue;
            };
            match self.compare(here, reached, &mut waiting) {
                Compared::Reached => finished.push(id),
                Compared::Behind => {}
                Compared::Differs => broken = Some(here.0),
            }
        }
        self.fail_differing(broken);
        let mut going_on = Vec::new();
        for id in finished {
            going_on.extend(self.replicas.stop_trailing(id).into_iter().map(|then| (id, then)));
        }
        going_on
    }

    /// Compares a replica here with the frontier of the other one. `waiting`: a cache of how many
    /// messages wait for each member, by actor type; filled on demand.
    fn compare(
        &self,
        (kind, slot): (KindId, u32),
        other: &Frontier,
        waiting: &mut BTreeMap<KindId, BTreeMap<u32, u64>>,
    ) -> Compared {
        let Some(member) = self.member_in(Slot { kind, index: slot }) else {
            return Compared::Behind;
        };
        let channels = member.channels.as_deref();
        let next = |to, channel| channels.and_then(|known| known.next.get((to, channel)));
        let heard = |from, channel| channels.and_then(|it| it.expected.get((from, channel)));
        let number = |counter: Option<u64>| counter.unwrap_or(0);
        if other.is_sent(|to, channel| number(next(to, channel))) {
            return Compared::Reached;
        }
        let has_heard =
            other.is_heard(|from, channel| number(heard(from, channel)), member.broadcasts);
        let queue = self.queues.get(kind.index()).filter(|_| has_heard);
        let is_idle = queue.is_some_and(|queue| {
            !waiting.entry(kind).or_insert_with(|| queue.waiting()).contains_key(&slot)
        });
        if is_idle { Compared::Differs } else { Compared::Behind }
    }

    /// Ends the job if the replicas of an actor of a type have not sent the same messages.
    fn fail_differing(&mut self, kind: Option<KindId>) {
        if let Some(kind) = kind {
            let actor = self.common.kind(kind).map_or("an actor", |kind| kind.name()).to_owned();
            self.fail(Misuse::ReplicasDiffer { actor }.into());
        }
    }

    /// Removes a second replica. The primary gets the messages that wait for it, too. Returns the
    /// frontier that the replica has reached.
    fn vacate_second(&mut self, (kind, slot): (KindId, u32)) -> Frontier {
        let Some((member, mailbox)) = self.take_out(kind, slot) else {
            return Frontier::default();
        };
        self.free[kind.index()].push(slot);
        let held = member.channels.as_ref().map_or(0, |channels| channels.held.len());
        self.processed += (mailbox.len() + held) as u64;
        self.replicas.doubled -= (mailbox.len() as u64).min(self.replicas.doubled);
        let MemberRecord { expected: heard, next: sent, broadcasts, .. } = migrate::record(&member);
        Frontier { sent, heard, broadcasts }
    }

    /// Handles the end of the second replica. Returns the actions that have waited for it, unless
    /// this replica has to send what the second has sent before they may follow.
    fn handle_ended(&mut self, id: ActorId, epoch: u32, reached: Frontier) -> Vec<(ActorId, Then)> {
        if !self
            .replicas
            .get(id)
            .is_some_and(|replica| replica.epoch == epoch && !replica.is_secondary())
        {
            return Vec::new();
        }
        let Some(ReplicaState { role, serves, .. }) = self.replicas.remove(id) else {
            return Vec::new();
        };
        self.raise_epoch(id, epoch.saturating_add(1), None);
        // The second may have been ahead: if it was the first to send to a receiver, the primary's
        // messages to that receiver must be numbered too.
        if let Some((kind, slot)) = self.resident(id)
            && let Some(member) = self.member(kind, slot)
        {
            let channels = member.channels.get_or_insert_default();
            for &(to, channel, _) in &reached.sent {
                channels.next.entry((to, channel));
            }
        }
        let Role::Primary(PrimaryStage::Ending { then, .. }) = role else { return Vec::new() };
        if self.common.fault == PlantedFault::TrailingIgnored {
            return then.into_iter().map(|then| (id, then)).collect();
        }
        let sent = reached.sent.into_iter().filter(|(to, ..)| serves.contains(to)).collect();
        self.replicas.trail(id, Frontier { sent, ..reached }, then);
        self.caught_up()
    }
}
