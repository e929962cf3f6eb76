//! Shapes, the parts of a structure: one for each visited type.

use serde::{Deserialize, Serialize};

/// Index of a shape in the list of all shapes.
pub(super) type ShapeId = u32;

/// Layout of the values of one type. Shapes refer to each other by index, so that they can be
/// recursive.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(super) enum Shape {
    /// A value without parts, by serde's name of its kind.
    Scalar(Scalar),
    /// A block of numbers as bytes, with the name of its type.
    Block(String),
    /// A type that does not state its parts.
    Opaque(String),
    Option(ShapeId),
    Seq(ShapeId),
    Map(ShapeId, ShapeId),
    /// Runs of elements of equal shape, with the length of each.
    Tuple(Vec<(ShapeId, u32)>),
    /// The name is used in messages only.
    Struct {
        name: String,
        fields: Vec<(String, ShapeId)>,
    },
    /// The name is used in messages only.
    Enum {
        name: String,
        variants: Vec<(String, ShapeId)>,
    },
}

/// A value without parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(super) enum Scalar {
    Unit,
    Bool,
    I8,
    I16,
    I32,
    I64,
    I128,
    U8,
    U16,
    U32,
    U64,
    U128,
    F32,
    F64,
    Char,
    Str,
    Bytes,
}

impl Scalar {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Unit => "()",
            Self::Bool => "bool",
            Self::I8 => "i8",
            Self::I16 => "i16",
            Self::I32 => "i32",
            Self::I64 => "i64",
            Self::I128 => "i128",
            Self::U8 => "u8",
            Self::U16 => "u16",
            Self::U32 => "u32",
            Self::U64 => "u64",
            Self::U128 => "u128",
            Self::F32 => "f32",
            Self::F64 => "f64",
            Self::Char => "char",
            Self::Str => "string",
            Self::Bytes => "bytes",
        }
    }
}

impl Shape {
    /// Returns the content of a shape without the shapes that it refers to, and without names that
    /// make no difference on the wire.
    pub(super) fn label(&self) -> String {
        let names = |names: &[(String, ShapeId)]| -> String {
            // Lengths separate names, whatever they contain.
            names.iter().map(|(name, _)| format!(" {}:{name}", name.len())).collect()
        };
        match self {
            Self::Scalar(scalar) => scalar.name().to_owned(),
            Self::Block(element) => format!("block {element}"),
            Self::Opaque(name) => format!("opaque {name}"),
            Self::Option(_) => "option".to_owned(),
            Self::Seq(_) => "seq".to_owned(),
            Self::Map(..) => "map".to_owned(),
            Self::Tuple(runs) => {
                runs.iter().fold("tuple".to_owned(), |text, (_, count)| format!("{text} {count}"))
            }
            Self::Struct { fields, .. } => format!("struct{}", names(fields)),
            Self::Enum { variants, .. } => format!("enum{}", names(variants)),
        }
    }

    /// Returns the shapes that it refers to, in order.
    pub(super) fn parts(&self) -> Vec<ShapeId> {
        match self {
            Self::Scalar(_) | Self::Block(_) | Self::Opaque(_) => Vec::new(),
            Self::Option(part) | Self::Seq(part) => vec![*part],
            Self::Map(key, value) => vec![*key, *value],
            Self::Tuple(runs) => runs.iter().map(|(part, _)| *part).collect(),
            Self::Struct { fields: named, .. } | Self::Enum { variants: named, .. } => {
                named.iter().map(|(_, part)| *part).collect()
            }
        }
    }

    /// Returns the same shape with other indices of the shapes that it refers to.
    pub(super) fn renumbered(&self, mut number: impl FnMut(ShapeId) -> ShapeId) -> Self {
        let mut named = |all: &[(String, ShapeId)]| {
            all.iter().map(|(name, part)| (name.clone(), number(*part))).collect()
        };
        match self {
            Self::Scalar(_) | Self::Block(_) | Self::Opaque(_) => self.clone(),
            Self::Option(part) => Self::Option(number(*part)),
            Self::Seq(part) => Self::Seq(number(*part)),
            Self::Map(key, value) => Self::Map(number(*key), number(*value)),
            Self::Tuple(runs) => {
                Self::tuple(runs.iter().map(|(part, count)| (number(*part), *count)))
            }
            Self::Struct { name, fields } => {
                Self::Struct { name: name.clone(), fields: named(fields) }
            }
            Self::Enum { name, variants } => {
                Self::Enum { name: name.clone(), variants: named(variants) }
            }
        }
    }

    /// Creates a tuple of these runs. Joins neighbouring runs of equal shape.
    pub(super) fn tuple(runs: impl IntoIterator<Item = (ShapeId, u32)>) -> Self {
        let mut joined: Vec<(ShapeId, u32)> = Vec::new();
        for (part, count) in runs {
            match joined.last_mut() {
                Some((last, length)) if *last == part => *length += count,
                _ => joined.push((part, count)),
            }
        }
        Self::Tuple(joined)
    }
}
