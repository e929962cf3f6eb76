//! Controls: all packets between PEs and the coordinator other than messages to single actors.

use super::broadcast::{Asked, BroadcastOrder, FlowId, PlanNews, SequencerNews, Travel, Wanted};
use super::checkpoint::CheckpointMessage;
use super::diagnosis::{Findings, WaitKind};
use super::look::Looked;
use super::membership::MembershipMessage;
use super::migrant::{MemberRecord, Migrant};
use crate::address::collection::{CollectionInfo, Map, PlanEntry};
use crate::address::id::{ActorId, CollectionId, KindId, Phase, RebalanceId, SectionId, Timer};
use crate::address::index::{Key, Shape};
use crate::error::{JobError, Misuse};
use crate::message::payload::Payload;
use crate::message::probe::{ProbeOrder, ProbeReport};
use crate::message::{
    CoordinatorPlace, PhaseCounts, ReplicaControl, ReplicaOrder, TransferMessage,
};
use crate::reduce::{CustomOp, Op, Partial, Target};
use crate::schema::definition::Definition;
use bytes::Bytes;
use gridspan_balance::leaders::Note;
use gridspan_balance::{ActorLoad, PeLoad};
use gridspan_bcast::{PlanId, Tree};
use gridspan_topology::{Hierarchy, Layout, LinkSample, NodeId, PeId, SiteId, Time};
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// Several members of a section or collection on one PE.
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

/// One message for many members, which crosses each wide-area link once.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Multicast {
    pub(crate) kind: KindId,
    pub(crate) collection: CollectionId,
    pub(crate) source: ActorId,
    pub(crate) priority: i32,
    /// Number of the sender's broadcasts to the collection that come before the multicast.
    pub(crate) after: u64,
    pub(crate) origin: PeId,
    pub(crate) targets: Vec<MulticastTarget>,
    pub(crate) message: Payload,
}

impl Multicast {
    /// Fails if a target is not a PE of a founder.
    pub(crate) fn check(&self, layout: &Layout) -> Result<(), JobError> {
        match self.targets.iter().find(|target| !layout.contains(target.pe)) {
            None => Ok(()),
            Some(MulticastTarget { pe, .. }) => {
                let reason = format!("a multicast names {pe}, which does not exist");
                Err(JobError::Protocol(reason))
            }
        }
    }
}

/// The group of members that contribute to a reduction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) enum ReductionGroup {
    Collection(CollectionId),
    Section(SectionId),
    /// The members of a collection that wait at their sync point.
    Sync(CollectionId),
}

impl ReductionGroup {
    /// Returns the collection whose members contribute.
    pub(crate) fn collection(self) -> CollectionId {
        match self {
            Self::Collection(id) | Self::Sync(id) => id,
            Self::Section(section) => section.collection,
        }
    }

    /// Names the operation of this number, in readable text.
    pub(crate) fn subject(self, number: u64) -> String {
        match self {
            Self::Collection(id) => format!("reduction {number} over collection {}", id.0),
            Self::Section(SectionId { collection, name }) => {
                format!("reduction {number} over section {name} of collection {}", collection.0)
            }
            Self::Sync(id) => format!("sync point {number} of collection {}", id.0),
        }
    }

    /// Returns the kind of the wait for members that are missing.
    pub(crate) fn wait_kind(self) -> WaitKind {
        match self {
            Self::Collection(_) | Self::Section(_) => WaitKind::Reduction,
            Self::Sync(_) => WaitKind::SyncPoint,
        }
    }
}

/// Contributions that a PE has combined with those from below it in the tree.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Contribution {
    pub(crate) group: ReductionGroup,
    pub(crate) sequence: u64,
    /// Number of members that contributed to `partial`.
    pub(crate) count: u64,
    /// Number of members of the section. Zero for collections: the coordinator counts their
    /// members.
    pub(crate) expected: u64,
    pub(crate) op: Op,
    pub(crate) target: Target,
    pub(crate) partial: Partial,
}

