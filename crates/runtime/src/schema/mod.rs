//! Structures of types on the wire: descriptions that two programs can compare, and their
//! fingerprints.
//!
//! The wire format of Gridspan does not describe itself, so bytes of one type can be read as
//! another type with another meaning. Programs that exchange values therefore compare the
//! structures of their types first. A structure is what [`serde`] sees: kinds of numbers, names and
//! order of fields and variants, and recursion. It does not contain the names of types and modules,
//! nor differences that do not show on the wire: a `Box<T>` or a newtype of `T` is a `T`, and a
//! `Vec<T>` a `VecDeque<T>`.
//!
//! To find a structure, the type deserialises itself from made-up values (`trace`); `canonical`
//! brings the result into a form that is the same for all programs. The fingerprint is the hash of
//! this form. A type that calls
//! [`Deserializer::deserialize_any`](serde::Deserializer::deserialize_any) is *opaque*: it is
//! described by the last segment of its type's name. In a tuple, the elements after a type that
//! refuses all made-up values are opaque too, as `?`. `Numbers` are also described by the name of
//! their type. The type to which a [`Reply`](crate::Reply) or a [`Published`](crate::Published)
//! refers is part of its structure although it is not in its bytes. A `Deserialize` that panics on
//! an unexpected value ends the search, and the structure found by then is used.

mod access;
mod canonical;
mod compare;
pub(crate) mod definition;
pub(crate) mod handle;
mod node;
pub(crate) mod numbers;
mod probe;
mod shape;
#[cfg(test)]
mod tests;
mod text;
mod trace;

pub use compare::Difference;
pub(crate) use probe::{BLOCK, HANDLE};

use access::Probe;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use shape::{Shape, ShapeId};
use std::any::{TypeId, type_name};
use std::collections::BTreeMap;
use std::fmt::{self, Write};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, PoisonError};
use trace::Trace;

/// Version of the description and the hash. It is hashed first, so that fingerprints of different
/// versions differ.
const VERSION: u32 = 1;
/// Approximate maximum number of bytes of a structure's text, which is for messages.
const TEXT_BYTES_MAX: usize = 2000;

/// The structure of a type on the wire, in a form that is the same in all programs.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(try_from = "Vec<Shape>", into = "Vec<Shape>")]
pub struct Schema {
    /// The shapes; the first is that of the type itself.
    shapes: Vec<Shape>,
}

/// Identifies a structure: equal for equal structures in all builds and on all platforms.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Fingerprint(pub u64);

impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

impl Fingerprint {
    /// Combines several fingerprints, in this order.
    pub fn of_all(parts: impl IntoIterator<Item = Fingerprint>) -> Self {
        Self(fnv(parts.into_iter().flat_map(|part| part.0.to_le_bytes())))
    }
}

/// FNV-1a of 64 bits (G. Fowler, L. C. Noll and K.-P. Vo, 1991). It protects against accidents, not
/// against forgers.
fn fnv(bytes: impl IntoIterator<Item = u8>) -> u64 {
    bytes.into_iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

/// Cache of structures, because finding one takes microseconds to milliseconds.
static KNOWN: Mutex<BTreeMap<TypeId, Arc<Schema>>> = Mutex::new(BTreeMap::new());

impl Schema {
    /// Returns the structure of a type. It is found once per process, and cached.
    pub fn of<T: DeserializeOwned + 'static>() -> Arc<Self> {
        let known = || KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(schema) = known().get(&TypeId::of::<T>()) {
            return schema.clone();
        }
        // The program's code may itself request a structure, so nothing is locked while it runs.
        let schema = Arc::new(Self::find::<T>());
        known().entry(TypeId::of::<T>()).or_insert(schema).clone()
    }

    fn find<T: DeserializeOwned>() -> Self {
        let (mut trace, mut root) = (Trace::default(), None);
        while trace.begin(root) {
            let probe = Probe::new(&mut trace, &mut root, type_name::<T>());
            let made = catch_unwind(AssertUnwindSafe(|| T::deserialize(probe).is_ok()));
            match (made, root) {
                (Ok(false), Some(root)) => trace.settle(root, false),
                (Ok(true), Some(_)) => {}
                // A type that requests nothing, or whose code panics.
                _ => break,
            }
        }
        let shapes = trace.shapes();
        // The last shape is the unknown one.
        let root = root.unwrap_or(shapes.len() as ShapeId - 1);
        Self { shapes: canonical::canonical(&shapes, root) }
    }

    /// Returns the fingerprint.
    pub fn fingerprint(&self) -> Fingerprint {
        let text = self.shapes.iter().fold(format!("schema {VERSION}"), |mut text, shape| {
            let label = shape.label();
            // The length separates labels, whatever names they contain.
            let _ = write!(text, "\n{} {label}", label.len());
            for part in shape.parts() {
                let _ = write!(text, " {part}");
            }
            text
        });
        Fingerprint(fnv(text.into_bytes()))
    }

    /// Returns the structure in Rust syntax, in about `bytes_max` bytes at most.
    pub fn brief(&self, bytes_max: usize) -> String {
        text::text(&self.shapes, 0, bytes_max)
    }

    /// Returns the first place where another structure differs from this one, or `None` if they are
    /// equal.
    pub fn difference(&self, other: &Self) -> Option<Difference> {
        compare::difference(&self.shapes, &other.shapes)
    }
}

/// Structures that look the same on the wire are equal, whatever the names of their types.
impl PartialEq for Schema {
    fn eq(&self, other: &Self) -> bool {
        let same = |(one, other): (&Shape, &Shape)| {
            one.label() == other.label() && one.parts() == other.parts()
        };
        self.shapes.len() == other.shapes.len() && self.shapes.iter().zip(&other.shapes).all(same)
    }
}

impl Eq for Schema {}

impl fmt::Display for Schema {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.brief(TEXT_BYTES_MAX))
    }
}

/// Error of a received description that refers to a missing shape, or has too many or none.
#[derive(Debug, thiserror::Error)]
#[error("the structure has no parts or too many, or refers to parts that it does not have")]
pub struct Incomplete;

impl TryFrom<Vec<Shape>> for Schema {
    type Error = Incomplete;

    fn try_from(shapes: Vec<Shape>) -> Result<Self, Incomplete> {
        let count = shapes.len();
        let is_there = |part: ShapeId| (part as usize) < count;
        let is_whole = shapes.iter().flat_map(Shape::parts).all(is_there);
        match is_whole && (1..=node::NODES_MAX).contains(&count) {
            true => Ok(Self { shapes }),
            false => Err(Incomplete),
        }
    }
}

impl From<Schema> for Vec<Shape> {
    fn from(schema: Schema) -> Self {
        schema.shapes
    }
}
