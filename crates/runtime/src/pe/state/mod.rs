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
//! - The right to number broadcasts that it may have, in `sequencer`.

mod callback;
mod collections;
mod edges;
mod leading;
mod measures;
mod member;
mod membership;
mod own_plans;
mod own_time;
mod pieces;
mod published;
mod reductions;
mod sequencer;
mod stall;
mod timers;
mod timesheet;
mod waits;

pub(crate) use collections::{Broadcasts, Collections, Incomplete, LocalCollection, Seen};
pub(crate) use edges::EdgeCache;
pub(crate) use leading::{Leading, Session};
pub(crate) use measures::Measures;
pub(crate) use member::{Departing, Member, NewMembers, Paced, Request, Wish};
pub(crate) use membership::{IsAllowed, Membership, PoolEvent, PoolHooks, Tell};
pub(crate) use own_plans::{OwnPlans, nearest};
pub(crate) use own_time::OwnTime;
pub(crate) use pieces::Pieces;
pub(crate) use published::Published;
pub(crate) use reductions::{Accumulator, GroupState};
pub(crate) use sequencer::Rights;
pub(crate) use stall::Looks;
pub(crate) use timers::{TimerId, Timers};
pub use timesheet::{Spent, TRIAL};
pub(crate) use waits::{Resume, Waits};
