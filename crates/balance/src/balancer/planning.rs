//! What it takes to make a plan.

use std::time::Duration;

/// What strategies take where nothing has been measured yet: so much for any plan, and so much for
/// each actor.
const ANY: Duration = Duration::from_millis(2);
const PER_ACTOR: Duration = Duration::from_micros(10);

/// How long the strategy plans, learned from the last time.
#[derive(Debug, Default)]
pub(super) struct PlanningTime {
    /// For how many actors it was asked, until it is known how long that took.
    asked: Option<u32>,
    /// For how many actors it took how long.
    last: Option<(u32, Duration)>,
}

impl PlanningTime {
    /// The strategy is asked for a plan for so many actors.
    pub(super) fn ask(&mut self, actors: usize) {
        self.asked = Some(u32::try_from(actors).unwrap_or(u32::MAX));
    }

    /// To decide what to move has taken so long. Says nothing if the strategy was not asked.
    pub(super) fn took(&mut self, time: Duration) {
        if let Some(actors) = self.asked.take() {
            self.last = Some((actors, time));
        }
    }

    /// What a plan for so many actors should take.
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
