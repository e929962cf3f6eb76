//! A benchmark of broadcasts: the runtime's broadcast against a binomial tree of messages between
//! the members.
//!
//! - [`binomial`]: the children of each member in the hand-written tree
//! - [`member`]: the actor on each node
//! - [`job`]: main, which alternates between both ways and compares them
//!
//! Payloads and their digests are in [`gridspan_kernels::payload`].

pub mod binomial;
pub mod job;
pub mod member;
