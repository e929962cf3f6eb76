//! Counts refused connections, so that a flood from unknown addresses causes one report a second.

use super::super::hello::HelloRefusal;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

/// Least time between two reports.
const REPORT_EVERY: Duration = Duration::from_secs(1);

/// Refusals since the last report.
#[derive(Debug, Default)]
pub(super) struct Refusals {
    reported: Option<Instant>,
    count: u64,
    last: Option<(SocketAddr, HelloRefusal)>,
}

impl Refusals {
    /// Counts a refusal. Returns the time at which it will be reported at the latest.
    pub(super) fn add(
        &mut self,
        now: Instant,
        address: SocketAddr,
        reason: HelloRefusal,
    ) -> Instant {
        self.count += 1;
        self.last = Some((address, reason));
        self.reported.map_or(now, |reported| now.max(reported + REPORT_EVERY))
    }

    /// Returns the report that is due: the number of refusals, and the last of them.
    pub(super) fn poll(&mut self, now: Instant) -> Option<(u64, SocketAddr, HelloRefusal)> {
        if self.reported.is_some_and(|reported| now < reported + REPORT_EVERY) {
            return None;
        }
        let (address, reason) = self.last.take()?;
        self.reported = Some(now);
        Some((std::mem::take(&mut self.count), address, reason))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_refusal_is_reported_at_once_and_others_once_a_second() {
        let (mut refusals, begin) = (Refusals::default(), Instant::now());
        let address: SocketAddr = ([192, 0, 2, 1], 1).into();
        let mut reports = Vec::new();
        for millisecond in 0..2_500 {
            let now = begin + Duration::from_millis(millisecond);
            if millisecond < 1_500 {
                refusals.add(now, address, HelloRefusal::Silent);
            }
            reports.extend(refusals.poll(now).map(|(count, ..)| (millisecond, count)));
        }

        assert_eq!(reports, [(0, 1), (1_000, 1_000), (2_000, 499)]);
    }
}
