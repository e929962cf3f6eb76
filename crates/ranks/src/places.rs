//! Where the ranks of the world live, as of their last migration point.

use crate::tree::CommTree;
use gridspan_runtime::{Layout, Numbers, PeId};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};

/// Largest number of trees that a communicator keeps: one for each root of an operation.
const TREES_MAX: usize = 64;

/// The PE and site of each rank of the world. All ranks of a process share one table.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct Places {
    pes: Numbers<u32>,
    sites: Numbers<u32>,
    site_names: Vec<String>,
    #[serde(skip)]
    trees: Trees,
    #[serde(skip)]
    members: SharedMembers,
}

impl Places {
    /// The table for ranks that live on these PEs.
    pub(crate) fn new(pes: &[u64], layout: &Layout) -> Self {
        let pes: Vec<u32> = pes.iter().map(|pe| *pe as u32).collect();
        let sites: Vec<u32> = pes.iter().map(|pe| layout.site_of(PeId(*pe)).0).collect();
        let site_names = layout.sites().map(|site| layout.site_name(site).to_owned()).collect();
        Self { pes: pes.into(), sites: sites.into(), site_names, ..Self::default() }
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

    /// The parts of the world that communicators of this process use.
    pub(crate) fn members(&self) -> &SharedMembers {
        &self.members
    }

    /// Trees over the whole world.
    pub(crate) fn trees(&self) -> &Trees {
        &self.trees
    }
}

/// The ranks of a communicator that is a part of the world.
#[derive(Debug)]
pub(crate) struct Members {
    /// The ranks of the world, in the order of the communicator.
    pub(crate) ranks: Vec<u32>,
    /// The ranks of the communicator by those of the world.
    pub(crate) positions: BTreeMap<u32, u32>,
    pub(crate) trees: Trees,
}

/// The parts of the world that communicators use. The ranks of a process that belong to one
/// communicator share its members, of which each rank would else hold a list.
#[derive(Debug, Default)]
pub(crate) struct SharedMembers(Mutex<BTreeMap<(u32, u32), Weak<Members>>>);

impl SharedMembers {
    /// Returns the members of the communicator of this number with these ranks of the world. They
    /// are made if no rank of the process has them.
    pub(crate) fn of(&self, number: u32, ranks: Vec<u32>) -> Arc<Members> {
        let mut shared = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // Communicators without common ranks may have one number.
        let key = (number, ranks.first().copied().unwrap_or_default());
        let known = shared.get(&key).and_then(Weak::upgrade);
        if let Some(known) = known.filter(|known| known.ranks == ranks) {
            return known;
        }
        shared.retain(|_, members| members.strong_count() > 0);
        let positions = ranks.iter().enumerate().map(|(at, rank)| (*rank, at as u32)).collect();
        let made = Arc::new(Members { ranks, positions, trees: Trees::default() });
        shared.insert(key, Arc::downgrade(&made));
        made
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
