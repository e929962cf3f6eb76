//! The data that a server keeps: in memory up to its limit, and beyond that on disk.

use super::disk::{Disk, Room};
use super::order::{DataKey, Held, Piece, pieces};
use super::server_pool::{DataSegment, Encoded};
use crate::block::{Arriving, DATA_SEGMENT_BYTES, EncodedBlock, SEGMENTS_MAX};
use gridspan_runtime::Numbers;
use serde::{Deserialize, Serialize, Serializer};
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};

/// The reason for a segment beyond the end of data.
const TOO_FEW_SEGMENTS: &str = "the data has fewer segments";

/// Location of data.
#[derive(Debug, Serialize, Deserialize)]
enum Kept {
    /// In memory, with the value of `uses` at its last use.
    Here(EncodedBlock, u64),
    /// On disk, with its size.
    There(u64),
    /// Nowhere: the reason why it will never exist.
    Failed(String),
}

/// Data by key, for the servers of a job and for server processes.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct ObjectStore {
    #[serde(serialize_with = "without_disk")]
    kept: BTreeMap<DataKey, Kept>,
    /// Incomplete data, by key and by the attempt that makes it.
    arriving: BTreeMap<(DataKey, u32), Arriving>,
    room: Room,
    here_bytes: u64,
    /// Data in memory, least recently used first.
    by_use: BTreeSet<(u64, DataKey)>,
    uses: u64,
    /// Next segment of the first data to hand over, if a part of it was handed over already.
    given: Option<(DataKey, u32)>,
    #[serde(skip)]
    disk: Disk,
}

/// Encodes the data that is not on disk. A checkpoint leaves out data on disk, which may exceed the
/// memory and can be made again.
fn without_disk<S: Serializer>(kept: &BTreeMap<DataKey, Kept>, to: S) -> Result<S::Ok, S::Error> {
    let is_here = |(_, kept): &(&DataKey, &Kept)| !matches!(kept, Kept::There(_));
    // The encoding begins with the number of entries.
    let here: BTreeMap<&DataKey, &Kept> = kept.iter().filter(is_here).collect();
    here.serialize(to)
}

impl ObjectStore {
    /// Creates a store with this space.
    pub fn new(room: Room) -> Self {
        Self { room, ..Self::default() }
    }

    /// Whether data may have to move to or from the disk if `more` bytes are added.
    pub fn may_use_disk(&self, more: u64) -> bool {
        self.disk.is_used() || self.here_bytes.saturating_add(more) > self.room.memory_bytes
    }

    /// Keeps a value. A value that is present already stays.
    pub fn keep(&mut self, key: DataKey, Encoded(block): Encoded) {
        self.put(key, Ok(block));
    }

    /// Returns a value.
    ///
    /// # Errors
    ///
    /// The reason why the value does not exist or cannot be read from disk.
    pub fn value(&mut self, key: DataKey) -> Result<Encoded, String> {
        self.get(key).map(Encoded)
    }

    /// Returns a segment of a value and the number of segments. If the value is on disk, only this
    /// segment is read.
    ///
    /// # Errors
    ///
    /// The reason: the value does not exist, has fewer segments, or cannot be read from disk.
    pub fn segment(&mut self, key: DataKey, index: u32) -> Result<(DataSegment, u32), String> {
        let Piece { bytes, count, .. } = self.piece(key, index);
        bytes.map(|bytes| (DataSegment(bytes), count))
    }

    /// Drops all data of a group.
    pub fn end(&mut self, group: u32) {
        self.retain_of(group, |_| false);
    }

    pub(crate) fn set_room(&mut self, room: Room) {
        self.room = room;
    }

    pub(crate) fn has(&self, key: DataKey) -> bool {
        self.kept.contains_key(&key)
    }

