//! One newtype per kind of identifier. All are dense indices that start at zero.

use serde::{Deserialize, Serialize};
use std::fmt;

macro_rules! dense_id {
    ($(#[$doc:meta])* $name:ident, $prefix:literal) => {
        $(#[$doc])*
        #[derive(
            Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
        )]
        #[serde(transparent)]
        pub struct $name(pub u32);

        impl $name {
            /// Returns the identifier as a position in a slice.
            #[inline]
            pub const fn index(self) -> usize {
                self.0 as usize
            }
        }

        impl From<usize> for $name {
            /// Panics if `index` does not fit 32 bits, which no grid approaches.
            fn from(index: usize) -> Self {
                Self(u32::try_from(index).expect("identifiers fit 32 bits"))
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!($prefix, "{}"), self.0)
            }
        }
    };
}

dense_id!(
    /// An administrative place with its own network: a cluster or a cloud region.
    SiteId, "site"
);
dense_id!(
    /// One process of the job.
    NodeId, "node"
);
dense_id!(
    /// A processing element: one worker thread with its own scheduler queue.
    PeId, "pe"
);
dense_id!(
    /// A group of nodes in a [`Hierarchy`](crate::Hierarchy); 0 is the whole.
    GroupId, "group"
);
