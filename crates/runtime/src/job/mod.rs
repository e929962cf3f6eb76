//! A job's definition: its actor types, its maps and operations, and its main function.

pub(crate) mod grid;
pub(crate) mod program;
pub(crate) mod promise;
pub(crate) mod restoring;

use crate::address::collection::{CreateAt, PlacementMap};
use crate::address::index::Ix1;
use crate::error::{JobError, StartError};
use crate::job::grid::Grid;
use crate::message::Diagnosis;
use crate::message::limits::Limits;
use crate::pe::actor::registry::Registry;
use crate::pe::actor::resources::Resources;
use crate::pe::links::{Links, OnFailure, OnLinks};
use crate::pe::watch::Watch;
use crate::pe::{
    Balancing, CheckpointEvery, Checkpoints, Common, GuestEvent, OnGuests, PlantedFault, Records,
};
use crate::pe::{CheckpointReport, RunOfJob};
use crate::reduce::{Custom, CustomOp, Op};
use crate::schema::definition::{Definition, Origin};
use crate::{Actor, Context};
use gridspan_balance::stealing::{Directory, MakeStealingPolicy};
use gridspan_balance::{BalanceReport, MakeStrategy, Plan, Snapshot};
use gridspan_bcast::Mode;
use gridspan_topology::{Layout, LinkChange, NodeId, PeId};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

/// The future of a main function.
pub type MainFuture = Pin<Box<dyn Future<Output = Result<(), JobError>>>>;

enum Main {
    Once(Box<dyn FnOnce(Grid) -> MainFuture + Send>),
    Again(Arc<dyn Fn(Grid) -> MainFuture + Send + Sync>),
}

/// One program, defined identically on all nodes, which compare their definitions before they
/// start.
///
/// ```
/// # use gridspan_runtime::Job;
/// let job = Job::new("nothing").main(async |_grid| Ok(()));
/// assert_eq!(job.name(), "nothing");
/// ```
pub struct Job {
    name: String,
    registry: Registry,
    maps: Vec<PlacementMap>,
    reducers: Vec<(String, CustomOp)>,
    main: Option<Main>,
    limits: Limits,
    balancing: Balancing,
    stealing: Arc<dyn MakeStealingPolicy>,
    broadcasts: Mode,
    /// The node on which the coordinator runs.
    coordinator: NodeId,
    seed: u64,
    fault: PlantedFault,
    on_links: Vec<OnLinks>,
    tolerates_lost_guests: bool,
    on_guests: Vec<OnGuests>,
    on_failure: Vec<OnFailure>,
    watch: Watch,
    checkpoints: Checkpoints,
    checkpoint_folder: Option<PathBuf>,
    restart: Option<PathBuf>,
    origin: Origin,
    resources: Resources,
    /// The processors of PEs that are bound.
    bound: BTreeMap<PeId, Vec<u32>>,
    records: Option<Records>,
}

