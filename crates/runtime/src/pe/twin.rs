//! Twins: a pure actor that sits on two PEs at once, so that those who talk with it at two sites
//! wait for one crossing and not for two.
//!
//! A pure actor is a determinate node in the sense of G. Kahn, "The semantics of a simple language
//! for parallel programming" (1974): what it sends to somebody is a growing function of what it got
//! from each sender, however the messages of different senders interleave. So two seats that get
//! the same messages send the same ones, with the same numbers, and the receiver drops by its
//! number what comes twice. Neither order nor exactly-once depend on who believes what; the rest of
//! the protocol only sees to it that both seats get everything and that one of them sends.
//!
//! **Start.** The first seat sends a copy of the actor to the PE of the second: state, mailbox and
//! counters, as for a migration; the actor goes on meanwhile, and passes on what comes for it. When
//! the second seat is taken, the epoch rises, and from then on each of the two sends to its part of
//! the receivers. That part was settled with the offer and does not change, so that a receiver that
//! moves meanwhile is served, if not from its own site.
//!
//! **Steady state.** Who knows of both seats sends to both, with the actor's epoch. A seat that
//! gets a message with another epoch passes it on to the other seat, and tells whoever sent it.
//! Contributions, broadcasts and answers, which have no receiver that could tell them apart by
//! numbers, leave from the first seat.
//!
//! **End.** Before the actor moves, or when a plan says so, the first seat sends to all again and
//! tells the second how far it has come with those that it left to it. The second goes on until it
//! has come as far, and vanishes. It needs for that what the first has handled, which is on its way
//! to it. Whatever comes afterwards, the first has, or is sent to it. If the second was ahead of
//! the first, the first sends some things again, with the same numbers.
//!
//! **Failure.** A PE that cannot take the second seat says so, and nothing has changed.

use super::core::{Core, Store};
use super::migrate;
use super::state::{Member, Place, Role, Seating, Then, TwinSeat, Until, Way};
use crate::codec;
use crate::error::JobError;
use crate::id::{ActorId, KindId, RebalanceId};
use crate::limits::PIECE_BYTES_MAX;
use crate::wire::{Control, MemberRecord, Migrant, TwinOrder, TwinTalk};
use gridspan_topology::PeId;
use std::collections::BTreeMap;

/// Offers a PE the second seat of an actor that sits here.
pub(super) fn begin(
    core: &mut Core,
    stores: &[Box<dyn Store>],
    TwinOrder { id, at, serves }: TwinOrder,
    plan: RebalanceId,
) {
    let seat = core.resident(id).filter(|_| core.may_have_twin(id, at));
    let Some((kind, slot)) = seat else { return core.note_moved(Some(plan), false) };
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
        tracing::warn!(collection = id.collection.0, index = ?id.key, bytes, "too large for a second seat");
        return core.note_moved(Some(plan), false);
    }
    // What waits here will be handled there, too.
    core.created += copies(&migrant.mailbox, &migrant.held);
    let role = Role::First(Seating::Offered { plan, then: Vec::new() });
    let seat = TwinSeat { other: at, epoch, serves: serves.iter().copied().collect(), role };
    core.twins.insert(id, seat);
    if let Some(member) = core.member(kind, slot) {
        member.is_twin = true;
    }
    core.converse(at, TwinTalk::Offer { migrant, serves });
}

fn copies<T, U>(mailbox: &[T], held: &[U]) -> u64 {
    (mailbox.len() + held.len()) as u64
}

/// Deals with what the PE of the other seat says.
pub(super) fn handle(
    core: &mut Core,
    stores: &mut [Box<dyn Store>],
    from: PeId,
    edge: TwinTalk,
) -> Vec<(ActorId, Then)> {
    match edge {
        TwinTalk::Offer { migrant, serves } => {
            let (id, epoch) = (migrant.id, migrant.epoch);
            let waiting = copies(&migrant.mailbox, &migrant.held);
            if let Err(reason) = take(core, stores, from, *migrant, serves) {
                core.processed += waiting;
                core.learn(id, Place::at(from, epoch + 1));
                core.converse(from, TwinTalk::Refused { id, epoch, reason });
            }
        }
        TwinTalk::Seated { id, epoch, broadcasts } => core.handle_seated(id, epoch, broadcasts),
        TwinTalk::Refused { id, epoch, reason } => {
            tracing::warn!(collection = id.collection.0, index = ?id.key, %from, reason, "no second seat");
            return core.handle_refused(id, epoch);
        }
        TwinTalk::End { id, epoch, until } => core.twins.leave(id, epoch, until),
        TwinTalk::Ended { id, epoch, sent } => return core.handle_ended(id, epoch, &sent),
    }
    Vec::new()
}

