//! What a job knows of its links, in a form that can be sent to a launcher and kept.

use gridspan_runtime::Links;
use gridspan_topology::{GroupId, Hierarchy, LinkChange, LinkEstimate, Time, Uplink};
use serde::{Deserialize, Serialize};

/// What a job knows of its links at a time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LinkReport {
    /// When, in the job's time.
    pub at: Time,
    /// Which nodes are near each other, as measured where the user has not said otherwise.
    pub hierarchy: Hierarchy,
    /// What is known of the way from one group to another; of that inside one if both are the same.
    pub estimates: Vec<((GroupId, GroupId), LinkEstimate)>,
    /// How groups reach the outside, where that could be told.
    pub uplinks: Vec<(GroupId, Uplink)>,
    /// The links that have changed since the report before this one.
    pub changes: Vec<LinkChange>,
    /// What is odd about all this, for people.
    #[serde(default)]
    pub warnings: Vec<String>,
}

impl LinkReport {
    /// What `links` and the changes say.
    pub fn new(links: &Links, changes: &[LinkChange]) -> Self {
        Self {
            at: links.at,
            hierarchy: links.places.hierarchy.clone(),
            estimates: links.estimates.clone(),
            uplinks: links.uplinks.clone(),
            changes: changes.to_vec(),
            warnings: links.places.contradictions.iter().map(ToString::to_string).collect(),
        }
    }
}
