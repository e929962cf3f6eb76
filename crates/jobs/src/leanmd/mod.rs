//! Molecular dynamics in cells: the computation of the LeanMD job, and its actors.
//!
//! Source: Koenig and Kalé, "Optimizing Distributed Application Performance Using Dynamic Grid
//! Topology-Aware Load Balancing" (2007), section 4.2. Space is divided into cells; every pair of
//! neighbouring cells is a separate unit of work. In each step, each cell sends its positions to
//! its pairs, each pair computes the forces between its two cells, and each cell sums the forces
//! and moves its atoms.
//!
//! | what | where |
//! | --- | --- |
//! | initial positions of atoms | [`system`], [`droplet`], files in [`io`] |
//! | cells and pairs | [`decomposition`] |
//! | content of a cell, and of messages between cells | [`atoms`], [`vectors`] |
//! | forces of a pair | [`pair`], on the kernel in [`force`] and the law in [`potential`] |
//! | motion | [`integrate`] |
//! | the whole computation on one thread, as a reference | [`serial`], [`fingerprint`] |
//! | actors | [`protocol`], [`cell_actor`] with its [`gather`], [`pair_actor`], [`index`] |
//! | options, events of steps, main, checks | [`args`], [`schedule`], [`job`], [`outcome`] |
//!
//! # Same bits everywhere
//!
//! A trajectory does not depend on where cells and pairs live, because every sum has a fixed order:
//! atoms in a cell are sorted by id, a pair's forces depend on its two cells only, and a cell adds
//! its pairs' forces in the order of [`Cells::pairs_of`](decomposition::Cells::pairs_of).

pub mod args;
pub mod atoms;
pub mod cell_actor;
pub mod decomposition;
pub mod droplet;
pub mod fingerprint;
pub mod force;
pub mod gather;
pub mod index;
pub mod integrate;
pub mod io;
pub mod job;
mod lanes;
pub mod outcome;
mod packed;
pub mod pair;
pub mod pair_actor;
pub mod potential;
pub mod protocol;
pub mod schedule;
pub mod serial;
pub mod system;
pub mod vectors;
