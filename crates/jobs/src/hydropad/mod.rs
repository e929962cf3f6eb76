//! Hydropad: clusters of galaxies form of dark matter and gas, the application of paper 5 (section
//! 5).
//!
//! | part | is |
//! | --- | --- |
//! | [`cells`], [`expansion`] | a periodic box, and the background that expands |
//! | [`gravity`] | the potential of a density, by Fourier transforms |
//! | [`matter`] | dark matter: particles in a mesh |
//! | [`gas`], `tvd` | baryons: the equations of Euler by a scheme whose total variation diminishes |
//! | [`pancake`] | a start of which the end is known |
//! | [`step`] | the three tasks of a step: gravity, dark matter, baryons |
//! | [`problem`], [`clock`], [`account`] | what is computed, how long steps are, and what must be kept |
//! | [`functions`] | the tasks as remote functions |
//! | [`serial`], [`plain`], [`grouped`] | the loop in one process, by single calls, and as a group of calls |
//! | [`job`] | all of it as a job |
//!
//! A step needs gravity first; then dark matter and gas can go side by side. All three loops give
//! the same bits: tasks are functions of their arguments, and no sum depends on who computes it.

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
