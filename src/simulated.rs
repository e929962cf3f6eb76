//! Runs a job in virtual time and returns a summary.

#[cfg(feature = "sim")]
use gridspan_runtime::{Job, JobError};
#[cfg(feature = "sim")]
use gridspan_sim::{SimOptions, Simulation};
#[cfg(feature = "sim")]
use gridspan_topology::{GridSpec, Time};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::time::Duration;
#[cfg(feature = "sim")]
use std::time::Instant;

/// The summary of a simulated run. All fields except `wall_ns` are the same for the same job, grid
/// and seed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Summary {
    /// The seed.
    pub seed: u64,
    /// Number of simulated PEs.
    pub pes: u32,
    /// Virtual time of the job, in nanoseconds.
    pub virtual_ns: u64,
    /// Number of processed events.
    pub events: u64,
    /// Number of handled messages.
    pub messages: u64,
    /// Number of frames from one site to another.
    pub wide_area_frames: u64,
    /// Number of bytes in these frames.
    pub wide_area_bytes: u64,
    /// Real time of the simulation, in nanoseconds.
    pub wall_ns: u64,
}

/// Real time between calls of the observer of a simulation.
#[cfg(feature = "sim")]
const PROGRESS: Duration = Duration::from_secs(1);

/// Runs a job in virtual time. Calls `observe` with the virtual time and the number of events once
/// a second of real time. There is no summary if the simulation cannot start.
#[cfg(feature = "sim")]
pub(crate) fn run(
    job: Job,
    spec: &GridSpec,
    time_limit: Option<Duration>,
    observe: impl FnMut(Time, u64) + Send + 'static,
) -> (Result<(), JobError>, Option<Summary>) {
    let (begin, seed) = (Instant::now(), job.configured_seed());
    let mut options = SimOptions::with_seed(seed);
    options.time_limit = time_limit.unwrap_or(options.time_limit);
    let simulation = match Simulation::new(job, spec.clone(), options) {
        Ok(simulation) => simulation,
        Err(error) => return (Err(error.into()), None),
    };
    let report = simulation.observed_by(once_a_second(observe)).run();
    let summary = Summary {
        seed,
        pes: spec.layout().pe_count(),
        virtual_ns: report.virtual_time.as_nanos(),
        events: report.events,
        messages: report.messages,
        wide_area_frames: report.wide_area_frames,
        wide_area_bytes: report.wide_area_bytes,
        wall_ns: u64::try_from(begin.elapsed().as_nanos()).unwrap_or(u64::MAX),
    };
    (report.outcome, Some(summary))
}

/// Passes on the progress of a simulation once a second of real time.
#[cfg(feature = "sim")]
fn once_a_second(
    mut observe: impl FnMut(Time, u64) + Send + 'static,
) -> impl FnMut(Time, u64) + Send + 'static {
    let mut observed = Instant::now();
    move |now, events| {
        if observed.elapsed() >= PROGRESS {
            observed = Instant::now();
            observe(now, events);
        }
    }
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { seed, pes, events, messages, wide_area_frames, wide_area_bytes, .. } = *self;
        let (frames, bytes) = (grouped(wide_area_frames), grouped(wide_area_bytes));
        let (time, wall) =
            (Duration::from_nanos(self.virtual_ns), Duration::from_nanos(self.wall_ns));
        let rate = events as f64 / wall.as_secs_f64().max(1e-9);
        writeln!(f, "simulated {pes} PEs with seed {seed}")?;
        writeln!(f, "  virtual time  {time:.3?}")?;
        writeln!(f, "  events        {}, {} messages handled", grouped(events), grouped(messages))?;
        writeln!(f, "  wide area     {frames} frames, {bytes} bytes")?;
        write!(f, "  real time     {wall:.3?}, {} events/s", grouped(rate as u64))
    }
}

/// Formats a number with a comma after every three digits.
fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut grouped = String::new();
    for (position, digit) in digits.chars().enumerate() {
        if position > 0 && (digits.len() - position).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_numbers_are_grouped_by_three_digits() {
        assert_eq!(grouped(0), "0");
        assert_eq!(grouped(999), "999");
        assert_eq!(grouped(1_000), "1,000");
        assert_eq!(grouped(12_345_678), "12,345,678");
    }

    #[test]
    fn only_the_last_line_of_a_summary_has_real_time() {
        let summary = Summary {
            seed: 7,
            pes: 512,
            virtual_ns: 1_500_000_000,
            events: 2_000_000,
            messages: 900_000,
            wide_area_frames: 1234,
            wide_area_bytes: 5678,
            wall_ns: 500_000_000,
        };
        let text = summary.to_string();
        let lines: Vec<_> = text.lines().collect();
        assert_eq!(lines[1], "  virtual time  1.500s");
        assert_eq!(lines[3], "  wide area     1,234 frames, 5,678 bytes");
        assert_eq!(lines[4], "  real time     500.000ms, 4,000,000 events/s");
    }
}
