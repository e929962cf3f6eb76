//! Workflows: recorded ones in the WfCommons format, and generated ones.

mod generate;
mod wfformat;

pub use generate::layered;
pub use wfformat::{Workflow, WorkflowError, load};
