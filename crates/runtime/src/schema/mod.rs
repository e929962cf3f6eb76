//! What values of a type look like on the wire: a description that two programs can compare, and
//! its fingerprint.
//!
//! The wire format of Gridspan does not describe itself, so bytes of one type can be read as
//! another, and mean something else. Programs that exchange values therefore compare the structures
//! of their types first. A structure is what [`serde`] sees: kinds of numbers, the names and the
//! order of fields and variants, recursion and all. Names of types and modules are no part of it,
//! nor is what does not show on the wire: a `Box<T>` or a newtype of `T` is a `T`, and a `Vec<T>` a
//! `VecDeque<T>`.
//!
//! It is found by having the type deserialise itself from made-up values (`trace`), put in a form
//! that is the same for all programs (`canonical`) and hashed. What asks for
//! [`Deserializer::deserialize_any`](serde::Deserializer::deserialize_any) is *opaque*: it is
//! described by the last segment of the name of its type. So is, as `?`, what comes in a tuple
//! after a type that refuses all made-up values. `Numbers` are described by the name of their type
//! as well. What a [`Reply`](crate::Reply) or a [`Published`](crate::Published) stands for is part
//! of its structure although it is not in its bytes. A `Deserialize` that panics on a value that it
//! did not expect ends the search, and what was found counts.

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

/// Which way of describing and hashing this is. It is hashed first: fingerprints of different
/// versions differ.
const VERSION: u32 = 1;
/// Texts have about this many bytes at most: they are for messages.
const TEXT_BYTES_MAX: usize = 2000;

/// The structure of a type on the wire, in a form that is the same in all programs.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(try_from = "Vec<Shape>", into = "Vec<Shape>")]
pub struct Schema {
    /// The first is that of the type itself.
    shapes: Vec<Shape>,
}

/// Tells structures apart: equal for equal ones in all builds and on all platforms.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Fingerprint(pub u64);

impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

impl Fingerprint {
    /// Of several in this order.
    pub fn of_all(parts: impl IntoIterator<Item = Fingerprint>) -> Self {
        Self(fnv(parts.into_iter().flat_map(|part| part.0.to_le_bytes())))
    }
}

/// FNV-1a of 64 bits (G. Fowler, L. C. Noll and K.-P. Vo, 1991): against accidents, not against
/// forgers.
fn fnv(bytes: impl IntoIterator<Item = u8>) -> u64 {
    bytes.into_iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

/// The structures of types that were asked for, for finding one takes microseconds to milliseconds.
static KNOWN: Mutex<BTreeMap<TypeId, Arc<Schema>>> = Mutex::new(BTreeMap::new());

impl Schema {
    /// The structure of a type. It is found once in a process, and kept.
    pub fn of<T: DeserializeOwned + 'static>() -> Arc<Self> {
        let known = || KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(schema) = known().get(&TypeId::of::<T>()) {
            return schema.clone();
        }
        // The program's code may itself ask for a structure, so nothing is locked while it runs.
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
                // A type that asks for nothing, or whose code panics.
                _ => break,
            }
        }
        let shapes = trace.shapes();
        // The last is the unknown one.
        let root = root.unwrap_or(shapes.len() as ShapeId - 1);
        Self { shapes: canonical::canonical(&shapes, root) }
    }

    /// Its fingerprint.
    pub fn fingerprint(&self) -> Fingerprint {
        let text = self.shapes.iter().fold(format!("schema {VERSION}"), |mut text, shape| {
            let label = shape.label();
            // The length keeps labels apart, whatever names are in them.
            let _ = write!(text, "\n{} {label}", label.len());
            for part in shape.parts() {
                let _ = write!(text, " {part}");
            }
            text
        });
        Fingerprint(fnv(text.into_bytes()))
    }

    /// The structure in terms of Rust, in about as many bytes as may be.
    pub fn brief(&self, bytes_max: usize) -> String {
        text::text(&self.shapes, 0, bytes_max)
    }

    /// The first place where another structure differs from this one; `None` if they are equal.
    pub fn difference(&self, other: &Self) -> Option<Difference> {
        compare::difference(&self.shapes, &other.shapes)
    }
}

/// Structures are equal that look the same on the wire, whatever their types are called.
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

/// A description that came from outside refers to something that it does not have.
#[derive(Debug, thiserror::Error)]
#[error("the structure refers to parts that it does not have")]
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
