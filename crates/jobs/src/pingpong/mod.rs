//! Ping-pong: round trips of messages between two PEs, which measure the latency and the bandwidth
//! for each size, and messages between pairs of PEs, nodes and sites.
//!
//! - [`ladder`]: the sizes, their repetitions, and the evaluation of the times
//! - [`job`]: the actors and main
//! - `peer`, `pairs`: the actors and main of `--pairs`

pub mod job;
pub mod ladder;
mod pairs;
mod peer;
