//! What `gridctl check` prints for scripts: one JSON object.
//!
//! | key | value |
//! | --- | --- |
//! | `version` | 1; changes when a script could break |
//! | `ready` | whether there are no errors |
//! | `program` | path of the program |
//! | `hosts` | for each host, what its agent has found; see below |
//! | `ways` | number of ways from one host to another on which UDP was checked |
//! | `problems` | `level` (`error` or `warning`), `hosts`, `what`, and `remedy`: what to do |
//!
//! A host has `site`, `host`, `nodes`, `pes`, `address`, and `ssh`: `here`, `ok`, or what failed.
//! If its agent has answered: `connected_ms`, `gridctl` (its version), `program` (its `state` and
//! `digest`), `same_program`, `clock_ahead_ms`, `clock_uncertainty_ms`, `cores`, `load` (`null` if
//! a process may use only a part of the machine's cores), `memory_bytes`, `free_memory_bytes`,
//! `free_disk_bytes`, `ports`, `udp` (for each host that sent `from`: the `bytes` of the largest
//! datagram that came, or `null`), `not_sent` (datagrams that the system refused), `may_fragment`
//! (whether its datagrams may have come in fragments, so that their sizes say nothing) and
//! `seen_at` (other addresses at which others see it).

use super::advice::Wanted;
use super::finding::Finding;
use super::problems::is_same;
use super::report::Report;
use super::survey::Answers;
use serde_json::{Value, json};

/// Version of the object.
const VERSION: u32 = 1;

/// Renders the report as one line of JSON.
pub(super) fn render(report: &Report<'_>, wanted: &Wanted<'_>) -> String {
    let names = |hosts: &[usize]| -> Vec<&str> {
        hosts.iter().map(|&host| report.subjects[host].name.as_str()).collect()
    };
    let problem = |finding: &Finding| {
        json!({
            "level": finding.level,
            "hosts": names(&finding.hosts),
            "what": finding.what,
            "remedy": finding.remedy,
        })
    };
    let document = json!({
        "version": VERSION,
        "ready": !report.has_errors(),
        "program": wanted.program.to_string_lossy(),
        "hosts": (0..report.subjects.len()).map(|it| host(report, it)).collect::<Vec<_>>(),
        "ways": report.traffic.ways(),
        "problems": report.findings.iter().map(problem).collect::<Vec<_>>(),
    });
    format!("{document}\n")
}

fn host(report: &Report<'_>, number: usize) -> Value {
    let subject = &report.subjects[number];
    let outcome = &report.found.hosts[number];
    let ssh = match (outcome, &subject.ssh) {
        (Err(failure), _) => failure.word(),
        (Ok(_), None) => "here",
        (Ok(_), Some(_)) => "ok",
    };
    let mut value = json!({
        "site": subject.site,
        "host": subject.name,
        "nodes": subject.nodes,
        "pes": subject.pes,
        "address": subject.address.as_ref().ok(),
        "ssh": ssh,
    });
    if let (Ok(answers), Value::Object(value)) = (outcome, &mut value)
        && let Value::Object(found) = answered(report, number, answers)
    {
        value.extend(found);
    }
    value
}

fn answered(report: &Report<'_>, number: usize, answers: &Answers) -> Value {
    let facts = &answers.facts;
    let udp = report.traffic.received_by(number);
    let udp = udp
        .iter()
        .map(|(&from, bytes)| json!({ "from": report.subjects[from].name, "bytes": bytes }));
    let refused = answers.datagrams.iter().flat_map(|(sent, _)| &sent.refusals);
    let refused = refused.map(|it| {
        let to = usize::try_from(it.host).ok().and_then(|host| report.subjects.get(host));
        json!({ "to": to.map(|to| &to.name), "bytes": it.bytes, "reason": it.reason })
    });
    json!({
        "connected_ms": answers.connected.as_secs_f64() * 1e3,
        "gridctl": facts.version,
        "program": facts.program,
        "same_program": is_same(&facts.program, report.reference),
        "clock_ahead_ms": answers.clock.map(|clock| clock.ahead_ns as f64 * 1e-6),
        "clock_uncertainty_ms": answers.clock.map(|clock| clock.uncertainty_ns as f64 * 1e-6),
        "cores": facts.cores,
        "load": facts.load,
        "memory_bytes": facts.memory_bytes,
        "free_memory_bytes": facts.free_memory_bytes,
        "free_disk_bytes": facts.free_disk_bytes,
        "ports": facts.ports,
        "udp": udp.collect::<Vec<_>>(),
        "not_sent": refused.collect::<Vec<_>>(),
        "may_fragment": answers.datagrams.as_ref().map(|(sent, _)| sent.may_fragment),
        "seen_at": report.traffic.seen(number).collect::<Vec<_>>(),
    })
}
