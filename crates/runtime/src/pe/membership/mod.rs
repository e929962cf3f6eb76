//! Guests: nodes that join a running job, work on its tasks, and leave or are lost. Also the loss
//! of founders that the job does not need.
//!
//! Everything but tasks stays among the founders: a guest is the home of no actor, and is in no
//! tree. So only tasks can be lost with a guest, and the lenders of these tasks keep them until
//! their results have arrived (`tasks/ledger.rs`).
//!
//! The stages of a guest are in `message/membership.rs`.
//!
//! **Joining.** A guest sends a request to the coordinator, which announces the guest to all
//! founders. When all of them have acknowledged, the coordinator creates workers on the guest for
//! every open pool, and the guest is active: from then on all founders know it and accept its
//! requests.
//!
//! **Active.** Guests trade with founders only. They know of no other guest and need not reach one.
//! Agents exchange messages with agents of guests as with all others. Workers use *worker
//! messages*, which are not messages of actors: they have no numbers, and quiescence does not count
//! them. Besides these, founders take from a guest only messages about its membership and reports
//! of failures. A guest that sends invalid data is lost.
//!
//! **Draining.** The coordinator announces to all founders that the guest takes no more tasks, then
//! informs the guest. The guest hands back the tasks that it has not begun, and reports that it is
//! drained when no other node waits for its results, or after [`GRACE`].
//!
//! **Left or lost.** When a guest is drained, or any node finds that it does not answer or sends
//! invalid data, the coordinator informs all nodes. They repeat the tasks that the guest still
//! owes, and drop late results from it and all tasks that have come through it
//! (`tasks/lineage.rs`). A guest that was declared lost in error learns that the job does not need
//! it. A job that does not tolerate the loss of guests ends if the guest was active; a guest that
//! was not active has received no tasks.
//!
//! **A lost founder.** If the job recovers tasks locally (`Job::recover_tasks_locally`), a PE that
//! notices the loss of a founder reports it to the coordinator, which decides
//! (`coordinator/losses.rs`). First all other nodes drop what the founder's agents send, and answer
//! whether they know of a need for it: main waits for an answer from there. If there is no need,
//! all nodes repeat the tasks that the founder owes, as after the loss of a guest.

pub(in crate::pe) mod state;

use crate::address::id::{ActorId, COORDINATOR, CollectionId, MAIN_PE};
use crate::error::JobError;
use crate::message::{Control, MembershipEvent, MembershipMessage, Packet, Spread, Stage};
use crate::pe::command::PeCommand;
use crate::pe::core::Core;
use crate::pe::membership::state::{IsAllowed, OpenTasks, PoolEvent, PoolHooks, Tell};
use gridspan_topology::{NodeId, PeId};
use std::collections::BTreeSet;
use std::fmt::Display;
use std::time::Duration;

/// Time after which a PE answers whether the job needs a founder: by then the agents of its node
/// drop what that founder sends, since the PE informs them at the end of the turn before.
const NEXT_TURN: Duration = Duration::from_nanos(1);

/// Time after which a leaving guest reports that it is drained, even if other nodes still wait for
/// its results. Tasks that it owes then are repeated.
const GRACE: Duration = Duration::from_secs(20);

impl Core {
    /// Whether this PE belongs to a guest.
    pub(crate) fn is_guest(&self) -> bool {
        self.common.layout.is_guest(self.common.layout.node_of(self.me))
    }

    /// Whether a PE belongs to a guest other than this node.
    pub(in crate::pe) fn is_of_another_guest(&self, pe: PeId) -> bool {
        let layout = &self.common.layout;
        pe != COORDINATOR && !layout.contains(pe) && layout.node_of(pe) != layout.node_of(self.me)
    }

    /// Whether a packet is to be dropped: another guest may send only the controls listed here.
    pub(in crate::pe) fn is_uninvited(&self, from: PeId, control: Option<&Control>) -> bool {
        let is_for_guests = matches!(
            control,
            Some(Control::Membership(_) | Control::WorkerMessage { .. } | Control::Failed { .. })
        );
        !is_for_guests && self.is_of_another_guest(from)
    }

