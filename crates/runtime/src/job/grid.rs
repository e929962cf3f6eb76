//! The interface of main: the whole grid as one computer.
//!
//! Main runs beside PE 0, on its own thread or, in virtual time, between events. It passes actions
//! to PE 0 through a [`MainPort`] and awaits promises that PE 0 resolves.

use crate::Actor;
use crate::Published;
use crate::address::collection::{Map, Placement, PlacementMap};
use crate::address::id::{CollectionId, KindId, Phase, Sender};
use crate::address::index::{ActorIndex, IndexSet, Ix1, Key, Shape};
use crate::error::{AskError, GridError};
use crate::job::promise::{Awaited, Promise, Resolve, promise};
use crate::message::codec;
use crate::message::limits::PIECE_BYTES_MAX;
use crate::message::{MainRequest, PhaseCounts, ReductionGroup};
use crate::pe::actor::options::{BroadcastOptions, SendOptions};
use crate::pe::actor::reference::{ActorRef, CollectionRef, Reply, SectionRef};
use crate::pe::actor::registry::Registry;
use crate::pe::links::{Links, Locality};
use crate::pe::{Action, Core};
use crate::reduce::{Op, Reducible, Value};
use bytes::Bytes;
use gridspan_topology::LinkChange;
use gridspan_topology::{Layout, NodeId, PeId, Time};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::any::type_name;
use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

/// Largest value that main can give to [`Grid::progress`].
const PROGRESS_BYTES_MAX: usize = 4 << 20;

/// Accepts actions for PE 0. The driver that created it runs each on that PE, in order.
pub type MainPort = Arc<dyn Fn(Action) + Send + Sync>;

/// The grid as seen by main. Operations that main awaits fail with [`GridError::Ending`] once the
/// job is ending.
///
/// ```
/// # use gridspan::{embed::Runner, prelude::*};
/// # #[derive(Serialize, Deserialize)]
/// # struct Cell(u64);
/// # impl Actor for Cell {
/// #     type Index = Ix1;
/// #     type Init = ();
/// #     type Message = u64;
/// #     fn create((): (), _cx: &mut Context<Self>) -> Self { Cell(0) }
/// #     fn handle(&mut self, number: u64, cx: &mut Context<Self>) {
/// #         self.0 += number;
/// #         cx.contribute(Sum, self.0, To::main());
/// #     }
/// # }
/// # let job = Job::new("cells").actor::<Cell>().main(async |grid: Grid| {
/// let pes = grid.layout().pe_count();
/// let cells = grid.create::<Cell>(Ix1::range(4 * pes), |_| ()).await?;
/// cells.broadcast(1);
/// grid.quiescence().await?; // no message is left anywhere
/// println!("{pes} PEs took {}", grid.now().await?);
/// # Ok(())
/// # });
/// # Runner::on_threads(2).run(job).unwrap();
/// ```
#[derive(Clone)]
pub struct Grid {
    shared: Arc<Shared>,
}

struct Shared {
    port: MainPort,
    layout: Arc<Layout>,
    registry: Registry,
    maps: Vec<PlacementMap>,
    awaited: Arc<Awaited>,
    /// Number of phases so far.
    phases: AtomicU32,
    /// Number of tasks of streams whose outputs main has not taken.
    streamed: AtomicU64,
}

/// Whether a group has a member per PE or per node.
///
/// ```
/// use gridspan::Per;
/// # use gridspan::{embed::Runner, prelude::*};
/// # #[derive(Serialize, Deserialize)]
/// # struct Cell(u64);
/// # impl Actor for Cell {
/// #     type Index = Ix1;
/// #     type Init = ();
/// #     type Message = u64;
/// #     fn create((): (), _cx: &mut Context<Self>) -> Self { Cell(0) }
/// #     fn handle(&mut self, number: u64, cx: &mut Context<Self>) {
/// #         self.0 += number;
/// #         cx.contribute(Sum, self.0, To::main());
/// #     }
/// # }
/// # let job = Job::new("cells").actor::<Cell>().main(async |grid: Grid| {
///
/// let cells = grid.create_group::<Cell>(Per::Pe, |_pe: Ix1| ()).await?;
/// cells.broadcast(1);
/// assert_eq!(cells.reduction::<u32>(Sum).await?, grid.layout().pe_count());
/// # Ok(())
/// # });
/// # Runner::on_threads(2).run(job).unwrap();
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Per {
    /// One member on every PE; its index is the PE's number.
    Pe,
    /// One member on the first PE of every node; its index is the node's number.
    Node,
}

