//! One job in virtual time, with losses of nodes, recoveries from checkpoints and returns of nodes.
//!
//! Each run of the job is a simulation, which begins where the previous one has stopped. A loss
//! stops all nodes at once: the work that they would still do is lost anyway.

use crate::job::{Diary, Entry, Shape, checkpoints, job};
use gridspan_runtime::{CheckpointEvery, CheckpointStore, Image, NodeId, PeId, RestorePlan};
use gridspan_sim::{SimOptions, Simulation};
use gridspan_topology::dice::Dice;
use gridspan_topology::{Bandwidth, GridSpec, Time};
use std::collections::BTreeMap;
use std::error::Error;
use std::sync::PoisonError;
use std::time::Duration;

/// Number of steps without losses that measure the time of a step besides its compute time.
const CALIBRATION_STEPS: u32 = 20;

/// The image from which a run of a job begins, and where its parts go. `None` for the beginning.
type Start = Option<(Image, RestorePlan)>;

/// A job, and the losses and returns of its nodes.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) grid: GridSpec,
    pub(crate) shape: Shape,
    pub(crate) every: CheckpointEvery,
    /// Rate at which a PE encodes and decodes checkpoints.
    pub(crate) rate: Bandwidth,
    /// Mean time between losses, as the settings of the job state it.
    pub(crate) to_failure: Duration,
    /// When nodes are lost, in order, and a number in `0..1` that selects one.
    pub(crate) losses: Vec<(Duration, f64)>,
    /// Time after which a lost node joins again; `None`: another takes its place at once.
    pub(crate) away: Option<Duration>,
    /// Time from a loss until the others know of it.
    pub(crate) notice: Duration,
    pub(crate) end: Duration,
    pub(crate) seed: u64,
}

/// Draws losses with this mean time between them.
pub(crate) fn losses(seed: u64, mean: Duration, end: Duration) -> Vec<(Duration, f64)> {
    let mut dice = Dice::new(seed);
    let mut at = 0.0;
    let drawn = std::iter::from_fn(|| {
        at += dice.exponential(mean.as_secs_f64());
        Some((Duration::from_secs_f64(at), dice.unit()))
    });
    drawn.take_while(|(at, _)| *at < end).collect()
}

/// The result of a job. Times are in seconds.
#[derive(Clone, Debug, Default)]
pub(crate) struct Life {
    /// Sum of the times of all complete steps, each counted once. The time of a step is that on the
    /// same PEs without losses and checkpoints.
    pub(crate) useful: f64,
    pub(crate) all: f64,
    /// Losses that ended a run; further nodes may be lost before the others know.
    pub(crate) losses: u32,
    /// Number of losses that left no copy of a part, so that the job continued from a folder.
    pub(crate) unprotected: u32,
    pub(crate) recoveries: Vec<Stop>,
    /// Stops for nodes to join.
    pub(crate) changes: Vec<Stop>,
    /// Cost of each complete checkpoint, without those right after a stop: the time of the stop,
    /// and the time that a PE took for it after that.
    pub(crate) checkpoints: Vec<f64>,
    /// Time from a checkpoint to the next.
    pub(crate) intervals: Vec<f64>,
    pub(crate) postponed: u32,
    /// Number of repeated steps.
    pub(crate) repeated: u64,
    /// Number of actors of the fullest PE in each step.
    pub(crate) actors_max: Vec<f64>,
}

/// The cost of a loss, or of a stop for nodes to join, in parts.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Stop {
    /// Until the loss is known, or until the job has stopped for a change.
    pub(crate) before: f64,
    /// Until main continues.
    pub(crate) restoring: f64,
}

impl Stop {
    pub(crate) fn sum(&self) -> f64 {
        self.before + self.restoring
    }
}

impl Life {
    pub(crate) fn share(&self) -> f64 {
        self.useful / self.all
    }
}

/// Runs the job of a plan, through all of its losses.
pub(crate) fn live(plan: &Plan) -> Result<Life, Box<dyn Error>> {
    let overhead = overhead(plan)?;
    let mut world = World::new(plan);
    let (mut now, mut from) = (Duration::ZERO, None);
    let mut before = Before::Start;
    while now < plan.end {
        let run = world.run(now, from.take())?;
        world.read(&run, before, overhead);
        now = run.stopped;
        if run.is_paused {
            let returning = world.take_returning(now);
            from = Some(world.change(&returning)?);
            before = Before::Change(run.pausing());
        } else if now < plan.end {
            let (image, known) = world.lose(now)?;
            before = Before::Loss((known - now).as_secs_f64());
            (from, now) = (image, known);
        }
    }
    let mut life = world.life;
    life.useful = world.steps.values().sum();
    life.all = now.as_secs_f64();
    Ok(life)
}

