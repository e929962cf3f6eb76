//! Tests of the diagnosis on recordings that are built by hand.

use super::{Diagnosis, Limit, LimitKind, Verdict};
use crate::report::analysis::Analysis;
use crate::report::analysis::fixtures::{MS, busy_bin, complete, from, from_main, recording, span};
use gridspan_record::{
    Bin, RebalanceTrigger, RecordedEvent, Recording, SentTo, Span, TASK, TypeTotal, What,
};

/// What each PE does in a step: the times in ms that its actors compute, one after the other.
pub(super) type Works<'a> = [&'a [u64]];

/// Adds a step, which begins on all PEs at `begin_ms`. Messages of `by`, the last span before it,
/// start the step. Returns when it ends, and which PE ends last with which span.
pub(super) fn add_step(
    recording: &mut Recording,
    begin_ms: u64,
    by: Option<(u32, u64)>,
    works: &Works<'_>,
) -> (u64, Option<(u32, u64)>) {
    let (mut end_ms, mut last) = (begin_ms, by);
    for (record, works) in recording.pes.iter_mut().zip(works) {
        let mut at = begin_ms;
        for (actor, ms) in (1..).zip(*works) {
            let number = record.spans.len() as u64;
            let cause = by.and_then(|(pe, number)| from(pe, number, [begin_ms, begin_ms]));
            let actor = u64::from(record.pe) * 100 + actor;
            let times = [at, at + ms];
            record.spans.push(Span { actor, cause, ..span(record.pe, number, times) });
            at += ms;
            if at > end_ms {
                (end_ms, last) = (at, Some((record.pe, number)));
            }
        }
    }
    (end_ms, last)
}

/// Runs the same step several times.
fn run(recording: &mut Recording, count: usize, works: &Works<'_>) -> u64 {
    let (mut end, mut by) = (0, None);
    for _ in 0..count {
        (end, by) = add_step(recording, end, by, works);
    }
    complete(recording, end);
    end
}

pub(super) fn diagnosis(recording: &Recording) -> Diagnosis {
    Analysis::of(recording).diagnosis
}

/// Returns the first limit, which must have this kind and about this share.
pub(super) fn first(recording: &Recording, kind: LimitKind, share: f64) -> Limit {
    let diagnosis = diagnosis(recording);
    assert_eq!(diagnosis.verdict, Verdict::Limited, "{diagnosis:#?}");
    let first = diagnosis.limits[0].clone();
    assert_eq!(first.kind, kind, "{diagnosis:#?}");
    assert!((first.share - share).abs() < 0.01, "{share}: {diagnosis:#?}");
    assert!(diagnosis.sentence.starts_with("What limited the run: "), "{}", diagnosis.sentence);
    first
}

#[test]
fn a_slow_pe_is_named() {
    let mut recording = recording(1, 4);
    recording.header.pes[2].speed = 0.25;
    run(&mut recording, 10, &[&[2], &[2], &[8], &[2]]);
    let limit = first(&recording, LimitKind::SlowPe, 18.0 / 32.0);
    assert_eq!(limit.place, "PE 2 (node a/2)");
    assert_eq!(limit.clause, "PE 2 (node a/2) is slow, with 25 % of the usual speed");
    assert_eq!(limit.evidence, "others wait for 1 PE with less than 85 % of the usual speed");
}

#[test]
fn waits_between_others_count_to_the_overloaded_pe() {
    // In each step PE 0 computes for 6 ms. Meanwhile PE 1 computes for 2 ms, and after it PE 2.
    let mut recording = recording(1, 3);
    for step in 0..10_u64 {
        let at = step * 6;
        let by_first = step.checked_sub(1).and_then(|before| from(0, before, [at, at]));
        let by_second = from(1, step, [at + 2, at + 2]);
        recording.pes[0].spans.push(span(0, step, [at, at + 6]));
        recording.pes[1].spans.push(Span { cause: by_first, ..span(1, step, [at, at + 2]) });
        recording.pes[2].spans.push(Span { cause: by_second, ..span(2, step, [at + 2, at + 4]) });
    }
    complete(&mut recording, 60);
    let limit = first(&recording, LimitKind::HotActor, 8.0 / 18.0);
    assert_eq!(limit.place, "PE 0 (node a/0)");
    assert_eq!(diagnosis(&recording).limits.len(), 1);
}

