//! A tree that is changed by moves. It keeps the children of each node in the order of sending, and
//! the time until all nodes below it have the message. Moving a subtree updates the two paths to
//! the root, up to the node at which nothing changes.

use crate::model::{NONE, TreeCostModel};

/// A child in its parent's list.
#[derive(Clone, Copy, Debug)]
struct Child {
    /// Time from the end of its send until the child and all nodes below it have the message.
    tail_s: f64,
    busy_s: f64,
    node: u32,
}

#[derive(Clone, Debug)]
pub(super) struct State<'a> {
    model: &'a TreeCostModel,
    root: u32,
    parents: Vec<u32>,
    /// Greatest tail first, which is optimal.
    children: Vec<Vec<Child>>,
    below_s: Vec<f64>,
    critical: Vec<u32>,
}

impl<'a> State<'a> {
    pub(super) fn new(model: &'a TreeCostModel, parents: &[u32]) -> Self {
        let count = parents.len();
        let mut state = Self {
            model,
            root: 0,
            parents: parents.to_vec(),
            children: vec![Vec::new(); count],
            below_s: vec![0.0; count],
            critical: vec![NONE; count],
        };
        state.rebuild();
        state
    }

    /// Replaces the tree by another over the same nodes.
    pub(super) fn reset(&mut self, parents: &[u32]) {
        self.parents.copy_from_slice(parents);
        self.rebuild();
    }

    fn rebuild(&mut self) {
        self.children.iter_mut().for_each(Vec::clear);
        for node in 0..self.parents.len() as u32 {
            match self.parents[node as usize] {
                NONE => self.root = node,
                parent => self.children[parent as usize].push(Child {
                    tail_s: 0.0,
                    busy_s: self.model.busy_s(parent, node),
                    node,
                }),
            }
        }
        let mut order = vec![self.root];
        let mut at = 0;
        while let Some(&node) = order.get(at) {
            order.extend(self.children[node as usize].iter().map(|child| child.node));
            at += 1;
        }
        for &node in order.iter().rev() {
            let mut children = std::mem::take(&mut self.children[node as usize]);
            for child in &mut children {
                child.tail_s = self.tail_s(node, child.node);
            }
            children.sort_by(|one, other| other.tail_s.total_cmp(&one.tail_s));
            self.children[node as usize] = children;
            self.sum_up(node);
        }
    }

    pub(super) fn cost_s(&self) -> f64 {
        self.below_s[self.root as usize]
    }

    pub(super) fn parents(&self) -> &[u32] {
        &self.parents
    }

    pub(super) fn root(&self) -> u32 {
        self.root
    }

    pub(super) fn parent(&self, node: u32) -> u32 {
        self.parents[node as usize]
    }

    /// The children of a node in the order of sending.
    pub(super) fn children(&self, node: u32) -> impl Iterator<Item = u32> {
        self.children[node as usize].iter().map(|child| child.node)
    }

    /// The child through which the last node below this one is reached; `None` for a leaf.
    pub(super) fn critical(&self, node: u32) -> Option<u32> {
        Some(self.critical[node as usize]).filter(|&child| child != NONE)
    }

    /// Whether `node` is `above` itself or below it.
    pub(super) fn is_below(&self, mut node: u32, above: u32) -> bool {
        while node != above {
            if node == NONE {
                return false;
            }
            node = self.parents[node as usize];
        }
        true
    }

    /// Moves a node, with all below it, to another parent that is not below it.
    pub(super) fn attach(&mut self, node: u32, parent: u32) {
        let before = self.parents[node as usize];
        self.children[before as usize].retain(|child| child.node != node);
        self.climb(before);
        self.parents[node as usize] = parent;
        let child = Child {
            tail_s: self.tail_s(parent, node),
            busy_s: self.model.busy_s(parent, node),
            node,
        };
        let siblings = &mut self.children[parent as usize];
        let place = siblings.partition_point(|other| other.tail_s >= child.tail_s);
        siblings.insert(place, child);
        self.climb(parent);
    }

    fn tail_s(&self, parent: u32, node: u32) -> f64 {
        self.model.flight_s(parent, node) + self.below_s[node as usize]
    }

    /// Updates a node after a change of a child, and its ancestors until nothing changes.
    fn climb(&mut self, mut node: u32) {
        while self.sum_up(node) {
            let parent = self.parents[node as usize];
            if parent == NONE {
                return;
            }
            let tail_s = self.tail_s(parent, node);
            let siblings = &mut self.children[parent as usize];
            let Some(mut place) = siblings.iter().position(|child| child.node == node) else {
                return;
            };
            siblings[place].tail_s = tail_s;
            while place > 0 && siblings[place - 1].tail_s < tail_s {
                siblings.swap(place - 1, place);
                place -= 1;
            }
            while place + 1 < siblings.len() && siblings[place + 1].tail_s > tail_s {
                siblings.swap(place, place + 1);
                place += 1;
            }
            node = parent;
        }
    }

    /// Computes one node again from its children. Returns whether anything changed.
    fn sum_up(&mut self, node: u32) -> bool {
        let (mut sent_s, mut last) = (0.0, (0.0, NONE));
        for child in &self.children[node as usize] {
            sent_s += child.busy_s;
            if sent_s + child.tail_s > last.0 {
                last = (sent_s + child.tail_s, child.node);
            }
        }
        let place = node as usize;
        let has_changed = self.below_s[place] != last.0;
        (self.below_s[place], self.critical[place]) = last;
        has_changed
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::{grid_links, uniform_links};
    use crate::model::Serialisation;
    use proptest::prelude::*;

    proptest! {
        /// The cost after moves must equal the cost that the model computes for the whole tree.
        #[test]
        fn the_cost_after_any_moves_equals_that_of_the_whole_tree(
            moves in prop::collection::vec((1..24_u32, 0..24_u32), 0..60),
            is_grid: bool,
        ) {
            let links = if is_grid { grid_links(4, 6, 1) } else { uniform_links(24, 1) };
            let model = TreeCostModel::new(&links, 300_000, Serialisation::Transfer);
            let mut star = vec![0; 24];
            star[0] = NONE;
            let mut state = State::new(&model, &star);
            for (node, parent) in moves {
                if !state.is_below(parent, node) {
                    state.attach(node, parent);
                }
                let whole = model.completion_s(state.parents());
                prop_assert!((state.cost_s() - whole).abs() < 1e-9 * whole);
            }
        }
    }
}