impl Grid {
    /// Creates the grid of a job with these types and placement maps.
    pub(crate) fn new(
        port: MainPort,
        layout: Arc<Layout>,
        registry: Registry,
        maps: Vec<PlacementMap>,
        awaited: Arc<Awaited>,
        phases: u32,
    ) -> Self {
        let (phases, streamed) = (AtomicU32::new(phases), AtomicU64::new(0));
        let shared = Shared { port, layout, registry, maps, awaited, phases, streamed };
        Self { shared: Arc::new(shared) }
    }

    /// The number of tasks of streams whose outputs main has not taken.
    pub(crate) fn streamed(&self) -> &AtomicU64 {
        &self.shared.streamed
    }

    fn promise<T>(&self) -> (Resolve<T>, Promise<T>) {
        promise(&self.shared.awaited)
    }

    fn run(&self, action: impl FnOnce(&mut Core) + Send + 'static) {
        (self.shared.port)(Box::new(move |core: &mut Core| core.act_for_main(Box::new(action))));
    }

    async fn ask_coordinator<T: DeserializeOwned + Send + 'static>(
        &self,
        request: MainRequest,
    ) -> Result<T, GridError> {
        let (resolve, answer) = self.promise();
        self.run(move |core| {
            core.ask_coordinator(request, move |_, found| resolve.with(Ok(found)))
        });
        wait(answer).await
    }

    /// Returns the sites, nodes and PEs of the job.
    pub fn layout(&self) -> &Layout {
        &self.shared.layout
    }

    fn kind<A: Actor>(&self) -> Result<KindId, GridError> {
        self.shared
            .registry
            .find::<A>()
            .ok_or(GridError::NotRegistered(type_name::<A>().to_owned()))
    }

    /// Creates a collection with one member for each index, built from `init(index)`, and placed in
    /// blocks. Members exist when the future resolves. Fails if the job does not have the actor
    /// type, or two members have one index.
    pub async fn create<A: Actor>(
        &self,
        indices: impl IndexSet<Index = A::Index>,
        init: impl FnMut(A::Index) -> A::Init,
    ) -> Result<Collection<A>, GridError> {
        self.create_placed(Placement::Block, indices, init).await
    }

    /// Creates a collection whose members are initially placed by `placement`. Fails as
    /// [`create`](Self::create) does, and if the job has no such placement map.
    pub async fn create_placed<A: Actor>(
        &self,
        placement: Placement,
        indices: impl IndexSet<Index = A::Index>,
        mut init: impl FnMut(A::Index) -> A::Init,
    ) -> Result<Collection<A>, GridError> {
        let map = match placement {
            Placement::Block => Map::Block,
            Placement::RoundRobin => Map::RoundRobin,
            Placement::BySite => Map::BySite,
            Placement::Scatter => Map::Scatter,
            Placement::Custom(map) => match self.shared.maps.iter().position(|own| *own == map) {
                Some(position) => Map::Custom(position as u16),
                None => return Err(GridError::UnknownPlacement(map.name().to_owned())),
            },
        };
        let shape = indices.shape();
        let inits = indices.into_indices().map(|index| (index.key(), init(index))).collect();
        self.create_mapped(map, shape, inits).await
    }

    /// Creates a collection that is bound to `base`: each member lives on the PE where the member
    /// of `base` with its index lives. Members with the same index are *partners*.
    ///
    /// ```
    /// # use gridspan_runtime::{Actor, Collection, Context, Grid, GridError, Ix1};
    /// # #[derive(serde::Serialize, serde::Deserialize)]
    /// # struct Cell;
    /// # #[derive(serde::Serialize, serde::Deserialize)]
    /// # struct Particles;
    /// # macro_rules! actor { ($name:ident) => {
    /// # impl Actor for $name {
    /// #     type Index = Ix1;
    /// #     type Init = ();
    /// #     type Message = ();
    /// #     fn create((): (), _cx: &mut Context<Self>) -> Self { $name }
    /// #     fn handle(&mut self, (): (), _cx: &mut Context<Self>) {}
    /// # } } }
    /// # actor!(Cell);
    /// # actor!(Particles);
    /// async fn make(grid: &Grid) -> Result<(), GridError> {
    ///     let cells = grid.create::<Cell>(Ix1::range(100), |_| ()).await?;
    ///     let particles = grid.create_bound::<Particles>(&cells, Ix1::range(100), |_| ()).await?;
    ///     Ok(())
    /// }
    /// ```
    ///
    /// - Several collections can be bound to one. A collection that is bound to a bound collection
    ///   has the base of that collection.
    /// - Partners move together, in one step, whether by balancing or by
    ///   [`migrate_to`](crate::Context::migrate_to) of any of them. Every handler runs on the PE of
    ///   all partners, so messages between them never leave the PE.
    /// - The balancer treats partners as one actor of the base collection, with the sum of their
    ///   loads and sizes, and their messages to others.
    /// - Partners need not be at a sync point to move, and each collection counts its own sync
    ///   points.
    /// - `indices` may be some of those of `base`. A member inserted into `base` later has no
    ///   partner until one is inserted too. A member inserted into a bound collection lives with
    ///   its partner, whatever PE is named. It waits for the insertion of the partner; after a
    ///   minute, the job ends with an error.
    /// - When a member of `base` is destroyed, its partners end with it, without a call, and the
    ///   messages in their mailboxes are dropped. The destruction of a bound member affects no
    ///   partner.
    ///
    /// Unordered broadcasts to a bound collection before the future resolves may miss some of its
    /// members.
    ///
    /// # Errors
    ///
    /// The errors of [`create`](Self::create). [`GridError::NoPartner`] if `base` has no member of
    /// an index; members of other indices may exist by then, and remain.
    /// [`GridError::BoundToGroup`] if `base` is a group, and [`GridError::BoundReplicas`] if actors
    /// of one of the two types may have replicas. [`GridError::BoundOnDemand`] if messages
    /// [create](crate::Job::on_demand) members of `B`.
    pub async fn create_bound<B: Actor>(
        &self,
        base: &Collection<impl Actor<Index = B::Index>>,
        indices: impl IndexSet<Index = B::Index>,
        mut init: impl FnMut(B::Index) -> B::Init,
    ) -> Result<Collection<B>, GridError> {
        let kind = self.kind::<B>()?;
        for (kind, name) in [(kind, type_name::<B>()), base.kind()?] {
            if self.shared.registry.deterministic().contains(&kind) {
                return Err(GridError::BoundReplicas(name.to_owned()));
            }
        }
        if self.shared.registry.on_demand().contains_key(&kind) {
            return Err(GridError::BoundOnDemand(type_name::<B>().to_owned()));
        }
        let is_box = indices.shape().is_some();
        let inits: Vec<_> =
            indices.into_indices().map(|index| (index.key(), init(index))).collect();
        if !is_box {
            check_indices::<B>(&inits)?;
        }
        let (resolve, created) = self.promise();
        let base = base.id;
        self.run(move |core| {
            let done = move |made| resolve.with(made);
            core.create_bound_collection::<B>(kind, base, inits, done);
        });
        let id: CollectionId = wait(created).await?;
        Ok(Collection { grid: self.clone(), reference: CollectionRef::new(id) })
    }

    /// Creates a group: one member per PE or node, which never moves. Fails if the job does not
    /// have the actor type.
    pub async fn create_group<A: Actor<Index = Ix1>>(
        &self,
        per: Per,
        mut init: impl FnMut(Ix1) -> A::Init,
    ) -> Result<Collection<A>, GridError> {
        let (map, members) = match per {
            Per::Pe => (Map::PerPe, self.layout().pe_count()),
            Per::Node => (Map::PerNode, self.layout().node_count()),
        };
        let indices = (0..members).map(|i| Ix1(i as i32));
        let inits = indices.map(|index| (index.key(), init(index))).collect();
        self.create_mapped(map, None, inits).await
    }

    async fn create_mapped<A: Actor>(
        &self,
        map: Map,
        shape: Option<Shape>,
        inits: Vec<(Key, A::Init)>,
    ) -> Result<Collection<A>, GridError> {
        let kind = self.kind::<A>()?;
        // The indices of a box are different by construction.
        if shape.is_none() {
            check_indices::<A>(&inits)?;
        }
        let (resolve, created) = self.promise();
        self.run(move |core| {
            let done = move |id| resolve.with(Ok(id));
            core.create_collection::<A>(kind, (map, shape), inits, done);
        });
        let id: CollectionId = wait(created).await?;
        Ok(Collection { grid: self.clone(), reference: CollectionRef::new(id) })
    }

    /// Distributes read-only data to every node, along the trees of a broadcast plan. Fails for a
    /// value of more than 60 MiB.
    pub async fn publish<T: Serialize>(&self, value: &T) -> Result<Published<T>, GridError> {
        let bytes: Bytes = codec::encode(value).into();
        if bytes.len() > PIECE_BYTES_MAX {
            return Err(GridError::TooLarge { bytes: bytes.len(), limit: PIECE_BYTES_MAX });
        }
        Ok(Published::new(self.ask_coordinator(MainRequest::Publish { value: bytes }).await?))
    }

    /// Runs the job's strategy, which may move actors, while all PEs continue. Resolves to the
    /// number of actors that have moved, once they have. Fails only if the job is ending.
    pub async fn rebalance(&self) -> Result<usize, GridError> {
        self.ask_coordinator(MainRequest::Rebalance).await
    }

    /// Resolves once no message was in transit, queued, or being handled anywhere, at one moment
    /// since the call. If the job balances by itself, a rebalance may begin before main continues,
    /// and members that it moves may send messages in [`Actor::arrived`](crate::Actor::arrived).
    /// Fails only if the job is ending.
    pub async fn quiescence(&self) -> Result<(), GridError> {
        self.ask_coordinator(MainRequest::Quiescence).await
    }

    /// Begins a phase with `producers` producers. Its [completion](Self::completion) can be awaited
    /// while the rest of the job continues. Send the phase to the actors that take part.
    ///
    /// ```
    /// use gridspan_runtime::{Actor, Collection, CollectionRef, Context, Ix1, Phase};
    /// # use gridspan_runtime::{Grid, GridError};
    ///
    /// #[derive(serde::Serialize, serde::Deserialize)]
    /// struct Walker;
    ///
    /// #[derive(Clone, serde::Serialize, serde::Deserialize)]
    /// enum Message { Start(Phase), Visit(Phase) }
    ///
    /// impl Actor for Walker {
    ///     type Index = Ix1;
    ///     type Init = ();
    ///     type Message = Message;
    ///
    ///     fn create((): (), _cx: &mut Context<Self>) -> Self { Walker }
    ///
    ///     fn handle(&mut self, message: Message, cx: &mut Context<Self>) {
    ///         match message {
    ///             Message::Start(phase) => {
    ///                 let next = cx.collection().at(Ix1((cx.index().0 + 1) % 10));
    ///                 cx.send(&next, Message::Visit(phase));
    ///                 cx.produce(phase, 1);
    ///                 cx.producer_done(phase);
    ///             }
    ///             Message::Visit(phase) => cx.consume(phase, 1),
    ///         }
    ///     }
    /// }
    ///
    /// async fn visit(grid: &Grid, walkers: &Collection<Walker>) -> Result<(), GridError> {
    ///     let phase = grid.phase(10);
    ///     walkers.broadcast(Message::Start(phase));
    ///     grid.completion(phase).await // all ten walkers were visited
    /// }
    /// ```
    pub fn phase(&self, producers: u64) -> Phase {
        Phase { number: self.shared.phases.fetch_add(1, Ordering::Relaxed), producers }
    }

    /// Resolves once all producers of a phase are done and all its items are consumed.
    ///
    /// # Errors
    ///
    /// [`GridError::Phase`] if more items were consumed than produced, or more producers were done
    /// than the phase has. If fewer items are consumed, or fewer producers are done, the job
    /// stalls, and its error states that. The counts of a phase stay on the PEs until its
    /// completion is awaited.
    pub async fn completion(&self, phase: Phase) -> Result<(), GridError> {
        let counts: PhaseCounts = self.ask_coordinator(MainRequest::Completion { phase }).await?;
        let PhaseCounts { produced, consumed, done } = counts;
        let producers = phase.producers;
        match (produced, done) == (consumed, producers) {
            true => Ok(()),
            false => Err(GridError::Phase { producers, done, produced, consumed }),
        }
    }

    /// Resolves after `duration`, in the time of the driver, which is virtual in the simulator.
    /// Fails only if the job is ending.
    pub async fn sleep(&self, duration: Duration) -> Result<(), GridError> {
        let (resolve, over) = self.promise();
        self.run(move |core| core.sleep(duration, move || resolve.with(Ok(()))));
        wait(over).await
    }

    /// Tells the [listeners](crate::Job::on_progress) of the job that `done` parts of `total` are
    /// done, in units of the program's choice.
    ///
    /// ```
    /// use gridspan::embed::{Event, Runner};
    /// use gridspan::prelude::*;
    ///
    /// let running = Runner::on_threads(2).start(Job::new("steps"), async |grid: Grid| {
    ///     for step in 1..=3 {
    ///         grid.report_progress(step, 3);
    ///     }
    ///     Ok(())
    /// });
    /// let done = running.events().filter_map(|event| match event {
    ///     Event::Progress { done, .. } => Some(done),
    ///     _ => None,
    /// });
    /// assert_eq!(done.collect::<Vec<u64>>(), [1, 2, 3]);
    /// ```
    pub fn report_progress(&self, done: u64, total: u64) {
        self.run(move |core| {
            core.common.watch.on_progress.iter().for_each(|tell| tell(done, total));
        });
    }

    /// Returns which nodes are near each other. Drivers with a network measure this when the job
    /// begins; the simulator measures it at the first request. Fails only if the job is ending.
    pub async fn places(&self) -> Result<Arc<Locality>, GridError> {
        self.ask_coordinator(MainRequest::Places).await
    }

    /// Returns the estimates of the links between groups of nodes. The first call also makes nodes
    /// send trains of packets to detect which nodes share a link out of their group; later calls
    /// reuse the result. Fails only if the job is ending.
    pub async fn links(&self) -> Result<Links, GridError> {
        self.ask_coordinator(MainRequest::Links).await
    }

    /// Returns the estimates of the links as they are known now, or `None` if the places are not
    /// known yet. Unlike [`links`](Self::links), it waits for no measurement, and nodes send no
    /// trains of packets for it. Fails only if the job is ending.
    pub async fn known_links(&self) -> Result<Option<Links>, GridError> {
        self.ask_coordinator(MainRequest::KnownLinks).await
    }

    /// Resolves to the next link whose latency or bandwidth has changed by more than a fifth, or
    /// whose losses have changed. Groups are numbered as in the hierarchy of
    /// [`places`](Self::places). Fails with [`GridError::NoLinks`] if the job has one node only.
    pub async fn link_change(&self) -> Result<LinkChange, GridError> {
        let change: Option<LinkChange> = self.ask_coordinator(MainRequest::LinkChange).await?;
        change.ok_or(GridError::NoLinks)
    }

    /// Moves the coordinator to another node. Resolves once it runs there; the job continues
    /// meanwhile. A rebalance or a measurement that is under way completes first. From then on,
    /// listeners such as [`Job::on_links`](crate::Job::on_links) are called on that node, and
    /// balancing and broadcasts begin to learn again. The note on insertions at
    /// [`Job::coordinator_on`](crate::Job::coordinator_on) applies to any node other than main's,
    /// also to insertions that main has requested before the move. Fails for a node that is not a
    /// founder of the job.
    pub async fn move_coordinator(&self, to: NodeId) -> Result<(), GridError> {
        let nodes = self.layout().node_count();
        if to.0 >= nodes {
            return Err(GridError::NoSuchNode { node: to, nodes });
        }
        self.ask_coordinator(MainRequest::MoveCoordinator { to }).await
    }

    /// Marks a point at which the job can continue later from a checkpoint, if main gets back
    /// `progress`. Makes a checkpoint if one is [due](crate::Job::checkpoints): a consistent image
    /// of all actors with the messages in their mailboxes, delayed messages, questions
    /// [with a tag](crate::Context::ask_tagged), published data, incomplete reductions and phases.
    /// Resolves once the image is taken; it is stored meanwhile.
    /// No PE handles messages while it is taken, which takes six crossings of the widest link,
    /// more if messages are in flight, and the encoding of the largest PE.
    ///
    /// A job that continues from a checkpoint runs main from its beginning; main finds `progress`
    /// in [`restored`](Self::restored). Put into it what main needs: counters, and the
    /// [references](Collection::reference) of collections, which [`collection`](Self::collection)
    /// turns into collections again. What main has printed or sent since the checkpoint happens
    /// again. Pools of tasks are left out: main opens them again. While tasks are not done, main has
    /// not taken the outputs of a stream, or another question has no answer, the checkpoint is
    /// postponed.
    ///
    /// ```
    /// # use gridspan::{embed::Runner, prelude::*, CheckpointEvery, Checkpoints, CollectionRef};
    /// # #[derive(Serialize, Deserialize)]
    /// # struct Cell(u64);
    /// # impl Actor for Cell {
    /// #     type Index = Ix1;
    /// #     type Init = ();
    /// #     type Message = ();
    /// #     fn create((): (), _cx: &mut Context<Self>) -> Self { Cell(0) }
    /// #     fn handle(&mut self, (): (), cx: &mut Context<Self>) {
    /// #         self.0 += 1;
    /// #         cx.contribute(Sum, self.0, To::main());
    /// #     }
    /// # }
    /// #[derive(Serialize, Deserialize)]
    /// struct AtStep {
    ///     step: u32,
    ///     cells: CollectionRef<Cell>,
    /// }
    ///
    /// let job = Job::new("cells").actor::<Cell>().main(async |grid: Grid| {
    ///     let (first, cells) = match grid.restored::<AtStep>().await? {
    ///         Some(AtStep { step, cells }) => (step, grid.collection(cells)),
    ///         None => (0, grid.create::<Cell>(Ix1::range(8), |_| ()).await?),
    ///     };
    ///     for step in first..10 {
    ///         grid.progress(&AtStep { step, cells: cells.reference() }).await?;
    ///         cells.broadcast(());
    ///         let sum: u64 = cells.reduction(Sum).await?;
    ///         assert_eq!(sum, 8 * (u64::from(step) + 1));
    ///     }
    ///     Ok(())
    /// });
    /// let job = job.checkpoints(Checkpoints::every(CheckpointEvery::Points(4)));
    /// # Runner::on_threads(2).run(job).unwrap();
    /// ```
    ///
    /// # Errors
    ///
    /// [`GridError::ProgressWhileWaiting`] if main waits for something else at the same time, which
    /// a later main could not receive. [`GridError::TooLarge`] for more than 4 MiB; put such data
    /// into actors.
    pub async fn progress<P: Serialize>(&self, progress: &P) -> Result<Progress, GridError> {
        let progress: Bytes = codec::encode(progress).into();
        if progress.len() > PROGRESS_BYTES_MAX {
            let (bytes, limit) = (progress.len(), PROGRESS_BYTES_MAX);
            return Err(GridError::TooLarge { bytes, limit });
        }
        let phases = self.shared.phases.load(Ordering::Relaxed);
        let streamed = self.shared.streamed.load(Ordering::Relaxed);
        let (resolve, done) = self.promise();
        self.run(move |core| match core.main_waits() {
            true => resolve.with(Err(GridError::ProgressWhileWaiting)),
            false => core.progress(progress, phases, streamed, |made| resolve.with(Ok(made))),
        });
        Ok(match wait(done).await? {
            Ok(None) => Progress::NotDue,
            Ok(Some(number)) => Progress::Taken { number },
            Err(reason) => Progress::Postponed { reason },
        })
    }

    /// Returns what main gave to [`progress`](Self::progress) at the checkpoint from which the job
    /// continues. `None` if the job begins, and at later calls.
    ///
    /// # Errors
    ///
    /// [`GridError::Restored`] if the value has another structure.
    pub async fn restored<P: DeserializeOwned>(&self) -> Result<Option<P>, GridError> {
        let (resolve, found) = self.promise();
        self.run(move |core| resolve.with(Ok(core.take_progress())));
        let bytes: Option<Bytes> = wait(found).await?;
        let decode = |bytes: Bytes| codec::decode(type_name::<P>(), &bytes);
        bytes
            .map(decode)
            .transpose()
            .map_err(|error| GridError::Restored { reason: error.to_string() })
    }

    /// Returns the collection of a reference, such as one that main has got back from a checkpoint.
    pub fn collection<A: Actor>(&self, reference: CollectionRef<A>) -> Collection<A> {
        Collection { grid: self.clone(), reference }
    }

    /// Returns the time since the job began, in the time of the driver. Fails only if the job is
    /// ending.
    pub async fn now(&self) -> Result<Time, GridError> {
        let (resolve, now) = self.promise();
        self.run(move |core| resolve.with(Ok(core.now)));
        wait(now).await
    }
}

