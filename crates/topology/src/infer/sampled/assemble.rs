//! Assembles the leaves of all regions into one hierarchy.
//!
//! A region has only the distances within it, so this step determines the levels again over all
//! leaves. The distance between two leaves is that between the two sibling regions that contain
//! them.

use super::log::Log;
use crate::hierarchy::{Draft, Partition};
use crate::id::NodeId;
use crate::infer::dendrogram::Dendrogram;
use crate::infer::levels::{Cut, Weighted, cuts};
use crate::infer::nested::weigh;
use crate::infer::pairs::{Pairs, median};
use std::collections::BTreeMap;

/// The position of a region in the tree of regions.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place {
    pub(super) parent: Option<usize>,
    pub(super) depth: usize,
}

/// A region that is a single group.
#[derive(Clone, Debug)]
pub(super) struct Leaf {
    pub(super) region: usize,
    pub(super) members: Vec<u32>,
}

/// Weight of the distance within a leaf, for each member after the first. The merges in a
/// dendrogram of the leaf would together have about the same weight.
const WEIGHT_OF_MEMBER: f32 = 1.5;
/// Ratio of the distances within a leaf to a cut beyond which the leaf is not a group at that cut.
const SPREAD: f32 = 1.3;

/// Determines the levels of all leaves together.
pub(super) fn assemble(places: &[Place], leaves: &[Leaf], log: &Log) -> Draft {
    let mut leaf_of = vec![0; log.nodes()];
    for (number, leaf) in leaves.iter().enumerate() {
        leaf.members.iter().for_each(|&node| leaf_of[node as usize] = number);
    }
    let (inside, between) = distances(places, leaves, &leaf_of, log);
    let sizes = leaves.iter().map(|leaf| leaf.members.len() as f32).collect();
    let dendrogram = Dendrogram::new(between, sizes);
    let mut weighted: Vec<Weighted> = dendrogram.merges().iter().map(weigh).collect();
    for (leaf, ms) in leaves.iter().zip(&inside) {
        if let Some(ms) = ms {
            weighted.push((ms.ln(), WEIGHT_OF_MEMBER * (leaf.members.len() - 1) as f32));
        }
    }
    lift(&mut weighted);
    let mut found = cuts(&weighted);
    found.reverse();
    let partition = |cut: Cut| {
        let cut_ms = cut.at.exp();
        let groups = dendrogram.cut(cut.at);
        let is_one = |leaf: usize| inside[leaf].is_none_or(|ms| ms <= SPREAD * cut_ms);
        let group_of = |(node, &leaf): (usize, &usize)| match is_one(leaf) {
            true => groups[leaf],
            false => (leaves.len() + node) as u32,
        };
        let groups = leaf_of.iter().enumerate().map(group_of).collect();
        let confidence = f64::from(cut.confidence);
        Partition { groups, cut_ms, confidence, names: BTreeMap::new() }
    };
    Draft {
        nodes: (0..log.nodes()).map(NodeId::from).collect(),
        partitions: found.into_iter().map(partition).collect(),
        added_ms: log.added_ms.clone(),
    }
}

/// Raises the few shortest distances to nearly those of the other pairs. Where the delay of busy
/// hosts was overestimated, a handful of pairs seem closer than all others, but form no level.
fn lift(weighted: &mut [Weighted]) {
    const FEW: f32 = 0.02;
    const BELOW: f32 = 0.5;
    weighted.sort_by(|a, b| a.0.total_cmp(&b.0));
    let few = FEW * weighted.iter().map(|&(_, weight)| weight).sum::<f32>();
    let mut below = 0.0;
    let first = weighted.iter().find(|&&(_, weight)| {
        below += weight;
        below > few
    });
    let Some(&(first, _)) = first else { return };
    weighted.iter_mut().for_each(|(ln, _)| *ln = ln.max(first - BELOW));
}

/// Returns the median within each leaf in milliseconds, and the logarithms of the medians between
/// leaves.
fn distances(
    places: &[Place],
    leaves: &[Leaf],
    leaf_of: &[usize],
    log: &Log,
) -> (Vec<Option<f32>>, Pairs) {
    let mut inside = vec![Vec::new(); leaves.len()];
    let mut apart = BTreeMap::<(usize, usize), Vec<f32>>::new();
    for (a, b, ms) in log.all() {
        let (one, other) = (leaf_of[a as usize], leaf_of[b as usize]);
        let ms = log.lowered(a, b, ms);
        if one == other {
            inside[one].push(ms);
        } else {
            apart
                .entry(parting(places, leaves[one].region, leaves[other].region))
                .or_default()
                .push(ms);
        }
    }
    let apart: BTreeMap<(usize, usize), f32> = apart
        .into_iter()
        .filter_map(|(regions, mut rtts)| Some((regions, median(&mut rtts)?.ln())))
        .collect();
    let mut of_region = BTreeMap::<Option<usize>, Vec<f32>>::new();
    for (&(region, _), &ln) in &apart {
        of_region.entry(places[region].parent).or_default().push(ln);
    }
    let of_region: BTreeMap<Option<usize>, f32> = of_region
        .into_iter()
        .filter_map(|(region, mut lns)| Some((region, median(&mut lns)?)))
        .collect();
    let furthest = apart.values().copied().fold(0.0, f32::max);
    let mut between = Pairs::new(leaves.len());
    for a in 0..leaves.len() {
        for b in 0..a {
            let parted = parting(places, leaves[a].region, leaves[b].region);
            let usual = || of_region.get(&places[parted.0].parent).copied();
            let ln = apart.get(&parted).copied().or_else(usual).unwrap_or(furthest);
            between.set(a, b, ln);
        }
    }
    (inside.iter_mut().map(|rtts| median(rtts)).collect(), between)
}

/// Returns the two sibling regions that contain two different leaves, lower number first.
fn parting(places: &[Place], mut a: usize, mut b: usize) -> (usize, usize) {
    loop {
        let (one, other) = (places[a], places[b]);
        match (one.parent, other.parent) {
            (Some(up), _) if one.depth > other.depth => a = up,
            (_, Some(up)) if other.depth > one.depth => b = up,
            (Some(up), Some(above)) if up != above => (a, b) = (up, above),
            _ => return (a.min(b), a.max(b)),
        }
    }
}
