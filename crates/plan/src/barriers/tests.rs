//! Tests of the barriers that follow from hand-made events.

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
    FromMain { kind: 0, before, sent_ns: at_ms * MS, handling, origin: Origin::Main }
}

fn answered(wait: MainWait, [asked_ms, answered_ms]: [u64; 2]) -> Answered {
    let [asked_ns, answered_ns] = [asked_ms, answered_ms].map(|ms| ms * MS);
    Answered { asked_ns, answered_ns, wait, handling: None }
}

/// For each barrier: handlings, round trips, round trips of its request, and further time in ms.
fn parts(barriers: &[Barrier]) -> Vec<(u32, u32, u32, u64)> {
    let part = |barrier: &Barrier| {
        let of_request = barrier.request.map_or(0, |request| request.round_trips);
        let rest_ms = (barrier.rest_ns / MS as f64).round() as u64;
        (barrier.waits, barrier.round_trips, of_request, rest_ms)
    };
    barriers.iter().map(part).collect()
}

fn done(handling: u32, at_ms: u64) -> Done {
    Done { handling, known_ns: at_ms * MS }
}

#[test]
fn main_waits_for_what_it_could_know_and_then_takes_round_trips() {
    // Both actors are created at 1 ms, and main sends to both once it knows that.
    let sent = vec![sent(0, 1, 0), sent(0, 1, 1), sent(1, 25, 2), sent(1, 24, 3)];
    let done = [done(0, 1), done(1, 21), done(2, 26), done(3, 60)];

    let beside = Beside { sent, answers: Vec::new(), end_ns: 85 * MS };
    let (barriers, barrier_of) = barriers(beside, &done, &grid(), true);

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
    let beside = Beside { sent, answers: Vec::new(), end_ns: 501 * MS };
    let (barriers, _) = barriers(beside, &[], &grid(), true);
    let sends: Vec<_> = barriers.iter().map(|barrier| barrier.sends.clone()).collect();
    assert_eq!(sends, [vec![0], vec![1], vec![]]);
}

#[test]
fn main_goes_on_after_its_answers_and_waits_for_no_other_handler() {
    // Main creates actors at 2 ms, and has the answer after a round trip and 1 ms. It starts
    // them. One of the two is done at 33 ms, and main creates something else at 40 ms. A reduction
    // needs both, and the job ends 4 ms later, while a third handler still runs.
    let sent = vec![sent(0, 23, 0), sent(0, 23, 1)];
    let answers = vec![
        answered(MainWait::EachPe, [2, 23]),
        answered(MainWait::EachPe, [40, 62]),
        answered(MainWait::Contributions, [62, 85]),
    ];
    let done = [done(0, 33), done(1, 80), done(2, 90)];

    let beside = Beside { sent, answers, end_ns: 89 * MS };
    let (barriers, barrier_of) = barriers(beside, &done, &grid(), true);

    assert_eq!(barrier_of, [3, 3, NO_BARRIER]);
    let found = parts(&barriers);
    assert_eq!(found, [(0, 0, 1, 1), (0, 0, 0, 0), (0, 0, 1, 2), (2, 0, 0, 5), (0, 0, 0, 4)]);
    // Main requests the second creation 17 ms after it has sent.
    let request = barriers[2].request.unwrap();
    assert_eq!((request.after, request.since_ns), (Some(1), 17 * MS));
    assert_eq!(barriers[0].request.map(|request| request.after), Some(None));
    assert_eq!(barriers[1].sends, [0, 1]);
}

#[test]
fn an_answer_of_an_actor_waits_for_the_handler_that_answered() {
    let of_actor = Answered { handling: Some(1), ..answered(MainWait::Actor, [10, 50]) };
    let answers = vec![of_actor, answered(MainWait::Contributions, [50, 70])];
    let done = [done(0, 30), done(1, 45), done(2, 65)];
    let beside = Beside { sent: Vec::new(), answers, end_ns: 70 * MS };
    let (barriers, barrier_of) = barriers(beside, &done, &grid(), true);
    assert_eq!(barrier_of, [1, 0, 1]);
    assert_eq!(parts(&barriers), [(1, 0, 0, 5), (2, 0, 0, 5), (0, 0, 0, 0)]);
}