impl Contribution {
    /// Combines two contributions to the same reduction.
    pub(crate) fn combine(self, other: Self, reducers: &[CustomOp]) -> Result<Self, JobError> {
        let collection = self.group.collection().0;
        if (&self.op, self.target) != (&other.op, other.target) {
            let [one, other] = [(&self.op, self.target), (&other.op, other.target)]
                .map(|(op, target)| (format!("{op:?}"), format!("{target:?}")));
            return Err(Misuse::DifferentReductions { collection, one, other }.into());
        }
        // Saturates: a count may come from a faulty node.
        let count = self.count.saturating_add(other.count);
        let op = self.op;
        let partial = self.partial.combine(&op, other.partial, reducers);
        let partial = partial.ok_or_else(|| {
            let operation = format!("{op:?}");
            Misuse::DifferentValues { collection, operation }
        })?;
        Ok(Self { count, partial, ..other })
    }
}

/// Number and bytes of the messages from one actor to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Edge {
    pub(crate) from: ActorId,
    pub(crate) to: ActorId,
    pub(crate) messages: u64,
    pub(crate) bytes: u64,
}

/// Measurements of one PE.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Loads {
    pub(crate) rebalance: RebalanceId,
    /// Loads and epochs of the actors on the PE.
    pub(crate) actors: Vec<(ActorLoad, u32)>,
    /// Messages from actors on the PE, by sender and receiver.
    pub(crate) edges: Vec<Edge>,
    /// Number of the rebalance among those that the leaders of sites plan; `None` if the
    /// coordinator plans it.
    pub(crate) led: Option<u64>,
    /// If leaders plan: the positions of those `edges` whose receivers are assumed to live at
    /// another site, each with that site.
    pub(crate) away: Vec<(u32, SiteId)>,
    /// How the PE spent its time.
    pub(crate) pe: PeLoad,
    /// Number of messages handled since the start of the job.
    pub(crate) handled: u64,
    /// Actors on the PE that have a replica on another PE.
    pub(crate) replicas: Vec<ReplicaOrder>,
}

/// Requests from main to the coordinator, sent through main's PE.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum MainRequest {
    /// Create a collection of `members` members. The answer is its identifier; `created` is the
    /// slot that is answered once all PEs have created their members.
    Create { kind: KindId, map: Map, shape: Option<Shape>, members: u64, created: u64 },
    /// Send an encoded value to every PE. The answer is its number.
    Publish { value: Bytes },
    /// Rebalance now. The answer is the number of actors that have moved.
    Rebalance,
    /// Answer once the job is quiescent. Actors on any PE may request this, too.
    Quiescence,
    /// Answer with the next result that the members of a group send to main.
    Reduction { group: ReductionGroup },
    /// Answer with the measured places.
    Places,
    /// Answer with the estimates of the links.
    Links,
    /// Answer at once with the estimates of the links, or with `None` if the places are not known.
    KnownLinks,
    /// Answer with the next change of a link.
    LinkChange,
    /// Move the coordinator to this node. The answer comes once it runs there.
    MoveCoordinator { to: NodeId },
    /// Answer with the final [`PhaseCounts`] once the phase is complete.
    Completion { phase: Phase },
    /// Make a checkpoint. It contains `progress`, which main gets back later, and the number of
    /// phases that main has begun. The answer is the number of the checkpoint and the mean time for
    /// which PEs still computed after the order to stop, or the reason why it is postponed.
    /// `pause`: the nodes that will leave; the job then stays stopped, and an answer comes only if
    /// the checkpoint is postponed.
    Checkpoint { progress: Bytes, phases: u32, pause: Option<Vec<NodeId>> },
    /// Like `Rebalance`, unless such requests have taken too much of the job's time in vain.
    RebalanceIfDue,
}

/// Completed moves of a plan, as observed by one PE.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Moves {
    /// Number of actors that have arrived on the PE.
    pub(crate) arrived: usize,
    /// Number of actors that have stayed on the PE.
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
    /// The numbers with which the member starts. Sequence numbers of its channels go on from those
    /// of an earlier member of the same index, if there was one.
    pub(crate) record: MemberRecord,
    /// Messages held for an earlier message to the member.
    pub(crate) held: Vec<Bytes>,
}

