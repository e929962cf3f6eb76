//! Serde access types that hand the parts of a made-up value to its type, one after the other.

use super::node::{Key, Kind};
use super::shape::ShapeId;
use super::trace::{Halt, Trace};
use serde::de::value::{StrDeserializer, U32Deserializer};
use serde::de::{
    DeserializeSeed, EnumAccess, IntoDeserializer, MapAccess, SeqAccess, VariantAccess, Visitor,
};
use std::any::type_name;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Deserializer that makes one value of one type.
pub(super) struct Probe<'t> {
    pub(super) trace: &'t mut Trace,
    /// The shape of the type, set as soon as the type has requested anything.
    pub(super) out: &'t mut Option<ShapeId>,
    pub(super) context: &'static str,
    pub(super) depth: usize,
}

impl<'t> Probe<'t> {
    /// Creates the probe of the root type.
    pub(super) fn new(
        trace: &'t mut Trace,
        out: &'t mut Option<ShapeId>,
        context: &'static str,
    ) -> Self {
        Self { trace, out, context, depth: 0 }
    }
}

/// A value that is being made.
pub(super) struct Making<'t> {
    pub(super) trace: &'t mut Trace,
    pub(super) id: ShapeId,
    pub(super) depth: usize,
}

impl Making<'_> {
    /// Makes a part of the value.
    fn part<'de, S: DeserializeSeed<'de>>(
        &mut self,
        slot: usize,
        seed: S,
    ) -> Result<S::Value, Halt> {
        let mut part = None;
        let context = type_name::<S::Value>();
        let (trace, depth) = (&mut *self.trace, self.depth + 1);
        let probe = Probe { trace, out: &mut part, context, depth };
        let made = catch_unwind(AssertUnwindSafe(|| seed.deserialize(probe)));
        let made = made.unwrap_or_else(|_| Err(self.trace.stop()));
        self.trace.met(self.id, slot, part, made.is_ok());
        if let (Err(_), Some(part)) = (&made, part) {
            // The part may have refused the value that it was converted from.
            self.trace.settle(part, false);
        }
        made
    }

    /// Returns the number of elements to offer.
    pub(super) fn elements(&mut self) -> usize {
        let pass = self.trace.pass;
        self.trace.node(self.id).elements(pass)
    }

    /// Records whether the value was made.
    pub(super) fn end<T>(self, made: Result<T, Halt>) -> Result<T, Halt> {
        self.trace.node(self.id).open -= 1;
        self.trace.settle(self.id, made.is_ok());
        made
    }

    pub(super) fn tuple<'de, V: Visitor<'de>>(
        mut self,
        count: usize,
        visitor: V,
    ) -> Result<V::Value, Halt> {
        let made = visitor.visit_seq(Elements { making: &mut self, next: 0, count, all: None });
        self.end(made)
    }

    /// Offers a handle and, once in each pass, the value that it refers to. More would not end if
    /// that value contains the handle again, and a handle does not need the value.
    pub(super) fn handle<'de, V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Halt> {
        let pass = self.trace.pass;
        let value = &mut self.trace.node(self.id).slots[1];
        let is_next = value.tried != pass;
        value.tried = pass;
        self.tuple(if is_next { 2 } else { 1 }, visitor)
    }

    /// Offers fields in order, or by name in another order.
    pub(super) fn fields<'de, V: Visitor<'de>>(mut self, visitor: V) -> Result<V::Value, Halt> {
        let node = self.trace.node(self.id);
        let count = node.slots.len();
        if let Some(order) = node.order() {
            let made = visitor.visit_map(Named { making: &mut self, order, next: 0 });
            return self.end(made);
        }
        let mut next = 0;
        let elements = Elements { making: &mut self, next: 0, count, all: Some(&mut next) };
        let made = visitor.visit_seq(elements);
        if made.is_ok() && next < count {
            self.trace.node(self.id).limit(next);
        }
        self.end(made)
    }
}

/// Access to the elements of a tuple or the fields of a struct.
struct Elements<'m, 't> {
    making: &'m mut Making<'t>,
    next: usize,
    count: usize,
    /// Number of elements requested so far.
    all: Option<&'m mut usize>,
}

impl<'de> SeqAccess<'de> for Elements<'_, '_> {
    type Error = Halt;

    fn next_element_seed<S: DeserializeSeed<'de>>(
        &mut self,
        seed: S,
    ) -> Result<Option<S::Value>, Halt> {
        if self.next == self.count {
            return Ok(None);
        }
        self.next += 1;
        if let Some(all) = &mut self.all {
            **all = self.next;
        }
        self.making.part(self.next - 1, seed).map(Some)
    }

    fn size_hint(&self) -> Option<usize> {
        Some(self.count - self.next)
    }
}

