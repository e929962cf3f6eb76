//! The cost model: the time of a broadcast over a tree if no two transfers share a capacity.
//!
//! A node that has the message sends to its children one after the other; its `i`-th child has the
//! message after the busy times of the first `i` sends and the flight of the `i`-th. The broadcast
//! is complete when the last node has it. Gupta and Vadhiyar (2006), section 2.2, state only that
//! initiation costs, latencies and bandwidths count as in Mateescu's model. Two interpretations:
//!
//! - [`Serialisation::Transfer`]: a sender is busy until its last byte has left. This predicts
//!   measured trees best, and all strategies here use it.
//! - [`Serialisation::Initiation`]: a sender is busy only while it begins messages, and all
//!   transfers go on at once at full speed.
//!
//! The paper does not state the order in which children are served either. Here, as in Mateescu's
//! labelling, the child with most work below it goes first. This is optimal (Jackson's rule for one
//! machine with tails). So the order follows from the tree.

use super::links::LinkMatrix;

/// The part of a send that keeps the sender from the next send.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Serialisation {
    /// Initiation and transfer.
    #[default]
    Transfer,
    /// Initiation alone.
    Initiation,
}

/// The cost model for one message size.
#[derive(Clone, Debug)]
pub struct TreeCostModel {
    class_of: Vec<u32>,
    classes: usize,
    initiation_s: Vec<f64>,
    /// For each pair of classes, row by row: the time for which a send keeps the sender busy after
    /// initiation, and the time from then until arrival. They are stored side by side, since
    /// reading them takes most of the time of a search in which no two nodes have equal links.
    sends_s: Vec<(f64, f64)>,
}

/// Reusable memory of an evaluation.
#[derive(Clone, Debug, Default)]
pub(crate) struct Scratch {
    /// Nodes, parents before children.
    order: Vec<u32>,
    first_child: Vec<u32>,
    next_sibling: Vec<u32>,
    /// Time from the arrival of the message at the node until all nodes below it have the message.
    pub(crate) below_s: Vec<f64>,
    tails: Vec<(f64, f64, u32)>,
    /// The child below which the last node is reached.
    pub(crate) critical: Vec<u32>,
}

/// No node: the parent of the root.
pub(crate) const NONE: u32 = u32::MAX;

impl TreeCostModel {
    /// The costs of sending `bytes`.
    pub fn new(links: &LinkMatrix, bytes: u64, serialisation: Serialisation) -> Self {
        let all = links.transfers_s(bytes).zip(links.latencies_s());
        let send = |(transfer_s, &latency_s)| match serialisation {
            Serialisation::Transfer => (transfer_s, latency_s),
            Serialisation::Initiation => (0.0, transfer_s + latency_s),
        };
        Self {
            class_of: links.classes_of_nodes().to_vec(),
            classes: links.classes(),
            initiation_s: links.initiations_s().to_vec(),
            sends_s: all.map(send).collect(),
        }
    }

    /// Number of nodes.
    pub fn len(&self) -> usize {
        self.class_of.len()
    }

    /// Whether there are no nodes.
    pub fn is_empty(&self) -> bool {
        self.class_of.is_empty()
    }

    pub(crate) fn classes(&self) -> usize {
        self.classes
    }

    pub(crate) fn class_of(&self, node: u32) -> usize {
        self.class_of[node as usize] as usize
    }

    /// Time for which a send occupies the sender, in seconds.
    #[inline]
    pub fn busy_s(&self, from: u32, to: u32) -> f64 {
        self.initiation_s[from as usize] + self.sends_s[self.place(from, to)].0
    }

    /// Time after the send until the receiver has the message, in seconds.
    #[inline]
    pub fn flight_s(&self, from: u32, to: u32) -> f64 {
        self.sends_s[self.place(from, to)].1
    }

    #[inline]
    fn place(&self, from: u32, to: u32) -> usize {
        self.class_of[from as usize] as usize * self.classes + self.class_of[to as usize] as usize
    }

    /// Time until the last node has the message, in seconds. `parents` has one entry for each node;
    /// the root's is any node that does not exist, such as `u32::MAX`. Nodes that the root does not
    /// reach do not count.
    pub fn completion_s(&self, parents: &[u32]) -> f64 {
        self.evaluate(parents, &mut Scratch::default())
    }

