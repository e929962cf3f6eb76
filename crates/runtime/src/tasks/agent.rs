//! The agent of a node, which takes tasks from other nodes and gives tasks to them.
//!
//! The agent runs in the node's relay and takes the tasks that the node's PEs offer, so other nodes
//! get an answer before a PE finishes the task that it runs. Tasks from other nodes are queued
//! beside the offered ones. A PE itself answers a request in two cases only. If no PE offers a task
//! at the moment, as may happen with short tasks, the PE that keeps the most tasks gives some. And
//! loans to guests come from a PE, since they are in its [`Ledger`](super::ledger::Ledger).

use super::bound_spread::BoundSpread;
use super::deques::{Arrival, Deques};
use super::engine::Work;
use super::lending::{lend, pass_on};
use super::lineage::{LINEAGE_MAX, Via};
use super::message::{AgentMessage, Loan, WorkerActor, WorkerMessage};
use crate::Context;
use crate::address::id::MAIN_PE;
use crate::error::panic_message;
use crate::message::codec::{self, DecodeError};
use crate::message::limits::Limits;
use crate::message::steal_agent::{Nudge, StealAgent, StealCommand, StealEvent};
use crate::message::{MembershipEvent, Stage};
use crate::pe::{Budget, LoanLog};
use bytes::Bytes;
use gridspan_balance::stealing::{Amount, Command, Grant, StealMessage, Stealing, StealingLayout};
use gridspan_topology::{Hierarchy, Layout, NodeId, Time};
use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

/// The loans of a guest that no PE has taken may use the memory limit of a PE divided by this.
const GUEST_SHARE: usize = 16;

/// Returns the maximum bytes of one guest's loans to a founder that no PE of the founder has taken
/// yet.
pub(super) fn guest_bytes_max(limits: &Limits) -> usize {
    limits.hard_bytes / GUEST_SHARE
}

/// The agent of a node for the tasks of one pool.
pub(super) struct PoolAgent<W: Work> {
    stealing: Stealing,
    node: Arc<Deques<W::Item>>,
    layout: Arc<Layout>,
    me: NodeId,
    /// Memory budget of the node's first PE, which counts loans that no PE has taken yet.
    budget: Budget,
    /// Maximum bytes of one guest's loans that no PE has taken yet.
    guest_bytes_max: usize,
    /// Whether the agent may ask for tasks: all nodes know this node, and it is not leaving.
    may_ask: bool,
    /// The founders that rest because they are about to leave, perhaps this one among them.
    resting: BTreeSet<NodeId>,
    /// Whether the agent no longer carries out the policy or begins backups, because it is on a
    /// guest that leaves or a task has panicked.
    is_silent: bool,
    spread: BoundSpread,
    /// The log of loans to founders, if loans are recalled when founders are lost.
    log: Option<Arc<LoanLog>>,
    /// The founders that are suspended or lost.
    lost: BTreeSet<NodeId>,
    /// The lost founders from which this node has recalled its loans.
    recalled: BTreeSet<NodeId>,
    due: Option<Time>,
    /// Time at which backups begin, unless the node has work by then.
    backups_at: Option<Time>,
}

