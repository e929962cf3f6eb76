//! The messages of main and the runtime, the answers for which main waited, and their order.
//!
//! Main and the runtime are not actors, so a recording has no handlers of them, but it has the
//! messages that they sent. Messages that reached different actors of one type at about the same
//! time are one event, such as a broadcast, the result of a reduction, or the end of a sync point.
//! Each answer for which main waited is an event, too, and the end of the job is the last one.
//! Events become *barriers*, which the replay passes in the order of the recording.
//!
//! **With answers.** Main is one program: its messages follow from the answers that it has, and
//! from nothing else. This table says when an answer comes:
//!
//! | main waits for | the answer comes |
//! | --- | --- |
//! | the coordinator, which is beside main | at once |
//! | each PE | one round trip to the farthest PE after the request |
//! | contributions | after all handlers whose results could have reached main in the recording |
//! | quiescence | the same, and then after one to three rounds of answers of all PEs, as recorded |
//! | an actor | after the handler that has answered |
//! | a time | that time after the request |
//! | measurements of links | after two round trips: one for orders and reports, one for probes |
//! | something else | after as many round trips as fit into the recorded time |
//!
//! A sleep that ends while main waits for something else is no cause: main goes on when the other
//! answer comes. A message of the runtime, such as the result of a reduction to a member, waits for
//! all handlers whose results the runtime could have had.
//!
//! **Without answers**, in recordings of earlier versions, this module assumes that each message of
//! main waited for all handlers whose results could have reached main by then, at the latencies of
//! the recorded grid. If round trips to the farthest PE fit into the time from the last such result
//! to the message, it assumes that main made requests, one after the other, for that time.
//!
//! The rest of the recorded time is the time of main itself, which is the same on every grid.

use crate::recorded_grid::RecordedGrid;
use crate::trace::{Barrier, NO_BARRIER, Request};
use gridspan_record::MainWait;
use std::collections::BTreeMap;

/// Time, in addition to a round trip, within which the messages of one event are sent.
const TOLERANCE_NS: u64 = 1_000_000;
/// Largest number of round trips before an event. If more fit, main was doing something else.
const ROUND_TRIPS_MAX: f64 = 16.0;
/// In real time, shorter round trips cannot be distinguished from the time of main itself or, with
/// answers, from that of the coordinator.
const ROUND_TRIP_MIN_NS: f64 = 1_000_000.0;
/// Number of rounds of answers of all PEs from the last handler to quiescence, if the recorded
/// round trip is too short to derive the number.
const QUIET_ROUNDS: f64 = 2.0;
/// Largest number of these rounds that is derived from a recorded time: quiescence takes two, and
/// the round that is under way when the last handler ends may come on top.
const QUIET_ROUNDS_MAX: f64 = 3.0;

/// Round trips of a measurement of the links. The time between probes is that of the runtime, and
/// stays the same.
const MEASURING_TRIPS: f64 = 2.0;

/// The sender of a message that no handler sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Origin {
    Main,
    /// Main, or the runtime on its PE.
    MainPe,
    Runtime,
}

/// A message of main or the runtime.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct FromMain {
    /// The type of the receiver.
    pub(crate) kind: u32,
    /// Number of such messages that the receiver had before.
    pub(crate) before: u32,
    /// When it was sent, or the latest time at which it could have been.
    pub(crate) sent_ns: u64,
    pub(crate) handling: u32,
    pub(crate) origin: Origin,
}

/// An answer for which main waited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Answered {
    /// When main made the request, and when the answer came.
    pub(crate) asked_ns: u64,
    pub(crate) answered_ns: u64,
    pub(crate) wait: MainWait,
    /// The handling that answered, if an actor did and it is known.
    pub(crate) handling: Option<u32>,
}

/// A handling, and when main could have its result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Done {
    pub(crate) handling: u32,
    pub(crate) known_ns: u64,
}

/// All that happened outside of handlers.
#[derive(Clone, Debug, Default)]
pub(crate) struct Beside {
    /// The messages of main and the runtime.
    pub(crate) sent: Vec<FromMain>,
    /// The answers for which main waited; none if they are not known.
    pub(crate) answers: Vec<Answered>,
    /// When the job ended.
    pub(crate) end_ns: u64,
}

/// The cause of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Cause {
    Answer(Answered),
    /// Nothing but the event before it: main goes on.
    Before,
    /// All handlers whose results could be known.
    Known,
}

/// A message, an answer, or the end of the job.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Event {
    at_ns: u64,
    cause: Cause,
    sends: Vec<u32>,
}

impl Event {
    /// Whether it waits for all handlers whose results could be known.
    fn waits_for_all(&self) -> bool {
        match self.cause {
            Cause::Known => true,
            Cause::Before => false,
            Cause::Answer(Answered { wait, handling, .. }) => match wait {
                MainWait::Coordinator | MainWait::EachPe | MainWait::Links | MainWait::Time => {
                    false
                }
                MainWait::Actor => handling.is_none(),
                _ => true,
            },
        }
    }
}

