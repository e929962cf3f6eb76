//! One estimate for each pair of groups, from the samples of all their nodes.
//!
//! Round trips count for both directions, rates and losses for the one that was observed. Latency
//! is half of the least recent round trip, so that queues and busy receivers do not show; jitter is
//! how far the others lie above it. Bandwidth is the best recent rate of a full link; a link that
//! was not full only shows that it can do that much. What is not observed keeps its last value and
//! ages.

use super::window::{BUCKET, Recent, Window};
use crate::id::NodeId;
use crate::units::{Bandwidth, Latency, Time};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

/// A relative change of latency or bandwidth that others should know of.
const CHANGE: f64 = 0.2;
/// Latencies that differ by less are the same, whatever the ratio: this is the noise of a
/// scheduler, and of acknowledgements that wait.
const LATENCY_NOISE: Duration = Duration::from_micros(600);
/// A change of the share of packets lost that others should know of.
const LOSS_CHANGE: f64 = 0.02;
/// So many packets have to be sent before their losses say something: at two in a hundred lost, the
/// share is then within a percent of the truth.
const LOSS_PACKETS: u64 = 1000;
/// Flows that are this old are over; reports come twice a second.
const FLOW_AGE: Duration = Duration::from_millis(800);
/// Flows of one pair of groups that are added up; more change little.
const FLOWS_MAX: usize = 1024;
/// A latency counts as higher than it was once round trips of so many half-seconds have said so,
/// and none between that it is not: single ones may have waited in the queue of a message that was
/// passing.
const DOUBTS: u32 = 3;
/// A link of which fewer round trips were ever seen is young.
const YOUNG: u32 = 4;
/// So many round trips make full confidence.
const FULL_ROUND_TRIPS: f64 = 8.0;
/// After this time without samples confidence has halved.
const HALF_LIFE: Duration = Duration::from_secs(30);

/// What one node saw of the way to another.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LinkSample {
    /// A round trip.
    pub round_trip: Option<Duration>,
    /// Bits per second that arrived there.
    pub rate: Option<Bandwidth>,
    /// Whether more was waiting to be sent meanwhile, so that the link did what it can.
    pub is_full: bool,
    /// Packets sent.
    pub sent: u64,
    /// How many of them were lost.
    pub lost: u64,
}

/// What is known about the way from one group to another.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct LinkEstimate {
    /// One way, without queues.
    pub latency: Latency,
    /// By how much round trips exceed the least, on average.
    pub jitter: Duration,
    /// The share of packets lost, `0.0..=1.0`.
    pub loss: f64,
    /// What the link can do, if it was ever full or probed; at least what flowed.
    pub bandwidth: Option<Bandwidth>,
    /// When the bandwidth was last observed.
    pub bandwidth_observed: Option<Time>,
    /// When a round trip was last observed.
    pub observed: Time,
    /// From 0 to 1: few samples and old ones count less.
    pub confidence: f64,
}

impl fmt::Display for LinkEstimate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.2?} ± {:.2?}", self.latency.duration(), self.jitter)?;
        if let Some(bandwidth) = self.bandwidth {
            write!(f, ", {:.1} Mbit/s", bandwidth.bits_per_second() as f64 * 1e-6)?;
        }
        if self.loss > 0.0 {
            write!(f, ", {:.1}% lost", self.loss * 100.0)?;
        }
        Ok(())
    }
}

/// A link is no longer what it was when it was last announced.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct LinkChange {
    /// The group that sends.
    pub from: u32,
    /// The group that receives.
    pub to: u32,
    /// What was announced.
    pub before: LinkEstimate,
    /// What is announced now.
    pub after: LinkEstimate,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
struct Entry {
    window: Window,
    /// What flows between two nodes each: when it was seen, at what rate, and whether more waited.
    flows: BTreeMap<(NodeId, NodeId), (Time, u64, bool)>,
    /// Packets, and how many of them were lost; halved now and then, so that the past fades.
    sent: u64,
    lost: u64,
    current: Option<LinkEstimate>,
    announced: Option<LinkEstimate>,
    /// Since when the present estimate differs from what was announced.
    differs: bool,
    /// Round trips so far.
    round_trips: u32,
    /// In how many half-seconds round trips were longer than is known, without a shorter one
    /// between, and the last.
    doubts: (u32, u64),
}

/// The links between groups, which are known by numbers.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct LinkMonitor {
    entries: BTreeMap<(u32, u32), Entry>,
}

