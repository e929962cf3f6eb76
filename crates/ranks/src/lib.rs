//! Message passing between migratable ranks: the model of MPI, on the actors of Gridspan.
//!
//! A rank is a sequential program that sends and receives. A job has as many ranks as it likes,
//! many to a PE; where one awaits a message, its PE runs the others. [`run`] is the shortest way:
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
//! - [`run`], [`run_then`], [`RankFunctions`]: ranks that run one function. [`job`], [`Rank`],
//!   [`Continuation`]: ranks that are structs, and can move.
//! - [`Comm`]: a communicator: sends, receives, probes, collective operations, and parts of it.
//!   [`RankGroup`], [`Cartesian`]: the order of its ranks.
//! - [`RankWindow`]: memory of a rank that others read and change.
//! - [`CommRequest`], [`wait_all`] and their relatives: operations that go on by themselves.
//! - [`Element`]: numbers, whose slices are sent as they are. [`ops`]: operators of reductions.
//! - [`RankError`], [`CallSite`]: what went wrong, and where.
//!
//! Inside, from the bottom: `matching` brings messages and receives together; `local` is the state
//! of a rank, between its code and its actor; `p2p` and `collective` are the operations; `actor`
//! polls the futures of a rank; `world` is the main of a job of ranks.
//!
//! # Waiting
//!
//! The futures of a rank are woken by messages to it. So a rank may combine them as it likes, also
//! with `join` and `select` of other crates, and must not await anything else, such as a timer or a
//! socket of another runtime. A loop that tests or probes lets its PE go on at each turn.
//!
//! A PE runs one rank at a time, and another only when that one awaits. A message, and the next
//! step of a rendezvous or of an immediate collective operation, are handled when the rank for
//! which they are awaits.
//!
//! Messages that no receive has asked for stay in the memory of their receiver, up to the
//! [`EagerLimit`] each; of longer ones only an offer does. Those of collective operations are never
//! offered. The budgets of a PE's mailboxes do not
//! count them, so a rank that sends much faster than another receives should wait for it now and
//! then, for example with [`Comm::ssend`].
//!
//! If all ranks of a job of ranks wait for each other and no message is on its way, the job ends
//! within a few seconds, with an error that names what each rank waits for.
//!
//! # Migration
//!
//! A rank that is a struct returns it from [`Rank::run`] where it may move, and `run` is called
//! with it again, perhaps elsewhere. What the method has on its stack is gone by then, and the
//! compiler knows: the struct is complete when the method returns, and a variable that should
//! survive must be in it. Two other ways were weighed. An `await` that moves the rank and never
//! returns in the old place reads better, but the program then compiles although half of its
//! variables do not exist after the move. A macro that cuts an async function at its migration
//! points into a state machine that can be encoded must know the types of all variables, which
//! macros do not.
//!
//! A migration point is collective: every rank comes to one, or ends. Then the job's strategy may
//! move ranks, by their measured loads and messages, and a checkpoint is made if one is due. Messages
//! that wait for a receive move with their rank. Requests do not: to hold one then is an error, which
//! names it. Communicators but the world end, too.
//!
//! A strategy that moves actors at other times moves the ranks of a run only within their node; from
//! another node a rank returns until its next migration point.
//!
//! # Errors
//!
//! An operation fails with a [`RankError`] that names the call, the peer, the tag and the
//! communicator. A rank that returns an error ends the job with its text.

mod actor;
mod cartesian;
mod collective;
mod comm;
mod content;
mod element;
mod error;
mod group;
mod local;
mod matching;
pub mod ops;
mod p2p;
mod packet;
mod places;
mod program;
mod request;
mod scope;
mod selector;
mod tree;
mod window;
mod world;

pub use cartesian::{Cartesian, dims_create};
pub use comm::Comm;
pub use element::Element;
pub use error::{CallSite, RankError};
pub use group::RankGroup;
pub use ops::Operator;
pub use p2p::{MatchedMessage, PersistentRecv, PersistentSend};
pub use program::{Continuation, EagerLimit, Rank};
pub use request::{CommRequest, test_all, test_any, test_some, wait_all, wait_any, wait_some};
pub use selector::{
    ANY_SOURCE, ANY_TAG, Destination, PROC_NULL, ProcNull, SourceSelector, Status, TagSelector,
};
pub use window::RankWindow;
pub use world::{RankFunctions, job, run, run_then};
