//! What travels between PEs: packets, and their form on the network.
//!
//! Within a process packets move as values. Towards another node the sending PE encodes them, and
//! the PE they are for decodes the messages; whoever drives the network decodes control packets only.

use crate::codec::{self, DecodeError};
use crate::collection::CollectionInfo;
pub(crate) use crate::collection::PlanEntry;
use crate::error::JobError;
use crate::id::KindId;
use crate::id::{ActorId, CollectionId, SectionId};
use crate::index::Key;
use crate::parcel::Parcel;
use crate::pe::Core;
use crate::reduce::{Op, Partial, Target};
use bytes::Bytes;
use gridspan_balance::ActorLoad;
use gridspan_topology::PeId;
use serde::{Deserialize, Serialize};
use std::any::Any;

/// Something one PE sends to another.
pub struct Packet(pub(crate) Content);

pub(crate) enum Content {
    /// Messages to actors of one type, as values.
    Batch(Box<dyn Batch>),
    /// Messages to actors of one type, as they came over the network.
    Encoded(EncodedBatch),
    /// Anything else.
    Control(Box<Control>),
    /// Work that `main` asks of PE 0. Never leaves the process.
    Main(Box<dyn FnOnce(&mut Core) + Send>),
}

/// Messages to actors of one type, as bytes.
#[derive(Clone, Debug)]
pub(crate) struct EncodedBatch {
    pub(crate) kind: KindId,
    pub(crate) messages: u32,
    pub(crate) bytes: Bytes,
}

/// Messages of one actor type, in the order they were sent.
pub(crate) trait Batch: Send {
    /// The type of the receivers.
    fn kind(&self) -> KindId;
    /// How many messages.
    fn len(&self) -> usize;
    /// Appends all of them to `bytes`.
    fn append(&self, bytes: &mut Vec<u8>);
    /// Appends messages from the one at `begin` on until there are `target` bytes. Returns how many,
    /// at least one.
    fn append_some(&self, begin: usize, target: usize, bytes: &mut Vec<u8>) -> usize;
    /// What they count for in the memory budget.
    fn bytes(&self) -> usize;
    /// Hands each to its receiver.
    fn deliver(self: Box<Self>, core: &mut Core);
    /// For appending to a batch that is still open.
    fn as_any_mut(&mut self) -> &mut dyn Any;
}

/// Where a message comes from and goes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Header {
    pub(crate) to: ActorId,
    pub(crate) source: ActorId,
    /// Counts the messages from `source` to `to` at this priority.
    pub(crate) sequence: u64,
    pub(crate) priority: i32,
    /// How often the receiver had moved, as far as whoever chose the way knew.
    pub(crate) epoch: u32,
    /// How often the message was forwarded.
    pub(crate) hops: u8,
    /// The PE that sent it first; it is told where the receiver really is.
    pub(crate) origin: PeId,
}

/// Several members of one section or broadcast on one PE.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct MulticastTarget {
    pub(crate) pe: PeId,
    pub(crate) members: Vec<MulticastMember>,
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct MulticastMember {
    pub(crate) key: Key,
    pub(crate) sequence: u64,
    pub(crate) epoch: u32,
}

/// One message for many members; crosses each wide-area link once.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Multicast {
    pub(crate) kind: KindId,
    pub(crate) collection: CollectionId,
    pub(crate) source: ActorId,
    pub(crate) priority: i32,
    pub(crate) origin: PeId,
    pub(crate) targets: Vec<MulticastTarget>,
    pub(crate) message: Parcel,
}

/// What a reduction is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) enum ReductionGroup {
    Collection(CollectionId),
    Section(SectionId),
    /// The members of a collection that wait at their sync point.
    Sync(CollectionId),
}

/// Contributions that a PE and those below it in the tree have combined.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Contribution {
    pub(crate) group: ReductionGroup,
    pub(crate) sequence: u64,
    /// How many members contributed to `partial`.
    pub(crate) count: u64,
    /// Members of the section, zero for collections, whose root keeps count.
    pub(crate) expected: u64,
    pub(crate) op: Op,
    pub(crate) target: Target,
    pub(crate) partial: Partial,
}

/// An actor in transit, with all that makes its conversations go on where it arrives.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Migrant {
    pub(crate) id: ActorId,
    pub(crate) kind: KindId,
    /// Its epoch where it arrives.
    pub(crate) epoch: u32,
    pub(crate) state: Bytes,
    /// Messages that were ready to be handled: priority and encoded message.
    pub(crate) mailbox: Vec<(i32, Bytes)>,
    pub(crate) record: MemberRecord,
    /// Encoded envelopes that wait for an earlier message.
    pub(crate) held: Vec<Bytes>,
}

