//! GridRPC: calls of typed functions on servers, one by one.
//!
//! | part | is |
//! | --- | --- |
//! | `function`, `catalogue` | typed functions, and the set of them; `finite`: the check of results in JSON |
//! | `client` | the API for `main`: the verbs of the standard (GFD-R.P.052) as futures; `typed_calls`: the verbs that call a function; `forwarding`: calls by name; `waiting`: the verbs for sessions; `handle`: handles and sessions |
//! | `session_manager` | the actor beside `main` that keeps its sessions; `request`: its messages; `replies`: its handling of servers' answers; `sessions`: the states of sessions |
//! | `registry` | the actor that knows the servers and their functions; `directory`: its data |
//! | `server` | the actor that executes calls; `group_server`: its work for groups; `handover`: how it leaves |
//! | `services`, `departures` | start and end servers; `membership`: the record of those that started and left; `asking`: questions that end when their server is lost |
//! | `signature` | the types of functions, which calls and registrations carry |
//! | `error` | the standard's errors |
//!
//! **A call.** The session manager asks the registry for servers that offer the function, best
//! first, and sends the arguments to the first of them. The server queues calls and executes one
//! per turn, so that it receives cancellations between them. Its answer ends the session.
//!
//! **Types.** A typed call states the structure of its arguments and results on the wire, as each
//! server does for its functions. If the structures differ, the call fails without execution,
//! because bytes of one type may be readable as another.
//!
//! **Failure.** If a server refuses a call, has left, or does not answer in time, the session
//! manager asks the registry again and tries another server, unless the handle is bound. So a
//! function may be executed more than once, and only the first answer counts. A call that a late
//! server still holds counts as load of that server, and the registry prefers other servers until
//! the late one reports that it no longer holds the call. An error or a panic of the function is an
//! answer: the call is not retried.
//!
//! **Size.** Arguments and results larger than 32 MiB go in segments. The call carries the last
//! segment of the arguments, after all others. The answer carries the first segment of the results,
//! and the session manager requests the others.
//!
//! **Checkpoints.** All of these actors, their questions and the calls in their queues are part of
//! a checkpoint. Main is not an actor, so it stores references to its services, its clients and its
//! sessions. If a job continues on another number of PEs, servers keep their numbers and report
//! their sites to the registry. Clients and groups to which main stored no reference end.
//!
//! **End.** A client that is finalised or dropped cancels its calls. A server that leaves returns
//! the calls in its queue, and hands its data for groups to another server.

mod asking;
mod catalogue;
mod client;
mod config;
mod departures;
mod directory;
mod error;
mod finite;
mod forwarding;
mod function;
mod group_server;
mod handle;
mod handover;
mod membership;
mod registry;
mod replies;
mod request;
mod server;
mod services;
mod session_manager;
mod sessions;
mod signature;
mod typed_calls;
mod waiting;

pub use catalogue::{CallForm, Catalogue, Functions};
pub use client::{ClientRef, GridRpc};
pub use config::Config;
pub(crate) use directory::UNKNOWN_WORK_S;
pub use directory::{Offer, ServerCard, ServerDirectory, not_offered};
pub use error::{RpcError, UNKNOWN_CODE_TEXT, error_string};
pub(crate) use function::Volumes;
pub use function::{CostError, Function, Work};
pub use handle::{CallSession, Handle};
pub use registry::Registry;
pub use server::Server;
pub(crate) use server::ServerMessage;
pub use services::{ServerPlan, Services, ServicesRef};
pub use session_manager::SessionManager;
pub use sessions::{EndedWait, SessionId, Sessions, Until, Waited};
pub use signature::{SIGNATURE_BYTES_MAX, Signature};

use gridspan_runtime::Job;

/// Adds the actor types and the placement map that calls need to a job. The actors are part of
/// checkpoints, with the calls that are under way and the data of groups. A main that begins again
/// goes on with the [`Services`], clients and groups to which it stored references, and repeats the
/// calls that it has made since the progress point.
pub fn with_rpc<C: Catalogue>(job: Job) -> Job {
    let job = job.actor::<Registry>().kept_group::<Server<C>>().actor::<SessionManager<C>>();
    job.placement(services::BESIDE_MAIN)
}
