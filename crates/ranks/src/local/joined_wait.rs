//! A wait for all of several operations, which a task holds while it waits.

use super::Local;
use crate::ticket::Ticket;
use std::sync::Arc;

/// A wait for all of several operations. Dropping it ends the wait.
pub(crate) struct JoinedWait {
    local: Arc<Local>,
    number: u64,
}

impl JoinedWait {
    /// Begins a wait, if at least two of these operations have not ended. Nothing but this wait
    /// may poll them.
    pub(crate) fn new(local: &Arc<Local>, mut tickets: Vec<Ticket>) -> Option<Self> {
        let number = local.with(|state| {
            tickets.retain(|ticket| !state.slots.is_done(*ticket));
            state.joined.begin(tickets)
        })?;
        Some(Self { local: local.clone(), number })
    }
}

impl Drop for JoinedWait {
    fn drop(&mut self) {
        self.local.with(|state| state.joined.end(self.number));
    }
}
