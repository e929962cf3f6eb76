//! Events of the whole job: rebalances with their gains, checkpoints, losses.

use super::awaited::Awaited;
use super::history::History;
use super::places::Places;
use super::profile::Profile;
use crate::recorded::cut;
use gridspan_record::{RebalanceTrigger, RecordedEvent, Recording, What};
use serde::Serialize;

/// Maximum number of events of each kind that are listed.
const LISTED_MAX: usize = 1000;
/// Maximum number of pauses.
const PAUSES_MAX: usize = 100_000;
/// Minimum number of columns before and after a rebalance for an estimate of its gain.
const COLUMNS_MIN: u64 = 4;
/// Largest absolute gain that is accepted: a step that takes a million times as long. A larger
/// number comes from a damaged recording, and would exceed the range of numbers in a chart.
const GAIN_MAX: f64 = 1e6;

/// A rebalance.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Rebalance {
    /// When it was decided.
    pub(crate) at_ns: u64,
    pub(crate) trigger: RebalanceTrigger,
    pub(crate) strategy: String,
    /// Number of actors moved.
    pub(crate) moved: u64,
    /// Bytes of their state.
    pub(crate) bytes: u64,
    /// Predicted share of the step time that it saves.
    pub(crate) predicted_gain: Option<f64>,
    /// Share of the step time that it saved, as measured by the job.
    pub(crate) realised_gain: Option<f64>,
    /// Decrease of the time for the same work, as estimated from the busy time of all PEs before
    /// and after it.
    pub(crate) observed_gain: Option<f64>,
    pub(crate) took_ns: u64,
    /// Time of the next rebalance that moved actors, or the end of the job.
    pub(crate) until_ns: u64,
}

impl Rebalance {
    /// The realised gain; without one the observed gain, unless the trigger of the rebalance also
    /// changed the work per second.
    pub(crate) fn gain(&self) -> Option<f64> {
        // Foreign load and changed links change the speed of a job without any rebalance.
        let is_outside =
            matches!(self.trigger, RebalanceTrigger::ForeignLoad | RebalanceTrigger::Link);
        self.realised_gain.or(self.observed_gain.filter(|_| !is_outside))
    }
}

/// A checkpoint.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct CheckpointRow {
    /// When it was complete.
    pub(crate) at_ns: u64,
    pub(crate) number: u64,
    pub(crate) bytes: u64,
    pub(crate) took_ns: u64,
    /// Time for which the job stood still.
    pub(crate) stopped_ns: u64,
}

/// The kind of a mark on the timeline.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum MarkKind {
    /// A rebalance that moved actors.
    Rebalance,
    Checkpoint,
    /// Nodes were lost, joined or left, or their processes failed.
    Nodes,
    Link,
    Warning,
}

/// An event for the timeline, and for the list of events.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Mark {
    pub(crate) at_ns: u64,
    pub(crate) kind: MarkKind,
    /// What happened.
    pub(crate) text: String,
}

/// Times in which the job stood still.
#[derive(Clone, Debug, Default)]
pub(crate) struct Pauses {
    /// The times, in order and without overlaps.
    times: Vec<([u64; 2], Awaited)>,
    /// When sync points were complete, in order.
    sync_points: Vec<u64>,
}

impl Pauses {
    fn new(mut all: Vec<([u64; 2], Awaited)>, sync_points: Vec<u64>) -> Self {
        all.truncate(PAUSES_MAX);
        all.sort_unstable();
        let mut until = 0;
        for ([begin, end], _) in &mut all {
            *begin = (*begin).max(until);
            until = until.max(*end);
        }
        all.retain(|([begin, end], _)| begin < end);
        Self { times: all, sync_points }
    }

    /// Returns the times of the pauses of this kind, in order.
    pub(crate) fn of(&self, what: Awaited) -> impl Iterator<Item = [u64; 2]> {
        self.times.iter().filter(move |(_, of)| *of == what).map(|(times, _)| *times)
    }

    /// Returns the parts of the pauses in which no PE ran a handler; in the rest the job went on.
    pub(crate) fn in_quiet(&self, history: &History<'_>) -> Self {
        let spans = history.pes.iter().flat_map(|pe| &pe.spans);
        let mut busy: Vec<[u64; 2]> = spans.map(|kept| [kept.span.begin_ns, kept.end_ns]).collect();
        busy.sort_unstable();
        // For each span, the latest end among this span and those before it.
        let ends = busy.iter().scan(0, |until, [_, end]| {
            *until = (*end).max(*until);
            Some(*until)
        });
        let until: Vec<u64> = ends.collect();
        let mut quiet = Vec::new();
        for ([begin, end], what) in &self.times {
            let first = busy.partition_point(|[from, _]| from <= begin);
            let mut at = first.checked_sub(1).map_or(*begin, |last| until[last].max(*begin));
            for (place, [from, _]) in busy.iter().enumerate().skip(first) {
                if at >= *end || from >= end {
                    break;
                }
                if *from > at {
                    quiet.push(([at, *from], *what));
                }
                at = at.max(until[place]);
            }
            if at < *end {
                quiet.push(([at, *end], *what));
            }
        }
        Self { times: quiet, sync_points: self.sync_points.clone() }
    }

