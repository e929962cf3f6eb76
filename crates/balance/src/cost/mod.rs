//! The cost model: predicts the time of a step for a placement of actors.
//!
//! A step takes at least each of these times:
//!
//! - (a) the time that the busiest PE computes, background included;
//! - (b) for two actors at different sites, the latency of each direction in which they send, the
//!   work at both ends, and the waiting there (`cost/waits.rs`), since each pair that sends both
//!   ways closes a cycle in each step;
//! - (c) the time that the bytes between two sites take.
//!
//! The prediction is the greatest of these, since message-driven execution overlaps them. If other
//! users' work slows PEs and no PE waits for the slowed ones, the prediction is instead the total
//! work divided by the speed of all PEs that have actors, because then no PE holds up the others.

pub(crate) mod figures;
pub(crate) mod replicas;
mod waits;

use crate::snapshot::{LinksBySites, PeLoad, SiteLink, Snapshot};
use gridspan_topology::{Hierarchy, PeId, SiteId};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use waits::Waits;

/// The constants of the model.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CostModel {
    /// CPU time that a message to another PE costs at each end. 2 µs by default.
    pub message_overhead: Duration,
    /// Part of the work of a PE's border actors, those that exchange messages with other sites, for
    /// which a wide-area cycle waits, `0.0..=1.0`. Used where messages are handled in order of
    /// arrival. 0.5 by default, which fits a simulation of FIFO queues.
    pub border_wait: f64,
}

impl Default for CostModel {
    fn default() -> Self {
        Self { message_overhead: Duration::from_micros(2), border_wait: 0.5 }
    }
}

/// A number of messages and of their bytes, in a window or in a step.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Traffic {
    /// Number of messages.
    pub messages: u64,
    /// Total of their bytes.
    pub bytes: u64,
}

/// What bounds the time of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Bound {
    /// Computation on the busiest PE.
    Compute,
    /// A round trip between sites.
    RoundTrip,
    /// The bandwidth between two sites.
    Bandwidth,
}

/// Predicted time of a step, and what bounds it. Times are per step, traffic is for the whole
/// window.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Prediction {
    /// Predicted time of a step.
    pub step: Duration,
    /// What bounds the step.
    pub bound: Bound,
    /// Time that the busiest PE computes.
    pub compute: Duration,
    /// The busiest PE; the first if there are several.
    pub busiest: PeId,
    /// Average time that a PE computes.
    pub mean: Duration,
    /// Longest cycle between sites; zero if there is none.
    pub round_trip: Duration,
    /// Longest time that the bytes from one site to another take.
    pub transfer: Duration,
    /// Traffic across each level of the hierarchy: between nodes that share a group of that level
    /// and none of the next. The first level is the widest. Without a hierarchy, the sites of the
    /// layout are the levels.
    pub levels: Vec<Traffic>,
    /// Traffic between PEs of one node.
    pub inside_node: Traffic,
    /// Traffic between sites of the layout.
    pub wide_area: Traffic,
}

impl Prediction {
    /// Returns the greatest load divided by the mean: 1 at best.
    pub fn imbalance(&self) -> f64 {
        let mean = self.mean.as_secs_f64();
        if mean > 0.0 { self.compute.as_secs_f64() / mean } else { 1.0 }
    }
}

/// Predicts a step for the placement `mapping`: one PE for each actor of the snapshot, in its
/// order. Takes time in proportion to actors and edges.
///
/// # Panics
///
/// If the mapping is shorter than the list of actors or names a PE that does not exist, which
/// [`Plan::mapping`](crate::Plan::mapping) of a validated plan never does.
pub fn predict(snapshot: &Snapshot, mapping: &[PeId], model: &CostModel) -> Prediction {
    Predictor::new(snapshot, mapping, model).run()
}

/// Returns a lower bound of the time of a step for any placement: the greatest of (a) all work at
/// the combined speed of all PEs, (b) the largest movable actor on the fastest PE, and (c) for each
/// PE, its work that cannot move. If no PE waits for the busiest one, only (a) counts. Message
/// overheads and background are not counted.
pub(crate) fn least_step(snapshot: &Snapshot) -> Duration {
    let pes = &snapshot.pes;
    let (mut all, mut largest, mut fixed) = (0.0, 0.0_f64, vec![0.0; pes.len()]);
    for actor in &snapshot.actors {
        let work = actor.load.as_secs_f64() * pes[actor.pe.index()].speed;
        all += work;
        match actor.migratable {
            true => largest = largest.max(work),
            false => fixed[actor.pe.index()] += work,
        }
    }
    let speeds = || pes.iter().map(PeLoad::effective_speed);
    let takes = |work: f64, speed: f64| if speed > 0.0 { work / speed } else { 0.0 };
    let spread = takes(all, speeds().sum());
    let alone = takes(largest, speeds().fold(0.0, f64::max));
    let least = match snapshot.has_pe_lag() {
        true => spread,
        false => fixed
            .into_iter()
            .zip(speeds())
            .map(|(work, speed)| takes(work, speed))
            .fold(spread.max(alone), f64::max),
    };
    seconds(least / snapshot.step_count() as f64)
}

