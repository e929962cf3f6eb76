//! A benchmark of broadcasts: the runtime's broadcast against a binomial tree of messages between
//! the members.
//!
//! - [`binomial`]: the children of each member in the hand-written tree
//! - [`member`]: the actor on each node, with [payloads](gridspan_kernels::payload) that differ
//! - [`job`]: main, which alternates between both ways and compares them

pub mod binomial;
pub mod job;
pub mod member;
