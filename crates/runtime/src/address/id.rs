//! Identifiers of actors, collections, sections, actor types, and places on a PE.

use crate::address::index::Key;
use gridspan_topology::{PeId, Time};
use serde::{Deserialize, Serialize};

/// The PE beside which main runs, and which asks in its name.
pub const MAIN_PE: PeId = PeId(0);

/// The address of the coordinator, on whichever node it runs. No PE has this number.
pub const COORDINATOR: PeId = PeId(u32::MAX);

/// A collection, unique within the job.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct CollectionId(pub u32);

impl CollectionId {
    /// Senders that are no actors: main and the timers, asks and reductions of a PE.
    pub(crate) const SYSTEM: Self = Self(u32::MAX);
}

/// A member of a collection, whatever its type.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
pub struct ActorId {
    /// The collection it belongs to.
    pub collection: CollectionId,
    /// Its index there.
    pub key: Key,
}

impl ActorId {
    /// The actor taken apart, for a call out of line on a way that is rarely taken: what such a
    /// call takes by reference lies in memory from the beginning, and those who do not call would
    /// look the actor up from there.
    #[inline(always)]
    pub(crate) fn apart(self) -> (CollectionId, u128) {
        (self.collection, self.key.0)
    }

    /// What [`apart`](Self::apart) took apart.
    #[inline(always)]
    pub(crate) fn joined((collection, key): (CollectionId, u128)) -> Self {
        Self { collection, key: Key(key) }
    }

    /// The sender that stands for what a PE itself sends.
    pub(crate) fn system(pe: PeId) -> Self {
        Self { collection: CollectionId::SYSTEM, key: Key(u128::from(pe.0)) }
    }
}

/// A section, unique within the job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub(crate) struct SectionId {
    pub(crate) collection: CollectionId,
    pub(crate) name: u64,
}

/// The position of an actor type in the job's definition.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub(crate) struct KindId(pub(crate) u16);

impl KindId {
    pub(crate) fn index(self) -> usize {
        usize::from(self.0)
    }
}

/// Where an actor lives on its PE.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Slot {
    pub(crate) kind: KindId,
    pub(crate) index: u32,
}

/// Who sends a message.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Sender {
    /// The PE itself: for main, and when a timer fires or an answer comes.
    Pe,
    /// The actor that is being handled.
    Actor(Slot),
}

/// Names a message that is to be sent later, so that it can be
/// [cancelled](crate::Context::cancel).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Timer {
    pub(crate) pe: PeId,
    pub(crate) at: Time,
    /// Tells apart what is due at the same time.
    pub(crate) number: u64,
}

/// A rebalance of a job; they are counted from one, and there is one at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) struct RebalanceId(pub(crate) u64);
