//! Calls from outside of a job, over QUIC with mutual TLS: servers and their registry, which every
//! program that has the registry's token may use.
//!
//! **For programs**
//! - [`serve`]: a process that serves the functions of a catalogue, or is a registry of servers.
//! - [`Remote`]: groups of typed functions, mapped as a whole to the servers of a registry.
//! - [`RemoteRpc`]: the verbs of GridRPC, for individual typed calls.
//! - [`Client`]: calls by name, in JSON. [`EmulatedRun`]: workflows with emulated computing.
//!
//! ```no_run
//! use gridspan_rpc_net::{Remote, Token};
//! use gridspan_rpc::calls::Function;
//! use gridspan_workflow::heuristics::HeftC;
//!
//! const SUM: Function<(Vec<u64>,), (u64,)> =
//!     Function::new("sum", |(v,), _| Ok((v.iter().sum(),)));
//!
//! # async fn sum() -> Result<(), Box<dyn std::error::Error>> {
//! let servers = Remote::new(Token::read("grid.token".as_ref())?)?;
//! let sum = servers
//!     .map(&HeftC::default(), async |group| {
//!         let (sum,) = group.call(&SUM, (group.value(&vec![1, 2, 3])?,));
//!         group.get(&sum).await
//!     })
//!     .await?;
//! assert_eq!(sum, 6);
//! # Ok(())
//! # }
//! ```
//!
//! | module | content |
//! | --- | --- |
//! | `wire` | tokens; requests and responses, with one stream each; transfers of data; the budget of waiting data |
//! | `client` | calls by name, the verbs of GridRPC, and groups; a client's knowledge of servers, its connections to them, and the platform for mappings |
//! | `registry` | the servers of a registry, the routes of calls to them, and the links between them |
//! | `server` | a process that serves, as a registry or as a member of one: admission of connections, the execution of calls and of tasks of groups, and probes of links |
//! | `execution` | the client's driver of the [dispatcher](gridspan_workflow::execution): sends orders over connections and checks the answers (`driver`, `validation`); workflows with emulated computing (`emulated_run`) |
//! | `lock` | mutexes that stay usable after a panic |
//!
//! **Start.** A daemon creates a certificate authority, which it discards at once, and certificates
//! for itself and for its callers. It writes those for callers, with its address, as a *token*: a
//! file that only its user can read. Anyone with the token may call, and join as a server.
//!
//! **Steady state.** A call by name gives the function's name and its arguments as text (JSON), so
//! that the caller needs no program that is compiled with the function. The daemon sends a call to
//! the server that would end it first, as the registry of a job does. If that server is lost,
//! refuses or is late, the call goes to the next. Therefore a function may be executed more than
//! once.
//!
//! A client of groups connects to the servers that the registry lists, sends orders to each, and
//! supplies its own data. Servers fetch other data from each other, or through the client where one
//! does not reach the other. Servers measure the links between them: by round trips, bursts of
//! bytes, and transfers.
//!
//! **Failure.** The registry removes a server when its connection ends or is silent for two
//! seconds. Other servers then execute its calls, and make its data of groups again. Servers that
//! lose their registry look for it at the same address until it is back. If the user has set the
//! path of the token, the registry keeps its certificates beside it, and the restarted registry
//! uses them again. Groups continue meanwhile, and a client that waits for a call looks for the
//! registry and sends the call again. Calls to a registry that is back, and clients of groups that
//! know no server yet, wait for its servers to come back. If a call is late or its caller is lost,
//! the registry withdraws it from the server, which completes a function in execution and starts
//! nothing else.
//!
//! **End.** A daemon that is stopped accepts no more calls, answers the open ones, and closes its
//! connections. A client that has sent a call meanwhile then looks for the next daemon.

mod client;
mod execution;
#[cfg(feature = "fuzzing")]
pub mod fuzzing;
mod lock;
mod registry;
mod server;
mod wire;

pub use client::by_name::Client;
pub use client::groups::Remote;
pub use client::verbs::RemoteRpc;
pub use execution::emulated_run::{EmulatedRun, EmulatedRunError};
pub use server::daemon::DaemonOptions;
pub use server::process::{Role, ServeOptions, serve};
pub use wire::messages::ListedServer;
pub use wire::token::{RemoteError, Token};