#[test]
fn a_slow_site_is_named() {
    let mut recording = recording(2, 2);
    recording.header.pes[2].speed = 0.5;
    recording.header.pes[3].speed = 0.5;
    run(&mut recording, 10, &[&[2], &[2], &[4], &[4]]);
    assert_eq!(first(&recording, LimitKind::SlowSite, 0.25).place, "site b");
}

#[test]
fn a_pe_that_is_half_slow_and_half_overloaded_has_both_limits() {
    let mut recording = recording(1, 4);
    recording.header.pes[2].speed = 0.5;
    // Twice the work, at half of the speed.
    run(&mut recording, 10, &[&[1, 1], &[1, 1], &[4, 4], &[1, 1]]);
    let limits = diagnosis(&recording).limits;
    let share = |kind| limits.iter().find(|limit| limit.kind == kind).map(|limit| limit.share);
    let half = 18.0 / 64.0;
    for kind in [LimitKind::SlowPe, LimitKind::Imbalance] {
        assert!(share(kind).is_some_and(|share| (share - half).abs() < 0.01), "{limits:#?}");
    }
}

#[test]
fn foreign_load_counts_with_what_others_waited_for_it() {
    let mut recording = recording(1, 4);
    run(&mut recording, 10, &[&[2], &[2], &[6], &[2]]);
    for bin in &mut recording.pes[2].bins {
        *bin = Bin { busy_ns: vec![(0, MS / 3)], waited_ns: 2 * MS / 3, ..Bin::default() };
    }
    let limit = first(&recording, LimitKind::ForeignLoad, 0.5 + 1.0 / 6.0);
    assert_eq!(limit.place, "node a/2");
}

#[test]
fn an_overloaded_pe_is_named() {
    let mut recording = recording(1, 4);
    run(&mut recording, 5, &[&[1; 4], &[3; 4], &[1; 4], &[1; 4]]);
    assert_eq!(first(&recording, LimitKind::Imbalance, 0.5).place, "PE 1 (node a/1)");
}

#[test]
fn a_hot_actor_is_told_from_an_overloaded_pe() {
    let mut recording = recording(1, 4);
    run(&mut recording, 5, &[&[1; 4], &[1, 9, 1, 1], &[1; 4], &[1; 4]]);
    let limit = first(&recording, LimitKind::HotActor, 0.5);
    assert!(limit.clause.starts_with("one actor of type Worker on PE 1 "), "{}", limit.clause);
}

#[test]
fn an_overloaded_site_is_named() {
    let mut recording = recording(2, 2);
    run(&mut recording, 5, &[&[3, 3], &[3, 3], &[1, 1], &[1, 1]]);
    assert_eq!(first(&recording, LimitKind::SiteImbalance, 1.0 / 3.0).place, "site a");
}

#[test]
fn a_load_that_moves_is_told_from_one_that_stays() {
    let mut recording = recording(1, 4);
    let (mut end, mut by) = (0, None);
    for step in 0..12 {
        let mut works: [&[u64]; 4] = [&[2]; 4];
        works[step % 4] = &[6];
        (end, by) = add_step(&mut recording, end, by, &works);
    }
    complete(&mut recording, end);
    first(&recording, LimitKind::MovingImbalance, 0.5);
}

#[test]
fn too_few_actors_leave_pes_without_work() {
    let mut recording = recording(1, 4);
    run(&mut recording, 5, &[&[6], &[6], &[], &[]]);
    assert_eq!(first(&recording, LimitKind::TooFewActors, 0.5).place, "2 of 4 PEs");
}

#[test]
fn a_chain_of_handlers_uses_one_pe_at_a_time() {
    let mut recording = recording(1, 4);
    let mut before = None;
    for turn in 0..20_u32 {
        let (pe, at) = (turn % 4, u64::from(turn) * 2);
        let number = recording.pes[pe as usize].spans.len() as u64;
        let cause = before.and_then(|(pe, number)| from(pe, number, [at, at]));
        let next = Span { cause, ..span(pe, number, [at, at + 2]) };
        recording.pes[pe as usize].spans.push(next);
        before = Some((pe, number));
    }
    complete(&mut recording, 40);
    first(&recording, LimitKind::SerialChain, 0.75);
}

