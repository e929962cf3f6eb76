//! The state of a PE except for the actors themselves, and the interface to their types.
//!
//! This file does not know the types of actors: a type is a [`Kind`] with a number, and a [`Store`]
//! holds its actors. The files beside this one implement the behaviour of a PE; each adds its part
//! to [`Core`].

use super::PlantedFault;
use super::balancing::Balancing;
use super::delivery::{Delivery, Lanes, OnDemand, Queue};
use super::guest_event::OnGuests;
use super::outbox::Outbox;
use super::partners::Followers;
use super::replicas::Replicas;
use super::statistics::PeStatistics;
use super::steps::Steps;
use super::tolerated_loss::OnToleratedLoss;
use crate::address::collection::PlacementMap;
use crate::address::id::{
    ActorId, COORDINATOR, CollectionId, KindId, MAIN_PE, RebalanceId, Sender, Slot,
};
use crate::address::index::Key;
use crate::error::JobError;
use crate::message::codec::DecodeError;
use crate::message::default_plan;
use crate::message::envelope::{AnyEnvelope, Batch, Header};
use crate::message::limits::Limits;
use crate::message::payload::Payload;
use crate::message::{
    ActorType, EncodedBatch, Moves, Multicast, MulticastMember, PhaseCounts, ReductionGroup,
};
use crate::pe::actor::answer::TaggedAnswer;
use crate::pe::actor::resources::Resources;
use crate::pe::actor::upgrade::{OldState, UpgradeError};
use crate::pe::ask::waits::Waits;
use crate::pe::checkpoint::captured_part::CapturedPart;
use crate::pe::checkpoint::resizing::{Merge, Resizing};
use crate::pe::checkpoint::settings::Checkpoints;
use crate::pe::checkpoint::slice::Slice;
use crate::pe::checkpoint::state::Checkpointing;
use crate::pe::checkpoint::unencoded_members::UnencodedMembers;
use crate::pe::collective::accumulator::{Accumulator, GroupState};
use crate::pe::collective::collections::{Collections, Incomplete, LocalCollection};
use crate::pe::collective::rights::Rights;
use crate::pe::command::PeCommand;
use crate::pe::links::{OnFailure, OnLinks};
use crate::pe::measure::measures::Measures;
use crate::pe::members::member::{Departing, Member, NewMembers, Request, Wish};
use crate::pe::membership::loan_log::LoanLogs;
use crate::pe::membership::state::Membership;
use crate::pe::node_local::NodeLocal;
use crate::pe::own_plans::state::OwnPlans;
use crate::pe::own_time::state::OwnTime;
use crate::pe::pieces::Pieces;
use crate::pe::published::state::Published;
use crate::pe::rank::Rank;
use crate::pe::recording::records::Records;
use crate::pe::recording::state::Recording;
use crate::pe::stall::state::Looks;
use crate::pe::telemetry::state::WorkCounts;
use crate::pe::timers::Timers;
use crate::pe::watch::Watch;
use crate::reduce::{CustomOp, Reduction};
use crate::schema::definition::{Definition, Part};
use bytes::Bytes;
use gridspan_balance::stealing::MakeStealingPolicy;
use gridspan_bcast::BroadcastPlan;
use gridspan_bcast::{Mode, Tree};
use gridspan_topology::{Hierarchy, Layout, NodeId, PeId, SiteId, Speed, Time};
use std::any::{Any, TypeId};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

/// An action to run on a PE, such as a request of `main` on PE 0. Never leaves the process.
pub type Action = Box<dyn FnOnce(&mut Core) + Send>;

/// Returns nanoseconds since a fixed moment. Set by a driver that runs in real time.
pub type Stopwatch = Box<dyn Fn() -> u64 + Send>;