/// The result of a [progress point](Grid::progress).
///
/// ```
/// # use gridspan::{embed::Runner, prelude::*};
/// use gridspan::{CheckpointEvery, Checkpoints, Progress};
///
/// let job = Job::new("nothing").main(async |grid: Grid| {
///     for step in 1..=4_u64 {
///         match grid.progress(&step).await? {
///             Progress::Taken { number } => assert_eq!(2 * number, step),
///             Progress::Postponed { reason } => println!("step {step}: {reason}"),
///             _ => {}
///         }
///     }
///     Ok(())
/// });
/// let job = job.checkpoints(Checkpoints::every(CheckpointEvery::Points(2)));
/// # Runner::on_threads(2).run(job).unwrap();
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Progress {
    /// No checkpoint was due.
    NotDue,
    /// A checkpoint was taken, and is being stored.
    Taken {
        /// Its number, counted over all runs of the job.
        number: u64,
    },
    /// A checkpoint was due and could not be taken; the next progress point tries again.
    Postponed {
        /// The reason.
        reason: String,
    },
}

/// Fails if two members have the same index.
fn check_indices<A: Actor>(inits: &[(Key, A::Init)]) -> Result<(), GridError> {
    let mut keys: Vec<Key> = inits.iter().map(|(key, _)| *key).collect();
    keys.sort_unstable();
    match keys.windows(2).find(|pair| pair[0] == pair[1]) {
        Some(pair) => Err(GridError::DuplicateIndex(format!("{:?}", A::Index::from_key(pair[0])))),
        None => Ok(()),
    }
}

