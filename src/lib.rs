//! Gridspan runs one tightly-coupled parallel job across many sites as if they were one computer.
//!
//! A job is written as many small message-driven [actors](prelude::Actor), which the runtime
//! places. The same program runs on the threads of one process, on many processes connected by
//! QUIC, and in virtual time; [`main`] selects one of these by environment variables, so that
//! programs do not depend on the choice.
//!
//! In this example, heat spreads along a ring of cells for ten steps, and none gets lost:
//!
//! ```
//! use gridspan::prelude::*;
//!
//! const CELLS: i32 = 100;
//! const STEPS: u32 = 10;
//!
//! #[derive(Serialize, Deserialize)]
//! struct Cell { temperature: f64, step: u32, is_started: bool, heard: [Vec<f64>; 2] }
//!
//! #[derive(Clone, Serialize, Deserialize)]
//! enum Msg { Start, Neighbour { step: u32, temperature: f64 } }
//!
//! impl Cell {
//!     fn tell(&self, cx: &mut Context<Self>) {
//!         for side in [1, CELLS - 1] {
//!             let neighbour = Ix1((cx.index().0 + side) % CELLS);
//!             let message = Msg::Neighbour { step: self.step, temperature: self.temperature };
//!             cx.send(&cx.collection().at(neighbour), message);
//!         }
//!     }
//! }
//!
//! impl Actor for Cell {
//!     type Index = Ix1;
//!     type Init = f64;
//!     type Message = Msg;
//!
//!     fn create(temperature: f64, _cx: &mut Context<Self>) -> Self {
//!         Cell { temperature, step: 0, is_started: false, heard: [vec![], vec![]] }
//!     }
//!
//!     fn handle(&mut self, message: Msg, cx: &mut Context<Self>) {
//!         match message {
//!             // Neighbours that have started may send before this arrives.
//!             Msg::Start => {
//!                 self.is_started = true;
//!                 self.tell(cx);
//!             }
//!             // A neighbour may be one step ahead, never two.
//!             Msg::Neighbour { step, temperature } => {
//!                 self.heard[step as usize % 2].push(temperature);
//!             }
//!         }
//!         while self.is_started
//!             && self.step < STEPS
//!             && self.heard[self.step as usize % 2].len() == 2
//!         {
//!             let around: f64 = self.heard[self.step as usize % 2].drain(..).sum();
//!             self.temperature = 0.5 * self.temperature + 0.25 * around;
//!             self.step += 1;
//!             if self.step < STEPS {
//!                 self.tell(cx);
//!             } else {
//!                 cx.contribute(Sum, self.temperature, To::main());
//!             }
//!         }
//!     }
//! }
//!
//! fn job() -> Job {
//!     Job::new("heat").actor::<Cell>().main(async |grid: Grid| {
//!         let warm = |at: Ix1| if at.0 == 0 { 100.0 } else { 20.0 };
//!         let cells = grid.create::<Cell>(Ix1::range(CELLS as u32), warm).await?;
//!         cells.broadcast(Msg::Start);
//!         let total: f64 = cells.reduction(Sum).await?;
//!         println!("{STEPS} steps later, {total:.6} degrees in all");
//!         if (total - 2080.0).abs() < 1e-9 {
//!             println!("verified: yes (no heat was lost or made)");
//!             return Ok(());
//!         }
//!         Err("verified: no (it should be 2080 degrees)".into())
//!     })
//! }
//!
//! fn main() -> ExitCode {
//!     gridspan::main(job())
//! }
//! ```
//!
//! A program that derives [`Serialize`](prelude::Serialize) also needs `serde` among its own
//! dependencies.
//!
//! - [`prelude`]: the names that most programs use.
//! - [`main`], [`run`], [`run_with`]: start a job; [`Start`]: driver, seed and strategy.
//! - [`embed`]: jobs inside another program.
//! - [`variables`]: the environment variables.
//! - [`binding`]: the binding of PEs to cores.
//! - [`advice`]: the next step for a user whose job failed.
//! - [`links`]: the estimates of a job's links.
//! - [`simulated`]: the summary of a run in virtual time.
//! - [`topology`], [`balance`], [`bcast`], [`ranks`], [`rpc`], [`sim`], [`workflow`]: the parts,
//!   for programs that need more.
//!
//! Modules that the documentation hides are the interface between `gridctl` and the nodes that it
//! starts, and what both use. They may change in any release.
//!
//! # Features
//!
//! All but `object-store` are on by default. A program that embeds jobs on threads needs none of
//! them.
//!
//! | feature | what it adds |
//! | --- | --- |
//! | `net` | nodes connected by QUIC, emulated links, nodes under `gridctl run` |
//! | `object-store` | checkpoints in S3, Google Cloud Storage and Azure |
//! | `sim` | virtual time; needs `net` |
//! | `ranks` | message passing between ranks |
//! | `rpc` | remote calls, and groups of calls that are mapped together; needs `workflow` |
//! | `workflow` | task graphs, and heuristics that map them |
//!
//! A clean debug build of the program above takes 100 s of processor time (user and system) for 49
//! crates without features, 140 s for 84 crates with `net`, and 176 s for 92 crates with all of
//! them. A release build without features takes 189 s. On two free cores, a build takes at least
//! half of that time. The times were measured with `time cargo build` on a shared machine, where
//! processor time is the steadier figure.