/// A new member of a bound collection, on its way to the PE where its partner in the base
/// collection lives.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Follower {
    pub(crate) insertion: Box<Insertion>,
    /// The partner's epoch at the place to which the member is sent.
    pub(crate) epoch: u32,
    /// Whether the member is created with its collection.
    pub(crate) is_first: bool,
}

/// The consent of a PE to take an actor.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Accepted {
    pub(crate) id: ActorId,
    pub(crate) epoch: u32,
    /// The number of the next broadcast that the PE expects.
    pub(crate) broadcasts: u64,
    /// The same for each stream of unordered broadcasts: source, channel, number.
    pub(crate) streams: Vec<(ActorId, i32, u64)>,
}

/// The record of a destroyed member.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Tombstone {
    pub(crate) id: ActorId,
    pub(crate) kind: KindId,
    pub(crate) epoch: u32,
    pub(crate) record: MemberRecord,
    /// Encoded envelopes held for an earlier message.
    pub(crate) held: Vec<Bytes>,
}

/// A node's observation of one edge of a tree broadcast or multicast.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Arrival {
    pub(crate) from: NodeId,
    /// Index of the plan's tree.
    pub(crate) stripe: u32,
    /// Number of bytes that arrived after the first segment.
    pub(crate) bytes: u64,
    /// Seconds from the first segment to the last.
    pub(crate) flowing_s: f64,
}

/// A part of an encoded control that may be too large for one frame.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Piece {
    /// Number of the control among those that the sender splits.
    pub(crate) number: u64,
    /// Number of bytes of the whole control.
    pub(crate) total: u64,
    pub(crate) offset: u64,
    pub(crate) bytes: Bytes,
}

