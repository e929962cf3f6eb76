//! What is known of places and links, and who is told of it unasked.

use crate::error::JobError;
use gridspan_topology::{
    Contradiction, GroupId, Hierarchy, LinkChange, LinkEstimate, Time, Uplink,
};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// Which nodes are near each other.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Locality {
    /// As measured, where the user has not said otherwise.
    pub hierarchy: Hierarchy,
    /// As measured.
    pub measured: Hierarchy,
    /// Where the user's word and the measurements differ.
    pub contradictions: Vec<Contradiction>,
}

/// What is known of the links.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
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
