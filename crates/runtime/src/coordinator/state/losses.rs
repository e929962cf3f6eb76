//! State of lost founders. The coordinator does not move once there is one, so this state does not
//! move either.

use crate::error::JobError;
use gridspan_topology::NodeId;
use std::collections::{BTreeMap, BTreeSet};

/// The founders that are lost.
#[derive(Default)]
pub(crate) struct Losses {
    /// Those for which the coordinator has not decided whether the job goes on without them.
    pub(crate) suspended: BTreeMap<NodeId, Suspended>,
    /// Those without which the job goes on, with the errors for the case that it needs them.
    pub(crate) tolerated: BTreeMap<NodeId, JobError>,
}

/// A lost founder. The coordinator asks all other founders whether the job needs it.
pub(crate) struct Suspended {
    /// The error for the case that the job needs it.
    pub(crate) error: JobError,
    /// The nodes that have not answered.
    pub(crate) awaited: BTreeSet<NodeId>,
}

impl Losses {
    /// All lost founders.
    pub(crate) fn all(&self) -> impl Iterator<Item = NodeId> {
        self.suspended.keys().chain(self.tolerated.keys()).copied()
    }

    /// Whether any founder is lost.
    pub(crate) fn is_any(&self) -> bool {
        !self.suspended.is_empty() || !self.tolerated.is_empty()
    }

    /// Whether `node` is a lost founder.
    pub(crate) fn contains(&self, node: NodeId) -> bool {
        self.error(node).is_some()
    }

    /// The error for the case that the job needs a lost founder.
    pub(crate) fn error(&self, node: NodeId) -> Option<&JobError> {
        let suspended = self.suspended.get(&node).map(|it| &it.error);
        suspended.or_else(|| self.tolerated.get(&node))
    }
}