pub mod advice;
pub mod binding;
#[doc(hidden)]
pub mod bounded_file;
mod build;
#[doc(hidden)]
pub mod control;
mod dump;
pub mod embed;
#[cfg(feature = "net")]
#[doc(hidden)]
pub mod input;
#[cfg(feature = "net")]
#[doc(hidden)]
pub mod keeper;
pub mod links;
#[cfg(feature = "net")]
mod node;
mod outcome;
pub mod prelude;
#[cfg(feature = "net")]
mod processes;
mod recorded;
mod settings;
pub mod simulated;
mod start;
pub mod variables;

#[cfg(feature = "ranks")]
pub use gridspan_ranks as ranks;
pub use gridspan_runtime::{
    Actor, ActorId, ActorIndex, ActorRef, AskError, BroadcastEdge, BroadcastOptions,
    BroadcastReport, CheckpointError, CheckpointEvery, CheckpointReport, Checkpoints, Collection,
    CollectionId, CollectionRef, Context, CopiesRemade, CreateAt, Custom, CustomOp, DecodeError,
    ExactSum, Goal, Grid, GridError, GuestEvent, InStep, IndexBox, IndexSet, Ix1, Ix2, Ix3, Ix4,
    Ix5, Ix6, Job, JobError, Key, Limits, Links, List, Locality, LossCause, Member, Merge, Misuse,
    NodeProcessError, Numbers, OldState, Op, Per, Phase, Placement, PlacementMap, Priority,
    Progress, Published, Reducible, Reduction, RefusalCause, Reply, Search, SearchContext,
    SearchPool, SearchStream, SectionRef, SendOptions, StartError, Statistics, StealStatistics,
    Step, TaggedAnswer, Task, TaskContext, TaskPool, TaskPoolRef, TaskStream, Timer, To,
    ToleratedLoss, Unordered, UpgradeError, Value, Warning,
};
pub use outcome::{EXIT_FAILED, EXIT_USAGE};
pub use settings::{Driver, Settings, Start};
#[cfg(feature = "sim")]
#[doc(hidden)]
pub use start::run_observed;
pub use start::{main, run, run_with};

/// Grids: sites, nodes, links and their measurements.
pub mod topology {
    pub use gridspan_topology::{
        Bandwidth, BandwidthRange, ByteCount, ClusterSpec, Contradiction, Distances, EmulateError,
        GridFileError, GridFileProblem, GridSpec, GridSpecError, Group, GroupId, Hierarchy,
        HierarchyError, HostRangeError, HostSpec, Latency, Layout, LayoutError, Level, Link,
        LinkChange, LinkError, LinkEstimate, NodeId, NodePlace, PeId, Probability, QuantityError,
        RttRange, SiteError, SiteId, SiteSpec, Speed, Time, TimelineError, Uplink, parse_duration,
    };
}

