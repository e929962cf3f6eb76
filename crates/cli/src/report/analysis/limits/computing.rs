//! Limits in the work of PEs: other PEs wait while these compute.
//!
//! The cause follows from how these PEs differ from the others. If hardly any two PEs compute at
//! the same time, the cause is a chain. If some PEs have no actors, there are too few actors.
//! Otherwise the excess time of each awaited PE is divided among its causes, in proportion to the
//! logarithms of their factors: a PE that takes twice as long as others, with 1.41 times the work
//! at 1/1.41 of the speed, is half slow and half overloaded. The overload is one hot actor, a flood
//! of messages, or imbalance.
//!
//! PEs that wait for an overloaded PE also wait for each other, in the order of their messages.
//! Without the overload there would be no such waits. Equal loads would save each PE, on average,
//! the greatest occupied time less the mean. Up to that time, these waits count as overload.

use super::evidence::Evidence;
use super::imbalance;
use super::limit::{Limit, LimitKind, SHARE_MIN, by_share, named, names_several};
use crate::quantity::{count, percent};
use crate::report::analysis::awaited::Awaited;
use crate::report::analysis::profile::PeProfile;
use std::collections::BTreeMap;

/// Minimum share of the time of handlers and tasks that tasks take in a job of tasks.
const TASKS_MIN: f64 = 0.5;
/// Maximum mean number of PEs that compute at a time in a chain. Two parallel chains have two.
const CHAIN_MAX: f64 = 1.3;
/// Maximum share of a PE in the work of a chain, which goes from PE to PE. A chain on one PE is an
/// imbalance.
const CHAIN_PE_MAX: f64 = 0.7;
/// Minimum share of the time of all PEs in which they wait for others that compute, in a chain. If
/// latency takes nearly all of the time, PEs compute alone by chance.
const CHAIN_SHARE_MIN: f64 = 0.1;
/// Maximum work of a PE without actors, as a part of the greatest work of a PE: creating actors and
/// broadcasting are work, too.
const NO_WORK_MAX: f64 = 0.02;
/// Ratio of the occupied time of a PE to that of others, from which it explains their waits.
const EXCESS_MIN: f64 = 1.05;
/// Maximum speed of a slow PE, as a part of the usual speed. Measured speeds of equal processors
/// differ by up to a tenth.
const SLOW_MAX: f64 = 0.85;

/// Returns the limits, and the share of the waits that they do not explain.
pub(crate) fn limits(evidence: &Evidence<'_>) -> (Vec<Limit>, f64) {
    let mut shares = awaited_pes(evidence);
    let total: f64 = shares.values().sum();
    // The time that PEs themselves lost to other threads, without the waits of others for them.
    let lost = || foreign(evidence, &BTreeMap::new());
    if evidence.kinds.task_share() >= TASKS_MIN {
        return (starved(evidence, total).into_iter().chain(lost()).collect(), 0.0);
    }
    let mut limits = Vec::new();
    if let Some(limit) = too_few_actors(evidence, total) {
        let left = 1.0 - limit.share / total;
        shares.values_mut().for_each(|share| *share *= left);
        limits.push(limit);
    }
    let total: f64 = shares.values().sum();
    if total < SHARE_MIN {
        limits.extend(lost());
        return (limits, total);
    }
    if let Some(limit) = chain(evidence, total) {
        limits.extend([limit].into_iter().chain(lost()));
        return (limits, 0.0);
    }
    let mut excess = Excess { usual_speed: usual_speed(evidence), ..Excess::default() };
    let occupied_of_others = evidence.means_of_others(|pe| evidence.occupied_ns(pe));
    let work_of_others = evidence.means_of_others(|pe| evidence.work(pe));
    for (pe, share) in &shares {
        let of_others = [occupied_of_others(*pe), work_of_others(*pe)];
        excess.add(evidence, *pe, *share, of_others);
    }
    excess.take_waits_of_others(total, evidence.imbalance_share());
    limits.extend(slow(evidence, &excess));
    limits.extend(foreign(evidence, &excess.foreign));
    limits.extend(imbalance::limits(evidence, &excess.work));
    let (moving, unexplained) = imbalance::moving(evidence, excess.unexplained);
    limits.extend(moving);
    (limits, unexplained)
}

