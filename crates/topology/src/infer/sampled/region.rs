//! One region: a set of nodes, of which a sample is split into groups. The other nodes then search
//! for their groups.

use super::log::Log;
use super::placing::{Groups, Next, Seeker};
use crate::infer::nested::{Nested, nested};
use crate::infer::pairs::{Pairs, median};

/// Size of the sample of a region that is expected to have several levels.
const LARGE_SAMPLE: usize = 64;
/// Minimum size of the sample of a region that is expected to be a single group.
const SMALL_SAMPLE: usize = 24;
/// Number of probes per node for the sample of a region that is expected to be a single group.
const SAMPLE_COST: usize = 20;
/// Minimum mean number of sample members per group of a level. Levels with fewer are not used to
/// split a region.
const RELIABLE_MEMBERS: usize = 4;
/// Maximum number of groups of a level used to split, because every node may have to probe each of
/// them.
const MOST_GROUPS: usize = 16;

/// The state of a region.
#[derive(Clone, Debug)]
enum State {
    New,
    Sampled(Vec<u32>),
    Placing(Placing),
    Done,
}

/// Nodes searching for their groups, as many at a time as there are members to probe.
#[derive(Clone, Debug)]
struct Placing {
    groups: Groups,
    waiting: Vec<u32>,
    seekers: Vec<Seeker>,
    alone: Vec<u32>,
    /// Whether the sample shows no levels below the groups.
    is_finest: bool,
}

/// A region of a grid.
#[derive(Clone, Debug)]
pub(super) struct Region {
    members: Vec<u32>,
    holds_together: bool,
    /// Set for nodes that fit no group: the lower bound in milliseconds of their round trips to all
    /// groups.
    stray_ms: Option<f32>,
    state: State,
}

/// The request or the result of a region.
pub(super) enum Step {
    /// These pairs must be measured.
    Probe(Vec<(u32, u32)>),
    /// It is split into these regions.
    Split(Vec<Region>),
    /// It is a single group.
    Leaf(Vec<u32>),
    /// Each of these nodes is a separate group.
    Singles(Vec<u32>),
}

impl Region {
    /// Creates a region without knowledge of its structure.
    pub(super) fn new(members: Vec<u32>) -> Self {
        Self { members, holds_together: false, stray_ms: None, state: State::New }
    }

    /// Continues with the measurements so far. Must not be called after a split or a leaf.
    pub(super) fn step(&mut self, log: &mut Log) -> Step {
        match std::mem::replace(&mut self.state, State::Done) {
            State::New => self.sample(log),
            State::Sampled(sample) => self.split(&sample, log),
            State::Placing(placing) => self.place(placing, log),
            State::Done => Step::Leaf(self.take_members()),
        }
    }

    /// Takes all nodes of the region, which is then empty.
    pub(super) fn take_members(&mut self) -> Vec<u32> {
        std::mem::take(&mut self.members)
    }

    fn sample(&mut self, log: &mut Log) -> Step {
        let mut sample = self.members.clone();
        log.shuffle(&mut sample);
        // Nodes with few probes so far come first, in random order.
        sample.sort_by_key(|&node| log.load()[node as usize]);
        sample.truncate(self.sample_size());
        sample.sort_unstable();
        let mut probes = Vec::new();
        for (n, &a) in sample.iter().enumerate() {
            for &b in &sample[..n] {
                if log.known(a, b).is_none() {
                    log.count_probe(a, b);
                    probes.push((a, b));
                }
            }
        }
        self.state = State::Sampled(sample);
        if probes.is_empty() { self.step(log) } else { Step::Probe(probes) }
    }

    fn sample_size(&self) -> usize {
        let cheap = (SAMPLE_COST * self.members.len()).isqrt();
        if self.holds_together { cheap.clamp(SMALL_SAMPLE, LARGE_SAMPLE) } else { LARGE_SAMPLE }
    }

    fn split(&mut self, sample: &[u32], log: &mut Log) -> Step {
        let pairs = log.pairs(sample);
        let found = nested(&pairs);
        for (&node, height) in sample.iter().zip(&found.heights) {
            let added = &mut log.added_ms[node as usize];
            *added = added.max(height.added);
        }
        let is_whole = sample.len() == self.members.len();
        let Some(level) = splitting_level(&found, is_whole) else {
            return self.leaf(&pairs);
        };
        let groups = groups(&found, level, sample, &pairs, log);
        if is_whole {
            let leaf =
                |members| Region { holds_together: true, state: State::Done, ..Self::new(members) };
            return Step::Split(groups.members.into_iter().map(leaf).collect());
        }
        let mut waiting: Vec<u32> = self
            .members
            .iter()
            .copied()
            .filter(|node| sample.binary_search(node).is_err())
            .collect();
        log.shuffle(&mut waiting);
        let is_finest = level + 1 == found.levels.len();
        self.place(Placing { groups, waiting, seekers: vec![], alone: vec![], is_finest }, log)
    }

