//! Errors of `gridctl bcast`.

use super::advice::NAME_A_GRID;
use thiserror::Error;

/// `gridctl bcast` cannot plan.
#[derive(Debug, Error)]
pub(crate) enum BcastCommandError {
    /// The flags name no grid to broadcast over.
    #[error("there is no grid to broadcast over")]
    NoGrid,
    /// The node that is to broadcast does not exist, or its name is ambiguous.
    #[error("`{}` does not name exactly one node of the grid", .name.escape_debug())]
    NoRoot {
        /// The name as written.
        name: String,
        /// The nodes of the grid, in short.
        nodes: String,
    },
    /// A grid has no node to broadcast to.
    #[error("the grid has a single node, so there is none to broadcast to")]
    Alone,
    /// A grid is too large to plan for.
    #[error("{nodes} nodes in {clusters} clusters are too many to plan a broadcast for")]
    TooLarge {
        /// Number of its nodes.
        nodes: usize,
        /// Number of its clusters.
        clusters: usize,
        /// Largest numbers of nodes and of clusters.
        limits: [usize; 2],
    },
}

impl BcastCommandError {
    /// Returns the next step.
    pub(super) fn hint(&self) -> String {
        match self {
            Self::NoGrid => NAME_A_GRID.into(),
            Self::NoRoot { nodes, .. } => format!("write a number or a host of {nodes}"),
            Self::Alone => "`--emulate 2x4` has two sites with four nodes each".into(),
            Self::TooLarge { limits: [nodes, clusters], .. } => format!(
                "plan for at most {nodes} nodes in {clusters} clusters; a site without clusters counts as one"
            ),
        }
    }
}
