//! Replicas: a deterministic actor that lives on two PEs at once, so that those who talk with it at
//! two sites wait for one crossing and not for two.
//!
//! A deterministic actor is a determinate node in the sense of G. Kahn, "The semantics of a simple
//! language for parallel programming" (1974): what it sends to somebody is a growing function of
//! what it got from each sender, however the messages of different senders interleave. So two
//! replicas that get the same messages send the same ones, with the same numbers, and the receiver
//! drops by its number what comes twice. Neither order nor exactly-once depend on who believes
//! what; the rest of the protocol only sees to it that both replicas get everything and that one of
//! them sends.
//!
//! **Start.** The primary sends a copy of the actor to the PE of the second: state, mailbox and
//! counters, as for a migration; the actor goes on meanwhile, and passes on what comes for it. When
//! the replica is taken, the epoch rises, and from then on each of the two sends to its part of
//! the receivers. That part was settled with the offer and does not change, so that a receiver that
//! moves meanwhile is served, if not from its own site.
//!
//! **Steady state.** Who knows of both replicas sends to both, with the actor's epoch. A replica
//! that gets a message with another epoch passes it on to the other replica, and tells whoever sent
//! it. Contributions, broadcasts and answers, which have no receiver that could tell them apart by
//! numbers, leave from the primary.
//!
//! **End.** Before the actor moves, or when a plan says so, the primary sends to all again and
//! tells the second how far it has come with those that it left to it. The second goes on until it
//! has come as far, and vanishes. It needs for that what the first has handled, which is on its way
//! to it. Whatever comes afterwards, the first has, or is sent to it. If the second was ahead of
//! the first, the first sends some things again, with the same numbers.
//!
//! **Failure.** A PE that cannot take the replica says so, and nothing has changed.

use super::{PrimaryStage, ReplicaState, Role, Then};
use crate::address::id::{ActorId, KindId, RebalanceId, Slot};
use crate::error::JobError;
use crate::message::codec;
use crate::message::limits::PIECE_BYTES_MAX;
use crate::message::{Control, MemberRecord, Migrant};
use crate::message::{Frontier, ReplicaControl, ReplicaOrder};
use crate::pe::core::{Core, Store};
use crate::pe::delivery::{Place, Way};
use crate::pe::members::member::Member;
use crate::pe::migrate;
use gridspan_topology::PeId;
use std::collections::BTreeMap;

/// Offers a PE the replica of an actor that lives here.
pub(crate) fn begin(
    core: &mut Core,
    stores: &[Box<dyn Store>],
    ReplicaOrder { id, at, serves }: ReplicaOrder,
    plan: RebalanceId,
) {
    let replica = core.resident(id).filter(|_| core.may_have_replica(id, at));
    let Some((kind, slot)) = replica else { return core.note_moved(Some(plan), false) };
    let (queue, lanes) = core.split_queue(kind);
    let (mailbox, bytes) = queue.extract(kind, slot, lanes);
    core.ready_bytes -= bytes;
    core.refill(kind, slot, &mailbox);
    let Some(member) = core.member(kind, slot) else { return };
    let (record, held, epoch) = (migrate::record(member), migrate::held(member), member.epoch + 1);
    let state = stores[kind.index()].encode(slot);
    let migrant = Box::new(Migrant { id, kind, epoch, state, mailbox, record, held });
    let bytes = codec::encoded_len(&migrant) + codec::encoded_len(&serves);
    if bytes > PIECE_BYTES_MAX {
        // No network would take it.
        tracing::warn!(collection = id.collection.0, index = ?id.key, bytes, "too large for a replica");
        return core.note_moved(Some(plan), false);
    }
    // What waits here will be handled there, too.
    core.created += copies(&migrant.mailbox, &migrant.held);
    let role = Role::Primary(PrimaryStage::Offered { plan, then: Vec::new() });
    let replica = ReplicaState { other: at, epoch, serves: serves.iter().copied().collect(), role };
    core.replicas.insert(id, replica);
    if let Some(member) = core.member(kind, slot) {
        member.is_replicated = true;
    }
    core.converse(at, ReplicaControl::Offer { migrant, serves });
}

