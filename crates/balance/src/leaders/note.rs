//! What leaders and the top tell each other.

use crate::snapshot::speeds::Evidence;
use crate::snapshot::{ActorKey, ActorLoad, PeLoad};
use gridspan_topology::{Hierarchy, SiteId};
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// What the PEs of a site have measured.
#[derive(Clone, Debug, PartialEq)]
pub struct SiteView {
    /// Which site.
    pub site: SiteId,
    /// Its PEs, in order.
    pub pes: Vec<PeLoad>,
    /// The actors that live there, in any order.
    pub members: Vec<LeaderActor>,
    /// What these have sent, in any order.
    pub talks: Vec<SiteTalk>,
    /// How many messages the PEs have handled since the job began.
    pub handled: u64,
}

/// An actor as its site's leader knows it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct LeaderActor {
    /// What was measured.
    pub load: ActorLoad,
    /// How often it has moved; comes back with its next move.
    pub epoch: u32,
}

/// What one actor has sent to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SiteTalk {
    /// Who has sent.
    pub from: ActorKey,
    /// Who has received.
    pub to: ActorKey,
    /// The site where the receiver is believed to live.
    pub at: SiteId,
    /// How many messages.
    pub messages: u64,
    /// How many bytes they had together.
    pub bytes: u64,
}

/// What one of them tells another.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Note {
    /// From each leader to each other: who talks to whom from here to there.
    Border(Border),
    /// From a leader to the top: how its PEs are.
    Census(SiteReport),
    /// From the top to all leaders: what each PE should do.
    Terms(Box<Terms>),
    /// Between leaders that know actors of each other: the clusters of these.
    Numbers(ClusterNumbers),
    /// From a leader to the top: its part of the coarse graph.
    Part(Part),
    /// From the top to all leaders: where clusters should go.
    Targets(Targets),
    /// From each leader to each other: who should come to its site.
    Newcomers(Vec<Newcomer>),
    /// From a leader to the top: what its site would have to do.
    Outlook(Box<Outlook>),
}

impl Note {
    /// Whether it is for the top.
    pub fn is_for_top(&self) -> bool {
        matches!(self, Self::Census(_) | Self::Part(_) | Self::Outlook(_))
    }

    /// Whether it is from the top.
    pub fn is_from_top(&self) -> bool {
        matches!(self, Self::Terms(_) | Self::Targets(_))
    }
}

/// Who talks to whom from one site to another. Talks name actors by their positions in the two
/// lists.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Border {
    /// Actors of the site that tells.
    pub(crate) ours: Vec<ActorKey>,
    /// Actors of the site that is told.
    pub(crate) yours: Vec<ActorKey>,
    /// Sender, receiver, messages, bytes.
    pub(crate) talks: Vec<(u32, u32, u64, u64)>,
}

/// How the PEs of a site are.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SiteReport {
    pub(crate) pes: Vec<PeLoad>,
    /// What the actors on each PE have used.
    pub(crate) loads: Vec<Duration>,
    /// How many steps the window had by the site's own edges, and how many edges say so.
    pub(crate) rounds: (u64, u64),
    pub(crate) actors: u64,
    pub(crate) handled: u64,
    /// How its newcomers compare the PEs that they come from with those where they are.
    pub(crate) evidence: Evidence,
}

/// What each PE should do.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Terms {
    /// All PEs of the job.
    pub(crate) pes: Vec<PeLoad>,
    /// Each PE's part of all work.
    pub(crate) shares: Vec<f64>,
    /// By how much more than it did each PE should have done.
    pub(crate) pe_lag: Vec<f64>,
    /// All work, in nanoseconds of an ordinary PE.
    pub(crate) total: f64,
    /// How many steps the window had.
    pub(crate) steps: u64,
    /// What is near what, if that is known.
    pub(crate) hierarchy: Option<Hierarchy>,
    /// How many clusters each leader may have.
    pub(crate) clusters: u32,
    /// Take back what the last plan has moved, instead of planning.
    pub(crate) is_undo: bool,
}

impl Terms {
    /// The work that an actor's load is, in nanoseconds of an ordinary PE.
    pub(super) fn work(&self, load: &ActorLoad) -> u64 {
        let pe = load.pe.index();
        let speed = self.pes.get(pe).map_or(1.0, |pe| pe.speed);
        let pe_lag = self.pe_lag.get(pe).copied().unwrap_or(1.0);
        (load.load.as_nanos() as f64 * speed * pe_lag).round() as u64
    }
}

/// The clusters of actors that two leaders know by name, in the order in which they came to be
/// known: one more than the number, 0 for those that are not known.
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
    /// Between own vertices: both ends and the weight.
    pub(crate) edges: Vec<(u32, u32, u64)>,
    /// To vertices of others, by senders here: own vertex, site, its vertex, weight.
    pub(crate) crossing: Vec<(u32, u32, u32, u64)>,
    /// Whether all who are near the cut have been vertices of their own.
    pub(crate) is_finest: bool,
}

impl Part {
    /// Which round it is for.
    pub fn round(&self) -> u32 {
        self.round
    }

    /// How many vertices and edges it has.
    pub fn size(&self) -> (usize, usize) {
        (self.vertices.len(), self.edges.len() + self.crossing.len())
    }
}

/// Actors that are placed together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct CoarseVertex {
    /// Their work, in nanoseconds of an ordinary PE.
    pub(crate) work: u64,
    /// What it is worth that they stay at their site.
    pub(crate) pull: u64,
    /// The site where they should go by the round before.
    pub(crate) target: u32,
    /// Whether that must not change.
    pub(crate) is_fixed: bool,
}

/// Where clusters should go.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Targets {
    pub(crate) round: u32,
    /// The target of each vertex of each site.
    pub(crate) sites: Vec<Vec<u32>>,
    /// Whether another round follows.
    pub(crate) is_last: bool,
}

/// An actor that should come to another site.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Newcomer {
    pub(crate) member: LeaderActor,
    pub(crate) talks: Vec<NewTalk>,
}

/// A talk of a newcomer. What it has received from actors that will live with it is told by these.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct NewTalk {
    pub(crate) other: ActorKey,
    /// The site where the other should live.
    pub(crate) site: u32,
    /// Whether the newcomer is the sender.
    pub(crate) is_sent: bool,
    pub(crate) messages: u64,
    pub(crate) bytes: u64,
}

/// What a site has to do as things are, and would have to.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Outlook {
    pub(crate) before: SiteDuty,
    pub(crate) after: SiteDuty,
    /// Actors that would move to PEs of the site, and their bytes by whether they come from another
    /// site.
    pub(crate) moves: u64,
    pub(crate) bytes_inside: u64,
    pub(crate) bytes_between_sites: u64,
}

/// What a site has to do in a window.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct SiteDuty {
    /// Of each PE: seconds of work of an ordinary PE, and messages to and from other PEs.
    pub(crate) pes: Vec<(f64, u64)>,
    /// What is between this site and others, by site.
    pub(crate) toward: Vec<Toward>,
}

/// What is between a site and another.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Toward {
    pub(crate) site: u32,
    /// Sent to there.
    pub(crate) messages: u64,
    pub(crate) bytes: u64,
    /// Whether somebody sends to there, and receives from there, in every other step at least.
    pub(crate) sends: bool,
    pub(crate) receives: bool,
    /// The most work that a PE's border actors have, of those PEs that talk to there, in seconds.
    pub(crate) waiting: f64,
    /// The most work that an actor has that talks to there, in seconds.
    pub(crate) end: f64,
}
