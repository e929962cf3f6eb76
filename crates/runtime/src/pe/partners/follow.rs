//! Bound collections: every member lives where the member of the *base collection* with its index
//! lives, as in the bound arrays of Charm++.
//!
//! **Start.** Members of a bound collection have the homes of their partners in the base
//! collection, since homes follow from the base's map. So the first members go to their homes, as
//! those of any collection. A home creates the members whose partners live there. Each of the
//! others *follows* its partner, as a message would, and is created on the partner's PE. A member
//! that is inserted later follows in the same way. If the home knows no partner, the creation of
//! the collection fails; an insertion waits, since that of its partner may be under way.
//!
//! **Steady state.** Whichever partner is to move, all of them move, by one offer, one acceptance
//! and one commit (`pe/migrate`). A PE gives them up in one step and installs them in one step, so
//! that no handler runs apart from its actor's partners. Each has its own epoch and its own
//! messages, and is found through its own home and directory entries.
//!
//! **Balancing.** PEs report partners as one unit under the identity of the base member: the sum of
//! their loads and sizes, and their messages to others.
//!
//! **End.** When the base member is destroyed, the others end in the same step.

use crate::address::id::{ActorId, COORDINATOR, CollectionId, KindId};
use crate::error::JobError;
use crate::message::payload::Payload;
use crate::message::{Control, Follower, Insertion, MemberRecord};
use crate::pe::core::{Core, Store};
use crate::pe::delivery::{Place, Reason, Until, Verdict};
use crate::pe::insertion::{create_inserted, create_members};
use crate::pe::members::member::NewMembers;

/// Creates the first members of a bound collection that have their home here, on the PEs of their
/// partners.
pub(crate) fn create_first(
    core: &mut Core,
    stores: &mut [Box<dyn Store>],
    (kind, collection): (KindId, CollectionId),
    inits: Payload,
) {
    let member = |key| ActorId { collection, key };
    let is_here = |key| core.resident(core.base_of(member(key))).is_some();
    let Some(store) = stores.get(kind.index()) else { return };
    let (here, elsewhere) = match store.divide(inits, &is_here) {
        Ok(divided) => divided,
        Err(error) => return core.fail(JobError::Protocol(error.to_string())),
    };
    let before = core.collections.get(collection).map_or(0, |local| local.slots.len());
    create_members(core, stores, kind, NewMembers::first(collection), here);
    let after = core.collections.get(collection).map_or(0, |local| local.slots.len());
    let members = (after - before) as u64;
    core.post(COORDINATOR, Control::Placed { collection, members, missing: None });
    for (key, init) in elsewhere {
        let (record, at) = (MemberRecord::default(), core.me);
        let id = member(key);
        let insertion = Box::new(Insertion { id, init, at, epoch: 0, record, held: Vec::new() });
        follow(core, stores, Follower { insertion, epoch: 0, is_first: true });
    }
}

/// Inserts a member into a bound collection. Runs on its home.
pub(crate) fn insert(
    core: &mut Core,
    stores: &mut [Box<dyn Store>],
    mut insertion: Box<Insertion>,
) {
    // The partner decides where the member lives.
    insertion.at = core.me;
    let base = core.base_of(insertion.id);
    let is_here = core.resident(base).is_some();
    // `prepare_insertion` removes the tombstone, and its channels move with the new member. So the
    // insertion waits until the PE of the partner is known.
    if !is_here && !matches!(core.way_to(base, 0), Verdict::Forward { to, .. } if to != core.me) {
        return core.await_base(base, Control::Insert(insertion));
    }
    if let Some(insertion) = core.prepare_insertion(insertion) {
        follow(core, stores, Follower { insertion, epoch: 0, is_first: false });
    }
}

/// Creates a member if its partner lives here. Otherwise the member follows the partner, or waits
/// for it.
pub(crate) fn follow(core: &mut Core, stores: &mut [Box<dyn Store>], mut follower: Follower) {
    let Follower { ref mut insertion, epoch, is_first } = follower;
    let base = core.base_of(insertion.id);
    if core.resident(base).is_some() {
        return settle(core, stores, follower);
    }
    let way = core.way_to(base, epoch);
    let is_missing = match way {
        Verdict::Drop(Reason::Destroyed) => true,
        Verdict::Hold(Until::Arrived) => epoch == 0 && core.is_unknown(base),
        _ => false,
    };
    match way {
        _ if is_missing && is_first => {
            let (collection, missing) = (insertion.id.collection, Some(insertion.id.key));
            core.post(COORDINATOR, Control::Placed { collection, members: 1, missing });
        }
        Verdict::Forward { to, epoch, .. } if to != core.me => {
            follower.epoch = epoch;
            insertion.epoch = insertion.epoch.saturating_add(1);
            core.learn(insertion.id, Place::at(to, insertion.epoch));
            core.post(to, Control::Follow(follower));
        }
        _ => core.await_base(base, Control::Follow(follower)),
    }
}

/// Creates a member that has found its partner here.
fn settle(core: &mut Core, stores: &mut [Box<dyn Store>], follower: Follower) {
    let Follower { insertion, is_first, .. } = follower;
    let (id, epoch) = (insertion.id, insertion.epoch);
    if core.resident(id).is_some() {
        return core.fail_occupied(id);
    }
    if !create_inserted(core, stores, *insertion) {
        return;
    }
    if let Some(home) = core.home(id)
        && home != core.me
    {
        let pe = core.me;
        core.tell_place(home, id, Place::at(pe, epoch));
    }
    let collection = id.collection;
    core.post(
        COORDINATOR,
        match is_first {
            true => Control::Placed { collection, members: 1, missing: None },
            false => Control::Inserted { id },
        },
    );
}