/// Shares of the time of all PEs in which others waited while a PE computed.
fn awaited_pes(evidence: &Evidence<'_>) -> BTreeMap<usize, f64> {
    let shares = evidence.waits.awaited.iter().filter_map(|(awaited, ns)| match awaited {
        Awaited::Computing { pe } => Some((*pe, evidence.share_of_waits(*ns))),
        _ => None,
    });
    shares.collect()
}

/// Tasks ran out. PEs without a task wait for PEs with tasks, or for nothing.
fn starved(evidence: &Evidence<'_>, computing: f64) -> Option<Limit> {
    let share = computing + evidence.unknown_share();
    if share < SHARE_MIN {
        return None;
    }
    let sum =
        |of: fn(&PeProfile) -> u64| evidence.profile.recorded().map(|(_, pe)| of(pe)).sum::<u64>();
    let (steals, attempts) = (sum(|pe| pe.steals), sum(|pe| pe.steal_attempts));
    let mut idle: Vec<(String, f64)> = evidence
        .profile
        .recorded()
        .map(|(pe, profile)| (evidence.places.pe_name(pe), profile.total.idle_ns as f64))
        .collect();
    idle.sort_by(|a, b| b.1.total_cmp(&a.1));
    let clause = match attempts {
        0 => "tasks ran out, and PEs had none".to_owned(),
        _ => format!("tasks ran out: {steals} of {attempts} requests for tasks brought some"),
    };
    let evidence = format!("{:.1} PEs computed at a time", evidence.parallelism);
    Some(Limit::new(LimitKind::StarvedTasks, named(&idle), share, clause).because(evidence))
}

/// Some PEs have no work, and there are fewer actors than PEs. That explains the waits of these PEs
/// only, as a part of `share`, the share of all waits for PEs that compute.
fn too_few_actors(evidence: &Evidence<'_>, share: f64) -> Option<Limit> {
    let pes = evidence.profile.recorded_count();
    let busy = evidence.profile.recorded().map(|(_, pe)| pe.total.busy_ns as f64);
    let most = busy.fold(0.0, f64::max);
    let recorded = evidence.profile.recorded().map(|(_, pe)| pe.total);
    let idle: Vec<f64> = recorded
        .filter(|times| (times.busy_ns as f64) < NO_WORK_MAX * most)
        .map(|times| evidence.share_of(times.idle_ns as f64))
        .collect();
    let (without, share) = (idle.len(), share.min(idle.iter().sum()));
    let actors = evidence.loads.actors;
    // Actors that compute one after the other would not use more PEs; a single actor could be
    // split.
    let is_parallel = actors <= 1 || evidence.parallelism > CHAIN_MAX;
    if share < SHARE_MIN || actors >= pes || !is_parallel {
        return None;
    }
    let clause = format!("there are too few actors: {} for {pes} PEs", count(actors, "actor"));
    let place = format!("{without} of {pes} PEs");
    let because = format!("{without} PEs had no work");
    Some(Limit::new(LimitKind::TooFewActors, place, share, clause).because(because))
}

/// Hardly any two PEs compute at the same time, and the work goes from PE to PE.
fn chain(evidence: &Evidence<'_>, share: f64) -> Option<Limit> {
    let pes = evidence.profile.recorded_count();
    let busy = evidence.profile.recorded().map(|(_, pe)| pe.total.busy_ns as f64);
    let most = busy.fold(0.0, f64::max) / (evidence.profile.total().busy_ns as f64).max(1.0);
    let parallelism = evidence.parallelism;
    let is_short = share < CHAIN_SHARE_MIN;
    if pes < 2 || is_short || parallelism > CHAIN_MAX || most > CHAIN_PE_MAX {
        return None;
    }
    let clause = format!(
        "handlers run in a chain, each after the one before: {parallelism:.1} of {pes} PEs compute \
         at a time"
    );
    let evidence = format!("the busiest PE has {} of the work", percent(most));
    let place = "all PEs".to_owned();
    Some(Limit::new(LimitKind::SerialChain, place, share, clause).because(evidence))
}

