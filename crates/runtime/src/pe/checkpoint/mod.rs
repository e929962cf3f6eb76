//! A PE's part in the making of a checkpoint; see `coordinator/checkpoint.rs`.

pub(in crate::pe) mod captured_part;
mod encoding;
pub(in crate::pe) mod groups;
mod partner;
mod progress;
pub(in crate::pe) mod resizing;
pub(in crate::pe) mod restoration;
mod restore;
pub(in crate::pe) mod segments;
mod sending;
pub(in crate::pe) mod settings;
pub(in crate::pe) mod slice;
pub(in crate::pe) mod state;
mod targets;
pub(in crate::pe) mod unencoded_members;
mod versions;

use super::Pe;
use super::core::Core;
use super::replicas;
use crate::address::id::{COORDINATOR, KindId, MAIN_PE};
use crate::message::{
    CheckpointMessage, Control, DelayedImage, DrainCounts, PartImage, QuestionImage, drain_pause,
};
use crate::pe::PlantedFault;
use crate::pe::checkpoint::state::Reported;
use crate::pe::command::PeCommand;
use bytes::Bytes;
use gridspan_topology::PeId;

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
                let now = self.core.now;
                self.core.checkpointing.main.note_resumed(checkpoint, now);
                self.drop_capture(checkpoint);
                self.resume_handling(checkpoint);
            }
            CheckpointMessage::Copy { segment, offset, total, bytes } => {
                self.core.take_copy((from, segment), (offset, total, bytes));
            }
            CheckpointMessage::LacksCopy => {
                self.core.checkpointing.main.note_lacking_copy(self.core.now);
            }
            CheckpointMessage::Complete { checkpoint, manifest, is_paused, cost } => {
                self.core.checkpointing.main.note_complete(checkpoint, cost);
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
                self.core.checkpointing.reported = None;
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

    /// Reports the counts of this PE again if they have changed since it stopped: now, or after a
    /// pause since the last report. Called at the end of a turn.
    pub(super) fn report_drained_again(&mut self) {
        let core = &mut self.core;
        let (messages, now) = (core.message_counts(), core.now);
        let pes = core.common.layout.pe_count();
        let Some(reported) = &mut core.checkpointing.reported else { return };
        let due = reported.at + drain_pause(now.since(reported.stopped), pes);
        let is_changed = messages != reported.messages;
        reported.due = Some(due).filter(|_| is_changed && now < due);
        if is_changed && now >= due {
            let round = reported.round;
            self.report_drained(round);
        }
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
        core.checkpointing.reported = None;
        core.checkpointing.is_pause = false;
        core.checkpointing.restoring.targets.clear();
        core.checkpointing.restoring.dealt.clear();
        self.form_groups();
        let Self { core, stores, .. } = self;
        let is_restored = core.checkpointing.restoring.restoration.take().is_some();
        core.await_quiescence_again();
        for (kind, slot) in std::mem::take(&mut core.checkpointing.restoring.restored) {
            let waits = core.member(kind, slot).is_some_and(|member| member.synced);
            stores[kind.index()].arrived(core, slot);
            // If the job had a strategy at the checkpoint and has none now, no sync point will be
            // settled, so no member may wait for one.
            if waits {
                stores[kind.index()].resume_if_settled(core, slot);
            }
        }
        for (collection, syncs) in std::mem::take(&mut core.checkpointing.restoring.settled) {
            let Some((kind, slots)) = core.take_settled(collection, syncs) else { continue };
            for slot in slots {
                stores[kind.index()].resume_if_settled(core, slot);
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
    /// Whether a replica that has to end for a checkpoint, and whose primary is here, still exists.
    fn has_ending_replicas(&self) -> bool {
        let is_ending = |id| self.replicas.get(id).is_some() || self.replicas.is_trailing(id);
        self.checkpointing.ended_replicas.iter().any(|order| is_ending(order.id))
    }

    fn report_checkpoint(&mut self, message: CheckpointMessage) {
        self.post(COORDINATOR, Control::Checkpoint(Box::new(message)));
    }

    /// Numbers of messages that this PE has created and handled, and of those in its mailboxes.
    fn message_counts(&self) -> [u64; 3] {
        let queued: usize = self.queues.iter().map(|queue| queue.len()).sum();
        [self.created, self.processed, queued as u64]
    }

    /// Passes contributions up, and reports the counts of this PE.
    fn drain(&mut self, round: u64, unmovable: u64) {
        self.pass_all_up();
        let messages = self.message_counts();
        let [created, processed, queued] = messages;
        let stopped = self.checkpointing.reported.as_ref().map_or(self.now, |it| it.stopped);
        let (at, due) = (self.now, None);
        self.checkpointing.reported = Some(Reported { round, messages, at, stopped, due });
        let checkpoint = self.checkpointing.stop;
        let followers = self.followers.values().map(Vec::len);
        let counts = DrainCounts {
            created,
            processed,
            waiting: queued
                + (self.timers.delayed().count() + self.waits.tagged()) as u64
                + self.checkpointing.repeatable_tasks,
            stranded: self.delivery.waiting()[1],
            insertions: (self.delivery.tombstones_awaited() + followers.sum::<usize>()) as u64,
            questions: self.waits.not_storable() as u64,
            replicas: self.checkpointing.ended_replicas.len() as u64,
            tasks: self.checkpointing.tasks,
            unmovable,
            questions_of_main: self.waits.not_storable_of_main() as u64,
        };
        self.report_checkpoint(CheckpointMessage::Drained { checkpoint, round, counts });
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

    /// Notes that the driver keeps a part of a checkpoint on this node.
    pub fn checkpoint_kept(&mut self, checkpoint: u64, part: PeId) {
        self.report_checkpoint(CheckpointMessage::Kept { checkpoint, part });
    }

    /// Notes that the driver cannot keep a part of a checkpoint.
    pub fn checkpoint_not_kept(&mut self, checkpoint: u64, reason: String) {
        self.report_checkpoint(CheckpointMessage::NotKept { checkpoint, reason });
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
