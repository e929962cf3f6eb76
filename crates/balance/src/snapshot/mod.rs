//! The input of a strategy: loads, messages and PEs of one measured window.

pub use crate::snapshot::actor::{ActorKey, ActorLoad, HandlingTime, Replica};
use gridspan_topology::{Bandwidth, Hierarchy, Latency, Layout, NodeId, PeId, SiteId};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use thiserror::Error;

/// The object graph of a job and the PEs on which it runs. Other tools can store and read it; a
/// snapshot that was read should pass [`Snapshot::validate`] before a strategy receives it.
///
/// ```
/// use gridspan_balance::{ActorKey, ActorLoad, Edge, PeLoad, Snapshot};
/// use gridspan_topology::{Layout, PeId};
/// use std::time::Duration;
///
/// // Four actors, all on the first of two PEs.
/// let key = |index| ActorKey { collection: 0, index };
/// let load = Duration::from_millis(100);
/// let actors = (0..4).map(|index| ActorLoad::new(key(index), PeId(0), load));
/// let edges = vec![Edge { from: 0, to: 1, messages: 10, bytes: 640 }];
/// let pes = vec![PeLoad::default(); 2];
/// let snapshot = Snapshot::new(actors.collect(), edges, pes, Layout::single(2));
/// assert_eq!(snapshot.validate(), Ok(()));
/// assert_eq!(snapshot.load_per_pe(), [Duration::from_millis(400), Duration::ZERO]);
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Snapshot {
    /// The version of this format: [`Snapshot::VERSION`].
    pub version: u32,
    /// All actors, in the same order on every run: strategies break ties by this order.
    pub actors: Vec<ActorLoad>,
    /// The messages between actors; at most one edge from one actor to another.
    pub edges: Vec<Edge>,
    /// All PEs by number.
    pub pes: Vec<PeLoad>,
    /// The nodes and sites of the PEs.
    pub layout: Layout,
    /// Number of steps in the window; loads and messages are totals of all steps. 0 and 1 mean that
    /// the window is one step.
    #[serde(default)]
    pub steps: u64,
    /// Whether PEs handle messages of older steps first. Once a plan has named the actors for which
    /// another site waits, messages to these come first within a step.
    #[serde(default)]
    pub has_step_order: bool,
    /// Distances of nodes, with any number of levels. Without it, strategies use the sites of the
    /// layout.
    #[serde(default)]
    pub hierarchy: Option<Hierarchy>,
    /// Known links between sites. A pair that is not listed has the latency of the hierarchy, or
    /// none if the hierarchy does not contain it, and unlimited bandwidth.
    #[serde(default)]
    pub links: Vec<SiteLink>,
    /// Actors that may have a replica, as positions in [`Snapshot::actors`], ascending.
    #[serde(default, alias = "pure")]
    pub deterministic: Vec<u32>,
    /// The replicas, ascending by actor. Loads are those of primaries; edges from an actor count
    /// the messages of its primary and of its replica.
    #[serde(default, alias = "twins")]
    pub replicas: Vec<Replica>,
}

/// A link from one site to another.
///
/// ```
/// use gridspan_balance::SiteLink;
/// use gridspan_topology::{Bandwidth, Latency, SiteId};
///
/// let (from, to) = (SiteId(0), SiteId(1));
/// let bandwidth = Bandwidth::from_bits_per_second(100_000_000);
/// let link = SiteLink::new(from, to, Latency::from_millis(32), bandwidth);
/// assert_eq!(link.latency, Latency::from_millis(32));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct SiteLink {
    /// The site that sends.
    pub from: SiteId,
    /// The site that receives.
    pub to: SiteId,
    /// Latency in one direction.
    pub latency: Latency,
    /// Total bandwidth from the one site to the other.
    pub bandwidth: Bandwidth,
}

impl SiteLink {
    /// Creates a link of this latency in one direction, and of this total bandwidth.
    pub fn new(from: SiteId, to: SiteId, latency: Latency, bandwidth: Bandwidth) -> Self {
        Self { from, to, latency, bandwidth }
    }

    /// Returns the links by their sites. The first counts if there are several between two sites.
    pub(crate) fn by_sites(links: &[Self]) -> LinksBySites<'_> {
        let mut by_sites = LinksBySites::new();
        for link in links {
            by_sites.entry((link.from, link.to)).or_insert(link);
        }
        by_sites
    }
}

/// Links by the sites that send and receive.
pub(crate) type LinksBySites<'a> = BTreeMap<(SiteId, SiteId), &'a SiteLink>;

