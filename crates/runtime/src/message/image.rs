//! Checkpoints of a job, as the drivers keep and restore them.

use crate::error::{CheckpointError, StartError};
use crate::message::codec;
use crate::message::{CheckpointSegment, Manifest, MeasuredSpeed, PartSummary, Segment};
use bytes::Bytes;
use gridspan_topology::{Layout, PeId};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::collections::{BTreeMap, BTreeSet};

/// Maximum load of a PE in microseconds, 13 days: a manifest may state any number, and sums must
/// not overflow.
const LOAD_MAX: u64 = 1 << 40;

/// Maximum number of a checkpoint. After a restoration, the numbers of timers and of slots of
/// questions have the number of the checkpoint plus one in their upper 32 bits.
pub(crate) const CHECKPOINT_MAX: u64 = (1 << 32) - 2;

/// Minimum time that members have computed since the last rebalance, in microseconds for each PE on
/// average. Below it, times do not show which PEs have more work.
const MEASURED_US_MIN: u64 = 100_000;

/// A complete checkpoint, with the parts of it that a process has.
///
/// ```
/// use gridspan_runtime::{CheckpointStore, Image};
///
/// // Two nodes that have not kept a checkpoint.
/// let stores = [CheckpointStore::default(), CheckpointStore::default()];
/// assert!(Image::gathered(&stores)?.is_none());
/// # Ok::<(), gridspan_runtime::StartError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Image {
    manifest: Manifest,
    /// The speed of each PE, if they are known.
    speeds: Vec<MeasuredSpeed>,
    encoded: Bytes,
    segments: BTreeMap<(PeId, u32), Bytes>,
}

impl Image {
    /// Reads a manifest. The parts are [added](Self::add) later.
    ///
    /// # Errors
    ///
    /// [`StartError::Checkpoint`] if the bytes are not a manifest.
    pub fn new(manifest: Bytes) -> Result<Self, StartError> {
        let (decoded, speeds) = Manifest::decode(&manifest).map_err(unreadable)?;
        let pes = decoded.layout.pe_count() as usize;
        if decoded.parts.len() != pes {
            return Err(unreadable("it does not have a part for each PE"));
        }
        if ![0, pes].contains(&speeds.len()) {
            return Err(unreadable("it does not have a speed for each PE"));
        }
        let number = decoded.number;
        if number > CHECKPOINT_MAX {
            return Err(unreadable(format_args!("no checkpoint has the number {number}")));
        }
        Ok(Self { manifest: decoded, speeds, encoded: manifest, segments: BTreeMap::new() })
    }