/// Time of a step besides the compute time of the fullest PE, measured without checkpoints.
fn overhead(plan: &Plan) -> Result<f64, Box<dyn Error>> {
    let diary = Diary::default();
    let shape = &plan.shape;
    let job = job(shape, Default::default(), &diary);
    let until = Time::ZERO + shape.step[1] * CALIBRATION_STEPS;
    let options = SimOptions::with_seed(plan.seed);
    let stopped = Simulation::new(job, plan.grid.clone(), options)?.run_until(until);
    stopped.map_err(|report| format!("the job has ended: {:?}", report.outcome))?;
    let diary = diary.lock().unwrap_or_else(PoisonError::into_inner);
    let (mut last, mut extra, mut steps) = (None, 0.0, 0.0);
    for entry in diary.iter() {
        if let &Entry::Step { step, end, actors_max } = entry {
            if let Some(last) = last {
                let computed = shape.cost(step) * actors_max;
                extra += end.since(last).as_secs_f64() - computed.as_secs_f64();
                steps += 1.0;
            }
            last = Some(end);
        }
    }
    Ok(extra / f64::max(steps, 1.0))
}

/// The event before a run.
#[derive(Clone, Copy)]
enum Before {
    Start,
    /// A loss, known after this many seconds.
    Loss(f64),
    /// A change, for which the job stopped for this many seconds.
    Change(f64),
}

/// One run of the job, until it was stopped.
struct Run {
    began: Duration,
    stopped: Duration,
    is_paused: bool,
    /// Time of the job when the run began.
    job_time: Time,
    entries: Vec<Entry>,
}

impl Run {
    /// A time of the job, in seconds since the first run began.
    fn seconds(&self, at: Time) -> f64 {
        (self.began + at.since(self.job_time)).as_secs_f64()
    }

    /// Time from the end of the last complete step or checkpoint to the stop.
    fn pausing(&self) -> f64 {
        let ends = self.entries.iter().rev().find_map(|entry| match entry {
            Entry::Step { end, .. } | Entry::Checkpoint { end, .. } => Some(self.seconds(*end)),
            _ => None,
        });
        self.stopped.as_secs_f64() - ends.unwrap_or(self.began.as_secs_f64())
    }
}

/// The processes of the job, whose numbers do not change, and its progress so far.
struct World<'a> {
    plan: &'a Plan,
    /// The checkpoints that each process has; `None` for a lost one.
    stores: Vec<Option<CheckpointStore>>,
    /// When lost processes come back.
    returns: BTreeMap<Duration, usize>,
    /// For each run, the checkpoint with which it began, and its members.
    runs: Vec<(u64, Vec<usize>)>,
    /// The losses that are still to come.
    losses: std::iter::Peekable<std::vec::IntoIter<(Duration, f64)>>,
    /// Seconds of each complete step.
    steps: BTreeMap<u64, f64>,
    dice: Dice,
    life: Life,
}

impl<'a> World<'a> {
    fn new(plan: &'a Plan) -> Self {
        let nodes = plan.grid.layout().node_count() as usize;
        Self {
            plan,
            stores: vec![Some(CheckpointStore::default()); nodes],
            returns: BTreeMap::new(),
            runs: vec![(0, (0..nodes).collect())],
            losses: plan.losses.clone().into_iter().peekable(),
            steps: BTreeMap::new(),
            dice: Dice::new(plan.seed),
            life: Life::default(),
        }
    }

    fn members(&self) -> &[usize] {
        self.runs.last().map_or(&[], |(_, members)| members)
    }

    /// The grid of the present members.
    fn grid(&self, members: &[usize]) -> Result<GridSpec, String> {
        let lost = (0..self.stores.len()).filter(|process| !members.contains(process));
        let grid = self.plan.grid.without(&lost.map(NodeId::from).collect::<Vec<_>>());
        grid.ok_or_else(|| "no node is left".to_owned())
    }

