//! Instants of the whole job: its events, and its end.

use super::schema::{DebugAnnotation, EventType, TrackEvent, Value};
use super::writer::PacketWriter;
use gridspan_record::{RecordedEvent, Recording};
use serde_json::Value as Json;
use std::io::{self, Write};

/// Category of all events of the job.
const CATEGORY: &str = "job";
/// The member of a recorded event that names its kind.
const KIND: &str = "what";
/// The member of a broadcast that the trace omits: a tree of many nodes is too long to show.
const HOPS: &str = "hops";

/// Writes the events on a track.
pub(super) fn write<W: Write>(
    recording: &Recording,
    track: u64,
    out: &mut PacketWriter<W>,
) -> io::Result<()> {
    // Some events are recorded later than they happened.
    let mut events: Vec<&RecordedEvent> = recording.events.iter().collect();
    events.sort_by_key(|recorded| recorded.at_ns);
    for recorded in events {
        out.event(recorded.at_ns, event(recorded, track)?)?;
    }
    if let Some(ending) = &recording.ending {
        let mut event = TrackEvent::new(EventType::Instant, track).named(CATEGORY, "ended");
        let code = Value::Unsigned(ending.exit_code.into());
        event.debug_annotations.push(DebugAnnotation::new("exit code", code));
        if let Some(failure) = &ending.failure {
            let failure = Value::Text(failure.clone());
            event.debug_annotations.push(DebugAnnotation::new("failure", failure));
        }
        out.event(ending.at_ns, event)?;
    }
    Ok(())
}

/// Converts a recorded event, with its members as arguments.
fn event(recorded: &RecordedEvent, track: u64) -> io::Result<TrackEvent> {
    let members = match serde_json::to_value(&recorded.what)? {
        Json::Object(members) => members,
        other => serde_json::Map::from_iter([(KIND.to_owned(), other)]),
    };
    let kind = members.get(KIND).and_then(Json::as_str).unwrap_or("event");
    let mut event = TrackEvent::new(EventType::Instant, track).named(CATEGORY, &spaced(kind));
    for (name, value) in members.iter().filter(|(name, _)| ![KIND, HOPS].contains(&name.as_str())) {
        if let Some(value) = argument(value) {
            event.debug_annotations.push(DebugAnnotation::new(&spaced(name), value));
        }
    }
    Ok(event)
}

/// The value of an argument; `None` for `null`.
fn argument(value: &Json) -> Option<Value> {
    match value {
        Json::Null => None,
        Json::String(text) => Some(Value::Text(text.clone())),
        Json::Number(number) => match number.as_u64() {
            Some(number) => Some(Value::Unsigned(number)),
            None => number.as_f64().map(Value::Number),
        },
        other => Some(Value::Text(other.to_string())),
    }
}

fn spaced(name: &str) -> String {
    name.replace('_', " ")
}
