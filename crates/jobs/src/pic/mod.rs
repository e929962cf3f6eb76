//! Particle in cell: charged particles that move through a square of fixed charges, each to a
//! position that can be computed beforehand.
//!
//! The particles, their clouds and the problem itself are in [`gridspan_kernels::pic`]; [`args`],
//! [`block_actor`] and [`job`] have the options, the actors and main.

pub mod args;
pub mod block_actor;
pub mod job;
