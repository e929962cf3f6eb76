//! Forecasts of graphs that are made by hand.

use super::*;
use crate::fixtures::{Exchange, MS};
use crate::forecast::Bottleneck;
use gridspan_record::{
    MainAnswer, MainWait, PeRecord, RecordedEvent, Span, SpanCause, TASK, TimedSpan, TypeTotal,
};

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
    let narrow = forecast(&model, "2x1,wan=1ms,uplink=10mbit", 1.0);
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
        lost.events = vec![RecordedEvent { at_ns: 1, what }];
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

/// A token goes back and forth between two sites, so that only one of the two PEs works at a time.
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

/// Two PEs at two sites without actors, in a job that ends at this time.
fn without_actors(latency_ns: u64, end_ns: u64) -> Recording {
    let mut recording = Exchange { latency_ns, ..exchange(0, 1) }.recording();
    recording.pes.iter_mut().for_each(|record| record.spans.clear());
    if let Some(ending) = &mut recording.ending {
        ending.at_ns = end_ns;
    }
    recording
}

fn from_main(sent_ns: u64, received_ns: u64) -> Option<SpanCause> {
    Some(SpanCause { sent_ns, received_ns, ..SpanCause::default() })
}

/// Main creates an actor on the other PE, which takes a round trip and 1 ms. Then it asks the
/// actor, which computes for 2 ms and answers. Main does that again.
fn questions(latency_ms: u64) -> Recording {
    let (latency, mut now) = (latency_ms * MS, 0);
    let mut recording = without_actors(latency, 6 * latency + 5 * MS);
    let created = Span { begin_ns: latency, actor: 7, ..Span::default() };
    recording.pes[1].spans.push(created);
    let answered_ns = 2 * latency + MS;
    let wait = MainWait::EachPe;
    recording.pes[0].answers.push(MainAnswer { asked_ns: now, answered_ns, wait, span: None });
    now = answered_ns;
    for number in 1..=2 {
        let begin_ns = now + latency;
        let cause = from_main(now, begin_ns);
        let (duration_ns, actor) = (2 * MS, 7);
        let span = Span { number, begin_ns, duration_ns, actor, cause, ..Span::default() };
        let (asked_ns, answered_ns) = (now, span.end_ns() + latency);
        let (wait, answering) = (MainWait::Actor, Some((1, number)));
        let answer = MainAnswer { asked_ns, answered_ns, wait, span: answering };
        recording.pes[0].answers.push(answer);
        recording.pes[1].spans.push(span);
        now = answered_ns;
    }
    recording
}

#[test]
fn requests_of_main_take_the_round_trips_of_the_grid() {
    let model = JobModel::of(&[&questions(10)]).unwrap();
    for latency_ms in [1, 10, 37] {
        let found = forecast(&model, &format!("2x1,wan={latency_ms}ms"), 1.0);
        // A round trip for the actor, and one for each question.
        assert_eq!(found.total_ns, (3 * 2 * latency_ms + 1 + 2 * 2) * MS, "{latency_ms} ms");
    }
    // On half as fast a PE, the two answers take 2 ms longer each.
    let slow = forecast(&model, "2x1,wan=10ms,speed=1/2", 1.0);
    assert_eq!(slow.total_ns, (60 + 1 + 2 * 4) * MS);
}

#[test]
fn a_recording_without_answers_to_main_is_noted() {
    let is_noted = |recording: &Recording| {
        let model = JobModel::of(&[recording]).unwrap();
        model.notes().iter().any(|note| note.contains("no answers for which main waited"))
    };
    assert!(is_noted(&exchange(10, 12).recording()));
    assert!(!is_noted(&questions(10)));
}