/// Awaits a promise, which a driver that has ended has dropped.
async fn wait<T>(promised: Promise<Result<T, GridError>>) -> Result<T, GridError> {
    promised.await.unwrap_or(Err(GridError::Ending))
}

/// A collection as seen by main.
///
/// ```
/// use gridspan::Collection;
/// # use gridspan::{embed::Runner, prelude::*};
/// # #[derive(Serialize, Deserialize)]
/// # struct Cell(u64);
/// # impl Actor for Cell {
/// #     type Index = Ix1;
/// #     type Init = ();
/// #     type Message = u64;
/// #     fn create((): (), _cx: &mut Context<Self>) -> Self { Cell(0) }
/// #     fn handle(&mut self, number: u64, cx: &mut Context<Self>) {
/// #         self.0 += number;
/// #         cx.contribute(Sum, self.0, To::main());
/// #     }
/// # }
/// # let job = Job::new("cells").actor::<Cell>().main(async |grid: Grid| {
///
/// let cells: Collection<Cell> = grid.create(Ix1::range(4), |_| ()).await?;
/// cells.broadcast(5);
/// let total: u64 = cells.reduction(Sum).await?;
/// assert_eq!(total, 20);
/// # Ok(())
/// # });
/// # Runner::on_threads(2).run(job).unwrap();
/// ```
pub struct Collection<A> {
    grid: Grid,
    reference: CollectionRef<A>,
}

