//! The formation of galaxy clusters from dark matter and gas, the application of Brady, Dongarra,
//! Guidolin, Lastovetsky and Seymour, "SmartGridRPC" (2010, section 5).
//!
//! | part | is |
//! | --- | --- |
//! | [`cells`], [`expansion`] | a periodic box, and the background that expands |
//! | [`gravity`] | the potential of a density, by Fourier transforms |
//! | [`matter`] | dark matter: particles in a mesh |
//! | [`gas`], `tvd` | baryons: the Euler equations by a total variation diminishing (TVD) scheme |
//! | [`pancake`] | an initial state with a known exact solution |
//! | [`step`] | the three tasks of a step: gravity, dark matter, baryons |
//! | [`problem`], [`clock`], [`account`] | problem, lengths of steps, conserved quantities |
//! | [`serial`] | the loop in one process |
//! | [`outcome`], [`digest`] | the result of a run, and the bits of its state |
//!
//! A step computes gravity first; then dark matter and gas can be computed in parallel. Tasks are
//! functions of their arguments, so the same steps give the same bits wherever they are computed.

pub mod account;
pub mod cells;
pub mod clock;
pub mod digest;
pub mod expansion;
pub mod gas;
pub mod gravity;
pub mod matter;
pub mod outcome;
pub mod pancake;
pub mod problem;
pub mod serial;
pub mod step;
mod tvd;

#[cfg(test)]
mod tests;
