//! Probes: looking at messages before they are received.

use super::receive::received_by;
use super::wait::{message, status};
use crate::comm::Comm;
use crate::content::Content;
use crate::element::Element;
use crate::error::{CallSite, RankError};
use crate::local::turn::GivenWay;
use crate::local::{Local, Watcher};
use crate::matching::{Arrived, Pattern};
use crate::packet::Payload;
use crate::request::{go_on, has_unsent};
use crate::scope::Peers;
use crate::selector::{SourceSelector, Status, TagSelector};
use serde::de::DeserializeOwned;
use std::fmt;
use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;

/// A message that a probe has matched: only this handle can receive it.
///
/// If the handle is dropped, the message returns to its place in the order of arrival.
///
/// ```
/// use gridspan::ranks::{self, ANY_SOURCE, ANY_TAG, MatchedMessage};
///
/// let job = ranks::run(2, async |world| {
///     if world.rank() == 1 {
///         return world.send(&[1, 2, 3], 0, 0).await;
///     }
///     let message: MatchedMessage = world.mprobe(ANY_SOURCE, ANY_TAG).await?;
///     let mut numbers = vec![0; message.status().count::<i32>().unwrap_or(0)];
///     message.recv_into(&mut numbers).await?;
///     assert_eq!(numbers, [1, 2, 3]);
///     Ok(())
/// });
/// # gridspan::embed::Runner::on_threads(2).run(job).unwrap();
/// ```
#[must_use = "a matched message must be received"]
pub struct MatchedMessage {
    local: Arc<Local>,
    at: CallSite,
    status: Status,
    arrived: Option<Arrived<Payload>>,
}

impl fmt::Debug for MatchedMessage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "MatchedMessage({:?})", self.status)
    }
}

impl MatchedMessage {
    /// The sender, tag and length.
    pub fn status(&self) -> Status {
        self.status
    }

    async fn content(mut self) -> Result<(Content, CallSite), RankError> {
        let at = received_by(self.at, &self.status);
        let Some(arrived) = self.arrived.take() else { return Ok((Content::empty(), at)) };
        let begun = self.local.with(|state| state.accept(arrived, at));
        Ok((message(&self.local, begun, at).await?.0, at))
    }

    /// Receives the message as numbers.
    ///
    /// # Errors
    ///
    /// [`RankError::TypeMismatch`] and [`RankError::Revoked`].
    pub async fn recv<T: Element>(self) -> Result<Vec<T>, RankError> {
        if self.status == Status::NULL {
            return Ok(Vec::new());
        }
        let (content, at) = self.content().await?;
        content.into_vec(at)
    }

    /// Receives the message into the front of a buffer, and returns its number of elements.
    ///
    /// # Errors
    ///
    /// [`RankError::TypeMismatch`], [`RankError::Truncated`] and [`RankError::Revoked`].
    pub async fn recv_into<T: Element>(self, buffer: &mut [T]) -> Result<usize, RankError> {
        if self.status == Status::NULL {
            return Ok(0);
        }
        let (content, at) = self.content().await?;
        content.copy_to(buffer, at)
    }

    /// Receives the message as a value.
    ///
    /// # Errors
    ///
    /// [`RankError::TypeMismatch`], [`RankError::Malformed`] and [`RankError::Revoked`].
    pub async fn recv_value<V: DeserializeOwned + 'static>(self) -> Result<V, RankError> {
        let (content, at) = self.content().await?;
        content.decode(at)
    }
}

impl Drop for MatchedMessage {
    fn drop(&mut self) {
        if let Some(arrived) = self.arrived.take() {
            self.local.with(|state| state.give_back(arrived));
        }
    }
}

/// The registration of a probe that searches again after each unmatched message. Dropping it
/// removes the registration.
struct Watching<'a> {
    local: &'a Local,
    number: Option<u64>,
}

impl Drop for Watching<'_> {
    fn drop(&mut self) {
        if let Some(number) = self.number {
            self.local.with(|state| state.forget_watcher(number));
        }
    }
}

/// # Probing
impl Comm {
    /// Waits for a message, and returns its status. The next receive with the same source and tag
    /// gets the message.
    ///
    /// # Errors
    ///
    /// [`RankError::NoSuchRank`], [`RankError::Revoked`], and [`RankError::PeerFailed`] if no
    /// message is there and a rank that could send one has failed.
    pub async fn probe(
        &self,
        source: impl Into<SourceSelector>,
        tag: impl Into<TagSelector>,
    ) -> Result<Status, RankError> {
        let (probed, at) = self.probed(source.into(), tag.into(), "probe")?;
        Ok(match probed {
            Some((pattern, peers)) => {
                self.found((&pattern, &peers), at, |comm| comm.look(&pattern)).await?
            }
            None => Status::NULL,
        })
    }

