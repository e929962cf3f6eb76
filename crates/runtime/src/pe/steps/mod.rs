//! The order of messages that belong to steps of a job.

mod borders;
