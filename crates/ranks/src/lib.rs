//! Message passing between migratable ranks: the model of MPI, on the actors of Gridspan.
//!
//! A rank is a sequential program that sends and receives. A job may have any number of ranks, many
//! to a PE; while one awaits a message, its PE runs the others. [`run`] is the shortest way:
//!
//! ```
//! use gridspan::ranks::{self, Comm, ops};
//!
//! // Each rank adds up its share of a series for pi.
//! let job = ranks::run(8, async |world: Comm| {
//!     let mine = (world.rank()..100_000).step_by(world.size() as usize);
//!     let term = |k: u32| (1.0 - 2.0 * f64::from(k % 2)) * 4.0 / f64::from(2 * k + 1);
//!     let pi = world.allreduce(&[mine.map(term).sum::<f64>()], ops::sum).await?[0];
//!     assert!((pi - std::f64::consts::PI).abs() < 2e-5);
//!     Ok(())
//! });
//! # gridspan::embed::Runner::on_threads(2).run(job).unwrap();
//! ```
//!
//! # Map
//!
//! - [`run`], [`run_then`], [`RankFunctions`]: ranks that run one function. [`job`], [`job_then`],
//!   [`job_then_with`], [`Rank`], [`Continuation`]: ranks that are structs, and can move.
//! - [`Comm`]: a communicator: sends, receives, probes, collective operations, and parts of it.
//!   [`RankGroup`], [`Cartesian`], [`NeighbourGraph`]: the order and neighbours of its ranks.
//! - [`RankWindow`]: memory of a rank that others read and change.
//! - [`InterComm`], [`InterRoot`]: two groups of ranks, of which one has
//!   [spawned](Comm::spawn) the other ([`SpawnPlacement`]), or which have
//!   [connected](Comm::connect) ([`RankPort`]).
//! - [`CommRequest`], [`wait_all`] and similar functions: operations under way.
//! - [`Element`]: numbers, whose slices are sent as they are. [`TypedBlock`]: data of any type, for
//!   exchanges of all ranks. [`ops`]: operators of reductions.
//! - [`ErrorsReturn`]: ranks that fail alone. [`RankError`], [`RankRefusal`], [`CallSite`]: what
//!   went wrong, and where. [`is_rank_type`]: whether an actor type that a recording names runs
//!   ranks.
//! - [`SequentialActor`], [`Sequential`], [`Inbox`], [`Resume`]: actors whose work is one async
//!   method, which awaits messages.
//!
//! Inside, from the bottom: `executor` polls futures; `matching` brings messages and receives
//! together; `sharing` predicts how long each way to reduce takes, from the measured links in
//! `site_links`; `local` is the state of a rank, between its code and its actor; `p2p` and
//! `collective` are the operations, and `inter` those between two groups; `name_server` brings
//! groups together; `actor` runs a rank; `world` is the main of a job of ranks.
//!
//! # Waiting
//!
//! The futures of a rank are woken by messages to it. So a rank may combine them, also with `join`
//! and `select` of other crates. It must not await anything else, such as a timer or a socket of
//! another runtime. Each unsuccessful test of a request or probe for a message lets the PE handle
//! other messages, so a loop of them makes progress.
//!
//! A PE runs one rank at a time, and another only when that one awaits. While a rank computes, its
//! PE handles no messages: each rendezvous and each immediate collective operation there advances
//! only when that rank awaits.
//!
//! A message that no receive has matched stays in the memory of its receiver if it is at most
//! [`EagerLimit`] long. A longer message stays with its sender, which sends only an offer. There is
//! one exception: to other PEs of its process a rank sends up to 4 MiB of longer messages at once.
//! Messages of collective operations are always sent whole. The budgets of a PE's mailboxes do not
//! count waiting messages, so a rank that sends much faster than another receives should wait for
//! it now and then, for example with [`Comm::ssend`].
//!
//! In a job that has only ranks, if ranks wait for each other and no message is on its way to them,
//! the job ends with an error that names these ranks, at most 32 of them, and the operation for
//! which each waits. This usually takes less than five seconds. While other ranks run, it may take
//! half a minute, and a job of more than 10,000 ranks does not notice it.
//!
//! # Migration
//!
//! A rank that is a struct returns itself from [`Rank::run`] where it may move, and the runtime
//! calls `run` with it again, perhaps elsewhere. The local variables of the method do not survive,
//! and the compiler enforces this: the struct is complete when the method returns, and a variable
//! that should survive must be in it. There are two alternatives, both worse. An `await` that moves
//! the rank and never returns in the old place reads better, but the program then compiles although
//! half of its variables do not exist after the move. A macro could cut an async function at its
//! migration points into a state machine that can be encoded. But it would have to know the types
//! of all variables, and macros do not.
//!
//! A migration point is collective: every rank comes to one, or ends. Then the job's strategy may
//! move ranks, by their measured loads and messages, and the job makes a checkpoint if one is due.
//! Messages that wait for a receive move with their rank. Requests do not: a rank that still has
//! one fails with an error that names it. All communicators end, except the world and those between
//! parents and their children.
//!
//! Between migration points a strategy can move a rank if the job has one node. With several nodes
//! ranks stay where they are until the next migration point; a rank that a strategy nevertheless
//! moves to another node goes back, and does not run until it is back.
//!
//! # Errors
//!
//! An operation fails with a [`RankError`] that names the call, the peer, the tag and the
//! communicator. A rank that returns an error ends the job with its text. In a job with
//! [`ErrorsReturn`] it fails alone, and the others [go on without it](Comm#failures).

mod actor;
mod cartesian;
mod collective;
mod comm;
mod content;
mod deadlock;
mod dissemination;
mod element;
mod error;
mod executor;
mod failures;
mod graph;
mod group;
mod heads;
mod inter;
mod local;
mod main_watch;
mod matching;
mod name_server;
pub mod ops;
mod p2p;
mod packet;
mod pieces;
mod places;
mod port;
mod program;
mod queues;
mod refusal;
mod request;
mod runs;
mod scope;
mod segments;
mod selector;
mod sequential;
mod sharing;
mod site_links;
mod ticket;
mod tree;
mod typed_block;
mod window;
mod world;

pub use actor::is_rank_type;
pub use cartesian::{Cartesian, dims_create};
pub use comm::Comm;
pub use element::Element;
pub use error::{CallSite, RankError};
pub use failures::ErrorsReturn;
pub use graph::NeighbourGraph;
pub use group::RankGroup;
pub use inter::{InterComm, InterRoot};
pub use name_server::SpawnPlacement;
pub use ops::Operator;
pub use p2p::{MatchedMessage, PersistentRecv, PersistentSend};
pub use port::RankPort;
pub use program::{Continuation, EagerLimit, Rank};
pub use refusal::RankRefusal;
pub use request::{CommRequest, test_all, test_any, test_some, wait_all, wait_any, wait_some};
pub use selector::{
    ANY_SOURCE, ANY_TAG, Destination, PROC_NULL, ProcNull, SourceSelector, Status, TagSelector,
};
pub use sequential::{Inbox, Resume, Sequential, SequentialActor};
pub use typed_block::TypedBlock;
pub use window::RankWindow;
pub use world::{RankFunctions, job, job_then, job_then_with, run, run_then};
