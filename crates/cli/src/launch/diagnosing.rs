//! A diagnosis of the running job: the nodes that have answered, and the findings of the
//! coordinator.
//!
//! # Steps
//!
//! 1. At the first request, the launcher asks all members. Requests that come meanwhile get the
//!    same answer.
//! 2. Each process says at once that it runs, and which nodes it suspects. The coordinator, on one
//!    of the nodes, asks the PEs, and gives its answer after two seconds at the latest.
//! 3. If the coordinator has not answered after [`AGAIN_AFTER`], the launcher asks all again: a
//!    coordinator that moves to another node loses its findings, and while it moves, no node has
//!    it.
//! 4. The answer is complete when all have answered, or when the coordinator has answered and
//!    [`SILENT_AFTER`] is over. After [`PATIENCE`] the launcher answers without the findings of the
//!    coordinator.
//!
//! The answer names each process that a signal has stopped, or whose host does not answer.

use gridspan_runtime::{Diagnosis, Wait, WaitKind};
use gridspan_topology::{NodeId, Time};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// Time within which a process says that it runs.
const SILENT_AFTER: Duration = Duration::from_secs(2);
/// Time for the coordinator to answer if it does not move: it waits for the PEs for two seconds.
const AGAIN_AFTER: Duration = Duration::from_millis(2500);
/// Time for the coordinator to answer, also when it is asked again.
const PATIENCE: Duration = Duration::from_secs(5);

/// The diagnosis under way, if there is one.
#[derive(Default)]
pub(super) struct Diagnosing {
    /// Number of diagnoses so far.
    number: u64,
    under_way: Option<UnderWay>,
}

struct UnderWay {
    /// Numbers of the requests that it answers.
    requests: Vec<u64>,
    began: Time,
    is_asked_again: bool,
    /// The members, by their node numbers in the present run.
    members: Vec<NodeId>,
    /// Members whose processes run.
    awake: BTreeSet<NodeId>,
    /// Members without which the job goes on. They do not answer.
    left_out: BTreeSet<NodeId>,
    /// Members that others suspect, with the longest silence in seconds.
    suspected: BTreeMap<NodeId, u64>,
    /// What the coordinator has found.
    found: Option<Diagnosis>,
}

impl Diagnosing {
    /// Adds a request about a job of these members, by their node numbers. Returns the number with
    /// which to ask them, unless they are being asked.
    pub(super) fn add(&mut self, request: u64, members: Vec<NodeId>, now: Time) -> Option<u64> {
        if let Some(under_way) = &mut self.under_way {
            under_way.requests.push(request);
            return None;
        }
        self.number += 1;
        self.under_way = Some(UnderWay {
            requests: vec![request],
            began: now,
            is_asked_again: false,
            members,
            awake: BTreeSet::new(),
            left_out: BTreeSet::new(),
            suspected: BTreeMap::new(),
            found: None,
        });
        Some(self.number)
    }

    /// Leaves a member out of the diagnosis under way, if there is one: the job goes on without it.
    pub(super) fn leave_out(&mut self, node: NodeId) {
        if let Some(under_way) = &mut self.under_way {
            under_way.awake.remove(&node);
            under_way.left_out.insert(node);
        }
    }

    /// Returns when [`ask_again`](Self::ask_again) and [`take_ended`](Self::take_ended) must be
    /// called even if nothing happens.
    pub(super) fn due(&self) -> Option<Time> {
        self.under_way.as_ref().map(UnderWay::due)
    }

    /// Returns the number with which to ask the members again, if it is time.
    pub(super) fn ask_again(&mut self, now: Time) -> Option<u64> {
        let under_way = self.under_way.as_mut()?;
        let is_time = under_way.found.is_none() && under_way.began + AGAIN_AFTER <= now;
        if !is_time || std::mem::replace(&mut under_way.is_asked_again, true) {
            return None;
        }
        Some(self.number)
    }

