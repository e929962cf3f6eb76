//! Work of actors, and the share of each PE.

use crate::snapshot::{PeLoad, Snapshot};

/// Maximum sum of all works, so that the cutter can add to it without overflow.
const WORK_SUM_MAX: f64 = (1_u64 << 61) as f64;

/// The work of each actor, in nanoseconds on a PE of speed 1, and the part of all work that each PE
/// should get.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Capacity {
    /// Work of each actor: its load times the speed of the PE on which it was measured, and times
    /// the factor by which that PE has fallen behind.
    pub(crate) works: Vec<u64>,
    /// Part of all work for each PE, so that all PEs end at the same time, background included.
    /// The parts add up to one.
    pub(crate) shares: Vec<f64>,
}

impl Capacity {
    pub(crate) fn of(snapshot: &Snapshot) -> Self {
        let speeds: Vec<f64> = snapshot.pes.iter().map(PeLoad::effective_speed).collect();
        Self::with_speeds(snapshot, &speeds)
    }

    /// Computes the capacity for the given speeds of PEs, one number above zero for each.
    pub(crate) fn with_speeds(snapshot: &Snapshot, speeds: &[f64]) -> Self {
        let pe_lag = snapshot.pe_lag();
        let work = |actor: &crate::snapshot::ActorLoad| {
            let pe = actor.pe.index();
            actor.load.as_nanos() as f64 * snapshot.pes[pe].speed * pe_lag[pe]
        };
        let total: f64 = snapshot.actors.iter().map(work).sum();
        let scale = if total > WORK_SUM_MAX { WORK_SUM_MAX / total } else { 1.0 };
        let works: Vec<u64> =
            snapshot.actors.iter().map(|actor| (work(actor) * scale).round() as u64).collect();
        Self { works, shares: shares(&snapshot.pes, speeds, total) }
    }

    /// Returns the work that each PE should get.
    pub(crate) fn targets(&self) -> Vec<f64> {
        let total = self.works.iter().map(|&work| work as f64).sum::<f64>();
        self.shares.iter().map(|share| share * total).collect()
    }
}

/// Returns the part of each PE in the work `total`, which is in nanoseconds on a PE of speed 1. All
/// PEs that get work end at the same time (the level), background included. A PE whose background
/// ends later gets none. Without work, the parts are in proportion to `speeds`.
pub(crate) fn shares(pes: &[PeLoad], speeds: &[f64], total: f64) -> Vec<f64> {
    if total <= 0.0 {
        let sum: f64 = speeds.iter().sum();
        return speeds.iter().map(|speed| speed / sum).collect();
    }
    let background = |pe: &PeLoad| pe.background.as_nanos() as f64;
    let mut order: Vec<usize> = (0..pes.len()).collect();
    order.sort_by(|&a, &b| background(&pes[a]).total_cmp(&background(&pes[b])));
    let (mut speed, mut background_work, mut level) = (0.0, 0.0, 0.0);
    for (at, &pe) in order.iter().enumerate() {
        speed += speeds[pe];
        background_work += speeds[pe] * background(&pes[pe]);
        level = (total + background_work) / speed;
        if order.get(at + 1).is_none_or(|&next| level <= background(&pes[next])) {
            break;
        }
    }
    let part = |(pe, speed): (&PeLoad, &f64)| speed * (level - background(pe)).max(0.0) / total;
    pes.iter().zip(speeds).map(part).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::snapshot;
    use std::time::Duration;

    #[test]
    fn shares_follow_speeds_and_leave_room_for_background() {
        // 1 + 2 + 3 + 4 ms of work, measured on PE 0 of speed 1.
        let mut snapshot = snapshot(&[0, 0, 0, 0]);
        snapshot.pes[1].speed = 2.0;
        snapshot.pes[3].background = Duration::from_millis(2);

        let shares = Capacity::of(&snapshot).shares;

        // All PEs end at 2.4 ms: 2.4 + 4.8 + 2.4 + 0.4.
        for (share, expected) in shares.iter().zip([0.24, 0.48, 0.24, 0.04]) {
            assert!((share - expected).abs() < 1e-9, "{shares:?}");
        }
    }

    #[test]
    fn a_pe_that_shares_its_processor_gets_less_but_its_measured_work_counts_in_full() {
        let mut snapshot = snapshot(&[0, 0, 0, 0]);
        snapshot.pes[0].available = 0.5;

        let capacity = Capacity::of(&snapshot);

        assert_eq!(capacity.works, [1_000_000, 2_000_000, 3_000_000, 4_000_000]);
        assert!((capacity.shares[0] - 0.5 / 3.5).abs() < 1e-9, "{capacity:?}");
    }

    #[test]
    fn a_pe_with_too_much_background_gets_no_work() {
        let mut snapshot = snapshot(&[0, 1]);
        snapshot.pes[2].background = Duration::from_secs(1);

        assert_eq!(Capacity::of(&snapshot).shares[2], 0.0);
    }

    #[test]
    fn the_same_load_on_a_faster_pe_is_more_work() {
        let mut snapshot = snapshot(&[0, 1]);
        snapshot.pes[1].speed = 2.0;

        assert_eq!(Capacity::of(&snapshot).works, [1_000_000, 4_000_000]);
    }
}
