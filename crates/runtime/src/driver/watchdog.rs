//! Watches PEs that are busy in a handler and cannot answer.
//!
//! One thread per node checks every second which handlers the node's PEs are inside. It reports a
//! long handler to the coordinator, which uses the report if that PE does not answer. During a
//! diagnosis of the job it reports all handlers at once.
//!
//! On main's node it also notifies the job's listeners if main's PE is inside a long handler, or if
//! main's PE does not end the job at its time limit. In a job with checkpoints it asks main's PE to
//! warn if main reaches no progress point.

use super::switch::Switch;
use crate::address::id::MAIN_PE;
use crate::error::{JobError, Warning};
use crate::pe::links::OnFailure;
use crate::pe::watch::Watch;
use crate::pe::{Core, HandlerView};
use gridspan_topology::{NodeId, Time};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// Period of the checks: a wake-up a second costs little.
const POLLING_INTERVAL: Duration = Duration::from_secs(1);
/// Duration after which a handler is reported to the coordinator. Most end long before.
const NOTED: Duration = Duration::from_secs(2);
/// Duration after which a handler on PE 0 is reported to the job's listeners.
const LONG: Duration = Duration::from_secs(30);
/// Time after the limit for the regular end of the job: the coordinator asks all PEs for their
/// pending work, allows 2 s for that, and stops them.
const OVERDUE: Duration = Duration::from_secs(5);

/// The PEs of a node, and the listeners to notify.
pub(super) struct Watchdog {
    views: Vec<HandlerView>,
    seen: Vec<Seen>,
    watch: Watch,
    on_failure: Vec<OnFailure>,
    is_stall_reported: bool,
    is_limit_reported: bool,
    /// Whether to ask main's PE if main reaches progress points.
    asks_for_progress: bool,
    /// Whether main's PE has yet to answer the last question.
    is_asking: Arc<AtomicBool>,
}

/// The handler that a PE was inside of at the last look.
#[derive(Clone, Default)]
struct Seen {
    number: Option<u64>,
    since: Time,
    is_noted: bool,
}

/// A change to report to the coordinator.
#[derive(Debug, PartialEq)]
enum News {
    Inside(Duration),
    Outside,
}

impl Seen {
    /// Notes the current handler, and returns the change to report, if any. `are_all_wanted`:
    /// whether to report short handlers, too.
    fn look(&mut self, number: Option<u64>, now: Time, are_all_wanted: bool) -> Option<News> {
        let mut was_noted = false;
        if self.number != number {
            was_noted = std::mem::take(&mut self.is_noted);
            (self.number, self.since) = (number, now);
        }
        let lasted = now.since(self.since);
        let is_wanted = lasted >= NOTED || are_all_wanted;
        let is_news = number.is_some() && is_wanted && !self.is_noted;
        self.is_noted |= is_news;
        match is_news {
            true => Some(News::Inside(lasted)),
            false => was_noted.then_some(News::Outside),
        }
    }

    /// Returns how long the current handler has lasted, if there is one.
    fn lasted(&self, now: Time) -> Option<Duration> {
        self.number.map(|_| now.since(self.since))
    }
}

impl Watchdog {
    /// Creates a watchdog for the PEs of `views`.
    pub(super) fn new(views: Vec<HandlerView>, watch: Watch, on_failure: &[OnFailure]) -> Self {
        let seen = vec![Seen::default(); views.len()];
        let on_failure = on_failure.to_vec();
        let (is_stall_reported, is_limit_reported, asks_for_progress) = (false, false, false);
        let is_asking = Arc::default();
        Self {
            views,
            seen,
            watch,
            on_failure,
            is_stall_reported,
            is_limit_reported,
            asks_for_progress,
            is_asking,
        }
    }

    /// Sets whether to ask main's PE if main reaches progress points.
    pub(super) fn asking_for_progress(mut self, yes: bool) -> Self {
        self.asks_for_progress = yes;
        self
    }

    /// Watches until the job is over on this node.
    pub(super) fn run(mut self, switch: &Arc<Switch>, begin: Instant) {
        switch.set_watchdog(thread::current());
        while !switch.is_closed() {
            thread::park_timeout(POLLING_INTERVAL);
            let now = Time(begin.elapsed().as_nanos() as u64);
            let left = self.watch.time_left();
            let is_over_time = left.is_some_and(|left| now.since(Time::ZERO) >= left);
            let are_all_wanted = switch.take_handlers_wanted() | is_over_time;
            for position in 0..self.views.len() {
                self.look(position, now, are_all_wanted, switch);
            }
            if switch.node == NodeId(0) && !switch.ending.is_over() {
                self.look_at_mains_pe(now, switch);
            }
        }
    }

