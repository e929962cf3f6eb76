//! What PEs waited for, traced back to the cause.
//!
//! A wait ends with a message. While the message travelled, the PE waited for the link ([`transit`]
//! divides that time). Before the message was sent, the PE waited for the sender: for its
//! computation, or, while the sender itself waited, for the cause of that wait. So the waits of a
//! chain of PEs lead to the PE or the link at its end, as in Böhme et al. (2010), "Identifying the
//! Root Causes of Wait States in Large-Scale Parallel Applications".
//!
//! Neither main nor the runtime, which sends the results of reductions, is in a recording. A
//! message of theirs is traced back to the span whose message could arrive last before it, because
//! main or the runtime most likely waited for that message. The candidate of each site is the last
//! span that ended at least one latency earlier. The time after its end is the latency of the link,
//! and then main's own time. All receivers of a message share its sender and its time, so the span
//! is looked up once for each pair of these.
//!
//! Gaps are explained in the order of their ends. A message is sent before the wait for it ends, so
//! the earlier waits of its sender are already explained. Messages leave when their handler ends.
//!
//! [`transit`]: super::transit

use super::awaited::{Awaited, Pieces};
use super::events::Pauses;
use super::history::{Gap, History, SpanEnd};
use super::losses::varying_links;
use super::transit::{Parts, Transit};
use gridspan_record::SpanCause;
use std::collections::BTreeMap;

/// Maximum number of a sender's gaps that are visited for one wait; if there are more, a sample
/// stands for all.
const GAPS_MAX: usize = 256;

/// All waits of a job.
#[derive(Clone, Debug, Default)]
pub(crate) struct Waits {
    /// Time of the known gaps, in nanoseconds, by what was awaited.
    pub(crate) awaited: BTreeMap<Awaited, f64>,
    /// The sum of these times.
    total_ns: f64,
}

impl Waits {
    /// Explains the known gaps.
    pub(crate) fn of(history: &History<'_>, transit: Transit<'_>, pauses: &Pauses) -> Self {
        let mut tracing = Tracing::new(history, transit, pauses);
        let mut order = Vec::new();
        for (pe, known) in history.pes.iter().enumerate() {
            order.extend(known.gaps.iter().enumerate().map(|(at, gap)| (gap.end_ns, pe, at)));
        }
        order.sort_unstable();
        let mut awaited: BTreeMap<Awaited, f64> = BTreeMap::new();
        for (_, pe, at) in order {
            let pieces = tracing.explain(pe, &history.pes[pe].gaps[at]);
            for (what, ns) in pieces.iter() {
                *awaited.entry(what).or_default() += ns;
            }
            tracing.found[pe][at] = Some(pieces);
        }
        for (from, to) in varying_links(history, transit) {
            let ns = awaited.remove(&Awaited::Loss { from, to }).unwrap_or(0.0);
            *awaited.entry(Awaited::Delay { from, to }).or_default() += ns;
        }
        let total_ns = awaited.values().sum();
        Self { awaited, total_ns }
    }

    /// Time of all known waits.
    pub(crate) fn total_ns(&self) -> f64 {
        self.total_ns
    }
}

/// Explains gaps one by one.
struct Tracing<'a> {
    history: &'a History<'a>,
    transit: Transit<'a>,
    pauses: &'a Pauses,
    /// What each PE waited for in each gap; `None` for a gap that is not explained yet.
    found: Vec<Vec<Option<Pieces>>>,
    /// What [`last_arrival`](Self::last_arrival) has returned: at most an entry for each gap.
    arrivals: BTreeMap<(usize, u64), Option<Arrival>>,
}

/// The time at which the message of a span could arrive, and the span.
type Arrival = (u64, SpanEnd);

impl<'a> Tracing<'a> {
    fn new(history: &'a History<'a>, transit: Transit<'a>, pauses: &'a Pauses) -> Self {
        let found = history.pes.iter().map(|pe| vec![None; pe.gaps.len()]).collect();
        Self { history, transit, pauses, found, arrivals: BTreeMap::new() }
    }

