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

use super::record::{channels, held, member, record};
use crate::address::collection::PlanEntry;
use crate::address::id::{ActorId, KindId, RebalanceId};
use crate::error::JobError;
use crate::message::codec;
use crate::message::limits::PIECE_BYTES_MAX;
use crate::message::{Control, Migrant};
use crate::pe::core::{Core, Store};
use crate::pe::delivery::{Accounted, Place};
use crate::pe::members::member::Departing;
use crate::pe::replicas::{ReplicaState, Then};
use gridspan_topology::PeId;
use std::any::Any;
use std::collections::BTreeMap;

/// An actor that was accepted and not yet committed.
pub(crate) struct Tentative {
    /// Counts in the memory budget like what is in mailboxes.
    migrant: Accounted<Migrant>,
    state: Box<dyn Any + Send>,
}

/// The actors in transit towards a PE.
pub(crate) type Tentatives = BTreeMap<ActorId, Tentative>;

/// Offers the actor in `slot` to another PE.
pub(crate) fn depart(
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

/// Takes an offered actor aside, or refuses it.
pub(crate) fn handle_offer(
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
            let migrant = core.delivery.budget().keep(migrant, size);
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
pub(crate) fn handle_accept(
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
    core.delivery.learn(id, Place::at(to, epoch));
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
pub(crate) fn handle_refuse(
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
    core.delivery.forget_place(id);
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
pub(crate) fn handle_commit(
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

/// Lets an actor go on that waited at its sync point when it left, if the coordinator has settled
/// that meanwhile.
fn resume_if_settled(core: &mut Core, stores: &mut [Box<dyn Store>], slot: (KindId, u32)) {
    let (kind, slot) = slot;
    if core.leave_sync(kind, slot) {
        stores[kind.index()].resume(core, slot);
    }
}

impl Core {
    /// Whether the actor may move to `to` now. During a rebalance, it will be moved afterwards.
    pub(crate) fn may_leave(&mut self, (kind, slot): (KindId, u32), to: PeId) -> bool {
        let Some(id) = self.member(kind, slot).map(|member| member.id) else { return false };
        let migratable =
            self.collections.get(id.collection).is_some_and(|local| local.info.migratable());
        if !migratable || !self.common.layout.contains(to) {
            self.fail(JobError::Failed(format!(
                "member {:?} of collection {} cannot move to {to}: {}",
                id.key,
                id.collection.0,
                if migratable {
                    "there is no such PE"
                } else {
                    "members of groups stay where they are"
                },
            )));
            return false;
        }
        if self.rebalance.is_some() {
            self.deferred.push((id, to));
            return false;
        }
        match self.replicas.get(id).map(ReplicaState::is_secondary) {
            None => true,
            // The primary has the same wish.
            Some(true) => false,
            Some(false) => {
                self.end_replica(id, Then::Wish(to));
                false
            }
        }
    }

    /// Migrations that were asked for during a rebalance, once it is over.
    pub(crate) fn take_deferred(&mut self) -> Vec<(ActorId, PeId)> {
        match self.rebalance {
            None => std::mem::take(&mut self.deferred),
            Some(_) => Vec::new(),
        }
    }

    /// A plan moves an actor that ended before: the PE where others believe it now learns better,
    /// unless it is the home, which waits for the tombstone.
    pub(crate) fn correct_plan(&mut self, entry: &PlanEntry) {
        if let Some(place) = self.delivery.place(entry.id)
            && self.home(entry.id) != Some(entry.to)
        {
            self.tell_place(entry.to, entry.id, place);
        }
    }
}
