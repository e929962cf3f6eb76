//! Selects the tasks that leave a node, and packs them into loans.

use super::deques::{Arrival, Deques};
use super::engine::Work;
use super::frame::{Lender, QueuedTask};
use super::lineage::{LINEAGE_MAX, LineageId, Lineages};
use super::message::Loan;
use crate::message::codec;
use crate::message::limits::PIECE_BYTES_MAX;
use crate::pe::Budget;
use gridspan_topology::{NodeId, PeId};

/// Maximum bytes of tasks in one packet, unless a single task is larger. The packet leaves as a
/// whole; a packet of this size takes about 40 ms at 100 Mbit/s.
pub(super) const GRANT_BYTES: usize = 512 << 10;

/// Approximate number of loans into which a grant to another site is divided if its tasks can share
/// loans: a loan with a copy is passed on whole or not at all, and its output comes when all of it
/// is done.
const FAR_LOANS: u64 = 64;

/// Maximum number of tasks that may not leave and are set aside, to reach the tasks behind them.
const SET_ASIDE_MAX: usize = 1 << 10;

/// Maximum bytes of the [`Lender`] and of the marks for repetitions, which are sent beside a task.
const FRAME_BYTES: usize = 50;
/// The same with the lineage, in which a copy takes 17 bytes.
pub(super) const LENDER_BYTES: usize = FRAME_BYTES + 17 * LINEAGE_MAX;

/// A task with the slot of the PE whose frame it works for.
pub(super) type Owned<W> = (usize, QueuedTask<<W as Work>::Item>);

/// Takes the oldest tasks of a node through `take` and packs up to `limit` of them into loans.
/// Returns the loans, and the taken tasks that stay: tasks too large for the network, backups if
/// the other node is at another site, and the first task that does not fit into this packet. Later
/// tasks go in place of those that are too large or backups. Tasks of an orphaned lineage are
/// dropped; the PE of their frame closes the frame.
pub(super) fn lend<W: Work>(
    limit: u64,
    mut take: impl FnMut() -> Option<Owned<W>>,
    pe_of: impl Fn(usize) -> PeId,
    lineages: &Lineages,
    is_far: bool,
) -> (Vec<Loan>, Vec<Owned<W>>) {
    let shared_max = if is_far { (limit / FAR_LOANS).max(1) } else { limit };
    let mut loans: Vec<(Lender, LineageId, Vec<W::Item>)> = Vec::new();
    let mut left = Vec::new();
    let (mut tasks, mut bytes) = (0, 0);
    while tasks < limit {
        let Some((slot, token)) = take() else { break };
        if lineages.is_orphaned(token.lineage) {
            continue;
        }
        let beside = match token.lineage {
            LineageId::FOUNDERS => FRAME_BYTES,
            _ => LENDER_BYTES,
        };
        let size = codec::encoded_len(&token.item).saturating_add(beside);
        if size > PIECE_BYTES_MAX || is_far && token.lineage.is_backup() {
            left.push((slot, token));
            if left.len() == SET_ASIDE_MAX {
                break;
            }
            continue;
        }
        if tasks > 0 && bytes + size > GRANT_BYTES {
            left.push((slot, token));
            break;
        }
        (tasks, bytes) = (tasks + 1, bytes + size);
        let QueuedTask { item, frame, child, lineage } = token;
        let pe = pe_of(slot);
        match loans.last_mut() {
            Some((lender, _, items))
                if W::SHARES_LOANS && lender.works_for(pe, frame) && lender.items < shared_max =>
            {
                lender.items += 1;
                items.push(item);
            }
            _ => {
                let lender = Lender { pe, frame, child, items: 1, copy: None };
                loans.push((lender, lineage, vec![item]));
            }
        }
    }
    let encode = |(lender, lineage, items): (Lender, LineageId, Vec<W::Item>)| Loan {
        lender,
        lineage: lineages.vias(lineage),
        repeats: lineage.repeats(),
        items: codec::encode(&items).into(),
    };
    (loans.into_iter().map(encode).collect(), left)
}

/// Takes up to `limit` tasks of loans that no PE of this node has taken yet, to pass them on to
/// another node, which then works for their lender. Only founders call this, and only loans of
/// founders are passed on; backups stay in their site.
pub(super) fn pass_on<W: Work>(
    limit: u64,
    node: &Deques<W::Item>,
    is_founder: impl Fn(NodeId) -> bool,
    is_far: bool,
    budget: &Budget,
) -> Vec<Loan> {
    let is_meant = |by: NodeId, loan: &Loan| is_founder(by) && !(is_far && loan.is_backup());
    let mut loans = Vec::new();
    let (mut tasks, mut bytes) = (0, 0);
    while tasks < limit {
        let Some((from, loan)) = node.take_lent(is_meant) else { break };
        let stay = |loan: Loan| {
            let bytes = loan.bytes();
            node.lay_first(Arrival::Lent(from, budget.keep(loan, bytes)));
        };
        if tasks > 0 && bytes + loan.items.len() > GRANT_BYTES {
            stay(loan);
            break;
        }
        let (passed, rest) = split::<W>(loan, limit - tasks);
        rest.into_iter().for_each(stay);
        let Some(passed) = passed else { break };
        (tasks, bytes) = (tasks + passed.lender.items, bytes + passed.items.len());
        loans.push(passed);
    }
    loans
}

