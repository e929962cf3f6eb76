//! The recorder of one PE: collects spans and bins within a budget of bytes.
//!
//! Each call accounts for the time since the call before it, so that the record of a PE has no
//! gaps. Times are arguments, in nanoseconds since the start of the job. A time before that of the
//! previous call counts as equal to it.

use crate::answer::MainAnswer;
use crate::pe_record::{
    BINS_MAX, Bin, OTHER, PeRecord, Span, SpanCause, TimedSpan, TypeTotal, widen,
};
use std::collections::BTreeMap;

/// Initial width of a bin.
const BIN_NS: u64 = 1_000_000;
/// Width of a window. Most steps over a wide-area link take a few windows, and a PE that handles a
/// million messages per second has 20,000 spans in one.
const WINDOW_NS: u64 = 20_000_000;
/// Divisor of the number of kept spans: no window keeps more than the quotient, so that none fills
/// the budget.
const WINDOW_PART: usize = 4;
/// Divisor of the budget: the quotient is for bins.
const BINS_PART: usize = 4;
/// Divisor of the budget: the quotient is for answers to main, and as much is for spans of timers.
/// The rest is for other spans.
const LIST_PART: usize = 16;
/// Maximum memory of an entry of a bin in bytes. An entry is a type with its time, or a site with
/// the bytes sent to it. A vector allocates four entries at first.
const ENTRY_BYTES: usize = 64;
/// The memory of spans grows by at least this number of them.
const SPANS_MIN: usize = 1024;
/// The memory of a list of answers or of spans of timers grows by at least this number of elements.
const LIST_MIN: usize = 64;
/// Largest `kept_every`.
const KEPT_EVERY_MAX: u32 = 1 << 30;

/// The settings of a recorder.
///
/// ```
/// use gridspan_record::RecorderConfig;
///
/// let config = RecorderConfig::new(3, vec!["Cell".to_owned()], 16 << 20);
/// assert_eq!(config.pe, 3);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RecorderConfig {
    /// Number of the PE.
    pub pe: u32,
    /// Names of the actor types, by number.
    pub types: Vec<String>,
    /// Budget in bytes of memory. At least one span and one bin are kept.
    pub budget_bytes: usize,
    /// Number of the first span: 0, unless the PE is started again.
    pub first_span: u64,
}

impl RecorderConfig {
    /// Creates the configuration of a PE.
    pub fn new(pe: u32, types: Vec<String>, budget_bytes: usize) -> Self {
        Self { pe, types, budget_bytes, first_span: 0 }
    }

    /// Sets the number of the first span.
    #[must_use]
    pub fn with_first_span(mut self, first_span: u64) -> Self {
        self.first_span = first_span;
        self
    }
}

/// A use of a PE's time, besides handlers and tasks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimeUse {
    /// It was idle: it had nothing to run.
    Idle,
    /// It drove the network.
    Network,
    /// It was ready while other threads had the processor.
    Waited,
    /// The runtime itself worked.
    Runtime,
}

/// Collects what one PE does.
///
/// ```
/// use gridspan_record::{Recorder, RecorderConfig, Span, TimeUse};
///
/// let mut recorder = Recorder::new(RecorderConfig::new(0, vec!["Cell".to_owned()], 1 << 20));
/// recorder.use_until(1_000, TimeUse::Idle);
/// let number = recorder.begin_span(1_000, Span { kind: 0, step: Some(4), ..Span::default() });
/// recorder.end_span(1_700);
///
/// let record = recorder.into_record();
/// assert_eq!(number, 0);
/// assert_eq!((record.spans[0].begin_ns, record.spans[0].duration_ns), (1_000, 700));
/// assert_eq!((record.bins[0].idle_ns, record.bins[0].steps), (1_000, 5));
/// ```
#[derive(Clone, Debug)]
pub struct Recorder {
    config: RecorderConfig,
    bin_ns: u64,
    bins: Vec<Bin>,
    /// Number of entries of all bins.
    entries: usize,
    totals: BTreeMap<u16, TypeTotal>,
    kept_every: u32,
    spans: Vec<Span>,
    /// Number of the window of the last span, and number of spans kept of that window.
    window: (u64, usize),
    dropped: u64,
    /// The answers to main; `None` once there were too many.
    answers: Option<Vec<MainAnswer>>,
    /// The spans of timers; `None` once there were too many.
    timed: Option<Vec<TimedSpan>>,
    /// Number of the next span.
    next: u64,
    /// First and last time of the record.
    began_ns: u64,
    until_ns: u64,
    open: Option<Span>,
}

