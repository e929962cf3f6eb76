//! How main detects deadlocks: it notices when all ranks wait, and decides when the ranks check
//! their own waits.

use crate::deadlock::{LOOK_EVERY, LOOKING_RANKS_MAX};
use gridspan_runtime::{Grid, GridError};
use std::cell::Cell;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::Duration;

/// Time after which main asks for quiescence: longer than a step of most programs, and short for a
/// person who waits for the report of a deadlock.
const QUIET_AFTER: Duration = Duration::from_secs(2);
/// Each pause whose number is a multiple of this is longer: twice as long as the last such pause.
/// Looks are messages, and over slow links a job that sends them all the time never becomes
/// quiescent. In a longer pause, ranks look by themselves, unless they have waited for long.
const LONGER_EVERY: u32 = 8;
/// Longest pause. Quiescence takes a few crossings of the link with the largest latency, each of at
/// most a few seconds.
const PAUSE_MAX: Duration = Duration::from_secs(30);

type Wait = Pin<Box<dyn Future<Output = Result<(), GridError>>>>;

/// Watches ranks that are alone in their job.
pub(crate) struct MainWatch {
    grid: Grid,
    /// Ends once [`QUIET_AFTER`] has passed and no message is on its way.
    quiet: Wait,
    /// Whether the wait for quiescence has begun.
    is_asking: Rc<Cell<bool>>,
    is_quiet: bool,
    /// Ends at the next look.
    pause: Wait,
    /// Number of pauses in this run.
    pauses: u32,
    looks: bool,
}

/// Sleeps, and then waits for quiescence twice, because the first time a result may still be on its
/// way to main.
fn quiet(grid: &Grid) -> (Wait, Rc<Cell<bool>>) {
    let (grid, is_asking) = (grid.clone(), Rc::new(Cell::new(false)));
    let is_asked = is_asking.clone();
    let wait: Wait = Box::pin(async move {
        grid.sleep(QUIET_AFTER).await?;
        is_asked.set(true);
        grid.quiescence().await?;
        grid.quiescence().await
    });
    (wait, is_asking)
}

/// The length of the pause of this number. The first pause has number 1.
fn pause_length(number: u32) -> Duration {
    if !number.is_multiple_of(LONGER_EVERY) {
        return LOOK_EVERY;
    }
    let factor = 2_u32.saturating_pow(number / LONGER_EVERY);
    LOOK_EVERY.saturating_mul(factor).min(PAUSE_MAX)
}

fn pause(grid: &Grid, length: Duration) -> Wait {
    let grid = grid.clone();
    Box::pin(async move { grid.sleep(length).await })
}

impl MainWatch {
    pub(crate) fn new(grid: &Grid) -> Self {
        let (quiet, is_asking) = quiet(grid);
        let (grid, pause) = (grid.clone(), pause(grid, LOOK_EVERY));
        Self { grid, quiet, is_asking, is_quiet: false, pause, pauses: 1, looks: false }
    }

    /// Begins to watch a run of this number of ranks. If these spawn more than may look, main does
    /// not know of it, and the ranks ignore its requests.
    pub(crate) fn begin(&mut self, ranks: usize) {
        if self.pauses_long() {
            // The rest of the last run's longer pause would delay the looks of this run.
            self.pause = pause(&self.grid, LOOK_EVERY);
        }
        (self.looks, self.pauses) = (ranks <= LOOKING_RANKS_MAX as usize, 1);
    }

    /// Whether the ranks should check their waits now.
    pub(crate) fn is_time_to_look(&mut self, cx: &mut Context<'_>) -> bool {
        if !self.looks {
            return false;
        }
        match self.pause.as_mut().poll(cx) {
            Poll::Pending => false,
            // The job is ending.
            Poll::Ready(Err(_)) => {
                self.looks = false;
                false
            }
            Poll::Ready(Ok(())) => {
                self.pauses = self.pauses.saturating_add(1);
                self.pause = pause(&self.grid, pause_length(self.pauses));
                // The first poll of the new pause tells it which task to wake.
                drop(self.pause.as_mut().poll(cx));
                true
            }
        }
    }

    /// Whether the pause is a longer one, in which the ranks look by themselves.
    pub(crate) fn pauses_long(&self) -> bool {
        self.looks && pause_length(self.pauses) > LOOK_EVERY
    }

    /// Polls the wait until no message is on its way. It does not end while ranks run.
    pub(crate) fn is_quiet(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let polled = self.quiet.as_mut().poll(cx);
        self.is_quiet |= polled.is_ready();
        polled.map(drop)
    }

    /// If a wait for quiescence has begun, completes it and prepares another one, so that main
    /// waits only for timers.
    pub(crate) async fn settle(&mut self) -> Result<(), GridError> {
        if self.is_asking.get() {
            let (quiet, is_asking) = quiet(&self.grid);
            let asked = std::mem::replace(&mut self.quiet, quiet);
            self.is_asking = is_asking;
            if !std::mem::take(&mut self.is_quiet) {
                asked.await?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_eighth_pause_is_twice_as_long_as_the_last_of_these_up_to_half_a_minute() {
        let millis = |number| pause_length(number).as_millis();
        assert_eq!((1..=7).map(millis).collect::<Vec<_>>(), [800; 7]);
        assert_eq!([8, 9, 16, 24, 40].map(millis), [1600, 800, 3200, 6400, 25_600]);
        assert_eq!([48, 8 * 40].map(millis), [30_000, 30_000]);
    }
}
