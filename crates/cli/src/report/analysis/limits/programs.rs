//! Tests of the diagnosis on kinds of programs, in recordings that are built by hand.

use super::tests::{add_step, diagnosis, first};
use super::{LimitKind, Verdict};
use crate::report::analysis::fixtures::{MS, complete, from, from_main, recording, span};
use gridspan_record::{Bin, DriverKind, RecordedHost, Recording, Span, SpanCause, TASK, TypeTotal};

#[test]
fn reductions_over_a_wide_area_link_are_its_latency_and_not_main() {
    // PE 0 at site a reduces what both PEs contribute after 2 ms, and sends the result to both. A
    // message between the sites takes 10 ms.
    let mut recording = recording(2, 1);
    for step in 0..20_u64 {
        let told = step * 22;
        let near = if step > 0 { from_main([told, told]) } else { None };
        let far = from_main([told, told + 10]);
        let own = Span { cause: near, ..span(0, step, [told, told + 2]) };
        recording.pes[0].spans.push(own);
        let other = Span { cause: far, ..span(1, step, [told + 10, told + 12]) };
        recording.pes[1].spans.push(other);
    }
    complete(&mut recording, 430);

    // Of each 20 ms that PE 0 waits, PE 1 computes for 2 ms.
    let limit = first(&recording, LimitKind::SlowLink, 740.0 / 860.0);

    assert_eq!(limit.place, "the link between a and b");
    let limits = diagnosis(&recording).limits;
    assert!(limits.iter().all(|limit| limit.kind != LimitKind::Main), "{limits:#?}");
}

#[test]
fn tasks_beside_other_threads_everywhere_are_limited_by_these() {
    let mut recording = recording(1, 2);
    recording.header.driver = DriverKind::Processes;
    for pe in 0..2_u32 {
        let task = Span { kind: TASK, actor: 0, ..span(pe, 0, [0, 30]) };
        recording.pes[pe as usize].spans = vec![task];
    }
    complete(&mut recording, 30);
    for record in &mut recording.pes {
        let total_ns = 30 * MS;
        record.totals.push(TypeTotal { number: TASK, count: 1, total_ns, max_ns: total_ns });
        let busy_ns = vec![(TASK, MS / 4)];
        record.bins.fill(Bin { busy_ns, waited_ns: MS / 4 * 3, ..Bin::default() });
    }

    let limit = first(&recording, LimitKind::ForeignLoad, 0.75);

    let wanted = "other threads use the processors of node a/0 and node a/1";
    assert_eq!(limit.clause, wanted);
}

#[test]
fn more_pes_than_hardware_threads_are_told_from_other_programs() {
    let mut recording = recording(1, 3);
    recording.header.driver = DriverKind::Processes;
    // Two nodes of one PE each share a hardware thread, and one has two for itself.
    recording.header.nodes[1].host = recording.header.nodes[0].host.clone();
    let host = |name: &str, hardware_threads| RecordedHost {
        name: name.to_owned(),
        cores: 1,
        hardware_threads,
    };
    recording.header.hosts = vec![host("h0", 1), host("h2", 2)];
    for pe in 0..3_u32 {
        let task = Span { kind: TASK, actor: 0, ..span(pe, 0, [0, 30]) };
        recording.pes[pe as usize].spans = vec![task];
    }
    complete(&mut recording, 30);
    for (record, waited_ns) in recording.pes.iter_mut().zip([MS / 2, MS / 2, MS / 5]) {
        let total_ns = 30 * MS;
        record.totals.push(TypeTotal { number: TASK, count: 1, total_ns, max_ns: total_ns });
        let busy_ns = vec![(TASK, MS - waited_ns)];
        record.bins.fill(Bin { busy_ns, waited_ns, ..Bin::default() });
    }

    let limit = first(&recording, LimitKind::TooManyPes, 1.0 / 3.0);

    let wanted = "more PEs than hardware threads are on the host of node a/0 and node a/1";
    assert_eq!(limit.clause, wanted);
    let wanted = "host h0 has 1 hardware thread for 2 PEs; a PE there waited for the processor in \
                  50 % of its work";
    assert_eq!(limit.evidence, wanted);
    let limits = diagnosis(&recording).limits;
    let other = limits.iter().find(|limit| limit.kind == LimitKind::ForeignLoad).unwrap();
    assert_eq!(other.place, "node a/2");
    assert!((other.share - 0.2 / 3.0).abs() < 0.01, "{other:?}");

    // The same in a recording that does not know the hosts.
    recording.header.hosts.clear();
    first(&recording, LimitKind::ForeignLoad, 1.2 / 3.0);
}