impl Recorder {
    /// Creates the recorder of a PE at the start of the job.
    pub fn new(config: RecorderConfig) -> Self {
        Self {
            next: config.first_span,
            config,
            bin_ns: BIN_NS,
            bins: Vec::new(),
            entries: 0,
            totals: BTreeMap::new(),
            kept_every: 1,
            spans: Vec::new(),
            window: (0, 0),
            dropped: 0,
            answers: Some(Vec::new()),
            timed: Some(Vec::new()),
            began_ns: 0,
            until_ns: 0,
            open: None,
        }
    }

    /// Number of the PE.
    pub fn pe(&self) -> u32 {
        self.config.pe
    }

    /// Time of the last call.
    pub fn until_ns(&self) -> u64 {
        self.until_ns
    }

    /// Begins the record at this time, not at the start of the job. Has no effect after other
    /// calls.
    pub fn begin_at(&mut self, at_ns: u64) {
        if self.until_ns == 0 && self.open.is_none() {
            let at_ns = at_ns.min(i64::MAX.unsigned_abs());
            (self.began_ns, self.until_ns) = (at_ns, at_ns);
        }
    }

    /// Begins a span, and ends an open one. Sets the number and the times of the span, and returns
    /// the number. If the message was received after `at_ns`, it counts as received then.
    pub fn begin_span(&mut self, at_ns: u64, mut span: Span) -> u64 {
        self.end_span(at_ns);
        self.use_until(at_ns, TimeUse::Runtime);
        let number = self.next;
        self.next += 1;
        (span.number, span.begin_ns, span.duration_ns) = (number, self.until_ns, 0);
        if let Some(SpanCause { received_ns, .. }) = &mut span.cause {
            *received_ns = (*received_ns).min(span.begin_ns);
        }
        if let Some(step) = span.step {
            let bin = self.bin_at(span.begin_ns);
            bin.steps = bin.steps.max(step.saturating_add(1));
        }
        self.open = Some(span);
        number
    }

    /// Ends the open span, if there is one.
    pub fn end_span(&mut self, at_ns: u64) {
        let Some(mut span) = self.open.take() else { return };
        let end = at_ns.max(span.begin_ns);
        span.duration_ns = end - span.begin_ns;
        self.note_busy(end, span.kind);
        let total = self
            .totals
            .entry(span.kind)
            .or_insert_with(|| TypeTotal { number: span.kind, ..TypeTotal::default() });
        total.count += 1;
        total.total_ns = total.total_ns.saturating_add(span.duration_ns);
        total.max_ns = total.max_ns.max(span.duration_ns);
        self.keep(span);
    }

    /// Forgets the open span, as if it had not begun.
    pub fn cancel_span(&mut self) {
        self.next -= u64::from(self.open.take().is_some());
    }

    /// Counts the time since the last call as time in handlers of a type, without a span.
    pub fn note_busy(&mut self, at_ns: u64, kind: u16) {
        self.pass(at_ns, |bin, ns| bin.add_busy(kind, ns));
    }

    /// Counts the time since the last call as `what`.
    pub fn use_until(&mut self, at_ns: u64, what: TimeUse) {
        self.pass(at_ns, |bin, ns| match what {
            TimeUse::Idle => bin.idle_ns += ns,
            TimeUse::Network => bin.network_ns += ns,
            TimeUse::Waited => bin.waited_ns += ns,
            TimeUse::Runtime => bin.add_busy(OTHER, ns),
        });
    }

