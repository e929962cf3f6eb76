//! A moment of a job as a JSON object, for scripts.
//!
//! Shares are from 0 to 1; a number that is not known is `null`. Every object has a `version`,
//! which changes when a script could break.

use super::figures::Figures;
use super::moment::Moment;
use super::parts::{LinkPart, NodePart, Parts, PePart, SitePart, TypePart};
use crate::request::{JobEvent, JobEventKind};
use serde::Serialize;

/// The version of the objects.
const VERSION: u32 = 1;

#[derive(Serialize)]
struct Document<'a> {
    version: u32,
    job: &'a str,
    /// Number of the sample, since the watch of the job began.
    tick: u64,
    /// Time since the start of the run, in seconds.
    at_s: f64,
    /// Number of nodes in the sample, and in the job.
    nodes_heard: u32,
    nodes_all: u32,
    pe_count: u32,
    /// The newest step of which a message was handled.
    step: Option<u64>,
    steps_per_s: Option<f64>,
    rebalances: u64,
    lost_nodes: u64,
    memory_bytes: Option<u64>,
    telemetry: Telemetry,
    total: Figures,
    sites: Vec<Place>,
    nodes: Vec<Place>,
    pes: Vec<Place>,
    types: Vec<Type>,
    links: Vec<Link>,
    events: Vec<Event<'a>>,
}

/// The cost of the samples.
#[derive(Serialize)]
struct Telemetry {
    /// Microseconds for each node and sample: the mean and the largest.
    telemetry_micros: f64,
    telemetry_micros_max: f64,
    /// The same in processor time; 0 where it is not measured.
    processor_micros: f64,
    processor_micros_max: f64,
    /// Levels of the tree of nodes.
    depth: u32,
    /// Samples and bytes that the root got for the last sample.
    received: u32,
    received_bytes: u64,
}

/// A site, a node or a PE.
#[derive(Serialize)]
struct Place {
    name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    number: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    site: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    host: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    node_count: Option<u32>,
    pe_count: u32,
    memory_bytes: Option<u64>,
    /// Number of PEs that are inside a long handler.
    #[serde(skip_serializing_if = "Option::is_none")]
    late_pes: Option<u32>,
    #[serde(flatten)]
    figures: Figures,
}

#[derive(Serialize)]
struct Type {
    name: String,
    actors: u64,
    messages: u64,
    messages_per_s: Option<f64>,
    waiting: u64,
}

#[derive(Serialize)]
struct Link {
    from: String,
    to: String,
    messages: u64,
    bytes: u64,
    messages_per_s: Option<f64>,
    bytes_per_s: Option<f64>,
    bandwidth_bps: Option<u64>,
    used: Option<f64>,
}

#[derive(Serialize)]
struct Event<'a> {
    at_s: f64,
    kind: JobEventKind,
    text: &'a str,
}

/// The last object, after the end of the job.
#[derive(Serialize)]
struct Ended<'a> {
    version: u32,
    job: &'a str,
    ended: bool,
    exit_code: Option<u8>,
}

/// Returns the object of a moment, with rates since the one before, as a line.
pub(super) fn line(now: &Moment, before: Option<&Moment>) -> serde_json::Result<String> {
    let parts = Parts::new(now, before);
    serde_json::to_string(&document(parts)).map(|text| text + "\n")
}

/// Returns the object that follows when the job has ended, as a line.
pub(super) fn last_line(job: &str, exit_code: Option<u8>) -> serde_json::Result<String> {
    let ended = Ended { version: VERSION, job, ended: true, exit_code };
    serde_json::to_string(&ended).map(|text| text + "\n")
}

fn document(parts: Parts<'_>) -> Document<'_> {
    let (now, total) = (parts.now, parts.total());
    let sample = &now.sample;
    let micros = |ns: u64| ns as f64 / 1000.0;
    let mean = |ns: u64| micros(ns) / f64::from(total.nodes.max(1));
    Document {
        version: VERSION,
        job: &now.job,
        tick: sample.tick,
        at_s: sample.at_us as f64 / 1e6,
        nodes_heard: total.nodes,
        nodes_all: now.grid.layout().node_count(),
        pe_count: total.pes,
        step: sample.newest_step.checked_sub(1),
        steps_per_s: parts.steps_per_s(),
        rebalances: now.rebalances,
        lost_nodes: now.losses,
        memory_bytes: total.memory,
        telemetry: Telemetry {
            telemetry_micros: mean(sample.telemetry_ns),
            telemetry_micros_max: micros(sample.telemetry_ns_max),
            processor_micros: mean(sample.processor_ns),
            processor_micros_max: micros(sample.processor_ns_max),
            depth: sample.depth,
            received: sample.received,
            received_bytes: sample.received_bytes,
        },
        total: total.figures,
        sites: sites(parts),
        nodes: nodes(parts),
        pes: pes(parts),
        types: parts.types(None).into_iter().map(|it| of_type(now, it)).collect(),
        links: parts.links().into_iter().map(|it| link(now, it)).collect(),
        events: now.events.iter().map(event).collect(),
    }
}

fn event(event: &JobEvent) -> Event<'_> {
    let JobEvent { at, kind, text } = event;
    Event { at_s: at.as_secs_f64(), kind: *kind, text }
}

