//! Which launcher attends to a job: the one with the largest epoch.

use serde::{Deserialize, Serialize};

/// A launcher of a job. Each launcher of a job has a larger epoch than those before it.
///
/// A [keeper](super) that has accepted a launcher refuses every other one unless its epoch is
/// larger, also after a restart of the host. So of two launchers, only the later one can get enough
/// keepers to let the job go on.
///
/// ```
/// use gridspan::keeper::LauncherId;
///
/// let first = LauncherId { epoch: 1, name: "71@a1".to_owned() };
/// let other = LauncherId { epoch: 1, name: "9@b1".to_owned() };
/// let later = LauncherId { epoch: 2, name: "9@b1".to_owned() };
/// assert!(first.yields_to(&first) && first.yields_to(&later));
/// assert!(!first.yields_to(&other) && !later.yields_to(&first));
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LauncherId {
    /// Its epoch, from 1.
    pub epoch: u64,
    /// A name that no other launcher has.
    pub name: String,
}

impl LauncherId {
    /// Whether a keeper that has accepted this launcher accepts another one.
    pub fn yields_to(&self, other: &Self) -> bool {
        other.epoch > self.epoch || other == self
    }
}
