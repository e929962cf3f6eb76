//! A hierarchy that is kept while nodes come and go.
//!
//! A node that comes finds its group level by level, with the probes that a node of a sampled
//! inference would need; nothing else is measured or moved. Each change makes the hierarchy a
//! little less what a new inference would find; [`Upkeep::staleness`] says when one is due.

use super::sampled::{Groups, Log, Next, Seeker};
use crate::hierarchy::Hierarchy;
use crate::id::{GroupId, NodeId};
use std::time::Duration;

/// A hierarchy, and how much happened since it was inferred.
#[derive(Clone, Debug)]
pub struct Upkeep {
    hierarchy: Hierarchy,
    inferred: usize,
    changed: usize,
    alone: usize,
    /// The part of recent observations that are not as expected.
    surprise: f64,
}

/// When so many nodes came or left, by those there were, an inference is due.
const MOST_CHANGED: f64 = 0.5;
/// Nodes that fit nowhere are likely the first of new groups.
const MOST_ALONE: f64 = 0.05;
/// Slow pairs and busy hosts make a fifth of the observations surprising on a sound hierarchy.
const MOST_SURPRISE: f64 = 0.4;
/// So much does one observation count.
const OBSERVATION: f64 = 1.0 / 64.0;
/// An observation that differs by more than this factor is a surprise.
const SURPRISING: f64 = 2.0;

impl Upkeep {
    /// Keeps a hierarchy that was just inferred or described.
    pub fn new(hierarchy: Hierarchy) -> Self {
        let inferred = hierarchy.nodes().len();
        Self { hierarchy, inferred, changed: 0, alone: 0, surprise: 0.0 }
    }

    /// The hierarchy as it is now.
    pub fn hierarchy(&self) -> &Hierarchy {
        &self.hierarchy
    }

    /// Begins to place a node that comes. Any number may be placed at the same time.
    pub fn join(&self, node: NodeId) -> Join {
        Join::new(&self.hierarchy, node)
    }

    /// Puts a node where it was found to belong, as far as that is known; whether it could. It
    /// cannot if it is there already, its number is beyond [`Hierarchy::MAX_NODES`], or all nodes
    /// beside which it belongs have left since: then begin again.
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
            self.alone += usize::from(is_alone);
        }
        is_placed
    }

    /// Takes a node out that left; whether it was there.
    pub fn leave(&mut self, node: NodeId) -> bool {
        let was_there = self.hierarchy.remove(node);
        self.changed += usize::from(was_there);
        was_there
    }

    /// Notes a round trip that was seen anyway.
    pub fn observe(&mut self, a: NodeId, b: NodeId, rtt: Duration) {
        let Some(expected) = self.hierarchy.rtt(a, b).filter(|rtt| !rtt.is_zero()) else { return };
        let ratio = rtt.as_secs_f64() / expected.as_secs_f64();
        let is_surprise = !(1.0 / SURPRISING..=SURPRISING).contains(&ratio);
        self.surprise += OBSERVATION * (f64::from(u8::from(is_surprise)) - self.surprise);
    }

    /// How far the hierarchy is from one that should be inferred anew: from 0, just inferred, to 1
    /// and beyond, where that is due. It grows with nodes that come and leave, with nodes that fit
    /// nowhere, and with round trips that are not as expected.
    pub fn staleness(&self) -> f64 {
        let nodes = self.inferred.max(1) as f64;
        // One node alone is no trend.
        let alone = self.alone.saturating_sub(1) as f64 / (MOST_ALONE * nodes);
        let changed = self.changed as f64 / (MOST_CHANGED * nodes);
        alone.max(changed).max(self.surprise / MOST_SURPRISE)
    }
}

/// A node that finds its place, in rounds: it says whom to probe, is told what was measured, and
/// goes on. It takes about one probe for each child of each group on the way, and thrice that for
/// busy nodes.
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
    /// The level of the group found so far and a node in it; none for the whole.
    beside: Option<(usize, NodeId)>,
    seeker: Option<(Groups, Vec<GroupMark>, Seeker)>,
    is_done: bool,
    probes: usize,
}

/// A child of the group found so far, by a node in it: numbers of groups change.
type GroupMark = NodeId;

impl Join {
    fn new(hierarchy: &Hierarchy, node: NodeId) -> Self {
        let last = hierarchy.nodes().next_back().map_or(0, NodeId::index);
        // A number that the hierarchy will refuse needs no memory.
        let length = last.max(node.index().min(Hierarchy::MAX_NODES)) + 1;
        let log = Log::new(length, 0);
        let is_done = hierarchy.contains(node) || node.index() >= Hierarchy::MAX_NODES;
        Self { node, log, beside: None, seeker: None, is_done, probes: 0 }
    }

    /// Whom to probe next, as the hierarchy is now; none when the place is found.
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

    /// Notes what a probe measured; `None` if it was lost. Other nodes than those asked for are
    /// ignored.
    pub fn answer(&mut self, other: NodeId, rtt: Option<Duration>) {
        let Some(rtt) = rtt.filter(|_| other != self.node && other.index() < self.log.nodes())
        else {
            return;
        };
        if self.node.index() < self.log.nodes() {
            self.log.record(self.node.0, other.0, (rtt.as_secs_f64() * 1e3) as f32);
        }
    }

    /// How many probes were asked so far.
    pub fn probe_count(&self) -> usize {
        self.probes
    }

    /// Begins to look among the children of the group found so far.
    fn begin(&mut self, hierarchy: &Hierarchy) {
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
            // Nodes that come together do not all ask the first members.
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