fn sites(parts: Parts<'_>) -> Vec<Place> {
    let place = |site: SitePart| Place {
        name: parts.now.site_name(site.site),
        number: None,
        site: None,
        host: None,
        node_count: Some(site.nodes),
        pe_count: site.pes,
        memory_bytes: site.memory,
        late_pes: None,
        figures: site.figures,
    };
    parts.sites().into_iter().map(place).collect()
}

fn nodes(parts: Parts<'_>) -> Vec<Place> {
    let now = parts.now;
    let place = |node: NodePart| Place {
        name: now.node_name(node.node),
        number: Some(node.node.0),
        site: Some(now.site_name(node.site)),
        host: now.host(node.node).map(str::to_owned),
        node_count: None,
        pe_count: node.pes,
        memory_bytes: node.memory,
        late_pes: Some(node.late_pes),
        figures: node.figures,
    };
    parts.nodes(None).into_iter().map(place).collect()
}

fn pes(parts: Parts<'_>) -> Vec<Place> {
    let layout = parts.now.grid.layout();
    let place = |pe: PePart| Place {
        name: pe.pe.to_string(),
        number: Some(pe.pe.0),
        site: layout.contains(pe.pe).then(|| parts.now.site_name(layout.site_of(pe.pe))),
        host: None,
        node_count: None,
        pe_count: 1,
        memory_bytes: None,
        late_pes: Some(pe.is_late.into()),
        figures: pe.figures,
    };
    parts.pes(None).into_iter().map(place).collect()
}

fn of_type(now: &Moment, it: TypePart) -> Type {
    let TypePart { number, site: _, actors, messages, messages_per_s, waiting } = it;
    Type { name: now.type_name(number), actors, messages, messages_per_s, waiting }
}

fn link(now: &Moment, it: LinkPart) -> Link {
    let LinkPart { from, to, messages, bytes, messages_per_s, bytes_per_s, bandwidth_bps, used } =
        it;
    let [from, to] = [from, to].map(|site| now.site_name(site));
    Link { from, to, messages, bytes, messages_per_s, bytes_per_s, bandwidth_bps, used }
}

#[cfg(test)]
mod tests {
    use super::super::fixtures::moment;
    use super::*;
    use serde_json::{Value, json};

    fn object(now: &Moment, before: Option<&Moment>) -> Value {
        let line = line(now, before).unwrap();
        assert_eq!(line.matches('\n').count(), 1);
        serde_json::from_str(&line).unwrap()
    }

    #[test]
    fn an_object_has_all_parts_and_their_rates() {
        let (before, now) = (moment(10), moment(12));
        let object = object(&now, Some(&before));

        assert_eq!(object["job"], "leanmd-4711");
        assert_eq!((&object["step"], &object["steps_per_s"]), (&json!(60), &json!(5.0)));
        assert_eq!(object["total"]["busy"], 0.4);
        assert_eq!(object["telemetry"]["telemetry_micros"], 9.0);
        assert_eq!(object["telemetry"]["telemetry_micros_max"], 12.0);
        assert_eq!(object["telemetry"]["processor_micros"], 5.0);
        assert_eq!(object["telemetry"]["processor_micros_max"], 7.0);
        let names = |list: &str| {
            let list = object[list].as_array().unwrap().iter();
            list.map(|it| it["name"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
        };
        assert_eq!(names("sites"), ["a", "b"]);
        assert_eq!(names("nodes"), ["a/0", "a/1", "b/2", "b/3"]);
        assert_eq!(names("pes"), ["pe0", "pe1", "pe2", "pe3"]);
        assert_eq!(names("types"), ["Cell", "Clock"]);
        let node = &object["nodes"][3];
        assert_eq!((&node["site"], &node["late_pes"]), (&json!("b"), &json!(1)));
        assert_eq!((&node["messages"], &node["messages_per_s"]), (&json!(48_000), &json!(4000.0)));
        let link = &object["links"][1];
        assert_eq!((&link["to"], &link["used"]), (&json!("b"), &json!(0.4)));
        let event = json!({
            "at_s": 125.0, "kind": "warning", "text": "one handler takes long"
        });
        assert_eq!(object["events"][1], event);
    }

    #[test]
    fn what_is_not_known_is_null() {
        let object = object(&moment(12), None);
        assert_eq!(
            (&object["total"]["busy"], &object["steps_per_s"]),
            (&Value::Null, &Value::Null)
        );
        let last: Value = serde_json::from_str(&last_line("x-1", Some(3)).unwrap()).unwrap();
        let expected = json!({ "version": 1, "job": "x-1", "ended": true, "exit_code": 3 });
        assert_eq!(last, expected);
    }
}
