//! A reference to read-only data that is present on every PE.

use crate::schema::handle;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::marker::PhantomData;

/// Names a value that `main` has published. Put it into messages and inits, and read it with
/// [`Context::read`](crate::Context::read).
#[derive(Debug)]
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

impl<T> Serialize for Published<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.id.serialize(serializer)
    }
}

/// The schema includes the type of the value.
impl<'de, T: Deserialize<'de>> Deserialize<'de> for Published<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(Self::new(handle::read::<_, T, D>(deserializer)?))
    }
}
