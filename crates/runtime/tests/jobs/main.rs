//! Jobs on threads and in processes, a module for each thing that they show.
#![allow(missing_docs, clippy::unwrap_used)]

mod balancing;
mod carried;
mod coordinator;
mod moving_coordinator;
mod pools;
mod questions;
mod tasks;