/// Any packet other than messages to single actors.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Control {
    /// Announce a collection and create the members that live here: `inits` is a `Vec<(Key,
    /// Init)>`, and `more` further parts follow, in any order.
    Create { info: CollectionInfo, inits: Payload, more: u32 },
    /// More members for a [`Create`](Self::Create).
    CreatePart { collection: CollectionId, inits: Payload },
    /// The sender has created its members.
    Created { collection: CollectionId },
    /// To the coordinator: insert a member.
    InsertRequest { id: ActorId, init: Payload, at: PeId },
    /// From the coordinator, through the member's home: create the member.
    Insert(Box<Insertion>),
    /// To the coordinator: the member is created.
    Inserted { id: ActorId },
    /// To the coordinator: a member was destroyed, which took part in this number of reductions and
    /// sync points.
    Destroyed { id: ActorId, reductions: u64, syncs: u64 },
    /// To the home of a destroyed member: its record.
    Tombstone(Box<Tombstone>),
    /// The place where an actor lives.
    Location { id: ActorId, pe: PeId, epoch: u32, gone: bool, replica: Option<PeId> },
    /// One message for many members.
    Multicast(Multicast),
    /// To the coordinator: broadcast this. `is_alone`: whether all earlier broadcasts of the sender
    /// have their numbers.
    BroadcastRequest {
        kind: KindId,
        collection: CollectionId,
        asked: Asked,
        wanted: Wanted,
        priority: i32,
        is_alone: bool,
    },
    /// To all PEs: a broadcast. With [`BroadcastOrder::Total`], it comes from the coordinator or
    /// from the PE that has the right to number it; with [`BroadcastOrder::TotalApart`], from any
    /// other PE.
    Broadcast {
        kind: KindId,
        collection: CollectionId,
        order: BroadcastOrder,
        asked: Asked,
        message: Payload,
        priority: i32,
    },
    /// From the coordinator to all PEs: the number of the broadcast that this sender requested, the
    /// `count`-th of its requests.
    BroadcastNumber { collection: CollectionId, number: u64, source: ActorId, count: u64 },
    /// Passes the right to number the broadcasts of a collection.
    Sequencer { collection: CollectionId, news: SequencerNews },
    /// Up the tree: contributions to a reduction.
    Contribution(Contribution),
    /// To the home of a member: the result of a reduction. It becomes a message from the
    /// coordinator; `number` is its sequence number among the results for that member.
    Result { kind: KindId, to: ActorId, number: u64, message: Payload },
    /// The answer to an ask.
    Reply { slot: u64, answer: Payload },
    /// Take this actor, tentatively, until the commit.
    MigrateOffer(Box<Migrant>),
    /// The actor can live here. `broadcasts`: the number of the next broadcast that this PE
    /// expects; `streams`: the same for each stream of unordered broadcasts, with its source and
    /// channel.
    MigrateAccept { id: ActorId, epoch: u32, broadcasts: u64, streams: Vec<(ActorId, i32, u64)> },
    /// The actor cannot live here.
    MigrateRefuse { id: ActorId, epoch: u32, reason: String },
    /// The old copy is gone; the new one is live. `plan`: the rebalance that moves it, if one does.
    MigrateCommit { id: ActorId, epoch: u32, plan: Option<RebalanceId> },
    /// Cancel a delayed message.
    CancelTimer(Timer),
    /// From main's PE to the coordinator. The answer goes to this slot.
    MainRequest { slot: u64, request: MainRequest },
    /// To the coordinator: main has ended.
    End { outcome: Result<(), JobError> },
    /// Report once idle.
    QuiescenceRound { round: u64 },
    /// Numbers of messages created, handled and stranded so far.
    QuiescenceReply { round: u64, created: u64, processed: u64, stranded: u64 },
    /// Drop the stranded messages that were reported last; see `pe/collective/quiescence.rs`.
    DropStranded,
    /// Report the loads of your actors. `led`: report them to your site's leader, for this
    /// rebalance of the leaders.
    Measure { rebalance: RebalanceId, led: Option<u64> },
    /// The measurements of a PE.
    Loads(Box<Loads>),
    /// To all PEs: the whole plan, which the PEs named as origin carry out.
    Plan { rebalance: RebalanceId, moves: Vec<PlanEntry> },
    /// Between leaders of sites, or a leader and the coordinator: a message about a rebalance that
    /// the leaders plan. `planning_ns`: nanoseconds that the sender has spent on planning.
    Lead { number: u64, note: Box<Note>, planning_ns: u64 },
    /// To leaders of sites: carry out your plan if `is_passed`. `uses_steps`: also send the PEs the
    /// distances to borders.
    Settle { number: u64, rebalance: RebalanceId, is_passed: bool, uses_steps: bool },
    /// The part of a plan that concerns a PE, which carries out the moves that start there.
    PlanPart { rebalance: RebalanceId, moves: Vec<PlanEntry> },
    /// Between the PEs of the two replicas of an actor.
    Replica(Box<ReplicaControl>),
    /// Begin and end replicas of actors on the receiver, as a plan requests.
    Replicas { rebalance: RebalanceId, begin: Vec<ReplicaOrder>, end: Vec<ActorId> },
    /// To the coordinator: a packet waits for the description of this collection.
    CollectionAwaited { collection: CollectionId },
    /// To the coordinator: the sender handles messages of steps.
    UsesSteps,
    /// Number of hops to another site, for each actor that lives on the receiver after the plan
    /// sent with this control.
    Borders { hops: Vec<(ActorId, u8)> },
    /// Moves of the plan are complete.
    PlanDone { rebalance: RebalanceId, moves: Moves },
    /// The rebalance is over.
    Rebalanced { rebalance: RebalanceId },
    /// Sync points of the collection up to this number are settled; members that wait for them
    /// continue.
    SettleSyncs { collection: CollectionId, syncs: u64 },
    /// Read-only data. `value` is the encoded value.
    Publish { id: u32, value: Bytes },
    /// The sender has the data.
    Published { id: u32 },
    /// To the coordinator: the sender's node is present and runs this program.
    Greet { definition: Box<Definition> },
    /// To the first PE of a node: measure this.
    Probe(ProbeOrder),
    /// To the coordinator: the results of an order.
    Probed(ProbeReport),
    /// To the coordinator: measurements of the connections of the sender's node.
    Links { samples: Vec<(NodeId, LinkSample)> },
    /// To the coordinator: the sender's share of its processor has changed. `is_late`: it changed
    /// some time ago, when no actor could move, and later measurements show the effect.
    ShareChanged { is_late: bool },
    /// Report the number of messages that you have handled.
    ProgressProbe { number: u64 },
    /// To the coordinator: the number of messages handled since the start of the job. `own`: the
    /// clock of the job's own time, from main's PE only.
    Progress { number: u64, handled: u64, own: Time },
    /// From main's PE to the coordinator, before its loads: the clock of the job's own time, and
    /// the nanoseconds spent on measuring.
    OwnTime { at: Time, measuring_ns: u64 },
    /// Send contributions up this tree of nodes, the tree of a plan, unless you know that of a
    /// later plan.
    UpTree { plan: PlanId, tree: Tree },
    /// To the coordinator: the sender's node knows this plan for tree broadcasts.
    PlanKnown { plan: PlanId },
    /// From the coordinator to the PEs of a node: news about the plans of their broadcasts.
    OwnPlan(PlanNews),
    /// To the coordinator: the sender has begun an unordered broadcast, with this plan and size.
    CastBegun(Travel),
    /// To the coordinator, from the node where a transfer began: `node` has all of a tree broadcast
    /// or multicast. `after`: time from the start of the transfer until the report of `node`
    /// arrived at the sender.
    Carried { flow: FlowId, node: NodeId, arrivals: Vec<Arrival>, after: Duration },
    /// To the coordinator: send a large multicast to other nodes.
    LargeMulticast(Box<Multicast>),
    /// Messages about guests, the nodes that take part beside the founders.
    Membership(MembershipMessage),
    /// From main's PE to the coordinator: members of a collection share tasks with other nodes.
    PoolOpened { collection: CollectionId },
    /// From main's PE to the coordinator: the members no longer share tasks. The `farewell` is a
    /// worker message for the collection's members on guests.
    PoolClosed { collection: CollectionId, farewell: Bytes },
    /// The hierarchy of places, for nodes that share tasks.
    Hierarchy(Box<Hierarchy>),
    /// For the member of a collection on this PE: an encoded message, between founders and guests.
    WorkerMessage { collection: CollectionId, message: Bytes },
    /// A part of another control.
    Piece(Piece),
    /// Report your work as soon as you are idle.
    Look { round: u64 },
    /// To the coordinator: the report of a PE's work.
    Looked(Box<Looked>),
    /// To the coordinator: the sender has been inside this handler for this number of nanoseconds,
    /// or is no longer inside one.
    Inside { handler: Option<(String, u64)> },
    /// To the coordinator: the job has failed.
    Failed { error: JobError },
    /// The job is over.
    Stop { outcome: Result<(), JobError> },
    /// From the coordinator: the place where it runs now.
    CoordinatorAt(CoordinatorPlace),
    /// Between the hosts of the coordinator.
    Transfer(TransferMessage),
    /// Report your counts of a phase.
    PhaseRound { phase: u32, round: u64 },
    /// To the coordinator: the sender's counts of a phase.
    PhaseCounts { phase: u32, round: u64, counts: PhaseCounts },
    /// The phase is complete, and its counts are no longer needed.
    PhaseOver { phase: u32 },
    /// Take these partners, tentatively, until the commit. Partners move together: a refusal and a
    /// commit name the first.
    OfferPartners(Vec<Migrant>),
    /// The partners can live here.
    AcceptPartners(Vec<Accepted>),
    /// Create the member where its partner lives.
    Follow(Follower),
    /// To the coordinator: the sender has created this number of first members of a bound
    /// collection. `missing`: the base collection has no member of this index.
    Placed { collection: CollectionId, members: u64, missing: Option<Key> },
    /// About checkpoints.
    Checkpoint(Box<CheckpointMessage>),
    /// Report at once what waits, and which members are missing from these reductions and sync
    /// points, each with its number.
    Diagnose { round: u64, about: Vec<(ReductionGroup, u64)> },
    /// To the coordinator: the answer.
    Diagnosed { round: u64, findings: Box<Findings> },
    /// The answer to a question from before a restoration: the PE that asked then, and its slot.
    RestoredReply { asked: (PeId, u64), answer: Payload },
}