/// Splits a loan into its first tasks, at most `limit`, and the others. A loan that may have a
/// copy, or that cannot be decoded, is not split; the node that takes all of an undecodable loan
/// reports it.
fn split<W: Work>(loan: Loan, limit: u64) -> (Option<Loan>, Option<Loan>) {
    if loan.lender.items <= limit {
        return (Some(loan), None);
    }
    if loan.lender.copy.is_some() {
        return (None, Some(loan));
    }
    let Ok(mut items) = codec::decode::<Vec<W::Item>>(W::name(), &loan.items) else {
        return (None, Some(loan));
    };
    if items.len() as u64 != loan.lender.items {
        return (None, Some(loan));
    }
    let rest = items.split_off(limit as usize);
    let part = |items: Vec<W::Item>| Loan {
        lender: Lender { items: items.len() as u64, ..loan.lender },
        lineage: loan.lineage.clone(),
        repeats: loan.repeats,
        items: codec::encode(&items).into(),
    };
    (Some(part(items)), Some(part(rest)))
}

#[cfg(test)]
mod tests {
    use super::super::deques::Deques;
    use super::super::engine::Engine;
    use super::super::lineage::{Repeats, Via};
    use super::super::{Joining, Step, Task, TaskContext};
    use super::*;
    use crate::message::steal_agent::CopyId;
    use serde::{Deserialize, Serialize};
    use std::sync::Arc;

    /// A task that takes as many bytes as its text.
    #[derive(Serialize, Deserialize)]
    struct Text(String);

    impl Task for Text {
        type Output = ();
        type Join = ();

        fn run(self, _: &mut TaskContext<'_, Self>) -> Step<Self> {
            Step::Done(())
        }

        fn collect((): &mut (), _: u32, (): ()) {}

        fn joined((): (), _: &mut TaskContext<'_, Self>) -> Step<Self> {
            Step::Done(())
        }
    }

    /// Packs up to `limit` tasks of these sizes in bytes, oldest first. Returns the sizes of the
    /// tasks in the packet, and the number of tasks left.
    fn lent(bytes: &[usize], limit: u64) -> (Vec<usize>, u64) {
        let node = Arc::new(Deques::new(0..1));
        let mut engine = Engine::<Joining<Text>>::new(PeId(0), 0, node, false);
        for (root, &bytes) in bytes.iter().enumerate().rev() {
            engine.submit([(Text("x".repeat(bytes)), root as u64)], Repeats::default());
        }
        let (loans, left) = lend::<Joining<Text>>(
            limit,
            || engine.take_oldest(),
            |_| PeId(0),
            &Lineages::default(),
            false,
        );
        let text = |loan: &Loan| codec::decode::<Vec<Text>>("tasks", &loan.items).unwrap();
        let lent = loans.iter().flat_map(text).map(|text| text.0.len()).collect();
        let rest = std::iter::from_fn(|| engine.take_oldest()).count() + left.len();
        (lent, rest as u64)
    }

    #[test]
    fn a_task_too_large_for_the_network_stays_and_later_tasks_go() {
        assert_eq!(lent(&[61 << 20, 5, 6, 7], 2), (vec![5, 6], 1));
        assert_eq!(lent(&[61 << 20, 5], 1), (vec![], 1));
    }

    #[test]
    fn backups_stay_in_their_site_and_other_tasks_go() {
        let node = Arc::new(Deques::new(0..1));
        let mut engine = Engine::<Joining<Text>>::new(PeId(0), 0, node.clone(), false);
        engine.submit([(Text("own".into()), 0)], Repeats::default());
        let copy = CopyId { loan: 1, is_backup: true };
        let repeats = Repeats { is_backup: true, is_rerun: false };
        let lineage = node.lineages.enter([Via::Copy(NodeId(0), copy)], repeats).unwrap();
        let frame = engine.kept[0].frame;
        let lender = Lender { pe: PeId(0), frame, child: 0, items: 1, copy: Some(copy) };
        let lineage_id = lineage.id();
        engine.borrow(lender, lineage, std::iter::once(Text("backup".into())));
        engine.kept.rotate_right(1);

        for (is_far, stay) in [(true, vec![lineage_id]), (false, vec![])] {
            let mut tokens = std::mem::take(&mut engine.kept).into_iter();
            let take = || Some((0, tokens.next()?));
            let (loans, left) = lend::<Joining<Text>>(2, take, |_| PeId(0), &node.lineages, is_far);
            let left: Vec<_> = left.into_iter().map(|(_, token)| token).collect();
            assert_eq!(left.iter().map(|token| token.lineage).collect::<Vec<_>>(), stay);
            assert_eq!(loans.len(), 1);
            assert_eq!(loans[0].is_backup(), !is_far);
            engine.kept = left;
        }
    }

    #[test]
    fn a_packet_has_at_most_half_a_mebibyte_or_one_task() {
        let kib = 1 << 10;
        assert_eq!(lent(&[300 * kib, 200 * kib, 100 * kib, 1], 3).0, [300 * kib, 200 * kib]);
        assert_eq!(lent(&[2000 * kib, 1, 1, 1], 3).0, [2000 * kib]);
    }
}
