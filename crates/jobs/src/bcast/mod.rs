//! Broadcasts measured: the runtime's own beside a binomial tree that the members themselves build
//! of messages.
//!
//! - [`binomial`]: to whom each member of the hand-written tree passes on
//! - [`payload`]: what is broadcast, and its digest
//! - [`member`]: what each member does
//! - [`job`]: main, which takes turns between both ways and compares them

pub mod binomial;
pub mod job;
pub mod member;
pub mod payload;