/// Shares of the waits for PEs, by the cause of their excess time.
#[derive(Default)]
struct Excess {
    usual_speed: f64,
    slow: BTreeMap<usize, f64>,
    foreign: BTreeMap<usize, f64>,
    work: BTreeMap<usize, f64>,
    unexplained: f64,
}

impl Excess {
    /// Adds waits for PEs that are not overloaded, as far as imbalance explains them. `total`: the
    /// share of all waits for PEs.
    fn take_waits_of_others(&mut self, total: f64, imbalance: f64) {
        let parts =
            || [&self.slow, &self.foreign, &self.work].into_iter().flat_map(|it| it.values());
        let explained: f64 = parts().sum();
        let wanted = imbalance.min(total);
        if explained <= 0.0 || wanted <= explained {
            return;
        }
        let factor = wanted / explained;
        for part in [&mut self.slow, &mut self.foreign, &mut self.work] {
            part.values_mut().for_each(|share| *share *= factor);
        }
        self.unexplained = total - wanted;
    }

    /// Divides the share of the waits for a PE among its causes, given the mean occupied time and
    /// the mean work of the other PEs.
    fn add(
        &mut self,
        evidence: &Evidence<'_>,
        pe: usize,
        share: f64,
        [occupied_of_others, work_of_others]: [f64; 2],
    ) {
        let occupied = evidence.occupied_ns(pe);
        if occupied < EXCESS_MIN * occupied_of_others {
            self.unexplained += share;
            return;
        }
        let speed = evidence.places.speed(pe);
        let waited = evidence.profile.pes[pe].total.waited_ns as f64;
        let factor = |above: f64, below: f64| (above / below.max(1e-9)).clamp(1.0, 1e3).ln();
        let slow = match speed < SLOW_MAX * self.usual_speed {
            true => factor(self.usual_speed, speed),
            false => 0.0,
        };
        let factors =
            [slow, factor(occupied, occupied - waited), factor(evidence.work(pe), work_of_others)];
        let sum: f64 = factors.iter().sum();
        if sum <= 0.0 {
            self.unexplained += share;
            return;
        }
        for (part, factor) in
            [&mut self.slow, &mut self.foreign, &mut self.work].into_iter().zip(factors)
        {
            if factor > 0.0 {
                part.insert(pe, share * factor / sum);
            }
        }
    }
}

/// The median speed of the PEs.
fn usual_speed(evidence: &Evidence<'_>) -> f64 {
    let pes = evidence.profile.recorded();
    let mut speeds: Vec<f64> = pes.map(|(pe, _)| evidence.places.speed(pe)).collect();
    speeds.sort_by(f64::total_cmp);
    speeds.get(speeds.len() / 2).copied().unwrap_or(1.0)
}

