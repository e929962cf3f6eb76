//! What a part of a job has done between two samples: differences of its counters.

use gridspan_runtime::message::telemetry::TelemetryCounts;
use serde::Serialize;

/// The figures of a part of a job. Rates and shares are those of the time between two samples, and
/// unknown where there is only one.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub(super) struct Figures {
    /// Share of the time in which PEs were busy, from 0 to 1.
    pub(super) busy: Option<f64>,
    /// Share of the time in which they sent and received.
    pub(super) network: Option<f64>,
    /// Share of the time in which they waited.
    pub(super) idle: Option<f64>,
    /// Share of the time in which PEs wanted a processor and other threads had it.
    pub(super) foreign: Option<f64>,
    /// Messages handled since the start.
    pub(super) messages: u64,
    /// Messages handled per second.
    pub(super) messages_per_s: Option<f64>,
    /// Messages that are ready to be handled.
    pub(super) waiting: u64,
    /// Bytes of waiting messages.
    pub(super) waiting_bytes: u64,
    /// Number of actors.
    pub(super) actors: u64,
    /// Actors that have moved away since the start.
    pub(super) moved: u64,
    /// Tasks run since the start.
    pub(super) tasks: u64,
    /// Tasks run per second.
    pub(super) tasks_per_s: Option<f64>,
    /// Tasks that wait.
    pub(super) tasks_waiting: u64,
}

impl Figures {
    /// The figures of `pes` PEs.
    pub(super) fn new(now: &TelemetryCounts, before: Option<&TelemetryCounts>, pes: u32) -> Self {
        let mut figures = Self {
            messages: now.handled,
            waiting: now.waiting,
            waiting_bytes: now.waiting_bytes,
            actors: now.actors,
            moved: now.migrations,
            tasks: now.tasks_done,
            tasks_waiting: now.tasks_waiting,
            ..Self::default()
        };
        if let Some(before) = before {
            figures.add_rates(now, before, pes);
        }
        figures
    }

    fn add_rates(&mut self, now: &TelemetryCounts, before: &TelemetryCounts, pes: u32) {
        // A count may be lower than before where a node is gone, or was late.
        let since = |count: fn(&TelemetryCounts) -> u64| count(now).saturating_sub(count(before));
        let parts = [since(|it| it.busy_us), since(|it| it.network_us), since(|it| it.idle_us)];
        let time_us = parts.iter().fold(0, |sum: u64, part| sum.saturating_add(*part));
        if time_us > 0 {
            let share = |part: u64| Some(part as f64 / time_us as f64);
            [self.busy, self.network, self.idle] = parts.map(share);
            let per_s = f64::from(pes.max(1)) * 1e6 / time_us as f64;
            self.messages_per_s = Some(since(|it| it.handled) as f64 * per_s);
            self.tasks_per_s = Some(since(|it| it.tasks_done) as f64 * per_s);
        }
        let (ran, waited) = (since(|it| it.ran_us), since(|it| it.waited_us));
        if ran.saturating_add(waited) > 0 {
            self.foreign = Some(waited as f64 / (ran as f64 + waited as f64));
        }
    }
}

/// Returns the increase of a count per second; `None` without an earlier one, or if no time has
/// passed.
pub(super) fn per_second(now: u64, before: Option<u64>, time_us: u64) -> Option<f64> {
    let more = now.saturating_sub(before?);
    (time_us > 0).then(|| more as f64 * 1e6 / time_us as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_and_rates_are_of_the_time_between_two_samples() {
        let before = TelemetryCounts {
            busy_us: 5_000_000,
            idle_us: 1_000_000,
            handled: 100,
            ran_us: 5_000_000,
            ..TelemetryCounts::default()
        };
        // Two PEs, two seconds later.
        let now = TelemetryCounts {
            busy_us: 6_000_000,
            network_us: 1_000_000,
            idle_us: 3_000_000,
            handled: 500,
            ran_us: 6_500_000,
            waited_us: 500_000,
            tasks_done: 8,
            ..before
        };
        let figures = Figures::new(&now, Some(&before), 2);
        assert_eq!(
            [figures.busy, figures.network, figures.idle, figures.foreign],
            [0.25, 0.25, 0.5, 0.25].map(Some)
        );
        assert_eq!((figures.messages_per_s, figures.tasks_per_s), (Some(200.0), Some(4.0)));
        assert_eq!(figures.messages, 500);
    }

    #[test]
    fn without_an_earlier_sample_there_are_counts_only() {
        let now = TelemetryCounts { busy_us: 9, handled: 7, actors: 3, ..Default::default() };
        let alone = Figures::new(&now, None, 1);
        assert_eq!((alone.busy, alone.messages_per_s, alone.actors), (None, None, 3));
        let same = Figures::new(&now, Some(&now), 1);
        assert_eq!((same.busy, same.messages), (None, 7), "no time has passed");
    }

    #[test]
    fn shares_stay_between_0_and_1_when_counts_fall() {
        let before =
            TelemetryCounts { busy_us: 900, idle_us: 50, handled: 9, ..Default::default() };
        let now = TelemetryCounts { busy_us: 100, idle_us: 150, handled: 2, ..Default::default() };
        let figures = Figures::new(&now, Some(&before), 1);
        assert_eq!((figures.busy, figures.idle), (Some(0.0), Some(1.0)));
        assert_eq!(figures.messages_per_s, Some(0.0));
        assert_eq!(figures.foreign, None, "the system does not count");
    }

    #[test]
    fn the_rate_of_a_count_needs_an_earlier_one_and_time() {
        assert_eq!(per_second(30, Some(10), 500_000), Some(40.0));
        assert_eq!(per_second(30, None, 500_000), None);
        assert_eq!(per_second(30, Some(10), 0), None);
    }
}
