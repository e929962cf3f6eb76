//! The state machine of an inference that requests its measurements.

use super::assemble::{Leaf, Place, assemble};
use super::log::Log;
use super::region::{Region, Step};
use crate::hierarchy::{Draft, Hierarchy};
use crate::id::NodeId;
use crate::infer::full::{infer, infer_labelled};
use crate::infer::labels::{Labelled, SiteNames, merge};
use crate::matrix::RttMatrix;
use std::time::Duration;

/// Number of probes per node, counted at both ends.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ProbeCount {
    /// Mean over all nodes: twice the number of probes, divided by the number of nodes.
    pub mean: f64,
    /// Maximum over all nodes.
    pub max: u32,
}

/// An inference in rounds: each round returns the pairs to probe and takes the measurements.
///
/// Up to [`Inference::MAX_FULL`] nodes there is one round of all pairs. With more nodes, each is an
/// end of 25 to 80 probes on average on networks of known structure. A node gets no more probes
/// once it was an end of 300, so that no node has many more. The inference takes some dozens of
/// rounds, each of independent probes. A pair without an answer counts as lost and is not requested
/// again. The inference may miss clusters with less than about 3 % of the nodes of their site.
///
/// ```
/// use gridspan_topology::{Inference, NodeId};
/// use std::time::Duration;
///
/// let measure = |a: NodeId, b: NodeId| {
///     Some(Duration::from_micros(if a.0 % 4 == b.0 % 4 { 100 } else { 30_000 }))
/// };
/// let mut inference = Inference::new(1000, 7);
/// loop {
///     let probes = inference.next_probes();
///     if probes.is_empty() {
///         break;
///     }
///     for (from, to) in probes {
///         inference.answer(from, to, measure(from, to));
///     }
/// }
/// assert_eq!(inference.finish().groups_at(1).len(), 4);
/// ```
#[derive(Clone, Debug)]
pub struct Inference {
    log: Log,
    regions: Vec<Region>,
    places: Vec<Place>,
    open: Vec<usize>,
    leaves: Vec<Leaf>,
    /// The matrix of a small grid, of which all pairs are measured.
    matrix: Option<RttMatrix>,
    has_asked: bool,
}

impl Inference {
    /// Maximum number of nodes of which all pairs are measured.
    pub const MAX_FULL: usize = 256;
    /// Maximum number of nodes.
    pub const MAX_NODES: usize = RttMatrix::MAX_NODES;

    /// Creates an inference over nodes `0..nodes`. The same seed and answers give the same probes
    /// and the same hierarchy. Panics beyond [`Inference::MAX_NODES`].
    pub fn new(nodes: usize, seed: u64) -> Self {
        assert!(nodes <= Self::MAX_NODES, "inference is of at most {} nodes", Self::MAX_NODES);
        let is_full = nodes <= Self::MAX_FULL;
        let whole = Region::new((0..nodes as u32).collect());
        Self {
            log: Log::new(nodes, seed),
            regions: vec![whole],
            places: vec![Place { parent: None, depth: 0 }],
            open: if is_full { Vec::new() } else { vec![0] },
            leaves: Vec::new(),
            matrix: is_full.then(|| RttMatrix::new(nodes)),
            has_asked: false,
        }
    }

    /// Returns the pairs to probe next, or none when the inference can
    /// [`finish`](Inference::finish).
    pub fn next_probes(&mut self) -> Vec<(NodeId, NodeId)> {
        if let Some(matrix) = &self.matrix {
            let nodes = if self.has_asked { 0 } else { matrix.nodes() as u32 };
            self.has_asked = true;
            let pairs: Vec<_> =
                (0..nodes).flat_map(|a| (0..a).map(move |b| (NodeId(a), NodeId(b)))).collect();
            pairs.iter().for_each(|(a, b)| self.log.count_probe(a.0, b.0));
            return pairs;
        }
        let mut probes = Vec::new();
        while probes.is_empty() && !self.open.is_empty() {
            for number in std::mem::take(&mut self.open) {
                match self.regions[number].step(&mut self.log) {
                    Step::Probe(pairs) => {
                        probes.extend(pairs.into_iter().map(|(a, b)| (NodeId(a), NodeId(b))));
                        self.open.push(number);
                    }
                    Step::Split(regions) => self.split(number, regions),
                    Step::Leaf(members) => self.leaves.push(Leaf { region: number, members }),
                    Step::Singles(members) => self.single_out(number, members),
                }
            }
        }
        probes
    }

