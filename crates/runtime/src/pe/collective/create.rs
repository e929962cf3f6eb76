//! Creation of collections and members. The coordinator keeps the number of members, and the
//! counters from which new members start (`coordinator/collections.rs`).

use crate::Actor;
use crate::address::collection::{CollectionInfo, Map};
use crate::address::id::{ActorId, COORDINATOR, CollectionId, KindId};
use crate::address::index::{ActorIndex, Key, Shape};
use crate::error::{GridError, JobError, Misuse};
use crate::message::codec;
use crate::message::payload::Payload;
use crate::message::{Control, MainRequest};
use crate::pe::core::Core;
use gridspan_record::MainWait;
use gridspan_topology::PeId;
use serde::Serialize;
use std::any::type_name;
use std::sync::{Arc, OnceLock};

/// Size in bytes at which a part is complete. The first members of a PE on another node are sent in
/// parts.
const PART_BYTES: usize = 8 << 20;
/// Maximum number of first members of a collection per PE, on average. Even empty members take
/// memory; a larger number is a mistake, or comes from a faulty peer.
const MEMBERS_PER_PE_MAX: u64 = 1 << 30;

/// Encodes the initial values of members as several vectors, each of at most `PART_BYTES` plus one
/// member.
fn in_parts<I: Serialize>(inits: &[(Key, I)]) -> Vec<Payload> {
    let mut parts = Vec::new();
    let (mut members, mut bytes) = (0u64, Vec::new());
    for (position, init) in inits.iter().enumerate() {
        codec::append(init, &mut bytes);
        members += 1;
        if bytes.len() >= PART_BYTES || position + 1 == inits.len() {
            // A vector is encoded as its length and then its elements.
            let mut part = codec::encode(&members);
            part.append(&mut bytes);
            parts.push(Payload::Bytes(part.into()));
            members = 0;
        }
    }
    parts
}

impl Core {
    /// Creates a collection on behalf of main. `done` is called when all PEs have created their
    /// members.
    pub(crate) fn create_collection<A: Actor>(
        &mut self,
        kind: KindId,
        place: (Map, Option<Shape>),
        inits: Vec<(Key, A::Init)>,
        done: impl FnOnce(&mut Self, CollectionId) + Send + 'static,
    ) {
        // The coordinator sends the identifier before the answer to `created`, so `known` is set
        // by then.
        let id = Arc::new(OnceLock::new());
        let known = id.clone();
        let created = self.expect_coordinator(MainWait::EachPe, move |core, ()| {
            if let Some(&id) = known.get() {
                done(core, id);
            }
        });
        self.request_collection::<A>(kind, place, inits, (id, created));
    }

    /// Creates, on behalf of main, a collection whose members live with the members of `base` of
    /// the same index. If `base` is bound itself, the new collection is bound to the same base.
    pub(crate) fn create_bound_collection<A: Actor>(
        &mut self,
        kind: KindId,
        base: CollectionId,
        inits: Vec<(Key, A::Init)>,
        done: impl FnOnce(Result<CollectionId, GridError>) + Send + 'static,
    ) {
        let base = self.collections.get(base).and_then(|local| local.base).unwrap_or(base);
        let Some(local) = self.collections.get(base).filter(|local| local.info.migratable()) else {
            return done(Err(GridError::BoundToGroup));
        };
        let (shape, base_kind) = (local.info.shape, local.info.kind);
        if self.common.is_left_out(base_kind) && !self.common.is_left_out(kind) {
            let base = self.common.kind(base_kind).map_or("the base", |kind| kind.name());
            let (base, bound) = (base.to_owned(), type_name::<A>().to_owned());
            return done(Err(GridError::BoundToTransient { base, bound }));
        }
        let id = Arc::new(OnceLock::new());
        let known = id.clone();
        let answered = move |_: &mut Self, missing: Option<Key>| match missing {
            Some(key) => done(Err(GridError::NoPartner {
                collection: base.0,
                index: format!("{:?}", A::Index::from_key(key)),
            })),
            None => {
                if let Some(&id) = known.get() {
                    done(Ok(id));
                }
            }
        };
        let created = self.expect_coordinator(MainWait::EachPe, answered);
        self.request_collection::<A>(kind, (Map::Bound(base), shape), inits, (id, created));
    }