fn copies<T, U>(mailbox: &[T], held: &[U]) -> u64 {
    (mailbox.len() + held.len()) as u64
}

/// Deals with what the PE of the other replica says.
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
                core.learn(id, Place::at(from, epoch + 1));
                core.converse(from, ReplicaControl::Refused { id, epoch, reason });
            }
        }
        ReplicaControl::Accepted { id, epoch, broadcasts } => {
            core.handle_accepted(id, epoch, broadcasts)
        }
        ReplicaControl::Refused { id, epoch, reason } => {
            tracing::warn!(collection = id.collection.0, index = ?id.key, %from, reason, "no replica");
            return core.handle_refused(id, epoch);
        }
        ReplicaControl::End { id, epoch, until } => core.replicas.leave(id, epoch, until),
        ReplicaControl::Ended { id, epoch, sent } => return core.handle_ended(id, epoch, &sent),
    }
    Vec::new()
}

/// Takes the replica of an actor.
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
        return Err("it is there already".to_owned());
    }
    // They are for the actor where it lives, and a replica here would take them for its own.
    if core.debts.contains_key(&id) {
        return Err("broadcasts are owed to it from there".to_owned());
    }
    if size > PIECE_BYTES_MAX || !core.has_room(size) {
        return Err(format!("there is no room for its {size} bytes"));
    }
    let Some(store) = stores.get_mut(kind.index()) else {
        return Err("it is of an unknown type".to_owned());
    };
    let decoded = store.decode(&state).map_err(|error| error.to_string())?;
    let channels =
        migrate::channels(core, kind, &record, &held).map_err(|error| error.to_string())?;
    let broadcasts = core.collections.get(id.collection).map_or(0, |local| local.broadcasts.next);
    // Only the primary ever waits at a sync point, or counts what the actor has cost before.
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

/// Lets replicas vanish that have sent what they had to.
pub(crate) fn settle(core: &mut Core, stores: &mut [Box<dyn Store>]) {
    for id in core.finished_replicas() {
        let Some((kind, slot)) = core.resident(id) else { continue };
        let Some(ReplicaState { other, epoch, .. }) = core.replicas.remove(id) else { continue };
        stores[kind.index()].remove(slot);
        let sent = core.vacate_second((kind, slot));
        core.delivery.learn(id, Place::at(other, epoch + 1));
        core.converse(other, ReplicaControl::Ended { id, epoch, sent });
    }
}

impl Core {
    fn converse(&mut self, to: PeId, edge: ReplicaControl) {
        self.post(to, Control::Replica(Box::new(edge)));
    }

    /// Whether an actor may get a replica there.
    fn may_have_replica(&self, id: ActorId, at: PeId) -> bool {
        let local = self.collections.get(id.collection);
        let is_deterministic = local.is_some_and(|local| {
            self.common.is_deterministic(local.info.kind) && local.info.migratable()
        });
        is_deterministic
            && at != self.me
            && self.common.layout.contains(at)
            && self.replicas.get(id).is_none()
    }

    /// Whether an actor of this kind is bound by what its type has promised; if so, ends the job
    /// with an error that says what it did.
    pub(crate) fn breaks_promise(&mut self, kind: KindId, deed: &str) -> bool {
        let is_deterministic = self.common.is_deterministic(kind);
        if is_deterministic {
            let name = self.kind(kind).map_or("an actor", |kind| kind.name());
            self.fail(JobError::Failed(format!(
                "{name} was declared deterministic and cannot {deed}: that would happen at each of its replicas; \
                 let another actor do it, or declare it with `Job::actor`"
            )));
        }
        is_deterministic
    }

