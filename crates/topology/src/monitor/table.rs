//! One estimate for each pair of groups, from the samples of all their nodes.
//!
//! Round trips count for both directions, rates and losses for the observed direction. Latency is
//! half of the shortest round trip of the last two seconds, which excludes queues and busy
//! receivers; jitter is the mean excess of the round trips over the shortest. Bandwidth is the best
//! recent rate of a full link; the rate of a link that was not full is only a lower bound. A
//! quantity without observations keeps its last value and ages.

use super::window::{BUCKET, Recent, Window};
use crate::id::NodeId;
use crate::units::{Bandwidth, Latency, Time};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

/// Relative change of latency or bandwidth that is announced.
const CHANGE: f64 = 0.2;
/// Difference below which two latencies are equal, whatever their ratio: the noise of a scheduler,
/// and of delayed acknowledgements.
const LATENCY_NOISE: Duration = Duration::from_micros(600);
/// Change of the fraction of lost packets that is announced.
const LOSS_CHANGE: f64 = 0.02;
/// Number of packets after which their losses are significant: with two in a hundred lost, the
/// measured fraction is then within about a percentage point of the truth.
const LOSS_PACKETS: u64 = 1000;
/// Age at which a flow is over; reports come twice a second.
const FLOW_AGE: Duration = Duration::from_millis(800);
/// Maximum number of flows of one pair of groups that are added up; further ones are ignored.
const FLOWS_MAX: usize = 1024;
/// Number of half-seconds with longer round trips, and no shorter one between, after which the
/// latency counts as higher: single round trips may have been queued behind a passing message.
const DOUBTS: u32 = 3;
/// Number of round trips below which a link is young.
const YOUNG: u32 = 4;
/// Number of round trips that give full confidence.
const FULL_ROUND_TRIPS: f64 = 8.0;
/// Time without samples after which the confidence has halved.
const HALF_LIFE: Duration = Duration::from_secs(30);

/// One observation of the path from one node to another.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LinkSample {
    /// A round trip.
    pub round_trip: Option<Duration>,
    /// The rate at which data arrived.
    pub rate: Option<Bandwidth>,
    /// Whether the link was used fully, because more data was queued meanwhile.
    pub is_full: bool,
    /// Number of packets sent.
    pub sent: u64,
    /// Number of them that were lost.
    pub lost: u64,
}

/// An estimate of the path from one group to another.
///
/// ```
/// use gridspan_topology::{Bandwidth, Latency, LinkEstimate, Time};
/// use std::time::Duration;
///
/// let mut estimate = LinkEstimate::new(Latency::from_millis(32), Time::ZERO);
/// estimate.jitter = Duration::from_millis(1);
/// estimate.bandwidth = Some(Bandwidth::from_bits_per_second(100_000_000));
/// assert_eq!(estimate.to_string(), "32.00ms ± 1.00ms, 100.0 Mbit/s");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct LinkEstimate {
    /// Latency, one way, without queues.
    pub latency: Latency,
    /// Mean excess of round trips over the least.
    pub jitter: Duration,
    /// Fraction of packets lost, `0.0..=1.0`.
    pub loss: f64,
    /// Bandwidth of the link, if it was ever full or probed; at least the observed rate.
    pub bandwidth: Option<Bandwidth>,
    /// Time of the last observation of the bandwidth.
    pub bandwidth_observed: Option<Time>,
    /// Time at which the estimate last had recent round trips.
    pub observed: Time,
    /// Confidence from 0 to 1: few samples and old ones give less.
    pub confidence: f64,
}

impl LinkEstimate {
    /// Creates the estimate of a link whose latency is certain and whose bandwidth is unknown,
    /// without jitter and losses.
    pub fn new(latency: Latency, observed: Time) -> Self {
        Self {
            latency,
            jitter: Duration::ZERO,
            loss: 0.0,
            bandwidth: None,
            bandwidth_observed: None,
            observed,
            confidence: 1.0,
        }
    }
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

/// A change of a link since its last announcement.
///
/// ```
/// use gridspan_topology::LinkChange;
///
/// /// The change as a line of a log.
/// fn line(change: &LinkChange) -> String {
///     let LinkChange { from, to, before, after, .. } = change;
///     format!("from group {from} to group {to}: {before}, now {after}")
/// }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct LinkChange {
    /// The group that sends.
    pub from: u32,
    /// The group that receives.
    pub to: u32,
    /// The last announcement.
    pub before: LinkEstimate,
    /// The new announcement.
    pub after: LinkEstimate,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
struct Entry {
    window: Window,
    /// The flow of each pair of nodes: time of the observation, rate in bits per second, and
    /// whether more was queued.
    flows: BTreeMap<(NodeId, NodeId), (Time, u64, bool)>,
    /// Number of packets sent. This and `lost` are halved together, so that old packets count less.
    sent: u64,
    lost: u64,
    current: Option<LinkEstimate>,
    announced: Option<LinkEstimate>,
    /// Whether the previous estimate already differed from the announcement.
    differs: bool,
    round_trips: u32,
    /// Number of half-seconds with longer round trips than the estimate, without a shorter one
    /// between, and the last of these half-seconds.
    doubts: (u32, u64),
}

/// The links between groups, which are identified by numbers.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct LinkMonitor {
    entries: BTreeMap<(u32, u32), Entry>,
}

