//! Packets of the runtime itself: everything but messages to single actors.

use super::broadcast::{Asked, BroadcastOrder, FlowId, PlanNews, SequencerNews, Travel, Wanted};
use super::look::Looked;
use super::membership::MembershipMessage;
use super::migrant::{MemberRecord, Migrant};
use crate::address::collection::{CollectionInfo, Map, PlanEntry};
use crate::address::id::{ActorId, CollectionId, KindId, RebalanceId, SectionId, Timer};
use crate::address::index::{Key, Shape};
use crate::error::JobError;
use crate::message::payload::Payload;
use crate::message::probe::{ProbeOrder, ProbeReport};
use crate::message::{CoordinatorPlace, ReplicaControl, ReplicaOrder, TransferMessage};
use crate::reduce::{CustomOp, Op, Partial, Target};
use crate::schema::definition::Definition;
use bytes::Bytes;
use gridspan_balance::leaders::Note;
use gridspan_balance::{ActorLoad, PeLoad};
use gridspan_bcast::{PlanId, Tree};
use gridspan_topology::{Hierarchy, LinkSample, NodeId, PeId, SiteId, Time};
use serde::{Deserialize, Serialize};
use std::time::Duration;

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
    /// How many broadcasts of its sender to the collection it comes after.
    pub(crate) after: u64,
    pub(crate) origin: PeId,
    pub(crate) targets: Vec<MulticastTarget>,
    pub(crate) message: Payload,
}

/// What a reduction is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) enum ReductionGroup {
    Collection(CollectionId),
    Section(SectionId),
    /// The members of a collection that wait at their sync point.
    Sync(CollectionId),
}

impl ReductionGroup {
    /// The collection whose members contribute.
    pub(crate) fn collection(self) -> CollectionId {
        match self {
            Self::Collection(id) | Self::Sync(id) => id,
            Self::Section(section) => section.collection,
        }
    }
}

/// Contributions that a PE and those below it in the tree have combined.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Contribution {
    pub(crate) group: ReductionGroup,
    pub(crate) sequence: u64,
    /// How many members contributed to `partial`.
    pub(crate) count: u64,
    /// Members of the section, zero for collections, whose members the coordinator counts.
    pub(crate) expected: u64,
    pub(crate) op: Op,
    pub(crate) target: Target,
    pub(crate) partial: Partial,
}

impl Contribution {
    /// What both contributions are together; both belong to the same reduction.
    pub(crate) fn combine(self, other: Self, reducers: &[CustomOp]) -> Result<Self, JobError> {
        let collection = self.group.collection().0;
        if (self.op, self.target) != (other.op, other.target) {
            return Err(JobError::Failed(format!(
                "members of collection {collection} contributed to one reduction with {:?} to {:?} and with {:?} to {:?}; all must agree",
                self.op, self.target, other.op, other.target
            )));
        }
        let count = self.count + other.count;
        let op = self.op;
        let partial = self.partial.combine(op, other.partial, reducers);
        let partial = partial.ok_or_else(|| {
            JobError::Failed(format!(
                "members of collection {collection} contributed values of different kinds or lengths to one reduction with {op:?}"
            ))
        })?;
        Ok(Self { count, partial, ..other })
    }
}

/// The messages from one actor to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Edge {
    pub(crate) from: ActorId,
    pub(crate) to: ActorId,
    pub(crate) messages: u64,
    pub(crate) bytes: u64,
}

/// What one PE has measured.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Loads {
    pub(crate) rebalance: RebalanceId,
    /// The loads and epochs of the actors that live there.
    pub(crate) actors: Vec<(ActorLoad, u32)>,
    /// Who has sent how much to whom from there.
    pub(crate) edges: Vec<Edge>,
    /// Which rebalance of the sites' leaders it is for, if it is for one.
    pub(crate) led: Option<u64>,
    /// Then also: the edges, by position, whose receivers are believed to live at another site, and
    /// that site.
    pub(crate) away: Vec<(u32, SiteId)>,
    /// Where its time went.
    pub(crate) pe: PeLoad,
    /// How many messages it has handled since the job began.
    pub(crate) handled: u64,
    /// Who lives there and has a replica elsewhere.
    pub(crate) replicas: Vec<ReplicaOrder>,
}

