//! Molecular dynamics in cells: the actors of the LeanMD job.
//!
//! Source: Koenig and Kalé, "Optimizing Distributed Application Performance Using Dynamic Grid
//! Topology-Aware Load Balancing" (2007), section 4.2. Space is divided into cells; every pair of
//! neighbouring cells is a separate unit of work. In each step, each cell sends its positions to
//! its pairs, each pair computes the forces between its two cells, and each cell sums the forces
//! and moves its atoms.
//!
//! | what | where |
//! | --- | --- |
//! | the computation, and a serial run of it | [`gridspan_kernels::leanmd`] |
//! | actors | [`protocol`], [`cell_actor`], [`pair_actor`], [`index`] |
//! | options, events of steps, main, checks | [`args`], [`schedule`], [`job`], [`outcome`] |

pub mod args;
pub mod cell_actor;
pub mod index;
pub mod job;
pub mod outcome;
pub mod pair_actor;
pub mod protocol;
pub mod schedule;
