//! Reductions whose result is divided among the ranks.
//!
//! The first rank of each PE, its head, collects the numbers of the PE's ranks, which costs no
//! packet. The heads of a site then exchange the numbers: each combines, for the whole site, the
//! blocks of the ranks of its PE and those of some PEs of each other site. It sends the latter to
//! the heads of those PEs. So the heads of a site share the work, a head sends at most about twice
//! as many numbers as the vector has, each block crosses the wide area once from each site, and the
//! result is there after one crossing.
//!
//! These costs hold if the ranks of a PE, and of a site, have consecutive numbers. Otherwise
//! vectors cannot all be combined on the way, because they are combined in the order of the ranks.

use super::collected::Partial;
use super::operation::Operation;
use crate::content::Content;
use crate::element::Element;
use crate::error::RankError;
use crate::heads::Heads;
use crate::ops::Operator;
use crate::packet::Part;
use std::collections::BTreeMap;
use std::ops::Range;

/// Where the block of each rank lies in a vector that has the blocks of some ranks only.
struct Blocks {
    ranges: BTreeMap<u32, Range<usize>>,
    length: usize,
}

impl Blocks {
    /// The blocks of these ranks, one after the other. `counts` has the lengths of all ranks.
    fn new(ranks: impl Iterator<Item = u32>, counts: &[usize]) -> Self {
        let (mut ranges, mut length) = (BTreeMap::new(), 0);
        for rank in ranks {
            let begin = length;
            length += counts.get(rank as usize).copied().unwrap_or_default();
            ranges.insert(rank, begin..length);
        }
        Self { ranges, length }
    }

    /// The blocks of some of these ranks.
    fn pick<T: Copy>(&self, numbers: &[T], ranks: impl Iterator<Item = u32>) -> Vec<T> {
        let ranges = ranks.filter_map(|rank| numbers.get(self.ranges.get(&rank)?.clone()));
        ranges.flatten().copied().collect()
    }
}

impl Operation {
    /// Reduces, and leaves `counts[rank]` elements of the result to each rank.
    pub(super) async fn reduce_scatter<T: Element>(
        &self,
        values: Vec<T>,
        counts: &[usize],
        op: impl Operator<T>,
    ) -> Result<Vec<T>, RankError> {
        let (at, me, size) = (self.at, self.me(), self.comm.size());
        let (found, expected) = (counts.len(), size as usize);
        if found != expected {
            return Err(RankError::WrongLength { at, found, expected });
        }
        let (found, expected) = (values.len(), counts.iter().sum());
        if found != expected {
            return Err(RankError::WrongLength { at, found, expected });
        }
        let heads = Heads::new((0..size).map(|rank| self.comm.scope.place(rank)));
        let head = heads.head_of(me);
        let mine: Vec<T> = match head == me {
            true => self.reduce_at_head(values, &heads, counts, &op).await?,
            false => {
                self.post(head, vec![Part { key: 0, content: Content::owned(values) }]);
                self.only(self.take(head).await?)?.into_vec(at)?
            }
        };
        let (found, expected) = (mine.len(), counts[me as usize]);
        match found == expected {
            true => Ok(mine),
            false => Err(RankError::WrongLength { at, found, expected }),
        }
    }

    /// Reduces the blocks of the ranks of this PE, and sends each other rank of the PE its block.
    /// Returns the block of this rank.
    async fn reduce_at_head<T: Element>(
        &self,
        values: Vec<T>,
        heads: &Heads,
        counts: &[usize],
        op: &impl Operator<T>,
    ) -> Result<Vec<T>, RankError> {
        let me = self.me();
        let whole = self.collect_at_head(values, heads, op).await?;
        let combined = self.combine_for_site(whole, heads, counts, op).await?;
        let blocks = Blocks::new(heads.ranks(&heads.combined_by(me)), counts);
        let is_elsewhere = |head: &u32| heads.site(*head) != heads.site(me);
        for head in heads.combined_by(me).into_iter().filter(is_elsewhere) {
            self.post(head, combined.selected(|all| blocks.pick(all, heads.ranks(&[head]))));
        }
        let mine = Blocks::new(heads.ranks(&[me]), counts);
        let mut total = Partial::new(self.comm.size(), op, self.at);
        for part in combined.selected(|all| blocks.pick(all, heads.ranks(&[me]))) {
            total.add_sized(part, mine.length)?;
        }
        for site in heads.other_sites(heads.site(me)) {
            for part in self.take(heads.combiner(site, me)).await? {
                total.add_sized(part, mine.length)?;
            }
        }
        let total = total.total()?;
        for rank in heads.ranks(&[me]).filter(|rank| *rank != me) {
            let block = mine.pick(&total, std::iter::once(rank));
            self.post(rank, vec![Part { key: 0, content: Content::owned(block) }]);
        }
        Ok(mine.pick(&total, std::iter::once(me)))
    }

    /// Combines the whole vectors of the ranks of this PE.
    pub(super) async fn collect_at_head<'a, T: Element, O: Operator<T>>(
        &self,
        values: Vec<T>,
        heads: &Heads,
        op: &'a O,
    ) -> Result<Partial<'a, T, O>, RankError> {
        let (me, length) = (self.me(), values.len());
        let mut whole = Partial::new(self.comm.size(), op, self.at);
        whole.put((0, me), values)?;
        for rank in heads.ranks(&[me]).filter(|rank| *rank != me) {
            let values: Vec<T> = self.only(self.take(rank).await?)?.to_vec(self.at)?;
            if values.len() != length {
                let found = values.len();
                return Err(RankError::WrongLength { at: self.at, found, expected: length });
            }
            whole.put((0, rank), values)?;
        }
        Ok(whole)
    }

    /// Gives the other heads of the site the blocks that they combine, and combines, for the whole
    /// site, those of this one.
    async fn combine_for_site<'a, T: Element, O: Operator<T>>(
        &self,
        whole: Partial<'a, T, O>,
        heads: &Heads,
        counts: &[usize],
        op: &'a O,
    ) -> Result<Partial<'a, T, O>, RankError> {
        let me = self.me();
        let all = Blocks::new(0..self.comm.size(), counts);
        let of = |head: u32| {
            let combined = heads.combined_by(head);
            whole.selected(|numbers| all.pick(numbers, heads.ranks(&combined)))
        };
        let others = heads.others(me);
        for other in &others {
            self.post(*other, of(*other));
        }
        let length = Blocks::new(heads.ranks(&heads.combined_by(me)), counts).length;
        let mut combined = Partial::new(self.comm.size(), op, self.at);
        for part in of(me) {
            combined.add_sized(part, length)?;
        }
        for other in &others {
            for part in self.take(*other).await? {
                combined.add_sized(part, length)?;
            }
        }
        Ok(combined)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_picked_from_a_vector_that_has_some_of_them() {
        let blocks = Blocks::new([4, 1, 2].into_iter(), &[9, 2, 0, 9, 1]);
        assert_eq!(blocks.length, 3);
        assert_eq!(blocks.pick(&[7, 8, 9], [1, 2].into_iter()), [8, 9]);
        assert_eq!(blocks.pick(&[7, 8, 9], [2, 4].into_iter()), [7]);
    }
}
