//! References to pools that tasks can carry.

use crate::CollectionId;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::marker::PhantomData;

/// A reference to a pool, with which tasks of other pools spawn tasks there; see
/// [`TaskContext::spawn_in`](super::TaskContext::spawn_in).
#[derive(Serialize, Deserialize)]
#[serde(bound = "")]
pub struct TaskPoolRef<T> {
    pub(super) id: CollectionId,
    pub(super) kind: PhantomData<fn() -> T>,
}

impl<T> Copy for TaskPoolRef<T> {}

impl<T> Clone for TaskPoolRef<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> fmt::Debug for TaskPoolRef<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("TaskPoolRef").field(&self.id).finish()
    }
}
