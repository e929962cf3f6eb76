//! State of a PE that goes on from a checkpoint.

use crate::address::id::{ActorId, CollectionId, KindId, Slot};
use crate::message::MemberImage;
use crate::pe::checkpoint::restoration::{FormerOrder, Restoration};
use gridspan_topology::PeId;
use std::collections::BTreeMap;
use std::sync::Arc;

/// What a PE has restored, and has to do before it handles messages.
#[derive(Default)]
pub(crate) struct Restoring {
    /// The checkpoint from which the job continues, until this PE handles messages.
    pub(crate) restoration: Option<Arc<Restoration>>,
    /// Members of groups whose size has changed, before their actors are built.
    pub(crate) forming: BTreeMap<ActorId, Forming>,
    /// Restored members whose `arrived` has not been called yet.
    pub(crate) restored: Vec<(KindId, u32)>,
    /// Collections whose sync points the coordinator settled before this PE continued after the
    /// restoration, with the number of settled points.
    pub(crate) settled: Vec<(CollectionId, u64)>,
    /// Slots of the restored questions about quiescence that have not been asked again yet.
    pub(crate) quiescence: Vec<u64>,
    /// By base member: the PE on which it and the members bound to it continue, if several PEs take
    /// over a part.
    pub(crate) targets: BTreeMap<ActorId, PeId>,
    /// For each part: number of base members that this PE has assigned to each PE.
    pub(crate) dealt: BTreeMap<PeId, BTreeMap<PeId, u64>>,
}

/// A member of a group whose size has changed, before its actor is built.
pub(crate) struct Forming {
    pub(crate) slot: Slot,
    /// The former members that go into it, in the order in which they are merged.
    pub(crate) former: BTreeMap<FormerOrder, MemberImage>,
}
