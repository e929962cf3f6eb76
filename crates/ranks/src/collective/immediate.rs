//! Collective operations that go on while the rank does other things.
//!
//! Each runs as a separate future, which the rank's actor polls beside the rank's code, so that it
//! makes progress whenever one of its messages arrives while the rank waits.

use super::operation::Operation;
use crate::comm::Comm;
use crate::content::Content;
use crate::element::Element;
use crate::error::RankError;
use crate::local::slots::{Outcome, Wait};
use crate::ops::Operator;
use crate::request::CommRequest;
use crate::typed_block::TypedBlock;

/// # Immediate collective operations
///
/// They begin at the call, in the order of calls, and the request gives the result. They own their
/// data and operators.
///
/// ```
/// use gridspan::ranks::{self, ops};
///
/// let job = ranks::run(4, async |world| {
///     let sum = world.iallreduce(vec![world.rank()], ops::sum);
///     let largest = world.iallreduce(vec![world.rank()], ops::max);
///     assert_eq!((largest.await?, sum.await?), (vec![3], vec![6]));
///     Ok(())
/// });
/// # gridspan::embed::Runner::on_threads(2).run(job).unwrap();
/// ```
impl Comm {
    /// Begins a [`barrier`](Self::barrier).
    pub fn ibarrier(&self) -> CommRequest<'static, ()> {
        self.in_background(Operation::new(self, "ibarrier"), |operation| async move {
            operation.barrier().await
        })
    }

    /// Begins a [`bcast`](Self::bcast), whose request gives the numbers.
    ///
    /// # Errors
    ///
    /// [`RankError::NoSuchRank`]; the request gives the other errors.
    pub fn ibcast<T: Element>(
        &self,
        numbers: Vec<T>,
        root: u32,
    ) -> Result<CommRequest<'static, Vec<T>>, RankError> {
        let operation = Operation::rooted(self, "ibcast", root)?;
        Ok(self.in_background(operation, |operation| async move {
            let (mut numbers, me) = (numbers, operation.me());
            let content = (root == me).then(|| Content::copied(&numbers));
            operation.bcast(content, root).await?.fill(&mut numbers, operation.at)?;
            Ok(numbers)
        }))
    }

    /// Begins a [`reduce`](Self::reduce).
    ///
    /// # Errors
    ///
    /// [`RankError::NoSuchRank`]; the request gives the other errors.
    pub fn ireduce<T: Element>(
        &self,
        numbers: Vec<T>,
        op: impl Operator<T> + 'static,
        root: u32,
    ) -> Result<CommRequest<'static, Option<Vec<T>>>, RankError> {
        let operation = Operation::rooted(self, "ireduce", root)?;
        Ok(self.in_background(operation, |operation| async move {
            operation.reduce(numbers, op, root).await
        }))
    }

    /// Begins an [`allreduce`](Self::allreduce).
    pub fn iallreduce<T: Element>(
        &self,
        numbers: Vec<T>,
        op: impl Operator<T> + 'static,
    ) -> CommRequest<'static, Vec<T>> {
        self.in_background(Operation::new(self, "iallreduce"), |operation| async move {
            operation.allreduce(numbers, op).await
        })
    }

    /// Begins a [`reduce_exact`](Self::reduce_exact).
    ///
    /// # Errors
    ///
    /// [`RankError::NoSuchRank`]; the request gives the other errors.
    pub fn ireduce_exact(
        &self,
        numbers: Vec<f64>,
        root: u32,
    ) -> Result<CommRequest<'static, Option<Vec<f64>>>, RankError> {
        let operation = Operation::rooted(self, "ireduce_exact", root)?;
        Ok(self.in_background(operation, |operation| async move {
            operation.reduce_exact(&numbers, root).await
        }))
    }

    /// Begins an [`allreduce_exact`](Self::allreduce_exact).
    pub fn iallreduce_exact(&self, numbers: Vec<f64>) -> CommRequest<'static, Vec<f64>> {
        self.in_background(Operation::new(self, "iallreduce_exact"), |operation| async move {
            operation.allreduce_exact(&numbers).await
        })
    }

    /// Begins a [`reduce_scatter`](Self::reduce_scatter).
    pub fn ireduce_scatter<T: Element>(
        &self,
        numbers: Vec<T>,
        counts: Vec<usize>,
        op: impl Operator<T> + 'static,
    ) -> CommRequest<'static, Vec<T>> {
        self.in_background(Operation::new(self, "ireduce_scatter"), |operation| async move {
            operation.reduce_scatter(numbers, &counts, op).await
        })
    }

    /// Begins a [`scan`](Self::scan).
    pub fn iscan<T: Element>(
        &self,
        numbers: Vec<T>,
        op: impl Operator<T> + 'static,
    ) -> CommRequest<'static, Vec<T>> {
        self.in_background(Operation::new(self, "iscan"), |operation| async move {
            operation.scan(numbers, &op).await
        })
    }

    /// Begins an [`exscan`](Self::exscan).
    pub fn iexscan<T: Element>(
        &self,
        numbers: Vec<T>,
        op: impl Operator<T> + 'static,
    ) -> CommRequest<'static, Option<Vec<T>>> {
        self.in_background(Operation::new(self, "iexscan"), |operation| async move {
            operation.exscan(numbers, op).await
        })
    }

    /// Begins a [`gather`](Self::gather).
    ///
    /// # Errors
    ///
    /// [`RankError::NoSuchRank`]; the request gives the other errors.
    pub fn igather<T: Element>(
        &self,
        numbers: Vec<T>,
        root: u32,
    ) -> Result<CommRequest<'static, Option<Vec<T>>>, RankError> {
        let operation = Operation::rooted(self, "igather", root)?;
        Ok(self.in_background(operation, |operation| async move {
            let expected = numbers.len();
            let gathered = operation.gather(numbers, root).await?;
            gathered.map(|blocks| operation.join(&blocks, expected)).transpose()
        }))
    }

    /// Begins a [`gatherv`](Self::gatherv).
    ///
    /// # Errors
    ///
    /// [`RankError::NoSuchRank`]; the request gives the other errors.
    pub fn igatherv<T: Element>(
        &self,
        numbers: Vec<T>,
        root: u32,
    ) -> Result<CommRequest<'static, Option<Vec<Vec<T>>>>, RankError> {
        let operation = Operation::rooted(self, "igatherv", root)?;
        Ok(self.in_background(operation, |operation| async move {
            operation.gather(numbers, root).await
        }))
    }

    /// Begins an [`allgather`](Self::allgather).
    pub fn iallgather<T: Element>(&self, numbers: Vec<T>) -> CommRequest<'static, Vec<T>> {
        self.in_background(Operation::new(self, "iallgather"), |operation| async move {
            operation.allgather_equal(numbers).await
        })
    }

    /// Begins an [`allgatherv`](Self::allgatherv).
    pub fn iallgatherv<T: Element>(&self, numbers: Vec<T>) -> CommRequest<'static, Vec<Vec<T>>> {
        self.in_background(Operation::new(self, "iallgatherv"), |operation| async move {
            operation.allgatherv(numbers).await
        })
    }

    /// Begins a [`scatter`](Self::scatter).
    ///
    /// # Errors
    ///
    /// [`RankError::NoSuchRank`], and [`RankError::Indivisible`] at a root whose numbers do not
    /// divide among the ranks; the request gives the other errors.
    pub fn iscatter<T: Element>(
        &self,
        numbers: &[T],
        root: u32,
    ) -> Result<CommRequest<'static, Vec<T>>, RankError> {
        let operation = Operation::rooted(self, "iscatter", root)?;
        let blocks = match root == self.rank() {
            true => Some(operation.cut(numbers)?),
            false => None,
        };
        Ok(self.in_background(operation, |operation| async move {
            operation.scatter(blocks, root).await
        }))
    }

    /// Begins a [`scatterv`](Self::scatterv).
    ///
    /// # Errors
    ///
    /// [`RankError::NoSuchRank`]; the request gives the other errors.
    pub fn iscatterv<T: Element>(
        &self,
        blocks: Vec<Vec<T>>,
        root: u32,
    ) -> Result<CommRequest<'static, Vec<T>>, RankError> {
        let operation = Operation::rooted(self, "iscatterv", root)?;
        Ok(self.in_background(operation, |operation| async move {
            operation.scatter(Some(blocks), root).await
        }))
    }

    /// Begins an [`alltoall`](Self::alltoall).
    ///
    /// # Errors
    ///
    /// [`RankError::Indivisible`] if the numbers do not divide among the ranks; the request gives
    /// the other errors.
    pub fn ialltoall<T: Element>(
        &self,
        numbers: &[T],
    ) -> Result<CommRequest<'static, Vec<T>>, RankError> {
        let operation = Operation::new(self, "ialltoall");
        let (blocks, expected) = (operation.cut(numbers)?, numbers.len() / self.size() as usize);
        Ok(self.in_background(operation, |operation| async move {
            let blocks = operation.alltoall(blocks, false).await?;
            operation.join(&blocks, expected)
        }))
    }

    /// Begins an [`alltoallv`](Self::alltoallv).
    pub fn ialltoallv<T: Element>(&self, blocks: Vec<Vec<T>>) -> CommRequest<'static, Vec<Vec<T>>> {
        self.in_background(Operation::new(self, "ialltoallv"), |operation| async move {
            operation.alltoall(blocks, false).await
        })
    }

    /// Begins an [`alltoallw`](Self::alltoallw).
    pub fn ialltoallw(&self, blocks: Vec<TypedBlock>) -> CommRequest<'static, Vec<TypedBlock>> {
        self.in_background(Operation::new(self, "ialltoallw"), |operation| async move {
            operation.alltoallw(blocks, false).await
        })
    }

    /// Lets the rank's actor run an operation.
    pub(crate) fn in_background<T: Send + 'static, U>(
        &self,
        operation: Operation,
        run: impl FnOnce(Operation) -> U,
    ) -> CommRequest<'static, T>
    where
        U: Future<Output = Result<T, RankError>> + Send + 'static,
    {
        let (at, local) = (operation.at, self.local.clone());
        let revoked = local.with(|state| operation.revocation(state));
        if let Some(error) = revoked {
            return CommRequest::ended(&local, at, Err(error));
        }
        let ended = run(operation);
        let ticket = self.local.with(|state| state.slots.add(at, Wait::Task));
        let task = async move {
            let result = Outcome::Value(Box::new(ended.await));
            let unwanted = local.with(|state| state.slots.end(ticket, result));
            drop(unwanted);
        };
        self.local.with(|state| {
            state.tasks.push(Box::pin(task));
            state.note_unsent();
        });
        CommRequest::later(&self.local, at, ticket, move |outcome| match outcome {
            Outcome::Value(result) => match result.downcast::<Result<T, RankError>>() {
                Ok(result) => *result,
                Err(_) => Err(RankError::Cancelled { at }),
            },
            _ => Err(RankError::Cancelled { at }),
        })
    }
}
