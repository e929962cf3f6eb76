//! State of the right to number the broadcasts of a collection. `coordinator/sequencer.rs`
//! describes how the right passes to a PE.

use gridspan_topology::PeId;
use serde::{Deserialize, Serialize};

/// Number of consecutive requests after which a PE gets the right, so that its third broadcast is
/// the first that it numbers itself.
const ROW_MIN: u64 = 2;
/// Maximum of that number, which doubles each time a PE has to return the right too soon.
const ROW_MAX: u64 = 64;

/// State of the right to number the broadcasts of a collection.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Sequencer {
    /// The PE that has the right, and whether the right was recalled.
    pub(crate) holder: Option<(PeId, bool)>,
    /// Number of times the right was granted.
    pub(crate) term: u64,
    /// Next broadcast number at the time of the last grant.
    pub(crate) granted: u64,
    /// The PE that made the last requests, and their number.
    pub(crate) row: Option<(PeId, u64)>,
    /// Number of consecutive requests after which a PE gets the right.
    pub(crate) row_min: u64,
}

impl Default for Sequencer {
    fn default() -> Self {
        Self { holder: None, term: 0, granted: 0, row: None, row_min: ROW_MIN }
    }
}

impl Sequencer {
    /// Whether a PE has the right.
    pub(crate) fn is_away(&self) -> bool {
        self.holder.is_some()
    }

    /// Notes a PE's request for a number. `is_alone`: no earlier request of the sender is in
    /// flight. A PE with several requests in flight gains nothing from the right, since the next of
    /// them would make the coordinator recall it.
    pub(crate) fn note(&mut self, from: PeId, is_alone: bool) {
        self.row = match self.row {
            _ if !is_alone => None,
            Some((pe, count)) if pe == from => Some((pe, count + 1)),
            _ => Some((from, 1)),
        };
    }

    /// Notes that the coordinator numbers a broadcast that it sends itself.
    pub(crate) fn break_row(&mut self) {
        self.row = None;
    }

    /// Grants the right to a PE if it has made enough consecutive requests; `next` is the next
    /// number. Returns the term.
    pub(crate) fn grant(&mut self, to: PeId, next: u64) -> Option<u64> {
        let is_earned = self.row.is_some_and(|(pe, row)| pe == to && row >= self.row_min);
        if !is_earned || self.is_away() {
            return None;
        }
        (self.holder, self.granted) = (Some((to, false)), next);
        self.term += 1;
        Some(self.term)
    }

    /// Returns the PE to ask for the right, and the term, unless it was asked before.
    pub(crate) fn recall(&mut self) -> Option<(PeId, u64)> {
        let (holder, is_recalled) = self.holder.as_mut()?;
        (!std::mem::replace(is_recalled, true)).then_some((*holder, self.term))
    }

    /// Takes the right back. Returns false if no PE has the right of this term.
    pub(crate) fn returned(&mut self, term: u64, next: u64) -> bool {
        if self.term != term || self.holder.take().is_none() {
            return false;
        }
        self.row = None;
        // Each number saved its sender a round trip, and taking the right back costs one.
        self.row_min = match next.saturating_sub(self.granted) >= self.row_min {
            true => ROW_MIN,
            false => ROW_MAX.min(2 * self.row_min),
        };
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pe_gets_the_right_after_consecutive_requests_and_later_after_a_useless_grant() {
        let mut sequencer = Sequencer::default();
        sequencer.note(PeId(4), true);
        assert_eq!(sequencer.grant(PeId(4), 1), None);
        sequencer.note(PeId(5), true);
        sequencer.note(PeId(4), true);
        assert_eq!(sequencer.grant(PeId(4), 3), None, "another PE has asked in between");
        sequencer.note(PeId(4), false);
        assert_eq!(sequencer.grant(PeId(4), 4), None, "an earlier request is in flight");
        (0..2).for_each(|_| sequencer.note(PeId(4), true));
        assert_eq!(sequencer.grant(PeId(4), 4), Some(1));
        assert_eq!(sequencer.recall(), Some((PeId(4), 1)));
        assert_eq!(sequencer.recall(), None, "it was recalled already");
        assert!(!sequencer.returned(2, 5) && sequencer.returned(1, 5));
        (0..3).for_each(|_| sequencer.note(PeId(4), true));
        assert_eq!(sequencer.grant(PeId(4), 8), None, "the first grant was useless");
        sequencer.note(PeId(4), true);
        assert_eq!(sequencer.grant(PeId(4), 9), Some(2));
        assert!(sequencer.returned(2, 1000));
        (0..2).for_each(|_| sequencer.note(PeId(4), true));
        assert_eq!(sequencer.grant(PeId(4), 1002), Some(3));
    }
}
