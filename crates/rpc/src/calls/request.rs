//! What a client asks of its session manager, and what that hears of others.

use super::catalogue::CallForm;
use super::directory::Offer;
use super::error::RpcError;
use super::server::Answer;
use super::sessions::{SessionId, Until, Waited};
use super::signature::Signature;
use crate::block::EncodedBlock;
use gridspan_runtime::{Numbers, Reply};
use serde::{Deserialize, Serialize};

/// What is to be called.
#[derive(Clone, Serialize, Deserialize)]
pub struct CallTarget {
    /// The function.
    pub function: String,
    /// Its arguments.
    pub arguments: EncodedBlock,
    /// How they are written.
    pub form: CallForm,
    /// What the function takes and gives for the caller, if the arguments do not say themselves
    /// what they are.
    pub signature: Option<Signature>,
    /// What the call needs on a server of speed 1, in seconds, if a formula says so.
    pub work_s: Option<f64>,
    /// The one server that may execute it; `None` if any may.
    pub bound: Option<u32>,
}

/// Who hears of a call.
#[derive(Clone, Copy, Serialize, Deserialize)]
pub enum Caller {
    /// Somebody who waits for the results.
    Results(Reply<Result<EncodedBlock, RpcError>>),
    /// Somebody who wants to know the session once the call is on its way.
    Session(Reply<Result<SessionId, RpcError>>),
}

/// What a session manager is told and asked.
#[derive(Clone, Serialize, Deserialize)]
pub enum SessionMessage {
    /// Make a call.
    Begin(CallTarget, Caller),
    /// The registry has answered; `None` if it did not.
    Found(SessionId, Option<Result<Vec<Offer>, RpcError>>),
    /// A server has answered an attempt; `None` if it did not.
    Answered(SessionId, u32, Option<Answer>),
    /// A further segment of the results of an attempt; `None` if it did not come.
    Segment(SessionId, u32, u32, Option<Numbers<u8>>),
    /// Has a session ended?
    Probe(SessionId, Reply<Result<(), RpcError>>),
    /// Which of these has ended?
    ProbeOr(Vec<SessionId>, Reply<Result<SessionId, RpcError>>),
    /// Answer when these have ended.
    Wait(Vec<SessionId>, Until, Reply<Waited>),
    /// Answer when all, or any, that were begun have ended.
    WaitOpen(Until, Reply<Waited>),
    /// A session is not wanted any more.
    Cancel(SessionId, Reply<Result<(), RpcError>>),
    /// None is wanted any more.
    CancelAll(Reply<()>),
    /// What is the result?
    Take(SessionId, Reply<Result<EncodedBlock, RpcError>>),
    /// What was called?
    Function(SessionId, Reply<Result<String, RpcError>>),
    /// Why did it fail?
    Error(SessionId, Reply<Result<Option<RpcError>, RpcError>>),
    /// Which failed?
    Failed(Reply<Option<SessionId>>),
    /// A session is of no use any more, nor its results; answered once no server has anything to do
    /// with it.
    GiveUp(SessionId, Reply<()>),
    /// A server has nothing to do any more with an attempt at a call that it did not answer.
    Released(SessionId, u32, Offer),
    /// The client is finalised, or was dropped.
    Close(Option<Reply<()>>),
}
