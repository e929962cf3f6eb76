//! The time that a node takes to send a datagram.

use std::collections::VecDeque;
use std::time::Duration;

/// Number of datagrams that count: few enough to follow the machine's load, and enough to hide a
/// thread that loses its core during one or two of them.
const KEPT: usize = 15;

/// Times that the last datagrams took from the connection's buffers to the system: to gather the
/// frames, encrypt them and pass them on.
#[derive(Debug, Default)]
pub(super) struct SendCosts {
    last: VecDeque<Duration>,
}

impl SendCosts {
    pub(super) fn add(&mut self, took: Duration) {
        if self.last.len() == KEPT {
            self.last.pop_front();
        }
        self.last.push_back(took);
    }

    /// Returns the median, or `None` if nothing was sent.
    pub(super) fn median(&self) -> Option<Duration> {
        let mut sorted: Vec<Duration> = self.last.iter().copied().collect();
        sorted.sort_unstable();
        sorted.get(sorted.len() / 2).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_ignores_old_datagrams_and_outliers() {
        let micros = Duration::from_micros;
        let mut costs = SendCosts::default();
        assert_eq!(costs.median(), None);

        (0..100).for_each(|_| costs.add(micros(500)));
        (0..13).for_each(|_| costs.add(micros(4)));
        costs.add(micros(9_000));

        assert_eq!(costs.median(), Some(micros(4)));
    }
}
