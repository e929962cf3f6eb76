//! Migration in two phases: an actor always lives on exactly one PE.
//!
//! **Start.** The PE that an actor leaves stops handling it and offers a copy: its state, its
//! mailbox and its channels. Messages that arrive for it meanwhile are kept.
//!
//! **Steady state.** The target PE decodes the copy, sets it aside and accepts. Only then does the
//! first PE give up the original, commit, and forward the kept messages. The target PE then
//! installs the copy, and the actor's home learns the new place.
//!
//! **Failure.** A PE that cannot take the actor refuses. The actor continues on its old PE with a
//! higher epoch, so that nodes that already know the planned place learn the right one. A
//! connection that is lost in between delays only the current step.
//!
//! **Partners**, members that are bound to each other, move together: one offer, one answer and one
//! commit carry all of them. A PE stops, gives up or installs all in one step, so that no handler
//! runs on a PE where its partners are not.

use super::record::{channels, held, member, record};
use crate::address::collection::PlanEntry;
use crate::address::id::{ActorId, KindId, RebalanceId};
use crate::error::{JobError, Misuse};
use crate::message::codec;
use crate::message::{Accepted, Control, Migrant};
use crate::pe::PlantedFault;
use crate::pe::core::{Core, Store};
use crate::pe::delivery::{Accounted, Place};
use crate::pe::members::member::Departing;
use crate::pe::replicas::{ReplicaState, Then};
use bytes::Bytes;
use gridspan_topology::PeId;
use std::any::Any;
use std::collections::BTreeMap;

/// An actor that was accepted and not yet committed.
pub(crate) struct Tentative {
    /// The offer, which counts in the memory budget like messages in mailboxes.
    migrant: Accounted<Migrant>,
    state: Box<dyn Any + Send>,
}

/// The actors in transit towards a PE: partners together, under the identity of the first.
pub(crate) type Tentatives = BTreeMap<ActorId, Vec<Tentative>>;

/// Offers the actor in `slot`, and its partners, to another PE.
pub(crate) fn depart(
    core: &mut Core,
    stores: &mut [Box<dyn Store>],
    (kind, slot): (KindId, u32),
    to: PeId,
    plan: Option<RebalanceId>,
) {
    let Some(id) = core.member(kind, slot).map(|member| member.id) else { return };
    let partners = match core.common.fault {
        PlantedFault::PartnersLeftBehind => vec![id],
        _ => core.partners(id),
    };
    let mut slots = partners.iter().filter_map(|&id| core.resident(id));
    let is_movable = slots.all(|(kind, slot)| stores[kind.index()].is_movable(slot));
    if !is_movable && plan.is_none() {
        return;
    }
    // An actor may have requested a move that waits for the end of the plan. That request stays on
    // this PE, so it would be lost if the plan moved the actor.
    let has_wish = plan.is_some() && core.wishes_elsewhere(id, to);
    let leaves = is_movable && !has_wish;
    let leaving = |id| leave(core, stores, id, to, (plan, leaves));
    let mut migrants: Vec<Migrant> = partners.into_iter().filter_map(leaving).collect();
    let bytes = migrants.iter().map(codec::encoded_len).sum();
    let limit = core.common.limits.message_bytes();
    if bytes > limit || !leaves {
        // This PE refuses them, with the same effect as a refusal by the target. The target learns
        // their place, since a plan may have announced the move to all nodes.
        let reason = match (is_movable, has_wish) {
            (false, _) => "it cannot move now".to_owned(),
            (true, true) => "it has requested to move elsewhere".to_owned(),
            (true, false) => too_large(bytes, limit),
        };
        let pe = core.me;
        for &Migrant { id, epoch, .. } in &migrants {
            core.tell_place(to, id, Place::at(pe, epoch.saturating_add(1)));
        }
        if let Some(&Migrant { id, epoch, .. }) = migrants.first() {
            core.post(pe, Control::MigrateRefuse { id, epoch, reason });
        }
        return;
    }
    match (migrants.pop(), migrants.is_empty()) {
        (Some(alone), true) => core.post(to, Control::MigrateOffer(Box::new(alone))),
        (last, _) => {
            migrants.extend(last);
            core.post(to, Control::OfferPartners(migrants));
        }
    }
}

/// Takes an actor out of its slot. Returns the copy to offer, if the actor lives here; without its
/// state, unless it `leaves`.
fn leave(
    core: &mut Core,
    stores: &mut [Box<dyn Store>],
    id: ActorId,
    to: PeId,
    (plan, leaves): (Option<RebalanceId>, bool),
) -> Option<Migrant> {
    let (kind, slot) = core.resident(id)?;
    stores[kind.index()].prepare_change(core, slot);
    let (member, mailbox) = core.take_out(kind, slot)?;
    let migrant = Migrant {
        id,
        kind,
        epoch: member.epoch.saturating_add(1),
        state: if leaves { stores[kind.index()].encode(slot) } else { Bytes::new() },
        mailbox: mailbox.clone(),
        record: record(&member),
        held: held(&member),
    };
    let departing = Departing { kind, slot, to, member, mailbox, arrivals: Vec::new(), plan };
    core.departing.insert(id, departing);
    Some(migrant)
}

