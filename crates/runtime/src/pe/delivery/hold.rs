//! What came before something that it needs: its receiver, or the description of its collection.

use super::budget::Accounted;
use crate::envelope::AnyEnvelope;
use crate::id::KindId;
use crate::payload::Payload;
use crate::wire::{Asked, Control};
use gridspan_topology::{PeId, Time};
use std::time::Duration;

/// How long home keeps messages for a member that it does not know, in case the insertion is still
/// on its way. Longer than any outage that a connection survives; quiescence drops them earlier.
pub(crate) const UNKNOWN_MEMBER_HOLD: Duration = Duration::from_secs(60);
/// How long other PEs keep messages for a member that should arrive, before they leave them to
/// home.
pub(crate) const DETOUR_HOLD: Duration = Duration::from_secs(5);

/// A message that waits.
pub(crate) type AccountedEnvelope = Accounted<Box<dyn AnyEnvelope>>;

/// A broadcast that waits: who asked, message, and priority.
pub(crate) type AccountedBroadcast = Accounted<(Asked, Payload, i32)>;

/// Messages that wait for their receiver to turn up.
pub(crate) struct Held {
    pub(crate) kind: KindId,
    pub(crate) deadline: Time,
    pub(crate) envelopes: Vec<AccountedEnvelope>,
    /// How many of them this PE has reported to the root as stranded, from the first on.
    pub(crate) reported: usize,
}

impl Held {
    /// Nothing yet.
    pub(crate) fn new(kind: KindId, deadline: Time) -> Self {
        Self { kind, deadline, envelopes: Vec::new(), reported: 0 }
    }

    pub(crate) fn push(&mut self, envelope: AccountedEnvelope) {
        self.envelopes.push(envelope);
    }
}

/// What outran the description of its collection.
pub(crate) enum Early {
    Message(KindId, AccountedEnvelope),
    Control(PeId, Accounted<Box<Control>>),
}
