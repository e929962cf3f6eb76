//! The deserializer that records the requests of a type and answers with made-up values.

use super::access::{Making, Probe, Repeated, Variant};
use super::node::{Key, Kind};
use super::shape::Scalar;
use super::trace::{DEPTH_MAX, Halt};
use serde::de::{Deserializer, Visitor};
use std::any::type_name;

/// Name of the newtype requested by types that are one block of bytes, whatever its meaning.
pub(crate) const BLOCK: &str = "gridspan block";
/// Name of the newtype requested by types that refer to values of another type.
pub(crate) const HANDLE: &str = "gridspan handle";
/// Parts of a handle: its wire type, and the value that it refers to.
const HANDLE_PARTS: [&str; 2] = ["handle", "value"];

impl<'t> Probe<'t> {
    /// Enters the node of a type that makes a request, with a visitor of type `V`.
    fn enter<V>(
        self,
        kind: Kind,
        name: &'static str,
        slots: usize,
        names: &'static [&'static str],
    ) -> Result<Making<'t>, Halt> {
        self.enter_with(type_name::<V>(), kind, name, slots, names)
    }

    /// Like [`enter`](Self::enter), compiled once for all types of visitors.
    fn enter_with(
        self,
        visitor: &'static str,
        kind: Kind,
        name: &'static str,
        slots: usize,
        names: &'static [&'static str],
    ) -> Result<Making<'t>, Halt> {
        let shown = match kind {
            Kind::Block | Kind::Opaque => short(self.context),
            _ => name.to_owned(),
        };
        // Types that validate a number share a visitor with the number.
        let is_shared = matches!(kind, Kind::Scalar(_) | Kind::Block | Kind::Opaque);
        let context = if is_shared { self.context } else { "" };
        let key = Key { kind, visitor, context, name };
        if self.depth > DEPTH_MAX {
            return Err(self.trace.give_up());
        }
        let id = self.trace.enter(key, &shown, slots, names).ok_or(Halt)?;
        *self.out = Some(id);
        self.trace.node(id).open += 1;
        Ok(Making { trace: self.trace, id, depth: self.depth })
    }

    fn scalar<V, T>(
        self,
        scalar: Scalar,
        _visitor: &V,
        samples: [T; 4],
    ) -> Result<(Making<'t>, T), Halt> {
        let making = self.enter::<V>(Kind::Scalar(scalar), "", 0, &[])?;
        let attempt = usize::from(making.trace.node(making.id).refusals).min(samples.len() - 1);
        let sample = samples.into_iter().nth(attempt).ok_or(Halt)?;
        Ok((making, sample))
    }

    /// Records a type that does not state what it needs.
    fn opaque<V>(self) -> Halt {
        match self.enter::<V>(Kind::Opaque, "", 0, &[]) {
            Ok(making) => making.trace.give_up(),
            Err(halt) => halt,
        }
    }
}

/// Scalars: the request, the shape, and four values to offer one after the other.
macro_rules! scalars {
    ($($method:ident $visit:ident $scalar:ident $samples:expr;)*) => {$(
        fn $method<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Halt> {
            let (making, sample) = self.scalar(Scalar::$scalar, &visitor, $samples)?;
            let made = visitor.$visit(sample);
            making.end(made)
        }
    )*};
}

