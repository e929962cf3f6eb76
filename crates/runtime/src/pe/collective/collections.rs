//! The collections that a PE knows, and the slots of their members on it.

use crate::address::collection::CollectionInfo;
use crate::address::id::{ActorId, CollectionId};
use crate::address::index::{Key, Shape};
use crate::message::limits::COLLECTIONS_MAX;
use crate::message::payload::Payload;
use crate::pe::collective::Streams;
use crate::pe::delivery::{Accounted, AccountedBroadcast};
use rustc_hash::FxHashMap;
use std::collections::{BTreeMap, BTreeSet};

/// Maximum number of indices in a box that gets a table, for each of the members that a PE has on
/// average. A table entry takes a twelfth of the memory of a hash map entry.
const TABLE_SHARE: u64 = 16;
/// Maximum number of entries in all tables of a PE, 1 GiB: a peer that claims many members must not
/// make this PE allocate more before any of them exists. Further collections get hash maps.
const TABLE_ENTRIES_MAX: u64 = 1 << 28;
/// Number of unsettled sync points that a member may leave. Settling one takes a round trip.
/// Between two sync points, members that depend on members of another site need at least half a
/// round trip, so that two would do; a third leaves time to combine contributions.
const SYNCS_AHEAD: u64 = 3;
/// The empty entry of a table.
const NO_SLOT: u32 = u32::MAX;

/// A collection as this PE knows it.
pub(crate) struct LocalCollection {
    /// Its description. A bound collection has the map and the shape of its base here, since its
    /// members have the same homes.
    pub(crate) info: CollectionInfo,
    /// The collection to which it is bound.
    pub(crate) base: Option<CollectionId>,
    /// The collections that are bound to it.
    pub(crate) bound: Vec<CollectionId>,
    /// Slots of the members that live here, by index.
    pub(crate) slots: Slots,
    pub(crate) broadcasts: Broadcasts,
    /// Unordered broadcasts.
    pub(crate) streams: Streams,
    /// Number of sync points that the coordinator has settled: all members have reached them, and
    /// the moves after them are known.
    pub(crate) settled_syncs: u64,
}

impl LocalCollection {
    /// Whether a member may leave its `syncs`-th sync point, counted from one.
    ///
    /// The first sync point is a barrier, so that members that should move do not run far ahead
    /// where they were created. At all others a member continues at once, unless it is too far
    /// ahead of the settled ones.
    pub(crate) fn may_leave_sync(&self, syncs: u64) -> bool {
        self.settled_syncs > 0 && syncs <= self.settled_syncs + SYNCS_AHEAD
    }
}

/// The broadcasts of one collection, as seen by a PE.
#[derive(Default)]
pub(crate) struct Broadcasts {
    /// Number of the next broadcast to take.
    pub(crate) next: u64,
    /// Broadcasts that arrived before an earlier one.
    pub(crate) early: BTreeMap<u64, AccountedBroadcast>,
    /// Direct broadcasts whose number has not arrived, by sender and count.
    pub(crate) unnumbered: BTreeMap<(ActorId, u64), AccountedBroadcast>,
    /// Numbers that have arrived before their direct broadcasts, by sender and count.
    pub(crate) numbered: BTreeMap<(ActorId, u64), Accounted<u64>>,
    /// The last broadcast that was taken from each sender.
    pub(crate) seen: FxHashMap<ActorId, Seen>,
    /// Members here at which a message may wait for a broadcast.
    pub(crate) waiting: BTreeSet<Key>,
}

/// The broadcasts that a PE has taken from one sender.
pub(crate) struct Seen {
    pub(crate) count: u64,
    /// The number of the last broadcast.
    pub(crate) number: u64,
}

/// A collection whose description or first members have not all arrived.
#[derive(Default)]
pub(crate) struct Incomplete {
    /// The description, and the number of parts besides the one that came with it.
    pub(crate) info: Option<(CollectionInfo, u32)>,
    /// The initial values of members, in any order.
    pub(crate) parts: Vec<Accounted<Payload>>,
}