    /// Returns what a PE waited for in a gap, until its message arrived.
    fn explain(&mut self, pe: usize, gap: &Gap) -> Pieces {
        let (history, pauses) = (self.history, self.pauses);
        let [begin, arrived] = [gap.begin_ns, gap.arrived_ns];
        let mut pieces = Pieces::default();
        let spans = &history.pes[pe].spans;
        match gap.next.and_then(|next| spans.get(next)).map(|kept| kept.span.cause.as_ref()) {
            // At the end of the job.
            None => self.all([begin, arrived], Awaited::Main, &mut pieces),
            Some(None) if pauses.has_sync_point([begin, arrived]) => {
                self.all([begin, arrived], Awaited::Unknown, &mut pieces);
            }
            // A timer, or a task that the PE found.
            Some(None) => pieces.push(Awaited::Unknown, (arrived - begin) as f64),
            Some(Some(cause)) => self.message(pe, cause, [begin, arrived], &mut pieces),
        }
        for (awaited, [from, to]) in pauses.within(begin, arrived) {
            // Nothing else that the PE waited for could have come during the pause.
            let [from, to] = [from, to].map(|at| (at - begin) as f64);
            let before = std::mem::take(&mut pieces);
            pieces.push_part(&before, [0.0, from]);
            pieces.push(awaited, to - from);
            pieces.push_part(&before, [to, f64::INFINITY]);
        }
        pieces.shorten();
        pieces
    }

    /// Explains a wait that ended with a message.
    fn message(
        &mut self,
        pe: usize,
        cause: &SpanCause,
        [begin, arrived]: [u64; 2],
        to: &mut Pieces,
    ) {
        let sender = cause.pe as usize;
        let span = cause.span.and_then(|number| self.history.find(cause.pe, number));
        let left = span.map_or(cause.sent_ns, |(_, kept)| kept.end_ns.max(cause.sent_ns));
        let sent = left.clamp(begin, arrived);
        match cause.span {
            Some(_) => self.sender(sender, begin, sent, to),
            // Main is on PE 0.
            None if sender == 0 => self.last(begin, sent, sender, Awaited::Main, to),
            // A timer.
            None if sender == pe => to.push(Awaited::Unknown, (sent - begin) as f64),
            None => self.last(begin, sent, sender, Awaited::Unknown, to),
        }
        let way = (arrived - sent) as f64;
        if sender == pe {
            // A message to itself that waited: a timer.
            return to.push(Awaited::Unknown, way);
        }
        if self.transit.is_inside_node(sender, pe) {
            return to.push(Awaited::Overhead { pe: sender }, way);
        }
        let times = [left.min(arrived), arrived];
        let Parts { latency, bandwidth, loss, delay } =
            self.transit.parts([sender, pe], times, cause.bytes);
        let total = latency + bandwidth + loss + delay;
        // The wait may have begun while the message travelled.
        let part = if total > 0.0 { way / total } else { 0.0 };
        let [from, at] = [sender, pe].map(|pe| self.transit.places.site_of(pe));
        to.push(Awaited::Bandwidth { from, to: at }, bandwidth * part);
        to.push(Awaited::Loss { from, to: at }, loss * part);
        to.push(Awaited::Delay { from, to: at }, delay * part);
        to.push(Awaited::Latency { from, to: at }, latency * part);
    }

    /// Explains a wait for all PEs, until the end of the job or a sync point. A message of the last
    /// span arrives at PE 0 after the latency; the time from then on counts as `rest`.
    fn all(&self, [begin, end]: [u64; 2], rest: Awaited, to: &mut Pieces) {
        let mut left = begin as f64;
        if let Some(last) = self.history.last_end(begin, end) {
            let pe = last.pe as usize;
            self.sender(pe, begin, last.end_ns, to);
            let way = self.transit.latency_ns(pe, 0, end).min((end - last.end_ns) as f64);
            let [from, at] = [pe, 0].map(|pe| self.transit.places.site_of(pe));
            to.push(Awaited::Latency { from, to: at }, way);
            left = last.end_ns as f64 + way;
        }
        to.push(rest, end as f64 - left);
    }

    /// Explains a wait until `sent`, when main or the runtime sent a message from PE `sender`. The
    /// time from the last possible arrival of a message there counts as `rest`.
    fn last(&mut self, begin: u64, sent: u64, sender: usize, rest: Awaited, to: &mut Pieces) {
        if sent <= begin {
            return;
        }
        let last = self.last_arrival(sender, sent);
        let mut left = begin;
        if let Some((arrived, last)) = last.filter(|(arrived, _)| *arrived > begin) {
            let pe = last.pe as usize;
            self.sender(pe, begin, last.end_ns, to);
            let [from, at] = [pe, sender].map(|pe| self.transit.places.site_of(pe));
            let way = arrived - last.end_ns.max(begin).min(arrived);
            to.push(Awaited::Latency { from, to: at }, way as f64);
            left = arrived;
        }
        to.push(rest, sent.saturating_sub(left) as f64);
    }

