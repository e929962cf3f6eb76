//! The kept spans of all PEs, and the gaps between them.
//!
//! The spans of the sender explain a wait. So if spans were dropped, the analysis uses only windows
//! that all PEs keep. A gap is known if the numbers of the spans before and after it are
//! consecutive, so that no span between them was dropped. Otherwise bins show how long the PE was
//! idle before the span.
//!
//! In real time a span includes the time in which other threads had the processor. In virtual time
//! that time follows the span; here it is added to the span, so that spans have one meaning.

use super::idle::idle_since;
use super::places::Places;
use gridspan_record::{DriverKind, PeRecord, Recording, Span};
use std::collections::BTreeMap;

/// Maximum number of spans; if there are more, the analysis uses fewer windows. So it takes a few
/// seconds at most, and half a gigabyte at most, since a gap has up to 16 pieces of 32 bytes.
const SPANS_MAX: usize = 1_000_000;
/// Number of low bits of a span's number that count the spans since the last start of its PE. The
/// bits above count the restarts.
const RUN_BITS: u32 = 40;
/// Maximum of `History::every`.
const EVERY_MAX: u64 = 1 << 40;

/// A time between two spans of a PE.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Gap {
    /// End of the span before; the begin of the run or of the PE's process if there is none.
    pub(crate) begin_ns: u64,
    /// When the message of the next span had arrived. The PE waited for it until then, and was
    /// ready afterwards.
    pub(crate) arrived_ns: u64,
    /// Begin of the next span, or the end of the job or of the node's part of it.
    pub(crate) end_ns: u64,
    /// The next span; `None` if the job, or the node's part of it, ends first.
    pub(crate) next: Option<usize>,
}

/// A span that is kept.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct KeptSpan<'a> {
    pub(crate) span: &'a Span,
    /// Its end, including the time that it waited for the processor. Its messages have left by
    /// then.
    pub(crate) end_ns: u64,
}

/// The spans of one PE.
#[derive(Clone, Debug, Default)]
pub(crate) struct PeHistory<'a> {
    /// The spans, in the order of their numbers.
    pub(crate) spans: Vec<KeptSpan<'a>>,
    /// The known gaps, in the order of time.
    pub(crate) gaps: Vec<Gap>,
    /// Sum of the times of the spans before each one, in nanoseconds.
    busy_before: Vec<u64>,
}

/// The end of a span.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct SpanEnd {
    pub(crate) end_ns: u64,
    pub(crate) pe: u32,
    /// Position of the span on the PE.
    pub(crate) at: u32,
}

/// The spans of all PEs.
#[derive(Clone, Debug)]
pub(crate) struct History<'a> {
    /// By number of PE.
    pub(crate) pes: Vec<PeHistory<'a>>,
    /// All spans, in the order of their ends.
    pub(crate) ends: Vec<SpanEnd>,
    /// The same by site.
    pub(crate) ends_at: BTreeMap<usize, Vec<SpanEnd>>,
    /// Width of a window.
    pub(crate) window_ns: u64,
    /// One of this many windows is used.
    pub(crate) every: u64,
    /// Share of the spans of the job that are used.
    pub(crate) share: f64,
    /// Begin and end of the run.
    pub(crate) run: [u64; 2],
}

