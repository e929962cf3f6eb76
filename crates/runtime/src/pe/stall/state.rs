//! What a PE keeps to find a job that cannot go on.

use crate::address::id::ActorId;
use crate::message::pending_work::NAMED_MAX;
use crate::pe::current_handler::CurrentHandler;
use std::collections::BTreeSet;
use std::sync::Arc;

/// What every PE keeps.
#[derive(Default)]
pub(crate) struct Looks {
    /// The handler that it is inside of.
    pub(crate) current: Arc<CurrentHandler>,
    /// The coordinator's last question, while this PE has something to do.
    pub(crate) asked: Option<u64>,
    /// The same, for the driver, which knows what is on its way.
    pub(crate) order: Option<u64>,
    /// Some of the members that were sent something and do not exist.
    pub(crate) nobody: BTreeSet<ActorId>,
}

impl Looks {
    /// A message was for a member that does not exist.
    pub(crate) fn note_nobody(&mut self, id: ActorId) {
        if self.nobody.len() < NAMED_MAX {
            self.nobody.insert(id);
        }
    }
}
