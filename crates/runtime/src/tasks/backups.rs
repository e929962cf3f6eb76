//! Copies of loans to other sites, which a node runs itself when it has no other tasks.
//!
//! The time that a task takes is an estimate, so a site may lend work that it could finish before
//! the output comes back. Therefore a node keeps a copy of each loan to another site for a round
//! trip, in which no output can come. If it has no other tasks meanwhile, it runs the copies as
//! *backup tasks* (Dean and Ghemawat, MapReduce, OSDI 2004, section 3.6) while the other site works
//! on the loan. The first output counts, and the nodes that work on the other copy drop it
//! (`lineage`).
//!
//! Backups are not lent to other sites, which have the other copy.
//!
//! In a job that goes on without lost founders (nodes with which it began), a node keeps a copy of
//! every loan to a founder until its output has come, in the limited log of the node
//! (`pe/membership/loan_log.rs`). If the founder is lost, the loan is *recalled*: it is forgotten,
//! so that no later output of it counts, and its tasks run again. A loan whose backup runs here is
//! not recalled.
//!
//! Backups and recalled loans are marked as [repetitions](super::lineage::Repeats). Their tasks see
//! a worse value of the pool's bound than other tasks (`bound`).

use super::lineage::{LINEAGE_MAX, Via};
use super::message::Loan;
use crate::message::steal_agent::CopyId;
use crate::pe::{LoanEntry, LoanLog};
use bytes::Bytes;
use gridspan_topology::{NodeId, Time};
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Maximum number of guests and copies in [`Passed`], which forgets the oldest ones beyond it. Work
/// that came through a forgotten one, and was passed on, runs to its end even if no frame waits for
/// it.
const PASSED_MAX: usize = 16 << 10;

/// The loans of a node to other sites and, if they can be recalled, to founders of its site. The
/// PEs and the agent of the node share them.
#[derive(Default)]
pub(super) struct Backups(Mutex<Known>);

#[derive(Default)]
struct Known {
    /// Number of loans so far.
    loans: u64,
    /// The loans without an output yet.
    lent: BTreeMap<u64, Lent>,
    /// Copies of the loans of which no output can be back yet, by the time at which one could be
    /// back. The copies are not [marked](Loan::mark).
    young: BTreeMap<(Time, u64), Loan>,
    /// For each guest or copy, the loans without an output that have come through it.
    through: BTreeMap<Via, BTreeSet<u64>>,
    passed: Passed,
}

struct Lent {
    to: NodeId,
    /// Time at which an output could be back, if the loan went to another site.
    until: Option<Time>,
    /// Whether this node works on a copy.
    is_doubled: bool,
    lineage: Vec<Via>,
    /// A copy of the loan, if the loan is to be recalled after a loss.
    recallable: Option<Recallable>,
}

/// A copy of a loan that is not marked.
struct Recallable {
    /// The loan without its items.
    loan: Loan,
    /// Its items, unless the log has dropped them.
    items: LoanEntry,
}

impl Recallable {
    fn new(log: &Arc<LoanLog>, to: NodeId, loan: &Loan) -> Self {
        let items = log.enter(to, loan.bytes(), loan.items.clone());
        Self { loan: Loan { items: Bytes::new(), ..loan.clone() }, items }
    }

    /// The loan with its items.
    fn take(self) -> Option<Loan> {
        let items = self.items.take()?;
        Some(Loan { items, ..self.loan })
    }
}

/// The nodes to which this node has passed on loans of others, by the guests and copies that the
/// loans have come through. This node does not learn when these loans are done.
#[derive(Default)]
struct Passed {
    /// For each guest or copy, the number of its entry in `order`, and the nodes.
    to: BTreeMap<Via, (u64, BTreeSet<NodeId>)>,
    /// The guests and copies, oldest first.
    order: BTreeMap<u64, Via>,
    /// The next number in `order`.
    next: u64,
}

/// The effect of an output of a copy.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Settled {
    /// Whether it is the first output of its loan.
    pub(super) counts: bool,
    /// The other copy, which must be dropped, and the node that received the loan.
    pub(super) superseded: Option<(NodeId, CopyId)>,
}

impl Backups {
    /// Keeps a copy of the loan that `me` is about to make to `to`, a node of another site, until
    /// an output could be back, and marks the loan.
    pub(super) fn keep(&self, me: NodeId, to: NodeId, (now, until): (Time, Time), loan: &mut Loan) {
        self.enter(me, (to, None), (now, Some(until)), loan);
    }