impl<'a> History<'a> {
    /// The history of a run with this begin and end.
    pub(crate) fn of(recording: &'a Recording, places: &Places, run: [u64; 2]) -> Self {
        let every = every(recording);
        let mut pes = vec![PeHistory::default(); places.pe_count()];
        let (mut all, mut here) = (0.0, 0.0);
        for record in &recording.pes {
            let kept = |span: &&Span| window(record, span).is_multiple_of(every);
            let spans: Vec<&Span> = record.spans.iter().filter(kept).collect();
            all += record.spans.len() as f64 + record.dropped_spans as f64;
            here += spans.len() as f64;
            let is_whole = record.dropped_spans == 0 && spans.len() == record.spans.len();
            let spans = match recording.header.driver {
                DriverKind::Simulated => with_waiting(record, &spans, is_whole.then_some(run[1])),
                _ => spans.into_iter().map(as_recorded).collect(),
            };
            if let Some(pe) = pes.get_mut(record.pe as usize) {
                let [began_ns, ended_ns] = places.lifetime(record);
                let alive = [run[0].max(began_ns), run[1].min(ended_ns)];
                *pe = PeHistory::of(spans, record, alive, is_whole);
            }
        }
        let mut ends = Vec::new();
        for (pe, history) in (0_u32..).zip(&pes) {
            let end = |(at, kept): (u32, &KeptSpan<'_>)| SpanEnd { end_ns: kept.end_ns, pe, at };
            ends.extend((0_u32..).zip(&history.spans).map(end));
        }
        ends.sort_unstable();
        let mut ends_at: BTreeMap<usize, Vec<SpanEnd>> = BTreeMap::new();
        for end in &ends {
            ends_at.entry(places.site_of(end.pe as usize)).or_default().push(*end);
        }
        let window_ns = recording.pes.iter().map(|record| record.window_ns).max().unwrap_or(0);
        let share = if all > 0.0 { here / all } else { 1.0 };
        Self { pes, ends, ends_at, window_ns: window_ns.max(1), every, share, run }
    }

    /// Returns the span that ended last between two times.
    pub(crate) fn last_end(&self, from_ns: u64, to_ns: u64) -> Option<&SpanEnd> {
        let after = self.ends.partition_point(|end| end.end_ns <= to_ns);
        let last = self.ends.get(after.checked_sub(1)?)?;
        (last.end_ns >= from_ns).then_some(last)
    }

    /// Returns the span that ended last between two times, of those that began before `before_ns`.
    pub(crate) fn last_end_of(
        &self,
        [from_ns, to_ns]: [u64; 2],
        before_ns: u64,
    ) -> Option<&SpanEnd> {
        let after = self.ends.partition_point(|end| end.end_ns <= to_ns);
        let begin_ns =
            |end: &SpanEnd| self.pes[end.pe as usize].spans[end.at as usize].span.begin_ns;
        let mut latest = self.ends[..after].iter().rev().take_while(|end| end.end_ns >= from_ns);
        latest.find(|&end| begin_ns(end) < before_ns)
    }

    /// Returns the last span at a site that ended until a time.
    pub(crate) fn last_end_at(&self, site: usize, until_ns: u64) -> Option<&SpanEnd> {
        let ends = self.ends_at.get(&site)?;
        let after = ends.partition_point(|end| end.end_ns <= until_ns);
        ends.get(after.checked_sub(1)?)
    }

    /// Returns the span with this number on a PE, and its position.
    pub(crate) fn find(&self, pe: u32, number: u64) -> Option<(usize, KeptSpan<'a>)> {
        let spans = &self.pes.get(pe as usize)?.spans;
        let at = spans.binary_search_by_key(&number, |kept| kept.span.number).ok()?;
        Some((at, spans[at]))
    }

    /// Share of the windows of the run that are used.
    pub(crate) fn kept_part(&self) -> f64 {
        let first = self.run[0] / self.window_ns;
        let end = self.run[1].div_ceil(self.window_ns).max(first.saturating_add(1));
        let kept = end.div_ceil(self.every) - first.div_ceil(self.every);
        kept as f64 / (end - first) as f64
    }

    /// Number of spans.
    pub(crate) fn span_count(&self) -> usize {
        self.ends.len()
    }

    /// Returns the mean number of PEs that computed at the same time, while at least one did. 0
    /// without spans.
    pub(crate) fn parallelism(&self) -> f64 {
        let spans = self.pes.iter().flat_map(|pe| &pe.spans);
        let mut all: Vec<(u64, u64)> =
            spans.map(|kept| (kept.span.begin_ns, kept.end_ns)).collect();
        all.sort_unstable();
        let (mut sum, mut covered, mut until) = (0.0, 0.0, 0_u64);
        for (begin, end) in all {
            sum += (end - begin) as f64;
            covered += end.saturating_sub(begin.max(until)) as f64;
            until = until.max(end);
        }
        if covered > 0.0 { sum / covered } else { 0.0 }
    }
}

/// The number of the window in which a span began.
fn window(record: &PeRecord, span: &Span) -> u64 {
    span.begin_ns / record.window_ns.max(1)
}

/// Returns the value of `History::every`: all PEs keep the windows whose numbers are multiples of
/// it, and these windows have at most [`SPANS_MAX`] spans.
fn every(recording: &Recording) -> u64 {
    let kept = recording.pes.iter().map(|record| u64::from(record.kept_every.max(1)));
    let mut every = kept.max().unwrap_or(1);
    let all: usize = recording.pes.iter().map(|record| record.spans.len()).sum();
    if all <= SPANS_MAX {
        return every;
    }
    let mut counts: BTreeMap<u64, usize> = BTreeMap::new();
    for record in &recording.pes {
        for span in &record.spans {
            *counts.entry(window(record, span)).or_default() += 1;
        }
    }
    let in_one_of = |every: u64| {
        let windows = counts.iter().filter(|(window, _)| window.is_multiple_of(every));
        windows.map(|(_, count)| count).sum::<usize>()
    };
    while in_one_of(every) > SPANS_MAX && every < EVERY_MAX {
        every *= 2;
    }
    every
}

fn as_recorded(span: &Span) -> KeptSpan<'_> {
    KeptSpan { span, end_ns: span.end_ns() }
}