/// What main asks of the coordinator, through its PE.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum MainRequest {
    /// A collection of so many members. The answer is its identifier; `created` is the slot that is
    /// answered once all PEs have made their members.
    Create { kind: KindId, map: Map, shape: Option<Shape>, members: u64, created: u64 },
    /// Give an encoded value to every PE. The answer is its number.
    Publish { value: Bytes },
    /// Balance now. The answer is how many actors have moved.
    Rebalance,
    /// The answer comes once the job is quiescent. Also asked for actors, on any PE.
    Quiescence,
    /// The next result that the members of a group send to main.
    Reduction { group: ReductionGroup },
    /// The places, as measured.
    Places,
    /// What is known of the links.
    Links,
    /// The next change of a link.
    LinkChange,
    /// The coordinator is to run on this node. The answer comes once it does.
    MoveCoordinator { to: NodeId },
}

/// Moves of a plan that are over, as one PE has seen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Moves {
    /// Actors that live there now.
    pub(crate) arrived: usize,
    /// Actors that did not leave it.
    pub(crate) stayed: usize,
}

/// A new member.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Insertion {
    pub(crate) id: ActorId,
    /// A `Vec<(Key, Init)>` with one element.
    pub(crate) init: Payload,
    pub(crate) at: PeId,
    pub(crate) epoch: u32,
    /// The numbers that it begins with. Those of conversations are of an earlier member, if any.
    pub(crate) record: MemberRecord,
    /// What waits for an earlier message to that one.
    pub(crate) held: Vec<Bytes>,
}

/// What is left of a member that was destroyed.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Tombstone {
    pub(crate) id: ActorId,
    pub(crate) kind: KindId,
    pub(crate) epoch: u32,
    pub(crate) record: MemberRecord,
    /// Encoded envelopes that wait for an earlier message.
    pub(crate) held: Vec<Bytes>,
}

/// What a node saw of one edge of a tree broadcast or multicast.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Arrival {
    /// Who sent.
    pub(crate) from: NodeId,
    /// Over which of the plan's trees.
    pub(crate) stripe: u32,
    /// What came after the first segment, and in how many seconds.
    pub(crate) bytes: u64,
    pub(crate) flowing_s: f64,
}

/// A part of an encoded control that may be too large for one frame.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Piece {
    /// Which of the sender's.
    pub(crate) number: u64,
    /// Bytes of the whole.
    pub(crate) total: u64,
    pub(crate) offset: u64,
    pub(crate) bytes: Bytes,
}

