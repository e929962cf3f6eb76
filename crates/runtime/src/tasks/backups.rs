//! Copies of what was lent to other sites, which a node that runs dry works on itself.
//!
//! What a task takes is a guess, and a site may lend work that it would have done sooner than the
//! output can be back. So a node keeps what it lends to another site for a round trip, in which no
//! output can come. If it runs dry meanwhile, it runs the copies as *backup tasks* (Dean and
//! Ghemawat, MapReduce, OSDI 2004, section 3.6) while the other site works on what it was lent. The
//! output that comes first counts, and those who work on the other copy drop it (`lineage`).
//!
//! Backups are not lent to other sites, which have the other copy.

use super::lineage::{LINEAGE_MAX, Via};
use super::message::Loan;
use crate::message::steal_agent::CopyId;
use gridspan_topology::{NodeId, Time};
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Guests and copies for which it is remembered to whom work that came through them was passed on,
/// at most. What came through an older one runs to its end if nobody waits for it.
const PASSED_MAX: usize = 16 << 10;

/// What a node has lent to other sites. Its PEs and its agent share it.
#[derive(Default)]
pub(super) struct Backups(Mutex<Known>);

#[derive(Default)]
struct Known {
    /// How many loans there have been.
    loans: u64,
    /// Those of which no output has come.
    lent: BTreeMap<u64, Lent>,
    /// Copies of those of which no output can be back yet, as they would be lent to a node of this
    /// site, by the time when it could.
    young: BTreeMap<(Time, u64), Loan>,
    /// The loans, among those of which no output has come, that have come through each of these.
    through: BTreeMap<Via, BTreeSet<u64>>,
    passed: Passed,
}

struct Lent {
    to: NodeId,
    /// When an output could be back.
    until: Time,
    /// Whether this node works on a copy.
    is_doubled: bool,
    lineage: Vec<Via>,
}

