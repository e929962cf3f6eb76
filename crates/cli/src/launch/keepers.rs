//! The agreement of the keepers of a job to its next run (see `quorum`).

use super::quorum::{has_quorum, shortage};
use gridspan_runtime::net::bootstrap::RestoreOrder;
use gridspan_topology::{NodeId, Time};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// Time that keepers have to agree. A broken connection is noticed and opened again in it, and it
/// is less than the time that nodes have to start, which begins with it.
const PATIENCE: Duration = Duration::from_secs(20);

/// The runs of a job: the checkpoint with which each began, and its members.
type Runs = [(u64, Vec<NodeId>)];

/// What the keepers of a job have agreed to.
pub(super) struct Keepers {
    /// Members that have ended for good, as the user says.
    ended: BTreeSet<NodeId>,
    /// The last run that has begun.
    agreed: usize,
    /// The last state that each keeper has saved.
    saved: BTreeMap<NodeId, u64>,
    proposed: Option<Proposal>,
}

/// A run that begins when enough keepers have saved it.
struct Proposal {
    members: Vec<NodeId>,
    order: Option<RestoreOrder>,
    /// Number of the state that has the run, once it was sent.
    number: Option<u64>,
    until: Time,
}

/// What has become of a proposed run.
#[derive(Debug, PartialEq)]
pub(super) enum Decision {
    /// It begins, with these members.
    Begin(Vec<NodeId>, Option<RestoreOrder>),
    /// It cannot begin, for this reason.
    Refused(String),
}

impl Keepers {
    /// The keepers of a job whose last run that is known to have begun is `agreed`.
    pub(super) fn new(agreed: usize, ended: BTreeSet<NodeId>) -> Self {
        Self { ended, agreed, saved: BTreeMap::new(), proposed: None }
    }

    /// The last run that has begun, as a position among the runs.
    pub(super) fn agreed(&self) -> usize {
        self.agreed
    }

    /// Proposes the last of the runs, instead of one that was proposed before.
    pub(super) fn propose(&mut self, members: Vec<NodeId>, order: Option<RestoreOrder>, now: Time) {
        let until = now + PATIENCE;
        self.proposed = Some(Proposal { members, order, number: None, until });
    }

    /// Notes that the state of this number, with all runs, was sent to the keepers.
    pub(super) fn sent(&mut self, number: u64) {
        if let Some(proposed) = &mut self.proposed {
            proposed.number.get_or_insert(number);
        }
    }

    /// Notes that a keeper has saved the state of this number.
    pub(super) fn saved(&mut self, node: NodeId, number: u64) {
        let last = self.saved.entry(node).or_default();
        *last = (*last).max(number);
    }

    /// Decides on the proposed run, which is the last of these once it was sent.
    pub(super) fn poll(
        &mut self,
        runs: &Runs,
        name: impl Fn(NodeId) -> String,
        now: Time,
    ) -> Option<Decision> {
        let proposed = self.proposed.as_ref()?;
        if proposed.number.is_none() {
            // No keeper was asked, and these runs may be those before the proposal.
            if proposed.until > now {
                return None;
            }
            self.proposed = None;
            let reason = "its state cannot be saved on this machine".to_owned();
            return Some(Decision::Refused(reason));
        }
        let (_, before) = runs.split_last()?;
        let before = before.get(self.agreed..).unwrap_or_default();
        let has_saved = |node: NodeId| {
            let saved = self.saved.get(&node).copied().unwrap_or_default();
            proposed.number.is_some_and(|number| saved >= number)
        };
        let missing = shortage(before, &self.ended, has_saved, name);
        match missing {
            Some(_) if proposed.until > now => None,
            Some(reason) => {
                self.proposed = None;
                Some(Decision::Refused(reason))
            }
            None => {
                self.agreed = runs.len() - 1;
                let Proposal { members, order, .. } = self.proposed.take()?;
                Some(Decision::Begin(members, order))
            }
        }
    }

