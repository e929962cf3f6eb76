//! The part of a rank's state that moves with it between two runs.

use super::buffer::SendBuffer;
use super::failures::Failures;
use super::link::Link;
use super::{Local, Sent};
use crate::error::CallSite;
use crate::matching::{Arrived, Matcher};
use crate::packet::Payload;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::atomic::Ordering;

/// Messages that have come and wait for a receive, sent messages that wait for their receivers, and
/// counters.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct SavedState {
    rank: u32,
    unexpected: Vec<Arrived<Payload>>,
    arrivals: u64,
    changes: u64,
    generation: u64,
    sent: BTreeMap<u32, Sent>,
    last_token: u32,
    next_communicator: u32,
    world_operations: u32,
    buffer: SendBuffer,
    last_delay: u64,
    links: Vec<Link>,
    failures: Failures,
}

impl SavedState {
    /// The state of a rank that has no operation under way.
    pub(crate) fn of(local: &Local) -> Self {
        local.with(|state| Self {
            rank: local.rank,
            unexpected: state.matcher.unexpected().into_iter().cloned().collect(),
            arrivals: state.matcher.count(),
            changes: state.changes,
            generation: state.slots.generation,
            sent: state.sent.clone(),
            last_token: state.last_token,
            next_communicator: state.next_communicator,
            world_operations: state.world_operations.load(Ordering::Relaxed),
            buffer: state.buffer.clone(),
            last_delay: state.last_delay,
            links: state.links.clone(),
            failures: state.failures.clone(),
        })
    }

    /// An empty state, for a rank whose state stays where it is.
    pub(crate) fn empty(rank: u32) -> Self {
        Self { rank, ..Self::default() }
    }

    /// The state with which the rank goes on.
    pub(crate) fn restored(self) -> Local {
        let local = Local::new(self.rank);
        local.with(|state| {
            state.matcher = Matcher::restored(self.unexpected, self.arrivals);
            state.changes = self.changes;
            state.slots.generation = self.generation;
            state.included_bytes = self.sent.values().map(|sent| sent.included).sum();
            state.sent = self.sent;
            state.last_token = self.last_token;
            state.next_communicator = self.next_communicator;
            state.world_operations.store(self.world_operations, Ordering::Relaxed);
            state.buffer = self.buffer;
            state.last_delay = self.last_delay;
            state.links = self.links;
            state.failures = self.failures;
        });
        local
    }
}

impl Local {
    /// The operations that keep the rank from moving or ending. Removes abandoned requests from
    /// the state, so that each is returned once.
    pub(crate) fn pending(&self) -> Vec<CallSite> {
        self.with(|state| state.slots.pending().chain(state.abandoned.drain(..)).collect())
    }
}
