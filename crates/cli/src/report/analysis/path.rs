//! The critical path: the chain of spans and messages that determined the end of the job, or of a
//! window.
//!
//! The walk begins at the span that ended last. Before a span comes the message that it handled, or
//! the previous span on the same PE, whichever was later. If the message arrived before that span
//! ended, the PE was the bottleneck, and the message waited in its queue. So the times on the path
//! add up to the time of the walk. If spans were dropped, there is a walk in each kept window,
//! back to the begin of the window.

use super::history::History;
use super::kinds::Kinds;
use super::places::Places;
use gridspan_record::{OTHER, Span};
use serde::Serialize;
use std::cmp::Reverse;
use std::collections::BTreeMap;

/// A part of the path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Part {
    /// A handler of a type.
    Handler(usize),
    /// A message under way between two sites.
    Link(usize, usize),
    /// The PE was ready, but had not begun the handler.
    Overhead,
    /// Main, or the runtime.
    Main,
    /// Not recorded.
    Unknown,
}

/// The kind of a part of the path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum PathPartKind {
    /// Handlers of a type.
    Handlers,
    /// Messages under way.
    Link,
    /// PEs that were ready and did not run a handler: network, runtime, other threads.
    Overhead,
    /// Main.
    Main,
    /// Not recorded.
    Unknown,
}

/// A part of the path, summed over all walks.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct PathPart {
    pub(crate) kind: PathPartKind,
    /// The type of the handlers, or the link.
    pub(crate) name: String,
    /// Time on the path.
    pub(crate) ns: u64,
    /// Share of the path.
    pub(crate) share: f64,
    /// Part of the time in which the next message of the path waited in the queue of the PE.
    pub(crate) queued_ns: u64,
}

/// A step of the job with its time on the path: that of its handlers, and of the messages and gaps
/// that lead to them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct PathStep {
    pub(crate) step: u64,
    pub(crate) ns: u64,
    /// The part in handlers.
    pub(crate) handlers_ns: u64,
    /// The part in which messages were under way.
    pub(crate) links_ns: u64,
}

/// The critical path.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub(crate) struct CriticalPath {
    /// Time of all walks.
    pub(crate) total_ns: u64,
    /// Number of walks: 1, or one for each window that is kept.
    pub(crate) walks: u64,
    /// Share of the run that the walks cover.
    pub(crate) covered: f64,
    /// Steps of the job in the path: the first and the last one.
    pub(crate) steps: Option<[u64; 2]>,
    /// Number of steps whose time on the path is known.
    pub(crate) step_count: usize,
    /// Their mean time.
    pub(crate) step_mean_ns: u64,
    /// The steps with the longest times, the longest first; at most 100.
    pub(crate) longest_steps: Vec<PathStep>,
    /// The parts, the longest first.
    pub(crate) parts: Vec<PathPart>,
    /// Time of the path on each PE, the longest first; at most 16.
    pub(crate) pes: Vec<(usize, u64)>,
    /// Number of messages by which the path goes from one PE to another.
    pub(crate) hops: u64,
}

/// Maximum number of PEs that are listed.
const PES_MAX: usize = 16;
/// Maximum number of steps that are listed.
const LISTED_STEPS_MAX: usize = 100;
/// Maximum number of steps whose times are summed. A walk goes backwards, so in a whole run these
/// are the last steps.
const STEPS_MAX: usize = 100_000;

/// Sums over walks.
#[derive(Default)]
struct Sums {
    parts: BTreeMap<Part, u64>,
    queued: BTreeMap<Part, u64>,
    pes: BTreeMap<usize, u64>,
    steps: Option<[u64; 2]>,
    /// The step of the current span; without one, that of the span that follows it on the path.
    step: Option<u64>,
    by_step: BTreeMap<u64, PathStep>,
    hops: u64,
}

