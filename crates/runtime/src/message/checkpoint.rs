//! Messages about checkpoints, and the image of a job.
//!
//! An image holds what the program can observe: states and mailboxes of actors, delayed messages,
//! unanswered questions, published data, the counts of collective operations. It holds no state of
//! a protocol, because PEs are drained before they capture it: no packet is in flight, every
//! message is in the mailbox of its receiver, and all numbers of channels begin again at 0. So an
//! image can be restored on any number of nodes and PEs.

use crate::address::collection::CollectionInfo;
use crate::address::id::{ActorId, KindId, SectionId, Timer};
use crate::message::PhaseCounts;
use crate::message::codec::{self, DecodeError};
use crate::schema::definition::Part;
use bytes::Bytes;
use gridspan_balance::PeLoad;
use gridspan_topology::{Layout, NodeId, PeId, Speed, Time};
use serde::{Deserialize, Serialize};
use std::ops::{AddAssign, SubAssign};
use std::time::Duration;

/// Messages between the coordinator and PEs that make and restore checkpoints.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum CheckpointMessage {
    /// To all PEs: handle no message, pass on everything that waits for others, and report.
    /// `captures`: capture the part of this PE, too.
    Drain { checkpoint: u64, round: u64, captures: bool },
    /// The report of a PE. It reports again when its counts change, until it captures its part.
    Drained { checkpoint: u64, round: u64, counts: DrainCounts },
    /// To all PEs: nothing was in flight in the last round, so what PEs captured in it is the
    /// checkpoint. Handle messages again, unless `is_pause`: then the job stays stopped, so that
    /// copies disturb nothing. Parts of nodes that leave are copied to others.
    Captured { checkpoint: u64, leaving: Vec<NodeId>, is_pause: bool },
    /// The sender has encoded its part, which took this time.
    Encoded { checkpoint: u64, part: PartSummary, took: Duration },
    /// To all PEs: handle messages again. This checkpoint was given up or restored.
    Resume { checkpoint: u64 },
    /// To a PE of another node: keep a copy of a segment of a part. `bytes` are a piece of it, from
    /// `offset` on; the whole segment has `total` bytes.
    Copy { segment: Segment, offset: u64, total: u64, bytes: Bytes },
    /// To the coordinator: the node of the sender keeps a part.
    Kept { checkpoint: u64, part: PeId },
    /// To the coordinator: a part cannot be kept.
    NotKept { checkpoint: u64, reason: String },
    /// To main's PE: a part of the checkpoint from which the job continues has too few copies until
    /// the next checkpoint.
    LacksCopy,
    /// To the first PE of each node: the checkpoint is complete. `is_paused`: the job stays
    /// stopped. `cost`: the time of the stop, and of the work of a PE after it.
    Complete { checkpoint: u64, manifest: Bytes, is_paused: bool, cost: Duration },
    /// From the PE that reads a part to a PE where members of it continue.
    Restore(RestoredPart),
    /// To all PEs: published data of the image.
    Publish { id: u32, value: Bytes },
    /// To the home of these members: they live on the sender.
    Places(Vec<ActorId>),
    /// To the coordinator: the number of members that can now be reached or are known to be gone,
    /// and of delayed messages and published values that are restored here.
    Restored { items: u64 },
    /// To the coordinator: an actor whose replica has ended for a checkpoint has one again, or
    /// cannot have one.
    Rebuilt,
    /// To the home of these members, which are gone.
    Ended(Vec<SectionsOfGone>),
}

/// A member that is gone, and the number of reductions over each section that it has contributed
/// to. A new member of its index continues with these numbers.
pub(crate) type SectionsOfGone = (ActorId, Vec<(SectionId, u64)>);

/// Why a checkpoint is postponed while the previous one is not complete.
pub(crate) const NOT_STORED: &str = "the checkpoint before is still being encoded or stored";

impl CheckpointMessage {
    /// Whether it is the manifest of a complete checkpoint. The orders of the next checkpoint may
    /// overtake it: if it travels as bulk, or if the coordinator moves after it has sent the
    /// manifest. A node that received those orders first would not know that the checkpoint is
    /// complete, and would replace its parts by those of the next one.
    pub(crate) fn is_manifest(&self) -> bool {
        matches!(self, Self::Complete { .. })
    }

    /// Returns the number of bytes it holds, for the memory budget.
    pub(crate) fn bytes(&self) -> usize {
        match self {
            Self::Copy { bytes, .. } | Self::Publish { value: bytes, .. } => bytes.len(),
            Self::Restore(part) => part.members.iter().map(MemberImage::bytes).sum(),
            _ => 0,
        }
    }
}