    /// Adds a piece of data; returns whether this completed the data.
    pub(crate) fn arrive(&mut self, piece: Piece) -> bool {
        let Piece { key, attempt, index, count, bytes, .. } = piece;
        if self.has(key) {
            return false;
        }
        let held = match bytes {
            Err(reason) => Err(reason),
            Ok(segment) => {
                let arriving = match self.arriving.entry((key, attempt)) {
                    Entry::Occupied(begun) => Some(begun.into_mut()),
                    Entry::Vacant(new) => Arriving::new(count).map(|arriving| new.insert(arriving)),
                };
                match arriving.map(|arriving| arriving.arrive(index as usize, segment)) {
                    Some(Some(block)) => Ok(block),
                    Some(None) => return false,
                    None => Err(format!(
                        "the data has {count} segments, but 1 to {SEGMENTS_MAX} are accepted"
                    )),
                }
            }
        };
        self.put(key, held);
        true
    }

    /// Adds complete data, and drops its incomplete attempts. Data that is present already stays.
    pub(crate) fn put(&mut self, key: DataKey, held: Held) {
        let attempts: Vec<_> = self.arriving.range((key, 0)..=(key, u32::MAX)).collect();
        let attempts: Vec<(DataKey, u32)> = attempts.into_iter().map(|(of, _)| *of).collect();
        attempts.iter().for_each(|of| drop(self.arriving.remove(of)));
        if self.has(key) {
            return;
        }
        match held {
            Err(reason) => drop(self.kept.insert(key, Kept::Failed(reason))),
            Ok(block) => {
                self.here_bytes += block.len() as u64;
                self.uses += 1;
                self.by_use.insert((self.uses, key));
                self.kept.insert(key, Kept::Here(block, self.uses));
                self.make_room();
            }
        }
    }

    /// Moves the least recently used data to disk, until the rest fits in memory.
    fn make_room(&mut self) {
        while self.here_bytes > self.room.memory_bytes
            && let Some((_, key)) = self.by_use.pop_first()
        {
            if let Some(Kept::Here(block, _)) = self.kept.remove(&key) {
                let bytes = block.len() as u64;
                self.here_bytes -= bytes;
                let kept = match self.disk.write(&self.room, key, &block) {
                    Ok(()) => Kept::There(bytes),
                    Err(reason) => Kept::Failed(reason),
                };
                self.kept.insert(key, kept);
            }
        }
    }

    /// Returns data, or the reason why it is not available.
    pub(crate) fn get(&mut self, key: DataKey) -> Held {
        match self.kept.get_mut(&key) {
            None => Err("the data was freed".to_owned()),
            Some(Kept::Failed(reason)) => Err(reason.clone()),
            Some(Kept::There(bytes)) => {
                let bytes = self.disk.read(key, 0, *bytes as usize)?;
                // No limit on the size here, as for data in memory: the sender has checked it.
                Ok(Encoded::cut(&bytes).0)
            }
            Some(Kept::Here(block, used)) => {
                self.by_use.remove(&(*used, key));
                self.uses += 1;
                *used = self.uses;
                self.by_use.insert((self.uses, key));
                Ok(block.clone())
            }
        }
    }

    /// Returns a segment of data with the number of segments. If the data is on disk, only this
    /// segment is read.
    pub(crate) fn piece(&mut self, key: DataKey, index: u32) -> Piece {
        let Some(Kept::There(bytes)) = self.kept.get(&key) else {
            let all = self.get(key);
            let missing = Piece::failed(key, TOO_FEW_SEGMENTS.to_owned());
            return pieces(key, 0, &all).nth(index as usize).unwrap_or(missing);
        };
        let segment = DATA_SEGMENT_BYTES as u64;
        let count = bytes.div_ceil(segment).max(1) as u32;
        if index >= count {
            return Piece::failed(key, TOO_FEW_SEGMENTS.to_owned());
        }
        let offset = u64::from(index) * segment;
        let length = (bytes - offset).min(segment) as usize;
        let read = self.disk.read(key, offset, length).map(Numbers::from);
        Piece { key, attempt: 0, index, count, bytes: read, then: Vec::new() }
    }

