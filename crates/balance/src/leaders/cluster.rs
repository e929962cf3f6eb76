//! The vertices of the coarse graph that a leader makes of the actors of its site.
//!
//! In the first round the leader gathers all actors into clusters. In later rounds it gathers only
//! those near the cut, into smaller clusters, and actors far from the cut form one vertex for each
//! site to which they should go. A leader's vertices, and the edges it reports, are bounded for any
//! number of actors.

use super::note::{CoarseVertex, Part};
use super::site_graph::{SiteGraph, talk_weight};
use crate::cutter::{Graph, Tie, clusters};
use std::collections::BTreeMap;

/// Maximum factor by which the band about the cut shrinks from round to round.
const SHRINK: usize = 8;
/// Maximum number of edges that a leader reports for each vertex that it may have. Edges inside its
/// site and edges to other sites are limited separately; the leader reports the heaviest.
const EDGES_PER_VERTEX: usize = 32;

/// Input of the clustering of a leader.
pub(super) struct Clustering<'a> {
    pub(super) site: &'a SiteGraph,
    /// Its vertices are the members, followed by the strangers (actors of other sites).
    pub(super) graph: &'a Graph,
    pub(super) pulls: &'a [u64],
    /// Target site of each member and stranger, from the round before.
    pub(super) targets: &'a [u32],
    /// Maximum number of vertices, not counting those far from the cut.
    pub(super) most: usize,
    pub(super) seed: u64,
}

/// The coarse vertex of each member.
#[derive(Clone, Debug, Default)]
pub(super) struct Numbering {
    pub(super) number: Vec<u32>,
    pub(super) vertices: Vec<CoarseVertex>,
    pub(super) is_finest: bool,
    /// Number of members near the cut.
    band: usize,
    /// Number of rounds with single actors in the band. If too many actors are near the cut, they
    /// take turns in the band.
    turns: usize,
    /// Whether these vertices have been sent to the top.
    pub(super) is_sent: bool,
}

const NONE: u32 = u32::MAX;

