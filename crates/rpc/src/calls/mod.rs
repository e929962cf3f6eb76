//! GridRPC: calls of typed functions on servers, one by one.
//!
//! | part | is |
//! | --- | --- |
//! | `function`, `catalogue` | typed functions, and which there are |
//! | `client` | what `main` calls: the verbs of the standard (GFD-R.P.052) as futures |
//! | `session_manager` | the actor beside `main` that keeps its sessions; `request`: what it is asked; `replies`: and what it hears of servers; `sessions`: their states |
//! | `registry` | the actor that knows servers and what they offer; `directory`: what it knows |
//! | `server` | the actor that executes calls; `group_server`: and what groups order; `handover`: and how it leaves |
//! | `services` | starts and ends them; `membership`: and knows what has become of them |
//! | `signature` | what functions take and give, which calls and registrations say |
//! | `error` | the standard's errors |
//!
//! **A call.** The session manager asks the registry for servers that offer the function, best
//! first, and sends the arguments to the first of them. The server puts calls in a queue and
//! executes one after the other, so that it hears of cancellations between them. Its answer ends
//! the session.
//!
//! **Types.** A typed call says what structure its arguments and results have on the wire, as each
//! server does of its functions. A server executes no call of another structure, for bytes of one
//! type can be read as another.
//!
//! **Failure.** A server that refuses, that has left, or that does not answer in time is passed
//! over for another, which the registry is asked for anew, unless the handle is bound to it. So a
//! function may be executed more than once, and only the first answer counts. What a late server
//! was sent counts as its load, and others go before it, until it says that it has nothing to do
//! with that any more. A function that returns an error or panics has answered: that is not tried
//! again.
//!
//! **Size.** Arguments and results beyond a frame go in segments: arguments before the call,
//! results as the client asks for them after the answer.
//!
//! **End.** A client that is finalised or dropped takes back what it has called. A server that
//! leaves gives back the calls that wait, and what it keeps for groups goes to another.

mod catalogue;
mod client;
mod config;
mod directory;
mod error;
mod function;
mod group_server;
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

pub use catalogue::{CallForm, Catalogue, Functions};
pub use client::{CallSession, GridRpc, Handle};
pub use config::Config;
pub use directory::{Offer, ServerCard, ServerDirectory, not_offered};
pub use error::{RpcError, UNKNOWN_CODE_TEXT, error_string};
pub(crate) use function::Volumes;
pub use function::{CostError, Function, Work};
pub use registry::Registry;
pub use server::Server;
pub(crate) use server::ServerMessage;
pub use services::{ServerPlan, Services};
pub use session_manager::SessionManager;
pub use sessions::{Over, SessionId, Sessions, Until, Waited};
pub use signature::{SIGNATURE_BYTES_MAX, Signature};

use gridspan_runtime::{Job, PeId};

/// Adds what calls need to a job: actor types, and a placement map.
pub fn with_rpc<C: Catalogue>(job: Job) -> Job {
    let job = job.actor::<Registry>().actor::<Server<C>>().actor::<SessionManager<C>>();
    job.placement(services::BESIDE_MAIN, |_, _| PeId(0))
}
