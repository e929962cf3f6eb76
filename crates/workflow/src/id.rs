//! Identifiers of tasks, data and servers. All are dense indices that start at zero.

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
            /// The identifier as a position in a slice.
            #[inline]
            pub const fn index(self) -> usize {
                self.0 as usize
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
    /// One remote call of a group.
    TaskId, "task"
);
dense_id!(
    /// One version of an argument or a result, which never changes: a task that writes an argument
    /// makes a new version.
    DataId, "data"
);
dense_id!(
    /// A server that executes calls.
    ServerId, "server"
);

/// A holder of data: the client or a server.
///
/// ```
/// use gridspan_workflow::{Endpoint, GraphBuilder, ServerId};
///
/// let mut calls = GraphBuilder::default();
/// // The client and the second server have it before the calls begin.
/// calls.external("matrix", 8_000_000, [Endpoint::Client, Endpoint::Server(ServerId(1))]);
/// # assert!(calls.build().is_ok());
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Endpoint {
    /// A server.
    Server(ServerId),
    /// The client, whose program makes the calls.
    Client,
}

impl Endpoint {
    /// The server, if it is one.
    pub fn server(self) -> Option<ServerId> {
        match self {
            Self::Server(server) => Some(server),
            Self::Client => None,
        }
    }
}
