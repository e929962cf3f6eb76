//! Exchanges between the neighbours of a graph topology.

use super::NeighbourGraph;
use crate::collective::operation::Operation;
use crate::content::Content;
use crate::element::Element;
use crate::error::RankError;
use crate::packet::Part;
use crate::request::CommRequest;
use crate::typed_block::TypedBlock;

/// The data that a rank sends to its neighbours, and the ranks that send to it.
struct Sending {
    /// The receivers, and what each gets, in the order of sending.
    contents: Vec<(u32, Content)>,
    sources: Vec<u32>,
}

impl Operation {
    /// Sends to the neighbours, and opens what it receives from each source.
    async fn neighbour_exchange<R>(
        &self,
        sending: Sending,
        mut open: impl FnMut(u32, Content) -> Result<R, RankError>,
    ) -> Result<Vec<R>, RankError> {
        for (to, content) in sending.contents {
            self.post(to, vec![Part { key: 0, content }]);
        }
        let mut opened = Vec::with_capacity(sending.sources.len());
        for from in sending.sources {
            let content = self.only(self.take(from).await?)?;
            opened.push(open(from, content)?);
        }
        Ok(opened)
    }

    /// Exchanges numbers of one type.
    async fn neighbour_numbers<T: Element>(
        &self,
        sending: Sending,
    ) -> Result<Vec<Vec<T>>, RankError> {
        let at = self.at;
        self.neighbour_exchange(sending, |_, content: Content| content.into_vec(at)).await
    }

    /// Exchanges blocks of any types.
    async fn neighbour_blocks(&self, sending: Sending) -> Result<Vec<TypedBlock>, RankError> {
        let at = self.at;
        let open = |from: u32, content: Content| {
            Ok(TypedBlock::received(content, at.with(Some(from), None)))
        };
        self.neighbour_exchange(sending, open).await
    }
}

/// # Exchanges between neighbours
///
/// All ranks of the communicator call them, in the same order as other collective operations.
impl NeighbourGraph {
    /// Sends these numbers to all destinations. Returns those of each source, in the order of
    /// [`sources`](Self::sources).
    ///
    /// # Errors
    ///
    /// [`RankError::TypeMismatch`].
    pub async fn neighbour_allgatherv<T: Element>(
        &self,
        numbers: &[T],
    ) -> Result<Vec<Vec<T>>, RankError> {
        let content = Content::copied(numbers);
        let sending = self.sending(self.destinations().iter().map(|_| content.clone()));
        let operation = Operation::new(self, "neighbour_allgatherv");
        operation.complete(|| operation.neighbour_numbers(sending)).await
    }

    /// Sends a block to each destination, in the order of [`destinations`](Self::destinations).
    /// Returns the block of each source, in the order of [`sources`](Self::sources).
    ///
    /// # Errors
    ///
    /// [`RankError::WrongLength`] if there is not one block for each destination, and
    /// [`RankError::TypeMismatch`].
    pub async fn neighbour_alltoallv<T: Element>(
        &self,
        blocks: Vec<Vec<T>>,
    ) -> Result<Vec<Vec<T>>, RankError> {
        let operation = Operation::new(self, "neighbour_alltoallv");
        let sending = self.blocks(&operation, blocks.into_iter().map(Content::owned))?;
        operation.complete(|| operation.neighbour_numbers(sending)).await
    }

    /// Begins a [`neighbour_allgatherv`](Self::neighbour_allgatherv).
    pub fn ineighbour_allgatherv<T: Element>(
        &self,
        numbers: Vec<T>,
    ) -> CommRequest<'static, Vec<Vec<T>>> {
        let content = Content::owned(numbers);
        let sending = self.sending(self.destinations().iter().map(|_| content.clone()));
        self.in_background(Operation::new(self, "ineighbour_allgatherv"), |operation| async move {
            operation.neighbour_numbers(sending).await
        })
    }

    /// Begins a [`neighbour_alltoallv`](Self::neighbour_alltoallv).
    ///
    /// # Errors
    ///
    /// [`RankError::WrongLength`]; the request gives the other errors.
    pub fn ineighbour_alltoallv<T: Element>(
        &self,
        blocks: Vec<Vec<T>>,
    ) -> Result<CommRequest<'static, Vec<Vec<T>>>, RankError> {
        let operation = Operation::new(self, "ineighbour_alltoallv");
        let sending = self.blocks(&operation, blocks.into_iter().map(Content::owned))?;
        Ok(self.in_background(operation, |operation| async move {
            operation.neighbour_numbers(sending).await
        }))
    }

    /// Sends a block of any type to each destination, in the order of
    /// [`destinations`](Self::destinations). Returns the block of each source, in the order of
    /// [`sources`](Self::sources).
    ///
    /// # Errors
    ///
    /// [`RankError::WrongLength`] if there is not one block for each destination.
    pub async fn neighbour_alltoallw(
        &self,
        blocks: Vec<TypedBlock>,
    ) -> Result<Vec<TypedBlock>, RankError> {
        let operation = Operation::new(self, "neighbour_alltoallw");
        let sending = self.blocks(&operation, blocks.into_iter().map(TypedBlock::into_content))?;
        operation.complete(|| operation.neighbour_blocks(sending)).await
    }

    /// Begins a [`neighbour_alltoallw`](Self::neighbour_alltoallw).
    ///
    /// # Errors
    ///
    /// [`RankError::WrongLength`].
    pub fn ineighbour_alltoallw(
        &self,
        blocks: Vec<TypedBlock>,
    ) -> Result<CommRequest<'static, Vec<TypedBlock>>, RankError> {
        let operation = Operation::new(self, "ineighbour_alltoallw");
        let sending = self.blocks(&operation, blocks.into_iter().map(TypedBlock::into_content))?;
        Ok(self.in_background(operation, |operation| async move {
            operation.neighbour_blocks(sending).await
        }))
    }

    fn blocks(
        &self,
        operation: &Operation,
        contents: impl ExactSizeIterator<Item = Content>,
    ) -> Result<Sending, RankError> {
        let (found, expected) = (contents.len(), self.destinations().len());
        if found != expected {
            return Err(RankError::WrongLength { at: operation.at, found, expected });
        }
        Ok(self.sending(contents))
    }

    /// Brings contents, one for each destination, into the order of sending: those to other sites
    /// first, since the wide area takes longest.
    fn sending(&self, contents: impl Iterator<Item = Content>) -> Sending {
        let here = self.site(self.rank());
        let mut contents: Vec<_> = self.destinations().iter().copied().zip(contents).collect();
        contents.sort_by_key(|(to, _)| self.site(*to) == here);
        Sending { contents, sources: self.sources().to_vec() }
    }
}
