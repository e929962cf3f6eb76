//! Changes of the nodes of a running job: nodes that leave and join on request, and the stop of the
//! job with a checkpoint.
//!
//! # Steps
//!
//! 1. The launcher collects requests for [`GATHER`], since signals often reach all nodes at once.
//! 2. It asks the node of main to stop the job after a checkpoint, at main's next progress point.
//! 3. When the job has stopped, the supervisor begins another run without the nodes that leave and
//!    with those that join, as after a loss.
//!
//! Requests that come meanwhile wait for the next change. After a loss before step 3, the change
//! begins again with step 1. A node that must leave and has not left in time counts as lost.

use gridspan_topology::{NodeId, Time};
use std::collections::BTreeSet;
use std::time::Duration;

/// Time for which requests are collected.
pub(super) const GATHER: Duration = Duration::from_millis(100);

/// A requested change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Change {
    pub(super) what: What,
    /// Number of the request that gets an answer; `None` for a signal.
    pub(super) request: Option<u64>,
    /// When a node that must leave counts as lost.
    pub(super) until: Option<Time>,
}

/// What changes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum What {
    /// These members leave.
    Leave(BTreeSet<NodeId>),
    /// These nodes, which are not members, join.
    Join(BTreeSet<NodeId>),
    /// The job stops, and can be started again from its folder.
    Stop,
}

/// How far the change under way has come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Stage {
    /// Nothing changes.
    #[default]
    None,
    /// The node of main is asked to stop the job.
    Requested,
    /// The job has stopped.
    Paused,
    /// The nodes of the next run have their bundles.
    GoesOn,
}

/// The changes that are requested and under way.
#[derive(Default)]
pub(super) struct Changes {
    waiting: Vec<Change>,
    /// When the first of the waiting ones came.
    since: Option<Time>,
    under_way: Vec<Change>,
    pub(super) stage: Stage,
}

impl Changes {
    /// Adds a request.
    pub(super) fn add(&mut self, change: Change, now: Time) {
        self.waiting.push(change);
        self.since.get_or_insert(now);
    }

    /// Returns when the waiting requests can begin, if there are any and no change is under way.
    pub(super) fn due(&self) -> Option<Time> {
        let since = self.since.filter(|_| self.stage == Stage::None);
        since.map(|since| since + GATHER)
    }

    /// Returns the next time at which a node that must leave counts as lost, unless the job has
    /// stopped.
    pub(super) fn expires(&self) -> Option<Time> {
        self.open().filter_map(|change| change.until).min()
    }

    /// Begins the waiting requests.
    pub(super) fn begin(&mut self) {
        self.under_way = std::mem::take(&mut self.waiting);
        (self.since, self.stage) = (None, Stage::Requested);
    }

    /// Drops the changes under way of nodes that are not members any more. Returns a node of each
    /// dropped change, with the number of its request.
    pub(super) fn drop_obsolete(&mut self, members: &[NodeId]) -> Vec<(Option<u64>, NodeId)> {
        let mut dropped = Vec::new();
        // Requests name at least one node.
        self.under_way.retain(|change| match &change.what {
            What::Leave(nodes) if !nodes.iter().any(|node| members.contains(node)) => {
                dropped.extend(nodes.first().map(|&node| (change.request, node)));
                false
            }
            _ => true,
        });
        if self.under_way.is_empty() {
            self.stage = Stage::None;
        }
        dropped
    }

    /// Refuses the requests under way to let nodes leave, because none would be left. Returns their
    /// numbers.
    pub(super) fn drop_requests_to_leave(&mut self) -> Vec<u64> {
        let is_dropped =
            |change: &mut Change| change.request.is_some() && matches!(change.what, What::Leave(_));
        let dropped = self.under_way.extract_if(.., is_dropped);
        let numbers = dropped.filter_map(|change| change.request).collect();
        if self.under_way.is_empty() {
            self.stage = Stage::None;
        }
        numbers
    }