    /// Returns the status of a message, if one has arrived. If none has, or if the rank has unsent
    /// messages, first yields to the PE once, which sends them and handles other messages.
    ///
    /// # Errors
    ///
    /// [`RankError::NoSuchRank`], [`RankError::Revoked`], and [`RankError::PeerFailed`] if no
    /// message is there and a rank that could send one has failed.
    pub async fn iprobe(
        &self,
        source: impl Into<SourceSelector>,
        tag: impl Into<TagSelector>,
    ) -> Result<Option<Status>, RankError> {
        let (probed, at) = self.probed(source.into(), tag.into(), "iprobe")?;
        let Some((pattern, peers)) = probed else { return Ok(Some(Status::NULL)) };
        if !has_unsent(&self.local)
            && let Some(status) = self.look(&pattern)
        {
            return Ok(Some(status));
        }
        go_on(&self.local).await;
        self.looked(self.look(&pattern), (&pattern, &peers), at)
    }

    /// Waits for a message, and takes it, so that only the returned handle can receive it.
    ///
    /// # Errors
    ///
    /// [`RankError::NoSuchRank`], [`RankError::Revoked`], and [`RankError::PeerFailed`] if no
    /// message is there and a rank that could send one has failed.
    pub async fn mprobe(
        &self,
        source: impl Into<SourceSelector>,
        tag: impl Into<TagSelector>,
    ) -> Result<MatchedMessage, RankError> {
        let (probed, at) = self.probed(source.into(), tag.into(), "mprobe")?;
        Ok(match probed {
            Some((pattern, peers)) => {
                self.found((&pattern, &peers), at, |comm| comm.matched(&pattern, at)).await?
            }
            None => self.matched_nothing(at),
        })
    }

    /// Takes a message, if one has arrived, so that only the returned handle can receive it. If
    /// none has, or if the rank has unsent messages, first yields to the PE once, which sends them
    /// and handles other messages.
    ///
    /// # Errors
    ///
    /// [`RankError::NoSuchRank`], [`RankError::Revoked`], and [`RankError::PeerFailed`] if no
    /// message is there and a rank that could send one has failed.
    pub async fn improbe(
        &self,
        source: impl Into<SourceSelector>,
        tag: impl Into<TagSelector>,
    ) -> Result<Option<MatchedMessage>, RankError> {
        let (probed, at) = self.probed(source.into(), tag.into(), "improbe")?;
        let Some((pattern, peers)) = probed else { return Ok(Some(self.matched_nothing(at))) };
        if !has_unsent(&self.local)
            && let Some(message) = self.matched(&pattern, at)
        {
            return Ok(Some(message));
        }
        go_on(&self.local).await;
        self.looked(self.matched(&pattern, at), (&pattern, &peers), at)
    }

    /// Returns what a probe searches for, or an error if the communicator was revoked.
    fn probed(
        &self,
        source: SourceSelector,
        tag: TagSelector,
        call: &'static str,
    ) -> Result<(Option<(Pattern, Peers)>, CallSite), RankError> {
        let (wanted, at) = self.wanted(source, tag, call)?;
        let revoked = self.local.with(|state| state.failures.revocation(self.number(), at));
        revoked.map_or(Ok((wanted, at)), Err)
    }

    fn look(&self, pattern: &Pattern) -> Option<Status> {
        self.local.with(|state| state.matcher.peek(pattern).map(status))
    }

    fn matched(&self, pattern: &Pattern, at: CallSite) -> Option<MatchedMessage> {
        let arrived = self.local.with(|state| state.matcher.take(pattern))?;
        let status = status(&arrived);
        Some(MatchedMessage { local: self.local.clone(), at, status, arrived: Some(arrived) })
    }

    fn matched_nothing(&self, at: CallSite) -> MatchedMessage {
        MatchedMessage { local: self.local.clone(), at, status: Status::NULL, arrived: None }
    }

    /// Searches again after each message that no receive has taken, until it finds something.
    async fn found<T>(
        &self,
        (pattern, peers): (&Pattern, &Peers),
        at: CallSite,
        find: impl Fn(&Self) -> Option<T>,
    ) -> Result<T, RankError> {
        let mut way = GivenWay::default();
        let mut watching = Watching { local: &self.local, number: None };
        poll_fn(|cx| {
            let gives_way = self.local.with(|state| {
                let is_here = state.has_unsent() && state.matcher.peek(pattern).is_some();
                is_here && way.gives(state, cx.waker())
            });
            if gives_way {
                return Poll::Pending;
            }
            if let Some(found) = find(self) {
                return Poll::Ready(Ok(found));
            }
            self.local.with(|state| match state.failures.of_receive(pattern, peers, at) {
                Some(error) => Poll::Ready(Err(error)),
                None => {
                    let (waker, peers) = (cx.waker().clone(), peers.clone());
                    let watcher = Watcher { waker, peers, at };
                    watching.number = Some(state.watch(watching.number, watcher));
                    Poll::Pending
                }
            })
        })
        .await
    }

    /// Returns what a search has found, or an error if no message can come.
    fn looked<T>(
        &self,
        found: Option<T>,
        (pattern, peers): (&Pattern, &Peers),
        at: CallSite,
    ) -> Result<Option<T>, RankError> {
        if found.is_some() {
            return Ok(found);
        }
        let error = self.local.with(|state| state.failures.of_receive(pattern, peers, at));
        error.map_or(Ok(None), Err)
    }
}