struct Predictor<'a> {
    snapshot: &'a Snapshot,
    mapping: &'a [PeId],
    model: &'a CostModel,
    /// Seconds of each actor per step on its new PE.
    works: Vec<f64>,
    steps: f64,
    /// The site of each PE.
    sites: Vec<u32>,
}

impl<'a> Predictor<'a> {
    fn new(snapshot: &'a Snapshot, mapping: &'a [PeId], model: &'a CostModel) -> Self {
        let steps = snapshot.step_count() as f64;
        let work = |(actor, pe): (&crate::snapshot::ActorLoad, &PeId)| {
            let there = snapshot.pes[pe.index()].effective_speed();
            let ratio = snapshot.pes[actor.pe.index()].speed / there;
            actor.load.as_secs_f64() * ratio / steps
        };
        let works = snapshot.actors.iter().zip(mapping).map(work).collect();
        let sites = snapshot.layout.pes().map(|pe| snapshot.layout.site_of(pe).0).collect();
        Self { snapshot, mapping, model, works, steps, sites }
    }

    /// Returns the seconds per step for which each PE computes or waits for its processor. Other
    /// users of the processor take a share of the time for which the PE wants it, so a PE with less
    /// work than before waits less.
    fn busy(&self) -> Vec<f64> {
        let mut busy = vec![0.0; self.snapshot.pes.len()];
        for (work, pe) in self.works.iter().zip(self.mapping) {
            busy[pe.index()] += work;
        }
        let loads = self.snapshot.load_per_pe();
        for ((busy, pe), load) in busy.iter_mut().zip(&self.snapshot.pes).zip(loads) {
            let before = load.as_secs_f64() / self.steps;
            let part = if before > 0.0 { (*busy / before).min(1.0) } else { 1.0 };
            *busy += part * pe.background.as_secs_f64() / self.steps;
        }
        busy
    }

    fn run(&self) -> Prediction {
        let mut busy = self.busy();
        let standard;
        let hierarchy = match &self.snapshot.hierarchy {
            Some(hierarchy) => hierarchy,
            None => {
                standard = Hierarchy::from_layout(&self.snapshot.layout);
                &standard
            }
        };
        let mut levels = vec![Traffic::default(); hierarchy.depth()];
        let (mut inside_node, mut wide_area) = (Traffic::default(), Traffic::default());
        let mut level_of = BTreeMap::new();
        for edge in &self.snapshot.edges {
            let [from, to] = [edge.from, edge.to].map(|end| self.mapping[end as usize]);
            if from == to {
                continue;
            }
            let overhead = self.model.message_overhead.as_secs_f64() * edge.messages as f64;
            busy[from.index()] += overhead / self.steps;
            busy[to.index()] += overhead / self.steps;
            let [a, b] = [from, to].map(|pe| self.snapshot.layout.node_of(pe));
            let traffic = if a == b {
                &mut inside_node
            } else {
                let level = level_of.entry((a, b)).or_insert_with(|| {
                    hierarchy.common_group(a, b).map_or(0, |group| hierarchy.group(group).level())
                });
                &mut levels[*level]
            };
            add(traffic, edge.messages, edge.bytes);
            if self.sites[from.index()] != self.sites[to.index()] {
                add(&mut wide_area, edge.messages, edge.bytes);
            }
        }
        let (mut busiest, mut compute) = (0, 0.0);
        for (pe, &busy) in busy.iter().enumerate() {
            if busy > compute {
                (busiest, compute) = (pe, busy);
            }
        }
        let mean = busy.iter().sum::<f64>() / busy.len().max(1) as f64;
        let (round_trip, transfer) = (self.round_trip(hierarchy, compute), self.transfer());
        let (step, bound) = if self.snapshot.has_pe_lag() {
            (self.undelayed(), Bound::Compute)
        } else if round_trip > compute.max(transfer) {
            (round_trip, Bound::RoundTrip)
        } else if transfer > compute {
            (transfer, Bound::Bandwidth)
        } else {
            (compute, Bound::Compute)
        };
        Prediction {
            step: seconds(step),
            bound,
            compute: seconds(compute),
            busiest: PeId(busiest as u32),
            mean: seconds(mean),
            round_trip: seconds(round_trip),
            transfer: seconds(transfer),
            levels,
            inside_node,
            wide_area,
        }
    }

