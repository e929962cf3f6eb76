//! Decides when the process of each node is started, and which process is started again.
//!
//! A host or gateway accepts few unauthenticated connections at a time: the usual
//! `MaxStartups 10:30:100` of sshd (sshd_config(5)) drops some from the tenth on. Therefore only a
//! few nodes behind one host or gateway start at once, and the next starts when one of them reports
//! where it listens, or ends. Because other users open connections too, a dropped connection is
//! opened again after a pause, and each further pause is twice as long.
//!
//! The module performs no I/O: it takes events and the time, and returns nodes to start.

use super::event::{Event, Exit};
use crate::hosts::SSH_FAILED;
use gridspan_topology::{NodeId, Time};
use std::collections::BTreeMap;
use std::time::Duration;

/// Largest number of nodes behind one host or gateway that start at the same time: half of what the
/// usual sshd accepts, because it has other users.
pub(super) const STARTS_MAX: usize = 5;
/// Largest number of nodes on other hosts that start at the same time, limited because this machine
/// encrypts for all of them. Parallel shells use the same number by default (pdsh(1), `-f`).
pub(super) const STARTS_IN_ALL_MAX: usize = 32;
/// Largest number of restarts of a node. The pauses before them sum to 15.5 s, so a host is reached
/// even if others flood it for 15 s.
const RETRIES_MAX: u32 = 5;
/// First pause; each further one is twice the one before.
const PAUSE: Duration = Duration::from_millis(500);
/// Difference between the pauses of nodes, so that they do not connect again at the same time.
const SPREAD: Duration = Duration::from_millis(70);
/// Number of nodes with different pauses.
const SPREAD_NODES: u32 = 7;
/// Time for which output may follow the end of `ssh`.
const DRAIN: Duration = Duration::from_secs(1);
const STREAMS: usize = 2;

/// The part of a pause by which it differs from those of other nodes.
pub(super) fn spread_of(node: NodeId) -> Duration {
    SPREAD * (node.0 % SPREAD_NODES)
}

/// Start times of the nodes of a job.
#[derive(Debug)]
pub(super) struct Pacing {
    nodes: Vec<Start>,
}

#[derive(Debug)]
struct Start {
    /// Host or gateway to connect to; `None` for a node of this machine.
    entry: Option<String>,
    stage: Stage,
    retries: u32,
    /// Whether `ssh` reported that the connection was dropped before it could authenticate.
    was_dropped: bool,
    /// Events held back until it is known whether the node is started again.
    held: Vec<Event>,
    ended: Option<Time>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Waiting {
        due: Time,
    },
    Starting,
    /// The node listens, has ended, or is no longer wanted.
    Settled,
}

/// A node that will be started again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Retry {
    pub(super) node: NodeId,
    /// The host or gateway that dropped the connection.
    pub(super) entry: String,
    pub(super) pause: Duration,
    /// Number of this retry, from 1.
    pub(super) number: u32,
    /// Largest number of retries.
    pub(super) of: u32,
}

impl Start {
    fn new(entry: Option<String>, due: Time) -> Self {
        Self {
            entry,
            stage: Stage::Waiting { due },
            retries: 0,
            was_dropped: false,
            held: vec![],
            ended: None,
        }
    }
}

impl Pacing {
    /// Creates the pacing of nodes. Each entry is the host or gateway through which a node is
    /// reached; `None` for a node of this machine.
    pub(super) fn new(entries: impl IntoIterator<Item = Option<String>>) -> Self {
        let nodes = entries.into_iter().map(|entry| Start::new(entry, Time(0)));
        Self { nodes: nodes.collect() }
    }

    /// Adds the next node, with the host or gateway through which it is reached. It is started by
    /// [`restart`](Self::restart).
    pub(super) fn add(&mut self, entry: Option<String>) {
        self.nodes.push(Start { stage: Stage::Settled, ..Start::new(entry, Time(0)) });
    }

    /// Returns the next node to start now.
    pub(super) fn poll(&mut self, now: Time) -> Option<NodeId> {
        let starting = self.starting();
        let may_start = |start: &Start| {
            let has_room = start.entry.as_ref().is_none_or(|entry| {
                let of_entry = starting.get(entry).copied().unwrap_or_default();
                of_entry < STARTS_MAX && starting.values().sum::<usize>() < STARTS_IN_ALL_MAX
            });
            has_room && matches!(start.stage, Stage::Waiting { due } if due <= now)
        };
        let node = self.nodes.iter().position(may_start)?;
        self.nodes[node].stage = Stage::Starting;
        Some(NodeId::from(node))
    }

