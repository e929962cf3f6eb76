//! Reads traces of Perfetto, and checks that they fit together.
//!
//! This reader shares no code with the writer. It decodes messages by Perfetto's published schema
//! (`published.rs`), and knows fields by their names there.

use crate::published::Message;
use std::collections::{BTreeMap, BTreeSet};

/// `TracePacket`.
#[derive(Debug, Default)]
struct Packet {
    timestamp: Option<u64>,
    sequence: u64,
    event: Option<Event>,
    track: Option<Track>,
}

/// `TrackEvent`.
#[derive(Clone, Debug, Default)]
pub struct Event {
    pub at_ns: u64,
    pub kind: u64,
    pub track: u64,
    pub categories: Vec<String>,
    pub name: Option<String>,
    pub value: Option<f64>,
    pub flows: Vec<u64>,
    pub ending_flows: Vec<u64>,
    /// Values as text, also numbers.
    pub arguments: BTreeMap<String, String>,
}

/// `TrackDescriptor`.
#[derive(Clone, Debug, Default)]
pub struct Track {
    pub uuid: u64,
    pub name: String,
    pub parent: Option<u64>,
    /// The process that it stands for, or that of its thread.
    pub pid: Option<u64>,
    /// The thread that it stands for.
    pub tid: Option<u64>,
    /// The unit of the counter that it stands for.
    pub unit: Option<String>,
}

/// `TrackEvent.Type`.
pub const SLICE_BEGIN: u64 = 1;
pub const SLICE_END: u64 = 2;
pub const INSTANT: u64 = 3;
pub const COUNTER: u64 = 4;

fn packet(message: &Message) -> Packet {
    Packet {
        timestamp: message.number("timestamp"),
        sequence: message.number("trusted_packet_sequence_id").unwrap_or_default(),
        event: message.message("track_event").map(event),
        track: message.message("track_descriptor").map(track),
    }
}

fn event(message: &Message) -> Event {
    let mut arguments = BTreeMap::new();
    for (name, argument) in message.messages("debug_annotations").into_iter().map(annotation) {
        assert_eq!(arguments.insert(name, argument), None, "an argument is given once");
    }
    Event {
        at_ns: 0,
        kind: message.number("type").unwrap(),
        track: message.number("track_uuid").unwrap(),
        categories: message.texts("categories"),
        name: message.text("name"),
        value: message.real("double_counter_value"),
        flows: message.numbers("flow_ids"),
        ending_flows: message.numbers("terminating_flow_ids"),
        arguments,
    }
}

/// The name and the only value of a `DebugAnnotation`.
fn annotation(message: &Message) -> (String, String) {
    let values = message.others("name");
    let [value] = values.as_slice() else { panic!("{message:?}") };
    (message.text("name").unwrap(), value.clone())
}

fn track(message: &Message) -> Track {
    let process = message.message("process");
    let thread = message.message("thread");
    let name = message.text("name");
    let name = name.or_else(|| process?.text("process_name"));
    let name = name.or_else(|| thread?.text("thread_name"));
    let pid = process.or(thread).map(|of| of.number("pid").unwrap());
    Track {
        uuid: message.number("uuid").unwrap(),
        name: name.unwrap_or_default(),
        parent: message.number("parent_uuid"),
        pid,
        tid: thread.map(|thread| thread.number("tid").unwrap()),
        unit: message.message("counter").map(|counter| counter.text("unit_name").unwrap()),
    }
}

/// A flow: the tracks and times of the slices that it joins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flow {
    pub from: (u64, u64),
    pub to: (u64, u64),
}

/// A trace that fits together.
#[derive(Debug, Default)]
pub struct Trace {
    pub tracks: BTreeMap<u64, Track>,
    /// In the order of the file.
    pub events: Vec<Event>,
    pub flows: BTreeMap<u64, Flow>,
}

impl Trace {
    /// Reads a trace. Panics if an event is later than `end_ns`, if it breaks the schema, or if
    /// slices, flows or tracks do not fit together.
    pub fn read(bytes: &[u8], end_ns: u64) -> Self {
        let mut trace = Self::default();
        for packet in Message::decode("Trace", bytes).messages("packet").into_iter().map(packet) {
            assert_ne!(packet.sequence, 0, "{packet:?}");
            match (packet.track, packet.event) {
                (Some(track), None) => trace.add_track(track),
                (None, Some(event)) => {
                    let at_ns = packet.timestamp.expect("an event has a time");
                    assert!(at_ns <= end_ns, "{event:?} is after {end_ns}");
                    trace.add_event(Event { at_ns, ..event });
                }
                other => panic!("a packet has either a track or an event: {other:?}"),
            }
        }
        trace.check_slices();
        trace.join_flows();
        trace
    }

