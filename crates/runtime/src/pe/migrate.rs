//! Migration in two phases: an actor is never in two places and never in none.
//!
//! **Start.** The PE that an actor leaves stops handling it and offers a copy: state, mailbox, and
//! the counters of its conversations. Messages that come for it meanwhile are kept.
//!
//! **Steady state.** The PE it goes to decodes the copy, keeps it aside and accepts. Only then the
//! first PE gives up the original, sends the kept messages after it, and commits; the copy comes to
//! life. Its home learns the new place.
//!
//! **Failure.** A PE that cannot take the actor refuses; the actor goes on where it was, with a
//! higher epoch, so that whoever already believed in the move learns better. A connection that is
//! lost in between delays the step at hand and nothing else.

use super::core::{Core, Store};
use super::delivery::{Accounted, Channels, Counters, Place, SentBroadcasts};
use super::state::{Departing, EdgeCache, Member, Paced};
use crate::codec;
use crate::envelope::AnyEnvelope;
use crate::error::JobError;
use crate::id::{ActorId, KindId, RebalanceId};
use crate::limits::PIECE_BYTES_MAX;
use crate::rank::FAR;
use crate::wire::{Control, MemberRecord, Migrant};
use bytes::Bytes;
use gridspan_topology::PeId;
use std::any::Any;
use std::collections::BTreeMap;

/// An actor that was accepted and not yet committed.
pub(super) struct Tentative {
    /// Counts in the memory budget like what is in mailboxes.
    migrant: Accounted<Migrant>,
    state: Box<dyn Any + Send>,
}

/// The actors in transit towards a PE.
pub(super) type Tentatives = BTreeMap<ActorId, Tentative>;

/// Offers the actor in `slot` to another PE.
pub(super) fn depart(
    core: &mut Core,
    stores: &mut [Box<dyn Store>],
    (kind, slot): (KindId, u32),
    to: PeId,
    plan: Option<RebalanceId>,
) {
    let Some((member, mailbox)) = core.take_out(kind, slot) else { return };
    let id = member.id;
    let migrant = Migrant {
        id,
        kind,
        epoch: member.epoch + 1,
        state: stores[kind.index()].encode(slot),
        mailbox: mailbox.clone(),
        record: record(&member),
        held: held(&member),
    };
    let departing = Departing { kind, slot, to, member, mailbox, arrivals: Vec::new(), plan };
    core.departing.insert(id, departing);
    let (epoch, bytes) = (migrant.epoch, size(&migrant));
    if bytes > PIECE_BYTES_MAX {
        // No network would take it. Refused here, it goes on as if it had been refused there; who
        // was to have it learns where it is, for a plan may have told everybody otherwise.
        let reason = too_large(bytes);
        let pe = core.me;
        core.tell_place(to, id, Place::at(pe, epoch + 1));
        return core.post(core.me, Control::MigrateRefuse { id, epoch, reason });
    }
    core.post(to, Control::MigrateOffer(Box::new(migrant)));
}

/// The bytes of an actor with all that moves with it, as they travel.
fn size(migrant: &Migrant) -> usize {
    codec::encoded_len(migrant)
}

fn too_large(bytes: usize) -> String {
    format!("{bytes} bytes are more than the limit of {PIECE_BYTES_MAX}; make the actor smaller")
}

/// The part of a member's bookkeeping that moves, in a fixed order.
pub(super) fn record(member: &Member) -> MemberRecord {
    let mut record = MemberRecord {
        broadcasts: member.broadcasts,
        reductions: member.reductions,
        syncs: member.syncs,
        synced: member.synced,
        load_ns: member.load_ns,
        pace: member.paced.last,
        ..MemberRecord::default()
    };
    if let Some(channels) = &member.channels {
        write_counters(channels, &mut record);
    }
    record
}

/// Writes the counters of conversations into a record.
pub(super) fn write_counters(channels: &Channels, record: &mut MemberRecord) {
    let counters = |counters: &Counters| {
        let mut list: Vec<_> =
            counters.iter().map(|((id, channel), next)| (id, channel, next)).collect();
        list.sort_unstable();
        list
    };
    record.expected = counters(&channels.expected);
    record.next = counters(&channels.next);
    record.sent_broadcasts = channels.sent_broadcasts.records();
    record.section_reductions =
        channels.section_reductions.iter().map(|(&section, &next)| (section, next)).collect();
}