/// [`drain_pause`] is the time since the stop divided by this number.
const PAUSE_SHARE: u32 = 8;
/// Its bounds.
const PAUSE_MIN: Duration = Duration::from_micros(200);
const PAUSE_MAX: Duration = Duration::from_millis(50);
/// Time of the coordinator for a report of a PE.
const REPORT: Duration = Duration::from_micros(2);

/// A PE's counts while it is drained.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct DrainCounts {
    /// Number of messages created since the start.
    pub(crate) created: u64,
    /// Number of messages handled since the start.
    pub(crate) processed: u64,
    /// Number of messages in mailboxes and timers, plus questions whose answers will become
    /// messages by their tags, plus tasks from outside their pools that main submits again if it
    /// begins again.
    pub(crate) waiting: u64,
    /// Number of messages for members that their home does not know.
    pub(crate) stranded: u64,
    /// Number of insertions that wait for the end of an earlier member, or for a partner.
    pub(crate) insertions: u64,
    /// Number of unanswered questions that an image cannot contain.
    pub(crate) questions: u64,
    /// Number of replicas that have ended for the checkpoint and begin again after it.
    pub(crate) replicas: u64,
    /// Number of other tasks from outside their pools that are not done.
    pub(crate) tasks: u64,
    /// Number of actors that wait within an async method, which an image cannot contain.
    pub(crate) unmovable: u64,
    /// Those of `questions` that main has asked; actors have asked the others.
    pub(crate) questions_of_main: u64,
}

impl DrainCounts {
    /// Whether a checkpoint would be postponed although nothing is in flight.
    pub(crate) fn postpone(&self) -> bool {
        self.questions > 0 || self.tasks > 0 || self.unmovable > 0
    }

    fn combine(&mut self, other: Self, with: fn(u64, u64) -> u64) {
        self.created = with(self.created, other.created);
        self.processed = with(self.processed, other.processed);
        self.waiting = with(self.waiting, other.waiting);
        self.stranded = with(self.stranded, other.stranded);
        self.insertions = with(self.insertions, other.insertions);
        self.questions = with(self.questions, other.questions);
        self.replicas = with(self.replicas, other.replicas);
        self.tasks = with(self.tasks, other.tasks);
        self.unmovable = with(self.unmovable, other.unmovable);
        self.questions_of_main = with(self.questions_of_main, other.questions_of_main);
    }

    /// Number of messages that are neither handled nor wait.
    pub(crate) fn in_flight(&self) -> u64 {
        self.created.saturating_sub(self.processed).saturating_sub(self.waiting)
    }
}

/// The pause after a report of a PE, or after a round of draining, until the next one, if messages
/// are in flight: a share of the time since PEs have stopped, and at least the time in which the
/// coordinator takes a report of each of the job's PEs.
pub(crate) fn drain_pause(since_stop: Duration, pes: u32) -> Duration {
    let least = PAUSE_MIN.max(REPORT * pes).min(PAUSE_MAX);
    (since_stop / PAUSE_SHARE).clamp(least, PAUSE_MAX)
}

impl AddAssign for DrainCounts {
    /// Saturates: counts may come from a faulty node.
    fn add_assign(&mut self, other: Self) {
        self.combine(other, u64::saturating_add);
    }
}

impl SubAssign for DrainCounts {
    fn sub_assign(&mut self, other: Self) {
        self.combine(other, u64::saturating_sub);
    }
}

/// Position of a segment within a checkpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) struct Segment {
    pub(crate) checkpoint: u64,
    /// The PE whose state it holds.
    pub(crate) part: PeId,
    /// Position of the segment within the part.
    pub(crate) position: u32,
    /// Whether it is the last one of the part.
    pub(crate) is_last: bool,
}

/// A segment of the part that one PE contributes to a checkpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CheckpointSegment {
    pub(crate) segment: Segment,
    pub(crate) bytes: Bytes,
    /// Whether another node has the original.
    pub(crate) is_copy: bool,
}

impl CheckpointSegment {
    /// Number of the checkpoint.
    pub fn checkpoint(&self) -> u64 {
        self.segment.checkpoint
    }

    /// Its size in bytes.
    pub fn bytes(&self) -> u64 {
        self.bytes.len() as u64
    }

    /// Whether another node has the original.
    pub fn is_copy(&self) -> bool {
        self.is_copy
    }
}

/// Where the members of a part continue.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum RestoreTarget {
    /// On this PE.
    On(PeId),
    /// On these PEs, in proportion to the number beside each.
    Over(Vec<(PeId, u64)>),
    /// On the first PE, which gives shares to the others, in proportion to the number beside each.
    Shared(Vec<(PeId, u64)>),
    /// At their homes.
    Homes,
}

