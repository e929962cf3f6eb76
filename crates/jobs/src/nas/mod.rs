//! Kernels of the NAS Parallel Benchmarks as ranks that exchange messages.
//!
//! Written from Bailey and others, "The NAS Parallel Benchmarks", RNR-94-007 (1994); classes,
//! verification values and counts of operations are those of NPB 3. Each kernel divides its work
//! among any number of ranks up to the size of its problem.
//!
//! - `ep`: pairs of normal deviates. Two reductions at the end.
//! - `is`: an integer sort, which finds the position of each key. All-to-all exchange of keys.
//! - `cg`: the smallest eigenvalue of a sparse matrix. Sums, and exchange of parts of vectors
//!   within the rows and columns of a grid of ranks.
//! - `mg`: a multigrid solver. Exchange of halos with neighbours, on all levels.
//! - `ft`: a spectral solver. Transposes by all-to-all exchange.
//!
//! The computation of a rank between its messages is in [`gridspan_kernels::nas`].

mod cg;
mod class;
mod ep;
mod exchange;
mod ft;
mod halo;
mod is;
mod job;
mod kernel;
mod mg;

pub(crate) use job::ENTRY;
