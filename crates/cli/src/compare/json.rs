//! A comparison for scripts: one JSON object.
//!
//! | key | value |
//! | --- | --- |
//! | `version` | 1; changes when a script could break |
//! | `verdict` | the first line of the text |
//! | `faster` | `a`, `b`, or null if the times are the same or a job was not done |
//! | `share` | the difference of the times, as a share of the longer one, or null |
//! | `reason` | what explains most of the difference, or null: `kind`, `type` of actors or null, `difference_s` of a PE, `place` (`all`, `site`, `node` or `pe`) and its `name` or null |
//! | `a`, `b` | `path`, `job`, `command`, `driver`, `seed`, `build` of the program or null, `gridctl` (the version that recorded) or null, `sites`, `nodes`, `pes`, `missing_nodes`, `outcome` (`done`, `failed`, `cut-off`), `exit_code`, `failure`, `verified` (that line of output, or null), `seconds` |
//! | `times` | what explains most first: `kind` (`handlers`, `tasks`, `runtime`, `network`, `other-threads`, `idle`, `rest`), `type`, and seconds of a PE |
//! | `traffic` | for each pair of sites: `from`, `to`, `messages`, `bytes` |
//! | `counts` | `name`, `unit` (`times`, `bytes`, `ns`), and the numbers |
//!
//! Numbers of both recordings are `a`, `b`, `difference` (`b` minus `a`) and `percent` of `a`,
//! which is null if `a` is zero.

use super::comparison::Comparison;
use super::difference::{Both, CountDifference, Place, TimeDifference, TrafficDifference};
use super::profile::{CountUnit, TimeKind};
use super::text::driver;
use super::verdict::{Reason, RecordedOutcome, Verdict};
use serde_json::{Value, json};

const VERSION: u32 = 1;
const SECOND_NS: f64 = 1e9;

/// Renders a comparison as one line of JSON.
pub(super) fn render(comparison: &Comparison<'_>) -> String {
    let (faster, share, reason) = match &comparison.verdict {
        Verdict::Faster { which, share, reason } => {
            (Some(["a", "b"][*which]), Some(*share), reason.as_ref().map(because))
        }
        Verdict::NotDone | Verdict::Same => (None, None, None),
    };
    let document = json!({
        "version": VERSION,
        "verdict": comparison.sentence(),
        "faster": faster,
        "share": share,
        "reason": reason,
        "a": recording(comparison, 0),
        "b": recording(comparison, 1),
        "times": comparison.times.iter().map(time).collect::<Vec<_>>(),
        "traffic": comparison.traffic.iter().map(traffic).collect::<Vec<_>>(),
        "counts": comparison.counts.iter().map(count).collect::<Vec<_>>(),
    });
    format!("{document}\n")
}

fn because(reason: &Reason) -> Value {
    let (place, name) = match &reason.place {
        Place::Everywhere => ("all", None),
        Place::Site(name) => ("site", Some(name.clone())),
        Place::Node(name) => ("node", Some(name.clone())),
        Place::Pe(number) => ("pe", Some(format!("pe{number}"))),
    };
    let (kind, of_type) = kind(&reason.time.kind);
    json!({
        "kind": kind,
        "type": of_type,
        "difference_s": reason.time.ns.difference() / SECOND_NS,
        "place": place,
        "name": name,
    })
}

fn recording(comparison: &Comparison<'_>, at: usize) -> Value {
    let recording = comparison.recordings[at];
    let end_ns = [comparison.ends.a, comparison.ends.b][at];
    let header = &recording.header;
    let (outcome, exit_code, failure) = match &comparison.outcomes[at] {
        RecordedOutcome::Done => ("done", Some(0), None),
        RecordedOutcome::Failed { exit_code, failure } => {
            ("failed", Some(*exit_code), failure.as_ref())
        }
        RecordedOutcome::CutOff => ("cut-off", None, None),
    };
    json!({
        "path": comparison.paths[at].display().to_string(),
        "job": header.job,
        "command": header.command,
        "driver": driver(header.driver),
        "seed": header.seed,
        "build": header.build,
        "gridctl": header.gridctl,
        "sites": header.sites.len(),
        "nodes": header.nodes.len(),
        "pes": header.pes.len(),
        "missing_nodes": recording.missing,
        "outcome": outcome,
        "exit_code": exit_code,
        "failure": failure,
        "verified": recording.ending.as_ref().and_then(|ending| ending.verified.as_ref()),
        "seconds": end_ns / SECOND_NS,
    })
}

fn time(row: &TimeDifference) -> Value {
    let (kind, of_type) = kind(&row.kind);
    let mut object = both(Both { a: row.ns.a / SECOND_NS, b: row.ns.b / SECOND_NS });
    object["kind"] = kind.into();
    object["type"] = of_type.into();
    object
}

fn traffic(row: &TrafficDifference) -> Value {
    let [from, to] = &row.sites;
    json!({ "from": from, "to": to, "messages": both(row.messages), "bytes": both(row.bytes) })
}

fn count(row: &CountDifference) -> Value {
    let unit = match row.unit {
        CountUnit::Times => "times",
        CountUnit::Bytes => "bytes",
        CountUnit::Nanoseconds => "ns",
    };
    let mut object = both(row.values);
    object["name"] = row.name.into();
    object["unit"] = unit.into();
    object
}

fn both(both: Both) -> Value {
    json!({
        "a": both.a,
        "b": both.b,
        "difference": both.difference(),
        "percent": both.percent(),
    })
}

/// The name of a kind of time, and the type of actors.
fn kind(kind: &TimeKind) -> (&'static str, Option<&str>) {
    match kind {
        TimeKind::Handlers(name) => ("handlers", Some(name)),
        TimeKind::Tasks => ("tasks", None),
        TimeKind::Runtime => ("runtime", None),
        TimeKind::Network => ("network", None),
        TimeKind::Waited => ("other-threads", None),
        TimeKind::Idle => ("idle", None),
        TimeKind::Rest => ("rest", None),
    }
}