    /// Lets a node that has ended start again, or a node start for the first time after
    /// [`cancel`](Self::cancel).
    pub(super) fn restart(&mut self, node: NodeId, now: Time) {
        let start = &mut self.nodes[node.index()];
        *start = Start::new(start.entry.take(), now);
    }

    /// Returns when [`poll`](Self::poll) or [`handle_timeout`](Self::handle_timeout) must be called
    /// if no event happens before.
    pub(super) fn poll_timeout(&self, now: Time) -> Option<Time> {
        let times = self.nodes.iter().filter_map(|start| match start.stage {
            // A node that is due waits for an event.
            Stage::Waiting { due } => (due > now).then_some(due),
            _ => Some(start.ended? + DRAIN),
        });
        times.min()
    }

    /// Handles an event. Returns the events that the supervisor is to handle, and the node that
    /// will be started again, if any.
    pub(super) fn handle(&mut self, event: Event, now: Time) -> (Vec<Event>, Option<Retry>) {
        match event {
            Event::Listening { node, .. } => self.nodes[node.index()].stage = Stage::Settled,
            Event::ConnectionDropped { node } => {
                self.nodes[node.index()].was_dropped = true;
                return (vec![], None);
            }
            Event::Exited { node, exit: Exit::Code(SSH_FAILED) } if self.is_paced(node) => {
                let start = &mut self.nodes[node.index()];
                start.held.push(event);
                start.ended = Some(now);
                return self.settle(node, now);
            }
            Event::StreamEnded { node } if self.is_paced(node) => {
                self.nodes[node.index()].held.push(event);
                return self.settle(node, now);
            }
            Event::Exited { node, .. } => {
                let start = &mut self.nodes[node.index()];
                start.stage = Stage::Settled;
                let mut events = std::mem::take(&mut start.held);
                events.push(event);
                return (events, None);
            }
            _ => {}
        }
        (vec![event], None)
    }

    /// Handles the passing of time. Returns the events that were held back for too long.
    pub(super) fn handle_timeout(&mut self, now: Time) -> Vec<Event> {
        let mut events = vec![];
        for start in &mut self.nodes {
            if start.ended.is_some_and(|ended| ended + DRAIN <= now) {
                start.ended = None;
                start.stage = Stage::Settled;
                events.append(&mut start.held);
            }
        }
        events
    }

    /// Cancels the start of a node. Returns whether the node was waiting for a start or restart.
    pub(super) fn cancel(&mut self, node: NodeId) -> bool {
        let stage = std::mem::replace(&mut self.nodes[node.index()].stage, Stage::Settled);
        matches!(stage, Stage::Waiting { .. })
    }

    /// Whether a connection to another machine is being opened for a node.
    fn is_paced(&self, node: NodeId) -> bool {
        let start = &self.nodes[node.index()];
        start.stage == Stage::Starting && start.entry.is_some()
    }

    fn starting(&self) -> BTreeMap<String, usize> {
        let mut starting = BTreeMap::new();
        for start in self.nodes.iter().filter(|start| start.stage == Stage::Starting) {
            if let Some(entry) = &start.entry {
                *starting.entry(entry.clone()).or_default() += 1;
            }
        }
        starting
    }

