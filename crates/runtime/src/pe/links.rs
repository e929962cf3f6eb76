//! What the root knows of the links, and whom it tells unasked.

use super::state::Locality;
use crate::error::JobError;
use gridspan_topology::{GroupId, LinkChange, LinkEstimate, Time, Uplink};
use std::sync::Arc;

/// What the root knows of the links.
#[derive(Clone, Debug, PartialEq)]
pub struct Links {
    /// When this is known.
    pub at: Time,
    /// Which nodes are near each other.
    pub places: Arc<Locality>,
    /// What is known of the way from one group to another; of that inside one if both are the same.
    pub estimates: Vec<((GroupId, GroupId), LinkEstimate)>,
    /// How groups reach the outside, where that could be told.
    pub uplinks: Vec<(GroupId, Uplink)>,
}

/// Is told of the links, and which of them have changed since it was told last.
pub(crate) type OnLinks = Arc<dyn Fn(&Links, &[LinkChange]) + Send + Sync>;

/// Is told that the job cannot go on, by a thread that is no PE.
pub(crate) type OnFailure = Arc<dyn Fn(&JobError) + Send + Sync>;