impl<'de> Deserializer<'de> for Probe<'_> {
    type Error = Halt;

    scalars! {
        deserialize_bool visit_bool Bool [false, true, false, true];
        deserialize_i8 visit_i8 I8 [1, 0, 2, -1];
        deserialize_i16 visit_i16 I16 [1, 0, 2, -1];
        deserialize_i32 visit_i32 I32 [1, 0, 2, -1];
        deserialize_i64 visit_i64 I64 [1, 0, 2, -1];
        deserialize_i128 visit_i128 I128 [1, 0, 2, -1];
        deserialize_u8 visit_u8 U8 [1, 0, 2, 16];
        deserialize_u16 visit_u16 U16 [1, 0, 2, 16];
        deserialize_u32 visit_u32 U32 [1, 0, 2, 16];
        deserialize_u64 visit_u64 U64 [1, 0, 2, 16];
        deserialize_u128 visit_u128 U128 [1, 0, 2, 16];
        deserialize_f32 visit_f32 F32 [1.0, 0.0, 0.5, -1.0];
        deserialize_f64 visit_f64 F64 [1.0, 0.0, 0.5, -1.0];
        deserialize_char visit_char Char ['a', '0', 'A', ' '];
        deserialize_str visit_str Str ["", "a", "0", "127.0.0.1"];
        deserialize_string visit_string Str ["", "a", "0", "127.0.0.1"].map(str::to_owned);
        deserialize_bytes visit_bytes Bytes [&[0_u8; 32][..0], &[0; 16], &[0; 32], &[0; 1]];
        deserialize_byte_buf visit_byte_buf Bytes [0, 16, 32, 1].map(|length| vec![0; length]);
    }

    fn deserialize_any<V: Visitor<'de>>(self, _: V) -> Result<V::Value, Halt> {
        Err(self.opaque::<V>())
    }

    fn deserialize_identifier<V: Visitor<'de>>(self, _: V) -> Result<V::Value, Halt> {
        Err(self.opaque::<V>())
    }

    fn deserialize_ignored_any<V: Visitor<'de>>(self, _: V) -> Result<V::Value, Halt> {
        Err(self.opaque::<V>())
    }

    fn deserialize_unit<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Halt> {
        let making = self.enter::<V>(Kind::Scalar(Scalar::Unit), "", 0, &[])?;
        let made = visitor.visit_unit();
        making.end(made)
    }

    fn deserialize_unit_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, Halt> {
        self.deserialize_unit(visitor)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        mut self,
        name: &'static str,
        visitor: V,
    ) -> Result<V::Value, Halt> {
        self.context = type_name::<V::Value>();
        if self.depth > DEPTH_MAX {
            return Err(self.trace.give_up());
        }
        let depth = self.depth + 1;
        if name == HANDLE {
            let making = self.enter::<V>(Kind::Struct, "Handle", 2, &HANDLE_PARTS)?;
            return making.handle(visitor);
        }
        if name == BLOCK {
            let context = self.context;
            let making = self.enter::<V>(Kind::Block, "", 0, &[])?;
            let (trace, out) = (&mut *making.trace, &mut None);
            let made = visitor.visit_newtype_struct(Probe { trace, out, context, depth });
            return making.end(made);
        }
        let (trace, out, context) = (&mut *self.trace, &mut *self.out, self.context);
        let made = visitor.visit_newtype_struct(Probe { trace, out, context, depth });
        if let (Err(_), Some(id)) = (&made, *self.out) {
            self.trace.settle(id, false);
        }
        made
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Halt> {
        let mut making = self.enter::<V>(Kind::Option, "", 1, &[])?;
        let made = match making.elements() {
            0 => visitor.visit_none(),
            _ => {
                let mut part = None;
                let (trace, out) = (&mut *making.trace, &mut part);
                let (context, depth) = (type_name::<V::Value>(), making.depth + 1);
                let made = visitor.visit_some(Probe { trace, out, context, depth });
                making.trace.met(making.id, 0, part, made.is_ok());
                made
            }
        };
        making.end(made)
    }

    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Halt> {
        let mut making = self.enter::<V>(Kind::Seq, "", 1, &[])?;
        let left = making.elements();
        let made = visitor.visit_seq(Repeated { making: &mut making, left });
        making.end(made)
    }

    fn deserialize_map<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Halt> {
        let mut making = self.enter::<V>(Kind::Map, "", 2, &[])?;
        let left = making.elements();
        let made = visitor.visit_map(Repeated { making: &mut making, left });
        making.end(made)
    }

    fn deserialize_tuple<V: Visitor<'de>>(
        self,
        count: usize,
        visitor: V,
    ) -> Result<V::Value, Halt> {
        self.enter::<V>(Kind::Tuple, "", count, &[])?.tuple(count, visitor)
    }

    fn deserialize_tuple_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        count: usize,
        visitor: V,
    ) -> Result<V::Value, Halt> {
        self.deserialize_tuple(count, visitor)
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        names: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Halt> {
        self.enter::<V>(Kind::Struct, name, names.len(), names)?.fields(visitor)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        name: &'static str,
        names: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Halt> {
        let mut making = self.enter::<V>(Kind::Enum, name, names.len(), names)?;
        let made = match making.trace.variant(making.id) {
            None => Err(Halt),
            Some(index) => {
                let made = visitor.visit_enum(Variant { making: &mut making, index });
                if made.is_ok() {
                    making.trace.node(making.id).made(index);
                }
                made
            }
        };
        making.end(made)
    }

    fn is_human_readable(&self) -> bool {
        false
    }
}

/// Returns the name of a type without the paths in it.
pub(crate) fn short(name: &str) -> String {
    let mut short = String::new();
    for part in
        name.split_inclusive(|letter: char| !letter.is_alphanumeric() && !"_:".contains(letter))
    {
        short.push_str(part.rsplit("::").next().unwrap_or(part));
    }
    short
}