    /// Decides whether a node is started again, once its `ssh` has failed and both of its output
    /// streams have ended.
    fn settle(&mut self, node: NodeId, now: Time) -> (Vec<Event>, Option<Retry>) {
        let start = &mut self.nodes[node.index()];
        if start.ended.is_none() || start.held.len() <= STREAMS {
            return (vec![], None);
        }
        start.ended = None;
        let was_dropped = std::mem::take(&mut start.was_dropped);
        let (Some(entry), true) = (&start.entry, was_dropped && start.retries < RETRIES_MAX) else {
            start.stage = Stage::Settled;
            return (std::mem::take(&mut start.held), None);
        };
        start.held.clear();
        let pause = PAUSE * (1 << start.retries) + spread_of(node);
        start.retries += 1;
        start.stage = Stage::Waiting { due: now + pause };
        let (entry, number, of) = (entry.clone(), start.retries, RETRIES_MAX);
        (vec![], Some(Retry { node, entry, pause, number, of }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(milliseconds: u64) -> Time {
        Time(milliseconds * 1_000_000)
    }

    fn pacing(nodes: usize) -> Pacing {
        Pacing::new((0..nodes).map(|_| Some("gateway".to_owned())))
    }

    fn due(pacing: &mut Pacing, now: Time) -> Vec<NodeId> {
        std::iter::from_fn(|| pacing.poll(now)).collect()
    }

    fn listens(pacing: &mut Pacing, node: NodeId) {
        let address = ([127, 0, 0, 1], 1).into();
        let (events, retry) = pacing.handle(Event::Listening { node, address }, at(0));
        assert_eq!((events.len(), retry), (1, None));
    }

    /// Ends an `ssh`, and returns the resulting events and retry.
    fn fails(pacing: &mut Pacing, node: NodeId, now: Time) -> (Vec<Event>, Option<Retry>) {
        let exit = Exit::Code(255);
        let mut all = vec![];
        let events = [Event::Exited { node, exit }, Event::StreamEnded { node }];
        for event in events {
            let (events, retry) = pacing.handle(event, now);
            assert_eq!((events, retry), (vec![], None), "its output may be incomplete");
        }
        let (events, retry) = pacing.handle(Event::StreamEnded { node }, now);
        all.extend(events);
        (all, retry)
    }

    #[test]
    fn few_nodes_behind_one_gateway_and_all_local_nodes_start_at_once() {
        let mut far = pacing(12);
        let mut near = Pacing::new((0..12).map(|_| None));

        assert_eq!(due(&mut near, at(0)).len(), 12);
        assert_eq!(due(&mut far, at(0)).len(), 5);
        assert_eq!(due(&mut far, at(60_000)).len(), 0);
        listens(&mut far, NodeId(2));
        assert_eq!(due(&mut far, at(60_000)), [NodeId(5)]);
    }

    #[test]
    fn an_added_node_waits_until_it_is_wanted() {
        let mut pacing = pacing(1);
        due(&mut pacing, at(0));
        pacing.add(None);
        assert_eq!(due(&mut pacing, at(1)), []);
        pacing.restart(NodeId(1), at(1));
        assert_eq!(due(&mut pacing, at(1)), [NodeId(1)]);
    }

    #[test]
    fn gateways_do_not_wait_for_each_other() {
        let entries = (0..12).map(|node| Some(format!("gateway{}", node % 2)));
        assert_eq!(due(&mut Pacing::new(entries), at(0)).len(), 10);
        let many = (0..100).map(|node| Some(format!("host{node}")));
        assert_eq!(due(&mut Pacing::new(many), at(0)).len(), 32, "the limit of this machine");
    }

    #[test]
    fn a_dropped_connection_is_opened_again_after_doubling_pauses() {
        let (mut pacing, mut now, mut pauses) = (pacing(1), at(0), vec![]);
        let given_up = loop {
            assert_eq!(due(&mut pacing, now), [NodeId(0)]);
            let dropped = Event::ConnectionDropped { node: NodeId(0) };
            assert_eq!(pacing.handle(dropped, now), (vec![], None));
            match fails(&mut pacing, NodeId(0), now) {
                (events, None) => break events,
                (events, Some(retry)) => {
                    assert!(events.is_empty());
                    assert_eq!(pacing.poll_timeout(now), Some(now + retry.pause));
                    assert_eq!(due(&mut pacing, now), [], "not before the pause is over");
                    pauses.push(retry.pause.as_millis());
                    now += retry.pause;
                }
            }
        };

        assert_eq!(pauses, [500, 1_000, 2_000, 4_000, 8_000]);
        assert_eq!(given_up.len(), 3, "its end and that of its streams");
    }

    #[test]
    fn a_failure_without_a_dropped_connection_is_reported_at_once() {
        let mut pacing = pacing(1);
        due(&mut pacing, at(0));

        let (events, retry) = fails(&mut pacing, NodeId(0), at(1));

        assert_eq!((events.len(), retry), (3, None));
    }

    #[test]
    fn an_open_stream_delays_events_by_at_most_a_second() {
        let mut pacing = pacing(1);
        due(&mut pacing, at(0));
        let exited = Event::Exited { node: NodeId(0), exit: Exit::Code(255) };
        pacing.handle(exited.clone(), at(0));

        assert_eq!(pacing.poll_timeout(at(0)), Some(at(1_000)));
        assert_eq!(pacing.handle_timeout(at(999)), []);
        assert_eq!(pacing.handle_timeout(at(1_000)), [exited]);
        assert_eq!(pacing.poll_timeout(at(1_000)), None);
    }
}