impl LinkMonitor {
    /// Creates a monitor without estimates.
    pub fn new() -> Self {
        Self::default()
    }

    /// Records a sample of the path from a node in the first group to a node in the second; `flow`
    /// is the pair of nodes. Rates of simultaneous flows add up.
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

    /// Whether the last round trip was longer than the estimate, without enough confirmation to
    /// change it.
    pub fn is_doubted(&self, from: u32, to: u32) -> bool {
        self.entries.get(&(from, to)).is_some_and(|entry| (1..DOUBTS).contains(&entry.doubts.0))
    }

    /// Whether there were so few round trips that all of them may have been queued behind a passing
    /// message.
    pub fn is_young(&self, from: u32, to: u32) -> bool {
        self.entries.get(&(from, to)).is_some_and(|entry| (1..YOUNG).contains(&entry.round_trips))
    }

    /// Returns the estimate of the path from one group to another, or `None` before the first round
    /// trip.
    pub fn estimate(&self, now: Time, from: u32, to: u32) -> Option<LinkEstimate> {
        self.entries.get(&(from, to))?.estimate(now)
    }

    /// Returns all estimates, by pair.
    pub fn estimates(&self, now: Time) -> impl Iterator<Item = ((u32, u32), LinkEstimate)> {
        let known = move |(&pair, entry): (&(u32, u32), &Entry)| Some((pair, entry.estimate(now)?));
        self.entries.iter().filter_map(known)
    }

    /// Returns the links whose latency or bandwidth differs by more than a fifth from the last
    /// announcement, or whose loss differs clearly, in two calls in a row. The call announces them.
    /// A new link is announced on its first observation, and not returned. Call this about twice a
    /// second.
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
                // The first bandwidth is not a change.
                entry.announced = Some(LinkEstimate { bandwidth: after.bandwidth, ..before });
            }
            entry.differs = differs && !entry.differs;
        }
        changes
    }

    /// Stores the estimates between two groups, in both directions, before their samples expire.
    /// [`changes`](Self::changes) stores the estimates of all links. This is for callers that have
    /// many links and do not call `changes`.
    pub fn remember(&mut self, now: Time, one: u32, other: u32) {
        for pair in [(one, other), (other, one)] {
            if let Some(entry) = self.entries.get_mut(&pair) {
                entry.refresh(now);
            }
        }
    }

    /// Removes the links of a group, for example after it was split, so that their estimates start
    /// again.
    pub fn forget(&mut self, group: u32) {
        self.entries.retain(|&(from, to), _| from != group && to != group);
    }
}

impl Entry {
    /// Records the rate of a flow. Returns the total rate of all current flows, and whether the
    /// link limited any of them.
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

    /// Returns the estimate of recent samples, with the stored value of each quantity without
    /// samples.
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

    /// Stores the estimate before its samples expire.
    fn refresh(&mut self, now: Time) -> Option<LinkEstimate> {
        let estimate = self.estimate(now)?;
        if estimate.observed == now {
            self.current = Some(estimate);
        } else if estimate.bandwidth_observed == Some(now) {
            // The stored confidence is that at the stored time of observation, and ages from there.
            let confidence = self.current.map_or(estimate.confidence, |known| known.confidence);
            self.current = Some(LinkEstimate { confidence, ..estimate });
        }
        Some(estimate)
    }
}

fn bandwidth(recent: &Recent, known: Option<Bandwidth>) -> Option<Bandwidth> {
    let full = recent.full_rate.map(Bandwidth::from_bits_per_second).or(known);
    // The link can carry at least the observed rate.
    full.max(recent.part_rate.map(Bandwidth::from_bits_per_second).filter(|_| full.is_some()))
}

fn differ(before: &LinkEstimate, after: &LinkEstimate) -> bool {
    let (old, new) = (before.latency.duration(), after.latency.duration());
    let latency = old.abs_diff(new) > LATENCY_NOISE && ratio(old.as_secs_f64(), new.as_secs_f64());
    let bandwidth = match (before.bandwidth, after.bandwidth) {
        (Some(old), Some(new)) => ratio(old.bits_per_second() as f64, new.bits_per_second() as f64),
        _ => false,
    };
    // Three standard deviations of a fraction counted over `LOSS_PACKETS` packets.
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
