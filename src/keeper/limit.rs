//! Keeps the files small to which a node prints.
//!
//! The launcher copies what it reads of them. Of that, only the last part stays here; the space
//! before it is freed. What no launcher has read stays.

use super::folder::KeeperFolder;
use crate::outcome::complain;

/// The limit of the two files of a node.
pub(super) struct StreamLimit {
    /// Number of bytes that stay of what was read of each file; at least as much is freed at once.
    bytes: u64,
    /// Positions up to which space was freed.
    freed: [u64; 2],
    has_failed: bool,
}

impl StreamLimit {
    pub(super) fn new(bytes: u64) -> Self {
        Self { bytes: bytes.max(1), freed: [0; 2], has_failed: false }
    }

    /// Frees space, if a launcher has read the streams up to these positions.
    pub(super) fn note_read(&mut self, folder: &KeeperFolder, read: [u64; 2]) {
        for (stream, read) in read.into_iter().enumerate() {
            let end = read.saturating_sub(self.bytes);
            if end.saturating_sub(self.freed[stream]) < self.bytes {
                continue;
            }
            if let Err(error) = folder.free(stream, end)
                && !std::mem::replace(&mut self.has_failed, true)
            {
                // The job is worth more than the size of its files.
                let text = format!("the files of a node's output grow on its host: {error}");
                complain(&text, "use a file system that can free a part of a file");
            }
            // After an error, the next attempt frees this part, too.
            self.freed[stream] = end;
        }
    }
}
