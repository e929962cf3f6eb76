//! Operations that move data without combining them: broadcasts, gathers, scatters.

use super::operation::Operation;
use crate::content::Content;
use crate::element::Element;
use crate::error::RankError;
use crate::packet::Part;
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
        parts.into_iter().map(|part| part.content.into_vec(self.at)).collect()
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
    /// The leader of each site joins the contents into two parts, the lengths and the numbers, and
    /// passes these down. If all ranks are at one site, the head of each PE receives each content
    /// once, and joins them itself. The ranks of a process share the joined parts.
    pub(super) async fn allgather<T: Element>(
        &self,
        values: Vec<T>,
    ) -> Result<(Vec<T>, Vec<u64>), RankError> {
        let mut parts = self.mine(values);
        let sharing = self.comm.scope.sharing();
        // A head sends the same number of bytes in any number of rounds, so bytes do not affect the
        // choice.
        let in_rounds =
            sharing.as_ref().and_then(|all| Some((all.heads(), all.exchange(|_| 0.0)?)));
        let parts = if let Some((heads, exchange)) = in_rounds {
            let mut others = Vec::new();
            let is_head = self.collect_in_rounds(heads, exchange, &mut parts, &mut others).await?;
            let joined = if is_head { Some(self.joined::<T>(parts)?) } else { None };
            self.share_with_pe(heads, joined).await?
        } else {
            let tree = self.comm.scope.tree(0);
            let joined = match self.ascend(&tree, &mut parts).await? {
                true => {
                    self.exchange(&tree, &mut parts).await?;
                    Some(self.joined::<T>(parts)?)
                }
                false => None,
            };
            self.descend(&tree, joined).await?
        };
        let [lengths, numbers] = &parts[..] else {
            let found = parts.len();
            return Err(RankError::WrongLength { at: self.at, found, expected: 2 });
        };
        Ok((numbers.content.to_vec(self.at)?, lengths.content.to_vec(self.at)?))
    }

    /// Joins the contents of all ranks. The first part has their lengths.
    fn joined<T: Element>(&self, parts: Vec<Part>) -> Result<Vec<Part>, RankError> {
        let blocks = self.by_rank::<T>(parts)?;
        let lengths: Vec<u64> = blocks.iter().map(|block| block.len() as u64).collect();
        let contents = [Content::owned(lengths), Content::owned(blocks.concat())];
        Ok(contents.map(|content| Part { key: 0, content }).to_vec())
    }

    /// Gathers blocks of one length at all ranks.
    pub(crate) async fn allgather_equal<T: Element>(
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
            // The lengths add up to the number of elements: the leader counted what it joined.
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
        let (ranks, found) = (self.comm.size(), values.len());
        let size = ranks as usize;
        if !found.is_multiple_of(size) {
            return Err(RankError::Indivisible { at: self.at, found, ranks });
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
        self.only(mine)?.into_vec(at)
    }
}