fn too_large(bytes: usize, limit: usize) -> String {
    format!(
        "{bytes} bytes are more than the limit of {limit}; make the actor smaller, or raise \
         `message_bytes` of the job's `Limits`"
    )
}

/// Sets offered partners aside, or refuses them.
pub(crate) fn handle_offer(
    core: &mut Core,
    stores: &[Box<dyn Store>],
    tentatives: &mut Tentatives,
    from: PeId,
    migrants: Vec<Migrant>,
) {
    // Only a faulty PE offers nothing.
    let Some(&Migrant { id: first, epoch, .. }) = migrants.first() else { return };
    // The sizes include everything that moves with the actors.
    let sizes: Vec<usize> = migrants.iter().map(codec::encoded_len).collect();
    let states = match states(core, stores, &migrants, sizes.iter().sum()) {
        Ok(states) => states,
        Err(reason) => {
            for &Migrant { id, epoch, .. } in &migrants {
                core.learn(id, Place::at(from, epoch.saturating_add(1)));
            }
            return core.post(from, Control::MigrateRefuse { id: first, epoch, reason });
        }
    };
    let mut accepted = Vec::new();
    let mut together = Vec::new();
    for ((migrant, state), size) in migrants.into_iter().zip(states).zip(sizes) {
        let Migrant { id, epoch, .. } = migrant;
        let local = core.collections.get(id.collection);
        let (broadcasts, streams) =
            local.map_or((0, Vec::new()), |local| (local.broadcasts.next, local.streams.numbers()));
        let migrant = core.delivery.budget.keep(migrant, size);
        together.push(Tentative { migrant, state });
        core.arriving.insert(id);
        accepted.push(Accepted { id, epoch, broadcasts, streams });
    }
    tentatives.insert(first, together);
    match (accepted.pop(), accepted.is_empty()) {
        (Some(Accepted { id, epoch, broadcasts, streams }), true) => {
            core.post(from, Control::MigrateAccept { id, epoch, broadcasts, streams });
        }
        (last, _) => {
            accepted.extend(last);
            core.post(from, Control::AcceptPartners(accepted));
        }
    }
}

/// Decodes the states of partners of `size` bytes, or returns the reason why they cannot live here.
fn states(
    core: &Core,
    stores: &[Box<dyn Store>],
    migrants: &[Migrant],
    size: usize,
) -> Result<Vec<Box<dyn Any + Send>>, String> {
    let limit = core.common.limits.message_bytes();
    let state = |migrant: &Migrant| match stores.get(migrant.kind.index()) {
        None => Err("its actor type is unknown there".to_owned()),
        Some(_) if size > limit => Err(too_large(size, limit)),
        Some(_) if !core.has_room(size) => Err("the mailboxes there are full".to_owned()),
        Some(store) => store.decode(&migrant.state).map_err(|error| error.to_string()),
    };
    migrants.iter().map(state).collect()
}

