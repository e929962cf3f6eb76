//! State of a PE for checkpoints.

use crate::address::id::{ActorId, CollectionId, KindId, Slot};
use crate::message::{Assemblies, CheckpointMessage, MemberImage, ReplicaOrder, Segment};
use crate::pe::callback::Callback;
use crate::pe::checkpoint::captured_part::CapturedPart;
use crate::pe::checkpoint::restoration::{FormerOrder, Restoration};
use bytes::Bytes;
use gridspan_topology::{NodeId, PeId, Time};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

/// A PE's part in the checkpoints of the job.
pub(crate) struct Checkpointing<C> {
    /// Time of the job when this run of it began.
    pub(crate) began: Time,
    /// Whether the PE handles no messages, because it is drained or restored.
    pub(crate) is_stopped: bool,
    /// Number of the checkpoint for which the PE stopped last, or will stop.
    pub(crate) stop: u64,
    /// The round of draining that the PE answers when it stops, once no actor here has a replica.
    pub(crate) first_round: Option<u64>,
    /// Whether the checkpoint was given up before the PE stopped: the PE then continues as soon as
    /// it has stopped.
    pub(crate) is_given_up: bool,
    /// Replicas that have ended for the checkpoint, and begin again after it.
    pub(crate) ended_replicas: Vec<ReplicaOrder>,
    /// The checkpoint from which the job continues, until this PE handles messages.
    pub(crate) restoration: Option<Arc<Restoration>>,
    /// Members of groups whose size has changed, before their actors are built.
    pub(crate) forming: BTreeMap<ActorId, Forming>,
    /// Restored members whose `arrived` has not been called yet.
    pub(crate) restored: Vec<(KindId, u32)>,
    /// Collections whose sync points the coordinator settled before this PE continued after the
    /// restoration, with the number of settled points.
    pub(crate) settled: Vec<(CollectionId, u64)>,
    /// Slots of the restored questions about quiescence that have not been asked again yet.
    pub(crate) quiescence: Vec<u64>,
    /// By base member: the PE on which it and the members bound to it continue, if several PEs take
    /// over a part.
    pub(crate) targets: BTreeMap<ActorId, PeId>,
    /// For each part: number of base members that this PE has assigned to each PE.
    pub(crate) dealt: BTreeMap<PeId, BTreeMap<PeId, u64>>,
    /// Actions of main that wait until the PE continues.
    pub(crate) waiting: Vec<Callback<C>>,
    /// The data that main stored in the checkpoint from which the job continues, until main asks
    /// for it; on main's PE.
    pub(crate) progress: Option<Bytes>,
    /// Whether the parts of the last checkpoint may have too few copies, because the job continues
    /// from it.
    pub(crate) is_unprotected: bool,
    /// Time of the last checkpoint.
    pub(crate) last: Option<Time>,
    /// Number of main's progress points since the last checkpoint, or since this run began.
    pub(crate) points: u64,
    /// Time of main's last progress point.
    pub(crate) last_point: Time,
    /// Whether a warning has said that the last progress point is long ago.
    pub(crate) is_quiet_told: bool,
    /// Time between the last two progress points, or from the start to the first one, if a warning
    /// is due after such a time; else zero.
    pub(crate) last_gap: Duration,
    /// Since when checkpoints have been postponed.
    pub(crate) postponed_since: Option<Time>,
    /// Whether a warning has said that checkpoints are postponed.
    pub(crate) is_postponed_told: bool,
    /// Number of tasks that main or actors have handed in to pools here and that are not done,
    /// except repeatable ones. No checkpoint is made meanwhile.
    pub(crate) tasks: u64,
    /// Number of such tasks that are repeatable: if the job continues from a checkpoint, main hands
    /// them in again. So they do not delay a checkpoint.
    pub(crate) repeatable_tasks: u64,
    /// Number of the last checkpoint that was captured, on main's PE.
    pub(crate) last_captured: u64,
    /// The highest number of a checkpoint that is complete, was given up, or was restored.
    pub(crate) last_resolved: u64,
    /// Whether main has requested a checkpoint and has no answer yet.
    pub(crate) is_requested: bool,
    /// When a checkpoint may be tried again, after one was postponed.
    pub(crate) retry_at: Time,
    /// Time that main waited for the last checkpoint, less the mean time that PEs computed
    /// meanwhile; once it is complete, its cost as the coordinator has measured it.
    pub(crate) cost: Duration,
    /// The nodes that will leave, if the job is to stop after a checkpoint.
    pub(crate) pause: Option<Vec<NodeId>>,
    /// Whether a warning has said that the checkpoint for `pause` was postponed.
    pub(crate) is_late_told: bool,
    /// What this PE has captured for a checkpoint, until it has encoded it or captures another one.
    pub(crate) captured: Option<CapturedPart>,
    /// Copies of segments of this PE's part, or of parts that it has restored, that are not sent
    /// yet.
    pub(crate) copies: VecDeque<CopyToSend>,
    /// Copies of segments of other PEs of which some bytes are missing, by sender.
    pub(crate) incoming_copies: Assemblies<(PeId, Segment)>,
    /// When a piece of these was last sent.
    pub(crate) copied_at: Option<Time>,
    /// Whether a timer will send the next of `copies`.
    pub(crate) is_copying: bool,
    /// Whether the job stays stopped after the checkpoint for which copies are sent.
    pub(crate) is_pause: bool,
    /// Large messages of a restoration that wait for room in the network, and their receivers.
    pub(crate) large: VecDeque<(PeId, CheckpointMessage)>,
    /// When to look again whether the network has room for these messages and for copies.
    pub(crate) room_at: Option<Time>,
    /// Since when the network has had no room.
    pub(crate) crowded_since: Option<Time>,
    /// Number of bytes of this node that wait for the network.
    pub(crate) network_bytes: usize,
}

