//! The computation of the kernels of the NAS Parallel Benchmarks, without their messages.
//!
//! Source: Bailey and others, "The NAS Parallel Benchmarks", RNR-94-007 (1994).
//!
//! - [`ep`]: pairs of normal deviates
//! - [`is`]: positions of integers in sorted order ("integer sort")
//! - [`matrix`], [`rank_grid`]: the sparse matrix of CG, and its blocks on a grid of ranks
//! - [`mg`], [`planes`], [`share`]: the steps of a multigrid solver, on planes divided among ranks
//! - [`ft`]: Fourier transforms of a field that is divided among ranks

pub mod ep;
pub mod ft;
pub mod is;
pub mod matrix;
pub mod mg;
pub mod planes;
pub mod rank_grid;
pub mod share;
