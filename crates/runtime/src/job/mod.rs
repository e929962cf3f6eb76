//! A job's definition: its actor types, its maps and operations, and its main function.
//!
//! | file | content |
//! | --- | --- |
//! | here | a job, its main and its settings |
//! | `actor_types`, `listeners` | further methods of a job |
//! | `main_function` | a main function, once or again |
//! | `definition`, `program`, `restoring` | what drivers make of a job |
//! | `grid`, `creation`, `progress`, `collection` | the interfaces of main |
//! | `main_handle`, `promise`, `requests` | how these reach PE 0 |

mod actor_types;
pub(crate) mod collection;
pub(crate) mod creation;
mod definition;
pub(crate) mod grid;
mod listeners;
pub(crate) mod main_function;
pub(crate) mod main_handle;
pub(crate) mod program;
pub(crate) mod progress;
pub(crate) mod promise;
mod requests;
pub(crate) mod restoring;

use crate::address::collection::PlacementMap;
use crate::error::JobError;
use crate::job::grid::Grid;
use crate::job::main_function::{Main, MainFuture};
use crate::message::limits::Limits;
use crate::pe::actor::registry::Registry;
use crate::pe::actor::resources::Resources;
use crate::pe::links::{OnFailure, OnLinks};
use crate::pe::watch::Watch;
use crate::pe::{Balancing, Checkpoints, OnGuests, OnToleratedLoss, PlantedFault, Records};
use crate::reduce::CustomOp;
use crate::schema::definition::Origin;
use gridspan_balance::MakeStrategy;
use gridspan_balance::stealing::{Directory, MakeStealingPolicy};
use gridspan_bcast::Mode;
use gridspan_topology::{NodeId, PeId};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// Default of [`Job::log_bytes`]: the tasks of 512 packets of the largest usual size.
const LOG_BYTES: u64 = 256 << 20;

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
    recovers_tasks: bool,
    log_bytes: u64,
    on_tolerated_loss: Vec<OnToleratedLoss>,
    on_failure: Vec<OnFailure>,
    watch: Watch,
    checkpoints: Checkpoints,
    checkpoint_folder: Option<PathBuf>,
    restart: Option<PathBuf>,
    origin: Origin,
    resources: Resources,
    /// The processors of PEs that are bound.
    bound: BTreeMap<PeId, Vec<u32>>,
    spin_limit: Option<Duration>,
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
            recovers_tasks: false,
            log_bytes: LOG_BYTES,
            on_tolerated_loss: vec![],
            on_failure: Vec::new(),
            watch: Watch::default(),
            checkpoints: Checkpoints::default(),
            checkpoint_folder: None,
            restart: None,
            origin: Origin::default(),
            resources: Resources::default(),
            bound: BTreeMap::new(),
            spin_limit: None,
            records: None,
        }
    }

    /// Adds a value that actors read with [`Context::resource`](crate::Context::resource): one of
    /// each type; a second one replaces the first. The program makes it on every node. It is never
    /// sent, so it may hold what does not serialise, such as a closure. Actors that move find the
    /// value of the node where they live, so it should be the same on every node.
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
    /// recovers from losses; if no checkpoint is complete yet, they begin the job again. Main
    /// begins on the first remaining node, and finds what it has done in [`Grid::restored`];
    /// [`Grid::progress`] has an example.
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

    /// Sets how broadcasts and read-only data travel between nodes. Default [`Mode::Planned`]:
    /// trees are planned while the job runs, from the observed times of earlier broadcasts and the
    /// estimates of the links. With all other modes, they follow from the layout.
    pub fn broadcasts(mut self, mode: Mode) -> Self {
        self.broadcasts = mode;
        self
    }

    /// Sets the node on which the coordinator runs, counted from 0. Default 0, beside main.
    /// Listeners such as [`on_links`](Self::on_links) are called in the process of that node. A
    /// node that does not exist fails the job at its start. If the coordinator is not on main's
    /// node, an insertion by main may be late: if main then sends a message to an actor, and the
    /// actor broadcasts in response, the broadcast may precede the insertion.
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

    /// Sets whether the job continues when a guest, a node that has joined the running job, is
    /// lost. Other nodes then run the tasks of the guest again. A task may run more than once; its
    /// result counts once. Default no: the job ends with an error that names the guest.
    pub fn tolerate_lost_guests(mut self, yes: bool) -> Self {
        self.tolerates_lost_guests = yes;
        self
    }

    /// Sets whether the job goes on without a node that is lost while the job has nothing but pools
    /// of tasks: the other nodes run the tasks of the lost one again, and each output counts once.
    /// Default no: the loss ends the job, or makes it go back to a [checkpoint](Self::checkpoints).
    ///
    /// The loss is tolerated if a pool is open, and main has created no other collection; if
    /// neither main nor the coordinator runs on the node; if main waits only for tasks on other
    /// nodes; if no guest has joined; if the nodes do not measure their distances, as at the start
    /// of a job; and if at least half of the nodes are left. From then on main may open further
    /// pools, and checkpoints are postponed. If main does anything else that needs all nodes, the
    /// job ends with the loss. The job keeps its layout, with the PEs of the lost node.
    ///
    /// A node keeps the tasks that it lends until their outputs are back, within the limit of
    /// [`log_bytes`](Self::log_bytes). It passes borrowed tasks on only once one of its PEs has
    /// taken them, so tasks of milliseconds reach all nodes a little later. Under a driver without
    /// a network, no node is lost.
    ///
    /// ```
    /// use gridspan::{Job, ToleratedLoss};
    ///
    /// let job = Job::new("search").recover_tasks_locally(true).on_tolerated_loss(|loss| {
    ///     let ToleratedLoss { node, site, reason, left, .. } = loss;
    ///     println!("{node} at {site} is lost: {reason}; {left} nodes repeat its tasks");
    /// });
    /// # gridspan::embed::Runner::on_threads(1).run(job).unwrap();
    /// ```
    pub fn recover_tasks_locally(mut self, yes: bool) -> Self {
        self.recovers_tasks = yes;
        self
    }

    /// Sets the maximum bytes of the lent tasks that a node keeps, to repeat them if the borrowers
    /// are lost; see [`recover_tasks_locally`](Self::recover_tasks_locally). Beyond it, the node
    /// drops the oldest of these tasks. The loss of a node that has borrowed dropped tasks ends the
    /// job, or makes it go back to a [checkpoint](Self::checkpoints), with a
    /// [warning](crate::Warning::LoansNotKept). With 0, a node keeps none. Default 256 MiB.
    pub fn log_bytes(mut self, bytes: u64) -> Self {
        self.log_bytes = bytes;
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

    /// Sets the silence after which a node is lost, in addition to four round trips to it. With a
    /// longer one, the job waits for the end of longer outages; a node is lost at once if its
    /// process is known to have ended. Default 3 s, and more where many nodes share a core; at
    /// least 1 s, which is five heartbeats, and at most a day. A link of the grid may have
    /// another value. Nodes that are not connected by a network are never silent; the simulator
    /// always uses the default.
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

    /// Sets the longest time for which the thread of a PE without work looks for messages before it
    /// sleeps. It looks first because a thread wakes more slowly than a message arrives. A thread
    /// looks for the full time only if its last waits were at most that long, if its node has
    /// several PEs, and if the job has no more PEs than there are cores for this process. A PE that
    /// waits for the network, the first one of a node, sleeps at once. Default 100 µs; with zero,
    /// threads sleep at once. The simulator ignores it.
    pub fn spin_limit(mut self, limit: Duration) -> Self {
        self.spin_limit = Some(limit);
        self
    }

    /// Returns the longest time that an idle PE spins, if it is set.
    pub(crate) fn spins_at_most(&self) -> Option<Duration> {
        self.spin_limit
    }

    /// Sets how often the job makes checkpoints, and how many copies of them nodes keep in memory.
    /// Default never. Checkpoints are made at main's [progress points](Grid::progress).
    pub fn checkpoints(mut self, checkpoints: Checkpoints) -> Self {
        self.checkpoints = checkpoints;
        self
    }

    /// Returns what [`checkpoints`](Self::checkpoints) has set.
    pub fn checkpoint_settings(&self) -> Checkpoints {
        self.checkpoints
    }

    /// Whether the job has types of [tasks](Self::tasks) or [searches](Self::search).
    pub fn has_tasks(&self) -> bool {
        !self.registry.task_names().is_empty()
    }

    /// Whether the job makes checkpoints, if main has progress points.
    pub fn makes_checkpoints(&self) -> bool {
        self.checkpoints.every.is_some() || self.checkpoint_folder.is_some()
    }

    /// Also stores checkpoints in a folder, which all nodes must share; without other settings, as
    /// often as [`CheckpointEvery::Auto`](crate::CheckpointEvery::Auto) says. Default none. The
    /// simulator ignores it. With the feature `object-store` this can be the address of a place in
    /// an object store, such as `s3://bucket/job`. Nodes take the access keys of the store from
    /// environment variables such as `AWS_ACCESS_KEY_ID`.
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

    pub(crate) fn watch(&self) -> &Watch {
        &self.watch
    }

    /// Returns the folder or object store from which the job continues, if it continues from one.
    pub fn restart_from(&self) -> Option<&Path> {
        self.restart.as_deref()
    }

    /// A folder in which checkpoints are stored in addition to the memory of the nodes.
    pub fn folder(&self) -> Option<&Path> {
        self.checkpoint_folder.as_deref()
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
}
