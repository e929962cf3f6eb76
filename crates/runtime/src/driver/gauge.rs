//! The counters of a node's PEs, for other threads of the node, while the job is watched.
//!
//! A PE answers between two turns, preferably when it begins to wait. While it waits only its idle
//! time changes, so that the next sample needs no answer: waking a sleeping thread costs more than
//! a whole sample should.

use super::processor_time::processor_time;
use super::share::Share;
use crate::message::telemetry::{PeReading, TelemetryTime};
use crate::pe::Pe;
use gridspan_record::TimeUse;
use gridspan_topology::Time;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// The counters of one PE, which the PE writes when it is asked for them.
pub(super) struct Gauge {
    /// When the clock of the PE began.
    began: Instant,
    /// Whether the PE must answer. A busy PE reads this once in each turn.
    is_wanted: AtomicBool,
    /// Whether the PE has waited since its last answer, so that only its idle time has changed.
    has_waited: AtomicBool,
    /// Microseconds in which the PE has waited, and driven the network, as of its last wait.
    idle_us: AtomicU64,
    network_us: AtomicU64,
    /// When the wait began, by the clock of the PE in nanoseconds; 0 while the PE works.
    waits_since_ns: AtomicU64,
    answer: Mutex<GaugeAnswer>,
}

/// The last answer of a PE.
#[derive(Clone, Default)]
struct GaugeAnswer {
    /// The counters, and when they were read; `None` before the PE's thread begins.
    reading: Option<(PeReading, Instant)>,
    /// Time that the PE has spent on answering.
    spent: TelemetryTime,
}

impl Gauge {
    /// The counters of a PE whose clock began at this time.
    pub(super) fn new(began: Instant) -> Self {
        Self {
            began,
            is_wanted: AtomicBool::default(),
            has_waited: AtomicBool::default(),
            idle_us: AtomicU64::default(),
            network_us: AtomicU64::default(),
            waits_since_ns: AtomicU64::default(),
            answer: Mutex::default(),
        }
    }

    /// Asks the PE for its counters, unless it has waited since its last answer. Returns whether
    /// this is a new request, so that the PE has to be woken if it sleeps. It is not new while the
    /// PE has not answered the one before.
    pub(super) fn order(&self) -> bool {
        if !self.has_waited.load(Ordering::Acquire) {
            return !self.is_wanted.swap(true, Ordering::AcqRel);
        }
        let mut answer = self.answer.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((reading, at)) = &mut answer.reading {
            let now = Instant::now();
            // The thread may have driven the network in a part of this time, which its next answer
            // corrects.
            reading.counts.idle_us += now.saturating_duration_since(*at).as_micros() as u64;
            *at = now;
        }
        false
    }

    /// Returns the counters, and the time that the PE has spent on answering. A PE that has not
    /// answered may be inside a handler; then the time since its last wait counts as busy. Or it
    /// still waits, because it was not woken or got no processor; then the wait counts as idle.
    pub(super) fn read(&self) -> (PeReading, TelemetryTime) {
        let is_late = self.is_wanted.load(Ordering::Acquire);
        let answer = self.answer.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let mut reading = PeReading::default();
        if let Some((last, at)) = answer.reading {
            reading = last;
            if is_late {
                let counts = &mut reading.counts;
                let time_us = counts.time_us() + at.elapsed().as_micros() as u64;
                counts.idle_us = self.idle_us().max(counts.idle_us);
                counts.network_us = self.network_us.load(Ordering::Relaxed).max(counts.network_us);
                let busy_us = time_us.saturating_sub(counts.idle_us + counts.network_us);
                counts.busy_us = busy_us.max(counts.busy_us);
            }
        }
        reading.is_late = is_late;
        (reading, answer.spent)
    }

    /// Microseconds in which the PE has waited. In the present wait it may have driven the network,
    /// which is known at the end of the wait.
    fn idle_us(&self) -> u64 {
        // In this order, a wait that ends meanwhile does not count twice.
        let idle_us = self.idle_us.load(Ordering::Acquire);
        match self.waits_since_ns.load(Ordering::Relaxed) {
            0 => idle_us,
            since => {
                let now_ns = self.began.elapsed().as_nanos() as u64;
                idle_us + now_ns.saturating_sub(since) / 1000
            }
        }
    }

    /// Whether the PE is to answer.
    #[inline]
    fn is_wanted(&self) -> bool {
        self.is_wanted.load(Ordering::Relaxed)
    }

    /// Writes an answer. `begin`: when the PE began to answer, and the processor time of its thread
    /// then.
    fn write(&self, reading: PeReading, (begin, processor): (Instant, Duration)) {
        let mut answer = self.answer.lock().unwrap_or_else(PoisonError::into_inner);
        answer.reading = Some((reading, begin));
        answer.spent += TelemetryTime {
            wall_ns: begin.elapsed().as_nanos() as u64,
            processor_ns: processor_time().saturating_sub(processor).as_nanos() as u64,
        };
        drop(answer);
        self.is_wanted.store(false, Ordering::Release);
    }
}

