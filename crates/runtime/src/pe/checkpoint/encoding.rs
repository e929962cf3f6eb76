//! Encodes a PE's part of a checkpoint while the PE goes on.
//!
//! After a round of draining with nothing in flight, a stopped PE captures its part: it encodes
//! everything except the states of actors, and notes which actors it has. From then on it encodes
//! states, some in each turn (see `slice.rs`). After a long handler it encodes more, so that this
//! takes about a tenth of the time. If an actor is to handle a message, to resume from a sync point
//! or to leave while its state is not encoded, the PE encodes it first. So the checkpoint has the
//! states of the moment of the capture.
//!
//! The PE passes on full segments at once, to be stored and copied, but not before the coordinator
//! knows that nothing was in flight anywhere.

use crate::address::id::KindId;
use crate::message::{CheckpointMessage, CheckpointSegment, PartSummary, Segment};
use crate::pe::checkpoint::captured_part::{Accepted, CapturedPart, Stage};
use crate::pe::checkpoint::slice::Slice;
use crate::pe::checkpoint::state::sending::CopyToSend;
use crate::pe::checkpoint::unencoded_members::UnencodedMembers;
use crate::pe::core::{Core, Store};
use crate::pe::{Pe, PeCommand, PlantedFault};
use gridspan_topology::NodeId;
use std::time::Duration;

impl Pe {
    /// Captures this PE's part: everything but the states of actors, which it encodes later.
    pub(super) fn capture(&mut self, checkpoint: u64) {
        let Self { core, stores, .. } = self;
        let mut part = CapturedPart::new(checkpoint, &core.image_without_members());
        for (number, store) in stores.iter_mut().enumerate() {
            if !core.common.is_left_out(KindId(number as u16)) {
                store.set_unencoded(core.unencoded_members(number));
            }
        }
        if core.common.balancing.is_active() {
            part.summary.load_us = core.load_of_movable().div_ceil(1_000);
        }
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
        let partners = core.common.partners(core.common.layout.node_of(core.me), leaving);
        let captured = &mut core.checkpointing.captured;
        let Some(part) = captured.as_mut().filter(|part| part.checkpoint == checkpoint) else {
            return;
        };
        part.accepted = Some(Accepted { partners });
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
        let Some(mut part) = core.checkpointing.captured.take() else { return };
        match part.stage {
            // The answer to the coordinator leaves at the end of this turn.
            Stage::Captured => part.stage = Stage::Encoding,
            Stage::Encoding => encode_slice(core, stores, &mut part),
            // In virtual time, the time of a turn is known after it.
            Stage::Encoded | Stage::Timed => part.stage = Stage::Timed,
        }
        core.checkpointing.captured = Some(part);
        core.keep_segments();
    }
}

/// Encodes the members of one turn.
fn encode_slice(core: &mut Core, stores: &mut [Box<dyn Store>], part: &mut CapturedPart) {
    let clock = core.clock.as_deref();
    let begin = clock.map(|clock| clock());
    let mut slice = Slice::new(part.since_encoding(core.now), clock);
    let mut is_any_left = false;
    for (number, store) in stores.iter_mut().enumerate() {
        // An error after a panic names the type.
        core.encoding = Some(KindId(number as u16));
        is_any_left |= store.encode_members(&core.members[number], part, &mut slice);
    }
    core.encoding = None;
    if let (Some(clock), Some(begin)) = (clock, begin) {
        part.note_encoding(Duration::from_nanos(clock().saturating_sub(begin)));
    }
    core.encoded_bytes += part.segments.take_written() as u64;
    if !is_any_left {
        part.end(|collection| core.has_target(collection));
        part.stage = if begin.is_some() { Stage::Timed } else { Stage::Encoded };
    }
}

impl Core {
    /// All members of a type, of which none is encoded.
    fn unencoded_members(&self, number: usize) -> UnencodedMembers {
        let mut mailboxes = self.queues[number].image();
        match self.common.fault {
            PlantedFault::MailboxesLeftOut => mailboxes.clear(),
            PlantedFault::MailboxesReversed => mailboxes.values_mut().for_each(|it| it.reverse()),
            _ => {}
        }
        let (slots, free) = (self.members[number].len(), &self.free[number]);
        let allows_changes = self.common.fault == PlantedFault::ChangedBeforeEncoding;
        UnencodedMembers::new(slots, free, mailboxes, allows_changes)
    }

    /// The load, in nanoseconds, of the members that may continue on other PEs.
    fn load_of_movable(&self) -> u64 {
        let mut load_ns = 0_u64;
        // Most members come after others of their collection.
        let mut last = None;
        for (number, members) in self.members.iter().enumerate() {
            if self.common.is_left_out(KindId(number as u16)) {
                continue;
            }
            for member in members.iter().flatten() {
                let collection = member.id.collection;
                let (_, is_movable) = match last {
                    Some(known @ (of, _)) if of == collection => known,
                    _ => (collection, self.has_target(collection)),
                };
                last = Some((collection, is_movable));
                load_ns = load_ns.saturating_add(if is_movable { member.load_ns } else { 0 });
            }
        }
        load_ns
    }

    /// Gives full segments to the driver, and sends copies of them, if the part is accepted. After
    /// the last segment, reports the part to the coordinator.
    fn keep_segments(&mut self) {
        let pe = self.me;
        let Some(part) = &mut self.checkpointing.captured else { return };
        let Some(Accepted { partners }) = &part.accepted else { return };
        let checkpoint = part.checkpoint;
        let is_encoded = matches!(part.stage, Stage::Encoded | Stage::Timed);
        while let Some((position, bytes)) = part.segments.take() {
            let is_last = is_encoded && part.segments.left() == 0;
            let segment = Segment { checkpoint, part: pe, position, is_last };
            for &partner in partners {
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

#[cfg(test)]
mod tests;
