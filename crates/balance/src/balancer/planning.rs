//! Time that a strategy takes to make a plan.

use std::time::Duration;

/// Part of the planning time that does not depend on the number of actors.
const ANY: Duration = Duration::from_millis(2);
/// Planning time for each actor before any measurement.
const PER_ACTOR: Duration = Duration::from_micros(10);

/// The planning time of a strategy, learned from its last plan.
#[derive(Debug, Default)]
pub(super) struct PlanningTime {
    /// Number of actors of the plan in progress, until its time is known.
    asked: Option<u32>,
    /// Number of actors of the last plan, and its planning time.
    last: Option<(u32, Duration)>,
}

impl PlanningTime {
    /// Records that the strategy is asked for a plan for `actors` actors.
    pub(super) fn ask(&mut self, actors: usize) {
        self.asked = Some(u32::try_from(actors).unwrap_or(u32::MAX));
    }

    /// Records the time of a decision; it is ignored if the strategy was not asked.
    pub(super) fn took(&mut self, time: Duration) {
        if let Some(actors) = self.asked.take() {
            self.last = Some((actors, time));
        }
    }

    /// Returns the expected time of a plan for `actors` actors.
    pub(super) fn expected(&self, actors: usize) -> Duration {
        let actors = u32::try_from(actors).unwrap_or(u32::MAX);
        match self.last {
            Some((before, time)) if before > 0 => {
                time.mul_f64(f64::from(actors) / f64::from(before)).max(time.min(ANY))
            }
            _ => ANY.saturating_add(PER_ACTOR.saturating_mul(actors)),
        }
    }
}