    /// Whether a sync point was complete between two times.
    pub(crate) fn has_sync_point(&self, [from_ns, to_ns]: [u64; 2]) -> bool {
        let first = self.sync_points.partition_point(|at| *at < from_ns);
        self.sync_points.get(first).is_some_and(|at| *at <= to_ns)
    }

    /// Returns the parts of the pauses that lie between two times.
    pub(crate) fn within(&self, from_ns: u64, to_ns: u64) -> Vec<(Awaited, [u64; 2])> {
        let first = self.times.partition_point(|([_, end], _)| *end <= from_ns);
        let inside = self.times.iter().skip(first).take_while(|([begin, _], _)| *begin < to_ns);
        inside
            .map(|([begin, end], what)| (*what, [*begin.max(&from_ns), *end.min(&to_ns)]))
            .collect()
    }
}

/// The events of a job, in the order of time.
#[derive(Clone, Debug, Default, Serialize)]
pub(crate) struct Events {
    /// Rebalances that moved actors.
    pub(crate) rebalances: Vec<Rebalance>,
    /// The number of all such rebalances.
    pub(crate) rebalance_count: usize,
    pub(crate) checkpoints: Vec<CheckpointRow>,
    /// The number of all checkpoints.
    pub(crate) checkpoint_count: usize,
    pub(crate) marks: Vec<Mark>,
    /// The number of all marks.
    pub(crate) mark_count: usize,
    #[serde(skip)]
    pub(crate) pauses: Pauses,
}

impl Events {
    /// The events of this recording.
    pub(crate) fn of(recording: &Recording, places: &Places, profile: &Profile) -> Self {
        let mut recorded: Vec<&RecordedEvent> = recording.events.iter().collect();
        recorded.sort_by_key(|event| event.at_ns);
        let mut events = Self::default();
        let (mut pauses, mut sync_points) = (Vec::new(), Vec::new());
        for event in recorded {
            pauses.extend(pause(event));
            sync_points.extend(is_sync_point(&event.what).then_some(event.at_ns));
            events.add(event, places);
        }
        events.pauses = Pauses::new(pauses, sync_points);
        measure(&mut events.rebalances, places, profile);
        events.rebalance_count = events.rebalances.len();
        events.checkpoint_count = events.checkpoints.len();
        events.mark_count = events.marks.len();
        events.rebalances.truncate(LISTED_MAX);
        events.checkpoints.truncate(LISTED_MAX);
        events.marks.truncate(LISTED_MAX);
        events
    }

    fn add(&mut self, event: &RecordedEvent, places: &Places) {
        let at_ns = event.at_ns;
        match &event.what {
            What::Balanced { moved: 0, .. } => return,
            What::Balanced {
                trigger,
                strategy,
                moved,
                bytes,
                predicted_gain,
                actual_gain,
                pause_ns,
            } => self.rebalances.push(Rebalance {
                at_ns,
                trigger: trigger.clone(),
                strategy: strategy.clone(),
                moved: *moved,
                bytes: *bytes,
                predicted_gain: predicted_gain.filter(is_gain),
                realised_gain: actual_gain.filter(is_gain),
                observed_gain: None,
                took_ns: *pause_ns,
                until_ns: 0,
            }),
            &What::Checkpoint { number, bytes, duration_ns: took_ns, stopped_ns } => {
                let stopped_ns = stopped_ns.unwrap_or(took_ns);
                self.checkpoints.push(CheckpointRow { at_ns, number, bytes, took_ns, stopped_ns });
            }
            _ => {}
        }
        if let Some((kind, mut text)) = mark(&event.what, places) {
            cut(&mut text);
            self.marks.push(Mark { at_ns, kind, text });
        }
    }
}

/// Whether a number can be a gain.
fn is_gain(gain: &f64) -> bool {
    gain.abs() <= GAIN_MAX
}

/// Whether an event is a rebalance at a sync point, for which actors waited.
fn is_sync_point(what: &What) -> bool {
    matches!(what, What::Balanced { trigger: RebalanceTrigger::SyncPoint, .. })
}