    /// Counts `waited_ns` of the time since `from_ns` as waiting for a processor, instead of as
    /// busy.
    pub fn note_waited(&mut self, from_ns: u64, waited_ns: u64) {
        let first = usize::try_from(from_ns / self.bin_ns).unwrap_or(usize::MAX);
        let bins = self.bins.get_mut(first..).unwrap_or_default();
        let busy_of = |bin: &Bin| bin.busy_ns.iter().map(|(_, ns)| *ns).sum::<u64>();
        let mut busy: u64 = bins.iter().map(busy_of).sum();
        let mut left = waited_ns.min(busy);
        for bin in bins {
            for (_, ns) in &mut bin.busy_ns {
                // Each entry gives its share of the rest, so that rounding loses nothing.
                let share = u128::from(left) * u128::from(*ns) / u128::from(busy.max(1));
                let share = u64::try_from(share).unwrap_or(left).min(*ns);
                (busy, left) = (busy - *ns, left - share);
                *ns -= share;
                bin.waited_ns += share;
            }
        }
    }

    /// Notes a message to a PE of a site.
    pub fn note_sent(&mut self, site: u32, bytes: u64) {
        let bin = self.bin_at(self.until_ns);
        let before = bin.sent.len();
        bin.add_sent(site, 1, bytes);
        let added = bin.sent.len() - before;
        self.entries += added;
    }

    /// Notes the number of ready messages.
    pub fn note_queue(&mut self, messages: u64) {
        let bin = self.bin_at(self.until_ns);
        bin.queue = bin.queue.max(u32::try_from(messages).unwrap_or(u32::MAX));
    }

    /// Notes a request for tasks, and whether it brought some.
    pub fn note_steal(&mut self, has_found: bool) {
        let bin = self.bin_at(self.until_ns);
        bin.steal_attempts = bin.steal_attempts.saturating_add(1);
        bin.steals = bin.steals.saturating_add(u32::from(has_found));
    }

    /// Notes an answer to main. A part of the answers would be useless: if they exceed their part
    /// of the budget, all are dropped, and so are later ones.
    ///
    /// ```
    /// use gridspan_record::{MainAnswer, MainWait, Recorder, RecorderConfig};
    ///
    /// let mut recorder = Recorder::new(RecorderConfig::new(0, Vec::new(), 1 << 20));
    /// let wait = MainWait::Contributions;
    /// recorder.note_answer(MainAnswer { asked_ns: 5, answered_ns: 9, wait, span: None });
    /// assert_eq!(recorder.into_record().answers[0].took_ns(), 4);
    /// ```
    pub fn note_answer(&mut self, answer: MainAnswer) {
        add(&mut self.answers, answer, self.config.budget_bytes / LIST_PART);
    }

    /// Notes that the open span handles the message of a timer, which an earlier span of this PE
    /// has set with this delay. As with answers, all or none are kept.
    pub fn note_timed(&mut self, set_by: u64, delay_ns: u64) {
        let Some(number) = self.open.as_ref().map(|span| span.number) else { return };
        if set_by < number {
            let timed = TimedSpan { number, set_by, delay_ns };
            add(&mut self.timed, timed, self.config.budget_bytes / LIST_PART);
        }
    }

    /// Returns the record.
    pub fn into_record(mut self) -> PeRecord {
        self.end_span(self.until_ns);
        PeRecord {
            pe: self.config.pe,
            began_ns: self.began_ns,
            types: self.config.types,
            bin_ns: self.bin_ns,
            bins: self.bins,
            totals: self.totals.into_values().collect(),
            window_ns: WINDOW_NS,
            kept_every: self.kept_every,
            spans: self.spans,
            dropped_spans: self.dropped,
            answers: self.answers.unwrap_or_default(),
            timed: self.timed.unwrap_or_default(),
        }
    }

    /// Adds the time since the last call to its bins.
    fn pass(&mut self, at_ns: u64, add: impl Fn(&mut Bin, u64)) {
        let at_ns = at_ns.min(i64::MAX.unsigned_abs());
        if at_ns <= self.until_ns {
            return;
        }
        self.reach(at_ns);
        let mut from = self.until_ns;
        while from < at_ns {
            let index = from / self.bin_ns;
            let end = at_ns.min((index + 1).saturating_mul(self.bin_ns));
            let bin = &mut self.bins[index as usize];
            let before = bin.busy_ns.len();
            add(bin, end - from);
            self.entries += bin.busy_ns.len() - before;
            from = end;
        }
        self.until_ns = at_ns;
        while self.bins_bytes() > self.config.budget_bytes / BINS_PART && self.bins.len() > 1 {
            self.widen();
        }
    }