    /// Notes that the process of a node runs, and that it suspects these nodes of the present run.
    pub(super) fn note_awake(&mut self, node: NodeId, number: u64, silent: &[(NodeId, u64)]) {
        if number != self.number {
            return;
        }
        let Some(under_way) = &mut self.under_way else { return };
        if !under_way.left_out.contains(&node) {
            under_way.awake.insert(node);
        }
        for (suspect, seconds) in silent {
            // A suspect that is no member is a guest, which this launcher has not started.
            if let Some(&member) = under_way.members.get(suspect.index()) {
                let longest = under_way.suspected.entry(member).or_default();
                *longest = (*longest).max(*seconds);
            }
        }
    }

    /// Notes what the coordinator has found.
    pub(super) fn note_found(&mut self, number: u64, diagnosis: Diagnosis) {
        if number == self.number
            && let Some(under_way) = &mut self.under_way
        {
            under_way.found.get_or_insert(diagnosis);
        }
    }

    /// Ends the diagnosis if it is complete or due. Returns the requests and the answer.
    pub(super) fn take_ended<'a>(
        &mut self,
        now: Time,
        name: impl Fn(NodeId) -> &'a str,
    ) -> Option<(Vec<u64>, Diagnosis)> {
        let is_ended = |it: &mut UnderWay| {
            let known = it.awake.len() + it.left_out.len();
            it.ends_at() <= now || it.found.is_some() && known == it.members.len()
        };
        let mut ended = self.under_way.take_if(is_ended)?;
        let requests = std::mem::take(&mut ended.requests);
        Some((requests, ended.answer(now, name)))
    }
}

impl UnderWay {
    /// Returns when the answer is given even if nothing happens.
    fn ends_at(&self) -> Time {
        self.began + if self.found.is_some() { SILENT_AFTER } else { PATIENCE }
    }

    fn due(&self) -> Time {
        match self.found.is_some() || self.is_asked_again {
            true => self.ends_at(),
            false => self.began + AGAIN_AFTER,
        }
    }

