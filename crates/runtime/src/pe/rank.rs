//! The order in which a PE handles messages: by priority or, among messages of steps, by step and
//! distance to another site.
//!
//! A job that advances in steps gives each message the step to which it belongs. The oldest step
//! goes first, since the other actors wait for those that are behind. Among messages of one step,
//! those for actors fewer hops from another site go first, since their results travel farthest.
//! Distance alone would let actors near the border run ahead while the rest falls behind, which
//! makes all steps longer.
//!
//! Steps are priorities from [`FIRST_STEP`] on, so that they are transmitted and queued like
//! priorities.

/// The priority of step 0. Priorities below are handled before all steps.
pub(crate) const FIRST_STEP: i32 = 1 << 30;

/// Number of steps with different priorities. After that the priorities repeat, and for a moment
/// the newest step counts as the oldest. The greatest priority remains for messages that come after
/// all others.
const STEPS: u64 = (1 << 30) - 1;

/// The hops of an actor whose distance to another site is not known.
pub(crate) const FAR: u8 = u8::MAX;

#[inline]
pub(crate) fn priority_of_step(step: u64) -> i32 {
    FIRST_STEP + (step % STEPS) as i32
}

#[inline]
pub(crate) fn is_step(priority: i32) -> bool {
    priority >= FIRST_STEP
}

/// The step of a priority, modulo [`STEPS`]; `None` if the priority is not that of a step.
#[inline]
pub(crate) fn step_of(priority: i32) -> Option<u64> {
    (is_step(priority) && priority < i32::MAX)
        .then(|| u64::from((priority - FIRST_STEP).unsigned_abs()))
}

/// The place of a message in the order in which a PE handles ready messages: lower ranks first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Rank {
    pub(crate) priority: i32,
    /// Hops from the receiver to another site; zero for messages without a step.
    pub(crate) hops: u8,
}

impl Rank {
    /// The rank of nearly all messages.
    pub(crate) const NORMAL: Self = Self { priority: 0, hops: 0 };

    /// The rank of a message for an actor that is `hops` away from another site.
    #[inline]
    pub(crate) fn new(priority: i32, hops: u8) -> Self {
        Self { priority, hops: if is_step(priority) { hops } else { 0 } }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn older_steps_go_first_then_receivers_with_fewer_hops() {
        let in_step = |step, hops| Rank::new(priority_of_step(step), hops);
        let mut ranks =
            [in_step(8, 0), in_step(7, FAR), in_step(7, 2), in_step(7, 0), in_step(6, 9)];
        ranks.sort_unstable();
        let expected =
            [in_step(6, 9), in_step(7, 0), in_step(7, 2), in_step(7, FAR), in_step(8, 0)];
        assert_eq!(ranks, expected);
    }

    #[test]
    fn messages_without_a_step_ignore_hops_and_go_before_all_steps() {
        assert_eq!(Rank::new(5, 0), Rank::new(5, 9));
        assert!(Rank::new(FIRST_STEP - 1, 9) < Rank::new(priority_of_step(0), 0));
    }

    #[test]
    fn priorities_of_steps_wrap_around() {
        assert_eq!(priority_of_step(STEPS - 1), i32::MAX - 1);
        assert_eq!(priority_of_step(STEPS), FIRST_STEP);
        assert!(is_step(priority_of_step(u64::MAX)));
        assert_eq!(step_of(priority_of_step(7)), Some(7));
        assert_eq!((step_of(FIRST_STEP - 1), step_of(i32::MAX)), (None, None));
    }
}
