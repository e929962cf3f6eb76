//! Results that are not there yet.

use std::marker::PhantomData;
use std::sync::Arc;

/// Data of a group, on whichever servers have it. Clones are of the same; once the last is gone and
/// no call needs it, servers forget it. Calls take it by reference, or by value where it is not
/// needed afterwards.
#[derive(Debug)]
pub struct Lazy<T> {
    /// The group and the version.
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
