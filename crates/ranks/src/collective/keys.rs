//! The keys of the parts of reductions: the segment whose value a part has and, for a share of the
//! vectors, the length of a whole vector.
//!
//! Ranks whose vectors differ in length may use different algorithms, or divide the vectors into
//! different numbers of shares. Then a share may by chance have the length that the receiver
//! expects of another part. The key shows the difference, and the receiver fails.

use crate::segments::SegmentKey;

/// Number of bits of the number of a segment.
const NUMBER_BITS: u32 = 32;
/// Number of bits of the level of a segment.
const LEVEL_BITS: u32 = 6;
/// The key holds the length modulo this: 26 bits are left, and 0 means that the key has no length.
const LENGTHS: u64 = (1 << (u64::BITS - NUMBER_BITS - LEVEL_BITS)) - 1;

/// The key of the value of a segment.
pub(super) fn of_segment((level, number): SegmentKey) -> u64 {
    u64::from(level) << NUMBER_BITS | u64::from(number)
}

/// The segment of a key.
pub(super) fn segment(key: u64) -> SegmentKey {
    let level = key >> NUMBER_BITS & ((1 << LEVEL_BITS) - 1);
    (level as u32, key as u32)
}

/// The key of a segment, for a share of a vector of this length.
pub(super) fn of_share(key: u64, length: usize) -> u64 {
    key | length_bits(length) << (NUMBER_BITS + LEVEL_BITS)
}

/// The length, modulo [`LENGTHS`], of the vector of which a part of this key has a share; `None`
/// if the key has no length.
pub(super) fn length_of_whole(key: u64) -> Option<usize> {
    let bits = key >> (NUMBER_BITS + LEVEL_BITS);
    Some(bits.checked_sub(1)? as usize)
}

/// Whether a part of this key has a share of a vector of this length, modulo [`LENGTHS`].
pub(super) fn is_share_of(key: u64, length: usize) -> bool {
    key >> (NUMBER_BITS + LEVEL_BITS) == length_bits(length)
}

fn length_bits(length: usize) -> u64 {
    length as u64 % LENGTHS + 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_have_the_segment_and_the_length_of_the_whole_vector() {
        for at in [(0, 0), (31, 1), (0, u32::MAX)] {
            let whole = of_segment(at);
            assert_eq!((segment(whole), length_of_whole(whole)), (at, None));
            for length in [0, 1, 1000, (1 << 26) - 2] {
                let share = of_share(whole, length);
                assert_eq!((segment(share), length_of_whole(share)), (at, Some(length)));
                assert!(is_share_of(share, length) && !is_share_of(share, length + 1));
                assert!(!is_share_of(whole, length));
            }
        }
    }
}