/// Returns the time in which the job stood still for an event.
fn pause(event: &RecordedEvent) -> Option<([u64; 2], Awaited)> {
    let at = event.at_ns;
    let until_now = |ns: &u64| [at.saturating_sub(*ns), at];
    Some(match &event.what {
        // Otherwise the job goes on while actors move.
        What::Balanced { pause_ns, .. } if is_sync_point(&event.what) => {
            ([at, at.saturating_add(*pause_ns)], Awaited::Rebalance)
        }
        What::Checkpoint { duration_ns, stopped_ns, .. } => {
            let [begin, end] = until_now(duration_ns);
            let stopped = stopped_ns.map_or(end, |stopped| begin.saturating_add(stopped).min(end));
            ([begin, stopped], Awaited::Checkpoint)
        }
        What::Recovered { duration_ns, .. } => (until_now(duration_ns), Awaited::Recovery),
        _ => return None,
    })
}

fn mark(what: &What, places: &Places) -> Option<(MarkKind, String)> {
    let names = |nodes: &[u32]| {
        let names = nodes.iter().map(|node| places.node_name(*node as usize));
        names.collect::<Vec<_>>().join(", ")
    };
    Some(match what {
        What::Balanced { strategy, moved, .. } => {
            (MarkKind::Rebalance, format!("rebalance by {strategy}: {moved} actors moved"))
        }
        What::Checkpoint { number, .. } => (MarkKind::Checkpoint, format!("checkpoint {number}")),
        What::Lost { nodes } => (MarkKind::Nodes, format!("lost: {}", names(nodes))),
        What::Recovered { .. } => (MarkKind::Nodes, "the job goes on after a loss".to_owned()),
        What::Joined { node } => (MarkKind::Nodes, format!("joined: {}", names(&[*node]))),
        What::Left { node } => (MarkKind::Nodes, format!("left: {}", names(&[*node]))),
        What::LinkChanged { from, to, latency_us, .. } => {
            let link = places.link_name(*from as usize, *to as usize);
            (MarkKind::Link, format!("link {link}: latency {:.3} ms", latency_us / 1e3))
        }
        What::Warning { text } => (MarkKind::Warning, text.clone()),
        What::Exited { node, code, signal } => {
            let how = match (code, signal) {
                (Some(0), _) => return None,
                (Some(code), _) => format!("with exit code {code}"),
                (None, Some(signal)) => format!("by signal {signal}"),
                (None, None) => return None,
            };
            (MarkKind::Nodes, format!("the process of {} ended {how}", names(&[*node])))
        }
        _ => return None,
    })
}

/// Sets how long rebalances were in effect, and their observed gains.
fn measure(rebalances: &mut [Rebalance], places: &Places, profile: &Profile) {
    let begins: Vec<u64> = rebalances.iter().map(|rebalance| rebalance.at_ns).collect();
    let mut since = 0;
    for (number, rebalance) in rebalances.iter_mut().enumerate() {
        rebalance.until_ns = begins.get(number + 1).copied().unwrap_or(profile.end_ns);
        let moved_ns = rebalance.at_ns.saturating_add(rebalance.took_ns);
        let rate = |times| profile.work_rate(places, times, COLUMNS_MIN);
        let rates = (rate([since, rebalance.at_ns]), rate([moved_ns, rebalance.until_ns]));
        if let (Some(before), Some(after)) = rates {
            let is_known = before > 0.0 && after > 0.0;
            rebalance.observed_gain = is_known.then(|| 1.0 - before / after);
        }
        since = moved_ns;
    }
}

#[cfg(test)]
mod tests {
    use super::super::fixtures::{MS, busy_bin, complete, recording, span};
    use super::*;

    fn balanced(moved: u64, actual_gain: Option<f64>) -> What {
        What::Balanced {
            trigger: RebalanceTrigger::SyncPoint,
            strategy: "random".to_owned(),
            moved,
            bytes: 100,
            predicted_gain: None,
            actual_gain,
            pause_ns: MS,
        }
    }

    fn events(recording: &Recording) -> Events {
        let places = Places::of(recording);
        Events::of(recording, &places, &Profile::of(recording, &places))
    }