    fn answer<'a>(self, now: Time, name: impl Fn(NodeId) -> &'a str) -> Diagnosis {
        let asked = now.since(self.began).as_secs();
        let is_found = self.found.is_some();
        let mut diagnosis = self.found.unwrap_or_default();
        for &node in self.members.iter().filter(|node| !self.left_out.contains(node)) {
            let (name, suspected) = (name(node), self.suspected.get(&node).copied());
            let (seconds, text) = match (self.awake.contains(&node), suspected) {
                (true, None) => continue,
                (true, Some(seconds)) => (
                    seconds,
                    format!(
                        "{name} runs, but other nodes have not heard it for {seconds} s: look at \
                         the link to it"
                    ),
                ),
                (false, suspected) => {
                    let seconds = suspected.unwrap_or(asked).max(asked);
                    let text = format!(
                        "{name} has been silent for {seconds} s: its process is stopped, or its \
                         host or the link to it is down"
                    );
                    (seconds, text)
                }
            };
            let wait = Wait::new(WaitKind::SilentNode, 1).for_seconds(seconds);
            diagnosis.waits.add(wait.such_as(text));
        }
        if !is_found {
            let wait = Wait::new(WaitKind::NoAnswer, 1).for_seconds(asked);
            let text = format!("the coordinator of the job has not answered for {asked} s");
            diagnosis.waits.add(wait.such_as(text));
        }
        diagnosis
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: NodeId = NodeId(0);
    const B: NodeId = NodeId(1);

    fn seconds(seconds: u64) -> Time {
        Time::ZERO + Duration::from_secs(seconds)
    }

    fn name(node: NodeId) -> &'static str {
        ["a/0", "b/1"][node.index()]
    }

    fn found() -> Diagnosis {
        let mut diagnosis = Diagnosis::default();
        (diagnosis.pes, diagnosis.handled) = (2, Some(0));
        diagnosis
    }

    fn begun() -> Diagnosing {
        let mut diagnosing = Diagnosing::default();
        assert_eq!(diagnosing.due(), None);
        assert_eq!(diagnosing.add(5, vec![A, B], seconds(10)), Some(1));
        assert_eq!(diagnosing.add(6, vec![A, B], seconds(11)), None, "it is under way");
        diagnosing
    }

    #[test]
    fn the_answer_is_given_to_all_when_all_have_answered() {
        let mut diagnosing = begun();
        diagnosing.note_awake(A, 1, &[]);
        diagnosing.note_found(1, found());
        diagnosing.note_awake(B, 7, &[]);
        assert_eq!(diagnosing.take_ended(seconds(11), name), None, "of another diagnosis");
        diagnosing.note_awake(B, 1, &[]);

        let ended = diagnosing.take_ended(seconds(11), name);

        assert_eq!(ended, Some((vec![5, 6], found())));
        assert_eq!((diagnosing.due(), diagnosing.take_ended(seconds(99), name)), (None, None));
        assert_eq!(diagnosing.add(8, vec![A], seconds(20)), Some(2));
    }

    #[test]
    fn a_node_that_does_not_answer_is_named_with_the_time_since_others_suspect_it() {
        let mut diagnosing = begun();
        diagnosing.note_awake(A, 1, &[(B, 14), (NodeId(9), 3)]);
        diagnosing.note_found(1, found());
        assert_eq!(diagnosing.due(), Some(seconds(12)));
        assert_eq!(diagnosing.take_ended(seconds(11), name), None);

        let (_, diagnosis) = diagnosing.take_ended(seconds(12), name).unwrap();

        let summary = diagnosis.summary();
        assert!(summary.starts_with("b/1 has been silent for 14 s: its process"), "{summary}");
    }

    #[test]
    fn a_node_that_runs_and_is_not_heard_by_others_is_named_too() {
        let mut diagnosing = begun();
        diagnosing.note_awake(A, 1, &[(B, 4)]);
        diagnosing.note_awake(B, 1, &[]);
        diagnosing.note_found(1, found());
        let (_, diagnosis) = diagnosing.take_ended(seconds(11), name).unwrap();
        let summary = diagnosis.summary();
        assert!(summary.starts_with("b/1 runs, but other nodes have not heard it for 4 s"));
    }

    #[test]
    fn a_member_without_which_the_job_goes_on_is_neither_awaited_nor_named() {
        let mut diagnosing = begun();
        diagnosing.note_awake(B, 1, &[]);
        diagnosing.leave_out(B);
        diagnosing.note_awake(B, 1, &[]);
        diagnosing.note_found(1, found());
        assert_eq!(diagnosing.take_ended(seconds(11), name), None, "the other one is awaited");

        diagnosing.note_awake(A, 1, &[(B, 14)]);

        assert_eq!(diagnosing.take_ended(seconds(11), name), Some((vec![5, 6], found())));
    }

    #[test]
    fn without_an_answer_of_the_coordinator_the_silent_nodes_are_named() {
        let mut diagnosing = begun();
        diagnosing.note_awake(B, 1, &[(A, 3)]);
        assert_eq!(diagnosing.ask_again(seconds(13)), Some(1));
        assert_eq!(diagnosing.due(), Some(seconds(15)));
        assert_eq!(diagnosing.take_ended(seconds(14), name), None);

        let (_, diagnosis) = diagnosing.take_ended(seconds(15), name).unwrap();

        let text = diagnosis.to_string();
        assert!(text.starts_with("a/0 has been silent for 5 s"), "{text}");
        assert!(text.contains("the coordinator of the job has not answered for 5 s"), "{text}");

        let mut awake = begun();
        [A, B].into_iter().for_each(|node| awake.note_awake(node, 1, &[]));
        let (_, diagnosis) = awake.take_ended(seconds(15), name).unwrap();
        assert!(diagnosis.summary().starts_with("the coordinator of the job"));
    }

    #[test]
    fn a_coordinator_that_has_not_answered_is_asked_once_more() {
        let mut diagnosing = begun();
        let again = seconds(10) + AGAIN_AFTER;
        assert_eq!((diagnosing.ask_again(seconds(12)), diagnosing.due()), (None, Some(again)));

        assert_eq!(diagnosing.ask_again(again), Some(1));
        assert_eq!(diagnosing.ask_again(again), None);

        [A, B].into_iter().for_each(|node| diagnosing.note_awake(node, 1, &[]));
        diagnosing.note_found(1, found());
        assert_eq!(diagnosing.take_ended(seconds(14), name), Some((vec![5, 6], found())));

        let mut answered = begun();
        answered.note_found(1, found());
        assert_eq!(answered.ask_again(again), None);
    }
}
