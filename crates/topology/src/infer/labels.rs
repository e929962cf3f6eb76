//! The user's site names, merged with the measurements.
//!
//! One level of the hierarchy is the site level: the one whose measured groups match the names
//! best. At this level the names take precedence over the measurements: all nodes of one name form
//! a group. Nodes without a name follow the named nodes closest to them. Contradictions with the
//! measurements are reported and not corrected.

use crate::hierarchy::{Draft, Hierarchy, Partition, Sample, show_rtt};
use crate::id::NodeId;
use crate::rand_index::adjusted_rand_index;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

/// The name of the site of each node that the user named.
pub type SiteNames = BTreeMap<NodeId, String>;

/// A hierarchy that follows the user's site names.
#[derive(Clone, Debug, PartialEq)]
pub struct Labelled {
    /// The hierarchy; the groups of named sites have their names.
    pub hierarchy: Hierarchy,
    /// Site names that the measurements contradict, by site.
    pub contradictions: Vec<Contradiction>,
}

/// A difference between the user's site names and the measurements. The hierarchy follows the
/// names.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Contradiction {
    /// Nodes of a site are far from the rest of it.
    Apart {
        /// The site.
        site: String,
        /// The nodes that are far from most of the site.
        nodes: Vec<NodeId>,
        /// A node in the part that contains most of the site.
        from: NodeId,
        /// The round trip between the first of `nodes` and `from`.
        rtt: Duration,
    },
    /// Different sites are in the same place.
    Together {
        /// The sites.
        sites: Vec<String>,
        /// A node of each.
        nodes: Vec<NodeId>,
        /// The round trip between the first two.
        rtt: Duration,
    },
}

impl fmt::Display for Contradiction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Apart { site, nodes, from, rtt } => {
                let (are, its) = if nodes.len() == 1 { ("is", "its") } else { ("are", "their") };
                let (rtt, nodes) = (show_rtt(*rtt), listed(nodes));
                write!(
                    f,
                    "{nodes} {are} said to be in site `{site}`, but {are} {rtt} from {from} there; "
                )?;
                write!(f, "correct {its} site, or the name if these are two sites")
            }
            Self::Together { sites, nodes, rtt } => {
                let sites: Vec<String> = sites.iter().map(|site| format!("`{site}`")).collect();
                let (sites, nodes, rtt) = (listed(&sites), listed(nodes), show_rtt(*rtt));
                write!(f, "sites {sites} are said to be different, but {nodes} are {rtt} apart; ")?;
                write!(f, "give them one name if they are one site")
            }
        }
    }
}

/// Formats the first few items of a list.
fn listed<T: fmt::Display>(items: &[T]) -> String {
    const SHOWN: usize = 5;
    let mut words: Vec<String> = items.iter().take(SHOWN).map(T::to_string).collect();
    if items.len() > SHOWN {
        words.push(format!("{} more", items.len() - SHOWN));
    }
    match words.split_last() {
        Some((last, rest)) if !rest.is_empty() => format!("{} and {last}", rest.join(", ")),
        _ => words.concat(),
    }
}

/// Maximum round trip within a site without a contradiction: that over 100 km of fibre.
const FAR: Duration = Duration::from_millis(1);
/// Minimum round trip between sites without a contradiction: that over 50 km of fibre.
const NEAR: Duration = Duration::from_micros(500);

/// Applies the names to the hierarchy that was built from a draft and samples.
pub(super) fn merge<I: Iterator<Item = Sample>>(
    draft: &Draft,
    measured: &Hierarchy,
    names: &SiteNames,
    samples: impl Fn() -> I,
) -> Labelled {
    let named: SiteNames = names
        .iter()
        .filter(|(node, _)| measured.contains(**node))
        .map(|(&node, name)| (node, name.clone()))
        .collect();
    if named.is_empty() {
        return Labelled { hierarchy: measured.clone(), contradictions: Vec::new() };
    }
    let level = site_level(measured, &named);
    let mut contradictions = apart(measured, &named, level);
    // A misnamed node is also close to nodes of another site; the first report is enough.
    let mut sound = named.clone();
    for contradiction in &contradictions {
        if let Contradiction::Apart { nodes, .. } = contradiction {
            sound.retain(|node, _| !nodes.contains(node));
        }
    }
    contradictions.extend(together(measured, &sound));
    let partitions = partitions(draft, measured, &named, level);
    let merged = Draft { partitions, ..draft.clone() };
    Labelled { hierarchy: merged.build(samples()), contradictions }
}

/// Returns the level whose groups match the names best, the coarsest on a tie. The level of the
/// whole is taken only if there is no other.
fn site_level(measured: &Hierarchy, named: &SiteNames) -> usize {
    let mut numbers = BTreeMap::new();
    let labels: Vec<u32> = named
        .values()
        .map(|name| {
            let next = numbers.len() as u32;
            *numbers.entry(name).or_insert(next)
        })
        .collect();
    let mut best = (f64::NEG_INFINITY, 0);
    for level in 1..measured.depth() {
        let groups: Vec<u32> = named.keys().map(|&node| group(measured, node, level)).collect();
        let agreement = adjusted_rand_index(&groups, &labels);
        if agreement > best.0 {
            best = (agreement, level);
        }
    }
    best.1
}

/// Returns the number of the group of a node at a level; both must exist.
fn group(measured: &Hierarchy, node: NodeId, level: usize) -> u32 {
    measured.group_of(node, level).unwrap_or(measured.root()).0
}

/// Returns the most frequent key, the least on a tie.
fn majority<K: Ord + Copy>(items: impl Iterator<Item = K>) -> Option<K> {
    let mut counts = BTreeMap::<K, usize>::new();
    items.for_each(|item| *counts.entry(item).or_default() += 1);
    counts.into_iter().rev().max_by_key(|&(_, count)| count).map(|(key, _)| key)
}