#[test]
fn the_slow_stage_of_a_pipeline_is_no_flood() {
    // PE 0 makes a message in each ms, PE 1 needs 4 ms for each, and PE 2 needs 1 ms.
    let mut recording = recording(1, 3);
    for item in 0..100_u64 {
        let (made, done) = (item + 1, 5 + item * 4);
        let middle = Span { cause: from(0, item, [made, made]), ..span(1, item, [done - 4, done]) };
        let last = Span { cause: from(1, item, [done, done]), ..span(2, item, [done, done + 1]) };
        recording.pes[0].spans.push(span(0, item, [item, made]));
        recording.pes[1].spans.push(middle);
        recording.pes[2].spans.push(last);
    }
    complete(&mut recording, 402);
    recording.pes[1].bins[100].queue = 75;

    let limit = first(&recording, LimitKind::HotActor, 600.0 / 1206.0);

    assert_eq!(limit.place, "PE 1 (node a/1)");
}

#[test]
fn a_job_that_waits_for_its_timers_has_no_known_limit() {
    let mut recording = recording(1, 4);
    for pe in 0..4_u32 {
        let step = |step: u64| {
            let at = step * 10;
            let at_ns = at * MS;
            let timer = SpanCause { pe, span: None, sent_ns: at_ns, received_ns: at_ns, bytes: 0 };
            Span { cause: Some(timer), ..span(pe, step, [at, at + 2]) }
        };
        recording.pes[pe as usize].spans = (0..10).map(step).collect();
    }
    complete(&mut recording, 92);

    let diagnosis = diagnosis(&recording);

    // A recording does not distinguish timers on PE 0 from messages of main.
    assert_eq!(diagnosis.verdict, Verdict::Unknown, "{diagnosis:#?}");
    let wanted = "What limited the run is unknown: PEs waited for 59 % of the time of all PEs for no \
                  recorded reason";
    assert!(diagnosis.sentence.starts_with(wanted), "{}", diagnosis.sentence);
}

#[test]
fn noise_makes_pes_wait_for_a_different_one_each_time() {
    let mut recording = recording(1, 4);
    let (mut end, mut by) = (0, None);
    for step in 0..24 {
        let mut works: [&[u64]; 4] = [&[4]; 4];
        works[step % 4] = &[6];
        (end, by) = add_step(&mut recording, end, by, &works);
    }
    complete(&mut recording, end);

    let diagnosis = diagnosis(&recording);

    assert_eq!(diagnosis.verdict, Verdict::Unknown, "{diagnosis:#?}");
    let wanted = "What limited the run is unknown: PEs waited for each other for 25 % of the time of \
                  all PEs, for a different PE each time.";
    assert_eq!(diagnosis.sentence, wanted);
}

#[test]
fn slow_handlers_of_a_real_processor_are_told_from_too_many() {
    let mut recording = recording(1, 4);
    recording.header.driver = DriverKind::Processes;
    let (mut end, mut by) = (0, None);
    for _ in 0..10 {
        let works: [&[u64]; 4] = [&[1, 1, 1], &[1, 1, 1], &[2, 2, 2], &[1, 1, 1]];
        (end, by) = add_step(&mut recording, end, by, &works);
    }
    complete(&mut recording, end);

    let limit = first(&recording, LimitKind::SlowHandlers, 9.0 / 24.0);

    assert_eq!(limit.place, "PE 2 (node a/2)");
    assert!(limit.clause.contains("take 2.0 times as long as"), "{}", limit.clause);
}

/// Two sites with a PE each. A PE works for 2 ms of each period, and waits for the other one. One
/// of two windows of 20 ms is kept.
fn sampled(begin_ms: u64, period_ms: u64) -> Recording {
    let way_ms = period_ms - 2;
    let mut recording = recording(2, 1);
    recording.header.links.iter_mut().for_each(|link| link.latency_us = way_ms as f64 * 1e3);
    for pe in 0..2_u32 {
        let step = |step: u64| {
            let at = begin_ms + step * period_ms;
            let cause = step.checked_sub(1).and_then(|it| from(1 - pe, it, [at - way_ms, at]));
            Span { cause, ..span(pe, step, [at, at + 2]) }
        };
        recording.pes[pe as usize].spans = (0..20).map(step).collect();
    }
    complete(&mut recording, begin_ms + 19 * period_ms + 2);
    for record in &mut recording.pes {
        (record.window_ns, record.kept_every) = (20 * MS, 2);
        let all = record.spans.len();
        record.spans.retain(|span| (span.begin_ns / (20 * MS)).is_multiple_of(2));
        record.dropped_spans = (all - record.spans.len()) as u64;
    }
    recording
}

#[test]
fn waits_that_are_longer_than_windows_are_explained_where_they_end() {
    // Of 19 waits of 48 ms in 952 ms, 9 end in windows that are kept. Half of all windows are kept.
    first(&sampled(0, 50), LimitKind::SlowLink, 2.0 * 9.0 * 48.0 / 952.0);
}

#[test]
fn waits_that_end_in_dropped_windows_are_unknown() {
    let hidden = diagnosis(&sampled(20, 40));
    assert_eq!((hidden.verdict, hidden.limits.len()), (Verdict::Unknown, 0), "{hidden:#?}");
    assert!(hidden.unknown_share > 0.9, "{hidden:#?}");
}
