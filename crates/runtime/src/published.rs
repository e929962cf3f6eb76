//! A reference to read-only data that every PE has.

use serde::{Deserialize, Serialize};
use std::marker::PhantomData;

/// Names a value that `main` has published; put it into messages and inits, and read it with
/// [`Context::read`](crate::Context::read).
#[derive(Debug, Serialize, Deserialize)]
#[serde(bound = "")]
pub struct Published<T> {
    pub(crate) id: u32,
    kind: PhantomData<fn() -> T>,
}

impl<T> Clone for Published<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Published<T> {}

impl<T> Published<T> {
    pub(crate) const fn new(id: u32) -> Self {
        Self { id, kind: PhantomData }
    }
}
