//! The workers' part in trading tasks with other nodes: they serve their agent and take the tasks
//! that it has received.

use super::agent::PoolAgent;
use super::deques::Arrival;
use super::engine::Work;
use super::lending::lend;
use super::lineage::Via;
use super::message::{AgentMessage, Loan, notify_agent};
use super::worker::Worker;
use crate::Context;
use crate::message::codec;
use crate::message::steal_agent::StealEvent;
use gridspan_balance::stealing::Grant;
use gridspan_topology::{NodeId, Time};

impl<W: Work> Worker<W> {
    /// Gives the relay of the node an agent that shares the node's tasks with other nodes, if there
    /// are other nodes.
    pub(super) fn open_agent(&mut self, cx: &mut Context<'_, Self>) {
        if !self.opened_agent
            && let Some(agent) = PoolAgent::<W>::new(&self.engine.node, cx)
        {
            self.opened_agent = true;
            self.engine.node.expect_agent();
            notify_agent(StealEvent::Open(agent), cx);
        }
    }

    /// Gives away tasks that the agent could not take itself, or that are lent to a guest and
    /// entered in the ledger.
    pub(super) fn give(
        &mut self,
        (to, grant): (NodeId, Grant),
        (limit, until): (u64, Option<Time>),
        cx: &mut Context<'_, Self>,
    ) {
        let is_gone = cx.core.membership.gone.contains(&to);
        let limit = if is_gone { 0 } else { limit };
        let node = self.engine.node.clone();
        let take = || self.engine.take_oldest();
        let (mut loans, left) =
            lend::<W>(limit, take, |slot| node.pe_of(slot), &node.lineages, until.is_some());
        for (slot, token) in left.into_iter().rev() {
            self.engine.put_back(slot, token);
        }
        if cx.layout().is_guest(to) {
            for loan in &mut loans {
                self.ledger.enter(to, loan, &mut self.engine);
            }
        }
        let recalls = cx.core.common.recovers_tasks
            && [cx.node(), to].iter().all(|&node| !cx.layout().is_guest(node));
        let log = recalls.then(|| cx.core.common.loan_logs.of(cx.node()));
        let (me, now) = (cx.node(), cx.now());
        for loan in &mut loans {
            match (&log, until) {
                (Some(log), _) => {
                    node.backups.keep_for_recall(log, (me, to), (now, until), loan);
                }
                (None, Some(until)) => node.backups.keep(me, to, (now, until), loan),
                (None, None) => {}
            }
        }
        node.drop_gone(&mut loans);
        let tasks = loans.iter().map(|loan| loan.lender.items).sum();
        let message = codec::encode(&AgentMessage::Grant { grant, loans }).into();
        notify_agent(StealEvent::Given { to, grant, tasks, message }, cx);
        self.engine.share_rest();
    }

    /// Takes the tasks that the agent has queued. Returns whether there were any.
    pub(super) fn take_arrivals(&mut self, cx: &mut Context<'_, Self>) -> bool {
        if !self.engine.node.has_arrivals() {
            return false;
        }
        let arrivals = self.engine.node.take_arrivals();
        let any = !arrivals.is_empty();
        for arrival in arrivals {
            let (from, loan) = match arrival {
                Arrival::Lent(from, loan) => (from, loan.into_inner()),
                Arrival::Back(slot, token) => {
                    self.engine.put_back(slot, token);
                    continue;
                }
            };
            let Loan { lender, lineage, repeats, items } = loan;
            let last = cx.layout().is_guest(from).then_some(Via::Guest(from));
            // Another node may not have learned yet that a guest or a copy is gone.
            let vias = last.into_iter().chain(lineage);
            let Some(lineage) = self.engine.node.lineages.enter(vias, repeats) else { continue };
            let items: Vec<W::Item> = match codec::decode(W::name(), &items) {
                Ok(items) => items,
                Err(error) => {
                    cx.core.blame(from, format_args!("tasks: {error}"));
                    continue;
                }
            };
            if items.len() as u64 != lender.items || items.is_empty() {
                let reason = format_args!(
                    "it lent {} tasks and sent {}; start all nodes from one build of the program",
                    lender.items,
                    items.len()
                );
                cx.core.blame(from, reason);
                continue;
            }
            self.engine.borrow(lender, lineage, items.into_iter());
        }
        any
    }
}