impl LinkMonitor {
    /// Nothing is known.
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes a sample of a node in the first group about one in the second; `flow` names the two
    /// nodes. Rates of several flows at the same time add up.
    pub fn observe(
        &mut self,
        now: Time,
        (from, to): (u32, u32),
        flow: (NodeId, NodeId),
        sample: LinkSample,
    ) {
        let entry = self.entries.entry((from, to)).or_default();
        entry.count_losses(sample.sent, sample.lost);
        if let Some(rate) = sample.rate {
            let (rate, is_full) =
                entry.combined_rate(now, flow, (rate.bits_per_second(), sample.is_full));
            entry.window.rate(now, rate, is_full);
        }
        if let Some(round_trip) = sample.round_trip {
            entry.round_trip(now, round_trip);
            if from != to {
                self.entries.entry((to, from)).or_default().round_trip(now, round_trip);
            }
        }
    }

    /// Whether the last round trip was longer than is known, and too few have said so to believe
    /// it.
    pub fn is_doubted(&self, from: u32, to: u32) -> bool {
        self.entries.get(&(from, to)).is_some_and(|entry| (1..DOUBTS).contains(&entry.doubts.0))
    }

    /// Whether so few round trips were seen that all of them may have waited behind a message that
    /// was passing.
    pub fn is_young(&self, from: u32, to: u32) -> bool {
        self.entries.get(&(from, to)).is_some_and(|entry| (1..YOUNG).contains(&entry.round_trips))
    }

    /// What is known about the way from one group to another. None before a round trip was seen.
    pub fn estimate(&self, now: Time, from: u32, to: u32) -> Option<LinkEstimate> {
        self.entries.get(&(from, to))?.estimate(now)
    }

    /// All that is known, by pair.
    pub fn estimates(&self, now: Time) -> impl Iterator<Item = ((u32, u32), LinkEstimate)> {
        let known = move |(&pair, entry): (&(u32, u32), &Entry)| Some((pair, entry.estimate(now)?));
        self.entries.iter().filter_map(known)
    }

    /// Links that differ by more than a fifth from what was announced before, in two looks in a
    /// row; they are announced hereby, as is every link when it is seen first, without a word. Call
    /// it about twice a second.
    pub fn changes(&mut self, now: Time) -> Vec<LinkChange> {
        let mut changes = Vec::new();
        for (&(from, to), entry) in &mut self.entries {
            let Some(after) = entry.refresh(now) else { continue };
            let Some(before) = entry.announced else {
                entry.announced = Some(after);
                continue;
            };
            let differs = differ(&before, &after);
            if differs && entry.differs {
                changes.push(LinkChange { from, to, before, after });
                entry.announced = Some(after);
            } else if before.bandwidth.is_none() {
                // The first bandwidth is no change.
                entry.announced = Some(LinkEstimate { bandwidth: after.bandwidth, ..before });
            }
            entry.differs = differs && !entry.differs;
        }
        changes
    }

    /// Remembers what samples of now say of the links between two groups, which otherwise is
    /// forgotten with them until somebody looks for [`changes`](Self::changes) of all: for those
    /// who do not, and have many links.
    pub fn remember(&mut self, now: Time, one: u32, other: u32) {
        for pair in [(one, other), (other, one)] {
            if let Some(entry) = self.entries.get_mut(&pair) {
                entry.refresh(now);
            }
        }
    }

    /// Forgets a group, for example one that was split: its links are new.
    pub fn forget(&mut self, group: u32) {
        self.entries.retain(|&(from, to), _| from != group && to != group);
    }
}

impl Entry {
    /// Notes the rate of a flow. Returns that of all flows of the last second together, and whether
    /// any was held back by the link.
    fn combined_rate(
        &mut self,
        now: Time,
        flow: (NodeId, NodeId),
        (rate, is_full): (u64, bool),
    ) -> (u64, bool) {
        self.flows.retain(|_, (at, _, _)| now.since(*at) < FLOW_AGE);
        if self.flows.len() < FLOWS_MAX || self.flows.contains_key(&flow) {
            self.flows.insert(flow, (now, rate, is_full));
        }
        let flows = self.flows.values();
        flows.fold((0u64, false), |(sum, any), (_, rate, is_full)| {
            (sum.saturating_add(*rate), any || *is_full)
        })
    }