    /// Returns when [`poll`](Self::poll) must be called if no event happens before.
    pub(super) fn poll_timeout(&self) -> Option<Time> {
        Some(self.proposed.as_ref()?.until)
    }

    /// Whether another run could begin if only these nodes agreed.
    pub(super) fn may_go_on_with(&self, runs: &Runs, agrees: impl Fn(NodeId) -> bool) -> bool {
        let after = runs.get(self.agreed..).unwrap_or_default();
        after.iter().all(|(_, members)| has_quorum(members, &self.ended, &agrees))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: NodeId = NodeId(0);
    const B: NodeId = NodeId(1);
    const C: NodeId = NodeId(2);

    fn name(node: NodeId) -> String {
        format!("n{}", node.0)
    }

    fn proposing() -> (Keepers, Vec<(u64, Vec<NodeId>)>) {
        let mut keepers = Keepers::new(0, BTreeSet::new());
        keepers.propose(vec![B, C], None, Time(0));
        (keepers, vec![(0, vec![A, B, C]), (4, vec![B, C])])
    }

    #[test]
    fn a_run_begins_when_more_than_half_of_the_members_before_have_saved_it() {
        let (mut keepers, runs) = proposing();
        keepers.saved(B, 6);
        assert_eq!(keepers.poll(&runs, name, Time(1)), None, "it was not sent");
        keepers.sent(7);
        keepers.sent(8);
        assert_eq!(keepers.poll(&runs, name, Time(1)), None, "they have an older state");
        keepers.saved(B, 8);
        keepers.saved(B, 8);
        assert_eq!(keepers.poll(&runs, name, Time(1)), None);
        keepers.saved(C, 7);

        let decision = keepers.poll(&runs, name, Time(1));

        assert_eq!(decision, Some(Decision::Begin(vec![B, C], None)));
        assert_eq!((keepers.agreed(), keepers.poll_timeout()), (1, None));
        assert!(keepers.may_go_on_with(&runs, |node| node == B), "half, with the first member");
        assert!(!keepers.may_go_on_with(&runs, |node| node == C));
    }

    #[test]
    fn a_run_that_too_few_have_saved_in_time_is_refused() {
        let (mut keepers, runs) = proposing();
        keepers.sent(1);
        keepers.saved(A, 1);
        let until = keepers.poll_timeout().unwrap();

        let Some(Decision::Refused(reason)) = keepers.poll(&runs, name, until) else {
            panic!("it is refused");
        };

        assert!(reason.starts_with("1 of the 3 members of the job agree"), "{reason}");
        assert_eq!((keepers.agreed(), keepers.poll_timeout()), (0, None));
    }

    #[test]
    fn a_run_that_cannot_be_saved_here_is_refused() {
        let (mut keepers, _) = proposing();
        let before = [(0, vec![A, B, C])];
        for runs in [&before[..], &[]] {
            assert_eq!(keepers.poll(runs, name, Time(1)), None, "no keeper was asked");
        }
        let until = keepers.poll_timeout().unwrap();

        let decision = keepers.poll(&before, name, until);

        let reason = "its state cannot be saved on this machine".to_owned();
        assert_eq!(decision, Some(Decision::Refused(reason)));
        assert_eq!((keepers.agreed(), keepers.poll_timeout()), (0, None));
    }

    #[test]
    fn a_run_that_may_have_begun_must_agree_too() {
        let mut keepers = Keepers::new(0, BTreeSet::from([A]));
        keepers.propose(vec![C], None, Time(0));
        keepers.sent(5);
        let runs = [(0, vec![A, B, C]), (2, vec![A, B]), (2, vec![C])];
        keepers.saved(C, 5);
        assert_eq!(keepers.poll(&runs, name, Time(1)), None, "half, without the first of the rest");
        keepers.saved(B, 5);
        let decision = keepers.poll(&runs, name, Time(1));
        assert_eq!(decision, Some(Decision::Begin(vec![C], None)));
    }
}
