//! Checkpoints in virtual time: nodes keep them in memory, and another simulation can continue from
//! them.

use super::{Event, Simulation};
use crate::former_run::{FormerRun, LeftBehind, Stopped};
use crate::options::SimOptions;
use crate::report::{SimError, SimReport};
use gridspan_runtime::session::PlantedSessionFault;
use gridspan_runtime::{CheckpointStore, Image, Job, Program, RestorePlan, StartError};
use gridspan_topology::dice::Dice;
use gridspan_topology::{GridSpec, NodeId, Time};
use std::collections::BTreeMap;
use std::time::Duration;

/// Time within which lost nodes come back.
const BACK_WITHIN: Duration = Duration::from_millis(100);

/// A run that was stopped: what each node keeps of checkpoints, and the report so far.
///
/// ```
/// use gridspan_runtime::{CheckpointEvery, Checkpoints, Grid, Job, RestorePlan};
/// use gridspan_sim::{SimOptions, Simulation};
/// use gridspan_topology::{GridSpec, Time};
/// use std::time::Duration;
///
/// fn job() -> Job {
///     Job::new("steps")
///         .checkpoints(Checkpoints::every(CheckpointEvery::Points(10)))
///         .restartable_main(async |grid: Grid| {
///             for step in grid.restored::<u64>().await?.unwrap_or(0)..100 {
///                 grid.progress(&step).await?;
///                 grid.sleep(Duration::from_millis(10)).await?;
///             }
///             Ok(())
///         })
/// }
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let options = SimOptions::with_seed(1);
/// let first = Simulation::new(job(), GridSpec::from_emulate("2x2,wan=8ms")?, options.clone())?;
/// let Ok(halted) = first.run_until(Time(700_000_000)) else { return Err("it has ended".into()) };
///
/// // The job goes on from its last checkpoint on another grid.
/// let image = halted.checkpoint()?.ok_or("there is no checkpoint")?;
/// let grid = GridSpec::from_emulate("1x1x2")?;
/// let plan = RestorePlan::restart(image.layout(), grid.layout());
/// let report = Simulation::restored(job(), grid, options, (image, plan))?.run();
/// assert_eq!(report.outcome, Ok(()));
/// # Ok(())
/// # }
/// ```
#[non_exhaustive]
pub struct Halted {
    /// Whether it stopped after a checkpoint, as [`pausing_at`](Simulation::pausing_at) asked for.
    pub is_paused: bool,
    /// The checkpoints of each node.
    pub stores: Vec<CheckpointStore>,
    /// The report of the run, without an outcome of the job.
    pub report: SimReport,
    /// The node of the coordinator, or its last node while it moves.
    pub coordinator: NodeId,
    pub(crate) left: LeftBehind,
}

impl Halted {
    /// Returns the last complete checkpoint that any node knows, with the parts of all nodes.
    /// `None` if no checkpoint is complete.
    ///
    /// # Errors
    ///
    /// Those of [`Image::gathered`].
    pub fn checkpoint(&self) -> Result<Option<Image>, StartError> {
        Image::gathered(&self.stores)
    }

    /// Plants a bug in the next run, if lost nodes of this one come back in it.
    #[doc(hidden)]
    pub fn planting(&mut self, fault: PlantedSessionFault) {
        self.left.planted = fault;
    }
}

impl Simulation {
    /// Prepares a job that continues from an image on a grid, by a plan.
    ///
    /// # Errors
    ///
    /// The errors of [`new`](Self::new), and those of
    /// [`Program::restored`](gridspan_runtime::Program::restored).
    pub fn restored(
        job: Job,
        spec: GridSpec,
        options: SimOptions,
        (image, plan): (Image, RestorePlan),
    ) -> Result<Self, SimError> {
        let mut reading = vec![0; spec.layout().pe_count() as usize];
        for (part, reader) in image.layout().pes().zip(&plan.readers) {
            // A plan for another grid is refused below.
            if let Some(bytes) = reading.get_mut(reader.index()) {
                *bytes += image.part(part).1;
            }
        }
        let manifest = image.manifest().clone();
        let program = Program::restored(job, spec.layout().clone(), image, plan)?;
        let rate = options.checkpoint_rate;
        let mut simulation = Self::of(program, spec, options)?;
        simulation.manifest = Some(manifest);
        for (pe, bytes) in simulation.layout.clone().pes().zip(reading) {
            let turn = simulation.queue.push(Time::ZERO, Event::Turn(pe));
            let station = &mut simulation.stations[pe];
            station.next_turn = Some((Time::ZERO, turn));
            station.decoding = rate.time_for(bytes);
        }
        Ok(simulation)
    }

    /// Gives the nodes the checkpoints that they kept in an earlier run. Nodes beyond those of
    /// `stores` have kept none. If the job continues from a checkpoint, all nodes then know that
    /// this one is complete, as in real time.
    #[must_use]
    pub fn keeping(mut self, mut stores: Vec<CheckpointStore>) -> Self {
        let nodes = stores.len().max(self.layout.node_count() as usize);
        stores.resize_with(nodes, CheckpointStore::default);
        for store in &mut stores {
            if let Some(manifest) = &self.manifest
                && let Err(error) = store.complete(manifest.clone())
            {
                self.broken = Some(error.into());
            }
            store.drop_incomplete();
        }
        self.kept = stores;
        self
    }

    /// Lets nodes that were lost when the run `before` was stopped come back after a short random
    /// time. They still belong to that run, and send again the frames that other nodes had not
    /// confirmed. The nodes of this run refuse these frames
    /// ([`FaultCounts::refused`](crate::FaultCounts::refused)). For each node of the run `before`,
    /// `successors` has the node of this run that is the same process, if there is one.
    ///
    /// # Errors
    ///
    /// [`SimError::Certificates`] if keys for the nodes cannot be made.
    pub fn with_returning(
        mut self,
        before: &Halted,
        returning: &[NodeId],
        successors: &[Option<NodeId>],
    ) -> Result<Self, SimError> {
        let seed = self.options.seed;
        let former = FormerRun::before(&before.left, &self.layout, seed);
        self.former = Some(former.map_err(SimError::Certificates)?);
        let mut dice = Dice::new(seed ^ 0x7265_7475_726e_0000);
        let mut back = |&node: &NodeId| (node, Time(1) + dice.any_scale_up_to(BACK_WITHIN));
        let times: BTreeMap<NodeId, Time> = returning.iter().map(&mut back).collect();
        for late in before.left.sent_again(returning, successors) {
            if let Some(&at) = times.get(&late.from) {
                self.queue.push(at, Event::Late(late));
            }
        }
        Ok(self)
    }

    /// Runs the job until `at`, and stops it there, or earlier if it has stopped itself after a
    /// checkpoint.
    ///
    /// # Errors
    ///
    /// The report, if the job ends before.
    pub fn run_until(mut self, at: Time) -> Result<Halted, Box<SimReport>> {
        self.halts_at = Some(at);
        let (report, stopped) = self.run_to_end();
        match stopped {
            Some(Stopped { stores, is_paused, coordinator, left }) => {
                Ok(Halted { stores, report, is_paused, coordinator, left })
            }
            None => Err(Box::new(report)),
        }
    }

    /// Lets the job stop after a checkpoint at main's first progress point after `at`, so that
    /// another simulation can continue from it without the nodes `leaving`. A job with a group that
    /// must keep its size fails.
    #[must_use]
    pub fn pausing_at(mut self, at: Time, leaving: Vec<NodeId>) -> Self {
        self.pauses_at = Some((at, leaving));
        self
    }
}
