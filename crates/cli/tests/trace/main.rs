//! `gridctl trace` and `gridctl compare`: recordings of simulated jobs, and some made by hand.
#![allow(missing_docs, unreachable_pub, clippy::unwrap_used)]

#[path = "../common/mod.rs"]
mod common;
mod declared;
mod perfetto;
mod published;

use common::{Output, run};
use declared::declared;
use gridspan_record::{
    Bin, Header, JobEnding, PeRecord, RecordedNode, RecordedPe, Recording, SentTo, Span, SpanCause,
};
use perfetto::{COUNTER, INSTANT, SLICE_BEGIN, SLICE_END, Trace};
use published::{PUBLISHED, Schema};
use serde_json::Value;
use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Variable with the path of Perfetto's trace processor. If it is set, that program reads a trace.
const TRACE_PROCESSOR: &str = "GRIDSPAN_TRACE_PROCESSOR";
/// Variable with the path of the published schema, a `FileDescriptorProto`; `.ci/perfetto` gets it.
const DESCRIPTOR: &str = "GRIDSPAN_PERFETTO_DESCRIPTOR";
/// The file that `gridctl trace` writes into a recording.
const FILE: &str = "trace.perfetto-trace";

/// Simulates a job, and returns the folder of its recording.
fn record(folder: &Path, name: &str, flags: &[&str], job: &[&str]) -> PathBuf {
    let recording = folder.join(name);
    let record = ["sim", "--record", recording.to_str().unwrap()];
    let output = run(&[&record[..], flags, job].concat());
    assert_eq!(output.code, Some(0), "{output:?}");
    recording
}

/// Writes the trace of a recording with gridctl, and reads it.
fn trace(folder: &Path) -> (Trace, Output) {
    let output = run(&["trace", folder.to_str().unwrap()]);
    assert_eq!(output.code, Some(0), "{output:?}");
    let recording = Recording::read(folder).unwrap();
    let bytes = std::fs::read(folder.join(FILE)).unwrap();
    (Trace::read(&bytes, recording.end_ns()), output)
}

/// Number of messages between spans that were kept.
fn messages(recording: &Recording) -> usize {
    let spans = recording.pes.iter().flat_map(|record| &record.spans);
    let is_kept = |cause: &SpanCause| {
        let sender = recording.pes.iter().filter(|record| record.pe == cause.pe);
        let mut spans = sender.flat_map(|record| &record.spans);
        spans.any(|span| Some(span.number) == cause.span)
    };
    spans.filter_map(|span| span.cause.as_ref()).filter(|cause| is_kept(cause)).count()
}

#[test]
fn the_trace_of_a_simulated_job_has_all_of_its_spans_messages_and_links() {
    let folder = tempfile::tempdir().unwrap();
    let grid = ["--emulate", "2x2,wan=10ms"];
    let folder = record(folder.path(), "r", &grid, &["ring", "--rounds", "3"]);
    let (trace, output) = trace(&folder);
    let recording = Recording::read(&folder).unwrap();

    let spans: usize = recording.pes.iter().map(|record| record.spans.len()).sum();
    assert!(spans > 100, "each of 64 actors ran three times: {spans}");
    assert_eq!(recording.dropped_share(), 0.0);
    assert_eq!(trace.slices().count(), spans);
    assert!(trace.flows.len() > 50, "{}", trace.flows.len());
    assert_eq!(trace.flows.len(), messages(&recording));
    for record in &recording.pes {
        let track = trace.track(&format!("pe{}", record.pe));
        let slices: Vec<_> = trace
            .on(track)
            .into_iter()
            .filter(|event| event.kind == perfetto::SLICE_BEGIN)
            .collect();
        assert_eq!(slices.len(), record.spans.len());
        for (slice, span) in slices.iter().zip(&record.spans) {
            assert_eq!(slice.at_ns, span.begin_ns);
            assert_eq!(slice.name.as_deref(), Some(record.type_name(span.kind)));
        }
        let process = recording.header.pes[record.pe as usize].node;
        let process = trace
            .tracks
            .values()
            .find(|it| it.tid.is_none() && it.pid == track.pid)
            .map(|it| it.name.as_str())
            .zip(recording.header.nodes.get(process as usize));
        let (name, node) = process.unwrap();
        assert!(name.ends_with(&node.name) && name.contains('/'), "{name} of {node:?}");
    }
    for link in ["a > b", "b > a"] {
        let values = trace.on(trace.track(link));
        assert!(values.iter().any(|event| event.value > Some(0.0)), "{values:?}");
        assert_eq!(values.last().unwrap().value, Some(0.0));
    }
    let ended = trace.on(trace.track("job ring")).into_iter().last().unwrap();
    assert_eq!((ended.kind, ended.name.as_deref()), (INSTANT, Some("ended")));
    assert_eq!(ended.arguments["exit code"], "0");
    let said = format!(": {spans} slices of 4 PEs, {} flows, ", trace.flows.len());
    assert!(output.stdout.contains(&said), "{output:?}");
}