    /// Gathers the last complete checkpoint that any of these nodes knows, with all parts that any
    /// of them keeps. `None` if no node knows one.
    ///
    /// # Errors
    ///
    /// [`StartError::Checkpoint`] if the nodes keep parts of different jobs.
    pub fn gathered<'a>(
        stores: impl IntoIterator<Item = &'a CheckpointStore>,
    ) -> Result<Option<Self>, StartError> {
        let stores: Vec<_> = stores.into_iter().collect();
        let known = stores.iter().filter_map(|store| store.last());
        let Some(newest) = known.max_by_key(|image| image.number()) else { return Ok(None) };
        let mut all = newest.clone();
        for store in stores {
            let kept = store.image(&all.encoded)?;
            for ((part, position), bytes) in kept.segments {
                all.add(part, position, bytes)?;
            }
        }
        Ok(Some(all))
    }

    /// Number of the checkpoint.
    pub fn number(&self) -> u64 {
        self.manifest.number
    }

    /// The run of the job that made it, a random number.
    pub fn run(&self) -> u64 {
        self.manifest.run
    }

    /// The name of the job.
    pub fn job(&self) -> &str {
        &self.manifest.job
    }

    /// The layout of the job when the checkpoint was made.
    pub fn layout(&self) -> &Layout {
        &self.manifest.layout
    }

    /// Time of the checkpoint since the job began, by the driver's clock.
    pub fn at(&self) -> gridspan_topology::Time {
        self.manifest.at
    }

    /// Number of actors.
    pub fn members(&self) -> u64 {
        self.manifest.parts.iter().map(|part| part.members).fold(0, u64::saturating_add)
    }

    /// Number of collections.
    pub fn collections(&self) -> usize {
        self.manifest.collections.len()
    }

    /// Number of bytes in the parts.
    pub fn bytes(&self) -> u64 {
        self.manifest.parts.iter().map(PartSummary::bytes).fold(0, u64::saturating_add)
    }

    /// Number of actors and of bytes in the part of a PE.
    pub fn part(&self, part: PeId) -> (u64, u64) {
        let part = self.manifest.parts.get(part.index());
        part.map_or((0, 0), |part| (part.members, part.bytes()))
    }

    /// The time that the members of each PE have taken, in microseconds, if enough was measured.
    pub(crate) fn times(&self) -> Option<Vec<u64>> {
        let parts = &self.manifest.parts;
        let times: Vec<u64> = parts.iter().map(|part| part.load_us.min(LOAD_MAX)).collect();
        let is_measured = times.iter().sum::<u64>() >= MEASURED_US_MIN * parts.len() as u64;
        is_measured.then_some(times)
    }

    /// The number of members of each PE that may move.
    pub(crate) fn movable(&self) -> Vec<u64> {
        self.manifest.parts.iter().map(|part| part.movable.min(LOAD_MAX)).collect()
    }

    /// The measured speed of each PE; empty if they are not known, or differ little.
    pub(crate) fn speeds(&self) -> &[MeasuredSpeed] {
        &self.speeds
    }

    /// The encoded manifest.
    pub fn manifest(&self) -> &Bytes {
        &self.encoded
    }

    /// Adds a segment.
    ///
    /// # Errors
    ///
    /// [`StartError::Checkpoint`] if the segment does not belong here.
    pub fn add(&mut self, part: PeId, position: u32, bytes: Bytes) -> Result<(), StartError> {
        let expected = self.manifest.parts.get(part.index());
        let expected = expected.and_then(|part| part.segments.get(position as usize));
        if expected != Some(&(bytes.len() as u64)) {
            return Err(unreadable(format_args!("segment {position} of {part} has another size")));
        }
        self.segments.insert((part, position), bytes);
        Ok(())
    }

    /// The positions of all segments of the part of a PE.
    pub fn segments_of(&self, part: PeId) -> std::ops::Range<u32> {
        let part = self.manifest.parts.get(part.index());
        0..part.map_or(0, |part| part.segments.len() as u32)
    }

    /// The PEs whose parts are complete here.
    pub fn parts(&self) -> BTreeSet<PeId> {
        self.manifest.layout.pes().filter(|&part| self.has(part)).collect()
    }

    fn has(&self, part: PeId) -> bool {
        self.segments_of(part).all(|position| self.segments.contains_key(&(part, position)))
    }

    /// Drops the segments of parts that are not complete here.
    fn drop_incomplete_parts(&mut self) {
        let complete = self.parts();
        self.segments.retain(|(part, _), _| complete.contains(part));
    }

    /// A segment, if it is here.
    pub fn segment(&self, part: PeId, position: u32) -> Option<&Bytes> {
        self.segments.get(&(part, position))
    }

    pub(crate) fn inner(&self) -> &Manifest {
        &self.manifest
    }
}

fn unreadable(reason: impl std::fmt::Display) -> StartError {
    CheckpointError::inconsistent(reason).into()
}

/// An encoded manifest. In JSON, a string of hexadecimal digits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EncodedManifest(pub Bytes);

