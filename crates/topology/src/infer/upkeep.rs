//! Maintains a hierarchy while nodes come and go.
//!
//! A new node finds its group level by level, with the probes that a node of a sampled inference
//! would need; nothing else is measured or moved. With each change the hierarchy deviates a little
//! more from the result of a new inference; [`Upkeep::staleness`] shows when one is due.

use super::sampled::{Groups, Log, Next, Seeker};
use crate::hierarchy::Hierarchy;
use crate::id::{GroupId, NodeId};
use std::collections::BTreeSet;
use std::time::Duration;

/// A hierarchy, and the changes since its inference.
#[derive(Clone, Debug)]
pub struct Upkeep {
    hierarchy: Hierarchy,
    inferred: usize,
    changed: usize,
    /// The nodes that fitted no group when they came.
    alone: BTreeSet<NodeId>,
    /// The fraction of recent observations that are surprises.
    surprise: f64,
}

/// Ratio of changes to nodes at which an inference is due.
const MOST_CHANGED: f64 = 0.5;
/// Fraction of nodes without a fitting group at which an inference is due: such nodes are probably
/// the first ones of new groups.
const MOST_ALONE: f64 = 0.05;
/// Fraction of surprises at which an inference is due. Slow pairs and busy hosts make a fifth of
/// the observations surprising on a sound hierarchy.
const MOST_SURPRISE: f64 = 0.4;
/// Weight of one observation.
const OBSERVATION: f64 = 1.0 / 64.0;
/// Factor above or below the expected round trip beyond which an observation is a surprise.
const SURPRISING: f64 = 2.0;

impl Upkeep {
    /// Starts with a hierarchy that was just inferred or described.
    pub fn new(hierarchy: Hierarchy) -> Self {
        let inferred = hierarchy.nodes().len();
        Self { hierarchy, inferred, changed: 0, alone: BTreeSet::new(), surprise: 0.0 }
    }

    /// Returns the current hierarchy.
    pub fn hierarchy(&self) -> &Hierarchy {
        &self.hierarchy
    }

    /// Starts to place a new node. Any number of nodes may be placed at the same time.
    pub fn join(&self, node: NodeId) -> Join {
        Join::new(&self.hierarchy, node)
    }

    /// Adds a node to the group that its [`Join`] has found so far, and returns whether that
    /// succeeded. It fails if the node is already present, its number is beyond
    /// [`Hierarchy::MAX_NODES`], or the node that marks the group has left since: then start a new
    /// join.
    pub fn place(&mut self, join: &Join) -> bool {
        let into = match join.beside {
            None => Some(self.hierarchy.root()),
            Some((level, node)) => self.hierarchy.group_of(node, level),
        };
        let Some(into) = into else { return false };
        let is_alone = self.hierarchy.group(into).level() + 1 < self.hierarchy.depth();
        let is_placed = self.hierarchy.insert(join.node, into);
        if is_placed {
            self.changed += 1;
            self.alone.extend(is_alone.then_some(join.node));
        }
        is_placed
    }

    /// Removes a node that left, and returns whether it was present.
    pub fn leave(&mut self, node: NodeId) -> bool {
        let was_there = self.hierarchy.remove(node);
        self.changed += usize::from(was_there);
        self.alone.remove(&node);
        was_there
    }

    /// Records a round trip that other traffic measured.
    pub fn observe(&mut self, a: NodeId, b: NodeId, rtt: Duration) {
        let Some(expected) = self.hierarchy.rtt(a, b).filter(|rtt| !rtt.is_zero()) else { return };
        let ratio = rtt.as_secs_f64() / expected.as_secs_f64();
        let is_surprise = !(1.0 / SURPRISING..=SURPRISING).contains(&ratio);
        self.surprise += OBSERVATION * (f64::from(u8::from(is_surprise)) - self.surprise);
    }

    /// Returns how much the hierarchy needs a new inference: from 0, just inferred, to 1 and
    /// beyond, where one is due. It grows with nodes that come and leave, with nodes that fit no
    /// group, and with unexpected round trips.
    pub fn staleness(&self) -> f64 {
        let nodes = self.inferred.max(1) as f64;
        // A single node that fits no group is not a trend.
        let alone = self.alone.len().saturating_sub(1) as f64 / (MOST_ALONE * nodes);
        let changed = self.changed as f64 / (MOST_CHANGED * nodes);
        alone.max(changed).max(self.surprise / MOST_SURPRISE)
    }
}

