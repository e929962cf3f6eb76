//! Making collections and members, and unmaking members.
//!
//! **Start.** Main gives every PE the description of a collection and the members that live there,
//! and goes on once all have confirmed. A message that outruns the description waits for it.
//!
//! **While running.** An insertion goes to the root, which settles with which reduction and which
//! broadcast the new member begins, then to the member's home, which learns where it will live, and
//! then there. A destroyed member leaves word at the root and what is left of it at its home.

use crate::Actor;
use crate::codec;
use crate::collection::{CollectionInfo, Map};
use crate::error::{GridError, JobError};
use crate::id::{ActorId, CollectionId, KindId};
use crate::index::{Key, Shape};
use crate::payload::Payload;
use crate::pe::core::Core;
use crate::pe::state::{CollectionState, WaitsForNumber};
use crate::wire::{Control, Insertion, MemberRecord};
use gridspan_balance::Balancer;
use gridspan_topology::PeId;
use serde::Serialize;

/// The first members of a PE on another node are sent in parts of about so many bytes.
const PART_BYTES: usize = 8 << 20;
/// Members take memory even where they are empty; more are a mistake, or a faulty peer.
const MEMBERS_PER_PE_MAX: u64 = 1 << 30;

/// What members are made from, encoded as vectors none of which is large unless one member is.
fn in_parts<I: Serialize>(inits: &[(Key, I)]) -> Vec<Payload> {
    let mut parts = Vec::new();
    let (mut members, mut bytes) = (0u64, Vec::new());
    for (position, init) in inits.iter().enumerate() {
        codec::append(init, &mut bytes);
        members += 1;
        if bytes.len() >= PART_BYTES || position + 1 == inits.len() {
            // A vector is its length and then its elements.
            let mut part = codec::encode(&members);
            part.append(&mut bytes);
            parts.push(Payload::Bytes(part.into()));
            members = 0;
        }
    }
    parts
}

impl Core {
    /// Makes a collection. Runs on the root; `done` is called when all PEs have made their members.
    pub(crate) fn create_collection<A: Actor>(
        &mut self,
        kind: KindId,
        map: Map,
        shape: Option<Shape>,
        inits: Vec<(Key, A::Init)>,
        done: impl FnOnce(&mut Self, CollectionId) + Send + 'static,
    ) -> Result<(), GridError> {
        let layout = self.common.layout.clone();
        let Some(root) = &mut self.root else { return Err(GridError::Ending) };
        let id = CollectionId(root.collections.len() as u32);
        let members = inits.len() as u64;
        let info = CollectionInfo { id, kind, map, shape, members };
        let mut by_pe: Vec<Vec<(Key, A::Init)>> = layout.pes().map(|_| Vec::new()).collect();
        for (key, init) in inits {
            by_pe[info.home(key, &layout, &self.common.maps).index()].push((key, init));
        }
        let created = Box::new(move |core: &mut Self| done(core, id));
        root.collections.insert(id, CollectionState::new(layout.pe_count(), members, created));
        let here = layout.node_of(self.me);
        for (pe, inits) in layout.pes().zip(by_pe) {
            let mut parts = match layout.node_of(pe) == here {
                true => vec![Payload::new(inits)],
                false => in_parts(&inits),
            };
            let last = parts.pop().unwrap_or_else(|| Payload::new(Vec::<(Key, A::Init)>::new()));
            let more = parts.len() as u32;
            for inits in parts {
                self.post(pe, Control::CreatePart { collection: id, inits });
            }
            self.post(pe, Control::Create { info: info.clone(), inits: last, more });
        }
        Ok(())
    }

