//! Reductions: contributions go up the tree and are combined wherever they meet.
//!
//! The n-th contribution of each member belongs to the n-th reduction over its group. A PE combines
//! what its members and the PEs below it contribute, and passes it up once it has seen as many
//! contributions as last time, or after [`REDUCTION_HOLD`] if members have moved in between.
//! Contributions carry their count, and the root is done when all that are due have come. So
//! nothing depends on where a member was when it contributed: it may migrate with a contribution on
//! its way.

use super::broadcast::nobody;
use crate::error::{GridError, JobError};
use crate::id::{ActorId, CollectionId, SectionId, Sender, Slot};
use crate::pe::core::Core;
use crate::pe::state::{Accumulator, BroadcastRequest, Request, Wish};
use crate::reduce::{Op, Partial, Reduction, Target, Value};
use crate::wire::{Contribution, Control, ReductionGroup, Wanted};
use gridspan_topology::Time;
use std::time::Duration;

/// How long contributions wait for others, if fewer come than last time. Short against a wide-area
/// crossing, long against the handling of a message.
const REDUCTION_HOLD: Duration = Duration::from_millis(1);

/// The collection whose members contribute.
fn group_collection(group: ReductionGroup) -> CollectionId {
    match group {
        ReductionGroup::Collection(id) | ReductionGroup::Sync(id) => id,
        ReductionGroup::Section(section) => section.collection,
    }
}

impl Core {
    /// Contributes to the next reduction over the actor's collection.
    pub(crate) fn contribute(&mut self, slot: Slot, op: Op, value: Value, target: Target) {
        let Some(member) = self.member(slot.kind, slot.index) else { return };
        let sequence = member.reductions;
        member.reductions += 1;
        let id = member.id;
        if self.is_secondary(Sender::Actor(slot)) {
            return;
        }
        let partial = Partial::new(op, id.key, value);
        let group = ReductionGroup::Collection(id.collection);
        self.merge(Contribution { group, sequence, count: 1, expected: 0, op, target, partial });
    }

    /// Contributes to the next reduction over a section of `expected` members.
    pub(crate) fn contribute_to_section(
        &mut self,
        slot: Slot,
        section: SectionId,
        expected: u64,
        op: Op,
        value: Value,
        target: Target,
    ) {
        let Some(member) = self.member(slot.kind, slot.index) else { return };
        let key = member.id.key;
        let channels = member.channels.get_or_insert_default();
        let next = channels.section_reductions.entry(section).or_default();
        let sequence = *next;
        *next += 1;
        if self.is_secondary(Sender::Actor(slot)) {
            return;
        }
        let partial = Partial::new(op, key, value);
        let group = ReductionGroup::Section(section);
        self.merge(Contribution { group, sequence, count: 1, expected, op, target, partial });
    }

    /// Reaches the sync point. The member goes on once its handler has returned, unless it has to
    /// wait for the root.
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

    /// Combines a contribution with what is here, and passes it on if that is all.
    pub(in crate::pe) fn merge(&mut self, contribution: Contribution) {
        let Contribution { group, sequence, .. } = contribution;
        let merged = match self.accumulators.remove(&(group, sequence)) {
            None => {
                let deadline = self.now + REDUCTION_HOLD;
                Accumulator { contribution, deadline }
            }
            Some(Accumulator { contribution: here, deadline }) => {
                match self.combine(here, contribution) {
                    Ok(contribution) => Accumulator { contribution, deadline },
                    Err(error) => return self.fail(error),
                }
            }
        };
        let count = merged.contribution.count;
        if self.root.is_some() {
            self.accumulators.insert((group, sequence), merged);
            return self.settle_root(group_collection(group));
        }
        let outstanding = match self.groups.get(&group) {
            Some(state) => state.outstanding(sequence),
            None => self
                .collections
                .get(group_collection(group))
                .map_or(0, |local| local.slots.len() as u64),
        };
        if count >= outstanding {
            self.pass_up(merged.contribution);
        } else {
            self.accumulators.insert((group, sequence), merged);
        }
    }

    fn combine(&self, here: Contribution, other: Contribution) -> Result<Contribution, JobError> {
        let collection = group_collection(here.group).0;
        if (here.op, here.target) != (other.op, other.target) {
            return Err(JobError::Failed(format!(
                "members of collection {collection} contributed to one reduction with {:?} to {:?} and with {:?} to {:?}; all must agree",
                here.op, here.target, other.op, other.target
            )));
        }
        let count = here.count + other.count;
        let op = here.op;
        let partial = here.partial.combine(op, other.partial, &self.common.reducers);
        let partial = partial.ok_or_else(|| {
            JobError::Failed(format!(
                "members of collection {collection} contributed values of different kinds or lengths to one reduction with {op:?}"
            ))
        })?;
        Ok(Contribution { count, partial, ..other })
    }

    fn pass_up(&mut self, contribution: Contribution) {
        let Contribution { group, sequence, count, .. } = contribution;
        self.groups.entry(group).or_default().pass(sequence, count);
        if let Some(parent) = self.tree_parent() {
            self.post(parent, Control::Contribution(contribution));
        }
    }

    /// Passes up what has waited long enough.
    pub(in crate::pe) fn expire_accumulators(&mut self) {
        if self.root.is_some() {
            return;
        }
        let now = self.now;
        while let Some((&key, _)) =
            self.accumulators.iter().find(|(_, waiting)| waiting.deadline <= now)
            && let Some(late) = self.accumulators.remove(&key)
        {
            self.pass_up(late.contribution);
        }
    }

