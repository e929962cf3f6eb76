//! Average-linkage clustering (UPGMA) by nearest-neighbour chains.
//!
//! The crate `kodama` does the same for items without weights, but items have weights here.

use super::pairs::Pairs;
use petgraph::unionfind::UnionFind;

/// The order in which groups of items join.
#[derive(Clone, Debug)]
pub(in crate::infer) struct Dendrogram {
    items: usize,
    merges: Vec<Merge>,
}

/// The merge of two groups.
#[derive(Clone, Copy, Debug)]
pub(in crate::infer) struct Merge {
    /// An item of one group.
    pub(in crate::infer) one: usize,
    /// An item of the other group.
    pub(in crate::infer) other: usize,
    /// Distance of the groups: the mean over all pairs of their items.
    pub(in crate::infer) height: f32,
    /// Weight of the lighter group and of the heavier one.
    pub(in crate::infer) sizes: [f32; 2],
}

impl Dendrogram {
    /// Clusters items of the given weights. `pairs` has no missing entry off the diagonal. Takes
    /// O(n²) time (Murtagh's nearest-neighbour chain; Sneath and Sokal's UPGMA).
    pub(in crate::infer) fn new(mut pairs: Pairs, mut sizes: Vec<f32>) -> Self {
        let items = pairs.items();
        let mut alive: Vec<usize> = (0..items).collect();
        let mut merges = Vec::with_capacity(items.saturating_sub(1));
        let mut chain: Vec<usize> = Vec::new();
        while alive.len() > 1 {
            let Some(&top) = chain.last() else {
                chain.push(alive[0]);
                continue;
            };
            let before = chain.len().checked_sub(2).map(|place| chain[place]);
            let (nearest, height) = nearest(&pairs, &alive, top, before);
            if before != Some(nearest) {
                chain.push(nearest);
                continue;
            }
            chain.truncate(chain.len() - 2);
            let (gone, kept) = (top.max(nearest), top.min(nearest));
            let (a, b) = (sizes[gone], sizes[kept]);
            merges.push(Merge { one: kept, other: gone, height, sizes: [a.min(b), a.max(b)] });
            alive.retain(|&item| item != gone);
            for &item in alive.iter().filter(|&&item| item != kept) {
                let mean = (a * pairs.value(gone, item) + b * pairs.value(kept, item)) / (a + b);
                pairs.set(kept, item, mean);
            }
            sizes[kept] = a + b;
        }
        merges.sort_by(|a, b| a.height.total_cmp(&b.height));
        Self { items, merges }
    }

    pub(in crate::infer) fn merges(&self) -> &[Merge] {
        &self.merges
    }

    /// Returns the group of each item after all merges up to `height`, numbered in the order of
    /// their first items.
    pub(in crate::infer) fn cut(&self, height: f32) -> Vec<u32> {
        let mut groups = UnionFind::new(self.items);
        for merge in self.merges.iter().take_while(|merge| merge.height <= height) {
            groups.union(merge.one as u32, merge.other as u32);
        }
        renumbered(&groups.into_labeling())
    }
}

/// Returns the nearest other group. On a tie, the previous group of the chain wins, because the
/// chain would not end otherwise.
fn nearest(pairs: &Pairs, alive: &[usize], item: usize, before: Option<usize>) -> (usize, f32) {
    let row = pairs.row(item);
    let mut best = before.map_or((usize::MAX, f32::INFINITY), |before| (before, row[before]));
    for &other in alive {
        if other != item && (row[other] < best.1 || best.0 == usize::MAX) {
            best = (other, row[other]);
        }
    }
    best
}

/// Returns the partition with groups numbered from 0 in the order of their first items.
pub(in crate::infer) fn renumbered(groups: &[u32]) -> Vec<u32> {
    let mut numbers = std::collections::BTreeMap::new();
    groups
        .iter()
        .map(|group| {
            let next = numbers.len() as u32;
            *numbers.entry(group).or_insert(next)
        })
        .collect()
}
