//! Counters of PEs, nodes and links between sites that a job reports while it is watched, merged on
//! their way up a tree of nodes.
//!
//! # Start
//!
//! The root, the node of main, holds a [lease](TelemetryLease) while someone watches, and sends it
//! down the tree. A node with a lease samples its counters once in each period, merges the sample
//! with the latest ones of its children in the tree, and sends the result to its parent. Nodes far
//! from the root do so earlier in the period, so that a value passes all levels within half a
//! period.
//!
//! # Steady state
//!
//! Counters are sums since the start of the run, and a parent keeps the latest sample of each
//! child. So a late sample changes no sum, and a rate is the difference of two samples.
//!
//! # Bounds
//!
//! At most [`SAMPLE_BYTES_MAX`] bytes reach the root in a period, whatever the number of nodes. If
//! the job has more nodes, PEs, sites or actor types than fixed limits, samples hold sums instead,
//! and list only the nodes that compute most and least. The layout and the number of types decide
//! that, so all nodes agree. The merge is associative: the result does not depend on the tree.
//!
//! # Failure
//!
//! If the job goes on without a lost node, the nodes below it report to the node above it. Nodes
//! learn of the loss one after the other; messages between nodes that are not yet, or no longer,
//! neighbours are dropped.
//!
//! # End
//!
//! A lease that is not renewed ends, and with it all sampling. A job that is not watched takes no
//! samples.

mod bounds;
mod lease;
mod merge;
mod reading;
mod sample;
mod tree;

pub(crate) use bounds::TelemetryBounds;
pub(crate) use lease::TelemetryMessage;
pub use lease::{SAMPLE_BYTES_MAX, TelemetryLease};
pub use reading::{LinkReading, NodeReading, NodeReadings, PeReading, TelemetryTime, TypeReading};
pub use sample::{
    LinkTelemetry, NodeTelemetry, OTHER_TYPES, PeTelemetry, SEVERAL_SITES, SiteTelemetry,
    TelemetryCounts, TelemetrySample, TypeTelemetry,
};
pub(crate) use tree::TelemetryTree;