/// To whom this node has passed on what others had lent to it. It does not hear when that is done.
#[derive(Default)]
struct Passed {
    to: BTreeMap<Via, BTreeSet<NodeId>>,
    /// Those that were there first.
    order: VecDeque<Via>,
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
        known.expire(now);
        let number = known.loans;
        known.loans += 1;
        let lineage = loan.lineage.clone();
        for &via in &lineage {
            known.through.entry(via).or_default().insert(number);
        }
        known.lent.insert(number, Lent { to, until, is_doubled: false, lineage });
        known.young.insert((until, number), loan.clone());
        loan.mark(me, CopyId { loan: number, is_backup: false });
    }

    /// A loan of another node goes on to `to`, a node of another site.
    pub(super) fn note_passed(&self, to: NodeId, loan: &Loan) {
        let mut known = self.known();
        loan.lineage.iter().for_each(|&via| known.passed.note(via, to));
    }

    /// Whether there are copies to work on.
    pub(super) fn any(&self, now: Time) -> bool {
        self.known().young.last_key_value().is_some_and(|(&(until, _), _)| until > now)
    }

    /// Begins all that could be done before an output is back.
    pub(super) fn begin(&self, me: NodeId, now: Time) -> Vec<Loan> {
        let mut known = self.known();
        known.expire(now);
        let young: BTreeMap<u64, Loan> = std::mem::take(&mut known.young)
            .into_iter()
            .map(|((_, number), loan)| (number, loan))
            .collect();
        let backup = |(number, mut loan): (u64, Loan)| {
            known.lent.get_mut(&number)?.is_doubled = true;
            loan.mark(me, CopyId { loan: number, is_backup: true });
            Some(loan)
        };
        young.into_iter().filter_map(backup).collect()
    }

    /// An output of a copy has come.
    pub(super) fn settle(&self, CopyId { loan, is_backup }: CopyId) -> Settled {
        let mut known = self.known();
        // Without a backup there is one output, and of two the second does not count.
        let is_expected = known.lent.get(&loan).is_some_and(|lent| lent.is_doubled || !is_backup);
        match is_expected.then(|| known.remove(loan)).flatten() {
            Some(Lent { to, is_doubled, .. }) => {
                let other = CopyId { loan, is_backup: !is_backup };
                Settled { counts: true, superseded: is_doubled.then_some((to, other)) }
            }
            None => Settled { counts: false, superseded: None },
        }
    }

    /// Nobody waits for what has come through this. Returns the nodes of other sites that work on
    /// some of it for this node, or for whom it was passed on.
    pub(super) fn forget(&self, via: Via) -> BTreeSet<NodeId> {
        let mut known = self.known();
        let mut to = known.passed.take(via);
        for number in known.through.remove(&via).unwrap_or_default() {
            to.extend(known.remove(number).map(|lent| lent.to));
        }
        to
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Known {
    /// Drops copies of which an output can be back.
    fn expire(&mut self, now: Time) {
        while let Some(oldest) = self.young.first_entry()
            && oldest.key().0 <= now
        {
            oldest.remove();
        }
    }

    /// Removes a loan of which no more outputs count.
    fn remove(&mut self, number: u64) -> Option<Lent> {
        let lent = self.lent.remove(&number)?;
        self.young.remove(&(lent.until, number));
        for via in &lent.lineage {
            if let Entry::Occupied(mut loans) = self.through.entry(*via) {
                loans.get_mut().remove(&number);
                if loans.get().is_empty() {
                    loans.remove();
                }
            }
        }
        Some(lent)
    }
}

impl Passed {
    fn note(&mut self, via: Via, to: NodeId) {
        self.to
            .entry(via)
            .or_insert_with(|| {
                self.order.push_back(via);
                BTreeSet::new()
            })
            .insert(to);
        if self.order.len() > PASSED_MAX
            && let Some(oldest) = self.order.pop_front()
        {
            self.to.remove(&oldest);
        }
    }

    fn take(&mut self, via: Via) -> BTreeSet<NodeId> {
        self.to.remove(&via).unwrap_or_default()
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
        self.lineage.iter().any(Via::is_backup)
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

    const VIA: Via = Via::Copy(NodeId(5), CopyId { loan: 3, is_backup: false });

    fn loan_through(via: Via) -> Loan {
        let frame: FrameId = Frames::<()>::default().reserve();
        let lender = Lender { pe: PeId(0), frame, child: 0, items: 1, copy: None };
        Loan { lender, lineage: vec![via], items: Vec::new().into() }
    }

    #[test]
    fn what_came_through_a_copy_is_followed_to_where_it_is_worked_on() {
        let backups = Backups::default();
        let times = (Time(0), Time(100));
        backups.keep(ME, FAR, times, &mut loan_through(VIA));
        let mut done = loan_through(VIA);
        backups.keep(ME, NodeId(10), times, &mut done);
        assert!(backups.settle(done.lender.copy.unwrap()).counts);
        backups.note_passed(NodeId(11), &loan_through(VIA));

        assert_eq!(backups.forget(VIA), BTreeSet::from([FAR, NodeId(11)]));
        assert_eq!(backups.forget(VIA), BTreeSet::new());
        // Nobody waits for it, here as elsewhere.
        assert!(backups.begin(ME, Time(0)).is_empty());
    }

    #[test]
    fn nothing_is_remembered_of_what_is_done() {
        let backups = Backups::default();
        for now in 0..1000 {
            let mut loan = loan_through(VIA);
            backups.keep(ME, FAR, (Time(now), Time(now + 100)), &mut loan);
            backups.begin(ME, Time(now));
            assert!(backups.settle(loan.lender.copy.unwrap()).counts);
        }
        for loan in 0..2 * PASSED_MAX as u64 {
            let via = Via::Copy(NodeId(5), CopyId { loan, is_backup: false });
            backups.note_passed(FAR, &loan_through(via));
            backups.forget(via);
        }
        let known = backups.known();
        assert_eq!((known.lent.len(), known.young.len(), known.through.len()), (0, 0, 0));
        assert_eq!(known.passed.to.len(), 0);
        assert!(known.passed.order.len() <= PASSED_MAX);
    }
}