/// Measures how a PE's thread uses its time: it works, drives the network, or waits.
pub(super) struct Meter<'a> {
    gauge: &'a Gauge,
    began: Time,
    /// When the thread began to wait, if it waits, and the time since then in which it has driven
    /// the network instead.
    waiting: Option<(Time, Duration)>,
    idle: Duration,
    network: Duration,
    /// Time for which the thread has driven the network since its last turn, while it had work.
    attended: Duration,
    /// The counts of the system, if nothing else reads them in this thread.
    share: Option<Share>,
}

impl<'a> Meter<'a> {
    /// Begins to measure the calling thread. A PE that enters a long handler before the first
    /// request counts as busy since `now`.
    pub(super) fn new(gauge: &'a Gauge, now: Time) -> Self {
        gauge.write(PeReading::default(), (Instant::now(), processor_time()));
        let (idle, network, attended) = (Duration::ZERO, Duration::ZERO, Duration::ZERO);
        Self { gauge, began: now, waiting: None, idle, network, attended, share: None }
    }

    /// Notes that the thread begins to wait. If the PE is asked for its counters, it answers.
    /// `share`: the counts of the system, if the driver reads them.
    #[inline]
    pub(super) fn rest(&mut self, now: Time, pe: &Pe, share: Option<&Share>) {
        if self.gauge.is_wanted() {
            self.answer(now, pe, share);
            self.gauge.has_waited.store(true, Ordering::Release);
        }
        self.waiting = Some((now, Duration::ZERO));
        // Each wait passes here, whether or not the job is watched, so no clock is read.
        self.gauge.waits_since_ns.store(now.0.max(1), Ordering::Relaxed);
    }

    /// Notes that the thread has driven the network for `time`.
    #[inline]
    pub(super) fn note_network(&mut self, time: Duration) {
        self.network += time;
        match &mut self.waiting {
            Some((_, driven)) => *driven += time,
            None => self.attended += time,
        }
    }

    /// Records what the thread has done since its last turn. Call it before
    /// [`go_on`](Self::go_on).
    pub(super) fn record(&mut self, now: Time, pe: &mut Pe) {
        let attended = std::mem::take(&mut self.attended);
        let (worked_until, network_until) = match self.waiting {
            Some((since, driven)) => (since, since + driven),
            None => (Time(now.0.saturating_sub(attended.as_nanos() as u64)), now),
        };
        pe.record_use(worked_until, TimeUse::Runtime);
        pe.record_use(network_until, TimeUse::Network);
        pe.record_use(now, TimeUse::Idle);
    }

    /// Notes that the thread works. If it has not waited, and the PE must answer, the PE answers. A
    /// PE that was woken only for the answer answers when it waits again.
    #[inline]
    pub(super) fn go_on(&mut self, now: Time, pe: &Pe, share: Option<&Share>) {
        if let Some((since, driven)) = self.waiting.take() {
            self.idle += now.since(since).saturating_sub(driven);
            let micros = |time: Duration| time.as_micros() as u64;
            self.gauge.waits_since_ns.store(0, Ordering::Relaxed);
            self.gauge.idle_us.store(micros(self.idle), Ordering::Release);
            self.gauge.network_us.store(micros(self.network), Ordering::Relaxed);
            self.gauge.has_waited.store(false, Ordering::Relaxed);
        } else if self.gauge.is_wanted() {
            self.answer(now, pe, share);
        }
    }

