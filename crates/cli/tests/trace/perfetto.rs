//! Reads traces of Perfetto, and checks that they fit together.
//!
//! This reader shares no code with the writer. It knows the wire format of protobuf, and the numbers
//! and types of fields in Perfetto's published schema (`trace.proto`, `trace_packet.proto` and
//! `track_event/*.proto` in `protos/perfetto/trace`). A field that a message of the schema does not
//! have, or that has another type there, is an error here, although readers of protobuf skip it.

use std::collections::{BTreeMap, BTreeSet};

/// A field of a message as it is on the wire.
#[derive(Clone, Copy, Debug)]
enum Wire<'a> {
    Varint(u64),
    Fixed64(u64),
    Bytes(&'a [u8]),
}

impl<'a> Wire<'a> {
    fn varint(self) -> u64 {
        let Self::Varint(number) = self else { panic!("{self:?} is no varint") };
        number
    }

    fn fixed64(self) -> u64 {
        let Self::Fixed64(number) = self else { panic!("{self:?} has not 64 bits") };
        number
    }

    fn double(self) -> f64 {
        f64::from_bits(self.fixed64())
    }

    fn bytes(self) -> &'a [u8] {
        let Self::Bytes(bytes) = self else { panic!("{self:?} has no length") };
        bytes
    }

    fn text(self) -> String {
        String::from_utf8(self.bytes().to_vec()).unwrap()
    }
}

/// Takes a varint from the front of a message.
fn take_varint(bytes: &mut &[u8]) -> u64 {
    let mut number = 0;
    for shift in (0..64).step_by(7) {
        let (first, rest) = bytes.split_first().unwrap();
        *bytes = rest;
        number |= u64::from(first & 0x7f) << shift;
        if first & 0x80 == 0 {
            return number;
        }
    }
    panic!("a varint has at most ten bytes")
}

/// The numbers and values of the fields of a message.
fn fields(mut bytes: &[u8]) -> Vec<(u64, Wire<'_>)> {
    let mut found = vec![];
    while !bytes.is_empty() {
        let key = take_varint(&mut bytes);
        let value = match key & 7 {
            0 => Wire::Varint(take_varint(&mut bytes)),
            1 => {
                let (number, rest) = bytes.split_first_chunk::<8>().unwrap();
                bytes = rest;
                Wire::Fixed64(u64::from_le_bytes(*number))
            }
            2 => {
                let length = take_varint(&mut bytes) as usize;
                let (content, rest) = bytes.split_at(length);
                bytes = rest;
                Wire::Bytes(content)
            }
            other => panic!("the schema has no field of wire type {other}"),
        };
        found.push((key >> 3, value));
    }
    found
}

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
    /// Numbers are as text, too.
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

fn packet(bytes: &[u8]) -> Packet {
    let mut packet = Packet::default();
    for (number, value) in fields(bytes) {
        match number {
            8 => packet.timestamp = Some(value.varint()),
            10 => packet.sequence = value.varint(),
            11 => packet.event = Some(event(value.bytes())),
            60 => packet.track = Some(track(value.bytes())),
            other => panic!("a packet of a job has no field {other}"),
        }
    }
    packet
}

fn event(bytes: &[u8]) -> Event {
    let mut event = Event::default();
    for (number, value) in fields(bytes) {
        match number {
            4 => {
                let (name, argument) = annotation(value.bytes());
                assert_eq!(
                    event.arguments.insert(name, argument),
                    None,
                    "an argument is given once"
                );
            }
            9 => event.kind = value.varint(),
            11 => event.track = value.varint(),
            22 => event.categories.push(value.text()),
            23 => event.name = Some(value.text()),
            44 => event.value = Some(value.double()),
            47 => event.flows.push(value.fixed64()),
            48 => event.ending_flows.push(value.fixed64()),
            other => panic!("an event of a job has no field {other}"),
        }
    }
    event
}

/// `DebugAnnotation`.
fn annotation(bytes: &[u8]) -> (String, String) {
    let (mut name, mut argument) = (None, None);
    for (number, value) in fields(bytes) {
        match number {
            3 | 7 => argument = Some(value.varint().to_string()),
            5 => argument = Some(value.double().to_string()),
            6 => argument = Some(value.text()),
            10 => name = Some(value.text()),
            other => panic!("an argument has no field {other}"),
        }
    }
    (name.unwrap(), argument.unwrap())
}

fn track(bytes: &[u8]) -> Track {
    let mut track = Track::default();
    for (number, value) in fields(bytes) {
        match number {
            1 => track.uuid = value.varint(),
            2 => track.name = value.text(),
            5 => track.parent = Some(value.varint()),
            // `ProcessDescriptor`.
            3 => {
                for (number, value) in fields(value.bytes()) {
                    match number {
                        1 => track.pid = Some(value.varint()),
                        6 => track.name = value.text(),
                        other => panic!("a process has no field {other}"),
                    }
                }
            }
            // `ThreadDescriptor`.
            4 => {
                for (number, value) in fields(value.bytes()) {
                    match number {
                        1 => track.pid = Some(value.varint()),
                        2 => track.tid = Some(value.varint()),
                        5 => track.name = value.text(),
                        other => panic!("a thread has no field {other}"),
                    }
                }
            }
            // `CounterDescriptor`.
            8 => {
                for (number, value) in fields(value.bytes()) {
                    match number {
                        6 => track.unit = Some(value.text()),
                        other => panic!("a counter has no field {other}"),
                    }
                }
            }
            other => panic!("a track has no field {other}"),
        }
    }
    track
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
    /// Reads a trace, whose events are until a time. Panics if it breaks the schema, or if slices,
    /// flows or tracks do not fit together.
    pub fn read(bytes: &[u8], end_ns: u64) -> Self {
        let mut trace = Self::default();
        for (number, value) in fields(bytes) {
            assert_eq!(number, 1, "a trace consists of packets");
            let packet = packet(value.bytes());
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

    /// The track of a process, thread or counter, or with a name.
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
