//! What waits inside of a PE for something before it, and counts in the memory budget for as long
//! as it does.

use crate::message::Asked;
use crate::message::envelope::AnyEnvelope;
use crate::message::payload::Payload;
use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// A message that waits.
pub(crate) type AccountedEnvelope = Accounted<Box<dyn AnyEnvelope>>;

/// A broadcast that waits: who asked, message, and priority.
pub(crate) type AccountedBroadcast = Accounted<(Asked, Payload, i32)>;

/// How many bytes a PE keeps that are in no mailbox.
#[derive(Clone, Default)]
pub(crate) struct Budget(Arc<AtomicUsize>);

impl Budget {
    pub(crate) fn bytes(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }

    /// Counts a value until it is taken out or dropped, wherever it goes in between.
    pub(crate) fn keep<T>(&self, value: T, bytes: usize) -> Accounted<T> {
        self.keep_forever(bytes);
        Accounted { value, _charge: Charge { budget: self.clone(), bytes } }
    }

    /// Counts what is not forgotten before the end of the job.
    pub(crate) fn keep_forever(&self, bytes: usize) {
        self.0.fetch_add(bytes, Ordering::Relaxed);
    }
}

/// A value that is counted.
pub(crate) struct Accounted<T> {
    value: T,
    _charge: Charge,
}

struct Charge {
    budget: Budget,
    bytes: usize,
}

impl<T> Accounted<T> {
    /// The value, which from now on counts no more.
    pub(crate) fn into_inner(self) -> T {
        self.value
    }
}

impl<T> Deref for Accounted<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.value
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        self.budget.0.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_kept_counts_until_it_is_taken_out_or_dropped() {
        let budget = Budget::default();
        let (one, other) = (budget.keep("one", 30), budget.keep("other", 5));
        budget.keep_forever(100);
        assert_eq!(budget.bytes(), 135);

        assert_eq!(one.into_inner(), "one");
        assert_eq!(budget.bytes(), 105);
        drop(other);
        assert_eq!(budget.bytes(), 100);
    }
}
