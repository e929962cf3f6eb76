//! Checkpoints in a folder or an object store.
//!
//! Each checkpoint has an object for the part of each PE and one for the manifest. An object begins
//! with a mark and the version of its format, and ends with the SHA-256 digest of all bytes before
//! it. The manifest is stored last, and only if there is none of its number. So a checkpoint with a
//! manifest is complete, whatever happens to the machine. The archive keeps the last two complete
//! checkpoints, and the one to which the job would go back.
//!
//! The checkpoint to which the job would go back may be older than the last two. The node that
//! writes manifests may be lost after it has stored one of which no other node knows. The others
//! then go back to the checkpoint before, and the next checkpoint has a higher number than both.
//! Until the others know of the next one, they would go back to the same checkpoint again.

use super::folder::Folder;
use super::storage::{CheckpointStorage, MANIFEST_NAME};
use crate::error::{CheckpointError, StartError};
use crate::message::{CHECKPOINT_MAX, Image};
use bytes::Bytes;
use gridspan_topology::PeId;
use sha2::{Digest, Sha256};
use std::collections::BTreeSet;
use std::io;
use std::path::Path;
use std::sync::Arc;

/// First bytes of the object of a part, and of a manifest.
const PART: &[u8; 8] = b"GSPNPART";
const MANIFEST: &[u8; 8] = b"GSPNMANI";
/// Version of the format of objects.
const VERSION: u32 = 6;
/// Bytes of the digest at the end of an object.
const DIGEST_BYTES: usize = 32;
/// Number of complete checkpoints that are kept.
const KEPT: usize = 2;
/// Prefix of the objects of a checkpoint.
const PREFIX: &str = "checkpoint-";

/// The checkpoints of a job in a folder or an object store.
#[derive(Clone, Debug)]
pub struct CheckpointArchive(Arc<dyn CheckpointStorage>);

impl CheckpointArchive {
    /// Opens a place for checkpoints: a folder, which is created if it does not exist, or the
    /// address of a place in an object store, such as `s3://bucket/job`.
    ///
    /// # Errors
    ///
    /// [`StartError::Checkpoint`] if the system refuses, or for an address if this program was
    /// built without the feature `object-store`.
    pub fn create(location: &Path) -> Result<Self, StartError> {
        open(location, true).map(Self)
    }

    /// Opens a place for checkpoints, as [`create`](Self::create) does, but creates no folder.
    ///
    /// # Errors
    ///
    /// Those of [`create`](Self::create), also if there is no such folder.
    pub fn open(location: &Path) -> Result<Self, StartError> {
        open(location, false).map(Self)
    }

    /// An archive in this storage.
    #[cfg(test)]
    pub(super) fn of(storage: Arc<dyn CheckpointStorage>) -> Self {
        Self(storage)
    }

    /// Stores an object of these pieces, with mark, version and digest.
    fn put(&self, name: &str, mark: &[u8; 8], pieces: Vec<Bytes>) -> Result<(), StartError> {
        let mut all = vec![Bytes::from([&mark[..], &VERSION.to_le_bytes()].concat())];
        all.extend(pieces);
        let mut digest = Sha256::new();
        all.iter().for_each(|piece| digest.update(piece));
        all.push(Bytes::copy_from_slice(&digest.finalize()));
        if mark != MANIFEST {
            return self.0.put(name, all).map_err(|error| self.refused(name, &error));
        }
        let whole = all.concat();
        match self.0.put_new(name, all) {
            // The answer to an earlier attempt may be lost.
            Err(error) if !self.0.get(name).is_ok_and(|stored| stored == whole) => {
                Err(self.refused(name, &error))
            }
            _ => Ok(()),
        }
    }