impl EncodedManifest {
    /// The manifest of a checkpoint of a job without actors, for tests of launchers.
    #[doc(hidden)]
    pub fn without_actors(number: u64, layout: Layout) -> Self {
        let pes = layout.pe_count() as usize;
        let manifest = Manifest {
            number,
            run: 0,
            job: String::new(),
            types: Vec::new(),
            maps: Vec::new(),
            reducers: Vec::new(),
            at: gridspan_topology::Time::ZERO,
            layout,
            progress: Bytes::new(),
            phases: 0,
            collections: Vec::new(),
            coordinator: Bytes::new(),
            cost: Default::default(),
            parts: vec![Default::default(); pes],
        };
        Self(codec::encode(&manifest).into())
    }
}

impl Serialize for EncodedManifest {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        use std::fmt::Write as _;
        let text = self.0.iter().fold(String::with_capacity(2 * self.0.len()), |mut text, byte| {
            // Writing to a string cannot fail.
            let _ = write!(text, "{byte:02x}");
            text
        });
        to.serialize_str(&text)
    }
}

impl<'de> Deserialize<'de> for EncodedManifest {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let text = String::deserialize(from)?;
        let digit = |digit: Option<&u8>| char::from(*digit?).to_digit(16);
        let byte = |pair: &[u8]| Some((digit(pair.first())? << 4 | digit(pair.get(1))?) as u8);
        let bytes: Option<Vec<u8>> = text.as_bytes().chunks(2).map(byte).collect();
        let bytes = bytes.ok_or_else(|| D::Error::custom("a manifest that is malformed"))?;
        Ok(Self(bytes.into()))
    }
}

/// The parts of a checkpoint that a node has.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Holding {
    /// Number of the checkpoint.
    pub number: u64,
    /// The manifest, if the node knows that the checkpoint is complete.
    pub manifest: Option<EncodedManifest>,
    /// The PEs of whose parts the node has segments. If the checkpoint is complete, these parts are
    /// too.
    pub parts: Vec<PeId>,
    /// Whether all parts are also in a folder or object store from which every node of the job can
    /// read them.
    #[serde(default)]
    pub is_stored: bool,
}

/// The segments that a node keeps of a checkpoint that is not complete.
#[derive(Clone, Debug, Default)]
struct IncompleteCheckpoint {
    segments: BTreeMap<(PeId, u32), Bytes>,
    /// The position of the last segment of each part of which that segment is here.
    last: BTreeMap<PeId, u32>,
}

impl IncompleteCheckpoint {
    fn add(&mut self, segment: &CheckpointSegment) {
        let Segment { part, position, is_last, .. } = segment.segment;
        self.segments.insert((part, position), segment.bytes.clone());
        if is_last {
            self.last.insert(part, position);
        }
    }

    /// The segments of a part, in order.
    fn of(&self, part: PeId) -> impl Iterator<Item = &Bytes> {
        self.segments.range((part, 0)..=(part, u32::MAX)).map(|(_, bytes)| bytes)
    }

    /// Whether all segments of a part are here.
    fn has(&self, part: PeId) -> bool {
        self.last.get(&part).is_some_and(|&last| self.of(part).count() == last as usize + 1)
    }
}

/// The checkpoints that a node keeps in memory: the last complete one, and the one in the making.
#[derive(Clone, Debug, Default)]
pub struct CheckpointStore {
    incomplete: BTreeMap<u64, IncompleteCheckpoint>,
    complete: Option<Image>,
    /// The last checkpoint of this run that was given up here.
    given_up: u64,
    /// Number of the checkpoint that was read from a folder or an object store.
    adopted: Option<u64>,
}

impl CheckpointStore {
    /// Keeps a segment. Returns the PE of its part if the part is then complete. Segments of the
    /// last complete checkpoint are copies that are made again after a loss.
    pub fn keep(&mut self, segment: &CheckpointSegment) -> Option<PeId> {
        let Segment { checkpoint, part, position, .. } = segment.segment;
        if checkpoint <= self.given_up {
            return None;
        }
        if let Some(image) = self.complete.as_mut().filter(|it| it.number() >= checkpoint) {
            let is_last = image.number() == checkpoint;
            let is_kept = is_last && image.add(part, position, segment.bytes.clone()).is_ok();
            return (is_kept && image.has(part)).then_some(part);
        }
        // Earlier checkpoints are complete or given up by now.
        let newest = self.incomplete.keys().next_back().copied().unwrap_or(0);
        if checkpoint < newest {
            return None;
        }
        self.incomplete.retain(|&other, _| other >= checkpoint);
        let kept = self.incomplete.entry(checkpoint).or_default();
        kept.add(segment);
        kept.has(part).then_some(part)
    }