    fn look(&mut self, position: usize, now: Time, are_all_wanted: bool, switch: &Switch) {
        let view = &self.views[position];
        let found = view.look();
        let number = found.as_ref().map(|(number, _)| *number);
        let handler = match (self.seen[position].look(number, now, are_all_wanted), found) {
            (Some(News::Inside(lasted)), Some((_, handler))) => {
                Some((handler, lasted.as_nanos() as u64))
            }
            (Some(News::Outside), _) => None,
            _ => return,
        };
        if !switch.layout.is_guest(switch.node) {
            switch.tell_inside(view.pe, handler);
        }
    }

    /// Notifies the listeners if main's PE has been inside a handler for [`LONG`], because main's
    /// requests wait meanwhile, or if main's PE does not end the job at the time limit.
    fn look_at_mains_pe(&mut self, now: Time, switch: &Switch) {
        let Some(at) = self.views.iter().position(|view| view.pe == MAIN_PE) else { return };
        let inside = self.seen[at].lasted(now).zip(self.views[at].look());
        let inside = inside.map(|(lasted, (_, handler))| {
            let seconds = lasted.as_secs();
            let site = switch.layout.site_name(switch.layout.site_of_node(switch.node));
            let text = format!(
                "{} ({} at site {site}) has been inside {handler} for {seconds} s",
                MAIN_PE, switch.node
            );
            (lasted, text)
        });
        if self.asks_for_progress && !self.is_asking.swap(true, Ordering::Relaxed) {
            let is_asking = self.is_asking.clone();
            let check = move |core: &mut Core| {
                is_asking.store(false, Ordering::Relaxed);
                core.warn_without_progress();
            };
            switch.inbox(MAIN_PE).push_action(Box::new(check));
        }
        if let Some((lasted, text)) = &inside
            && *lasted >= LONG
            && !std::mem::replace(&mut self.is_stall_reported, true)
        {
            let warning = Warning::LongHandlerOfMain { inside: text.clone() };
            self.watch.on_warning.iter().for_each(|tell| tell(&warning));
        }
        if let Some((limit, left)) = self.watch.time_limit.zip(self.watch.time_left())
            && now.since(Time::ZERO) >= left.saturating_add(OVERDUE)
            && !std::mem::replace(&mut self.is_limit_reported, true)
        {
            let waits = inside.map_or_else(|| "PE 0 does not end it".to_owned(), |(_, text)| text);
            let error = JobError::TimeLimit { limit, waits };
            self.on_failure.iter().for_each(|tell| tell(&error));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Time {
        Time(seconds * 1_000_000_000)
    }

    #[test]
    fn a_long_handler_and_its_end_are_each_reported_once() {
        let mut seen = Seen::default();
        assert_eq!(seen.look(Some(7), at(1), false), None);
        assert_eq!(seen.look(Some(7), at(2), false), None);
        assert_eq!(seen.look(Some(7), at(3), false), Some(News::Inside(Duration::from_secs(2))));
        assert_eq!(seen.look(Some(7), at(40), false), None);
        assert_eq!(seen.lasted(at(41)), Some(Duration::from_secs(40)));
        assert_eq!(seen.look(None, at(42), false), Some(News::Outside));
        assert_eq!(seen.lasted(at(43)), None);
    }

    #[test]
    fn a_short_handler_is_reported_if_all_are_wanted() {
        let mut seen = Seen::default();
        assert_eq!(seen.look(None, at(1), true), None, "there is none");
        assert_eq!(seen.look(Some(7), at(2), true), Some(News::Inside(Duration::ZERO)));
        assert_eq!(seen.look(Some(7), at(9), true), None, "it is known");
        assert_eq!(seen.look(Some(8), at(10), true), Some(News::Inside(Duration::ZERO)));
        assert_eq!(seen.look(Some(9), at(11), false), Some(News::Outside));
    }

    #[test]
    fn a_series_of_short_handlers_is_not_reported() {
        let mut seen = Seen::default();
        for second in 1..100 {
            assert_eq!(seen.look(Some(second), at(second), false), None);
        }
        assert_eq!(seen.look(None, at(100), false), None);
    }
}
