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

/// Which of the old members are in the section.
pub(super) fn in_section(index: i32) -> bool {
    index % 3 != 1
}
