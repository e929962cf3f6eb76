//! Progress of a simulation, on standard error while the job prints nothing: its virtual time and
//! the number of its events.
//!
//! A launcher prints what the job prints, so it can show a bar on a terminal and hide it before
//! other output. A job inside this process prints by itself, into the line of a bar, so its
//! progress is always in lines.

use crate::progress::{Progress, line};
use gridspan_topology::Time;
use std::fs;
use std::io::{self, IsTerminal, Write};
use std::time::{Duration, Instant};

/// Time without output after which progress is shown, and between lines of progress.
const QUIET: Duration = Duration::from_secs(10);
/// Interval at which it is examined whether a job inside this process has printed something.
const LOOK: Duration = Duration::from_secs(1);

/// Shows the progress of a simulation.
pub(crate) struct SimProgress {
    begin: Instant,
    pace: Pace,
    /// Whether a bar may be shown, rather than lines.
    has_bar: bool,
    /// The bar, while it is shown.
    bar: Option<Progress>,
}

impl SimProgress {
    /// Begins with the job, which has printed nothing. On a terminal, progress is a bar.
    pub(crate) fn beside_launcher() -> Self {
        Self::new(io::stderr().is_terminal())
    }

    fn new(has_bar: bool) -> Self {
        Self { begin: Instant::now(), pace: Pace::default(), has_bar, bar: None }
    }

    /// Shows how far the simulation is, if nothing was printed for long.
    pub(crate) fn show(&mut self, virtual_time: Time, events: u64) {
        let now = self.begin.elapsed();
        if let Some(bar) = &self.bar {
            bar.say(text(virtual_time, events));
        } else if self.pace.is_due(now) {
            let what = text(virtual_time, events);
            if self.has_bar {
                self.bar = Some(Progress::begin_after(what, None, now));
            } else {
                // With standard error closed, nothing can be shown.
                let _ = io::stderr().write_all(line(&what, None, now).as_bytes());
                self.pace.note(now);
            }
        }
    }

    /// Hides the progress before other output, and until nothing was printed for long again.
    pub(crate) fn hide(&mut self) {
        if let Some(bar) = self.bar.take() {
            bar.end();
        }
        self.pace.note(self.begin.elapsed());
    }
}

/// Returns a function that shows the progress of a simulation inside this process. It may be called
/// very often.
pub(crate) fn of_own_job() -> impl FnMut(Time, u64) + Send + 'static {
    let mut progress = SimProgress::new(false);
    let (mut looked, mut written) = (Instant::now(), written_bytes());
    move |virtual_time, events| {
        if looked.elapsed() < LOOK {
            return;
        }
        looked = Instant::now();
        if written_bytes() != written {
            progress.hide();
        }
        progress.show(virtual_time, events);
        // The progress itself is no output of the job.
        written = written_bytes();
    }
}

/// Number of bytes that this process has written, of which a simulation writes only output. `None`
/// where the system does not count them; then progress is shown beside output, too.
fn written_bytes() -> Option<u64> {
    let counts = fs::read_to_string("/proc/self/io").ok()?;
    counts.lines().find_map(|line| line.strip_prefix("wchar: "))?.parse().ok()
}

fn text(virtual_time: Time, events: u64) -> String {
    let virtual_time = virtual_time.since(Time::ZERO);
    format!("simulating: {virtual_time:.3?} of virtual time, {events} events")
}

/// Decides when progress is due. Times are real times since the start.
#[derive(Debug, Default)]
struct Pace {
    /// Time of the last output, or of the last line of progress.
    last: Duration,
}

impl Pace {
    fn note(&mut self, now: Duration) {
        self.last = now;
    }

    fn is_due(&self, now: Duration) -> bool {
        now.saturating_sub(self.last) >= QUIET
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn progress_is_due_after_ten_seconds_without_output_however_often_it_is_offered() {
        const OUTPUT_MS: [u64; 3] = [4_000, 5_000, 30_500];
        let mut pace = Pace::default();
        let mut lines_ms = Vec::new();
        for now_ms in 0..=60_000 {
            let now = Duration::from_millis(now_ms);
            if OUTPUT_MS.contains(&now_ms) {
                pace.note(now);
            }
            if pace.is_due(now) {
                pace.note(now);
                lines_ms.push(now_ms);
            }
        }
        assert_eq!(lines_ms, [15_000, 25_000, 40_500, 50_500]);
    }

    #[test]
    fn a_line_says_virtual_time_and_events() {
        let what = text(Time(1_500_000_000), 2_000_000);
        assert_eq!(what, "simulating: 1.500s of virtual time, 2000000 events");
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn what_this_process_writes_is_noticed() {
        let before = written_bytes();
        if before.is_none() {
            return println!("skipped: this system does not count what a process writes");
        }
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(b"output").unwrap();
        assert!(written_bytes() > before, "{before:?}");
    }

    #[test]
    fn output_hides_the_bar() {
        let mut progress = SimProgress::new(true);
        progress.show(Time(1), 64);
        assert!(progress.bar.is_none(), "nothing is shown at first");
        progress.bar = Some(Progress::begin("testing".to_owned(), None));
        let bar = progress.bar.clone().unwrap();
        progress.show(Time(2), 128);
        progress.hide();
        assert!(progress.bar.is_none());
        assert!(bar.has_ended());
    }
}
