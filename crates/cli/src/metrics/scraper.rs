//! Scrapes a job: asks its launcher for a sample, and describes it.

use super::exposition::Totals;
use super::families;
use crate::top::{Moment, observe};
use gridspan_runtime::message::telemetry::TelemetryLease;
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// The lease of a scrape on samples. The first sample comes after half of the period, and the lease
/// lasts for five seconds.
const LEASE: TelemetryLease = TelemetryLease { period_ms: 1000, focus: None };
/// Time for which other clients get the result of a scrape: the period of samples.
const HOLDS: Duration = Duration::from_secs(1);
/// Time to wait for a sample with all nodes: several periods.
const PATIENCE: Duration = Duration::from_secs(3);
/// Pause between two requests to the launcher.
const PAUSE: Duration = Duration::from_millis(100);

/// Scrapes one job.
pub(super) struct Scraper {
    job: String,
    state: Mutex<State>,
}

/// The metrics, or why there are none.
type Scrape = Result<String, String>;

#[derive(Default)]
struct State {
    totals: Totals,
    /// The last result, and its time.
    last: Option<(Instant, Scrape)>,
}

impl State {
    /// The last result, if it still holds.
    fn recent(&self, now: Instant) -> Option<&Scrape> {
        let (at, scrape) = self.last.as_ref()?;
        (now.saturating_duration_since(*at) < HOLDS).then_some(scrape)
    }
}

impl Scraper {
    /// A scraper for the job of this name.
    pub(super) fn new(job: &str) -> Self {
        Self { job: job.to_owned(), state: Mutex::default() }
    }

    /// Returns the metrics, or why there are none. Waits for up to [`PATIENCE`], and longer if the
    /// launcher does not answer. All callers that wait at the same time get the same result.
    pub(super) fn scrape(&self) -> Scrape {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(scrape) = state.recent(Instant::now()) {
            return scrape.clone();
        }
        let scrape = self.moment().map(|moment| families::text(&moment, &mut state.totals));
        state.last = Some((Instant::now(), scrape.clone()));
        scrape
    }

    /// Returns a sample with all nodes, or the latest one if nodes do not answer in time.
    fn moment(&self) -> Result<Moment, String> {
        let until = Instant::now() + PATIENCE;
        let mut found = Err("the nodes of the job have not answered yet".to_owned());
        loop {
            match observe(&self.job, LEASE) {
                Ok(Some(moment)) if moment.is_whole() => return Ok(moment),
                Ok(Some(moment)) => found = Ok(moment),
                Ok(None) => {}
                // The job may be about to begin.
                Err(error) if found.is_err() => found = Err(error.to_string()),
                Err(_) => {}
            }
            if Instant::now() >= until {
                return found;
            }
            thread::sleep(PAUSE);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_result_of_a_scrape_is_given_to_others_for_a_second() {
        let now = Instant::now();
        let mut state = State::default();
        assert_eq!(state.recent(now), None);
        for scrape in [Ok("as before\n".to_owned()), Err("no answer".to_owned())] {
            state.last = Some((now, scrape.clone()));
            assert_eq!(state.recent(now + Duration::from_millis(999)), Some(&scrape));
            assert_eq!(state.recent(now + HOLDS), None);
        }
    }

    #[test]
    fn those_who_wait_for_a_scrape_without_a_result_do_not_repeat_it() {
        let scraper = Scraper::new("no-such-job");
        let begin = Instant::now();
        let failed = thread::scope(|scope| {
            let clients = [(); 4].map(|()| scope.spawn(|| scraper.scrape()));
            clients.map(|client| client.join().unwrap())
        });
        assert!(failed.iter().all(|scrape| *scrape == failed[0]), "{failed:?}");
        assert!(failed[0].is_err() && begin.elapsed() < 2 * PATIENCE, "{:?}", begin.elapsed());
    }
}
