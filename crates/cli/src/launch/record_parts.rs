//! The parts of a recording that the process of a node may send, and has sent.

use gridspan::control::RecordedPart;
use std::collections::BTreeSet;
use std::ops::Range;

/// The parts that the processes of one node have sent.
#[derive(Clone, Debug)]
pub(super) struct NodeParts {
    pes: Range<u32>,
    /// The PEs that have not sent their last part.
    awaited: BTreeSet<u32>,
    /// Bytes that the present process has sent.
    received: u64,
    /// Whether a process of the node has taken part in a run.
    has_run: bool,
    /// Whether another process took part in a run before the present one.
    is_later: bool,
    /// Whether an earlier process has sent all parts.
    has_file: bool,
}

/// What to do with a part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Received {
    /// It is invalid, or exceeds the limit.
    Refused,
    /// It is valid, and the node has more parts to send.
    Added,
    /// It is the last one of the node.
    Completed,
}

impl NodeParts {
    /// A node with these PEs that has sent nothing.
    pub(super) fn new(pes: Range<u32>) -> Self {
        let awaited = pes.clone().collect();
        Self { pes, awaited, received: 0, has_run: false, is_later: false, has_file: false }
    }

    /// Receives a part with this number of bytes. All parts together may have `most` bytes.
    pub(super) fn receive(&mut self, part: &RecordedPart, bytes: u64, most: u64) -> Received {
        self.received = self.received.saturating_add(bytes);
        if !self.awaited.contains(&part.pe) || self.received > most {
            return Received::Refused;
        }
        if part.is_last {
            self.awaited.remove(&part.pe);
        }
        match self.awaited.is_empty() {
            true => Received::Completed,
            false => Received::Added,
        }
    }

    /// Notes that the process of the node takes part in a run.
    pub(super) fn note_run(&mut self) {
        self.has_run = true;
    }

    /// Notes that another process of the node starts, which sends the parts of all PEs again.
    pub(super) fn begin_again(&mut self) {
        let is_later = self.is_later || self.has_run;
        let has_file = self.has_file || !self.is_open();
        *self = Self { is_later, has_file, ..Self::new(self.pes.clone()) };
    }

    /// Whether the present process has not sent all parts.
    pub(super) fn is_open(&self) -> bool {
        !self.awaited.is_empty()
    }

    /// Whether no process has sent all parts.
    pub(super) fn is_missing(&self) -> bool {
        self.is_open() && !self.has_file
    }

    /// Whether only the last of several processes has sent its parts.
    pub(super) fn is_partial(&self) -> bool {
        self.is_later && !self.is_missing()
    }
}

#[cfg(test)]
mod tests {
    use super::{NodeParts, Received};
    use gridspan::control::RecordedPart;

    fn part(pe: u32, is_last: bool) -> RecordedPart {
        RecordedPart { pe, is_last, text: String::new() }
    }

    #[test]
    fn a_node_is_complete_when_all_its_pes_have_told_their_last_part_once() {
        let mut parts = NodeParts::new(2..4);
        let mut receive = |pe, is_last| parts.receive(&part(pe, is_last), 10, 1000);
        assert_eq!(receive(2, false), Received::Added);
        assert_eq!(receive(2, true), Received::Added);
        assert_eq!(receive(2, true), Received::Refused, "it has sent its last part");
        assert_eq!(receive(4, true), Received::Refused, "it is a PE of another node");
        assert_eq!(receive(3, true), Received::Completed);
        assert_eq!(receive(3, true), Received::Refused);
        assert!(!parts.is_missing() && !parts.is_partial());
    }

    #[test]
    fn more_than_a_node_may_tell_is_refused() {
        let mut parts = NodeParts::new(0..1);
        assert_eq!(parts.receive(&part(0, false), 60, 100), Received::Added);
        assert_eq!(parts.receive(&part(0, true), 60, 100), Received::Refused);
        assert!(parts.is_missing());
    }

    #[test]
    fn a_process_that_is_started_again_tells_everything_once_more() {
        let mut parts = NodeParts::new(0..1);
        parts.begin_again();
        assert!(!parts.is_later, "no process has run before");
        parts.note_run();
        assert_eq!(parts.receive(&part(0, false), 60, 100), Received::Added);

        parts.begin_again();
        parts.note_run();

        assert!(parts.is_missing());
        assert_eq!(parts.receive(&part(0, true), 60, 100), Received::Completed);
        assert!(parts.is_partial() && !parts.is_missing());

        parts.begin_again();
        assert!(parts.is_open() && parts.is_partial(), "the file of the process before is there");
    }
}