#[test]
fn a_flood_is_told_from_a_hot_actor() {
    let mut recording = recording(1, 4);
    for pe in 0..3 {
        recording.pes[pe as usize].spans = vec![span(pe, 0, [0, 4])];
    }
    let handled = |at: u64| Span { cause: from(1, 0, [4, 4]), ..span(3, at - 4, [at, at + 1]) };
    recording.pes[3].spans = (4..104).map(handled).collect();
    complete(&mut recording, 104);
    recording.pes[3].bins[5].queue = 90;
    let limit = first(&recording, LimitKind::Flood, 300.0 / 416.0);
    assert_eq!(limit.place, "PE 1 (node a/1) to PE 3 (node a/3)");
    recording.pes[3].bins[5].queue = 3;
    first(&recording, LimitKind::HotActor, 300.0 / 416.0);
}

/// Two PEs at two sites, which compute for 2 ms and exchange messages that take `way_ms`.
fn exchange(way_ms: u64, bytes: u32) -> Recording {
    let mut recording = recording(2, 1);
    let period = way_ms + 2;
    for pe in 0..2_u32 {
        let step = |step: u64| {
            let at = step * period;
            let before = step.checked_sub(1);
            let mut cause = before.and_then(|before| from(1 - pe, before, [at - way_ms, at]));
            cause.iter_mut().for_each(|cause| cause.bytes = bytes);
            Span { cause, ..span(pe, step, [at, at + 2]) }
        };
        recording.pes[pe as usize].spans = (0..10).map(step).collect();
    }
    complete(&mut recording, 9 * period + 2);
    recording
}

#[test]
fn latency_bandwidth_and_losses_of_a_link_are_told_apart() {
    let idle = 270.0 / 290.0;
    let limit = first(&exchange(10, 100), LimitKind::SlowLink, 90.0 / 110.0);
    assert_eq!(limit.place, "the link between a and b");
    // 20 kB take 20 ms at 1 MB/s.
    let limit = first(&exchange(30, 20_000), LimitKind::NarrowLink, idle * 2.0 / 3.0);
    assert_eq!(limit.place, "a → b and b → a");
    let mut lossy = exchange(30, 100);
    lossy.header.links.iter_mut().for_each(|link| link.loss = 0.4);
    let limit = first(&lossy, LimitKind::LossyLink, idle * 2.0 / 3.0);
    assert!(limit.clause.contains("loses packets (40.0 %)"), "{}", limit.clause);
    // All messages are late, though few are lost.
    lossy.header.links.iter_mut().for_each(|link| link.loss = 0.01);
    first(&lossy, LimitKind::LinkDelay, idle * 2.0 / 3.0);
    first(&exchange(30, 100), LimitKind::LinkDelay, idle * 2.0 / 3.0);
}

/// Two PEs that compute for 2 ms of 10, and then wait for main.
fn driven() -> Recording {
    let mut recording = recording(1, 2);
    for pe in 0..2_u32 {
        let step = |step: u64| {
            let at = step * 10;
            let cause = if step > 0 { from_main([at, at]) } else { None };
            Span { cause, ..span(pe, step, [at, at + 2]) }
        };
        recording.pes[pe as usize].spans = (0..10).map(step).collect();
    }
    complete(&mut recording, 92);
    recording
}

#[test]
fn main_and_checkpoints_are_told_apart() {
    let mut recording = driven();
    let limit = first(&recording, LimitKind::Main, 72.0 / 92.0);
    assert_eq!(limit.place, "main on PE 0 (node a/0)");
    let checkpoint = |number: u64| {
        let what = What::Checkpoint { number, bytes: 9, duration_ns: 7 * MS, stopped_ns: None };
        RecordedEvent { at_ns: (number * 10 - 1) * MS, what }
    };
    recording.events = (1..10).map(checkpoint).collect();
    let limit = first(&recording, LimitKind::Checkpoints, 63.0 / 92.0);
    assert!(limit.clause.contains("9 checkpoints of 7.00 ms on average"), "{}", limit.clause);
}