#[test]
fn a_recording_above_its_budget_still_gives_a_consistent_trace() {
    let folder = tempfile::tempdir().unwrap();
    let flags = ["--emulate", "2x2,wan=10ms", "--record-bytes", "64kB"];
    let folder = record(folder.path(), "r", &flags, &["leanmd", "--steps", "12"]);
    let recording = Recording::read(&folder).unwrap();
    assert!(recording.dropped_share() > 0.0, "64 kB are too few for twelve steps");
    let (trace, output) = trace(&folder);
    let dropped: u64 = trace
        .slices()
        .filter(|slice| slice.name.as_deref() == Some("dropped"))
        .map(|slice| slice.arguments["spans"].parse::<u64>().unwrap())
        .sum();
    let wanted: u64 = recording.pes.iter().map(|record| record.dropped_spans).sum();
    assert!(dropped > 0 && dropped <= wanted, "{dropped} of {wanted}");
    assert!(trace.flows.len() <= messages(&recording));
    assert!(output.stdout.contains(" % of the spans were dropped while recording\n"), "{output:?}");
}

/// Two PEs at two sites. The first handles messages of main, and sends messages to the other. One
/// of its spans was dropped.
fn by_hand() -> Recording {
    let node = |site: u32, name: &str| RecordedNode { site, host: "h".into(), name: name.into() };
    let header = Header {
        job: "ring".to_owned(),
        command: vec!["run".to_owned(), "ring".to_owned()],
        sites: vec!["lyon".to_owned(), "nice".to_owned()],
        nodes: vec![node(0, "lyon/0"), node(1, "nice/1")],
        pes: vec![RecordedPe::default(), RecordedPe { node: 1, speed: 1.0 }],
        ..Header::default()
    };
    let cause = |pe, span, sent_ns, received_ns| {
        Some(SpanCause { pe, span, sent_ns, received_ns, bytes: 64 })
    };
    let span = |number, begin_ns, cause| Span {
        number,
        begin_ns,
        duration_ns: 1_000_000,
        actor: u64::MAX - number,
        step: Some(number),
        cause,
        ..Span::default()
    };
    let sent = SentTo { site: 1, messages: 1, bytes: 64 };
    let first = PeRecord {
        types: vec!["Hop".to_owned()],
        spans: vec![span(0, 0, None), span(2, 2_000_000, cause(0, None, 500_000, 1_000_000))],
        dropped_spans: 1,
        bins: vec![Bin { queue: 2, sent: vec![sent], ..Bin::default() }],
        ..PeRecord::default()
    };
    let second = PeRecord {
        pe: 1,
        types: vec!["Other".to_owned(), "Hop".to_owned()],
        spans: vec![
            Span { kind: 1, ..span(0, 2_000_000, cause(0, Some(0), 500_000, 1_500_000)) },
            // The span that sent this message was dropped.
            Span { kind: 1, ..span(1, 3_000_000, cause(0, Some(1), 1_800_000, 2_500_000)) },
        ],
        ..PeRecord::default()
    };
    Recording {
        header,
        ending: Some(JobEnding { at_ns: 5_000_000, exit_code: 0, ..JobEnding::default() }),
        pes: vec![first, second],
        ..Recording::default()
    }
}

/// Writes a recording into a folder.
fn written(recording: &Recording, folder: &Path, name: &str) -> PathBuf {
    let folder = folder.join(name);
    recording.write(&folder).unwrap();
    folder
}

