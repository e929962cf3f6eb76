//! Reductions: contributions go up the tree and are combined wherever they meet.
//!
//! The n-th contribution of each member belongs to the n-th reduction over its group. A PE combines
//! the contributions of its members and of the PEs below it. It passes the result up once it has as
//! many contributions as last time, or [`REDUCTION_HOLD`] after the first one, since members may
//! have moved. Contributions carry their count, and the coordinator completes the reduction when
//! all expected ones have arrived. So the result does not depend on where a member was when it
//! contributed: it may migrate while its contribution is in flight.
//!
//! A contribution to a section carries the section's number of members. The coordinator counts the
//! section's reductions under its first collection; members of its other collections contribute in
//! the same way.

use crate::Actor;
use crate::address::id::{COORDINATOR, Sender, Slot};
use crate::address::index::Key;
use crate::error::Misuse;
use crate::message::{Contribution, Control, ReductionGroup};
use crate::pe::actor::reference::SectionRef;
use crate::pe::collective::accumulator::Accumulator;
use crate::pe::core::Core;
use crate::pe::members::member::{Request, Wish};
use crate::reduce::{Op, Partial, Target, Value};
use gridspan_bcast::{PlanId, Tree};
use gridspan_topology::{PeId, Time};
use std::sync::Arc;
use std::time::Duration;

/// Time for which contributions wait for others if fewer arrive than last time. Short compared with
/// a wide-area crossing, long compared with the handling of a message.
const REDUCTION_HOLD: Duration = Duration::from_millis(1);

impl Core {
    /// Contributes to the next reduction over the actor's collection.
    pub(crate) fn contribute(&mut self, slot: Slot, op: Op, value: Value, target: Target) {
        let Some(member) = self.member(slot.kind, slot.index) else { return };
        let sequence = member.reductions;
        member.reductions += 1;
        let id = member.id;
        if self.is_secondary(Sender::Actor(slot)) || self.refuses(slot, &op, &value) {
            return;
        }
        let partial = Partial::new(&op, id.key, value);
        let group = ReductionGroup::Collection(id.collection);
        self.merge(Contribution { group, sequence, count: 1, expected: 0, op, target, partial });
    }

    /// Fails the job and returns true if the operation or the value is a tuple that contains a
    /// tuple or too many elements.
    fn refuses(&mut self, slot: Slot, op: &Op, value: &Value) -> bool {
        let is_unsound = op.is_unsound() || value.is_unsound();
        if is_unsound {
            let actor =
                self.common.kind(slot.kind).map_or("an actor", |kind| kind.name()).to_owned();
            let (value, operation) = (value.to_string(), format!("{op:?}"));
            self.fail(Misuse::UnsoundTuple { actor, value, operation }.into());
        }
        is_unsound
    }

    /// Contributes to the next reduction over a section. Fails the job if the actor is not a member
    /// of the section.
    pub(crate) fn contribute_to_section<A: Actor>(
        &mut self,
        slot: Slot,
        section: &SectionRef<A>,
        op: Op,
        value: Value,
        target: Target,
    ) {
        let Some(member) = self.member(slot.kind, slot.index) else { return };
        let id = member.id;
        let Some(rank) = section.rank(id) else {
            let (member, collection) = (format!("{:?}", id.key), id.collection.0);
            let section = section.id.name;
            return self.fail(Misuse::NotInSection { member, collection, section }.into());
        };
        let channels = member.channels.get_or_insert_default();
        let next = channels.section_reductions.entry(section.id).or_default();
        let sequence = *next;
        *next += 1;
        if self.is_secondary(Sender::Actor(slot)) || self.refuses(slot, &op, &value) {
            return;
        }
        // Members of different collections may have the same key.
        let partial = Partial::new(&op, Key(u128::from(rank)), value);
        let (group, expected) = (ReductionGroup::Section(section.id), section.len() as u64);
        self.merge(Contribution { group, sequence, count: 1, expected, op, target, partial });
    }

