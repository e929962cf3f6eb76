//! What involves many PEs at once. PE 0 is the root of all of it.

mod broadcast;
mod create;
mod quiescence;
mod reduction;
mod root;
mod sync;

pub(super) use broadcast::Broadcasts;
pub(super) use reduction::{Accumulator, GroupState};
pub(super) use root::Root;

use crate::envelope::AnyEnvelope;
use crate::id::KindId;
use gridspan_topology::Time;

/// Messages that wait for their receiver to turn up.
pub(super) struct Held {
    pub(super) kind: KindId,
    pub(super) deadline: Time,
    pub(super) envelopes: Vec<Box<dyn AnyEnvelope>>,
}

impl Held {
    pub(super) fn new(kind: KindId, deadline: Time) -> Self {
        Self { kind, deadline, envelopes: Vec::new() }
    }

    pub(super) fn push(&mut self, envelope: Box<dyn AnyEnvelope>) {
        self.envelopes.push(envelope);
    }
}