/// Everything but messages to actors.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Control {
    /// Make a collection known, and the members that live here: `inits` is a `Vec<(Key, Init)>`,
    /// and there are so many parts more, which come in any order.
    Create { info: CollectionInfo, inits: Payload, more: u32 },
    /// More members for a [`Create`](Self::Create).
    CreatePart { collection: CollectionId, inits: Payload },
    /// The sender has made its members.
    Created { collection: CollectionId },
    /// To the coordinator: a new member is wanted.
    InsertRequest { id: ActorId, init: Payload, at: PeId },
    /// From the coordinator, through its home: make it.
    Insert(Box<Insertion>),
    /// To the coordinator: it is made.
    Inserted { id: ActorId },
    /// To the coordinator: a member is no more. It was part of so many reductions and sync points.
    Destroyed { id: ActorId, reductions: u64, syncs: u64 },
    /// To its home: what is left of it.
    Tombstone(Box<Tombstone>),
    /// Where an actor lives now.
    Location { id: ActorId, pe: PeId, epoch: u32, gone: bool, replica: Option<PeId> },
    /// One message for many members.
    Multicast(Multicast),
    /// To the coordinator: broadcast this. `is_alone` if all broadcasts that the sender has asked
    /// for before have their numbers.
    BroadcastRequest {
        kind: KindId,
        collection: CollectionId,
        asked: Asked,
        wanted: Wanted,
        priority: i32,
        is_alone: bool,
    },
    /// To everyone: a broadcast. In the total order, it comes from the coordinator with its number,
    /// or from another sender without, which the coordinator sends.
    Broadcast {
        kind: KindId,
        collection: CollectionId,
        order: BroadcastOrder,
        asked: Asked,
        message: Payload,
        priority: i32,
    },
    /// From the coordinator to everyone: the number of the broadcast that this sender asked for as
    /// the one with this count.
    BroadcastNumber { collection: CollectionId, number: u64, source: ActorId, count: u64 },
    /// Who numbers the broadcasts of a collection.
    Sequencer { collection: CollectionId, news: SequencerNews },
    /// Up the tree.
    Contribution(Contribution),
    /// To the home of a member: the result of a reduction, as a message of the coordinator, with
    /// its number among those to that member.
    Result { kind: KindId, to: ActorId, number: u64, message: Payload },
    /// The answer to an ask.
    Reply { slot: u64, answer: Payload },
    /// Take this actor, tentatively.
    MigrateOffer(Box<Migrant>),
    /// It can live here. `broadcasts`: the number of the next broadcast this PE expects; `streams`:
    /// the same for each stream of unordered ones, with its source and channel.
    MigrateAccept { id: ActorId, epoch: u32, broadcasts: u64, streams: Vec<(ActorId, i32, u64)> },
    /// It cannot live here.
    MigrateRefuse { id: ActorId, epoch: u32, reason: String },
    /// The old copy is gone; the new one lives. `plan`: which rebalance moves it, if one does.
    MigrateCommit { id: ActorId, epoch: u32, plan: Option<RebalanceId> },
    /// Do not send what was to be sent later.
    CancelTimer(Timer),
    /// From main's PE to the coordinator. The answer goes to this slot.
    MainRequest { slot: u64, request: MainRequest },
    /// To the coordinator: main has ended.
    End { outcome: Result<(), JobError> },
    /// Report once idle.
    QuiescenceRound { round: u64 },
    /// Messages made and handled so far.
    QuiescenceReply { round: u64, created: u64, processed: u64, stranded: u64 },
    /// Drop the stranded messages that were reported last; see `pe/collective/quiescence.rs`.
    DropStranded,
    /// Report the loads of your actors. `led`: to the leader of your site, for this rebalance of
    /// the leaders.
    Measure { rebalance: RebalanceId, led: Option<u64> },
    /// What was measured.
    Loads(Box<Loads>),
    /// Everyone learns the whole plan; those named as origin carry it out.
    Plan { rebalance: RebalanceId, moves: Vec<PlanEntry> },
    /// Between leaders of sites and the coordinator: their plan for a rebalance. `planning_ns`:
    /// nanoseconds that the sender has spent on it.
    Lead { number: u64, note: Box<Note>, planning_ns: u64 },
    /// To leaders of sites: carry out what you have planned, or not. `uses_steps`: tell how near
    /// borders are.
    Settle { number: u64, rebalance: RebalanceId, is_passed: bool, uses_steps: bool },
    /// The part of a plan that concerns a PE, which carries out what begins there.
    PlanPart { rebalance: RebalanceId, moves: Vec<PlanEntry> },
    /// Between the PEs of the two replicas of an actor.
    Replica(Box<ReplicaControl>),
    /// A plan wants actors that live there to have a replica, or none.
    Replicas { rebalance: RebalanceId, begin: Vec<ReplicaOrder>, end: Vec<ActorId> },
    /// To the coordinator: something for this collection waits for its description.
    CollectionAwaited { collection: CollectionId },
    /// To the coordinator: the sender handles messages of steps.
    UsesSteps,
    /// How near those are to another site who live there once the plan that comes with it is
    /// carried out.
    Borders { hops: Vec<(ActorId, u8)> },
    /// Moves of the plan are over.
    PlanDone { rebalance: RebalanceId, moves: Moves },
    /// The rebalance is over.
    Rebalanced { rebalance: RebalanceId },
    /// That many sync points of the collection are settled, and members that wait for it go on.
    SettleSyncs { collection: CollectionId, syncs: u64 },
    /// Read-only data. `value` is the encoded value.
    Publish { id: u32, value: Bytes },
    /// The sender has it.
    Published { id: u32 },
    /// To the coordinator: the sender's node is there and runs this.
    Greet { definition: Box<Definition> },
    /// To the first PE of a node: measure this.
    Probe(ProbeOrder),
    /// To the coordinator: the results of an order.
    Probed(ProbeReport),
    /// To the coordinator: what the connections of the sender's node show.
    Links { samples: Vec<(NodeId, LinkSample)> },
    /// To the coordinator: the sender gets another share of its processor than before.
    ShareChanged,
    /// Report how many messages you have handled.
    ProgressProbe { number: u64 },
    /// To the coordinator: so many since the job began. `own`: what the clock of the job's own time
    /// shows; of main's PE only.
    Progress { number: u64, handled: u64, own: Time },
    /// From main's PE to the coordinator, before its loads: what that clock shows, and how long it
    /// has measured, in nanoseconds.
    OwnTime { at: Time, measuring_ns: u64 },
    /// Contributions go up this tree of nodes, which is that of a plan, unless a later one is
    /// known.
    UpTree { plan: PlanId, tree: Tree },
    /// To the coordinator: the sender's node knows this plan for tree broadcasts.
    PlanKnown { plan: PlanId },
    /// From the coordinator to the PEs of a node.
    OwnPlan(PlanNews),
    /// To the coordinator: the sender has begun an unordered broadcast, which travels like this.
    CastBegun(Travel),
    /// To the coordinator: this node has all of a tree broadcast or multicast; its report arrived
    /// this long after the transfer began.
    Carried { flow: FlowId, node: NodeId, arrivals: Vec<Arrival>, after: Duration },
    /// To the coordinator: send a large multicast on its way to other nodes.
    LargeMulticast(Box<Multicast>),
    /// Who takes part beside the founders.
    Membership(MembershipMessage),
    /// From main's PE to the coordinator: members of a collection share tasks with other nodes.
    PoolOpened { collection: CollectionId },
    /// From main's PE to the coordinator: they do no more. The `farewell` is a worker message for
    /// its members on guests.
    PoolClosed { collection: CollectionId, farewell: Bytes },
    /// The hierarchy of places, for those who share tasks.
    Hierarchy(Box<Hierarchy>),
    /// For the member of a collection on this PE: an encoded message, between founders and guests.
    WorkerMessage { collection: CollectionId, message: Bytes },
    /// A part of another control.
    Piece(Piece),
    /// Say what you do as soon as you are idle.
    Look { round: u64 },
    /// To the coordinator: this.
    Looked(Box<Looked>),
    /// To the coordinator: the sender is inside of a handler of this actor, for so many
    /// nanoseconds; or no longer.
    Inside { handler: Option<(String, u64)> },
    /// To the coordinator: the job cannot go on.
    Failed { error: JobError },
    /// The job is over.
    Stop { outcome: Result<(), JobError> },
    /// From the coordinator: it runs at this place now.
    CoordinatorAt(CoordinatorPlace),
    /// Between the hosts of the coordinator.
    Transfer(TransferMessage),
}

