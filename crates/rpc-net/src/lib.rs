//! Calls from outside of a job: servers and their registry, which every program may use that has
//! the registry's token, over QUIC with mutual TLS.
//!
//! **For programs**
//! - [`serve`]: a process that serves the functions of a catalogue, or is the registry of those who
//!   do.
//! - [`Remote`]: groups of typed functions, mapped as a whole to the servers of a registry.
//! - [`RemoteRpc`]: the verbs of GridRPC, for typed calls one by one.
//! - [`Client`]: calls by name, in JSON. [`EmulatedRun`]: workflows whose computing is emulated.
//!
//! ```no_run
//! use gridspan_rpc_net::{Remote, Token};
//! use gridspan_rpc::calls::Function;
//! use gridspan_workflow::heuristics::HeftC;
//!
//! const SUM: Function<(Vec<u64>,), (u64,)> = Function::new("sum", |(v,), _| Ok((v.iter().sum(),)));
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
//! | folder | holds |
//! | --- | --- |
//! | `wire` | tokens; requests and responses, one stream for each; data by itself; how much of it may wait |
//! | `client` | calls by name, the verbs of GridRPC, and groups; what a client knows of servers, which of them it has reached, and the platform that a mapping sees |
//! | `registry` | the servers that a registry has, the routes by which calls reach them, and the links between them |
//! | `server` | a process that serves, as the registry or as a member of another one's: admission of connections, the execution of calls and of tasks of groups, and probes of links |
//! | `execution` | the client's driver of the [dispatcher](gridspan_workflow::execution): gives orders over connections and checks the answers (`driver`, `validation`); workflows whose computing is emulated (`emulated_run`) |
//!
//! **Start.** A daemon makes a certificate authority that is forgotten at once, certificates for
//! itself and for its callers, and writes the latter with its address as a *token*, a file that its
//! user alone can read. Whoever has the token may call, and join as a server.
//!
//! **Steady state.** Functions and arguments are named in text (JSON), so that a caller needs no
//! program of its own. The daemon sends a call to the server that would end it first, as the
//! registry of a job does, and to the next if that is lost, refuses or is late. So a function may
//! be executed more than once.
//!
//! A client of groups reaches the servers that the registry lists, sends orders to each, and has
//! the data that it gave them. Servers fetch the rest from each other, or have it by way of the
//! client where one does not reach the other. Links are as servers have measured them: round trips,
//! what a burst of bytes shows, and what transfers do.
//!
//! **Failure.** A server whose connection ends or is silent for two seconds is forgotten, and its
//! calls are made elsewhere; what it had of groups is made again by others. Servers whose registry
//! is gone look for it at the same address until it is back; the registry keeps its certificates
//! beside the token if that has a path of its own. Groups go on meanwhile, and whoever waits for a
//! call looks for the registry again and calls anew; calls to one that is back, and clients of
//! groups that know no server yet, wait for its servers to come. A call whose caller is gone, or
//! that was late, is taken back from its server, which ends what it executes of it and begins
//! nothing else.
//!
//! **End.** A daemon that is told to end takes no more calls, answers those it has, and says
//! good-bye.

mod client;
mod execution;
#[cfg(feature = "fuzzing")]
pub mod fuzzing;
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