/// Returns spans with the time that the PE waited for the processor after each. Bins have the
/// waiting times; the gaps within a bin share its waiting time by their lengths. `end_ns`: the end
/// of the job, if these are all spans of the PE.
fn with_waiting<'a>(
    record: &PeRecord,
    spans: &[&'a Span],
    end_ns: Option<u64>,
) -> Vec<KeptSpan<'a>> {
    let mut before = vec![0_u64];
    for bin in &record.bins {
        before.push(before.last().copied().unwrap_or(0).saturating_add(bin.waited_ns));
    }
    let total = before.last().copied().unwrap_or(0);
    if total == 0 {
        return spans.iter().copied().map(as_recorded).collect();
    }
    let until = |ns: u64| {
        let at = ((ns / record.bin_ns.max(1)) as usize).min(record.bins.len());
        let bin = record.bins.get(at).map_or(0, |bin| bin.waited_ns) as f64;
        let part = (ns % record.bin_ns.max(1)) as f64 / record.bin_ns.max(1) as f64;
        before[at] as f64 + bin * part
    };
    let gap = |at: usize| {
        let span = spans[at];
        let next = match spans.get(at + 1) {
            Some(next) if span.number.checked_add(1) == Some(next.number) => Some(next.begin_ns),
            Some(_) => None,
            None => end_ns,
        };
        [span.end_ns(), next.unwrap_or(0).max(span.end_ns())]
    };
    let known: f64 = (0..spans.len()).map(gap).map(|[from, to]| until(to) - until(from)).sum();
    // The PE waits for the processor only after spans. So all of this waiting is in the gaps after
    // them, unless some gaps are unknown.
    let factor = if end_ns.is_some() && known > 0.0 { total as f64 / known } else { 1.0 };
    let kept = |at: usize| {
        let [from, to] = gap(at);
        let waited = ((until(to) - until(from)) * factor) as u64;
        KeptSpan { span: spans[at], end_ns: from.saturating_add(waited).min(to) }
    };
    (0..spans.len()).map(kept).collect()
}

impl<'a> PeHistory<'a> {
    /// The history with these spans. `alive`: the part of the run in which the PE was there.
    /// `is_whole`: whether they are all spans of the PE.
    fn of(spans: Vec<KeptSpan<'a>>, record: &PeRecord, alive: [u64; 2], is_whole: bool) -> Self {
        let mut gaps = gaps(&spans, record, alive[0]);
        if is_whole {
            let begin_ns = spans.last().map_or(alive[0], |last| last.end_ns);
            let (arrived_ns, end_ns) = (alive[1], alive[1]);
            gaps.extend((end_ns > begin_ns).then_some(Gap {
                begin_ns,
                arrived_ns,
                end_ns,
                next: None,
            }));
        }
        let sums = spans.iter().scan(0_u64, |sum, kept| {
            *sum = sum.saturating_add(kept.end_ns.saturating_sub(kept.span.begin_ns));
            Some(*sum)
        });
        let busy_before = std::iter::once(0).chain(sums).collect();
        Self { spans, gaps, busy_before }
    }