    /// Returns the last possible arrival of a message of a span at PE `sender` until `sent`.
    fn last_arrival(&mut self, sender: usize, sent: u64) -> Option<Arrival> {
        let (history, transit) = (self.history, self.transit);
        let arrival = |site: &usize| {
            let way = |end: &SpanEnd| transit.latency_ns(end.pe as usize, sender, sent) as u64;
            let last = history.last_end_at(*site, sent)?;
            let last = match last.end_ns.saturating_add(way(last)) <= sent {
                true => last,
                false => history.last_end_at(*site, sent.saturating_sub(way(last)))?,
            };
            Some((last.end_ns.saturating_add(way(last)).min(sent), *last))
        };
        let look = || history.ends_at.keys().filter_map(arrival).max();
        *self.arrivals.entry((sender, sent)).or_insert_with(look)
    }

    /// Explains a wait for a PE between two times, by its work and its own waits.
    fn sender(&self, pe: usize, from: u64, until: u64, to: &mut Pieces) {
        if until <= from {
            return;
        }
        let Some(history) = self.history.pes.get(pe) else {
            return to.push(Awaited::Unknown, (until - from) as f64);
        };
        let range = history.gaps_within(from, until);
        let stride = range.len().div_ceil(GAPS_MAX).max(1);
        let (mut at, mut before) = (from, None);
        for place in range.step_by(stride) {
            let gap = history.gaps[place];
            self.between(pe, [at, gap.begin_ns.max(from)], before, to);
            let offset = |time: u64| time.clamp(from, until).saturating_sub(gap.begin_ns) as f64;
            let found = self.found[pe][place].as_ref();
            let times = [offset(gap.begin_ns), offset(gap.arrived_ns)];
            match found {
                Some(found) => to.push_part(found, times),
                None => to.push(Awaited::Unknown, times[1] - times[0]),
            }
            to.push(Awaited::Overhead { pe }, offset(gap.end_ns) - offset(gap.arrived_ns));
            at = gap.end_ns.clamp(from, until);
            before = found.filter(|_| stride > 1);
        }
        self.between(pe, [at, until], before, to);
    }