impl Incomplete {
    /// Whether the description and all parts have arrived.
    pub(crate) fn is_complete(&self) -> bool {
        self.info.as_ref().is_some_and(|&(_, more)| self.parts.len() as u64 == u64::from(more) + 1)
    }
}

/// All collections, by their dense identifiers.
#[derive(Default)]
pub(crate) struct Collections {
    all: Vec<Option<LocalCollection>>,
    /// Number of entries in the tables that were made.
    table_entries: u64,
}

impl Collections {
    #[inline(always)]
    pub(crate) fn get(&self, id: CollectionId) -> Option<&LocalCollection> {
        self.all.get(id.0 as usize)?.as_ref()
    }

    #[inline]
    pub(crate) fn get_mut(&mut self, id: CollectionId) -> Option<&mut LocalCollection> {
        self.all.get_mut(id.0 as usize)?.as_mut()
    }

    /// Whether any collection is bound to another.
    pub(crate) fn has_bound(&self) -> bool {
        self.values().any(|local| local.base.is_some())
    }

    pub(crate) fn values(&self) -> impl Iterator<Item = &LocalCollection> {
        self.all.iter().flatten()
    }

    /// Enters a collection with about `members` members here. Returns false if it is known already,
    /// if there are too many collections, or if it is bound to one that is bound itself or not
    /// known.
    pub(crate) fn enter(&mut self, mut info: CollectionInfo, members: usize) -> bool {
        let position = info.id.0 as usize;
        if position >= COLLECTIONS_MAX || self.get(info.id).is_some() {
            return false;
        }
        let base = info.base();
        if let Some(base) = base {
            let Some(base) = self.get_mut(base).filter(|local| local.base.is_none()) else {
                return false;
            };
            base.bound.push(info.id);
            (info.map, info.shape) = (base.info.map, base.info.shape);
        }
        if self.all.len() <= position {
            self.all.resize_with(position + 1, || None);
        }
        let slots = Slots::new(info.shape, members, TABLE_ENTRIES_MAX - self.table_entries);
        self.table_entries += slots.table_entries();
        self.all[position] = Some(LocalCollection {
            base,
            bound: Vec::new(),
            slots,
            info,
            broadcasts: Broadcasts::default(),
            streams: Streams::default(),
            settled_syncs: 0,
        });
        true
    }
}

/// The slots of members, by index.
pub(crate) enum Slots {
    /// By position in the box of indices.
    Table { shape: Shape, table: Vec<u32>, len: usize },
    /// By key.
    Map(FxHashMap<Key, u32>),
}

impl Slots {
    /// Makes a table of at most `entries_max` entries, or a map.
    fn new(shape: Option<Shape>, members: usize, entries_max: u64) -> Self {
        match shape {
            Some(shape) if shape.len() <= entries_max.min(TABLE_SHARE * members as u64) => {
                Self::Table { shape, table: vec![NO_SLOT; shape.len() as usize], len: 0 }
            }
            _ => Self::Map(FxHashMap::default()),
        }
    }

    #[inline(always)]
    pub(crate) fn get(&self, key: Key) -> Option<u32> {
        match self {
            Self::Table { shape, table, .. } => {
                let slot = *table.get(shape.rank(key)? as usize)?;
                (slot != NO_SLOT).then_some(slot)
            }
            Self::Map(map) => look_up(map, key.0),
        }
    }

    pub(crate) fn insert(&mut self, key: Key, slot: u32) {
        match self {
            Self::Map(map) => {
                map.insert(key, slot);
            }
            Self::Table { shape, table, len } => match shape.rank(key) {
                Some(rank) => {
                    let entry = &mut table[rank as usize];
                    *len += usize::from(*entry == NO_SLOT);
                    *entry = slot;
                }
                // A member outside the box with which the collection was made.
                None => {
                    self.become_map();
                    self.insert(key, slot);
                }
            },
        }
    }

