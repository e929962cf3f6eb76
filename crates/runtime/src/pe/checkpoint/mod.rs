//! A PE's part in the making of a checkpoint; see `coordinator/checkpoint.rs`.

pub(in crate::pe) mod captured_part;
mod encoding;
pub(in crate::pe) mod groups;
mod partner;
pub(in crate::pe) mod resizing;
pub(in crate::pe) mod restoration;
mod restore;
pub(in crate::pe) mod segments;
mod sending;
pub(in crate::pe) mod settings;
pub(in crate::pe) mod state;
mod targets;
pub(in crate::pe) mod unencoded_members;
mod versions;

use super::Pe;
use super::core::Core;
use super::replicas;
use crate::address::collection::{CollectionInfo, Map};
use crate::address::id::{COORDINATOR, KindId, MAIN_PE};
use crate::error::Warning;
use crate::message::{
    CheckpointMessage, Control, DelayedImage, DrainCounts, MainRequest, MembershipMessage,
    NOT_STORED, PartImage, QuestionImage,
};
use crate::pe::PlantedFault;
use crate::pe::command::PeCommand;
use bytes::Bytes;
use gridspan_topology::{NodeId, PeId, Time};
use std::time::Duration;

/// Time before the next try, if a checkpoint had to be postponed.
const RETRY: Duration = Duration::from_millis(200);

impl Pe {
    pub(super) fn handle_checkpoint(&mut self, from: PeId, message: CheckpointMessage) {
        match message {
            CheckpointMessage::Drain { checkpoint, round, captures } => {
                self.stop(checkpoint, round, captures);
            }
            CheckpointMessage::Captured { checkpoint, leaving, is_pause } => {
                match is_pause {
                    true => self.core.checkpointing.is_pause = true,
                    false => self.resume_handling(checkpoint),
                }
                self.accept_capture(checkpoint, &leaving);
            }
            CheckpointMessage::Resume { checkpoint } => {
                let resolved = &mut self.core.checkpointing.last_resolved;
                *resolved = checkpoint.max(*resolved);
                self.drop_capture(checkpoint);
                self.resume_handling(checkpoint);
            }
            CheckpointMessage::Copy { segment, offset, total, bytes } => {
                self.core.take_copy((from, segment), (offset, total, bytes));
            }
            CheckpointMessage::Complete { checkpoint, manifest, is_paused, cost } => {
                let state = &mut self.core.checkpointing;
                state.cost = cost;
                state.is_unprotected = false;
                state.last_resolved = state.last_resolved.max(checkpoint);
                self.core.commands.push(PeCommand::CheckpointComplete { manifest, is_paused });
            }
            CheckpointMessage::Restore(part) => self.install(part),
            CheckpointMessage::Publish { id, value } => {
                self.core.handle_publish(id, value);
                self.core.report_restored(1);
            }
            CheckpointMessage::Places(members) => self.core.learn_places(from, &members),
            CheckpointMessage::Ended(gone) => self.core.restore_sections_of(gone),
            // These are for the coordinator.
            _ => {}
        }
    }

    /// Stops handling messages for a checkpoint, and reports the counts of this PE. If the order to
    /// continue after the previous checkpoint has not come yet, this PE continues first. Replicas
    /// of actors here end before this PE stops. Until it has answered, the coordinator begins no
    /// other checkpoint, even if it gives this one up. `captures`: whether this PE also captures
    /// its part; never in the first round.
    fn stop(&mut self, checkpoint: u64, round: u64, captures: bool) {
        let before = self.core.checkpointing.stop;
        if before < checkpoint {
            self.resume_handling(before);
            let core = &mut self.core;
            core.checkpointing.ended_replicas = core.end_all_replicas();
            core.checkpointing.is_given_up = false;
            (core.checkpointing.stop, core.checkpointing.first_round) = (checkpoint, Some(round));
            self.stop_without_replicas();
        } else if before == checkpoint && self.core.checkpointing.is_stopped {
            self.report_drained(round);
            if captures {
                self.capture(checkpoint);
            }
        }
    }

