//! Sends, in MPI's modes.

use super::wait::outcome;
use crate::comm::Comm;
use crate::content::Content;
use crate::element::Element;
use crate::error::{CallSite, RankError};
use crate::local::slots::Outcome;
use crate::local::{Begun, SendMode};
use crate::request::{CommRequest, go_on};
use crate::selector::Destination;
use serde::Serialize;

/// # Sending
///
/// A send copies or moves its data, so the program may reuse its buffer at once. A message of up to
/// 64 KiB, or the size that [`EagerLimit`](crate::EagerLimit) sets, completes at once; a longer one
/// completes when a receive has matched it and its data have left. A program must not depend on
/// either behaviour, as with standard sends of MPI.
///
/// Each of these functions fails with [`RankError::NoSuchRank`] for a rank that does not exist,
/// with [`RankError::Revoked`] on a revoked communicator, and with [`RankError::PeerFailed`] if the
/// receiver has failed. A function that only begins a send returns a request. The request fails
/// with one of the last two errors if the communicator is revoked or the receiver fails later. Each
/// function does nothing for [`PROC_NULL`](crate::PROC_NULL).
impl Comm {
    /// Sends numbers.
    ///
    /// # Errors
    ///
    /// [`RankError::NoSuchRank`], [`RankError::Revoked`] and [`RankError::PeerFailed`].
    pub async fn send<T: Element>(
        &self,
        numbers: &[T],
        to: impl Into<Destination>,
        tag: u32,
    ) -> Result<(), RankError> {
        let begun =
            self.begin(SendMode::Standard, Content::copied(numbers), to.into(), tag, "send");
        self.complete(begun?).await
    }

    /// Sends numbers without copying them. On the same node [`recv`](Self::recv) returns the vector
    /// itself, with its capacity; a receive into a buffer copies the numbers once.
    ///
    /// # Errors
    ///
    /// [`RankError::NoSuchRank`], [`RankError::Revoked`] and [`RankError::PeerFailed`].
    pub async fn send_vec<T: Element>(
        &self,
        numbers: Vec<T>,
        to: impl Into<Destination>,
        tag: u32,
    ) -> Result<(), RankError> {
        let content = Content::owned(numbers);
        let begun = self.begin(SendMode::Standard, content, to.into(), tag, "send_vec")?;
        self.complete(begun).await
    }

