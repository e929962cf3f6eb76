//! The state of a site's leader for each rebalance: the next rebalance may begin here before the
//! last one has ended on all nodes.

use crate::message::Edge;
use gridspan_balance::leaders::{Leader, LeaderActor, Note};
use gridspan_balance::{ActorKey, Move, PeLoad};
use gridspan_topology::{PeId, SiteId};
use std::collections::BTreeMap;

/// The state of a PE as the leader of its site.
#[derive(Default)]
pub(crate) struct Leading {
    /// By number of the rebalance.
    pub(crate) sessions: BTreeMap<u64, Session>,
    /// The latest rebalance that is settled.
    pub(crate) settled: u64,
    /// The moves of the last plan to this site or inside it, in case the plan is undone.
    pub(crate) last: Vec<Move>,
    /// The actors of this site before the last plan, each with its PE and its number of hops to
    /// another site.
    pub(crate) hops_before: Vec<(ActorKey, PeId, u8)>,
}

/// The state of one rebalance.
#[derive(Default)]
pub(crate) struct Session {
    /// The members that the PEs of the site have reported so far.
    pub(crate) members: Vec<LeaderActor>,
    /// Each edge with the estimated site of the receiver, if that is another site.
    pub(crate) edges: Vec<(Edge, Option<SiteId>)>,
    pub(crate) pes: BTreeMap<PeId, PeLoad>,
    pub(crate) handled: u64,
    /// The leader, once all PEs of the site have reported.
    pub(crate) leader: Option<Leader>,
    /// Messages of leaders and of the coordinator that arrived before the leader was started.
    pub(crate) early: Vec<(PeId, Note)>,
    /// Nanoseconds spent on planning.
    pub(crate) planning_ns: u64,
}