impl<W: Work> PoolAgent<W> {
    /// Makes the agent of the node of the worker in `cx`, for the tasks in `node`. Returns `None`
    /// if there is no other node yet, or if the worker is not on the node's first PE.
    pub(super) fn new(
        node: &Arc<Deques<W::Item>>,
        cx: &Context<'_, impl WorkerActor>,
    ) -> Option<Box<Self>> {
        let layout = cx.core.common.layout.clone();
        let me = cx.node();
        let membership = &cx.core.membership;
        let is_alone =
            layout.node_count() < 2 && membership.present.is_empty() && !layout.is_guest(me);
        if is_alone || layout.leader(me) != cx.pe() {
            return None;
        }
        let lost: BTreeSet<NodeId> = membership.lost_founders(&layout).collect();
        let is_active = !layout.is_guest(me) || membership.stage == Stage::Active;
        let common = &cx.core.common;
        let policy = common.stealing.make();
        let workers = layout.place(me).pes.len() as u32;
        let recalls = common.recovers_tasks && !layout.is_guest(me);
        let mut agent = Box::new(Self {
            stealing: Stealing::new(policy, me, workers, places(cx), common.seed),
            node: node.clone(),
            me,
            budget: cx.core.delivery.budget.clone(),
            guest_bytes_max: guest_bytes_max(&common.limits),
            may_ask: is_active && !membership.resting.contains(&me),
            resting: membership.resting.clone(),
            is_silent: membership.stage == Stage::Draining,
            spread: BoundSpread::new(node.bound.clone(), me, layout.clone()),
            log: recalls.then(|| common.loan_logs.of(me)),
            lost: lost.clone(),
            recalled: lost,
            due: None,
            backups_at: None,
            layout,
        });
        // Guests trade with founders only, and know no other guests.
        let own = agent.layout.is_guest(me).then_some(me);
        for guest in own.into_iter().chain(membership.present.iter().copied()) {
            if let Some(near) = near(&agent.layout, guest) {
                agent.stealing.handle_joined(cx.now(), guest, near);
                // The guest receives the bound with all others, once there is a value.
                agent.spread.add(guest);
            }
        }
        agent.leave_out(cx.now());
        Some(agent)
    }

    /// Removes the founders that rest or are lost from the policy, and the lost ones also from the
    /// spread of the bound.
    fn leave_out(&mut self, now: Time) {
        for &node in &self.resting {
            self.stealing.handle_lost(now, node);
        }
        for &node in &self.lost {
            self.spread.remove(node);
            self.stealing.handle_lost(now, node);
        }
    }

    /// Takes over new places of the founders and adds the present guests to them.
    fn move_to(&mut self, now: Time, places: &StealingLayout) {
        let guests = self.stealing.places().nodes().iter().copied();
        let guests: Vec<NodeId> = guests.filter(|&node| self.layout.is_guest(node)).collect();
        let mut places = places.clone();
        for guest in guests {
            near(&self.layout, guest).map(|near| places.add(guest, near));
        }
        self.stealing.handle_places(now, Arc::new(places));
        self.leave_out(now);
    }

    /// Reports to the policy whether the node has work, and how many tasks could be taken away.
    /// Schedules backups if it has no work.
    fn check_stock(&mut self, now: Time) {
        if !self.may_ask {
            return;
        }
        self.stealing.note_done(self.node.done());
        if self.is_dry() {
            self.node.note_told(0);
            self.await_tasks(now);
            return self.stealing.handle_idle(now);
        }
        self.backups_at = None;
        let stock = self.node.stock();
        self.node.note_told(stock);
        self.stealing.handle_stock(now, stock);
    }

    /// Takes over the tasks that another node has lent. Fails if that node cannot have lent them,
    /// or if it is a guest that exceeds its limit.
    fn take_grant(
        &mut self,
        now: Time,
        (from, grant): (NodeId, Grant),
        loans: Vec<Loan>,
        out: &mut Vec<StealCommand>,
    ) -> Result<(), DecodeError> {
        if let Some(Loan { lender, .. }) =
            loans.iter().find(|loan| !loan.is_from(&self.layout, from))
        {
            let reason = format!(
                "it lends tasks whose outputs go to {}, which is not a PE of {from}",
                lender.pe
            );
            return Err(DecodeError::new("a grant of tasks", reason));
        }
        let is_via = |via: &Via| match *via {
            Via::Guest(node) => self.layout.is_guest(node),
            Via::Copy(node, _) => !self.layout.is_guest(node),
        };
        let is_lineage =
            |loan: &Loan| loan.lineage.len() <= LINEAGE_MAX && loan.lineage.iter().all(is_via);
        if !loans.iter().all(is_lineage) {
            let reason = "it names an impossible lineage, or one that is too long";
            return Err(DecodeError::new("a grant of tasks", reason));
        }
        let bytes: usize = loans.iter().map(Loan::bytes).sum();
        if self.layout.is_guest(from)
            && self.node.arrived_bytes(from) + bytes > self.guest_bytes_max
        {
            let reason = format_args!(
                "its {bytes} bytes and those that no PE has taken yet exceed the limit"
            );
            return Err(DecodeError::new("a grant of tasks", reason));
        }
        let tasks = loans.iter().fold(0u64, |sum, loan| sum.saturating_add(loan.lender.items));
        // Each sleeping PE takes one task.
        let stock = (self.node.stock().saturating_add(tasks)).saturating_sub(self.node.sleepers());
        let lent = |loan: Loan| {
            let bytes = loan.bytes();
            Arrival::Lent(from, self.budget.keep(loan, bytes))
        };
        self.arrive(loans.into_iter().map(lent), out);
        self.node.note_told(stock);
        self.stealing.note_done(self.node.done());
        self.stealing.handle_received(now, from, tasks, stock, grant);
        Ok(())
    }