/// Returns the barriers, and for each handling the first barrier that waits for it.
pub(crate) fn barriers(
    beside: Beside,
    done: &[Done],
    grid: &RecordedGrid,
    is_simulated: bool,
) -> (Vec<Barrier>, Vec<u32>) {
    let events = all_events(beside, grid);
    let barrier_of = barrier_of(&events, done);
    let mut waits = vec![0_u32; events.len()];
    let mut known = vec![0_u64; events.len()];
    for Done { handling, known_ns } in done {
        if let Some(first) = waits.get_mut(barrier_of[*handling as usize] as usize) {
            *first += 1;
            let known = &mut known[barrier_of[*handling as usize] as usize];
            *known = (*known).max(*known_ns);
        }
    }
    let round_trip_ns = grid.longest_round_trip_ns();
    let times = Times { round_trip_ns, is_simulated, has_answers: has_answers(&events) };
    let mut barriers = Vec::with_capacity(events.len());
    let mut before = 0;
    for (at, event) in events.iter().enumerate() {
        let known = known[at].max(before);
        let mut barrier = match event.cause {
            Cause::Answer(answer) => times.of_answer(answer, known, &events[..at]),
            Cause::Before => Barrier { rest_ns: since(event.at_ns, known), ..Barrier::default() },
            Cause::Known => times.of_message(event.at_ns, known),
        };
        (barrier.waits, barrier.sends) = (waits[at], event.sends.clone());
        barriers.push(barrier);
        before = event.at_ns;
    }
    (barriers, barrier_of)
}

fn has_answers(events: &[Event]) -> bool {
    events.iter().any(|event| matches!(event.cause, Cause::Answer(_)))
}

fn since(at_ns: u64, from_ns: u64) -> f64 {
    at_ns.saturating_sub(from_ns) as f64
}

/// The times that main took on the recorded grid.
struct Times {
    /// The longest round trip between main and a PE.
    round_trip_ns: f64,
    is_simulated: bool,
    has_answers: bool,
}

impl Times {
    /// The barrier of messages sent at `at_ns`, whose causes were known at `known_ns`.
    fn of_message(&self, at_ns: u64, known_ns: u64) -> Barrier {
        let round_trip = self.round_trip_ns;
        let own = since(at_ns, known_ns);
        // With answers, the remaining time is known not to be a request.
        let may_request =
            !self.has_answers && (self.is_simulated || round_trip >= ROUND_TRIP_MIN_NS);
        let round_trips = if may_request { self.whole_trips(own) } else { 0.0 };
        let rest_ns = own - round_trips * round_trip;
        Barrier { round_trips: round_trips as u32, rest_ns, ..Barrier::default() }
    }

    /// The barrier of an answer whose causes were known at `known_ns`. `before`: the events before
    /// it.
    fn of_answer(&self, answer: Answered, known_ns: u64, before: &[Event]) -> Barrier {
        let Answered { asked_ns, answered_ns, wait, .. } = answer;
        let round_trip = self.round_trip_ns;
        let is_wide = round_trip >= ROUND_TRIP_MIN_NS;
        let own = since(answered_ns, known_ns.max(asked_ns));
        let after = before.partition_point(|event| event.at_ns <= asked_ns).checked_sub(1);
        let asked_after_ns = after.map_or(0, |after| before[after].at_ns);
        let slept_ns =
            if wait == MainWait::Time { answered_ns.saturating_sub(asked_ns) } else { 0 };
        let since_ns = asked_ns.saturating_sub(asked_after_ns).saturating_add(slept_ns);
        let round_trips = match wait {
            MainWait::Quiescence if is_wide => {
                (own / round_trip).floor().clamp(1.0, QUIET_ROUNDS_MAX)
            }
            MainWait::Quiescence => QUIET_ROUNDS,
            MainWait::Coordinator
            | MainWait::EachPe
            | MainWait::Contributions
            | MainWait::Actor
            | MainWait::Time => 0.0,
            MainWait::Links if round_trip > 0.0 => (own / round_trip).floor().min(MEASURING_TRIPS),
            _ if is_wide => self.whole_trips(own),
            _ => 0.0,
        };
        // The round trip of `EachPe` starts at the request. Those of other waits start once the
        // request is made and the handlers are done.
        let trips_of_request = if wait == MainWait::EachPe { 1.0 } else { round_trips };
        let ready = known_ns as f64 + round_trips * round_trip;
        let answered = asked_ns.saturating_add(slept_ns) as f64 + trips_of_request * round_trip;
        Barrier {
            round_trips: round_trips as u32,
            request: Some(Request {
                after: after.map(|after| after as u32),
                since_ns,
                round_trips: trips_of_request as u32,
            }),
            rest_ns: (answered_ns as f64 - ready.max(answered)).max(0.0),
            ..Barrier::default()
        }
    }

    /// Round trips that fit into a time; 0 for too many.
    fn whole_trips(&self, own: f64) -> f64 {
        let round_trip = self.round_trip_ns;
        let trips = if round_trip > 0.0 { (own / round_trip).floor() } else { 0.0 };
        if trips <= ROUND_TRIPS_MAX { trips } else { 0.0 }
    }
}

