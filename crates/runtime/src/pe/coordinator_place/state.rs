//! What is kept of where the coordinator runs.

use crate::message::CoordinatorPlace;

/// What a PE knows of the place besides the node.
#[derive(Default)]
pub(crate) struct KnownPlace {
    pub(crate) term: u64,
    /// What the driver has not been told.
    pub(crate) news: Option<CoordinatorPlace>,
}
