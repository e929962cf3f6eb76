//! Deterministic actors that live on two PEs at once; see `protocol`.

mod plans;
mod protocol;
mod state;
mod traffic;

pub(super) use protocol::{begin, handle, settle};
pub(super) use state::{PrimaryStage, ReplicaState, Replicas, Role, Then};
