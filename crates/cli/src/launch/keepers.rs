//! The agreement of the keepers of a job on its next run (see `quorum`).

use super::quorum::{Halves, Rule, Tally, open_half, shortage};
use gridspan_runtime::net::bootstrap::RestoreOrder;
use gridspan_topology::{NodeId, Time};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// Time for keepers to agree. It suffices to notice a broken connection and to open it again. It is
/// shorter than the time for nodes to start, which begins at the same time.
const PATIENCE: Duration = Duration::from_secs(20);
/// Time to wait for further members before the witness is asked to settle on a half, and between
/// two attempts: longer than most hosts take to save a state.
const WITNESS_PAUSE: Duration = Duration::from_secs(2);

/// The runs of a job: the checkpoint with which each began, and its members.
type Runs = [(u64, Vec<NodeId>)];

/// The agreement of the keepers of a job.
pub(super) struct Keepers {
    /// Members that have ended for good, according to the user.
    ended: BTreeSet<NodeId>,
    /// The last run that has begun.
    agreed: usize,
    /// Number of the last state that each keeper has saved.
    saved: BTreeMap<NodeId, u64>,
    /// The halves on which the witness has settled; `None` without a witness.
    witness: Option<Halves>,
    /// When the witness may be asked; `None` while it is being asked.
    asks_at: Option<Time>,
    proposed: Option<Proposal>,
    /// Majorities on which the witness must settle: see [`take_unsettled`](Self::take_unsettled).
    unsettled: Vec<(usize, BTreeSet<NodeId>)>,
}

/// A run that begins when enough keepers have saved it.
struct Proposal {
    members: Vec<NodeId>,
    order: Option<RestoreOrder>,
    /// Number of the state with the run, once it was sent.
    number: Option<u64>,
    /// Why the witness has not answered.
    problem: Option<String>,
    until: Time,
}

/// The decision on a proposed run.
#[derive(Debug, PartialEq)]
pub(super) enum Decision {
    /// It begins, with these members.
    Begin(Vec<NodeId>, Option<RestoreOrder>),
    /// Ask the witness to settle on this half of the members of the run at this position.
    Ask(usize, BTreeSet<NodeId>),
    /// It cannot begin, for this reason.
    Refused(String),
}

/// Whether nodes that cannot be reached may be declared lost.
#[derive(Debug, PartialEq)]
pub(super) enum Loss {
    Now,
    /// Ask the witness first, as for [`Decision::Ask`].
    Ask(usize, BTreeSet<NodeId>),
    /// The witness has not answered yet.
    Later,
}

impl Keepers {
    /// The keepers of a job; `agreed` is the last run that is known to have begun.
    pub(super) fn new(agreed: usize, ended: BTreeSet<NodeId>, has_witness: bool) -> Self {
        let witness = has_witness.then(Halves::new);
        let (saved, asks_at) = (BTreeMap::new(), Some(Time(0)));
        Self { ended, agreed, saved, witness, asks_at, proposed: None, unsettled: Vec::new() }
    }

