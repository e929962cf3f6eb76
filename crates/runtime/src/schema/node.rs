//! State of one type while it is traced, and the choice of what the next pass makes.

use super::shape::{Scalar, Shape, ShapeId};

/// Maximum number of shapes of a type: hundreds are many, and the work grows with their square.
pub(super) const NODES_MAX: usize = 4096;
/// Number of times that a type is offered another value after it has refused one.
pub(super) const REFUSALS_MAX: u8 = 4;
/// Number of passes that fail to make a part before it is left out. One failure does not suffice: a
/// variant may need other variants to be made first.
pub(super) const FAILURES_MAX: u8 = 8;

/// The kind of value that a type requests from its deserializer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Kind {
    Scalar(Scalar),
    Block,
    Opaque,
    Option,
    Seq,
    Map,
    Tuple,
    Struct,
    Enum,
}

/// Identifies a type within one process. It uses the names of Rust types, which are sufficient for
/// that and do not leave the process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Key {
    pub(super) kind: Kind,
    /// The visitor, which differs for each type.
    pub(super) visitor: &'static str,
    /// The type that contains the value, where many types share a visitor.
    pub(super) context: &'static str,
    /// Serde's name of the type or variant.
    pub(super) name: &'static str,
}

/// A part of a type: an element, a field or a variant.
#[derive(Clone, Default)]
pub(super) struct Slot {
    pub(super) part: Option<ShapeId>,
    /// Whether a value of the part was made.
    pub(super) is_made: bool,
    /// Number of passes in which it could not be made, up to [`FAILURES_MAX`].
    pub(super) failures: u8,
    /// The last pass that made it or tried to, or 0.
    pub(super) tried: u32,
    /// The last pass in which it could not be made, or 0.
    pub(super) failed: u32,
}

impl Slot {
    /// Whether a value of the part was not made yet and may still be.
    fn is_due(&self) -> bool {
        !self.is_made && self.failures < FAILURES_MAX
    }
}

/// A type that is being traced.
pub(super) struct Node {
    pub(super) kind: Kind,
    name: String,
    names: &'static [&'static str],
    pub(super) slots: Vec<Slot>,
    /// Number of values that the type has refused.
    pub(super) refusals: u8,
    pub(super) is_refused: bool,
    /// Number of values of the type that are being made, each as a part of the one before.
    pub(super) open: u32,
    /// Whether this pass should visit this type, because a part at or below it is unvisited.
    pub(super) wants: bool,
    /// The first variant of which a value was made. Such a value needs no other value of the enum.
    first_made: Option<usize>,
}

