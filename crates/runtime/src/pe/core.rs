//! Everything a PE knows except for the actors themselves.

use super::channel::Channels;
use super::collective::{GroupState, Held, Root};
use super::directory::Directory;
use super::graves::Graves;
use super::local::Collections;
use super::migrate::Departing;
use super::outbox::Outbox;
use super::queue::{Lanes, Queue, TypedQueue, message_bytes};
use super::store::Request;
use super::timers::Timers;
use super::waits::Waits;
use crate::Actor;
use crate::collection::PlacementMap;
use crate::context::{Seat, Sender};
use crate::envelope::AnyEnvelope;
use crate::error::JobError;
use crate::id::KindId;
use crate::id::{ActorId, CollectionId};
use crate::limits::Limits;
use crate::reduce::CustomOp;
use crate::registry::Kind;
use crate::wire::{Control, Packet, ReductionGroup};
use gridspan_bcast::Tree;
use gridspan_topology::{Layout, PeId, Time};
use std::any::Any;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

/// What all PEs of a job share: its layout and definition.
#[derive(Clone)]
pub(crate) struct Common {
    pub(crate) layout: Arc<Layout>,
    /// The tree of nodes, rooted at the node of PE 0, over which collective operations run.
    pub(crate) tree: Arc<Tree>,
    pub(crate) kinds: Arc<[Arc<dyn Kind>]>,
    pub(crate) maps: Arc<[PlacementMap]>,
    pub(crate) reducers: Arc<[CustomOp]>,
    pub(crate) limits: Limits,
    pub(crate) strategy: Arc<str>,
    pub(crate) seed: u64,
    pub(crate) fingerprint: u64,
    pub(crate) fault: super::PlantedFault,
}

/// A member that lives here.
pub(crate) struct Member {
    pub(super) id: ActorId,
    /// How often it has moved.
    pub(super) epoch: u32,
    /// The number of the next broadcast it has to handle.
    pub(super) broadcasts: u64,
    pub(super) reductions: u64,
    pub(super) syncs: u64,
    pub(super) synced: bool,
    pub(super) load_ns: u64,
    pub(super) channels: Option<Box<Channels>>,
}

/// What outran the description of its collection.
pub(super) enum Early {
    Message(KindId, Box<dyn AnyEnvelope>),
    Control(PeId, Box<Control>),
}

/// All bookkeeping of one PE. Handlers reach it through [`Context`](crate::Context).
pub struct Core {
    pub(crate) me: PeId,
    pub(crate) common: Common,
    pub(crate) now: Time,
    // Ready messages.
    pub(super) lanes: Lanes,
    queues: Vec<Box<dyn Queue>>,
    pub(super) ready_bytes: usize,
    /// Bytes that wait outside of the machine.
    pub(super) waiting_bytes: usize,
    // Members and their places.
    pub(super) members: Vec<Vec<Option<Member>>>,
    pub(super) free: Vec<Vec<u32>>,
    pub(super) collections: Collections,
    pub(super) directory: Directory,
    /// Messages for actors that should arrive here.
    pub(super) awaiting: BTreeMap<ActorId, Held>,
    /// What came for collections that are not known here yet.
    pub(super) early: BTreeMap<CollectionId, Vec<Early>>,
    pub(super) graves: Graves,
    pub(super) departing: BTreeMap<ActorId, Departing>,
    /// Actors that were accepted and not yet committed.
    pub(super) arriving: BTreeSet<ActorId>,
    /// Broadcasts still owed to actors that have left: the first and the end of their numbers.
    pub(super) debts: BTreeMap<ActorId, (u64, u64)>,
    pub(super) requests: Vec<Request>,
    /// Collections whose plan is being made or carried out, and the number of the sync point after
    /// it; migrations on request wait for the end.
    pub(super) balancing: BTreeMap<CollectionId, u64>,
    pub(super) deferred: Vec<(ActorId, PeId)>,
    /// The counters of what the PE itself sends, for main and on behalf of actors.
    pub(super) system: Channels,
    // Conversations.
    pub(super) waits: Waits,
    pub(super) timers: Timers,
    pub(super) published: BTreeMap<u32, super::published::Published>,
    // Collective operations.
    pub(super) accumulators: BTreeMap<(ReductionGroup, u64), super::collective::Accumulator>,
    pub(super) groups: BTreeMap<ReductionGroup, GroupState>,
    pub(super) waves_pending: BTreeSet<u64>,
    pub(super) root: Option<Box<Root>>,
    // Output.
    pub(crate) outbox: Outbox,
    pub(super) failure: Option<JobError>,
    pub(super) outcome: Option<Result<(), JobError>>,
    // Counters.
    pub(super) created: u64,
    pub(super) processed: u64,
    pub(crate) charged: Duration,
    pub(super) running: Option<(KindId, u32)>,
    pub(super) statistics: super::Statistics,
}

