//! Copies of what was lent to other sites, which a node that runs dry works on itself.
//!
//! What a task takes is a guess, and a site may lend work that it would have done sooner than the
//! output can be back. So a node keeps what it lends to another site for a round trip, in which no
//! output can come. If it runs dry meanwhile, it runs the copies as *backup tasks* (Dean and
//! Ghemawat, MapReduce, OSDI 2004, section 3.6) while the other site works on what it was lent. The
//! output that comes first counts, and those who work on the other copy drop it (`lineage`).
//!
//! Backups are not lent to other sites, which have the other copy.

use super::lineage::{CopyId, LINEAGE_MAX, Via};
use super::order::Loan;
use gridspan_topology::{NodeId, Time};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Copies for which it is remembered to whom what came through them was lent, at most.
const TRACED_MAX: usize = 16 << 10;

/// What a node has lent to other sites. Its PEs and its steward share it.
#[derive(Default)]
pub(super) struct Backups(Mutex<Known>);

#[derive(Default)]
struct Known {
    loans: u64,
    /// No output of these can be back yet.
    young: BTreeMap<u64, Young>,
    /// Both copies of these are worked on, the other one by this node.
    doubled: BTreeMap<u64, NodeId>,
    /// The backups of these were done first; the other outputs may still come.
    over: BTreeSet<u64>,
    /// To whom work that has come through a copy was lent on.
    traces: BTreeMap<Via, BTreeSet<NodeId>>,
}

struct Young {
    to: NodeId,
    until: Time,
    /// As it would be lent to a node of this site.
    loan: Loan,
}

/// What an output of a copy means.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Settled {
    /// Whether it is the first of its loan.
    pub(super) counts: bool,
    /// The other copy, and the node that it was lent to.
    pub(super) superseded: Option<(NodeId, CopyId)>,
}

impl Backups {
    /// Keeps a copy of what `me` is about to lend to `to`, a node of another site, until the output
    /// could be back.
    pub(super) fn keep(&self, me: NodeId, to: NodeId, (now, until): (Time, Time), loan: &mut Loan) {
        let mut known = self.known();
        known.young.retain(|_, young| young.until > now);
        for &via in loan.lineage.iter().filter(|via| matches!(via, Via::Copy(..))) {
            if known.traces.len() < TRACED_MAX {
                known.traces.entry(via).or_default().insert(to);
            }
        }
        let number = known.loans;
        known.loans += 1;
        known.young.insert(number, Young { to, until, loan: loan.clone() });
        loan.mark(me, CopyId { loan: number, is_backup: false });
    }

    /// Whether there are copies to work on.
    pub(super) fn any(&self, now: Time) -> bool {
        self.known().young.values().any(|young| young.until > now)
    }

    /// Begins all that could be done before an output is back.
    pub(super) fn begin(&self, me: NodeId, now: Time) -> Vec<Loan> {
        let mut known = self.known();
        let young = std::mem::take(&mut known.young).into_iter();
        let begun: Vec<_> = young.filter(|(_, young)| young.until > now).collect();
        known.doubled.extend(begun.iter().map(|(number, young)| (*number, young.to)));
        let backup = |(number, Young { mut loan, .. }): (u64, Young)| {
            loan.mark(me, CopyId { loan: number, is_backup: true });
            loan
        };
        begun.into_iter().map(backup).collect()
    }

    /// An output of a copy has come.
    pub(super) fn settle(&self, CopyId { loan, is_backup }: CopyId) -> Settled {
        let mut known = self.known();
        let other = CopyId { loan, is_backup: !is_backup };
        known.young.remove(&loan);
        match known.doubled.remove(&loan) {
            Some(to) => {
                if is_backup {
                    known.over.insert(loan);
                }
                Settled { counts: true, superseded: Some((to, other)) }
            }
            // Without a backup there is one output.
            None => {
                let counts = !is_backup && !known.over.remove(&loan);
                Settled { counts, superseded: None }
            }
        }
    }

    /// Takes the nodes of other sites that were lent what had come through a copy.
    pub(super) fn take_trace(&self, via: Via) -> BTreeSet<NodeId> {
        self.known().traces.remove(&via).unwrap_or_default()
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Loan {
    /// Names the copy that it is, and has all that is spawned of it carry that name.
    fn mark(&mut self, lender: NodeId, copy: CopyId) {
        self.lender.copy = Some(copy);
        // Without a name it cannot be dropped, and runs to its end.
        if self.lineage.len() < LINEAGE_MAX {
            self.lineage.push(Via::Copy(lender, copy));
        }
    }

    /// Whether it is a backup, or a part of one.
    pub(super) fn is_backup(&self) -> bool {
        self.lineage.iter().any(|via| matches!(via, Via::Copy(_, copy) if copy.is_backup))
    }
}

#[cfg(test)]
mod tests {
    use super::super::frame::{FrameId, Frames, Lender};
    use super::*;
    use gridspan_topology::PeId;

    const ME: NodeId = NodeId(0);
    const FAR: NodeId = NodeId(9);

    fn lent(backups: &Backups, now: u64) -> CopyId {
        let frame: FrameId = Frames::<()>::default().reserve();
        let lender = Lender { pe: PeId(0), frame, child: 0, items: 1, copy: None };
        let mut loan = Loan { lender, lineage: Vec::new(), items: Vec::new().into() };
        backups.keep(ME, FAR, (Time(now), Time(now + 100)), &mut loan);
        let copy = loan.lender.copy.unwrap();
        assert_eq!(loan.lineage, [Via::Copy(ME, copy)]);
        copy
    }

    #[test]
    fn of_two_copies_the_first_output_counts_and_the_other_copy_is_dropped() {
        for is_backup_first in [false, true] {
            let backups = Backups::default();
            let copy = lent(&backups, 0);
            let loans = backups.begin(ME, Time(50));
            assert!(loans[0].is_backup() && !backups.any(Time(50)));
            let backup = loans[0].lender.copy.unwrap();
            let (first, second) = if is_backup_first { (backup, copy) } else { (copy, backup) };

            let superseded = Some((FAR, second));
            assert_eq!(backups.settle(first), Settled { counts: true, superseded });
            assert_eq!(backups.settle(second), Settled { counts: false, superseded: None });
        }
    }

    #[test]
    fn nothing_is_done_twice_after_a_round_trip() {
        let backups = Backups::default();
        let (old, young) = (lent(&backups, 0), lent(&backups, 60));
        let begun = backups.begin(ME, Time(100));
        assert_eq!(begun.len(), 1);
        assert_eq!(backups.settle(old), Settled { counts: true, superseded: None });
        assert!(backups.settle(young).superseded.is_some());
    }

    #[test]
    fn what_came_through_a_copy_is_followed_to_where_it_was_lent_on() {
        let backups = Backups::default();
        let via = Via::Copy(NodeId(5), CopyId { loan: 3, is_backup: false });
        let frame: FrameId = Frames::<()>::default().reserve();
        let lender = Lender { pe: PeId(0), frame, child: 0, items: 1, copy: None };
        let mut loan = Loan { lender, lineage: vec![via], items: Vec::new().into() };
        backups.keep(ME, FAR, (Time(0), Time(100)), &mut loan);

        assert_eq!(backups.take_trace(via), BTreeSet::from([FAR]));
        assert_eq!(backups.take_trace(via), BTreeSet::new());
    }
}