    #[test]
    fn a_rebalance_after_which_pes_compute_less_has_a_negative_gain() {
        let mut recording = recording(1, 1);
        complete(&mut recording, 40);
        let bin = |ms| if ms < 20 { busy_bin(MS, 0) } else { busy_bin(MS / 2, MS / 2) };
        recording.pes[0].bins = (0..40).map(bin).collect();
        let at = |ms: u64, what| RecordedEvent { at_ns: ms * MS, what };
        recording.events = vec![
            at(20, balanced(3, None)),
            at(10, balanced(0, None)),
            at(38, balanced(1, Some(0.5))),
        ];

        let events = events(&recording);

        for trigger in [RebalanceTrigger::ForeignLoad, RebalanceTrigger::Link] {
            let outside = Rebalance { trigger, ..events.rebalances[0].clone() };
            assert_eq!(outside.gain(), None);
        }
        // An unknown trigger whose text contains parts of known ones: `sync` and `link`.
        let other = RebalanceTrigger::Other("asynchronous links".to_owned());
        let inside = Rebalance { trigger: other, ..events.rebalances[0].clone() };
        assert_eq!(inside.gain(), Some(-1.0));
        assert_eq!((events.rebalances.len(), events.marks.len()), (2, 2));
        let [first, second] = &events.rebalances[..] else { panic!("{events:?}") };
        assert_eq!((first.until_ns, first.observed_gain), (38 * MS, Some(-1.0)));
        assert_eq!(
            (first.gain(), second.gain(), second.observed_gain),
            (Some(-1.0), Some(0.5), None)
        );
    }

    #[test]
    fn numbers_that_are_no_gains_are_left_out() {
        let mut recording = recording(1, 1);
        complete(&mut recording, 40);
        let gains = [1e308, -1e308, f64::NAN, f64::INFINITY, -2e6, -3.0, 0.5];
        let event = |gain| RecordedEvent { at_ns: MS, what: balanced(1, Some(gain)) };
        recording.events = Vec::from(gains.map(event));
        let found = events(&recording).rebalances;
        let found: Vec<_> = found.into_iter().filter_map(|it| it.realised_gain).collect();
        assert_eq!(found, [-3.0, 0.5]);
    }

    #[test]
    fn pauses_do_not_overlap_and_are_cut() {
        let mut recording = recording(1, 1);
        complete(&mut recording, 40);
        let checkpoint = |number, ms: u64| {
            let what = What::Checkpoint { number, bytes: 1, duration_ns: 5 * MS, stopped_ns: None };
            RecordedEvent { at_ns: ms * MS, what }
        };
        recording.events = vec![checkpoint(1, 10), checkpoint(2, 13), checkpoint(3, 30)];
        let pauses = events(&recording).pauses;
        let found: Vec<_> = pauses.within(7 * MS, 28 * MS).into_iter().map(|it| it.1).collect();
        assert_eq!(found, [[7 * MS, 10 * MS], [10 * MS, 13 * MS], [25 * MS, 28 * MS]]);
        assert!(pauses.within(14 * MS, 20 * MS).is_empty());
    }

    #[test]
    fn a_pause_counts_while_no_pe_runs_a_handler() {
        let mut recording = recording(1, 2);
        recording.pes[0].spans = vec![span(0, 0, [0, 6]), span(0, 1, [12, 14])];
        recording.pes[1].spans = vec![span(1, 0, [3, 7]), span(1, 1, [13, 19])];
        let what = What::Checkpoint { number: 1, bytes: 1, duration_ns: 17 * MS, stopped_ns: None };
        recording.events = vec![RecordedEvent { at_ns: 20 * MS, what }];
        complete(&mut recording, 30);
        let places = Places::of(&recording);
        let history = History::of(&recording, &places, [0, 30 * MS]);
        let quiet = events(&recording).pauses.in_quiet(&history).within(0, 30 * MS);
        let times: Vec<_> = quiet.into_iter().map(|it| it.1.map(|ns| ns / MS)).collect();
        assert_eq!(times, [[7, 12], [19, 20]]);
    }

    #[test]
    fn losses_links_and_failed_processes_are_marked_by_name() {
        let mut recording = recording(2, 1);
        complete(&mut recording, 10);
        let lost = What::Lost { nodes: vec![1] };
        let changed =
            What::LinkChanged { from: 0, to: 1, latency_us: 40_000.0, bytes_per_second: None };
        let exited = |node, code, signal| What::Exited { node, code, signal };
        let ends = [exited(0, Some(0), None), exited(1, Some(7), None), exited(1, None, Some(9))];
        let all = [lost, changed].into_iter().chain(ends).chain([exited(0, None, None)]);
        recording.events =
            (1..).zip(all).map(|(at_ns, what)| RecordedEvent { at_ns, what }).collect();
        let texts: Vec<_> = events(&recording).marks.into_iter().map(|mark| mark.text).collect();
        let expected = [
            "lost: node b/1 at site b",
            "link a → b: latency 40.000 ms",
            "the process of node b/1 at site b ended with exit code 7",
            "the process of node b/1 at site b ended by signal 9",
        ];
        assert_eq!(texts, expected);
    }
}
