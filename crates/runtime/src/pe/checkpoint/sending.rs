//! Sends the large messages of checkpoints: copies of segments, at a checkpoint and again after a
//! loss, and the members and published values of an image to the PEs where they continue.
//!
//! Together they may exceed the memory budget of a PE. Also, a node holds its PEs back while many
//! of its bytes wait for the network. So a PE sends large messages only while few bytes wait. If it
//! has to wait, it looks again after [`CROWDED_PAUSE`], even while it is stopped. If other messages
//! fill the network all the time, it still sends one large message per [`CROWDED_MAX`], or pieces
//! of copies.

use crate::error::JobError;
use crate::message::{CheckpointMessage, CheckpointSegment, Control, Segment};
use crate::pe::PeCommand;
use crate::pe::checkpoint::slice::portions;
use crate::pe::checkpoint::state::sending::CopyToSend;
use crate::pe::core::Core;
use bytes::Bytes;
use gridspan_topology::PeId;
use std::time::Duration;

/// A PE sends large messages while less than one part in `ROOM_SHARE` of the soft limit waits for
/// the network. At the soft limit, PEs are held back.
const ROOM_SHARE: usize = 2;
/// Bytes of copies that a PE sends in a turn, in one piece, so that messages wait less than 1 ms.
const COPY_PIECE_BYTES: usize = 256 << 10;
/// Time after which a PE looks again whether there is room.
const CROWDED_PAUSE: Duration = Duration::from_millis(5);
/// A PE sends another piece for each such time since it has sent the last one.
const PIECE_EVERY: Duration = Duration::from_millis(8);
/// Time after which one piece of a copy is sent although there is no room, unless PEs are held
/// back: 4 MiB in a second.
const CROWDED_MAX_OF_PIECE: Duration = Duration::from_micros(62_500);
/// Time after which another large message is sent although there is no room, unless PEs are held
/// back.
const CROWDED_MAX: Duration = Duration::from_secs(1);

impl Core {
    /// Sends a large message of a restoration once there is room for it.
    pub(super) fn post_with_room(&mut self, to: PeId, message: CheckpointMessage) {
        if self.checkpointing.sending.large.is_empty() && self.has_room_to_send(CROWDED_MAX) {
            return self.post_large(to, Control::Checkpoint(Box::new(message)));
        }
        self.checkpointing.sending.large.push_back((to, message));
        self.look_for_room_later();
    }

    /// Sends the messages that wait for room, if it is time to look. Called at the end of a turn.
    pub(in crate::pe) fn send_waiting(&mut self) {
        if self.checkpointing.sending.room_at.is_none_or(|at| at > self.now) {
            return;
        }
        self.checkpointing.sending.room_at = None;
        while !self.checkpointing.sending.large.is_empty() {
            if !self.has_room_to_send(CROWDED_MAX) {
                return self.look_for_room_later();
            }
            if let Some((to, message)) = self.checkpointing.sending.large.pop_front() {
                self.post_large(to, Control::Checkpoint(Box::new(message)));
            }
        }
        // During a restoration, copies would delay the members that other PEs await.
        if self.checkpointing.restoring.restoration.is_none() {
            self.send_copies();
        }
    }

    /// Sends a piece of the waiting copies if there is room, or more after a long turn, and no
    /// faster than the job's settings allow. The others follow in later turns. If the job stays
    /// stopped after the checkpoint, the settings do not limit the bandwidth, since a stopped PE
    /// fires no timers.
    pub(super) fn send_copies(&mut self) {
        let is_limited = !self.checkpointing.is_pause;
        if self.checkpointing.sending.copies.is_empty()
            || is_limited && self.checkpointing.sending.is_copying
        {
            return;
        }
        let since = self
            .now
            .since(self.checkpointing.sending.copied_at.replace(self.now).unwrap_or(self.now));
        for _ in 0..portions(PIECE_EVERY, since) {
            if self.checkpointing.sending.copies.is_empty() {
                return;
            }
            if !self.has_room_to_send(CROWDED_MAX_OF_PIECE) {
                return self.look_for_room_later();
            }
            let time = self.send_piece();
            if is_limited && !time.is_zero() {
                self.checkpointing.sending.is_copying = true;
                return self.run_after(time, |core| {
                    core.checkpointing.sending.is_copying = false;
                    core.send_copies();
                });
            }
        }
        if !self.checkpointing.sending.copies.is_empty() {
            self.checkpointing.sending.room_at = Some(self.now);
        }
    }

    /// Sends the next piece of a copy. Returns the time for which the others wait.
    fn send_piece(&mut self) -> Duration {
        let Some(copy) = self.checkpointing.sending.copies.front_mut() else {
            return Duration::ZERO;
        };
        let CopyToSend { to: node, segment, total, .. } = *copy;
        let offset = total - copy.left.len() as u64;
        let bytes = copy.left.split_to(COPY_PIECE_BYTES.min(copy.left.len()));
        if copy.left.is_empty() {
            self.checkpointing.sending.copies.pop_front();
        }
        let layout = &self.common.layout;
        let (here, to) = (layout.node_of(self.me), layout.leader(node));
        let settings = &self.common.run.checkpoints;
        let time = settings.copy_time(layout, [here, node], bytes.len() as u64);
        let piece = CheckpointMessage::Copy { segment, offset, total, bytes };
        self.post(to, Control::Checkpoint(Box::new(piece)));
        time
    }

    /// Takes some bytes of a copy of a segment, and gives the copy to the driver once it is here.
    pub(super) fn take_copy(
        &mut self,
        of: (PeId, Segment),
        (offset, total, bytes): (u64, u64, Bytes),
    ) {
        let incoming = &mut self.checkpointing.sending.incoming_copies;
        // Copies of a checkpoint that was given up stay incomplete. The one from which the job
        // continues is copied again while the next one is made.
        incoming.retain(|(_, segment)| segment.checkpoint >= of.1.checkpoint.saturating_sub(1));
        // The driver, which keeps the copies, gives a checkpoint up if memory is scarce.
        match incoming.take(of, (offset, total, bytes), usize::MAX) {
            Ok(None) => {}
            Ok(Some(bytes)) => {
                let kept = CheckpointSegment { segment: of.1, bytes, is_copy: true };
                self.commands.push(PeCommand::Keep(kept));
            }
            Err(error) => self.fail(JobError::Protocol(format!("{}: {error}", of.0))),
        }
    }

    fn look_for_room_later(&mut self) {
        self.checkpointing.sending.room_at = Some(self.now + CROWDED_PAUSE);
    }

    /// Whether another large message may be sent now. This assumes that each other PE of the node
    /// sends as much in this turn as this one. After the time `patience` without room, the message
    /// may be sent unless PEs are held back.
    fn has_room_to_send(&mut self, patience: Duration) -> bool {
        let soft = self.common.limits.soft_bytes;
        let sent = self.outbox.bytes().saturating_mul(self.pes_here().len());
        let waiting = sent.saturating_add(self.checkpointing.sending.network_bytes);
        let since = *self.checkpointing.sending.crowded_since.get_or_insert(self.now);
        let is_patient = self.now.since(since) < patience;
        let most = if is_patient { soft / ROOM_SHARE } else { soft };
        let has_room = waiting == 0 || waiting < most;
        if has_room {
            self.checkpointing.sending.crowded_since = None;
        }
        has_room
    }
}