impl Job {
    /// Creates a job without actors, whose main function does nothing.
    pub fn new(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            registry: Registry::default(),
            maps: Vec::new(),
            reducers: Vec::new(),
            main: None,
            limits: Limits::default(),
            balancing: Balancing::default(),
            stealing: Arc::new(Directory::default()),
            broadcasts: Mode::Planned,
            coordinator: NodeId(0),
            seed: 0,
            fault: PlantedFault::None,
            on_links: vec![],
            tolerates_lost_guests: false,
            on_guests: vec![],
            on_failure: Vec::new(),
            watch: Watch::default(),
            checkpoints: Checkpoints::default(),
            checkpoint_folder: None,
            restart: None,
            origin: Origin::default(),
            resources: Resources::default(),
            bound: BTreeMap::new(),
            records: None,
        }
    }

    /// Adds an actor type. The order of types is part of the definition.
    pub fn actor<A: Actor>(mut self) -> Self {
        self.registry.add::<A>();
        self
    }

    /// Adds an actor type whose actors may be replicated at two sites, so that actors at both sites
    /// that exchange messages with such an actor wait for one crossing of the wide area in a step
    /// instead of two. A strategy decides whether that is worth the work, which both replicas do:
    /// `auto`, or `replicate`, which always replicates at the borders of sites.
    ///
    /// The caller promises that actors of this type are determinate (G. Kahn, "The semantics of a
    /// simple language for parallel programming", 1974): the messages that an actor sends to
    /// another, and their order, follow from its initial state and from the messages it received,
    /// where each sender's messages of one priority or step are in order. A broadcast counts as a
    /// message to each member, and all broadcasts of an actor to one collection are in one order,
    /// whatever their priorities. The messages must not depend on how those of different senders,
    /// priorities or steps interleave, even in ways that cannot occur while the actor is in one
    /// place, nor on time, place, or [`Actor::arrived`]. Handlers may send, multicast, broadcast,
    /// contribute, count items of phases, answer, and request a migration; other effects of
    /// handlers outside the actor happen twice. An actor that asks, sets timers, waits for
    /// quiescence or at a sync point, inserts members, or destroys itself ends the job with an
    /// error, and so does a replica that at its end has not sent as much as the first.
    pub fn deterministic<A: Actor>(mut self) -> Self {
        self.registry.add_deterministic::<A>();
        self
    }

    /// Adds an actor type whose members are created by the first message to them. `init` makes the
    /// initial value of a member from its index. It is part of the job's definition, so it gives
    /// the same on every node; call this once for a type.
    ///
    /// [`Grid::create`](crate::Grid::create) creates the first members of a collection as usual,
    /// from any values. From then on a message to a member that does not exist creates it, once:
    /// all messages to it are handled once, and in order from each sender, whether they are sent
    /// before or after its creation. They count in the memory budget while they wait. Messages are
    /// those of `send`, `ask` and timers, results of reductions that are sent to the member, and
    /// multicasts to sections that it belongs to. A broadcast creates no member. Groups have one
    /// member for each PE or node from the start, and no other.
    ///
    /// A created member takes part in reductions, broadcasts and sync points like an inserted one;
    /// see [`Context::insert`](crate::Context::insert). So contribute to a reduction over a
    /// collection while no members are being created, for example after quiescence. A broadcast
    /// that a sender makes right after a message to a new member may or may not reach that member.
    ///
    /// A member that has destroyed itself is created again, from the value of `init`, by the next
    /// message that arrives for it; messages that had arrived before it ended are dropped. An
    /// insertion by [`Context::insert`](crate::Context::insert) or
    /// [`Collection::insert_on`](crate::Collection::insert_on) ends the job with an error, because
    /// a message could create the same member at the same time.
    ///
    /// ```
    /// use gridspan_runtime::{Actor, Context, CreateAt, Ix1, Job, Op, To};
    ///
    /// #[derive(serde::Serialize, serde::Deserialize)]
    /// struct Word { count: u64 }
    ///
    /// #[derive(Clone, serde::Serialize, serde::Deserialize)]
    /// enum Message { Seen, Report }
    ///
    /// impl Actor for Word {
    ///     type Index = Ix1;
    ///     type Init = u64;
    ///     type Message = Message;
    ///
    ///     fn create(count: u64, _cx: &mut Context<Self>) -> Self { Word { count } }
    ///
    ///     fn handle(&mut self, message: Message, cx: &mut Context<Self>) {
    ///         match message {
    ///             Message::Seen => self.count += 1,
    ///             Message::Report => cx.contribute(Op::Concat, self.count, To::main()),
    ///         }
    ///     }
    /// }
    ///
    /// let job = Job::new("words").on_demand::<Word>(CreateAt::Home, |_index| 0);
    /// let job = job.main(async |grid| {
    ///     let words = grid.create::<Word>(Ix1::range(0), |_| 0).await?;
    ///     for number in [7, 2_000_000, 7] {
    ///         words.member(Ix1(number)).send(Message::Seen);
    ///     }
    ///     grid.quiescence().await?;
    ///     words.broadcast(Message::Report);
    ///     let counts: Vec<u64> = words.reduction(Op::Concat).await?;
    ///     assert_eq!(counts, [2, 1]);
    ///     Ok(())
    /// });
    /// # gridspan_runtime::driver::embedded::run(job, 2).unwrap();
    /// ```
    pub fn on_demand<A: Actor>(mut self, at: CreateAt, init: fn(A::Index) -> A::Init) -> Self {
        self.registry.add_on_demand::<A>(at, init);
        self
    }

    /// Adds an actor type whose [groups](Grid::create_group) can change their size, so that the job
    /// can continue from a checkpoint on another number of PEs or nodes: with fewer after a loss,
    /// or as it likes after a restart. It is part of the job's definition, so it gives the same on
    /// every node; call this once for a type.
    ///
    /// A member goes with its PE. Where several come to one PE, the first takes in the others, by
    /// one call of `merge` for each: first comes a member whose own PE goes on, then, in the order
    /// of their old indices, the others. Messages that wait for them, and delayed ones, go to the
    /// member that has taken them in. Where none comes, or where it had destroyed itself,
    /// [`create`](Actor::create) makes a member from the value of `init`, unless all members of the
    /// group had. Then [`arrived`](Actor::arrived) is called for members that were there before. Do
    /// not contribute to a reduction in these functions.
    ///
    /// The index of a member is that of its new PE or node. So references to members, and sections,
    /// that actors or main keep from before name others, or none: messages to an index that the
    /// group does not have are dropped. Make sections again after a restoration. If the number
    /// stays the same, so do all indices.
    ///
    /// No checkpoint is made while some members have contributed to an operation over the group and
    /// others have not. Await reductions over it before a
    /// [progress point](Grid::progress): a message that waits there, and that lets each member
    /// contribute, comes twice to a member that takes in another, and not to a new one.
    ///
    /// ```
    /// use gridspan::prelude::*;
    /// use gridspan::{CheckpointEvery, Checkpoints};
    ///
    /// /// Counts what happens on its PE.
    /// #[derive(Serialize, Deserialize)]
    /// struct Tally { events: u64 }
    ///
    /// #[derive(Clone, Serialize, Deserialize)]
    /// enum Message { Happened, Report }
    ///
    /// impl Actor for Tally {
    ///     type Index = Ix1;
    ///     type Init = ();
    ///     type Message = Message;
    ///
    ///     fn create((): (), _cx: &mut Context<Self>) -> Self { Tally { events: 0 } }
    ///
    ///     fn handle(&mut self, message: Message, cx: &mut Context<Self>) {
    ///         match message {
    ///             Message::Happened => self.events += 1,
    ///             Message::Report => cx.contribute(Sum, self.events, To::main()),
    ///         }
    ///     }
    /// }
    ///
    /// let job = Job::new("tallies")
    ///     .resizable_group::<Tally>(|_index| (), |tally, other, _cx| tally.events += other.events)
    ///     .checkpoints(Checkpoints::every(CheckpointEvery::Points(1)))
    ///     .restartable_main(async |grid: Grid| {
    ///         let tallies = match grid.restored().await? {
    ///             Some(reference) => grid.collection(reference),
    ///             None => grid.create_group::<Tally>(Per::Pe, |_| ()).await?,
    ///         };
    ///         tallies.member(Ix1(0)).send(Message::Happened);
    ///         grid.progress(&tallies.reference()).await?;
    ///         tallies.broadcast(Message::Report);
    ///         assert_eq!(tallies.reduction::<u64>(Sum).await?, 1);
    ///         Ok(())
    ///     });
    /// # gridspan::embed::Runner::on_threads(2).run(job).unwrap();
    /// ```
    pub fn resizable_group<A: Actor<Index = Ix1>>(
        mut self,
        init: fn(Ix1) -> A::Init,
        merge: fn(&mut A, A, &mut Context<'_, A>),
    ) -> Self {
        self.registry.add_resizable::<A>(init, merge);
        self
    }

    /// Adds an actor type that checkpoints leave out, with the messages and timers for its members.
    /// A main that begins again creates collections of this type again, on any number of PEs. Use it
    /// for actors whose work main repeats, as servers of calls are: after a restoration, messages to
    /// the members that there were are dropped, and a question that another actor has
    /// [asked them with a tag](Context::ask_tagged) has no answer. No checkpoint is made while one
    /// of them waits for an answer that goes to a [closure](Context::ask).
    ///
    /// ```
    /// use gridspan::prelude::*;
    /// use gridspan::{CheckpointEvery, Checkpoints};
    ///
    /// /// Answers from a table that it makes at its start.
    /// #[derive(Serialize, Deserialize)]
    /// struct Server { squares: Vec<u64> }
    ///
    /// impl Actor for Server {
    ///     type Index = Ix1;
    ///     type Init = u64;
    ///     type Message = (u64, Reply<u64>);
    ///
    ///     fn create(size: u64, _cx: &mut Context<Self>) -> Self {
    ///         Server { squares: (0..size).map(|n| n * n).collect() }
    ///     }
    ///
    ///     fn handle(&mut self, (n, reply): (u64, Reply<u64>), cx: &mut Context<Self>) {
    ///         cx.reply(reply, self.squares[n as usize]);
    ///     }
    /// }
    ///
    /// let job = Job::new("squares")
    ///     .transient::<Server>()
    ///     .checkpoints(Checkpoints::every(CheckpointEvery::Points(1)))
    ///     .restartable_main(async |grid: Grid| {
    ///         let first = grid.restored::<u64>().await?.unwrap_or(0);
    ///         let servers = grid.create_group::<Server>(Per::Pe, |_| 100).await?;
    ///         for n in first..5 {
    ///             grid.progress(&n).await?;
    ///             let server = servers.member(Ix1(0));
    ///             let square = server.ask(Duration::MAX, move |reply| (n, reply)).await?;
    ///             assert_eq!(square, n * n);
    ///         }
    ///         Ok(())
    ///     });
    /// # gridspan::embed::Runner::on_threads(2).run(job).unwrap();
    /// ```
    pub fn transient<A: Actor>(mut self) -> Self {
        self.registry.add_transient::<A>();
        self
    }

    /// Adds the type of workers for tasks of this name. Their groups have ended when a checkpoint
    /// is made, so that nothing of them is restored on another number of PEs.
    pub(crate) fn workers<A: Actor>(mut self, tasks: &'static str) -> Self {
        self.registry.add_workers::<A>(tasks);
        self
    }

    /// Adds a placement map for [`Placement::Custom`](crate::Placement::Custom).
    pub fn placement(mut self, map: PlacementMap) -> Self {
        self.maps.push(map);
        self
    }

    /// Adds an operation for reductions, and returns it for use in contributions.
    pub fn reducer(mut self, name: impl Into<String>, combine: CustomOp) -> (Self, Op) {
        self.reducers.push((name.into(), combine));
        let position = u16::try_from(self.reducers.len() - 1).expect("fewer than 65,536 reducers");
        (self, Op::Custom(Custom(position)))
    }

    /// Adds a value that actors read with [`Context::resource`](crate::Context::resource): one of
    /// each type; a second one takes the place of the first. The program makes it on every node. It
    /// is never sent, so it may hold what does not serialise, such as a closure. Actors that move
    /// find the value of the node where they live, so it should be the same on every node.
    ///
    /// ```
    /// use gridspan::prelude::*;
    ///
    /// /// A function that the actors apply.
    /// struct Apply(Box<dyn Fn(u64) -> u64 + Send + Sync>);
    ///
    /// #[derive(Serialize, Deserialize)]
    /// struct Cell;
    ///
    /// impl Actor for Cell {
    ///     type Index = Ix1;
    ///     type Init = ();
    ///     type Message = u64;
    ///
    ///     fn create((): (), _cx: &mut Context<Self>) -> Self { Cell }
    ///
    ///     fn handle(&mut self, number: u64, cx: &mut Context<Self>) {
    ///         match cx.resource::<Apply>() {
    ///             Some(apply) => cx.contribute(Sum, (apply.0)(number), To::main()),
    ///             None => cx.fail("the job has no function"),
    ///         }
    ///     }
    /// }
    ///
    /// let (factor, job) = (3, Job::new("apply").actor::<Cell>());
    /// let job = job.resource(Apply(Box::new(move |number| factor * number)));
    /// let job = job.main(async |grid: Grid| {
    ///     let cells = grid.create::<Cell>(Ix1::range(4), |_| ()).await?;
    ///     cells.broadcast(5);
    ///     assert_eq!(cells.reduction::<u64>(Sum).await?, 4 * 3 * 5);
    ///     Ok(())
    /// });
    /// # gridspan::embed::Runner::on_threads(2).run(job).unwrap();
    /// ```
    pub fn resource<T: Send + Sync + 'static>(mut self, value: T) -> Self {
        self.resources.insert(value);
        self
    }

    /// Sets the main function, which runs on node 0. When it returns, the job ends.
    pub fn main<F>(mut self, main: F) -> Self
    where
        F: AsyncFnOnce(Grid) -> Result<(), JobError> + Send + 'static,
    {
        let main = move |grid| -> MainFuture { Box::pin(async move { main(grid).await }) };
        self.main = Some(Main::Once(Box::new(main)));
        self
    }

    /// Sets a main function that can begin again. Then the nodes that remain after a loss continue
    /// from the last checkpoint, if the job makes [checkpoints](Self::checkpoints) and its launcher
    /// is to recover; if no checkpoint is complete yet, they begin the job again. Main begins on
    /// the first of them, and finds what it has done in [`Grid::restored`]; [`Grid::progress`] has
    /// an example.
    pub fn restartable_main<F>(mut self, main: F) -> Self
    where
        F: AsyncFn(Grid) -> Result<(), JobError> + Send + Sync + 'static,
    {
        let main = Arc::new(main);
        self.main = Some(Main::Again(Arc::new(move |grid| {
            let main = main.clone();
            Box::pin(async move { main(grid).await })
        })));
        self
    }

    /// Returns the same job for another run, or `None` if its main can begin once only.
    pub fn again(&self) -> Option<Self> {
        let main = match &self.main {
            None => None,
            Some(Main::Again(main)) => Some(Main::Again(main.clone())),
            Some(Main::Once(_)) => return None,
        };
        Some(Self {
            name: self.name.clone(),
            registry: self.registry.clone(),
            maps: self.maps.clone(),
            reducers: self.reducers.clone(),
            main,
            limits: self.limits,
            balancing: self.balancing.clone(),
            stealing: self.stealing.clone(),
            broadcasts: self.broadcasts,
            coordinator: self.coordinator,
            seed: self.seed,
            fault: self.fault,
            on_links: self.on_links.clone(),
            tolerates_lost_guests: self.tolerates_lost_guests,
            on_guests: self.on_guests.clone(),
            on_failure: self.on_failure.clone(),
            watch: self.watch.clone(),
            checkpoints: self.checkpoints,
            checkpoint_folder: self.checkpoint_folder.clone(),
            restart: None,
            origin: self.origin.clone(),
            resources: self.resources.clone(),
            bound: self.bound.clone(),
            records: self.records.clone(),
        })
    }

    /// Sets the byte budgets of each PE.
    pub fn limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// Sets the balancing strategy: one of [`gridspan_balance`], such as
    /// [`GridCut::default()`](gridspan_balance::GridCut), a cloneable type of the program that
    /// implements [`Strategy`](gridspan_balance::Strategy), or a
    /// [`StrategyName`](gridspan_balance::StrategyName) that a user has given. Default
    /// [`NoMoves`](gridspan_balance::NoMoves). It runs at sync points, on
    /// [request](Grid::rebalance), [periodically](Self::balance_every), and, if its
    /// [`predicts`](gridspan_balance::Strategy::predicts) returns true, when a link or other
    /// programs' use of a processor has changed. All actors continue meanwhile, except at sync
    /// points. The job seeds the strategy's dice.
    ///
    /// ```
    /// use gridspan_balance::{GridCut, StrategyName};
    /// # use gridspan_runtime::Job;
    /// let job = Job::new("cut").strategy(GridCut::default().flat());
    ///
    /// let flag = "refine";
    /// let job = Job::new("as the user likes").strategy(flag.parse::<StrategyName>()?);
    /// # Ok::<(), gridspan_balance::UnknownStrategy>(())
    /// ```
    pub fn strategy(mut self, strategy: impl MakeStrategy) -> Self {
        self.balancing = self.balancing.with(strategy);
        self
    }

    /// Also runs the strategy with this period, at least 1 ms. Default never.
    pub fn balance_every(mut self, period: Duration) -> Self {
        self.balancing.every = Some(period.max(Duration::from_millis(1)));
        self
    }

    /// Sets whether plans must be worth their cost, and are undone if they were not; see
    /// [`Gate`](gridspan_balance::Gate). Default yes. Does not apply to strategies that do not
    /// [predict](gridspan_balance::Strategy::predicts), such as `rotate` and `random`.
    pub fn balance_gate(mut self, is_gated: bool) -> Self {
        self.balancing.is_gated = is_gated;
        self
    }

    /// Sets the policy by which nodes without tasks choose nodes to take tasks from: one of
    /// [`stealing`](gridspan_balance::stealing), such as
    /// [`Lifeline::default()`](gridspan_balance::stealing::Lifeline), or a
    /// [`StealingPolicyName`](gridspan_balance::stealing::StealingPolicyName) that a user has
    /// given. Default [`Directory`].
    pub fn stealing(mut self, policy: impl MakeStealingPolicy) -> Self {
        self.stealing = Arc::new(policy);
        self
    }

    /// Sets whether broadcasts and read-only data may take other trees than that of the layout
    /// (default yes). Other trees are planned while the job runs, from the observed times of
    /// earlier broadcasts and the estimates of the links.
    pub fn plan_broadcasts(mut self, yes: bool) -> Self {
        self.broadcasts = if yes { Mode::Planned } else { Mode::Layout };
        self
    }

    /// Sets how broadcasts and read-only data travel between nodes. Default [`Mode::Planned`].
    pub fn broadcasts(mut self, mode: Mode) -> Self {
        self.broadcasts = mode;
        self
    }

    /// Sets the node on which the coordinator runs, counted from 0. Default 0, beside main.
    /// Listeners such as [`on_links`](Self::on_links) are called in the process of that node. A
    /// node that does not exist fails the job at its start. If it is not main's node, and main
    /// inserts a member and then notifies an actor of that, a broadcast of that actor may precede
    /// the insertion.
    pub fn coordinator_on(mut self, node: u32) -> Self {
        self.coordinator = NodeId(node);
        self
    }

    /// Sets the seed of everything that is random by design. Default 0.
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = seed;
        self
    }

    /// Returns the seed that was set last.
    pub fn configured_seed(&self) -> u64 {
        self.seed
    }

    /// Adds a listener for the estimates of the links. It is called when some have changed, with
    /// these changes, and every two seconds. Runs in the coordinator of a job of several nodes; it
    /// must not block.
    pub fn on_links(
        mut self,
        tell: impl Fn(&Links, &[LinkChange]) + Send + Sync + 'static,
    ) -> Self {
        self.on_links.push(Arc::new(tell));
        self
    }

    /// Sets whether the job continues when a guest, a node that has joined the running job, is
    /// lost. Tasks that the guest had are then run again elsewhere, so that they may run more than
    /// once; their results count once. Default no: the job ends with an error that names the guest.
    pub fn tolerate_lost_guests(mut self, yes: bool) -> Self {
        self.tolerates_lost_guests = yes;
        self
    }

    /// Adds a listener for events of guests. Runs in the coordinator; it must not block.
    pub fn on_guests(mut self, tell: impl Fn(&GuestEvent) + Send + Sync + 'static) -> Self {
        self.on_guests.push(Arc::new(tell));
        self
    }

    /// Adds a listener for a failure of the job while PEs may be inside handlers and unable to end
    /// it: this node has declared a founder lost, or PE 0 does not end the job at its time limit.
    /// Runs on a thread that is not a PE; it must not block.
    pub fn on_failure(mut self, tell: impl Fn(&JobError) + Send + Sync + 'static) -> Self {
        self.on_failure.push(Arc::new(tell));
        self
    }

    /// Adds a listener for warnings: that the job can never continue, with the reason; that it has
    /// waited for one handler for long; or that a node runs another build. Runs in the coordinator
    /// or, for a long handler on PE 0, on a thread of node 0; it must not block. Stalls are
    /// detected only if there is a listener or the job [fails on them](Self::fail_on_stall); in
    /// virtual time a job that stalls has failed.
    pub fn on_warning(mut self, tell: impl Fn(&str) + Send + Sync + 'static) -> Self {
        self.watch.on_warning.push(Arc::new(tell));
        self
    }

    /// Adds a listener for answers to [requests](crate::driver::NodeHandle::diagnose) to find out
    /// why the job is slow or does not go on, each with the number of the request. Runs in the
    /// coordinator; it must not block.
    pub fn on_diagnosis(mut self, tell: impl Fn(u64, &Diagnosis) + Send + Sync + 'static) -> Self {
        self.watch.on_diagnosis.push(Arc::new(tell));
        self
    }

    /// Sets whether a job that can never continue ends with an error. Default no. A long handler is
    /// not a stall.
    pub fn fail_on_stall(mut self, yes: bool) -> Self {
        self.watch.fails = yes;
        self
    }

    /// Ends the job after `limit`, with an error that names the pending work. Default never.
    pub fn time_limit(mut self, limit: Duration) -> Self {
        self.watch.time_limit = Some(limit);
        self
    }

    /// Sets the silence after which a node is lost, besides four round trips to it. A longer one
    /// waits for the end of an outage; a node whose process is seen to end is lost at once. Default
    /// 3 s, and more where many nodes share a core; at least 1 s, which is five signs of life, and
    /// at most a day. In a grid, a link may have another. Nodes that are not connected by a network
    /// are never silent; the simulator always uses the default.
    pub fn lost_after(mut self, silence: Duration) -> Self {
        self.watch.lost_after = Some(silence);
        self
    }

    /// Lets each of these PEs run only on processors with these numbers, as the system counts them,
    /// if the PE is in this process. Default none: the system chooses, and may move PEs. Threads
    /// that handlers start run there, too. Has an effect on Linux only, and with the feature `net`;
    /// the simulator ignores it.
    pub fn bind_pes(mut self, cpus: impl IntoIterator<Item = (PeId, Vec<u32>)>) -> Self {
        self.bound = cpus.into_iter().collect();
        self
    }

    /// Returns the processors to which a PE is bound, if it is.
    pub(crate) fn cpus_of(&self, pe: PeId) -> Option<&[u32]> {
        self.bound.get(&pe).map(Vec::as_slice)
    }

    /// Sets how often the job makes checkpoints, and how many copies of them nodes keep in memory.
    /// Default never. Checkpoints are made at main's [progress points](Grid::progress).
    pub fn checkpoints(mut self, checkpoints: Checkpoints) -> Self {
        self.checkpoints = checkpoints;
        self
    }

    /// Whether the job makes checkpoints, if main has progress points.
    pub fn makes_checkpoints(&self) -> bool {
        self.checkpoints.every.is_some() || self.checkpoint_folder.is_some()
    }

    /// Also stores checkpoints in a folder, which all nodes must share; without other settings, as
    /// often as [`CheckpointEvery::Auto`] says. Default none. The simulator ignores it. With the
    /// feature `object-store` this can be the address of a place in an object store, such as
    /// `s3://bucket/job`, whose keys nodes take from environment variables such as
    /// `AWS_ACCESS_KEY_ID`.
    pub fn checkpoint_folder(mut self, folder: impl Into<PathBuf>) -> Self {
        self.checkpoint_folder = Some(folder.into());
        self
    }

    /// Continues from the last checkpoint in a folder or object store, on any number of nodes and
    /// PEs. Default no. The simulator ignores it.
    pub fn restart(mut self, folder: impl Into<PathBuf>) -> Self {
        self.restart = Some(folder.into());
        self
    }

    /// Lets the coordinator run on node 0 if its node is not in this layout, after a loss.
    pub(crate) fn coordinator_within(mut self, layout: &Layout) -> Self {
        if self.coordinator.0 >= layout.node_count() {
            self.coordinator = NodeId(0);
        }
        self
    }

    pub(crate) fn restart_from(&self) -> Option<&Path> {
        self.restart.as_deref()
    }

    /// A folder in which checkpoints are stored in addition to the memory of the nodes.
    pub fn folder(&self) -> Option<&Path> {
        self.checkpoint_folder.as_deref()
    }

    pub(crate) fn listens_to_failure(&self) -> &[OnFailure] {
        &self.on_failure
    }

    /// Adds a listener for rebalances, called for each with the snapshot and the plan that is
    /// carried out. Runs in the coordinator; it must not block for long.
    pub fn on_snapshot(mut self, tell: impl Fn(&Snapshot, &Plan) + Send + Sync + 'static) -> Self {
        self.balancing.on_snapshot.push(Arc::new(tell));
        self
    }

    /// Adds a listener for the reports of rebalances: called once nothing has to be moved, the
    /// effect of the moves is known, or the job ends. Runs in the coordinator; it must not block.
    pub fn on_balance(mut self, tell: impl Fn(&BalanceReport) + Send + Sync + 'static) -> Self {
        self.balancing.on_balance.push(Arc::new(tell));
        self
    }

    /// Adds a listener for checkpoints, called for each once all of its parts, and their copies,
    /// are kept. Runs in the coordinator; it must not block.
    ///
    /// ```
    /// use gridspan::prelude::*;
    /// use gridspan::{CheckpointEvery, Checkpoints};
    /// use std::sync::mpsc;
    ///
    /// let (tell, complete) = mpsc::channel();
    /// let job = Job::new("saved")
    ///     .checkpoints(Checkpoints::every(CheckpointEvery::Points(1)))
    ///     .on_checkpoint(move |report| tell.send(report.number).unwrap_or_default())
    ///     .restartable_main(async |grid: Grid| {
    ///         grid.progress(&1).await?;
    ///         grid.sleep(Duration::from_millis(50)).await?;
    ///         Ok(())
    ///     });
    /// gridspan::embed::Runner::on_threads(2).run(job).unwrap();
    /// assert_eq!(complete.recv(), Ok(1));
    /// ```
    pub fn on_checkpoint(
        mut self,
        tell: impl Fn(&CheckpointReport) + Send + Sync + 'static,
    ) -> Self {
        self.watch.on_checkpoint.push(Arc::new(tell));
        self
    }

    /// Adds a listener for [`Grid::report_progress`], called with its arguments on the node of main.
    /// It must not block.
    pub fn on_progress(mut self, tell: impl Fn(u64, u64) + Send + Sync + 'static) -> Self {
        self.watch.on_progress.push(Arc::new(tell));
        self
    }

    /// Records what the PEs of this process do, for reports after the job. All processes of the job
    /// must record. Messages are then a few bytes longer on the network. Default no.
    pub fn recording(mut self, records: &Records) -> Self {
        self.records = Some(records.clone());
        self
    }

    /// Plants a bug, to test the tests.
    #[doc(hidden)]
    pub fn planted_fault(mut self, fault: PlantedFault) -> Self {
        self.fault = fault;
        self
    }

    /// Returns the job's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Sets the build of the program, any number but 0, and the host on which it runs. Nodes with
    /// different builds cause a warning; nodes with other structures on the wire end the job.
    pub fn origin(mut self, build: u64, host: impl Into<String>) -> Self {
        self.origin = Origin { build, host: host.into() };
        self
    }

    /// Returns the definition that nodes compare.
    fn definition(&self) -> Definition {
        let parts = self.registry.kinds().flat_map(|kind| kind.parts()).collect();
        Definition { fingerprint: self.fingerprint(), parts, origin: self.origin.clone() }
    }

    /// Returns a hash of the definition: equal for equal names, actor types, maps and reducers in
    /// equal order, if messages, initial values and states have the same structure on the wire.
    pub fn fingerprint(&self) -> u64 {
        let names = self.registry.kinds().map(|kind| kind.name());
        let maps = self.maps.iter().map(|map| -> &str { map.name() });
        let reducers = self.reducers.iter().map(|(name, _)| name.as_str());
        let deterministic =
            self.registry.deterministic_names().flat_map(|name| ["deterministic", name]);
        let all = std::iter::once(self.name.as_str()).chain(names).chain(maps).chain(reducers);
        let on_demand = self.registry.on_demand_names().flat_map(|(name, at)| match at {
            CreateAt::Home => ["created at home", name],
            CreateAt::Sender => ["created at a sender", name],
        });
        let resizable = self.registry.resizable_names().flat_map(|name| ["resizable", name]);
        let transient = self.registry.transient_names().flat_map(|name| ["transient", name]);
        let all = all.chain(deterministic).chain(on_demand).chain(resizable).chain(transient);
        let all = all.flat_map(|name| name.bytes().chain([0xff]));
        let parts = self.registry.kinds().flat_map(|kind| kind.parts());
        let structures = parts.flat_map(|part| part.structure.to_le_bytes());
        // FNV-1a, with a separator after each name.
        all.chain(structures).fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        })
    }

    /// Checks the definition against a layout.
    pub(crate) fn check(&self, layout: &Layout) -> Result<(), StartError> {
        if self.coordinator.0 >= layout.node_count() {
            let (node, nodes) = (self.coordinator, layout.node_count());
            return Err(StartError::NoSuchCoordinator { node, nodes });
        }
        let maps = self.maps.iter().map(|map| ("placement map", map.name()));
        let reducers = self.reducers.iter().map(|(name, _)| ("reducer", name.as_str()));
        let mut names = BTreeSet::new();
        if let Some((what, name)) = maps.chain(reducers).find(|&entry| !names.insert(entry)) {
            let (what, name) = (what.to_owned(), name.to_owned());
            return Err(StartError::DefinedTwice { what, name });
        }
        Ok(())
    }

    /// Returns the data that all PEs share.
    pub(crate) fn common(&self, layout: &Arc<Layout>) -> Common {
        Common {
            layout: layout.clone(),
            coordinator: self.coordinator,
            tree: Arc::new(self.broadcasts.tree(layout, self.coordinator)),
            kinds: self.registry.kinds().collect(),
            deterministic: Arc::new(self.registry.deterministic().clone()),
            on_demand: Arc::new(self.registry.on_demand().clone()),
            resizing: Arc::new(self.registry.resizing().clone()),
            maps: self.maps.iter().copied().collect(),
            task_names: Arc::new(self.registry.task_names().clone()),
            reducers: self.reducers.iter().map(|(_, combine)| *combine).collect(),
            limits: self.limits,
            balancing: self.balancing.clone(),
            stealing: self.stealing.clone(),
            broadcasts: self.broadcasts,
            seed: self.seed,
            definition: Arc::new(self.definition()),
            fault: self.fault,
            on_links: self.on_links.clone(),
            tolerates_lost_guests: self.tolerates_lost_guests,
            on_guests: self.on_guests.clone(),
            watch: self.watch.clone(),
            run: Arc::new(RunOfJob {
                job: self.name.clone(),
                number: 0,
                checkpoints: match self.checkpoints.every {
                    // A folder is of no use without checkpoints.
                    None if self.checkpoint_folder.is_some() => {
                        self.checkpoints.with_every(CheckpointEvery::Auto)
                    }
                    _ => self.checkpoints,
                },
                maps: self.maps.iter().map(|map| map.name().to_owned()).collect(),
                reducers: self.reducers.iter().map(|(name, _)| name.clone()).collect(),
            }),
            node_local: Arc::default(),
            resources: self.resources.clone(),
            records: self.records.clone(),
        }
    }

    /// Returns the parts of the definition that main needs, and main itself.
    pub(crate) fn into_main(mut self) -> (Registry, Vec<PlacementMap>, MainFunction) {
        let main = self.main.take();
        (self.registry, self.maps, MainFunction(main))
    }
}

/// A main function that has not started.
pub(crate) struct MainFunction(Option<Main>);

impl MainFunction {
    pub(crate) fn begin(self, grid: Grid) -> MainFuture {
        match self.0 {
            Some(Main::Once(main)) => main(grid),
            Some(Main::Again(main)) => main(grid),
            None => Box::pin(async { Ok(()) }),
        }
    }
}