impl Control {
    /// Returns a collection whose description is needed to handle the control and is missing, if
    /// there is one.
    pub(crate) fn missing_collection(
        &self,
        is_missing: impl Fn(CollectionId) -> bool,
    ) -> Option<CollectionId> {
        let needed = match self {
            Self::OfferPartners(migrants) => {
                return migrants.iter().map(|it| it.id.collection).find(|&id| is_missing(id));
            }
            Self::Follow(follower) => Some(follower.insertion.id.collection),
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
        };
        needed.filter(|&id| is_missing(id))
    }

    /// Returns the number of bytes it holds, for the memory budget.
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
            Self::Insert(insertion) | Self::Follow(Follower { insertion, .. }) => {
                insertion.init.wire_len() + insertion.held.iter().map(Bytes::len).sum::<usize>()
            }
            Self::OfferPartners(migrants) => migrants.iter().map(Migrant::bytes).sum(),
            Self::Checkpoint(message) => message.bytes(),
            Self::Piece(Piece { bytes, .. }) | Self::Publish { value: bytes, .. } => bytes.len(),
            Self::Reply { answer, .. } | Self::RestoredReply { answer, .. } => answer.wire_len(),
            Self::Tombstone(tombstone) => tombstone.held.iter().map(Bytes::len).sum(),
            _ => 0,
        }
    }

    /// Whether the sender is the PE that the packet names. Worker messages within a node come from
    /// its relay, in the name of its first PE.
    pub(crate) fn is_of_pe(&self) -> bool {
        !matches!(self, Self::WorkerMessage { .. })
    }

    /// Whether the control counts as a message in flight: for quiescence, because its handling can
    /// cause messages, and for the next checkpoint, which waits for it.
    pub(crate) fn is_counted(&self) -> bool {
        let is_manifest = matches!(self, Self::Checkpoint(message) if message.is_manifest());
        let causes_messages = matches!(
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
                | Self::RestoredReply { .. }
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
                | Self::OfferPartners(_)
                | Self::AcceptPartners(_)
                | Self::Follow(_)
                | Self::CancelTimer(_)
        );
        causes_messages || is_manifest
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reduce::Value;

    #[test]
    fn controls_with_content_count_in_the_budget() {
        let bytes = Bytes::from_static(b"content");
        let (id, kind) = (ActorId::system(PeId(0)), KindId(0));
        let held = vec![bytes.clone(), Bytes::new()];
        let tombstone = Tombstone { id, kind, epoch: 0, record: MemberRecord::default(), held };
        for control in [
            Control::Piece(Piece { number: 0, total: 9, offset: 2, bytes: bytes.clone() }),
            Control::Publish { id: 0, value: bytes.clone() },
            Control::Reply { slot: 0, answer: Payload::Bytes(bytes.clone()) },
            Control::RestoredReply { asked: (PeId(0), 0), answer: Payload::Bytes(bytes.clone()) },
            Control::Tombstone(Box::new(tombstone)),
        ] {
            assert_eq!(control.bytes(), bytes.len(), "{control:?}");
        }
        assert_eq!(Control::UsesSteps.bytes(), 0);
    }

    #[test]
    fn an_operation_that_does_not_apply_is_not_blamed_on_the_kinds_alone() {
        let one = || Contribution {
            group: ReductionGroup::Collection(CollectionId(0)),
            sequence: 0,
            count: 1,
            expected: 0,
            op: Op::And,
            target: Target::Main,
            partial: Partial::Plain(Value::F64(1.0)),
        };

        let error = one().combine(one(), &[]).unwrap_err().to_string();

        assert!(error.contains("And does not apply to values of their kind"), "{error}");
    }
}