    /// Computes [`TreeCostModel::completion_s`] in reusable memory, which then holds the critical
    /// path.
    pub(crate) fn evaluate(&self, parents: &[u32], scratch: &mut Scratch) -> f64 {
        let Scratch { order, first_child, next_sibling, below_s, tails, critical } = scratch;
        let count = parents.len();
        for list in [&mut *first_child, &mut *next_sibling, &mut *critical] {
            list.clear();
            list.resize(count, NONE);
        }
        below_s.clear();
        below_s.resize(count, 0.0);
        order.clear();
        for (node, &parent) in (0u32..).zip(parents) {
            match first_child.get_mut(parent as usize) {
                Some(first) => {
                    next_sibling[node as usize] = *first;
                    *first = node;
                }
                None => order.push(node),
            }
        }
        let Some(&root) = order.first() else { return 0.0 };
        let mut at = 0;
        while let Some(&node) = order.get(at) {
            let mut child = first_child[node as usize];
            while child != NONE {
                order.push(child);
                child = next_sibling[child as usize];
            }
            at += 1;
        }
        for &node in order.iter().rev() {
            tails.clear();
            let mut child = first_child[node as usize];
            while child != NONE {
                let tail = self.flight_s(node, child) + below_s[child as usize];
                tails.push((tail, self.busy_s(node, child), child));
                child = next_sibling[child as usize];
            }
            if tails.len() > 1 {
                tails.sort_unstable_by(|one, other| {
                    other.0.total_cmp(&one.0).then(one.2.cmp(&other.2))
                });
            }
            let (mut sent, mut last) = (0.0, (0.0, NONE));
            for &(tail, busy, child) in tails.iter() {
                sent += busy;
                if sent + tail > last.0 {
                    last = (sent + tail, child);
                }
            }
            (below_s[node as usize], critical[node as usize]) = last;
        }
        below_s[root as usize]
    }

    /// The `(parent, child)` edges of a tree, parents first and children in the order of sending.
    pub fn edges(&self, parents: &[u32]) -> Vec<(u32, u32)> {
        let mut scratch = Scratch::default();
        self.evaluate(parents, &mut scratch);
        let mut edges = Vec::with_capacity(parents.len());
        for &node in &scratch.order {
            let begin = edges.len();
            let mut child = scratch.first_child[node as usize];
            while child != NONE {
                edges.push((node, child));
                child = scratch.next_sibling[child as usize];
            }
            let tail = |child: u32| self.flight_s(node, child) + scratch.below_s[child as usize];
            edges[begin..].sort_unstable_by(|one, other| {
                tail(other.1).total_cmp(&tail(one.1)).then(one.1.cmp(&other.1))
            });
        }
        edges
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 1 ms to begin a message, 10 ms of latency, 1 MB/s; node 3 is reached at 0.5 MB/s only.
    fn links() -> LinkMatrix {
        LinkMatrix::new(vec![0, 0, 0, 1], vec![1e-3; 4], |_, to| {
            (10e-3, if to == 1 { 0.5e6 } else { 1e6 })
        })
    }

    fn near(value: f64, expected: f64) {
        assert!((value - expected).abs() < 1e-9, "{value} instead of {expected}");
    }

    #[test]
    fn a_star_takes_the_busy_time_of_all_its_sends() {
        let star = [NONE, 0, 0, 0];

        // 100 kB take 100 ms, 200 ms to node 3: 3 x 1 + 100 + 100 + 200 + 10 for the last.
        let all = TreeCostModel::new(&links(), 100_000, Serialisation::Transfer);
        near(all.completion_s(&star), 0.413);
        // Transfers at once: node 3 goes first, 1 + 200 + 10; the last begins after 3.
        let one = TreeCostModel::new(&links(), 100_000, Serialisation::Initiation);
        near(one.completion_s(&star), 0.211);
    }

    #[test]
    fn the_child_with_most_below_it_goes_first() {
        let model = TreeCostModel::new(&links(), 100_000, Serialisation::Transfer);
        // 0 -> 1, 2 and 2 -> 3: node 2 at 111, node 3 at 111 + 1 + 200 + 10, node 1 at 212.
        let parents = [NONE, 0, 0, 2];

        near(model.completion_s(&parents), 0.322);
        assert_eq!(model.edges(&parents), [(0, 2), (0, 1), (2, 3)]);
    }

    #[test]
    fn a_chain_adds_up() {
        let model = TreeCostModel::new(&links(), 100_000, Serialisation::Transfer);

        near(model.completion_s(&[NONE, 0, 1, 2]), 0.111 + 0.111 + 0.211);
    }

    #[test]
    fn a_binomial_tree_of_equal_nodes_takes_one_send_for_each_round() {
        // Without latency, eight nodes are reached in three rounds of 101 ms.
        let links = LinkMatrix::new(vec![0; 8], vec![1e-3; 8], |_, _| (0.0, 1e6));
        let model = TreeCostModel::new(&links, 100_000, Serialisation::Transfer);

        near(model.completion_s(&[NONE, 0, 0, 2, 0, 4, 4, 6]), 0.303);
    }
}
