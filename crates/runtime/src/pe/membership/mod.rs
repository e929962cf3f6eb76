//! Guests: nodes that join a running job, work on its tasks, leave or are lost.
//!
//! Everything but tasks is among the founders: a guest is the home of no actor, and in no tree. So
//! all that can be lost with one is tasks, and those who lent them keep them until their results
//! are in (`tasks/ledger.rs`).
//!
//! A guest goes through the stages of a member (`message/membership.rs`).
//!
//! **Joining.** A guest asks the coordinator, which makes workers there for every pool that is open
//! and announces it to all nodes. Once all of them have acknowledged that, the guest is active: no
//! node drops its requests because it does not know it.
//!
//! **Active.** Guests trade with founders only, and know of no other guest, which they need
//! not reach. Agents speak with those of guests as with all; workers in *worker messages*, which
//! are no messages of actors: they have no numbers, and are no part of what quiescence counts.
//! Whatever else a guest sends is dropped, and a guest that sends what makes no sense is lost.
//!
//! **Draining.** The coordinator tells all nodes that they get nothing from the guest any more, then
//! the guest, which hands back what it has not begun, and reports that it is drained when nobody
//! waits for anything of it, or after [`GRACE`].
//!
//! **Left or lost.** When a guest is drained, or any node finds that it does not answer, the
//! coordinator tells all nodes. They do again what it still owes, and drop what still comes of it,
//! and all tasks that have come through it (`tasks/lineage.rs`). A guest that was lost in error
//! learns that it is not needed. A job that does not tolerate the loss of guests ends, unless the
//! guest had not begun: it has got nothing.

pub(in crate::pe) mod state;

use crate::address::id::{COORDINATOR, CollectionId, MAIN_PE};
use crate::error::JobError;
use crate::message::{Control, MembershipEvent, MembershipMessage, Packet, Spread, Stage};
use crate::pe::core::Core;
use crate::pe::membership::state::{IsAllowed, PoolEvent, PoolHooks, Tell};
use gridspan_topology::{NodeId, PeId};
use std::collections::BTreeSet;
use std::fmt::Display;
use std::time::Duration;

/// How long a guest that leaves waits for the results of tasks that it has begun and others work
/// on. What it owes then is done again.
const GRACE: Duration = Duration::from_secs(20);

impl Core {
    /// Whether this PE is of a guest.
    pub(crate) fn is_guest(&self) -> bool {
        self.common.layout.is_guest(self.common.layout.node_of(self.me))
    }

    /// Whether a PE is of a guest that is not this node.
    pub(in crate::pe) fn is_of_another_guest(&self, pe: PeId) -> bool {
        let layout = &self.common.layout;
        pe != COORDINATOR && !layout.contains(pe) && layout.node_of(pe) != layout.node_of(self.me)
    }

    /// Whether what has come is to be dropped: a guest that is another node sends nothing but this.
    pub(in crate::pe) fn is_uninvited(&self, from: PeId, control: Option<&Control>) -> bool {
        let is_for_guests = matches!(
            control,
            Some(Control::Membership(_) | Control::WorkerMessage { .. } | Control::Failed { .. })
        );
        !is_for_guests && self.is_of_another_guest(from)
    }

    /// Asks the coordinator to take part, and has others told where this node can be reached, in a
    /// form that only drivers know. Runs on the first PE of a guest.
    pub fn join(&mut self, contact: String) {
        let layout = &self.common.layout;
        let pes = layout.place(layout.node_of(self.me)).pes.len() as u32;
        let fingerprint = self.common.definition.fingerprint;
        self.tell_coordinator(MembershipMessage::Join { fingerprint, pes, contact });
    }

    /// Asks the coordinator to be let go. Runs on the first PE of a guest.
    pub fn leave(&mut self) {
        self.tell_coordinator(MembershipMessage::Leave);
    }

