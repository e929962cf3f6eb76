//! The data of groups that a server keeps, in memory and on disk, while the client of the group is
//! connected, and the places of data that is still being fetched.

use crate::wire::budget::{Budget, Claim};
use bytes::Bytes;
use gridspan_rpc::group::{DataKey, Encoded, ObjectStore, Room};
use std::collections::BTreeMap;
use std::sync::Arc;
use tokio::sync::OnceCell;

/// The place of one piece of data. It is empty while a user fetches the data, and other users wait
/// for that fetch. Then it holds the claim on the room of the data.
pub(crate) type Place = Arc<OnceCell<Claim>>;

#[derive(Debug)]
pub(crate) struct ObjectCache {
    groups: BTreeMap<u64, Group>,
    /// Number of groups so far.
    count: u32,
    objects: ObjectStore,
    budget: Budget,
}

/// A group's local number, and its data.
#[derive(Debug)]
struct Group {
    number: u32,
    places: BTreeMap<u32, Place>,
}

impl ObjectCache {
    /// Creates a cache with this room. All claims together are limited to the larger of the rooms
    /// in memory and on disk, because all data may have to be on disk.
    pub(crate) fn new(room: Room) -> Self {
        let bytes = room.memory_bytes.max(room.disk_bytes);
        let budget = Budget::new(usize::try_from(bytes).unwrap_or(usize::MAX));
        Self { groups: BTreeMap::new(), count: 0, objects: ObjectStore::new(room), budget }
    }

    /// Whether the disk may be needed if `more` bytes are added.
    pub(crate) fn may_use_disk(&self, more: u64) -> bool {
        self.objects.may_use_disk(more)
    }

    /// Starts a group. The cache keeps nothing of groups that have not started, or have ended.
    pub(crate) fn begin(&mut self, group: u64) {
        self.groups.entry(group).or_insert_with(|| {
            self.count = self.count.wrapping_add(1);
            Group { number: self.count, places: BTreeMap::new() }
        });
    }

    /// Ends a group. Data that is being fetched for it is dropped.
    pub(crate) fn end(&mut self, group: u64) {
        if let Some(Group { number, .. }) = self.groups.remove(&group) {
            self.objects.end(number);
        }
    }

    /// Frees data of a group. Each range is given by its first number and the number after its
    /// last. The cost is proportional to the data in the ranges, not to that of the group.
    pub(crate) fn free(&mut self, group: u64, data: &[(u32, u32)]) {
        let Some(Group { number: group, places }) = self.groups.get_mut(&group) else { return };
        // A range that ends before it begins is empty, and `BTreeMap::range` does not accept it.
        for &(first, end) in data.iter().filter(|(first, end)| first < end) {
            let freed = places.range(first..end).map(|(version, _)| *version).collect::<Vec<_>>();
            for data in freed {
                places.remove(&data);
                self.objects.remove(DataKey { group: *group, data });
            }
        }
    }

    /// Returns the place of data of a running group.
    pub(crate) fn place(&mut self, group: u64, data: u32) -> Option<Place> {
        Some(self.groups.get_mut(&group)?.places.entry(data).or_default().clone())
    }

    /// Removes the place of data that could not be fetched, unless others fetch it.
    pub(crate) fn abandon(&mut self, group: u64, data: u32) {
        if let Some(Group { places, .. }) = self.groups.get_mut(&group)
            && places
                .get(&data)
                .is_some_and(|place| !place.initialized() && Arc::strong_count(place) == 1)
        {
            places.remove(&data);
        }
    }

    pub(crate) fn has(&self, group: u64, data: u32) -> bool {
        let place = self.groups.get(&group).and_then(|group| group.places.get(&data));
        place.is_some_and(|place| place.initialized())
    }

    fn key(&self, group: u64, data: u32) -> Option<DataKey> {
        let Group { number: group, places } = self.groups.get(&group)?;
        places.contains_key(&data).then_some(DataKey { group: *group, data })
    }

    /// Keeps data for which there is a place, unless it was freed meanwhile.
    pub(crate) fn keep(&mut self, group: u64, data: u32, value: Encoded) {
        if let Some(key) = self.key(group, data) {
            self.objects.keep(key, value);
        }
    }

    /// Returns kept data; `None` if there is none, or if it cannot be read and is lost.
    pub(crate) fn get(&mut self, group: u64, data: u32) -> Option<Encoded> {
        let key = self.key(group, data)?;
        self.objects.value(key).map_err(|reason| self.lose(group, data, &reason)).ok()
    }

