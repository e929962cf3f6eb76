//! Checks that the parts of a recording fit together, so that readers need not check indices.

use crate::answer::MainAnswer;
use crate::event::{JobEnding, RecordedEvent, RecordedHop, What};
use crate::header::Header;
use crate::pe_record::{BINS_MAX, OTHER, PeRecord, Span, TASK, TimedSpan};

/// The latest time, 146 years, so that sums and differences of times fit in 64 bits.
const TIME_MAX_NS: u64 = 1 << 62;

/// Returns the first problem of a header, if there is one.
pub(crate) fn problem_of_header(header: &Header) -> Option<String> {
    let sites = header.sites.len();
    let is_site = |site: u32| (site as usize) < sites;
    if let Some(at) = header.nodes.iter().position(|node| !is_site(node.site)) {
        return Some(format!("node {at} is in no site"));
    }
    let is_good = |speed: f64| speed.is_finite() && speed > 0.0;
    if let Some(at) = header.pes.iter().position(|pe| {
        let has_node = (pe.node as usize) < header.nodes.len();
        !has_node || !is_good(pe.speed)
    }) {
        return Some(format!("PE {at} has no node or no speed"));
    }
    let is_link = |from, to| is_site(from) && is_site(to);
    let bad = header.links.iter().find(|link| !is_link(link.from, link.to));
    bad.map(|link| format!("a link leads from site {} to site {}", link.from, link.to))
}

/// Returns the first problem of the events of a job, or of its ending.
pub(crate) fn problem_of_events(
    header: &Header,
    events: &[RecordedEvent],
    ending: Option<&JobEnding>,
) -> Option<String> {
    if ending.is_some_and(|ending| ending.at_ns >= TIME_MAX_NS) {
        return Some("the ending has an impossible time".to_owned());
    }
    events.iter().find_map(|event| {
        let problem = problem_of_event(header, event)?;
        Some(format!("the event at {} ns: {problem}", event.at_ns))
    })
}

fn problem_of_event(header: &Header, event: &RecordedEvent) -> Option<&'static str> {
    let is_node = |node: u32| (node as usize) < header.nodes.len();
    let is_site = |site: u32| (site as usize) < header.sites.len();
    // The event's duration, and whether the nodes and sites that it names exist.
    let (took_ns, has_nodes, has_sites) = match &event.what {
        What::Balanced { pause_ns, .. } => (*pause_ns, true, true),
        What::Checkpoint { duration_ns, stopped_ns, .. } => {
            ((*duration_ns).max(stopped_ns.unwrap_or_default()), true, true)
        }
        What::Recovered { duration_ns, .. } => (*duration_ns, true, true),
        What::Lost { nodes } => (0, nodes.iter().all(|node| is_node(*node)), true),
        What::Joined { node } | What::Left { node } | What::Exited { node, .. } => {
            (0, is_node(*node), true)
        }
        What::Broadcast { root, duration_ns, hops, .. } => {
            let times = hops.iter().filter_map(|hop| hop.after_ns);
            let has_ends = |hop: &RecordedHop| is_node(hop.from) && is_node(hop.to);
            let took_ns = times.fold(*duration_ns, u64::max);
            (took_ns, is_node(*root) && hops.iter().all(has_ends), true)
        }
        What::LinkChanged { from, to, .. } => (0, true, is_site(*from) && is_site(*to)),
        What::Warning { .. } => (0, true, true),
    };
    let checks = [
        (event.at_ns.max(took_ns) < TIME_MAX_NS, "it has an impossible time"),
        (has_nodes, "it names an unknown node"),
        (has_sites, "it names an unknown site"),
    ];
    checks.into_iter().find(|(is_good, _)| !is_good).map(|(_, problem)| problem)
}

/// Returns the first problem of the record of a PE in the file of a node.
pub(crate) fn problem_of_record(
    header: &Header,
    node: u32,
    record: &PeRecord,
) -> Option<&'static str> {
    let is_of_node = header.pes.get(record.pe as usize).is_some_and(|pe| pe.node == node);
    let is_kind = |kind: u16| kind >= TASK || usize::from(kind) < record.types.len();
    let are_bins_good = record.bins.iter().all(|bin| {
        bin.busy_ns.iter().all(|(kind, _)| is_kind(*kind))
            && bin.sent.iter().all(|sent| (sent.site as usize) < header.sites.len())
    });
    let is_ordered =
        |pair: &[Span]| pair[0].number < pair[1].number && pair[0].begin_ns <= pair[1].begin_ns;
    let is_timed = |span: &Span| {
        let cause = span.cause.as_ref().map_or(0, |cause| cause.sent_ns.max(cause.received_ns));
        span.end_ns().max(cause) < TIME_MAX_NS
    };
    let is_caused = |span: &Span| {
        span.cause.as_ref().is_none_or(|cause| (cause.pe as usize) < header.pes.len())
    };
    let is_answer_timed = |answer: &MainAnswer| {
        answer.answered_ns < TIME_MAX_NS && answer.asked_ns <= answer.answered_ns
    };
    let is_answer_caused =
        |answer: &MainAnswer| answer.span.is_none_or(|(pe, _)| (pe as usize) < header.pes.len());
    let is_later = |pair: &[TimedSpan]| pair[0].number < pair[1].number;
    let is_set_before = |timed: &TimedSpan| timed.set_by < timed.number;
    let are_timers_good =
        record.timed.windows(2).all(is_later) && record.timed.iter().all(is_set_before);
    let checks = [
        (is_of_node, "it has a PE of another node"),
        (record.began_ns < TIME_MAX_NS, "it begins at an impossible time"),
        (record.types.len() <= usize::from(TASK), "it has too many types"),
        (record.bins.len() <= BINS_MAX, "it has too many bins"),
        (record.bin_ns > 0 && record.bin_ns < TIME_MAX_NS, "its bins have no width"),
        (record.window_ns > 0 && record.window_ns < TIME_MAX_NS, "its windows have no width"),
        (record.kept_every.is_power_of_two(), "the windows of its kept spans are not regular"),
        (are_bins_good, "a bin has an unknown type or site"),
        (record.totals.iter().all(|total| is_kind(total.number)), "a total has an unknown type"),
        (record.spans.iter().all(|span| is_kind(span.kind)), "a span has an unknown type"),
        (record.spans.windows(2).all(is_ordered), "its spans are out of order"),
        (record.spans.iter().all(is_timed), "a span has an impossible time"),
        (record.spans.iter().all(is_caused), "a message came from an unknown PE"),
        (record.answers.iter().all(is_answer_timed), "an answer to main has an impossible time"),
        (record.answers.iter().all(is_answer_caused), "an answer to main came from an unknown PE"),
        (are_timers_good, "a timer is set after its message"),
    ];
    checks.into_iter().find(|(is_good, _)| !is_good).map(|(_, problem)| problem)
}

// `OTHER` is the last number, so that `kind >= TASK` is one of the two that have no name.
const _: () = assert!(TASK < OTHER && OTHER == u16::MAX);
