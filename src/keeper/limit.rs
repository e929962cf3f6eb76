//! Limits the size of the files to which a node prints.
//!
//! The launcher copies what it reads. Only the last part of the copied output stays in the files;
//! the space before it is freed. Output that no launcher has read stays.

use super::folder::KeeperFolder;
use crate::outcome::complain;

/// The limit of the two files of a node.
pub(super) struct StreamLimit {
    /// Number of copied bytes that stay in each file; at least as many are freed at a time.
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
                // The job goes on, although its files grow.
                let text = format!("the files of a node's output grow on its host: {error}");
                complain(&text, "use a file system that can free a part of a file");
            }
            // After an error, the next attempt frees this part, too.
            self.freed[stream] = end;
        }
    }
}
