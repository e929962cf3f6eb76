//! Forecasts of graphs that are made by hand.

use super::*;
use crate::fixtures::{Exchange, MS};
use gridspan_record::{Happening, PeRecord, Span, SpanCause, TASK, TypeTotal};

fn exchange(latency_ms: u64, rounds: usize) -> Exchange {
    Exchange { rounds, compute_ns: [2 * MS, 3 * MS], latency_ns: latency_ms * MS }
}

fn grid(text: &str) -> GridSpec {
    GridSpec::from_emulate(text).unwrap()
}

fn forecast(model: &JobModel, text: &str, times: f64) -> JobForecast {
    model.forecast(&grid(text), &ActorPlacement::Created, times).unwrap()
}

#[test]
fn another_latency_is_predicted_exactly() {
    let recording = exchange(10, 12).recording();
    let model = JobModel::of(&[&recording]).unwrap();
    for latency_ms in [1, 10, 37] {
        let found = forecast(&model, &format!("2x1,wan={latency_ms}ms"), 1.0);
        assert_eq!(found.total_ns, exchange(latency_ms, 12).end_ns(), "{latency_ms} ms");
        assert_eq!(found.steps, 11);
        let again = exchange(latency_ms, 12).recording();
        let recorded = JobModel::of(&[&again]).unwrap().recorded_step_ns();
        assert_eq!(found.step_ns, recorded);
    }
}

#[test]
fn a_longer_job_has_more_steps_of_the_same_length() {
    let recording = exchange(10, 21).recording();
    let model = JobModel::of(&[&recording]).unwrap();
    let found = forecast(&model, "2x1,wan=25ms", 10.0);
    let truth = exchange(25, 201).end_ns();
    let error = found.total_ns as f64 / truth as f64 - 1.0;
    assert!(error.abs() < 0.01, "{} instead of {truth}", found.total_ns);
}

#[test]
fn one_pe_does_the_work_of_two_and_waits_for_nothing() {
    let recording = exchange(10, 12).recording();
    let model = JobModel::of(&[&recording]).unwrap();
    let found = forecast(&model, "1x1", 1.0);
    assert_eq!(found.total_ns, 12 * (2 + 3) * MS);
    assert_eq!(found.bottleneck, Some(Bottleneck::Computing));
    assert_eq!((found.pes[0].actors, found.links.len()), (2, 0));
    let slow = forecast(&model, "1x1,speed=1/2", 1.0);
    assert_eq!(slow.total_ns, 2 * found.total_ns);
}

#[test]
fn links_and_limits_are_those_of_the_grid() {
    let mut recording = exchange(10, 12).recording();
    let spans = recording.pes.iter_mut().flat_map(|record| &mut record.spans);
    spans.filter_map(|span| span.cause.as_mut()).for_each(|cause| cause.bytes = 100_000);
    let model = JobModel::of(&[&recording]).unwrap();

    let fast = forecast(&model, "2x1,wan=10ms", 1.0);
    assert_eq!(fast.bottleneck, Some(Bottleneck::Latency));
    let packets: Vec<_> =
        fast.links.iter().map(|link| (link.from, link.to, link.packets)).collect();
    // One of main's messages crosses the link, too.
    assert_eq!(packets, [(0, 1, 12), (1, 0, 11)]);
    assert_eq!(fast.links[1].bytes, 1_100_000);

    // 100 kB take 80 ms at 10 Mbit/s.
    let narrow = forecast(&model, "2x1,wan=1ms,rate=10mbit", 1.0);
    assert_eq!(narrow.bottleneck, Some(Bottleneck::Bandwidth { from: 0, to: 1 }));
    assert!(narrow.total_ns > 12 * 80 * MS, "{narrow:?}");
}

#[test]
fn a_larger_problem_takes_longer_by_the_power_that_two_sizes_show() {
    let small = Exchange { compute_ns: [2 * MS, 3 * MS], ..exchange(10, 8) };
    let large = Exchange { compute_ns: [8 * MS, 12 * MS], ..exchange(10, 8) };
    let (first, second) = (small.recording(), large.recording());
    let sized = [
        SizedRecording { recording: &first, size: 100.0 },
        SizedRecording { recording: &second, size: 200.0 },
    ];
    let model = JobModel::of_size(sized, 400.0).unwrap();
    let truth = Exchange { compute_ns: [32 * MS, 48 * MS], ..exchange(20, 8) };
    let found = forecast(&model, "2x1,wan=20ms", 1.0);
    let error = found.total_ns.abs_diff(truth.end_ns());
    assert!(error < 1_000, "{} instead of {}", found.total_ns, truth.end_ns());
}