/// Operations on actors whose type is not known here. `kind` is the number of that type.
pub(crate) trait Kind: Deliver + Send + Sync {
    /// The type's identity.
    fn actor(&self) -> TypeId;
    /// The type's name, for errors and reports.
    fn name(&self) -> &'static str;
    /// Version of the type, for checkpoints.
    fn version(&self) -> u32;
    /// Whether actors of the type count their work.
    fn counts_work(&self) -> bool;
    /// The messages, initial values and states of the type, with their structure on the wire.
    fn parts(&self) -> [Part; 3];
    /// A new queue for messages of the type.
    fn new_queue(&self) -> Box<dyn Queue>;
    /// A new store for actors of the type.
    fn new_store(&self, kind: KindId) -> Box<dyn Store>;
    /// Bytes that an envelope counts for in the memory budget.
    fn envelope_bytes(&self, envelope: &dyn AnyEnvelope) -> usize;
    /// Bytes that a message without a single receiver counts for in the memory budget.
    fn payload_bytes(&self, message: &Payload) -> usize;
    /// Puts a message into the outbox, or returns the type's name if the message is not of this
    /// type.
    fn put_out(
        &self,
        outbox: &mut Outbox,
        kind: KindId,
        to: PeId,
        envelope: Box<dyn AnyEnvelope>,
    ) -> Result<(), &'static str>;
    /// Makes an envelope for one receiver from a payload.
    fn envelope(
        &self,
        header: Header,
        message: Payload,
    ) -> Result<Box<dyn AnyEnvelope>, DecodeError>;
    /// Checks that an encoded message decodes.
    fn check_message(&self, bytes: &[u8]) -> Result<(), DecodeError>;
    /// Decodes a single envelope.
    fn decode_envelope(&self, bytes: &[u8]) -> Result<Box<dyn AnyEnvelope>, DecodeError>;
    /// Copies a message.
    fn copy(&self, message: &Payload) -> Payload;
    /// Turns the result of a reduction into a message.
    fn reduced(&self, reduction: Reduction) -> Option<Payload>;
    /// Turns the answer to a question into a message.
    fn answered(&self, answer: TaggedAnswer) -> Option<Payload>;
}

/// Delivery of messages to several actors of one type, which is not known here.
pub(crate) trait Deliver {
    /// Hands each message of a batch to its receiver.
    fn deliver(&self, core: &mut Core, batch: Box<dyn Batch>);
    /// Hands each message of a batch from the network to its receiver.
    fn deliver_encoded(&self, core: &mut Core, batch: &EncodedBatch) -> Result<(), DecodeError>;
    /// Hands one message to several members that should live here.
    fn multicast(
        &self,
        core: &mut Core,
        multicast: Multicast,
        members: &[MulticastMember],
    ) -> Result<(), DecodeError>;
    /// Hands a broadcast to members that live here, each with a header.
    fn broadcast(
        &self,
        core: &mut Core,
        kind: KindId,
        headers: Vec<Header>,
        message: Payload,
    ) -> Result<(), DecodeError>;
}