/// Takes the second seat of an actor.
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
    // They are for the actor where it lives, and a seat here would take them for its own.
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
    // Only the first seat ever waits at a sync point, or counts what the actor has cost before.
    let record = MemberRecord { synced: false, load_ns: 0, ..record };
    let member = migrate::member(id, epoch, &record, channels, state.len() as u64);
    let member = Member { is_twin: true, ..member };
    let slot = core.seat(kind, member);
    let role = Role::Second { until: None };
    let serves = serves.into_iter().collect();
    core.twins.insert(id, TwinSeat { other: from, epoch, serves, role });
    core.twins.doubled += mailbox.len() as u64;
    core.refill(kind, slot, &mailbox);
    core.release_blocked(kind, slot);
    store.put_aside(slot, decoded);
    core.release_awaiting(id);
    core.converse(from, TwinTalk::Seated { id, epoch, broadcasts });
    Ok(())
}

/// Lets second seats vanish that have sent what they had to.
pub(super) fn settle(core: &mut Core, stores: &mut [Box<dyn Store>]) {
    for id in core.finished_twins() {
        let Some((kind, slot)) = core.resident(id) else { continue };
        let Some(TwinSeat { other, epoch, .. }) = core.twins.remove(id) else { continue };
        stores[kind.index()].remove(slot);
        let sent = core.vacate_second((kind, slot));
        core.directory.learn(id, Place::at(other, epoch + 1), core.common.fault);
        core.converse(other, TwinTalk::Ended { id, epoch, sent });
    }
}

impl Core {
    fn converse(&mut self, to: PeId, edge: TwinTalk) {
        self.post(to, Control::Twin(Box::new(edge)));
    }

    /// Whether an actor may get a second seat there.
    fn may_have_twin(&self, id: ActorId, at: PeId) -> bool {
        let local = self.collections.get(id.collection);
        let is_pure = local
            .is_some_and(|local| self.common.is_pure(local.info.kind) && local.info.migratable());
        is_pure && at != self.me && self.common.layout.contains(at) && self.twins.get(id).is_none()
    }

    /// Whether an actor of this kind is bound by what its type has promised; if so, ends the job
    /// with an error that says what it did.
    pub(crate) fn breaks_promise(&mut self, kind: KindId, deed: &str) -> bool {
        let is_pure = self.common.is_pure(kind);
        if is_pure {
            let name = self.kind(kind).map_or("an actor", |kind| kind.name());
            self.fail(JobError::Failed(format!(
                "{name} was declared pure and cannot {deed}: that would happen at each of its seats; \
                 let another actor do it, or declare it with `Job::actor`"
            )));
        }
        is_pure
    }

    /// The seat of an actor has been taken elsewhere: from now on each of the two sends to its
    /// part.
    fn handle_seated(&mut self, id: ActorId, epoch: u32, broadcasts: u64) {
        let Some(seat) = self.twins.get_mut(id).filter(|seat| seat.epoch == epoch) else { return };
        let Role::First(Seating::Offered { plan, then }) = &mut seat.role else { return };
        let (plan, then) = (*plan, std::mem::take(then));
        seat.role = Role::First(Seating::Both { broadcasts });
        let twin = Some(seat.other);
        self.raise_epoch(id, epoch, twin);
        self.statistics.twins += 1;
        self.note_moved(Some(plan), true);
        for then in then {
            self.end_twin(id, then);
        }
    }

    fn handle_refused(&mut self, id: ActorId, epoch: u32) -> Vec<(ActorId, Then)> {
        if !self.twins.get(id).is_some_and(|seat| seat.epoch == epoch && !seat.is_known()) {
            return Vec::new();
        }
        let Some(TwinSeat { role, .. }) = self.twins.remove(id) else { return Vec::new() };
        let Role::First(Seating::Offered { plan, then }) = role else { return Vec::new() };
        self.raise_epoch(id, epoch + 1, None);
        self.note_moved(Some(plan), false);
        then.into_iter().map(|then| (id, then)).collect()
    }