    /// Returns how long spans ran between two times.
    pub(crate) fn busy_within(&self, from_ns: u64, to_ns: u64) -> u64 {
        let first = self.spans.partition_point(|kept| kept.end_ns <= from_ns);
        let end = self.spans.partition_point(|kept| kept.span.begin_ns < to_ns);
        if first >= end {
            return 0;
        }
        let whole = self.busy_before[end] - self.busy_before[first];
        let before = from_ns.saturating_sub(self.spans[first].span.begin_ns);
        let after = self.spans[end - 1].end_ns.saturating_sub(to_ns);
        whole.saturating_sub(before).saturating_sub(after)
    }

    /// Returns the positions of the gaps that overlap the time between two times.
    pub(crate) fn gaps_within(&self, from_ns: u64, to_ns: u64) -> std::ops::Range<usize> {
        let first = self.gaps.partition_point(|gap| gap.end_ns <= from_ns);
        let end = self.gaps.partition_point(|gap| gap.begin_ns < to_ns);
        first..end.max(first)
    }

    /// Returns the span before another one, if it was not dropped.
    pub(crate) fn before(&self, at: usize) -> Option<(usize, KeptSpan<'a>)> {
        let place = at.checked_sub(1)?;
        let (before, kept) = (self.spans.get(place)?, self.spans.get(at)?);
        (before.span.number.checked_add(1) == Some(kept.span.number)).then_some((place, *before))
    }
}

