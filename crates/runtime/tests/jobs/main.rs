//! Jobs on threads and in processes, with a module for each subject.
#![allow(missing_docs, clippy::unwrap_used)]

mod balancing;
mod carried;
mod coordinator;
mod moving_coordinator;
mod pools;
mod questions;
mod tasks;
