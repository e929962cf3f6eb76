//! Tests of traces of recordings that are made by hand. `crates/cli/tests/trace` reads traces
//! without this module's schema.

use super::schema::{DebugAnnotation, EventType, TracePacket, TrackEvent, Value};
use super::{text, write};
use gridspan_record::{
    Bin, Header, JobEnding, OTHER, PeRecord, RebalanceTrigger, RecordedEvent, RecordedHop,
    RecordedNode, RecordedPe, Recording, SentTo, Span, SpanCause, TASK, What,
};
use prost::Message;
use std::path::Path;

/// A file of packets.
#[derive(Clone, PartialEq, Message)]
struct Trace {
    #[prost(message, repeated, tag = "1")]
    packets: Vec<TracePacket>,
}

/// The time of an event on a track, and the event.
type Placed = (u64, TrackEvent);

/// A job of 1000 ns on two sites with a node and a PE each.
fn recording() -> Recording {
    let node =
        |site, name: &str| RecordedNode { site, host: "h".to_owned(), name: name.to_owned() };
    let header = Header {
        job: "ring".to_owned(),
        sites: vec!["a".to_owned(), "b".to_owned()],
        nodes: vec![node(0, "a/0"), node(1, "n1")],
        pes: vec![RecordedPe::default(), RecordedPe { node: 1, speed: 1.0 }],
        ..Header::default()
    };
    let pe = |pe| PeRecord { pe, types: vec!["Hop".to_owned()], ..PeRecord::default() };
    Recording {
        header,
        ending: Some(JobEnding { at_ns: 1000, exit_code: 0, ..JobEnding::default() }),
        pes: vec![pe(0), pe(1)],
        ..Recording::default()
    }
}

fn span(number: u64, [begin_ns, end_ns]: [u64; 2]) -> Span {
    Span { number, begin_ns, duration_ns: end_ns - begin_ns, actor: 7, ..Span::default() }
}

/// A span that handled a message from a span of a PE.
fn caused(span: &Span, pe: u32, number: Option<u64>) -> Span {
    let (sent_ns, received_ns) = (span.begin_ns - 30, span.begin_ns - 10);
    Span {
        cause: Some(SpanCause { pe, span: number, sent_ns, received_ns, bytes: 64 }),
        ..span.clone()
    }
}

fn traced(recording: &Recording) -> Vec<TracePacket> {
    let mut bytes = vec![];
    let counts = write(recording, &mut bytes).unwrap();
    assert_eq!(counts.bytes, bytes.len() as u64);
    Trace::decode(bytes.as_slice()).unwrap().packets
}

/// The events on the track of this name, in the order of the file.
fn events(packets: &[TracePacket], track: &str) -> Vec<Placed> {
    let is_named = |packet: &&TracePacket| {
        packet.track_descriptor.as_ref().is_some_and(|it| {
            let thread = it.thread.as_ref().map(|thread| thread.thread_name.as_str());
            it.name.as_deref().or(thread) == Some(track)
        })
    };
    let track = packets.iter().find(is_named).and_then(|it| it.track_descriptor.as_ref());
    let uuid = track.map(|track| track.uuid);
    let all = packets.iter().filter_map(|packet| {
        packet.track_event.as_ref().map(|event| (packet.timestamp.unwrap(), event.clone()))
    });
    all.filter(|(_, event)| Some(event.track_uuid) == uuid).collect()
}

/// The events of a kind on the track of this name.
fn of_kind(packets: &[TracePacket], track: &str, kind: EventType) -> Vec<Placed> {
    let all = events(packets, track).into_iter();
    all.filter(|(_, event)| event.event_type == kind as i32).collect()
}

/// Begin and end of the slices of a PE, in the order of their ends.
fn slices(packets: &[TracePacket], pe: &str) -> Vec<[u64; 2]> {
    let mut open = vec![];
    let mut closed = vec![];
    for (at, event) in events(packets, pe) {
        match event.event_type {
            kind if kind == EventType::SliceBegin as i32 => open.push(at),
            kind if kind == EventType::SliceEnd as i32 => closed.push([open.pop().unwrap(), at]),
            _ => {}
        }
    }
    assert_eq!(open.len(), 0, "all slices end");
    closed
}

/// The numbers of the flows from and to the slices of a PE that stand for spans.
fn flows(packets: &[TracePacket], pe: &str) -> Vec<[Vec<u64>; 2]> {
    let begins = of_kind(packets, pe, EventType::SliceBegin).into_iter();
    let of_spans = begins.filter(|(_, it)| it.name.as_deref() == Some("Hop"));
    of_spans.map(|(_, it)| [it.flow_ids, it.terminating_flow_ids]).collect()
}

