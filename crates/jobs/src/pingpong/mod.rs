//! Ping-pong: messages to and fro between two PEs, for the time and the bandwidth of each size.
//!
//! - [`ladder`]: the sizes, how often each is sent, and what follows from the times
//! - [`job`]: the actors and main

pub mod job;
pub mod ladder;