/// For each handling, the first event that waits for it.
fn barrier_of(events: &[Event], done: &[Done]) -> Vec<u32> {
    let is_waiting = |(_, event): &(usize, &Event)| event.waits_for_all();
    let waiting: Vec<(usize, &Event)> = events.iter().enumerate().filter(is_waiting).collect();
    let mut answers: BTreeMap<u32, usize> = BTreeMap::new();
    for (at, event) in events.iter().enumerate() {
        if let Cause::Answer(Answered { wait: MainWait::Actor, handling: Some(handling), .. }) =
            event.cause
        {
            answers.entry(handling).or_insert(at);
        }
    }
    // Without answers the job ends once all handlers are done.
    let last = if has_answers(events) { None } else { events.len().checked_sub(1) };
    let mut barrier_of = vec![NO_BARRIER; done.len()];
    for Done { handling, known_ns } in done {
        // Later than the result, so that no event waits for its own effect.
        let first = waiting.partition_point(|(_, event)| event.at_ns <= *known_ns);
        let first = waiting.get(first).map(|(at, _)| *at).or(last);
        let answer = answers.get(handling).copied();
        let first = match (first, answer) {
            (Some(first), Some(answer)) => Some(first.min(answer)),
            (first, answer) => first.or(answer),
        };
        barrier_of[*handling as usize] = first.map_or(NO_BARRIER, |first| first as u32);
    }
    barrier_of
}

/// All events in the order of time, the end of the job last.
fn all_events(beside: Beside, grid: &RecordedGrid) -> Vec<Event> {
    let Beside { sent, answers, end_ns } = beside;
    let window = ((2.0 * grid.longest_latency_ns()) as u64).saturating_add(TOLERANCE_NS);
    let answers = causes_among(answers);
    let has_answers = !answers.is_empty();
    let mut events = messages(sent, window, &answers);
    let answer = |answer: Answered| {
        let cause = Cause::Answer(answer);
        Event { at_ns: answer.answered_ns, cause, sends: Vec::new() }
    };
    events.extend(answers.into_iter().map(answer));
    // At equal times, the answer comes before the messages that follow from it.
    let order = |event: &Event| (event.at_ns, !event.sends.is_empty());
    events.sort_by(|one, other| order(one).cmp(&order(other)).then(one.sends.cmp(&other.sends)));
    let end = events.last().map_or(end_ns, |last| end_ns.max(last.at_ns));
    let cause = if has_answers { Cause::Before } else { Cause::Known };
    events.push(Event { at_ns: end, cause, sends: Vec::new() });
    events
}

/// The answers that main needs, in the order of time: without sleeps that were over while main
/// waited for something else.
fn causes_among(mut answers: Vec<Answered>) -> Vec<Answered> {
    answers.sort_by_key(|answer| (answer.answered_ns, answer.asked_ns));
    let mut asked_first = u64::MAX;
    let mut causes: Vec<Answered> = Vec::with_capacity(answers.len());
    for answer in answers.into_iter().rev() {
        let is_sleep = answer.wait == MainWait::Time;
        if !is_sleep {
            asked_first = asked_first.min(answer.asked_ns);
        }
        if !is_sleep || asked_first >= answer.answered_ns {
            causes.push(answer);
        }
    }
    causes.reverse();
    causes
}

/// Groups messages by event. `answers`: those that main needed, in order. Messages that main sent
/// before and after one of them belong to different events.
fn messages(mut sent: Vec<FromMain>, window_ns: u64, answers: &[Answered]) -> Vec<Event> {
    sent.sort_unstable();
    let answers_by = |at_ns: u64| answers.partition_point(|answer| answer.answered_ns <= at_ns);
    let mut events: Vec<(Event, Origin)> = Vec::new();
    let mut last: Option<(u32, u32)> = None;
    for FromMain { kind, before, sent_ns, handling, origin } in sent {
        let belongs = |at_ns: u64, of_all: Origin| {
            let is_runtime = joined(of_all, origin) == Origin::Runtime;
            last == Some((kind, before))
                && sent_ns - at_ns <= window_ns
                && (is_runtime || answers_by(at_ns) == answers_by(sent_ns))
        };
        match events.last_mut() {
            Some((event, of_all)) if belongs(event.at_ns, *of_all) => {
                event.sends.push(handling);
                *of_all = joined(*of_all, origin);
            }
            _ => {
                let sends = vec![handling];
                events.push((Event { at_ns: sent_ns, cause: Cause::Known, sends }, origin));
            }
        }
        last = Some((kind, before));
    }
    let caused = |(event, origin): (Event, Origin)| match origin {
        Origin::Main if !answers.is_empty() => Event { cause: Cause::Before, ..event },
        _ => event,
    };
    events.into_iter().map(caused).collect()
}

/// The origin of an event with messages of both origins.
fn joined(one: Origin, other: Origin) -> Origin {
    match (one, other) {
        (Origin::Runtime, _) | (_, Origin::Runtime) => Origin::Runtime,
        (Origin::Main, _) | (_, Origin::Main) => Origin::Main,
        _ => Origin::MainPe,
    }
}

#[cfg(test)]
mod tests;