/// Balancing: strategies, their input, and the outcomes of their plans.
pub mod balance {
    pub use gridspan_balance::stealing::{
        Amount, ClusterAware, Demand, Directory, Grant, HistoryPolicy, Lifeline,
        MakeStealingPolicy, RandomStealing, STEALING_POLICIES, Share, StandingRequest,
        StealMessage, StealingLayout, StealingPolicy, StealingPolicyName, Turn,
        UnknownStealingPolicy,
    };
    pub use gridspan_balance::{
        ActorKey, ActorLoad, Auto, BalanceReport, Border, Cause, Edge, Greedy, GridCut,
        HandlingTime, LeaderCut, MakeStrategy, Move, NAMES, NoMoves, Outcome, PeLoad, Plan,
        PlanError, Random, Refine, Refusal, Replica, Replicate, Rotate, SiteLink, Snapshot,
        SnapshotError, Strategy, StrategyName, Traffic, UnknownStrategy, Vacate, by_name,
    };
}

/// The modes of broadcasts.
pub mod bcast {
    pub use gridspan_bcast::{MODES, Mode, UnknownMode};
}

/// Remote calls, one by one and in groups.
#[cfg(feature = "rpc")]
pub mod rpc {
    /// GridRPC: calls of typed functions on servers.
    pub mod calls {
        pub use gridspan_rpc::calls::{
            CallSession, Catalogue, ClientRef, Config, CostError, Function, Functions, GridRpc,
            Handle, RpcError, ServerCard, ServerPlan, Services, ServicesRef, SessionId, Signature,
            UNKNOWN_CODE_TEXT, Work, error_string, with_rpc,
        };
    }

    /// Groups of calls, which are mapped and executed as a whole.
    pub mod group {
        pub use gridspan_rpc::group::{Arguments, CallGroup, GroupRef, Lazy, Mapper, Parts, Room};
    }

    /// Spans of calls for OpenTelemetry.
    pub mod trace {
        pub use gridspan_rpc::trace::{
            Propagator, PropagatorError, TraceContext, TraceContextError, set_propagator,
        };
    }
}

/// Runs in virtual time, with costs and faults.
#[cfg(feature = "sim")]
pub mod sim {
    pub use gridspan_runtime::{Image, RestorePlan};
    pub use gridspan_sim::{
        Departure, Ending, FaultCounts, FaultPlan, GuestPlan, Halted, LogEntry, LostNode,
        PauseFaults, QuicCounts, QuicFaults, SessionFaults, SimError, SimOptions, SimReport,
        Simulation,
    };
}

/// Task graphs, platforms, and mappings of the first to the second.
#[cfg(feature = "workflow")]
pub mod workflow {
    pub use gridspan_workflow::{
        ClientSpec, Data, DataId, Endpoint, GraphBuilder, MapError, Mapping, Platform, ServerId,
        ServerSpec, Site, TaskGraph, TaskGraphError, TaskId, TaskSpec, check, described,
    };

    /// The record of an execution.
    pub mod execution {
        pub use gridspan_workflow::execution::{Execution, TaskRun, Transfer};
    }

    /// Heuristics that map a task graph to a platform.
    pub mod heuristics {
        pub use gridspan_workflow::heuristics::{
            Exhaustive, Heft, HeftC, Heuristic, MinCompletionTime, NAMES, Portfolio, RandomMapping,
            ReadyList, Rule, UnknownHeuristic, by_name, map,
        };
    }

    /// The computing time of a call, by a formula or learned.
    pub mod performance {
        pub use gridspan_workflow::performance::{Formula, FormulaError, History};
    }

    /// Executions in simulated time, which show what a mapping is worth.
    pub mod simulate {
        pub use gridspan_workflow::simulate::{Perturbations, execute, execute_calls};
    }

    /// The treatment of slow servers.
    pub mod stragglers {
        pub use gridspan_workflow::stragglers::StragglerPolicy;
    }

    /// Recorded workflows in WfFormat, and generated ones.
    pub mod wfcommons {
        pub use gridspan_workflow::wfcommons::{Workflow, WorkflowError, layered, load};
    }
}

/// The README's example compiles and runs.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