/// The part of a member's bookkeeping that moves with it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct MemberRecord {
    /// The next message expected: source, priority, sequence number.
    pub(crate) expected: Vec<(ActorId, i32, u64)>,
    /// The next message to be sent: receiver, priority, sequence number.
    pub(crate) next: Vec<(ActorId, i32, u64)>,
    /// The number of the next broadcast.
    pub(crate) broadcasts: u64,
    /// How many reductions it has contributed to.
    pub(crate) reductions: u64,
    /// How many reductions over a section it has contributed to.
    pub(crate) section_reductions: Vec<(SectionId, u64)>,
    /// How often it has reached its sync point.
    pub(crate) syncs: u64,
    /// Whether it waits there.
    pub(crate) synced: bool,
    /// Compute time that it charged since the last sync point, in nanoseconds.
    pub(crate) load_ns: u64,
}

/// A new member.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Insertion {
    pub(crate) id: ActorId,
    /// A `Vec<(Key, Init)>` with one element.
    pub(crate) init: Parcel,
    pub(crate) at: PeId,
    pub(crate) epoch: u32,
    /// The numbers that it begins with. Those of conversations are of an earlier member, if any.
    pub(crate) record: MemberRecord,
    /// What waits for an earlier message to that one.
    pub(crate) held: Vec<Bytes>,
}

/// What is left of a member that was destroyed.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Buried {
    pub(crate) id: ActorId,
    pub(crate) kind: KindId,
    pub(crate) epoch: u32,
    pub(crate) record: MemberRecord,
    /// Encoded envelopes that wait for an earlier message.
    pub(crate) held: Vec<Bytes>,
}

/// Everything but messages to actors.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Control {
    /// Make a collection known, and the members that live here. `inits` is a `Vec<(Key, Init)>`.
    Create { info: CollectionInfo, inits: Parcel },
    /// The sender has made its members.
    Created { collection: CollectionId },
    /// To the root: a new member is wanted.
    InsertRequest { id: ActorId, init: Parcel, at: PeId },
    /// From the root, by way of its home: make it.
    Insert(Box<Insertion>),
    /// To the root: it is made.
    Inserted { id: ActorId },
    /// To the root: a member is no more. It was part of so many reductions and sync points.
    Destroyed { id: ActorId, reductions: u64, syncs: u64 },
    /// To its home: what is left of it.
    Buried(Box<Buried>),
    /// Where an actor lives now.
    Location { id: ActorId, pe: PeId, epoch: u32, gone: bool },
    /// One message for many members.
    Multicast(Multicast),
    /// To the root: broadcast this.
    BroadcastRequest {
        kind: KindId,
        collection: CollectionId,
        source: ActorId,
        sequence: u64,
        message: Parcel,
        priority: i32,
    },
    /// Down the tree: a broadcast with its number.
    Broadcast {
        kind: KindId,
        collection: CollectionId,
        number: u64,
        message: Parcel,
        priority: i32,
    },
    /// Up the tree.
    Contribution(Contribution),
    /// The answer to an ask.
    Reply { slot: u64, answer: Parcel },
    /// Take this actor, tentatively.
    MigrateOffer(Box<Migrant>),
    /// It can live here. `broadcasts`: the number of the next broadcast this PE expects.
    MigrateAccept { id: ActorId, epoch: u32, broadcasts: u64 },
    /// It cannot live here.
    MigrateRefuse { id: ActorId, epoch: u32, reason: String },
    /// The old copy is gone; the new one lives.
    MigrateCommit { id: ActorId, epoch: u32 },
    /// Report once idle.
    Wave { wave: u64 },
    /// Messages made and handled so far.
    WaveReply { wave: u64, created: u64, processed: u64 },
    /// Report the loads of your actors. `syncs`: how many sync points will be complete after it.
    Measure { collection: CollectionId, syncs: u64 },
    /// The loads and epochs.
    Loads { collection: CollectionId, actors: Vec<(ActorLoad, u32)> },
    /// Everyone learns the whole plan; those named as origin carry it out.
    Plan { collection: CollectionId, moves: Vec<PlanEntry> },
    /// The sender's part of the plan is carried out.
    PlanDone { collection: CollectionId },
    /// Members that wait at their sync point go on. `syncs`: how many sync points are complete.
    Resume { collection: CollectionId, syncs: u64 },
    /// Read-only data. `value` is the encoded value.
    Publish { id: u32, value: Bytes },
    /// The sender has it.
    Published { id: u32 },
    /// To PE 0: the sender's node is there and runs the job with this fingerprint.
    Greet { fingerprint: u64 },
    /// To PE 0: the job cannot go on.
    Failed { error: JobError },
    /// The job is over.
    Stop { outcome: Result<(), JobError> },
}

