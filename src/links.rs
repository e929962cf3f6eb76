//! The estimates of a job's links, in a form that can be sent to a launcher and stored.

use gridspan_runtime::Links;
use gridspan_topology::{GroupId, Hierarchy, LinkChange, LinkEstimate, Time, Uplink};
use serde::{Deserialize, Serialize};

/// The estimates of a job's links at one time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct LinkReport {
    /// The time of the report, in the job's time.
    pub at: Time,
    /// The hierarchy of nodes by distance, measured where the user has not described it.
    pub hierarchy: Hierarchy,
    /// The estimate of the path from each group to another, or inside a group if both are the same.
    pub estimates: Vec<((GroupId, GroupId), LinkEstimate)>,
    /// The uplinks of groups, where they could be determined.
    pub uplinks: Vec<(GroupId, Uplink)>,
    /// The links that have changed since the previous report.
    pub changes: Vec<LinkChange>,
    /// Warnings about the links, for users.
    #[serde(default)]
    pub warnings: Vec<String>,
}

impl LinkReport {
    /// Creates a report of places alone, without estimates.
    pub fn of_places(at: Time, hierarchy: Hierarchy) -> Self {
        Self {
            at,
            hierarchy,
            estimates: Vec::new(),
            uplinks: Vec::new(),
            changes: Vec::new(),
            warnings: Vec::new(),
        }
    }

    /// Creates a report of `links` and the changes.
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
