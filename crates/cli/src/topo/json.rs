//! A topology for scripts: one JSON object.
//!
//! | key | value |
//! | --- | --- |
//! | `version` | 1; changes when a script could break |
//! | `source` | `kind`: `grid-file`, `matrix-file`, `measured` or `job`; `name`: the file, grid or job |
//! | `nodes` | for each node: `node` (its number), `name`, and `site` and `host` where known |
//! | `levels` | from the whole to the closest groups: `level`, `groups`, `rtt_ms`, `bandwidth_bps`, `confidence` |
//! | `groups` | `group` (its number), `level`, `parent`, `name`, `nodes`, `rtt_ms`, `bandwidth_bps`, `confidence`, and its `uplink` where that was measured, or where a grid file gives it |
//! | `links` | `from` and `to` (numbers of groups), `latency_ms` (one way), `bandwidth_bps`, `loss`, `age_s`, `confidence` |
//! | `warnings` | irregularities, as texts |
//!
//! Ranges have `min`, `median` and `max`. Unknown values are `null`, as is an unlimited bandwidth.

use super::topology::Topology;
use gridspan_topology::{Bandwidth, BandwidthRange, GroupId, NodeId, Pipes, RttRange};
use serde_json::{Value, json};
use std::time::Duration;

const VERSION: u32 = 1;

/// Renders the topology as one line of JSON.
pub(crate) fn render(topology: &Topology) -> String {
    let hierarchy = &topology.hierarchy;
    let groups = (0..hierarchy.depth()).flat_map(|level| hierarchy.groups_at(level));
    let level = |(number, level): (usize, &gridspan_topology::Level)| {
        json!({
            "level": number,
            "groups": hierarchy.groups_at(number).len(),
            "rtt_ms": level.rtt.map(rtt),
            "bandwidth_bps": level.bandwidth.map(rate),
            "confidence": level.confidence,
        })
    };
    let document = json!({
        "version": VERSION,
        "source": { "kind": topology.source.kind(), "name": topology.source.name() },
        "nodes": hierarchy.nodes().map(|number| node(topology, number)).collect::<Vec<_>>(),
        "levels": hierarchy.levels().enumerate().map(level).collect::<Vec<_>>(),
        "groups": groups.map(|number| group(topology, number)).collect::<Vec<_>>(),
        "links": topology.pairs().into_iter().map(|pair| link(topology, pair)).collect::<Vec<_>>(),
        "warnings": topology.warnings,
    });
    format!("{document}\n")
}

fn node(topology: &Topology, node: NodeId) -> Value {
    let spec = topology.spec().filter(|spec| node.0 < spec.layout().node_count());
    let site = spec.map(|spec| spec.layout().site_name(spec.layout().site_of_node(node)));
    json!({
        "node": node,
        "name": topology.names.node(node),
        "site": site,
        "host": spec.map(|spec| spec.host(node)),
    })
}

fn group(topology: &Topology, number: GroupId) -> Value {
    let group = topology.hierarchy.group(number);
    let uplink = topology.uplink(number).map(|(pipes, rate)| {
        let pipes = match pipes {
            Pipes::Shared => "shared",
            Pipes::Separate => "separate",
        };
        json!({ "pipes": pipes, "bandwidth_bps": bits(rate) })
    });
    json!({
        "group": number,
        "level": group.level(),
        "parent": group.parent(),
        "name": topology.names.group(number),
        "nodes": group.members(),
        "rtt_ms": group.rtt().map(rtt),
        "bandwidth_bps": group.bandwidth().map(rate),
        "confidence": group.confidence(),
        "uplink": uplink,
    })
}

fn link(topology: &Topology, (from, to): (GroupId, GroupId)) -> Value {
    let view = topology.link(from, to);
    json!({
        "from": from,
        "to": to,
        "latency_ms": view.latency.map(ms),
        "bandwidth_bps": view.bandwidth.and_then(bits),
        "loss": view.loss,
        "age_s": view.age.map(|age| age.as_secs_f64()),
        "confidence": view.confidence,
    })
}

fn ms(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

fn bits(bandwidth: Bandwidth) -> Option<u64> {
    (!bandwidth.is_unlimited()).then(|| bandwidth.bits_per_second())
}

fn rtt(range: RttRange) -> Value {
    json!({ "min": ms(range.min), "median": ms(range.median), "max": ms(range.max) })
}

fn rate(range: BandwidthRange) -> Value {
    json!({ "min": bits(range.min), "median": bits(range.median), "max": bits(range.max) })
}