impl Core {
    pub(super) fn new(me: PeId, common: Common) -> Self {
        let kinds = common.kinds.len();
        Self {
            me,
            now: Time::ZERO,
            lanes: Lanes::default(),
            queues: common.kinds.iter().map(|kind| kind.new_queue()).collect(),
            ready_bytes: 0,
            waiting_bytes: 0,
            members: (0..kinds).map(|_| Vec::new()).collect(),
            free: vec![Vec::new(); kinds],
            collections: Collections::default(),
            directory: Directory::default(),
            awaiting: BTreeMap::new(),
            early: BTreeMap::new(),
            graves: Graves::default(),
            departing: BTreeMap::new(),
            arriving: BTreeSet::new(),
            debts: BTreeMap::new(),
            requests: Vec::new(),
            balancing: BTreeMap::new(),
            deferred: Vec::new(),
            system: Channels::default(),
            waits: Waits::default(),
            timers: Timers::default(),
            published: BTreeMap::new(),
            accumulators: BTreeMap::new(),
            groups: BTreeMap::new(),
            waves_pending: BTreeSet::new(),
            root: (me == PeId(0)).then(|| Box::new(Root::new(&common))),
            outbox: Outbox::default(),
            failure: None,
            outcome: None,
            created: 0,
            processed: 0,
            charged: Duration::ZERO,
            running: None,
            statistics: super::Statistics::default(),
            common,
        }
    }

    /// The PE that keeps count of collections and drives collective operations.
    pub(super) const ROOT: PeId = PeId(0);

    pub(super) fn kind(&self, kind: KindId) -> Option<Arc<dyn Kind>> {
        self.common.kinds.get(kind.index()).cloned()
    }

    #[inline]
    pub(super) fn queue<A: Actor>(&mut self, kind: KindId) -> Option<&mut TypedQueue<A>> {
        let queue: &mut dyn Any = &mut **self.queues.get_mut(kind.index())?;
        queue.downcast_mut()
    }

    pub(super) fn split_queue(&mut self, kind: KindId) -> (&mut dyn Queue, &mut Lanes) {
        (&mut *self.queues[kind.index()], &mut self.lanes)
    }

    #[inline]
    pub(super) fn member(&mut self, kind: KindId, slot: u32) -> Option<&mut Member> {
        self.members.get_mut(kind.index())?.get_mut(slot as usize)?.as_mut()
    }

    /// The member with this identity, if it lives here.
    #[inline]
    pub(super) fn resident(&self, id: ActorId) -> Option<(KindId, u32)> {
        let local = self.collections.get(id.collection)?;
        Some((local.info.kind, local.slots.get(id.key)?))
    }

    /// Enters a member into an empty slot.
    pub(super) fn seat(&mut self, kind: KindId, member: Member) -> u32 {
        let id = member.id;
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
        self.directory.forget(id);
        slot
    }

    pub(super) fn home(&self, id: ActorId) -> Option<PeId> {
        let info = &self.collections.get(id.collection)?.info;
        Some(info.home(id.key, &self.common.layout, &self.common.maps))
    }

    /// Puts a message into a mailbox.
    #[inline]
    pub(crate) fn push_ready<A: Actor>(
        &mut self,
        kind: KindId,
        slot: u32,
        priority: i32,
        message: A::Message,
    ) {
        let bytes = message_bytes::<A>(&message);
        match self.queue::<A>(kind) {
            Some(queue) => queue.push(slot, priority, message),
            None => return self.fail_type_mismatch::<A>(),
        }
        self.ready_bytes += bytes;
        self.lanes.push(kind, priority);
    }

    #[cold]
    fn fail_type_mismatch<A>(&mut self) {
        self.fail(JobError::Protocol(format!(
            "a message for a {} was addressed to a collection of another type",
            std::any::type_name::<A>()
        )));
    }