/// The store of actors of a type that is not known here.
pub(crate) trait Store: Send {
    /// Handles up to `budget` ready messages, while the next one is of `rank`. Returns the number
    /// of handled messages.
    fn dispatch(&mut self, core: &mut Core, rank: Rank, budget: u32) -> u32;
    /// Builds members, from a `Vec<(Key, Init)>`.
    fn create(&mut self, core: &mut Core, new: NewMembers, inits: Payload) -> Result<(), JobError>;
    /// Divides a `Vec<(Key, Init)>` into a vector of the elements for which `is_here` is true and,
    /// for each other element, its key and a vector of that element alone.
    fn divide(
        &self,
        inits: Payload,
        is_here: &dyn Fn(Key) -> bool,
    ) -> Result<(Payload, Vec<(Key, Payload)>), DecodeError>;
    /// Encodes the state of a member.
    fn encode(&self, slot: u32) -> Bytes;
    /// Notes the members of a checkpoint: the present state of each will be encoded, at the latest
    /// before the member changes or ends. Replaces the members noted before.
    fn set_unencoded(&mut self, members: UnencodedMembers);
    /// Adds members of the checkpoint to its part until the slice ends or no member is left.
    /// `members`: those of this type. Returns whether a member is left.
    fn encode_members(
        &mut self,
        members: &[Option<Member>],
        part: &mut CapturedPart,
        slice: &mut Slice<'_>,
    ) -> bool;
    /// Encodes a member that is about to change or to leave its slot, if a checkpoint needs its
    /// present state.
    fn prepare_change(&mut self, core: &mut Core, slot: u32);
    /// Whether the encoded state of a member is the whole member.
    fn is_movable(&self, slot: u32) -> bool;
    /// Number of members that are not movable.
    fn unmovable(&self) -> u64;
    /// Puts a decoded state into an empty slot, and calls the actor's `arrived`.
    fn install(&mut self, core: &mut Core, slot: u32, state: Box<dyn Any + Send>);
    /// Puts a decoded state into an empty slot, without calling the actor.
    fn put_aside(&mut self, slot: u32, state: Box<dyn Any + Send>);
    /// Decodes a state without installing it.
    fn decode(&self, state: &[u8]) -> Result<Box<dyn Any + Send>, DecodeError>;
    /// Makes a state from one of an earlier version of the type.
    fn upgrade(&self, old: OldState<'_>) -> Result<Box<dyn Any + Send>, UpgradeError>;
    /// Builds the actor in an empty slot, from a `Vec<(Key, Init)>` with one element.
    fn fill(&mut self, core: &mut Core, slot: u32, init: Payload) -> Result<(), JobError>;
    /// Merges a decoded state into a member.
    fn merge(
        &mut self,
        core: &mut Core,
        slot: u32,
        state: Box<dyn Any + Send>,
        merge: &Merge<Core>,
    );
    /// Calls a member's `arrived`.
    fn arrived(&mut self, core: &mut Core, slot: u32);
    /// Drops a member, after [`prepare_change`](Self::prepare_change).
    fn remove(&mut self, slot: u32);
    /// Lets a member leave the sync point at which it waits, and calls its `resume`, if it waits at
    /// one that is settled.
    fn resume_if_settled(&mut self, core: &mut Core, slot: u32);
}

/// The identity of a run of a job, and of its checkpoints.
#[derive(Clone, Debug)]
pub(crate) struct RunOfJob {
    /// The job's name.
    pub(crate) job: String,
    /// A number that no other run has, equal on all nodes.
    pub(crate) number: u64,
    pub(crate) checkpoints: Checkpoints,
    /// For each node, the first one on the same host. Empty if each has its own host.
    pub(crate) hosts: Arc<[NodeId]>,
    /// Names of the job's placement maps and reducers.
    pub(crate) maps: Vec<String>,
    pub(crate) reducers: Vec<String>,
}

/// The layout and definition of a job, which all its PEs share.
#[derive(Clone)]
pub(crate) struct Common {
    pub(crate) layout: Arc<Layout>,
    /// The node on which the coordinator runs.
    pub(crate) coordinator: NodeId,
    /// The tree of nodes for collective operations, rooted at the coordinator's node.
    pub(crate) tree: Arc<Tree>,
    pub(crate) kinds: Arc<[&'static dyn Kind]>,
    /// The types whose actors may live on two PEs.
    pub(crate) deterministic: Arc<BTreeSet<KindId>>,
    /// The types whose members are created on demand.
    pub(crate) on_demand: Arc<BTreeMap<KindId, OnDemand>>,
    /// The types whose groups can change their size between a checkpoint and its restoration.
    pub(crate) resizing: Arc<BTreeMap<KindId, Resizing<Core>>>,
    /// For workers of pools, the type of their tasks.
    pub(crate) task_names: Arc<BTreeMap<KindId, &'static str>>,
    pub(crate) maps: Arc<[PlacementMap]>,
    pub(crate) reducers: Arc<[CustomOp]>,
    pub(crate) limits: Limits,
    pub(crate) balancing: Balancing,
    /// The mode that determines how broadcasts travel.
    pub(crate) broadcasts: Mode,
    /// Makes the policy by which nodes find tasks.
    pub(crate) stealing: Arc<dyn MakeStealingPolicy>,
    pub(crate) seed: u64,
    pub(crate) definition: Arc<Definition>,
    pub(crate) fault: PlantedFault,
    pub(crate) on_links: Vec<OnLinks>,
    /// Whether the job continues when a guest is lost.
    pub(crate) tolerates_lost_guests: bool,
    pub(crate) on_guests: Vec<OnGuests>,
    /// Whether the job goes on if it loses a founder while it has only pools of tasks.
    pub(crate) recovers_tasks: bool,
    /// The tasks that each node of this process has lent, for that case.
    pub(crate) loan_logs: Arc<LoanLogs>,
    pub(crate) on_tolerated_loss: Vec<OnToleratedLoss>,
    pub(crate) on_failure: Vec<OnFailure>,
    pub(crate) watch: Watch,
    pub(crate) run: Arc<RunOfJob>,
    /// Values that the actors of one node share.
    pub(crate) node_local: Arc<NodeLocal>,
    pub(crate) resources: Resources,
    pub(crate) records: Option<Records>,
}

impl Common {
    pub(crate) fn default_plan_from(&self, node: NodeId) -> BroadcastPlan {
        default_plan(&self.broadcasts.tree(&self.layout, node))
    }

