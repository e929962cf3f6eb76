//! `none`: moves nothing. The baseline that every other strategy must beat.

use crate::plan::Plan;
use crate::snapshot::Snapshot;
use crate::strategies::strategy::Strategy;

/// Leaves every actor where it is.
///
/// ```
/// use gridspan_balance::{MakeStrategy, NoMoves, Strategy};
///
/// assert_eq!(NoMoves.make(7).name(), "none"); // with the seed of the job
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct NoMoves;

impl Strategy for NoMoves {
    fn name(&self) -> &'static str {
        "none"
    }

    fn predicts(&self) -> bool {
        false
    }

    fn plan(&mut self, _snapshot: &Snapshot) -> Plan {
        Plan::none()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::snapshot;

    #[test]
    fn nothing_moves_at_any_imbalance() {
        assert!(NoMoves.plan(&snapshot(&[0, 0, 0, 0])).is_empty());
    }
}