    /// Gives up a checkpoint that is not complete: drops its segments and those of earlier ones,
    /// and refuses those that arrive later. Of the last complete checkpoint, drops only parts that
    /// are not complete here. Returns false if the checkpoint was given up before.
    pub fn give_up(&mut self, checkpoint: u64) -> bool {
        let is_new = checkpoint > self.given_up;
        self.given_up = self.given_up.max(checkpoint);
        self.incomplete.retain(|&other, _| other > checkpoint);
        if let Some(image) = self.complete.as_mut().filter(|it| it.number() == checkpoint) {
            image.drop_incomplete_parts();
        }
        is_new
    }

    /// The segments of a part of a checkpoint that is not complete.
    pub fn segments(&self, checkpoint: u64, part: PeId) -> Vec<Bytes> {
        let kept = self.incomplete.get(&checkpoint);
        kept.into_iter().flat_map(|kept| kept.of(part)).cloned().collect()
    }

    /// Keeps the manifest of a complete checkpoint, and drops older checkpoints.
    ///
    /// # Errors
    ///
    /// [`StartError::Checkpoint`] if the bytes are not a manifest, or kept segments do not fit.
    pub fn complete(&mut self, manifest: Bytes) -> Result<&Image, StartError> {
        let mut image = Image::new(manifest)?;
        let number = image.number();
        if self.complete.as_ref().is_some_and(|complete| complete.number() >= number) {
            return self.last().ok_or_else(|| unreadable("it is gone"));
        }
        let kept = self.incomplete.remove(&number).unwrap_or_default();
        for ((part, position), bytes) in kept.segments {
            image.add(part, position, bytes)?;
        }
        self.incomplete.retain(|&other, _| other > number);
        Ok(self.complete.insert(image))
    }

    /// The last complete checkpoint that this node knows, with the parts that it has.
    pub fn last(&self) -> Option<&Image> {
        self.complete.as_ref()
    }

    /// Keeps a complete checkpoint that was read from a folder or an object store.
    pub fn adopt(&mut self, image: Image) {
        self.adopted = Some(image.number());
        self.complete = Some(image);
    }

    /// The parts of a checkpoint that this node has. The manifest comes from a node that knows that
    /// the checkpoint is complete.
    ///
    /// # Errors
    ///
    /// [`StartError::Checkpoint`] if the bytes are not a manifest, or kept segments do not fit.
    pub fn image(&self, manifest: &Bytes) -> Result<Image, StartError> {
        let mut image = Image::new(manifest.clone())?;
        if let Some(complete) = self.last().filter(|it| it.number() == image.number()) {
            return Ok(complete.clone());
        }
        let kept = self.incomplete.get(&image.number());
        for (&(part, position), bytes) in kept.into_iter().flat_map(|kept| &kept.segments) {
            image.add(part, position, bytes.clone())?;
        }
        Ok(image)
    }

    /// Drops incomplete checkpoints after the end of a run of the job.
    pub fn drop_incomplete(&mut self) {
        self.incomplete.clear();
        self.given_up = 0;
    }

    /// The parts that this node has of each checkpoint, in the order of checkpoint numbers.
    pub fn holdings(&self) -> Vec<Holding> {
        let complete = self.complete.iter().map(|image| Holding {
            number: image.number(),
            manifest: Some(EncodedManifest(image.encoded.clone())),
            parts: image.parts().into_iter().collect(),
            is_stored: self.adopted == Some(image.number()),
        });
        let making = self.incomplete.iter().map(|(&number, kept)| {
            let parts: BTreeSet<PeId> = kept.segments.keys().map(|&(part, _)| part).collect();
            let parts = parts.into_iter().collect();
            Holding { number, manifest: None, parts, is_stored: false }
        });
        complete.chain(making).collect()
    }

