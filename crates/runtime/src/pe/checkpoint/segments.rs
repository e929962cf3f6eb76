//! Writes the segments of a PE's part of a checkpoint.

use crate::message::codec;
use crate::message::{MemberImage, PartImage, StateBytes};
use bytes::Bytes;
use std::collections::VecDeque;

/// Smallest size in bytes at which a segment of a part is full.
pub(super) const SEGMENT_BYTES: usize = 1 << 20;
/// A segment also has at least one part in `SEGMENT_SHARE` of the bytes before it. So even a large
/// part has few segments: the manifest lists the size of each.
const SEGMENT_SHARE: usize = 64;

/// The segments of a part, while its members are encoded one after another.
pub(crate) struct Segments {
    /// The segment that is not full; empty before its first member.
    open: Vec<u8>,
    /// Full segments that were not taken.
    full: VecDeque<Bytes>,
    /// Size of each segment that has ended, and their sum.
    sizes: Vec<u64>,
    sum: usize,
    /// Scratch memory: the length of a state precedes it in the segment.
    state: Vec<u8>,
    /// Number of bytes written since the last call of [`take_written`](Self::take_written).
    written: usize,
}

impl Segments {
    /// Begins with everything but the members.
    pub(crate) fn new(head: &PartImage) -> Self {
        let open = head.encode();
        let written = open.len();
        let (full, sizes, state) = (VecDeque::new(), Vec::new(), Vec::new());
        Self { open, full, sizes, sum: 0, state, written }
    }

    /// Adds a member whose state is encoded.
    pub(crate) fn add(&mut self, member: &MemberImage) {
        self.write(|open| codec::append(member, open));
    }

    /// Adds a member. `encode` appends the encoded state to a vector.
    pub(crate) fn encode(&mut self, member: MemberImage<()>, encode: impl FnOnce(&mut Vec<u8>)) {
        let mut state = std::mem::take(&mut self.state);
        state.clear();
        encode(&mut state);
        let member = member.with_state(StateBytes(&state));
        self.write(|open| codec::append(&member, open));
        self.state = state;
    }

    fn write(&mut self, write: impl FnOnce(&mut Vec<u8>)) {
        let before = self.begin();
        write(&mut self.open);
        self.written += self.open.len() - before;
        if self.open.len() >= self.enough() {
            self.end();
        }
    }

    /// Number of bytes at which the open segment is full.
    fn enough(&self) -> usize {
        SEGMENT_BYTES.max(self.sum / SEGMENT_SHARE)
    }

    /// Begins a segment if the last one has ended. Returns the size of the open one.
    fn begin(&mut self) -> usize {
        if self.open.is_empty() {
            self.open.reserve(self.enough() + self.enough() / 8);
            self.open.extend(PartImage::default().encode());
        }
        self.open.len()
    }

    /// Ends the open segment.
    pub(crate) fn end(&mut self) {
        self.begin();
        let bytes = Bytes::from(std::mem::take(&mut self.open));
        self.sizes.push(bytes.len() as u64);
        self.sum += bytes.len();
        self.full.push_back(bytes);
    }

    /// Removes and returns the first full segment that was not taken, with its position.
    pub(crate) fn take(&mut self) -> Option<(u32, Bytes)> {
        let position = self.sizes.len() - self.full.len();
        Some((position as u32, self.full.pop_front()?))
    }

    /// Number of full segments that were not taken.
    pub(crate) fn left(&self) -> usize {
        self.full.len()
    }

    /// Size of each segment that has ended.
    pub(crate) fn sizes(&self) -> &[u64] {
        &self.sizes
    }

    /// Number of bytes written since the last call of [`take_written`](Self::take_written).
    pub(crate) fn written(&self) -> usize {
        self.written
    }

    pub(crate) fn take_written(&mut self) -> usize {
        std::mem::take(&mut self.written)
    }
}
