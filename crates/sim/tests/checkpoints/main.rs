//! Jobs that continue from a checkpoint, on the same layout and on others, give the results of a
//! run without interruption.
#![allow(missing_docs, clippy::unwrap_used)]

mod copies;
mod groups;
mod kept;
mod pools;
mod questions;
mod reports;
mod results;
mod sections;
mod speeds;
mod stops;
mod versions;
mod waits;
mod walkers;

use gridspan_runtime::{CheckpointEvery, CheckpointStore, Checkpoints, Image, NodeId};
use gridspan_topology::GridSpec;

pub(crate) fn grid(text: &str) -> GridSpec {
    GridSpec::from_emulate(text).unwrap()
}

pub(crate) fn every(points: u64) -> Checkpoints {
    Checkpoints::every(CheckpointEvery::Points(points))
}

/// The last complete checkpoint of the nodes other than `lost`.
pub(crate) fn gathered(stores: &[CheckpointStore], lost: usize) -> Option<Image> {
    let left = stores.iter().enumerate().filter(|(node, _)| *node != lost);
    Image::gathered(left.map(|(_, store)| store)).unwrap()
}

/// The grid without one node, and the number of each node of the old grid in the new one.
pub(crate) fn without(spec: &GridSpec, lost: u32) -> (GridSpec, Vec<Option<NodeId>>) {
    let left = spec.without(&[NodeId(lost)]).unwrap();
    let number = |node: NodeId| match node.0.cmp(&lost) {
        std::cmp::Ordering::Less => Some(node),
        std::cmp::Ordering::Equal => None,
        std::cmp::Ordering::Greater => Some(NodeId(node.0 - 1)),
    };
    (left, spec.layout().nodes().map(number).collect())
}