    /// Number of bytes in memory.
    pub fn bytes(&self) -> u64 {
        let making = self.incomplete.values().flat_map(|kept| kept.segments.values());
        let making = making.map(|bytes| bytes.len() as u64);
        let complete = self.complete.iter().flat_map(|image| image.segments.values());
        making.sum::<u64>() + complete.map(|bytes| bytes.len() as u64).sum::<u64>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The manifest of a checkpoint of two nodes, each with one segment of four bytes.
    fn manifest(number: u64) -> Bytes {
        let part = PartSummary { segments: vec![4], ..PartSummary::default() };
        let manifest = Manifest {
            number,
            run: 1,
            job: "job".to_owned(),
            types: Vec::new(),
            maps: Vec::new(),
            reducers: Vec::new(),
            at: gridspan_topology::Time::ZERO,
            layout: Layout::new(vec![("a".to_owned(), vec![1, 1])]),
            progress: Bytes::new(),
            phases: 0,
            collections: Vec::new(),
            coordinator: Bytes::new(),
            cost: Default::default(),
            parts: vec![part; 2],
        };
        codec::encode(&manifest).into()
    }

    fn segment(checkpoint: u64, part: u32) -> CheckpointSegment {
        let segment = Segment { checkpoint, part: PeId(part), position: 0, is_last: true };
        CheckpointSegment { segment, bytes: Bytes::from_static(b"1234"), is_copy: false }
    }

    #[test]
    fn a_complete_checkpoint_keeps_its_parts_when_it_is_completed_again() {
        let mut store = CheckpointStore::default();
        assert_eq!(store.keep(&segment(3, 1)), Some(PeId(1)));
        assert_eq!(store.holdings()[0].manifest, None);
        store.complete(manifest(3)).unwrap();
        store.complete(manifest(3)).unwrap();
        store.complete(manifest(2)).unwrap();

        let holdings = store.holdings();
        assert_eq!((holdings.len(), holdings[0].number), (1, 3));
        assert_eq!(holdings[0].parts, [PeId(1)]);
        assert!(!holdings[0].is_stored);
        let image = store.image(&manifest(3)).unwrap();
        assert_eq!(image.segment(PeId(1), 0).unwrap(), &b"1234"[..]);
    }

    #[test]
    fn a_checkpoint_that_was_read_elsewhere_is_stored_there() {
        let mut store = CheckpointStore::default();
        store.adopt(Image::new(manifest(3)).unwrap());
        store.keep(&segment(4, 0));
        let is_stored = |store: &CheckpointStore| -> Vec<bool> {
            store.holdings().into_iter().map(|holding| holding.is_stored).collect()
        };
        assert_eq!(is_stored(&store), [true, false]);
        store.complete(manifest(4)).unwrap();
        assert_eq!(is_stored(&store), [false], "it replaces the one before");
    }

    #[test]
    fn the_last_checkpoint_is_gathered_from_nodes_that_do_not_all_know_that_it_is_complete() {
        let [mut first, mut second] = [CheckpointStore::default(), CheckpointStore::default()];
        assert!(Image::gathered([&first, &second]).unwrap().is_none());
        first.keep(&segment(3, 0));
        first.complete(manifest(3)).unwrap();
        second.complete(manifest(2)).unwrap();
        second.keep(&segment(3, 1));

        let image = Image::gathered([&first, &second]).unwrap().unwrap();

        assert_eq!((image.number(), image.parts().len()), (3, 2));
        let of_one = Image::gathered([&second]).unwrap().unwrap();
        assert_eq!((of_one.number(), of_one.parts().len()), (2, 0));
    }

    #[test]
    fn parts_of_checkpoints_that_were_given_up_take_no_memory() {
        let mut store = CheckpointStore::default();
        store.keep(&segment(3, 0));
        store.complete(manifest(3)).unwrap();
        for number in 4..9 {
            store.keep(&segment(number, 0));
        }
        assert_eq!(store.bytes(), 8, "the complete one, and the last");
        store.drop_incomplete();
        assert_eq!(store.bytes(), 4);
    }

    #[test]
    fn late_segments_do_not_disturb_the_checkpoint_after_the_one_that_was_given_up() {
        let mut store = CheckpointStore::default();
        store.keep(&segment(4, 0));
        assert!(store.give_up(4));
        assert_eq!((store.bytes(), store.keep(&segment(4, 1))), (0, None));
        assert_eq!(store.keep(&segment(5, 0)), Some(PeId(0)));
        assert!(!store.give_up(4), "it is known");
        assert_eq!((store.keep(&segment(4, 1)), store.bytes()), (None, 4));
        // The next run may use the number again.
        store.drop_incomplete();
        assert_eq!(store.keep(&segment(4, 0)), Some(PeId(0)));
    }

    #[test]
    fn copies_that_are_made_again_belong_to_the_complete_checkpoint() {
        let mut store = CheckpointStore::default();
        store.keep(&segment(3, 0));
        store.complete(manifest(3)).unwrap();

        assert_eq!(store.keep(&segment(3, 1)), Some(PeId(1)));
        assert_eq!(store.keep(&segment(2, 1)), None, "it is older");
        store.keep(&segment(4, 0));

        let parts = |store: &CheckpointStore| store.holdings()[0].parts.clone();
        assert_eq!(parts(&store), [PeId(0), PeId(1)]);
        assert_eq!(store.bytes(), 12);
        store.give_up(4);
        assert_eq!((store.keep(&segment(3, 1)), store.bytes()), (None, 8), "memory is scarce");
        assert_eq!(parts(&store), [PeId(0), PeId(1)]);
    }

    #[test]
    fn without_memory_a_part_that_is_copied_again_is_dropped() {
        let mut of_two: Manifest = codec::decode("a manifest", &manifest(3)).unwrap();
        of_two.parts.iter_mut().for_each(|part| part.segments = vec![4; 2]);
        let mut store = CheckpointStore::default();
        store.complete(codec::encode(&of_two).into()).unwrap();

        assert_eq!(store.keep(&segment(3, 1)), None, "a segment is missing");
        assert_eq!(store.bytes(), 4);
        store.give_up(3);

        assert_eq!(store.bytes(), 0);
    }

    #[test]
    fn segments_that_do_not_fit_their_manifest_are_refused() {
        let mut image = Image::new(manifest(1)).unwrap();
        for (part, position, bytes) in [(0, 0, "12345"), (0, 1, "1234"), (2, 0, "1234")] {
            assert!(image.add(PeId(part), position, Bytes::from(bytes)).is_err());
        }
        assert_eq!(image.parts(), BTreeSet::new());
        assert!(Image::new(Bytes::from_static(b"nonsense")).is_err());
    }

    #[test]
    fn a_manifest_with_a_number_that_no_checkpoint_has_is_refused() {
        assert!(Image::new(manifest(CHECKPOINT_MAX)).is_ok());
        for number in [CHECKPOINT_MAX + 1, 1 << 32, u64::MAX] {
            assert!(Image::new(manifest(number)).is_err(), "{number}");
        }
    }

    #[test]
    fn a_manifest_is_a_string_in_json() {
        let encoded = EncodedManifest(Bytes::from_static(&[0, 10, 255]));
        // The form that serialisers of text use.
        let to = serde::de::value::StrDeserializer::<serde::de::value::Error>::new("000aff");
        assert_eq!(EncodedManifest::deserialize(to), Ok(encoded));
        for malformed in ["0", "0g", "é"] {
            let from = serde::de::value::StrDeserializer::<serde::de::value::Error>::new(malformed);
            assert!(EncodedManifest::deserialize(from).is_err(), "{malformed}");
        }
    }
}
