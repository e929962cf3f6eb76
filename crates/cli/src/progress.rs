//! Progress of commands that print nothing for a long time: a bar on a terminal, and a line from
//! time to time elsewhere. Both go to standard error.

use crate::quantity::time;
use gridspan_topology::Time;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::io::{self, Write};
use std::thread;
use std::time::Duration;

/// Interval between updates of the bar on a terminal.
const TICK: Duration = Duration::from_millis(100);
/// Interval between lines elsewhere.
const LINE: Duration = Duration::from_secs(10);

/// Beginning of the lines of gridctl about a job.
const MARK: &str = "gridctl│ ";
/// Beginning of the progress of a simulation.
pub(crate) const SIMULATING: &str = "simulating";

/// Progress that is shown until it ends.
#[derive(Clone, Debug)]
pub(crate) struct Progress(ProgressBar);

impl Progress {
    /// Shows the progress of `what`, with its number of steps if that is known.
    pub(crate) fn begin(what: String, steps: Option<u64>) -> Self {
        Self::begin_on(ProgressDrawTarget::stderr(), what, steps)
    }

    /// Shows the progress of `what` in lines, also on a terminal: for programs whose own output
    /// would break the line of a bar.
    pub(crate) fn begin_lines(what: String) -> Self {
        Self::begin_on(ProgressDrawTarget::hidden(), what, None)
    }

    fn begin_on(target: ProgressDrawTarget, what: String, steps: Option<u64>) -> Self {
        let template = match steps {
            Some(_) => "{msg} [{bar:30}] {pos} of {len}, {elapsed}",
            None => "{spinner} {msg}, {elapsed}",
        };
        let style =
            ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar());
        let bar = ProgressBar::with_draw_target(steps, target);
        let bar = bar.with_style(style).with_message(what);
        if bar.is_hidden() {
            let bar = bar.clone();
            // Without a thread there are no lines.
            let _ = thread::Builder::new().name("progress".to_owned()).spawn(move || lines(&bar));
        } else {
            bar.enable_steady_tick(TICK);
        }
        Self(bar)
    }

    /// Notes that another step is done.
    pub(crate) fn advance(&self) {
        self.0.inc(1);
    }

    /// Shows the progress of a simulation.
    pub(crate) fn say_simulated(&self, virtual_time: Time, events: u64) {
        let virtual_time = virtual_time.since(Time::ZERO);
        let what = format!("{SIMULATING}: {virtual_time:.3?} of virtual time, {events} events");
        self.0.set_message(what);
    }

    /// Calls `print`, which may write to the terminal, and hides the bar meanwhile.
    pub(crate) fn hidden<T>(&self, print: impl FnOnce() -> T) -> T {
        self.0.suspend(print)
    }

    /// Ends the display.
    pub(crate) fn end(&self) {
        self.0.finish_and_clear();
    }

    #[cfg(test)]
    pub(crate) fn text(&self) -> String {
        self.0.message()
    }
}

/// Whether a line of standard error shows the progress of a simulation.
pub(crate) fn is_of_simulation(line: &str) -> bool {
    line.strip_prefix(MARK).is_some_and(|line| line.starts_with(SIMULATING))
}

/// Prints lines until the progress ends.
fn lines(bar: &ProgressBar) {
    loop {
        thread::sleep(LINE);
        if bar.is_finished() {
            return;
        }
        let steps = bar.length().map(|length| (bar.position(), length));
        // With standard error closed, nothing can be shown.
        let _ = io::stderr().write_all(line(&bar.message(), steps, bar.elapsed()).as_bytes());
    }
}

fn line(what: &str, steps: Option<(u64, u64)>, elapsed: Duration) -> String {
    let elapsed = time(elapsed);
    match steps {
        Some((done, of)) => format!("{MARK}{what}: {done} of {of}, {elapsed}\n"),
        None => format!("{MARK}{what}, {elapsed}\n"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_say_what_is_done() {
        let elapsed = Duration::from_secs(20);
        assert_eq!(
            line("planning", Some((3, 30)), elapsed),
            "gridctl│ planning: 3 of 30, 20.0 s\n"
        );
        assert_eq!(line("measuring", None, elapsed), "gridctl│ measuring, 20.0 s\n");
        let is_found = |what| is_of_simulation(&line(what, None, elapsed));
        assert_eq!(["simulating", "measuring"].map(is_found), [true, false]);
    }

    #[test]
    fn steps_are_counted_and_nothing_is_shown_after_the_end() {
        let progress = Progress::begin("testing".to_owned(), Some(2));
        progress.advance();
        assert_eq!((progress.0.position(), progress.0.length()), (1, Some(2)));
        assert_eq!(progress.hidden(|| 7), 7);
        progress.end();
        assert!(progress.0.is_finished());
    }
}
