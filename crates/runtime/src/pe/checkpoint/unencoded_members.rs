//! The members of a checkpoint whose states are not encoded yet.

use crate::message::MemberImage;
use bytes::Bytes;

/// Members of one type whose states a checkpoint needs as they were when it was captured.
#[derive(Default)]
pub(crate) struct UnencodedMembers {
    /// By slot: a member whose state is not encoded, without that state.
    left: Vec<Option<MemberImage<()>>>,
    /// Number of members in `left`.
    count: usize,
    /// No slot below this one has a member in `left`.
    next: usize,
    /// Members that were encoded early, since they were about to change.
    encoded: Vec<MemberImage>,
    /// Whether a member may change before its state is encoded; for a planted fault.
    allows_changes: bool,
}

impl UnencodedMembers {
    /// The members in these slots, which increase.
    pub(crate) fn new(members: Vec<(u32, MemberImage<()>)>, allows_changes: bool) -> Self {
        let count = members.len();
        let mut left = Vec::new();
        for (slot, member) in members {
            left.resize_with(slot as usize, || None);
            left.push(Some(member));
        }
        Self { left, count, next: 0, encoded: Vec::new(), allows_changes }
    }

    /// Whether the state of the member in a slot has to be encoded before the member changes.
    #[inline]
    pub(crate) fn must_precede_change(&self, slot: u32) -> bool {
        self.count > 0 && !self.allows_changes && self.has(slot)
    }

    #[cold]
    fn has(&self, slot: u32) -> bool {
        self.left.get(slot as usize).is_some_and(Option::is_some)
    }

    /// Encodes the state of the member in a slot, unless that was done before.
    #[cold]
    pub(crate) fn encode(&mut self, slot: u32, state: impl FnOnce() -> Bytes) {
        if let Some(member) = self.take(slot) {
            self.encoded.push(member.with_state(state()));
        }
    }

    /// Whether any state is not encoded.
    pub(crate) fn is_any(&self) -> bool {
        self.count > 0
    }

    /// Removes and returns the first member that is left, and its slot.
    pub(crate) fn take_next(&mut self) -> Option<(u32, MemberImage<()>)> {
        while self.count > 0 {
            let slot = self.next as u32;
            self.next += 1;
            if let Some(member) = self.take(slot) {
                return Some((slot, member));
            }
        }
        None
    }

    fn take(&mut self, slot: u32) -> Option<MemberImage<()>> {
        let member = self.left.get_mut(slot as usize)?.take()?;
        self.count -= 1;
        if self.count == 0 {
            self.left = Vec::new();
        }
        Some(member)
    }

    /// Removes and returns the members that were encoded early.
    pub(crate) fn take_encoded(&mut self) -> Vec<MemberImage> {
        std::mem::take(&mut self.encoded)
    }
}