/// Returns the gaps before the spans of a PE that begins at `free_ns`.
fn gaps(spans: &[KeptSpan<'_>], record: &PeRecord, mut free_ns: u64) -> Vec<Gap> {
    let mut gaps = Vec::new();
    // Number of the next span if none was dropped. After `n` restarts of a PE, its spans have
    // numbers from `n << RUN_BITS` on.
    let mut number = spans.first().map_or(0, |kept| kept.span.number >> RUN_BITS << RUN_BITS);
    for (at, KeptSpan { span, end_ns }) in spans.iter().enumerate() {
        let begin_ns = match number == span.number {
            true => free_ns,
            false => after_dropped(record, span, free_ns),
        };
        if span.begin_ns > begin_ns {
            let received_ns = span.cause.as_ref().map_or(span.begin_ns, |it| it.received_ns);
            let arrived_ns = received_ns.clamp(begin_ns, span.begin_ns);
            gaps.push(Gap { begin_ns, arrived_ns, end_ns: span.begin_ns, next: Some(at) });
        }
        (number, free_ns) = (span.number.saturating_add(1), *end_ns);
    }
    gaps
}

/// Returns the begin of the wait for a span, if spans were dropped between it and a span that ended
/// at `free_ns`. The wait begins at the earlier of two times at the earliest: the begin of the
/// window, and the sending of the message. A wait before both cannot be explained.
fn after_dropped(record: &PeRecord, span: &Span, free_ns: u64) -> u64 {
    let window_ns = window(record, span).saturating_mul(record.window_ns.max(1));
    let sent_ns = span.cause.as_ref().map_or(span.begin_ns, |cause| cause.sent_ns);
    idle_since(record, span.begin_ns, free_ns.max(window_ns.min(sent_ns)))
}

#[cfg(test)]
mod tests {
    use super::super::fixtures::{MS, complete, from, recording, span};
    use super::*;
    use gridspan_record::{Bin, RecordedEvent, What};

    /// PE 0 computes from 0 to 4 ms; PE 1 from 2 to 3 ms and, after a message, from 6 to 9 ms.
    fn two_pes() -> Recording {
        let mut recording = recording(1, 2);
        recording.pes[0].spans = vec![span(0, 0, [0, 4])];
        let second = Span { cause: from(0, 0, [4, 5]), ..span(1, 1, [6, 9]) };
        recording.pes[1].spans = vec![span(1, 0, [2, 3]), second];
        complete(&mut recording, 10);
        recording
    }

    fn gap(times_ms: [u64; 3], next: Option<usize>) -> Gap {
        let [begin_ns, arrived_ns, end_ns] = times_ms.map(|ms| ms * MS);
        Gap { begin_ns, arrived_ns, end_ns, next }
    }

    #[test]
    fn gaps_end_when_the_next_message_is_there_or_the_job_ends() {
        let recording = two_pes();
        let history = History::of(&recording, &Places::of(&recording), [0, 10 * MS]);
        assert_eq!(history.pes[0].gaps, [gap([4, 10, 10], None)]);
        let all = [gap([0, 2, 2], Some(0)), gap([3, 5, 6], Some(1)), gap([9, 10, 10], None)];
        assert_eq!(history.pes[1].gaps, all);
        assert_eq!(history.pes[1].gaps_within(4 * MS, 5 * MS), 1..2);
        assert_eq!((history.share, history.every, history.span_count()), (1.0, 1, 3));
    }

    #[test]
    fn a_pe_waits_neither_before_its_process_begins_nor_after_its_node_has_left() {
        let mut recording = two_pes();
        recording.pes[1].began_ns = MS;
        recording.events = vec![RecordedEvent { at_ns: 10 * MS, what: What::Left { node: 1 } }];
        let history = History::of(&recording, &Places::of(&recording), [0, 12 * MS]);
        assert_eq!(history.pes[0].gaps, [gap([4, 12, 12], None)]);
        let all = [gap([1, 2, 2], Some(0)), gap([3, 5, 6], Some(1)), gap([9, 10, 10], None)];
        assert_eq!(history.pes[1].gaps, all);
    }

    #[test]
    fn a_gap_after_dropped_spans_begins_when_the_pe_had_no_work() {
        let mut recording = two_pes();
        recording.pes[1].bins[3] = Bin { busy_ns: vec![(0, MS)], ..Bin::default() };
        recording.pes[1].spans[1].number = 5;
        recording.pes[1].dropped_spans = 4;
        let history = History::of(&recording, &Places::of(&recording), [0, 10 * MS]);
        assert_eq!(history.pes[1].gaps, [gap([0, 2, 2], Some(0)), gap([4, 5, 6], Some(1))]);
        assert_eq!(history.pes[1].before(1), None);
        assert!((history.share - 3.0 / 7.0).abs() < 1e-9);
    }

    #[test]
    fn only_windows_that_all_pes_keep_are_used() {
        let mut recording = two_pes();
        for record in &mut recording.pes {
            record.window_ns = 5 * MS;
        }
        recording.pes[0].kept_every = 2;
        let history = History::of(&recording, &Places::of(&recording), [0, 10 * MS]);
        assert_eq!((history.every, history.pes[1].spans.len()), (2, 1));
        assert_eq!(history.kept_part(), 0.5);
    }

    #[test]
    fn busy_time_is_cut_at_both_ends() {
        let recording = two_pes();
        let history = History::of(&recording, &Places::of(&recording), [0, 10 * MS]);
        let busy = |from: u64, to: u64| history.pes[1].busy_within(from * MS, to * MS) / MS;
        assert_eq!([busy(0, 10), busy(2, 7), busy(3, 6), busy(7, 8), busy(9, 10)], [4, 2, 0, 1, 0]);
        assert_eq!(history.last_end(0, 5 * MS).map(|end| (end.pe, end.at)), Some((0, 0)));
        assert_eq!(history.last_end(5 * MS, 8 * MS), None);
    }

    #[test]
    fn in_virtual_time_a_span_lasts_until_its_pe_has_got_the_processor() {
        let mut recording = two_pes();
        recording.header.driver = DriverKind::Simulated;
        recording.pes[1].bins[3] = Bin { waited_ns: MS, ..Bin::default() };
        recording.pes[1].bins[4] = Bin { waited_ns: MS / 2, idle_ns: MS / 2, ..Bin::default() };
        let history = History::of(&recording, &Places::of(&recording), [0, 10 * MS]);
        let ends: Vec<_> = history.pes[1].spans.iter().map(|kept| kept.end_ns).collect();
        assert_eq!(ends, [4 * MS + MS / 2, 9 * MS]);
        assert_eq!(history.pes[1].gaps[1].begin_ns, 4 * MS + MS / 2);
        recording.header.driver = DriverKind::Threads;
        let history = History::of(&recording, &Places::of(&recording), [0, 10 * MS]);
        assert_eq!(history.pes[1].spans[0].end_ns, 3 * MS);
    }

    #[test]
    fn parallelism_is_the_number_of_pes_that_compute_at_a_time() {
        let recording = two_pes();
        let history = History::of(&recording, &Places::of(&recording), [0, 10 * MS]);
        // 4 + 1 + 3 ms of work in 7 ms.
        assert!((history.parallelism() - 8.0 / 7.0).abs() < 1e-9);
    }
}
