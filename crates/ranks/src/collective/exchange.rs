//! Operations that move data without combining them: broadcasts, gathers, scatters.

use super::operation::Operation;
use crate::content::Content;
use crate::element::Element;
use crate::error::RankError;
use crate::packet::Part;
use crate::scope::Scope;
use crate::typed_block::TypedBlock;
use std::collections::BTreeMap;

impl Operation {
    /// Sends the root's content to all ranks.
    pub(crate) async fn bcast(
        &self,
        content: Option<Content>,
        root: u32,
    ) -> Result<Content, RankError> {
        let tree = self.comm.scope.tree(root);
        let content = content.filter(|_| root == self.me());
        let parts = content.map(|content| vec![Part { key: 0, content }]);
        let parts = self.distribute(&tree, parts).await?;
        self.only(parts)
    }

    fn mine<T: Element>(&self, values: Vec<T>) -> Vec<Part> {
        vec![Part { key: u64::from(self.me()), content: Content::owned(values) }]
    }

    /// The contents of all ranks, by rank.
    fn by_rank<T: Element>(&self, mut parts: Vec<Part>) -> Result<Vec<Vec<T>>, RankError> {
        parts.sort_by_key(|part| part.key);
        parts.into_iter().map(|part| part.content.to_vec(self.at)).collect()
    }

    /// Gathers at the root.
    pub(super) async fn gather<T: Element>(
        &self,
        values: Vec<T>,
        root: u32,
    ) -> Result<Option<Vec<Vec<T>>>, RankError> {
        let tree = self.comm.scope.tree(root);
        let mut parts = self.mine(values);
        match self.to_root(&tree, &mut parts).await? {
            true => Ok(Some(self.by_rank(parts)?)),
            false => Ok(None),
        }
    }

    /// Gathers at all ranks, in one crossing of the wide area. Returns the numbers of all ranks, in
    /// their order, and how many each has given.
    ///
    /// The leaders join what they have received, so that it goes down as two blocks, which the
    /// ranks of a process share.
    pub(super) async fn allgather<T: Element>(
        &self,
        values: Vec<T>,
    ) -> Result<(Vec<T>, Vec<u64>), RankError> {
        let tree = self.comm.scope.tree(0);
        let mut parts = self.mine(values);
        let joined = match self.ascend(&tree, &mut parts).await? {
            true => {
                self.exchange(&tree, &mut parts).await?;
                let blocks = self.by_rank::<T>(parts)?;
                let lengths: Vec<u64> = blocks.iter().map(|block| block.len() as u64).collect();
                let contents = [Content::owned(lengths), Content::owned(blocks.concat())];
                Some(contents.map(|content| Part { key: 0, content }).to_vec())
            }
            false => None,
        };
        let parts = self.descend(&tree, joined).await?;
        let [lengths, numbers] = &parts[..] else {
            let found = parts.len();
            return Err(RankError::WrongLength { at: self.at, found, expected: 2 });
        };
        Ok((numbers.content.to_vec(self.at)?, lengths.content.to_vec(self.at)?))
    }

    /// Gathers blocks of one length at all ranks.
    pub(super) async fn allgather_equal<T: Element>(
        &self,
        values: Vec<T>,
    ) -> Result<Vec<T>, RankError> {
        let expected = values.len();
        let (numbers, lengths) = self.allgather(values).await?;
        match lengths.iter().find(|length| **length != expected as u64) {
            Some(other) => {
                let found = *other as usize;
                Err(RankError::WrongLength { at: self.at, found, expected })
            }
            None => Ok(numbers),
        }
    }

    /// Gathers blocks of any lengths at all ranks.
    pub(super) async fn allgatherv<T: Element>(
        &self,
        values: Vec<T>,
    ) -> Result<Vec<Vec<T>>, RankError> {
        let (numbers, lengths) = self.allgather(values).await?;
        let mut rest = &numbers[..];
        let mut blocks = Vec::with_capacity(lengths.len());
        for length in lengths {
            // The leader has counted the same numbers that it has joined.
            let (block, after) = rest.split_at((length as usize).min(rest.len()));
            blocks.push(block.to_vec());
            rest = after;
        }
        Ok(blocks)
    }