    /// Drops data.
    pub fn remove(&mut self, key: DataKey) {
        // If data with this key is kept again, all of it is handed over.
        self.given = self.given.filter(|(of, _)| *of != key);
        match self.kept.remove(&key) {
            Some(Kept::Here(block, used)) => {
                self.here_bytes -= block.len() as u64;
                self.by_use.remove(&(used, key));
            }
            Some(Kept::There(_)) => self.disk.remove(key),
            Some(Kept::Failed(_)) | None => {}
        }
    }

    /// Drops the data for which `is_wanted` is false.
    pub(crate) fn retain(&mut self, is_wanted: impl Fn(DataKey) -> bool) {
        let unwanted: Vec<DataKey> =
            self.kept.keys().copied().filter(|key| !is_wanted(*key)).collect();
        unwanted.into_iter().for_each(|key| self.remove(key));
        self.arriving.retain(|(key, _), _| is_wanted(*key));
    }

    /// Drops the data of one group for which `is_wanted` is false.
    pub(crate) fn retain_of(&mut self, group: u32, is_wanted: impl Fn(u32) -> bool) {
        let all = DataKey { group, data: 0 }..=DataKey { group, data: u32::MAX };
        let kept = self.kept.range(all).map(|(key, _)| *key);
        let unwanted: Vec<DataKey> = kept.filter(|key| !is_wanted(key.data)).collect();
        unwanted.into_iter().for_each(|key| self.remove(key));
        self.arriving.retain(|(key, _), _| key.group != group || is_wanted(key.data));
    }

    /// Returns the data of a group, with its sizes. Forgets data that will never exist, or is
    /// incomplete.
    pub(crate) fn resume(&mut self, group: u32) -> Vec<(u32, u64)> {
        self.arriving.retain(|(key, _), _| key.group != group);
        let (mut held, mut failed) = (Vec::new(), Vec::new());
        let all = DataKey { group, data: 0 }..=DataKey { group, data: u32::MAX };
        for (key, kept) in self.kept.range(all) {
            match kept {
                Kept::Here(block, _) => held.push((key.data, block.len() as u64)),
                Kept::There(bytes) => held.push((key.data, *bytes)),
                Kept::Failed(_) => failed.push(*key),
            }
        }
        failed.into_iter().for_each(|key| self.remove(key));
        held
    }

    /// Number of bytes that are kept, in memory and on disk.
    pub(crate) fn bytes(&self) -> u64 {
        let on_disk = self.kept.values().map(|kept| match kept {
            Kept::There(bytes) => *bytes,
            Kept::Here(..) | Kept::Failed(_) => 0,
        });
        let arriving = self.arriving.values().map(|arriving| arriving.len() as u64);
        self.here_bytes + on_disk.sum::<u64>() + arriving.sum::<u64>()
    }

