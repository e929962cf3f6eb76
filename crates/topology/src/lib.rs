//! The topology of a grid: its places, its links and the distances in it.
//!
//! - [`SiteId`], [`NodeId`], [`PeId`]: identifiers.
//! - [`Time`], [`Latency`], [`Bandwidth`], [`Speed`]: units as types; [`ByteCount`],
//!   [`Probability`] and [`parse_duration`] read and write quantities in human notation.
//! - [`Layout`]: the sites, nodes and PEs of one job.
//! - [`Link`]: one link as numbers; [`Shaper`]: one emulated link, packet by packet;
//!   [`GridUplinks`]: the rates that all traffic of a site shares; [`NodeLinks`]: all links of a
//!   grid, as the users of a reliable transport see them.
//! - [`FairShares`]: max-min fair shares of capacities for flows over them.
//! - [`LinkMonitor`], [`ProbePlan`], [`Uplink`]: estimates of links while a job runs.
//! - [`GridSpec`]: the sites, hosts and links that every driver starts from, as a value, a [grid
//!   file](GridSpec::from_toml) or a [shorthand](GridSpec::from_emulate); [`expand_hosts`] expands
//!   `d[01-04]`.
//! - [`Hierarchy`]: the tree of groups that balancing, broadcasting, stealing and reductions
//!   follow.
//! - [`infer`]: finds a hierarchy in an [`RttMatrix`] of measured round-trip times.
//! - [`dice`]: the seeded random numbers of all crates.
//!
//! Everything here is pure: no clock, no sockets, no threads.

pub mod dice;
mod fair_shares;
mod hierarchy;
mod id;
mod infer;
mod layout;
mod link;
mod matrix;
mod monitor;
mod node_links;
mod quantity;
mod rand_index;
mod shaper;
mod site_uplink;
mod spec;
mod speed;
mod units;

pub use fair_shares::{FairShares, joint_rate};
pub use hierarchy::{BandwidthRange, Distances, Group, Hierarchy, HierarchyError, Level, RttRange};
pub use id::{GroupId, NodeId, PeId, SiteId};
pub use infer::{
    Contradiction, Inference, Join, Labelled, ProbeCount, SiteNames, Upkeep, infer, infer_labelled,
};
pub use layout::{GUEST_PES_MAX, Layout, LayoutError, NodePlace};
pub use link::{Link, LinkError};
pub use matrix::{MatrixProblem, MatrixTextError, RttMatrix, RttUnit};
pub use monitor::{
    LinkChange, LinkEstimate, LinkMonitor, LinkSample, Pipes, Probe, ProbePlan, Uplink, WantedProbe,
};
pub use node_links::NodeLinks;
pub use quantity::{ByteCount, Probability, QuantityError, parse_duration};
pub use rand_index::adjusted_rand_index;
pub use shaper::{DropReason, Fate, Shaper};
pub use site_uplink::{GridUplinks, SiteUplink};
pub use spec::{
    ClusterSpec, EmulateError, GridFileError, GridFileProblem, GridSpec, GridSpecError,
    HostRangeError, HostSpec, MAX_HOSTS, MAX_PES, MAX_SITES, SiteError, SiteSpec, TimelineError,
    expand_hosts,
};
pub use speed::Speed;
pub use units::{Bandwidth, Latency, Time};

/// Lets the fixtures name the crate as they do in `gridspan-studies`, which also includes them.
#[cfg(test)]
extern crate self as gridspan_topology;
#[cfg(test)]
pub mod fixtures;