    /// The bin of a time.
    fn bin_at(&mut self, at_ns: u64) -> &mut Bin {
        self.reach(at_ns);
        let index = at_ns / self.bin_ns;
        &mut self.bins[index as usize]
    }

    /// Adds bins until there is one for a time, and widens them if there are too many.
    fn reach(&mut self, at_ns: u64) {
        while at_ns / self.bin_ns >= BINS_MAX as u64 {
            self.widen();
        }
        let bins = (at_ns / self.bin_ns + 1) as usize;
        if self.bins.len() < bins {
            self.bins.resize_with(bins, Bin::default);
        }
    }

    fn widen(&mut self) {
        widen(&mut self.bins);
        self.bin_ns = self.bin_ns.saturating_mul(2);
        self.entries = self.bins.iter().map(|bin| bin.busy_ns.len() + bin.sent.len()).sum();
    }

    fn bins_bytes(&self) -> usize {
        size_of_val(&*self.bins) + self.entries * ENTRY_BYTES
    }

    /// Keeps a span that has ended, or drops it.
    fn keep(&mut self, span: Span) {
        let most = self.spans_max();
        let window = span.begin_ns / WINDOW_NS;
        if self.window.0 != window {
            self.window = (window, 0);
        }
        let is_kept = window.is_multiple_of(u64::from(self.kept_every));
        if is_kept && self.spans.len() >= most {
            self.thin(most, window);
        }
        let is_kept = window.is_multiple_of(u64::from(self.kept_every));
        if !is_kept || self.window.1 >= most.div_ceil(WINDOW_PART) || self.spans.len() >= most {
            self.dropped += 1;
            return;
        }
        self.window.1 += 1;
        if self.spans.len() == self.spans.capacity() {
            // Doubling the vector could exceed the budget.
            let more = self.spans.len().max(SPANS_MIN).min(most - self.spans.len());
            self.spans.reserve_exact(more);
        }
        self.spans.push(span);
    }

    /// Drops the spans of every second window that is kept, until there is room.
    fn thin(&mut self, most: usize, newest: u64) {
        while self.spans.len() >= most
            && u64::from(self.kept_every) <= newest
            && self.kept_every < KEPT_EVERY_MAX
        {
            self.kept_every *= 2;
            let every = u64::from(self.kept_every);
            let before = self.spans.len();
            self.spans.retain(|span| (span.begin_ns / WINDOW_NS).is_multiple_of(every));
            self.dropped += (before - self.spans.len()) as u64;
        }
    }

    fn spans_max(&self) -> usize {
        let budget = self.config.budget_bytes;
        let bytes = budget - budget / BINS_PART - 2 * (budget / LIST_PART);
        (bytes / size_of::<Span>()).max(1)
    }
}

/// Adds an element to a list of at most this number of bytes; drops the whole list if it is full.
fn add<T>(list: &mut Option<Vec<T>>, element: T, bytes: usize) {
    let most = bytes / size_of::<T>().max(1);
    let Some(elements) = list.as_mut().filter(|elements| elements.len() < most) else {
        *list = None;
        return;
    };
    if elements.len() == elements.capacity() {
        let more = elements.len().max(LIST_MIN).min(most - elements.len());
        elements.reserve_exact(more);
    }
    elements.push(element);
}

#[cfg(test)]
mod tests {
    use super::{Recorder, RecorderConfig, TimeUse, WINDOW_NS};
    use crate::answer::MainAnswer;
    use crate::pe_record::{BINS_MAX, Bin, OTHER, PeRecord, SentTo, Span, SpanCause, TimedSpan};

    const MS: u64 = 1_000_000;

    fn recorder(budget_bytes: usize) -> Recorder {
        Recorder::new(RecorderConfig::new(0, vec!["A".to_owned(), "B".to_owned()], budget_bytes))
    }

    fn of_kind(kind: u16) -> Span {
        Span { kind, ..Span::default() }
    }