    fn rule(&self) -> Rule<'_> {
        Rule { ended: &self.ended, witness: self.witness.as_ref() }
    }

    /// The last run that has begun, as a position among the runs.
    pub(super) fn agreed(&self) -> usize {
        self.agreed
    }

    /// Proposes the last of the runs, instead of one that was proposed before.
    pub(super) fn propose(&mut self, members: Vec<NodeId>, order: Option<RestoreOrder>, now: Time) {
        let (number, problem, until) = (None, None, now + PATIENCE);
        self.asks_at = Some(now + WITNESS_PAUSE);
        self.proposed = Some(Proposal { members, order, number, problem, until });
    }

    /// Records the half of the members of a run, given by its position, on which the witness has
    /// settled, or why the witness does not answer.
    pub(super) fn settled(
        &mut self,
        run: usize,
        half: Result<BTreeSet<NodeId>, String>,
        now: Time,
    ) {
        let (asks_at, problem) = match half {
            Ok(half) => {
                self.witness.iter_mut().for_each(|halves| drop(halves.insert(run, half.clone())));
                (now, None)
            }
            Err(reason) => (now + WITNESS_PAUSE, Some(reason)),
        };
        self.asks_at = Some(asks_at);
        if let Some(proposed) = &mut self.proposed {
            proposed.problem = problem;
        }
    }

    /// Notes that the state with this number, which has all runs, was sent to the keepers.
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

    /// Decides on the proposed run, which is the last of `runs` once it was sent.
    pub(super) fn poll(
        &mut self,
        runs: &Runs,
        name: impl Fn(NodeId) -> String,
        now: Time,
    ) -> Option<Decision> {
        let proposed = self.proposed.as_ref()?;
        let until = proposed.until;
        if proposed.number.is_none() {
            // The proposal was not sent, and these runs may not have it.
            if until > now {
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
        let missing = shortage(self.rule(), (self.agreed, before), has_saved, name);
        match missing {
            Some(_) if until > now => {
                let (run, half) = open_half(self.rule(), (self.agreed, before), has_saved)?;
                self.may_ask(now).then_some(Decision::Ask(run, half))
            }
            Some(mut reason) => {
                let problem = self.proposed.take().and_then(|proposed| proposed.problem);
                reason.extend(problem.map(|problem| format!("; the witness: {problem}")));
                Some(Decision::Refused(reason))
            }
            None => {
                if let Some(halves) = &self.witness {
                    let majority = |(run, (_, members)): (usize, &(u64, Vec<NodeId>))| {
                        let agreed: BTreeSet<NodeId> =
                            members.iter().copied().filter(|&it| has_saved(it)).collect();
                        let is_unsettled =
                            2 * agreed.len() > members.len() && !halves.contains_key(&run);
                        is_unsettled.then_some((run, agreed))
                    };
                    self.unsettled = (self.agreed..).zip(before).filter_map(majority).collect();
                }
                self.agreed = runs.len() - 1;
                let Proposal { members, order, .. } = self.proposed.take()?;
                Some(Decision::Begin(members, order))
            }
        }
    }

    /// Takes the majorities on which the witness must settle: for each run, given by its position,
    /// the members that have agreed to the run that has begun. These were enough without the
    /// witness. It must settle on them before it settles on other members.
    pub(super) fn take_unsettled(&mut self) -> Vec<(usize, BTreeSet<NodeId>)> {
        std::mem::take(&mut self.unsettled)
    }

    /// Whether the witness may be asked now. If so, it counts as asked.
    fn may_ask(&mut self, now: Time) -> bool {
        let is_due = self.asks_at.is_some_and(|at| at <= now);
        if is_due {
            self.asks_at = None;
        }
        is_due
    }

    /// Returns the time after `now` at which [`poll`](Self::poll) must be called if no event
    /// happens before.
    pub(super) fn poll_timeout(&self, now: Time) -> Option<Time> {
        let proposed = self.proposed.as_ref()?;
        // After `asks_at`, only events of keepers change the decision.
        let asks_at = self.asks_at.filter(|&at| self.witness.is_some() && at > now);
        Some(asks_at.map_or(proposed.until, |at| at.min(proposed.until)))
    }

    /// Whether another run could begin if only these nodes and the witness agreed.
    pub(super) fn may_go_on_with(&self, runs: &Runs, agrees: impl Fn(NodeId) -> bool) -> bool {
        let after = runs.get(self.agreed..).unwrap_or_default();
        (self.agreed..)
            .zip(after)
            .all(|(run, (_, members))| self.rule().tally(run, members, &agrees) != Tally::TooFew)
    }

    /// Decides whether all nodes but those that agree may be declared lost, given that the job
    /// [`may_go_on_with`] these. If that takes the witness, the witness must settle on these first;
    /// until then, no node is declared lost.
    ///
    /// [`may_go_on_with`]: Self::may_go_on_with
    pub(super) fn poll_loss(
        &mut self,
        runs: &Runs,
        agrees: impl Fn(NodeId) -> bool,
        now: Time,
    ) -> Loss {
        let after = runs.get(self.agreed..).unwrap_or_default();
        match open_half(self.rule(), (self.agreed, after), agrees) {
            None => Loss::Now,
            Some((run, half)) if self.may_ask(now) => Loss::Ask(run, half),
            Some(_) => Loss::Later,
        }
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
        let mut keepers = Keepers::new(0, BTreeSet::new(), false);
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
        assert_eq!((keepers.agreed(), keepers.poll_timeout(Time(1))), (1, None));
        assert!(keepers.may_go_on_with(&runs, |node| node == B), "half, with the first member");
        assert!(!keepers.may_go_on_with(&runs, |node| node == C));
    }

    #[test]
    fn a_run_that_too_few_have_saved_in_time_is_refused() {
        let (mut keepers, runs) = proposing();
        keepers.sent(1);
        keepers.saved(A, 1);
        let until = keepers.poll_timeout(Time(1)).unwrap();

        let Some(Decision::Refused(reason)) = keepers.poll(&runs, name, until) else {
            panic!("it is refused");
        };

        assert!(reason.starts_with("1 of the 3 members of the job agree"), "{reason}");
        assert_eq!((keepers.agreed(), keepers.poll_timeout(Time(1))), (0, None));
    }

    #[test]
    fn a_run_that_cannot_be_saved_here_is_refused() {
        let (mut keepers, _) = proposing();
        let before = [(0, vec![A, B, C])];
        for runs in [&before[..], &[]] {
            assert_eq!(keepers.poll(runs, name, Time(1)), None, "no keeper was asked");
        }
        let until = keepers.poll_timeout(Time(1)).unwrap();

        let decision = keepers.poll(&before, name, until);

        let reason = "its state cannot be saved on this machine".to_owned();
        assert_eq!(decision, Some(Decision::Refused(reason)));
        assert_eq!((keepers.agreed(), keepers.poll_timeout(Time(1))), (0, None));
    }

    #[test]
    fn a_run_that_may_have_begun_must_agree_too() {
        let mut keepers = Keepers::new(0, BTreeSet::from([A]), false);
        keepers.propose(vec![C], None, Time(0));
        keepers.sent(5);
        let runs = [(0, vec![A, B, C]), (2, vec![A, B]), (2, vec![C])];
        keepers.saved(C, 5);
        assert_eq!(keepers.poll(&runs, name, Time(1)), None, "half, without the first of the rest");
        keepers.saved(B, 5);
        let decision = keepers.poll(&runs, name, Time(1));
        assert_eq!(decision, Some(Decision::Begin(vec![C], None)));
    }

    /// A launcher that reaches the last two of four members, and asks its witness.
    fn asking() -> (Keepers, Vec<(u64, Vec<NodeId>)>) {
        let mut keepers = Keepers::new(0, BTreeSet::new(), true);
        keepers.propose(vec![B, C], None, Time(0));
        keepers.sent(1);
        keepers.saved(B, 1);
        keepers.saved(C, 1);
        (keepers, vec![(0, vec![A, NodeId(3), B, C]), (4, vec![B, C])])
    }

    #[test]
    fn the_witness_is_asked_once_exactly_half_agree_for_some_time() {
        let (mut keepers, runs) = asking();
        assert_eq!(keepers.poll(&runs, name, Time(1)), None, "others may agree");
        let asks_at = keepers.poll_timeout(Time(1)).unwrap();
        assert_eq!(asks_at, Time(0) + WITNESS_PAUSE);
        let half = BTreeSet::from([B, C]);

        let decision = keepers.poll(&runs, name, asks_at);

        assert_eq!(decision, Some(Decision::Ask(0, half.clone())));
        assert_eq!(keepers.poll(&runs, name, asks_at), None, "it is being asked");
        assert_eq!(keepers.poll_timeout(asks_at), Some(Time(0) + PATIENCE));
        keepers.settled(0, Ok(half), asks_at);
        let decision = keepers.poll(&runs, name, asks_at);
        assert_eq!(decision, Some(Decision::Begin(vec![B, C], None)));
    }

    #[test]
    fn the_half_on_which_the_witness_has_not_settled_does_not_go_on() {
        let (mut keepers, runs) = asking();
        let asks_at = keepers.poll_timeout(Time(1)).unwrap();
        assert!(matches!(keepers.poll(&runs, name, asks_at), Some(Decision::Ask(0, _))));
        assert!(keepers.may_go_on_with(&runs[..1], |node| node == B || node == C));
        keepers.settled(0, Ok(BTreeSet::from([A, NodeId(3)])), asks_at);
        assert!(!keepers.may_go_on_with(&runs[..1], |node| node == B || node == C));
        assert_eq!(keepers.poll(&runs, name, asks_at), None, "more members may agree");

        let decision = keepers.poll(&runs, name, Time(0) + PATIENCE);

        let Some(Decision::Refused(reason)) = decision else { panic!("{decision:?}") };
        assert!(reason.contains("the half on which the witness has settled, n0, n3"), "{reason}");
    }

    #[test]
    fn the_witness_is_told_once_of_a_majority_that_goes_on() {
        for has_witness in [true, false] {
            let mut keepers = Keepers::new(0, BTreeSet::new(), has_witness);
            keepers.propose(vec![B, C], None, Time(0));
            keepers.sent(1);
            [B, C].into_iter().for_each(|node| keepers.saved(node, 1));
            assert!(keepers.take_unsettled().is_empty(), "nothing has begun");
            let runs = [(0, vec![A, B, C]), (4, vec![B, C])];
            assert!(matches!(keepers.poll(&runs, name, Time(1)), Some(Decision::Begin(..))));
            let expected: &[_] = &[(0, BTreeSet::from([B, C]))];
            assert_eq!(keepers.take_unsettled(), expected[..usize::from(has_witness)]);
            assert!(keepers.take_unsettled().is_empty());
        }
        // The witness has settled on a half itself.
        let (mut keepers, runs) = asking();
        keepers.settled(0, Ok(BTreeSet::from([B, C])), Time(1));
        assert!(matches!(keepers.poll(&runs, name, Time(1)), Some(Decision::Begin(..))));
        assert!(keepers.take_unsettled().is_empty());
    }

    #[test]
    fn no_node_is_lost_before_the_witness_has_settled_on_the_others() {
        let mut keepers = Keepers::new(0, BTreeSet::new(), true);
        let runs = [(0, vec![A, NodeId(3), B, C])];
        let half = BTreeSet::from([B, C]);
        let agrees = |node: NodeId| node == B || node == C;

        assert_eq!(keepers.poll_loss(&runs, agrees, Time(5)), Loss::Ask(0, half.clone()));

        assert_eq!(keepers.poll_loss(&runs, agrees, Time(6)), Loss::Later, "it is being asked");
        keepers.settled(0, Err("no route".to_owned()), Time(7));
        assert_eq!(keepers.poll_loss(&runs, agrees, Time(8)), Loss::Later);
        assert_eq!(keepers.poll_loss(&runs, |node| node != A, Time(8)), Loss::Now, "a majority");
        let again = Time(7) + WITNESS_PAUSE;
        assert_eq!(keepers.poll_loss(&runs, agrees, again), Loss::Ask(0, half.clone()));
        keepers.settled(0, Ok(half), again);
        assert_eq!(keepers.poll_loss(&runs, agrees, again), Loss::Now);
        assert!(keepers.may_go_on_with(&runs, agrees));
    }

    #[test]
    fn a_witness_that_does_not_answer_is_asked_again_and_named_in_the_refusal() {
        let (mut keepers, runs) = asking();
        let asks_at = Time(0) + WITNESS_PAUSE;
        assert!(matches!(keepers.poll(&runs, name, asks_at), Some(Decision::Ask(..))));
        keepers.settled(0, Err("no route".to_owned()), asks_at);
        assert_eq!(keepers.poll(&runs, name, asks_at), None);
        let again = keepers.poll_timeout(asks_at).unwrap();
        assert!(matches!(keepers.poll(&runs, name, again), Some(Decision::Ask(..))));
        keepers.settled(0, Err("no route".to_owned()), again);

        let decision = keepers.poll(&runs, name, Time(0) + PATIENCE);

        let Some(Decision::Refused(reason)) = decision else { panic!("{decision:?}") };
        assert!(reason.ends_with("cannot be reached; the witness: no route"), "{reason}");
    }
}
