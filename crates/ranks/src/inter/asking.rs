//! Requests to the name server, and waiting for their answers.

use crate::collective::operation::Operation;
use crate::content::Content;
use crate::error::{CallSite, RankError};
use crate::local::Local;
use crate::local::slots::Outcome;
use crate::name_server::{PlacedRanks, ServerReply, ServerRequest};
use crate::p2p::wait::outcome;
use crate::refusal::RankRefusal;
use crate::ticket::Ticket;
use std::sync::Arc;

/// A request without an answer yet. If the rank stops waiting, it withdraws the request.
struct Asked<'a> {
    local: &'a Local,
    ticket: Ticket,
    is_answered: bool,
}

impl Drop for Asked<'_> {
    fn drop(&mut self) {
        if !self.is_answered {
            self.local.with(|state| state.withdraw_request(self.ticket));
        }
    }
}

/// Asks the name server, and waits for its answer.
async fn answer(local: &Arc<Local>, request: ServerRequest, at: CallSite) -> ServerReply {
    let ticket = local.with(|state| state.ask(request, at));
    let mut asked = Asked { local, ticket, is_answered: false };
    let outcome = outcome(local, ticket).await;
    asked.is_answered = true;
    match outcome {
        Outcome::Reply(reply) => reply,
        _ => ServerReply::Refused(RankRefusal::Dropped),
    }
}

fn granted(reply: ServerReply, at: CallSite) -> Result<ServerReply, RankError> {
    match reply {
        ServerReply::Refused(refusal) => Err(RankError::Refused { at, refusal }),
        reply => Ok(reply),
    }
}

/// Asks the name server, and waits for its answer. A refusal is an error.
pub(crate) async fn ask(
    local: &Arc<Local>,
    request: ServerRequest,
    at: CallSite,
) -> Result<ServerReply, RankError> {
    granted(answer(local, request, at).await, at)
}

/// Lets the root of an operation ask for another group. All ranks of the operation get that group
/// and the number of the communicator for messages to it, or the root's error.
pub(super) async fn ask_for_group(
    operation: &Operation,
    local: &Arc<Local>,
    root: u32,
    request: Option<Result<ServerRequest, RankRefusal>>,
) -> Result<(u32, PlacedRanks), RankError> {
    let at = operation.at;
    // Checked before the request: after it, the other group would be connected to ranks that never
    // learn of the connection.
    if let Some(error) = local.with(|state| operation.revocation(state)) {
        return Err(error);
    }
    let reply = match request {
        None => None,
        Some(Ok(request)) => Some(answer(local, request, at).await),
        Some(Err(refusal)) => Some(ServerReply::Refused(refusal)),
    };
    let content = reply.map(|reply| Content::encoded(&reply, at)).transpose()?;
    let shared = operation.complete(|| operation.bcast(content, root)).await?;
    let reply: ServerReply = shared.decode(at)?;
    match granted(reply, at)? {
        ServerReply::Linked { number, remote } => Ok((number, remote)),
        _ => Err(RankError::Cancelled { at }),
    }
}
