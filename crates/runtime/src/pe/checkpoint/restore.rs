//! The restoration of an image on this PE.
//!
//! For each part of the image, one PE reads the part, keeps the members that continue on it, and
//! sends the others to their PEs. A member's home learns its place before any PE handles messages.

use super::restoration::Restoration;
use crate::address::id::{ActorId, COORDINATOR};
use crate::error::JobError;
use crate::message::{
    AwaitedImage, CheckpointMessage, Control, DelayedImage, MemberImage, MemberRecord, PartImage,
    QuestionImage, RestoreTarget, RestoredPart, SectionsOfGone, Segment,
};
use crate::pe::checkpoint::state::sending::CopyToSend;
use crate::pe::core::Core;
use crate::pe::delivery::Place;
use crate::pe::migrate;
use crate::pe::{Pe, PlantedFault};
use bytes::Bytes;
use gridspan_topology::{NodeId, PeId};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The epoch of members that do not continue at their homes.
const AWAY: u32 = 1;

impl Pe {
    /// Prepares this PE for the restoration of an image: it registers the collections, and handles
    /// no messages.
    pub(crate) fn prepare_to_restore(&mut self, restoration: &Arc<Restoration>) {
        let core = &mut self.core;
        let manifest = &restoration.manifest;
        core.checkpointing.restoring.restoration = Some(restoration.clone());
        (core.checkpointing.stop, core.checkpointing.is_stopped) = (manifest.number, true);
        core.checkpointing.began = manifest.at;
        core.now = manifest.at;
        core.checkpointing.main.note_restored(manifest.at, manifest.cost, restoration.is_again);
        if core.me == crate::address::id::MAIN_PE {
            core.checkpointing.main.progress = Some(manifest.progress.clone());
        }
        // Numbers of timers and slots of questions differ from those of earlier runs.
        core.timers.number_from((manifest.number + 1) << 32);
        core.waits.number_from((manifest.number + 1) << 32);
        for (info, settled) in &manifest.collections {
            if !core.enter_collection(info.clone()) {
                return;
            }
            if let Some(local) = core.collections.get_mut(info.id) {
                local.settled_syncs = *settled;
            }
        }
        core.enter_forming();
    }

    /// Restores a segment of `part` of the image, whose members continue at `target`.
    pub fn restore(&mut self, part: PeId, segment: &Bytes, target: &RestoreTarget) {
        let image = match PartImage::decode(segment) {
            Ok(image) => image,
            Err(error) => return self.core.fail(JobError::Protocol(error.to_string())),
        };
        let PartImage { mut members, delayed, phases, gone, published, questions, gone_sections } =
            image;
        // Members that were about to change were encoded before others.
        members.sort_by_key(|member| member.id);
        for (phase, counts) in phases {
            *self.core.phases.entry(phase).or_default() += counts;
        }
        let layout = self.core.common.layout.clone();
        for (id, value) in published {
            for pe in layout.pes() {
                let publish = CheckpointMessage::Publish { id, value: value.clone() };
                self.core.post_with_room(pe, publish);
            }
        }
        let all = members.len() + delayed.len() + gone.len() + questions.len();
        let mut parts: BTreeMap<PeId, RestoredPart> = BTreeMap::new();
        self.core.assign_targets(part, &members, target);
        for member in members {
            let Some(pe) = self.core.target_of(member.id, target) else { continue };
            parts.entry(pe).or_default().members.push(member);
        }
        for image in delayed.into_iter().filter_map(|image| self.core.redirected(image)) {
            let pe = self.core.keeper_of(image.timer.pe);
            parts.entry(pe).or_default().delayed.push(image);
        }
        for image in questions.into_iter().filter_map(|image| self.core.asked_now(image)) {
            let pe = self.core.keeper_of(image.asked.0);
            parts.entry(pe).or_default().questions.push(image);
        }
        for id in gone.into_iter().filter(|id| !self.core.is_resized(*id)) {
            let pe = self.core.home(id).unwrap_or(self.core.me);
            parts.entry(pe).or_default().gone.push(id);
        }
        let taken = |part: &RestoredPart| {
            part.members.len() + part.delayed.len() + part.gone.len() + part.questions.len()
        };
        let dropped = all - parts.values().map(taken).sum::<usize>();
        if let Some(own) = parts.remove(&self.core.me) {
            self.install(own);
        }
        for (pe, part) in parts {
            self.core.post_with_room(pe, CheckpointMessage::Restore(part));
        }
        let dropped = dropped + self.core.pass_on_sections(gone_sections);
        self.core.report_restored(dropped as u64);
    }

    /// Queues copies of a segment that this PE has read for nodes that lack them. They leave once
    /// all PEs continue.
    pub(crate) fn copy_again(&mut self, segment: Segment, bytes: &Bytes, nodes: &[NodeId]) {
        let copies = nodes.iter().map(|&node| CopyToSend::new(node, segment, bytes.clone()));
        self.core.checkpointing.sending.copies.extend(copies);
    }