    /// The nodes that get copies of the parts of a node in a checkpoint after which some nodes leave.
    pub(crate) fn partners(&self, node: NodeId, leaving: &[NodeId]) -> Vec<NodeId> {
        match self.fault {
            PlantedFault::CopyOnSameNode => vec![node],
            _ => self.run.checkpoints.partners(&self.layout, &self.run.hosts, node, leaving),
        }
    }

    /// The actor types with their numbers.
    pub(super) fn kinds(&self) -> impl Iterator<Item = (KindId, &'static dyn Kind)> {
        self.kinds.iter().enumerate().map(|(position, &kind)| (KindId(position as u16), kind))
    }

    /// The actor type of this number.
    pub(crate) fn kind(&self, kind: KindId) -> Option<&'static dyn Kind> {
        self.kinds.get(kind.index()).copied()
    }

    /// Whether checkpoints leave out the members of a type, such as the workers of pools.
    pub(crate) fn is_left_out(&self, kind: KindId) -> bool {
        matches!(self.resizing.get(&kind), Some(Resizing::End))
    }

    /// Whether the members of groups of a type continue as they are on another number of PEs.
    pub(crate) fn keeps_members(&self, kind: KindId) -> bool {
        matches!(self.resizing.get(&kind), Some(Resizing::Keep))
    }

    /// The actor types, as checkpoints describe them.
    pub(crate) fn actor_types(&self) -> Vec<ActorType> {
        let actor_type = |kind: &&'static dyn Kind| {
            let [messages, _, states] = kind.parts();
            ActorType { name: kind.name().to_owned(), version: kind.version(), messages, states }
        };
        self.kinds.iter().map(actor_type).collect()
    }

    /// The node of a PE, or of the coordinator.
    pub(crate) fn node_of(&self, pe: PeId) -> NodeId {
        if pe == COORDINATOR { self.coordinator } else { self.layout.node_of(pe) }
    }

    /// The site of a PE, or of the coordinator.
    pub(crate) fn site_of(&self, pe: PeId) -> SiteId {
        self.layout.site_of_node(self.node_of(pe))
    }

    #[inline]
    pub(super) fn is_deterministic(&self, kind: KindId) -> bool {
        !self.deterministic.is_empty() && self.deterministic.contains(&kind)
    }

    /// The number of an actor type, if it is part of the job.
    pub(super) fn kind_of(&self, actor: TypeId) -> Option<KindId> {
        self.kinds().find(|(_, kind)| kind.actor() == actor).map(|(id, _)| id)
    }
}

