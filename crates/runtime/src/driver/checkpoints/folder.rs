//! Checkpoints in a folder.
//!
//! The folder has a folder for each checkpoint, with a file for the part of each PE and one for the
//! manifest. A file begins with a mark and the version of its form, and ends with the SHA-256
//! digest of all that comes before. Each file is written under another name, flushed to the disk,
//! and then renamed, the manifest last. So a checkpoint with a manifest is complete, whatever
//! happens to the machine. The last two complete checkpoints are kept.

use crate::error::StartError;
use crate::message::Image;
use bytes::Bytes;
use gridspan_topology::PeId;
use sha2::{Digest, Sha256};
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

/// First bytes of the file of a part, and of a manifest.
const PART: &[u8; 8] = b"GSPNPART";
const MANIFEST: &[u8; 8] = b"GSPNMANI";
/// Version of the form of files.
const VERSION: u32 = 2;
/// Bytes of the digest at the end of a file.
const DIGEST_BYTES: usize = 32;
/// Number of complete checkpoints that are kept.
const KEPT: usize = 2;
/// Prefix of the folder of a checkpoint.
const PREFIX: &str = "checkpoint-";

/// A folder with checkpoints of a job.
#[derive(Clone, Debug)]
pub struct CheckpointFolder(PathBuf);

/// A file that is being written. Counts into the digest what it writes.
struct Writing {
    file: io::BufWriter<File>,
    digest: Sha256,
    now: PathBuf,
    then: PathBuf,
}

impl Writing {
    fn begin(path: PathBuf, mark: &[u8; 8]) -> io::Result<Self> {
        let now = path.with_extension("new");
        let file = io::BufWriter::new(File::create(&now)?);
        let mut writing = Self { file, digest: Sha256::new(), now, then: path };
        writing.write(mark)?;
        writing.write(&VERSION.to_le_bytes())?;
        Ok(writing)
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.digest.update(bytes);
        self.file.write_all(bytes)
    }

    /// Writes the digest, and renames the file once it is on the disk.
    fn end(self) -> io::Result<()> {
        let Self { mut file, digest, now, then } = self;
        file.write_all(&digest.finalize())?;
        file.into_inner().map_err(io::IntoInnerError::into_error)?.sync_all()?;
        fs::rename(&now, &then)?;
        match then.parent() {
            Some(folder) => File::open(folder)?.sync_all(),
            None => Ok(()),
        }
    }
}

impl CheckpointFolder {
    /// Opens a folder, and creates it if it does not exist.
    ///
    /// # Errors
    ///
    /// [`StartError::Checkpoint`] if the system refuses.
    pub fn create(path: &Path) -> Result<Self, StartError> {
        fs::create_dir_all(path).map_err(|error| unusable(path, &error))?;
        Self::open(path)
    }

    /// Opens a folder.
    ///
    /// # Errors
    ///
    /// [`StartError::Checkpoint`] if there is none.
    pub fn open(path: &Path) -> Result<Self, StartError> {
        match fs::metadata(path) {
            Ok(found) if found.is_dir() => Ok(Self(path.to_path_buf())),
            Ok(_) => Err(unusable(path, &"it is not a folder")),
            Err(error) => Err(unusable(path, &error)),
        }
    }

    fn of(&self, checkpoint: u64) -> PathBuf {
        self.0.join(format!("{PREFIX}{checkpoint:08}"))
    }

    fn part_path(&self, checkpoint: u64, part: PeId) -> PathBuf {
        self.of(checkpoint).join(format!("part-{:06}", part.0))
    }

    /// Creates the folder of a checkpoint, and removes incomplete ones that were given up. The one
    /// just before may still get its manifest from another node.
    fn create_folder(&self, checkpoint: u64) -> io::Result<()> {
        let folder = self.of(checkpoint);
        if folder.is_dir() {
            return Ok(());
        }
        fs::create_dir_all(folder)?;
        File::open(&self.0)?.sync_all()?;
        let all = self.all().unwrap_or_default().into_iter();
        for old in all.filter(|&old| old + 1 < checkpoint && !self.has_manifest(old)) {
            // What cannot be removed only takes space.
            let _ = fs::remove_dir_all(self.of(old));
        }
        Ok(())
    }

    fn has_manifest(&self, checkpoint: u64) -> bool {
        self.of(checkpoint).join("manifest").is_file()
    }

    /// The highest number of a checkpoint, even of an incomplete one.
    pub(super) fn highest(&self) -> Result<Option<u64>, StartError> {
        Ok(self.all()?.last().copied())
    }

    /// Writes the part of a PE.
    pub(super) fn write_part(
        &self,
        run: u64,
        checkpoint: u64,
        part: PeId,
        segments: &[Bytes],
    ) -> Result<(), StartError> {
        let path = self.part_path(checkpoint, part);
        let write = || {
            self.create_folder(checkpoint)?;
            let mut file = Writing::begin(path.clone(), PART)?;
            file.write(&run.to_le_bytes())?;
            file.write(&checkpoint.to_le_bytes())?;
            file.write(&part.0.to_le_bytes())?;
            for segment in segments {
                file.write(&(segment.len() as u64).to_le_bytes())?;
                file.write(segment)?;
            }
            file.end()
        };
        write().map_err(|error| unusable(&path, &error))
    }