impl<A> Clone for Collection<A> {
    fn clone(&self) -> Self {
        Self { grid: self.grid.clone(), reference: self.reference }
    }
}

impl<A> Deref for Collection<A> {
    type Target = CollectionRef<A>;

    fn deref(&self) -> &CollectionRef<A> {
        &self.reference
    }
}

impl<A: Actor> Collection<A> {
    /// Returns the reference to put into messages.
    pub fn reference(&self) -> CollectionRef<A> {
        self.reference
    }

    fn kind(&self) -> Result<(KindId, &'static str), GridError> {
        Ok((self.grid.kind::<A>()?, type_name::<A>()))
    }

    /// Returns the member at `index`.
    pub fn member(&self, index: A::Index) -> Member<A> {
        Member { grid: self.grid.clone(), reference: self.reference.at(index) }
    }

    /// Sends a message to all members. All members handle the broadcasts of a collection in the
    /// same order, and in order with other messages from main to the same member.
    pub fn broadcast(&self, message: A::Message) {
        self.broadcast_with(BroadcastOptions::default(), message);
    }

    /// Sends a message to all members, with a [`Priority`](crate::Priority),
    /// [`Unordered`](crate::Unordered), or both.
    pub fn broadcast_with(&self, options: impl Into<BroadcastOptions>, message: A::Message) {
        let (collection, options) = (self.reference.id, options.into());
        self.grid.run(move |core| {
            core.broadcast_with::<A>(Sender::Pe, collection, options, message);
        });
    }