    #[cold]
    fn answer(&mut self, now: Time, pe: &Pe, share: Option<&Share>) {
        let begin = (Instant::now(), processor_time());
        let mut reading = pe.reading();
        let micros = |time: Duration| time.as_micros() as u64;
        let used = now.since(self.began);
        let counts = &mut reading.counts;
        (counts.idle_us, counts.network_us) = (micros(self.idle), micros(self.network));
        counts.busy_us = micros(used.saturating_sub(self.idle).saturating_sub(self.network));
        let totals = match share {
            // The driver has just read them, unless the PE was in a long handler.
            Some(share) => share.last_totals(),
            None => self.share.get_or_insert_with(Share::new).totals(),
        };
        if let Some((ran, waited)) = totals {
            (counts.ran_us, counts.waited_us) = (micros(ran), micros(waited));
        }
        self.gauge.write(reading, begin);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Job;
    use crate::error::JobError;
    use crate::job::program::Program;
    use gridspan_topology::{Layout, PeId};

    fn pe() -> Pe {
        let job = Job::new("measured").main(async |_| Ok::<(), JobError>(()));
        Program::new(job, Layout::single(1)).unwrap().pe(PeId(0))
    }

    const fn ms(millis: u64) -> Time {
        Time(millis * 1_000_000)
    }

    #[test]
    fn the_time_of_a_thread_is_busy_network_or_idle() {
        let (gauge, pe) = (Gauge::new(Instant::now()), pe());
        let mut meter = Meter::new(&gauge, ms(1000));
        meter.go_on(ms(1010), &pe, None);
        assert_eq!(gauge.read().0, PeReading::default(), "it was not asked");

        meter.note_network(Duration::from_millis(4));
        meter.rest(ms(1030), &pe, None);
        meter.note_network(Duration::from_millis(5));
        meter.go_on(ms(1090), &pe, None);
        gauge.order();
        assert!(gauge.read().0.is_late);
        meter.go_on(ms(1100), &pe, None);

        let (reading, spent) = gauge.read();
        let counts = reading.counts;
        assert!(!reading.is_late && spent.wall_ns > 0);
        assert_eq!(spent.processor_ns > 0, cfg!(feature = "net"), "{spent:?}");
        assert_eq!((counts.idle_us, counts.network_us), (55_000, 9_000));
        assert_eq!(counts.busy_us, 100_000 - 55_000 - 9_000);
        assert_eq!(counts.time_us(), 100_000);
    }

    #[test]
    fn the_time_in_which_a_late_pe_has_waited_is_not_busy() {
        let (gauge, pe) = (Gauge::new(Instant::now()), pe());
        let mut meter = Meter::new(&gauge, ms(0));
        meter.rest(ms(0), &pe, None);
        meter.go_on(ms(3_600_000), &pe, None);
        assert!(gauge.order() && !gauge.order());
        let late = gauge.read().0;
        assert!(late.is_late && late.counts.busy_us < 3_600_000_000, "{late:?}");
        assert_eq!(late.counts.idle_us, 3_600_000_000);
        meter.go_on(ms(3_600_100), &pe, None);
        let answered = gauge.read().0.counts;
        assert_eq!((answered.idle_us, answered.busy_us), (3_600_000_000, 100_000));
    }

    #[test]
    fn a_pe_that_sleeps_and_does_not_answer_is_not_busy() {
        let (gauge, pe) = (Gauge::new(Instant::now()), pe());
        let began = Instant::now();
        let now = || Time(began.elapsed().as_nanos() as u64);
        let mut meter = Meter::new(&gauge, now());
        gauge.order();
        meter.go_on(now(), &pe, None);
        let answered = gauge.read().0.counts;
        meter.rest(now(), &pe, None);
        let worked = began.elapsed();
        std::thread::sleep(Duration::from_millis(3));

        assert!(gauge.order(), "it is asked, and gets no processor");

        let late = gauge.read().0;
        // Two numbers are rounded down.
        let busy_us_max = worked.as_micros() as u64 + 2;
        assert!(late.is_late && late.counts.busy_us <= busy_us_max, "{late:?} after {answered:?}");
        assert!(late.counts.idle_us >= 3_000, "{late:?}");
        meter.go_on(now(), &pe, None);
        assert!(gauge.read().0.counts.idle_us >= 3_000, "its wait counts when it has ended, too");
    }

    #[test]
    fn a_pe_that_waits_is_asked_once_and_its_time_counts_as_idle() {
        let (gauge, pe) = (Gauge::new(Instant::now()), pe());
        let mut meter = Meter::new(&gauge, ms(0));
        meter.rest(ms(10), &pe, None);
        assert!(gauge.order(), "it has not answered yet");
        meter.go_on(ms(20), &pe, None);
        assert!(gauge.read().0.is_late, "it may have been woken by work");
        meter.rest(ms(21), &pe, None);
        let answered = gauge.read().0;
        assert!(!answered.is_late);
        assert_eq!((answered.counts.idle_us, answered.counts.busy_us), (10_000, 11_000));
        std::thread::sleep(Duration::from_millis(3));

        assert!(!gauge.order(), "it has waited since");

        let later = gauge.read().0;
        assert!(!later.is_late);
        assert!(later.counts.idle_us >= answered.counts.idle_us + 3_000, "{later:?}");
        assert_eq!(later.counts.busy_us, answered.counts.busy_us);
        meter.go_on(ms(30), &pe, None);
        assert!(gauge.order(), "it may have worked since");
        meter.go_on(ms(35), &pe, None);
        let counts = gauge.read().0.counts;
        assert_eq!((counts.idle_us, counts.busy_us), (19_000, 16_000));
    }

    #[test]
    fn a_pe_that_does_not_answer_counts_as_busy() {
        let (gauge, pe) = (Gauge::new(Instant::now()), pe());
        let mut meter = Meter::new(&gauge, ms(0));
        gauge.order();
        meter.go_on(ms(10), &pe, None);
        let answered = gauge.read().0.counts;

        gauge.order();
        std::thread::sleep(Duration::from_millis(3));

        let reading = gauge.read().0;
        assert!(reading.is_late);
        assert!(reading.counts.busy_us >= answered.busy_us + 3_000, "{reading:?}");
        assert_eq!(reading.counts.idle_us, answered.idle_us);
    }
}