    /// Stops handling messages for a checkpoint, once no actor here has a replica. Replicas can end
    /// although other PEs have stopped, because all messages that they have to handle are already
    /// in flight. If the checkpoint was given up, other PEs may have begun new replicas here. These
    /// do not end, so this PE does not wait for them.
    pub(super) fn stop_without_replicas(&mut self) {
        let has_replicas = match self.core.checkpointing.is_given_up {
            true => self.core.has_ending_replicas(),
            false => self.core.replicas.is_any(),
        };
        if has_replicas {
            return;
        }
        if let Some(round) = self.core.checkpointing.first_round.take() {
            self.core.checkpointing.is_stopped = true;
            self.report_drained(round);
            if std::mem::take(&mut self.core.checkpointing.is_given_up) {
                self.resume_handling(self.core.checkpointing.stop);
            }
        }
    }

    fn report_drained(&mut self, round: u64) {
        let unmovable = self.stores.iter().map(|store| store.unmovable()).sum();
        self.core.drain(round, unmovable);
    }

    /// Handles messages again, if this PE has stopped for that checkpoint. If it still waits for
    /// replicas to end, it first stops and then continues, because it can begin the replicas again
    /// only after they have ended. Restored members learn that they have arrived.
    fn resume_handling(&mut self, checkpoint: u64) {
        let core = &mut self.core;
        if core.checkpointing.stop == checkpoint && core.checkpointing.first_round.is_some() {
            core.checkpointing.is_given_up = true;
            return;
        }
        let is_stopped = &mut core.checkpointing.is_stopped;
        if core.checkpointing.stop != checkpoint || !std::mem::take(is_stopped) {
            return;
        }
        core.checkpointing.is_pause = false;
        core.checkpointing.targets.clear();
        core.checkpointing.dealt.clear();
        self.form_groups();
        let Self { core, stores, .. } = self;
        let is_restored = core.checkpointing.restoration.take().is_some();
        core.await_quiescence_again();
        for (kind, slot) in std::mem::take(&mut core.checkpointing.restored) {
            let waits = core.member(kind, slot).is_some_and(|member| member.synced);
            stores[kind.index()].arrived(core, slot);
            // If the job had a strategy at the checkpoint and has none now, no sync point will be
            // settled, so no member may wait for one.
            if waits && core.leave_sync(kind, slot) {
                stores[kind.index()].resume(core, slot);
            }
        }
        for (collection, syncs) in std::mem::take(&mut core.checkpointing.settled) {
            let Some((kind, slots)) = core.take_settled(collection, syncs) else { continue };
            for slot in slots {
                if core.leave_sync(kind, slot) {
                    stores[kind.index()].resume(core, slot);
                }
            }
        }
        for order in std::mem::take(&mut core.checkpointing.ended_replicas) {
            replicas::begin(core, stores, order, None);
        }
        core.release_main();
        if is_restored {
            core.send_copies();
        }
    }
}

impl Core {
    /// Runs an action of main now, or once this PE handles messages again.
    pub(crate) fn act_for_main(&mut self, action: super::Action) {
        match self.checkpointing.is_stopped || self.checkpointing.is_requested {
            true => self.checkpointing.waiting.push(action),
            false => {
                self.main_goes_on();
                action(self);
            }
        }
    }

    /// Runs the deferred actions of main, if this PE handles messages.
    fn release_main(&mut self) {
        for action in std::mem::take(&mut self.checkpointing.waiting) {
            self.act_for_main(action);
        }
    }

    /// Whether a replica that has to end for a checkpoint, and whose primary is here, still exists.
    fn has_ending_replicas(&self) -> bool {
        let is_ending = |id| self.replicas.get(id).is_some() || self.replicas.is_trailing(id);
        self.checkpointing.ended_replicas.iter().any(|order| is_ending(order.id))
    }

    fn report_checkpoint(&mut self, message: CheckpointMessage) {
        self.post(COORDINATOR, Control::Checkpoint(Box::new(message)));
    }

    /// Passes contributions up, and reports the counts of this PE.
    fn drain(&mut self, round: u64, unmovable: u64) {
        self.pass_all_up();
        let queues = self.queues.iter().map(|queue| queue.len());
        let followers = self.followers.values().map(Vec::len);
        let counts = DrainCounts {
            created: self.created,
            processed: self.processed,
            waiting: (queues.sum::<usize>() + self.timers.delayed().count() + self.waits.tagged())
                as u64
                + self.checkpointing.repeatable_tasks,
            stranded: self.delivery.waiting()[1],
            insertions: (self.delivery.tombstones_awaited() + followers.sum::<usize>()) as u64,
            questions: self.waits.not_storable() as u64,
            replicas: self.checkpointing.ended_replicas.len() as u64,
            tasks: self.checkpointing.tasks,
            unmovable,
            questions_of_main: self.waits.not_storable_of_main() as u64,
        };
        self.report_checkpoint(CheckpointMessage::Drained { round, counts });
    }