/// Tag of a frame's first byte.
const MESSAGES: u8 = 0;
/// Tag of a frame's first byte.
const CONTROL: u8 = 1;
/// A batch is cut into frames of about so many bytes: far above what a frame costs by itself, and few
/// enough to count as a small frame. Those share a stream and come in order, so that their messages
/// need not be held for earlier ones.
const FRAME_BYTES: usize = 32 << 10;

impl Packet {
    pub(crate) fn control(control: Control) -> Self {
        Self(Content::Control(Box::new(control)))
    }

    /// Appends the packet from one PE to another to a frame. Packets of `main` have no form on the network and
    /// are never addressed to another node.
    pub fn append_frame(&self, from: PeId, to: PeId, frame: &mut Vec<u8>) {
        frame.extend_from_slice(&from.0.to_le_bytes());
        frame.extend_from_slice(&to.0.to_le_bytes());
        match &self.0 {
            Content::Batch(batch) => {
                frame.push(MESSAGES);
                codec::append(&(batch.kind(), batch.len() as u32), frame);
                batch.append(frame);
            }
            Content::Encoded(batch) => {
                frame.push(MESSAGES);
                codec::append(&(batch.kind, batch.messages), frame);
                frame.extend_from_slice(&batch.bytes);
            }
            Content::Control(control) => {
                frame.push(CONTROL);
                codec::append(control, frame);
            }
            Content::Main(_) => unreachable!("main talks to PE 0 of its own process"),
        }
    }

    /// Reads what [`append_frame`](Self::append_frame) wrote: sender, receiver and packet. Messages
    /// stay encoded until the receiver takes them.
    pub fn from_frame(frame: &Bytes) -> Result<(PeId, PeId, Self), DecodeError> {
        const WHAT: &str = "a frame";
        let Some((head, body)) = frame.split_at_checked(9) else {
            return Err(DecodeError::new(WHAT, "shorter than its header"));
        };
        let pe = |at: usize| {
            PeId(u32::from_le_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]))
        };
        let (from, to) = (pe(0), pe(4));
        match head[8] {
            MESSAGES => {
                let ((kind, messages), rest) = codec::decode_front(WHAT, body)?;
                let bytes = frame.slice_ref(rest);
                let batch = EncodedBatch { kind, messages, bytes };
                Ok((from, to, Self(Content::Encoded(batch))))
            }
            CONTROL => Ok((from, to, Self::control(codec::decode(WHAT, body)?))),
            tag => Err(DecodeError::new(WHAT, format_args!("unknown tag {tag}"))),
        }
    }

    /// Encodes the packet as frames. A batch becomes several if it is large, so that no frame comes
    /// near the limit of the transport unless one message does.
    pub fn frames(&self, from: PeId, to: PeId, emit: &mut dyn FnMut(Vec<u8>)) {
        let Content::Batch(batch) = &self.0 else {
            let mut frame = Vec::new();
            self.append_frame(from, to, &mut frame);
            return emit(frame);
        };
        let mut done = 0;
        while done < batch.len() {
            let mut body = Vec::with_capacity(FRAME_BYTES);
            let messages = batch.append_some(done, FRAME_BYTES, &mut body);
            done += messages;
            let mut frame = Vec::with_capacity(body.len() + 32);
            frame.extend_from_slice(&from.0.to_le_bytes());
            frame.extend_from_slice(&to.0.to_le_bytes());
            frame.push(MESSAGES);
            codec::append(&(batch.kind(), messages as u32), &mut frame);
            frame.append(&mut body);
            emit(frame);
        }
    }

    /// Whether it carries no messages of the application, so that it may pass those.
    pub(crate) fn is_control(&self) -> bool {
        match &self.0 {
            Content::Batch(_) | Content::Encoded(_) => false,
            Content::Control(control) => {
                !matches!(**control, Control::Multicast(_) | Control::Broadcast { .. })
            }
            Content::Main(_) => true,
        }
    }

    /// Bytes that the packet holds, for the memory budget.
    pub(crate) fn bytes(&self) -> usize {
        match &self.0 {
            Content::Batch(batch) => batch.bytes(),
            Content::Encoded(batch) => batch.bytes.len(),
            Content::Control(control) => match &**control {
                Control::Multicast(multicast) => multicast.message.wire_len(),
                Control::Broadcast { message, .. } => message.wire_len(),
                Control::MigrateOffer(migrant) => migrant.state.len(),
                _ => 0,
            },
            Content::Main(_) => 0,
        }
    }
}
