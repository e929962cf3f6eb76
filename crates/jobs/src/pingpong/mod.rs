//! Ping-pong: round trips of messages between two PEs, which measure the latency and the bandwidth
//! for each size.
//!
//! - [`ladder`]: the sizes, their repetitions, and the evaluation of the times
//! - [`job`]: the actors and main

pub mod job;
pub mod ladder;