    /// The actor's places are others from now on; its home learns of it.
    fn raise_epoch(&mut self, id: ActorId, epoch: u32, twin: Option<PeId>) {
        let is_twin = twin.is_some();
        if let Some((kind, slot)) = self.resident(id)
            && let Some(member) = self.member(kind, slot)
        {
            (member.epoch, member.is_twin) = (epoch, is_twin);
        }
        let here = Place { twin, ..Place::at(self.me, epoch) };
        if let Some(home) = self.home(id).filter(|&home| home != self.me) {
            self.tell_place(home, id, here);
        }
    }

    /// Has an actor give up its second seat, and then something else happen. Runs at the first
    /// seat.
    pub(super) fn end_twin(&mut self, id: ActorId, next: Then) {
        let Some(seat) = self.twins.get_mut(id) else { return };
        let Role::First(stage) = &mut seat.role else { return };
        let broadcasts = match stage {
            Seating::Offered { then, .. } | Seating::Ending { then, .. } => return then.push(next),
            Seating::Both { broadcasts } => *broadcasts,
        };
        *stage = Seating::Ending { broadcasts, then: vec![next] };
        let (other, epoch, serves) = (seat.other, seat.epoch, seat.serves.clone());
        let Some(member) = self.resident(id).and_then(|(kind, slot)| self.member(kind, slot))
        else {
            return;
        };
        let MemberRecord { expected: heard, next, broadcasts, .. } = migrate::record(member);
        let sent = next.into_iter().filter(|(to, ..)| serves.contains(to)).collect();
        let until = Until { sent, heard, broadcasts };
        self.converse(other, TwinTalk::End { id, epoch, until });
    }

    /// Second seats that have sent what they had to. One that has not, and has handled all that the
    /// first had when it sent as much, is not pure: that ends the job.
    fn finished_twins(&mut self) -> Vec<ActorId> {
        let (mut finished, mut broken) = (Vec::new(), None);
        let mut waiting: BTreeMap<KindId, BTreeMap<u32, u64>> = BTreeMap::new();
        for (id, seat) in self.twins.leaving() {
            let Some((until, (kind, slot))) = seat.until().zip(self.resident(id)) else { continue };
            let Some(Some(member)) = self.members[kind.index()].get(slot as usize) else {
                continue;
            };
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
                "{name} was declared pure, but two of the same actor that had handled the same messages have not sent \
                 the same ones; take out what makes them differ, such as state that is not its own or the order of \
                 different senders' messages, or declare it with `Job::actor`"
            )));
        }
        finished
    }

    /// Forgets a second seat. What waits for it has come to the first one too. Returns to whom the
    /// actor has sent.
    fn vacate_second(&mut self, (kind, slot): (KindId, u32)) -> Vec<(ActorId, i32)> {
        let Some((member, mailbox)) = self.take_out(kind, slot) else { return Vec::new() };
        self.free[kind.index()].push(slot);
        let held = member.channels.as_ref().map_or(0, |channels| channels.held.len());
        self.processed += (mailbox.len() + held) as u64;
        self.twins.doubled -= (mailbox.len() as u64).min(self.twins.doubled);
        let channels = member.channels.as_ref();
        let mut sent: Vec<Way> = channels
            .map_or_else(Vec::new, |channels| channels.next.iter().map(|(way, _)| way).collect());
        sent.sort_unstable();
        sent
    }

    /// The actor has one seat again. Returns what has waited for that.
    fn handle_ended(
        &mut self,
        id: ActorId,
        epoch: u32,
        sent: &[(ActorId, i32)],
    ) -> Vec<(ActorId, Then)> {
        if !self.twins.get(id).is_some_and(|seat| seat.epoch == epoch && !seat.is_second()) {
            return Vec::new();
        }
        let Some(TwinSeat { role, .. }) = self.twins.remove(id) else { return Vec::new() };
        self.raise_epoch(id, epoch + 1, None);
        // The second seat may have been ahead: what it has sent to somebody for the first time must
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
            Role::First(Seating::Ending { then, .. }) => {
                then.into_iter().map(|then| (id, then)).collect()
            }
            _ => Vec::new(),
        }
    }
}