    /// Removes and returns a piece for another server, in the order of keys, until the store is
    /// empty; drops data with its last piece. Pieces of incomplete data go first.
    pub(crate) fn give(&mut self) -> Option<Piece> {
        while let Some(mut arriving) = self.arriving.first_entry() {
            let (key, attempt) = *arriving.key();
            if let Some((index, count, segment)) = arriving.get_mut().give() {
                let bytes = Ok(segment);
                return Some(Piece { key, attempt, index, count, bytes, then: Vec::new() });
            }
            arriving.remove();
        }
        let key = *self.kept.first_key_value()?.0;
        let index = self.given.filter(|(of, _)| *of == key).map_or(0, |(_, index)| index);
        let piece = self.piece(key, index);
        self.given = Some((key, index + 1));
        if index + 1 >= piece.count {
            self.remove(key);
        }
        Some(piece)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(data: u32) -> DataKey {
        DataKey { group: 1, data }
    }

    fn block(value: u8, bytes: usize) -> EncodedBlock {
        EncodedBlock::cut("it", vec![value; bytes], DATA_SEGMENT_BYTES).unwrap()
    }

    fn objects(room: &Room) -> (ObjectStore, tempfile::TempDir) {
        let folder = tempfile::tempdir().unwrap();
        let mut objects = ObjectStore::default();
        objects.set_room(Room { folder: Some(folder.path().to_owned()), ..room.clone() });
        (objects, folder)
    }

    #[test]
    fn the_least_recently_used_data_goes_to_disk_and_is_read_back_unchanged() {
        let (mut objects, folder) = objects(&Room { memory_bytes: 250, ..Room::default() });
        for data in 0..2 {
            objects.put(key(data), Ok(block(data as u8, 100)));
        }
        objects.get(key(0)).unwrap();
        assert_eq!(folder.path().read_dir().unwrap().count(), 0, "there is nothing to write yet");

        objects.put(key(2), Ok(block(2, 100)));

        assert!(matches!(objects.kept[&key(1)], Kept::There(100)));
        assert_eq!((objects.here_bytes, objects.bytes()), (200, 300));
        for data in 0..3 {
            assert_eq!(objects.get(key(data)), Ok(block(data as u8, 100)));
        }
        assert_eq!(
            folder.path().read_dir().unwrap().count(),
            0,
            "a server that is killed leaves no file"
        );
        objects.retain(|of| of != key(1));
        assert_eq!(objects.bytes(), 200);
    }

    #[test]
    fn data_on_disk_is_read_segment_by_segment() {
        let (mut objects, _folder) = objects(&Room { memory_bytes: 0, ..Room::default() });
        let bytes = DATA_SEGMENT_BYTES + 5;
        objects.put(key(0), Ok(block(7, bytes)));

        let [first, last, beyond] = [0, 1, 2].map(|index| objects.piece(key(0), index));

        assert_eq!((first.count, first.bytes.unwrap().len()), (2, DATA_SEGMENT_BYTES));
        assert_eq!(&last.bytes.unwrap()[..], [7; 5]);
        assert_eq!(beyond.bytes.unwrap_err(), TOO_FEW_SEGMENTS);
    }

    #[test]
    fn data_beyond_memory_and_disk_fails_with_advice() {
        let small = Room { memory_bytes: 10, disk_bytes: 100, ..Room::default() };
        let (mut full, folder) = objects(&small);
        full.put(key(0), Ok(block(0, 60)));
        full.put(key(1), Ok(block(1, 60)));
        let error = full.get(key(1)).unwrap_err();
        assert!(
            error.contains(
                "no room for 60 bytes more: it may keep 100 bytes on disk; give it more memory"
            ),
            "{error}"
        );
        full.remove(key(0));
        full.put(key(2), Ok(block(2, 60)));
        assert!(full.get(key(2)).is_ok(), "removed data makes room");

        let mut nowhere = ObjectStore::default();
        nowhere.set_room(Room { folder: Some(folder.path().join("gone")), ..small });
        nowhere.put(key(0), Ok(block(0, 60)));
        assert!(nowhere.get(key(0)).unwrap_err().contains("no room for 60 bytes more"));
        assert_eq!(nowhere.bytes(), 0);
    }

    #[test]
    fn data_is_handed_over_in_pieces_and_freed_with_its_last_piece() {
        let (mut objects, _folder) = objects(&Room { memory_bytes: 0, ..Room::default() });
        for data in 0..3 {
            objects.put(key(data), Ok(block(data as u8, 2 * DATA_SEGMENT_BYTES + 1)));
        }
        let half = pieces(key(9), 4, &Ok(block(9, DATA_SEGMENT_BYTES + 1))).next().unwrap();
        assert!(!objects.arrive(half.clone()));
        assert_eq!(objects.give(), Some(half));

        let (mut other, before) = (ObjectStore::default(), objects.bytes());
        let mut next =
            || objects.give().map(|piece| (other.arrive(piece), objects.bytes())).unwrap();
        assert_eq!([next().0, next().0], [false, false]);
        let (is_there, left) = next();
        assert!(is_there && left == before - (2 * DATA_SEGMENT_BYTES as u64 + 1));
        // Data that is freed meanwhile is not handed over any further.
        next();
        objects.remove(key(1));
        while let Some(piece) = objects.give() {
            assert_eq!(piece.key, key(2));
            other.arrive(piece);
        }
        assert_eq!(other.get(key(0)), Ok(block(0, 2 * DATA_SEGMENT_BYTES + 1)));
        assert!(other.has(key(2)) && !other.has(key(1)));
        assert_eq!(objects.bytes(), 0);
    }

    #[test]
    fn data_that_is_kept_again_is_handed_over_from_its_first_segment() {
        let mut objects = ObjectStore::new(Room::default());
        let whole = || Ok(block(7, DATA_SEGMENT_BYTES + 1));
        objects.put(key(0), whole());
        assert_eq!(objects.give().map(|piece| piece.index), Some(0));
        objects.remove(key(0));

        objects.put(key(0), whole());

        let indices: Vec<u32> =
            std::iter::from_fn(|| objects.give()).map(|piece| piece.index).collect();
        assert_eq!(indices, [0, 1]);
    }

    #[test]
    fn a_checkpoint_has_the_data_in_memory_and_a_resumed_group_learns_which() {
        let (mut objects, _folder) = objects(&Room { memory_bytes: 250, ..Room::default() });
        (0..3).for_each(|data| objects.put(key(data), Ok(block(data as u8, 100))));
        objects.put(key(3), Err("it failed".to_owned()));
        let half = pieces(key(4), 1, &Ok(block(4, DATA_SEGMENT_BYTES + 1))).next().unwrap();
        objects.arrive(half);

        let bytes = postcard::to_stdvec(&objects).unwrap();
        let mut restored: ObjectStore = postcard::from_bytes(&bytes).unwrap();

        assert_eq!(restored.resume(1), [(1, 100), (2, 100)]);
        assert_eq!(restored.resume(2), []);
        assert_eq!((restored.bytes(), restored.here_bytes), (200, 200));
        assert!(!restored.has(key(3)), "it may be made again");
        assert_eq!(restored.get(key(2)), Ok(block(2, 100)));
        // The store itself still has the rest on disk.
        assert_eq!(objects.resume(1), [(0, 100), (1, 100), (2, 100)]);
        assert_eq!(objects.get(key(0)), Ok(block(0, 100)));
    }

    #[test]
    fn data_without_segments_or_with_too_many_fails() {
        for count in [0, u32::MAX] {
            let mut objects = ObjectStore::default();
            let piece = Piece { count, ..pieces(key(0), 0, &Ok(block(1, 1))).next().unwrap() };

            assert!(objects.arrive(piece));

            let error = objects.get(key(0)).unwrap_err();
            assert!(error.contains(&format!("has {count} segments")), "{error}");
        }
    }

    #[test]
    fn the_first_complete_attempt_counts() {
        let (mut objects, _folder) = objects(&Room::default());
        let [one, other] = [1, 2].map(|value| {
            let held = Ok(block(value, DATA_SEGMENT_BYTES + 1));
            pieces(key(0), u32::from(value), &held).collect::<Vec<Piece>>()
        });
        assert!(!objects.arrive(one[0].clone()) && !objects.arrive(other[1].clone()));
        assert!(objects.arrive(other[0].clone()) && !objects.arrive(one[1].clone()));

        assert_eq!(objects.get(key(0)), Ok(block(2, DATA_SEGMENT_BYTES + 1)));
        assert_eq!(objects.bytes(), DATA_SEGMENT_BYTES as u64 + 1);
    }
}