    /// Returns the seconds that the work of a step takes if all PEs with actors compute all the
    /// time.
    fn undelayed(&self) -> f64 {
        let pes = &self.snapshot.pes;
        let mut speeds = vec![0.0; pes.len()];
        let mut work = 0.0;
        for (seconds, pe) in self.works.iter().zip(self.mapping).filter(|(work, _)| **work > 0.0) {
            let speed = pes[pe.index()].effective_speed();
            work += seconds * speed;
            speeds[pe.index()] = speed;
        }
        let speed: f64 = speeds.iter().sum();
        if speed > 0.0 { work / speed } else { 0.0 }
    }

    /// Returns the seconds of the longest cycle between sites: the latency of each direction in
    /// which the pair sends, and the stay at both ends. `compute` is the number of seconds that the
    /// busiest PE computes in a step.
    fn round_trip(&self, hierarchy: &Hierarchy, compute: f64) -> f64 {
        let pairs: BTreeSet<(u32, u32)> =
            self.crossing().map(|edge| (edge.from, edge.to)).collect();
        if pairs.is_empty() {
            return 0.0;
        }
        let (actors, pes) = ((&self.works[..], self.mapping), self.sites.len());
        let waits = match self.snapshot.has_step_order {
            true => Waits::by_step(actors, pes, &pairs),
            false => Waits::by_arrival(actors, pes, &pairs, self.model.border_wait),
        };
        let links = SiteLink::by_sites(&self.snapshot.links);
        let latency = |from, to| self.latency(&links, hierarchy, from, to);
        let mut latencies = BTreeMap::new();
        let mut longest = 0.0_f64;
        for &(from, to) in &pairs {
            let [a, b] = [from, to].map(|actor| self.mapping[actor as usize]);
            let sites = (self.sites[a.index()], self.sites[b.index()]);
            let (forth, back) =
                *latencies.entry(sites).or_insert_with(|| (latency(a, b), latency(b, a)));
            let travel = if pairs.contains(&(to, from)) { forth + back } else { forth };
            longest = longest.max(travel + waits.stay((from, to), compute.max(travel)));
        }
        longest
    }

    /// Returns the edges between sites that carry at least one message in two steps.
    fn crossing(&self) -> impl Iterator<Item = &crate::snapshot::Edge> {
        let site = |actor: u32| self.sites[self.mapping[actor as usize].index()];
        let often = move |messages: u64| messages as f64 * 2.0 >= self.steps;
        let edges = self.snapshot.edges.iter();
        edges.filter(move |edge| often(edge.messages) && site(edge.from) != site(edge.to))
    }

    /// Returns the latency in seconds from a PE to one of another site; 0 if it is unknown.
    fn latency(
        &self,
        links: &LinksBySites<'_>,
        hierarchy: &Hierarchy,
        from: PeId,
        to: PeId,
    ) -> f64 {
        let [here, there] = [from, to].map(|pe| SiteId(self.sites[pe.index()]));
        if let Some(link) = links.get(&(here, there)) {
            return link.latency.duration().as_secs_f64();
        }
        let layout = &self.snapshot.layout;
        let rtt = hierarchy.rtt(layout.node_of(from), layout.node_of(to));
        rtt.map_or(0.0, |rtt| rtt.as_secs_f64() / 2.0)
    }

    /// Returns the longest time in seconds that the bytes of a step take from one site to another.
    fn transfer(&self) -> f64 {
        if self.snapshot.links.iter().all(|link| link.bandwidth.is_unlimited()) {
            return 0.0;
        }
        let mut bytes = BTreeMap::new();
        for edge in &self.snapshot.edges {
            let [from, to] =
                [edge.from, edge.to].map(|end| self.sites[self.mapping[end as usize].index()]);
            let sum: &mut u64 = bytes.entry((from, to)).or_default();
            *sum = sum.saturating_add(edge.bytes);
        }
        let time = |link: &SiteLink| {
            let bytes = bytes.get(&(link.from.0, link.to.0)).copied().unwrap_or(0);
            link.bandwidth.time_for(bytes).as_secs_f64() / self.steps
        };
        let between = self.snapshot.links.iter().filter(|link| link.from != link.to);
        between.map(time).fold(0.0, f64::max)
    }
}

fn add(traffic: &mut Traffic, messages: u64, bytes: u64) {
    traffic.messages = traffic.messages.saturating_add(messages);
    traffic.bytes = traffic.bytes.saturating_add(bytes);
}

/// Returns a duration of `seconds`, or the longest duration if it does not fit.
fn seconds(seconds: f64) -> Duration {
    Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX)
}

#[cfg(test)]
mod tests;
