//! Sends the large messages of checkpoints: copies of segments, at a checkpoint and again after a
//! loss, and the members and published values of an image to the PEs where they continue.
//!
//! Together they may exceed the memory budget of a PE. Also, a node holds its PEs back while many
//! of its bytes wait for the network. So a PE sends large messages only while few bytes wait. If it
//! has to wait, it looks again after [`CROWDED_PAUSE`], even while it is stopped. If other messages
//! fill the network all the time, it still sends one large message per [`CROWDED_MAX`].

use crate::message::{CheckpointMessage, Control};
use crate::pe::PlantedFault;
use crate::pe::core::Core;
use gridspan_topology::{NodeId, PeId};
use std::time::Duration;

/// A PE sends large messages while less than one part in `ROOM_SHARE` of the soft limit waits for
/// the network. At the soft limit, PEs are held back.
const ROOM_SHARE: usize = 2;
/// Time after which a PE looks again whether there is room.
const CROWDED_PAUSE: Duration = Duration::from_millis(5);
/// Time after which one message is sent although there is no room, unless PEs are held back.
const CROWDED_MAX: Duration = Duration::from_secs(1);

impl Core {
    /// Sends a large message of a restoration once there is room for it.
    pub(super) fn post_with_room(&mut self, to: PeId, message: CheckpointMessage) {
        if self.checkpointing.large.is_empty() && self.has_room_to_send() {
            return self.post_large(to, Control::Checkpoint(Box::new(message)));
        }
        self.checkpointing.large.push_back((to, message));
        self.look_for_room_later();
    }

    /// Sends the messages that wait for room, if it is time to look. Called at the end of a turn.
    pub(in crate::pe) fn send_waiting(&mut self) {
        if self.checkpointing.room_at.is_none_or(|at| at > self.now) {
            return;
        }
        self.checkpointing.room_at = None;
        while !self.checkpointing.large.is_empty() {
            if !self.has_room_to_send() {
                return self.look_for_room_later();
            }
            if let Some((to, message)) = self.checkpointing.large.pop_front() {
                self.post_large(to, Control::Checkpoint(Box::new(message)));
            }
        }
        // During a restoration, copies would delay the members that other PEs await.
        if self.checkpointing.restoration.is_none() {
            self.send_copies();
        }
    }

    /// Sends the waiting copies while there is room, and no faster than the job's settings allow.
    /// If the job stays stopped after the checkpoint, the settings do not limit the bandwidth,
    /// since a stopped PE fires no timers.
    pub(super) fn send_copies(&mut self) {
        let is_limited = !self.checkpointing.is_pause;
        if is_limited && self.checkpointing.is_copying {
            return;
        }
        while !self.checkpointing.copies.is_empty() {
            if !self.has_room_to_send() {
                return self.look_for_room_later();
            }
            let time = self.send_copy();
            if is_limited && !time.is_zero() {
                self.checkpointing.is_copying = true;
                return self.run_after(time, |core| {
                    core.checkpointing.is_copying = false;
                    core.send_copies();
                });
            }
        }
    }

    /// Sends the next copy. Returns the time for which the other copies wait.
    fn send_copy(&mut self) -> Duration {
        let Some((partner, segment, bytes)) = self.checkpointing.copies.pop_front() else {
            return Duration::ZERO;
        };
        let layout = &self.common.layout;
        let (here, to) = (layout.node_of(self.me), layout.leader(partner));
        let settings = &self.common.run.checkpoints;
        let time = settings.copy_time(layout, [here, partner], bytes.len() as u64);
        let copy = CheckpointMessage::Copy { segment, bytes };
        self.post_large(to, Control::Checkpoint(Box::new(copy)));
        time
    }

    /// The node that gets copies of this node's parts.
    pub(super) fn partner(&self, leaving: &[NodeId]) -> Option<NodeId> {
        let layout = &self.common.layout;
        let here = layout.node_of(self.me);
        match self.common.fault {
            PlantedFault::CopyOnSameNode => Some(here),
            _ => {
                let run = &self.common.run;
                run.checkpoints.partner(layout, &run.hosts, here, leaving)
            }
        }
    }

    fn look_for_room_later(&mut self) {
        self.checkpointing.room_at = Some(self.now + CROWDED_PAUSE);
    }

    /// Whether another large message may be sent now. This assumes that each other PE of the node
    /// sends as much in this turn as this one.
    fn has_room_to_send(&mut self) -> bool {
        let soft = self.common.limits.soft_bytes;
        let sent = self.outbox.bytes().saturating_mul(self.pes_here().len());
        let waiting = sent.saturating_add(self.checkpointing.network_bytes);
        let since = *self.checkpointing.crowded_since.get_or_insert(self.now);
        let is_patient = self.now.since(since) < CROWDED_MAX;
        let most = if is_patient { soft / ROOM_SHARE } else { soft };
        let has_room = waiting == 0 || waiting < most;
        if has_room {
            self.checkpointing.crowded_since = None;
        }
        has_room
    }
}