impl Clustering<'_> {
    /// Returns the vertices of the first round if `before` is `None`, otherwise those of the round
    /// after `before`.
    pub(super) fn run(&self, before: Option<&Numbering>) -> Numbering {
        let members = self.site.members.len();
        let turns = before.map_or(0, |before| before.turns);
        let (band, cut) = match before {
            None => ((0..members as u32).collect(), 0),
            Some(before) => self.band((before.band / SHRINK).max(self.most), turns),
        };
        let mut number = vec![NONE; members];
        let is_single = band.len() <= self.most;
        let turns = turns + usize::from(is_single);
        let is_finest = is_single && turns.saturating_mul(self.most) >= cut;
        let mut count = 0;
        if is_single {
            band.iter().enumerate().for_each(|(at, &vertex)| number[vertex as usize] = at as u32);
            count = band.len() as u32;
        } else {
            self.gather(&band, &mut number, &mut count);
        }
        let near = count;
        let mut far: BTreeMap<u32, u32> = BTreeMap::new();
        for (entry, &target) in number.iter_mut().zip(self.targets).filter(|(n, _)| **n == NONE) {
            *entry = *far.entry(target).or_insert_with(|| {
                count += 1;
                count - 1
            });
        }
        let vertices = self.vertices(&number, near, count);
        Numbering { number, vertices, is_finest, band: band.len(), turns, is_sent: false }
    }

    /// Gathers the band into clusters and numbers them.
    fn gather(&self, band: &[u32], number: &mut [u32], count: &mut u32) {
        let members = self.site.members.len() as u32;
        let mut all = band.to_vec();
        all.extend(members..self.site.len() as u32);
        let tie = |&vertex: &u32| match self.site.members.get(vertex as usize) {
            Some(member) if !member.load.migratable => Tie::fixed(0),
            _ => Tie::FREE,
        };
        let ties = all.iter().map(tie).collect();
        let part: Vec<u32> = all.iter().map(|&vertex| self.targets[vertex as usize]).collect();
        let label = clusters(
            self.graph.induced(&all),
            ties,
            &part,
            (band.len(), self.most * 3 / 4),
            self.seed,
        );
        let mut names = vec![NONE; all.len()];
        for (&vertex, &label) in band.iter().zip(&label) {
            let name = &mut names[label as usize];
            if *name == NONE {
                *name = *count;
                *count += 1;
            }
            number[vertex as usize] = *name;
        }
        self.squeeze(band, number, count);
    }

    /// If there are still too many clusters, as in graphs without edges, merges clusters that have
    /// close numbers and are of one kind: the same target, and both or neither migratable.
    fn squeeze(&self, band: &[u32], number: &mut [u32], count: &mut u32) {
        let mut surplus = (*count as usize).saturating_sub(self.most);
        if surplus == 0 {
            return;
        }
        let mut kinds = vec![(0, false); *count as usize];
        for &vertex in band {
            let at = vertex as usize;
            kinds[number[at] as usize] = (self.targets[at], self.site.members[at].load.migratable);
        }
        // For each kind, the cluster that is joined next, and the number of clusters that have
        // joined it.
        let mut open: BTreeMap<(u32, bool), (u32, usize)> = BTreeMap::new();
        let size = kinds.len().div_ceil(self.most.max(1));
        let (mut names, mut next) = (Vec::with_capacity(kinds.len()), 0);
        for kind in kinds {
            match open.get_mut(&kind).filter(|(_, joined)| surplus > 0 && *joined < size) {
                Some((name, joined)) => {
                    names.push(*name);
                    *joined += 1;
                    surplus -= 1;
                }
                None => {
                    names.push(next);
                    open.insert(kind, (next, 0));
                    next += 1;
                }
            }
        }
        band.iter().for_each(|&vertex| {
            let number = &mut number[vertex as usize];
            *number = names[*number as usize];
        });
        *count = next;
    }

    fn vertices(&self, number: &[u32], near: u32, count: u32) -> Vec<CoarseVertex> {
        let empty = CoarseVertex { work: 0, pull: 0, target: self.site.site, is_fixed: false };
        let mut vertices = vec![empty; count as usize];
        for (at, &number) in number.iter().enumerate() {
            let vertex = &mut vertices[number as usize];
            vertex.work = vertex.work.saturating_add(self.graph.load(at as u32) as u64);
            vertex.pull = vertex.pull.saturating_add(self.pulls[at]);
            vertex.target = self.targets[at];
            vertex.is_fixed |= number >= near || !self.site.members[at].load.migratable;
        }
        vertices
    }

    /// Returns the members that are nearest to the cut, at most `most`, in ascending order, and the
    /// number of members with cut edges. Among members that are equally near, each turn begins with
    /// different ones.
    fn band(&self, most: usize, turns: usize) -> (Vec<u32>, usize) {
        let members = self.site.members.len();
        let is_cut = |vertex: u32| {
            let here = self.targets[vertex as usize];
            self.graph.neighbours(vertex).any(|(end, _)| self.targets[end as usize] != here)
        };
        let all = 0..self.graph.len() as u32;
        let mut front: Vec<u32> = all.filter(|&vertex| is_cut(vertex)).collect();
        let mut is_met = vec![false; self.graph.len()];
        front.iter().for_each(|&vertex| is_met[vertex as usize] = true);
        let mut band: Vec<u32> = Vec::new();
        let is_member = |vertex: &u32| (*vertex as usize) < members;
        let cut = front.iter().filter(|vertex| is_member(vertex)).count();
        while !front.is_empty() && band.len() < most {
            let mut near: Vec<u32> = front.iter().copied().filter(is_member).collect();
            let skipped = turns.saturating_mul(most) % near.len().max(1);
            near.rotate_left(skipped);
            band.extend(near);
            let mut next = Vec::new();
            for (end, _) in front.iter().flat_map(|&vertex| self.graph.neighbours(vertex)) {
                if !std::mem::replace(&mut is_met[end as usize], true) {
                    next.push(end);
                }
            }
            front = next;
        }
        band.truncate(most);
        band.sort_unstable();
        (band, cut)
    }

    /// Returns the part of the coarse graph for the top, once the numbers of strangers are known.
    /// Edges to unknown strangers are left out.
    pub(super) fn part(
        &self,
        round: u32,
        numbering: &Numbering,
        strangers: &[Option<u32>],
    ) -> Part {
        let members = self.site.members.len() as u32;
        let is_fixed = |vertex: u32| numbering.vertices[vertex as usize].is_fixed;
        let (mut edges, mut crossing) = (BTreeMap::new(), BTreeMap::new());
        for &(from, to, messages, bytes) in &self.site.talks {
            if from >= members {
                continue;
            }
            let weight = talk_weight(messages, bytes);
            let a = numbering.number[from as usize];
            if to < members {
                let b = numbering.number[to as usize];
                if a != b && !(is_fixed(a) && is_fixed(b)) {
                    add(&mut edges, (a.min(b), a.max(b)), weight);
                }
            } else if let Some(Some(b)) = strangers.get((to - members) as usize) {
                add(&mut crossing, (a, self.site.site_of(to), *b), weight);
            }
        }
        let most = self.most.saturating_mul(EDGES_PER_VERTEX);
        let edges = heaviest(edges, most).map(|((a, b), weight)| (a, b, weight)).collect();
        let crossing = heaviest(crossing, most).map(|((a, s, b), w)| (a, s, b, w)).collect();
        let vertices = numbering.vertices.clone();
        Part { round, vertices, edges, crossing, is_finest: numbering.is_finest }
    }
}

fn add<K: Ord>(sums: &mut BTreeMap<K, u64>, key: K, weight: u64) {
    let sum = sums.entry(key).or_default();
    *sum = sum.saturating_add(weight);
}

fn heaviest<K: Ord>(sums: BTreeMap<K, u64>, most: usize) -> impl Iterator<Item = (K, u64)> {
    let mut all: Vec<(K, u64)> = sums.into_iter().collect();
    if all.len() > most {
        all.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
        all.truncate(most);
        all.sort_by(|a, b| a.0.cmp(&b.0));
    }
    all.into_iter()
}
