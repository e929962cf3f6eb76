//! Calls and groups of calls in virtual time, one module for each subject.
#![allow(missing_docs, clippy::unwrap_used)]

mod broadcasts;
mod checkpoints;
mod groups;
mod hopeless;
mod large;
mod leaving;
mod lost;
mod registry;
mod servers;