/// The messages that wait for an earlier one, encoded.
pub(super) fn held(member: &Member) -> Vec<Bytes> {
    member.channels.as_deref().map_or_else(Vec::new, held_in)
}

pub(super) fn held_in(channels: &Channels) -> Vec<Bytes> {
    let encoded = |envelope: &dyn AnyEnvelope| {
        let mut bytes = Vec::new();
        envelope.append(&mut bytes);
        bytes.into()
    };
    channels.held.values().map(|envelope| encoded(&***envelope)).collect()
}

/// The actor's conversations, as they arrive.
pub(super) fn channels(
    core: &Core,
    kind: KindId,
    record: &MemberRecord,
    held: &[Bytes],
) -> Result<Option<Box<Channels>>, codec::DecodeError> {
    let MemberRecord { expected, next, sent_broadcasts, section_reductions, .. } = record;
    if expected.len() + next.len() + section_reductions.len() + held.len() == 0 {
        return Ok(None);
    }
    let counters = |list: &[(ActorId, i32, u64)]| {
        list.iter().map(|&(id, channel, next)| ((id, channel), next)).collect()
    };
    let mut channels = Channels {
        expected: counters(expected),
        next: counters(next),
        section_reductions: section_reductions.iter().copied().collect(),
        sent_broadcasts: SentBroadcasts::from_records(sent_broadcasts),
        ..Channels::default()
    };
    if let Some(known) = core.kind(kind) {
        for bytes in held {
            let envelope = core.keep(kind, known.decode_envelope(bytes)?);
            channels.held.insert(Channels::held_key(envelope.header()), envelope);
        }
    }
    channels.find_blocked();
    Ok(Some(Box::new(channels)))
}

/// A member as it arrives with its record.
pub(super) fn member(
    id: ActorId,
    epoch: u32,
    record: &MemberRecord,
    channels: Option<Box<Channels>>,
    state_bytes: u64,
) -> Member {
    Member {
        id,
        epoch,
        broadcasts: record.broadcasts,
        reductions: record.reductions,
        syncs: record.syncs,
        synced: record.synced,
        load_ns: record.load_ns,
        paced: Paced { handled: 0, carried_ns: record.load_ns, last: record.pace },
        state_bytes: Some(state_bytes),
        channels,
        ring: EdgeCache::default(),
        border_hops: FAR,
        is_replicated: false,
    }
}

/// Takes an offered actor aside, or refuses it.
pub(super) fn handle_offer(
    core: &mut Core,
    stores: &[Box<dyn Store>],
    tentatives: &mut Tentatives,
    from: PeId,
    migrant: Migrant,
) {
    let Migrant { id, epoch, kind, .. } = migrant;
    let size = size(&migrant);
    let verdict = match stores.get(kind.index()) {
        None => Err("it is of an unknown type".to_owned()),
        Some(_) if size > PIECE_BYTES_MAX => Err(too_large(size)),
        Some(_) if !core.has_room(size) => Err("the mailboxes there are full".to_owned()),
        Some(store) => store.decode(&migrant.state).map_err(|error| error.to_string()),
    };
    match verdict {
        Ok(state) => {
            let local = core.collections.get(id.collection);
            let (broadcasts, streams) = local
                .map_or((0, Vec::new()), |local| (local.broadcasts.next, local.streams.numbers()));
            let migrant = core.budget.keep(migrant, size);
            tentatives.insert(id, Tentative { migrant, state });
            core.arriving.insert(id);
            core.post(from, Control::MigrateAccept { id, epoch, broadcasts, streams });
        }
        Err(reason) => {
            core.learn(id, Place::at(from, epoch + 1));
            core.post(from, Control::MigrateRefuse { id, epoch, reason });
        }
    }
}

/// Gives up the original of an actor that was accepted elsewhere.
pub(super) fn handle_accept(
    core: &mut Core,
    stores: &mut [Box<dyn Store>],
    (id, epoch): (ActorId, u32),
    broadcasts: u64,
    streams: &[(ActorId, i32, u64)],
) {
    let Some(Departing { kind, slot, to, member, arrivals, plan, .. }) = core.departing.remove(&id)
    else {
        return;
    };
    stores[kind.index()].remove(slot);
    core.free[kind.index()].push(slot);
    core.statistics.migrations += 1;
    core.directory.learn(id, Place::at(to, epoch), core.common.fault);
    // Broadcasts that passed there before the actor came and have not come here yet.
    let passed_here = core.collections.get(id.collection).map_or(0, |local| local.broadcasts.next);
    if broadcasts > passed_here {
        core.debts.insert(id, (passed_here.max(member.broadcasts), broadcasts));
    }
    if let Some(local) = core.collections.get_mut(id.collection) {
        local.streams.owe(id.key, streams);
    }
    core.post(to, Control::MigrateCommit { id, epoch, plan });
    if let Some(home) = core.home(id)
        && home != core.me
        && home != to
    {
        core.tell_place(home, id, Place::at(to, epoch));
    }
    for envelope in arrivals {
        core.dispatch_envelope(kind, envelope.into_inner());
    }
    core.release_awaiting(id);
}