    /// Requests a new collection, stores its identifier in `id`, and sends its first members.
    fn request_collection<A: Actor>(
        &mut self,
        kind: KindId,
        (map, shape): (Map, Option<Shape>),
        inits: Vec<(Key, A::Init)>,
        (id, created): (Arc<OnceLock<CollectionId>>, u64),
    ) {
        let members = inits.len() as u64;
        let request = MainRequest::Create { kind, map, shape, members, created };
        self.ask_coordinator(request, move |core, known: CollectionId| {
            // This closure runs once, so the cell is empty.
            let _ = id.set(known);
            let info = CollectionInfo { id: known, kind, map, shape, members };
            core.send_first_members::<A>(&info, inits);
        });
    }

    /// Sends every PE the description of a collection and the initial values of the members whose
    /// home it is.
    fn send_first_members<A: Actor>(&mut self, info: &CollectionInfo, inits: Vec<(Key, A::Init)>) {
        let layout = self.common.layout.clone();
        let mut by_pe: Vec<Vec<(Key, A::Init)>> = layout.pes().map(|_| Vec::new()).collect();
        let base = info.base().and_then(|base| self.collections.get(base));
        let homes = base.map_or(info, |base| &base.info);
        for (key, init) in inits {
            by_pe[homes.home(key, &layout, &self.common.maps).index()].push((key, init));
        }
        let here = layout.node_of(self.me);
        for (pe, inits) in layout.pes().zip(by_pe) {
            let mut parts = match layout.node_of(pe) == here {
                true => vec![Payload::new(inits)],
                false => in_parts(&inits),
            };
            let last = parts.pop().unwrap_or_else(|| Payload::new(Vec::<(Key, A::Init)>::new()));
            let more = parts.len() as u32;
            for inits in parts {
                self.post(pe, Control::CreatePart { collection: info.id, inits });
            }
            self.post(pe, Control::Create { info: info.clone(), inits: last, more });
        }
    }

    /// Registers a collection here; its first members follow. If that is impossible, fails the job
    /// and returns false.
    pub(in crate::pe) fn enter_collection(&mut self, info: CollectionInfo) -> bool {
        let pes = u64::from(self.common.layout.pe_count());
        let members = info.members.div_ceil(pes);
        let problem = if self.common.kind(info.kind).is_none() {
            "a collection of an unknown actor type"
        } else if members > MEMBERS_PER_PE_MAX {
            "a collection of more members than a PE can hold"
        } else if !self.collections.enter(info, members as usize) {
            "a collection that is known already, too many collections, or one bound to a \
             collection that is not known or is bound itself"
        } else {
            return true;
        };
        self.fail(JobError::Protocol(problem.to_owned()));
        false
    }

    /// Requests the insertion of a new member. Fails the job if members of this collection are
    /// created on demand, since a message could create the same member.
    pub(crate) fn insert<A: Actor>(&mut self, id: ActorId, init: A::Init, at: PeId) {
        let Some(kind) = self.kind_in::<A>(id.collection) else { return };
        if self.common.on_demand.contains_key(&kind) {
            let index = format!("{:?}", A::Index::from_key(id.key));
            let actor = type_name::<A>().to_owned();
            return self.fail(Misuse::InsertedOnDemand { actor, index }.into());
        }
        self.renounce_right(id.collection);
        self.request_insertion(id, Payload::new(vec![(id.key, init)]), at);
    }

    /// Requests the insertion of the members in demand; see `delivery/demands`. Called at the end
    /// of a turn.
    pub(in crate::pe) fn request_missing(&mut self) {
        while let Some((id, at)) = self.delivery.take_demand() {
            let Some((kind, rule)) = self.rule(id.collection) else { continue };
            let init = rule.init.clone();
            if self.is_missing(id) {
                // A panic of `init` names the actor type.
                self.running = Some(kind);
                let init = init(id.key);
                self.running = None;
                self.request_insertion(id, init, at);
            }
        }
    }

    /// Requests the insertion of a new member. `init` is a `Vec<(Key, Init)>` with one element.
    fn request_insertion(&mut self, id: ActorId, init: Payload, at: PeId) {
        self.post(COORDINATOR, Control::InsertRequest { id, init, at });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_together_contain_all_members() {
        let inits: Vec<(Key, Vec<u8>)> =
            (0..5).map(|key| (Key(key), vec![key as u8; PART_BYTES / 2])).collect();
        let parts = in_parts(&inits);
        assert_eq!(parts.len(), 3);
        let opened = parts.into_iter().flat_map(|part| part.open::<Vec<(Key, Vec<u8>)>>().unwrap());
        assert_eq!(opened.collect::<Vec<_>>(), inits);
        assert!(in_parts::<u8>(&[]).is_empty());
    }
}