/// All state of one PE except its actors. Handlers reach it through [`Context`](crate::Context).
pub struct Core {
    pub(crate) me: PeId,
    pub(crate) common: Common,
    pub(crate) now: Time,
    pub(super) lanes: Lanes,
    pub(super) queues: Vec<Box<dyn Queue>>,
    pub(super) ready_bytes: usize,
    /// Bytes that wait outside of the PE, in its driver.
    pub(super) waiting_bytes: usize,
    // Members and their places.
    pub(super) members: Vec<Vec<Option<Member>>>,
    pub(super) free: Vec<Vec<u32>>,
    pub(super) collections: Collections,
    pub(crate) delivery: Delivery,
    /// Collections whose members have not all arrived.
    pub(super) parts: BTreeMap<CollectionId, Incomplete>,
    pub(crate) membership: Membership<Self>,
    /// The measured hierarchy of places. Only the first PE of a node gets it.
    pub(crate) hierarchy: Option<Arc<Hierarchy>>,
    pub(super) replicas: Replicas,
    pub(super) departing: BTreeMap<ActorId, Departing>,
    /// Actors that were accepted and not yet committed.
    pub(super) arriving: BTreeSet<ActorId>,
    /// New members that wait for a partner, by the base member.
    pub(super) followers: Followers,
    /// Broadcasts owed to actors that have left: the first number, and the end of the range.
    pub(super) debts: BTreeMap<ActorId, (u64, u64)>,
    pub(super) requests: Vec<Request>,
    /// The rebalance that is being planned or carried out; requested migrations wait for its end.
    pub(super) rebalance: Option<RebalanceId>,
    /// The last move that each actor, or a partner of it, has requested during a rebalance.
    /// Partners count as one, under the identity of the base member.
    pub(super) deferred: BTreeMap<ActorId, PeId>,
    /// Finished moves of plans that have not been reported yet.
    pub(super) moved: BTreeMap<RebalanceId, Moves>,
    // Conversations.
    pub(super) waits: Waits<Core>,
    pub(super) timers: Timers<Core>,
    pub(super) published: BTreeMap<u32, Published>,
    // Collective operations.
    pub(super) accumulators: BTreeMap<(ReductionGroup, u64), Accumulator>,
    pub(super) groups: BTreeMap<ReductionGroup, GroupState>,
    pub(super) rounds_pending: BTreeSet<u64>,
    /// Counts of this PE for phases that are not complete.
    pub(super) phases: BTreeMap<u32, PhaseCounts>,
    pub(crate) outbox: Outbox,
    /// Control packets from this PE to itself that it has not handled.
    pub(super) own_controls: u64,
    /// Commands for the driver.
    pub(super) commands: Vec<PeCommand>,
    /// The tree of nodes that contributions go up, and the version of its plan.
    pub(super) up_tree: (u64, Arc<Tree>),
    /// Term of the coordinator's place; the node is in `common`.
    pub(super) coordinator_term: u64,
    /// Plans for the broadcasts that this PE itself sends to all nodes.
    pub(super) own_plans: OwnPlans,
    /// The collections whose broadcasts this PE numbers in place of the coordinator.
    pub(super) rights: Rights,
    /// Controls that are sent or received in pieces.
    pub(super) pieces: Pieces,
    /// The job's own time, on main's PE if actors are balanced.
    pub(super) own_time: Option<OwnTime>,
    pub(super) failure: Option<JobError>,
    pub(super) outcome: Option<Result<(), JobError>>,
    pub(super) created: u64,
    pub(super) processed: u64,
    pub(crate) charged: Duration,
    /// Bytes of this PE's part of a checkpoint that were encoded in this turn.
    pub(crate) encoded_bytes: u64,
    /// Emulated computing speed of the PE.
    pub(super) pace: Speed,
    /// Times handlers if actors are balanced. Not set in virtual time.
    pub(super) stopwatch: Option<Stopwatch>,
    /// Measures time within a handler. Not set in virtual time, which does not advance there.
    pub(super) clock: Option<Stopwatch>,
    /// Set by a handler to end the PE's turn, such as after one part of long work, so that outgoing
    /// and newly arrived messages go first.
    pub(crate) turn_is_over: bool,
    /// Measurements for balancing besides those of members, if actors are balanced.
    pub(super) measures: Option<Box<Measures>>,
    pub(super) steps: Steps,
    // Boxed, so that the state that every send needs stays close together.
    pub(super) checkpointing: Box<Checkpointing<Self>>,
    pub(super) running: Option<KindId>,
    /// The type of actor of which a checkpoint encodes states at present.
    pub(super) encoding: Option<KindId>,
    pub(super) looks: Looks,
    pub(super) statistics: PeStatistics,
    pub(crate) counts: WorkCounts,
    /// The recorder, while the job is recorded.
    pub(crate) recording: Option<Box<Recording>>,
}

impl Core {
    /// Creates the state of a PE with these queues, one for each actor type.
    pub(super) fn new(me: PeId, common: Common, queues: Vec<Box<dyn Queue>>) -> Self {
        let kinds = queues.len();
        Self {
            me,
            now: Time::ZERO,
            lanes: Lanes::default(),
            queues,
            ready_bytes: 0,
            waiting_bytes: 0,
            members: (0..kinds).map(|_| Vec::new()).collect(),
            free: vec![Vec::new(); kinds],
            collections: Collections::default(),
            delivery: Delivery::new(common.fault),
            parts: BTreeMap::new(),
            membership: Membership::default(),
            hierarchy: None,
            replicas: Replicas::default(),
            departing: BTreeMap::new(),
            arriving: BTreeSet::new(),
            followers: Followers::new(),
            debts: BTreeMap::new(),
            requests: Vec::new(),
            rebalance: None,
            deferred: BTreeMap::new(),
            moved: BTreeMap::new(),
            waits: Waits::default(),
            timers: Timers::default(),
            published: BTreeMap::new(),
            accumulators: BTreeMap::new(),
            groups: BTreeMap::new(),
            rounds_pending: BTreeSet::new(),
            phases: BTreeMap::new(),
            outbox: Outbox::new(common.layout.place(common.layout.node_of(me)).pes.clone()),
            own_controls: 0,
            commands: Vec::new(),
            up_tree: (0, common.tree.clone()),
            coordinator_term: 0,
            own_plans: OwnPlans::default(),
            rights: Rights::default(),
            pieces: Pieces::default(),
            own_time: (me == MAIN_PE && common.balancing.is_active()).then(OwnTime::default),
            failure: None,
            outcome: None,
            created: 0,
            processed: 0,
            charged: Duration::ZERO,
            encoded_bytes: 0,
            pace: Speed::ORDINARY,
            stopwatch: None,
            clock: None,
            turn_is_over: false,
            measures: common.balancing.is_active().then(Box::default),
            steps: Steps::default(),
            checkpointing: Box::default(),
            running: None,
            encoding: None,
            looks: Looks::default(),
            statistics: PeStatistics::default(),
            counts: WorkCounts::new(kinds),
            recording: None,
            common,
        }
    }