    /// The replica of an actor has been taken elsewhere: from now on each of the two sends to its
    /// part.
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
        self.note_moved(Some(plan), true);
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
        self.raise_epoch(id, epoch + 1, None);
        self.note_moved(Some(plan), false);
        then.into_iter().map(|then| (id, then)).collect()
    }

    /// The actor's places are others from now on; its home learns of it.
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

    /// Ends replicas on behalf of a plan.
    pub(crate) fn end_replicas(&mut self, plan: RebalanceId, ended: &[ActorId]) {
        for &id in ended {
            match self.replicas.get(id).is_some_and(|replica| !replica.is_secondary()) {
                true => self.end_replica(id, Then::Report(plan)),
                false => self.note_moved(Some(plan), false),
            }
        }
    }

    /// Has an actor give up its replica, and then something else happen. Runs at the first
    /// replica.
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

    /// Replicas that have sent what they had to. One that has not, and has handled all that the
    /// first had when it sent as much, is not deterministic: that ends the job.
    fn finished_replicas(&mut self) -> Vec<ActorId> {
        let (mut finished, mut broken) = (Vec::new(), None);
        let mut waiting: BTreeMap<KindId, BTreeMap<u32, u64>> = BTreeMap::new();
        for (id, replica) in self.replicas.leaving() {
            let Some((until, (kind, slot))) = replica.until().zip(self.resident(id)) else {
                continue;
            };
            let Some(member) = self.member_in(Slot { kind, index: slot }) else { continue };
            let channels = member.channels.as_deref();
            let next = |to, channel| channels.and_then(|known| known.next.get((to, channel)));
            let heard = |from, channel| channels.and_then(|it| it.expected.get((from, channel)));
            let number = |counter: Option<u64>| counter.unwrap_or(0);
            if until.is_sent(|to, channel| number(next(to, channel))) {
                finished.push(id);
            } else if until
                .is_heard(|from, channel| number(heard(from, channel)), member.broadcasts)
                && let Some(queue) = self.queues.get(kind.index())
                && !waiting.entry(kind).or_insert_with(|| queue.waiting()).contains_key(&slot)
            {
                broken = Some(kind);
            }
        }
        if let Some(kind) = broken {
            let name = self.kind(kind).map_or("an actor", |kind| kind.name());
            self.fail(JobError::Failed(format!(
                "{name} was declared deterministic, but two of the same actor that had handled the same messages have not sent \
                 the same ones; take out what makes them differ, such as state that is not its own or the order of \
                 different senders' messages, or declare it with `Job::actor`"
            )));
        }
        finished
    }

    /// Forgets a replica. What waits for it has come to the first one too. Returns to whom the
    /// actor has sent.
    fn vacate_second(&mut self, (kind, slot): (KindId, u32)) -> Vec<(ActorId, i32)> {
        let Some((member, mailbox)) = self.take_out(kind, slot) else { return Vec::new() };
        self.free[kind.index()].push(slot);
        let held = member.channels.as_ref().map_or(0, |channels| channels.held.len());
        self.processed += (mailbox.len() + held) as u64;
        self.replicas.doubled -= (mailbox.len() as u64).min(self.replicas.doubled);
        let channels = member.channels.as_ref();
        let mut sent: Vec<Way> = channels
            .map_or_else(Vec::new, |channels| channels.next.iter().map(|(way, _)| way).collect());
        sent.sort_unstable();
        sent
    }

    /// The actor has one home again. Returns what has waited for that.
    fn handle_ended(
        &mut self,
        id: ActorId,
        epoch: u32,
        sent: &[(ActorId, i32)],
    ) -> Vec<(ActorId, Then)> {
        if !self
            .replicas
            .get(id)
            .is_some_and(|replica| replica.epoch == epoch && !replica.is_secondary())
        {
            return Vec::new();
        }
        let Some(ReplicaState { role, .. }) = self.replicas.remove(id) else { return Vec::new() };
        self.raise_epoch(id, epoch + 1, None);
        // The replica may have been ahead: what it has sent to somebody for the first time must
        // have its number when this one sends it too.
        if let Some((kind, slot)) = self.resident(id)
            && let Some(member) = self.member(kind, slot)
        {
            let channels = member.channels.get_or_insert_default();
            for &way in sent {
                channels.next.entry(way);
            }
        }
        match role {
            Role::Primary(PrimaryStage::Ending { then, .. }) => {
                then.into_iter().map(|then| (id, then)).collect()
            }
            _ => Vec::new(),
        }
    }
}
