//! A check whether all numbers of a value are finite: JSON cannot represent infinity or NaN, and
//! JSON writers silently replace them by `null`.

use serde::ser::{
    SerializeMap, SerializeSeq, SerializeStruct, SerializeStructVariant, SerializeTuple,
    SerializeTupleStruct, SerializeTupleVariant,
};
use serde::{Serialize, Serializer};
use std::fmt::Error;

/// Whether no number of a value is infinite or NaN.
pub(super) fn is_finite<T: Serialize + ?Sized>(value: &T) -> bool {
    value.serialize(FiniteCheck).is_ok()
}

/// A serializer that writes nothing, and fails at the first number that is infinite or NaN.
#[derive(Clone, Copy)]
struct FiniteCheck;

type Checked = Result<(), Error>;

fn check(is_finite: bool) -> Checked {
    if is_finite { Ok(()) } else { Err(Error) }
}

macro_rules! accept {
    ($($method:ident: $kind:ty,)*) => {
        $(
            fn $method(self, _: $kind) -> Checked {
                Ok(())
            }
        )*
    };
}

impl Serializer for FiniteCheck {
    type Ok = ();
    type Error = Error;
    type SerializeSeq = Self;
    type SerializeTuple = Self;
    type SerializeTupleStruct = Self;
    type SerializeTupleVariant = Self;
    type SerializeMap = Self;
    type SerializeStruct = Self;
    type SerializeStructVariant = Self;

    accept! {
        serialize_bool: bool,
        serialize_i8: i8,
        serialize_i16: i16,
        serialize_i32: i32,
        serialize_i64: i64,
        serialize_i128: i128,
        serialize_u8: u8,
        serialize_u16: u16,
        serialize_u32: u32,
        serialize_u64: u64,
        serialize_u128: u128,
        serialize_char: char,
        serialize_str: &str,
        serialize_bytes: &[u8],
        serialize_unit_struct: &'static str,
    }

    fn serialize_f32(self, number: f32) -> Checked {
        check(number.is_finite())
    }

    fn serialize_f64(self, number: f64) -> Checked {
        check(number.is_finite())
    }

    fn serialize_none(self) -> Checked {
        Ok(())
    }

    fn serialize_some<T: Serialize + ?Sized>(self, value: &T) -> Checked {
        value.serialize(self)
    }

    fn serialize_unit(self) -> Checked {
        Ok(())
    }

    fn serialize_unit_variant(self, _: &'static str, _: u32, _: &'static str) -> Checked {
        Ok(())
    }

    fn serialize_newtype_struct<T: Serialize + ?Sized>(
        self,
        _: &'static str,
        value: &T,
    ) -> Checked {
        value.serialize(self)
    }

    fn serialize_newtype_variant<T: Serialize + ?Sized>(
        self,
        _: &'static str,
        _: u32,
        _: &'static str,
        value: &T,
    ) -> Checked {
        value.serialize(self)
    }

    fn serialize_seq(self, _: Option<usize>) -> Result<Self, Error> {
        Ok(self)
    }

    fn serialize_tuple(self, _: usize) -> Result<Self, Error> {
        Ok(self)
    }

    fn serialize_tuple_struct(self, _: &'static str, _: usize) -> Result<Self, Error> {
        Ok(self)
    }

    fn serialize_tuple_variant(
        self,
        _: &'static str,
        _: u32,
        _: &'static str,
        _: usize,
    ) -> Result<Self, Error> {
        Ok(self)
    }

    fn serialize_map(self, _: Option<usize>) -> Result<Self, Error> {
        Ok(self)
    }

    fn serialize_struct(self, _: &'static str, _: usize) -> Result<Self, Error> {
        Ok(self)
    }

    fn serialize_struct_variant(
        self,
        _: &'static str,
        _: u32,
        _: &'static str,
        _: usize,
    ) -> Result<Self, Error> {
        Ok(self)
    }
}

/// Checks each part of a value of several parts.
macro_rules! check_parts {
    ($($kind:ident: $($method:ident $(($name:ty))?)+;)*) => {
        $(
            impl $kind for FiniteCheck {
                type Ok = ();
                type Error = Error;

                $(
                    fn $method<T: Serialize + ?Sized>(
                        &mut self,
                        $(_: $name,)?
                        value: &T,
                    ) -> Checked {
                        value.serialize(*self)
                    }
                )+

                fn end(self) -> Checked {
                    Ok(())
                }
            }
        )*
    };
}

check_parts! {
    SerializeSeq: serialize_element;
    SerializeTuple: serialize_element;
    SerializeTupleStruct: serialize_field;
    SerializeTupleVariant: serialize_field;
    SerializeMap: serialize_key serialize_value;
    SerializeStruct: serialize_field(&'static str);
    SerializeStructVariant: serialize_field(&'static str);
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    #[derive(Serialize)]
    enum Found {
        Nothing,
        Range { from: f64, to: f64 },
        Ratio(f32),
        Pair(f64, Option<f64>),
    }

    #[test]
    fn a_number_that_is_not_finite_is_found_in_any_part_of_a_value() {
        assert!(is_finite(&(1, "inf", [Some(0.5), None], (), 'n', f64::MAX)));
        assert!(is_finite(&[Found::Nothing, Found::Ratio(0.1), Found::Pair(0.1, None)]));

        assert!(!is_finite(&Some(f64::INFINITY)));
        assert!(!is_finite(&BTreeMap::from([("key", vec![0.0, f64::NAN])])));
        for found in [
            Found::Range { from: 0.0, to: f64::NEG_INFINITY },
            Found::Ratio(f32::NAN),
            Found::Pair(0.0, Some(f64::NAN)),
        ] {
            assert!(!is_finite(&found));
        }
    }
}
