//! Payloads of broadcasts, which differ from round to round, and their digests.

use gridspan_topology::dice::{GOLDEN_GAMMA, mix};
use serde::{Deserialize, Serialize};
use sha1::{Digest as _, Sha1};

/// The SHA-1 digest of a payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Digest([u8; 20]);

impl Digest {
    /// Computes the digest of `bytes`.
    pub fn of(bytes: &[u8]) -> Self {
        Self(Sha1::digest(bytes).into())
    }
}

/// Makes the payload of a round, `bytes` bytes long. Payloads of at least 8 bytes differ between
/// rounds, and the 8-byte words of one payload differ from each other.
pub fn payload(bytes: usize, round: u64) -> Vec<u8> {
    let mixed = |word: u64| mix((round.rotate_left(32) ^ word).wrapping_add(GOLDEN_GAMMA));
    let words = (0..bytes.div_ceil(8) as u64).map(mixed);
    let mut payload: Vec<u8> = words.flat_map(u64::to_le_bytes).collect();
    payload.truncate(bytes);
    payload
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn payloads_have_the_requested_length_and_differ_between_rounds() {
        // The first output of SplitMix64 for seed 0, in little-endian order.
        assert_eq!(payload(8, 0), 0xe220_a839_7b1d_cdaf_u64.to_le_bytes());
        assert_eq!(payload(5, 0), payload(8, 0)[..5]);
        assert!(payload(0, 3).is_empty());
        assert_ne!(payload(8, 1), payload(8, 2));
        assert_ne!(payload(16, 1)[..8], payload(16, 1)[8..]);
    }

    #[test]
    fn digests_match_the_sha_1_standard() {
        // FIPS 180-4: SHA-1 of "abc".
        let expected = [
            0xa9, 0x99, 0x3e, 0x36, 0x47, 0x06, 0x81, 0x6a, 0xba, 0x3e, 0x25, 0x71, 0x78, 0x50,
            0xc2, 0x6c, 0x9c, 0xd0, 0xd8, 0x9d,
        ];
        assert_eq!(Digest::of(b"abc"), Digest(expected));
    }
}