    /// Requests that this node may join. The coordinator announces to the founders the `contact`
    /// under which they reach this node; only drivers understand its form. Runs on the first PE of
    /// a guest.
    pub fn join(&mut self, contact: String) {
        let layout = &self.common.layout;
        let pes = layout.place(layout.node_of(self.me)).pes.len() as u32;
        let fingerprint = self.common.definition.fingerprint;
        self.tell_coordinator(MembershipMessage::Join { fingerprint, pes, contact });
    }

    /// Requests that this node may leave. Runs on the first PE of a guest.
    pub fn leave(&mut self) {
        self.tell_coordinator(MembershipMessage::Leave);
    }

    /// Handles the loss of a node. Without a founder the job cannot continue, unless it recovers
    /// tasks locally; a guest that cannot reach a founder reports itself as unreachable.
    pub fn node_lost(&mut self, node: NodeId, error: JobError) {
        let layout = &self.common.layout;
        if layout.is_guest(node) {
            self.tell_coordinator(MembershipMessage::Unreachable { node, error });
        } else if node == self.common.coordinator {
            self.handle_stop(Err(error));
        } else if self.is_guest() {
            // The coordinator releases this guest, or has just ended the job.
            let node = layout.node_of(self.me);
            self.tell_coordinator(MembershipMessage::Unreachable { node, error });
        } else if self.common.recovers_tasks {
            // The coordinator decides whether the job goes on without it.
            self.tell_coordinator(MembershipMessage::Unreachable { node, error });
        } else {
            self.fail(error);
        }
    }

    /// Registers the member of a collection on this PE for events about nodes and places, and
    /// `is_allowed` to check worker messages from other nodes.
    pub(crate) fn register_pool(
        &mut self,
        collection: CollectionId,
        tell: Tell<Self>,
        is_allowed: IsAllowed,
    ) {
        let hooks = PoolHooks { tell, is_allowed, open: OpenTasks::default() };
        self.membership.pools.insert(collection, hooks);
        if self.me == MAIN_PE {
            self.post(COORDINATOR, Control::PoolOpened { collection });
        }
    }

    /// Notes the open tasks of a pool on this PE, for diagnoses.
    pub(crate) fn note_open_tasks(&mut self, collection: CollectionId, open: OpenTasks) {
        if let Some(hooks) = self.membership.pools.get_mut(&collection) {
            hooks.open = open;
        }
    }

    /// Undoes [`register_pool`](Self::register_pool). Members of the collection on guests receive
    /// the `farewell` as a worker message.
    pub(crate) fn unregister_pool(&mut self, collection: CollectionId, farewell: Vec<u8>) {
        self.membership.pools.remove(&collection);
        self.pool_drained(collection);
        if self.me == MAIN_PE {
            let farewell = farewell.into();
            self.post(COORDINATOR, Control::PoolClosed { collection, farewell });
        }
    }

    /// Handles invalid data from a node: a guest other than this node counts as lost; otherwise the
    /// job fails.
    pub fn blame(&mut self, node: NodeId, reason: impl Display) {
        let error = JobError::Protocol(format!("from {node}: {reason}"));
        match self.common.layout.is_guest(node) && node != self.common.layout.node_of(self.me) {
            true => self.node_lost(node, error),
            false => self.fail(error),
        }
    }

    /// Counts a task from outside its pool: until it is done, the job is not quiescent, and no
    /// checkpoint is made unless the task is repeatable.
    pub(crate) fn task_begins(&mut self, is_repeatable: bool) {
        self.created += 1;
        *self.checkpointing.open_tasks(is_repeatable) += 1;
    }

    /// Counts the end of such a task.
    pub(crate) fn task_ends(&mut self, is_repeatable: bool) {
        self.processed += 1;
        *self.checkpointing.open_tasks(is_repeatable) -= 1;
    }