    /// Sends a message to all members of a section, also to those of other collections.
    pub fn multicast(&self, section: &SectionRef<A>, message: A::Message) {
        self.multicast_with(SendOptions::default(), section, message);
    }

    /// Sends a message to all members of a section, with a [`Priority`](crate::Priority) or for a
    /// [step](crate::InStep).
    pub fn multicast_with(
        &self,
        options: impl Into<SendOptions>,
        section: &SectionRef<A>,
        message: A::Message,
    ) {
        let (section, options) = (section.clone(), options.into());
        self.grid.run(move |core| {
            core.multicast::<A>(Sender::Pe, &section, options.priority, message);
        });
    }

    /// Resolves to the result of the next reduction whose members contribute with `op` to
    /// [`To::main`](crate::To::main). Successive calls resolve to the results of successive
    /// reductions. Fails with [`GridError::Reduction`] if the members have contributed another
    /// type, or with another operation.
    pub async fn reduction<T: Reducible>(&self, op: impl Into<Op>) -> Result<T, GridError> {
        self.reduced(ReductionGroup::Collection(self.reference.id), op.into()).await
    }

    /// Resolves to the result of the next reduction over a section of this collection, or of this
    /// and [others](SectionRef::across), to which its members contribute
    /// with [`Context::contribute_to_section`](crate::Context::contribute_to_section).
    /// Fails as [`reduction`](Self::reduction) does.
    pub async fn section_reduction<T: Reducible>(
        &self,
        section: &SectionRef<A>,
        op: impl Into<Op>,
    ) -> Result<T, GridError> {
        self.reduced(ReductionGroup::Section(section.id), op.into()).await
    }

