//! The last step of reductions: the coordinator combines the contributions from the tree, and sends
//! the result to main, to a member, or to all members of a collection.
//!
//! A combined contribution carries its number of contributors, and a reduction is complete when
//! that number equals the number of members that take part. So the result does not depend on where
//! a member was when it contributed.

use super::broadcasts::by_runtime;
use super::event::Asker;
use super::machine::Coordinator;
use super::state::broadcasts::BroadcastRequest;
use crate::address::id::{ActorId, CollectionId};
use crate::error::Misuse;
use crate::message::{Contribution, Control, ReductionGroup, Wanted};
use crate::reduce::{Op, Reduction, Target, Value};

/// Bytes of memory for each member that has received a result, in a table that is at least half
/// full. They count towards the memory budget, since an entry is never removed.
pub(super) const RESULT_NUMBER_BYTES: usize = 2 * size_of::<(ActorId, u64)>();

impl Coordinator {
    /// Merges a contribution that PEs have combined.
    pub(super) fn merge(&mut self, contribution: Contribution) {
        let Contribution { group, sequence, .. } = contribution;
        let accumulators = &mut self.accumulators.0;
        let merged = match accumulators.remove(&(group, sequence)) {
            None => contribution,
            Some(here) => match here.combine(contribution, &self.common.reducers) {
                Ok(merged) => merged,
                Err(error) => return self.fail(error),
            },
        };
        accumulators.insert((group, sequence), merged);
        self.complete_reductions(group);
    }

    /// Completes the reductions over a group, and the sync points of its collection, to which all
    /// members have contributed. Called for the group of each contribution, and for the collection
    /// of each member that leaves; neither completes a reduction over another group.
    pub(super) fn complete_reductions(&mut self, group: ReductionGroup) {
        let collection = group.collection();
        self.skip_unattended_syncs(collection);
        let syncs = ReductionGroup::Sync(collection);
        while let Some(done) = self.take_complete(group).or_else(|| self.take_complete(syncs)) {
            let Contribution { group, op, target, partial, .. } = done;
            if let Some(state) = self.state(collection) {
                state.complete(group);
            }
            match partial.finish() {
                Some(value) => self.conclude(group, op, target, value),
                None => {
                    let (collection, operation) = (collection.0, format!("{op:?}"));
                    self.fail(Misuse::CannotCombine { collection, operation }.into());
                }
            }
        }
    }

    /// Completes sync points that no member will reach, because the members that have joined start
    /// with later ones.
    fn skip_unattended_syncs(&mut self, collection: CollectionId) {
        let group = ReductionGroup::Sync(collection);
        let Some(state) = self.collections.get_mut(&collection) else { return };
        let accumulators = &self.accumulators.0;
        let later = |next: u64| {
            let first = (group, next.checked_add(1)?);
            accumulators.range(first..=(group, u64::MAX)).next().map(|(key, _)| key.1)
        };
        while state.syncs.expected(state.syncs.next) == 0
            && let Some(later) = later(state.syncs.next)
        {
            state.syncs.skip_until(later);
        }
    }

    /// Removes and returns the next reduction over a group, if it is complete. A job may have very
    /// many sections, so this looks at no other group.
    fn take_complete(&mut self, group: ReductionGroup) -> Option<Contribution> {
        let state = self.collections.get(&group.collection())?;
        let next = (group, state.next(group));
        let accumulators = &mut self.accumulators.0;
        let is_complete = accumulators.get(&next).is_some_and(|here| state.is_complete(here));
        is_complete.then(|| accumulators.remove(&next)).flatten()
    }

    /// Delivers the result of a reduction.
    fn conclude(&mut self, group: ReductionGroup, op: Op, target: Target, value: Value) {
        let collection = group.collection();
        match target {
            Target::Main => {
                let Some(state) = self.state(collection) else { return };
                let for_main = state.for_main.entry(group).or_default();
                match for_main.askers.pop_front() {
                    Some(asker) => self.answer(asker, Some((op, value))),
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

    /// Sends a result to one member, through its home, which knows where it lives, or to all
    /// members of a collection.
    fn deliver_result(
        &mut self,
        receivers: CollectionId,
        member: Option<ActorId>,
        reduction: Reduction,
    ) {
        let Some(state) = self.collections.get(&receivers) else {
            return self.fail_no_collection(receivers);
        };
        let kind = state.info.kind;
        let Some(known) = self.common.kind(kind) else { return };
        let Some(message) = known.reduced(reduction) else {
            return self.fail(Misuse::NotReduced { actor: known.name().to_owned() }.into());
        };
        match member {
            None => {
                let (asked, wanted) = (by_runtime(receivers), Wanted::Message(message));
                let request = BroadcastRequest { kind, asked, wanted, priority: 0 };
                self.accept_broadcast(receivers, request);
            }
            Some(to) => {
                let Some(home) = self.home(to) else { return };
                let budget = &self.budget;
                let next = self.result_numbers.entry(to).or_insert_with(|| {
                    budget.keep_forever(RESULT_NUMBER_BYTES);
                    0
                });
                let number = *next;
                *next += 1;
                self.post(home, Control::Result { kind, to, number, message });
            }
        }
    }

    /// Answers with the next result that the members of a group send to main, or with `None` if the
    /// group's collection does not exist.
    pub(super) fn await_reduction(&mut self, asker: Asker, group: ReductionGroup) {
        let Some(state) = self.state(group.collection()) else {
            return self.answer(asker, None::<(Op, Value)>);
        };
        let for_main = state.for_main.entry(group).or_default();
        match for_main.results.pop_front() {
            Some(result) => self.answer(asker, Some(result)),
            None => for_main.askers.push_back(asker),
        }
    }
}
