//! Reductions: what members contribute, how contributions combine, and where the result goes.
//!
//! Contributions travel up a tree and are combined wherever they meet, in no particular order. To
//! keep results independent of that order, sums of `f64` are exact until the end ([`ExactSum`]) and
//! [`Concat`](Op::Concat) lists its parts by index.

mod exact;
mod op;
mod partial;
mod value;

pub use exact::ExactSum;
pub use op::{Custom, CustomOp, Op};
pub(crate) use partial::Partial;
pub use value::{Reducible, Value};

use crate::address::id::{ActorId, CollectionId};
use serde::{Deserialize, Serialize};

/// The result of a reduction, as it reaches an actor.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Reduction {
    /// The collection whose members contributed.
    pub collection: CollectionId,
    /// The tag that they contributed under.
    pub tag: u32,
    /// The combined value.
    pub value: Value,
}

impl Reduction {
    /// The value as a `T`, or `None` if members contributed something else.
    pub fn get<T: Reducible>(self) -> Option<T> {
        T::from_value(self.value)
    }
}

/// Where the result of a reduction goes.
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