    /// Keeps a copy of the loan that `me` is about to make to the founder `to` in a log until its
    /// output has come, and marks the loan. `until`: when an output could be back, if `to` is at
    /// another site.
    pub(super) fn keep_for_recall(
        &self,
        log: &Arc<LoanLog>,
        (me, to): (NodeId, NodeId),
        (now, until): (Time, Option<Time>),
        loan: &mut Loan,
    ) {
        let recallable = Recallable::new(log, to, loan);
        self.enter(me, (to, Some(recallable)), (now, until), loan);
    }

    fn enter(
        &self,
        me: NodeId,
        (to, recallable): (NodeId, Option<Recallable>),
        (now, until): (Time, Option<Time>),
        loan: &mut Loan,
    ) {
        let mut known = self.known();
        known.expire(now);
        let number = known.loans;
        known.loans += 1;
        let lineage = loan.lineage.clone();
        for &via in &lineage {
            known.through.entry(via).or_default().insert(number);
        }
        known.lent.insert(number, Lent { to, until, is_doubled: false, lineage, recallable });
        if let Some(until) = until {
            known.young.insert((until, number), loan.clone());
        }
        loan.mark(me, CopyId { loan: number, is_backup: false });
    }

    /// Forgets the loans to a lost founder, so that their outputs do not count, and returns them,
    /// oldest first, for their tasks to run again as repetitions.
    pub(super) fn recall(&self, lost: NodeId) -> Vec<Loan> {
        let mut known = self.known();
        let is_owed = |lent: &Lent| lent.to == lost && !lent.is_doubled;
        let owed: Vec<u64> = known
            .lent
            .iter()
            .filter(|(_, lent)| is_owed(lent))
            .map(|(&number, _)| number)
            .collect();
        let again = |number| {
            let mut loan = known.remove(number)?.recallable?.take()?;
            loan.repeats.is_rerun = true;
            Some(loan)
        };
        owed.into_iter().filter_map(again).collect()
    }

    /// Forgets the loans of tasks that a lost founder has lent, because no frame waits for them.
    pub(super) fn forget_lender(&self, lost: NodeId) {
        let vias = {
            let known = self.known();
            let [first, last] = [(0, false), (u64::MAX, true)]
                .map(|(loan, is_backup)| Via::Copy(lost, CopyId { loan, is_backup }));
            known.through.range(first..=last).map(|(&via, _)| via).collect::<Vec<Via>>()
        };
        vias.into_iter().for_each(|via| drop(self.forget(via)));
    }

    /// Notes that a loan of another node is passed on to `to`, a node of another site.
    pub(super) fn note_passed(&self, to: NodeId, loan: &Loan) {
        let mut known = self.known();
        loan.lineage.iter().for_each(|&via| known.passed.note(via, to));
    }

    /// Whether there are copies of loans of which no output can be back yet.
    pub(super) fn any(&self, now: Time) -> bool {
        self.known().young.last_key_value().is_some_and(|(&(until, _), _)| until > now)
    }

    /// Returns backups of all loans of which no output can be back yet, for the node to run.
    pub(super) fn begin(&self, me: NodeId, now: Time) -> Vec<Loan> {
        let mut known = self.known();
        known.expire(now);
        let young: BTreeMap<u64, Loan> = std::mem::take(&mut known.young)
            .into_iter()
            .map(|((_, number), loan)| (number, loan))
            .collect();
        let backup = |(number, mut loan): (u64, Loan)| {
            let lent = known.lent.get_mut(&number)?;
            // The log need not have its tasks any longer, since it is not recalled.
            (lent.is_doubled, lent.recallable) = (true, None);
            loan.mark(me, CopyId { loan: number, is_backup: true });
            Some(loan)
        };
        young.into_iter().filter_map(backup).collect()
    }

    /// Settles a loan when an output of one of its copies has come.
    pub(super) fn settle(&self, CopyId { loan, is_backup }: CopyId) -> Settled {
        let mut known = self.known();
        // Without a backup only the loan itself has an output, and of two outputs the second does
        // not count.
        let is_expected = known.lent.get(&loan).is_some_and(|lent| lent.is_doubled || !is_backup);
        match is_expected.then(|| known.remove(loan)).flatten() {
            Some(Lent { to, is_doubled, .. }) => {
                let other = CopyId { loan, is_backup: !is_backup };
                Settled { counts: true, superseded: is_doubled.then_some((to, other)) }
            }
            None => Settled { counts: false, superseded: None },
        }
    }

