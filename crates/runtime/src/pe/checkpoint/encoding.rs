//! Encodes a PE's part of a checkpoint while the PE goes on.
//!
//! After a round of draining with nothing in flight, a stopped PE captures its part: it encodes
//! everything except the states of actors, and notes which actors it has. From then on it encodes
//! states, some in each turn, so that messages wait for at most one actor or [`SLICE_BYTES`]. After
//! a long handler it encodes more, so that this takes about a tenth of the time. If an
//! actor is to handle a message, or to leave, while its state is not encoded, the PE encodes it
//! first. So the checkpoint has the states of the moment of the capture.
//!
//! The PE passes on full segments at once, to be stored and copied, but not before the coordinator
//! knows that nothing was in flight anywhere.

use crate::address::id::KindId;
use crate::message::{CheckpointMessage, CheckpointSegment, MemberImage, PartSummary, Segment};
use crate::pe::checkpoint::captured_part::{Accepted, CapturedPart, Stage};
use crate::pe::checkpoint::state::sending::CopyToSend;
use crate::pe::checkpoint::unencoded_members::UnencodedMembers;
use crate::pe::core::Core;
use crate::pe::members::member::Member;
use crate::pe::{Pe, PeCommand, PlantedFault};
use bytes::Bytes;
use gridspan_topology::NodeId;
use std::time::Duration;

/// Bytes that a PE encodes in a turn, or one actor if that is larger. This takes less than 1 ms.
const SLICE_BYTES: usize = 256 << 10;
/// A PE encodes another slice for each such time since the last turn.
const SLICE_EVERY: Duration = Duration::from_millis(8);

impl Pe {
    /// Captures this PE's part: everything but the states of actors, which it encodes later.
    pub(super) fn capture(&mut self, checkpoint: u64) {
        let Self { core, stores, .. } = self;
        let mut part = CapturedPart::new(checkpoint, &core.image_without_members());
        let mut load_ns = 0_u64;
        for (number, store) in stores.iter_mut().enumerate() {
            if core.common.is_left_out(KindId(number as u16)) {
                continue;
            }
            for load in core.loads_of_movable(number) {
                part.summary.movable += 1;
                load_ns = load_ns.saturating_add(load);
            }
            let members = core.captured_members(number);
            part.summary.members += members.len() as u64;
            let allows_changes = core.common.fault == PlantedFault::ChangedBeforeEncoding;
            store.set_unencoded(UnencodedMembers::new(members, allows_changes));
        }
        part.summary.load_us = load_ns.div_ceil(1_000);
        core.checkpointing.captured = Some(part);
    }

    /// Forgets what was captured for a checkpoint that is given up, and does not send copies of it.
    pub(super) fn drop_capture(&mut self, checkpoint: u64) {
        if self.core.checkpointing.restoring.restoration.is_some() {
            // It is the one from which the job continues.
            return;
        }
        let captured = &mut self.core.checkpointing.captured;
        if captured.take_if(|part| part.checkpoint == checkpoint).is_some() {
            for store in &mut self.stores {
                store.set_unencoded(UnencodedMembers::default());
            }
        }
        self.core.checkpointing.sending.copies.retain(|copy| copy.segment.checkpoint != checkpoint);
    }

    /// Notes that nothing was in flight when a part was captured, so that its segments can be
    /// stored and copied.
    pub(super) fn accept_capture(&mut self, checkpoint: u64, leaving: &[NodeId]) {
        let core = &mut self.core;
        let partner = core.partner(leaving);
        let captured = &mut core.checkpointing.captured;
        let Some(part) = captured.as_mut().filter(|part| part.checkpoint == checkpoint) else {
            return;
        };
        part.accepted = Some(Accepted { partner });
        // What is encoded leaves before the next handler.
        core.turn_is_over = true;
        // The remaining copies belong to a checkpoint that was given up, or to the one from which
        // the job continues. Those of the new checkpoint replace them.
        core.checkpointing.sending.copies.clear();
        core.checkpointing.sending.copied_at = None;
        core.checkpointing.sending.crowded_since = None;
        core.keep_segments();
    }