    /// Installs members, delayed messages and questions here, and notes which members are gone.
    pub(super) fn install(&mut self, part: RestoredPart) {
        let RestoredPart { members, delayed, gone, questions } = part;
        let items = (delayed.len() + gone.len() + questions.len()) as u64;
        for id in gone {
            self.core.learn(id, Place { gone: true, ..Place::at(self.core.me, AWAY) });
        }
        let delays = delayed.iter().map(|image| (image.kind, &image.message));
        let quiescent = questions.iter().filter_map(|image| match &image.awaited {
            AwaitedImage::Quiescence { message } => Some((image.kind, message)),
            AwaitedImage::Answer { .. } => None,
        });
        for (kind, message) in delays.chain(quiescent) {
            if let Err(error) = self.core.check_messages(kind, [message]) {
                return self.core.fail(error);
            }
        }
        self.core.restore_delayed(delayed);
        self.core.restore_questions(questions);
        let mut here = 0;
        let mut homes: BTreeMap<PeId, Vec<ActorId>> = BTreeMap::new();
        for member in members {
            let Some(member) = self.core.keep_former(member) else {
                here += 1;
                continue;
            };
            let Some(home) = self.core.home(member.id) else {
                let reason = format!(
                    "a checkpoint has a member of collection {}, but does not describe that collection",
                    member.id.collection.0
                );
                return self.core.fail(JobError::Protocol(reason));
            };
            match home == self.core.me {
                true => here += 1,
                false => homes.entry(home).or_default().push(member.id),
            }
            if let Err(error) = self.install_member(member, u32::from(home != self.core.me)) {
                return self.core.fail(error);
            }
        }
        for (home, members) in homes {
            let message = CheckpointMessage::Places(members);
            self.core.post_large(home, Control::Checkpoint(Box::new(message)));
        }
        self.core.report_restored(items + here);
    }

    fn install_member(&mut self, image: MemberImage, away: u32) -> Result<(), JobError> {
        let MemberImage { id, state, mailbox, reductions, section_reductions, syncs, synced } =
            image;
        let local = self.core.collections.get(id.collection);
        let Some(kind) = local.map(|local| local.info.kind) else { return Ok(()) };
        let decoded = self.decode_state(kind, &state)?;
        self.core.check_messages(kind, mailbox.iter().map(|(_, message)| message))?;
        let Self { core, stores, .. } = self;
        let record =
            MemberRecord { reductions, section_reductions, syncs, synced, ..Default::default() };
        let channels = migrate::channels(core, kind, &record, &[]);
        let mut channels = channels.map_err(|error| JobError::Protocol(error.to_string()))?;
        if let Some(local) = core.collections.get(id.collection) {
            local.streams.admit(&mut channels);
        }
        let member = migrate::member(id, away * AWAY, &record, channels, state.len() as u64);
        let slot = core.add_member(kind, member);
        core.created += mailbox.len() as u64;
        core.refill(kind, slot, &mailbox);
        stores[kind.index()].put_aside(slot, decoded);
        core.checkpointing.restoring.restored.push((kind, slot));
        core.release_awaiting(id);
        Ok(())
    }
}

impl Core {
    fn is_resized(&self, id: ActorId) -> bool {
        let restoration = self.checkpointing.restoring.restoration.as_ref();
        restoration.is_some_and(|it| it.groups.contains_key(&id.collection))
    }

    /// A delayed message with its present receiver and type. `None` if its group has ended.
    fn redirected(&self, image: DelayedImage) -> Option<DelayedImage> {
        let restoration = self.checkpointing.restoring.restoration.as_ref()?;
        let (to, kind) = (restoration.receiver(image.to)?, restoration.kind(image.kind)?);
        Some(DelayedImage { to, kind, ..image })
    }

    /// A question with the present identity and type of the actor that asked. `None` if its group
    /// has ended.
    fn asked_now(&self, image: QuestionImage) -> Option<QuestionImage> {
        let restoration = self.checkpointing.restoring.restoration.as_ref()?;
        let (by, kind) = (restoration.receiver(image.by)?, restoration.kind(image.kind)?);
        Some(QuestionImage { by, kind, ..image })
    }

    /// Learns the places of members whose home this is.
    pub(super) fn learn_places(&mut self, at: PeId, members: &[ActorId]) {
        let learns = self.common.fault != PlantedFault::HomeNotMoved;
        for &id in members.iter().filter(|_| learns) {
            self.learn(id, Place::at(at, AWAY));
        }
        self.report_restored(members.len() as u64);
    }

    /// Sends the homes of members that are gone the numbers of their reductions over sections.
    /// Returns how many of these members are not sent, since their groups have other indices now.
    fn pass_on_sections(&mut self, all: Vec<SectionsOfGone>) -> usize {
        let members = all.len();
        let mut homes: BTreeMap<PeId, Vec<SectionsOfGone>> = BTreeMap::new();
        for of_gone in all.into_iter().filter(|(id, _)| !self.is_resized(*id)) {
            homes.entry(self.home(of_gone.0).unwrap_or(self.me)).or_default().push(of_gone);
        }
        let sent: usize = homes.values().map(Vec::len).sum();
        for (home, gone) in homes {
            self.post_with_room(home, CheckpointMessage::Ended(gone));
        }
        members - sent
    }

    /// Takes the numbers of reductions over sections of members that are gone and whose home this
    /// is.
    pub(super) fn restore_sections_of(&mut self, gone: Vec<SectionsOfGone>) {
        let members = gone.len() as u64;
        self.delivery.restore_sections(gone);
        self.report_restored(members);
    }

    pub(super) fn report_restored(&mut self, items: u64) {
        let message = CheckpointMessage::Restored { items };
        self.post(COORDINATOR, Control::Checkpoint(Box::new(message)));
    }

    /// Removes and returns the data that main stored in the checkpoint from which the job
    /// continues.
    pub(crate) fn take_progress(&mut self) -> Option<Bytes> {
        self.checkpointing.main.progress.take()
    }
}
