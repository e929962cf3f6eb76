//! State about the coordinator's place.

use crate::message::CoordinatorPlace;

/// A PE's knowledge of the coordinator's place besides the node.
#[derive(Default)]
pub(crate) struct KnownPlace {
    pub(crate) term: u64,
    /// A place that has not been reported to the driver.
    pub(crate) news: Option<CoordinatorPlace>,
}
