//! The messages that a session manager receives: from its client, from the registry and from
//! servers.

use super::catalogue::CallForm;
use super::directory::Offer;
use super::error::RpcError;
use super::server::Answer;
use super::sessions::{SessionId, Until, Waited};
use super::signature::Signature;
use crate::block::EncodedBlock;
use crate::trace::TraceContext;
use gridspan_runtime::{Numbers, Reply};
use serde::{Deserialize, Serialize};

/// A call to make.
#[derive(Clone, Serialize, Deserialize)]
pub struct CallTarget {
    /// The function.
    pub function: String,
    /// The arguments.
    pub arguments: EncodedBlock,
    /// Encoding of the arguments.
    pub form: CallForm,
    /// The caller's signature of the function; `None` if the arguments describe themselves.
    pub signature: Option<Signature>,
    /// Work of the call on a server of speed 1, in seconds, if a formula gives it.
    pub work_s: Option<f64>,
    /// The only server that may execute it; `None` if any may.
    pub bound: Option<u32>,
    /// The context of the client's span. Messages carry it beside the call, if there is one.
    #[serde(skip)]
    pub trace: Option<TraceContext>,
}

impl CallTarget {
    /// The message that begins the call.
    pub(super) fn begin(self, caller: Caller) -> SessionMessage {
        match self.trace {
            None => SessionMessage::Begin(self, caller),
            Some(context) => SessionMessage::BeginTraced(context, self, caller),
        }
    }
}

/// The receiver of a call's outcome.
#[derive(Clone, Copy, Serialize, Deserialize)]
pub enum Caller {
    /// A caller that waits for the results.
    Results(Reply<Result<EncodedBlock, RpcError>>),
    /// A caller that waits for the session, which it gets once the call is on its way.
    Session(Reply<Result<SessionId, RpcError>>),
}

/// Messages to a session manager.
#[derive(Clone, Serialize, Deserialize)]
pub enum SessionMessage {
    /// Make a call.
    Begin(CallTarget, Caller),
    /// The registry's answer; `None` if it did not answer.
    Found(SessionId, Option<Result<Vec<Offer>, RpcError>>),
    /// A server's answer to an attempt; `None` if it did not answer.
    Answered(SessionId, u32, Option<Answer>),
    /// A further segment of the results of an attempt; `None` if it did not arrive.
    Segment(SessionId, u32, u32, Option<Numbers<u8>>),
    /// Asks whether a session has ended.
    Probe(SessionId, Reply<Result<(), RpcError>>),
    /// Asks for one of these sessions that has ended.
    ProbeOr(Vec<SessionId>, Reply<Result<SessionId, RpcError>>),
    /// Asks for an answer when these sessions have ended.
    Wait(Vec<SessionId>, Until, Reply<Waited>),
    /// Asks for an answer when all running sessions have ended, or one that no wait has returned.
    WaitOpen(Until, Reply<Waited>),
    /// Cancel a session.
    Cancel(SessionId, Reply<Result<(), RpcError>>),
    /// Cancel all sessions.
    CancelAll(Reply<()>),
    /// Take the results of a session.
    Take(SessionId, Reply<Result<EncodedBlock, RpcError>>),
    /// Asks for the name of the function that a session calls.
    Function(SessionId, Reply<Result<String, RpcError>>),
    /// Asks for the error of a session.
    Error(SessionId, Reply<Result<Option<RpcError>, RpcError>>),
    /// Asks for the next failed session.
    Failed(Reply<Option<SessionId>>),
    /// Cancel a session and drop its results; answered once no server holds the call.
    GiveUp(SessionId, Reply<()>),
    /// A server no longer holds an attempt that it did not answer.
    Released(SessionId, u32, Offer),
    /// The client is finalised, or was dropped.
    Close(Option<Reply<()>>),
    /// Make a call of a client whose span has this context.
    BeginTraced(TraceContext, CallTarget, Caller),
}