    fn round_trip(&mut self, now: Time, round_trip: Duration) {
        self.window.round_trip(now, round_trip);
        self.round_trips = self.round_trips.saturating_add(1);
        let known = self.current.map(|known| known.latency);
        let half_second = now.as_nanos() / BUCKET.as_nanos() as u64;
        self.doubts = match known.is_some_and(|known| is_higher(known, Latency(round_trip / 2))) {
            true if self.doubts.0 > 0 && self.doubts.1 == half_second => self.doubts,
            true => (self.doubts.0.saturating_add(1), half_second),
            false => (0, 0),
        };
    }

    fn count_losses(&mut self, sent: u64, lost: u64) {
        self.sent = self.sent.saturating_add(sent);
        self.lost = self.lost.saturating_add(lost.min(sent));
        while self.sent >= 2 * LOSS_PACKETS {
            (self.sent, self.lost) = (self.sent / 2, self.lost / 2);
        }
    }

    /// What recent samples say, and for what they are silent about, what was known before.
    fn estimate(&self, now: Time) -> Option<LinkEstimate> {
        let recent = self.window.recent(now);
        let known = self.current;
        let observed = if recent.rtts > 0 { now } else { known?.observed };
        let latency = match recent.rtt_min {
            Some(least) => match known.map(|known| known.latency) {
                Some(known) if is_higher(known, Latency(least / 2)) && self.doubts.0 < DOUBTS => {
                    known
                }
                _ => Latency(least / 2),
            },
            None => known?.latency,
        };
        let jitter = match (recent.rtt_mean, recent.rtt_min) {
            (Some(mean), Some(least)) if recent.rtts > 1 => mean.saturating_sub(least),
            _ => known.map_or(Duration::ZERO, |known| known.jitter),
        };
        let loss = match self.sent >= LOSS_PACKETS {
            true => self.lost as f64 / self.sent as f64,
            false => known.map_or(0.0, |known| known.loss),
        };
        let bandwidth = bandwidth(&recent, known.and_then(|known| known.bandwidth));
        let confidence = match recent.rtts {
            0 => {
                let age = now.since(known?.observed).as_secs_f64();
                known?.confidence * 0.5f64.powf(age / HALF_LIFE.as_secs_f64())
            }
            rtts => (f64::from(rtts) / FULL_ROUND_TRIPS).min(1.0),
        };
        let known_bandwidth = known.and_then(|known| known.bandwidth_observed);
        let bandwidth_observed = recent.full_rate.map(|_| now).or(known_bandwidth);
        Some(LinkEstimate {
            latency,
            jitter,
            loss,
            bandwidth,
            bandwidth_observed,
            observed,
            confidence,
        })
    }

    /// Remembers what recent samples say before they are forgotten.
    fn refresh(&mut self, now: Time) -> Option<LinkEstimate> {
        let estimate = self.estimate(now)?;
        if estimate.observed == now || estimate.bandwidth_observed == Some(now) {
            self.current = Some(estimate);
        }
        Some(estimate)
    }
}

fn bandwidth(recent: &Recent, known: Option<Bandwidth>) -> Option<Bandwidth> {
    let full = recent.full_rate.map(Bandwidth::from_bits_per_second).or(known);
    // Whatever flowed, the link can do.
    full.max(recent.part_rate.map(Bandwidth::from_bits_per_second).filter(|_| full.is_some()))
}

fn differ(before: &LinkEstimate, after: &LinkEstimate) -> bool {
    let (old, new) = (before.latency.duration(), after.latency.duration());
    let latency = old.abs_diff(new) > LATENCY_NOISE && ratio(old.as_secs_f64(), new.as_secs_f64());
    let bandwidth = match (before.bandwidth, after.bandwidth) {
        (Some(old), Some(new)) => ratio(old.bits_per_second() as f64, new.bits_per_second() as f64),
        _ => false,
    };
    // Three standard deviations of a share that was counted over so many packets.
    let share = before.loss.max(after.loss);
    let noise = 3.0 * (share * (1.0 - share) / LOSS_PACKETS as f64).sqrt();
    latency || bandwidth || (before.loss - after.loss).abs() > LOSS_CHANGE + noise
}

fn is_higher(known: Latency, now: Latency) -> bool {
    let (known, now) = (known.duration(), now.duration());
    now.saturating_sub(known) > LATENCY_NOISE.max(known.mul_f64(CHANGE))
}

/// Whether two numbers differ by more than [`CHANGE`] of the first.
fn ratio(old: f64, new: f64) -> bool {
    (new - old).abs() > CHANGE * old
}

#[cfg(test)]
mod tests;
