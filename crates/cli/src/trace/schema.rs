//! The part of Perfetto's protobuf schema that the trace of a job needs.
//!
//! Numbers of fields, types and names are those of the published schema: `TracePacket` in
//! `protos/perfetto/trace/trace_packet.proto`, the others in `protos/perfetto/trace/track_event` of
//! Perfetto's repository; `crates/cli/tests/trace` compares this file with it. Names are written
//! into each packet. Interned names would make traces smaller, but a reader could not begin in the
//! middle of a file.

use prost::{Message, Oneof};

/// What an event is: `TrackEvent.Type`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum EventType {
    /// A slice begins.
    SliceBegin = 1,
    /// The slice of a track that began last ends.
    SliceEnd = 2,
    /// Something happens at one time.
    Instant = 3,
    /// A counter has another value.
    Counter = 4,
}

/// A packet of a trace: an event, or the description of a track.
#[derive(Clone, PartialEq, Message)]
pub(super) struct TracePacket {
    /// Time in nanoseconds. Descriptions have none.
    #[prost(uint64, optional, tag = "8")]
    pub(super) timestamp: Option<u64>,
    /// Number of the sequence of packets, not 0.
    #[prost(uint32, required, tag = "10")]
    pub(super) trusted_packet_sequence_id: u32,
    /// An event.
    #[prost(message, optional, tag = "11")]
    pub(super) track_event: Option<TrackEvent>,
    /// A track.
    #[prost(message, optional, tag = "60")]
    pub(super) track_descriptor: Option<TrackDescriptor>,
}

/// An event on a track.
#[derive(Clone, PartialEq, Message)]
pub(super) struct TrackEvent {
    /// Its arguments.
    #[prost(message, repeated, tag = "4")]
    pub(super) debug_annotations: Vec<DebugAnnotation>,
    /// An [`EventType`]; `type` in the schema.
    #[prost(int32, required, tag = "9")]
    pub(super) event_type: i32,
    /// Its track.
    #[prost(uint64, required, tag = "11")]
    pub(super) track_uuid: u64,
    /// Its categories. Only ends of slices and counters have none.
    #[prost(string, repeated, tag = "22")]
    pub(super) categories: Vec<String>,
    /// Its name. Only ends of slices and counters have none.
    #[prost(string, optional, tag = "23")]
    pub(super) name: Option<String>,
    /// The value of a counter.
    #[prost(double, optional, tag = "44")]
    pub(super) double_counter_value: Option<f64>,
    /// Flows that begin here.
    #[prost(fixed64, repeated, packed = "false", tag = "47")]
    pub(super) flow_ids: Vec<u64>,
    /// Flows that end here.
    #[prost(fixed64, repeated, packed = "false", tag = "48")]
    pub(super) terminating_flow_ids: Vec<u64>,
}

impl TrackEvent {
    /// Returns an event with neither arguments nor flows.
    pub(super) fn new(event_type: EventType, track: u64) -> Self {
        Self { event_type: event_type as i32, track_uuid: track, ..Self::default() }
    }

    /// Returns the event with its category and name.
    pub(super) fn named(mut self, category: &str, name: &str) -> Self {
        self.categories.push(category.to_owned());
        self.name = Some(name.to_owned());
        self
    }
}

/// An argument of an event.
#[derive(Clone, PartialEq, Message)]
pub(super) struct DebugAnnotation {
    /// Its value.
    #[prost(oneof = "Value", tags = "3, 5, 6, 7")]
    pub(super) value: Option<Value>,
    /// Its name.
    #[prost(string, required, tag = "10")]
    pub(super) name: String,
}

impl DebugAnnotation {
    /// Returns an argument.
    pub(super) fn new(name: &str, value: Value) -> Self {
        Self { name: name.to_owned(), value: Some(value) }
    }
}

/// The value of an argument.
#[derive(Clone, PartialEq, Oneof)]
pub(super) enum Value {
    /// A number without a fraction.
    #[prost(uint64, tag = "3")]
    Unsigned(u64),
    /// Any other number.
    #[prost(double, tag = "5")]
    Number(f64),
    /// A text.
    #[prost(string, tag = "6")]
    Text(String),
    /// A number that is shown in hexadecimal digits.
    #[prost(uint64, tag = "7")]
    Pointer(u64),
}

/// A track.
#[derive(Clone, PartialEq, Message)]
pub(super) struct TrackDescriptor {
    /// Its number, not 0.
    #[prost(uint64, required, tag = "1")]
    pub(super) uuid: u64,
    /// Its name, unless its process or thread has one.
    #[prost(string, optional, tag = "2")]
    pub(super) name: Option<String>,
    /// The process that it stands for.
    #[prost(message, optional, tag = "3")]
    pub(super) process: Option<ProcessDescriptor>,
    /// The thread that it stands for.
    #[prost(message, optional, tag = "4")]
    pub(super) thread: Option<ThreadDescriptor>,
    /// The track above it.
    #[prost(uint64, optional, tag = "5")]
    pub(super) parent_uuid: Option<u64>,
    /// The counter that it stands for.
    #[prost(message, optional, tag = "8")]
    pub(super) counter: Option<CounterDescriptor>,
}

/// A process.
#[derive(Clone, PartialEq, Message)]
pub(super) struct ProcessDescriptor {
    /// Its number.
    #[prost(int32, required, tag = "1")]
    pub(super) pid: i32,
    /// Its name.
    #[prost(string, required, tag = "6")]
    pub(super) process_name: String,
}

/// A thread.
#[derive(Clone, PartialEq, Message)]
pub(super) struct ThreadDescriptor {
    /// Number of its process.
    #[prost(int32, required, tag = "1")]
    pub(super) pid: i32,
    /// Its number.
    #[prost(int64, required, tag = "2")]
    pub(super) tid: i64,
    /// Its name.
    #[prost(string, required, tag = "5")]
    pub(super) thread_name: String,
}

/// A counter.
#[derive(Clone, PartialEq, Message)]
pub(super) struct CounterDescriptor {
    /// The unit of its values.
    #[prost(string, required, tag = "6")]
    pub(super) unit_name: String,
}
