//! Where the ranks of the job live, as of their last migration point.

use crate::name_server::PlacedRanks;
use crate::sharing::Sharing;
use crate::site_links::SiteLinks;
use crate::tree::CommTree;
use gridspan_runtime::{Layout, Numbers, PeId};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};

/// Largest number of trees that a communicator keeps: one for each root of an operation.
const TREES_MAX: usize = 64;

/// The PE and site of each rank. All ranks of a process that began a run together share one table.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct Places {
    /// The PEs of the ranks that existed at the migration point.
    pes: Numbers<u32>,
    sites: Numbers<u32>,
    site_names: Vec<String>,
    links: SiteLinks,
    #[serde(skip)]
    learned: Mutex<Learned>,
    #[serde(skip)]
    trees: Trees,
    #[serde(skip)]
    members: SharedMembers,
}

impl Places {
    /// The table for ranks that live on these PEs, and the links of the job.
    pub(crate) fn new(pes: &[u64], layout: &Layout, links: SiteLinks) -> Self {
        let pes: Vec<u32> = pes.iter().map(|pe| *pe as u32).collect();
        let sites: Vec<u32> = pes.iter().map(|pe| layout.site_of(PeId(*pe)).0).collect();
        let site_names = layout.sites().map(|site| layout.site_name(site).to_owned()).collect();
        Self { pes: pes.into(), sites: sites.into(), site_names, links, ..Self::default() }
    }

    /// Number of ranks at the migration point.
    pub(crate) fn len(&self) -> u32 {
        self.pes.len() as u32
    }

    /// The site and the PE of a rank of the job; zeros if they are not known.
    pub(crate) fn of(&self, rank: u32) -> (u32, u32) {
        self.find(rank).unwrap_or_default()
    }

    /// The site and the PE of a rank; `None` if no rank of this process knows them.
    pub(crate) fn find(&self, rank: u32) -> Option<(u32, u32)> {
        let at = rank as usize;
        match (self.sites.get(at), self.pes.get(at)) {
            (Some(site), Some(pe)) => Some((*site, *pe)),
            _ => {
                let learned = self.learned.lock().unwrap_or_else(PoisonError::into_inner);
                learned.places.get(&rank).copied()
            }
        }
    }

    /// Adds ranks that did not exist at the migration point: the groups in answer `number` of the
    /// name server.
    pub(crate) fn learn(&self, number: u32, groups: &[&PlacedRanks]) {
        let mut learned = self.learned.lock().unwrap_or_else(PoisonError::into_inner);
        if learned.numbers.insert(number) {
            for group in groups {
                let places = group.ranks.iter().zip(&group.places);
                learned.places.extend(places.map(|(rank, place)| (*rank, *place)));
            }
        }
    }

    /// The name of a site.
    pub(crate) fn site_name(&self, site: u32) -> &str {
        self.site_names.get(site as usize).map_or("", String::as_str)
    }

    /// The links of the job.
    pub(crate) fn links(&self) -> &SiteLinks {
        &self.links
    }

    /// The members of communicators of this process.
    pub(crate) fn members(&self) -> &SharedMembers {
        &self.members
    }

    /// Trees over all ranks of the table.
    pub(crate) fn trees(&self) -> &Trees {
        &self.trees
    }
}

/// Places that ranks of a process have learned from the name server.
#[derive(Debug, Default)]
struct Learned {
    /// The numbers of the answers.
    numbers: BTreeSet<u32>,
    places: BTreeMap<u32, (u32, u32)>,
}

/// The ranks of a communicator that does not have all ranks of the table.
#[derive(Debug)]
pub(crate) struct Members {
    /// The numbers of the ranks in the job, in the order of the communicator.
    pub(crate) ranks: Vec<u32>,
    /// The position of each of these ranks in the communicator, by its number in the job.
    pub(crate) positions: BTreeMap<u32, u32>,
    pub(crate) trees: Trees,
}

/// The members of communicators. The ranks of a process that belong to one communicator share one
/// list of its members.
#[derive(Debug, Default)]
pub(crate) struct SharedMembers(Mutex<BTreeMap<(u32, u32), Weak<Members>>>);

impl SharedMembers {
    /// Returns the members of the communicator of this number with these ranks of the job. Creates
    /// them if no rank of the process has them.
    pub(crate) fn of(&self, number: u32, ranks: Vec<u32>) -> Arc<Members> {
        let mut shared = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // Communicators without common ranks may have the same number.
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

/// The trees of one communicator, by root, and the choice among its allreduce algorithms. They are
/// kept, because making one takes time in proportion to the number of ranks.
#[derive(Debug, Default)]
pub(crate) struct Trees {
    by_root: Mutex<BTreeMap<u32, Arc<CommTree>>>,
    sharing: OnceLock<Arc<Sharing>>,
}

impl Trees {
    /// Returns the tree with this root, over ranks at these places.
    pub(crate) fn of(&self, root: u32, places: impl FnOnce() -> Vec<(u32, u32)>) -> Arc<CommTree> {
        let mut trees = self.by_root.lock().unwrap_or_else(PoisonError::into_inner);
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

    /// Returns the choice among allreduce algorithms for ranks at these places.
    pub(crate) fn sharing(
        &self,
        places: impl FnOnce() -> Vec<(u32, u32)>,
        links: &SiteLinks,
    ) -> Arc<Sharing> {
        self.sharing.get_or_init(|| Arc::new(Sharing::new(&places(), links))).clone()
    }
}
