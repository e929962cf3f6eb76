//! Limits in the distribution of work: hot actors, floods of messages, uneven PEs and sites.

use super::evidence::Evidence;
use super::limit::{Limit, LimitKind, SHARE_MIN, by_share, named, names_several};
use crate::quantity::percent;
use crate::report::analysis::kinds::Pace;
use std::collections::BTreeMap;

/// Minimum number of messages in a long queue.
const QUEUE_MIN: u32 = 64;
/// Minimum ratio of the queue to the median queue of all PEs. Below it many PEs have long queues,
/// so that no single PE is flooded.
const QUEUE_FACTOR: u32 = 4;
/// Minimum share of one sending PE in the messages of a flood.
const SENDER_MIN: f64 = 0.6;
/// Minimum number of kept runs of handlers on the flooded PE.
const HANDLERS_MIN: usize = 64;
/// Minimum mean number of messages that a sending handler sends to the flooded PE. The slowest
/// stage of a pipeline has a long queue, too, but gets one message from each handler.
const BURST_MIN: f64 = 8.0;
/// Ratio of the expected time of the handlers of a PE to the mean of the other PEs, from which the
/// PE counts as running more handlers than they do.
const EXCESS_MIN: f64 = 1.05;
/// Minimum ratio of the time of slow handlers to that of the same types on other PEs.
const SLOW_FACTOR_MIN: f64 = 1.2;
/// Minimum share of a hot actor in the work of its PE.
const ACTOR_MIN: f64 = 0.5;
/// Minimum ratio of the work of a hot actor to the mean work of a PE. Below it, moving the other
/// actors of the PE away would help.
const ACTOR_LOAD_MIN: f64 = 1.2;
/// Sites count as uneven if their means explain at least this part of the unevenness of PEs. With a
/// random placement PEs differ inside sites, too, and the means explain less than half.
const SITE_PART_MIN: f64 = 0.6;
/// Number of parts of the run for which the unevenness is computed.
const PARTS: usize = 32;
/// Ratio of the work of the busiest PE in such a part to the mean, from which the load counts as
/// moving.
const MOVING_MIN: f64 = 1.5;

/// Divides the shares of the waits for PEs that have more work than others among the causes.
pub(crate) fn limits(evidence: &Evidence<'_>, shares: &BTreeMap<usize, f64>) -> Vec<Limit> {
    let (mut floods, mut hot) = (Vec::new(), Vec::new());
    let (mut slow, mut uneven) = (BTreeMap::new(), BTreeMap::new());
    let queue = usual_queue(evidence);
    let usual_ns = |pe: usize| evidence.kinds.pace(pe).map_or(0.0, |pace| pace.usual_ns);
    let usual_of_others = evidence.means_of_others(usual_ns);
    for (&pe, &share) in shares {
        if let Some(limit) = flood(evidence, pe, share, queue) {
            floods.push(limit);
        } else if let Some(limit) = hot_actor(evidence, pe, share) {
            hot.push(limit);
        } else if has_slow_handlers(evidence, pe, usual_of_others(pe)) {
            slow.insert(pe, share);
        } else {
            uneven.insert(pe, share);
        }
    }
    let mut limits: Vec<Limit> = [floods, hot].into_iter().filter_map(merged).collect();
    limits.extend(slow_handlers(evidence, &slow));
    limits.extend(imbalance(evidence, &uneven));
    limits
}

/// Whether the handlers of a PE take longer than those of the same types on other PEs, while their
/// number is no larger. `usual_of_others`: the mean expected time of the handlers of the other PEs.
/// `false` in virtual time: speeds are known there, so work is the cause.
fn has_slow_handlers(evidence: &Evidence<'_>, pe: usize, usual_of_others: f64) -> bool {
    let is_more = |pace: Pace| pace.usual_ns >= EXCESS_MIN * usual_of_others;
    let is_slow = |pace: Pace| !is_more(pace) && pace.factor() >= SLOW_FACTOR_MIN;
    !evidence.is_simulated && evidence.kinds.pace(pe).is_some_and(is_slow)
}

/// PEs whose handlers take longer than those of the same types on other PEs.
fn slow_handlers(evidence: &Evidence<'_>, shares: &BTreeMap<usize, f64>) -> Option<Limit> {
    let greatest = shares.iter().max_by(|a, b| a.1.total_cmp(b.1))?;
    let factor = evidence.kinds.pace(*greatest.0)?.factor();
    let place = named(&by_share(shares, |pe| evidence.places.pe_name(pe)));
    let clause = format!(
        "handlers of {place} take {factor:.1} times as long as those of the same types elsewhere: a \
         slower processor or larger work"
    );
    let because = "these PEs run no more handlers of each type than others".to_owned();
    let share = shares.values().sum();
    Some(Limit::new(LimitKind::SlowHandlers, place, share, clause).because(because))
}

/// Merges limits of one kind into the greatest one.
fn merged(mut limits: Vec<Limit>) -> Option<Limit> {
    limits.sort_by(|a, b| b.share.total_cmp(&a.share));
    let share = limits.iter().map(|limit| limit.share).sum();
    let places: Vec<(String, f64)> =
        limits.iter().map(|limit| (limit.place.clone(), limit.share)).collect();
    let greatest = limits.into_iter().next()?;
    Some(Limit { place: named(&places), share, ..greatest })
}