    /// Returns the sum of all times in the bins.
    fn time_of(record: &PeRecord) -> u64 {
        let busy = |bin: &Bin| bin.busy_ns.iter().map(|(_, ns)| *ns).sum::<u64>();
        let all = |bin: &Bin| busy(bin) + bin.idle_ns + bin.network_ns + bin.waited_ns;
        record.bins.iter().map(all).sum()
    }

    #[test]
    fn a_span_is_divided_among_the_bins_that_it_touches() {
        let mut recorder = recorder(1 << 20);
        recorder.use_until(MS / 2, TimeUse::Network);
        recorder.begin_span(MS / 2, of_kind(1));
        recorder.end_span(2 * MS + 10);

        let record = recorder.into_record();

        let busy: Vec<_> = record.bins.iter().map(|bin| bin.busy_ns.clone()).collect();
        assert_eq!(busy, [vec![(1, MS / 2)], vec![(1, MS)], vec![(1, 10)]]);
        assert_eq!(record.bins[0].network_ns, MS / 2);
        let total = &record.totals[0];
        assert_eq!((total.number, total.count, total.max_ns), (1, 1, 3 * MS / 2 + 10));
    }

    #[test]
    fn no_time_is_lost_or_counted_twice() {
        let mut recorder = recorder(4 << 10);
        let uses = [TimeUse::Idle, TimeUse::Network, TimeUse::Runtime, TimeUse::Waited];
        let mut at = 0;
        for round in 0..20_000_u64 {
            at += 1 + round * 7919 % 500_000;
            match round % 3 {
                0 => assert_eq!(recorder.begin_span(at, of_kind((round % 2) as u16)), round / 3),
                1 => recorder.end_span(at),
                _ => recorder.use_until(at, uses[round as usize % 4]),
            }
        }
        recorder.use_until(at, TimeUse::Idle);

        let until = recorder.until_ns();
        let record = recorder.into_record();

        assert_eq!(time_of(&record), until);
        assert!(record.bins.len() <= BINS_MAX);
        assert!(size_of_val(&*record.bins) <= 1 << 10, "{} bins", record.bins.len());
    }

    #[test]
    fn times_that_go_back_do_not_overlap_what_was_before() {
        let mut recorder = recorder(1 << 20);
        recorder.begin_span(100, of_kind(0));
        recorder.end_span(300);
        recorder.begin_span(250, of_kind(0));
        recorder.end_span(200);
        let record = recorder.into_record();
        let spans: Vec<_> = record.spans.iter().map(|it| (it.begin_ns, it.duration_ns)).collect();
        assert_eq!(spans, [(100, 200), (300, 0)]);
    }

    #[test]
    fn a_recorder_that_begins_later_knows_nothing_of_the_time_before() {
        let mut recorder = recorder(1 << 20);
        recorder.begin_at(5 * MS);
        recorder.use_until(6 * MS, TimeUse::Idle);
        recorder.begin_at(9 * MS);
        recorder.begin_span(7 * MS, of_kind(0));
        recorder.end_span(8 * MS);

        let record = recorder.into_record();

        assert_eq!(record.began_ns, 5 * MS);
        assert_eq!(time_of(&record), 3 * MS);
        assert_eq!(record.bins[..5], vec![Bin::default(); 5]);
    }

    #[test]
    fn a_cancelled_span_leaves_its_number_to_the_next() {
        let mut recorder = recorder(1 << 20);
        recorder.begin_span(100, of_kind(0));
        recorder.cancel_span();
        recorder.cancel_span();
        assert_eq!(recorder.begin_span(200, of_kind(1)), 0);
        let record = recorder.into_record();
        assert_eq!(record.spans.len(), 1);
        assert_eq!(record.totals.iter().map(|total| total.count).sum::<u64>(), 1);
    }

    #[test]
    fn a_message_is_received_before_its_span_begins() {
        let mut recorder = recorder(1 << 20);
        let cause = SpanCause { received_ns: 900, sent_ns: 700, ..SpanCause::default() };
        recorder.begin_span(800, Span { cause: Some(cause), ..Span::default() });
        let record = recorder.into_record();
        assert_eq!(record.spans[0].cause.as_ref().map(|it| it.received_ns), Some(800));
    }

