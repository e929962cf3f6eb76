//! Collections: the number of their members, and the collective operations on them.
//!
//! **Start.** Main creates a collection and gets its identifier. Main's PE then sends every PE the
//! description and the members that live there; PEs confirm that they have created them, and main
//! continues once all have. A message that overtakes the description waits for it.
//!
//! **While running.** `broadcasts` decides with which reduction and which broadcast a new member
//! starts, because it numbers broadcasts. The insertion then goes to the member's home, which
//! records where the member will live, and on to that PE. The destruction of a member is reported
//! here, and its tombstone stays at its home.
//!
//! `pe/partners` explains bound collections. Their broadcasts wait until all first members exist,
//! because a member that follows its partner may arrive on a PE that has already delivered a
//! broadcast. Quiescence counts the creation of such a collection as one message, since nothing
//! else counts the broadcasts that wait until the creation has ended.

use super::event::Asker;
use super::machine::Coordinator;
use super::state::collections::{Attendance, CollectionState};
use super::state::sequencer::Sequencer;
use crate::address::collection::{CollectionInfo, Map};
use crate::address::id::{ActorId, CollectionId, KindId};
use crate::address::index::{Key, Shape};
use crate::error::Misuse;
use crate::message::ReductionGroup;
use crate::message::limits::COLLECTIONS_MAX;
use std::collections::{BTreeMap, VecDeque};

impl Coordinator {
    /// Registers a collection of `members` members, and answers with its identifier. Answers the
    /// slot `created` once all PEs have created their members. Ends the job if it has too many
    /// collections.
    pub(super) fn create_collection(
        &mut self,
        asker: Asker,
        (kind, map, shape, members): (KindId, Map, Option<Shape>, u64),
        created: u64,
    ) {
        if self.collections.len() == COLLECTIONS_MAX {
            let limit = COLLECTIONS_MAX as u32;
            return self.fail(Misuse::TooManyCollections { limit }.into());
        }
        let id = CollectionId(self.collections.len() as u32);
        let info = CollectionInfo { id, kind, map, shape, members };
        let base = info.base();
        if let Some(base) = base
            && self.collections.get(&base).is_none_or(|state| state.info.base().is_some())
        {
            return self.fail_no_collection(base);
        }
        let placing = if base.is_some() { members } else { 0 };
        let state = CollectionState {
            info,
            creating: self.pes_left().saturating_add(placing),
            creator: Asker { slot: created, ..asker },
            reductions: Attendance::new(members),
            syncs: Attendance::new(members),
            broadcasts: 0,
            sequencer: Sequencer::default(),
            inserting: u32::from(base.is_some()),
            waiting: VecDeque::new(),
            sections: BTreeMap::new(),
            for_main: BTreeMap::new(),
        };
        self.created += u64::from(state.inserting);
        self.collections.insert(id, state);
        self.answer(asker, id);
    }

    /// Counts PEs and members that are ready, and answers main once all are. `missing` is the index
    /// of a member that cannot be created, because the base collection has no such member.
    pub(super) fn handle_created(
        &mut self,
        collection: CollectionId,
        ready: u64,
        missing: Option<Key>,
    ) {
        let Some(state) = self.collections.get_mut(&collection) else { return };
        if state.creating == 0 {
            return;
        }
        let left = if missing.is_some() { 0 } else { state.creating.saturating_sub(ready) };
        state.creating = left;
        if left > 0 {
            return;
        }
        let (creator, base) = (state.creator, state.info.base());
        match base {
            None => self.answer(creator, ()),
            Some(_) => {
                self.answer(creator, missing);
                self.processed += 1;
                self.end_insertion(collection);
            }
        }
        self.begin_periods();
        self.survey_to_balance();
    }

    /// Requests the places if the strategy predicts the time of a step, because the strategy needs
    /// them by the first rebalance.
    pub(super) fn survey_to_balance(&mut self) {
        let has_sites = self.common.layout.site_count() > 1;
        if self.balancer.is_active() && self.balancer.predicts() && has_sites {
            self.want_places();
        }
    }

    /// Continues with the broadcasts of a collection once no insertion into it is in progress.
    pub(super) fn end_insertion(&mut self, collection: CollectionId) {
        let Some(state) = self.state(collection) else { return };
        state.inserting = state.inserting.saturating_sub(1);
        if state.inserting == 0 {
            self.release_waiting(collection);
        }
    }

    pub(super) fn handle_destroyed(&mut self, id: ActorId, reductions: u64, syncs: u64) {
        if let Some(state) = self.state(id.collection) {
            state.reductions.leave(reductions);
            state.syncs.leave(syncs);
            self.complete_reductions(ReductionGroup::Collection(id.collection));
        }
    }
}
