//! What main may ask of members, and which of them it means.

use serde::{Deserialize, Serialize};

/// Members of the second collection from this index on were inserted.
pub(super) const FIRST_INSERTED: i32 = 1000;

/// What members may do beyond sending messages.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(super) struct Freedom {
    pub(super) insert: bool,
    pub(super) destroy: bool,
    pub(super) migrate: bool,
}

/// What a broadcast asks for.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(super) enum Call {
    /// Nothing.
    Hear,
    /// To contribute to a reduction whose result goes there.
    Contribute { round: u64, to: Receiver },
    /// To contribute to one over the section.
    ContributeToSection { round: u64 },
    /// To go to the sync point.
    Sync,
}

/// Who gets the result of a reduction.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(super) enum Receiver {
    Main,
    Member(i32),
    AllOld,
    AllYoung,
}

/// What a large multicast carries: so much that it may travel in parts.
pub(super) fn load(number: u64) -> Vec<u8> {
    const LEAST: u64 = 20_000;
    const MORE: u64 = 200_000;
    vec![number as u8; (LEAST + number.wrapping_mul(0x9e37_79b9) % MORE) as usize]
}

/// Which of the old members are in the section.
pub(super) fn in_section(index: i32) -> bool {
    index % 3 != 1
}
