//! Stops all PEs in rounds until nothing is in flight, and lets them continue.

use crate::address::collection::CollectionInfo;
use crate::coordinator::checkpoint::image::too_large;
use crate::coordinator::machine::Coordinator;
use crate::coordinator::state::checkpoint::{Draining, Keeping, Making, Stage};
use crate::coordinator::state::timers::Timer;
use crate::message::codec::encoded_len;
use crate::message::pending_work::counted;
use crate::message::{CheckpointMessage, Control, DrainCounts, ReductionGroup, drain_pause};
use crate::pe::{PlantedFault, Resizing};
use gridspan_topology::{NodeId, PeId};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// Time for which messages may stay in flight while PEs are drained.
pub(super) const DRAIN_MAX: Duration = Duration::from_secs(10);

impl Coordinator {
    /// Begins the first round once no rebalance is in progress, and all replicas that ended for the
    /// previous checkpoint have begun again. Called after each event.
    pub(in crate::coordinator) fn begin_checkpoint(&mut self) {
        let is_settled = self.balances.is_settled()
            && self.departing.is_none()
            && self.checkpoints.rebuilding == 0;
        let now = self.now;
        if let Some(making) = &mut self.checkpoints.making
            && is_settled
            && matches!(making.stage, Stage::Waiting)
        {
            making.since = Some(now);
            self.begin_drain_round();
        }
    }

    /// Begins the next round, unless an update has made the coordinator begin it before.
    pub(in crate::coordinator) fn end_drain_pause(&mut self) {
        let making = self.checkpoints.making.as_ref();
        let is_answered =
            |it: &Making| matches!(&it.stage, Stage::Draining(round) if round.missing.is_empty());
        if making.is_some_and(is_answered) {
            self.begin_drain_round();
        }
    }

    fn begin_drain_round(&mut self) {
        let pes: Vec<PeId> = self.common.layout.pes().collect();
        let Some(making) = &mut self.checkpoints.making else { return };
        let (round, previous) = match &making.stage {
            Stage::Waiting => (1, None),
            Stage::Draining(before) => (before.round + 1, Some(before.total)),
            Stage::Paused => return,
        };
        let is_faulty = self.common.fault == PlantedFault::CapturedInFlight;
        let captures = previous.is_some_and(|sum| is_quiet(sum) || is_faulty);
        let missing = pes.iter().copied().collect();
        let checkpoint = making.number;
        let draining = Draining::new((round, captures), missing, previous, self.now);
        making.stage = Stage::Draining(Box::new(draining));
        for pe in pes {
            self.post_checkpoint(pe, CheckpointMessage::Drain { checkpoint, round, captures });
        }
    }

    /// Notes the counts of a PE, of which it has answered a round, or which have changed since it
    /// has answered: a message that was in flight has arrived. In the first round after a stop, PEs
    /// near the coordinator answer before messages from distant ones have arrived. Without their
    /// updates, the job would stand still for another round.
    pub(super) fn note_drained(
        &mut self,
        from: PeId,
        (checkpoint, of): (u64, u64),
        counts: DrainCounts,
    ) {
        if self.take_late_answer(from, (checkpoint, of), counts.replicas) {
            return;
        }
        let own = [self.created, self.processed];
        let now = self.now;
        let Some(making) = self.checkpoints.making.as_mut().filter(|it| it.number == checkpoint)
        else {
            return;
        };
        let Stage::Draining(draining) = &mut making.stage else { return };
        if of != draining.round {
            return;
        }
        let is_update = !draining.missing.remove(&from);
        if is_update && draining.captures {
            return;
        }
        draining.note(from, counts, own, now);
        if !draining.missing.is_empty() {
            return;
        }
        if !is_update {
            self.end_drain_round();
        } else if is_quiet(draining.total) {
            self.begin_drain_round();
        }
    }