    /// The part of this PE in an image, without members. Members that checkpoints leave out count
    /// as gone.
    fn image_without_members(&self) -> PartImage {
        let is_kept = |delayed: &DelayedImage| !self.common.is_left_out(delayed.kind);
        let delayed = match self.common.fault {
            PlantedFault::TimersLeftOut => Vec::new(),
            _ => self.delayed_images().into_iter().filter(is_kept).collect(),
        };
        let is_kept = |question: &QuestionImage| !self.common.is_left_out(question.kind);
        let questions = match self.common.fault {
            PlantedFault::QuestionsLeftOut => Vec::new(),
            _ => self.question_images().into_iter().filter(is_kept).collect(),
        };
        let mut gone = self.delivery.gone(self.me);
        for (number, members) in self.members.iter().enumerate() {
            if self.common.is_left_out(KindId(number as u16)) {
                gone.extend(members.iter().flatten().map(|member| member.id));
            }
        }
        PartImage {
            delayed,
            phases: self.phases.iter().map(|(&phase, &counts)| (phase, counts)).collect(),
            gone,
            published: self.published_images(),
            questions,
            gone_sections: self.delivery.sections_of_gone(self.me),
            ..PartImage::default()
        }
    }

    /// Notes that the driver keeps a part of a checkpoint.
    pub fn checkpoint_kept(&mut self, checkpoint: u64, part: PeId, is_copy: bool) {
        self.report_checkpoint(CheckpointMessage::Kept { checkpoint, part, is_copy });
    }

    /// Notes that the driver cannot keep a part of a checkpoint.
    pub fn checkpoint_not_kept(&mut self, checkpoint: u64, reason: String) {
        self.report_checkpoint(CheckpointMessage::NotKept { checkpoint, reason });
    }

    /// Requests a checkpoint on behalf of main if one is due, and answers with its number, with
    /// `None` if none is due, or with the reason why it is postponed. `streamed` is the number of
    /// tasks of streams whose outputs main has not taken.
    pub(crate) fn progress(
        &mut self,
        progress: Bytes,
        phases: u32,
        streamed: u64,
        done: impl FnOnce(Result<Option<u64>, String>) + Send + 'static,
    ) {
        let settings = &self.common.run.checkpoints;
        let state = &mut self.checkpointing;
        let points = state.points + 1;
        let nodes = self.common.layout.node_count();
        state.note_point(self.now, settings.patience(state.cost, nodes));
        let since = state.last.map(|last| self.now.since(last));
        let is_due = settings.is_due(since, points, state.cost, nodes);
        let is_unprotected = state.is_unprotected && settings.every.is_some();
        let is_wanted = is_due || is_unprotected || state.pause.is_some();
        if !is_wanted || self.now < state.retry_at {
            state.points = points;
            return done(Ok(None));
        }
        if state.last_captured > state.last_resolved {
            state.points = points;
            self.report_no_pause(NOT_STORED);
            self.warn_of_postponement(NOT_STORED);
            return done(Err(NOT_STORED.to_owned()));
        }
        if streamed > 0 {
            state.retry_at = self.now + RETRY;
            let reason = format!("main has not taken the outputs of {streamed} tasks of streams");
            self.report_no_pause(&reason);
            self.warn_of_postponement(&reason);
            return done(Err(reason));
        }
        // Actions of main wait until the checkpoint is made.
        state.is_requested = true;
        let begun = self.now;
        let pause = state.pause.clone();
        let request = MainRequest::Checkpoint { progress, phases, pause };
        self.ask_coordinator(request, move |core, made: Result<(u64, Duration), String>| {
            let now = core.now;
            core.checkpointing.is_requested = false;
            match &made {
                Err(reason) => {
                    core.checkpointing.retry_at = now + RETRY;
                    core.report_no_pause(reason);
                    core.warn_of_postponement(reason);
                }
                Ok((number, computed)) => {
                    core.checkpointing.last_captured = *number;
                    core.checkpointing.is_postponed_told = false;
                    core.checkpointing.postponed_since = None;
                    (core.checkpointing.last, core.checkpointing.points) = (Some(now), 0);
                    core.checkpointing.cost = now.since(begun).saturating_sub(*computed);
                }
            }
            done(made.map(|(number, _)| Some(number)));
            core.release_main();
        });
    }