    fn arrive(&self, new: impl IntoIterator<Item = Arrival<W::Item>>, out: &mut Vec<StealCommand>) {
        if let Some(slot) = self.node.arrive(new) {
            out.push(self.message_to(slot, &WorkerMessage::Wake));
        }
    }

    /// Returns the command that sends a message to the worker in a slot.
    fn message_to(&self, slot: usize, message: &WorkerMessage) -> StealCommand {
        StealCommand::ToWorker { pe: self.node.pe_of(slot), message: codec::encode(message).into() }
    }

    /// Carries out the commands of the policy.
    fn carry_out(&mut self, now: Time, out: &mut Vec<StealCommand>) {
        loop {
            let commands: Vec<_> = self.stealing.commands().collect();
            if commands.is_empty() {
                return;
            }
            for command in commands {
                if self.is_silent {
                    return;
                }
                match command {
                    Command::Send { to, message } => self.send(to, message, out),
                    Command::Grant { to, amount, grant } => {
                        self.give(now, (to, grant), amount, out)
                    }
                    Command::WakeAt(time) => self.due = Some(time),
                }
            }
        }
    }

    fn send(&self, to: NodeId, message: StealMessage, out: &mut Vec<StealCommand>) {
        let is_far = self.is_far(to);
        self.node.count(|statistics| {
            statistics.attempts += u64::from(message.is_attempt());
            statistics.messages += 1;
            statistics.far_messages += u64::from(is_far);
        });
        out.push(StealCommand::ToAgent {
            to,
            message: codec::encode(&AgentMessage::Steal(message)),
        });
    }

    fn give(
        &mut self,
        now: Time,
        (to, grant): (NodeId, Grant),
        amount: Amount,
        out: &mut Vec<StealCommand>,
    ) {
        if self.lost.contains(&to) {
            return self.ship(now, (to, grant), 0, Vec::new(), out);
        }
        let limit = amount.of(self.node.stock());
        let until = self.output_due(now, to, grant);
        let message = WorkerMessage::Give { to, limit, grant, until };
        if self.layout.is_guest(to) {
            return out.push(self.message_to(0, &message));
        }
        let node = &self.node;
        let is_founder = |node| !self.layout.is_guest(node);
        let pack = || {
            let (take, pe_of) = (|| node.steal_any(), |slot| node.pe_of(slot));
            let (mut loans, left) = lend::<W>(limit, take, pe_of, &node.lineages, until.is_some());
            for loan in &mut loans {
                match (&self.log, until) {
                    (Some(log), _) => {
                        node.backups.keep_for_recall(log, (self.me, to), (now, until), loan);
                    }
                    (None, Some(until)) => node.backups.keep(self.me, to, (now, until), loan),
                    (None, None) => {}
                }
            }
            node.drop_gone(&mut loans);
            // A guest does not pass loans on, since it must itself return their outputs. Founders
            // do not either if loans are recalled after a loss, since the lender must know which
            // node has its loan.
            if loans.is_empty() && is_founder(self.me) && self.log.is_none() {
                loans = pass_on::<W>(limit, node, is_founder, until.is_some(), &self.budget);
                if until.is_some() {
                    loans.iter().for_each(|loan| node.backups.note_passed(to, loan));
                }
            }
            (loans, left)
        };
        // The tasks' own code serialises them and may panic, and this is the network thread.
        let (loans, left) = match catch_unwind(AssertUnwindSafe(pack)) {
            Ok(packed) => packed,
            Err(panic) => {
                self.is_silent = true;
                let reason = panic_message(&*panic);
                return out.push(StealCommand::Panicked { task: W::name(), reason });
            }
        };
        if !left.is_empty() {
            // Each goes to the old end of the queue, so the oldest task is put back last.
            let left = left.into_iter().rev();
            self.arrive(left.map(|(slot, token)| Arrival::Back(slot, token)), out);
        }
        let tasks = loans.iter().map(|loan| loan.lender.items).sum();
        if tasks == 0
            && limit > 0
            && let Some(slot) = self.node.richest()
        {
            return out.push(self.message_to(slot, &message));
        }
        let message = codec::encode(&AgentMessage::Grant { grant, loans });
        self.ship(now, (to, grant), tasks, message, out);
    }