    /// Reads an object, checks its mark, version and digest, and returns the bytes in between.
    fn get(&self, name: &str, mark: &[u8; 8]) -> Result<Bytes, StartError> {
        let bytes = self.0.get(name).map_err(|error| self.refused(name, &error))?;
        let head = mark.len() + size_of::<u32>();
        let Some(end) = bytes.len().checked_sub(DIGEST_BYTES).filter(|&end| end >= head) else {
            return Err(self.unusable(name, |place| CheckpointError::Truncated { place }));
        };
        if bytes[..mark.len()] != *mark {
            return Err(self.unusable(name, |place| CheckpointError::Foreign { place }));
        }
        let version = bytes[mark.len()..head].try_into().map(u32::from_le_bytes);
        let version = version.unwrap_or_default();
        if version != VERSION {
            return Err(self.unusable(name, |place| CheckpointError::OtherFormat {
                place,
                version,
                readable: VERSION,
            }));
        }
        if Sha256::digest(&bytes[..end])[..] != bytes[end..] {
            return Err(self.unusable(name, |place| CheckpointError::Altered { place }));
        }
        Ok(bytes.slice(head..end))
    }

    /// The highest number of a checkpoint, even of an incomplete one.
    pub(super) fn highest(&self) -> Result<Option<u64>, StartError> {
        Ok(self.all()?.last().map(|&(number, _)| number))
    }

    /// Stores the part of a PE. Before the part of PE 0, removes incomplete checkpoints: if they
    /// have filled the disk, the part would find no room. Keeps the previous one, which may still
    /// get its manifest, and number `back`, to which the job would go back: it counts as incomplete
    /// if its manifest could not be stored.
    pub(super) fn write_part(
        &self,
        (run, checkpoint): (u64, u64),
        part: PeId,
        segments: &[Bytes],
        back: Option<u64>,
    ) -> Result<(), StartError> {
        let numbers = [&run.to_le_bytes()[..], &checkpoint.to_le_bytes(), &part.0.to_le_bytes()];
        let mut pieces = vec![Bytes::from(numbers.concat())];
        for segment in segments {
            pieces.push(Bytes::copy_from_slice(&(segment.len() as u64).to_le_bytes()));
            pieces.push(segment.clone());
        }
        if part == PeId(0) {
            self.clean_up(|old, is_complete| {
                old + 1 < checkpoint && !is_complete && Some(old) != back
            });
        }
        self.put(&part_name(run, checkpoint, part), PART, pieces)
    }

    /// Stores the manifest of a checkpoint, and removes checkpoints before the last two complete
    /// ones. Keeps this one, and number `back`, to which the job goes back if no other node learns
    /// of this one. Sets `back` to the number of this one.
    pub(super) fn write_manifest(
        &self,
        manifest: &Bytes,
        back: &mut Option<u64>,
    ) -> Result<(), StartError> {
        let number = Image::new(manifest.clone())?.number();
        let kept = [back.replace(number), Some(number)];
        self.put(&manifest_name(number), MANIFEST, vec![manifest.clone()])?;
        let complete = self.complete().unwrap_or_default();
        let first_kept = complete.iter().rev().nth(KEPT - 1).copied().unwrap_or(0);
        self.clean_up(|old, _| old < first_kept && !kept.contains(&Some(old)));
        Ok(())
    }

    /// Removes the checkpoints for which `is_old` returns true, given the number and whether the
    /// checkpoint is complete. A checkpoint that cannot be removed only takes space.
    fn clean_up(&self, is_old: impl Fn(u64, bool) -> bool) {
        let all = self.all().unwrap_or_default();
        for (old, _) in all.into_iter().filter(|&(old, is_complete)| is_old(old, is_complete)) {
            if let Err(error) = self.0.remove_all(&of(old)) {
                tracing::debug!(%error, old, "a checkpoint was not removed");
            }
        }
    }

    /// The numbers of all checkpoints, in order, and whether they are complete. Names with higher
    /// numbers than [`CHECKPOINT_MAX`] are not of checkpoints.
    fn all(&self) -> Result<Vec<(u64, bool)>, StartError> {
        let groups = self.0.groups().map_err(|error| self.refused("", &error))?;
        let number = |name: &String| name.strip_prefix(PREFIX)?.parse::<u64>().ok();
        let numbers = groups.iter().filter_map(number).filter(|&number| number <= CHECKPOINT_MAX);
        let numbers: BTreeSet<u64> = numbers.collect();
        let is_complete = |number| {
            let has_manifest = self.0.has(&manifest_name(number));
            has_manifest.map_err(|error| self.refused(&manifest_name(number), &error))
        };
        numbers.into_iter().map(|number| Ok((number, is_complete(number)?))).collect()
    }

