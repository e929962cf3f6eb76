//! Where the ranks of the world live, as of their last migration point.

use crate::tree::CommTree;
use gridspan_runtime::{Layout, Numbers, PeId};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

/// Largest number of trees of the world that are kept: one for each root of an operation.
const TREES_MAX: usize = 64;

/// The PE and site of each rank of the world. All ranks of a process share one table.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct Places {
    pes: Numbers<u32>,
    sites: Numbers<u32>,
    site_names: Vec<String>,
    #[serde(skip)]
    trees: Trees,
}

impl Places {
    /// The table for ranks that live on these PEs.
    pub(crate) fn new(pes: &[u64], layout: &Layout) -> Self {
        let pes: Vec<u32> = pes.iter().map(|pe| *pe as u32).collect();
        let sites: Vec<u32> = pes.iter().map(|pe| layout.site_of(PeId(*pe)).0).collect();
        let site_names = layout.sites().map(|site| layout.site_name(site).to_owned()).collect();
        Self { pes: pes.into(), sites: sites.into(), site_names, trees: Trees::default() }
    }

    /// Number of ranks.
    pub(crate) fn len(&self) -> u32 {
        self.pes.len() as u32
    }

    /// The site and the PE of a rank.
    pub(crate) fn of(&self, rank: u32) -> (u32, u32) {
        let at = |table: &Numbers<u32>| table.get(rank as usize).copied().unwrap_or_default();
        (at(&self.sites), at(&self.pes))
    }

    /// The name of a site.
    pub(crate) fn site_name(&self, site: u32) -> &str {
        self.site_names.get(site as usize).map_or("", String::as_str)
    }

    /// Trees over the whole world.
    pub(crate) fn trees(&self) -> &Trees {
        &self.trees
    }
}

/// The trees of one communicator, by root. Making one takes time in proportion to the number of
/// ranks, so they are kept.
#[derive(Debug, Default)]
pub(crate) struct Trees(Mutex<BTreeMap<u32, Arc<CommTree>>>);

impl Trees {
    /// Returns the tree with this root, over ranks at these places.
    pub(crate) fn of(&self, root: u32, places: impl FnOnce() -> Vec<(u32, u32)>) -> Arc<CommTree> {
        let mut trees = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(tree) = trees.get(&root) {
            return tree.clone();
        }
        if trees.len() >= TREES_MAX {
            // The tree of root 0 serves most operations.
            trees.retain(|root, _| *root == 0);
        }
        let tree = Arc::new(CommTree::new(&places(), root));
        trees.insert(root, tree.clone());
        tree
    }
}
