//! Who is at the other end of a connection to a daemon.

use super::groups::Groups;
use quinn::Connection;
use std::sync::{Mutex, PoisonError};

/// A client, or a server that has joined.
pub(super) struct Guest {
    pub(super) connection: Connection,
    /// As which server it has joined.
    pub(super) joined: Mutex<Option<u32>>,
    pub(super) groups: Mutex<Groups>,
}

impl Guest {
    /// Whether it serves, or has groups that go on.
    pub(super) fn is_depended_on(&self) -> bool {
        let joined = *self.joined.lock().unwrap_or_else(PoisonError::into_inner);
        let groups = self.groups.lock().unwrap_or_else(PoisonError::into_inner);
        joined.is_some() || !groups.is_empty()
    }
}