    /// The numbers of the complete checkpoints, in order.
    ///
    /// # Errors
    ///
    /// [`StartError::Checkpoint`] if the place cannot be read.
    pub fn complete(&self) -> Result<Vec<u64>, StartError> {
        let complete = self.all()?.into_iter().filter(|(_, is_complete)| *is_complete);
        Ok(complete.map(|(number, _)| number).collect())
    }

    /// The last complete checkpoint, without its parts.
    ///
    /// # Errors
    ///
    /// [`StartError::Checkpoint`] if there is none, or its manifest is damaged.
    pub fn last(&self) -> Result<Image, StartError> {
        match self.complete()?.last() {
            Some(&number) => self.manifest(number),
            None => Err(self.unusable("", |place| CheckpointError::NoneComplete { place })),
        }
    }

    /// A checkpoint, without its parts.
    ///
    /// # Errors
    ///
    /// [`StartError::Checkpoint`] if its manifest is missing or damaged.
    pub fn manifest(&self, number: u64) -> Result<Image, StartError> {
        let name = manifest_name(number);
        let image = Image::new(self.get(&name, MANIFEST)?)?;
        match image.number() == number {
            true => Ok(image),
            false => Err(self.unusable(&name, |place| CheckpointError::Misplaced { place })),
        }
    }

    /// Reads the part of a PE into an image.
    ///
    /// # Errors
    ///
    /// [`StartError::Checkpoint`] if the part is missing or damaged, or belongs to another
    /// checkpoint.
    pub fn read_part(&self, image: &mut Image, part: PeId) -> Result<(), StartError> {
        let name = part_name(image.run(), image.number(), part);
        let bytes = self.get(&name, PART)?;
        let short = || self.unusable(&name, |place| CheckpointError::Truncated { place });
        let (run, rest) = bytes.split_first_chunk().ok_or_else(short)?;
        let (checkpoint, rest) = rest.split_first_chunk().ok_or_else(short)?;
        let (of, mut rest) = rest.split_first_chunk().ok_or_else(short)?;
        if u64::from_le_bytes(*run) != image.run()
            || u64::from_le_bytes(*checkpoint) != image.number()
            || u32::from_le_bytes(*of) != part.0
        {
            return Err(self.unusable(&name, |place| CheckpointError::Misplaced { place }));
        }
        for position in image.segments_of(part) {
            let (length, after) = rest.split_first_chunk().ok_or_else(short)?;
            let length = usize::try_from(u64::from_le_bytes(*length)).unwrap_or(usize::MAX);
            let segment = after.get(..length).ok_or_else(short)?;
            image.add(part, position, bytes.slice_ref(segment))?;
            rest = &after[length..];
        }
        match rest.is_empty() {
            true => Ok(()),
            false => Err(self.unusable(&name, |place| CheckpointError::TooLong { place })),
        }
    }

    /// Whether the part of a PE is stored. It is not read.
    #[cfg(feature = "net")]
    pub(super) fn has_part(&self, image: &Image, part: PeId) -> bool {
        // A storage that does not answer may have the part, but nothing shows that it does.
        self.0.has(&part_name(image.run(), image.number(), part)).unwrap_or(false)
    }

    /// Reads and checks all parts of a checkpoint.
    ///
    /// # Errors
    ///
    /// [`StartError::Checkpoint`] with the first problem.
    pub fn verify(&self, number: u64) -> Result<Image, StartError> {
        let mut image = self.manifest(number)?;
        for part in image.layout().clone().pes() {
            self.read_part(&mut image, part)?;
        }
        Ok(image)
    }

    /// The error of an object, or of the whole place if the name is empty.
    fn unusable(&self, name: &str, error: impl FnOnce(String) -> CheckpointError) -> StartError {
        error(self.0.path_of(name)).into()
    }

    /// Like [`unusable`](Self::unusable), for an error of the storage.
    fn refused(&self, name: &str, error: &io::Error) -> StartError {
        refused(self.0.path_of(name), error)
    }
}

fn of(checkpoint: u64) -> String {
    format!("{PREFIX}{checkpoint:08}")
}