/// A node that finds its place in rounds: each round returns the nodes to probe and takes the
/// measurements. It takes about one probe for each child of each group on the way, and three times
/// that for busy nodes.
///
/// ```
/// use gridspan_topology::{GridSpec, Hierarchy, NodeId, Upkeep};
/// use std::time::Duration;
///
/// let grid = GridSpec::from_emulate("2x4,wan=32ms")?;
/// let mut upkeep = Upkeep::new(Hierarchy::from_grid(&grid));
/// let mut join = upkeep.join(NodeId(8));
/// loop {
///     let probes = join.next_probes(upkeep.hierarchy());
///     if probes.is_empty() {
///         break;
///     }
///     for node in probes {
///         let micros = if node.0 < 4 { 64_000 } else { 110 };
///         join.answer(node, Some(Duration::from_micros(micros)));
///     }
/// }
/// assert!(upkeep.place(&join));
/// let of = |node| upkeep.hierarchy().group_of(NodeId(node), 1);
/// assert!(of(8) == of(4) && of(8) != of(0));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Join {
    node: NodeId,
    log: Log,
    /// The level of the group found so far and a node in it; `None` for the root.
    beside: Option<(usize, NodeId)>,
    seeker: Option<(Groups, Vec<GroupMark>, Seeker)>,
    is_done: bool,
    probes: usize,
}

/// A child of the group found so far, identified by a node in it because numbers of groups change.
type GroupMark = NodeId;

impl Join {
    fn new(hierarchy: &Hierarchy, node: NodeId) -> Self {
        let last = hierarchy.nodes().next_back().map_or(0, NodeId::index);
        // A number that the hierarchy will reject needs no memory.
        let length = last.max(node.index().min(Hierarchy::MAX_NODES)) + 1;
        let log = Log::new(length, 0);
        let is_done = hierarchy.contains(node) || node.index() >= Hierarchy::MAX_NODES;
        Self { node, log, beside: None, seeker: None, is_done, probes: 0 }
    }

    /// Returns the nodes to probe next in the current hierarchy, or none when the place is found.
    pub fn next_probes(&mut self, hierarchy: &Hierarchy) -> Vec<NodeId> {
        while !self.is_done {
            let Some((groups, marks, seeker)) = &mut self.seeker else {
                self.begin(hierarchy);
                continue;
            };
            match seeker.next(groups, &mut self.log) {
                Next::Ask(members) => {
                    self.probes += members.len();
                    return members.into_iter().map(NodeId).collect();
                }
                Next::In(child, _) => {
                    let level = self.beside.map_or(0, |(level, _)| level) + 1;
                    self.beside = Some((level, marks[child]));
                    self.seeker = None;
                }
                Next::Alone => self.is_done = true,
            }
        }
        Vec::new()
    }

    /// Records the measurement of a probe, or `None` if it was lost. Measurements of nodes that
    /// were not requested are ignored.
    pub fn answer(&mut self, other: NodeId, rtt: Option<Duration>) {
        let Some(rtt) = rtt.filter(|_| other != self.node && other.index() < self.log.nodes())
        else {
            return;
        };
        if self.node.index() < self.log.nodes() {
            self.log.record(self.node.0, other.0, (rtt.as_secs_f64() * 1e3) as f32);
        }
    }

    /// Returns the number of probes so far.
    pub fn probe_count(&self) -> usize {
        self.probes
    }

    /// Starts the search among the children of the group found so far.
    fn begin(&mut self, hierarchy: &Hierarchy) {
        // Nodes with higher numbers may have been placed since this join began.
        let length = hierarchy.nodes().next_back().map_or(0, |last| last.index() + 1);
        self.log.grow(length);
        let found = match self.beside {
            None => Some(hierarchy.root()),
            Some((level, node)) => hierarchy.group_of(node, level),
        };
        let children = found.map(|group| hierarchy.group(group).children()).unwrap_or_default();
        if children.is_empty() {
            self.is_done = true;
            return;
        }
        let rotated = |&child: &GroupId| {
            let members = hierarchy.group(child).members();
            // Nodes that join at the same time should not all probe the first members.
            let first = self.node.index().wrapping_mul(7) % members.len().max(1);
            let (before, after) = members.split_at(first);
            after.iter().chain(before).map(|member| member.0).collect()
        };
        let ms = |a: GroupId, b: GroupId| {
            hierarchy.rtt_between(a, b).map_or(f32::NAN, |rtt| (rtt.as_secs_f64() * 1e3) as f32)
        };
        let row = |&a: &GroupId| children.iter().map(|&b| ms(a, b)).collect();
        let groups = Groups {
            members: children.iter().map(rotated).collect(),
            between: children.iter().map(row).collect(),
            cut_ms: super::labels::cut_ms(hierarchy, hierarchy.group(children[0]).level()),
        };
        let marks = children.iter().map(|&child| hierarchy.group(child).leader()).collect();
        self.seeker = Some((groups, marks, Seeker::new(self.node.0)));
    }
}