impl Node {
    pub(super) fn new(
        kind: Kind,
        name: String,
        slots: usize,
        names: &'static [&'static str],
    ) -> Self {
        Self {
            kind,
            name,
            names,
            slots: vec![Slot::default(); slots],
            refusals: 0,
            is_refused: false,
            open: 0,
            wants: true,
            first_made: None,
        }
    }

    /// Returns the known shapes of the type's parts.
    pub(super) fn parts(&self) -> impl Iterator<Item = ShapeId> {
        self.slots.iter().filter_map(|slot| slot.part)
    }

    /// Whether a part of the type is unknown and may still be visited.
    pub(super) fn is_unfinished(&self) -> bool {
        let is_unmet = match self.kind {
            Kind::Enum => self.slots.iter().any(Slot::is_due),
            _ => self.slots.iter().any(|slot| slot.part.is_none()),
        };
        (is_unmet || self.is_refused) && self.refusals < REFUSALS_MAX
    }

    /// Returns the number of elements to offer: one if they are to be visited in this pass, and as
    /// few as possible otherwise.
    pub(super) fn elements(&mut self, pass: u32) -> usize {
        let may = |slot: &Slot| slot.tried != pass && slot.failures < FAILURES_MAX;
        if self.open == 1 && self.wants && self.slots.iter().all(may) {
            self.slots.iter_mut().for_each(|slot| slot.tried = pass);
            return 1.max(self.enough());
        }
        self.enough()
    }

    /// Returns the next number of elements to try after the refusals so far.
    fn enough(&self) -> usize {
        [0, 1, 2, 16, 0][usize::from(self.refusals.min(REFUSALS_MAX))]
    }

    /// Returns the order in which to offer fields by name, or `None` to offer them in their own
    /// order.
    pub(super) fn order(&self) -> Option<Vec<usize>> {
        let has_failed = self.slots.iter().any(|slot| slot.failed > 0);
        let is_named = self.names.len() == self.slots.len();
        let is_refused = self.refusals >= REFUSALS_MAX;
        if !has_failed || !is_named || is_refused || !self.wants || self.open > 1 {
            return None;
        }
        let mut order: Vec<usize> = (0..self.slots.len()).collect();
        // No part behind a failing one is visited, so failed parts come last.
        order.sort_by_key(|&slot| self.slots[slot].failed);
        Some(order)
    }

    /// Chooses the variant to make, or `None` if each needs a value of the enum that is being made.
    pub(super) fn variant(&mut self, pass: u32, wants: impl Fn(ShapeId) -> bool) -> Option<usize> {
        let all = self.slots.iter().enumerate();
        let chosen = match self.open > 1 {
            true => self.first_made.or_else(|| {
                let mut untried = all.filter(|(_, slot)| slot.tried == 0);
                untried.next().map(|(index, _)| index)
            }),
            false => {
                let is_due =
                    |slot: &Slot| slot.is_due() || (slot.is_made && slot.part.is_some_and(&wants));
                let due = all.clone().filter(|(_, slot)| is_due(slot) && slot.tried != pass);
                let longest_ago = due.min_by_key(|(_, slot)| slot.tried).filter(|_| self.wants);
                let any = || all.min_by_key(|(_, slot)| slot.tried).map(|(index, _)| index);
                longest_ago.map(|(index, _)| index).or(self.first_made).or_else(any)
            }
        };
        self.slots[chosen?].tried = pass;
        chosen
    }

    /// Notes that a value of this variant was made.
    pub(super) fn made(&mut self, variant: usize) {
        self.first_made.get_or_insert(variant);
    }

    /// Limits the number of fields or variants to `count`: some of the names are aliases.
    pub(super) fn limit(&mut self, count: usize) {
        self.slots.truncate(count);
    }

    pub(super) fn field(&self, slot: usize) -> &'static str {
        self.names.get(slot).copied().unwrap_or_default()
    }

    /// Returns the type's shape; parts that were not visited get the shape `unknown`.
    pub(super) fn shape(&self, unknown: ShapeId) -> Shape {
        let part = |slot: usize| self.slots.get(slot).and_then(|slot| slot.part).unwrap_or(unknown);
        let name = self.name.clone();
        match self.kind {
            Kind::Scalar(scalar) => Shape::Scalar(scalar),
            Kind::Block => Shape::Block(name),
            Kind::Opaque => Shape::Opaque(name),
            Kind::Option => Shape::Option(part(0)),
            Kind::Seq => Shape::Seq(part(0)),
            Kind::Map => Shape::Map(part(0), part(1)),
            Kind::Tuple => Shape::tuple((0..self.slots.len()).map(|slot| (part(slot), 1))),
            Kind::Struct => Shape::Struct { name, fields: self.named(part) },
            Kind::Enum => Shape::Enum { name, variants: self.named(part) },
        }
    }

    fn named(&self, part: impl Fn(usize) -> ShapeId) -> Vec<(String, ShapeId)> {
        let count = self.slots.len();
        let name = |slot: usize| match self.names.len() == count {
            true => self.field(slot).to_owned(),
            // Some of the names are aliases, and there is no way to find out which.
            false => format!("{slot} of {}", self.names.join("|")),
        };
        (0..count).map(|slot| (name(slot), part(slot))).collect()
    }
}