    /// Adds the time of a PE between two visited gaps. The time in which the PE did not compute is
    /// divided like `before`, the last visited gap, if only a sample of the gaps is visited.
    /// Otherwise spans were dropped, and that time is unknown.
    fn between(
        &self,
        pe: usize,
        [from, until]: [u64; 2],
        before: Option<&Pieces>,
        to: &mut Pieces,
    ) {
        let busy = self.history.pes[pe].busy_within(from, until) as f64;
        to.push(Awaited::Computing { pe }, busy);
        let rest = until.saturating_sub(from) as f64 - busy;
        match before.filter(|before| before.total() > 0.0) {
            Some(before) => to.push_scaled(before, rest),
            None => to.push(Awaited::Unknown, rest),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::events::Events;
    use super::super::fixtures::{MS, complete, from, from_main, recording, span};
    use super::super::places::Places;
    use super::super::profile::Profile;
    use super::super::traffic::Traffic;
    use super::*;
    use gridspan_record::{RecordedEvent, Recording, Span, What};

    /// What was awaited, in ms.
    fn awaited(recording: &Recording) -> Vec<(Awaited, f64)> {
        let places = Places::of(recording);
        let profile = Profile::of(recording, &places);
        let traffic = Traffic::of(recording, &places, &profile);
        let history = History::of(recording, &places, profile.active);
        let transit = Transit { places: &places, traffic: &traffic };
        let pauses = Events::of(recording, &places, &profile).pauses;
        let waits = Waits::of(&history, transit, &pauses);
        waits.awaited.into_iter().map(|(what, ns)| (what, ns / MS as f64)).collect()
    }

    #[test]
    fn waits_lead_back_to_the_first_sender_and_its_link() {
        // PE 0 at site a computes until 20 and sends to PE 1 at site b, which sends on to PE 2
        // there.
        let mut recording = recording(3, 1);
        recording.pes[0].spans = vec![span(0, 0, [0, 20])];
        let second = Span { cause: from(0, 0, [20, 30]), ..span(1, 0, [30, 35]) };
        recording.pes[1].spans = vec![second];
        let third = Span { cause: from(1, 0, [35, 45]), ..span(2, 0, [45, 50]) };
        recording.pes[2].spans = vec![third];
        complete(&mut recording, 50);

        let found = awaited(&recording);

        // PE 1 waits for 20 + 10 ms, PE 2 for 20 + 10 + 5 + 10. At the end, PEs 0 and 1 wait for
        // the rest of the chain.
        let computing = |pe| Awaited::Computing { pe };
        let latency = |from, to| Awaited::Latency { from, to };
        let wanted = [
            (computing(0), 40.0),
            (computing(1), 5.0 + 5.0),
            (computing(2), 5.0 + 5.0),
            (latency(0, 1), 10.0 + 10.0 + 10.0),
            (latency(1, 2), 10.0 + 10.0 + 10.0),
        ];
        assert_eq!(found, wanted);
    }

    #[test]
    fn what_main_waits_for_is_not_its_own_time() {
        // PE 1 ends last, and reports to main on PE 0, 0.05 ms away. Main sends at 20.
        let mut recording = recording(1, 2);
        let next = |pe: u32| Span { cause: from_main([20, 20]), ..span(pe, 1, [20, 25]) };
        recording.pes[0].spans = vec![span(0, 0, [0, 4]), next(0)];
        recording.pes[1].spans = vec![span(1, 0, [0, 10]), next(1)];
        complete(&mut recording, 25);

        let found = awaited(&recording);

        let ns = |what| found.iter().find(|(known, _)| *known == what).map_or(0.0, |it| it.1);
        assert!((ns(Awaited::Computing { pe: 1 }) - 6.0).abs() < 1e-6, "{found:?}");
        assert!((ns(Awaited::Latency { from: 0, to: 0 }) - 0.1).abs() < 1e-6, "{found:?}");
        assert!((ns(Awaited::Main) - 19.9).abs() < 1e-6, "{found:?}");
    }

    #[test]
    fn the_span_before_a_message_to_many_pes_is_looked_up_once() {
        let mut recording = recording(2, 2);
        for (pe, record) in (0_u32..).zip(&mut recording.pes) {
            let next = Span { cause: from_main([40, 40]), ..span(pe, 1, [50, 55]) };
            record.spans = vec![span(pe, 0, [0, 10 + u64::from(pe)]), next];
        }
        complete(&mut recording, 55);
        let places = Places::of(&recording);
        let profile = Profile::of(&recording, &places);
        let traffic = Traffic::of(&recording, &places, &profile);
        let history = History::of(&recording, &places, profile.active);
        let transit = Transit { places: &places, traffic: &traffic };
        let pauses = Events::of(&recording, &places, &profile).pauses;
        let mut tracing = Tracing::new(&history, transit, &pauses);

        for (pe, known) in history.pes.iter().enumerate() {
            tracing.explain(pe, &known.gaps[0]);
        }

        // PE 1 is 0.05 ms away from PE 0, and PE 3 is 10 ms away.
        let last = SpanEnd { end_ns: 13 * MS, pe: 3, at: 0 };
        let found: Vec<_> = tracing.arrivals.into_iter().collect();
        assert_eq!(found, [((0, 40 * MS), Some((23 * MS, last)))]);
    }

    #[test]
    fn a_pause_comes_before_other_reasons() {
        let mut recording = recording(1, 1);
        let next = Span { cause: from_main([20, 20]), ..span(0, 1, [20, 25]) };
        recording.pes[0].spans = vec![span(0, 0, [0, 10]), next];
        let what = What::Checkpoint { number: 1, bytes: 10, duration_ns: 8 * MS, stopped_ns: None };
        recording.events.push(RecordedEvent { at_ns: 19 * MS, what });
        complete(&mut recording, 25);
        let wanted = [(Awaited::Main, 2.0), (Awaited::Checkpoint, 8.0)];
        assert_eq!(awaited(&recording), wanted);
    }

    #[test]
    fn a_timer_and_a_time_that_was_not_recorded_are_unknown() {
        let mut recording = recording(1, 2);
        recording.pes[0].spans = vec![span(0, 0, [0, 2]), span(0, 1, [6, 10])];
        let late = Span { cause: from(0, 1, [9, 9]), ..span(1, 0, [9, 10]) };
        recording.pes[1].spans = vec![late];
        complete(&mut recording, 10);
        let wanted = [(Awaited::Computing { pe: 0 }, 5.0), (Awaited::Unknown, 8.0)];
        assert_eq!(awaited(&recording), wanted);
    }
}
