//! Waits for the end of several operations of which all must end.
//!
//! A task that waits for several operations keeps its waker in one of them only, or in each. The
//! search for deadlocks takes the operations that tasks await as alternatives, since each wakes a
//! task. Here a wait says that its task goes on only once all of them have ended.

use super::{Local, LocalState};
use crate::ticket::Ticket;
use std::sync::Arc;

/// The waits for several operations each, with their numbers. The operations are in the order in
/// which they have begun.
#[derive(Default)]
pub(crate) struct JoinedWaits {
    last: u64,
    waits: Vec<(u64, Vec<Ticket>)>,
}

impl JoinedWaits {
    /// The wait that contains this operation: its number, and its operations.
    pub(super) fn with(&self, ticket: Ticket) -> Option<(u64, &[Ticket])> {
        let has = |tickets: &[Ticket]| {
            tickets.binary_search_by_key(&ticket.generation, |other| other.generation).is_ok()
        };
        let (number, tickets) = self.waits.iter().find(|(_, tickets)| has(tickets))?;
        Some((*number, &tickets[..]))
    }
}

impl LocalState {
    /// Notes a wait for all of these operations. `None` if fewer than two of them have not ended.
    pub(super) fn join(&mut self, mut tickets: Vec<Ticket>) -> Option<u64> {
        tickets.retain(|ticket| !self.slots.is_done(*ticket));
        if tickets.len() < 2 {
            return None;
        }
        tickets.sort_unstable_by_key(|ticket| ticket.generation);
        self.joined.last += 1;
        let number = self.joined.last;
        self.joined.waits.push((number, tickets));
        Some(number)
    }
}

/// A wait for several operations of which all must end. Dropping it ends the wait.
pub(crate) struct JoinedWait {
    local: Arc<Local>,
    number: u64,
}

impl JoinedWait {
    /// Begins a wait, if at least two of these operations have not ended. Nothing but this wait
    /// may poll them.
    pub(crate) fn new(local: &Arc<Local>, tickets: Vec<Ticket>) -> Option<Self> {
        let number = local.with(|state| state.join(tickets))?;
        Some(Self { local: local.clone(), number })
    }
}

impl Drop for JoinedWait {
    fn drop(&mut self) {
        let number = self.number;
        self.local.with(|state| state.joined.waits.retain(|(other, _)| *other != number));
    }
}
