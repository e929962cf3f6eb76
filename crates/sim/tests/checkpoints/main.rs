//! Jobs that continue from a checkpoint, on the same layout and on others, give the results of a
//! run without interruption.
#![allow(missing_docs, clippy::unwrap_used)]

mod groups;
mod pools;
mod questions;
mod reports;
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

/// All parts of the last complete checkpoint that any node knows.
pub(crate) fn gathered(stores: &[CheckpointStore], lost: Option<usize>) -> Option<Image> {
    let left = || stores.iter().enumerate().filter(|(node, _)| Some(*node) != lost);
    let known = left().filter_map(|(_, store)| store.last());
    let newest = known.max_by_key(|image| image.number())?;
    let mut all = Image::new(newest.manifest().clone()).unwrap();
    for (_, store) in left() {
        let image = store.image(newest.manifest()).unwrap();
        for part in image.parts() {
            for position in image.segments_of(part) {
                all.add(part, position, image.segment(part, position).unwrap().clone()).unwrap();
            }
        }
    }
    Some(all)
}

/// The grid without one node, and the numbers that the nodes of the grid have in it.
pub(crate) fn without(spec: &GridSpec, lost: u32) -> (GridSpec, Vec<Option<NodeId>>) {
    let left = spec.without(&[NodeId(lost)]).unwrap();
    let number = |node: NodeId| match node.0.cmp(&lost) {
        std::cmp::Ordering::Less => Some(node),
        std::cmp::Ordering::Equal => None,
        std::cmp::Ordering::Greater => Some(NodeId(node.0 - 1)),
    };
    (left, spec.layout().nodes().map(number).collect())
}
