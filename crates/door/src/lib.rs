//! Calls from outside of a job: a door that whoever has its token may knock at, over QUIC with
//! mutual TLS.
//!
//! **For programs**
//! - [`serve`]: a process that serves the functions of a catalogue, or is the registry of those who
//!   do.
//! - [`Remote`]: groups of typed functions, mapped as a whole to the servers behind a door.
//! - [`RemoteRpc`]: the verbs of GridRPC, for typed calls one by one.
//! - [`Visitor`]: calls by name, in JSON. [`Party`]: workflows whose computing is emulated.
//!
//! ```no_run
//! use gridspan_door::{Remote, Token};
//! use gridspan_rpc::calls::Function;
//! use gridspan_rpc::heuristics::HeftC;
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
//! | part | is |
//! | --- | --- |
//! | `token` | where a door is, and the certificates by which both sides know each other |
//! | `wire`, `parts`, `stuff`, `budget` | what is asked and answered: one stream for each question; lists with a bound; data by itself; and how much of it may wait |
//! | `hall`, `way` | the servers behind a door: its own, and those that have joined; and how calls get to them |
//! | `daemon`, `guest`, `counted`, `questions` | opens the door, and answers; how much is being answered; and what comes over one connection |
//! | `entrance`, `connections` | admits connections, and decides which gives its place when there are too many |
//! | `bench`, `gate` | the servers of one process, and what they execute next |
//! | `workshop`, `shelf`, `groups`, `attend` | executes tasks of groups whose data goes from server to server |
//! | `member` | a server that joins the door of another |
//! | `survey`, `chart` | servers measure the ways between them, and the door knows what they saw |
//! | `serve` | a process that does either |
//! | `visitor`, `owner` | whoever calls, and whoever begins a group |
//! | `roster`, `membership`, `meeting` | what a client knows of servers; which it has reached; and how it does |
//! | `view` | what a mapping sees of the servers |
//! | `errand`, `conduct`, `plausible` | what servers are to do; has them do it; whether what they say can be |
//! | `course`, `relays`, `reasons` | how far a group is; what goes by way of the client; and why tasks were not executed |
//! | `remote`, `calls`, `kept` | groups of typed functions, what servers are to do for them, and what is kept of them |
//! | `rpc`, `single` | the verbs of GridRPC; and one typed call as servers carry it out |
//! | `party` | groups of emulated tasks |
//!
//! **Start.** A daemon makes a certificate authority that is forgotten at once, certificates for
//! itself and for its guests, and writes the latter with its address as a *token*, a file that its
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
//! call looks for the door again and calls anew; calls to one that is back, and clients of groups
//! that know no server yet, wait for its servers to come. A call whose caller is gone, or that was
//! late, is taken back from its server, which ends what it executes of it and begins nothing else.
//!
//! **End.** A daemon that is told to end takes no more calls, answers those it has, and says
//! good-bye.

mod attend;
mod bench;
mod budget;
mod calls;
mod chart;
mod conduct;
mod connections;
mod counted;
mod course;
mod daemon;
mod entrance;
mod errand;
#[cfg(feature = "fuzzing")]
pub mod fuzzing;
mod gate;
mod groups;
mod guest;
mod hall;
mod kept;
mod meeting;
mod member;
mod membership;
mod owner;
mod parts;
mod party;
mod plausible;
mod questions;
mod reasons;
#[cfg(test)]
mod rehearsal;
mod relays;
mod remote;
mod roster;
mod rpc;
mod serve;
mod shelf;
mod single;
mod stuff;
mod survey;
mod token;
mod view;
mod visitor;
mod way;
mod wire;
mod workshop;

pub use daemon::DoorOptions;
pub use party::{Party, PartyError};
pub use remote::Remote;
pub use rpc::RemoteRpc;
pub use serve::{Role, ServeOptions, serve};
pub use token::{DoorError, Token};
pub use visitor::Visitor;
pub use wire::Listed;
