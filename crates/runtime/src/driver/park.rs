//! How the thread of an idle PE that does not drive the network spins, and then sleeps.

use super::inbox::Inbox;
use super::worker::Idle;
use std::time::{Duration, Instant};

/// Longest time that an idle PE spins for packets before it sleeps, unless the job sets another
/// one: a few times the cost of waking a thread.
const SPIN: Duration = Duration::from_micros(100);
/// Shortest time that such a PE spins, after longer waits: about the time of an answer from a core
/// that is awake.
const SPIN_MIN: Duration = Duration::from_micros(3);

/// Spins for a time that depends on the last waits, and then parks the thread until another thread
/// wakes it.
pub(super) struct Park {
    spin: Spin,
    /// Time spun since the last call of `take_spun`.
    spun: Duration,
}

impl Park {
    /// `spins`: whether to spin for packets before parking. Set it only where every PE has its own
    /// core. `limit`: the longest time to spin, if the job sets it.
    pub(super) fn new(spins: bool, limit: Option<Duration>) -> Self {
        let limit = if spins { limit.unwrap_or(SPIN) } else { Duration::ZERO };
        Self { spin: Spin::new(limit), spun: Duration::ZERO }
    }

    /// Spins for packets, for at most `time`. Returns whether any have come.
    fn spin_for(&mut self, inbox: &Inbox, time: Duration) -> bool {
        let begin = Instant::now();
        loop {
            let (waited, has_come) = (begin.elapsed(), inbox.is_ready());
            if has_come || waited >= time {
                self.spun += waited;
                return has_come;
            }
            std::hint::spin_loop();
        }
    }
}

impl Idle for Park {
    fn wait(&mut self, inbox: &Inbox, timeout: Option<Duration>) -> Duration {
        let begin = Instant::now();
        let next = timeout.map_or(self.spin.next, |timeout| self.spin.next.min(timeout));
        if !next.is_zero() && self.spin_for(inbox, next) {
            self.spin.note(begin.elapsed());
            return Duration::ZERO;
        }
        if inbox.fall_asleep() {
            match timeout.map(|timeout| timeout.saturating_sub(begin.elapsed())) {
                Some(left) => std::thread::park_timeout(left),
                None => std::thread::park(),
            }
            inbox.wake_up();
            // A timer says nothing about packets.
            if inbox.is_ready() {
                self.spin.note(begin.elapsed());
            }
        }
        Duration::ZERO
    }

    fn take_spun(&mut self) -> Duration {
        std::mem::take(&mut self.spun)
    }
}

/// How long to spin in the next wait. A thread that spins for the cost of a wake-up and then parks
/// takes at most twice as long as the better of the two (Karlin and others, "Empirical Studies of
/// Competitive Spinning for a Shared-Memory Multiprocessor", 1991). Like their adaptive threads,
/// this one spins for less time after waits that were longer than the limit: an idle PE soon
/// sleeps, and so does a PE whose partner has no core because other programs use it.
struct Spin {
    limit: Duration,
    next: Duration,
}

impl Spin {
    fn new(limit: Duration) -> Self {
        Self { limit, next: limit.min(SPIN_MIN) }
    }

    /// Notes the length of a wait for packets, in which the thread may have spun or slept.
    fn note(&mut self, waited: Duration) {
        let next = if waited <= self.limit { self.next.saturating_mul(2) } else { self.next / 2 };
        self.next = next.max(SPIN_MIN).min(self.limit);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_spins_while_waits_are_short_whether_or_not_it_has_spun_to_their_ends() {
        let mut spin = Spin::new(SPIN);
        assert_eq!(spin.next, SPIN_MIN);
        (0..8).for_each(|_| spin.note(SPIN));
        assert_eq!(spin.next, SPIN);
        (0..8).for_each(|_| spin.note(2 * SPIN));
        assert_eq!(spin.next, SPIN_MIN, "an idle PE sleeps");
    }

    #[test]
    fn the_time_of_spins_is_counted_and_that_of_sleep_is_not() {
        let inbox = Inbox::new(Box::new(|| {}));
        let mut park = Park::new(true, Some(Duration::from_millis(2)));
        park.spin.next = Duration::from_millis(2);
        park.wait(&inbox, Some(Duration::from_millis(1)));
        assert!(park.take_spun() >= Duration::from_millis(1), "it had no time to sleep");
        assert_eq!(park.take_spun(), Duration::ZERO);

        let mut park = Park::new(false, None);
        park.wait(&inbox, Some(Duration::from_millis(1)));
        assert_eq!(park.take_spun(), Duration::ZERO);

        inbox.push_action(Box::new(|_| {}));
        let mut park = Park::new(true, Some(Duration::from_secs(3600)));
        park.wait(&inbox, None);
        assert!(park.spin.next > SPIN_MIN, "the packets were there");
    }

    #[test]
    fn a_thread_without_time_to_spin_never_spins() {
        let mut spin = Spin::new(Duration::ZERO);
        spin.note(Duration::ZERO);
        assert_eq!(spin.next, Duration::ZERO);
        assert_eq!(Park::new(false, Some(SPIN)).spin.next, Duration::ZERO);
    }
}