/// A copy of a segment that is not sent yet.
pub(crate) struct CopyToSend {
    /// The node that gets it.
    pub(crate) to: NodeId,
    pub(crate) segment: Segment,
    /// Size of the segment in bytes.
    pub(crate) total: u64,
    /// The bytes that are not sent.
    pub(crate) left: Bytes,
}

impl CopyToSend {
    pub(crate) fn new(to: NodeId, segment: Segment, bytes: Bytes) -> Self {
        Self { to, segment, total: bytes.len() as u64, left: bytes }
    }
}

/// A member of a group whose size has changed, before its actor is built.
pub(crate) struct Forming {
    pub(crate) slot: Slot,
    /// The former members that go into it, in the order in which they are merged.
    pub(crate) former: BTreeMap<FormerOrder, MemberImage>,
}

impl<C> Default for Checkpointing<C> {
    fn default() -> Self {
        Self {
            began: Time::ZERO,
            is_stopped: false,
            stop: 0,
            first_round: None,
            is_given_up: false,
            ended_replicas: Vec::new(),
            restoration: None,
            forming: BTreeMap::new(),
            restored: Vec::new(),
            settled: Vec::new(),
            quiescence: Vec::new(),
            targets: BTreeMap::new(),
            dealt: BTreeMap::new(),
            waiting: Vec::new(),
            progress: None,
            is_unprotected: false,
            last_point: Time::ZERO,
            is_quiet_told: false,
            last_gap: Duration::ZERO,
            postponed_since: None,
            is_postponed_told: false,
            tasks: 0,
            repeatable_tasks: 0,
            is_requested: false,
            last_captured: 0,
            last_resolved: 0,
            retry_at: Time::ZERO,
            last: None,
            points: 0,
            cost: Duration::ZERO,
            pause: None,
            is_late_told: false,
            captured: None,
            copies: VecDeque::new(),
            copied_at: None,
            incoming_copies: Assemblies::default(),
            is_copying: false,
            is_pause: false,
            large: VecDeque::new(),
            room_at: None,
            crowded_since: None,
            network_bytes: 0,
        }
    }
}

impl<C> Checkpointing<C> {
    /// The counter of open tasks that are repeatable, or of those that are not.
    pub(crate) fn open_tasks(&mut self, is_repeatable: bool) -> &mut u64 {
        if is_repeatable { &mut self.repeatable_tasks } else { &mut self.tasks }
    }

    /// Adds to the time that the encoding of the captured part has taken.
    pub(crate) fn note_encoding(&mut self, took: Duration) {
        if let Some(part) = &mut self.captured {
            part.note_encoding(took);
        }
    }

    /// The same for the time since a reading of a clock, if there is a clock.
    pub(crate) fn note_encoding_since(
        &mut self,
        clock: Option<&(dyn Fn() -> u64 + Send)>,
        begin: Option<u64>,
    ) {
        if let (Some(clock), Some(begin)) = (clock, begin) {
            self.note_encoding(Duration::from_nanos(clock().saturating_sub(begin)));
        }
    }

    /// Notes that main is at a progress point. `patience`: after this time without one, a warning
    /// is due.
    pub(crate) fn note_point(&mut self, now: Time, patience: Option<Duration>) {
        let gap = now.since(self.last_point.max(self.began));
        let is_long = patience.is_some_and(|patience| gap >= patience);
        self.last_gap = if is_long { gap } else { Duration::ZERO };
        (self.last_point, self.is_quiet_told) = (now, false);
    }

    /// Converts a time of the driver, which counts from the start of the run, to the time since the
    /// job began.
    pub(crate) fn job_time(&self, driver: Time) -> Time {
        Time(self.began.0.saturating_add(driver.0))
    }
}