/// Description of the part of one PE.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct PartSummary {
    pub(crate) members: u64,
    /// Number of members that may continue on other PEs.
    pub(crate) movable: u64,
    /// Compute time of these members since the last measurement for balancing, in microseconds; 0
    /// if the job does not measure it.
    pub(crate) load_us: u64,
    /// Number of delayed messages, of questions, of members that are gone, and of those of them
    /// that have contributed to reductions over sections.
    pub(crate) others: u64,
    pub(crate) published: u64,
    /// Size of each segment in bytes.
    pub(crate) segments: Vec<u64>,
}

impl PartSummary {
    /// Its size in bytes. Saturates: the summary may come from a faulty node.
    pub(crate) fn bytes(&self) -> u64 {
        self.segments.iter().copied().fold(0, u64::saturating_add)
    }
}

/// One segment of the part of a PE. Its encoding ends with the members, one after another without
/// their number, so that a PE can add members to a segment.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct PartImage {
    #[serde(skip)]
    pub(crate) members: Vec<MemberImage>,
    pub(crate) delayed: Vec<DelayedImage>,
    /// Counts of phases that are not complete.
    pub(crate) phases: Vec<(u32, PhaseCounts)>,
    /// Members that are gone, and whose home was this PE.
    pub(crate) gone: Vec<ActorId>,
    /// Published values; in the part of main's PE only.
    pub(crate) published: Vec<(u32, Bytes)>,
    /// Unanswered questions of actors.
    pub(crate) questions: Vec<QuestionImage>,
    /// Those of the members that are gone which have contributed to reductions over sections.
    pub(crate) gone_sections: Vec<SectionsOfGone>,
}

impl PartImage {
    /// Encodes the image without its members.
    pub(crate) fn encode(&self) -> Vec<u8> {
        codec::encode(self)
    }

    /// Decodes an image.
    ///
    /// # Errors
    ///
    /// [`DecodeError`] if the bytes are not an image.
    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        const WHAT: &str = "a checkpoint";
        let (mut image, mut rest): (Self, &[u8]) = codec::decode_front(WHAT, bytes)?;
        while !rest.is_empty() {
            let (member, others) = codec::decode_front(WHAT, rest)?;
            image.members.push(member);
            rest = others;
        }
        Ok(image)
    }
}

/// The part of a segment that continues on one PE.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct RestoredPart {
    pub(crate) members: Vec<MemberImage>,
    pub(crate) delayed: Vec<DelayedImage>,
    pub(crate) gone: Vec<ActorId>,
    pub(crate) questions: Vec<QuestionImage>,
}

/// A member, with its encoded state and the messages in its mailbox.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct MemberImage<S = Bytes> {
    pub(crate) id: ActorId,
    pub(crate) state: S,
    /// Priority and encoded message, in the order in which they will be handled.
    pub(crate) mailbox: Vec<(i32, Bytes)>,
    /// Number of reductions over its collection that it has contributed to.
    pub(crate) reductions: u64,
    /// The same for sections.
    pub(crate) section_reductions: Vec<(SectionId, u64)>,
    /// Number of times it has reached its sync point.
    pub(crate) syncs: u64,
    /// Whether it waits at its sync point.
    pub(crate) synced: bool,
}

impl MemberImage {
    pub(crate) fn bytes(&self) -> usize {
        let mailbox = self.mailbox.iter().map(|(_, message)| message.len());
        size_of::<Self>() + self.state.len() + mailbox.sum::<usize>()
    }
}

impl MemberImage<()> {
    /// The member with its state.
    pub(crate) fn with_state<S>(self, state: S) -> MemberImage<S> {
        let Self { id, state: (), mailbox, reductions, section_reductions, syncs, synced } = self;
        MemberImage { id, state, mailbox, reductions, section_reductions, syncs, synced }
    }
}

/// An encoded state that is borrowed. It has the same encoding as [`Bytes`].
pub(crate) struct StateBytes<'a>(pub(crate) &'a [u8]);

impl Serialize for StateBytes<'_> {
    fn serialize<S: serde::Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_bytes(self.0)
    }
}

/// A delayed message.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct DelayedImage {
    /// The timer that its sender got.
    pub(crate) timer: Timer,
    pub(crate) remaining: Duration,
    pub(crate) to: ActorId,
    pub(crate) kind: KindId,
    pub(crate) message: Bytes,
}

