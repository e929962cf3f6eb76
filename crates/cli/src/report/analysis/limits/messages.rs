//! Limits in links, and in the cost of messages.

use super::evidence::Evidence;
use super::limit::{Limit, LimitKind, SHARE_MIN, named};
use crate::quantity::{bytes, percent, time};
use crate::report::analysis::awaited::Awaited;
use std::collections::BTreeMap;
use std::time::Duration;

/// Minimum share of the cost of messages, besides their handlers, in the work of PEs. With this
/// share, the run could save at most a fifth of the work.
const OVERHEAD_MIN: f64 = 0.2;
/// Minimum mean size of large messages in bytes. From this size on, copying and encrypting a
/// message takes longer than the rest of its handling.
const BYTES_MIN: f64 = 16e3;
/// Maximum cost of a message besides its handler; the runtime takes a few microseconds. A higher
/// cost has other causes.
const COST_MAX_NS: f64 = 100e3;

/// Returns the limits in links and in the cost of messages.
pub(crate) fn limits(evidence: &Evidence<'_>) -> Vec<Limit> {
    let all = [
        latency(evidence),
        bandwidth(evidence),
        loss(evidence),
        delay(evidence),
        overhead(evidence),
    ];
    all.into_iter().flatten().collect()
}

/// Two sites, in the direction of the link, or in the order of their numbers.
type Ends = (usize, usize);

/// Returns the shares of waits for links that `of` selects, the greatest first, and their sum.
fn shares(
    evidence: &Evidence<'_>,
    of: impl Fn(&Awaited) -> Option<Ends>,
) -> Option<(Vec<(Ends, f64)>, f64)> {
    let mut shares: BTreeMap<Ends, f64> = BTreeMap::new();
    for (awaited, ns) in &evidence.waits.awaited {
        if let Some(ends) = of(awaited) {
            *shares.entry(ends).or_default() += evidence.share_of_waits(*ns);
        }
    }
    let total: f64 = shares.values().sum();
    let mut shares: Vec<(Ends, f64)> = shares.into_iter().collect();
    shares.sort_by(|a, b| b.1.total_cmp(&a.1));
    (total >= SHARE_MIN && !shares.is_empty()).then_some((shares, total))
}

/// Both directions of a link as one.
fn both_ways(from: usize, to: usize) -> Option<Ends> {
    Some((from.min(to), from.max(to)))
}

/// Names links in both directions, such as `the link between a and b`.
fn names(evidence: &Evidence<'_>, shares: &[(Ends, f64)]) -> String {
    let places = evidence.places;
    let name = |&((from, to), share): &(Ends, f64)| {
        let name = match from == to {
            true => format!("the network inside {}", places.site_name(from)),
            false => {
                let [from, to] = [from, to].map(|site| places.site_name(site));
                format!("the link between {from} and {to}")
            }
        };
        (name, share)
    };
    named(&shares.iter().map(name).collect::<Vec<_>>())
}

/// The latency of a link at the start, for people.
fn latency_of(evidence: &Evidence<'_>, (from, to): Ends) -> Option<String> {
    let state = evidence.traffic.link(from, to)?.state(0)?;
    Some(time(Duration::from_secs_f64(state.latency_ns.min(1e15) / 1e9)))
}

fn latency(evidence: &Evidence<'_>) -> Option<Limit> {
    let (shares, total) = shares(evidence, |awaited| match awaited {
        Awaited::Latency { from, to } => both_ways(*from, *to),
        _ => None,
    })?;
    let place = names(evidence, &shares);
    let latency = latency_of(evidence, shares[0].0).unwrap_or_else(|| "unknown".to_owned());
    let clause = format!("messages over {place} take long, with a latency of {latency}");
    let because = "while these messages travelled, their receivers had nothing to do".to_owned();
    Some(Limit::new(LimitKind::SlowLink, place, total, clause).because(because))
}