#[test]
fn a_plan_that_made_steps_longer_comes_before_its_effects() {
    let mut recording = recording(1, 2);
    let (mut end, mut by) = (0, None);
    for step in 0..20 {
        let works: [&[u64]; 2] = if step < 10 { [&[1, 1], &[1, 1]] } else { [&[1, 1, 1], &[1]] };
        (end, by) = add_step(&mut recording, end, by, &works);
    }
    let what = What::Balanced {
        trigger: RebalanceTrigger::Request,
        strategy: "random".to_owned(),
        moved: 1,
        bytes: 100,
        predicted_gain: None,
        actual_gain: None,
        pause_ns: 0,
    };
    recording.events = vec![RecordedEvent { at_ns: 20 * MS, what }];
    complete(&mut recording, end);
    let limit = first(&recording, LimitKind::BadPlan, 0.2);
    assert!(limit.clause.ends_with("work per second fell by 33 %"), "{}", limit.clause);
    assert_eq!(diagnosis(&recording).limits.len(), 1, "the imbalance is its effect");
}

#[test]
fn messages_that_cost_more_than_their_handlers_are_a_limit() {
    let mut recording = recording(1, 2);
    complete(&mut recording, 20);
    for bin in recording.pes.iter_mut().flat_map(|record| &mut record.bins) {
        *bin = Bin { network_ns: 6 * MS / 10, ..busy_bin(3 * MS / 10, MS / 10) };
        bin.sent = vec![SentTo { site: 0, messages: 10, bytes: 1000 }];
    }
    first(&recording, LimitKind::SmallGrains, 0.6);
    for bin in recording.pes.iter_mut().flat_map(|record| &mut record.bins) {
        bin.sent = vec![SentTo { site: 0, messages: 10, bytes: 1_000_000 }];
    }
    first(&recording, LimitKind::MessageVolume, 0.6);
    // One message in each ms, and 0.6 ms of the runtime.
    for bin in recording.pes.iter_mut().flat_map(|record| &mut record.bins) {
        bin.sent = vec![SentTo { site: 0, messages: 1, bytes: 100 }];
    }
    let limit = first(&recording, LimitKind::Runtime, 0.6);
    assert!(limit.evidence.contains("600 us for each handler or message"), "{}", limit.evidence);
}

#[test]
fn pes_without_tasks_starve() {
    let mut recording = recording(1, 2);
    let task = |pe, end| Span { kind: TASK, actor: 0, ..span(pe, 0, [0, end]) };
    for (pe, end_ms) in [(0, 40), (1, 5)] {
        recording.pes[pe as usize].spans = vec![task(pe, end_ms)];
    }
    complete(&mut recording, 40);
    for record in &mut recording.pes {
        let total_ns = record.spans[0].duration_ns;
        let total = TypeTotal { number: TASK, count: 1, total_ns, max_ns: total_ns };
        record.totals.push(total);
        record.bins[20].steal_attempts = 25;
        record.bins[20].steals = 1;
    }
    let limit = first(&recording, LimitKind::StarvedTasks, 35.0 / 80.0);
    assert_eq!(limit.place, "PE 1 (node a/1)");
    assert!(limit.clause.contains("2 of 50 requests"), "{}", limit.clause);
}

#[test]
fn a_run_without_waits_is_healthy() {
    let mut recording = recording(2, 2);
    run(&mut recording, 10, &[&[2], &[2], &[2], &[2]]);
    let diagnosis = diagnosis(&recording);
    assert_eq!((diagnosis.verdict, diagnosis.limits.len()), (Verdict::Healthy, 0));
    let wanted =
        "The run is healthy: handlers took 100 % of the time of all PEs, and nothing limited it.";
    assert_eq!(diagnosis.sentence, wanted);
}

#[test]
fn waits_without_a_recorded_reason_are_unknown() {
    let mut recording = recording(1, 2);
    for pe in 0..2_u32 {
        let step = |step: u64| span(pe, step, [step * 10, step * 10 + 2]);
        recording.pes[pe as usize].spans = (0..10).map(step).collect();
    }
    complete(&mut recording, 92);
    let diagnosis = diagnosis(&recording);
    assert_eq!(diagnosis.verdict, Verdict::Unknown, "{diagnosis:#?}");
    let begin = "What limited the run is unknown: PEs waited for 78 % of the time of all PEs";
    assert!(diagnosis.sentence.starts_with(begin), "{}", diagnosis.sentence);
}
