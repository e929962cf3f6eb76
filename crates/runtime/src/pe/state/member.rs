//! Members that live on a PE: those that are about to, those that do, and those that leave.

use super::channel::Channels;
use super::talk::Ring;
use super::waiting::KeptEnvelope;
use crate::id::{ActorId, CollectionId, KindId};
use crate::rank::FAR;
use bytes::Bytes;
use gridspan_topology::PeId;

/// A member that lives here.
pub(crate) struct Member {
    pub(crate) id: ActorId,
    /// How often it has moved, or got or lost a second seat.
    pub(crate) epoch: u32,
    /// The number of the next broadcast it has to handle.
    pub(crate) broadcasts: u64,
    pub(crate) reductions: u64,
    pub(crate) syncs: u64,
    pub(crate) synced: bool,
    pub(crate) load_ns: u64,
    /// What its state took when it was last encoded.
    pub(crate) state_bytes: Option<u64>,
    pub(crate) channels: Option<Box<Channels>>,
    /// Whom it talks to, while that is measured.
    pub(crate) ring: Ring,
    /// From it to another site, in messages.
    pub(crate) border_hops: u8,
    /// Whether it sits on another PE too.
    pub(crate) is_twin: bool,
}

/// Members that are about to be made, and the numbers of the collective operations they begin with.
pub(crate) struct NewMembers {
    pub(crate) collection: CollectionId,
    pub(crate) epoch: u32,
    pub(crate) reductions: u64,
    pub(crate) broadcasts: u64,
    pub(crate) syncs: u64,
    /// The conversations of an earlier member of the same index.
    pub(crate) channels: Option<Box<Channels>>,
}

impl NewMembers {
    /// The members that a collection begins with.
    pub(crate) fn first(collection: CollectionId) -> Self {
        Self { collection, epoch: 0, reductions: 0, broadcasts: 0, syncs: 0, channels: None }
    }

    pub(crate) fn member(&mut self, id: ActorId) -> Member {
        let Self { epoch, reductions, broadcasts, syncs, .. } = *self;
        Member {
            id,
            epoch,
            broadcasts,
            reductions,
            syncs,
            synced: false,
            load_ns: 0,
            state_bytes: None,
            channels: self.channels.take(),
            ring: Ring::default(),
            border_hops: FAR,
            is_twin: false,
        }
    }
}

/// An actor that was offered to another PE.
pub(crate) struct Departing {
    pub(crate) kind: KindId,
    pub(crate) slot: u32,
    pub(crate) to: PeId,
    pub(crate) member: Member,
    pub(crate) mailbox: Vec<(i32, Bytes)>,
    /// Messages that came since.
    pub(crate) arrivals: Vec<KeptEnvelope>,
    /// The sync point whose plan this is part of.
    pub(crate) plan: Option<CollectionId>,
}

/// What an actor asked for itself while it was being handled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Request {
    pub(crate) id: ActorId,
    pub(crate) wish: Wish,
}

/// What an actor can ask for itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wish {
    /// To live on another PE.
    Migrate(PeId),
    /// To be no more.
    Destroy,
}
