//! Particle in cell: charged particles that hop through a square of fixed charges, each to a place
//! that is known beforehand.
//!
//! - [`field`]: the fixed charges, and the force of the four around a particle
//! - [`particle`]: one particle, its step, and where it must be after any number of steps
//! - [`cloud`]: how many particles start in each cell; all clouds are uneven, and move
//! - [`args`], [`block_actor`], [`job`]: the options, the actors and main
//!
//! The square is periodic with an even number of cells. Charges are +1 on even columns of grid
//! points and -1 on odd ones. A particle sits in the middle of a cell with a charge such that the
//! field throws it exactly `2k + 1` cells sideways in the first step and brakes it to rest in the
//! second, and so on; it also rises `m` cells per step. So the whole cloud moves `2k + 1` columns
//! per step, an exact and moving load imbalance, and every particle verifies.
//!
//! Source: Georganas, Van der Wijngaart and Mattson, "Design and implementation of a parallel
//! research kernel for assessing dynamic load-balancing capabilities", IPDPS 2016; the Parallel
//! Research Kernels carry the reference program.

pub mod args;
pub mod block_actor;
pub mod cloud;
pub mod field;
pub mod job;
pub mod particle;
