//! Limits the bytes that this process keeps for others.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Bytes that can be claimed, such as those for requests of one connection that are being read or
/// answered. Clones share them.
#[derive(Clone, Debug)]
pub(crate) struct Budget {
    left: Arc<AtomicUsize>,
}

/// Claimed bytes. Dropping this value returns them.
#[derive(Debug)]
pub(crate) struct Claim {
    left: Arc<AtomicUsize>,
    bytes: usize,
}

impl Budget {
    pub(crate) fn new(bytes: usize) -> Self {
        Self { left: Arc::new(AtomicUsize::new(bytes)) }
    }

    /// Creates an empty claim.
    pub(crate) fn claim(&self) -> Claim {
        Claim { left: self.left.clone(), bytes: 0 }
    }
}

impl Claim {
    /// Claims `bytes` more bytes, if they are available. Returns whether they are.
    pub(crate) fn grow(&mut self, bytes: usize) -> bool {
        let less = |left: usize| left.checked_sub(bytes);
        let is_there = self.left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, less).is_ok();
        self.bytes += if is_there { bytes } else { 0 };
        is_there
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        self.left.fetch_add(self.bytes, Ordering::SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dropping_a_claim_returns_its_bytes() {
        let budget = Budget::new(10);
        let (mut one, mut other) = (budget.claim(), budget.claim());

        assert!(one.grow(4) && one.grow(4) && !other.grow(3) && other.grow(2));
        drop(one);

        assert!(!other.grow(9) && other.grow(8));
    }
}