/// Access to fields by name.
struct Named<'m, 't> {
    making: &'m mut Making<'t>,
    order: Vec<usize>,
    next: usize,
}

impl<'de> MapAccess<'de> for Named<'_, '_> {
    type Error = Halt;

    fn next_key_seed<S: DeserializeSeed<'de>>(
        &mut self,
        seed: S,
    ) -> Result<Option<S::Value>, Halt> {
        let Some(&slot) = self.order.get(self.next) else { return Ok(None) };
        let name = self.making.trace.node(self.making.id).field(slot);
        let name: StrDeserializer<'_, Halt> = name.into_deserializer();
        seed.deserialize(name).map(Some)
    }

    fn next_value_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<S::Value, Halt> {
        let slot = self.order.get(self.next).copied().ok_or(Halt)?;
        self.next += 1;
        self.making.part(slot, seed)
    }
}

/// Access to elements of a sequence, or entries of a map, all of one type.
pub(super) struct Repeated<'m, 't> {
    pub(super) making: &'m mut Making<'t>,
    pub(super) left: usize,
}

impl<'de> SeqAccess<'de> for Repeated<'_, '_> {
    type Error = Halt;

    fn next_element_seed<S: DeserializeSeed<'de>>(
        &mut self,
        seed: S,
    ) -> Result<Option<S::Value>, Halt> {
        let Some(left) = self.left.checked_sub(1) else { return Ok(None) };
        self.left = left;
        self.making.part(0, seed).map(Some)
    }
}

impl<'de> MapAccess<'de> for Repeated<'_, '_> {
    type Error = Halt;

    fn next_key_seed<S: DeserializeSeed<'de>>(
        &mut self,
        seed: S,
    ) -> Result<Option<S::Value>, Halt> {
        self.next_element_seed(seed)
    }

    fn next_value_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<S::Value, Halt> {
        self.making.part(1, seed)
    }
}

/// Access to one variant of an enum.
pub(super) struct Variant<'m, 't> {
    pub(super) making: &'m mut Making<'t>,
    pub(super) index: usize,
}

impl<'de> EnumAccess<'de> for Variant<'_, '_> {
    type Error = Halt;
    type Variant = Self;

    fn variant_seed<S: DeserializeSeed<'de>>(self, seed: S) -> Result<(S::Value, Self), Halt> {
        let index: U32Deserializer<Halt> = (self.index as u32).into_deserializer();
        match seed.deserialize(index) {
            Ok(index) => Ok((index, self)),
            Err(_) => Err(self.making.trace.limit(self.making.id, self.index)),
        }
    }
}

impl Variant<'_, '_> {
    /// Enters the node of the variant's content.
    fn payload<V>(
        &mut self,
        kind: Kind,
        slots: usize,
        names: &'static [&'static str],
    ) -> Result<Making<'_>, Halt> {
        let making = &mut *self.making;
        // All visitors of variants have the same name; the visitor of the enum distinguishes them.
        let name = making.trace.node(making.id).field(self.index);
        let key = Key { kind, visitor: type_name::<V>(), context: "", name };
        let id = making.trace.enter(key, "", slots, names).ok_or(Halt)?;
        making.trace.node(making.id).slots[self.index].part.get_or_insert(id);
        making.trace.node(id).open += 1;
        Ok(Making { trace: making.trace, id, depth: making.depth })
    }

    fn done<T>(self, made: Result<T, Halt>) -> Result<T, Halt> {
        let making = self.making;
        making.trace.met(making.id, self.index, None, made.is_ok());
        made
    }
}

impl<'de> VariantAccess<'de> for Variant<'_, '_> {
    type Error = Halt;

    fn unit_variant(self) -> Result<(), Halt> {
        let unit = self.making.trace.unit();
        self.making.trace.met(self.making.id, self.index, unit, true);
        unit.map(|_| ()).ok_or(Halt)
    }

    fn newtype_variant_seed<S: DeserializeSeed<'de>>(self, seed: S) -> Result<S::Value, Halt> {
        self.making.part(self.index, seed)
    }

    fn tuple_variant<V: Visitor<'de>>(
        mut self,
        count: usize,
        visitor: V,
    ) -> Result<V::Value, Halt> {
        let made = self.payload::<V>(Kind::Tuple, count, &[])?.tuple(count, visitor);
        self.done(made)
    }

    fn struct_variant<V: Visitor<'de>>(
        mut self,
        names: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Halt> {
        let made = self.payload::<V>(Kind::Struct, names.len(), names)?.fields(visitor);
        self.done(made)
    }
}