    /// Makes the region a leaf. Nodes that fit no other group become singles if they are not close
    /// enough to form a group.
    fn leaf(&mut self, pairs: &Pairs) -> Step {
        let members = self.take_members();
        let mut rtts: Vec<f32> = (0..pairs.items())
            .flat_map(|a| (0..a).filter_map(move |b| pairs.known(a, b)))
            .collect();
        match (self.stray_ms, median(&mut rtts)) {
            (Some(stray_ms), Some(ms)) if ms > stray_ms => Step::Singles(members),
            _ => Step::Leaf(members),
        }
    }

    /// Whether the region consists of nodes that fit no other group.
    pub(super) fn is_stray(&self) -> bool {
        self.stray_ms.is_some()
    }

    fn place(&mut self, mut placing: Placing, log: &mut Log) -> Step {
        let mut probes = Vec::new();
        loop {
            let seekers = std::mem::take(&mut placing.seekers);
            // Placed nodes can be probed only from the next wave on, which makes waves independent
            // of the order of their nodes.
            let mut placed = Vec::new();
            for mut seeker in seekers {
                match seeker.next(&placing.groups, log) {
                    Next::Ask(members) => {
                        probes.extend(members.into_iter().map(|member| (seeker.node, member)));
                        placing.seekers.push(seeker);
                    }
                    Next::In(group, added) => placed.push((group, seeker.node, added)),
                    Next::Alone => placing.alone.push(seeker.node),
                }
            }
            for (group, node, added) in placed {
                placing.groups.members[group].push(node);
                log.added_ms[node as usize] =
                    log.added_ms[node as usize].max(significant(added, &placing.groups, group));
            }
            if !probes.is_empty() {
                self.state = State::Placing(placing);
                return Step::Probe(probes);
            }
            if placing.waiting.is_empty() {
                return self.finish(placing);
            }
            let able: usize = placing.groups.members.iter().map(Vec::len).sum();
            let rest = placing.waiting.split_off(placing.waiting.len().saturating_sub(able));
            placing.seekers = rest.into_iter().map(Seeker::new).collect();
        }
    }

    fn finish(&mut self, placing: Placing) -> Step {
        let holds_together = placing.is_finest;
        let region = |members| Region { holds_together, ..Self::new(members) };
        let mut regions: Vec<Region> = placing.groups.members.into_iter().map(region).collect();
        if !placing.alone.is_empty() {
            let stray_ms = Some(placing.groups.cut_ms);
            regions.push(Region { stray_ms, ..Self::new(placing.alone) });
        }
        Step::Split(regions)
    }
}

/// Returns 0 for a delay too small to distinguish from jitter, otherwise the delay.
fn significant(added: f32, groups: &Groups, group: usize) -> f32 {
    let inside = groups.between[group][group];
    if added > 0.3 * inside { added } else { 0.0 }
}

/// Returns the level to split by: the last one if the sample is the whole region, otherwise the
/// last one with few groups and enough sample members per group, or the first if there is none.
/// Returns `None` if that level has only one group, or if there is no level.
fn splitting_level(found: &Nested, is_whole: bool) -> Option<usize> {
    let count = |groups: &Vec<u32>| groups.iter().max().map_or(0, |&last| last as usize + 1);
    let is_shown = |groups: &Vec<u32>| {
        let groups_count = count(groups);
        groups_count <= MOST_GROUPS && groups.len() >= RELIABLE_MEMBERS * groups_count
    };
    let last = found.levels.len().checked_sub(1)?;
    let level = if is_whole { last } else { found.levels.iter().rposition(is_shown).unwrap_or(0) };
    (count(&found.levels[level]) > 1).then_some(level)
}

/// Returns the groups of a level with the medians between them.
fn groups(found: &Nested, level: usize, sample: &[u32], pairs: &Pairs, log: &Log) -> Groups {
    let of = &found.levels[level];
    let count = of.iter().max().map_or(0, |&last| last as usize + 1);
    let mut members = vec![Vec::new(); count];
    for (&group, &node) in of.iter().zip(sample) {
        members[group as usize].push(node);
    }
    let mut rtts = vec![vec![Vec::new(); count]; count];
    for a in 0..sample.len() {
        for b in 0..a {
            if let Some(ms) = pairs.known(a, b) {
                let (low, high) = (of[a].min(of[b]) as usize, of[a].max(of[b]) as usize);
                rtts[low][high].push(log.lowered(sample[a], sample[b], ms));
            }
        }
    }
    let mut between = vec![vec![f32::NAN; count]; count];
    for low in 0..count {
        for high in low..count {
            let ms = median(&mut rtts[low][high]).unwrap_or(f32::NAN);
            between[low][high] = ms;
            between[high][low] = ms;
        }
    }
    Groups { members, between, cut_ms: found.cuts[level].0 }
}