fn values(packets: &[TracePacket], track: &str) -> Vec<(u64, f64)> {
    let events = of_kind(packets, track, EventType::Counter).into_iter();
    events.map(|(at, event)| (at, event.double_counter_value.unwrap())).collect()
}

fn argument(event: &TrackEvent, name: &str) -> Option<Value> {
    let is_it = |it: &&DebugAnnotation| it.name == name;
    event.debug_annotations.iter().find(is_it).and_then(|it| it.value.clone())
}

#[test]
fn a_span_is_a_slice_of_its_pe_with_its_actor_its_step_and_its_message() {
    let mut recording = recording();
    let first = Span { step: Some(3), ..span(0, [100, 150]) };
    let task = Span { kind: TASK, actor: 0, ..span(1, [150, 160]) };
    let own = Span { kind: OTHER, actor: 0, ..span(2, [160, 160]) };
    recording.pes[1].spans = vec![caused(&first, 0, None), task, own];
    let packets = traced(&recording);

    let begins = of_kind(&packets, "pe1", EventType::SliceBegin);
    let named: Vec<_> = begins
        .iter()
        .map(|(at, event)| (*at, event.categories[0].as_str(), event.name.as_deref().unwrap()))
        .collect();
    assert_eq!(
        named,
        [(100, "handler", "Hop"), (150, "task", "task"), (160, "runtime", "runtime")]
    );
    let ends: Vec<u64> =
        of_kind(&packets, "pe1", EventType::SliceEnd).iter().map(|(at, _)| *at).collect();
    assert_eq!(ends, [150, 160, 160]);
    let hop = &begins[0].1;
    assert_eq!(argument(hop, "actor"), Some(Value::Pointer(7)));
    assert_eq!(argument(hop, "step"), Some(Value::Unsigned(3)));
    let from = Value::Text("main or the runtime".to_owned());
    assert_eq!(argument(hop, "message from"), Some(from));
    assert_eq!(argument(hop, "message bytes"), Some(Value::Unsigned(64)));
    assert_eq!(argument(hop, "message travelled ns"), Some(Value::Unsigned(20)));
    assert_eq!(argument(hop, "message queued ns"), Some(Value::Unsigned(10)));
    assert_eq!(argument(&begins[1].1, "actor"), None);
    assert!(
        begins.iter().all(|(_, it)| it.flow_ids.is_empty() && it.terminating_flow_ids.is_empty())
    );
}

#[test]
fn nodes_are_processes_and_pes_their_threads() {
    let packets = traced(&recording());
    let tracks: Vec<_> = packets.iter().filter_map(|it| it.track_descriptor.as_ref()).collect();
    let processes: Vec<_> = tracks
        .iter()
        .filter_map(|it| it.process.as_ref())
        .map(|process| (process.pid, process.process_name.as_str()))
        .collect();
    assert_eq!(processes, [(1, "a/0"), (2, "b/n1")]);
    let threads: Vec<_> = tracks
        .iter()
        .filter_map(|it| it.thread.as_ref())
        .map(|thread| (thread.pid, thread.tid, thread.thread_name.as_str()))
        .collect();
    assert_eq!(threads, [(1, 3, "pe0"), (2, 4, "pe1")]);
}

#[test]
fn a_message_is_a_flow_if_the_span_that_sent_it_was_kept() {
    let mut recording = recording();
    recording.pes[0].spans = vec![span(4, [100, 150])];
    recording.pes[1].spans = vec![
        caused(&span(0, [200, 210]), 0, Some(4)),
        caused(&span(1, [210, 220]), 0, Some(3)),
        caused(&span(2, [220, 230]), 1, Some(0)),
        caused(&span(3, [230, 240]), 0, Some(4)),
    ];
    let packets = traced(&recording);

    // A flow has the number of its receiving span in the recording, from 1. The span of PE 0 has
    // number 1, so the spans of PE 1 begin at 2.
    assert_eq!(flows(&packets, "pe0"), [[vec![2, 5], vec![]]]);
    let wanted: [[Vec<u64>; 2]; 4] =
        [[vec![4], vec![2]], [vec![], vec![]], [vec![], vec![4]], [vec![], vec![5]]];
    assert_eq!(flows(&packets, "pe1"), wanted);
    let begins = of_kind(&packets, "pe1", EventType::SliceBegin);
    let from = argument(&begins[1].1, "message from");
    assert_eq!(from, Some(Value::Text("pe0".to_owned())), "also without a flow");
}