    /// Checks that all blocks have one length, and joins them.
    pub(super) fn join<T: Element>(
        &self,
        blocks: &[Vec<T>],
        expected: usize,
    ) -> Result<Vec<T>, RankError> {
        match blocks.iter().find(|block| block.len() != expected) {
            Some(other) => {
                Err(RankError::WrongLength { at: self.at, found: other.len(), expected })
            }
            None => Ok(blocks.concat()),
        }
    }

    /// Cuts values into one block for each rank.
    pub(super) fn cut<T: Element>(&self, values: &[T]) -> Result<Vec<Vec<T>>, RankError> {
        let (size, found) = (self.comm.size() as usize, values.len());
        if !found.is_multiple_of(size) {
            let reason = format!("{found} elements do not divide among {size} ranks");
            return Err(RankError::Invalid { at: self.at, reason });
        }
        match found / size {
            0 => Ok(vec![Vec::new(); size]),
            block => Ok(values.chunks_exact(block).map(<[T]>::to_vec).collect()),
        }
    }

    /// Sends the root's blocks, one to each rank. A rank gets those of the ranks below it, too.
    pub(super) async fn scatter<T: Element>(
        &self,
        blocks: Option<Vec<Vec<T>>>,
        root: u32,
    ) -> Result<Vec<T>, RankError> {
        let (at, me, tree) = (self.at, self.me(), self.comm.scope.tree(root));
        let parts: Vec<Part> = if me == root {
            let (blocks, expected) = (blocks.unwrap_or_default(), self.comm.size() as usize);
            if blocks.len() != expected {
                return Err(RankError::WrongLength { at, found: blocks.len(), expected });
            }
            let part = |(rank, block)| Part { key: rank as u64, content: Content::owned(block) };
            blocks.into_iter().enumerate().map(part).collect()
        } else {
            self.take(tree.parent(me).unwrap_or(root)).await?
        };
        let mut below: BTreeMap<u32, Vec<Part>> = BTreeMap::new();
        let mut mine = Vec::new();
        for part in parts {
            match tree.way(me, part.key as u32) {
                Some(child) => below.entry(child).or_default().push(part),
                None => mine.push(part),
            }
        }
        // Leaders come first, since the wide area takes longest.
        let is_leader = |rank: &u32| tree.parent(*rank).is_none();
        let (leaders, others): (Vec<_>, Vec<_>) =
            below.into_iter().partition(|(child, _)| is_leader(child));
        for (child, parts) in leaders.into_iter().chain(others) {
            self.post(child, parts);
        }
        self.only(mine)?.to_vec(at)
    }

    /// Sends a block to each rank, and receives one from each.
    pub(super) async fn alltoall<T: Element>(
        &self,
        mut blocks: Vec<Vec<T>>,
    ) -> Result<Vec<Vec<T>>, RankError> {
        let (at, me) = (self.at, self.me());
        let mut mine = blocks.get_mut(me as usize).map(std::mem::take);
        let contents = blocks.into_iter().map(Content::owned).collect();
        let open = |from: u32, content: Content| match mine.take_if(|_| from == me) {
            Some(mine) => Ok(mine),
            None => content.to_vec(at),
        };
        self.exchange_all(contents, open).await
    }

    /// Sends a block of any type to each rank, and receives one from each.
    pub(super) async fn alltoallw(
        &self,
        blocks: Vec<TypedBlock>,
    ) -> Result<Vec<TypedBlock>, RankError> {
        let at = self.at;
        let contents = blocks.into_iter().map(TypedBlock::into_content).collect();
        let open = |from: u32, content: Content| {
            Ok(TypedBlock::received(content, at.with(Some(from), None)))
        };
        self.exchange_all(contents, open).await
    }