/// Gives up the originals of partners that another PE has accepted.
pub(crate) fn handle_accept(
    core: &mut Core,
    stores: &mut [Box<dyn Store>],
    accepted: Vec<Accepted>,
) {
    let mut gone = Vec::new();
    for Accepted { id, epoch, broadcasts, streams } in accepted {
        let Some(departing) = core.departing.remove(&id) else { continue };
        let Departing { kind, slot, to, .. } = departing;
        stores[kind.index()].remove(slot);
        core.free[kind.index()].push(slot);
        core.statistics.migrations += 1;
        core.delivery.learn(id, Place::at(to, epoch));
        // If a move was requested, it was this one.
        core.deferred.remove(&id);
        // Broadcasts that passed there before the actor arrived and have not passed here yet.
        let local = core.collections.get_mut(id.collection);
        let passed_here = local.as_ref().map_or(0, |local| local.broadcasts.next);
        if let Some(local) = local {
            local.streams.owe(id.key, &streams);
        }
        if broadcasts > passed_here {
            let first = passed_here.max(departing.member.broadcasts);
            core.debts.insert(id, (first, broadcasts));
        }
        gone.push((id, epoch, departing));
    }
    if let Some((id, epoch, Departing { to, plan, .. })) = gone.first() {
        core.post(*to, Control::MigrateCommit { id: *id, epoch: *epoch, plan: *plan });
    }
    for (id, epoch, Departing { kind, to, arrivals, .. }) in gone {
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
}

/// Resumes partners that another PE has refused; `id` is the first of them.
pub(crate) fn handle_refuse(
    core: &mut Core,
    stores: &mut [Box<dyn Store>],
    id: ActorId,
    reason: &str,
) {
    let mut back = Vec::new();
    for id in core.partners(id) {
        let Some(departing) = core.departing.remove(&id) else { continue };
        let Departing { kind, slot, to, mut member, mailbox, arrivals, plan } = departing;
        let (collection, index) = (id.collection.0, id.key);
        // An actor that has requested another move than the planned one is no cause for concern.
        match plan.is_some() && core.wishes_elsewhere(id, to) {
            true => tracing::debug!(collection, ?index, %to, reason, "migration refused"),
            false => tracing::warn!(collection, ?index, %to, reason, "migration refused"),
        }
        // Skips the next epoch: the offer used it, for a place that the actor did not take.
        member.epoch = member.epoch.saturating_add(2);
        let epoch = member.epoch;
        core.members[kind.index()][slot as usize] = Some(member);
        if let Some(local) = core.collections.get_mut(id.collection) {
            local.slots.insert(id.key, slot);
        }
        core.delivery.directory.forget(id);
        if let Some(home) = core.home(id)
            && home != core.me
        {
            let pe = core.me;
            core.tell_place(home, id, Place::at(pe, epoch));
        }
        core.refill(kind, slot, &mailbox);
        core.release_blocked(kind, slot);
        back.push((id, (kind, slot), arrivals, plan));
    }
    let plan = back.first().and_then(|&(.., plan)| plan);
    for (id, (kind, slot), arrivals, _) in back {
        for envelope in arrivals {
            core.arrive_any(kind, envelope.into_inner());
        }
        stores[kind.index()].resume_if_settled(core, slot);
        core.release_followers(id);
    }
    core.note_moved(plan, false);
}

/// Installs accepted partners; `id` is the first of them.
pub(crate) fn handle_commit(
    core: &mut Core,
    stores: &mut [Box<dyn Store>],
    tentatives: &mut Tentatives,
    id: ActorId,
) {
    let mut here = Vec::new();
    for Tentative { migrant, state } in tentatives.remove(&id).into_iter().flatten() {
        let migrant = migrant.into_inner();
        core.arriving.remove(&migrant.id);
        let channels = match channels(core, migrant.kind, &migrant.record, &migrant.held) {
            Ok(channels) => channels,
            Err(error) => return core.fail(JobError::Protocol(error.to_string())),
        };
        let state_bytes = migrant.state.len() as u64;
        let Migrant { id, kind, epoch, mailbox, record, .. } = migrant;
        let slot = core.add_member(kind, member(id, epoch, &record, channels, state_bytes));
        core.refill(kind, slot, &mailbox);
        core.release_blocked(kind, slot);
        here.push((id, (kind, slot), epoch, state));
    }
    let mut installed = Vec::new();
    for (id, slot, epoch, state) in here {
        stores[slot.0.index()].install(core, slot.1, state);
        installed.push((id, slot, epoch));
    }
    for (id, (kind, slot), epoch) in installed {
        stores[kind.index()].resume_if_settled(core, slot);
        if let Some(home) = core.home(id)
            && home != core.me
        {
            let pe = core.me;
            core.tell_place(home, id, Place::at(pe, epoch));
        }
        core.release_awaiting(id);
    }
}

impl Core {
    /// Whether the actor may move to `to` now. If not, the move waits for the end of a rebalance or
    /// of a replica, or the job fails because the move is impossible.
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
            let base = self.base_of(id);
            self.deferred.insert(base, to);
            return false;
        }
        match self.replicas.get(id).map(ReplicaState::is_secondary) {
            None => !self.replicas.defer(id, Then::Wish(to)),
            // The primary makes the same request.
            Some(true) => false,
            Some(false) => {
                self.end_replica(id, Then::Wish(to));
                false
            }
        }
    }

    /// Forgets the move that an actor, or a partner of it, has requested and that waits: a later
    /// request replaces it.
    pub(crate) fn forget_wish(&mut self, (kind, slot): (KindId, u32)) {
        let Some(id) = self.member(kind, slot).map(|member| member.id) else { return };
        let base = self.base_of(id);
        self.deferred.remove(&base);
        self.replicas.forget_wish(id);
    }

    /// Whether an actor, or a partner of it, has requested during a rebalance to move to another PE
    /// than `to`.
    fn wishes_elsewhere(&self, id: ActorId, to: PeId) -> bool {
        self.deferred.get(&self.base_of(id)).is_some_and(|&wished| wished != to)
    }

    /// Removes and returns the migrations that were requested during a rebalance, if it is over.
    pub(crate) fn take_deferred(&mut self) -> BTreeMap<ActorId, PeId> {
        match self.rebalance {
            None => std::mem::take(&mut self.deferred),
            Some(_) => BTreeMap::new(),
        }
    }

    /// Handles a planned move of an actor that has left or ended: sends the actor's place to the PE
    /// that expects the actor. If that is the home, the home waits for the tombstone instead.
    pub(crate) fn correct_plan(&mut self, entry: &PlanEntry) {
        if let Some(place) = self.delivery.directory.place(entry.id)
            && self.home(entry.id) != Some(entry.to)
        {
            self.tell_place(entry.to, entry.id, place);
        }
    }
}
