//! Slices of a PE: the runs of its handlers and tasks.

use super::flows::Flows;
use super::schema::{DebugAnnotation, EventType, TrackEvent, Value};
use super::writer::PacketWriter;
use gridspan_record::{OTHER, PeRecord, Span, TASK};
use std::io::{self, Write};

/// Category and name of the time whose spans were dropped.
const DROPPED: (&str, &str) = ("not recorded", "dropped");
/// Number of low bits of a span's number; the higher bits are the run of its PE.
const RUN_BITS: u32 = 40;
/// Sender of a message that no span has sent.
const NO_SPAN: &str = "main or the runtime";

/// Writes the slices of the PE at a position of the recording.
pub(super) fn write<W: Write>(
    record: &PeRecord,
    position: usize,
    flows: &Flows<'_>,
    track: u64,
    out: &mut PacketWriter<W>,
) -> io::Result<()> {
    // Ends of the slices that have begun, the innermost last. A slice must end before the one in
    // which it began.
    let mut open = vec![];
    let first_number = first_number(record);
    // Nothing ran before the process began.
    let (mut next_number, mut free_ns) = (first_number, record.began_ns);
    for (at, span) in record.spans.iter().enumerate() {
        close(&mut open, span.begin_ns, track, out)?;
        let dropped = span.number.saturating_sub(next_number);
        if open.is_empty() && dropped > 0 {
            write_dropped([free_ns, span.begin_ns], dropped, track, out)?;
        }
        let mut event = begun(record, span, track);
        event.flow_ids = flows.sent(position, at);
        event.terminating_flow_ids.extend(flows.received(position, at));
        out.event(span.begin_ns, event)?;
        let end_ns = open.last().map_or(span.end_ns(), |outer| span.end_ns().min(*outer));
        open.push(end_ns);
        next_number = span.number.saturating_add(1);
        free_ns = end_ns.max(free_ns);
    }
    close(&mut open, u64::MAX, track, out)?;
    let passed = next_number.saturating_sub(first_number);
    let told = passed.saturating_sub(record.spans.len() as u64);
    let dropped = record.dropped_spans.saturating_sub(told);
    let end_ns = out.end_ns();
    if dropped > 0 && free_ns < end_ns {
        write_dropped([free_ns, end_ns], dropped, track, out)?;
    }
    Ok(())
}

/// The number of the first span that ran on a PE, even if it was dropped. In run `n` of a PE,
/// counted from 0, numbers begin at `n << 40`.
fn first_number(record: &PeRecord) -> u64 {
    record.spans.first().map_or(0, |span| span.number >> RUN_BITS << RUN_BITS)
}

/// Ends the slices whose ends are not after a time.
fn close<W: Write>(
    open: &mut Vec<u64>,
    until_ns: u64,
    track: u64,
    out: &mut PacketWriter<W>,
) -> io::Result<()> {
    while let Some(end_ns) = open.pop_if(|end_ns| *end_ns <= until_ns) {
        out.event(end_ns, TrackEvent::new(EventType::SliceEnd, track))?;
    }
    Ok(())
}

/// Writes a slice for the time of spans that were dropped, so that it is not taken for idle time.
fn write_dropped<W: Write>(
    [begin_ns, end_ns]: [u64; 2],
    spans: u64,
    track: u64,
    out: &mut PacketWriter<W>,
) -> io::Result<()> {
    let (category, name) = DROPPED;
    let mut event = TrackEvent::new(EventType::SliceBegin, track).named(category, name);
    event.debug_annotations.push(DebugAnnotation::new("spans", Value::Unsigned(spans)));
    out.event(begin_ns, event)?;
    out.event(end_ns, TrackEvent::new(EventType::SliceEnd, track))
}

/// The begin of a span, without flows.
fn begun(record: &PeRecord, span: &Span, track: u64) -> TrackEvent {
    let category = match span.kind {
        TASK => "task",
        OTHER => "runtime",
        _ => "handler",
    };
    let name = record.type_name(span.kind);
    let mut event = TrackEvent::new(EventType::SliceBegin, track).named(category, name);
    let mut add = |name, value| event.debug_annotations.push(DebugAnnotation::new(name, value));
    if span.kind < TASK {
        add("actor", Value::Pointer(span.actor));
    }
    if let Some(step) = span.step {
        add("step", Value::Unsigned(step));
    }
    if let Some(cause) = &span.cause {
        let from = cause.span.map_or_else(|| NO_SPAN.to_owned(), |_| format!("pe{}", cause.pe));
        let travelled_ns = cause.received_ns.saturating_sub(cause.sent_ns);
        let queued_ns = span.begin_ns.saturating_sub(cause.received_ns);
        add("message from", Value::Text(from));
        add("message bytes", Value::Unsigned(cause.bytes.into()));
        add("message travelled ns", Value::Unsigned(travelled_ns));
        add("message queued ns", Value::Unsigned(queued_ns));
    }
    event
}
