//! Copies of what a kept node prints, in the files of the node on this machine.
//!
//! A copy may begin anywhere in the stream of the node: the job may have begun elsewhere, and
//! several processes of a node print to one stream. Its *origin* is the position in the copy at
//! which the first byte of the stream is, or would be.

use crate::job_folder::{NodeFiles, StreamFile};
use gridspan::keeper::Attendance;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};

/// Copies of the two streams of a node.
pub(super) struct Mirror {
    copies: [File; 2],
    /// The lengths of the copies.
    lengths: [u64; 2],
    origins: Arc<Origins>,
    /// The positions in the copies before which control lines are old: an earlier launcher was to
    /// act on them.
    live_from: [Arc<AtomicU64>; 2],
    /// Whether what the node has printed so far is old.
    is_taken_over: bool,
}

/// The origins of the copies of a node.
pub(super) struct Origins {
    streams: [StreamFile; 2],
    file: File,
    at: [AtomicI64; 2],
    /// Whether the keeper has said at which positions it begins to pass on the streams.
    are_known: AtomicBool,
}

impl Mirror {
    /// Opens the copies of a node. `is_taken_over`: the output of the node so far was for an
    /// earlier launcher, whose state this one may not have.
    pub(super) fn open(files: &NodeFiles, is_taken_over: bool) -> io::Result<Self> {
        let [out, err] = &files.streams;
        let copies = [out.open_to_append()?, err.open_to_append()?];
        let lengths = [copies[0].metadata()?.len(), copies[1].metadata()?.len()];
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false).mode(0o600);
        let file = options.open(&files.origin)?;
        let mut bytes = [0; 16];
        // A new file is empty.
        let _ = file.read_exact_at(&mut bytes, 0);
        let (first, second) = bytes.split_at(8);
        let number = |half: &[u8]| i64::from_le_bytes(half.try_into().unwrap_or_default());
        let at = [AtomicI64::new(number(first)), AtomicI64::new(number(second))];
        let streams = files.streams.clone();
        let origins = Arc::new(Origins { streams, file, at, are_known: AtomicBool::new(false) });
        let live_from = || Arc::new(AtomicU64::new(if is_taken_over { u64::MAX } else { 0 }));
        let live_from = [live_from(), live_from()];
        Ok(Self { copies, lengths, origins, live_from, is_taken_over })
    }

    /// The positions in the copies before which control lines are old.
    pub(super) fn live_from(&self) -> [Arc<AtomicU64>; 2] {
        self.live_from.clone()
    }

    /// The origins, for another thread.
    pub(super) fn origins(&self) -> Arc<Origins> {
        self.origins.clone()
    }

    /// The positions up to which the streams of the node are copied.
    pub(super) fn positions(&self) -> [u64; 2] {
        [0, 1].map(|stream| self.origins.position(stream, self.lengths[stream]))
    }

    /// Returns [`positions`](Self::positions); `None` until a keeper has said at which positions it
    /// begins to pass on the streams. The copies may begin elsewhere before that, as on a machine
    /// that has none yet.
    pub(super) fn known_positions(&self) -> Option<[u64; 2]> {
        self.origins.are_known.load(Ordering::SeqCst).then(|| self.positions())
    }

    /// Notes at which positions the keeper begins to pass on the streams.
    pub(super) fn begin(&mut self, attendance: &Attendance) -> io::Result<()> {
        for stream in 0..2 {
            let length = self.lengths[stream];
            let origin = length.cast_signed() - attendance.from[stream].cast_signed();
            self.origins.at[stream].store(origin, Ordering::SeqCst);
            let bytes = origin.to_le_bytes();
            self.origins.file.write_all_at(&bytes, (stream * bytes.len()) as u64)?;
            if self.is_taken_over {
                let old = attendance.lengths[stream].saturating_sub(attendance.from[stream]);
                self.live_from[stream].store(length + old, Ordering::SeqCst);
            }
        }
        self.is_taken_over = false;
        self.origins.are_known.store(true, Ordering::SeqCst);
        Ok(())
    }

    /// Appends output of the node to a copy.
    pub(super) fn append(&mut self, stream: usize, bytes: &[u8]) -> io::Result<()> {
        let (Some(copy), Some(length)) =
            (self.copies.get_mut(stream), self.lengths.get_mut(stream))
        else {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "there is no such stream"));
        };
        write_counted(copy, bytes, length)
    }
}