    /// Sends tasks that have left, if there are any, and reports the outcome of the grant to the
    /// policy.
    fn ship(
        &mut self,
        now: Time,
        (to, grant): (NodeId, Grant),
        tasks: u64,
        message: Vec<u8>,
        out: &mut Vec<StealCommand>,
    ) {
        if tasks > 0 {
            let is_far = self.is_far(to);
            self.node.count(|statistics| {
                statistics.grants += 1;
                statistics.far_grants += u64::from(is_far);
                statistics.tasks += tasks;
            });
            out.push(StealCommand::ToAgent { to, message });
        }
        // If nothing could be given, this reports no stock. Otherwise the policy would request the
        // same tasks at once.
        let stock = self.node.stock();
        self.node.note_told(stock);
        let told = if tasks > 0 { stock } else { 0 };
        self.stealing.handle_given(now, to, tasks, told, grant);
    }

    /// Notes that a founder rests, because it is about to leave.
    fn note_resting(&mut self, now: Time, node: NodeId) {
        self.resting.insert(node);
        if node != self.me {
            return self.stealing.handle_lost(now, node);
        }
        (self.may_ask, self.backups_at) = (false, None);
        // The policy asks no more if the node is not idle.
        self.stealing.handle_stock(now, 0);
    }

    /// Lends the tasks that the PEs offer to founders that stay, because this node rests: to those
    /// of its site or, if there are none, to main's node, which does not rest.
    fn hand_out(&mut self, now: Time, out: &mut Vec<StealCommand>) {
        let stays = |node: &NodeId| !self.lost.contains(node) && !self.resting.contains(node);
        let near = self.layout.nodes_in(self.layout.site_of_node(self.me));
        let mut heirs: Vec<NodeId> = near.filter(stays).collect();
        if heirs.is_empty() {
            heirs.extend(Some(self.layout.node_of(MAIN_PE)).filter(stays));
        }
        let share = self.node.all_offered().div_ceil(heirs.len().max(1) as u64);
        for &to in heirs.iter().cycle() {
            if self.is_silent || self.node.all_offered() == 0 {
                return;
            }
            self.give(now, (to, Grant::Lifeline), Amount::UpTo(share.max(1)), out);
        }
    }

    /// Sends an improvement of the bound to nodes.
    fn send_bound(&self, rank: i64, to: Vec<NodeId>, out: &mut Vec<StealCommand>) {
        let message = || codec::encode(&AgentMessage::Bound(rank));
        out.extend(to.into_iter().map(|to| StealCommand::ToAgent { to, message: message() }));
    }

    fn is_far(&self, to: NodeId) -> bool {
        self.layout.site_of_node(to) != self.layout.site_of_node(self.me)
    }
}

impl<W: Work> StealAgent for PoolAgent<W> {
    fn connect(&mut self, nudge: &Nudge) {
        self.node.bound.connect(nudge.clone());
    }

    fn handle_event(&mut self, now: Time, event: StealEvent, out: &mut Vec<StealCommand>) {
        match event {
            StealEvent::StockChanged if self.resting.contains(&self.me) => self.hand_out(now, out),
            StealEvent::StockChanged => self.check_stock(now),
            StealEvent::Given { to, grant, tasks, message } => {
                self.ship(now, (to, grant), tasks, message.into(), out);
                // The worker may not have known yet that the node is lost.
                if self.recalled.contains(&to) {
                    self.recall(now, to, out);
                }
            }
            StealEvent::Superseded { to, copy } => self.drop_copy(to, copy, out),
            StealEvent::HandOver { to, message } => {
                out.push(StealCommand::ToAgent { to, message: message.into() })
            }
            StealEvent::Measured(places) => self.move_to(now, &places),
            StealEvent::OwnStage(Stage::Active) => {
                self.may_ask = true;
                self.check_stock(now);
            }
            StealEvent::OwnStage(Stage::Draining) => {
                (self.may_ask, self.is_silent, self.due) = (false, true, None);
            }
            StealEvent::OwnStage(_) | StealEvent::Open(_) | StealEvent::Close => {}
        }
        self.carry_out(now, out);
    }