    #[inline]
    pub(super) fn member(&mut self, kind: KindId, slot: u32) -> Option<&mut Member> {
        self.members.get_mut(kind.index())?.get_mut(slot as usize)?.as_mut()
    }

    /// The member in a slot, as a shared reference.
    #[inline]
    pub(super) fn member_in(&self, slot: Slot) -> Option<&Member> {
        self.members.get(slot.kind.index())?.get(slot.index as usize)?.as_ref()
    }

    /// The actor that sends, or `None` if the PE itself does.
    #[inline]
    pub(super) fn sending(&self, sender: Sender) -> Option<&Member> {
        match sender {
            Sender::Pe => None,
            Sender::Actor(slot) => self.member_in(slot),
        }
    }

    /// The kind and slot of a member, if it lives here. Always inlined: every send calls this, and
    /// a pair that is returned through memory costs as much as the rest.
    #[inline(always)]
    pub(super) fn resident(&self, id: ActorId) -> Option<(KindId, u32)> {
        let local = self.collections.get(id.collection)?;
        Some((local.info.kind, local.slots.get(id.key)?))
    }

    /// Enters a member into an empty slot.
    pub(super) fn add_member(&mut self, kind: KindId, mut member: Member) -> u32 {
        let id = member.id;
        member.border_hops = self.steps.hops(self.base_of(id));
        let members = &mut self.members[kind.index()];
        let slot = match self.free[kind.index()].pop() {
            Some(slot) => {
                members[slot as usize] = Some(member);
                slot
            }
            None => {
                members.push(Some(member));
                members.len() as u32 - 1
            }
        };
        if let Some(local) = self.collections.get_mut(id.collection) {
            local.slots.insert(id.key, slot);
        }
        self.delivery.directory.forget(id);
        slot
    }

    pub(super) fn home(&self, id: ActorId) -> Option<PeId> {
        Some(self.home_in(self.collections.get(id.collection)?, id.key))
    }

    /// The home of a member of a collection that is known here.
    #[inline]
    pub(super) fn home_in(&self, local: &LocalCollection, key: Key) -> PeId {
        local.info.home(key, &self.common.layout, &self.common.maps)
    }

    #[inline]
    pub(crate) fn id_in(&self, slot: Slot) -> ActorId {
        self.member_in(slot).map_or_else(|| ActorId::system(self.me), |member| member.id)
    }

    /// The identity under which the sender's messages are numbered.
    pub(super) fn sender_id(&self, sender: Sender) -> ActorId {
        self.sending(sender).map_or_else(|| ActorId::system(self.me), |member| member.id)
    }

    /// Nanoseconds of the clock, or zero without one.
    pub(crate) fn clock_ns(&self) -> u64 {
        self.clock.as_ref().map_or(0, |clock| clock())
    }

    /// Queues a request of an actor about itself. If a handler requests several moves, the last
    /// one counts.
    pub(crate) fn request(&mut self, request: Request) {
        let is_move = |wish: Wish| matches!(wish, Wish::Migrate(_));
        let mut own = self.requests.iter_mut().rev().take_while(|own| own.id == request.id);
        match own.find(|own| is_move(own.wish) && is_move(request.wish)) {
            Some(earlier) => *earlier = request,
            None => self.requests.push(request),
        }
    }
}
