//! Hydropad: the formation of galaxy clusters from dark matter and gas, the application of Brady,
//! Dongarra, Guidolin, Lastovetsky and Seymour, "SmartGridRPC" (2010, section 5).
//!
//! The physics, and the loop in one process, are in [`gridspan_kernels::hydropad`].
//!
//! | part | is |
//! | --- | --- |
//! | [`functions`] | the tasks of a step as remote functions |
//! | [`plain`], [`grouped`] | the loop by calls, and by a group |
//! | [`job`] | the job |
//!
//! A step computes gravity first; then dark matter and gas can be computed in parallel. All loops
//! give the same bits: tasks are functions of their arguments, and no sum depends on the number of
//! servers.

pub mod functions;
pub mod grouped;
pub mod job;
pub mod plain;
