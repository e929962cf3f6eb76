//! What an agent does about copies of what was lent to other sites: see `backups`.

use super::super::deques::Arrival;
use super::super::engine::Work;
use super::super::lineage::Via;
use super::super::message::{AgentMessage, Loan, WorkerMessage};
use super::PoolAgent;
use crate::message::codec;
use crate::message::steal_agent::CopyId;
use crate::message::steal_agent::StealCommand;
use gridspan_balance::stealing::Grant;
use gridspan_topology::{NodeId, Time};
use std::time::Duration;

/// A node gets tasks of its own site within so many latencies of it, if there are any: it asks who
/// has some, who is named gives, and there may be one way more.
const STEAL_LATENCIES: u32 = 4;
/// As long as nobody knows how far the nodes of this site are, they are taken to be this far.
const NEAR_LATENCY_MIN: Duration = Duration::from_micros(25);
impl<W: Work> PoolAgent<W> {
    /// The node has run dry: backups begin when the nodes of its site had the time to give it
    /// something.
    pub(super) fn await_tasks(&mut self, now: Time) {
        if !self.node.backups.any(now) {
            return;
        }
        let places = self.stealing.places();
        let near = places.site_of(self.me).map(|site| places.latency(site, site).duration());
        let near = near.unwrap_or_default().max(NEAR_LATENCY_MIN);
        self.backups_at.get_or_insert(now + near * STEAL_LATENCIES);
    }

    /// When an output of what is lent to another site now could be back; `None` if it is lent in
    /// this site, by or to a guest, or where nobody knows.
    pub(super) fn output_due(&self, now: Time, to: NodeId, grant: Grant) -> Option<Time> {
        let has_guest = [self.me, to].into_iter().any(|node| self.layout.is_guest(node));
        match grant {
            Grant::Directory { way, .. } if !has_guest && !way.is_zero() => Some(now + way * 2),
            _ => None,
        }
    }

    pub(super) fn is_dry(&self) -> bool {
        self.node.is_dry() && !self.node.has_arrivals()
    }

    /// Begins backups if the node is still dry.
    pub(super) fn begin_backups(&mut self, now: Time, out: &mut Vec<StealCommand>) {
        if !self.is_dry() || self.is_silent {
            return;
        }
        let backup = |loan: Loan| {
            let bytes = loan.bytes();
            Arrival::Lent(self.me, self.budget.keep(loan, bytes))
        };
        let loans = self.node.backups.begin(self.me, now);
        self.arrive(loans.into_iter().map(backup), out);
    }

    /// Nobody waits for what has come through a copy. Whoever hears of it from elsewhere tells its
    /// site, and everybody the nodes of other sites that it has lent some of it to.
    pub(super) fn supersede(
        &mut self,
        via: Via,
        from: Option<NodeId>,
        out: &mut Vec<StealCommand>,
    ) {
        let Via::Copy(lender, copy) = via else { return };
        let Some(mut to) = self.node.note_gone(via) else { return };
        self.node.forget_orphans();
        let drop_orphans = |slot| self.message_to(slot, &WorkerMessage::DropOrphans);
        out.extend((0..self.node.len()).map(drop_orphans));
        let places = self.stealing.places();
        let site = |node: NodeId| places.site_of(node);
        if from.is_none_or(|from| site(from) != site(self.me)) {
            to.extend(site(self.me).into_iter().flat_map(|site| places.nodes_in(site)));
        }
        to.remove(&self.me);
        let message = || codec::encode(&AgentMessage::Superseded(lender, copy));
        out.extend(to.into_iter().map(|to| StealCommand::ToAgent { to, message: message() }));
    }

    /// Has those who work on a copy drop it.
    pub(super) fn drop_copy(&mut self, to: NodeId, copy: CopyId, out: &mut Vec<StealCommand>) {
        if copy.is_backup {
            return self.supersede(Via::Copy(self.me, copy), None, out);
        }
        out.push(StealCommand::ToAgent {
            to,
            message: codec::encode(&AgentMessage::Superseded(self.me, copy)),
        });
    }
}
