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
//! of failures. A guest that sends invalid data counts as lost.
//!
//! **Draining.** The coordinator announces to all founders that the guest takes no more tasks, then
//! informs the guest. The guest hands back the tasks that it has not begun, and reports that it is
//! drained when no other node waits for its results, or after `GRACE` (`guests.rs`).
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
//! whether the job needs the founder, for example because main waits for an answer from it, or
//! because the log of loans has dropped tasks that it has borrowed. If not, all nodes repeat the
//! tasks that the founder owes, as after the loss of a guest.
//!
//! **A founder that rests.** When the launcher orders main's node to stop the job after a
//! checkpoint, so that nodes can leave, main's node passes these nodes on to the coordinator. If
//! the job could go on without such a node, the coordinator informs all founders: the node begins
//! no more tasks and gives its tasks back (`tasks/membership.rs`), and the others ask it for none.
//! Should it be lost before the checkpoint, there is little to repeat. It rests until the run ends.
//!
//! This file handles the coordinator's messages. `guests`: joining and leaving. `losses`: nodes
//! that are lost. `loan_log`: the tasks that can run again after a loss. `pools`, `pool_hooks`: the
//! pools of a PE, which receive these events. `notices`: notices to the coordinator, agents and
//! pools.

mod guests;
pub(in crate::pe) mod loan_log;
mod losses;
mod notices;
pub(in crate::pe) mod pool_hooks;
mod pools;
pub(in crate::pe) mod state;

use crate::address::id::COORDINATOR;
use crate::message::{MembershipEvent, MembershipMessage, Stage};
use crate::pe::core::Core;
use crate::pe::membership::pool_hooks::PoolEvent;
use gridspan_topology::PeId;

impl Core {
    /// Handles a message about guests or lost founders, which only the coordinator may send.
    pub(in crate::pe) fn handle_membership(&mut self, from: PeId, message: MembershipMessage) {
        if from != COORDINATOR {
            return;
        }
        match message {
            MembershipMessage::Announce { node, contact } => self.guest_announced(node, contact),
            MembershipMessage::Reached(event) => self.note_stage(event),
            MembershipMessage::Suspend { node } => self.suspend(node),
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
            Stage::Draining if !self.common.layout.is_guest(node) => self.note_resting(event),
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

    /// Notes that a founder, perhaps this node, is about to leave.
    fn note_resting(&mut self, event: MembershipEvent) {
        if !self.membership.resting.insert(event.node) {
            return;
        }
        // The agents learn it before the workers offer them tasks.
        self.tell_agents(event);
        if event.node == self.common.layout.node_of(self.me) {
            self.tell_pools(PoolEvent::Membership(event));
        }
    }
}
