//! Waits for operations that the program does not see as requests.

use crate::content::Content;
use crate::error::{CallSite, RankError};
use crate::local::slots::Outcome;
use crate::local::turn::GivenWay;
use crate::local::{Begun, Local, LocalState};
use crate::matching::{Arrived, Pattern};
use crate::packet::{Load, Payload};
use crate::scope::Peers;
use crate::selector::Status;
use crate::ticket::Ticket;
use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

/// An operation under way. Dropping it before its outcome was taken forgets the operation.
struct Waiting<'a> {
    local: &'a Arc<Local>,
    /// `None` before it has begun, and once its outcome was taken.
    ticket: Option<Ticket>,
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        if let Some(ticket) = self.ticket {
            self.local.with(|state| state.forget(ticket));
        }
    }
}

impl Waiting<'_> {
    /// Waits for the outcome, and until the messages that the rank sent before have left.
    async fn outcome(&mut self) -> Outcome {
        let Self { local, ticket } = self;
        let mut way = GivenWay::default();
        poll_fn(|cx| local.with(|state| poll_giving_way(state, ticket, &mut way, cx))).await
    }
}

/// Takes the outcome of an operation, which is then over, or keeps the waker.
fn poll_outcome(
    state: &mut LocalState,
    ticket: &mut Option<Ticket>,
    cx: &mut Context<'_>,
) -> Poll<Outcome> {
    let Some(waiting) = *ticket else { return Poll::Ready(Outcome::Cancelled) };
    let polled = state.slots.poll(waiting, cx);
    if polled.is_ready() {
        *ticket = None;
    }
    polled
}

/// Like [`poll_outcome`], but before it takes the outcome it yields to the PE once if the rank has
/// unsent messages.
fn poll_giving_way(
    state: &mut LocalState,
    ticket: &mut Option<Ticket>,
    way: &mut GivenWay,
    cx: &mut Context<'_>,
) -> Poll<Outcome> {
    let has_ended = state.has_unsent() && ticket.is_some_and(|ticket| state.slots.is_done(ticket));
    if has_ended && way.gives(state, cx.waker()) {
        return Poll::Pending;
    }
    poll_outcome(state, ticket, cx)
}

/// Waits for the end of an operation.
pub(crate) async fn outcome(local: &Arc<Local>, ticket: Ticket) -> Outcome {
    Waiting { local, ticket: Some(ticket) }.outcome().await
}

/// Waits until an operation has ended, and leaves the outcome. If the future is dropped, the
/// operation goes on. Several tasks may wait for one operation.
pub(crate) async fn until_ended(local: &Arc<Local>, ticket: Ticket) {
    let mut way = GivenWay::default();
    let mut shared = SharedWait { local, ticket, waker: None };
    poll_fn(|cx| {
        let is_known = shared.waker.is_some();
        local.with(|state| match state.slots.poll_shared(ticket, is_known, cx) {
            Poll::Ready(()) if way.gives(state, cx.waker()) => Poll::Pending,
            Poll::Ready(()) => {
                shared.waker = None;
                Poll::Ready(())
            }
            Poll::Pending => {
                shared.waker = Some(cx.waker().clone());
                Poll::Pending
            }
        })
    })
    .await;
}

/// A wait for an operation that continues without it. Dropping it removes its waker from the
/// operation.
struct SharedWait<'a> {
    local: &'a Arc<Local>,
    ticket: Ticket,
    /// The waker that the slot of the operation keeps.
    waker: Option<Waker>,
}

impl Drop for SharedWait<'_> {
    fn drop(&mut self) {
        if let Some(waker) = self.waker.take() {
            self.local.with(|state| state.slots.forget_waker(self.ticket, &waker));
        }
    }
}

/// Receives a message of one of `peers`, and waits for it. If the message is there, and the rank
/// has unsent messages, yields to the PE first.
pub(super) async fn receive(
    local: &Arc<Local>,
    pattern: Pattern,
    peers: Peers,
    at: CallSite,
) -> Result<(Content, Status), RankError> {
    let mut waiting = Waiting { local, ticket: None };
    let (mut not_begun, mut way) = (Some(peers), GivenWay::default());
    let ticket = &mut waiting.ticket;
    let received = poll_fn(|cx| {
        local.with(|state| {
            // Begins and keeps the waker under one lock, since each message takes this path.
            if let Some(peers) = not_begun.take() {
                match state.receive(pattern, peers, at) {
                    Begun::Later(later) => *ticket = Some(later),
                    Begun::Now(arrived) if state.has_unsent() => {
                        *ticket = Some(state.hold(arrived, at));
                    }
                    Begun::Now(arrived) => return Poll::Ready(Outcome::Message(arrived)),
                }
            }
            poll_giving_way(state, ticket, &mut way, cx)
        })
    });
    let outcome = received.await;
    of_outcome(outcome, at)
}

