//! The part of the memory budget for values that wait in a PE, but not in mailboxes.

use crate::message::Asked;
use crate::message::envelope::AnyEnvelope;
use crate::message::payload::Payload;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// A message that waits.
pub(crate) type AccountedEnvelope = Accounted<Box<dyn AnyEnvelope>>;

/// A broadcast that waits: its request, message and priority.
pub(crate) type AccountedBroadcast = Accounted<(Asked, Payload, i32)>;

/// Maximum count of bytes of a decoded value, 2 GiB: another node states the count, and the sum of
/// many must not overflow.
const DECODED_BYTES_MAX: usize = 1 << 31;

/// Number of bytes that a PE keeps outside of mailboxes.
#[derive(Clone, Default)]
pub(crate) struct Budget(Arc<AtomicUsize>);

impl Budget {
    pub(crate) fn bytes(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }

    /// Counts a value until it is taken out or dropped, even if it moves in between.
    pub(crate) fn keep<T>(&self, value: T, bytes: usize) -> Accounted<T> {
        self.keep_forever(bytes);
        Accounted { value, charge: Charge { budget: self.clone(), bytes } }
    }

    /// Counts memory that is not freed before the end of the job.
    pub(crate) fn keep_forever(&self, bytes: usize) {
        self.0.fetch_add(bytes, Ordering::Relaxed);
    }
}

/// A value that counts in a budget.
pub(crate) struct Accounted<T> {
    value: T,
    charge: Charge,
}

struct Charge {
    budget: Budget,
    bytes: usize,
}

impl<T> Accounted<T> {
    /// Returns the value, which no longer counts.
    pub(crate) fn into_inner(self) -> T {
        self.value
    }

    /// Moves the value's bytes to another budget.
    pub(crate) fn charge_to(&mut self, budget: &Budget) {
        let bytes = self.charge.bytes;
        budget.keep_forever(bytes);
        self.charge = Charge { budget: budget.clone(), bytes };
    }
}

impl<T: Serialize> Serialize for Accounted<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        (self.charge.bytes, &self.value).serialize(serializer)
    }
}

/// A decoded value counts in a separate budget, until it is [charged](Accounted::charge_to) to
/// another.
impl<'de, T: Deserialize<'de>> Deserialize<'de> for Accounted<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let (bytes, value): (usize, T) = Deserialize::deserialize(deserializer)?;
        Ok(Budget::default().keep(value, bytes.min(DECODED_BYTES_MAX)))
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
    use crate::message::codec;

    #[test]
    fn a_kept_value_counts_until_it_is_taken_out_or_dropped() {
        let budget = Budget::default();
        let (one, other) = (budget.keep("one", 30), budget.keep("other", 5));
        budget.keep_forever(100);
        assert_eq!(budget.bytes(), 135);

        assert_eq!(one.into_inner(), "one");
        assert_eq!(budget.bytes(), 105);
        drop(other);
        assert_eq!(budget.bytes(), 100);
    }

    #[test]
    fn a_decoded_value_counts_its_bytes_in_the_budget_it_is_charged_to() {
        let kept = Budget::default().keep(7_u8, 30);
        let bytes = codec::encode(&kept);

        let mut decoded: Accounted<u8> = codec::decode("a value", &bytes).unwrap();
        let budget = Budget::default();
        decoded.charge_to(&budget);

        assert_eq!((*decoded, budget.bytes()), (7, 30));
        drop(decoded);
        assert_eq!(budget.bytes(), 0);
    }

    #[test]
    fn counts_that_another_node_states_do_not_overflow_the_budget() {
        let hostile = codec::encode(&(usize::MAX, 7_u8));
        let budget = Budget::default();
        let mut all: Vec<Accounted<u8>> =
            (0..3).map(|_| codec::decode("a value", &hostile).unwrap()).collect();
        all.iter_mut().for_each(|decoded| decoded.charge_to(&budget));
        assert_eq!(budget.bytes(), 3 * DECODED_BYTES_MAX);
    }
}
