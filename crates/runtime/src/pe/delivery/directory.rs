//! The places of actors on other PEs, as this PE knows them.
//!
//! Every move of an actor raises its *epoch*, and so does each begin and end of a replica. A known
//! place has a PE and an epoch, and newer epochs replace older ones, whatever the order in which
//! they arrive. The home of an actor and every PE that it has left always know a PE on which it has
//! been since. Following these places leads to the actor, because each step goes to a higher epoch.

use crate::address::id::ActorId;
use crate::pe::PlantedFault;
use gridspan_topology::PeId;
use rustc_hash::FxHashMap;

/// The known place of an actor that does not live here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) pe: PeId,
    pub(crate) epoch: u32,
    /// Whether the actor was destroyed.
    pub(crate) gone: bool,
    pub(crate) replica: Option<PeId>,
}

impl Place {
    /// The place of an actor without a replica.
    pub(crate) fn at(pe: PeId, epoch: u32) -> Self {
        Self { pe, epoch, gone: false, replica: None }
    }

    /// The destination of messages to an actor at this place.
    pub(super) fn route(self) -> Route {
        Route { pe: self.pe, second: self.replica, epoch: self.epoch }
    }
}

/// The destination of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Route {
    pub(crate) pe: PeId,
    /// The PE of the receiver's replica, which gets the message too.
    pub(crate) second: Option<PeId>,
    /// The epoch of the place from which this route was made.
    pub(crate) epoch: u32,
}

impl Route {
    pub(super) fn to(pe: PeId, epoch: u32) -> Self {
        Self { pe, second: None, epoch }
    }

    /// The epoch to put on a message that goes to the first PE only. If the receiver is replicated,
    /// this is the epoch before the replica, so that the receiver passes the message on to the
    /// other replica.
    pub(super) fn epoch_for_one(self) -> u32 {
        self.epoch - u32::from(self.second.is_some() && self.epoch > 0)
    }

    /// All PEs that receive the message.
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

    /// Learns a place, unless a newer one is known. Returns whether it was new.
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

    /// The actors that are gone and whose home is `me`, in order.
    pub(crate) fn gone(&self, me: PeId) -> Vec<ActorId> {
        let gone = self.places.iter().filter(|(_, place)| place.gone && place.pe == me);
        let mut gone: Vec<ActorId> = gone.map(|(&id, _)| id).collect();
        gone.sort_unstable();
        gone
    }

    /// Removes an actor, because it lives here now.
    pub(crate) fn forget(&mut self, id: ActorId) {
        self.places.remove(&id);
    }
}