/// A question of an actor that has no answer yet.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct QuestionImage {
    /// The PE and the slot to which the answer is addressed.
    pub(crate) asked: (PeId, u64),
    /// The actor that asked, and its type.
    pub(crate) by: ActorId,
    pub(crate) kind: KindId,
    /// The actor that was asked, to name it to users; `None` if it was not an actor.
    pub(crate) to: Option<ActorId>,
    pub(crate) awaited: AwaitedImage,
}

/// What the question of an actor waits for.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum AwaitedImage {
    /// An answer, for which the actor's type makes a message. `remaining`: time until the question
    /// fails, if it has a time-out.
    Answer { tag: u64, remaining: Option<Duration> },
    /// Quiescence, after which this message is sent to the actor.
    Quiescence { message: Bytes },
}

/// An actor type, as the program that made a checkpoint defines it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct ActorType {
    pub(crate) name: String,
    pub(crate) version: u32,
    pub(crate) messages: Part,
    pub(crate) states: Part,
}

/// Description of a complete checkpoint: everything but the parts of the PEs.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Manifest {
    /// Number of the checkpoint, counted over all runs of the job.
    pub(crate) number: u64,
    /// The run of the job that made it, a random number.
    pub(crate) run: u64,
    pub(crate) job: String,
    /// The actor types of the job, in their order.
    pub(crate) types: Vec<ActorType>,
    /// Names of its placement maps, and of its reducers, in their order.
    pub(crate) maps: Vec<String>,
    pub(crate) reducers: Vec<String>,
    /// Time since the job began.
    pub(crate) at: Time,
    pub(crate) layout: Layout,
    /// The value that main passed to the last progress point.
    pub(crate) progress: Bytes,
    /// Number of phases that main has begun.
    pub(crate) phases: u32,
    /// The collections, each with the number of its sync points that are settled.
    pub(crate) collections: Vec<(CollectionInfo, u64)>,
    /// The coordinator's state, which only the coordinator reads.
    pub(crate) coordinator: Bytes,
    /// What the checkpoint has cost: the time of the stop, and of the work of a PE after it.
    pub(crate) cost: Duration,
    /// The parts, by PE.
    pub(crate) parts: Vec<PartSummary>,
}

impl Manifest {
    /// Encodes the manifest, and the speed of each PE after it, if the speeds are known.
    pub(crate) fn encode(&self, speeds: &[MeasuredSpeed]) -> Bytes {
        let mut bytes = codec::encode(self);
        if !speeds.is_empty() {
            codec::append(speeds, &mut bytes);
        }
        bytes.into()
    }

    /// Decodes a manifest and the speeds of PEs, of which there are none if they are not known.
    ///
    /// # Errors
    ///
    /// [`DecodeError`] if the bytes are not a manifest.
    pub(crate) fn decode(bytes: &[u8]) -> Result<(Self, Vec<MeasuredSpeed>), DecodeError> {
        let (manifest, rest) = codec::decode_front("a manifest", bytes)?;
        let speeds = match rest.is_empty() {
            true => Vec::new(),
            false => codec::decode("the speeds in a manifest", rest)?,
        };
        Ok((manifest, speeds))
    }
}

/// Ratio of two measured speeds up to which they count as equal.
const NOISE: f64 = 1.1;

/// The speed of a PE at the last rebalance before a checkpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct MeasuredSpeed {
    /// Speed of its processor. The work of members is their compute time, multiplied by this speed.
    pub(crate) whole: Speed,
    /// This speed, multiplied by the part of the processor that other programs leave to the PE.
    pub(crate) available: Speed,
}

impl MeasuredSpeed {
    /// The speeds of all PEs, or none if they differ by a tenth at most, since measurements vary.
    pub(crate) fn of_pes(pes: &[PeLoad]) -> Vec<Self> {
        let of_pe = |pe: &PeLoad| Self {
            whole: in_range(pe.speed),
            available: in_range(pe.effective_speed()),
        };
        let all: Vec<Self> = pes.iter().map(of_pe).collect();
        let differ = |speeds: Vec<Speed>| {
            let bounds = speeds.iter().min().zip(speeds.iter().max());
            bounds.is_some_and(|(least, most)| most.factor() > NOISE * least.factor())
        };
        let has_differences = differ(all.iter().map(|it| it.whole).collect())
            || differ(all.iter().map(|it| it.available).collect());
        if has_differences { all } else { Vec::new() }
    }
}

/// The speed with this factor, or the closest one.
fn in_range(factor: f64) -> Speed {
    Speed::new(factor.clamp(0.01, 100.0)).unwrap_or_default()
}
