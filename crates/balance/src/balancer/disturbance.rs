//! Other programs that slow PEs while a plan is judged.

use crate::snapshot::Snapshot;

/// A PE is slowed if it gets a part of a processor that is smaller by at least this than before.
const SLOWED: f64 = 0.2;
/// Greatest number of plans in a row that are not judged because PEs were slowed: plans that slow
/// PEs themselves must not go on for ever.
pub(super) const DISTURBED_MAX: u32 = 2;

/// Returns whether PEs with work get less of a processor than before a plan, when they got the
/// parts `before`. Load on a PE without work slows no step.
pub(super) fn is_disturbed(before: &[f64], snapshot: &Snapshot) -> bool {
    let mut pes = snapshot.pes.iter().zip(before).zip(snapshot.load_per_pe());
    pes.any(|((pe, before), load)| !load.is_zero() && pe.available <= before - SLOWED)
}
