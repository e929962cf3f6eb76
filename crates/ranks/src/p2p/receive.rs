//! Receives, and sends that are combined with them.

use super::wait::{Receiving, of_outcome, outcome, receive};
use crate::comm::Comm;
use crate::content::Content;
use crate::element::Element;
use crate::error::{CallSite, RankError};
use crate::local::joined_wait::JoinedWait;
use crate::local::{Begun, SendMode};
use crate::matching::{Arrived, Pattern};
use crate::packet::Payload;
use crate::request::CommRequest;
use crate::scope::Peers;
use crate::selector::{Destination, SourceSelector, Status, TagSelector};
use serde::de::DeserializeOwned;

/// A receive that has begun; `None` if its source is `PROC_NULL`.
type BegunReceive = Option<Begun<Arrived<Payload>>>;

/// # Receiving
///
/// A source is a rank, [`ANY_SOURCE`](crate::ANY_SOURCE) or [`PROC_NULL`](crate::PROC_NULL); a tag
/// is a number or [`ANY_TAG`](crate::ANY_TAG). Messages from one rank that match a receive are
/// received in the order in which they were sent. A receive whose future is dropped leaves its
/// message to other receives.
///
/// A receive fails with [`RankError::Revoked`] on a revoked communicator, and with
/// [`RankError::PeerFailed`] if no message is there and a rank that could send one has failed.
impl Comm {
    /// Receives numbers. A vector that a rank of the same node sent by
    /// [`send_vec`](Self::send_vec) is returned without a copy.
    ///
    /// # Errors
    ///
    /// [`RankError::NoSuchRank`], [`RankError::Revoked`], [`RankError::PeerFailed`], and
    /// [`RankError::TypeMismatch`] for a message of another type.
    pub async fn recv<T: Element>(
        &self,
        source: impl Into<SourceSelector>,
        tag: impl Into<TagSelector>,
    ) -> Result<(Vec<T>, Status), RankError> {
        let (wanted, at) = self.wanted(source.into(), tag.into(), "recv")?;
        let Some((pattern, peers)) = wanted else { return Ok((Vec::new(), Status::NULL)) };
        let (content, status) = receive(&self.local, pattern, peers, at).await?;
        Ok((content.into_vec(received_by(at, &status))?, status))
    }

    /// Receives numbers into the front of a buffer.
    ///
    /// # Errors
    ///
    /// [`RankError::NoSuchRank`], [`RankError::Revoked`], [`RankError::PeerFailed`],
    /// [`RankError::TypeMismatch`], and [`RankError::Truncated`] for a message that is longer than
    /// the buffer.
    pub async fn recv_into<T: Element>(
        &self,
        buffer: &mut [T],
        source: impl Into<SourceSelector>,
        tag: impl Into<TagSelector>,
    ) -> Result<Status, RankError> {
        let (wanted, at) = self.wanted(source.into(), tag.into(), "recv_into")?;
        let Some((pattern, peers)) = wanted else { return Ok(Status::NULL) };
        let (content, status) = receive(&self.local, pattern, peers, at).await?;
        content.copy_to(buffer, received_by(at, &status))?;
        Ok(status)
    }

