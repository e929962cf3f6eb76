//! Messages of the leaders of sites to each other, and between them and the [`Top`](super::Top).

use crate::snapshot::speeds::Evidence;
use crate::snapshot::{ActorKey, ActorLoad, PeLoad};
use gridspan_topology::{Hierarchy, SiteId};
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// Measurements of the PEs of a site.
#[derive(Clone, Debug, PartialEq)]
pub struct SiteView {
    /// The site.
    pub site: SiteId,
    /// The measurements of its PEs, in order.
    pub pes: Vec<PeLoad>,
    /// The actors that live there, in any order.
    pub members: Vec<LeaderActor>,
    /// Messages that these actors have sent in the window, in any order.
    pub talks: Vec<SiteTalk>,
    /// Number of messages that the PEs have handled since the job began.
    pub handled: u64,
}

/// An actor as known by its site's leader.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct LeaderActor {
    /// Its measured load.
    pub load: ActorLoad,
    /// Number of its moves so far, which the plan states beside its next move.
    pub epoch: u32,
}

/// Messages that one actor has sent to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SiteTalk {
    /// The sender.
    pub from: ActorKey,
    /// The receiver.
    pub to: ActorKey,
    /// The site where the receiver lives according to the sender's site.
    pub at: SiteId,
    /// Number of messages.
    pub messages: u64,
    /// Total of their bytes.
    pub bytes: u64,
}

/// A message of a leader or of the top.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Note {
    /// From each leader to each other: the numbers of messages from its actors to the receiver's.
    Border(Border),
    /// From a leader to the top: the state of its PEs.
    Census(SiteReport),
    /// From the top to all leaders: the share of each PE.
    Terms(Box<Terms>),
    /// Between leaders that know actors of each other: the clusters of these actors.
    Numbers(ClusterNumbers),
    /// From a leader to the top: its part of the coarse graph.
    Part(Part),
    /// From the top to all leaders: the targets of clusters.
    Targets(Targets),
    /// From each leader to each other: the actors that should move to the receiver's site.
    Newcomers(Vec<Newcomer>),
    /// From a leader to the top: the work and traffic of its site.
    Outlook(Box<Outlook>),
    /// From a leader to the top, in place of a census: an actor that the last plan moved to the
    /// site or inside it cannot move now. So the last plan cannot be undone as a whole.
    HeldUp(SiteReport),
}

impl Note {
    /// Returns whether it is for the top.
    pub fn is_for_top(&self) -> bool {
        matches!(self, Self::Census(_) | Self::HeldUp(_) | Self::Part(_) | Self::Outlook(_))
    }

    /// Returns whether it is from the top.
    pub fn is_from_top(&self) -> bool {
        matches!(self, Self::Terms(_) | Self::Targets(_))
    }
}

/// Totals of the messages from one site to another, for each pair of actors. They name actors by
/// positions in the two lists.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Border {
    /// Actors of the sending site.
    pub(crate) ours: Vec<ActorKey>,
    /// Actors of the receiving site.
    pub(crate) yours: Vec<ActorKey>,
    /// Sender, receiver, messages, bytes.
    pub(crate) talks: Vec<(u32, u32, u64, u64)>,
}

/// State of the PEs of a site.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SiteReport {
    pub(crate) pes: Vec<PeLoad>,
    /// Time that the actors on each PE have used in the window.
    pub(crate) loads: Vec<Duration>,
    /// Number of steps in the window, estimated from the edges inside the site, and the number of
    /// these edges. Without any, the number of steps is estimated from the edges to other sites.
    pub(crate) rounds: (u64, u64),
    pub(crate) actors: u64,
    pub(crate) handled: u64,
    /// Comparison of the PEs that actors have left with their present PEs.
    pub(crate) evidence: Evidence,
}

/// Terms of the cut: the work that each PE should do.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Terms {
    /// All PEs of the job.
    pub(crate) pes: Vec<PeLoad>,
    /// Each PE's part of all work.
    pub(crate) shares: Vec<f64>,
    /// For each PE, the work that it should have done in the window, divided by the work that it
    /// did.
    pub(crate) pe_lag: Vec<f64>,
    /// All work, in nanoseconds on a PE of speed 1.
    pub(crate) total: f64,
    /// Number of steps in the window.
    pub(crate) steps: u64,
    pub(crate) hierarchy: Option<Hierarchy>,
    /// Maximum number of clusters of each leader.
    pub(crate) clusters: u32,
    /// Whether to undo the moves of the last plan instead of planning.
    pub(crate) is_undo: bool,
}