/// A receive under way, which keeps its message until it is asked for. If it is dropped, it leaves
/// its message to others.
pub(crate) struct Receiving<'a> {
    waiting: Waiting<'a>,
    at: CallSite,
}

impl<'a> Receiving<'a> {
    pub(crate) fn new(local: &'a Arc<Local>, begun: Begun<Arrived<Payload>>, at: CallSite) -> Self {
        let ticket = match begun {
            Begun::Now(arrived) => local.with(|state| state.hold(arrived, at)),
            Begun::Later(ticket) => ticket,
        };
        Self { waiting: Waiting { local, ticket: Some(ticket) }, at }
    }

    /// The operation, unless its outcome was taken.
    pub(super) fn ticket(&self) -> Option<Ticket> {
        self.waiting.ticket
    }

    /// Waits for the message.
    pub(crate) async fn message(mut self) -> Result<(Content, Status), RankError> {
        of_outcome(self.waiting.outcome().await, self.at)
    }
}

/// Waits for the message of a receive.
pub(crate) async fn message(
    local: &Arc<Local>,
    begun: Begun<Arrived<Payload>>,
    at: CallSite,
) -> Result<(Content, Status), RankError> {
    match begun {
        Begun::Now(_) if local.with(|state| state.has_unsent()) => {
            Receiving::new(local, begun, at).message().await
        }
        Begun::Now(arrived) => Ok(received(arrived)),
        Begun::Later(ticket) => of_outcome(outcome(local, ticket).await, at),
    }
}

/// The message of a receive that has ended.
pub(crate) fn of_outcome(outcome: Outcome, at: CallSite) -> Result<(Content, Status), RankError> {
    match outcome {
        Outcome::Message(arrived) => Ok(received(arrived)),
        Outcome::Failed(error) => Err(error),
        _ => Err(RankError::Cancelled { at }),
    }
}

/// A receive of a collective operation. It begins when it is first polled; dropping it forgets it.
pub(crate) struct CollectiveReceive<'a> {
    waiting: Waiting<'a>,
    has_begun: bool,
}

impl<'a> CollectiveReceive<'a> {
    pub(crate) fn new(local: &'a Arc<Local>) -> Self {
        Self { waiting: Waiting { local, ticket: None }, has_begun: false }
    }

    /// Polls the outcome. While there is none, returns the error that `fails` finds, if any. The
    /// first poll calls `begin`, which begins the receive.
    pub(crate) fn poll(
        &mut self,
        cx: &mut Context<'_>,
        begin: impl FnOnce(&mut LocalState) -> Begun<Arrived<Payload>>,
        fails: impl FnOnce(&LocalState) -> Option<RankError>,
    ) -> Poll<Result<Outcome, RankError>> {
        let Self { waiting: Waiting { local, ticket }, has_begun } = self;
        // One lock, since each message of a collective operation takes this path.
        local.with(|state| {
            if !std::mem::replace(has_begun, true) {
                match begin(state) {
                    Begun::Now(arrived) => return Poll::Ready(Ok(Outcome::Message(arrived))),
                    Begun::Later(later) => *ticket = Some(later),
                }
            }
            match poll_outcome(state, ticket, cx) {
                Poll::Ready(outcome) => Poll::Ready(Ok(outcome)),
                Poll::Pending => match fails(state) {
                    Some(error) => Poll::Ready(Err(error)),
                    None => Poll::Pending,
                },
            }
        })
    }
}

fn received(arrived: Arrived<Payload>) -> (Content, Status) {
    let status = status(&arrived);
    match arrived.message.load {
        Load::Whole { content, .. } => (content, status),
        // A receive of an offer ends only with its data, and parts belong to the contexts of
        // collective operations.
        _ => (Content::empty(), status),
    }
}

/// The status of a message, for a receive or a probe.
pub(crate) fn status(arrived: &Arrived<Payload>) -> Status {
    let (source, tag) = (Some(arrived.label.source), Some(arrived.label.tag));
    Status { source, tag, bytes: arrived.message.load.bytes() }
}