impl CriticalPath {
    /// The path through a history.
    pub(crate) fn of(history: &History<'_>, kinds: &Kinds, places: &Places) -> Self {
        let mut walk = Walk { history, kinds, places, sums: Sums::default() };
        let (mut walks, mut covered) = (0, 0);
        for [from, to] in windows(history) {
            if let Some(walked) = walk.back(from, to) {
                (walks, covered) = (walks + 1, walked.saturating_add(covered));
            }
        }
        let Sums { parts, queued, pes, steps, by_step, hops, .. } = walk.sums;
        let total_ns = parts.values().copied().fold(0, u64::saturating_add);
        let part = |(part, ns): (&Part, &u64)| {
            let (kind, name) = described(*part, kinds, places);
            let share = *ns as f64 / total_ns.max(1) as f64;
            let queued_ns = queued.get(part).copied().unwrap_or(0);
            PathPart { kind, name, ns: *ns, share, queued_ns }
        };
        let mut parts: Vec<PathPart> = parts.iter().map(part).filter(|part| part.ns > 0).collect();
        parts.sort_by_key(|part| Reverse(part.ns));
        let mut pes: Vec<(usize, u64)> = pes.into_iter().collect();
        pes.sort_by_key(|pe| Reverse(pe.1));
        pes.truncate(PES_MAX);
        let step_count = by_step.len();
        let in_steps_ns = by_step.values().map(|step| step.ns).fold(0, u64::saturating_add);
        let mut longest_steps: Vec<PathStep> = by_step.into_values().collect();
        longest_steps.sort_by_key(|step| (Reverse(step.ns), step.step));
        longest_steps.truncate(LISTED_STEPS_MAX);
        let [begin_ns, end_ns] = history.run;
        let run_ns = end_ns.saturating_sub(begin_ns).max(1);
        let covered = (covered as f64 / run_ns as f64).min(1.0);
        Self {
            total_ns,
            walks,
            covered,
            steps,
            step_count,
            step_mean_ns: in_steps_ns / (step_count as u64).max(1),
            longest_steps,
            parts,
            pes,
            hops,
        }
    }

    /// Share of the path in handlers.
    pub(crate) fn handler_share(&self) -> f64 {
        let handlers = self.parts.iter().filter(|part| part.kind == PathPartKind::Handlers);
        handlers.map(|part| part.share).sum()
    }
}

fn described(part: Part, kinds: &Kinds, places: &Places) -> (PathPartKind, String) {
    match part {
        Part::Handler(kind) => (PathPartKind::Handlers, kinds.name(kind).to_owned()),
        Part::Link(from, to) => (PathPartKind::Link, places.link_name(from, to)),
        Part::Overhead => (PathPartKind::Overhead, "ready, not running".to_owned()),
        Part::Main => (PathPartKind::Main, "main".to_owned()),
        Part::Unknown => (PathPartKind::Unknown, "not recorded".to_owned()),
    }
}

/// Returns the whole run, or the windows that are kept and have spans.
fn windows(history: &History<'_>) -> Vec<[u64; 2]> {
    if history.share >= 1.0 {
        return vec![history.run];
    }
    let spans = history.pes.iter().flat_map(|pe| &pe.spans);
    let mut windows: Vec<u64> = spans.map(|kept| kept.span.begin_ns / history.window_ns).collect();
    windows.sort_unstable();
    windows.dedup();
    let width = history.window_ns;
    let times = |window: u64| [window, window + 1].map(|it| it.saturating_mul(width));
    windows.into_iter().map(times).collect()
}

fn increase<K: Ord>(sums: &mut BTreeMap<K, u64>, key: K, by: u64) {
    let sum = sums.entry(key).or_default();
    *sum = sum.saturating_add(by);
}

struct Walk<'a> {
    history: &'a History<'a>,
    kinds: &'a Kinds,
    places: &'a Places,
    sums: Sums,
}

