//! Migration in two phases: an actor always lives on exactly one PE.
//!
//! **Start.** The PE that an actor leaves stops handling it and offers a copy: its state, its
//! mailbox and its channels. Messages that arrive for it meanwhile are kept.
//!
//! **Steady state.** The target PE decodes the copy, sets it aside and accepts. Only then does the
//! first PE give up the original, forward the kept messages, and commit. The target PE then
//! installs the copy, and the actor's home learns the new place.
//!
//! **Failure.** A PE that cannot take the actor refuses. The actor continues on its old PE with a
//! higher epoch, so that nodes that already know the planned place learn the right one. A
//! connection that is lost in between delays only the current step.

use super::record::{channels, held, member, record};
use crate::address::collection::PlanEntry;
use crate::address::id::{ActorId, KindId, RebalanceId};
use crate::error::{JobError, Misuse};
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
    /// The offer, which counts in the memory budget like messages in mailboxes.
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
        // No connection would carry it. It is refused here, with the same effect as a refusal by
        // the target. The target learns the actor's place, since a plan may have announced the move
        // to all nodes.
        let reason = too_large(bytes);
        let pe = core.me;
        core.tell_place(to, id, Place::at(pe, epoch + 1));
        return core.post(core.me, Control::MigrateRefuse { id, epoch, reason });
    }
    core.post(to, Control::MigrateOffer(Box::new(migrant)));
}

/// Size in bytes of an encoded actor with everything that moves with it.
fn size(migrant: &Migrant) -> usize {
    codec::encoded_len(migrant)
}

fn too_large(bytes: usize) -> String {
    format!("{bytes} bytes are more than the limit of {PIECE_BYTES_MAX}; make the actor smaller")
}

/// Sets an offered actor aside, or refuses it.
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
        None => Err("its actor type is unknown there".to_owned()),
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

/// Gives up the original of an actor that another PE has accepted.
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
    // Broadcasts that passed there before the actor arrived and have not passed here yet.
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

/// Resumes an actor that another PE has refused.
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

/// Installs an accepted actor.
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

/// Resumes an actor that waited at its sync point when it left, if the coordinator has settled that
/// sync point meanwhile.
fn resume_if_settled(core: &mut Core, stores: &mut [Box<dyn Store>], slot: (KindId, u32)) {
    let (kind, slot) = slot;
    if core.leave_sync(kind, slot) {
        stores[kind.index()].resume(core, slot);
    }
}

impl Core {
    /// Whether the actor may move to `to` now. During a rebalance, the move is deferred.
    pub(crate) fn may_leave(&mut self, (kind, slot): (KindId, u32), to: PeId) -> bool {
        let Some(id) = self.member(kind, slot).map(|member| member.id) else { return false };
        let migratable =
            self.collections.get(id.collection).is_some_and(|local| local.info.migratable());
        if !migratable || !self.common.layout.contains(to) {
            let (collection, member) = (id.collection.0, format!("{:?}", id.key));
            let misuse = match migratable {
                true => Misuse::MovedNowhere { collection, member, pe: to },
                false => Misuse::MovedInGroup { collection, member, pe: to },
            };
            self.fail(misuse.into());
            return false;
        }
        if self.rebalance.is_some() {
            self.deferred.push((id, to));
            return false;
        }
        match self.replicas.get(id).map(ReplicaState::is_secondary) {
            None => true,
            // The primary makes the same request.
            Some(true) => false,
            Some(false) => {
                self.end_replica(id, Then::Wish(to));
                false
            }
        }
    }

    /// Removes and returns the migrations that were requested during a rebalance, if it is over.
    pub(crate) fn take_deferred(&mut self) -> Vec<(ActorId, PeId)> {
        match self.rebalance {
            None => std::mem::take(&mut self.deferred),
            Some(_) => Vec::new(),
        }
    }

    /// Handles a planned move of an actor that has left or ended: sends its place to the PE to
    /// which the plan moves it, unless that is the home, which waits for the tombstone.
    pub(crate) fn correct_plan(&mut self, entry: &PlanEntry) {
        if let Some(place) = self.delivery.place(entry.id)
            && self.home(entry.id) != Some(entry.to)
        {
            self.tell_place(entry.to, entry.id, place);
        }
    }
}
