//! Reductions, whose order of operations depends on the number of ranks alone.

use super::collected::{Collected, ExactSums, Nothing, Partial, combine};
use super::keys;
use super::operation::Operation;
use crate::content::Content;
use crate::element::Element;
use crate::error::RankError;
use crate::ops::{self, Operator};
use crate::packet::Part;
use crate::sharing::Way;
use crate::tree::CommTree;

/// Expected bytes of an exact sum in a message, for numbers of a short range; used to choose the
/// rounds.
const EXACT_SUM_BYTES: f64 = 25.0;

impl Operation {
    fn partial<'a, T: Element, O: Operator<T>>(
        &self,
        values: Vec<T>,
        op: &'a O,
    ) -> Result<Partial<'a, T, O>, RankError> {
        let mut partial = Partial::new(self.comm.size(), op, self.at);
        partial.put((0, self.me()), values)?;
        Ok(partial)
    }

    /// Reduces to the root, which gets the result.
    pub(super) async fn reduce<T: Element>(
        &self,
        values: Vec<T>,
        op: impl Operator<T>,
        root: u32,
    ) -> Result<Option<Vec<T>>, RankError> {
        let tree = self.comm.scope.tree(root);
        let mut partial = self.partial(values, &op)?;
        match self.to_root(&tree, &mut partial).await? {
            true => Ok(Some(partial.total()?)),
            false => Ok(None),
        }
    }

    /// Reduces to all ranks in the way that is predicted to be the fastest: in one crossing of the
    /// wide area, or in two if sites have slow uplinks.
    pub(crate) async fn allreduce<T: Element>(
        &self,
        values: Vec<T>,
        op: impl Operator<T>,
    ) -> Result<Vec<T>, RankError> {
        let Some(sharing) = self.comm.scope.sharing() else {
            return self.allreduce_over_tree(values, &op).await;
        };
        match sharing.way(values.len(), size_of::<T>()) {
            Way::Tree => self.allreduce_over_tree(values, &op).await,
            // In boxes, since these futures are large: otherwise each rank would reserve space for
            // them, even in a job without a network, which does not use them.
            Way::Rounds(exchange) => {
                Box::pin(self.allreduce_in_rounds(values, sharing.heads(), exchange, &op)).await
            }
            Way::Shares(count, crossings) => {
                let (heads, shares) = (sharing.heads(), (count, crossings));
                Box::pin(self.allreduce_in_shares(values, heads, shares, &op)).await
            }
        }
    }

    /// Reduces to all ranks over the tree.
    async fn allreduce_over_tree<T: Element>(
        &self,
        values: Vec<T>,
        op: &impl Operator<T>,
    ) -> Result<Vec<T>, RankError> {
        let tree = self.comm.scope.tree(0);
        let expected = values.len();
        if let Some(total) = self.total_at_leader(values, &tree, op).await? {
            let part = Part { key: 0, content: Content::copied(&total) };
            self.descend(&tree, Some(vec![part])).await?;
            return Ok(total);
        }
        let parts = self.descend(&tree, None).await?;
        let whole = parts.first().and_then(|part| keys::length_of_whole(part.key));
        let total: Vec<T> = self.only(parts)?.to_vec(self.at)?;
        let lengths = [whole.unwrap_or(expected), total.len()];
        match lengths.into_iter().find(|found| *found != expected) {
            Some(found) => Err(RankError::WrongLength { at: self.at, found, expected }),
            None => Ok(total),
        }
    }

    /// Reduces to the leaders, which get the result. A rank keeps no partial result afterwards.
    async fn total_at_leader<T: Element>(
        &self,
        values: Vec<T>,
        tree: &CommTree,
        op: &impl Operator<T>,
    ) -> Result<Option<Vec<T>>, RankError> {
        let mut partial = self.partial(values, op)?;
        if !self.ascend(tree, &mut partial).await? {
            return Ok(None);
        }
        self.exchange(tree, &mut partial).await?;
        partial.total().map(Some)
    }

    /// Adds up exactly, at the root.
    pub(super) async fn reduce_exact(
        &self,
        numbers: &[f64],
        root: u32,
    ) -> Result<Option<Vec<f64>>, RankError> {
        let tree = self.comm.scope.tree(root);
        let mut sums = ExactSums::new(numbers, self.at);
        let is_root = self.to_root(&tree, &mut sums).await?;
        Ok(is_root.then(|| sums.totals()))
    }

    /// Adds up exactly, at all ranks, in one crossing of the wide area.
    pub(super) async fn allreduce_exact(&self, numbers: &[f64]) -> Result<Vec<f64>, RankError> {
        let sharing = self.comm.scope.sharing();
        // A message has one sum for each number, however many ranks it covers.
        let bytes = numbers.len() as f64 * EXACT_SUM_BYTES;
        let in_rounds =
            sharing.as_ref().and_then(|all| Some((all.heads(), all.exchange(|_| bytes)?)));
        let parts = match in_rounds {
            Some((heads, exchange)) => {
                Box::pin(self.add_exactly_in_rounds(numbers, heads, exchange)).await?
            }
            None => self.add_exactly_over_tree(numbers).await?,
        };
        let totals: Vec<f64> = self.only(parts)?.to_vec(self.at)?;
        match totals.len() {
            found if found != numbers.len() => {
                Err(RankError::WrongLength { at: self.at, found, expected: numbers.len() })
            }
            _ => Ok(totals),
        }
    }

    /// Adds up exactly, over the tree. Returns the parts of the result.
    async fn add_exactly_over_tree(&self, numbers: &[f64]) -> Result<Vec<Part>, RankError> {
        let tree = self.comm.scope.tree(0);
        let mut sums = ExactSums::new(numbers, self.at);
        let mut totals = None;
        if self.ascend(&tree, &mut sums).await? {
            self.exchange(&tree, &mut sums).await?;
            totals = Some(vec![sums.total_part()]);
        }
        self.descend(&tree, totals).await
    }

    /// Waits for all ranks: reduces an empty vector or, if no network lies between the ranks, sends
    /// messages without parts up and down the tree.
    pub(super) async fn barrier(&self) -> Result<(), RankError> {
        if self.comm.scope.sharing().is_some() {
            return Box::pin(self.allreduce(Vec::<u8>::new(), ops::bit_or)).await.map(drop);
        }
        let (tree, mut nothing) = (self.comm.scope.tree(0), Nothing { at: self.at });
        let is_leader = self.ascend(&tree, &mut nothing).await?;
        if is_leader {
            self.exchange(&tree, &mut nothing).await?;
        }
        let parts = self.descend(&tree, is_leader.then(Vec::new)).await?;
        parts.into_iter().try_for_each(|part| nothing.add(part))
    }

    /// Reduces the values of the ranks up to this one, by recursive doubling: in step `j` a rank
    /// gets the partial result of the rank `2^j` before it.
    pub(super) async fn scan<T: Element>(
        &self,
        values: Vec<T>,
        op: &impl Operator<T>,
    ) -> Result<Vec<T>, RankError> {
        let (me, size, at) = (u64::from(self.me()), u64::from(self.comm.size()), self.at);
        let (mut total, mut distance) = (values, 1_u64);
        while distance < size {
            if me + distance < size {
                let part = Part { key: distance, content: Content::copied(&total) };
                self.post((me + distance) as u32, vec![part]);
            }
            if let Some(from) = me.checked_sub(distance) {
                let lower = self.only(self.take(from as u32).await?)?.to_vec(at)?;
                total = combine(lower, &total, op, at)?;
            }
            distance *= 2;
        }
        Ok(total)
    }

    /// Reduces the values of the ranks before this one; rank 0 gets nothing.
    pub(super) async fn exscan<T: Element>(
        &self,
        values: Vec<T>,
        op: impl Operator<T>,
    ) -> Result<Option<Vec<T>>, RankError> {
        let total = self.scan(values, &op).await?;
        let me = self.me();
        if me + 1 < self.comm.size() {
            self.post(me + 1, vec![Part { key: 0, content: Content::owned(total) }]);
        }
        match me.checked_sub(1) {
            None => Ok(None),
            Some(before) => Ok(Some(self.only(self.take(before).await?)?.to_vec(self.at)?)),
        }
    }
}