    /// Encodes some of the captured states. Called in each turn until all are encoded.
    pub(in crate::pe) fn encode_some(&mut self) {
        let Self { core, stores, .. } = self;
        let Some(part) = &mut core.checkpointing.captured else { return };
        match part.stage {
            // The answer to the coordinator leaves at the end of this turn.
            Stage::Captured => part.stage = Stage::Encoding,
            Stage::Encoding => {
                let begin = core.clock.as_ref().map(|clock| clock());
                let slices =
                    slices(SLICE_EVERY, core.now.since(part.encoded_at.unwrap_or(core.now)));
                part.encoded_at = Some(core.now);
                let mut is_any_left = false;
                for (number, store) in stores.iter_mut().enumerate() {
                    // An error after a panic names the type.
                    core.running = Some(KindId(number as u16));
                    let bytes = SLICE_BYTES.saturating_mul(slices);
                    is_any_left |= store.encode_members(bytes, &mut part.segments);
                }
                core.running = None;
                if !is_any_left {
                    part.segments.end();
                    part.stage = match begin {
                        Some(_) => Stage::Timed,
                        None => Stage::Encoded,
                    };
                }
                core.encoded_bytes += part.segments.take_written() as u64;
                core.checkpointing.note_encoding_since(core.clock.as_deref(), begin);
                core.keep_segments();
            }
            // In virtual time, the time of a turn is known after it.
            Stage::Encoded => {
                part.stage = Stage::Timed;
                core.keep_segments();
            }
            Stage::Timed => {}
        }
    }
}

impl Core {
    /// The images of all members of a type, without their states.
    fn captured_members(&self, number: usize) -> Vec<(u32, MemberImage<()>)> {
        let mut mailboxes = self.queues[number].image();
        let numbered = (0..).zip(&self.members[number]);
        let numbered = numbered.filter_map(|(slot, member)| Some((slot, member.as_ref()?)));
        let images = numbered.map(|(slot, member)| {
            let mut mailbox = mailboxes.remove(&slot).unwrap_or_default();
            match self.common.fault {
                PlantedFault::MailboxesLeftOut => mailbox.clear(),
                PlantedFault::MailboxesReversed => mailbox.reverse(),
                _ => {}
            }
            (slot, member_image(member, mailbox))
        });
        let images = images.collect();
        debug_assert!(mailboxes.is_empty(), "messages of type {number} for empty slots");
        images
    }

    /// The load, in nanoseconds, of each member of a type that may continue on other PEs.
    fn loads_of_movable(&self, number: usize) -> impl Iterator<Item = u64> {
        let members = self.members[number].iter().flatten();
        members.filter(|member| self.has_target(member.id)).map(|member| member.load_ns)
    }

    /// Gives full segments to the driver, and sends copies of them, if the part is accepted. After
    /// the last segment, reports the part to the coordinator.
    fn keep_segments(&mut self) {
        let pe = self.me;
        let Some(part) = &mut self.checkpointing.captured else { return };
        let Some(Accepted { partner }) = part.accepted else { return };
        let checkpoint = part.checkpoint;
        let is_encoded = matches!(part.stage, Stage::Encoded | Stage::Timed);
        while let Some((position, bytes)) = part.segments.take() {
            let is_last = is_encoded && part.segments.left() == 0;
            let segment = Segment { checkpoint, part: pe, position, is_last };
            if let Some(partner) = partner {
                let copy = CopyToSend::new(partner, segment, bytes.clone());
                self.checkpointing.sending.copies.push_back(copy);
            }
            let kept = CheckpointSegment { segment, bytes, is_copy: false };
            self.commands.push(PeCommand::Keep(kept));
        }
        let is_done = |part: &mut CapturedPart| part.stage == Stage::Timed;
        if let Some(CapturedPart { summary, segments, took, .. }) =
            self.checkpointing.captured.take_if(is_done)
        {
            let part = PartSummary { segments: segments.sizes().to_vec(), ..summary };
            self.report_checkpoint(CheckpointMessage::Encoded { checkpoint, part, took });
        }
        self.send_copies();
    }
}

/// Number of slices of work that are due, one for each period in the time since the last ones.
pub(super) fn slices(period: Duration, since: Duration) -> usize {
    1 + usize::try_from(since.as_nanos() / period.as_nanos()).unwrap_or(usize::MAX - 1)
}

fn member_image(member: &Member, mailbox: Vec<(i32, Bytes)>) -> MemberImage<()> {
    let sections = member.channels.as_deref().map(|channels| &channels.section_reductions);
    MemberImage {
        id: member.id,
        state: (),
        mailbox,
        reductions: member.reductions,
        section_reductions: sections
            .map(|sections| sections.iter().map(|(&section, &next)| (section, next)).collect())
            .unwrap_or_default(),
        syncs: member.syncs,
        synced: member.synced,
    }
}

#[cfg(test)]
mod tests;
