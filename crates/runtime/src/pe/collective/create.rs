//! Making collections and members, and unmaking members.
//!
//! **Start.** Main gives every PE the description of a collection and the members that live there,
//! and goes on once all have confirmed. A message that outruns the description waits for it.
//!
//! **While running.** An insertion goes to the root, which settles with which reduction and which
//! broadcast the new member begins, then to the member's home, which learns where it will live, and
//! then there. A destroyed member leaves word at the root and what is left of it at its home.

use crate::Actor;
use crate::collection::{CollectionInfo, Map};
use crate::error::{GridError, JobError};
use crate::id::{ActorId, CollectionId, KindId};
use crate::index::{Key, Shape};
use crate::parcel::Parcel;
use crate::pe::core::Core;
use crate::pe::state::Family;
use crate::wire::{Control, Insertion, MemberRecord};
use gridspan_topology::PeId;

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
        root.collections.insert(id, Family::new(layout.pe_count(), members, created));
        for (pe, inits) in layout.pes().zip(by_pe) {
            let inits = Parcel::new(inits);
            self.post(pe, Control::Create { info: info.clone(), inits });
        }
        Ok(())
    }

    /// Makes a collection known here. Its first members follow.
    pub(in crate::pe) fn enter_collection(&mut self, info: CollectionInfo) {
        let pes = u64::from(self.common.layout.pe_count());
        let members = info.members.div_ceil(pes) as usize;
        if !self.collections.enter(info, members) {
            self.fail(JobError::Protocol("too many collections".to_owned()));
        }
    }

    pub(in crate::pe) fn handle_created(&mut self, collection: CollectionId) {
        let Some(family) = self.family(collection) else { return };
        family.creating = family.creating.saturating_sub(1);
        if family.creating == 0
            && let Some(done) = family.created.take()
        {
            done(self);
        }
    }

    pub(super) fn family(&mut self, collection: CollectionId) -> Option<&mut Family<Self>> {
        self.root.as_mut()?.collections.get_mut(&collection)
    }

    /// Asks for a new member.
    pub(crate) fn insert<A: Actor>(&mut self, id: ActorId, init: A::Init, at: PeId) {
        let init = Parcel::new(vec![(id.key, init)]);
        self.post(Self::ROOT, Control::InsertRequest { id, init, at });
    }

    pub(in crate::pe) fn handle_insert_request(&mut self, id: ActorId, init: Parcel, at: PeId) {
        let Some(home) = self.home(id) else { return self.fail_no_collection(id.collection) };
        let Some(family) = self.family(id.collection) else { return };
        family.inserting += 1;
        let record = MemberRecord {
            reductions: family.reductions.join(),
            syncs: family.syncs.join(),
            broadcasts: family.broadcasts,
            ..MemberRecord::default()
        };
        let insertion = Insertion { id, init, at, epoch: 0, record, held: Vec::new() };
        self.post(home, Control::Insert(Box::new(insertion)));
    }

    pub(in crate::pe) fn handle_inserted(&mut self, id: ActorId) {
        let Some(family) = self.family(id.collection) else { return };
        family.inserting = family.inserting.saturating_sub(1);
        if family.inserting == 0 {
            let waiting = std::mem::take(&mut family.waiting);
            for request in waiting {
                self.number_broadcast(id.collection, request);
            }
        }
    }

    pub(in crate::pe) fn handle_destroyed(&mut self, id: ActorId, reductions: u64, syncs: u64) {
        if let Some(family) = self.family(id.collection) {
            family.reductions.leave(reductions);
            family.syncs.leave(syncs);
            self.settle_root(id.collection);
        }
    }
}
