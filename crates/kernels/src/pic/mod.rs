//! Particle in cell: charged particles that move through a square of fixed charges, each to a
//! position that is known beforehand.
//!
//! - [`field`]: the fixed charges, and the force of the four around a particle
//! - [`particle`]: one particle, its step, and its exact position after any number of steps
//! - [`cloud`]: the number of particles that start in each cell; all clouds are uneven, and move
//! - [`blocks`]: the particles of blocks of cells
//!
//! The square is periodic with an even number of cells. Charges are +1 on even columns of grid
//! points and -1 on odd ones. A particle starts in the middle of a cell, with a charge such that
//! the field moves it by exactly `2k + 1` cells sideways in the first step and brakes it to rest in
//! the second, and so on; it also rises by `m` cells per step. Therefore the whole cloud, and with
//! it the load imbalance, moves by exactly `2k + 1` columns per step, and the position of every
//! particle can be verified.
//!
//! Source: Georganas, Van der Wijngaart and Mattson, "Design and implementation of a parallel
//! research kernel for assessing dynamic load-balancing capabilities", IPDPS 2016; the reference
//! program is part of the Parallel Research Kernels.

pub mod blocks;
pub mod cloud;
pub mod field;
pub mod particle;
