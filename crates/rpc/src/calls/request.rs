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
use gridspan_runtime::{Numbers, Reply, TaggedAnswer};
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

/// The number that a client gives a wait for sessions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WaitNumber {
    /// The number.
    pub number: u64,
    /// All waits below this number have returned at the client, or were dropped there.
    pub ended_below: u64,
}

/// Messages to a session manager.
#[derive(Clone, Serialize, Deserialize)]
pub enum SessionMessage {
    /// Make a call.
    Begin(CallTarget, Caller),
    /// The registry's answer to the question of this number; `None` if it did not answer.
    Found(u64, Option<Result<Vec<Offer>, RpcError>>),
    /// A server's answer to an attempt; `None` if it did not answer.
    Answered(u64, Option<Answer>),
    /// A further segment of the results of an attempt; `None` if it did not arrive.
    Segment(u64, Option<Numbers<u8>>),
    /// Asks whether a session has ended.
    Probe(SessionId, Reply<Result<(), RpcError>>),
    /// Asks for one of these sessions that has ended.
    ProbeOr(Vec<SessionId>, Reply<Result<SessionId, RpcError>>),
    /// Asks for an answer when these sessions have ended.
    Wait(WaitNumber, Vec<SessionId>, Until, Reply<Waited>),
    /// Asks for an answer when all running sessions have ended.
    WaitAll(WaitNumber, Reply<Waited>),
    /// Asks for an answer when a session has ended that no wait has returned.
    WaitAny(WaitNumber, Reply<Waited>),
    /// The client has dropped the wait of this number.
    Withdraw(u64),
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
    Released(u64),
    /// The client is finalised, or was dropped.
    Close(Option<Reply<()>>),
    /// Make a call of a client whose span has this context.
    BeginTraced(TraceContext, CallTarget, Caller),
}

/// A question of a session manager to a registry or a server. It has a tag, so that a checkpoint
/// contains the question, and its answer arrives once.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(super) enum Asked {
    /// The registry, for servers for the call of a session.
    Servers(SessionId),
    /// A server, for the results of an attempt.
    Results(SessionId, u32),
    /// A server, for a further segment of the results of an attempt.
    Segment(SessionId, u32, u32),
    /// A server, to drop an attempt of a session's call.
    Release(SessionId, Offer),
}

/// Number of kinds of questions. A tag is the number of the question times this, plus the kind.
const KINDS: u64 = 4;

impl Asked {
    /// The tag of the question of this number.
    pub(super) fn tag(&self, number: u64) -> u64 {
        let kind = match self {
            Self::Servers(_) => 0,
            Self::Results(..) => 1,
            Self::Segment(..) => 2,
            Self::Release(..) => 3,
        };
        number * KINDS + kind
    }
}

impl SessionMessage {
    /// Converts the answer to a question into a message; the tag gives the kind of the question.
    pub(super) fn of_answer(answer: TaggedAnswer) -> Self {
        let number = answer.tag / KINDS;
        match answer.tag % KINDS {
            0 => Self::Found(number, answer.get().ok()),
            1 => Self::Answered(number, answer.get().ok()),
            2 => Self::Segment(number, answer.get::<Option<_>>().ok().flatten()),
            _ => Self::Released(number),
        }
    }
}
