//! Waits for all of several operations.
//!
//! A task that waits for several operations keeps its waker in one of them, or in each. The search
//! for deadlocks takes operations with wakers as alternatives, since each may wake a task. A wait
//! here says that its task goes on only once all have ended.

use crate::ticket::Ticket;

/// The waits under way, with their numbers. The operations of each are in the order in which they
/// began.
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

    /// Notes a wait for all of these operations, of which none has ended. `None` if there are fewer
    /// than two.
    pub(super) fn begin(&mut self, mut tickets: Vec<Ticket>) -> Option<u64> {
        if tickets.len() < 2 {
            return None;
        }
        tickets.sort_unstable_by_key(|ticket| ticket.generation);
        self.last += 1;
        self.waits.push((self.last, tickets));
        Some(self.last)
    }

    pub(super) fn end(&mut self, number: u64) {
        self.waits.retain(|(other, _)| *other != number);
    }
}
