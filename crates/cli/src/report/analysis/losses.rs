//! Links with more late messages than lost packets explain: their latency varies.

use super::history::History;
use super::transit::Transit;
use std::collections::BTreeMap;

/// Ratio of late messages to messages with a lost packet, up to which losses count as the cause. A
/// message may wait for a lost packet of another, so that a loss makes several messages late.
const LATE_FACTOR_MAX: f64 = 3.0;
/// Bytes of a message in a packet.
const PACKET_BYTES: f64 = 1200.0;

/// Messages over a link.
#[derive(Default)]
struct LateMessages {
    /// Number of messages that are later than latency and bandwidth explain.
    late: f64,
    /// Expected number of messages with a lost packet.
    expected: f64,
}

/// Returns, by sending and receiving site, the links that lose packets, but whose delays mostly
/// have another cause.
pub(crate) fn varying_links(history: &History<'_>, transit: Transit<'_>) -> Vec<(usize, usize)> {
    let (places, traffic) = (transit.places, transit.traffic);
    if traffic.links.values().all(|link| link.loss <= 0.0) {
        return Vec::new();
    }
    let mut links: BTreeMap<(usize, usize), LateMessages> = BTreeMap::new();
    for (pe, known) in history.pes.iter().enumerate() {
        for cause in known.spans.iter().filter_map(|kept| kept.span.cause.as_ref()) {
            let sender = cause.pe as usize;
            let ends = (places.site_of(sender), places.site_of(pe));
            let loss = traffic.link(ends.0, ends.1).map_or(0.0, |link| link.loss);
            if loss <= 0.0 || transit.is_inside_node(sender, pe) {
                continue;
            }
            let span = cause.span.and_then(|number| history.find(cause.pe, number));
            let left = span.map_or(cause.sent_ns, |(_, kept)| kept.end_ns.max(cause.sent_ns));
            let times = [left.min(cause.received_ns), cause.received_ns];
            let packets = (f64::from(cause.bytes) / PACKET_BYTES).ceil().max(1.0);
            let link = links.entry(ends).or_default();
            link.expected += 1.0 - (1.0 - loss).powf(packets);
            if transit.parts([sender, pe], times, cause.bytes).loss > 0.0 {
                link.late += 1.0;
            }
        }
    }
    let is_varying = |link: &LateMessages| link.late > LATE_FACTOR_MAX * link.expected.max(1.0);
    links.into_iter().filter(|(_, link)| is_varying(link)).map(|(ends, _)| ends).collect()
}