fn bandwidth(evidence: &Evidence<'_>) -> Option<Limit> {
    let (shares, total) = shares(evidence, |awaited| match awaited {
        Awaited::Bandwidth { from, to } => Some((*from, *to)),
        _ => None,
    })?;
    let places = evidence.places;
    let name = |&((from, to), share): &(Ends, f64)| (places.link_name(from, to), share);
    let place = named(&shares.iter().map(name).collect::<Vec<_>>());
    let (from, to) = shares[0].0;
    let link = evidence.traffic.link(from, to)?;
    let bandwidth = link.state(0).and_then(|state| state.bytes_per_second);
    let rate = bandwidth.map_or_else(|| "unknown".to_owned(), |rate| bytes(rate as u64) + "/s");
    let clause = format!("the link {place} is too narrow, with a bandwidth of {rate}");
    let because = format!("{} crossed it in all", bytes(link.bytes));
    Some(Limit::new(LimitKind::NarrowLink, place, total, clause).because(because))
}

fn loss(evidence: &Evidence<'_>) -> Option<Limit> {
    let (shares, total) = shares(evidence, |awaited| match awaited {
        Awaited::Loss { from, to } => both_ways(*from, *to),
        _ => None,
    })?;
    let place = names(evidence, &shares);
    let (from, to) = shares[0].0;
    let links = [(from, to), (to, from)].map(|(from, to)| evidence.traffic.link(from, to));
    let lost = links.into_iter().flatten().map(|link| link.loss).fold(0.0, f64::max);
    let clause = format!("{place} loses packets ({:.1} %), which are sent again", lost * 100.0);
    let because = "messages took longer than latency and bandwidth explain".to_owned();
    Some(Limit::new(LimitKind::LossyLink, place, total, clause).because(because))
}

fn delay(evidence: &Evidence<'_>) -> Option<Limit> {
    let (shares, total) = shares(evidence, |awaited| match awaited {
        Awaited::Delay { from, to } => both_ways(*from, *to),
        _ => None,
    })?;
    let place = names(evidence, &shares);
    let clause =
        format!("messages over {place} take longer than its latency and bandwidth explain");
    Some(Limit::new(LimitKind::LinkDelay, place, total, clause))
}

/// The cost of messages besides their handlers: in the network and in the runtime.
fn overhead(evidence: &Evidence<'_>) -> Option<Limit> {
    let total = evidence.profile.total();
    // The time of the runtime during the stops of checkpoints is the cost of checkpoints. Encoding
    // between handlers counts as time of the runtime.
    let paused = evidence.profile.overhead_within(evidence.events.pauses.of(Awaited::Checkpoint));
    let (busy, overhead) = (total.busy_ns as f64, (total.overhead_ns() - paused).max(0.0));
    let part = overhead / (busy + overhead).max(1.0);
    let mut share = evidence.share_of(overhead);
    for (awaited, ns) in &evidence.waits.awaited {
        if matches!(awaited, Awaited::Overhead { .. }) {
            share += evidence.share_of_waits(*ns);
        }
    }
    if part < OVERHEAD_MIN || share < SHARE_MIN {
        return None;
    }
    let (messages, sent) = evidence.traffic.total();
    let mean_bytes = sent as f64 / messages.max(1) as f64;
    let number =
        messages.max(evidence.kinds.used().map(|row| row.count).fold(0, u64::saturating_add));
    let cost_ns = overhead / number.max(1) as f64;
    let cost = time(Duration::from_nanos(cost_ns as u64));
    let because = format!(
        "network and runtime took {} of the work, {cost} for each handler or message; {messages} \
         messages had {} on average",
        percent(part),
        bytes(mean_bytes as u64)
    );
    let place = "all PEs".to_owned();
    if mean_bytes >= BYTES_MIN {
        let clause = "PEs are busy with sending and receiving many bytes".to_owned();
        return Some(Limit::new(LimitKind::MessageVolume, place, share, clause).because(because));
    }
    if cost_ns > COST_MAX_NS {
        let clause =
            "PEs are busy with the runtime itself: checkpoints, moves of actors".to_owned();
        return Some(Limit::new(LimitKind::Runtime, place, share, clause).because(because));
    }
    let mean = time(Duration::from_nanos(evidence.kinds.mean_ns() as u64));
    let clause =
        format!("handlers are too short for the cost of their messages, with a mean of {mean}");
    Some(Limit::new(LimitKind::SmallGrains, place, share, clause).because(because))
}
