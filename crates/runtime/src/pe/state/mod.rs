//! What a PE keeps, part by part. Nothing in here knows the PE: what has to call it back is generic
//! over it.
//!
//! - Members: `member`, their `collections`.
//! - What takes time: `timers`, questions in `waits`, contributions in `reductions`.
//! - For balancing: who talks to whom, in `edges`, and where time goes, in `timesheet`; `measures`
//!   has the rest, `leading` what leaders of sites keep; what they tell may come in `pieces`.
//! - Who takes part beside the founders: `guests`.
//! - For finding out that nothing goes on: `stall`.
//! - How what it sends to all travels: `own_plans`.
//! - On PE 0: the `root` of collective operations, with its `quiescence`, `publications`, `survey`,
//!   `clusters`, `balance`, `advice` and the `sequencer` of broadcasts.

mod advice;
mod balance;
mod callback;
mod clusters;
mod collections;
mod edges;
mod guests;
mod leading;
mod measures;
mod member;
mod own_plans;
mod own_time;
mod pieces;
mod publications;
mod quiescence;
mod reductions;
mod root;
mod sequencer;
mod stall;
mod survey;
mod timers;
mod timesheet;
mod waits;

pub use advice::PlanningJob;
pub(crate) use advice::{Advice, Arrived, Flow, News, Unconfirmed, edges};
pub(crate) use balance::{Balances, Look, ProgressProbe};
pub(crate) use clusters::Clusters;
pub(crate) use collections::{Broadcasts, Collections, Incomplete, LocalCollection, Seen};
pub(crate) use edges::EdgeCache;
pub(crate) use guests::{Entry, Guests, IsAllowed, Notice, PoolHooks, Stage, Tell, Visiting};
pub(crate) use leading::{Leading, Session};
pub(crate) use measures::Measures;
pub(crate) use member::{Departing, Member, NewMembers, Paced, Request, Wish};
pub(crate) use own_plans::OwnPlans;
pub(crate) use pieces::Pieces;
pub(crate) use publications::Published;
pub(crate) use reductions::{Accumulator, GroupState};
pub(crate) use root::{BroadcastRequest, CollectionState, RequestOrder, Root, WaitsForNumber};
pub(crate) use sequencer::Rights;
pub use stall::MainStatus;
pub(crate) use stall::{Looks, Round};
pub use survey::Locality;
pub(crate) use survey::{CHANGES_MAX, Purpose, UplinkProbe};
pub(crate) use timers::{TimerId, Timers};
pub use timesheet::{Spent, TRIAL};
pub(crate) use waits::{Resume, Waits};