/// A run that has ended may still store parts, which must not replace those of the next one.
fn part_name(run: u64, checkpoint: u64, part: PeId) -> String {
    format!("{}/part-{run:016x}-{:06}", of(checkpoint), part.0)
}

fn manifest_name(checkpoint: u64) -> String {
    format!("{}/{MANIFEST_NAME}", of(checkpoint))
}

fn open(location: &Path, create: bool) -> Result<Arc<dyn CheckpointStorage>, StartError> {
    open_storage(location, create).map_err(|error| refused(location.display().to_string(), &error))
}

/// Opens the place at a path, or at the address of an object store. `create`: creates a folder that
/// does not exist.
pub(super) fn open_storage(
    location: &Path,
    create: bool,
) -> io::Result<Arc<dyn CheckpointStorage>> {
    match location.to_str().filter(|text| text.contains("://")) {
        Some(address) => open_address(address),
        None => Folder::open(location, create).map(|folder| Arc::new(folder) as _),
    }
}

#[cfg(feature = "object-store")]
fn open_address(address: &str) -> io::Result<Arc<dyn CheckpointStorage>> {
    let store = super::object_storage::ObjectStorage::open(address)?;
    Ok(Arc::new(store))
}

#[cfg(not(feature = "object-store"))]
fn open_address(_address: &str) -> io::Result<Arc<dyn CheckpointStorage>> {
    let reason = "this program was built without object stores; build it with the feature \
                  `object-store`, or name a folder";
    Err(io::Error::new(io::ErrorKind::Unsupported, reason))
}

