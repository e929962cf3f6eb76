//! Guests: nodes that join a running job, work on its tasks, leave or are lost.
//!
//! Everything but tasks is among the founders: a guest is the home of no actor, and in no tree. So
//! all that can be lost with one is tasks, and those who lent them keep them until their results
//! are in (`tasks/ledger.rs`).
//!
//! **Joining.** A guest knocks at the coordinator, which makes workers there for every pool that is
//! open, tells all nodes, and has the guest begin once all of them know: nobody drops its requests
//! for want of knowing it.
//!
//! **While running.** Guests trade with founders only, and know of no other guest, which they need
//! not reach. Agents speak with those of guests as with all; workers in *worker messages*, which
//! are no messages of actors: they have no numbers, and are no part of what quiescence counts.
//! Whatever else a guest sends is dropped, and a guest that sends what makes no sense is lost.
//!
//! **Leaving.** The coordinator tells all nodes that they get nothing from the guest any more, then
//! the guest, which hands back what it has not begun, and says goodbye when nobody waits for
//! anything of it, or after [`GRACE`].
//!
//! **Gone.** When a guest has said goodbye, or any node finds that it does not answer, the
//! coordinator tells all nodes. They do again what it still owes, and drop what still comes of it,
//! and all tasks that have come through it (`tasks/lineage.rs`). A guest that was lost in error
//! learns that it is not needed. A job that does not tolerate the loss of guests ends, unless the
//! guest had not begun: it has got nothing.

use super::core::Core;
use super::state::{IsAllowed, Notice, PoolHooks, Tell, Visiting};
use crate::address::id::{COORDINATOR, CollectionId, MAIN_PE};
use crate::error::JobError;
use crate::message::steal_agent::MembershipEvent;
use crate::message::{Control, Packet, Spread, Visit};
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
    pub(super) fn is_of_another_guest(&self, pe: PeId) -> bool {
        let layout = &self.common.layout;
        pe != COORDINATOR && !layout.contains(pe) && layout.node_of(pe) != layout.node_of(self.me)
    }

    /// Whether what has come is to be dropped: a guest that is another node sends nothing but this.
    pub(super) fn is_uninvited(&self, from: PeId, control: Option<&Control>) -> bool {
        let is_for_guests = matches!(
            control,
            Some(Control::Visit(_) | Control::WorkerMessage { .. } | Control::Failed { .. })
        );
        !is_for_guests && self.is_of_another_guest(from)
    }

    /// Asks the coordinator to take part, and has others told where this node can be reached, in a
    /// form that only drivers know. Runs on the first PE of a guest.
    pub fn knock(&mut self, contact: String) {
        let layout = &self.common.layout;
        let pes = layout.place(layout.node_of(self.me)).pes.len() as u32;
        let fingerprint = self.common.definition.fingerprint;
        self.post(COORDINATOR, Control::Visit(Visit::Knock { fingerprint, pes, contact }));
    }

    /// Asks the coordinator to be let go. Runs on the first PE of a guest.
    pub fn leave(&mut self) {
        self.post(COORDINATOR, Control::Visit(Visit::Leave));
    }

    /// A node does not answer. Without a founder the job cannot go on; a guest that cannot reach
    /// one is of no use.
    pub fn node_lost(&mut self, node: NodeId, error: JobError) {
        let layout = &self.common.layout;
        if layout.is_guest(node) {
            self.post(COORDINATOR, Control::Visit(Visit::Lost { guest: node, error }));
        } else if node == self.common.coordinator {
            self.handle_stop(Err(error));
        } else if self.is_guest() {
            // The coordinator lets this guest go, or has ended the job just now.
            let guest = layout.node_of(self.me);
            self.post(COORDINATOR, Control::Visit(Visit::Lost { guest, error }));
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
        self.guests.pools.insert(collection, PoolHooks { tell, is_allowed });
        if self.me == MAIN_PE {
            self.post(COORDINATOR, Control::PoolOpened { collection });
        }
    }

    /// The opposite. Members of the collection on guests get the `farewell`, as a worker message.
    pub(crate) fn unregister_pool(&mut self, collection: CollectionId, farewell: Vec<u8>) {
        self.guests.pools.remove(&collection);
        self.pool_done(collection);
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

    /// Deals with news of guests, which come from the coordinator alone.
    pub(super) fn handle_visit(&mut self, from: PeId, visit: Visit) {
        if from != COORDINATOR {
            return;
        }
        match visit {
            Visit::Came { guest, contact } => {
                self.guests.present.insert(guest);
                self.guests.contacts.push((guest, contact));
                // Before the coordinator hears that this node knows the guest, so that no agent
                // drops what the guest asks for.
                self.tell_agents(MembershipEvent::Came(guest));
                self.notify(Notice::Came);
                self.post(COORDINATOR, Control::Visit(Visit::Noted { guest }));
            }
            Visit::Left { guest } => {
                self.guests.present.remove(&guest);
                self.tell_agents(MembershipEvent::Left(guest));
            }
            Visit::Gone { guest } => {
                self.guests.present.remove(&guest);
                self.guests.gone.insert(guest);
                self.tell_agents(MembershipEvent::Gone(guest));
                self.notify(Notice::Gone(guest));
            }
            Visit::Begin if self.guests.visit == Visiting::Coming => {
                self.guests.visit = Visiting::Working;
                self.notify(Notice::Begin);
            }
            Visit::Leave if self.is_guest() => self.begin_to_leave(),
            _ => {}
        }
    }

    /// Tells the agents of this node; by the same way as their opening, so that none that is
    /// opened misses it.
    fn tell_agents(&mut self, news: MembershipEvent) {
        self.outbox.packet(self.me, Packet::spread(Spread::MembershipEvent(news)));
    }

    pub(super) fn notify(&mut self, notice: Notice) {
        for (collection, hooks) in self.guests.pools.clone() {
            (hooks.tell)(self, collection, notice);
        }
    }

    fn begin_to_leave(&mut self) {
        let pools: BTreeSet<CollectionId> = self.guests.pools.keys().copied().collect();
        let is_free = pools.is_empty();
        self.guests.visit = Visiting::Leaving(pools);
        self.notify(Notice::Leave);
        match is_free {
            true => self.say_goodbye(),
            false => self.run_after(GRACE, Self::say_goodbye),
        }
    }

    /// Nobody waits for anything of the member of a collection here. Runs on the first PE of a
    /// guest that leaves.
    pub(crate) fn pool_done(&mut self, collection: CollectionId) {
        if let Visiting::Leaving(pools) = &mut self.guests.visit
            && pools.remove(&collection)
            && pools.is_empty()
        {
            self.say_goodbye();
        }
    }

    fn say_goodbye(&mut self) {
        self.post(COORDINATOR, Control::Visit(Visit::Goodbye));
    }
}