impl Control {
    /// The collection without whose description it cannot be handled.
    pub(crate) fn needs_collection(&self) -> Option<CollectionId> {
        match self {
            Self::Broadcast { collection, .. }
            | Self::BroadcastNumber { collection, .. }
            | Self::WorkerMessage { collection, .. }
            | Self::SettleSyncs { collection, .. } => Some(*collection),
            Self::Multicast(multicast) => Some(multicast.collection),
            Self::Insert(insertion) => Some(insertion.id.collection),
            Self::MigrateOffer(migrant) => Some(migrant.id.collection),
            Self::Result { to, .. } => Some(to.collection),
            Self::Replica(edge) => edge.needs_collection(),
            _ => None,
        }
    }

    /// Bytes that it holds, for the memory budget.
    pub(crate) fn bytes(&self) -> usize {
        match self {
            Self::Multicast(multicast) => multicast.message.wire_len(),
            Self::BroadcastRequest { wanted, .. } => wanted.wire_len(),
            Self::Broadcast { message, .. } => message.wire_len(),
            Self::MigrateOffer(migrant) => migrant.bytes(),
            Self::WorkerMessage { message, .. } => message.len(),
            Self::Replica(edge) => edge.bytes(),
            Self::Result { message, .. } => message.wire_len(),
            Self::InsertRequest { init, .. } => init.wire_len(),
            Self::Insert(insertion) => {
                insertion.init.wire_len() + insertion.held.iter().map(Bytes::len).sum::<usize>()
            }
            _ => 0,
        }
    }

    /// Whether the PE itself has sent it that it comes from: worker messages inside of a node come
    /// from its relay, in the name of its first PE.
    pub(crate) fn is_of_pe(&self) -> bool {
        !matches!(self, Self::WorkerMessage { .. })
    }

    /// Whether handling it can lead to messages, so that the job is not quiescent before.
    pub(crate) fn is_counted(&self) -> bool {
        matches!(
            self,
            Self::MainRequest { request: MainRequest::Create { .. }, .. }
                | Self::Result { .. }
                | Self::CreatePart { .. }
                | Self::Create { .. }
                | Self::InsertRequest { .. }
                | Self::Insert(_)
                | Self::Inserted { .. }
                | Self::Destroyed { .. }
                | Self::Tombstone(_)
                | Self::Multicast(_)
                | Self::BroadcastRequest { .. }
                | Self::Broadcast { .. }
                | Self::BroadcastNumber { .. }
                | Self::Sequencer { .. }
                | Self::Contribution(_)
                | Self::Reply { .. }
                | Self::MigrateOffer(_)
                | Self::MigrateAccept { .. }
                | Self::MigrateRefuse { .. }
                | Self::MigrateCommit { .. }
                | Self::Measure { .. }
                | Self::Loads(_)
                | Self::Plan { .. }
                | Self::Lead { .. }
                | Self::Settle { .. }
                | Self::PlanPart { .. }
                | Self::Replica(_)
                | Self::Replicas { .. }
                | Self::PlanDone { .. }
                | Self::Rebalanced { .. }
                | Self::SettleSyncs { .. }
        )
    }
}
