//! Results that do not exist yet.

use std::marker::PhantomData;
use std::sync::Arc;

/// Data of a group, on the servers that have it. Clones name the same data; once the last is
/// dropped and no call needs the data, servers drop it. Calls take it by reference, or by value
/// where it is not needed afterwards.
#[derive(Debug)]
pub struct Lazy<T> {
    /// The group's number and the data's version.
    pub(crate) token: Arc<(u32, u32)>,
    value: PhantomData<fn() -> T>,
}

impl<T> Clone for Lazy<T> {
    fn clone(&self) -> Self {
        Self { token: self.token.clone(), value: PhantomData }
    }
}

impl<T> Lazy<T> {
    pub(crate) fn new(token: Arc<(u32, u32)>) -> Self {
        Self { token, value: PhantomData }
    }
}
