//! Shared code of several tests: trees that are counted or searched, lost nodes, and members that
//! broadcast.
#![allow(unreachable_pub)]

pub mod comb;
pub mod leaves;
pub mod losses;
pub mod speaker;
