//! All measurements so far, and the number of probes of each node.

use crate::dice::Dice;
use crate::infer::pairs::{LEAST_MS, Pairs};

/// The measurements that the regions of one inference share.
#[derive(Clone, Debug)]
pub(in crate::infer) struct Log {
    /// For each node, its measurements: the other node, and the round trip in milliseconds.
    of: Vec<Vec<(u32, f32)>>,
    /// Number of probes of which each node was an end.
    load: Vec<u32>,
    /// The delay that each node adds to its round trips because it is busy, in milliseconds.
    pub(in crate::infer) added_ms: Vec<f32>,
    dice: Dice,
}

impl Log {
    pub(in crate::infer) fn new(nodes: usize, seed: u64) -> Self {
        Self {
            of: vec![Vec::new(); nodes],
            load: vec![0; nodes],
            added_ms: vec![0.0; nodes],
            dice: Dice::new(seed),
        }
    }

    /// Makes room for nodes with numbers below `nodes`.
    pub(in crate::infer) fn grow(&mut self, nodes: usize) {
        if nodes > self.nodes() {
            self.of.resize(nodes, Vec::new());
            self.load.resize(nodes, 0);
            self.added_ms.resize(nodes, 0.0);
        }
    }

    pub(in crate::infer) fn nodes(&self) -> usize {
        self.of.len()
    }

    /// Records a measurement, or keeps the lesser if the pair is already known.
    pub(in crate::infer) fn record(&mut self, a: u32, b: u32, ms: f32) {
        for (one, other) in [(a, b), (b, a)] {
            let known = &mut self.of[one as usize];
            match known.iter_mut().find(|(node, _)| *node == other) {
                Some((_, least)) => *least = least.min(ms.max(LEAST_MS)),
                None => known.push((other, ms.max(LEAST_MS))),
            }
        }
    }

    pub(in crate::infer) fn known(&self, a: u32, b: u32) -> Option<f32> {
        self.of[a as usize].iter().find(|(node, _)| *node == b).map(|&(_, ms)| ms)
    }

    /// Returns each measured pair once, with its round trip in milliseconds.
    pub(in crate::infer) fn all(&self) -> impl Iterator<Item = (u32, u32, f32)> + '_ {
        (0_u32..).zip(&self.of).flat_map(|(a, known)| {
            known.iter().filter(move |&&(b, _)| b < a).map(move |&(b, ms)| (a, b, ms))
        })
    }

    /// Returns the round trip without the known delay of busy hosts.
    pub(in crate::infer) fn lowered(&self, a: u32, b: u32, ms: f32) -> f32 {
        let added = self.added_ms[a as usize] + self.added_ms[b as usize];
        // The estimate of the delay is only accurate to a fraction of the round trip.
        (ms - added).max(0.2 * ms)
    }

    /// Returns the measured pairs among these nodes.
    pub(in crate::infer) fn pairs(&self, nodes: &[u32]) -> Pairs {
        let mut place = vec![None; self.of.len()];
        nodes.iter().enumerate().for_each(|(n, &node)| place[node as usize] = Some(n));
        let mut pairs = Pairs::new(nodes.len());
        for (a, &node) in nodes.iter().enumerate() {
            for &(other, ms) in &self.of[node as usize] {
                if let Some(b) = place[other as usize] {
                    pairs.set(a, b, ms);
                }
            }
        }
        pairs
    }

    /// Counts a future probe of a pair.
    pub(in crate::infer) fn count_probe(&mut self, a: u32, b: u32) {
        self.load[a as usize] += 1;
        self.load[b as usize] += 1;
    }

    pub(in crate::infer) fn load(&self) -> &[u32] {
        &self.load
    }

    /// Returns a sort key for the choice of nodes to probe: busy hosts last, then by the number of
    /// their probes.
    pub(in crate::infer) fn probing_order(&self, node: u32) -> (bool, u32) {
        (self.added_ms[node as usize] > 0.0, self.load[node as usize])
    }

    pub(in crate::infer) fn shuffle(&mut self, nodes: &mut [u32]) {
        for last in (1..nodes.len()).rev() {
            nodes.swap(last, self.dice.remainder(last + 1));
        }
    }
}