    /// Returns a segment of existing data, and the number of segments of the data; `None` if there
    /// is none, or if it cannot be read and is lost.
    pub(crate) fn segment(&mut self, group: u64, data: u32, index: u32) -> Option<(Bytes, u32)> {
        let key = self.key(group, data).filter(|_| self.has(group, data))?;
        let segment = self.objects.segment(key, index);
        let segment = segment.map_err(|reason| self.lose(group, data, &reason));
        segment.ok().map(|(segment, count)| (Bytes::from_owner(segment), count))
    }

    /// Claims room for `bytes` more bytes, if there is any.
    pub(crate) fn room(&self, bytes: u64) -> Option<Claim> {
        let mut claim = self.budget.claim();
        claim.grow(usize::try_from(bytes).ok()?).then_some(claim)
    }

    /// Removes data that cannot be read, so that it can be fetched or made again. Data that is
    /// being fetched keeps its place.
    fn lose(&mut self, group: u64, data: u32, reason: &str) {
        tracing::warn!(%reason, "data of a group is lost");
        if !self.has(group, data) {
            return;
        }
        if let Some(Group { number, places }) = self.groups.get_mut(&group) {
            places.remove(&data);
            self.objects.remove(DataKey { group: *number, data });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns a cache with half of its room in memory.
    fn cache() -> ObjectCache {
        ObjectCache::new(Room::default().with_memory_bytes(5).with_disk_bytes(10))
    }

    /// Adds data to the first group.
    fn put(objects: &mut ObjectCache, data: u32, bytes: u64) {
        let (place, claim) = (objects.place(1, data).unwrap(), objects.room(bytes).unwrap());
        objects.keep(1, data, Encoded::cut(&vec![data as u8; bytes as usize]));
        place.set(claim).unwrap();
    }

    #[test]
    fn freed_data_is_removed_before_its_group_ends() {
        let mut objects = cache();
        objects.begin(1);
        for data in 0..4 {
            put(&mut objects, data, 2);
        }

        // The second and the third range are empty; the last overlaps the one before it.
        objects.free(1, &[(0, 1), (3, 0), (1, 1), (2, 4), (3, u32::MAX)]);
        objects.free(2, &[(0, u32::MAX)]);

        assert_eq!(
            [0, 1, 2, 3].map(|data| objects.segment(1, data, 0).is_some()),
            [false, true, false, false]
        );
        assert!(objects.room(8).is_some());
    }

    #[test]
    fn the_place_of_unfetched_data_is_removed_unless_others_fetch_it() {
        let mut objects = cache();
        objects.begin(1);
        let places = |objects: &ObjectCache| objects.groups[&1].places.len();
        let (first, second) = (objects.place(1, 0).unwrap(), objects.place(1, 0).unwrap());

        drop(first);
        objects.abandon(1, 0);
        assert_eq!(places(&objects), 1, "another waits for it");
        drop(second);
        objects.abandon(1, 0);

        assert_eq!(places(&objects), 0);
    }

    #[test]
    fn data_that_the_disk_does_not_take_can_be_made_again() {
        let folder = tempfile::tempdir().unwrap().path().join("none");
        let room = Room::default().with_memory_bytes(5).with_disk_bytes(10).with_folder(folder);
        let mut objects = ObjectCache::new(room);
        objects.begin(1);
        put(&mut objects, 0, 4);
        // The memory holds only one of them, and the other cannot be written.
        put(&mut objects, 1, 4);
        assert!(objects.has(1, 0) && objects.segment(1, 0, 0).is_none());
        assert!(!objects.has(1, 0) && objects.has(1, 1));
        objects.free(1, &[(1, 2)]);

        put(&mut objects, 0, 4);

        assert_eq!(objects.get(1, 0).map(|value| value.bytes()), Some(4));
        assert!(objects.room(7).is_none() && objects.room(6).is_some());
    }

    #[test]
    fn the_end_of_a_group_removes_its_data_and_frees_room() {
        let mut objects = cache();
        assert!(objects.place(1, 0).is_none(), "it has not begun");
        objects.begin(1);
        put(&mut objects, 0, 8);
        assert_eq!(objects.get(1, 0).map(|value| value.bytes()), Some(8));
        assert!(objects.room(3).is_none());

        objects.end(1);

        assert!(objects.get(1, 0).is_none() && objects.room(10).is_some());
        assert!(!objects.may_use_disk(5), "nothing is left on disk");
    }
}
