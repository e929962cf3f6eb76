//! Molecular dynamics in cells: the computation of the LeanMD job.
//!
//! Source: Koenig and Kalé, "Optimizing Distributed Application Performance Using Dynamic Grid
//! Topology-Aware Load Balancing" (2007), section 4.2. Space is divided into cells; every pair of
//! neighbouring cells is a separate unit of work.
//!
//! | what | where |
//! | --- | --- |
//! | initial positions of atoms | [`system`], [`droplet`], files in [`io`] |
//! | cells and pairs | [`decomposition`] |
//! | content of a cell, and of messages between cells | [`atoms`], [`vectors`], [`packing`] |
//! | forces of a pair | [`pair`], with the kernel in [`force`] and the law in [`potential`] |
//! | sum of the forces on a cell | [`gather`] |
//! | motion | [`integrate`] |
//! | the whole computation on one thread, as a reference | [`serial`], [`fingerprint`] |
//!
//! # Same bits everywhere
//!
//! A trajectory does not depend on where cells and pairs are computed, because every sum has a
//! fixed order: atoms in a cell are sorted by id, a pair's forces depend on its two cells only, and
//! a cell adds its pairs' forces in the order of
//! [`Cells::pairs_of`](decomposition::Cells::pairs_of).

pub mod atoms;
pub mod decomposition;
pub mod droplet;
pub mod fingerprint;
pub mod force;
pub mod gather;
pub mod integrate;
pub mod io;
mod lanes;
mod numbers;
mod packed;
pub mod packing;
pub mod pair;
pub mod potential;
pub mod serial;
pub mod system;
pub mod vectors;