#[test]
fn a_flow_never_leads_back_in_time_nor_in_the_file_at_the_same_time() {
    let mut recording = recording();
    recording.pes[0].spans =
        vec![caused(&span(0, [100, 110]), 1, Some(0)), caused(&span(1, [300, 310]), 1, Some(1))];
    recording.pes[1].spans = vec![span(0, [100, 110]), span(1, [290, 310])];
    let packets = traced(&recording);

    let none: Vec<u64> = vec![];
    assert_eq!(flows(&packets, "pe1"), [[none.clone(), none.clone()], [vec![2], none.clone()]]);
    assert_eq!(flows(&packets, "pe0"), [[none.clone(), none.clone()], [none, vec![2]]]);
}

#[test]
fn a_span_inside_another_one_is_nested_and_ends_with_it_at_the_latest() {
    let mut recording = recording();
    recording.pes[0].spans = vec![
        span(0, [100, 200]),
        span(1, [120, 150]),
        span(2, [150, 260]),
        span(3, [200, 200]),
        span(4, [300, 2000]),
    ];
    let packets = traced(&recording);
    // By the clock of the PE, the last span ends after the job, so it is cut.
    let wanted = [[120, 150], [150, 200], [100, 200], [200, 200], [300, 1000]];
    assert_eq!(slices(&packets, "pe0"), wanted);
}

#[test]
fn the_time_of_dropped_spans_is_marked() {
    let mut recording = recording();
    let record = &mut recording.pes[0];
    record.spans = vec![span(5, [100, 110]), span(6, [110, 120]), span(9, [500, 510])];
    record.dropped_spans = 10;
    let packets = traced(&recording);

    let begins = of_kind(&packets, "pe0", EventType::SliceBegin);
    let dropped: Vec<_> = begins
        .iter()
        .filter(|(_, it)| it.name.as_deref() == Some("dropped"))
        .map(|(at, it)| (*at, argument(it, "spans").unwrap()))
        .collect();
    let wanted = [(0, 5), (120, 2), (510, 3)].map(|(at, spans)| (at, Value::Unsigned(spans)));
    assert_eq!(dropped, wanted);
    let ends = of_kind(&packets, "pe0", EventType::SliceEnd);
    assert_eq!(ends.iter().map(|(at, _)| *at).collect::<Vec<_>>(), [100, 110, 120, 500, 510, 1000]);
    assert!(
        text(&recording, super::Counts::default(), Path::new("t")).contains("77 % of the spans")
    );
}

#[test]
fn bins_are_counters_that_change_where_their_values_do() {
    let mut recording = recording();
    let bin = |queue, idle_ns| Bin { queue, idle_ns, ..Bin::default() };
    let record = &mut recording.pes[0];
    record.bin_ns = 300;
    record.bins = vec![bin(2, 150), bin(2, 300), bin(0, 0), bin(0, 50)];
    record.bins[1].busy_ns = vec![(0, 100), (OTHER, 30)];
    let packets = traced(&recording);

    assert_eq!(values(&packets, "pe0 queue"), [(0, 2.0), (600, 0.0)]);
    // The job has ended 100 ns after the begin of the last bin.
    let idle = [(0, 50.0), (300, 100.0), (600, 0.0), (900, 50.0), (1000, 0.0)];
    assert_eq!(values(&packets, "pe0 idle"), idle);
    assert_eq!(values(&packets, "pe0 runtime"), [(0, 0.0), (300, 10.0), (600, 0.0)]);
    assert!(values(&packets, "pe0 network").is_empty(), "it is always zero");
}

#[test]
fn bytes_between_sites_are_added_up_over_bins_of_different_widths() {
    let mut recording = recording();
    recording.header.pes.push(RecordedPe::default());
    let bin =
        |site, bytes| Bin { sent: vec![SentTo { site, messages: 1, bytes }], ..Bin::default() };
    (recording.pes[0].bin_ns, recording.pes[1].bin_ns) = (250, 500);
    recording.pes[0].bins = vec![bin(1, 10), bin(1, 20), bin(0, 99), bin(1, 40)];
    recording.pes[1].bins = vec![bin(0, 5)];
    let third = PeRecord { bin_ns: 500, bins: vec![bin(1, 70), bin(1, 10)], ..PeRecord::default() };
    recording.pes.push(PeRecord { pe: 2, ..third });
    let packets = traced(&recording);

    // 100 bytes in the first 500 ns are 200 MB/s; 50 bytes in the next 500 ns are 100 MB/s.
    assert_eq!(values(&packets, "a > b"), [(0, 2e8), (500, 1e8), (1000, 0.0)]);
    assert_eq!(values(&packets, "b > a"), [(0, 1e7), (500, 0.0)]);
    assert!(values(&packets, "a > a").is_empty());
}

