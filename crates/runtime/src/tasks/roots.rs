//! What a worker was handed in from outside of its pool, and what it waits for in other pools.

use super::engine::Convert;
use super::frame::FrameId;
use super::message::Outputs;
use crate::pe::actor::reference::Reply;
use bytes::Bytes;
use std::collections::BTreeMap;

/// What a worker has been handed in, and what it waits for elsewhere.
pub(super) struct Roots<O> {
    pub(super) open: BTreeMap<u64, Origin>,
    next: u64,
    pub(super) streams: BTreeMap<u64, StreamOutputs>,
    pub(super) calls: BTreeMap<u64, PendingCall<O>>,
    pub(super) next_call: u64,
}

/// Who waits for a root.
pub(super) enum Origin {
    /// Somebody waits for this one.
    Asked(Reply<Option<Bytes>>),
    /// It is of a stream, as the task of this number.
    Streamed(u64, u64),
}

/// The outputs of a stream that main has not got yet. Main hands in no more than it has room for.
#[derive(Default)]
pub(super) struct StreamOutputs {
    pub(super) ready: Outputs,
    pub(super) waiting: Option<Reply<Option<Outputs>>>,
}

/// A task of another pool that a frame here waits for.
pub(super) struct PendingCall<O> {
    pub(super) frame: FrameId,
    pub(super) child: u32,
    pub(super) convert: Convert<O>,
}

impl<O> Default for Roots<O> {
    fn default() -> Self {
        let (open, streams, calls) = Default::default();
        Self { open, next: 0, streams, calls, next_call: 0 }
    }
}

impl<O> Roots<O> {
    /// Names another root.
    pub(super) fn enter(&mut self, origin: Origin) -> u64 {
        self.next += 1;
        self.open.insert(self.next, origin);
        self.next
    }
}
