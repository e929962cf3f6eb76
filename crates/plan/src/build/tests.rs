//! Graphs of recordings that are made by hand.

use super::*;
use crate::fixtures::{Exchange, MS};

fn exchange() -> Exchange {
    Exchange { rounds: 5, compute_ns: [2 * MS, 3 * MS], latency_ns: 10 * MS }
}

#[test]
fn an_exchange_becomes_two_actors_that_fire_in_each_round() {
    let (trace, costs) = build(&exchange().recording()).unwrap();
    assert_eq!((trace.kinds.as_slice(), trace.pes), (&["Patch".to_owned()][..], 2));
    assert_eq!(trace.actors.len(), 2);
    assert_eq!((trace.handlings.len(), trace.firings.len(), trace.rounds), (10, 10, 5));
    assert!(!trace.has_steps);
    let work = trace.work_by_actor();
    assert_eq!(work, [10e6, 15e6]);
    // The last message to each is not answered.
    let sends: usize = trace.firings.iter().map(|firing| firing.sends.len()).sum();
    assert_eq!(sends, 8);
    // Main sends to both, and then waits for all.
    let waits: Vec<u32> = trace.barriers.iter().map(|barrier| barrier.waits).collect();
    assert_eq!(waits, [0, 10]);
    assert_eq!(trace.barriers[0].sends.len(), 2);
    assert_eq!((costs.packet_ns, costs.casts.len()), (0.0, 0));
}

#[test]
fn work_is_that_of_an_ordinary_pe() {
    let mut recording = exchange().recording();
    recording.header.pes[1].speed = 0.5;
    let (trace, _) = build(&recording).unwrap();
    assert_eq!(trace.work_by_actor(), [10e6, 7.5e6]);
}

#[test]
fn rounds_are_steps_where_messages_have_some() {
    let mut recording = exchange().recording();
    for record in &mut recording.pes {
        for (step, span) in (20..).zip(&mut record.spans[1..]) {
            span.step = Some(step);
        }
    }
    let (trace, _) = build(&recording).unwrap();
    assert!(trace.has_steps);
    assert_eq!(trace.rounds, 4);
    let last = trace.handlings.iter().filter_map(|handling| handling.round).max();
    assert_eq!(last, Some(3));
}

#[test]
fn missing_senders_are_refused() {
    let mut recording = exchange().recording();
    recording.pes[0].spans.remove(2);
    assert_eq!(build(&recording).err(), Some(ForecastError::Sampled { percent: 12 }));
}

#[test]
fn actors_that_wait_for_tasks_are_refused() {
    let mut recording = exchange().recording();
    for span in &mut recording.pes[0].spans {
        (span.kind, span.actor) = (gridspan_record::TASK, 0);
    }
    assert_eq!(build(&recording).err(), Some(ForecastError::ActorsOfTasks));
}

#[test]
fn causes_that_wait_for_each_other_are_refused() {
    let mut recording = exchange().recording();
    for span in recording.pes.iter_mut().flat_map(|record| &mut record.spans) {
        span.begin_ns = 7;
        if let Some(cause) = &mut span.cause {
            cause.span = Some(span.number);
        }
    }
    // All spans on the first PE come before their causes.
    assert_eq!(build(&recording).err(), Some(ForecastError::Sampled { percent: 50 }));
}
