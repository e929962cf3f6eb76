//! Finds the structure of a type by having it deserialise itself from made-up values.
//!
//! `Deserialize` asks its deserializer for what it needs, and so says what it consists of. One
//! *pass* makes one value and notes all that is asked for. What a pass leaves out (the content of
//! an option that is recursive, the other variants of an enum) is met by the next one, until no
//! pass finds anything new: each node of the list of shapes knows what of it was not met yet. The
//! crate `serde-reflection` does the same, but tells types apart by the names that serde gives
//! them, by which generic types and types of different modules are one.
//!
//! Types that check what they are made of may refuse a value. Then the next pass offers another;
//! and when all were refused, what comes after such a part is reached in another order, or stays
//! unknown.

use super::node::{FAILURES_MAX, Key, Kind, NODES_MAX, Node, REFUSALS_MAX};
use super::shape::{Scalar, Shape, ShapeId};
use std::collections::BTreeMap;
use std::fmt;

/// Values nest no deeper: each level takes a few frames of the stack. `serde_json` has the same
/// bound.
pub(super) const DEPTH_MAX: usize = 128;
/// A type is asked for no more than this many parts, in all passes: a second at most, and the usual
/// type has a hundred.
const STEPS_MAX: usize = 1 << 21;
/// So many passes without anything new are made beyond one for each variant of the largest enum:
/// they come in turn.
const IDLE_MAX: usize = 3;

/// A value cannot be made. Never shown.
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

/// What is known of a type and of all that it consists of.
#[derive(Default)]
pub(super) struct Trace {
    keys: BTreeMap<Key, ShapeId>,
    nodes: Vec<Node>,
    /// Counts passes, from 1.
    pub(super) pass: u32,
    steps: usize,
    /// Passes without anything new, one after the other.
    idle: usize,
    is_new: bool,
    /// Whether it is known why a value cannot be made, while nobody has made up for it.
    is_blamed: bool,
}

impl Trace {
    /// Whether another pass may find more of the type with this shape. It begins then.
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

    /// Which nodes have anything below them that was not met.
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

    /// A value of a type is wanted, which has so many parts. `None` if there were too many types,
    /// or values.
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

    /// The variant of an enum to make; `None` if no value of it can be made as part of itself.
    pub(super) fn variant(&mut self, id: ShapeId) -> Option<usize> {
        let node = &self.nodes[id as usize];
        let wants: Vec<ShapeId> =
            node.parts().filter(|part| self.nodes[*part as usize].wants).collect();
        let pass = self.pass;
        let variant = self.node(id).variant(pass, |part| wants.contains(&part));
        self.is_blamed |= variant.is_none();
        variant
    }

    /// What a part of a node turned out to be, and whether a value of it was made.
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

    /// A value of a node was made, or not; then its own code has refused what it was given, unless
    /// that was so below.
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

    /// A value cannot be made, and no other would do.
    pub(super) fn give_up(&mut self) -> Halt {
        self.is_blamed = true;
        Halt
    }

    /// The code of a type panics on a made-up value: there is no further pass.
    pub(super) fn stop(&mut self) -> Halt {
        self.steps = STEPS_MAX + 1;
        self.give_up()
    }

    /// An enum has no more than so many variants.
    pub(super) fn limit(&mut self, id: ShapeId, count: usize) -> Halt {
        self.node(id).limit(count);
        self.is_new = true;
        self.give_up()
    }

    /// All shapes, and one more for what was not met.
    pub(super) fn shapes(&self) -> Vec<Shape> {
        let unknown = self.nodes.len() as ShapeId;
        let shapes = self.nodes.iter().map(|node| node.shape(unknown));
        shapes.chain([Shape::Opaque("?".to_owned())]).collect()
    }
}
