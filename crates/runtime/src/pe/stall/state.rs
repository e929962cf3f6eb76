//! State of a PE for the detection of stalls.

use crate::address::id::ActorId;
use crate::message::pending_work::NAMED_MAX;
use crate::pe::current_handler::CurrentHandler;
use std::collections::BTreeSet;
use std::sync::Arc;

/// State for a PE's answers about stalls.
#[derive(Default)]
pub(crate) struct Looks {
    /// The handler that the PE is running.
    pub(crate) current: Arc<CurrentHandler>,
    /// The coordinator's last round, until this PE is idle and passes it to the driver, which knows
    /// whether packets are in flight.
    pub(crate) asked: Option<u64>,
    /// Receivers of messages that did not exist, at most [`NAMED_MAX`] of them.
    pub(crate) absent_members: BTreeSet<ActorId>,
}

impl Looks {
    /// Notes that a message was sent to a member that does not exist.
    pub(crate) fn note_absent(&mut self, id: ActorId) {
        if self.absent_members.len() < NAMED_MAX {
            self.absent_members.insert(id);
        }
    }
}
