//! PEs that have fallen behind because other programs slow them and no other PE waits for them.

use crate::snapshot::{PeLoad, Snapshot};
use std::time::Duration;

/// A PE that is idle for at most this part of the time that it computes counts as never idle.
const NEVER_IDLE: f64 = 0.05;
/// A PE that gets less than this part of a processor is slowed.
const SLOWED: f64 = 0.9;

impl Snapshot {
    /// Returns for each PE the factor by which it would have had to do more work in the window to
    /// keep up with the others; at least 1.0.
    ///
    /// Where actors wait for each other, each PE does the work of a step, and a PE that is not
    /// slowed is idle in between. If a PE that is not slowed is never idle, it does not wait for
    /// the slowed ones: these have fallen behind by the part of a processor that they did not get.
    pub(crate) fn pe_lag(&self) -> Vec<f64> {
        pe_lag(&self.pes, &self.load_per_pe())
    }

    /// Returns whether PEs have fallen behind while the others go on.
    pub(crate) fn has_pe_lag(&self) -> bool {
        self.pe_lag().iter().any(|&pe_lag| pe_lag > 1.0)
    }
}

/// Returns [`Snapshot::pe_lag`] for PEs and the CPU times that their actors have used.
pub(crate) fn pe_lag(pes: &[PeLoad], loads: &[Duration]) -> Vec<f64> {
    let is_never_idle = |(pe, load): (&PeLoad, &Duration)| {
        let ran = load.saturating_add(pe.communication).as_secs_f64();
        ran > 0.0 && pe.idle.as_secs_f64() <= ran / pe.available * NEVER_IDLE
    };
    let busy: Vec<bool> = pes.iter().zip(loads).map(is_never_idle).collect();
    let is_slowed = |pe: &PeLoad| pe.available < SLOWED;
    let others_go_on = pes.iter().zip(&busy).any(|(pe, &busy)| busy && !is_slowed(pe));
    let pe_lag = |(pe, &busy): (&PeLoad, &bool)| {
        if others_go_on && busy && is_slowed(pe) { 1.0 / pe.available } else { 1.0 }
    };
    pes.iter().zip(&busy).map(pe_lag).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::snapshot;

    #[test]
    fn a_slowed_pe_lags_only_if_no_other_pe_waits_for_it() {
        let mut snapshot = snapshot(&[0, 1, 2]);
        snapshot.pes[0].available = 0.5;
        let idle = |snapshot: &mut Snapshot, millis: [u64; 3]| {
            for (pe, millis) in snapshot.pes.iter_mut().zip(millis) {
                pe.idle = Duration::from_millis(millis);
            }
        };

        idle(&mut snapshot, [0, 0, 0]);
        assert_eq!(snapshot.pe_lag(), [2.0, 1.0, 1.0, 1.0]);
        idle(&mut snapshot, [0, 5, 5]);
        assert_eq!(snapshot.pe_lag(), [1.0; 4], "the others wait");
        idle(&mut snapshot, [5, 0, 0]);
        assert_eq!(snapshot.pe_lag(), [1.0; 4], "it waits itself");
    }
}
