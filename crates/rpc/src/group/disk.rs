//! Where a server keeps data beyond its memory: a directory of its own, which goes with it.

use super::order::DataKey;
use crate::block::Block;
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io::{self, Write};
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use tempfile::TempDir;

/// How much a server keeps for groups.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Room {
    /// In memory; what was not used for the longest time goes to disk beyond. Default 1 GiB.
    pub memory_bytes: u64,
    /// On disk; what is more fails with whatever needs it. Default 64 GiB.
    pub disk_bytes: u64,
    /// Where the server makes its directory. Default: where the system keeps what is temporary.
    pub folder: Option<PathBuf>,
}

impl Default for Room {
    fn default() -> Self {
        Self { memory_bytes: 1 << 30, disk_bytes: 64 << 30, folder: None }
    }
}

/// A directory with a file for each data in it.
#[derive(Debug, Default)]
pub(crate) struct Disk {
    /// Made when something is first written; removed when this is dropped.
    folder: Option<TempDir>,
    used_bytes: u64,
}

impl Disk {
    /// Writes data, or leaves nothing of it.
    pub(crate) fn write(&mut self, room: &Room, key: DataKey, block: &Block) -> Result<(), String> {
        let bytes = block.len() as u64;
        let refused = |why: &dyn std::fmt::Display| {
            format!(
                "the server has no room for {bytes} bytes more: {why}; give it more memory, or a folder with more space"
            )
        };
        if self.used_bytes + bytes > room.disk_bytes {
            let limit = room.disk_bytes;
            return Err(refused(&format_args!("it may keep {limit} bytes on disk")));
        }
        self.try_write(room, key, block).map_err(|error| refused(&error))?;
        self.used_bytes += bytes;
        Ok(())
    }

    fn try_write(&mut self, room: &Room, key: DataKey, block: &Block) -> io::Result<()> {
        if self.folder.is_none() {
            let mut builder = tempfile::Builder::new();
            let builder = builder.prefix("gridspan-server-");
            let parent = room.folder.clone().unwrap_or_else(std::env::temp_dir);
            self.folder = Some(builder.tempdir_in(parent)?);
        }
        let path = self.path(key)?;
        let written = File::create(&path).and_then(|mut file| {
            block.segments().iter().try_for_each(|segment| file.write_all(segment))
        });
        if written.is_err() {
            // There may be nothing to remove.
            let _ = std::fs::remove_file(path);
        }
        written
    }

    fn path(&self, key: DataKey) -> io::Result<PathBuf> {
        let missing = || io::Error::other("the server's directory is gone");
        let folder = self.folder.as_ref().ok_or_else(missing)?;
        Ok(folder.path().join(format!("{}-{}", key.group, key.data)))
    }

    /// Reads so many bytes of data that was written, from an offset.
    pub(crate) fn read(&self, key: DataKey, offset: u64, bytes: usize) -> Result<Vec<u8>, String> {
        let read = || {
            let mut buffer = vec![0; bytes];
            File::open(self.path(key)?)?.read_exact_at(&mut buffer, offset)?;
            Ok(buffer)
        };
        read().map_err(|error: io::Error| format!("the server cannot read its data again: {error}"))
    }

    /// Removes data that was written.
    pub(crate) fn remove(&mut self, key: DataKey, bytes: u64) {
        // What cannot be removed now goes with the directory.
        let _ = self.path(key).and_then(std::fs::remove_file);
        self.used_bytes = self.used_bytes.saturating_sub(bytes);
    }
}
