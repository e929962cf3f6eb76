//! Shared code of several tests: a tree that is counted, and members that broadcast.
#![allow(unreachable_pub)]

pub mod comb;
pub mod speaker;