#[test]
fn events_of_the_job_are_instants_with_their_numbers_as_arguments() {
    let mut recording = recording();
    let balanced = What::Balanced {
        trigger: RebalanceTrigger::SyncPoint,
        strategy: "greedy".to_owned(),
        moved: 12,
        bytes: 2000,
        predicted_gain: Some(-0.25),
        actual_gain: None,
        pause_ns: 5,
    };
    let hops = vec![RecordedHop { to: 1, ..RecordedHop::default() }];
    let (root, bytes, reached, plan, duration_ns) = (0, 90_000, 1, 2, 40);
    let broadcast = What::Broadcast { root, bytes, reached, plan, duration_ns, hops };
    recording.events = vec![
        RecordedEvent { at_ns: 400, what: balanced },
        RecordedEvent { at_ns: 600, what: What::Lost { nodes: vec![1, 2] } },
        RecordedEvent { at_ns: 700, what: broadcast },
    ];
    let failure = Some("node2 was lost".to_owned());
    recording.ending =
        Some(JobEnding { at_ns: 1000, exit_code: 1, failure, ..JobEnding::default() });
    let instants = of_kind(&traced(&recording), "job ring", EventType::Instant);

    let named: Vec<_> =
        instants.iter().map(|(at, it)| (*at, it.name.as_deref().unwrap())).collect();
    assert_eq!(named, [(400, "balanced"), (600, "lost"), (700, "broadcast"), (1000, "ended")]);
    let balanced = &instants[0].1;
    assert_eq!(argument(balanced, "strategy"), Some(Value::Text("greedy".to_owned())));
    assert_eq!(argument(balanced, "moved"), Some(Value::Unsigned(12)));
    assert_eq!(argument(balanced, "predicted gain"), Some(Value::Number(-0.25)));
    assert_eq!(argument(balanced, "actual gain"), None);
    assert_eq!(argument(&instants[1].1, "nodes"), Some(Value::Text("[1,2]".to_owned())));
    let broadcast = &instants[2].1;
    assert_eq!(argument(broadcast, "duration ns"), Some(Value::Unsigned(40)));
    assert_eq!(argument(broadcast, "hops"), None);
    assert_eq!(argument(&instants[3].1, "exit code"), Some(Value::Unsigned(1)));
    let failure = argument(&instants[3].1, "failure");
    assert_eq!(failure, Some(Value::Text("node2 was lost".to_owned())));
}

#[test]
fn a_pe_that_was_started_again_has_dropped_nothing_before_its_first_span() {
    let mut recording = recording();
    recording.pes[0].spans = vec![span(1 << 40, [100, 150])];
    let counts = write(&recording, std::io::sink()).unwrap();
    assert_eq!(counts.slices, 1);
}

#[test]
fn spans_are_not_dropped_before_a_process_began() {
    let mut recording = recording();
    let record = &mut recording.pes[0];
    record.began_ns = 90;
    record.spans = vec![span((1 << 40) + 2, [100, 150])];
    record.dropped_spans = 2;
    let packets = traced(&recording);
    let begins = of_kind(&packets, "pe0", EventType::SliceBegin);
    assert_eq!(begins.iter().map(|(at, _)| *at).collect::<Vec<_>>(), [90, 100]);
}

#[test]
fn the_summary_counts_slices_flows_and_events() {
    let mut recording = recording();
    recording.pes[0].spans = vec![span(0, [100, 150])];
    recording.pes[1].spans = vec![caused(&span(0, [200, 210]), 0, Some(0))];
    recording.missing = vec![1];
    let counts = write(&recording, std::io::sink()).unwrap();
    let said = text(&recording, counts, Path::new("r/t"));
    assert!(said.starts_with("r/t: 2 slices of 2 PEs, 1 flow, 1 event, "), "{said}");
    assert!(said.contains("\n1 node left no record\n"), "{said}");
    assert!(!said.contains("dropped"), "{said}");
    recording.pes[0].dropped_spans = 19_998;
    let said = text(&recording, counts, Path::new("r/t"));
    assert!(said.contains("\n99.99 % of the spans were dropped while recording\n"), "{said}");
}
