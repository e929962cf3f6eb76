//! The other end of a connection to a daemon.

use crate::server::groups::Groups;
use quinn::Connection;
use std::sync::{Mutex, PoisonError};

/// A client, or a server that has joined.
pub(crate) struct Caller {
    pub(crate) connection: Connection,
    /// Number of the server, if the caller has joined as one.
    pub(crate) joined: Mutex<Option<u32>>,
    pub(crate) groups: Mutex<Groups>,
}

impl Caller {
    /// Whether the caller has joined as a server, or has running groups.
    pub(crate) fn is_depended_on(&self) -> bool {
        let joined = *self.joined.lock().unwrap_or_else(PoisonError::into_inner);
        let groups = self.groups.lock().unwrap_or_else(PoisonError::into_inner);
        joined.is_some() || !groups.is_empty()
    }
}
