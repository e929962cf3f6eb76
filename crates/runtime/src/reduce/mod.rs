//! Reductions: contributions of members, their combination, and the destination of the result.
//!
//! Contributions travel up a tree and are combined wherever they meet, in no particular order. To
//! keep results independent of that order, sums of `f64` are exact until the end ([`ExactSum`]) and
//! [`Concat`](Op::Concat) lists its parts by index.

mod exact;
mod flat;
mod op;
mod partial;
mod statistics;
mod value;

pub use exact::ExactSum;
pub use op::{Custom, CustomOp, Op};
pub(crate) use partial::Partial;
pub use statistics::Statistics;
pub use value::{Reducible, Value};

use crate::address::id::{ActorId, CollectionId};
use serde::{Deserialize, Serialize};

/// The result of a reduction, as it reaches an actor.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Reduction {
    /// The collection whose members contributed.
    pub collection: CollectionId,
    /// The tag of the contributions.
    pub tag: u32,
    /// The combined value.
    pub value: Value,
}

impl Reduction {
    /// Returns the value as a `T`, or `None` if members contributed another type.
    pub fn get<T: Reducible>(self) -> Option<T> {
        T::from_value(self.value)
    }
}

/// Destination of the result of a reduction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Target {
    /// To `main`, which awaits it.
    Main,
    /// To one member, as a message made by `Actor::reduced`.
    Member { to: ActorId, tag: u32 },
    /// To all members of a collection.
    All { to: CollectionId, tag: u32 },
    /// To the runtime: all members have reached their sync point.
    Sync,
}
