//! The commands of `gridctl`, a module for each.
#![allow(missing_docs, clippy::unwrap_used)]

mod balance;
mod bcast;
mod bench;
mod bind;
mod check;
#[path = "../common/mod.rs"]
mod common;
mod guests;
mod locked_output;
mod own_program;
mod plan;
mod reference;
mod rpc;
mod rpc_daemons;
mod rpc_workflows;
mod run;
mod sim;
mod slurm;
mod ssh;
mod standard_input;
mod topo;
