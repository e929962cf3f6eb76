//! Hydropad: the formation of galaxy clusters from dark matter and gas, the application of Brady,
//! Dongarra, Guidolin, Lastovetsky and Seymour, "SmartGridRPC" (2010, section 5).
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
//! | [`functions`] | the tasks as remote functions |
//! | [`serial`], [`plain`], [`grouped`] | the loop in one process, by calls, and by a group |
//! | [`job`] | the job |
//!
//! A step computes gravity first; then dark matter and gas can be computed in parallel. All three
//! loops give the same bits: tasks are functions of their arguments, and no sum depends on the
//! number of servers.

pub mod account;
pub mod cells;
pub mod clock;
mod digest;
pub mod expansion;
pub mod functions;
pub mod gas;
pub mod gravity;
pub mod grouped;
pub mod job;
pub mod matter;
pub mod outcome;
pub mod pancake;
pub mod plain;
pub mod problem;
pub mod serial;
pub mod step;
mod tvd;

#[cfg(test)]
mod tests;