    /// Returns the only track with this name.
    pub fn track(&self, name: &str) -> &Track {
        let mut named = self.tracks.values().filter(|track| track.name == name);
        let track = named.next().unwrap_or_else(|| panic!("no track {name}: {:?}", self.tracks));
        assert!(named.next().is_none(), "{name} is the name of one track");
        track
    }

    /// The events on a track in the order of the file.
    pub fn on(&self, track: &Track) -> Vec<&Event> {
        self.events.iter().filter(|event| event.track == track.uuid).collect()
    }

    /// The begins of all slices.
    pub fn slices(&self) -> impl Iterator<Item = &Event> {
        self.events.iter().filter(|event| event.kind == SLICE_BEGIN)
    }

    fn add_track(&mut self, track: Track) {
        assert_ne!(track.uuid, 0, "{track:?}");
        assert!(!track.name.is_empty(), "{track:?}");
        assert!(track.parent.is_none_or(|above| self.tracks.contains_key(&above)), "{track:?}");
        if let Some(tid) = track.tid {
            let is_process = |other: &&Track| other.tid.is_none() && other.pid == track.pid;
            assert!(self.tracks.values().any(|other| is_process(&other)), "{track:?}");
            assert!(self.tracks.values().all(|other| other.tid != Some(tid)), "{track:?}");
            assert_ne!(Some(tid), track.pid, "a main thread is drawn in another way");
        }
        assert!(track.pid != Some(0) && track.tid != Some(0), "{track:?}");
        let uuid = track.uuid;
        assert!(self.tracks.insert(uuid, track).is_none(), "track {uuid} is described once");
    }

    fn add_event(&mut self, event: Event) {
        let track = self.tracks.get(&event.track).expect("a track is described before its events");
        assert_eq!(track.unit.is_some(), event.kind == COUNTER, "{event:?} on {track:?}");
        assert_eq!(event.value.is_some(), event.kind == COUNTER, "{event:?}");
        let is_named = matches!(event.kind, SLICE_BEGIN | INSTANT);
        assert_eq!(event.name.is_some() && !event.categories.is_empty(), is_named, "{event:?}");
        let has_flows = !(event.flows.is_empty() && event.ending_flows.is_empty());
        assert!(event.kind == SLICE_BEGIN || !has_flows, "{event:?}");
        self.events.push(event);
    }

    /// On each track slices begin and end like brackets, and time does not run backwards.
    fn check_slices(&self) {
        let mut open: BTreeMap<u64, u64> = BTreeMap::new();
        let mut last: BTreeMap<u64, u64> = BTreeMap::new();
        for event in &self.events {
            let before = last.insert(event.track, event.at_ns);
            assert!(
                before.is_none_or(|before| before <= event.at_ns),
                "{event:?} after {before:?}"
            );
            let depth = open.entry(event.track).or_default();
            match event.kind {
                SLICE_BEGIN => *depth += 1,
                SLICE_END => *depth = depth.checked_sub(1).expect("a slice has begun"),
                INSTANT | COUNTER => {}
                other => panic!("the schema has no event of type {other}"),
            }
        }
        assert!(open.values().all(|depth| *depth == 0), "all slices end: {open:?}");
    }

    /// Each flow leads from one slice to a later one. Perfetto takes the earliest event, and of
    /// those at the same time the first in the file, as its source.
    fn join_flows(&mut self) {
        let mut begun: BTreeMap<u64, (usize, &Event)> = BTreeMap::new();
        for (at, event) in self.events.iter().enumerate() {
            for flow in &event.flows {
                assert!(begun.insert(*flow, (at, event)).is_none(), "flow {flow} has one source");
            }
        }
        let mut ended = BTreeSet::new();
        let mut flows = BTreeMap::new();
        for (at, event) in self.events.iter().enumerate() {
            for flow in &event.ending_flows {
                assert!(ended.insert(*flow), "flow {flow} has one end");
                let (source, from) = begun.get(flow).unwrap_or_else(|| panic!("{event:?}"));
                assert!((from.at_ns, *source) < (event.at_ns, at), "{from:?} before {event:?}");
                let from = (from.track, from.at_ns);
                flows.insert(*flow, Flow { from, to: (event.track, event.at_ns) });
            }
        }
        assert!(begun.keys().eq(ended.iter()), "all flows end");
        self.flows = flows;
    }
}