/// Writes bytes, and counts the written ones even if an error follows.
fn write_counted(to: &mut impl Write, mut bytes: &[u8], count: &mut u64) -> io::Result<()> {
    while !bytes.is_empty() {
        match to.write(bytes) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(written) => {
                *count += written as u64;
                bytes = &bytes[written..];
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

impl Origins {
    /// Returns how much of the node's streams this launcher and earlier ones have read; `None`
    /// until the origins are known.
    pub(super) fn read_so_far(&self) -> Option<[u64; 2]> {
        if !self.are_known.load(Ordering::SeqCst) {
            return None;
        }
        let read = |stream: usize| self.streams[stream].read_so_far().ok();
        Some([self.position(0, read(0)?), self.position(1, read(1)?)])
    }

    fn position(&self, stream: usize, in_copy: u64) -> u64 {
        let origin = self.at[stream].load(Ordering::SeqCst);
        u64::try_from(in_copy.cast_signed().saturating_sub(origin)).unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    fn files(folder: &Path) -> NodeFiles {
        let file = |name: &str| folder.join(name);
        let streams = ["out", "err"].map(|name| StreamFile::at(file(name)));
        NodeFiles { input: file("in"), streams, origin: file("origin"), log_limit: u64::MAX }
    }

    fn attendance(from: [u64; 2], lengths: [u64; 2]) -> Attendance {
        Attendance { process: 1, lengths, from, taken: 0 }
    }

    #[test]
    fn what_was_written_before_an_error_is_counted() {
        let (mut room, mut count) = ([0; 5], 10);
        let error = write_counted(&mut &mut room[..], b"too long", &mut count).unwrap_err();
        assert_eq!((error.kind(), count), (io::ErrorKind::WriteZero, 15));
        assert_eq!(&room, b"too l");
        write_counted(&mut Vec::new(), b"rest", &mut count).unwrap();
        assert_eq!(count, 19);
    }

    #[test]
    fn a_copy_goes_on_where_it_stopped_and_may_begin_anywhere() {
        let folder = tempfile::tempdir().unwrap();
        let mut mirror = Mirror::open(&files(folder.path()), true).unwrap();
        assert_eq!((mirror.origins().read_so_far(), mirror.known_positions()), (None, None));
        mirror.begin(&attendance([1000, 0], [1004, 9])).unwrap();
        mirror.append(0, b"old\nnew\n").unwrap();
        mirror.append(1, b"e").unwrap();
        assert_eq!(mirror.positions(), [1008, 1]);
        assert_eq!(mirror.origins().read_so_far(), Some([1000, 0]), "no reader has read it");
        let live_from = mirror.live_from().map(|at| at.load(Ordering::SeqCst));
        assert_eq!(live_from, [4, 9]);
        assert!(mirror.append(2, b"").is_err());
        drop(mirror);

        let mut again = Mirror::open(&files(folder.path()), false).unwrap();
        assert_eq!((again.positions(), again.known_positions()), ([1008, 1], None));
        // Another process of the node prints to the same stream; a part of it was not copied.
        again.begin(&attendance([1100, 1], [1100, 1])).unwrap();
        again.append(0, b"next\n").unwrap();
        assert_eq!(again.known_positions(), Some([1105, 1]));
        let live_from = again.live_from().map(|at| at.load(Ordering::SeqCst));
        assert_eq!(live_from, [0, 0]);
        assert_eq!(std::fs::read(folder.path().join("out")).unwrap(), b"old\nnew\nnext\n");
    }
}