    /// Stops the job after a checkpoint at main's next progress point, so that its launcher can
    /// begin another run without the nodes `leaving`, or end it if `is_end`. If the job can go on
    /// without these nodes, they give back their tasks until then.
    ///
    /// # Errors
    ///
    /// The reason why the job cannot continue on other nodes: it has a group that must keep its
    /// size.
    pub fn pause(&mut self, leaving: Vec<NodeId>, is_end: bool) -> Result<(), String> {
        if let Some(actor) = self.fixed_group().filter(|_| !is_end) {
            return Err(format!(
                "it has a group of `{actor}`, which must keep its size; add the type with \
                 `Job::resizable_group`"
            ));
        }
        if self.common.recovers_tasks && !leaving.is_empty() {
            let rest = MembershipMessage::Rest { nodes: leaving.clone() };
            self.post(COORDINATOR, Control::Membership(rest));
        }
        self.checkpointing.pause = Some(leaving);
        self.checkpointing.retry_at = Time::ZERO;
        self.checkpointing.is_late_told = false;
        Ok(())
    }

    /// The type of a group that must keep its size, if there is one.
    fn fixed_group(&self) -> Option<&str> {
        let is_fixed = |info: &&CollectionInfo| {
            let is_group = matches!(info.map, Map::PerPe | Map::PerNode);
            is_group && !self.common.resizing.contains_key(&info.kind)
        };
        let info = self.collections.values().map(|local| &local.info).find(is_fixed)?;
        Some(self.common.kind(info.kind).map_or("an actor", |kind| kind.name()))
    }

    /// Warns once if the job is to stop, and the checkpoint for that is postponed.
    fn report_no_pause(&mut self, reason: &str) {
        let state = &mut self.checkpointing;
        if state.pause.is_some() && !std::mem::replace(&mut state.is_late_told, true) {
            let warning = Warning::ChangeWaits { reason: reason.to_owned() };
            self.common.watch.on_warning.iter().for_each(|tell| tell(&warning));
        }
    }

    /// Warns once after each progress point if the job makes checkpoints and main has not reached
    /// another one for a long time. If the time before that point was long, too, the warning comes
    /// only after twice as long, so that a main with regular long steps causes one warning.
    pub(crate) fn warn_without_progress(&mut self) {
        let state = &mut self.checkpointing;
        let settings = &self.common.run.checkpoints;
        let patience = settings.patience(state.cost, self.common.layout.node_count());
        let since = self.now.since(state.last_point.max(state.began));
        let patience = patience.map(|patience| patience.max(state.last_gap.saturating_mul(2)));
        let is_late = patience.is_some_and(|patience| since >= patience) && !state.is_requested;
        if is_late && !std::mem::replace(&mut state.is_quiet_told, true) {
            let warning = Warning::NoProgressPoint { job: self.common.run.job.clone(), since };
            self.common.watch.on_warning.iter().for_each(|tell| tell(&warning));
        }
    }

    /// Warns once if the job makes checkpoints and has postponed them for a long time.
    fn warn_of_postponement(&mut self, reason: &str) {
        let state = &mut self.checkpointing;
        let settings = &self.common.run.checkpoints;
        let patience = settings.patience(state.cost, self.common.layout.node_count());
        let since = self.now.since(*state.postponed_since.get_or_insert(self.now));
        let is_late = patience.is_some_and(|patience| since >= patience);
        if is_late && !std::mem::replace(&mut state.is_postponed_told, true) {
            let (job, reason) = (self.common.run.job.clone(), reason.to_owned());
            let warning = Warning::CheckpointsPostponed { job, since, reason };
            self.common.watch.on_warning.iter().for_each(|tell| tell(&warning));
        }
    }

    /// Whether main waits for the coordinator.
    pub(crate) fn main_waits(&self) -> bool {
        self.waits.is_for_main()
    }

    /// The published values, on main's PE.
    fn published_images(&self) -> Vec<(u32, Bytes)> {
        let values = self.published.iter().filter(|_| self.me == MAIN_PE);
        values.map(|(&id, published)| (id, published.bytes.clone())).collect()
    }
}

#[cfg(test)]
mod tests;
