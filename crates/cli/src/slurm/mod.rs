//! Allocations of Slurm: which nodes they have, and how `srun` starts tasks on them.
//!
//! | module | purpose |
//! | --- | --- |
//! | `node_list` | expands `n[01-03,7],gpu-a[1-2]b` |
//! | `task_counts` | expands `2(x3),1` |
//! | `allocation` | reads the variables of an allocation |
//! | `allocations` | the allocations of a job |
//! | `job` | reads what `scontrol` prints about an allocation |
//! | `srun` | the command line of `srun` |
//!
//! Everything here is a function of its arguments. One node of Gridspan is one task of Slurm.

mod allocation;
mod allocations;
mod job;
mod node_list;
mod srun;
mod task_counts;

pub(crate) use allocation::{Allocation, AllocationError, StepPlan, Variables};
pub(crate) use allocations::Allocations;
pub(crate) use job::{SCONTROL, allocation_of, scontrol_arguments};
pub(crate) use srun::{SRUN, arguments};
