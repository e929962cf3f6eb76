//! What main and the runtime sent, and the handlers for which they had waited.
//!
//! A recording does not say this, but it has the messages that came from them. Such messages to
//! actors of one type at about the same time are one event: a broadcast, the result of a reduction,
//! or the end of a sync point. An event is taken for a *barrier*: main had waited for all handlers
//! whose results could have reached it by then, over the latency of the recorded grid. On another
//! grid, main waits for the same handlers.
//!
//! The time from the last of these results to the event is that of main itself. The round trips to
//! the farthest PE that fit into it are taken for requests of main, such as one to create actors,
//! which leave no handler; on another grid they take the round trip of that grid.
//!
//! The end of the job is the last barrier. Messages of timers have no cause, and count as messages
//! of main.

use crate::recorded_grid::RecordedGrid;
use crate::trace::Barrier;

/// Time, in addition to a round trip, within which the messages of one event are sent.
const TOLERANCE_NS: u64 = 1_000_000;
/// Largest number of round trips before an event. If more fit, main was doing something else.
const ROUND_TRIPS_MAX: f64 = 16.0;
/// In real time, shorter round trips cannot be distinguished from the time of main itself.
const ROUND_TRIP_MIN_NS: f64 = 1_000_000.0;

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
}

/// A handling, and when main could have its result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Done {
    pub(crate) handling: u32,
    pub(crate) known_ns: u64,
}

/// Returns the barriers, and for each handling the first barrier that waits for it.
pub(crate) fn barriers(
    sent: Vec<FromMain>,
    done: &[Done],
    grid: &RecordedGrid,
    is_simulated: bool,
    end_ns: u64,
) -> (Vec<Barrier>, Vec<u32>) {
    let window = ((2.0 * grid.longest_latency_ns()) as u64).saturating_add(TOLERANCE_NS);
    let mut events = events(sent, window);
    let end = events.last().map_or(end_ns, |(at, _)| end_ns.max(*at));
    events.push((end, Vec::new()));
    let mut barrier_of = vec![0; done.len()];
    let mut waits = vec![0_u32; events.len()];
    let mut known = vec![0_u64; events.len()];
    for Done { handling, known_ns } in done {
        // Later than the result, so that no event waits for what it causes itself.
        let first = events.partition_point(|(at, _)| at <= known_ns).min(events.len() - 1);
        barrier_of[*handling as usize] = first as u32;
        waits[first] += 1;
        known[first] = known[first].max(*known_ns);
    }
    let round_trip = grid.longest_round_trip_ns();
    let is_told = round_trip > 0.0 && (is_simulated || round_trip >= ROUND_TRIP_MIN_NS);
    let mut before = 0;
    let mut barriers = Vec::with_capacity(events.len());
    for ((at, sends), (waits, known)) in events.into_iter().zip(waits.into_iter().zip(known)) {
        let own = at.saturating_sub(known.max(before)) as f64;
        let trips = if is_told { (own / round_trip).floor() } else { 0.0 };
        let trips = if trips <= ROUND_TRIPS_MAX { trips } else { 0.0 };
        let rest_ns = own - trips * if is_told { round_trip } else { 0.0 };
        barriers.push(Barrier { waits, round_trips: trips as u32, rest_ns, sends });
        before = at;
    }
    (barriers, barrier_of)
}

/// Groups messages by event, in the order of time.
fn events(mut sent: Vec<FromMain>, window_ns: u64) -> Vec<(u64, Vec<u32>)> {
    sent.sort_unstable();
    let mut events: Vec<(u64, Vec<u32>)> = Vec::new();
    let mut last: Option<(u32, u32)> = None;
    for FromMain { kind, before, sent_ns, handling } in sent {
        match events.last_mut() {
            Some((at, handlings)) if last == Some((kind, before)) && sent_ns - *at <= window_ns => {
                handlings.push(handling);
            }
            _ => events.push((sent_ns, vec![handling])),
        }
        last = Some((kind, before));
    }
    events.sort();
    events
}

#[cfg(test)]
mod tests {
    use super::*;
    use gridspan_record::{Header, RecordedLink, RecordedNode, RecordedPe};

    const MS: u64 = 1_000_000;

    /// A PE at each of two sites, 10 ms apart.
    fn grid() -> RecordedGrid {
        let node = |site| RecordedNode { site, ..RecordedNode::default() };
        let pe = |node| RecordedPe { node, speed: 1.0 };
        let link = |from, to| {
            let latency_us = if from == to { 50.0 } else { 10_000.0 };
            RecordedLink { from, to, latency_us, ..RecordedLink::default() }
        };
        RecordedGrid::of(&Header {
            sites: vec!["a".to_owned(), "b".to_owned()],
            nodes: vec![node(0), node(1)],
            pes: vec![pe(0), pe(1)],
            links: vec![link(0, 0), link(0, 1), link(1, 0), link(1, 1)],
            ..Header::default()
        })
    }

    fn sent(before: u32, at_ms: u64, handling: u32) -> FromMain {
        FromMain { kind: 0, before, sent_ns: at_ms * MS, handling }
    }

    fn done(handling: u32, at_ms: u64) -> Done {
        Done { handling, known_ns: at_ms * MS }
    }

    #[test]
    fn main_waits_for_what_it_could_know_and_then_takes_round_trips() {
        // Both actors are created at 1 ms, and main sends to both when it knows that.
        let sent = vec![sent(0, 1, 0), sent(0, 1, 1), sent(1, 25, 2), sent(1, 24, 3)];
        let done = [done(0, 1), done(1, 21), done(2, 26), done(3, 60)];

        let (barriers, barrier_of) = barriers(sent, &done, &grid(), true, 85 * MS);

        assert_eq!(barrier_of, [1, 1, 2, 2]);
        let parts = |barrier: &Barrier| (barrier.waits, barrier.round_trips, barrier.rest_ns);
        let found: Vec<_> = barriers.iter().map(parts).collect();
        let ms = |ms: u64| (ms * MS) as f64;
        assert_eq!(found, [(0, 0, ms(1)), (2, 0, ms(3)), (2, 1, ms(5))]);
        assert_eq!(barriers[1].sends, [3, 2]);
        assert!(barriers[2].sends.is_empty());
    }

    #[test]
    fn messages_to_one_type_at_different_times_are_different_events() {
        let sent = vec![sent(0, 1, 0), sent(0, 500, 1)];
        let (barriers, _) = barriers(sent, &[], &grid(), true, 501 * MS);
        let sends: Vec<_> = barriers.iter().map(|barrier| barrier.sends.clone()).collect();
        assert_eq!(sends, [vec![0], vec![1], vec![]]);
    }
}