/// Lets an actor that was refused elsewhere go on here.
pub(super) fn handle_refuse(
    core: &mut Core,
    stores: &mut [Box<dyn Store>],
    id: ActorId,
    epoch: u32,
    reason: &str,
) {
    let Some(departing) = core.departing.remove(&id) else { return };
    let Departing { kind, slot, to, mut member, mailbox, arrivals, plan } = departing;
    tracing::warn!(collection = id.collection.0, index = ?id.key, %to, reason, "migration refused");
    member.epoch = epoch + 1;
    core.members[kind.index()][slot as usize] = Some(member);
    if let Some(local) = core.collections.get_mut(id.collection) {
        local.slots.insert(id.key, slot);
    }
    core.directory.forget(id);
    if let Some(home) = core.home(id)
        && home != core.me
    {
        let pe = core.me;
        core.tell_place(home, id, Place::at(pe, epoch + 1));
    }
    core.refill(kind, slot, &mailbox);
    core.release_blocked(kind, slot);
    for envelope in arrivals {
        core.arrive_any(kind, envelope.into_inner());
    }
    resume_if_settled(core, stores, (kind, slot));
    core.note_moved(plan, false);
}

/// Brings an accepted actor to life.
pub(super) fn handle_commit(
    core: &mut Core,
    stores: &mut [Box<dyn Store>],
    tentatives: &mut Tentatives,
    id: ActorId,
) {
    let Some(Tentative { migrant, state }) = tentatives.remove(&id) else { return };
    let migrant = migrant.into_inner();
    core.arriving.remove(&id);
    let channels = match channels(core, migrant.kind, &migrant.record, &migrant.held) {
        Ok(channels) => channels,
        Err(error) => return core.fail(JobError::Protocol(error.to_string())),
    };
    let state_bytes = migrant.state.len() as u64;
    let Migrant { kind, epoch, mailbox, record, .. } = migrant;
    let slot = core.add_member(kind, member(id, epoch, &record, channels, state_bytes));
    core.refill(kind, slot, &mailbox);
    core.release_blocked(kind, slot);
    stores[kind.index()].install(core, slot, state);
    resume_if_settled(core, stores, (kind, slot));
    if let Some(home) = core.home(id)
        && home != core.me
    {
        let pe = core.me;
        core.tell_place(home, id, Place::at(pe, epoch));
    }
    core.release_awaiting(id);
}

/// Lets an actor go on that waited at its sync point when it left, if the root has settled that
/// meanwhile.
fn resume_if_settled(core: &mut Core, stores: &mut [Box<dyn Store>], slot: (KindId, u32)) {
    let (kind, slot) = slot;
    if core.leave_sync(kind, slot) {
        stores[kind.index()].resume(core, slot);
    }
}

impl Core {
    pub(super) fn refill(&mut self, kind: KindId, slot: u32, mailbox: &[(i32, Bytes)]) {
        for (priority, message) in mailbox {
            let rank = self.rank(kind, slot, *priority);
            let (queue, _) = self.split_queue(kind);
            match queue.push_encoded(slot, rank, message) {
                Ok(bytes) => {
                    self.ready_bytes += bytes;
                    self.lanes.push(kind, rank);
                }
                Err(error) => return self.fail(JobError::Protocol(error.to_string())),
            }
        }
    }

    /// Sends a message on its way from here.
    pub(super) fn dispatch_envelope(&mut self, kind: KindId, envelope: Box<dyn AnyEnvelope>) {
        let epoch = envelope.header().epoch;
        match self.directory.place(envelope.header().to) {
            Some(place) if !place.gone && place.pe != self.me && place.epoch >= epoch => {
                let mut envelope = envelope;
                envelope.header_mut().epoch = place.epoch_for_one();
                self.forward(kind, place.pe, envelope);
            }
            _ => self.arrive_any(kind, envelope),
        }
    }
}
