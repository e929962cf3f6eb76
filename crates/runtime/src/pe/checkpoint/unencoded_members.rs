//! The members of a checkpoint whose states are not encoded yet.

use crate::message::MemberImage;
use crate::pe::members::member::Member;
use bytes::Bytes;
use std::collections::BTreeMap;

/// The encoded messages that wait for members, by slot; each with its priority.
pub(crate) type Mailboxes = BTreeMap<u32, Vec<(i32, Bytes)>>;

/// Members of one type of which a checkpoint needs the state at the time of its capture.
///
/// The capture only notes their slots, so that it takes little time even for a million of them. The
/// image of a member is made when the member is about to change, or when the PE gets to it.
#[derive(Default)]
pub(crate) struct UnencodedMembers {
    /// A bit for each slot, 64 in an element: whether it has a member that is not encoded.
    left: Vec<u64>,
    /// Number of bits that are set in `left`.
    count: usize,
    /// No element of `left` before this one has a bit that is set.
    next: usize,
    mailboxes: Mailboxes,
    /// Members that were encoded early, since they were about to change.
    encoded: Vec<MemberImage>,
    /// Whether a member may change before its state is encoded; for a planted fault.
    allows_changes: bool,
}

impl UnencodedMembers {
    /// All members of a type with this number of slots, of which some are free.
    pub(crate) fn new(
        slots: usize,
        free: &[u32],
        mailboxes: Mailboxes,
        allows_changes: bool,
    ) -> Self {
        let mut left = vec![u64::MAX; slots.div_ceil(64)];
        if let Some(last) = left.last_mut().filter(|_| !slots.is_multiple_of(64)) {
            *last = (1 << (slots % 64)) - 1;
        }
        let mut members = Self { left, count: slots, mailboxes, allows_changes, ..Self::default() };
        free.iter().for_each(|&slot| _ = members.take(slot));
        members
    }

    /// Whether the member in a slot has to be encoded before it changes.
    #[inline]
    pub(crate) fn must_precede_change(&self, slot: u32) -> bool {
        self.count > 0 && !self.allows_changes && self.has(slot)
    }

    #[cold]
    fn has(&self, slot: u32) -> bool {
        let (element, bit) = position(slot);
        self.left.get(element).is_some_and(|bits| bits & bit > 0)
    }

    /// Notes a member that was encoded early, in this slot.
    pub(crate) fn add_encoded(&mut self, slot: u32, member: &Member, state: Bytes) {
        if self.take(slot) {
            let image = self.image(slot, member).with_state(state);
            self.encoded.push(image);
        }
    }

    /// Whether any member is not encoded.
    pub(crate) fn is_any(&self) -> bool {
        self.count > 0
    }

    /// Removes and returns the first slot that is left.
    pub(crate) fn take_next(&mut self) -> Option<u32> {
        while self.count > 0 {
            match self.left.get(self.next)?.trailing_zeros() {
                64 => self.next += 1,
                bit => {
                    let slot = (self.next * 64) as u32 + bit;
                    self.take(slot);
                    return Some(slot);
                }
            }
        }
        None
    }

    /// Removes a slot. Returns whether it was left.
    fn take(&mut self, slot: u32) -> bool {
        if !self.has(slot) {
            return false;
        }
        let (element, bit) = position(slot);
        self.left[element] &= !bit;
        self.count -= 1;
        true
    }

    /// Returns the image of a member in a slot, without its state. Its mailbox is removed.
    pub(crate) fn image(&mut self, slot: u32, member: &Member) -> MemberImage<()> {
        let sections = member.channels.as_deref().map(|channels| &channels.section_reductions);
        MemberImage {
            id: member.id,
            state: (),
            mailbox: self.mailboxes.remove(&slot).unwrap_or_default(),
            reductions: member.reductions,
            section_reductions: sections
                .map(|sections| sections.iter().map(|(&section, &next)| (section, next)).collect())
                .unwrap_or_default(),
            syncs: member.syncs,
            synced: member.synced,
        }
    }

    /// Removes and returns the members that were encoded early.
    pub(crate) fn take_encoded(&mut self) -> Vec<MemberImage> {
        std::mem::take(&mut self.encoded)
    }
}

/// The element and the bit of a slot.
fn position(slot: u32) -> (usize, u64) {
    (slot as usize / 64, 1 << (slot % 64))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_slots_of_members_come_in_order_without_free_ones() {
        let mut members = UnencodedMembers::new(131, &[0, 64, 130], Mailboxes::new(), false);
        assert!(!members.must_precede_change(64));
        assert!(members.must_precede_change(129));
        assert!(!members.must_precede_change(131), "it was created after the capture");
        assert!(members.take(70), "it changes early");

        let slots: Vec<u32> = std::iter::from_fn(|| members.take_next()).collect();
        let expected: Vec<u32> = (0..131).filter(|slot| ![0, 64, 70, 130].contains(slot)).collect();

        assert_eq!(slots, expected);
        assert!(!members.is_any());
        assert!(!members.must_precede_change(129));
    }

    #[test]
    fn a_number_of_slots_that_fills_its_elements_has_no_others() {
        let mut members = UnencodedMembers::new(64, &[], Mailboxes::new(), false);
        assert_eq!(std::iter::from_fn(|| members.take_next()).count(), 64);
        assert_eq!(UnencodedMembers::new(0, &[], Mailboxes::new(), false).take_next(), None);
    }
}
