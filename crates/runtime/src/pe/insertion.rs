//! Creation of the members of a collection on this PE: the first ones, and those inserted later.

use super::core::{Core, Store};
use super::migrate;
use crate::address::id::KindId;
use crate::error::JobError;
use crate::message::payload::Payload;
use crate::message::{Insertion, MemberRecord};
use crate::pe::members::member::NewMembers;

/// Creates members from a `Vec<(Key, Init)>`.
pub(super) fn create_members(
    core: &mut Core,
    stores: &mut [Box<dyn Store>],
    kind: KindId,
    new: NewMembers,
    inits: Payload,
) {
    let result = match stores.get_mut(kind.index()) {
        Some(store) => store.create(core, new, inits),
        None => Err(JobError::Protocol("a collection of an unknown actor type".to_owned())),
    };
    if let Err(error) = result {
        core.fail(error);
    }
}

/// Creates an inserted member, with the channels of an earlier member of its index. Returns false
/// if its collection is not known or the channels do not decode.
pub(super) fn create_inserted(
    core: &mut Core,
    stores: &mut [Box<dyn Store>],
    insertion: Insertion,
) -> bool {
    let Insertion { id, init, epoch, record, held, .. } = insertion;
    let collection = id.collection;
    let Some(kind) = core.collections.get(collection).map(|local| local.info.kind) else {
        return false;
    };
    let mut channels = match migrate::channels(core, kind, &record, &held) {
        Ok(channels) => channels,
        Err(error) => {
            core.fail(JobError::Protocol(error.to_string()));
            return false;
        }
    };
    if let Some(local) = core.collections.get(collection) {
        local.streams.admit(&mut channels);
    }
    let MemberRecord { reductions, broadcasts, syncs, .. } = record;
    let new = NewMembers { collection, epoch, reductions, broadcasts, syncs, channels };
    create_members(core, stores, kind, new, init);
    true
}
