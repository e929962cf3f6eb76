//! The roots that a worker has received from outside its pool, and the tasks of other pools that it
//! waits for.

use super::engine::Convert;
use super::frame::FrameId;
use super::message::Outputs;
use crate::pe::actor::reference::Reply;
use crate::pe::slab_map::SlabMap;
use bytes::Bytes;
use std::collections::BTreeMap;

/// The roots of a worker, and the tasks of other pools that it waits for.
pub(super) struct Roots<O> {
    pub(super) open: BTreeMap<u64, Origin>,
    next: u64,
    pub(super) streams: BTreeMap<u64, StreamOutputs>,
    pub(super) calls: SlabMap<u64, PendingCall<O>>,
    pub(super) next_call: u64,
}

/// The receiver of a root's output.
pub(super) enum Origin {
    /// Main, which waits for this root alone.
    Asked(Reply<Option<Bytes>>),
    /// A task of another pool.
    Called(Reply<Option<Bytes>>),
    /// A stream, in which the root is the task of this number.
    Streamed { stream: u64, number: u64, is_repeatable: bool },
}

impl Origin {
    /// Whether main hands in the root again if it begins again.
    pub(super) fn is_repeatable(&self) -> bool {
        matches!(self, Self::Streamed { is_repeatable: true, .. })
    }
}

/// The outputs of a stream that main has not received yet. The window of the stream limits their
/// number.
#[derive(Default)]
pub(super) struct StreamOutputs {
    pub(super) ready: Outputs,
    pub(super) waiting: Option<Reply<Option<Outputs>>>,
    /// Whether main hands in the stream's further tasks again if it begins again.
    pub(super) is_repeatable: bool,
}

/// A task of another pool that a frame here waits for.
pub(super) struct PendingCall<O> {
    pub(super) frame: FrameId,
    pub(super) child: u32,
    pub(super) convert: Convert<O>,
}

impl<O> Default for Roots<O> {
    fn default() -> Self {
        let (open, streams) = Default::default();
        Self { open, next: 0, streams, calls: SlabMap::default(), next_call: 0 }
    }
}

impl<O> Roots<O> {
    /// Enters a root and returns its number.
    pub(super) fn enter(&mut self, origin: Origin) -> u64 {
        self.next += 1;
        self.open.insert(self.next, origin);
        self.next
    }
}