impl Walk<'_> {
    /// Walks back from the last span that ends between two times. Returns the time of the walk, or
    /// `None` if there is no such span.
    fn back(&mut self, from: u64, to: u64) -> Option<u64> {
        let last = *self.history.last_end(from, to)?;
        self.sums.step = None;
        let (mut pe, mut at, mut until) = (last.pe as usize, last.at as usize, last.end_ns);
        // Each round goes to a span that began earlier, or that caused this one or ran before it on
        // its PE, so that the walk ends.
        for _ in 0..=self.history.span_count() {
            let Some(next) = self.round([pe, at], [from, until]) else { break };
            (pe, at, until) = next;
        }
        Some(last.end_ns.saturating_sub(from))
    }

    /// Adds a span up to a time, and the message or the gap before it. Returns the previous span of
    /// the path: its PE, its position, and the time up to which it is on the path. `None` at the
    /// end of the walk.
    fn round(&mut self, [pe, at]: [usize; 2], times: [u64; 2]) -> Option<(usize, usize, u64)> {
        let [from, until] = times;
        let history = self.history;
        let span = history.pes.get(pe)?.spans.get(at)?.span;
        let begin = span.begin_ns.min(until);
        self.note_step(span);
        self.add(self.part_of(pe, span), [begin.max(from), until]);
        increase(&mut self.sums.pes, pe, until.saturating_sub(begin.max(from)));
        if begin <= from {
            return None;
        }
        let before = history.pes[pe].before(at);
        let free = before.map_or(0, |(_, kept)| kept.end_ns.min(begin));
        let Some(cause) = &span.cause else {
            self.add(Part::Unknown, [free.max(from), begin]);
            let (place, _) = before?;
            return (free > from).then_some((pe, place, free));
        };
        let received = cause.received_ns.min(begin);
        if let Some((place, earlier)) = before.filter(|_| free >= received && free > from) {
            self.add(Part::Overhead, [free.max(from), begin]);
            let queued = free.saturating_sub(received.max(earlier.span.begin_ns).max(from));
            let part = self.part_of(pe, earlier.span);
            increase(&mut self.sums.queued, part, queued);
            return Some((pe, place, free));
        }
        self.add(Part::Overhead, [received.max(from), begin]);
        let found = cause.span.and_then(|number| history.find(cause.pe, number));
        // Messages leave when their handler ends.
        let left = found.map_or(cause.sent_ns, |(_, kept)| kept.end_ns.max(cause.sent_ns));
        let sent = left.min(received);
        let [sender, here] = [cause.pe as usize, pe].map(|pe| self.places.site_of(pe));
        self.add(Part::Link(sender, here), [sent.max(from), received.max(from)]);
        self.sums.hops += u64::from(cause.pe as usize != pe);
        if sent <= from {
            return None;
        }
        if let Some((place, _)) = found {
            return Some((cause.pe as usize, place, sent));
        }
        if cause.span.is_some() {
            self.add(Part::Unknown, [from, sent]);
            return None;
        }
        // A span of no length that begins and ends as the message is sent may be the current one,
        // or a consequence of the message.
        let last = history.last_end_of([from, sent], begin);
        self.add(Part::Main, [last.map_or(from, |last| last.end_ns), sent]);
        last.map(|last| (last.pe as usize, last.at as usize, last.end_ns))
    }

    fn part_of(&self, pe: usize, span: &Span) -> Part {
        match span.kind {
            OTHER => Part::Overhead,
            kind => Part::Handler(self.kinds.place(pe, kind)),
        }
    }

    fn add(&mut self, part: Part, [from, to]: [u64; 2]) {
        let ns = to.saturating_sub(from);
        increase(&mut self.sums.parts, part, ns);
        let is_full = self.sums.by_step.len() >= STEPS_MAX;
        let Some(step) = self.sums.step else { return };
        if ns == 0 || is_full && !self.sums.by_step.contains_key(&step) {
            return;
        }
        let sum = self.sums.by_step.entry(step).or_insert(PathStep { step, ..PathStep::default() });
        sum.ns = sum.ns.saturating_add(ns);
        match part {
            Part::Handler(_) => sum.handlers_ns = sum.handlers_ns.saturating_add(ns),
            Part::Link(..) => sum.links_ns = sum.links_ns.saturating_add(ns),
            Part::Overhead | Part::Main | Part::Unknown => {}
        }
    }

    fn note_step(&mut self, span: &Span) {
        if let Some(step) = span.step {
            self.sums.step = Some(step);
            let [first, last] = self.sums.steps.unwrap_or([step, step]);
            self.sums.steps = Some([first.min(step), last.max(step)]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::fixtures::{MS, complete, from, from_main, recording, span};
    use super::*;
    use gridspan_record::Recording;

    fn path(recording: &Recording) -> CriticalPath {
        let places = Places::of(recording);
        let history = History::of(recording, &places, [0, recording.end_ns()]);
        CriticalPath::of(&history, &Kinds::of(recording), &places)
    }

    /// Names and times in ms.
    fn parts(path: &CriticalPath) -> Vec<(&str, u64)> {
        path.parts.iter().map(|part| (part.name.as_str(), part.ns / MS)).collect()
    }

    #[test]
    fn the_path_follows_messages_back_to_the_beginning() {
        let mut recording = recording(2, 1);
        recording.pes[0].spans = vec![span(0, 0, [0, 20]), span(0, 1, [20, 25])];
        let last = Span { cause: from(0, 0, [20, 30]), step: Some(4), ..span(1, 0, [32, 50]) };
        recording.pes[1].spans = vec![last];
        complete(&mut recording, 50);

        let path = path(&recording);

        assert_eq!(parts(&path), [("Worker", 38), ("a → b", 10), ("ready, not running", 2)]);
        assert_eq!((path.total_ns / MS, path.walks, path.covered), (50, 1, 1.0));
        assert_eq!((path.hops, path.steps, path.pes.len()), (1, Some([4, 4]), 2));
        assert!((path.handler_share() - 38.0 / 50.0).abs() < 1e-9);
    }

    #[test]
    fn the_time_between_steps_is_that_of_the_later_one() {
        let mut recording = recording(2, 1);
        let step = |step, span: Span| Span { step: Some(step), ..span };
        let first = step(1, span(0, 0, [0, 20]));
        let last = step(3, Span { cause: from(1, 0, [45, 55]), ..span(0, 1, [56, 60]) });
        recording.pes[0].spans = vec![first, last];
        let second = Span { cause: from(0, 0, [20, 30]), ..span(1, 0, [30, 45]) };
        recording.pes[1].spans = vec![step(2, second)];
        complete(&mut recording, 60);

        let path = path(&recording);

        let steps: Vec<_> = path
            .longest_steps
            .iter()
            .map(|it| [it.step, it.ns / MS, it.handlers_ns / MS, it.links_ns / MS])
            .collect();
        assert_eq!(steps, [[2, 25, 15, 10], [1, 20, 20, 0], [3, 15, 4, 10]]);
        assert_eq!((path.step_count, path.step_mean_ns / MS), (3, 20));
    }

    #[test]
    fn a_message_that_waited_leads_to_the_span_before() {
        let mut recording = recording(1, 1);
        let own = |number, sent| from(0, number, [sent, sent]);
        let first = Span { cause: from_main([1, 1]), ..span(0, 0, [1, 5]) };
        let second = Span { kind: 1, cause: own(0, 2), ..span(0, 1, [5, 8]) };
        let third = Span { cause: own(0, 3), ..span(0, 2, [8, 10]) };
        recording.pes[0].spans = vec![first, second, third];
        complete(&mut recording, 10);

        let path = path(&recording);

        assert_eq!(parts(&path), [("Worker", 6), ("Sink", 3), ("main", 1)]);
        // The second message waited from 2 to 5, the third one during the whole second span.
        let queued: Vec<_> = path.parts.iter().map(|part| part.queued_ns / MS).collect();
        assert_eq!(queued, [3, 3, 0]);
    }

    #[test]
    fn a_span_of_no_length_does_not_end_the_path() {
        // All of main's message to PE 1 and its span there happens at 20 ms.
        let mut recording = recording(1, 2);
        recording.pes[0].spans = vec![span(0, 0, [0, 20])];
        let first = Span { cause: from_main([20, 20]), ..span(1, 0, [20, 20]) };
        let second = Span { cause: from(1, 0, [20, 20]), ..span(1, 1, [20, 25]) };
        recording.pes[1].spans = vec![first, second];
        complete(&mut recording, 25);

        let path = path(&recording);

        assert_eq!((parts(&path), path.total_ns / MS), (vec![("Worker", 25)], 25));
        assert_eq!((path.hops, &path.pes[..]), (1, &[(0, 20 * MS), (1, 5 * MS)][..]));
    }

    #[test]
    fn windows_are_walked_one_by_one() {
        let mut recording = recording(1, 1);
        let record = &mut recording.pes[0];
        record.window_ns = 10 * MS;
        record.kept_every = 2;
        record.dropped_spans = 5;
        record.spans = vec![span(0, 0, [2, 6]), span(0, 9, [24, 28])];
        complete(&mut recording, 40);

        let path = path(&recording);

        assert_eq!((path.walks, parts(&path)), (2, vec![("Worker", 8), ("not recorded", 6)]));
        assert!((path.covered - 14.0 / 40.0).abs() < 1e-9, "{path:?}");
    }

    #[test]
    fn nothing_recorded_has_no_path() {
        let path = path(&recording(1, 1));
        assert_eq!((path.walks, path.total_ns, path.parts.len()), (0, 0, 0));
    }
}