    #[test]
    fn spans_above_the_budget_are_dropped_by_regular_windows() {
        let budget = 100 << 10;
        let mut recorder = recorder(budget);
        let spans = 200_000;
        for span in 0..spans {
            recorder.begin_span(span * MS / 10, of_kind(0));
            recorder.end_span(span * MS / 10 + 500);
        }

        let record = recorder.into_record();

        assert!(record.spans.len() * size_of::<Span>() <= budget);
        assert!(record.spans.len() > 200, "{} of {spans} are kept", record.spans.len());
        assert_eq!(record.spans.len() as u64 + record.dropped_spans, spans);
        assert_eq!(record.totals[0].count, spans);
        assert!(record.kept_every.is_power_of_two() && record.kept_every > 1);
        let every = u64::from(record.kept_every);
        for span in &record.spans {
            assert!((span.begin_ns / WINDOW_NS).is_multiple_of(every));
            assert_eq!(span.begin_ns, span.number * MS / 10, "numbers count dropped spans");
        }
    }

    #[test]
    fn answers_to_main_are_kept_in_order_or_all_dropped() {
        let asked = |asked_ns| MainAnswer { asked_ns, ..MainAnswer::default() };
        let answers_of = |count: u64, budget| {
            let mut recorder = recorder(budget);
            (0..count).for_each(|at| recorder.note_answer(asked(at)));
            recorder.into_record().answers
        };
        let kept = answers_of(500, 1 << 20);
        assert_eq!(kept, (0..500).map(asked).collect::<Vec<_>>());
        assert_eq!(answers_of(500, 100 << 10), []);
        assert_eq!(answers_of(1, 0), []);
    }

    #[test]
    fn a_timer_belongs_to_the_open_span_and_to_an_earlier_one() {
        let mut recorder = recorder(1 << 20);
        recorder.note_timed(0, 7);
        recorder.begin_span(10, of_kind(0));
        recorder.note_timed(0, 7);
        recorder.begin_span(20, of_kind(0));
        recorder.note_timed(0, 7);
        let timed = recorder.into_record().timed;
        assert_eq!(timed, [TimedSpan { number: 1, set_by: 0, delay_ns: 7 }]);
    }

    #[test]
    fn one_busy_window_does_not_fill_the_budget() {
        let mut recorder = recorder(20 << 10);
        for span in 0..100_000 {
            recorder.begin_span(span, of_kind(0));
        }
        recorder.begin_span(2 * WINDOW_NS, of_kind(1));
        let record = recorder.into_record();
        assert_eq!(record.spans.last().map(|span| span.kind), Some(1));
        assert!(record.spans.len() < 100);
    }

    #[test]
    fn a_long_run_has_few_and_wide_bins() {
        let mut recorder = recorder(1 << 30);
        recorder.use_until(3_600_000 * MS, TimeUse::Idle);
        recorder.note_sent(2, 100);
        recorder.note_sent(2, 11);
        recorder.note_queue(7);
        recorder.note_steal(false);
        recorder.note_steal(true);
        let record = recorder.into_record();
        assert!(record.bins.len() <= BINS_MAX && record.bins.len() > BINS_MAX / 4);
        assert_eq!(time_of(&record), 3_600_000 * MS);
        let last = record.bins.last().unwrap();
        assert_eq!(last.sent, [SentTo { site: 2, messages: 2, bytes: 111 }]);
        assert_eq!((last.queue, last.steals, last.steal_attempts), (7, 1, 2));
    }

    #[test]
    fn waiting_is_taken_out_of_busy_time() {
        let mut recorder = recorder(1 << 20);
        recorder.use_until(MS, TimeUse::Idle);
        recorder.begin_span(MS, of_kind(0));
        recorder.end_span(2 * MS);
        recorder.use_until(2 * MS + MS / 2, TimeUse::Runtime);

        recorder.note_waited(MS, MS / 2);

        let record = recorder.into_record();
        assert_eq!(record.bins[1].busy_ns, [(0, MS - MS / 3)]);
        assert_eq!(record.bins[2].busy_ns, [(OTHER, MS / 2 - (MS / 2 - MS / 3))]);
        assert_eq!(time_of(&record), 2 * MS + MS / 2);
    }
}