#[test]
fn a_timer_starts_when_its_handler_has_ended() {
    // An actor computes for 1 ms, sleeps for 5 ms, computes for 2 ms, and sends to an actor beside
    // main, which computes for 1 ms and contributes to a reduction.
    let job = |latency: u64, delay_ns: u64| {
        let end_ns = 2 * latency + 9 * MS + 1_000;
        let mut recording = without_actors(latency, end_ns);
        let span = |number, begin_ns, duration_ns, actor, cause| Span {
            number,
            begin_ns,
            duration_ns,
            actor,
            cause,
            ..Span::default()
        };
        let sent_ns = latency + 8 * MS;
        let received_ns = sent_ns + latency;
        let told = SpanCause { pe: 1, span: Some(1), sent_ns, received_ns, bytes: 0 };
        recording.pes[1].spans = vec![
            span(0, latency, MS, 7, from_main(0, latency)),
            span(1, latency + 6 * MS, 2 * MS, 7, None),
        ];
        recording.pes[1].timed = vec![TimedSpan { number: 1, set_by: 0, delay_ns }];
        recording.pes[0].spans = vec![span(0, received_ns, MS, 8, Some(told))];
        let wait = MainWait::Contributions;
        let reduced = MainAnswer { asked_ns: 0, answered_ns: end_ns, wait, span: None };
        recording.pes[0].answers = vec![reduced];
        recording
    };
    // The handler may have set the timer at its begin, so that 1 ms of the delay was over at its
    // end. A timer of 3 ms was due before the PE, which was busy, could handle its message.
    for (delay_ms, slept_ms) in [(5, 5), (6, 5), (3, 3)] {
        let model = JobModel::of(&[&job(10 * MS, delay_ms * MS)]).unwrap();
        for latency_ms in [1, 10, 37] {
            let found = forecast(&model, &format!("2x1,wan={latency_ms}ms"), 1.0);
            let took_ns = (2 * latency_ms + 4 + slept_ms) * MS + 1_000;
            assert_eq!(found.total_ns, took_ns, "{delay_ms} ms, {latency_ms} ms");
        }
    }
}

#[test]
fn a_job_ends_after_the_last_answer_whatever_still_runs() {
    let mut recording = questions(10);
    // The actor sends itself a message with its last answer, and computes for a second.
    let begin_ns = 65 * MS;
    let cause = Some(SpanCause { pe: 1, span: Some(2), sent_ns: begin_ns, ..SpanCause::default() });
    let late =
        Span { number: 3, begin_ns, duration_ns: 1_000 * MS, actor: 7, cause, ..Span::default() };
    recording.pes[1].spans.push(late);
    let model = JobModel::of(&[&recording]).unwrap();
    let found = forecast(&model, "2x1,wan=37ms", 1.0);
    assert_eq!(found.total_ns, (3 * 2 * 37 + 1 + 2 * 2) * MS);
}

#[test]
fn what_is_sent_after_two_messages_waits_for_the_later_one() {
    // Main starts a sender on each PE, which compute for 5 ms here and 1 ms there. A collector on
    // this PE awaits both messages, computes for 2 ms, and sends to a sink on the other PE, which
    // computes for 1 ms and contributes to a reduction.
    let ends_ns = |latency: u64| {
        let collected = (5 * MS).max(2 * latency + MS);
        collected + 2 * MS + latency + MS + latency + 1_000
    };
    let latency = MS;
    let mut recording = without_actors(latency, ends_ns(latency));
    let names = ["Sender", "Collector", "Sink"].map(str::to_owned);
    recording.pes.iter_mut().for_each(|record| record.types = names.to_vec());
    let span = |number, [begin_ms, duration_ms]: [u64; 2], kind, cause| Span {
        number,
        begin_ns: begin_ms * MS,
        duration_ns: duration_ms * MS,
        kind,
        actor: u64::from(kind) + 10,
        cause,
        ..Span::default()
    };
    let from = |pe, span, [sent_ms, received_ms]: [u64; 2]| {
        let (sent_ns, received_ns) = (sent_ms * MS, received_ms * MS);
        Some(SpanCause { pe, span: Some(span), sent_ns, received_ns, bytes: 0 })
    };
    let there = Span { actor: 20, ..span(0, [1, 1], 0, from_main(0, latency)) };
    // The message of the other PE comes first in the recording, while this PE computes.
    recording.pes[0].spans = vec![
        span(0, [0, 5], 0, from_main(0, 0)),
        span(1, [5, 0], 1, from(1, 0, [2, 3])),
        span(2, [5, 2], 1, from(0, 0, [5, 5])),
    ];
    recording.pes[1].spans = vec![there, span(1, [8, 1], 2, from(0, 2, [7, 8]))];
    let (answered_ns, wait) = (ends_ns(latency), MainWait::Contributions);
    recording.pes[0].answers = vec![MainAnswer { asked_ns: 0, answered_ns, wait, span: None }];
    let model = JobModel::of(&[&recording]).unwrap();
    for latency_ms in [1, 2, 10, 37] {
        let found = forecast(&model, &format!("2x1,wan={latency_ms}ms"), 1.0);
        assert_eq!(found.total_ns, ends_ns(latency_ms * MS), "{latency_ms} ms");
    }
}