    /// Sends a content to each rank, and opens those that it receives, by rank.
    async fn exchange_all<R>(
        &self,
        contents: Vec<Content>,
        mut open: impl FnMut(u32, Content) -> Result<R, RankError>,
    ) -> Result<Vec<R>, RankError> {
        let (at, me, size) = (self.at, self.me() as usize, self.comm.size() as usize);
        if contents.len() != size {
            return Err(RankError::WrongLength { at, found: contents.len(), expected: size });
        }
        let mut contents: Vec<Option<Content>> = contents.into_iter().map(Some).collect();
        let mut opened: Vec<Option<R>> = (0..size).map(|_| None).collect();
        for to in receivers(&self.comm.scope, me as u32) {
            let content = contents.get_mut(to as usize).and_then(Option::take);
            let part = content.map(|content| Part { key: 0, content });
            self.post(to, part.into_iter().collect());
        }
        if let Some(content) = contents[me].take() {
            opened[me] = Some(open(me as u32, content)?);
        }
        for from in (0..me).rev().chain((me + 1..size).rev()) {
            let content = self.only(self.take(from as u32).await?)?;
            opened[from] = Some(open(from as u32, content)?);
        }
        Ok(opened.into_iter().flatten().collect())
    }
}

/// The order in which a rank sends blocks to all others.
///
/// Those to other sites come first, since the wide area takes longest. If the links into a site are
/// slower than its ranks receive, all ranks send to its ranks in the same order: the first ones
/// have all their blocks, and go on, while the links carry those of the others. Otherwise ranks
/// begin with different receivers, so that none has to receive from all at a time.
fn receivers(scope: &Scope, me: u32) -> Vec<u32> {
    let mut sites: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
    for rank in 0..scope.size() {
        sites.entry(scope.place(rank).0).or_default().push(rank);
    }
    let home = scope.place(me).0;
    let mut near = sites.remove(&home).unwrap_or_default();
    let place = near.iter().position(|rank| *rank == me).unwrap_or_default();
    near.rotate_left(place);
    let after = sites.range(home.saturating_add(1)..);
    let mut far: Vec<(u32, Vec<u32>)> =
        after.chain(sites.range(..home)).map(|(site, ranks)| (*site, ranks.clone())).collect();
    let all: Vec<u32> = sites.keys().copied().chain([home]).collect();
    let links = scope.places().links();
    for (site, ranks) in &mut far {
        if !links.is_narrow(*site, all.iter().copied().filter(|other| other != site)) {
            let begin = place % ranks.len().max(1);
            ranks.rotate_left(begin);
        }
    }
    let most = far.iter().map(|(_, ranks)| ranks.len()).max().unwrap_or_default();
    let in_turn = (0..most).flat_map(|at| far.iter().filter_map(move |(_, ranks)| ranks.get(at)));
    in_turn.chain(&near).copied().filter(|rank| *rank != me).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::places::Places;
    use crate::scope::World;
    use crate::site_links::SiteLinks;
    use gridspan_topology::{GridSpec, Hierarchy};
    use std::sync::Arc;

    /// One rank on each PE of a grid.
    fn scope(emulate: &str) -> Scope {
        let spec = GridSpec::from_emulate(emulate).unwrap();
        let links = SiteLinks::new(spec.layout(), &Hierarchy::from_grid(&spec), &[]);
        let pes: Vec<u64> = spec.layout().pes().map(|pe| u64::from(pe.0)).collect();
        let places = Places::new(&pes, spec.layout(), links);
        World::of_job(pes.len() as u32).scope(Arc::new(places))
    }

    #[test]
    fn blocks_for_other_sites_leave_first_and_in_the_same_order() {
        // Two links of 1 Gbit/s into a site, whose ranks receive 10 Gbit/s.
        let scope = scope("3x3,wan=20ms");
        assert_eq!(receivers(&scope, 0), [3, 6, 4, 7, 5, 8, 1, 2]);
        assert_eq!(receivers(&scope, 1), [3, 6, 4, 7, 5, 8, 2, 0]);
        assert_eq!(receivers(&scope, 4), [6, 0, 7, 1, 8, 2, 5, 3]);
    }

    #[test]
    fn ranks_of_one_site_begin_with_different_receivers() {
        assert_eq!(receivers(&scope("1x4"), 2), [3, 0, 1]);
    }

    #[test]
    fn over_many_links_ranks_begin_with_different_receivers() {
        // Eleven links of 1 Gbit/s into each site.
        let scope = scope("12x2,wan=20ms");
        let (first, second) = (receivers(&scope, 0), receivers(&scope, 1));
        assert_eq!((first[0], second[0]), (2, 3));
        assert_eq!((first[11], second[11]), (3, 2));
        assert_eq!((first[22], second[22]), (1, 0));
    }
}