fn apart(measured: &Hierarchy, named: &SiteNames, level: usize) -> Vec<Contradiction> {
    let mut nodes_of = BTreeMap::<&String, Vec<NodeId>>::new();
    named.iter().for_each(|(&node, name)| nodes_of.entry(name).or_default().push(node));
    let mut found = Vec::new();
    for (site, nodes) in nodes_of {
        let home = majority(nodes.iter().map(|&node| group(measured, node, level)));
        let is_home = |node: &NodeId| Some(group(measured, *node, level)) == home;
        let Some(&from) = nodes.iter().find(|node| is_home(node)) else { continue };
        let is_far = |node: &NodeId| measured.rtt(*node, from).is_some_and(|rtt| rtt > FAR);
        let nodes: Vec<NodeId> =
            nodes.iter().copied().filter(|node| !is_home(node) && is_far(node)).collect();
        let Some(rtt) = nodes.first().and_then(|&node| measured.rtt(node, from)) else { continue };
        found.push(Contradiction::Apart { site: site.clone(), nodes, from, rtt });
    }
    found
}

fn together(measured: &Hierarchy, named: &SiteNames) -> Vec<Contradiction> {
    let mut sites_of = BTreeMap::<u32, BTreeMap<&String, NodeId>>::new();
    for (&node, name) in named {
        let closest = group(measured, node, measured.depth() - 1);
        sites_of.entry(closest).or_default().entry(name).or_insert(node);
    }
    let contradiction = |sites: BTreeMap<&String, NodeId>| {
        let nodes: Vec<NodeId> = sites.values().copied().collect();
        let rtt = measured.rtt(*nodes.first()?, *nodes.get(1)?)?;
        let sites = sites.into_keys().cloned().collect();
        (rtt < NEAR).then_some(Contradiction::Together { sites, nodes, rtt })
    };
    sites_of.into_values().filter_map(contradiction).collect()
}

/// Returns the measured levels with the site level replaced by the user's sites.
fn partitions(
    draft: &Draft,
    measured: &Hierarchy,
    named: &SiteNames,
    level: usize,
) -> Vec<Partition> {
    let of = |level: usize| -> Vec<u32> {
        draft.nodes.iter().map(|&node| group(measured, node, level)).collect()
    };
    let (sites, site_names) = sites(draft, measured, named, level);
    let partition = |level: usize, groups: Vec<u32>| Partition {
        groups,
        cut_ms: cut_ms(measured, level),
        confidence: measured.levels().nth(level).map_or(1.0, |level| level.confidence),
        names: BTreeMap::new(),
    };
    let mut partitions = Vec::new();
    for above in 1..level {
        // A site is indivisible: all of it goes to the group that contains most of it.
        let groups = of(above);
        let mut nodes_of = BTreeMap::<u32, Vec<u32>>::new();
        let pairs = sites.iter().zip(&groups);
        pairs.for_each(|(&site, &group)| nodes_of.entry(site).or_default().push(group));
        let home: BTreeMap<u32, Option<u32>> = nodes_of
            .into_iter()
            .map(|(site, groups)| (site, majority(groups.into_iter())))
            .collect();
        let groups = sites.iter().zip(&groups);
        let groups = groups.map(|(site, &own)| home[site].unwrap_or(own)).collect();
        partitions.push(partition(above, groups));
    }
    let site_level = partition(level.max(1).min(measured.depth() - 1), sites);
    partitions.push(Partition { names: site_names, confidence: 1.0, ..site_level });
    for below in level.max(1)..measured.depth() {
        // Below the site level, the measured parts of a site stay separate.
        partitions.push(partition(below, of(below)));
    }
    partitions
}

/// Returns the site of each item, and the names of the named sites.
fn sites(
    draft: &Draft,
    measured: &Hierarchy,
    named: &SiteNames,
    level: usize,
) -> (Vec<u32>, BTreeMap<u32, String>) {
    let mut numbers = BTreeMap::new();
    for name in named.values() {
        let next = numbers.len() as u32;
        numbers.entry(name).or_insert(next);
    }
    // The most frequent name in each group, from the site level down.
    let mut called = BTreeMap::<u32, Vec<u32>>::new();
    for (&node, name) in named {
        for level in level..measured.depth() {
            called.entry(group(measured, node, level)).or_default().push(numbers[name]);
        }
    }
    let called: BTreeMap<u32, Option<u32>> =
        called.into_iter().map(|(group, sites)| (group, majority(sites.into_iter()))).collect();
    let site_of = |&node: &NodeId| {
        if let Some(name) = named.get(&node) {
            return numbers[name];
        }
        let groups = (level..measured.depth()).rev().map(|level| group(measured, node, level));
        let site = groups.filter_map(|group| *called.get(&group)?).next();
        site.unwrap_or(numbers.len() as u32 + group(measured, node, level))
    };
    let sites = draft.nodes.iter().map(site_of).collect();
    (sites, numbers.iter().map(|(name, &site)| (site, (*name).clone())).collect())
}

/// Returns the round trip that separates a level from the one above, in milliseconds.
pub(super) fn cut_ms(measured: &Hierarchy, level: usize) -> f32 {
    let median = |level: usize| {
        let range = measured.levels().nth(level)?.rtt?;
        Some(range.median.as_secs_f64() * 1e3)
    };
    match (level.checked_sub(1).and_then(median), median(level)) {
        (Some(above), Some(own)) => (above * own).sqrt() as f32,
        (Some(above), None) => (above / 2.0) as f32,
        // Without knowledge of the level above, everything is within this level.
        (None, own) => own.map_or(f32::INFINITY, |own| (2.0 * own) as f32),
    }
}
