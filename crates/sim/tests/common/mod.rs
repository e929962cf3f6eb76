//! Shared code of several tests: a tree that is counted, and members that broadcast.
// Each test file uses a part of it.
#![allow(missing_docs, dead_code, unreachable_pub, clippy::unwrap_used)]

pub mod comb;
pub mod speaker;