    /// Receives a value that was sent as a value of the same type.
    ///
    /// # Errors
    ///
    /// [`RankError::NoSuchRank`], [`RankError::Revoked`], [`RankError::PeerFailed`],
    /// [`RankError::TypeMismatch`], [`RankError::Malformed`], and
    /// [`RankError::NoValueFromNull`] for [`PROC_NULL`](crate::PROC_NULL), which sends no value.
    pub async fn recv_value<V: DeserializeOwned + 'static>(
        &self,
        source: impl Into<SourceSelector>,
        tag: impl Into<TagSelector>,
    ) -> Result<(V, Status), RankError> {
        let (wanted, at) = self.wanted(source.into(), tag.into(), "recv_value")?;
        let Some((pattern, peers)) = wanted else { return Err(RankError::NoValueFromNull { at }) };
        let (content, status) = receive(&self.local, pattern, peers, at).await?;
        Ok((content.decode(received_by(at, &status))?, status))
    }

    /// Begins a [`recv`](Self::recv).
    ///
    /// # Errors
    ///
    /// [`RankError::NoSuchRank`]; the request gives the others.
    pub fn irecv<T: Element>(
        &self,
        source: impl Into<SourceSelector>,
        tag: impl Into<TagSelector>,
    ) -> Result<CommRequest<'static, (Vec<T>, Status)>, RankError> {
        let finish = |(content, status): (Content, Status), at| Ok((content.into_vec(at)?, status));
        let null = || Ok((Vec::new(), Status::NULL));
        self.immediate_recv(source.into(), tag.into(), "irecv", finish, null)
    }

    /// Begins a [`recv_into`](Self::recv_into). The buffer is filled when the request is completed.
    ///
    /// # Errors
    ///
    /// [`RankError::NoSuchRank`]; the request gives the others.
    pub fn irecv_into<'a, T: Element>(
        &self,
        buffer: &'a mut [T],
        source: impl Into<SourceSelector>,
        tag: impl Into<TagSelector>,
    ) -> Result<CommRequest<'a, Status>, RankError> {
        let finish = |(content, status): (Content, Status), at| {
            content.copy_to(buffer, at)?;
            Ok(status)
        };
        let null = || Ok(Status::NULL);
        self.immediate_recv(source.into(), tag.into(), "irecv_into", finish, null)
    }

    /// Begins a [`recv_value`](Self::recv_value).
    ///
    /// # Errors
    ///
    /// [`RankError::NoSuchRank`]; the request gives the others.
    pub fn irecv_value<V: DeserializeOwned + 'static>(
        &self,
        source: impl Into<SourceSelector>,
        tag: impl Into<TagSelector>,
    ) -> Result<CommRequest<'static, (V, Status)>, RankError> {
        let finish = |(content, status): (Content, Status), at| Ok((content.decode(at)?, status));
        let null = || Err(RankError::NoValueFromNull { at: self.at("irecv_value") });
        self.immediate_recv(source.into(), tag.into(), "irecv_value", finish, null)
    }

    /// Sends numbers to one rank and receives from another, in whatever order they are ready. If
    /// the future is dropped, the send completes by itself, and the message stays for the next
    /// receive.
    ///
    /// ```
    /// use gridspan::ranks;
    ///
    /// // Each rank passes its number to the right.
    /// let job = ranks::run(5, async |world| {
    ///     let (me, size) = (world.rank(), world.size());
    ///     let (right, left) = ((me + 1) % size, (me + size - 1) % size);
    ///     let mut number = [me];
    ///     world.sendrecv(&[me], right, 0, &mut number, left, 0).await?;
    ///     assert_eq!(number, [left]);
    ///     Ok(())
    /// });
    /// # gridspan::embed::Runner::on_threads(2).run(job).unwrap();
    /// ```
    ///
    /// # Errors
    ///
    /// Those of [`send`](Self::send) and [`recv_into`](Self::recv_into).
    pub async fn sendrecv<T: Element, U: Element>(
        &self,
        numbers: &[T],
        to: impl Into<Destination>,
        send_tag: u32,
        buffer: &mut [U],
        source: impl Into<SourceSelector>,
        recv_tag: impl Into<TagSelector>,
    ) -> Result<Status, RankError> {
        let (call, to) = ("sendrecv", to.into());
        self.destination(to, self.sender(to, send_tag, call))?;
        let (receiving, at) = self.begin_recv(source.into(), recv_tag.into(), call)?;
        // `Receiving` keeps a message that arrives before the send has ended.
        let receiving = receiving.map(|begun| Receiving::new(&self.local, begun, at));
        let sending =
            self.begin(SendMode::Standard, Content::copied(numbers), to, send_tag, call)?;
        let Some(receiving) = receiving else {
            self.complete(sending).await?;
            return Ok(Status::NULL);
        };
        if let (Begun::Later(ticket), _) = sending {
            let both = receiving.ticket().into_iter().chain([ticket]).collect();
            let _both = JoinedWait::new(&self.local, both);
            outcome(&self.local, ticket).await.completed()?;
        }
        let (content, status) = receiving.message().await?;
        content.copy_to(buffer, received_by(at, &status))?;
        Ok(status)
    }

    /// Like [`sendrecv`](Self::sendrecv), with one buffer for both messages.
    ///
    /// # Errors
    ///
    /// Those of [`sendrecv`](Self::sendrecv).
    pub async fn sendrecv_replace<T: Element>(
        &self,
        buffer: &mut [T],
        to: impl Into<Destination>,
        send_tag: u32,
        source: impl Into<SourceSelector>,
        recv_tag: impl Into<TagSelector>,
    ) -> Result<Status, RankError> {
        let numbers = buffer.to_vec();
        self.sendrecv(&numbers, to, send_tag, buffer, source, recv_tag).await
    }

    /// Begins a receive.
    fn begin_recv(
        &self,
        source: SourceSelector,
        tag: TagSelector,
        call: &'static str,
    ) -> Result<(BegunReceive, CallSite), RankError> {
        let (wanted, at) = self.wanted(source, tag, call)?;
        let begun = wanted
            .map(|(pattern, peers)| self.local.with(|state| state.receive(pattern, peers, at)));
        Ok((begun, at))
    }

    /// The messages that a receive or a probe accepts, and the ranks that can send them; `None` if
    /// the source is `PROC_NULL`.
    pub(super) fn wanted(
        &self,
        source: SourceSelector,
        tag: TagSelector,
        call: &'static str,
    ) -> Result<(Option<(Pattern, Peers)>, CallSite), RankError> {
        let at = self.receiver(source, tag, call);
        Ok((self.pattern(source, tag, at)?, at))
    }

    /// Describes the receive, for errors.
    pub(super) fn receiver(
        &self,
        source: SourceSelector,
        tag: TagSelector,
        call: &'static str,
    ) -> CallSite {
        let peer = match source {
            SourceSelector::Rank(rank) => Some(rank),
            _ => None,
        };
        let tag = match tag {
            TagSelector::Tag(tag) => Some(tag),
            TagSelector::Any => None,
        };
        self.at(call).with(peer, tag)
    }

    fn immediate_recv<'a, T: 'a>(
        &self,
        source: SourceSelector,
        tag: TagSelector,
        call: &'static str,
        finish: impl FnOnce((Content, Status), CallSite) -> Result<T, RankError> + Send + 'a,
        null: impl FnOnce() -> Result<T, RankError>,
    ) -> Result<CommRequest<'a, T>, RankError> {
        let (receiving, at) = self.begin_recv(source, tag, call)?;
        let finish = move |outcome| {
            let received = of_outcome(outcome, at)?;
            let at = received_by(at, &received.1);
            finish(received, at)
        };
        Ok(match receiving {
            None => CommRequest::ended(&self.local, at, null()),
            Some(Begun::Later(ticket)) => CommRequest::later(&self.local, at, ticket, finish),
            Some(Begun::Now(arrived)) => {
                let ticket = self.local.with(|state| state.hold(arrived, at));
                CommRequest::later(&self.local, at, ticket, finish)
            }
        })
    }
}

/// The receive with the peer and the tag of the message that it got, for errors.
pub(super) fn received_by(at: CallSite, status: &Status) -> CallSite {
    at.with(status.source, status.tag)
}