    /// Handles a message about guests or lost founders, which only the coordinator may send.
    pub(in crate::pe) fn handle_membership(&mut self, from: PeId, message: MembershipMessage) {
        if from != COORDINATOR {
            return;
        }
        match message {
            MembershipMessage::Announce { node, contact } => {
                self.membership.present.insert(node);
                self.commands.push(PeCommand::Meet { guest: node, contact });
                let event = MembershipEvent { node, stage: Stage::Joining };
                // Sent before the acknowledgement to the coordinator, so that no agent drops the
                // guest's requests.
                self.tell_agents(event);
                self.tell_pools(PoolEvent::Membership(event));
                self.tell_coordinator(MembershipMessage::Acknowledge { node });
            }
            MembershipMessage::Reached(event) => self.note_stage(event),
            MembershipMessage::Suspend { node } => {
                self.membership.gone.insert(node);
                self.tell_agents(MembershipEvent { node, stage: Stage::Suspended });
                self.run_after(NEXT_TURN, move |core| core.tell_need(node));
            }
            _ => {}
        }
    }

    /// Tells the coordinator why the job cannot go on without a founder, as far as this PE knows.
    fn tell_need(&mut self, node: NodeId) {
        let is_there = |to: ActorId| self.home_node(to) == Some(node);
        let awaits_answer = self.waits.questions().filter_map(|question| question.to).any(is_there);
        let need = awaits_answer.then(|| "main waits for an answer from there".to_owned());
        self.tell_coordinator(MembershipMessage::Spares { node, need });
    }

    fn note_stage(&mut self, event: MembershipEvent) {
        let MembershipEvent { node, stage } = event;
        let is_own = node == self.common.layout.node_of(self.me);
        match stage {
            Stage::Active if is_own && self.membership.stage == Stage::Joining => {
                self.membership.stage = Stage::Active;
                self.tell_pools(PoolEvent::Membership(event));
            }
            Stage::Draining if is_own => self.begin_draining(event),
            Stage::Draining => {
                self.membership.present.remove(&node);
                self.tell_agents(event);
            }
            Stage::Left | Stage::Lost => {
                self.membership.present.remove(&node);
                self.membership.gone.insert(node);
                self.tell_agents(event);
                self.tell_pools(PoolEvent::Membership(event));
            }
            // Founders learn of a joining guest by `Announce`, and of a suspended founder by
            // `Suspend`; only the guest itself learns that it is active.
            Stage::Joining | Stage::Active | Stage::Suspended => {}
        }
    }

    fn tell_coordinator(&mut self, message: MembershipMessage) {
        self.post(COORDINATOR, Control::Membership(message));
    }

    /// Notifies the agents of this node. The packet takes the same path as the opening of an agent,
    /// so that no newly opened agent misses it.
    fn tell_agents(&mut self, event: MembershipEvent) {
        self.outbox.packet(self.me, Packet::spread(Spread::MembershipEvent(event)));
    }

    /// Notifies the members here of collections that share work with other nodes.
    pub(in crate::pe) fn tell_pools(&mut self, event: PoolEvent) {
        for (collection, hooks) in self.membership.pools.clone() {
            (hooks.tell)(self, collection, event);
        }
    }

    fn begin_draining(&mut self, event: MembershipEvent) {
        let pools: BTreeSet<CollectionId> = self.membership.pools.keys().copied().collect();
        let is_drained = pools.is_empty();
        self.membership.stage = Stage::Draining;
        self.membership.draining = pools;
        self.tell_pools(PoolEvent::Membership(event));
        match is_drained {
            true => self.report_guest_drained(),
            false => self.run_after(GRACE, Self::report_guest_drained),
        }
    }

    /// Notes that no node waits for results of a collection's member here. Runs on the first PE of
    /// a guest that leaves.
    pub(crate) fn pool_drained(&mut self, collection: CollectionId) {
        if self.membership.draining.remove(&collection) && self.membership.draining.is_empty() {
            self.report_guest_drained();
        }
    }

    fn report_guest_drained(&mut self) {
        self.tell_coordinator(MembershipMessage::Drained);
    }
}