    /// Decides what follows a round that all PEs have answered.
    fn end_drain_round(&mut self) {
        let contributing = self.group_contributing();
        let Some(making) = &mut self.checkpoints.making else { return };
        let Stage::Draining(draining) = &making.stage else { return };
        let Draining { captures, total: sum, previous, answers, .. } = &**draining;
        // PEs answer the first round after the handler under way, and later ones at once.
        let first = *making.first_answers.get_or_insert(*answers);
        making.computed = first.saturating_sub(*answers) / self.common.layout.pe_count();
        let (sum, captures, is_repeated) = (*sum, *captures, *previous == Some(*sum));
        making.replicas = sum.replicas;
        let since = making.since.unwrap_or(self.now);
        let left = sum.in_flight();
        let waited = self.now.since(since);
        let reason = if sum.questions > 0 {
            Some(questions_without_answer(&sum))
        } else if sum.tasks > 0 {
            Some(counted(sum.tasks, "task is not done", "tasks are not done"))
        } else if sum.unmovable > 0 {
            let several = "actors wait within an async method";
            Some(counted(sum.unmovable, "actor waits within an async method", several))
        } else if let Some(actor) = contributing {
            Some(format!("an operation over the group of `{actor}` is under way"))
        } else if left > 0 && left == sum.stranded.saturating_add(sum.insertions) {
            Some(format!("{left} messages or insertions wait for members that do not exist yet"))
        } else if left > 0 && waited >= DRAIN_MAX {
            Some(format!("{left} messages were in flight for {DRAIN_MAX:?}"))
        } else {
            None
        };
        let is_drained =
            left == 0 && is_repeated || self.common.fault == PlantedFault::CapturedInFlight;
        match reason {
            // After one round, answers and members may still be on their way.
            Some(reason) if is_repeated => self.end_making(reason),
            None if captures && is_drained => self.continue_captured(),
            _ if left == 0 => self.begin_drain_round(),
            _ => self.run_after(
                drain_pause(waited, self.common.layout.pe_count()),
                Timer::EndDrainPause,
            ),
        }
    }

    /// Notes that a PE has answered a round of draining. Returns whether the coordinator had given
    /// up that checkpoint.
    fn take_late_answer(&mut self, from: PeId, round: (u64, u64), replicas: u64) -> bool {
        let checkpoints = &mut self.checkpoints;
        let is_late = round == checkpoints.late_round && checkpoints.late.remove(&from);
        if is_late && checkpoints.is_late_with_replicas {
            checkpoints.rebuilding = checkpoints.rebuilding.saturating_add(replicas);
        }
        is_late
    }

