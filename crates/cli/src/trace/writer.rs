//! Writes a trace packet by packet, so that only one packet is in memory.

use super::schema::{CounterDescriptor, EventType, TracePacket, TrackDescriptor, TrackEvent};
use prost::Message;
use std::io::{self, Write};

/// The key before each packet: field 1 of `Trace`, followed by its length.
const PACKET: u8 = (1 << 3) | 2;
/// All packets are of one sequence.
const SEQUENCE: u32 = 1;

/// Counts of the content of a trace.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Counts {
    pub(super) slices: u64,
    /// Events at one time.
    pub(super) instants: u64,
    pub(super) flows: u64,
    /// Bytes of all packets.
    pub(super) bytes: u64,
}

/// Writes the packets of a trace, and counts the content.
pub(super) struct PacketWriter<W> {
    to: W,
    end_ns: u64,
    /// Tracks so far, which are numbered from 1.
    tracks: u64,
    packet: Vec<u8>,
    counts: Counts,
}

impl<W: Write> PacketWriter<W> {
    /// Begins the trace of a job that ended at `end_ns`.
    pub(super) fn new(to: W, end_ns: u64) -> Self {
        Self { to, end_ns, tracks: 0, packet: vec![], counts: Counts::default() }
    }

    pub(super) fn end_ns(&self) -> u64 {
        self.end_ns
    }

    /// Describes a track, and returns the number that it gets.
    pub(super) fn track(&mut self, track: TrackDescriptor) -> io::Result<u64> {
        self.tracks += 1;
        let track = TrackDescriptor { uuid: self.tracks, ..track };
        self.write(&TracePacket { track_descriptor: Some(track), ..packet() })?;
        Ok(self.tracks)
    }

    /// Describes the track of a counter, and returns the number that it gets.
    pub(super) fn counter_track(&mut self, above: u64, name: &str, unit: &str) -> io::Result<u64> {
        self.track(TrackDescriptor {
            name: Some(name.to_owned()),
            parent_uuid: Some(above),
            counter: Some(CounterDescriptor { unit_name: unit.to_owned() }),
            ..TrackDescriptor::default()
        })
    }

    /// Writes an event. Moves an event after the end of the job to that end: clocks may differ.
    pub(super) fn event(&mut self, at_ns: u64, event: TrackEvent) -> io::Result<()> {
        let is = |kind: EventType| u64::from(event.event_type == kind as i32);
        self.counts.slices += is(EventType::SliceBegin);
        self.counts.instants += is(EventType::Instant);
        self.counts.flows += event.terminating_flow_ids.len() as u64;
        let timestamp = Some(at_ns.min(self.end_ns));
        self.write(&TracePacket { timestamp, track_event: Some(event), ..packet() })
    }

    /// Writes the value of a counter from a time on.
    pub(super) fn value(&mut self, at_ns: u64, track: u64, value: f64) -> io::Result<()> {
        let event = TrackEvent::new(EventType::Counter, track);
        self.event(at_ns, TrackEvent { double_counter_value: Some(value), ..event })
    }

    /// Ends the trace, and returns the counts of its content.
    pub(super) fn finish(mut self) -> io::Result<Counts> {
        self.to.flush()?;
        Ok(self.counts)
    }

    fn write(&mut self, packet: &TracePacket) -> io::Result<()> {
        self.packet.clear();
        self.packet.push(PACKET);
        packet.encode_length_delimited(&mut self.packet).map_err(io::Error::other)?;
        self.counts.bytes += self.packet.len() as u64;
        self.to.write_all(&self.packet)
    }
}

/// A packet without content.
fn packet() -> TracePacket {
    TracePacket { trusted_packet_sequence_id: SEQUENCE, ..TracePacket::default() }
}
