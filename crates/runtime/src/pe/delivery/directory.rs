//! Where actors live, as far as this PE knows.
//!
//! Every move raises an actor's *epoch*. Knowledge is a pair (PE, epoch), and newer epochs replace
//! older ones, whatever the order in which they arrive. The home of an actor and every PE that it
//! left always know a PE that it has been on since; following them leads to it, because each step
//! goes to a higher epoch. So does every time that an actor gets a replica or gives it up.

use crate::address::id::ActorId;
use crate::pe::PlantedFault;
use gridspan_topology::PeId;
use rustc_hash::FxHashMap;

/// What is known about an actor that does not live here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) pe: PeId,
    pub(crate) epoch: u32,
    /// It was destroyed.
    pub(crate) gone: bool,
    /// Where its replica is, if it has one.
    pub(crate) replica: Option<PeId>,
}

impl Place {
    /// An actor without a replica lives there.
    pub(crate) fn at(pe: PeId, epoch: u32) -> Self {
        Self { pe, epoch, gone: false, replica: None }
    }

    /// Where to send a message to an actor there.
    pub(super) fn route(self) -> Route {
        Route { pe: self.pe, second: self.replica, epoch: self.epoch }
    }
}

/// Where to send a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Route {
    pub(crate) pe: PeId,
    /// Another PE that gets it too: the receiver is replicated.
    pub(crate) second: Option<PeId>,
    /// The epoch of this knowledge.
    pub(crate) epoch: u32,
}

impl Route {
    pub(super) fn to(pe: PeId, epoch: u32) -> Self {
        Self { pe, second: None, epoch }
    }

    /// What to write on a message that goes to the first PE only: who knows of two replicas and
    /// sends to one of them does not say so, and the replica passes it on to the other.
    pub(super) fn epoch_for_one(self) -> u32 {
        self.epoch - u32::from(self.second.is_some() && self.epoch > 0)
    }

    /// All PEs that get the message.
    pub(crate) fn all(self) -> impl Iterator<Item = PeId> {
        std::iter::once(self.pe).chain(self.second)
    }
}

/// Places of actors that do not live on this PE.
#[derive(Default)]
pub(crate) struct Directory {
    places: FxHashMap<ActorId, Place>,
}

impl Directory {
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    pub(crate) fn place(&self, id: ActorId) -> Option<Place> {
        self.places.get(&id).copied()
    }

    /// Learns a place, unless something newer is known. Returns whether it was news.
    pub(crate) fn learn(&mut self, id: ActorId, place: Place, fault: PlantedFault) -> bool {
        match self.places.get_mut(&id) {
            Some(known) if known.epoch >= place.epoch && fault != PlantedFault::EpochIgnored => {
                false
            }
            Some(known) => {
                *known = place;
                true
            }
            None => {
                self.places.insert(id, place);
                true
            }
        }
    }

    /// Forgets an actor, because it lives here now.
    pub(crate) fn forget(&mut self, id: ActorId) {
        self.places.remove(&id);
    }
}
