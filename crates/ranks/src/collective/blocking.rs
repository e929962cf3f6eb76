//! Collective operations that a rank waits for.

use super::operation::Operation;
use crate::comm::Comm;
use crate::content::Content;
use crate::element::Element;
use crate::error::RankError;
use crate::ops::Operator;
use crate::typed_block::TypedBlock;
use serde::Serialize;
use serde::de::DeserializeOwned;

/// # Collective operations
///
/// All ranks of the communicator call the same operations in the same order, with the same root
/// and operator, and with data of equal types and, unless stated otherwise, equal lengths. They
/// fail with [`RankError::TypeMismatch`] or [`RankError::WrongLength`] where a rank notices that
/// others have given something else, and with [`RankError::NoSuchRank`] for a root that does not
/// exist.
///
/// In most operations only one rank of each site, its leader, communicates with other sites. An
/// operation whose result all ranks get takes one crossing of the wide area. So does
/// [`reduce_scatter`](Self::reduce_scatter), in which one rank of each PE communicates with other
/// sites, so that each block crosses once from each site. A long [`allreduce`](Self::allreduce)
/// works in the same way where the latencies and bandwidths of the links make this faster. Over
/// slow uplinks of three or more sites it may cross twice, which sends less data. If all
/// ranks are at one site, [`allreduce`](Self::allreduce), [`allgather`](Self::allgather) and
/// [`barrier`](Self::barrier) have no leader: one rank of each PE exchanges data with those of the
/// other PEs, in the number of rounds that is fastest. In [`alltoall`](Self::alltoall),
/// [`scan`](Self::scan) and [`exscan`](Self::exscan), ranks send to each other directly. The order
/// in which values are combined depends only on the number of ranks: sums have the same bits
/// wherever the ranks live, and whichever algorithm an operation uses.
impl Comm {
    /// Waits until all ranks have come here.
    ///
    /// # Errors
    ///
    /// Only those of the messages that it sends and receives.
    pub async fn barrier(&self) -> Result<(), RankError> {
        let operation = Operation::new(self, "barrier");
        operation.complete(|| operation.barrier()).await
    }

    /// Sends the root's numbers to all ranks, into buffers of equal length.
    ///
    /// # Errors
    ///
    /// Those [of collective operations](Self#collective-operations).
    pub async fn bcast<T: Element>(&self, numbers: &mut [T], root: u32) -> Result<(), RankError> {
        let operation = Operation::rooted(self, "bcast", root)?;
        let content = (root == self.rank()).then(|| Content::copied(numbers));
        let content = operation.complete(|| operation.bcast(content, root)).await?;
        content.fill(numbers, operation.at)
    }

    /// Sends the root's value to all ranks. The root gives it, and others may give `None`.
    ///
    /// # Errors
    ///
    /// Those [of collective operations](Self#collective-operations), [`RankError::Malformed`], and
    /// [`RankError::NothingAtRoot`].
    pub async fn bcast_value<V>(&self, value: Option<V>, root: u32) -> Result<V, RankError>
    where
        V: Serialize + DeserializeOwned + Send + Sync + 'static,
    {
        let operation = Operation::rooted(self, "bcast_value", root)?;
        let at = operation.at;
        let content = match (&value, root == self.rank()) {
            (Some(value), true) => Some(Content::encoded(value, at)?),
            (None, true) => return Err(RankError::NothingAtRoot { at }),
            _ => None,
        };
        operation.complete(|| operation.bcast(content, root)).await?.decode(at)
    }

    /// Combines the numbers of all ranks, in their order, element by element. The root gets the
    /// result.
    ///
    /// # Errors
    ///
    /// Those [of collective operations](Self#collective-operations).
    pub async fn reduce<T: Element>(
        &self,
        numbers: &[T],
        op: impl Operator<T>,
        root: u32,
    ) -> Result<Option<Vec<T>>, RankError> {
        let operation = Operation::rooted(self, "reduce", root)?;
        operation.complete(|| operation.reduce(numbers.to_vec(), op, root)).await
    }

    /// Combines the numbers of all ranks, in their order, element by element. All get the result.
    ///
    /// # Errors
    ///
    /// Those [of collective operations](Self#collective-operations).
    pub async fn allreduce<T: Element>(
        &self,
        numbers: &[T],
        op: impl Operator<T>,
    ) -> Result<Vec<T>, RankError> {
        let operation = Operation::new(self, "allreduce");
        operation.complete(|| operation.allreduce(numbers.to_vec(), op)).await
    }