/// Slow PEs, nodes or sites.
fn slow(evidence: &Evidence<'_>, excess: &Excess) -> Option<Limit> {
    let (shares, usual) = (&excess.slow, excess.usual_speed);
    let share: f64 = shares.values().sum();
    let places = evidence.places;
    let is_slow = |pe: &usize| places.speed(*pe) < SLOW_MAX * usual;
    let greatest = shares.iter().max_by(|a, b| a.1.total_cmp(b.1))?;
    let site = places.site_of(*greatest.0);
    let here = places.pes_at(site);
    let speed = percent(places.speed(*greatest.0) / usual);
    let is_whole_site = here.len() > 1
        && here.iter().all(is_slow)
        && shares.keys().all(|pe| places.site_of(*pe) == site);
    let pes = by_share(shares, |pe| places.pe_name(pe));
    let (kind, place) = match is_whole_site {
        true => (LimitKind::SlowSite, format!("site {}", places.site_name(site))),
        false => (LimitKind::SlowPe, named(&pes)),
    };
    let subject = match (is_whole_site, names_several(&pes)) {
        (true, _) => format!("the PEs of {place} are"),
        (false, true) => format!("{place} are"),
        (false, false) => format!("{place} is"),
    };
    let clause = format!("{subject} slow, with {speed} of the usual speed");
    let slow = count(shares.len(), "PE");
    let most = percent(SLOW_MAX);
    let evidence = format!("others wait for {slow} with less than {most} of the usual speed");
    Some(Limit::new(kind, place, share, clause).because(evidence))
}

/// Nodes whose processors other threads use: the time that their PEs lost, and the waits of others
/// for them.
/// Where a host has more PEs than hardware threads, the other threads are those of the job.
fn foreign(evidence: &Evidence<'_>, shares: &BTreeMap<usize, f64>) -> Vec<Limit> {
    let places = evidence.places;
    let mut by_node: BTreeMap<usize, f64> = BTreeMap::new();
    for (pe, profile) in evidence.profile.recorded() {
        let own = evidence.share_of(profile.total.waited_ns as f64);
        let others = shares.get(&pe).copied().unwrap_or(0.0);
        *by_node.entry(places.node_of(pe)).or_default() += own + others;
    }
    let is_crowded = |(node, _): &(usize, f64)| places.crowding(*node).is_some();
    let (crowded, others): (BTreeMap<_, _>, BTreeMap<_, _>) =
        by_node.into_iter().partition(is_crowded);
    let limits = [too_many_pes(evidence, &crowded), other_threads(evidence, &others)];
    limits.into_iter().flatten().collect()
}

/// Nodes on hosts with more PEs than hardware threads.
fn too_many_pes(evidence: &Evidence<'_>, by_node: &BTreeMap<usize, f64>) -> Option<Limit> {
    let nodes = by_share(by_node, |node| evidence.places.node_name(node));
    let worst = by_node.iter().max_by(|a, b| a.1.total_cmp(b.1))?;
    let crowding = evidence.places.crowding(*worst.0)?;
    let (place, share): (String, f64) = (named(&nodes), by_node.values().sum());
    let clause = format!("more PEs than hardware threads are on the host of {place}");
    let because = format!(
        "host {} has {} for {}; {}",
        crowding.host,
        count(crowding.hardware_threads, "hardware thread"),
        count(crowding.pes, "PE"),
        waited(evidence, by_node)
    );
    (share > 0.0).then(|| Limit::new(LimitKind::TooManyPes, place, share, clause).because(because))
}

/// Nodes on hosts with enough hardware threads, as far as is known.
fn other_threads(evidence: &Evidence<'_>, by_node: &BTreeMap<usize, f64>) -> Option<Limit> {
    let nodes = by_share(by_node, |node| evidence.places.node_name(node));
    let (place, share): (String, f64) = (named(&nodes), by_node.values().sum());
    let clause = format!("other threads use the processors of {place}");
    let because = waited(evidence, by_node);
    (share > 0.0).then(|| Limit::new(LimitKind::ForeignLoad, place, share, clause).because(because))
}

/// Says how long the PEs of these nodes waited for the processor, at most.
fn waited(evidence: &Evidence<'_>, by_node: &BTreeMap<usize, f64>) -> String {
    let lost = |pe: &PeProfile| pe.total.waited_ns as f64 / pe.total.occupied_ns().max(1.0);
    let here = evidence.profile.recorded();
    let here = here.filter(|(pe, _)| by_node.contains_key(&evidence.places.node_of(*pe)));
    let most = here.map(|(_, pe)| lost(pe)).fold(0.0, f64::max);
    format!("a PE there waited for the processor in {} of its work", percent(most))
}