#[test]
fn a_recording_made_by_hand_is_traced_as_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let (trace, _) = trace(&written(&by_hand(), folder.path(), "r"));

    let slices: Vec<_> = trace
        .slices()
        .map(|it| (trace.tracks[&it.track].name.as_str(), it.name.as_deref().unwrap(), it.at_ns))
        .collect();
    let wanted = [
        ("pe0", "Hop", 0),
        ("pe0", "dropped", 1_000_000),
        ("pe0", "Hop", 2_000_000),
        ("pe1", "Hop", 2_000_000),
        ("pe1", "Hop", 3_000_000),
    ];
    assert_eq!(slices, wanted);
    let flows: Vec<_> = trace.flows.values().map(|flow| (flow.from.1, flow.to.1)).collect();
    assert_eq!(flows, [(0, 2_000_000)]);
    let first = trace.slices().next().unwrap();
    assert_eq!(first.arguments["actor"], u64::MAX.to_string());
    assert_eq!(first.arguments["step"], "0");
    let counters = trace.tracks.values().filter(|track| track.unit.is_some());
    let counters: Vec<_> = counters.map(|track| track.name.as_str()).collect();
    assert_eq!(counters, ["lyon > nice", "pe0 queue"]);
    let queue = trace.on(trace.track("pe0 queue"));
    assert!(queue.iter().all(|event| event.kind == COUNTER));
    assert_eq!(queue[0].value, Some(2.0));
}

#[test]
fn a_trace_is_written_to_a_named_file_or_printed() {
    let folder = tempfile::tempdir().unwrap();
    let recording = written(&by_hand(), folder.path(), "r");
    let recording = recording.to_str().unwrap();
    let file = folder.path().join("named.perfetto-trace");
    let output = run(&["trace", recording, "-o", file.to_str().unwrap()]);
    assert_eq!(output.code, Some(0), "{output:?}");
    assert!(output.stdout.starts_with(&format!("{}: ", file.display())), "{output:?}");
    let bytes = std::fs::read(&file).unwrap();
    assert_eq!(Trace::read(&bytes, 5_000_000).flows.len(), 1);

    let mut command = common::gridctl(&["trace", recording, "-o", "-"]);
    let printed = command.output().unwrap();
    assert!(printed.status.success() && printed.stdout == bytes, "{:?}", printed.status);

    let denied = run(&["trace", recording, "-o", "/dev/null/trace"]);
    assert_eq!(denied.code, Some(1), "{denied:?}");
    assert!(denied.stderr.contains("cannot write /dev/null/trace"), "{denied:?}");
    let empty = run(&["trace", folder.path().to_str().unwrap()]);
    assert_eq!(empty.code, Some(2), "{empty:?}");
    assert!(empty.stderr.contains("is not a recording"), "{empty:?}");
}

#[test]
fn the_writer_has_the_names_numbers_and_types_of_the_published_schema() {
    let writer = declared(include_str!("../../src/trace/schema.rs"));
    // The writer has `packet` of `Trace` as a constant, and names no value that it does not use.
    let mut wanted = PUBLISHED.messages.clone();
    wanted.remove("Trace");
    assert_eq!(writer.messages, wanted);
    for (number, name) in &writer.enums["TrackEvent.Type"] {
        assert_eq!(PUBLISHED.enums["TrackEvent.Type"].get(number), Some(name));
    }
    let kinds = [SLICE_BEGIN, SLICE_END, INSTANT, COUNTER];
    assert!(writer.enums["TrackEvent.Type"].keys().eq(&kinds), "the reader has the same");
}

#[test]
fn the_schema_in_the_repository_is_a_part_of_the_published_one() {
    let Some(path) = env::var_os(DESCRIPTOR) else {
        println!("skipped: {DESCRIPTOR} names no descriptor of Perfetto's schema");
        return;
    };
    let published = Schema::of_descriptor(&std::fs::read(path).unwrap());
    for (message, fields) in &PUBLISHED.messages {
        for (number, field) in fields {
            let found = published.messages[message].get(number);
            assert_eq!(found, Some(field), "field {number} of {message}");
        }
    }
    for (name, values) in &PUBLISHED.enums {
        for (number, value) in values {
            assert_eq!(published.enums[name].get(number), Some(value), "{name}");
        }
    }
}

