//! What came before something that it needs: its receiver, or the description of its collection.

use super::kept::Kept;
use crate::envelope::AnyEnvelope;
use crate::id::KindId;
use crate::wire::Control;
use gridspan_topology::{PeId, Time};
use std::time::Duration;

/// How long messages wait for a member that nobody knows, in case its insertion is still on its way.
/// Longer than any detour over a wide-area link that is not considered lost.
pub(crate) const UNKNOWN_MEMBER_HOLD: Duration = Duration::from_secs(5);

/// A message that waits.
pub(crate) type KeptEnvelope = Kept<Box<dyn AnyEnvelope>>;

/// Messages that wait for their receiver to turn up.
pub(crate) struct Held {
    pub(crate) kind: KindId,
    pub(crate) deadline: Time,
    pub(crate) envelopes: Vec<KeptEnvelope>,
}

impl Held {
    /// Nothing yet.
    pub(crate) fn new(kind: KindId, now: Time) -> Self {
        Self { kind, deadline: now + UNKNOWN_MEMBER_HOLD, envelopes: Vec::new() }
    }

    pub(crate) fn push(&mut self, envelope: KeptEnvelope) {
        self.envelopes.push(envelope);
    }
}

/// What outran the description of its collection.
pub(crate) enum Early {
    Message(KindId, KeptEnvelope),
    Control(PeId, Kept<Box<Control>>),
}