    /// Adds the numbers of all ranks, element by element, without rounding before the end. The root
    /// gets the result, whose bits depend neither on the number of ranks nor on the order of the
    /// numbers. See [`allreduce_exact`](Self::allreduce_exact) for its cost.
    ///
    /// # Errors
    ///
    /// Those [of collective operations](Self#collective-operations).
    pub async fn reduce_exact(
        &self,
        numbers: &[f64],
        root: u32,
    ) -> Result<Option<Vec<f64>>, RankError> {
        let operation = Operation::rooted(self, "reduce_exact", root)?;
        operation.complete(|| operation.reduce_exact(numbers, root)).await
    }

    /// Adds the numbers of all ranks, element by element, without rounding before the end. All get
    /// the result, whose bits depend neither on the number of ranks nor on the order of the
    /// numbers. They depend on the division of the numbers if a rank gives a sum of several
    /// numbers: this sum is rounded, even if [`ExactSum`](gridspan_runtime::ExactSum) has computed
    /// it.
    ///
    /// In a message a sum takes nine bytes, and eight more for each of its parts. A part holds 53
    /// of the bits that the terms span, and a sum rarely has more than three parts. Adding two sums
    /// takes six additions for each pair of parts.
    ///
    /// ```
    /// use gridspan::ranks;
    ///
    /// let job = ranks::run(3, async |world| {
    ///     let mine = [1e100, 1.0, -1e100][world.rank() as usize];
    ///     assert_eq!(world.allreduce_exact(&[mine]).await?, [1.0]);
    ///     Ok(())
    /// });
    /// # gridspan::embed::Runner::on_threads(2).run(job).unwrap();
    /// ```
    ///
    /// # Errors
    ///
    /// Those [of collective operations](Self#collective-operations).
    pub async fn allreduce_exact(&self, numbers: &[f64]) -> Result<Vec<f64>, RankError> {
        let operation = Operation::new(self, "allreduce_exact");
        operation.complete(|| operation.allreduce_exact(numbers)).await
    }

    /// Combines the numbers of all ranks, and gives the first `counts[0]` elements of the result to
    /// rank 0, the next `counts[1]` to rank 1, and so on. The operator must combine element by
    /// element, since blocks are combined separately. A PE sends other PEs at most about twice as
    /// many elements as one rank gives.
    ///
    /// # Errors
    ///
    /// Those [of collective operations](Self#collective-operations).
    pub async fn reduce_scatter<T: Element>(
        &self,
        numbers: &[T],
        counts: &[usize],
        op: impl Operator<T>,
    ) -> Result<Vec<T>, RankError> {
        let operation = Operation::new(self, "reduce_scatter");
        operation.complete(|| operation.reduce_scatter(numbers.to_vec(), counts, op)).await
    }

    /// Combines the numbers of the ranks up to this one.
    ///
    /// # Errors
    ///
    /// Those [of collective operations](Self#collective-operations).
    pub async fn scan<T: Element>(
        &self,
        numbers: &[T],
        op: impl Operator<T>,
    ) -> Result<Vec<T>, RankError> {
        let operation = Operation::new(self, "scan");
        operation.complete(|| operation.scan(numbers.to_vec(), &op)).await
    }

    /// Combines the numbers of the ranks before this one; `None` at rank 0.
    ///
    /// # Errors
    ///
    /// Those [of collective operations](Self#collective-operations).
    pub async fn exscan<T: Element>(
        &self,
        numbers: &[T],
        op: impl Operator<T>,
    ) -> Result<Option<Vec<T>>, RankError> {
        let operation = Operation::new(self, "exscan");
        operation.complete(|| operation.exscan(numbers.to_vec(), op)).await
    }

    /// Joins the numbers of all ranks, in their order, at the root.
    ///
    /// # Errors
    ///
    /// Those [of collective operations](Self#collective-operations).
    pub async fn gather<T: Element>(
        &self,
        numbers: &[T],
        root: u32,
    ) -> Result<Option<Vec<T>>, RankError> {
        let operation = Operation::rooted(self, "gather", root)?;
        let gathered = operation.complete(|| operation.gather(numbers.to_vec(), root)).await?;
        gathered.map(|blocks| operation.join(&blocks, numbers.len())).transpose()
    }

    /// Collects the numbers of all ranks, of any lengths, at the root.
    ///
    /// # Errors
    ///
    /// Those [of collective operations](Self#collective-operations).
    pub async fn gatherv<T: Element>(
        &self,
        numbers: &[T],
        root: u32,
    ) -> Result<Option<Vec<Vec<T>>>, RankError> {
        let operation = Operation::rooted(self, "gatherv", root)?;
        operation.complete(|| operation.gather(numbers.to_vec(), root)).await
    }

