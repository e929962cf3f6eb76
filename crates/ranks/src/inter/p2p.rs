//! Messages between two ranks of different groups.

use super::InterComm;
use crate::element::Element;
use crate::error::RankError;
use crate::p2p::MatchedMessage;
use crate::request::CommRequest;
use crate::selector::{Destination, SourceSelector, Status, TagSelector};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// Defines methods that call the method of the same name of the remote group's communicator. A
/// `send` also has a destination and a tag, and a `receive` a source and a tag; those that are
/// `async` wait for the end, and those that `begin` return a request.
macro_rules! of_remote {
    () => {};
    (
        $(#[$attribute:meta])*
        async send $name:ident[$($bounds:tt)*]($data:ident: $type:ty);
        $($rest:tt)*
    ) => {
        $(#[$attribute])*
        pub async fn $name<$($bounds)*>(
            &self,
            $data: $type,
            to: impl Into<Destination>,
            tag: u32,
        ) -> Result<(), RankError> {
            self.remote.$name($data, to, tag).await
        }

        of_remote! { $($rest)* }
    };
    (
        $(#[$attribute:meta])*
        begin send $name:ident[$($bounds:tt)*]($data:ident: $type:ty);
        $($rest:tt)*
    ) => {
        $(#[$attribute])*
        pub fn $name<$($bounds)*>(
            &self,
            $data: $type,
            to: impl Into<Destination>,
            tag: u32,
        ) -> Result<CommRequest<'static, ()>, RankError> {
            self.remote.$name($data, to, tag)
        }

        of_remote! { $($rest)* }
    };
    (
        $(#[$attribute:meta])*
        async receive $name:ident[$($bounds:tt)*]($($data:ident: $type:ty)?) -> $received:ty;
        $($rest:tt)*
    ) => {
        $(#[$attribute])*
        pub async fn $name<$($bounds)*>(
            &self,
            $($data: $type,)?
            source: impl Into<SourceSelector>,
            tag: impl Into<TagSelector>,
        ) -> Result<$received, RankError> {
            self.remote.$name($($data,)? source, tag).await
        }

        of_remote! { $($rest)* }
    };
    (
        $(#[$attribute:meta])*
        begin receive $name:ident[$($bounds:tt)*]($($data:ident: $type:ty)?) -> $request:ty;
        $($rest:tt)*
    ) => {
        $(#[$attribute])*
        pub fn $name<$($bounds)*>(
            &self,
            $($data: $type,)?
            source: impl Into<SourceSelector>,
            tag: impl Into<TagSelector>,
        ) -> Result<$request, RankError> {
            self.remote.$name($($data,)? source, tag)
        }

        of_remote! { $($rest)* }
    };
}

/// # Messages
///
/// These methods have the names, rules and errors of those of [`Comm`](crate::Comm). Destinations
/// and sources are ranks of the remote group.
impl InterComm {
    of_remote! {
        /// Sends numbers; see [`Comm::send`](crate::Comm::send).
        ///
        /// # Errors
        ///
        /// [`RankError::NoSuchRank`], [`RankError::Revoked`] and [`RankError::PeerFailed`].
        async send send[T: Element](numbers: &[T]);

        /// Sends numbers without copying them; see [`Comm::send_vec`](crate::Comm::send_vec).
        ///
        /// # Errors
        ///
        /// [`RankError::NoSuchRank`], [`RankError::Revoked`] and [`RankError::PeerFailed`].
        async send send_vec[T: Element](numbers: Vec<T>);

        /// Sends a value; see [`Comm::send_value`](crate::Comm::send_value).
        ///
        /// # Errors
        ///
        /// [`RankError::NoSuchRank`], [`RankError::Revoked`], [`RankError::PeerFailed`], and
        /// [`RankError::Malformed`] for a value that does not serialise.
        async send send_value[V: Serialize + 'static](value: &V);

        /// Sends numbers, and waits until a receive has matched them.
        ///
        /// # Errors
        ///
        /// [`RankError::NoSuchRank`], [`RankError::Revoked`] and [`RankError::PeerFailed`].
        async send ssend[T: Element](numbers: &[T]);

        /// Begins a [`send`](Self::send).
        ///
        /// # Errors
        ///
        /// [`RankError::NoSuchRank`], [`RankError::Revoked`] and [`RankError::PeerFailed`].
        begin send isend[T: Element](numbers: &[T]);

        /// Begins a [`send_value`](Self::send_value).
        ///
        /// # Errors
        ///
        /// Those of [`send_value`](Self::send_value).
        begin send isend_value[V: Serialize + 'static](value: &V);

        /// Receives numbers; see [`Comm::recv`](crate::Comm::recv).
        ///
        /// # Errors
        ///
        /// [`RankError::NoSuchRank`], [`RankError::Revoked`], [`RankError::PeerFailed`] and
        /// [`RankError::TypeMismatch`].
        async receive recv[T: Element]() -> (Vec<T>, Status);

        /// Receives numbers into the front of a buffer; see
        /// [`Comm::recv_into`](crate::Comm::recv_into).
        ///
        /// # Errors
        ///
        /// [`RankError::NoSuchRank`], [`RankError::Revoked`], [`RankError::PeerFailed`],
        /// [`RankError::TypeMismatch`] and [`RankError::Truncated`].
        async receive recv_into[T: Element](buffer: &mut [T]) -> Status;

        /// Receives a value; see [`Comm::recv_value`](crate::Comm::recv_value).
        ///
        /// # Errors
        ///
        /// Those of [`Comm::recv_value`](crate::Comm::recv_value).
        async receive recv_value[V: DeserializeOwned + 'static]() -> (V, Status);

        /// Begins a [`recv`](Self::recv).
        ///
        /// # Errors
        ///
        /// [`RankError::NoSuchRank`]; the request gives the other errors.
        begin receive irecv[T: Element]() -> CommRequest<'static, (Vec<T>, Status)>;

        /// Begins a [`recv_into`](Self::recv_into).
        ///
        /// # Errors
        ///
        /// [`RankError::NoSuchRank`]; the request gives the other errors.
        begin receive irecv_into['a, T: Element](buffer: &'a mut [T]) -> CommRequest<'a, Status>;

        /// Begins a [`recv_value`](Self::recv_value).
        ///
        /// # Errors
        ///
        /// [`RankError::NoSuchRank`]; the request gives the other errors.
        begin receive irecv_value[V: DeserializeOwned + 'static]()
            -> CommRequest<'static, (V, Status)>;

        /// Waits for a message; see [`Comm::probe`](crate::Comm::probe).
        ///
        /// # Errors
        ///
        /// [`RankError::NoSuchRank`], [`RankError::Revoked`] and [`RankError::PeerFailed`].
        async receive probe[]() -> Status;

        /// Returns the status of a message, if one has arrived; see
        /// [`Comm::iprobe`](crate::Comm::iprobe).
        ///
        /// # Errors
        ///
        /// [`RankError::NoSuchRank`], [`RankError::Revoked`] and [`RankError::PeerFailed`].
        async receive iprobe[]() -> Option<Status>;

        /// Waits for a message, and takes it; see [`Comm::mprobe`](crate::Comm::mprobe).
        ///
        /// # Errors
        ///
        /// [`RankError::NoSuchRank`], [`RankError::Revoked`] and [`RankError::PeerFailed`].
        async receive mprobe[]() -> MatchedMessage;

        /// Takes a message, if one has arrived; see [`Comm::improbe`](crate::Comm::improbe).
        ///
        /// # Errors
        ///
        /// [`RankError::NoSuchRank`], [`RankError::Revoked`] and [`RankError::PeerFailed`].
        async receive improbe[]() -> Option<MatchedMessage>;
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