#[test]
fn requests_that_main_makes_at_a_time_take_their_round_trips_together() {
    let answers = vec![answered(MainWait::EachPe, [5, 26]), answered(MainWait::EachPe, [5, 27])];
    let beside = Beside { sent: Vec::new(), answers, end_ns: 27 * MS };
    let (barriers, _) = barriers(beside, &[], &grid(), true);
    assert_eq!(parts(&barriers), [(0, 0, 1, 1), (0, 0, 1, 1), (0, 0, 0, 0)]);
    let after: Vec<_> = barriers[..2].iter().map(|it| it.request.unwrap().after).collect();
    assert_eq!(after, [None, None]);
}

#[test]
fn quiescence_takes_rounds_after_the_last_handler() {
    // Two round trips of 20 ms after the handler, and a pause of 3 ms.
    let answers = vec![answered(MainWait::Quiescence, [1, 73])];
    let beside = Beside { sent: Vec::new(), answers, end_ns: 73 * MS };
    let (barriers, _) = barriers(beside, &[done(0, 30)], &grid(), true);
    assert_eq!(parts(&barriers), [(1, 2, 2, 3), (0, 0, 0, 0)]);
}

#[test]
fn measurements_of_links_take_two_round_trips_unless_they_are_known() {
    let answers = vec![answered(MainWait::Links, [0, 205]), answered(MainWait::Links, [210, 211])];
    let beside = Beside { sent: Vec::new(), answers, end_ns: 211 * MS };
    let (barriers, _) = barriers(beside, &[], &grid(), true);
    assert_eq!(parts(&barriers), [(0, 2, 2, 165), (0, 0, 0, 1), (0, 0, 0, 0)]);
}

#[test]
fn a_sleep_counts_unless_main_waits_for_something_else_meanwhile() {
    let slept = answered(MainWait::Time, [10, 60]);
    let alone = causes_among(vec![slept, answered(MainWait::EachPe, [60, 81])]);
    assert_eq!(alone.len(), 2);
    let reduced = answered(MainWait::Contributions, [5, 90]);
    assert_eq!(causes_among(vec![slept, reduced]), [reduced]);

    let beside = Beside { sent: Vec::new(), answers: vec![slept], end_ns: 61 * MS };
    let (barriers, _) = barriers(beside, &[], &grid(), true);
    let request = barriers[0].request.unwrap();
    assert_eq!((request.since_ns, barriers[0].rest_ns), (60 * MS, 0.0));
}

#[test]
fn questions_one_after_the_other_are_different_events() {
    // An actor on the other PE answers each question after 20 ms. Messages of one broadcast may
    // seem to be about that far apart.
    let sent = vec![sent(0, 0, 0), sent(0, 20, 1), sent(0, 20, 2)];
    let of_actor =
        |handling, times| Answered { handling: Some(handling), ..answered(MainWait::Actor, times) };
    let answers = vec![of_actor(0, [0, 20]), of_actor(1, [20, 40])];
    let done = [done(0, 20), done(1, 40), done(2, 40)];
    let beside = Beside { sent: sent.clone(), answers, end_ns: 40 * MS };
    let (found, barrier_of) = barriers(beside, &done, &grid(), true);
    let sends: Vec<_> = found.iter().map(|barrier| barrier.sends.clone()).collect();
    assert_eq!(sends, [vec![0], vec![], vec![1, 2], vec![], vec![]]);
    assert_eq!(barrier_of, [1, 3, NO_BARRIER]);
    // Without answers, the questions could be one event.
    let beside = Beside { sent, answers: Vec::new(), end_ns: 40 * MS };
    assert_eq!(barriers(beside, &done, &grid(), true).0.len(), 2);
}

#[test]
fn what_the_runtime_sends_waits_for_all_that_it_could_know() {
    let result = FromMain { origin: Origin::Runtime, ..sent(0, 40, 1) };
    let beside = |answers| Beside { sent: vec![result], answers, end_ns: 90 * MS };
    let answers = vec![answered(MainWait::EachPe, [2, 23])];
    let (_, barrier_of) = barriers(beside(answers), &[done(0, 30), done(1, 60)], &grid(), true);
    assert_eq!(barrier_of, [1, NO_BARRIER]);
}