    /// Runs the job until the next loss, the return of a node, or the end.
    fn run(&mut self, began: Duration, from: Start) -> Result<Run, Box<dyn Error>> {
        let plan = self.plan;
        let (spec, diary) = (self.grid(self.members())?, Diary::default());
        let nodes = plan.grid.layout().node_count();
        let checkpoints = checkpoints(plan.every, plan.to_failure, nodes);
        let job = job(&plan.shape, checkpoints, &diary);
        let day = plan.end + plan.end;
        let options = SimOptions::with_seed(self.dice.next_u64())
            .with_checkpoint_rate(plan.rate)
            .with_time_limit(day);
        let job_time = from.as_ref().map_or(Time::ZERO, |(image, _)| image.at());
        let simulation = match from {
            None => Simulation::new(job, spec, options)?,
            Some(image) => Simulation::restored(job, spec, options, image)?,
        };
        let members = self.members().to_vec();
        let stores = members.iter().filter_map(|&process| self.stores[process].clone());
        let mut simulation = simulation.keeping(stores.collect());
        let until = self.losses.peek().map_or(plan.end, |(at, _)| plan.end.min(*at));
        if let Some(&at) = self.returns.keys().next().filter(|at| **at < until) {
            simulation = simulation.pausing_at(Time::ZERO + at.saturating_sub(began), Vec::new());
        }
        let halted = simulation.run_until(Time::ZERO + (until.saturating_sub(began)));
        let halted = halted.map_err(|report| format!("the job has ended: {:?}", report.outcome))?;
        for (process, store) in members.into_iter().zip(halted.stores) {
            self.stores[process] = Some(store);
        }
        let stopped = match halted.is_paused {
            true => began + halted.report.virtual_time.since(Time::ZERO),
            false => until.max(began),
        };
        let entries = std::mem::take(&mut *diary.lock().unwrap_or_else(PoisonError::into_inner));
        Ok(Run { began, stopped, is_paused: halted.is_paused, job_time, entries })
    }

    /// Reads the notes of main in a run.
    fn read(&mut self, run: &Run, before: Before, overhead: f64) {
        let life = &mut self.life;
        let mut stop = match before {
            Before::Start => None,
            Before::Loss(before) | Before::Change(before) => {
                Some(Stop { before, ..Stop::default() })
            }
        };
        let (mut last, mut is_awaited) = (None, false);
        for entry in &run.entries {
            match *entry {
                Entry::Begun { at, step } => {
                    life.repeated += self.steps.split_off(&step).len() as u64;
                    last = Some(at);
                    let restoring = run.seconds(at) - run.began.as_secs_f64();
                    match (stop.take(), before) {
                        (Some(stop), Before::Loss(_)) => {
                            life.recoveries.push(Stop { restoring, ..stop });
                        }
                        (Some(stop), _) => life.changes.push(Stop { restoring, ..stop }),
                        (None, _) => {}
                    }
                }
                Entry::Checkpoint { begin, end } => {
                    is_awaited = true;
                    life.intervals.extend(last.map(|last| begin.since(last).as_secs_f64()));
                    last = Some(end);
                }
                Entry::Complete { cost } => {
                    // Main does not wait for the checkpoint with which the job stops.
                    if !std::mem::take(&mut is_awaited) {
                        continue;
                    }
                    life.checkpoints.push(cost.as_secs_f64());
                }
                Entry::Postponed => life.postponed += 1,
                Entry::Step { step, actors_max, .. } => {
                    let computed = self.plan.shape.cost(step) * actors_max;
                    self.steps.insert(step, computed.as_secs_f64() + overhead);
                    life.actors_max.push(f64::from(actors_max));
                }
            }
        }
    }