    pub(crate) fn remove(&mut self, key: Key) {
        match self {
            Self::Map(map) => {
                map.remove(&key);
            }
            Self::Table { shape, table, len } => {
                if let Some(rank) = shape.rank(key) {
                    let entry = &mut table[rank as usize];
                    *len -= usize::from(*entry != NO_SLOT);
                    *entry = NO_SLOT;
                }
            }
        }
    }

    pub(crate) fn len(&self) -> usize {
        match self {
            Self::Table { len, .. } => *len,
            Self::Map(map) => map.len(),
        }
    }

    fn table_entries(&self) -> u64 {
        match self {
            Self::Table { table, .. } => table.len() as u64,
            Self::Map(_) => 0,
        }
    }

    fn become_map(&mut self) {
        if let Self::Table { shape, table, .. } = self {
            let present = table.iter().enumerate().filter(|&(_, &slot)| slot != NO_SLOT);
            *self =
                Self::Map(present.map(|(rank, &slot)| (shape.key(rank as u64), slot)).collect());
        }
    }
}

/// Out of line, to keep the path of a message short if there is a table.
#[inline(never)]
fn look_up(map: &FxHashMap<Key, u32>, key: u128) -> Option<u32> {
    map.get(&Key(key)).copied()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::address::collection::Map;
    use crate::address::id::KindId;
    use crate::address::index::{ActorIndex, IndexSet, Ix1, Ix2};

    fn info(number: u32, shape: Option<Shape>) -> CollectionInfo {
        let (id, kind) = (CollectionId(number), KindId(0));
        CollectionInfo { id, kind, map: Map::Block, shape, members: 0 }
    }

    #[test]
    fn a_collection_is_entered_once_and_keeps_its_members() {
        let mut collections = Collections::default();
        assert!(collections.enter(info(1, None), 0));
        collections.get_mut(CollectionId(1)).unwrap().slots.insert(Ix1(0).key(), 7);

        assert!(!collections.enter(info(1, None), 0));

        let slots = &collections.get(CollectionId(1)).unwrap().slots;
        assert_eq!(slots.get(Ix1(0).key()), Some(7));
    }

    #[test]
    fn a_box_beyond_the_limit_of_all_tables_gets_a_map_whatever_number_of_members_is_claimed() {
        let shape = |extent| Ix1::range(extent).shape();
        let mut collections = Collections::default();
        assert!(collections.enter(info(0, shape(u32::MAX)), 1 << 30));
        assert!(collections.enter(info(1, shape(5)), 5));
        collections.table_entries = TABLE_ENTRIES_MAX - 9;
        assert!(collections.enter(info(2, shape(5)), 5));
        assert!(collections.enter(info(3, shape(5)), 5));
        let entries = collections.values().map(|local| local.slots.table_entries());
        assert_eq!(entries.collect::<Vec<_>>(), [0, 5, 5, 0]);
    }

    #[test]
    fn a_table_and_a_map_hold_the_same() {
        for members in [0, 6] {
            let mut slots = Slots::new(Ix2::grid(2, 3).shape(), members, 6);
            for (slot, index) in Ix2::grid(2, 3).into_indices().enumerate() {
                slots.insert(index.key(), slot as u32);
            }
            slots.remove(Ix2(1, 1).key());
            assert_eq!(slots.len(), 5);
            assert_eq!(slots.get(Ix2(1, 2).key()), Some(5));
            assert_eq!(slots.get(Ix2(1, 1).key()), None);
            assert_eq!(slots.get(Ix2(7, 7).key()), None);
        }
    }

    #[test]
    fn a_member_beyond_the_box_turns_the_table_into_a_map() {
        let mut slots = Slots::new(Ix2::grid(2, 3).shape(), 6, 6);
        slots.insert(Ix2(1, 0).key(), 4);
        slots.insert(Ix2(9, 9).key(), 5);
        assert_eq!(slots.get(Ix2(1, 0).key()), Some(4));
        assert_eq!(slots.get(Ix2(9, 9).key()), Some(5));
        assert_eq!(slots.len(), 2);
    }
}