    /// Forgets a loan that does not leave after all.
    pub(super) fn withdraw(&self, copy: CopyId) {
        self.known().remove(copy.loan);
    }

    /// Forgets the loans that have come through `via`, because no frame waits for them. Returns the
    /// nodes of other sites that work on some of them for this node, or to which they were passed
    /// on.
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
    /// Drops the copies of loans of which an output can be back.
    fn expire(&mut self, now: Time) {
        while let Some(oldest) = self.young.first_entry()
            && oldest.key().0 <= now
        {
            oldest.remove();
        }
    }

    /// Removes a loan, so that further outputs do not count.
    fn remove(&mut self, number: u64) -> Option<Lent> {
        let lent = self.lent.remove(&number)?;
        if let Some(until) = lent.until {
            self.young.remove(&(until, number));
        }
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
        let number = self.next;
        let (_, nodes) = self.to.entry(via).or_insert_with(|| {
            self.order.insert(number, via);
            self.next += 1;
            (number, BTreeSet::new())
        });
        nodes.insert(to);
        if self.order.len() > PASSED_MAX
            && let Some((_, oldest)) = self.order.pop_first()
        {
            self.to.remove(&oldest);
        }
    }

    fn take(&mut self, via: Via) -> BTreeSet<NodeId> {
        let Some((number, to)) = self.to.remove(&via) else { return BTreeSet::new() };
        self.order.remove(&number);
        to
    }
}

impl Loan {
    /// Marks the loan as this copy, and makes all tasks spawned from it carry the mark.
    fn mark(&mut self, lender: NodeId, copy: CopyId) {
        self.lender.copy = Some(copy);
        self.repeats.is_backup |= copy.is_backup;
        // Without the mark in its lineage the loan cannot be dropped, and runs to its end.
        if self.lineage.len() < LINEAGE_MAX {
            self.lineage.push(Via::Copy(lender, copy));
        }
    }

    /// Whether the loan is a backup, or a part of one.
    pub(super) fn is_backup(&self) -> bool {
        self.repeats.is_backup
    }
}

#[cfg(test)]
mod tests {
    use super::super::deques::Deques;
    use super::super::frame::{FrameId, Frames, Lender};
    use super::super::lineage::Repeats;
    use super::*;
    use crate::pe::LoanLogs;
    use gridspan_topology::PeId;

    const ME: NodeId = NodeId(0);
    const FAR: NodeId = NodeId(9);

