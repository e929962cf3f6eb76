//! The order of messages that belong to steps of a job.

mod borders;
mod state;

pub(super) use state::Steps;