    /// Records the measurement of a probe, or `None` if it was lost. Measurements that were not
    /// requested are used too. Panics if there is no such node.
    pub fn answer(&mut self, from: NodeId, to: NodeId, rtt: Option<Duration>) {
        let nodes = self.log.nodes();
        assert!(from.index() < nodes && to.index() < nodes, "there are {nodes} nodes");
        let Some(rtt) = rtt.filter(|_| from != to) else { return };
        match &mut self.matrix {
            Some(matrix) => matrix.record(from, to, rtt),
            None => self.log.record(from.0, to.0, (rtt.as_secs_f64() * 1e3) as f32),
        }
    }

    /// Returns the number of probes so far.
    pub fn probe_count(&self) -> ProbeCount {
        let load = self.log.load();
        let sum: f64 = load.iter().map(|&probes| f64::from(probes)).sum();
        let max = load.iter().copied().max().unwrap_or(0);
        ProbeCount { mean: sum / load.len().max(1) as f64, max }
    }

    /// Returns all measured pairs, each once, with the lesser of both directions.
    pub fn measured(&self) -> impl Iterator<Item = (NodeId, NodeId, Duration)> + '_ {
        let nodes = self.matrix.as_ref().map_or(0, RttMatrix::nodes) as u32;
        let pairs = (0..nodes).flat_map(|a| (0..a).map(move |b| (NodeId(a), NodeId(b))));
        let all = pairs.filter_map(|(a, b)| {
            let matrix = self.matrix.as_ref()?;
            let both = [matrix.rtt(a, b), matrix.rtt(b, a)];
            Some((a, b, both.into_iter().flatten().min()?))
        });
        let sampled = self.log.all().map(|(a, b, ms)| {
            (NodeId(a), NodeId(b), Duration::from_secs_f64(f64::from(ms.max(0.0)) * 1e-3))
        });
        all.chain(sampled)
    }

    /// Returns the hierarchy of the measurements. Unfinished regions become single groups.
    pub fn finish(mut self) -> Hierarchy {
        if let Some(matrix) = &self.matrix {
            return infer(matrix);
        }
        self.draft().build(self.samples())
    }

    /// Returns the hierarchy as [`Inference::finish`] does, but the user's site names take
    /// precedence, as in [`infer_labelled`].
    pub fn finish_labelled(mut self, names: &SiteNames) -> Labelled {
        if let Some(matrix) = &self.matrix {
            return infer_labelled(matrix, names);
        }
        let draft = self.draft();
        merge(&draft, &draft.build(self.samples()), names, || self.samples())
    }

    fn draft(&mut self) -> Draft {
        for region in std::mem::take(&mut self.open) {
            let members = self.regions[region].take_members();
            self.leaves.push(Leaf { region, members });
        }
        assemble(&self.places, &self.leaves, &self.log)
    }

    fn samples(&self) -> impl Iterator<Item = (usize, usize, f32)> + '_ {
        self.log.all().map(|(a, b, ms)| (a as usize, b as usize, ms))
    }

    fn split(&mut self, parent: usize, regions: Vec<Region>) {
        for region in regions {
            self.open.push(self.regions.len());
            self.add(parent, region);
        }
    }

    fn single_out(&mut self, parent: usize, members: Vec<u32>) {
        for node in members {
            self.leaves.push(Leaf { region: self.regions.len(), members: vec![node] });
            self.add(parent, Region::new(Vec::new()));
        }
    }

    /// Adds a region. The parts of a region of stray nodes become siblings of the regions that the
    /// nodes did not fit, because each part has a different distance to those regions.
    fn add(&mut self, parent: usize, region: Region) {
        let stray = self.regions[parent].is_stray();
        let parent = if stray { self.places[parent].parent } else { Some(parent) };
        let depth = parent.map_or(0, |parent| self.places[parent].depth + 1);
        self.regions.push(region);
        self.places.push(Place { parent, depth });
    }
}
