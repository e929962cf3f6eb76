//! Read-only data that main gave to every PE.

use super::callback::Callback;
use crate::pending_work::counted;
use bytes::Bytes;
use std::any::Any;
use std::collections::BTreeMap;
use std::sync::Arc;

/// A published value: its bytes, and its decoded form once somebody has looked.
pub(crate) struct Published {
    pub(crate) bytes: Bytes,
    pub(crate) value: Option<Arc<dyn Any + Send + Sync>>,
}

/// Publications that main waits for: PEs still to confirm, and what to do then.
pub(crate) struct Publications<C> {
    pub(crate) next: u32,
    pub(crate) waiting: BTreeMap<u32, (u32, Callback<C>)>,
}

impl<C> Default for Publications<C> {
    fn default() -> Self {
        Self { next: 0, waiting: BTreeMap::new() }
    }
}

impl<C> Publications<C> {
    /// What main waits for here, for people.
    pub(crate) fn waits(&self) -> impl Iterator<Item = String> {
        let line = |(id, (missing, _)): (&u32, &(u32, Callback<C>))| {
            let missing = counted(*missing, "more PE", "more PEs");
            format!("publication {id} to reach {missing}")
        };
        self.waiting.iter().map(line)
    }
}