    /// When the next accumulator has waited long enough.
    pub(in crate::pe) fn next_accumulator(&self) -> Option<Time> {
        match self.root {
            Some(_) => None,
            None => self.accumulators.values().map(|waiting| waiting.deadline).min(),
        }
    }

    /// On the root: completes the reductions over a collection to which all have contributed.
    pub(super) fn settle_root(&mut self, collection: CollectionId) {
        self.skip_unattended_syncs(collection);
        while let Some(key) = self.complete_accumulator(collection) {
            let Some(done) = self.accumulators.remove(&key) else { return };
            let Contribution { group, op, target, partial, .. } = done.contribution;
            if let Some(state) = self.state(collection) {
                match group {
                    ReductionGroup::Collection(_) => state.reductions.complete(),
                    ReductionGroup::Sync(_) => state.syncs.complete(),
                    ReductionGroup::Section(section) => {
                        *state.sections.entry(section.name).or_default() += 1;
                    }
                }
            }
            match partial.finish() {
                Some(value) => self.conclude(group, op, target, value),
                None => self.fail(JobError::Failed(format!(
                    "members of collection {} contributed values that {op:?} cannot combine",
                    collection.0
                ))),
            }
        }
    }

    /// On the root: completes sync points that no member will reach any more, since those that have
    /// joined begin with later ones.
    fn skip_unattended_syncs(&mut self, collection: CollectionId) {
        let group = ReductionGroup::Sync(collection);
        let Some(root) = &mut self.root else { return };
        let Some(state) = root.collections.get_mut(&collection) else { return };
        while state.syncs.expected(state.syncs.next) == 0
            && self
                .accumulators
                .range((group, state.syncs.next + 1)..=(group, u64::MAX))
                .next()
                .is_some()
        {
            state.syncs.complete();
        }
    }

    fn complete_accumulator(&mut self, collection: CollectionId) -> Option<(ReductionGroup, u64)> {
        let state = self.root.as_ref()?.collections.get(&collection)?;
        let complete = |group: ReductionGroup, contribution: &Contribution| match group {
            ReductionGroup::Collection(_) => {
                contribution.sequence == state.reductions.next
                    && contribution.count >= state.reductions.expected(contribution.sequence)
            }
            ReductionGroup::Sync(_) => {
                contribution.sequence == state.syncs.next
                    && contribution.count >= state.syncs.expected(contribution.sequence)
            }
            ReductionGroup::Section(section) => {
                let next = state.sections.get(&section.name).copied().unwrap_or_default();
                contribution.sequence == next && contribution.count >= contribution.expected
            }
        };
        self.accumulators
            .iter()
            .find(|((group, _), waiting)| {
                group_collection(*group) == collection && complete(*group, &waiting.contribution)
            })
            .map(|(&key, _)| key)
    }

    /// Delivers the result of a reduction.
    fn conclude(&mut self, group: ReductionGroup, op: Op, target: Target, value: Value) {
        let collection = group_collection(group);
        match target {
            Target::Main => {
                let Some(state) = self.state(collection) else { return };
                let for_main = state.for_main.entry(group).or_default();
                match for_main.waits.pop_front() {
                    Some(wait) => wait(self, Ok((op, value))),
                    None => for_main.results.push_back((op, value)),
                }
            }
            Target::Sync => self.complete_sync(collection),
            Target::Member { to, tag } => {
                let reduction = Reduction { collection, tag, value };
                self.deliver_result(to.collection, Some(to), reduction);
            }
            Target::All { to, tag } => {
                self.deliver_result(to, None, Reduction { collection, tag, value });
            }
        }
    }

    /// Sends a result to one member, or to all members of a collection.
    fn deliver_result(
        &mut self,
        receivers: CollectionId,
        member: Option<ActorId>,
        reduction: Reduction,
    ) {
        let kind = self.collections.get(receivers).map(|local| local.info.kind);
        let Some((kind, known)) = kind.and_then(|kind| Some((kind, self.kind(kind)?))) else {
            return self.fail_no_collection(receivers);
        };
        let Some(message) = known.reduced(reduction) else {
            return self.fail(JobError::Failed(format!(
                "{} was sent the result of a reduction; implement `Actor::reduced` for it",
                known.name()
            )));
        };
        match member {
            None => {
                let priority = 0;
                let (asked, wanted) = (nobody(receivers), Wanted::Message(message));
                let request = BroadcastRequest { kind, asked, wanted, priority };
                self.accept_broadcast(receivers, request);
            }
            Some(to) => self.send_any(kind, to, message),
        }
    }

    /// Calls `wait` with the next result that the members of a group send to main.
    pub(crate) fn await_reduction(
        &mut self,
        group: ReductionGroup,
        wait: impl FnOnce(&mut Self, Result<(Op, Value), GridError>) + Send + 'static,
    ) {
        let Some(state) = self.state(group_collection(group)) else {
            return wait(self, Err(GridError::Ending));
        };
        let for_main = state.for_main.entry(group).or_default();
        match for_main.results.pop_front() {
            Some(result) => wait(self, Ok(result)),
            None => for_main.waits.push_back(Box::new(wait)),
        }
    }
}
