//! The state of a site's leader for each rebalance: the next rebalance may begin here before the
//! last one has ended on all nodes.

use crate::message::Edge;
use gridspan_balance::leaders::{Leader, LeaderActor, Note};
use gridspan_balance::{ActorKey, Move, PeLoad};
use gridspan_topology::{PeId, SiteId};
use std::collections::BTreeMap;

/// Maximum number of rebalances whose state is kept: more than are ever under way. Bounds the
/// memory that a faulty PE can take by messages about rebalances that do not exist.
const SESSIONS_MAX: usize = 8;

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

impl Leading {
    /// The state of a rebalance. `None` if it is settled, or if [`SESSIONS_MAX`] later ones have
    /// begun.
    pub(crate) fn session(&mut self, number: u64) -> Option<&mut Session> {
        if number <= self.settled {
            return None;
        }
        self.sessions.entry(number).or_default();
        if self.sessions.len() > SESSIONS_MAX {
            self.sessions.pop_first();
        }
        self.sessions.get_mut(&number)
    }
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

impl Session {
    /// Keeps a message until the leader is started. Before that, each leader sends only its border;
    /// a faulty one that sends more must not take memory.
    pub(crate) fn keep_early(&mut self, from: PeId, note: Note) {
        if self.early.iter().all(|&(sender, _)| sender != from) {
            self.early.push((from, note));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_leader_that_is_not_started_keeps_one_message_of_each_sender() {
        let mut session = Session::default();
        for from in [1, 2, 1, 1] {
            session.keep_early(PeId(from), Note::Newcomers(Vec::new()));
        }
        let senders: Vec<u32> = session.early.iter().map(|(from, _)| from.0).collect();
        assert_eq!(senders, [1, 2]);
    }

    #[test]
    fn the_state_of_the_latest_rebalances_that_are_not_settled_is_kept() {
        let mut leading = Leading { settled: 3, ..Leading::default() };
        assert!(leading.session(3).is_none());
        for number in 4..4 + 2 * SESSIONS_MAX as u64 {
            assert!(leading.session(number).is_some());
        }
        assert_eq!(leading.sessions.len(), SESSIONS_MAX);
        assert!(leading.session(4).is_none(), "many later ones have begun");
        assert_eq!(leading.sessions.len(), SESSIONS_MAX);
    }
}