/// The messages from one actor to another in the measured window.
///
/// ```
/// use gridspan_balance::Edge;
///
/// // The first actor of the snapshot has sent ten messages to the third.
/// let edge = Edge { from: 0, to: 2, messages: 10, bytes: 640 };
/// assert_eq!(edge.bytes / edge.messages, 64);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Edge {
    /// The sender as a position in [`Snapshot::actors`].
    pub from: u32,
    /// The receiver as a position in [`Snapshot::actors`].
    pub to: u32,
    /// Number of messages.
    pub messages: u64,
    /// Total of their bytes.
    pub bytes: u64,
}

/// One PE in the measured window.
///
/// ```
/// use gridspan_balance::PeLoad;
///
/// // Another program takes half of a processor of twice the ordinary speed.
/// let mut shared = PeLoad::new(2.0);
/// shared.available = 0.5;
/// assert_eq!(shared.effective_speed(), 1.0);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct PeLoad {
    /// Speed when it has a processor, where 1.0 is an ordinary PE; above zero.
    pub speed: f64,
    /// Part of a processor that it last got when it wanted one, above zero and at most 1.0. It is
    /// less than 1.0 where other processes compete with it, since schedulers share fairly.
    #[serde(default = "whole")]
    pub available: f64,
    /// Time spent on work that cannot be moved, other users' work included.
    pub background: Duration,
    /// Time for which it was idle.
    #[serde(default)]
    pub idle: Duration,
    /// Time spent on sending and receiving, which is part of neither loads nor background.
    #[serde(default)]
    pub communication: Duration,
}

impl PeLoad {
    /// Creates a PE of this speed that has a whole processor, and was never idle.
    pub fn new(speed: f64) -> Self {
        Self {
            speed,
            available: whole(),
            background: Duration::ZERO,
            idle: Duration::ZERO,
            communication: Duration::ZERO,
        }
    }

    /// Returns the speed with the part of a processor that it gets.
    pub fn effective_speed(&self) -> f64 {
        self.speed * self.available
    }
}

const fn whole() -> f64 {
    1.0
}

impl Default for PeLoad {
    /// An ordinary PE without background.
    fn default() -> Self {
        Self::new(1.0)
    }
}

/// Why a snapshot is inconsistent. Nothing was changed; measure it again or correct the entry
/// named.
#[derive(Clone, Copy, Debug, PartialEq, Error)]
#[non_exhaustive]
pub enum SnapshotError {
    /// The format has another version.
    #[error("the snapshot has version {found}; this program reads version {}", Snapshot::VERSION)]
    Version {
        /// The version of the snapshot.
        found: u32,
    },
    /// A node of the layout is missing in the hierarchy.
    #[error("{node} is not in the hierarchy; leave the hierarchy out or list every node")]
    NotInHierarchy {
        /// The node.
        node: NodeId,
    },
    /// A link has an end at a site that does not exist.
    #[error(
        "there is a link from {from} to {to}, but only {sites} sites; write sites of the layout"
    )]
    NoSuchSite {
        /// The site that sends.
        from: SiteId,
        /// The site that receives.
        to: SiteId,
        /// Number of sites.
        sites: u32,
    },
    /// The list of PEs and the layout differ in length.
    #[error("there are {pes} PEs in the list and {layout} in the layout; list each PE once")]
    PeCount {
        /// Number of PEs listed.
        pes: usize,
        /// Number of PEs in the layout.
        layout: u32,
    },
    /// A speed that is not above zero or not finite.
    #[error("{pe} has speed {speed}; write a number above zero, such as 1")]
    Speed {
        /// The PE.
        pe: PeId,
        /// The value refused.
        speed: f64,
    },
    /// A part of a processor that is not above zero and at most 1.
    #[error("{pe} gets {available} of a processor; write a number above zero and at most 1")]
    Available {
        /// The PE.
        pe: PeId,
        /// The value refused.
        available: f64,
    },
    /// An actor lives on a PE that does not exist.
    #[error("{actor} lives on {pe}, which does not exist; write a PE of the layout")]
    NoSuchPe {
        /// The actor.
        actor: ActorKey,
        /// The PE refused.
        pe: PeId,
    },
    /// Two entries describe one actor.
    #[error("{actor} is listed twice; remove one entry")]
    ActorTwice {
        /// The actor.
        actor: ActorKey,
    },
    /// A replica belongs to an actor that does not exist, or to one that has another replica, or is
    /// on a PE that does not exist; replicas are in another order than that of their actors; or a
    /// deterministic actor does not exist.
    #[error(
        "replicas do not fit: {what}; name actors and PEs of the snapshot, each actor once, ascending"
    )]
    Replicas {
        /// What is wrong.
        what: &'static str,
    },
    /// An edge begins or ends at an actor that does not exist.
    #[error(
        "edge {edge} leads from {from} to {to}; write positions in the list of {actors} actors"
    )]
    NoSuchActor {
        /// Position of the edge.
        edge: usize,
        /// Position of its sender.
        from: u32,
        /// Position of its receiver.
        to: u32,
        /// Number of actors.
        actors: usize,
    },
}