#[test]
fn incomplete_recordings_are_refused() {
    let mut sampled = exchange(10, 12).recording();
    sampled.pes[0].dropped_spans = 12;
    assert_eq!(JobModel::of(&[&sampled]).err(), Some(ForecastError::Sampled { percent: 34 }));
    let mut lost = exchange(10, 12).recording();
    for what in [What::Lost { nodes: vec![1] }, What::Left { node: 1 }, What::Joined { node: 1 }] {
        lost.happenings = vec![Happening { at_ns: 1, what }];
        assert_eq!(JobModel::of(&[&lost]).err(), Some(ForecastError::NodesChanged));
    }
    assert_eq!(JobModel::of(&[]).err(), Some(ForecastError::Empty));
    assert_eq!(JobModel::of(&[&Recording::default()]).err(), Some(ForecastError::Empty));
}

#[test]
fn a_cut_link_is_named() {
    let recording = exchange(10, 4).recording();
    let model = JobModel::of(&[&recording]).unwrap();
    let cut = model.forecast(&grid("2x1,wan=1ms,loss=100%"), &ActorPlacement::Created, 1.0);
    assert!(matches!(cut, Err(ForecastError::CutLink { .. })), "{cut:?}");
}

/// A token goes to and fro between two sites, so that only one of the two PEs works at a time.
fn token(latency_ns: u64) -> Recording {
    let mut recording = Exchange { latency_ns, ..exchange(0, 1) }.recording();
    recording.pes.iter_mut().for_each(|record| record.spans.clear());
    let passes = 24;
    for pass in 0..passes {
        let (pe, number, begin_ns) = (pass % 2, pass / 2, pass * (2 * MS + latency_ns));
        let cause = pass.checked_sub(1).map(|before| SpanCause {
            pe: (before % 2) as u32,
            span: Some(before / 2),
            sent_ns: begin_ns - latency_ns,
            received_ns: begin_ns,
            bytes: 0,
        });
        let (duration_ns, actor) = (2 * MS, pe + 100);
        let span = Span { number, begin_ns, duration_ns, actor, cause, ..Span::default() };
        recording.pes[pe as usize].spans.push(span);
    }
    if let Some(ending) = &mut recording.ending {
        ending.at_ns = passes * (2 * MS + latency_ns);
    }
    recording
}

#[test]
fn latency_limits_only_what_would_be_shorter_without_it() {
    let recording = token(10 * MS);
    let model = JobModel::of(&[&recording]).unwrap();
    let limit = |text| forecast(&model, text, 1.0).bottleneck;
    assert_eq!(limit("2x1,wan=10ms"), Some(Bottleneck::Latency));
    assert_eq!(limit("2x1,wan=10us"), Some(Bottleneck::Waiting));
    assert_eq!(limit("1x2"), Some(Bottleneck::Waiting));
}

#[test]
fn more_steps_need_a_recording_of_some() {
    let recording = exchange(10, 2).recording();
    let model = JobModel::of(&[&recording]).unwrap();
    let with = |times| model.forecast(&grid("2x1,wan=1ms"), &ActorPlacement::Created, times);
    assert!(with(1.0).is_ok());
    assert_eq!(with(3.0), Err(ForecastError::NoSteps));
    for times in [0.0, -1.0, f64::NAN, f64::INFINITY] {
        assert_eq!(with(times), Err(ForecastError::Times), "{times}");
    }
}

#[test]
fn recordings_that_do_not_belong_together_are_refused_or_noted() {
    let (first, mut second) = (exchange(10, 8).recording(), exchange(20, 8).recording());
    let both = JobModel::of(&[&first, &second]).unwrap();
    assert!(both.notes().iter().any(|note| note.contains("the last one")), "{:?}", both.notes());
    second.header.job = "stencil".to_owned();
    let refused = JobModel::of(&[&first, &second]).err();
    assert!(matches!(refused, Some(ForecastError::OtherJob { .. })), "{refused:?}");

    let totals = vec![TypeTotal { number: TASK, count: 9, total_ns: 9 * MS, max_ns: MS }];
    let pes = vec![PeRecord { totals, ..PeRecord::default() }];
    let tasks = Recording { pes, ..first };
    let sized = [1.0, 2.0].map(|size| SizedRecording { recording: &tasks, size });
    assert_eq!(JobModel::of_size(sized, 4.0).err(), Some(ForecastError::SizedTasks));
}

#[test]
fn absurd_times_and_links_give_a_result() {
    let mut recording = exchange(10, 12).recording();
    for span in recording.pes.iter_mut().flat_map(|record| &mut record.spans) {
        (span.duration_ns, span.step) = (1 << 61, Some(u64::MAX));
        if let Some(cause) = span.cause.as_mut().filter(|cause| cause.span.is_some()) {
            (cause.sent_ns, cause.bytes) = (u64::MAX >> 2, u32::MAX);
        }
    }
    for link in &mut recording.header.links {
        (link.latency_us, link.bytes_per_second) = (f64::MAX, Some(f64::MIN_POSITIVE));
    }
    let model = JobModel::of(&[&recording]).unwrap();
    let found = forecast(&model, "2x1,wan=1ms,rate=1mbit", 1.0);
    assert_eq!(found.total_ns, u64::MAX, "twelve times 2^61 ns, which fit no number");
}
