//! Ranks that fail alone, and what the others do about it: the calls of ULFM (Bland and others,
//! 2013).

use crate::comm::Comm;
use crate::error::RankError;
use crate::group::MakerTurn;
use crate::inter::InterComm;
use crate::inter::asking::ask;
use crate::name_server::{AgreementRequest, ServerReply, ServerRequest};
use crate::packet::RankMessage;
use crate::runs::{self, Run};

/// Lets a rank fail alone: the job goes on if the program of a rank returns an error or panics, and
/// the operations of other ranks that need it fail with [`RankError::PeerFailed`].
///
/// A [resource](gridspan_runtime::Job::resource) of the job. Without it, the error of a rank ends
/// the job. With it, the job ends once all ranks have failed. A failed rank gives main no value, so
/// that main gets the values of the others, in order. It counts as ended for
/// [`notify_end`](Comm::notify_end), and does not come back at later migration points. A panic in
/// [`Rank::create`](crate::Rank::create) still ends the job.
///
/// The loss of a node is no failure of ranks: all ranks go on from the last checkpoint, and without
/// one the job begins again or ends. Agreements, the name server and the migration points count all
/// actors of the ranks, and the actor of rank 0 collects them; a job that went on without the
/// actors of a node would have to count and collect in another way.
///
/// ```
/// use gridspan::ranks::{self, Comm, ErrorsReturn, RankError, ops};
///
/// async fn sum(world: Comm) -> Result<u32, RankError> {
///     if world.rank() == 2 {
///         return Err("this rank fails".into());
///     }
///     let failed = world.allreduce(&[1_u32], ops::sum).await.unwrap_err();
///     assert!(matches!(failed, RankError::PeerFailed { rank: 2, .. }));
///     let left = world.shrink().await?;
///     Ok(left.allreduce(&[1_u32], ops::sum).await?[0])
/// }
///
/// let job = ranks::run_then(4, sum, |sums| {
///     assert_eq!(sums, [3, 3, 3]);
///     Ok(())
/// });
/// let job = job.resource(ErrorsReturn);
/// # gridspan::embed::Runner::on_threads(2).run(job).unwrap();
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ErrorsReturn;

/// The answer to an agreement.
struct Agreed {
    flags: u64,
    /// A number that no rank has used for a communicator.
    number: u32,
    survivors: Vec<Run>,
}

/// # Failures
///
/// For jobs with [`ErrorsReturn`]; in others no rank fails alone.
///
/// What a rank had sent before it failed can still be received. Each rank gets the notice of the
/// failure after these messages. From then on, operations with the failed rank fail:
///
/// - sends, also synchronous and long ones that wait already; receives and probes that find no
///   message; accesses to its windows. Its locks go to other ranks;
/// - receives and probes from any source that find no message, until the rank
///   [acknowledges](Self::acknowledge_failed) the failure;
/// - collective operations of a communicator to which the failed rank belongs, at each rank that
///   has to wait in one. A rank that need not wait may complete the operation. So let the ranks
///   [agree](Self::agree) on whether all of them have completed it.
///
/// [`agree`](Self::agree) and [`shrink`](Self::shrink) also work with failed ranks, and on revoked
/// communicators. All ranks of the communicator that have not failed call them, in the same order;
/// their futures must not be dropped. A rank that has returned without an error counts as alive, so
/// the others would wait for it. Rank 0 of the job collects the calls, also after its program has
/// failed: each call takes a message to it and an answer.
impl Comm {
    /// The failed ranks of this communicator that this rank knows of, in their order. Other ranks
    /// may know of more or fewer.
    pub fn failed(&self) -> Vec<u32> {
        self.local.with(|state| state.failures.of_scope(&self.scope))
    }

    /// Acknowledges the known failures of this communicator, so that receives from any source no
    /// longer fail because of them. Returns the failed ranks.
    ///
    /// ```
    /// use gridspan::ranks::{self, ANY_SOURCE, ErrorsReturn, RankError};
    ///
    /// let job = ranks::run(3, async |world| {
    ///     match world.rank() {
    ///         0 => {
    ///             // Rank 2 sends only once it knows that rank 0 has acknowledged the failure.
    ///             let failed = world.recv::<u32>(ANY_SOURCE, 0).await;
    ///             assert!(matches!(failed, Err(RankError::PeerFailed { rank: 1, .. })));
    ///             assert_eq!(world.acknowledge_failed(), [1]);
    ///             world.send(&[0_u32], 2, 1).await?;
    ///             assert_eq!(world.recv::<u32>(ANY_SOURCE, 0).await?.0, [7]);
    ///             Ok(())
    ///         }
    ///         1 => Err("this rank fails".into()),
    ///         _ => {
    ///             world.recv::<u32>(0, 1).await?;
    ///             world.send(&[7_u32], 0, 0).await
    ///         }
    ///     }
    /// });
    /// let job = job.resource(ErrorsReturn);
    /// # gridspan::embed::Runner::on_threads(2).run(job).unwrap();
    /// ```
    pub fn acknowledge_failed(&self) -> Vec<u32> {
        let number = self.number();
        self.local.with(|state| {
            state.failures.acknowledge(number, &self.scope);
            state.failures.of_scope(&self.scope)
        })
    }

