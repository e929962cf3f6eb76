//! Measured places and links, and the callbacks that receive them.

use crate::error::JobError;
use gridspan_topology::{
    Contradiction, GroupId, Hierarchy, LinkChange, LinkEstimate, Time, Uplink,
};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// The groups of nodes that are near each other, as given by the user and as measured.
///
/// ```
/// use gridspan::Locality;
///
/// /// Whether the user has described the places as they were measured.
/// fn is_confirmed(places: &Locality) -> bool {
///     places.contradictions.is_empty() && places.hierarchy.depth() == places.measured.depth()
/// }
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Locality {
    /// The hierarchy in use: the user's where given, otherwise the measured one.
    pub hierarchy: Hierarchy,
    /// The measured hierarchy.
    pub measured: Hierarchy,
    /// Differences between the user's hierarchy and the measured one.
    pub contradictions: Vec<Contradiction>,
}

/// The measured places and links of a job.
///
/// ```
/// use gridspan::topology::LinkChange;
/// use gridspan::{Job, Links};
///
/// let job = Job::new("watched").on_links(|links: &Links, changes: &[LinkChange]| {
///     println!("{}: {} links have changed", links.at, changes.len());
///     for ((from, to), estimate) in &links.estimates {
///         println!("from group {} to group {}: {estimate}", from.0, to.0);
///     }
/// });
/// # gridspan::embed::Runner::on_threads(1).run(job).unwrap();
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Links {
    /// Time of these values.
    pub at: Time,
    /// Which nodes are near each other.
    pub places: Arc<Locality>,
    /// Estimates of the link from one group to another, or inside a group if both are the same.
    pub estimates: Vec<((GroupId, GroupId), LinkEstimate)>,
    /// The uplinks of groups, where the measurements show them.
    pub uplinks: Vec<(GroupId, Uplink)>,
}

/// Called with the links, and with the changes since the last call.
pub(crate) type OnLinks = Arc<dyn Fn(&Links, &[LinkChange]) + Send + Sync>;

/// Called with the error when the job cannot continue, by a thread that is not a PE.
pub(crate) type OnFailure = Arc<dyn Fn(&JobError) + Send + Sync>;