    /// Sends a value, encoded with `serde`. The receiver names the same type.
    ///
    /// ```
    /// use gridspan::ranks;
    ///
    /// let job = ranks::run(2, async |world| {
    ///     if world.rank() == 0 {
    ///         world.send_value(&("pi".to_owned(), 3.14), 1, 0).await?;
    ///     } else {
    ///         let (value, _) = world.recv_value::<(String, f64)>(0, 0).await?;
    ///         assert_eq!(value.0, "pi");
    ///     }
    ///     Ok(())
    /// });
    /// # gridspan::embed::Runner::on_threads(2).run(job).unwrap();
    /// ```
    ///
    /// # Errors
    ///
    /// [`RankError::NoSuchRank`], [`RankError::Revoked`], [`RankError::PeerFailed`], and
    /// [`RankError::Malformed`] for a value that does not serialise.
    pub async fn send_value<V: Serialize + 'static>(
        &self,
        value: &V,
        to: impl Into<Destination>,
        tag: u32,
    ) -> Result<(), RankError> {
        let content = Content::encoded(value, self.at("send_value"))?;
        let begun = self.begin(SendMode::Standard, content, to.into(), tag, "send_value")?;
        self.complete(begun).await
    }

    /// Sends numbers, and waits until a receive has matched them.
    ///
    /// # Errors
    ///
    /// [`RankError::NoSuchRank`], [`RankError::Revoked`] and [`RankError::PeerFailed`].
    pub async fn ssend<T: Element>(
        &self,
        numbers: &[T],
        to: impl Into<Destination>,
        tag: u32,
    ) -> Result<(), RankError> {
        let content = Content::copied(numbers);
        let begun = self.begin(SendMode::Synchronous, content, to.into(), tag, "ssend")?;
        self.complete(begun).await
    }

    /// Sends numbers to a receive that has been posted. MPI leaves open what happens if it has not;
    /// here it is a [`send`](Self::send).
    ///
    /// # Errors
    ///
    /// [`RankError::NoSuchRank`], [`RankError::Revoked`] and [`RankError::PeerFailed`].
    pub async fn rsend<T: Element>(
        &self,
        numbers: &[T],
        to: impl Into<Destination>,
        tag: u32,
    ) -> Result<(), RankError> {
        let content = Content::copied(numbers);
        let begun = self.begin(SendMode::Standard, content, to.into(), tag, "rsend")?;
        self.complete(begun).await
    }

    /// Begins a [`send`](Self::send).
    ///
    /// # Errors
    ///
    /// [`RankError::NoSuchRank`], [`RankError::Revoked`] and [`RankError::PeerFailed`].
    pub fn isend<T: Element>(
        &self,
        numbers: &[T],
        to: impl Into<Destination>,
        tag: u32,
    ) -> Result<CommRequest<'static, ()>, RankError> {
        self.immediate(SendMode::Standard, Content::copied(numbers), to.into(), tag, "isend")
    }

    /// Begins a [`send_vec`](Self::send_vec).
    ///
    /// # Errors
    ///
    /// [`RankError::NoSuchRank`], [`RankError::Revoked`] and [`RankError::PeerFailed`].
    pub fn isend_vec<T: Element>(
        &self,
        numbers: Vec<T>,
        to: impl Into<Destination>,
        tag: u32,
    ) -> Result<CommRequest<'static, ()>, RankError> {
        self.immediate(SendMode::Standard, Content::owned(numbers), to.into(), tag, "isend_vec")
    }

    /// Begins a [`send_value`](Self::send_value).
    ///
    /// # Errors
    ///
    /// [`RankError::NoSuchRank`], [`RankError::Revoked`], [`RankError::PeerFailed`], and
    /// [`RankError::Malformed`] for a value that does not serialise.
    pub fn isend_value<V: Serialize + 'static>(
        &self,
        value: &V,
        to: impl Into<Destination>,
        tag: u32,
    ) -> Result<CommRequest<'static, ()>, RankError> {
        let content = Content::encoded(value, self.at("isend_value"))?;
        self.immediate(SendMode::Standard, content, to.into(), tag, "isend_value")
    }

    /// Begins an [`ssend`](Self::ssend).
    ///
    /// # Errors
    ///
    /// [`RankError::NoSuchRank`], [`RankError::Revoked`] and [`RankError::PeerFailed`].
    pub fn issend<T: Element>(
        &self,
        numbers: &[T],
        to: impl Into<Destination>,
        tag: u32,
    ) -> Result<CommRequest<'static, ()>, RankError> {
        self.immediate(SendMode::Synchronous, Content::copied(numbers), to.into(), tag, "issend")
    }

    /// Begins an [`rsend`](Self::rsend).
    ///
    /// # Errors
    ///
    /// [`RankError::NoSuchRank`], [`RankError::Revoked`] and [`RankError::PeerFailed`].
    pub fn irsend<T: Element>(
        &self,
        numbers: &[T],
        to: impl Into<Destination>,
        tag: u32,
    ) -> Result<CommRequest<'static, ()>, RankError> {
        self.immediate(SendMode::Standard, Content::copied(numbers), to.into(), tag, "irsend")
    }

    /// Begins a send. Also returns whether the rank yields to the PE even if the send is complete.
    pub(super) fn begin(
        &self,
        mode: SendMode,
        content: Content,
        to: Destination,
        tag: u32,
        call: &'static str,
    ) -> Result<(Begun<()>, bool), RankError> {
        let at = self.sender(to, tag, call);
        let Some(to) = self.destination(to, at)? else { return Ok((Begun::Now(()), false)) };
        let pe_of = |rank| self.scope.places().of(rank).1;
        let is_near = pe_of(to) == pe_of(self.local.rank);
        self.local.with(|state| {
            state.note_sent(is_near);
            let begun = state.send(mode, to, self.label(tag), content, at)?;
            Ok((begun, state.gives_way_after_send()))
        })
    }

    /// Describes the send, for errors.
    pub(super) fn sender(&self, to: Destination, tag: u32, call: &'static str) -> CallSite {
        let peer = match to {
            Destination::Rank(rank) => Some(rank),
            Destination::Null => None,
        };
        self.at(call).with(peer, Some(tag))
    }

    /// Waits for the end of a send. If the send is already complete and `gives_way` is true, yields
    /// to the PE: otherwise the messages of a rank that only computes and sends would not leave.
    pub(super) async fn complete(
        &self,
        (begun, gives_way): (Begun<()>, bool),
    ) -> Result<(), RankError> {
        match begun {
            Begun::Now(()) if gives_way => go_on(&self.local).await,
            Begun::Now(()) => {}
            Begun::Later(ticket) => outcome(&self.local, ticket).await.completed()?,
        }
        Ok(())
    }

    pub(super) fn immediate(
        &self,
        mode: SendMode,
        content: Content,
        to: Destination,
        tag: u32,
        call: &'static str,
    ) -> Result<CommRequest<'static, ()>, RankError> {
        let at = self.sender(to, tag, call);
        let (begun, _) = self.begin(mode, content, to, tag, call)?;
        Ok(match begun {
            Begun::Now(()) => CommRequest::ended(&self.local, at, Ok(())),
            Begun::Later(ticket) => CommRequest::later(&self.local, at, ticket, Outcome::completed),
        })
    }
}