    async fn reduced<T: Reducible>(&self, group: ReductionGroup, op: Op) -> Result<T, GridError> {
        let collection = self.reference.id;
        let reduced: Option<(Op, Value)> =
            self.grid.ask_coordinator(MainRequest::Reduction { group }).await?;
        let (found_op, value) = reduced.ok_or(GridError::Ending)?;
        let found = format!("{found_op:?} of {value}");
        if found_op == op
            && let Some(value) = T::from_value(value)
        {
            return Ok(value);
        }
        let wanted = format!("{op:?} of {}", type_name::<T>());
        Err(GridError::Reduction { collection: collection.0, found, wanted })
    }

    /// Adds a member on a PE of choice or, in a [bound](Grid::create_bound) collection, on the PE
    /// of its partner. The member takes part in reductions and broadcasts that begin later.
    ///
    /// The job ends with an error if there is no such PE, if the collection has a member of this
    /// index, or if messages [create](crate::Job::on_demand) its members.
    pub fn insert_on(&self, index: A::Index, init: A::Init, pe: PeId) {
        let id = self.reference.at(index).id;
        self.grid.run(move |core| core.insert::<A>(id, init, pe));
    }
}

/// A member of a collection as seen by main.
///
/// ```
/// use gridspan::Member;
/// # use gridspan::{embed::Runner, prelude::*};
/// # #[derive(Serialize, Deserialize)]
/// # struct Cell(u64);
/// # impl Actor for Cell {
/// #     type Index = Ix1;
/// #     type Init = ();
/// #     type Message = u64;
/// #     fn create((): (), _cx: &mut Context<Self>) -> Self { Cell(0) }
/// #     fn handle(&mut self, number: u64, cx: &mut Context<Self>) {
/// #         self.0 += number;
/// #         cx.contribute(Sum, self.0, To::main());
/// #     }
/// # }
/// # let job = Job::new("cells").actor::<Cell>().main(async |grid: Grid| {
///
/// let cells = grid.create::<Cell>(Ix1::range(1), |_| ()).await?;
/// let first: Member<Cell> = cells.member(Ix1(0));
/// first.send(7);
/// # assert_eq!(cells.reduction::<u64>(Sum).await?, 7);
/// # Ok(())
/// # });
/// # Runner::on_threads(2).run(job).unwrap();
/// ```
#[derive(Clone)]
pub struct Member<A> {
    grid: Grid,
    reference: ActorRef<A>,
}

