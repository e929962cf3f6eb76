//! What the leader of a site keeps, by rebalance: the next may begin here before the last has ended
//! everywhere.

use crate::message::Edge;
use gridspan_balance::leaders::{Leader, LeaderActor, Note};
use gridspan_balance::{ActorKey, Move, PeLoad};
use gridspan_topology::{PeId, SiteId};
use std::collections::BTreeMap;

#[derive(Default)]
pub(crate) struct Leading {
    pub(crate) sessions: BTreeMap<u64, Session>,
    /// The last rebalance that is settled.
    pub(crate) settled: u64,
    /// What the last plan has moved to this site or inside it, in case it is to be taken back.
    pub(crate) last: Vec<Move>,
    /// How near who lived here before it was to another site, with the PE.
    pub(crate) hops_before: Vec<(ActorKey, PeId, u8)>,
}

/// One rebalance.
#[derive(Default)]
pub(crate) struct Session {
    /// What has come in from the PEs of the site.
    pub(crate) members: Vec<LeaderActor>,
    /// With the site where the receiver is believed to live, if it is another.
    pub(crate) edges: Vec<(Edge, Option<SiteId>)>,
    pub(crate) pes: BTreeMap<PeId, PeLoad>,
    pub(crate) handled: u64,
    /// Once all have.
    pub(crate) leader: Option<Leader>,
    /// What came before that.
    pub(crate) early: Vec<(PeId, Note)>,
    /// Nanoseconds spent on it.
    pub(crate) planning_ns: u64,
}