    /// Takes the number of the next message from `sender` to `to`.
    pub(super) fn take_sequence(&mut self, sender: Sender, to: ActorId) -> u64 {
        self.channels(sender).take_next(to, 0)
    }

    /// Sends a control packet, to this PE as well as to others.
    pub(super) fn post(&mut self, to: PeId, control: Control) {
        if control.is_counted() {
            self.created += 1;
        }
        self.outbox.packet(to, Packet::control(control));
    }

    /// Ends the job with an error, the first one if there are several.
    pub(crate) fn fail(&mut self, error: JobError) {
        if self.failure.is_none() {
            self.failure = Some(error.clone());
            self.post(Self::ROOT, Control::Failed { error });
        }
    }

    /// The node and site of this PE, for messages to people.
    pub(crate) fn place_name(&self) -> String {
        let layout = &self.common.layout;
        let node = layout.node_of(self.me);
        format!("{node} at site {}", layout.site_name(layout.site_of(self.me)))
    }

    pub(super) fn hold_boxed(&mut self, id: ActorId, kind: KindId, envelope: Box<dyn AnyEnvelope>) {
        let deadline = self.now + super::UNKNOWN_MEMBER_HOLD;
        self.awaiting.entry(id).or_insert_with(|| Held::new(kind, deadline)).push(envelope);
    }
}

impl Control {
    /// The collection without whose description it cannot be handled.
    pub(super) fn needs_collection(&self) -> Option<CollectionId> {
        match self {
            Self::Broadcast { collection, .. } | Self::Resume { collection, .. } => {
                Some(*collection)
            }
            Self::Multicast(multicast) => Some(multicast.collection),
            Self::Insert(insertion) => Some(insertion.id.collection),
            Self::MigrateOffer(migrant) => Some(migrant.id.collection),
            _ => None,
        }
    }

    /// Whether handling it can lead to messages, so that the job is not quiescent before.
    pub(super) fn is_counted(&self) -> bool {
        matches!(
            self,
            Self::Create { .. }
                | Self::InsertRequest { .. }
                | Self::Insert(_)
                | Self::Inserted { .. }
                | Self::Destroyed { .. }
                | Self::Buried(_)
                | Self::Multicast(_)
                | Self::BroadcastRequest { .. }
                | Self::Broadcast { .. }
                | Self::Contribution(_)
                | Self::Reply { .. }
                | Self::MigrateOffer(_)
                | Self::MigrateAccept { .. }
                | Self::MigrateRefuse { .. }
                | Self::MigrateCommit { .. }
                | Self::Measure { .. }
                | Self::Loads { .. }
                | Self::Plan { .. }
                | Self::PlanDone { .. }
                | Self::Resume { .. }
        )
    }
}

/// Members that are about to be made, and the numbers of the collective operations they begin with.
pub(crate) struct NewMembers {
    pub(super) collection: CollectionId,
    pub(super) epoch: u32,
    pub(super) reductions: u64,
    pub(super) broadcasts: u64,
    pub(super) syncs: u64,
    /// The conversations of an earlier member of the same index.
    pub(super) channels: Option<Box<Channels>>,
}

impl NewMembers {
    /// The members that a collection begins with.
    pub(super) fn first(collection: CollectionId) -> Self {
        Self { collection, epoch: 0, reductions: 0, broadcasts: 0, syncs: 0, channels: None }
    }

    pub(super) fn member(&mut self, id: ActorId) -> Member {
        let Self { epoch, reductions, broadcasts, syncs, .. } = *self;
        Member {
            id,
            epoch,
            broadcasts,
            reductions,
            syncs,
            synced: false,
            load_ns: 0,
            channels: self.channels.take(),
        }
    }
}

impl Core {
    /// Who sits in a seat.
    #[inline]
    pub(crate) fn seat_id(&self, seat: Seat) -> ActorId {
        let member =
            self.members.get(seat.kind.index()).and_then(|all| all.get(seat.slot as usize));
        member.and_then(Option::as_ref).map_or(ActorId::system(self.me), |member| member.id)
    }

    /// Charges compute time to the actor in a seat.
    pub(crate) fn charge(&mut self, seat: Seat, time: Duration) {
        self.charged += time;
        if let Some(member) = self.member(seat.kind, seat.slot) {
            member.load_ns += time.as_nanos() as u64;
        }
    }

    /// Notes what an actor asked for itself.
    pub(crate) fn request(&mut self, request: Request) {
        self.requests.push(request);
    }
}