    /// Refuses requests under way to let nodes join, until at most `most` nodes join. Returns their
    /// numbers.
    pub(super) fn drop_requests_to_join(&mut self, most: usize) -> Vec<u64> {
        let mut joining = 0;
        let is_dropped = |change: &mut Change| match &change.what {
            What::Join(nodes) if joining + nodes.len() > most => true,
            What::Join(nodes) => {
                joining += nodes.len();
                false
            }
            What::Leave(_) | What::Stop => false,
        };
        let dropped = self.under_way.extract_if(.., is_dropped);
        let numbers: Vec<u64> = dropped.filter_map(|change| change.request).collect();
        if !numbers.is_empty() && self.under_way.is_empty() {
            self.stage = Stage::None;
        }
        numbers
    }

    /// Whether a request under way lets a node leave.
    pub(super) fn is_requested_to_leave(&self, node: NodeId) -> bool {
        self.under_way.iter().any(|change| {
            let is_named = matches!(&change.what, What::Leave(nodes) if nodes.contains(&node));
            is_named && change.request.is_some()
        })
    }

    /// Whether the job is to stop with a change that waits or is under way.
    pub(super) fn will_stop(&self) -> bool {
        self.all().any(|change| change.what == What::Stop)
    }

    /// Begins again after a loss, unless the job has stopped.
    pub(super) fn begin_again(&mut self, now: Time) {
        if self.stage == Stage::Requested {
            self.postpone(now);
        }
    }

    /// Lets the change under way wait for the next run.
    pub(super) fn postpone(&mut self, now: Time) {
        self.under_way.append(&mut self.waiting);
        self.waiting = std::mem::take(&mut self.under_way);
        self.stage = Stage::None;
        self.since = (!self.waiting.is_empty()).then_some(now);
    }

    /// Ends the change under way, and returns it.
    pub(super) fn end(&mut self) -> Vec<Change> {
        self.stage = Stage::None;
        std::mem::take(&mut self.under_way)
    }

    /// Removes and returns the changes whose time is up.
    pub(super) fn expired(&mut self, now: Time) -> Vec<Change> {
        let is_expired = |change: &mut Change| change.until.is_some_and(|until| until <= now);
        let mut expired: Vec<Change> = self.waiting.extract_if(.., is_expired).collect();
        if matches!(self.stage, Stage::None | Stage::Requested) {
            expired.extend(self.under_way.extract_if(.., is_expired));
        }
        if self.waiting.is_empty() {
            self.since = None;
        }
        expired
    }

    /// Forgets the request to stop the job, if no change needs the stop any more.
    pub(super) fn forget_request(&mut self) {
        if self.under_way.is_empty() && self.stage == Stage::Requested {
            self.stage = Stage::None;
        }
    }

    /// The changes for which the job has not stopped yet.
    fn open(&self) -> impl Iterator<Item = &Change> {
        let is_open = matches!(self.stage, Stage::None | Stage::Requested);
        self.waiting.iter().chain(self.under_way.iter().filter(move |_| is_open))
    }

    /// Whether a node is to leave with a change that waits or is under way.
    pub(super) fn is_leaving(&self, node: NodeId) -> bool {
        self.all().any(|change| matches!(&change.what, What::Leave(nodes) if nodes.contains(&node)))
    }

    /// Whether a node is to join with a change that waits or is under way.
    pub(super) fn is_joining(&self, node: NodeId) -> bool {
        self.all().any(|change| matches!(&change.what, What::Join(nodes) if nodes.contains(&node)))
    }

    fn all(&self) -> impl Iterator<Item = &Change> {
        self.waiting.iter().chain(&self.under_way)
    }

    /// Whether the job ends with the change under way.
    pub(super) fn stops(&self) -> bool {
        self.under_way.iter().any(|change| change.what == What::Stop)
    }

    /// The nodes that leave and those that join with the change under way.
    pub(super) fn nodes(&self) -> (BTreeSet<NodeId>, BTreeSet<NodeId>) {
        let (mut leaving, mut joining) = (BTreeSet::new(), BTreeSet::new());
        for change in &self.under_way {
            match &change.what {
                What::Leave(nodes) => leaving.extend(nodes),
                What::Join(nodes) => joining.extend(nodes),
                What::Stop => {}
            }
        }
        (leaving, joining)
    }

    /// The members of the next run.
    pub(super) fn applied_to(&self, members: &[NodeId]) -> Vec<NodeId> {
        let (leaving, joining) = self.nodes();
        let stays = members.iter().copied().filter(|node| !leaving.contains(node));
        let mut next: BTreeSet<NodeId> = stays.collect();
        next.extend(joining);
        next.into_iter().collect()
    }
}
