//! What all PEs of a job share. The actor types, `K`, are known above.

use super::PlantedFault;
use super::balancing::Balancing;
use super::links::OnLinks;
use crate::collection::PlacementMap;
use crate::limits::Limits;
use crate::reduce::CustomOp;
use crate::shelf::Shelf;
use gridspan_bcast::Tree;
use gridspan_topology::Layout;
use std::sync::Arc;

/// A job's layout and definition.
#[derive(Clone)]
pub(crate) struct Common<K> {
    pub(crate) layout: Arc<Layout>,
    /// The tree of nodes, rooted at the node of PE 0, over which collective operations run.
    pub(crate) tree: Arc<Tree>,
    pub(crate) kinds: K,
    pub(crate) maps: Arc<[PlacementMap]>,
    pub(crate) reducers: Arc<[CustomOp]>,
    pub(crate) limits: Limits,
    pub(crate) balancing: Balancing,
    /// Whether announcements take other trees than that.
    pub(crate) plans_broadcasts: bool,
    /// By which policy nodes find tasks.
    pub(crate) stealing: Arc<str>,
    pub(crate) seed: u64,
    pub(crate) fingerprint: u64,
    pub(crate) fault: PlantedFault,
    pub(crate) on_links: Option<OnLinks>,
    /// What actors of one node share.
    pub(crate) shelf: Arc<Shelf>,
}