    /// Removes the nodes that fail at `now` and until the others know of the last loss. Returns the
    /// image from which the job continues, if there is one, and the time at which they know.
    fn lose(&mut self, now: Duration) -> Result<(Start, Duration), Box<dyn Error>> {
        let mut known = now + self.plan.notice;
        let mut members = self.members().to_vec();
        // The folder has all checkpoints that processes had before the losses.
        let folder = self.stores.clone();
        self.life.losses += 1;
        while let Some((at, which)) = self.losses.next_if(|(at, _)| *at <= known)
            && members.len() > 1
        {
            known = at + self.plan.notice;
            let lost = members.remove((which * members.len() as f64) as usize);
            self.stores[lost] = None;
            if let Some(away) = self.plan.away {
                self.returns.insert(at + away, lost);
            }
        }
        if self.plan.away.is_none() {
            members = self.members().to_vec();
        }
        if Image::gathered(self.stores.iter().flatten())?.is_some_and(|image| !is_whole(&image)) {
            self.life.unprotected += 1;
            return Ok((self.read_folder(&folder, members)?, known));
        }
        let image = self.go_on(members)?;
        for &process in &self.members().to_vec() {
            self.stores[process].get_or_insert_default();
        }
        if image.is_none() {
            self.steps.clear();
        }
        Ok((image, known))
    }

    /// Goes on from the last checkpoint in a folder that all nodes share.
    fn read_folder(
        &mut self,
        folder: &[Option<CheckpointStore>],
        members: Vec<usize>,
    ) -> Result<Start, Box<dyn Error>> {
        let image =
            Image::gathered(folder.iter().flatten())?.ok_or("the folder has no checkpoint")?;
        let plan = RestorePlan::restart(image.layout(), self.grid(&members)?.layout());
        for &process in &members {
            self.stores[process].get_or_insert_default().adopt(image.clone());
        }
        self.runs.push((image.number(), members));
        Ok(Some((image, plan)))
    }

    /// Removes and returns the processes that are back by now.
    fn take_returning(&mut self, now: Duration) -> Vec<usize> {
        let later = self.returns.split_off(&(now + Duration::from_nanos(1)));
        std::mem::replace(&mut self.returns, later).into_values().collect()
    }

    /// Lets processes join, and returns the image to go on from.
    fn change(&mut self, joining: &[usize]) -> Result<(Image, RestorePlan), Box<dyn Error>> {
        let mut members = self.members().to_vec();
        members.extend(joining);
        members.sort_unstable();
        let image = self.go_on(members)?.ok_or("a change without a checkpoint")?;
        for &process in joining {
            self.stores[process] = Some(CheckpointStore::default());
        }
        Ok(image)
    }

    /// Goes on with other members from the last checkpoint that any of them knows. `None` if there
    /// is none.
    fn go_on(&mut self, members: Vec<usize>) -> Result<Start, Box<dyn Error>> {
        let Some(image) = Image::gathered(self.stores.iter().flatten())? else {
            self.runs = vec![(0, members)];
            return Ok(None);
        };
        let (before, number) = (image.layout().clone(), image.number());
        let were = self.runs.iter().rev().find(|(began, _)| *began < number);
        let (_, were) = were.ok_or("no run has made the checkpoint")?;
        let position =
            |process: &usize| members.iter().position(|member| member == process).map(NodeId::from);
        let successors: Vec<_> = were.iter().map(position).collect();
        let mut parts = BTreeMap::new();
        for &process in &members {
            if let Some(store) = &mut self.stores[process] {
                let has = store.image(image.manifest())?;
                parts.insert(process, has.parts());
                // The store may not know yet that the checkpoint is complete.
                store.adopt(has);
            }
        }
        let has_all = |process: &usize, node: NodeId| {
            let has = parts.get(process);
            let mut pes = before.place(node).pes.clone();
            has.is_some_and(|has| pes.all(|pe| has.contains(&PeId(pe))))
        };
        let holder = |(node, own): (NodeId, &usize)| {
            let has = |&process: &&usize| has_all(process, node);
            // A node reads its own parts.
            Some(own).filter(has).or_else(|| members.iter().find(has)).and_then(position)
        };
        let holders: Vec<_> = before.nodes().zip(were).map(holder).collect();
        let grid = self.grid(&members)?;
        let plan = RestorePlan::recovery(&image, &grid, &successors, &holders);
        let plan = plan.map_err(|nodes| format!("no copy is left of the parts of {nodes:?}"))?;
        let having = |node| {
            let having = members.iter().filter(|&process| has_all(process, node));
            having.filter_map(position).collect()
        };
        let is_again = self.runs.last().is_some_and(|(began, _)| *began == number);
        let plan = plan.held_by(&before, having).going_back_again(is_again);
        self.runs.push((number, members));
        Ok(Some((image, plan)))
    }
}

fn is_whole(image: &Image) -> bool {
    image.parts().len() == image.layout().pe_count() as usize
}