    fn lent(backups: &Backups, now: u64) -> CopyId {
        let frame: FrameId = Frames::<()>::default().reserve();
        let lender = Lender { pe: PeId(0), frame, child: 0, items: 1, copy: None };
        let (lineage, repeats) = (Vec::new(), Repeats::default());
        let mut loan = Loan { lender, lineage, repeats, items: Vec::new().into() };
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
    fn no_backup_of_a_loan_begins_after_its_round_trip() {
        let backups = Backups::default();
        let (old, young) = (lent(&backups, 0), lent(&backups, 60));
        let begun = backups.begin(ME, Time(100));
        assert_eq!(begun.len(), 1);
        assert_eq!(backups.settle(old), Settled { counts: true, superseded: None });
        assert!(backups.settle(young).superseded.is_some());
    }

    #[test]
    fn the_output_of_a_recalled_loan_does_not_count() {
        let backups = Backups::default();
        let near = NodeId(1);
        let mut loan = loan_through(VIA);
        let log = log_of(10_000);
        backups.keep_for_recall(&log, (ME, near), (Time(0), None), &mut loan);
        let mut other = loan_through(VIA);
        backups.keep_for_recall(&log, (ME, FAR), (Time(0), Some(Time(100))), &mut other);
        assert!(backups.recall(NodeId(2)).is_empty());

        let recalled = backups.recall(near);

        assert_eq!(recalled.len(), 1);
        assert_eq!((recalled[0].lender.copy, &recalled[0].lineage[..]), (None, &[VIA][..]));
        assert_eq!(recalled[0].repeats, Repeats { is_backup: false, is_rerun: true });
        assert_eq!([&loan, &other].map(|loan| loan.repeats), [Repeats::default(); 2]);
        let settle = |loan: &Loan| backups.settle(loan.lender.copy.unwrap()).counts;
        assert!(!settle(&loan) && settle(&other) && !settle(&other));
        assert!(backups.recall(near).is_empty() && backups.recall(FAR).is_empty());
    }

    #[test]
    fn a_backup_is_marked_though_its_lineage_has_no_room() {
        let backups = Backups::default();
        let mut loan = loan_through(VIA);
        loan.lineage = vec![VIA; LINEAGE_MAX];
        backups.keep(ME, FAR, (Time(0), Time(100)), &mut loan);
        let backup = backups.begin(ME, Time(50)).pop().unwrap();
        assert_eq!((loan.lineage.len(), backup.lineage.len()), (LINEAGE_MAX, LINEAGE_MAX));
        assert!(backup.is_backup() && !loan.is_backup());
    }

    #[test]
    fn a_loan_whose_backup_runs_here_is_not_recalled() {
        let backups = Backups::default();
        let mut loan = loan_through(VIA);
        // The log has no room for its tasks, but no node needs them from the log.
        let log = log_of(0);
        backups.keep_for_recall(&log, (ME, FAR), (Time(0), Some(Time(100))), &mut loan);
        assert_eq!(log.spare(FAR), 1);
        let backup = backups.begin(ME, Time(50)).pop().unwrap();
        assert_eq!(log.spare(FAR), 0);
        assert!(backups.recall(FAR).is_empty());
        assert!(backups.settle(backup.lender.copy.unwrap()).counts);
    }

    #[test]
    fn the_log_forgets_a_loan_with_its_output_and_with_its_pool() {
        let (backups, log) = (Backups::default(), log_of(0));
        let mut loan = loan_through(VIA);
        backups.keep_for_recall(&log, (ME, FAR), (Time(0), None), &mut loan);
        backups.keep_for_recall(&log, (ME, FAR), (Time(0), None), &mut loan_through(VIA));
        assert_eq!(log.spare(FAR), 2);
        assert!(backups.settle(loan.lender.copy.unwrap()).counts);
        assert_eq!(log.spare(FAR), 1);
        drop(backups);
        assert_eq!(log.spare(FAR), 0);
    }

    #[test]
    fn loans_of_tasks_that_a_lost_founder_has_lent_are_forgotten() {
        let backups = Backups::default();
        let mut loan = loan_through(VIA);
        backups.keep_for_recall(&log_of(10_000), (ME, FAR), (Time(0), None), &mut loan);
        backups.forget_lender(NodeId(4));
        assert_eq!(backups.known().lent.len(), 1);
        backups.forget_lender(NodeId(5));
        let known = backups.known();
        assert_eq!((known.lent.len(), known.through.len()), (0, 0));
    }

    const VIA: Via = Via::Copy(NodeId(5), CopyId { loan: 3, is_backup: false });

    fn log_of(limit_bytes: u64) -> Arc<LoanLog> {
        LoanLogs::new(limit_bytes).of(ME)
    }

    fn loan_through(via: Via) -> Loan {
        let frame: FrameId = Frames::<()>::default().reserve();
        let lender = Lender { pe: PeId(0), frame, child: 0, items: 1, copy: None };
        let repeats = Repeats::default();
        Loan { lender, lineage: vec![via], repeats, items: Vec::new().into() }
    }

    #[test]
    fn forgetting_a_copy_returns_the_nodes_that_work_on_its_tasks() {
        let backups = Backups::default();
        let times = (Time(0), Time(100));
        backups.keep(ME, FAR, times, &mut loan_through(VIA));
        let mut done = loan_through(VIA);
        backups.keep(ME, NodeId(10), times, &mut done);
        assert!(backups.settle(done.lender.copy.unwrap()).counts);
        backups.note_passed(NodeId(11), &loan_through(VIA));

        assert_eq!(backups.forget(VIA), BTreeSet::from([FAR, NodeId(11)]));
        assert_eq!(backups.forget(VIA), BTreeSet::new());
        // This node does not begin a backup of it either.
        assert!(backups.begin(ME, Time(0)).is_empty());
    }

    #[test]
    fn a_loan_that_came_through_a_gone_copy_is_not_kept_if_the_news_came_while_it_was_packed() {
        let node = Deques::<()>::new(0..1);
        let mut loans = vec![loan_through(VIA), loan_through(Via::Guest(NodeId(7)))];
        node.note_gone(VIA);
        for loan in &mut loans {
            node.backups.keep(ME, FAR, (Time(0), Time(100)), loan);
        }

        node.drop_gone(&mut loans);

        assert_eq!(loans.len(), 1);
        let known = node.backups.known();
        assert_eq!((known.lent.len(), known.young.len(), known.through.len()), (1, 1, 1));
    }

    #[test]
    fn settled_and_forgotten_loans_take_bounded_memory() {
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
        assert_eq!((known.passed.to.len(), known.passed.order.len()), (0, 0));
    }
}