/// The median of the longest queues of PEs.
fn usual_queue(evidence: &Evidence<'_>) -> u32 {
    let mut queues: Vec<u32> = evidence.profile.recorded().map(|(_, pe)| pe.queue_max).collect();
    queues.sort_unstable();
    queues.get(queues.len() / 2).copied().unwrap_or(0)
}

/// A PE with a long queue of messages from one other PE, whose handlers send many each.
fn flood(evidence: &Evidence<'_>, pe: usize, share: f64, usual_queue: u32) -> Option<Limit> {
    let load = evidence.loads.pes.get(pe)?;
    let (sender, part) = load.top_sender.filter(|(_, part)| *part >= SENDER_MIN)?;
    let queue = evidence.profile.pes.get(pe)?.queue_max;
    let is_long = queue >= QUEUE_MIN && queue >= usual_queue.saturating_mul(QUEUE_FACTOR);
    if !is_long || load.spans < HANDLERS_MIN || load.burst < BURST_MIN {
        return None;
    }
    let [from, to] = [sender, pe].map(|pe| evidence.places.pe_name(pe));
    let clause = format!("{to} has a long queue of messages from {from}");
    let because = format!(
        "up to {queue} messages waited there, and {} of those handled came from {from}",
        percent(part)
    );
    Some(Limit::new(LimitKind::Flood, format!("{from} to {to}"), share, clause).because(because))
}

/// A PE with one actor that has most of the work.
fn hot_actor(evidence: &Evidence<'_>, pe: usize, share: f64) -> Option<Limit> {
    let top = evidence.loads.pes.get(pe)?.top_actor?;
    let load = top.share * evidence.occupied_ns(pe) / evidence.mean_occupied_ns().max(1.0);
    if top.share < ACTOR_MIN || load < ACTOR_LOAD_MIN || evidence.loads.actors < 2 {
        return None;
    }
    let (name, place) = (evidence.kinds.name(top.kind), evidence.places.pe_name(pe));
    let clause = format!("one actor of type {name} on {place} has most of the work of its PE");
    let because = format!(
        "it has {} of the work of its PE, which is {load:.1} times the mean work of a PE",
        percent(top.share)
    );
    Some(Limit::new(LimitKind::HotActor, place, share, clause).because(because))
}

/// Uneven sites or PEs.
fn imbalance(evidence: &Evidence<'_>, shares: &BTreeMap<usize, f64>) -> Option<Limit> {
    let share: f64 = shares.values().sum();
    let works = || evidence.profile.recorded().map(|(pe, _)| (pe, evidence.work(pe)));
    let count = works().count().max(1) as f64;
    let mean = works().map(|(_, work)| work).sum::<f64>() / count;
    let most = works().map(|(_, work)| work).fold(0.0, f64::max);
    if shares.is_empty() || mean <= 0.0 {
        return None;
    }
    let mut sites: BTreeMap<usize, (f64, f64)> = BTreeMap::new();
    for (pe, work) in works() {
        let site = sites.entry(evidence.places.site_of(pe)).or_default();
        *site = (site.0 + work, site.1 + 1.0);
    }
    let means = sites.iter().map(|(site, (work, pes))| (*site, work / pes, *pes));
    let fullest = means.max_by(|a, b| a.1.total_cmp(&b.1));
    let is_of_site = |&(_, work, pes): &(usize, f64, f64)| {
        sites.len() > 1 && pes > 1.0 && work - mean >= SITE_PART_MIN * (most - mean)
    };
    if let Some((site, work, _)) = fullest.filter(is_of_site) {
        let place = format!("site {}", evidence.places.site_name(site));
        let clause = format!("{place} has too much work, {:.1} times the mean", work / mean);
        let because = format!("the busiest PE has {:.1} times the mean", most / mean);
        let limit = Limit::new(LimitKind::SiteImbalance, place, share, clause);
        return Some(limit.because(because));
    }
    let pes = by_share(shares, |pe| evidence.places.pe_name(pe));
    let (place, has) = (named(&pes), if names_several(&pes) { "have" } else { "has" });
    let factor = most / mean;
    let clause = format!("{place} {has} too much work, up to {factor:.1} times the mean");
    let because = format!("{} PEs have more work than others, which wait for them", shares.len());
    Some(Limit::new(LimitKind::Imbalance, place, share, clause).because(because))
}

/// Explains waits for PEs that have no more work over the whole run than others. Returns the limit,
/// and the share that it does not explain.
pub(crate) fn moving(evidence: &Evidence<'_>, share: f64) -> (Option<Limit>, f64) {
    let factor = evidence.profile.unevenness(PARTS);
    if share < SHARE_MIN || factor < MOVING_MIN {
        return (None, share);
    }
    let clause = format!(
        "PEs have uneven loads that change over time: at each time the busiest has {factor:.1} \
         times the mean"
    );
    let because = "over the whole run, PEs have about the same work".to_owned();
    let place = "changing PEs".to_owned();
    (Some(Limit::new(LimitKind::MovingImbalance, place, share, clause).because(because)), 0.0)
}