    /// Writes the manifest of a checkpoint, and removes all checkpoints but the last two.
    pub(super) fn write_manifest(&self, manifest: &Bytes) -> Result<(), StartError> {
        let number = Image::new(manifest.clone())?.number();
        let path = self.of(number).join("manifest");
        let write = || {
            self.create_folder(number)?;
            let mut file = Writing::begin(path.clone(), MANIFEST)?;
            file.write(manifest)?;
            file.end()
        };
        write().map_err(|error| unusable(&path, &error))?;
        let complete = self.complete()?;
        let first_kept = complete.iter().rev().nth(KEPT - 1).copied().unwrap_or(0);
        for old in self.all()?.into_iter().filter(|&old| old < first_kept) {
            // What cannot be removed only takes space.
            let _ = fs::remove_dir_all(self.of(old));
        }
        Ok(())
    }

    /// The numbers of all checkpoints, in order, also of incomplete ones.
    fn all(&self) -> Result<Vec<u64>, StartError> {
        let entries = fs::read_dir(&self.0).map_err(|error| unusable(&self.0, &error))?;
        let number = |entry: io::Result<fs::DirEntry>| {
            let name = entry.ok()?.file_name();
            name.to_str()?.strip_prefix(PREFIX)?.parse().ok()
        };
        let mut all: Vec<u64> = entries.filter_map(number).collect();
        all.sort_unstable();
        Ok(all)
    }

    /// The numbers of the complete checkpoints, in order.
    ///
    /// # Errors
    ///
    /// [`StartError::Checkpoint`] if the folder cannot be read.
    pub fn complete(&self) -> Result<Vec<u64>, StartError> {
        let mut all = self.all()?;
        all.retain(|&number| self.has_manifest(number));
        Ok(all)
    }

    /// The last complete checkpoint, without its parts.
    ///
    /// # Errors
    ///
    /// [`StartError::Checkpoint`] if there is none, or its manifest is damaged.
    pub fn last(&self) -> Result<Image, StartError> {
        match self.complete()?.last() {
            Some(&number) => self.manifest(number),
            None => Err(unusable(&self.0, &"there is no complete checkpoint in it")),
        }
    }

    /// A checkpoint, without its parts.
    ///
    /// # Errors
    ///
    /// [`StartError::Checkpoint`] if its manifest is missing or damaged.
    pub fn manifest(&self, number: u64) -> Result<Image, StartError> {
        let path = self.of(number).join("manifest");
        let bytes = read(&path, MANIFEST)?;
        let image = Image::new(bytes)?;
        match image.number() == number {
            true => Ok(image),
            false => Err(unusable(&path, &"it belongs to another checkpoint")),
        }
    }

    /// Reads the part of a PE into an image.
    ///
    /// # Errors
    ///
    /// [`StartError::Checkpoint`] if the file is missing or damaged, or belongs to another
    /// checkpoint.
    pub fn read_part(&self, image: &mut Image, part: PeId) -> Result<(), StartError> {
        let path = self.part_path(image.number(), part);
        let bytes = read(&path, PART)?;
        let short = || unusable(&path, &"it is too short");
        let (run, rest) = bytes.split_first_chunk().ok_or_else(short)?;
        let (checkpoint, rest) = rest.split_first_chunk().ok_or_else(short)?;
        let (of, mut rest) = rest.split_first_chunk().ok_or_else(short)?;
        if u64::from_le_bytes(*run) != image.run()
            || u64::from_le_bytes(*checkpoint) != image.number()
            || u32::from_le_bytes(*of) != part.0
        {
            return Err(unusable(&path, &"it belongs to another checkpoint"));
        }
        for position in image.segments_of(part) {
            let (length, after) = rest.split_first_chunk().ok_or_else(short)?;
            let length = usize::try_from(u64::from_le_bytes(*length)).unwrap_or(usize::MAX);
            let segment = after.get(..length).ok_or_else(short)?;
            image.add(part, position, bytes.slice_ref(segment))?;
            rest = &after[length..];
        }
        if rest.is_empty() { Ok(()) } else { Err(unusable(&path, &"it is too long")) }
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
}

/// Reads a file, checks its mark, its version and its digest, and returns what is between.
fn read(path: &Path, mark: &[u8; 8]) -> Result<Bytes, StartError> {
    let mut bytes = Vec::new();
    let mut file = File::open(path).map_err(|error| unusable(path, &error))?;
    file.read_to_end(&mut bytes).map_err(|error| unusable(path, &error))?;
    let head = mark.len() + size_of::<u32>();
    let Some(end) = bytes.len().checked_sub(DIGEST_BYTES).filter(|&end| end >= head) else {
        return Err(unusable(path, &"it is too short"));
    };
    if bytes[..mark.len()] != *mark {
        return Err(unusable(path, &"it is no file of a checkpoint"));
    }
    let version = bytes[mark.len()..head].try_into().map(u32::from_le_bytes).unwrap_or_default();
    if version != VERSION {
        let reason = format!(
            "it has version {version}, and this program reads version {VERSION}: use the program that wrote it"
        );
        return Err(unusable(path, &reason));
    }
    if Sha256::digest(&bytes[..end])[..] != bytes[end..] {
        return Err(unusable(path, &"its digest does not match; it is truncated or was altered"));
    }
    Ok(Bytes::from(bytes).slice(head..end))
}

fn unusable(path: &Path, reason: &dyn std::fmt::Display) -> StartError {
    StartError::Checkpoint { reason: format!("{}: {reason}", path.display()) }
}
