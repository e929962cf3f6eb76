//! What a server keeps of groups that others execute on it: data by group, as long as who began the
//! group is connected.

use crate::wire::budget::{Budget, Claim};
use bytes::Bytes;
use std::collections::BTreeMap;
use std::sync::Arc;
use tokio::sync::OnceCell;

/// Data that is there, or is being brought; whoever comes second waits for the first.
pub(crate) type Place = Arc<OnceCell<(Bytes, Claim)>>;

/// Data of groups.
#[derive(Debug)]
pub(crate) struct ObjectCache {
    groups: BTreeMap<u64, BTreeMap<u32, Place>>,
    budget: Budget,
}

impl ObjectCache {
    /// Room for so many bytes.
    pub(crate) fn new(bytes: usize) -> Self {
        Self { groups: BTreeMap::new(), budget: Budget::new(bytes) }
    }

    /// A group begins here; nothing is kept of those that have not begun, or have ended.
    pub(crate) fn begin(&mut self, group: u64) {
        self.groups.entry(group).or_default();
    }

    /// A group has ended. What is being brought for it goes nowhere.
    pub(crate) fn end(&mut self, group: u64) {
        self.groups.remove(&group);
    }

    /// Nobody needs this data of a group any more: ranges by their first, and what comes after
    /// their last. It costs what the ranges hold, not what the group has.
    pub(crate) fn free(&mut self, group: u64, data: &[(u32, u32)]) {
        let Some(kept) = self.groups.get_mut(&group) else { return };
        // Of a range that ends before it begins there is nothing, and a map has no such range.
        for &(first, end) in data.iter().filter(|(first, end)| first < end) {
            let freed = kept.range(first..end).map(|(version, _)| *version).collect::<Vec<_>>();
            for version in freed {
                kept.remove(&version);
            }
        }
    }

    /// The place of data of a group that goes on.
    pub(crate) fn place(&mut self, group: u64, data: u32) -> Option<Place> {
        Some(self.groups.get_mut(&group)?.entry(data).or_default().clone())
    }

    /// Data could not be brought: its place goes, unless others bring it.
    pub(crate) fn abandon(&mut self, group: u64, data: u32) {
        if let Some(kept) = self.groups.get_mut(&group)
            && kept
                .get(&data)
                .is_some_and(|place| !place.initialized() && Arc::strong_count(place) == 1)
        {
            kept.remove(&data);
        }
    }

    /// Data that is there.
    pub(crate) fn get(&self, group: u64, data: u32) -> Option<Bytes> {
        let place = self.groups.get(&group)?.get(&data)?;
        place.get().map(|(bytes, _)| bytes.clone())
    }

    /// Room for so many bytes more, if there is any.
    pub(crate) fn room(&self, bytes: u64) -> Option<Claim> {
        let mut claim = self.budget.claim();
        claim.grow(usize::try_from(bytes).ok()?).then_some(claim)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_nobody_needs_goes_before_its_group_ends() {
        let mut objects = ObjectCache::new(10);
        objects.begin(1);
        for data in 0..4 {
            let (place, claim) = (objects.place(1, data).unwrap(), objects.room(2).unwrap());
            place.set((Bytes::from_static(&[0; 2]), claim)).unwrap();
        }

        // The second and the third say nothing; the last says some again.
        objects.free(1, &[(0, 1), (3, 0), (1, 1), (2, 4), (3, u32::MAX)]);
        objects.free(2, &[(0, u32::MAX)]);

        assert_eq!(
            [0, 1, 2, 3].map(|data| objects.get(1, data).is_some()),
            [false, true, false, false]
        );
        assert!(objects.room(8).is_some());
    }

    #[test]
    fn the_place_of_data_that_could_not_be_brought_goes_unless_others_bring_it() {
        let mut objects = ObjectCache::new(10);
        objects.begin(1);
        let places = |objects: &ObjectCache| objects.groups[&1].len();
        let (first, second) = (objects.place(1, 0).unwrap(), objects.place(1, 0).unwrap());

        drop(first);
        objects.abandon(1, 0);
        assert_eq!(places(&objects), 1, "another waits for it");
        drop(second);
        objects.abandon(1, 0);

        assert_eq!(places(&objects), 0);
    }

    #[test]
    fn what_a_group_has_goes_with_it_and_makes_room() {
        let mut objects = ObjectCache::new(10);
        assert!(objects.place(1, 0).is_none(), "it has not begun");
        objects.begin(1);
        let place = objects.place(1, 0).unwrap();
        let claim = objects.room(8).unwrap();
        place.set((Bytes::from_static(&[0; 8]), claim)).unwrap();
        assert_eq!(objects.get(1, 0).map(|bytes| bytes.len()), Some(8));
        assert!(objects.room(3).is_none());
        drop(place);

        objects.end(1);

        assert!(objects.get(1, 0).is_none() && objects.room(10).is_some());
    }
}
