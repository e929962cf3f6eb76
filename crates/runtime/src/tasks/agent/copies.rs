//! The agent's part in copies of loans: see `backups`.

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

/// Number of site latencies within which a node gets tasks from its own site, if there are any: one
/// message asks which node has some, one names the node, one brings the tasks, and there may be one
/// more.
const STEAL_LATENCIES: u32 = 4;
/// Least latency assumed between the nodes of this site, and the latency until it is measured.
const NEAR_LATENCY_MIN: Duration = Duration::from_micros(25);

impl<W: Work> PoolAgent<W> {
    /// Schedules backups, since the node has run dry: they begin when the nodes of its site have
    /// had the time to give it tasks.
    pub(super) fn await_tasks(&mut self, now: Time) {
        if !self.node.backups.any(now) {
            return;
        }
        let places = self.stealing.places();
        let near = places.site_of(self.me).map(|site| places.latency(site, site).duration());
        let near = near.unwrap_or_default().max(NEAR_LATENCY_MIN);
        self.backups_at.get_or_insert(now + near * STEAL_LATENCIES);
    }

    /// Returns the time at which an output of tasks could be back if they are lent to another site
    /// now; `None` if they are lent inside this site, by or to a guest, or by another policy than
    /// the directory, or if the latency is unknown.
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

    /// Queues the tasks again that this node has lent to a lost founder.
    pub(super) fn recall(&mut self, now: Time, lost: NodeId, out: &mut Vec<StealCommand>) {
        self.recalled.insert(lost);
        let loans = self.node.backups.recall(lost);
        if loans.is_empty() {
            return;
        }
        let tasks = loans.iter().fold(0u64, |sum, loan| sum.saturating_add(loan.lender.items));
        tracing::info!(%lost, tasks, "tasks that a lost node had borrowed run again");
        let again = |loan: Loan| {
            let bytes = loan.bytes();
            Arrival::Lent(self.me, self.budget.keep(loan, bytes))
        };
        self.arrive(loans.into_iter().map(again), out);
        self.check_stock(now);
    }

    /// Drops the tasks that have come through a copy, because no frame waits for them. Reports this
    /// to the nodes of other sites to which this node has lent some of them and, unless a node of
    /// this site has reported it, to all nodes of this site. A guest passes nothing on: founders
    /// take no such report from it, and its places may differ from theirs while news spreads.
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
        let is_founder = !self.layout.is_guest(self.me);
        if is_founder && from.is_none_or(|from| site(from) != site(self.me)) {
            to.extend(site(self.me).into_iter().flat_map(|site| places.nodes_in(site)));
        }
        to.remove(&self.me);
        let message = || codec::encode(&AgentMessage::Superseded(lender, copy));
        out.extend(to.into_iter().map(|to| StealCommand::ToAgent { to, message: message() }));
    }

    /// Makes the nodes that work on a copy drop it.
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
