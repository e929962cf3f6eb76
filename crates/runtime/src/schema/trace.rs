//! Search for the structure of a type, by deserialising it from made-up values.
//!
//! `Deserialize` requests the values it needs from its deserializer, and so reveals the parts of
//! the type. One *pass* makes one value and records all requests. It leaves parts out: the content
//! of a recursive option, the other variants of an enum. Each node of the list of shapes knows
//! which of its parts are unvisited, and later passes visit these, until no pass finds anything
//! new. The crate `serde-reflection` does the same, but identifies types by serde's names, so it
//! distinguishes neither the instances of a generic type nor types of equal name in different
//! modules.
//!
//! Types that validate their content may refuse a value. Then the next pass offers another one. If
//! a type refuses all offers, the value around it cannot be made, and the parts after it are not
//! requested. In a struct, later passes offer these parts first, by name. In a tuple they stay
//! unknown.

use super::node::{FAILURES_MAX, Key, Kind, NODES_MAX, Node, REFUSALS_MAX};
use super::shape::{Scalar, Shape, ShapeId};
use std::collections::BTreeMap;
use std::fmt;

/// Maximum nesting of values, because each level takes a few stack frames. `serde_json` has the
/// same bound.
pub(super) const DEPTH_MAX: usize = 128;
/// Maximum number of requests of a type in all passes: these take a second at most, and a usual
/// type makes a hundred.
const STEPS_MAX: usize = 1 << 21;
/// Number of passes without a new finding after which the search ends, in addition to one for each
/// variant of the largest enum: variants are made in turn.
const IDLE_MAX: usize = 3;

/// Error of a value that cannot be made. It is not shown to users.
#[derive(Debug)]
pub(super) struct Halt;

impl fmt::Display for Halt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("this value is made up")
    }
}

impl std::error::Error for Halt {}

impl serde::de::Error for Halt {
    fn custom<T: fmt::Display>(_: T) -> Self {
        Self
    }
}

/// State of the search for the structure of a type and of all its parts.
#[derive(Default)]
pub(super) struct Trace {
    keys: BTreeMap<Key, ShapeId>,
    nodes: Vec<Node>,
    /// Number of the pass, counted from 1.
    pub(super) pass: u32,
    steps: usize,
    /// Number of consecutive passes without a new finding.
    idle: usize,
    is_new: bool,
    /// Whether the cause of a failed value is known. Reset when a value around it is made.
    is_blamed: bool,
}

impl Trace {
    /// Begins another pass, if it may find more of the type with this shape. Returns whether it
    /// did.
    pub(super) fn begin(&mut self, root: Option<ShapeId>) -> bool {
        self.idle = if self.is_new { 0 } else { self.idle + 1 };
        let wants = self.wants();
        let is_complete = root.is_some_and(|root| !wants[root as usize]);
        let is_too_much = self.steps > STEPS_MAX || self.nodes.len() >= NODES_MAX;
        if is_complete || is_too_much || self.idle > IDLE_MAX + self.variants_max() {
            return false;
        }
        (self.is_new, self.is_blamed) = (false, false);
        self.pass += 1;
        for (node, wants) in self.nodes.iter_mut().zip(wants) {
            (node.wants, node.open) = (wants, 0);
        }
        true
    }

    /// Returns, for each node, whether a part at or below it is unvisited.
    fn wants(&self) -> Vec<bool> {
        let mut wants: Vec<bool> = self.nodes.iter().map(Node::is_unfinished).collect();
        loop {
            let mut is_same = true;
            for (place, node) in self.nodes.iter().enumerate().rev() {
                if !wants[place] && node.parts().any(|part| wants[part as usize]) {
                    (wants[place], is_same) = (true, false);
                }
            }
            if is_same {
                return wants;
            }
        }
    }

    fn variants_max(&self) -> usize {
        let enums = self.nodes.iter().filter(|node| node.kind == Kind::Enum);
        enums.map(|node| node.slots.len()).max().unwrap_or(0)
    }

    /// Records a request for a value of a type with `slots` parts. Returns `None` if there were too
    /// many types or values.
    pub(super) fn enter(
        &mut self,
        key: Key,
        name: &str,
        slots: usize,
        names: &'static [&'static str],
    ) -> Option<ShapeId> {
        self.steps += 1;
        if self.steps > STEPS_MAX || self.nodes.len() >= NODES_MAX {
            self.is_blamed = true;
            return None;
        }
        Some(*self.keys.entry(key).or_insert_with(|| {
            self.is_new = true;
            self.nodes.push(Node::new(key.kind, name.to_owned(), slots, names));
            self.nodes.len() as ShapeId - 1
        }))
    }

    pub(super) fn unit(&mut self) -> Option<ShapeId> {
        let kind = Kind::Scalar(Scalar::Unit);
        self.enter(Key { kind, visitor: "", context: "", name: "" }, "", 0, &[])
    }

    pub(super) fn node(&mut self, id: ShapeId) -> &mut Node {
        &mut self.nodes[id as usize]
    }

    /// Chooses the variant of an enum to make, or `None` if no value can be made as a part of
    /// itself.
    pub(super) fn variant(&mut self, id: ShapeId) -> Option<usize> {
        let node = &self.nodes[id as usize];
        let wants: Vec<ShapeId> =
            node.parts().filter(|part| self.nodes[*part as usize].wants).collect();
        let pass = self.pass;
        let variant = self.node(id).variant(pass, |part| wants.contains(&part));
        self.is_blamed |= variant.is_none();
        variant
    }

    /// Records the shape of a node's part, and whether a value of it was made.
    pub(super) fn met(&mut self, id: ShapeId, slot: usize, part: Option<ShapeId>, is_made: bool) {
        let pass = self.pass;
        let Some(slot) = self.node(id).slots.get_mut(slot) else { return };
        let mut is_new = (slot.part.is_none() && part.is_some()) || (is_made && !slot.is_made);
        slot.part = slot.part.or(part);
        slot.is_made |= is_made;
        if !is_made {
            slot.failed = pass;
            is_new |= slot.failures < FAILURES_MAX;
            slot.failures = FAILURES_MAX.min(slot.failures + 1);
        }
        self.is_new |= is_new;
    }

    /// Records whether a value of a node was made. If not, the type's own code has refused the
    /// value, unless the cause is already known further down.
    pub(super) fn settle(&mut self, id: ShapeId, is_made: bool) {
        if is_made {
            self.node(id).is_refused = false;
        } else if !self.is_blamed {
            let node = self.node(id);
            node.is_refused = true;
            node.refusals = node.refusals.saturating_add(1);
            self.is_new |= self.node(id).refusals <= REFUSALS_MAX;
        }
        self.is_blamed = !is_made;
    }

    /// Records that a value cannot be made, and that no other value would help.
    pub(super) fn give_up(&mut self) -> Halt {
        self.is_blamed = true;
        Halt
    }

    /// Ends the search after this pass, because the code of a type panicked on a made-up value.
    pub(super) fn stop(&mut self) -> Halt {
        self.steps = STEPS_MAX + 1;
        self.give_up()
    }

    /// Limits the number of variants of an enum.
    pub(super) fn limit(&mut self, id: ShapeId, count: usize) -> Halt {
        self.node(id).limit(count);
        self.is_new = true;
        self.give_up()
    }

    /// Returns all shapes, and one more for parts that were not visited.
    pub(super) fn shapes(&self) -> Vec<Shape> {
        let unknown = self.nodes.len() as ShapeId;
        let shapes = self.nodes.iter().map(|node| node.shape(unknown));
        shapes.chain([Shape::Opaque("?".to_owned())]).collect()
    }
}