    /// Makes a collection known here; its first members follow. Fails the job, and returns false,
    /// if it cannot be.
    pub(in crate::pe) fn enter_collection(&mut self, info: CollectionInfo) -> bool {
        let pes = u64::from(self.common.layout.pe_count());
        let members = info.members.div_ceil(pes);
        let problem = if self.kind(info.kind).is_none() {
            "a collection of an unknown actor type"
        } else if members > MEMBERS_PER_PE_MAX {
            "a collection of more members than a PE can hold"
        } else if !self.collections.enter(info, members as usize) {
            "too many collections"
        } else {
            return true;
        };
        self.fail(JobError::Protocol(problem.to_owned()));
        false
    }

    pub(in crate::pe) fn handle_created(&mut self, collection: CollectionId) {
        let Some(state) = self.state(collection) else { return };
        state.creating = state.creating.saturating_sub(1);
        if state.creating == 0
            && let Some(done) = state.created.take()
        {
            done(self);
            self.begin_periods();
            self.look_around_to_balance();
        }
    }

    /// Who predicts what a step would take must know what is near what by the first rebalance.
    fn look_around_to_balance(&mut self) {
        let sites = self.common.layout.site_count();
        let wants = |balancer: &Balancer| balancer.is_active() && balancer.predicts() && sites > 1;
        if self.root.as_ref().is_some_and(|root| wants(&root.balancer)) {
            self.await_places(|_, _| {});
        }
    }

    pub(super) fn state(&mut self, collection: CollectionId) -> Option<&mut CollectionState<Self>> {
        self.root.as_mut()?.collections.get_mut(&collection)
    }

    /// Asks for a new member.
    pub(crate) fn insert<A: Actor>(&mut self, id: ActorId, init: A::Init, at: PeId) {
        self.renounce_right(id.collection);
        let init = Payload::new(vec![(id.key, init)]);
        // The root need not ask itself, as with broadcasts.
        let is_next = self.me == Self::ROOT && self.own_controls == 0;
        if is_next && self.collections.get(id.collection).is_some() {
            return self.handle_insert_request(id, init, at);
        }
        self.post(Self::ROOT, Control::InsertRequest { id, init, at });
    }

    pub(in crate::pe) fn handle_insert_request(&mut self, id: ActorId, init: Payload, at: PeId) {
        let Some(home) = self.home(id) else { return self.fail_no_collection(id.collection) };
        let is_away = self.recall_right(id.collection);
        let Some(state) = self.state(id.collection) else { return };
        // A new member takes the broadcasts that come after it, and none that waits before it.
        if is_away || !state.waiting.is_empty() {
            return state.waiting.push_back(WaitsForNumber::Insertion { id, init, at });
        }
        state.inserting += 1;
        let record = MemberRecord {
            reductions: state.reductions.join(),
            syncs: state.syncs.join_on_the_way(),
            broadcasts: state.broadcasts,
            ..MemberRecord::default()
        };
        let insertion = Insertion { id, init, at, epoch: 0, record, held: Vec::new() };
        self.post(home, Control::Insert(Box::new(insertion)));
    }

    pub(in crate::pe) fn handle_inserted(&mut self, id: ActorId) {
        let Some(state) = self.state(id.collection) else { return };
        state.inserting = state.inserting.saturating_sub(1);
        if state.inserting == 0 {
            self.release_waiting(id.collection);
        }
    }

    pub(in crate::pe) fn handle_destroyed(&mut self, id: ActorId, reductions: u64, syncs: u64) {
        if let Some(state) = self.state(id.collection) {
            state.reductions.leave(reductions);
            state.syncs.leave(syncs);
            self.settle_root(id.collection);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_vectors_that_together_hold_everyone() {
        let inits: Vec<(Key, Vec<u8>)> =
            (0..5).map(|key| (Key(key), vec![key as u8; PART_BYTES / 2])).collect();
        let parts = in_parts(&inits);
        assert_eq!(parts.len(), 3);
        let opened = parts.into_iter().flat_map(|part| part.open::<Vec<(Key, Vec<u8>)>>().unwrap());
        assert_eq!(opened.collect::<Vec<_>>(), inits);
        assert!(in_parts::<u8>(&[]).is_empty());
    }
}
