//! Deterministic actors that live on two PEs at once; `protocol` tells how that comes and ends.

mod plans;
mod protocol;
mod state;
mod traffic;

pub(super) use protocol::{begin, handle, settle};
pub(super) use state::{PrimaryStage, ReplicaState, Replicas, Role, Then};