#[test]
fn the_trace_processor_of_perfetto_reads_the_same() {
    let Some(program) = env::var_os(TRACE_PROCESSOR) else {
        println!("skipped: {TRACE_PROCESSOR} names no trace processor of Perfetto");
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let grid = ["--emulate", "2x2,wan=10ms"];
    let recording = record(folder.path(), "r", &grid, &["ring", "--rounds", "3"]);
    let (trace, _) = trace(&recording);
    let query = folder.path().join("query.sql");
    let select = "select (select count(*) from slice) as slices, \
                  (select count(*) from slice where dur < 0) as endless, \
                  (select count(*) from flow) as flows, \
                  (select count(*) from counter) as counters, \
                  (select count(*) from thread where name glob 'pe*') as threads, \
                  (select ifnull(sum(value), 0) from stats \
                   where severity in ('error', 'data_loss')) as errors;";
    std::fs::write(&query, select).unwrap();
    let mut command = Command::new(program);
    command.arg("-q").arg(&query).arg(recording.join(FILE));
    let output = common::finish(command);
    assert_eq!(output.code, Some(0), "{output:?}");

    let row = output.stdout.lines().rfind(|line| !line.trim().is_empty()).unwrap();
    let found: Vec<usize> = row.split(',').map(|cell| cell.trim().parse().unwrap()).collect();
    let count = |kind| trace.events.iter().filter(|event| event.kind == kind).count();
    // For this program, an instant is a slice without duration.
    let slices = trace.slices().count() + count(INSTANT);
    assert_eq!(found, [slices, 0, trace.flows.len(), count(COUNTER), 4, 0], "{output:?}");
}

#[test]
fn recordings_on_a_near_and_a_far_grid_are_compared() {
    let folder = tempfile::tempdir().unwrap();
    let job = ["ring", "--rounds", "3"];
    let near = record(folder.path(), "near", &["--emulate", "2x2,wan=2ms"], &job);
    let far = record(folder.path(), "far", &["--emulate", "2x2,wan=40ms"], &job);
    let (near, far) = (near.to_str().unwrap(), far.to_str().unwrap());

    let output = run(&["compare", far, near]);
    assert_eq!(output.code, Some(0), "{output:?}");
    let first = output.stdout.lines().next().unwrap();
    assert!(first.starts_with("B is faster by "), "{output:?}");
    assert!(first.contains("; most of the difference is idle time, "), "{output:?}");
    assert!(output.stdout.contains("\ndifferent command: "), "{output:?}");

    let output = run(&["compare", "--json", near, far]);
    let object: Value = serde_json::from_str(&output.stdout).unwrap();
    assert_eq!((&object["version"], &object["faster"]), (&1.into(), &"a".into()));
    assert_eq!(object["reason"]["kind"], "idle");
    let times = object["times"].as_array().unwrap();
    let sum: f64 = times.iter().map(|row| row["difference"].as_f64().unwrap()).sum();
    let [a, b] = ["a", "b"].map(|side| object[side]["seconds"].as_f64().unwrap());
    assert!((sum - (b - a)).abs() < 1e-6, "{sum} is not {b} - {a}");
    for pair in object["traffic"].as_array().unwrap() {
        let messages = &pair["messages"];
        assert!(messages["a"].as_f64() > Some(0.0) && messages["b"].as_f64() > Some(0.0), "{pair}");
    }
}

#[test]
fn recordings_of_different_jobs_are_compared_only_if_forced() {
    let folder = tempfile::tempdir().unwrap();
    let ring = by_hand();
    let mut other = by_hand();
    other.header.job = "stencil".to_owned();
    let ring = written(&ring, folder.path(), "ring");
    let other = written(&other, folder.path(), "stencil");
    let (ring, other) = (ring.to_str().unwrap(), other.to_str().unwrap());

    let refused = run(&["compare", ring, other]);
    assert_eq!(refused.code, Some(2), "{refused:?}");
    let wanted = "error: the recordings are of different jobs, `ring` and `stencil`\n\
                  hint: `--force` compares them all the same\n";
    assert_eq!(refused.stderr, wanted);
    let forced = run(&["compare", "--force", ring, other]);
    assert_eq!(forced.code, Some(0), "{forced:?}");
    let same = "A and B take the same time within 1.00 %: 5.00 ms and 5.00 ms\n";
    assert!(forced.stdout.starts_with(same), "{forced:?}");
}
