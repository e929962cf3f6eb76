//! Messages between two ranks of different groups.

use super::InterComm;
use crate::element::Element;
use crate::error::RankError;
use crate::p2p::MatchedMessage;
use crate::request::CommRequest;
use crate::selector::{Destination, SourceSelector, Status, TagSelector};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// # Messages
///
/// They are those of [`Comm`](crate::Comm), with the same rules and errors. Destinations and
/// sources are ranks of the remote group.
impl InterComm {
    /// Sends numbers; see [`Comm::send`](crate::Comm::send).
    ///
    /// # Errors
    ///
    /// [`RankError::NoSuchRank`].
    pub async fn send<T: Element>(
        &self,
        numbers: &[T],
        to: impl Into<Destination>,
        tag: u32,
    ) -> Result<(), RankError> {
        self.remote.send(numbers, to, tag).await
    }

    /// Sends numbers without copying them; see [`Comm::send_vec`](crate::Comm::send_vec).
    ///
    /// # Errors
    ///
    /// [`RankError::NoSuchRank`].
    pub async fn send_vec<T: Element>(
        &self,
        numbers: Vec<T>,
        to: impl Into<Destination>,
        tag: u32,
    ) -> Result<(), RankError> {
        self.remote.send_vec(numbers, to, tag).await
    }

    /// Sends a value; see [`Comm::send_value`](crate::Comm::send_value).
    ///
    /// # Errors
    ///
    /// [`RankError::NoSuchRank`], and [`RankError::Malformed`] for a value that does not serialise.
    pub async fn send_value<V: Serialize + 'static>(
        &self,
        value: &V,
        to: impl Into<Destination>,
        tag: u32,
    ) -> Result<(), RankError> {
        self.remote.send_value(value, to, tag).await
    }

    /// Sends numbers, and waits until a receive has matched them.
    ///
    /// # Errors
    ///
    /// [`RankError::NoSuchRank`].
    pub async fn ssend<T: Element>(
        &self,
        numbers: &[T],
        to: impl Into<Destination>,
        tag: u32,
    ) -> Result<(), RankError> {
        self.remote.ssend(numbers, to, tag).await
    }

    /// Begins a [`send`](Self::send).
    ///
    /// # Errors
    ///
    /// [`RankError::NoSuchRank`].
    pub fn isend<T: Element>(
        &self,
        numbers: &[T],
        to: impl Into<Destination>,
        tag: u32,
    ) -> Result<CommRequest<'static, ()>, RankError> {
        self.remote.isend(numbers, to, tag)
    }

    /// Begins a [`send_value`](Self::send_value).
    ///
    /// # Errors
    ///
    /// Those of [`send_value`](Self::send_value).
    pub fn isend_value<V: Serialize + 'static>(
        &self,
        value: &V,
        to: impl Into<Destination>,
        tag: u32,
    ) -> Result<CommRequest<'static, ()>, RankError> {
        self.remote.isend_value(value, to, tag)
    }

    /// Receives numbers; see [`Comm::recv`](crate::Comm::recv).
    ///
    /// # Errors
    ///
    /// [`RankError::NoSuchRank`], and [`RankError::TypeMismatch`].
    pub async fn recv<T: Element>(
        &self,
        source: impl Into<SourceSelector>,
        tag: impl Into<TagSelector>,
    ) -> Result<(Vec<T>, Status), RankError> {
        self.remote.recv(source, tag).await
    }

    /// Receives numbers into the front of a buffer; see
    /// [`Comm::recv_into`](crate::Comm::recv_into).
    ///
    /// # Errors
    ///
    /// [`RankError::NoSuchRank`], [`RankError::TypeMismatch`] and [`RankError::Truncated`].
    pub async fn recv_into<T: Element>(
        &self,
        buffer: &mut [T],
        source: impl Into<SourceSelector>,
        tag: impl Into<TagSelector>,
    ) -> Result<Status, RankError> {
        self.remote.recv_into(buffer, source, tag).await
    }

    /// Receives a value; see [`Comm::recv_value`](crate::Comm::recv_value).
    ///
    /// # Errors
    ///
    /// Those of [`Comm::recv_value`](crate::Comm::recv_value).
    pub async fn recv_value<V: DeserializeOwned + 'static>(
        &self,
        source: impl Into<SourceSelector>,
        tag: impl Into<TagSelector>,
    ) -> Result<(V, Status), RankError> {
        self.remote.recv_value(source, tag).await
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
        self.remote.irecv(source, tag)
    }

    /// Begins a [`recv_into`](Self::recv_into).
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
        self.remote.irecv_into(buffer, source, tag)
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
        self.remote.irecv_value(source, tag)
    }

    /// Waits for a message; see [`Comm::probe`](crate::Comm::probe).
    ///
    /// # Errors
    ///
    /// [`RankError::NoSuchRank`].
    pub async fn probe(
        &self,
        source: impl Into<SourceSelector>,
        tag: impl Into<TagSelector>,
    ) -> Result<Status, RankError> {
        self.remote.probe(source, tag).await
    }

    /// Returns the status of a message, if one has arrived; see
    /// [`Comm::iprobe`](crate::Comm::iprobe).
    ///
    /// # Errors
    ///
    /// [`RankError::NoSuchRank`].
    pub async fn iprobe(
        &self,
        source: impl Into<SourceSelector>,
        tag: impl Into<TagSelector>,
    ) -> Result<Option<Status>, RankError> {
        self.remote.iprobe(source, tag).await
    }

    /// Waits for a message, and takes it; see [`Comm::mprobe`](crate::Comm::mprobe).
    ///
    /// # Errors
    ///
    /// [`RankError::NoSuchRank`].
    pub async fn mprobe(
        &self,
        source: impl Into<SourceSelector>,
        tag: impl Into<TagSelector>,
    ) -> Result<MatchedMessage, RankError> {
        self.remote.mprobe(source, tag).await
    }

    /// Takes a message, if one has arrived; see [`Comm::improbe`](crate::Comm::improbe).
    ///
    /// # Errors
    ///
    /// [`RankError::NoSuchRank`].
    pub async fn improbe(
        &self,
        source: impl Into<SourceSelector>,
        tag: impl Into<TagSelector>,
    ) -> Result<Option<MatchedMessage>, RankError> {
        self.remote.improbe(source, tag).await
    }

    /// Begins to wait for the end of a rank; see [`Comm::notify_end`](crate::Comm::notify_end).
    ///
    /// # Errors
    ///
    /// [`RankError::NoSuchRank`].
    pub fn notify_end(&self, remote_rank: u32) -> Result<CommRequest<'static, ()>, RankError> {
        self.remote.notify_end(remote_rank)
    }
}
