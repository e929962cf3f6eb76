//! Waiting for a receive that the program cannot see as a request.

use crate::content::Content;
use crate::error::{CallSite, RankError};
use crate::local::slots::Outcome;
use crate::local::{Begun, Local};
use crate::matching::Arrived;
use crate::packet::{Letter, Load, Part};
use crate::request::go_on;
use crate::selector::Status;
use crate::ticket::Ticket;
use std::future::poll_fn;
use std::sync::Arc;

/// An operation under way; if it is dropped, its operation is forgotten.
struct Waiting<'a> {
    local: &'a Arc<Local>,
    ticket: Ticket,
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.local.with(|state| state.forget(self.ticket));
    }
}

impl Waiting<'_> {
    async fn outcome(&self) -> Outcome {
        poll_fn(|cx| self.local.with(|state| state.slots.poll(self.ticket, cx))).await
    }
}

/// Waits for the end of an operation.
pub(crate) async fn outcome(local: &Arc<Local>, ticket: Ticket) -> Outcome {
    Waiting { local, ticket }.outcome().await
}

/// Waits for the message of a receive.
pub(crate) async fn message(
    local: &Arc<Local>,
    begun: Begun<Arrived<Letter>>,
    at: CallSite,
) -> Result<(Content, Status), RankError> {
    match begun {
        Begun::Now(arrived) if local.with(|state| state.gives_way_after_recv()) => {
            let ticket = local.with(|state| state.hold(arrived, at));
            let waiting = Waiting { local, ticket };
            go_on(local).await;
            of_outcome(waiting.outcome().await, at)
        }
        Begun::Now(arrived) => Ok(received(arrived)),
        Begun::Later(ticket) => of_outcome(outcome(local, ticket).await, at),
    }
}

/// The message of a receive that has ended.
pub(crate) fn of_outcome(outcome: Outcome, at: CallSite) -> Result<(Content, Status), RankError> {
    match outcome {
        Outcome::Message(arrived) => Ok(received(arrived)),
        _ => Err(RankError::Cancelled { at }),
    }
}

/// The parts of a message of a collective operation.
pub(crate) async fn parts(
    local: &Arc<Local>,
    begun: Begun<Arrived<Letter>>,
    at: CallSite,
) -> Result<Vec<Part>, RankError> {
    let arrived = match begun {
        Begun::Now(arrived) => arrived,
        Begun::Later(ticket) => match outcome(local, ticket).await {
            Outcome::Message(arrived) => arrived,
            _ => return Err(RankError::Cancelled { at }),
        },
    };
    match arrived.message.load {
        Load::Parts(parts) => Ok(parts),
        _ => Err(RankError::Cancelled { at }),
    }
}

fn received(arrived: Arrived<Letter>) -> (Content, Status) {
    let status = status(&arrived);
    match arrived.message.load {
        Load::Whole { content, .. } => (content, status),
        // Offers come with their data, and parts are of other contexts.
        _ => (Content::empty(), status),
    }
}

/// The status of a message, for a receive or a probe.
pub(crate) fn status(arrived: &Arrived<Letter>) -> Status {
    let (source, tag) = (Some(arrived.label.source), Some(arrived.label.tag));
    Status { source, tag, bytes: arrived.message.load.bytes() }
}
