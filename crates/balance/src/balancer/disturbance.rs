//! Other programs that slow PEs while a plan is judged.

use crate::snapshot::PeLoad;
use std::time::Duration;

/// A PE is slowed if its part of a processor has shrunk by at least this.
const SLOWED: f64 = 0.2;
/// Maximum number of plans in a row that are not judged because PEs were slowed. Without a limit,
/// plans that slow PEs themselves would never be judged.
pub(super) const DISTURBED_MAX: u32 = 2;

/// Returns whether PEs with work get less of a processor than the parts `before`, measured before
/// the plan. `loads`: the time that the actors on each PE have used. Other programs on a PE without
/// work slow no step.
pub(super) fn is_disturbed(before: &[f64], pes: &[PeLoad], loads: &[Duration]) -> bool {
    let mut pes = pes.iter().zip(before).zip(loads);
    pes.any(|((pe, before), load)| !load.is_zero() && pe.available <= before - SLOWED)
}