impl<A: Actor> Member<A> {
    /// Returns the reference to put into messages.
    pub fn reference(&self) -> ActorRef<A> {
        self.reference
    }

    /// Sends a message.
    pub fn send(&self, message: A::Message) {
        self.send_with(SendOptions::default(), message);
    }

    /// Sends a message with a [`Priority`](crate::Priority), or one that belongs to a
    /// [step](crate::InStep) of the job.
    pub fn send_with(&self, options: impl Into<SendOptions>, message: A::Message) {
        let (to, options) = (self.reference.id, options.into());
        self.grid.run(move |core| core.send::<A>(Sender::Pe, to, options.priority, message));
    }

    /// Asks a question and awaits the answer for at most `timeout`. Fails with [`GridError::Ask`]
    /// if no answer comes in this time, or one of another type.
    pub async fn ask<T: DeserializeOwned + Send + 'static>(
        &self,
        timeout: Duration,
        question: impl FnOnce(Reply<T>) -> A::Message + Send + 'static,
    ) -> Result<T, GridError> {
        let (resolve, answer) = self.grid.promise();
        let to = self.reference.id;
        self.grid.run(move |core| {
            let answered = move |_: &mut Core, answer: Result<T, AskError>| {
                resolve.with(answer.map_err(GridError::from));
            };
            let reply = core.expect_reply_for_main(to, timeout, answered);
            core.send::<A>(Sender::Pe, to, 0, question(reply));
        });
        wait(answer).await
    }
}