    fn handle_membership(
        &mut self,
        now: Time,
        MembershipEvent { node, stage }: MembershipEvent,
        out: &mut Vec<StealCommand>,
    ) {
        match stage {
            Stage::Joining => {
                if let Some(near) = near(&self.layout, node) {
                    self.stealing.handle_joined(now, node, near);
                }
                if let Some(rank) = self.spread.add(node) {
                    self.send_bound(rank, vec![node], out);
                }
            }
            Stage::Active => {}
            Stage::Draining if !self.layout.is_guest(node) => self.note_resting(now, node),
            Stage::Draining => self.stealing.handle_lost(now, node),
            Stage::Suspended => {
                self.lost.insert(node);
                self.spread.remove(node);
                self.stealing.handle_lost(now, node);
                // Note the loss first: once other nodes have repeated its tasks, main may close a
                // pool that orphaned tasks still call.
                self.node.note_lost(node);
            }
            Stage::Left | Stage::Lost if !self.layout.is_guest(node) => {
                self.lost.insert(node);
                self.spread.remove(node);
                self.stealing.handle_lost(now, node);
                self.node.note_lost(node);
                self.node.forget_arrivals(node);
                self.node.forget_orphans();
                self.recall(now, node, out);
            }
            Stage::Left | Stage::Lost => {
                self.spread.remove(node);
                self.node.note_gone(Via::Guest(node));
                self.node.forget_arrivals(node);
                self.stealing.handle_lost(now, node);
            }
        }
        self.carry_out(now, out);
    }

    fn receive(
        &mut self,
        now: Time,
        from: NodeId,
        message: &Bytes,
        out: &mut Vec<StealCommand>,
    ) -> Result<(), DecodeError> {
        match codec::decode("a message about tasks", message)? {
            AgentMessage::Steal(message) => self.stealing.handle_message(now, from, message),
            AgentMessage::Grant { grant, loans } => {
                self.take_grant(now, (from, grant), loans, out)?
            }
            AgentMessage::Superseded(lender, copy) if !self.layout.is_guest(from) => {
                self.supersede(Via::Copy(lender, copy), Some(from), out);
            }
            AgentMessage::Superseded(..) => {
                let reason = "a guest cannot supersede a copy of a loan";
                return Err(DecodeError::new("a message about tasks", reason));
            }
            AgentMessage::Bound(rank) => {
                let to = self.spread.receive(from, rank);
                self.send_bound(rank, to, out);
            }
        }
        self.carry_out(now, out);
        Ok(())
    }

    fn due(&self) -> Option<Time> {
        self.due.into_iter().chain(self.spread.due()).chain(self.backups_at).min()
    }

    fn wake(&mut self, now: Time, out: &mut Vec<StealCommand>) {
        if let Some((rank, to)) = self.spread.take_found(now) {
            self.send_bound(rank, to, out);
        }
        if self.backups_at.take_if(|at| *at <= now).is_some() {
            self.begin_backups(now, out);
        }
        if self.due.take_if(|due| *due <= now).is_some() {
            self.stealing.handle_timeout(now);
            self.carry_out(now, out);
        }
    }
}

/// Returns the places of the founders: as measured or, until then, as given by the layout.
pub(super) fn places(cx: &Context<'_, impl WorkerActor>) -> Arc<StealingLayout> {
    let given = || Arc::new(Hierarchy::from_layout(cx.layout()));
    let hierarchy = cx.core.hierarchy.clone().unwrap_or_else(given);
    Arc::new(StealingLayout::new(&hierarchy))
}

/// Returns the first founder in the site of a guest. There is one, or the guest would not have been
/// admitted.
pub(super) fn near(layout: &Layout, guest: NodeId) -> Option<NodeId> {
    layout.nodes_in(layout.site_of_node(guest)).next()
}

mod copies;

#[cfg(test)]
mod tests;
