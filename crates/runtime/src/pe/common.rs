//! What all PEs of a job share.

use super::PlantedFault;
use super::balancing::Balancing;
use super::core::Kind;
use super::links::OnLinks;
use crate::collection::PlacementMap;
use crate::id::KindId;
use crate::limits::Limits;
use crate::reduce::CustomOp;
use crate::shelf::Shelf;
use gridspan_bcast::Tree;
use gridspan_topology::Layout;
use std::any::TypeId;
use std::collections::BTreeSet;
use std::sync::Arc;

/// A job's layout and definition.
#[derive(Clone)]
pub(crate) struct Common {
    pub(crate) layout: Arc<Layout>,
    /// The tree of nodes, rooted at the node of PE 0, over which collective operations run.
    pub(crate) tree: Arc<Tree>,
    pub(crate) kinds: Arc<[&'static dyn Kind]>,
    /// Those whose actors may sit on two PEs.
    pub(crate) pure: Arc<BTreeSet<KindId>>,
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

impl Common {
    /// The actor types with their numbers.
    pub(super) fn kinds(&self) -> impl Iterator<Item = (KindId, &'static dyn Kind)> {
        self.kinds.iter().enumerate().map(|(position, &kind)| (KindId(position as u16), kind))
    }

    #[inline]
    pub(super) fn is_pure(&self, kind: KindId) -> bool {
        !self.pure.is_empty() && self.pure.contains(&kind)
    }

    /// The number of an actor type, if it is part of the job.
    pub(super) fn kind_of(&self, actor: TypeId) -> Option<KindId> {
        self.kinds().find(|(_, kind)| kind.actor() == actor).map(|(id, _)| id)
    }
}