impl Snapshot {
    /// The version of the format that this program writes and reads.
    pub const VERSION: u32 = 1;

    /// Creates a snapshot of one step without hierarchy, links or replicas.
    pub fn new(actors: Vec<ActorLoad>, edges: Vec<Edge>, pes: Vec<PeLoad>, layout: Layout) -> Self {
        let version = Self::VERSION;
        Self {
            version,
            actors,
            edges,
            pes,
            layout,
            steps: 1,
            has_step_order: false,
            hierarchy: None,
            links: Vec::new(),
            deterministic: Vec::new(),
            replicas: Vec::new(),
        }
    }

    /// Checks that the parts of the snapshot fit together. Fails at the first part that does not.
    pub fn validate(&self) -> Result<(), SnapshotError> {
        if self.version != Self::VERSION {
            return Err(SnapshotError::Version { found: self.version });
        }
        self.validate_places()?;
        let layout = self.layout.pe_count();
        if self.pes.len() != layout as usize {
            return Err(SnapshotError::PeCount { pes: self.pes.len(), layout });
        }
        for (pe, load) in self.layout.pes().zip(&self.pes) {
            if !(load.speed > 0.0 && load.speed.is_finite()) {
                return Err(SnapshotError::Speed { pe, speed: load.speed });
            }
            if !(load.available > 0.0 && load.available <= 1.0) {
                return Err(SnapshotError::Available { pe, available: load.available });
            }
        }
        let mut seen = BTreeSet::new();
        for actor in &self.actors {
            if !self.layout.contains(actor.pe) {
                return Err(SnapshotError::NoSuchPe { actor: actor.id, pe: actor.pe });
            }
            if !seen.insert(actor.id) {
                return Err(SnapshotError::ActorTwice { actor: actor.id });
            }
        }
        let actors = self.actors.len();
        for (edge, &Edge { from, to, .. }) in self.edges.iter().enumerate() {
            if from.max(to) as usize >= actors {
                return Err(SnapshotError::NoSuchActor { edge, from, to, actors });
            }
        }
        self.validate_replicas(&seen)
    }

    fn validate_replicas(&self, known: &BTreeSet<ActorKey>) -> Result<(), SnapshotError> {
        let refuse = |what| Err(SnapshotError::Replicas { what });
        let mut seen = BTreeSet::new();
        if self.deterministic.iter().any(|&at| at as usize >= self.actors.len()) {
            return refuse("a deterministic actor is not in the list");
        }
        // Strategies look replicas up by a binary search.
        if !self.replicas.is_sorted_by_key(|replica| replica.actor) {
            return refuse("the replicas are not in the order of their actors");
        }
        for replica in &self.replicas {
            if !known.contains(&replica.actor) || !seen.insert(replica.actor) {
                return refuse("the actor of a replica is not in the list, or has two");
            }
            if !self.layout.contains(replica.at) {
                return refuse("the PE of a replica does not exist");
            }
        }
        Ok(())
    }

    fn validate_places(&self) -> Result<(), SnapshotError> {
        if let Some(hierarchy) = &self.hierarchy
            && let Some(node) = self.layout.nodes().find(|&node| !hierarchy.contains(node))
        {
            return Err(SnapshotError::NotInHierarchy { node });
        }
        let sites = self.layout.site_count();
        match self.links.iter().find(|link| link.from.max(link.to).0 >= sites) {
            Some(&SiteLink { from, to, .. }) => Err(SnapshotError::NoSuchSite { from, to, sites }),
            None => Ok(()),
        }
    }

    /// Returns whether a plan could change anything now: an actor can move, or may have a replica.
    pub fn may_change(&self) -> bool {
        let may_replicate = !self.deterministic.is_empty() || !self.replicas.is_empty();
        may_replicate || self.actors.iter().any(|actor| actor.migratable)
    }

    /// Returns the number of steps of the loads and messages: at least one.
    pub fn step_count(&self) -> u64 {
        self.steps.max(1)
    }

    /// Returns the CPU time of the actors on each PE, by number, without background.
    pub fn load_per_pe(&self) -> Vec<Duration> {
        let mut loads = vec![Duration::ZERO; self.pes.len()];
        for actor in &self.actors {
            let load = &mut loads[actor.pe.index()];
            *load = load.saturating_add(actor.load);
        }
        loads
    }

    /// Returns the edges between different sites.
    pub fn wide_area_edges(&self) -> impl Iterator<Item = &Edge> {
        let site = |actor: u32| self.layout.site_of(self.actors[actor as usize].pe);
        self.edges.iter().filter(move |edge| site(edge.from) != site(edge.to))
    }
}

pub(crate) mod actor;
pub(crate) mod objects;
pub(crate) mod rounds;
pub(crate) mod speeds;
#[cfg(test)]
mod tests;
pub(crate) mod vt;