    /// The type of a group that can change its size and may have an operation under way. Of the
    /// collections of a section, only the oldest is known here; all have one type of actors.
    fn group_contributing(&self) -> Option<&'static str> {
        let resizing = &self.common.resizing;
        let is_in_section = |info: &CollectionInfo| {
            let of_section = |(group, _): &(ReductionGroup, u64)| match group {
                ReductionGroup::Section(section) => self.collections.get(&section.collection),
                ReductionGroup::Collection(_) | ReductionGroup::Sync(_) => None,
            };
            let mut oldest = self.accumulators.0.keys().filter_map(of_section);
            oldest.any(|state| state.info.kind == info.kind && state.info.id <= info.id)
        };
        let contributes = |info: &&CollectionInfo| {
            let is_resizable = matches!(resizing.get(&info.kind), Some(Resizing::Merge { .. }));
            is_resizable
                && !info.migratable()
                && (self.accumulators.has(info.id) || is_in_section(info))
        };
        let info = self.collections.values().map(|state| &state.info).find(contributes)?;
        self.common.kind(info.kind).map(|kind| kind.name())
    }

    /// Lets all PEs continue with a checkpoint that they have captured, and tells main.
    fn continue_captured(&mut self) {
        let manifest = self.manifest();
        if let Some(reason) = too_large(&manifest, encoded_len(&manifest)) {
            return self.end_making(reason);
        }
        let missing = self.all_copies();
        let Some(making) = &mut self.checkpoints.making else { return };
        let (checkpoint, is_pause) = (making.number, making.pause.is_some());
        let leaving = making.pause.clone().unwrap_or_default();
        let begun = making.since.unwrap_or(self.now);
        self.checkpoints.keeping = Some(Keeping {
            number: checkpoint,
            manifest,
            speeds: self.balances.speeds.clone(),
            parts: BTreeMap::new(),
            missing,
            stopped: self.now.since(begun).saturating_sub(making.computed),
            encoding: Duration::ZERO,
            since: self.now,
            heard: self.now,
            silence: Duration::ZERO,
            copying: Duration::ZERO,
        });
        self.checkpoints.given_up = 0;
        self.post_checkpoint_to_all(|| {
            let leaving = leaving.clone();
            CheckpointMessage::Captured { checkpoint, leaving, is_pause }
        });
        if let Some(making) = self.checkpoints.making.as_mut().filter(|_| is_pause) {
            making.stage = Stage::Paused;
        } else if let Some(making) = self.take_making() {
            self.answer(making.asker, Ok::<_, String>((checkpoint, making.computed)));
        }
    }

    /// The parts of all PEs, each with every node that keeps it in memory.
    fn all_copies(&self) -> BTreeSet<(PeId, NodeId)> {
        let making = self.checkpoints.making.as_ref();
        let leaving = making.and_then(|it| it.pause.as_deref()).unwrap_or_default();
        let layout = &self.common.layout;
        let mut all = BTreeSet::new();
        for node in layout.nodes() {
            let partners = self.common.partners(node, leaving);
            for pe in layout.place(node).pes.clone().map(PeId) {
                all.insert((pe, node));
                all.extend(partners.iter().map(|&partner| (pe, partner)));
            }
        }
        all
    }

    /// Ends the making of a checkpoint that is given up: all PEs continue, and main learns why.
    pub(super) fn end_making(&mut self, reason: String) {
        let Some(making) = self.take_making() else { return };
        let checkpoint = making.number;
        self.post_checkpoint_to_all(|| CheckpointMessage::Resume { checkpoint });
        self.answer(making.asker, Err::<(u64, Duration), _>(reason));
    }

    /// Ends the making of a checkpoint. The replicas that ended for it begin again.
    fn take_making(&mut self) -> Option<Making> {
        let making = self.checkpoints.making.take()?;
        // If this checkpoint was given up at once, some replicas of the previous one may not have
        // begun again yet.
        self.checkpoints.rebuilding = self.checkpoints.rebuilding.saturating_add(making.replicas);
        Some(making)
    }

    pub(super) fn post_checkpoint_to_all(&mut self, make: impl Fn() -> CheckpointMessage) {
        for pe in self.common.layout.pes() {
            self.post_checkpoint(pe, make());
        }
    }

    pub(super) fn post_checkpoint(&mut self, to: PeId, message: CheckpointMessage) {
        self.post(to, Control::Checkpoint(Box::new(message)));
    }
}

/// Says how many questions have no answer, and whether main or actors have asked them.
pub(super) fn questions_without_answer(sum: &DrainCounts) -> String {
    let of_main = sum.questions_of_main;
    match (of_main, sum.questions.saturating_sub(of_main)) {
        (0, of_actors) => {
            let several = "questions of actors wait for an answer";
            counted(of_actors, "question of an actor waits for an answer", several)
        }
        (_, 0) => {
            let several = "questions of main wait for an answer";
            counted(of_main, "question of main waits for an answer", several)
        }
        (_, of_actors) => {
            let of_main = counted(of_main, "question of main", "questions of main");
            let of_actors = counted(of_actors, "question of an actor", "questions of actors");
            format!("{of_main} and {of_actors} wait for an answer")
        }
    }
}

/// Whether nothing is in flight by these counts, and nothing postpones the checkpoint.
fn is_quiet(sum: DrainCounts) -> bool {
    sum.in_flight() == 0 && !sum.postpone()
}
