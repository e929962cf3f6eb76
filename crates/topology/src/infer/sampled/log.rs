//! All measurements so far, and how much each node had to do for them.

use crate::dice::Dice;
use crate::infer::pairs::{LEAST_MS, Pairs};

/// What the regions of one inference share.
#[derive(Clone, Debug)]
pub(in crate::infer) struct Log {
    /// The other end and the round trip in milliseconds, of each node.
    of: Vec<Vec<(u32, f32)>>,
    /// How many probes each node was an end of.
    load: Vec<u32>,
    /// What each node, being busy, adds to its round trips.
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

    pub(in crate::infer) fn nodes(&self) -> usize {
        self.of.len()
    }

    /// Keeps the lesser where a pair is measured twice.
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

    /// All measured pairs once, in milliseconds.
    pub(in crate::infer) fn all(&self) -> impl Iterator<Item = (u32, u32, f32)> + '_ {
        (0_u32..).zip(&self.of).flat_map(|(a, known)| {
            known.iter().filter(move |&&(b, _)| b < a).map(move |&(b, ms)| (a, b, ms))
        })
    }

    /// The round trip without what busy hosts add, as far as that is known.
    pub(in crate::infer) fn lowered(&self, a: u32, b: u32, ms: f32) -> f32 {
        let added = self.added_ms[a as usize] + self.added_ms[b as usize];
        // The estimate of the addition is no better than a part of the whole.
        (ms - added).max(0.2 * ms)
    }

    /// The measured pairs among these nodes.
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

    /// Notes that a pair will be probed.
    pub(in crate::infer) fn burden(&mut self, a: u32, b: u32) {
        self.load[a as usize] += 1;
        self.load[b as usize] += 1;
    }

    pub(in crate::infer) fn load(&self) -> &[u32] {
        &self.load
    }

    /// How little a node should be asked further: busy hosts last, then by what they did.
    pub(in crate::infer) fn reluctance(&self, node: u32) -> (bool, u32) {
        (self.added_ms[node as usize] > 0.0, self.load[node as usize])
    }

    /// Puts nodes into random order.
    pub(in crate::infer) fn shuffle(&mut self, nodes: &mut [u32]) {
        for last in (1..nodes.len()).rev() {
            nodes.swap(last, self.dice.remainder(last + 1));
        }
    }
}
