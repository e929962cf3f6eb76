//! The disk space in which a server keeps data beyond its memory: one unnamed file, which the
//! system removes when the process ends.

use super::free_list::FreeList;
use super::order::DataKey;
use crate::block::EncodedBlock;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

/// Space that a server has for the data of groups, in a job or in a server process.
///
/// ```
/// use gridspan_rpc::calls::ServerPlan;
/// use gridspan_rpc::group::Room;
/// use gridspan_runtime::PeId;
///
/// let room = Room::default().with_memory_bytes(4 << 30);
/// let plan = ServerPlan::new("large", PeId(1)).with_room(room);
/// # assert_eq!(plan.room.disk_bytes, 64 << 30);
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Room {
    /// Bytes in memory. The least recently used data beyond that goes to disk. Default 1 GiB.
    pub memory_bytes: u64,
    /// Bytes on disk. Data beyond that fails, with the calls that need it. Default 64 GiB.
    pub disk_bytes: u64,
    /// Folder on whose disk the server keeps its unnamed file. Default: the system's folder for
    /// temporary files.
    pub folder: Option<PathBuf>,
}

impl Default for Room {
    fn default() -> Self {
        Self { memory_bytes: 1 << 30, disk_bytes: 64 << 30, folder: None }
    }
}

impl Room {
    /// Sets the number of bytes in memory.
    pub fn with_memory_bytes(mut self, bytes: u64) -> Self {
        self.memory_bytes = bytes;
        self
    }

    /// Sets the number of bytes on disk.
    pub fn with_disk_bytes(mut self, bytes: u64) -> Self {
        self.disk_bytes = bytes;
        self
    }

    /// Sets the folder on whose disk the server keeps its unnamed file.
    pub fn with_folder(mut self, folder: impl Into<PathBuf>) -> Self {
        self.folder = Some(folder.into());
        self
    }
}

/// A file with all data on disk. On Linux, its free parts take no space.
#[derive(Debug, Default)]
pub(crate) struct Disk {
    /// The file, created by the first write. It has no name, so the system frees it with the
    /// process.
    file: Option<File>,
    extents: FreeList,
    /// Offset and length of each datum.
    places: BTreeMap<DataKey, (u64, u64)>,
    used_bytes: u64,
}

impl Disk {
    /// Whether the file contains data.
    pub(crate) fn is_used(&self) -> bool {
        self.used_bytes > 0
    }

    /// Writes data. A write that fails leaves nothing behind.
    pub(crate) fn write(
        &mut self,
        room: &Room,
        key: DataKey,
        block: &EncodedBlock,
    ) -> Result<(), String> {
        let bytes = block.len() as u64;
        let refused = |why: &dyn std::fmt::Display, remedy: &str| {
            format!(
                "the server has no room for {bytes} bytes more: {why}; give it more memory, or {remedy}"
            )
        };
        if self.used_bytes + bytes > room.disk_bytes {
            let limit = room.disk_bytes;
            let why = format!("it may keep {limit} bytes on disk");
            return Err(refused(&why, "a higher limit of bytes on disk"));
        }
        let offset = self.extents.take(bytes);
        self.places.insert(key, (offset, bytes));
        self.used_bytes += bytes;
        self.try_write(room, offset, block).map_err(|error| {
            self.remove(key);
            refused(&error, "a folder with more space")
        })
    }

    fn try_write(&mut self, room: &Room, mut offset: u64, block: &EncodedBlock) -> io::Result<()> {
        let file = match &mut self.file {
            Some(file) => file,
            none => {
                let folder = room.folder.clone().unwrap_or_else(std::env::temp_dir);
                none.insert(tempfile::tempfile_in(folder)?)
            }
        };
        for segment in block.segments() {
            file.write_all_at(segment, offset)?;
            offset += segment.len() as u64;
        }
        Ok(())
    }

    /// Reads `bytes` bytes of data that was written, from an offset in it.
    pub(crate) fn read(&self, key: DataKey, offset: u64, bytes: usize) -> Result<Vec<u8>, String> {
        let read = || {
            let missing = || io::Error::other("it was not written");
            let (file, (first, _)) =
                self.file.as_ref().zip(self.places.get(&key)).ok_or_else(missing)?;
            let mut buffer = vec![0; bytes];
            file.read_exact_at(&mut buffer, first + offset)?;
            Ok(buffer)
        };
        read().map_err(|error: io::Error| format!("the server cannot read its data again: {error}"))
    }

    /// Removes data that was written.
    pub(crate) fn remove(&mut self, key: DataKey) {
        let Some((offset, bytes)) = self.places.remove(&key) else { return };
        self.used_bytes -= bytes;
        let before = self.extents.end();
        self.extents.give_back(offset, bytes);
        let Some(file) = &self.file else { return };
        if self.extents.end() < before {
            // If this fails, the space is reused, or freed with the file.
            let _ = file.set_len(self.extents.end());
        } else if bytes > 0 {
            punch(file, offset, bytes);
        }
    }
}

/// Deallocates a part of a file. If the system cannot, the space is reused, or freed with the file.
#[cfg(target_os = "linux")]
fn punch(file: &File, offset: u64, bytes: u64) {
    use rustix::fs::{FallocateFlags, fallocate};
    let hole = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
    let _ = fallocate(file, hole, offset, bytes);
}

#[cfg(not(target_os = "linux"))]
fn punch(_file: &File, _offset: u64, _bytes: u64) {}