    /// A node does not answer. Without a founder the job cannot go on; a guest that cannot reach
    /// one is of no use.
    pub fn node_lost(&mut self, node: NodeId, error: JobError) {
        let layout = &self.common.layout;
        if layout.is_guest(node) {
            self.tell_coordinator(MembershipMessage::Unreachable { node, error });
        } else if node == self.common.coordinator {
            self.handle_stop(Err(error));
        } else if self.is_guest() {
            // The coordinator lets this guest go, or has ended the job just now.
            let node = layout.node_of(self.me);
            self.tell_coordinator(MembershipMessage::Unreachable { node, error });
        } else {
            self.fail(error);
        }
    }

    /// Has the member of a collection on this PE told of guests and places, and `is_allowed` asked
    /// of worker messages from other nodes.
    pub(crate) fn register_pool(
        &mut self,
        collection: CollectionId,
        tell: Tell<Self>,
        is_allowed: IsAllowed,
    ) {
        self.membership.pools.insert(collection, PoolHooks { tell, is_allowed });
        if self.me == MAIN_PE {
            self.post(COORDINATOR, Control::PoolOpened { collection });
        }
    }

    /// The opposite. Members of the collection on guests get the `farewell`, as a worker message.
    pub(crate) fn unregister_pool(&mut self, collection: CollectionId, farewell: Vec<u8>) {
        self.membership.pools.remove(&collection);
        self.pool_drained(collection);
        if self.me == MAIN_PE {
            let farewell = farewell.into();
            self.post(COORDINATOR, Control::PoolClosed { collection, farewell });
        }
    }

    /// Something that a node has sent makes no sense: a guest is lost with that, and with a founder
    /// the job.
    pub fn blame(&mut self, node: NodeId, reason: impl Display) {
        let error = JobError::Protocol(format!("from {node}: {reason}"));
        match self.common.layout.is_guest(node) && node != self.common.layout.node_of(self.me) {
            true => self.node_lost(node, error),
            false => self.fail(error),
        }
    }

    /// Something is under way that main waits for: until it is there, the job is not quiescent.
    pub(crate) fn await_result(&mut self) {
        self.created += 1;
    }

    /// Main has it, or does not wait any more.
    pub(crate) fn settled(&mut self) {
        self.processed += 1;
    }

    /// Handles what the coordinator, and nobody else, says of nodes that join.
    pub(in crate::pe) fn handle_membership(&mut self, from: PeId, message: MembershipMessage) {
        if from != COORDINATOR {
            return;
        }
        match message {
            MembershipMessage::Announce { node, contact } => {
                self.membership.present.insert(node);
                self.membership.contacts.push((node, contact));
                let event = MembershipEvent { node, stage: Stage::Joining };
                // Before the coordinator hears that this node knows the other, so that no agent
                // drops what that one asks for.
                self.tell_agents(event);
                self.tell_pools(PoolEvent::Membership(event));
                self.tell_coordinator(MembershipMessage::Acknowledge { node });
            }
            MembershipMessage::Reached(event) => self.note_stage(event),
            _ => {}
        }
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
            Stage::Joining | Stage::Active => {}
        }
    }

    fn tell_coordinator(&mut self, message: MembershipMessage) {
        self.post(COORDINATOR, Control::Membership(message));
    }

    /// Tells the agents of this node; by the same way as their opening, so that none that is
    /// opened misses it.
    fn tell_agents(&mut self, event: MembershipEvent) {
        self.outbox.packet(self.me, Packet::spread(Spread::MembershipEvent(event)));
    }

    /// Tells the members here of collections that share work with other nodes.
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
            true => self.report_drained(),
            false => self.run_after(GRACE, Self::report_drained),
        }
    }

    /// Nobody waits for anything of the member of a collection here. Runs on the first PE of a
    /// guest that leaves.
    pub(crate) fn pool_drained(&mut self, collection: CollectionId) {
        if self.membership.draining.remove(&collection) && self.membership.draining.is_empty() {
            self.report_drained();
        }
    }

    fn report_drained(&mut self) {
        self.tell_coordinator(MembershipMessage::Drained);
    }
}