    /// Reaches a sync point. The member continues once its handler has returned, unless it has to
    /// wait for the coordinator.
    pub(crate) fn reach_sync(&mut self, slot: Slot) {
        let Some(member) = self.member(slot.kind, slot.index) else { return };
        if member.synced {
            return;
        }
        member.synced = true;
        let (id, sequence) = (member.id, member.syncs);
        if !self.common.balancing.is_active() {
            return self.request(Request { id, wish: Wish::Resume });
        }
        if let Some(member) = self.member(slot.kind, slot.index) {
            member.syncs += 1;
        }
        if self.may_leave_sync(id.collection, sequence + 1) {
            self.request(Request { id, wish: Wish::Resume });
        }
        let group = ReductionGroup::Sync(id.collection);
        let (op, target, partial) = (Op::And, Target::Sync, Partial::Plain(Value::Unit));
        self.merge(Contribution { group, sequence, count: 1, expected: 0, op, target, partial });
    }

    /// Combines a contribution with those already here, and passes the result up if no more are
    /// expected.
    pub(in crate::pe) fn merge(&mut self, contribution: Contribution) {
        let Contribution { group, sequence, .. } = contribution;
        let merged = match self.accumulators.remove(&(group, sequence)) {
            None => {
                let deadline = self.now + REDUCTION_HOLD;
                Accumulator { contribution, deadline }
            }
            Some(Accumulator { contribution: here, deadline }) => {
                match here.combine(contribution, &self.common.reducers) {
                    Ok(contribution) => Accumulator { contribution, deadline },
                    Err(error) => return self.fail(error),
                }
            }
        };
        let count = merged.contribution.count;
        let outstanding = match self.groups.get(&group) {
            Some(state) => state.outstanding(sequence),
            None => {
                self.collections.get(group.collection()).map_or(0, |local| local.slots.len() as u64)
            }
        };
        if count >= outstanding || self.checkpointing.is_stopped {
            self.pass_up(merged.contribution);
        } else {
            self.accumulators.insert((group, sequence), merged);
        }
    }

    fn pass_up(&mut self, contribution: Contribution) {
        let Contribution { group, sequence, count, .. } = contribution;
        self.groups.entry(group).or_default().pass(sequence, count);
        self.post(self.tree_parent(), Control::Contribution(contribution));
    }

    /// The destination of contributions from here. PEs of the tree's root send to the coordinator.
    /// On other nodes, PEs send to the first PE of their node. That one sends to the first PE of
    /// the parent node, or to the coordinator if the parent is the root.
    fn tree_parent(&self) -> PeId {
        let layout = &self.common.layout;
        let (node, tree) = (layout.node_of(self.me), &self.up_tree.1);
        if node == tree.root() {
            return COORDINATOR;
        }
        match tree.parent(node) {
            _ if layout.leader(node) != self.me => layout.leader(node),
            Some(parent) if parent != tree.root() => layout.leader(parent),
            _ => COORDINATOR,
        }
    }

    /// Sets the tree for contributions. While not all nodes know the new tree, contributions may
    /// travel in a circle. The tree of the latest plan wins on all nodes, so all contributions soon
    /// reach its root, and the coordinator counts them.
    pub(in crate::pe) fn handle_up_tree(&mut self, plan: PlanId, tree: Tree) {
        let nodes = self.common.layout.nodes();
        let is_sound = tree.nodes().eq(nodes);
        if is_sound && plan.version > self.up_tree.0 {
            self.up_tree = (plan.version, Arc::new(tree));
        }
    }

    /// Passes up the contributions whose hold time is over.
    pub(in crate::pe) fn expire_accumulators(&mut self) {
        let now = self.now;
        while let Some((&key, _)) =
            self.accumulators.iter().find(|(_, waiting)| waiting.deadline <= now)
            && let Some(late) = self.accumulators.remove(&key)
        {
            self.pass_up(late.contribution);
        }
    }

    /// Passes up all contributions that wait for others.
    pub(in crate::pe) fn pass_all_up(&mut self) {
        while let Some((_, waiting)) = self.accumulators.pop_first() {
            self.pass_up(waiting.contribution);
        }
    }

    /// Time at which the hold time of the next accumulator is over.
    pub(in crate::pe) fn next_accumulator(&self) -> Option<Time> {
        self.accumulators.values().map(|waiting| waiting.deadline).min()
    }
}