    /// Revokes this communicator: all operations on it fail with [`RankError::Revoked`], at this
    /// rank from now on, and at each other rank once the notice has come. Operations that wait
    /// there fail, too, so no rank keeps waiting for one that has left an operation. The notice
    /// leaves when this rank next awaits. This is no collective operation: one rank calls it. The
    /// communicator stays revoked, the world also after migration points.
    ///
    /// Ranks that wait only for each other are in no deadlock while another rank of their
    /// communicator may still revoke it.
    ///
    /// ```
    /// use gridspan::ranks::{self, Comm, ErrorsReturn, RankError};
    ///
    /// let chain = async |world: Comm| {
    ///     let row = world.dup().await?;
    ///     let before = world.rank().checked_sub(1);
    ///     match before {
    ///         None => row.revoke()?,
    ///         // Rank 1 waits for rank 0, rank 2 for rank 1, and rank 3 for rank 2.
    ///         Some(before) => {
    ///             let failed = row.recv::<u8>(before, 0).await;
    ///             assert!(matches!(failed, Err(RankError::Revoked { .. })));
    ///         }
    ///     }
    ///     Ok(row.shrink().await?.size())
    /// };
    /// let job = ranks::run_then(4, chain, |sizes| {
    ///     assert_eq!(sizes, [4; 4]);
    ///     Ok(())
    /// });
    /// let job = job.resource(ErrorsReturn);
    /// # gridspan::embed::Runner::on_threads(2).run(job).unwrap();
    /// ```
    ///
    /// # Errors
    ///
    /// [`RankError::NeedsErrorsReturn`] in a job without [`ErrorsReturn`], whose deadlocks are
    /// reported as if no rank ever revoked a communicator. Nothing was revoked.
    pub fn revoke(&self) -> Result<(), RankError> {
        let (at, communicator) = (self.at("revoke"), self.number());
        let ranks: Vec<u32> = (0..self.size()).filter_map(|rank| self.world_rank(rank)).collect();
        self.local.with(|state| {
            if !state.interrupts.are_possible() {
                return Err(RankError::NeedsErrorsReturn { at });
            }
            if state.failures.is_revoked(communicator) {
                return Ok(());
            }
            let others = ranks.into_iter().filter(|rank| *rank != self.local.rank);
            let from = self.local.rank;
            others.for_each(|rank| state.put(rank, RankMessage::Revoked { communicator, from }));
            state.note_revoked(communicator);
            Ok(())
        })
    }

    /// Whether this rank knows that the communicator was [revoked](Self::revoke).
    pub fn is_revoked(&self) -> bool {
        self.local.with(|state| state.failures.is_revoked(self.number()))
    }

    /// Makes a communicator of the living ranks of this one, in their order. All of them get the
    /// same one. A rank that fails after they have agreed on it still belongs to it.
    ///
    /// # Errors
    ///
    /// Only those of the messages that it sends and receives.
    pub async fn shrink(&self) -> Result<Comm, RankError> {
        let (at, count) = (self.at("shrink"), self.next_agreement());
        let turn = MakerTurn::take(&self.local).await;
        let next = turn.next();
        let agreed = self.agreement(("shrink", count), u64::MAX, Some(next)).await?;
        turn.end(at, agreed.number, 1)?;
        let ranks = runs::ranks(&agreed.survivors).collect();
        self.part(ranks, agreed.number).ok_or(RankError::Cancelled { at })
    }

    /// Returns the bits that all living ranks of this communicator have set, the same at each of
    /// them. Ends once each rank has called it or has failed.
    ///
    /// Unlike `MPIX_Comm_agree`, it returns no error for failures that a rank has not
    /// acknowledged, and acknowledges none: let each rank set a bit if what it did was complete.
    ///
    /// ```
    /// use gridspan::ranks::{self, ErrorsReturn, ops};
    ///
    /// let job = ranks::run(4, async |world| {
    ///     if world.rank() == 3 {
    ///         return Err("this rank fails".into());
    ///     }
    ///     let is_complete = world.allreduce(&[1_u32], ops::sum).await.is_ok();
    ///     assert_eq!(world.agree(u64::from(is_complete)).await?, 0);
    ///     Ok(())
    /// });
    /// let job = job.resource(ErrorsReturn);
    /// # gridspan::embed::Runner::on_threads(2).run(job).unwrap();
    /// ```
    ///
    /// # Errors
    ///
    /// Only those of the messages that it sends and receives.
    pub async fn agree(&self, flags: u64) -> Result<u64, RankError> {
        Ok(self.agreement(("agree", self.next_agreement()), flags, None).await?.flags)
    }

    /// Numbers an agreement, which all ranks begin in the same order.
    fn next_agreement(&self) -> u64 {
        let number = self.number();
        self.local.with(|state| state.failures.next_agreement(number, &self.scope))
    }

    async fn agreement(
        &self,
        (call, count): (&'static str, u64),
        flags: u64,
        next_communicator: Option<u32>,
    ) -> Result<Agreed, RankError> {
        let at = self.at(call);
        let ranks: Vec<u32> = (0..self.size()).filter_map(|rank| self.world_rank(rank)).collect();
        let first = ranks.first().copied().unwrap_or_default();
        let members = runs::runs(ranks, usize::MAX).unwrap_or_default();
        let number = self.number();
        let request = AgreementRequest {
            key: (number, first, count, next_communicator.is_some()),
            members,
            flags,
            next_communicator: next_communicator.unwrap_or_default(),
        };
        match ask(&self.local, ServerRequest::Agree(request), at).await? {
            ServerReply::Agreed { flags, number, survivors } => {
                Ok(Agreed { flags, number, survivors })
            }
            _ => Err(RankError::Cancelled { at }),
        }
    }
}

/// # Failures
///
/// See [those of a communicator](Comm#failures).
impl InterComm {
    /// The failed ranks of the remote group that this rank knows of, in their order.
    pub fn failed(&self) -> Vec<u32> {
        self.remote().failed()
    }

    /// Acknowledges the known failures of the remote group, so that receives from any source no
    /// longer fail because of them. Returns the failed ranks.
    pub fn acknowledge_failed(&self) -> Vec<u32> {
        self.remote().acknowledge_failed()
    }
}
