//! The root's rebalances, one at a time.

use super::callback::CallbackWith;
use crate::id::CollectionId;
use crate::wire::Talk;
use gridspan_balance::{ActorLoad, PeLoad};
use gridspan_topology::PeId;
use std::collections::{BTreeMap, VecDeque};

/// Why actors are balanced, which also names the occasion on the network.
///
/// A collection whose members wait at their sync point, or [`ASKED`](Balances::ASKED).
pub(crate) type Occasion = CollectionId;

/// Occasions, and what has come in for the present one.
pub(crate) struct Balances<C> {
    /// The first is being worked off, the others wait.
    pub(crate) queue: VecDeque<Occasion>,
    /// PEs that still measure, or actors that still move.
    pub(crate) missing: usize,
    pub(crate) loads: Vec<(ActorLoad, u32)>,
    pub(crate) talks: Vec<Talk>,
    pub(crate) pes: BTreeMap<PeId, PeLoad>,
    /// Actors that move.
    pub(crate) moves: usize,
    /// How many rebalances that somebody asked for are over.
    pub(crate) asked: u64,
    /// Who asked, in order; they learn how many actors have moved.
    pub(crate) waits: VecDeque<CallbackWith<C, usize>>,
}

impl<C> Balances<C> {
    /// The occasion that somebody asked for it, or that it was time.
    pub(crate) const ASKED: Occasion = CollectionId::SYSTEM;
}

impl<C> Default for Balances<C> {
    fn default() -> Self {
        Self {
            queue: VecDeque::new(),
            missing: 0,
            loads: Vec::new(),
            talks: Vec::new(),
            pes: BTreeMap::new(),
            moves: 0,
            asked: 0,
            waits: VecDeque::new(),
        }
    }
}
