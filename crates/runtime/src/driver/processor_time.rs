//! Processor time of a thread.

#[cfg(feature = "net")]
use rustix::time::{ClockId, clock_gettime};
use std::time::Duration;

/// Processor time of the calling thread. It does not advance while other threads run on its
/// processor. Reading it takes a system call, in contrast to the time of day.
#[cfg(feature = "net")]
pub(super) fn processor_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::try_from(time).unwrap_or_default()
}

/// Zero: without a network, this crate does not ask the system.
#[cfg(not(feature = "net"))]
pub(super) fn processor_time() -> Duration {
    Duration::ZERO
}

#[cfg(all(test, feature = "net"))]
mod tests {
    use super::*;
    use std::time::Instant;

    #[test]
    fn a_sleep_takes_no_processor_time_and_a_computation_does() {
        let begin = processor_time();
        let since = || processor_time().saturating_sub(begin);
        std::thread::sleep(Duration::from_millis(100));
        assert!(since() < Duration::from_millis(50), "{:?}", since());

        let computing = Instant::now();
        while since() < Duration::from_millis(60) {
            assert!(computing.elapsed() < Duration::from_secs(60), "{:?}", since());
        }
    }
}