fn refused(place: String, error: &io::Error) -> StartError {
    let reason = error.to_string();
    let error = match error.kind() {
        io::ErrorKind::NotFound => CheckpointError::Missing { place, reason },
        _ => CheckpointError::Inaccessible { place, reason },
    };
    error.into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::{EncodedManifest, Manifest, codec};
    use gridspan_topology::Layout;

    const RUN: u64 = 0;

    /// The segments of the parts of two PEs.
    fn segments() -> [Vec<Bytes>; 2] {
        [vec![Bytes::from(vec![1; 100_000]), Bytes::from_static(b"end")], vec![Bytes::new()]]
    }

    fn manifest(number: u64) -> Bytes {
        let layout = Layout::new(vec![("a".to_owned(), vec![2])]);
        let encoded = EncodedManifest::without_actors(number, layout).0;
        let mut manifest: Manifest = codec::decode("a manifest", &encoded).unwrap();
        for (part, segments) in manifest.parts.iter_mut().zip(segments()) {
            part.segments = segments.iter().map(|segment| segment.len() as u64).collect();
        }
        codec::encode(&manifest).into()
    }

    fn store(archive: &CheckpointArchive, number: u64) {
        for (part, segments) in (0..).map(PeId).zip(segments()) {
            archive.write_part((RUN, number), part, &segments, None).unwrap();
        }
        archive.write_manifest(&manifest(number), &mut None).unwrap();
    }

    fn problem<T>(result: Result<T, StartError>) -> String {
        result.err().map(|error| error.to_string()).unwrap_or_default()
    }

    fn checkpoint_error<T>(result: Result<T, StartError>) -> Option<CheckpointError> {
        match result {
            Err(StartError::Checkpoint(error)) => Some(error),
            _ => None,
        }
    }

    /// Checks what must hold for every storage.
    fn check(storage: &Arc<dyn CheckpointStorage>) {
        let archive = CheckpointArchive::of(storage.clone());
        assert_eq!(archive.highest().unwrap(), None);
        archive.write_part((RUN, u64::MAX), PeId(1), &segments()[1], None).unwrap();
        assert_eq!(archive.highest().unwrap(), None, "no checkpoint has this number");
        assert!(problem(archive.last()).contains("there is no complete checkpoint in it"));

        // The parts of the second one are not complete.
        store(&archive, 1);
        archive.write_part((RUN, 2), PeId(0), &segments()[0], None).unwrap();
        assert_eq!((archive.complete().unwrap(), archive.highest().unwrap()), (vec![1], Some(2)));
        (3..=5).for_each(|number| store(&archive, number));
        assert_eq!(archive.complete().unwrap(), [4, 5], "the last two are kept");
        assert_eq!(archive.all().unwrap().len(), 2, "incomplete ones are removed");
        // Checkpoints that are never completed do not add up.
        (6..9).for_each(|number| {
            archive.write_part((RUN, number), PeId(0), &segments()[0], None).unwrap();
        });
        let all = archive.all().unwrap();
        assert_eq!(all, [(4, true), (5, true), (7, false), (8, false)]);

        let image = archive.verify(archive.last().unwrap().number()).unwrap();
        for (part, segments) in (0..).map(PeId).zip(segments()) {
            for (position, segment) in (0..).zip(segments) {
                assert_eq!(image.segment(part, position), Some(&segment));
            }
        }

        // Another run stores this number: it gets an error, and the parts are not replaced.
        let mut other: Manifest = codec::decode("a manifest", &manifest(5)).unwrap();
        other.run = RUN + 1;
        archive.write_part((other.run, 5), PeId(0), &segments()[0], None).unwrap();
        assert!(archive.write_manifest(&codec::encode(&other).into(), &mut None).is_err());
        assert!(archive.verify(5).is_ok());
        // The first attempt has succeeded, and its answer was lost.
        archive.write_manifest(&manifest(5), &mut None).unwrap();

        let name = part_name(RUN, 5, PeId(0));
        let whole = storage.get(&name).unwrap();
        let altered = |at: usize| {
            let mut bytes = whole.to_vec();
            bytes[at] ^= 1;
            Bytes::from(bytes)
        };
        for (bytes, expected) in [
            (whole.slice(..whole.len() - 1), "its digest does not match"),
            (whole.slice(..10), "it is too short"),
            (altered(50_000), "its digest does not match"),
            (altered(0), "it is not a part of a checkpoint"),
            (altered(8), "and this program reads version 6"),
        ] {
            storage.put(&name, vec![bytes]).unwrap();
            let problem = problem(archive.verify(5));
            assert!(problem.contains(expected) && problem.contains(&name), "{problem}");
        }
        let of_other = storage.get(&part_name(RUN, 4, PeId(0))).unwrap();
        storage.put(&name, vec![of_other]).unwrap();
        assert!(problem(archive.verify(5)).contains("it belongs to another checkpoint"));

        let place = storage.path_of(&name);
        for (bytes, expected) in [
            (whole.slice(..10), CheckpointError::Truncated { place: place.clone() }),
            (altered(0), CheckpointError::Foreign { place: place.clone() }),
            (
                altered(8),
                CheckpointError::OtherFormat {
                    place: place.clone(),
                    version: VERSION ^ 1,
                    readable: VERSION,
                },
            ),
            (altered(50_000), CheckpointError::Altered { place }),
        ] {
            storage.put(&name, vec![bytes]).unwrap();
            assert_eq!(checkpoint_error(archive.verify(5)), Some(expected));
        }
        let missing = checkpoint_error(archive.verify(9));
        assert!(matches!(missing, Some(CheckpointError::Missing { .. })), "{missing:?}");
    }

    #[test]
    fn checkpoints_are_stored_in_a_folder() {
        let folder = tempfile::tempdir().unwrap();
        check(&(Arc::new(Folder::open(&folder.path().join("new"), true).unwrap()) as _));
        let file = folder.path().join("file");
        std::fs::write(&file, "").unwrap();
        assert!(problem(CheckpointArchive::open(&file)).contains("it is not a folder"));
        let no_folder = checkpoint_error(CheckpointArchive::open(&file));
        assert!(matches!(no_folder, Some(CheckpointError::Inaccessible { .. })), "{no_folder:?}");
        let missing = checkpoint_error(CheckpointArchive::open(&folder.path().join("missing")));
        assert!(matches!(missing, Some(CheckpointError::Missing { .. })), "{missing:?}");
    }

    #[test]
    fn the_checkpoint_to_which_the_job_would_go_back_is_kept() {
        let folder = tempfile::tempdir().unwrap();
        let archive = CheckpointArchive::open(folder.path()).unwrap();
        let write = |number, back: &mut Option<u64>| {
            for (part, segments) in (0..).map(PeId).zip(segments()) {
                archive.write_part((RUN, number), part, &segments, *back).unwrap();
            }
            archive.write_manifest(&manifest(number), back).unwrap();
        };
        let mut first = None;
        (1..=3).for_each(|number| write(number, &mut first));
        assert_eq!(archive.complete().unwrap(), [2, 3]);

        // The node that has stored 3 is lost, and the others know only of 2. The next node that
        // writes manifests writes that of 2 again, then checkpoint 4, and is lost before the others
        // know of 4.
        let mut second = None;
        archive.write_manifest(&manifest(2), &mut second).unwrap();
        write(4, &mut second);
        assert!(archive.verify(2).is_ok(), "the others go back there again");
        // Two further nodes do the same.
        for number in 5..7 {
            let mut third = None;
            archive.write_manifest(&manifest(2), &mut third).unwrap();
            write(number, &mut third);
            assert_eq!(archive.complete().unwrap(), [2, number - 1, number]);
        }
        assert!(archive.verify(2).is_ok());

        // At last the others know of 6.
        let mut fourth = Some(6);
        write(7, &mut fourth);
        assert_eq!(archive.complete().unwrap(), [6, 7]);
    }

    #[test]
    fn the_checkpoint_to_which_the_job_would_go_back_is_kept_without_its_manifest() {
        let folder = tempfile::tempdir().unwrap();
        let archive = CheckpointArchive::open(folder.path()).unwrap();
        for number in [1, 2, 5] {
            archive.write_part((RUN, number), PeId(0), &segments()[0], Some(1)).unwrap();
        }

        let mut image = Image::new(manifest(1)).unwrap();
        assert!(archive.read_part(&mut image, PeId(0)).is_ok());
        assert_eq!(archive.all().unwrap(), [(1, false), (5, false)]);
    }

    #[test]
    fn incomplete_checkpoints_are_removed_even_if_no_part_can_be_stored() {
        let folder = tempfile::tempdir().unwrap();
        let archive = CheckpointArchive::open(folder.path()).unwrap();
        store(&archive, 1);
        let write = |number, part| archive.write_part((RUN, number), part, &segments()[1], None);
        (2..=3).for_each(|number| write(number, PeId(1)).unwrap());
        // No file can get the name of a folder.
        std::fs::create_dir_all(folder.path().join(part_name(RUN, 5, PeId(0)))).unwrap();

        assert!(write(5, PeId(0)).is_err());

        assert_eq!(archive.all().unwrap(), [(1, true), (5, false)]);
    }

    #[cfg(not(feature = "object-store"))]
    #[test]
    fn the_address_of_an_object_store_needs_the_feature() {
        let problem = problem(CheckpointArchive::open(Path::new("s3://bucket/job")));
        assert!(problem.contains("build it with the feature `object-store`"), "{problem}");
    }

    #[cfg(feature = "object-store")]
    #[test]
    fn checkpoints_are_stored_in_object_stores() {
        use crate::driver::checkpoints::object_storage::ObjectStorage;
        check(&(Arc::new(ObjectStorage::in_memory()) as _));
        for (address, expected) in [
            ("s4://bucket/job", "s4://bucket/job"),
            ("file:///tmp", "name the folder itself"),
            ("memory:///job", "it would end with the process"),
            ("s3://", "s3://"),
        ] {
            let problem = problem(CheckpointArchive::open(Path::new(address)));
            assert!(problem.contains(expected), "{problem}");
        }
    }

    /// `S3_TEST_ADDRESS` is the address of an empty place in a server that speaks S3, for which the
    /// environment has keys; see `.ci/s3`.
    #[cfg(feature = "object-store")]
    #[test]
    fn checkpoints_are_stored_in_a_server_that_speaks_s3() {
        use crate::driver::checkpoints::object_storage::ObjectStorage;
        match std::env::var("S3_TEST_ADDRESS") {
            Ok(address) => check(&(Arc::new(ObjectStorage::open(&address).unwrap()) as _)),
            Err(_) => println!("skipped: S3_TEST_ADDRESS is not set"),
        }
    }
}