impl Terms {
    /// Returns the work of an actor's load, in nanoseconds on a PE of speed 1.
    pub(super) fn work(&self, load: &ActorLoad) -> u64 {
        let pe = load.pe.index();
        let speed = self.pes.get(pe).map_or(1.0, |pe| pe.speed);
        let pe_lag = self.pe_lag.get(pe).copied().unwrap_or(1.0);
        (load.load.as_nanos() as f64 * speed * pe_lag).round() as u64
    }
}

/// Cluster numbers of the sender's actors that the receiver knows by key: first those in the
/// [`Border`] from the site with the lower number, then those in the [`Border`] from the other
/// site. Each entry is a cluster number plus one, or 0 if the actor does not live at the sender's
/// site.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClusterNumbers {
    pub(crate) round: u32,
    pub(crate) numbers: Vec<u32>,
}

/// A site's part of the coarse graph.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Part {
    pub(crate) round: u32,
    pub(crate) vertices: Vec<CoarseVertex>,
    /// Edges between vertices of this site: both ends and the weight.
    pub(crate) edges: Vec<(u32, u32, u64)>,
    /// Edges for the messages that actors of this site send to other sites: vertex of this site,
    /// other site, vertex there, weight.
    pub(crate) crossing: Vec<(u32, u32, u32, u64)>,
    /// Whether each actor near the cut has been a separate vertex.
    pub(crate) is_finest: bool,
}

impl Part {
    /// Returns the round to which it belongs.
    pub fn round(&self) -> u32 {
        self.round
    }

    /// Returns the numbers of its vertices and edges.
    pub fn size(&self) -> (usize, usize) {
        (self.vertices.len(), self.edges.len() + self.crossing.len())
    }
}

/// Actors that are placed together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct CoarseVertex {
    /// Their work, in nanoseconds on a PE of speed 1.
    pub(crate) work: u64,
    /// Weight of staying at their site.
    pub(crate) pull: u64,
    /// Their target site from the round before.
    pub(crate) target: u32,
    /// Whether the target must not change.
    pub(crate) is_fixed: bool,
}

/// Target sites of clusters.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Targets {
    pub(crate) round: u32,
    /// The target of each vertex of each site.
    pub(crate) sites: Vec<Vec<u32>>,
    /// Whether no other round follows.
    pub(crate) is_last: bool,
}

/// An actor that should move to another site.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Newcomer {
    pub(crate) member: LeaderActor,
    pub(crate) talks: Vec<NewTalk>,
}

/// Messages between a newcomer and another actor. Messages between actors that will live at one
/// site are listed by their senders only.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct NewTalk {
    pub(crate) other: ActorKey,
    /// The site where the other actor should live.
    pub(crate) site: u32,
    /// Whether the newcomer is the sender.
    pub(crate) is_sent: bool,
    pub(crate) messages: u64,
    pub(crate) bytes: u64,
}

/// Work and traffic of a site with the present placement and after the plan.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Outlook {
    pub(crate) before: SiteDuty,
    pub(crate) after: SiteDuty,
    /// Number of moves that the leader of the site has planned.
    pub(crate) moves: u64,
    /// Bytes of state of the actors that move inside the site.
    pub(crate) bytes_inside: u64,
    /// Bytes of state of those that move between sites.
    pub(crate) bytes_between_sites: u64,
}

/// Work and traffic of a site.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct SiteDuty {
    /// For each PE, its work in the window in seconds on a PE of speed 1, and the number of
    /// messages to and from other PEs.
    pub(crate) pes: Vec<(f64, u64)>,
    /// Traffic between this site and others, in the order of the sites.
    pub(crate) toward: Vec<Toward>,
}

/// Traffic between a site and another.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Toward {
    pub(crate) site: u32,
    /// Number of messages sent to that site in the window.
    pub(crate) messages: u64,
    /// Total bytes of these messages.
    pub(crate) bytes: u64,
    /// Whether an actor sends to that site in at least every other step.
    pub(crate) sends: bool,
    /// Whether an actor receives from that site in at least every other step.
    pub(crate) receives: bool,
    /// The work per step of all border actors of a PE, in seconds on that PE: the maximum over the
    /// PEs that exchange messages with that site.
    pub(crate) waiting: f64,
    /// Maximum work per step of an actor that exchanges messages with that site, in seconds on its
    /// PE.
    pub(crate) end: f64,
}