    /// Joins the numbers of all ranks, in their order, at all ranks.
    ///
    /// # Errors
    ///
    /// Those [of collective operations](Self#collective-operations).
    pub async fn allgather<T: Element>(&self, numbers: &[T]) -> Result<Vec<T>, RankError> {
        let operation = Operation::new(self, "allgather");
        operation.complete(|| operation.allgather_equal(numbers.to_vec())).await
    }

    /// Collects the numbers of all ranks, of any lengths, at all ranks.
    ///
    /// # Errors
    ///
    /// Those [of collective operations](Self#collective-operations).
    pub async fn allgatherv<T: Element>(&self, numbers: &[T]) -> Result<Vec<Vec<T>>, RankError> {
        let operation = Operation::new(self, "allgatherv");
        operation.complete(|| operation.allgatherv(numbers.to_vec())).await
    }

    /// Cuts the root's numbers into blocks of equal length, and gives each rank one. Other ranks
    /// may give an empty slice.
    ///
    /// # Errors
    ///
    /// Those [of collective operations](Self#collective-operations), and
    /// [`RankError::Indivisible`] at a root whose numbers do not divide among the ranks.
    pub async fn scatter<T: Element>(&self, numbers: &[T], root: u32) -> Result<Vec<T>, RankError> {
        let operation = Operation::rooted(self, "scatter", root)?;
        let blocks = match root == self.rank() {
            true => Some(operation.cut(numbers)?),
            false => None,
        };
        operation.complete(|| operation.scatter(blocks, root)).await
    }

    /// Gives each rank one of the root's blocks, which may have any lengths. Other ranks may give
    /// none.
    ///
    /// # Errors
    ///
    /// Those [of collective operations](Self#collective-operations).
    pub async fn scatterv<T: Element>(
        &self,
        blocks: &[Vec<T>],
        root: u32,
    ) -> Result<Vec<T>, RankError> {
        let operation = Operation::rooted(self, "scatterv", root)?;
        let blocks = (root == self.rank()).then(|| blocks.to_vec());
        operation.complete(|| operation.scatter(blocks, root)).await
    }

    /// Cuts the numbers of each rank into blocks of equal length, and gives block `i` to rank `i`.
    /// A rank gets the blocks in the order of their senders.
    ///
    /// # Errors
    ///
    /// Those [of collective operations](Self#collective-operations), and
    /// [`RankError::Indivisible`] if the numbers do not divide among the ranks.
    pub async fn alltoall<T: Element>(&self, numbers: &[T]) -> Result<Vec<T>, RankError> {
        let operation = Operation::new(self, "alltoall");
        let blocks = operation.cut(numbers)?;
        let blocks = operation.complete(|| operation.alltoall(blocks, true)).await?;
        operation.join(&blocks, numbers.len() / self.size() as usize)
    }

    /// Gives block `i` of each rank to rank `i`. Blocks may have any lengths.
    ///
    /// # Errors
    ///
    /// Those [of collective operations](Self#collective-operations).
    pub async fn alltoallv<T: Element>(
        &self,
        blocks: Vec<Vec<T>>,
    ) -> Result<Vec<Vec<T>>, RankError> {
        let operation = Operation::new(self, "alltoallv");
        operation.complete(|| operation.alltoall(blocks, true)).await
    }

    /// Gives block `i` of each rank to rank `i`. Blocks may have any types and lengths; see
    /// [`TypedBlock`] for an example.
    ///
    /// # Errors
    ///
    /// Those [of collective operations](Self#collective-operations), except
    /// [`RankError::TypeMismatch`]: a received block gives it when the receiver reads the block as
    /// another type.
    pub async fn alltoallw(&self, blocks: Vec<TypedBlock>) -> Result<Vec<TypedBlock>, RankError> {
        let operation = Operation::new(self, "alltoallw");
        operation.complete(|| operation.alltoallw(blocks, true)).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::local::Local;
    use crate::ops;
    use crate::places::Places;
    use crate::scope::World;
    use crate::site_links::SiteLinks;
    use gridspan_topology::GridSpec;
    use std::sync::Arc;

    /// A rank that waits in an operation keeps its future in memory.
    #[test]
    fn the_futures_of_operations_are_short() {
        let spec = GridSpec::from_emulate("1x3").unwrap();
        let places = Arc::new(Places::new(&[0, 1, 2], spec.layout(), SiteLinks::default()));
        let scope = Arc::new(World::of_job(3).scope(places));
        let world = Comm::world(Arc::new(Local::new(0)), scope);

        let (barrier, reduction) = (world.barrier(), world.allreduce(&[0.5], ops::sum));

        let bytes = [size_of_val(&barrier), size_of_val(&reduction)];
        assert!(bytes[0] <= 1000 && bytes[1] <= 2000, "{bytes:?}");
    }
}
