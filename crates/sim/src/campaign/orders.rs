//! The commands of main to members, and the members that they concern.

use bytes::Bytes;
use serde::{Deserialize, Serialize};

/// First index of inserted members of the second collection.
pub(super) const FIRST_INSERTED: i32 = 1000;

/// Actions that members may take beyond sending messages.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(super) struct Freedom {
    pub(super) insert: bool,
    pub(super) destroy: bool,
    pub(super) migrate: bool,
}

/// Command in a broadcast.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(super) enum Call {
    /// Do nothing.
    Hear,
    /// Contribute to a reduction whose result goes to `to`.
    Contribute { round: u64, to: Receiver },
    /// Contribute to a reduction over the section.
    ContributeToSection { round: u64 },
    /// Go to the sync point.
    Sync,
}

/// Receiver of the result of a reduction.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(super) enum Receiver {
    Main,
    Member(i32),
    AllOld,
    AllYoung,
}

/// Payload of a large multicast or unordered broadcast: 20 to 220 kB, which may travel in segments.
pub(super) fn load(number: u64) -> Bytes {
    const LEAST: u64 = 20_000;
    const MORE: u64 = 200_000;
    let bytes = LEAST + number.wrapping_mul(0x9e37_79b9) % MORE;
    vec![number as u8; bytes as usize].into()
}

/// Whether the member of the first collection at this index is in the section.
pub(super) fn in_section(index: i32) -> bool {
    index % 3 != 1
}
