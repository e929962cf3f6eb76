//! Nodes of the layout that are lost while a job has only pools of tasks.

use super::comb::{Comb, Run, take_runs};
use super::leaves::Leaves;
use gridspan_balance::stealing::{STEALING_POLICIES, StealingPolicyName};
use gridspan_runtime::{Grid, Job, JobError, NodeId, Search, Task, ToleratedLoss, Warning};
use gridspan_sim::{FaultPlan, LostNode, PauseFaults, SimOptions, SimReport, Simulation};
use gridspan_topology::dice::Dice;
use gridspan_topology::{GridSpec, Latency, Layout, Link, Time};
use std::sync::{Arc, Mutex};
use std::time::Duration;

const MS: Duration = Duration::from_millis(1);

/// Time until others notice that a node has died.
pub const SILENCE: Duration = Duration::from_millis(5);

/// More than the tasks of any of these jobs take.
const LOG_BYTES: u64 = 256 << 20;

/// What a pool does with a tree.
#[derive(Clone, Copy, Debug)]
pub enum Purpose {
    CountBySearch,
    CountByTasks,
    /// Finds the best leaf. All visits share a bound.
    BestBySearch,
    BestByTasks,
}

/// A grid, and a tree that the job counts, or whose best leaf the job finds.
#[derive(Clone, Debug)]
pub struct Case {
    pub seed: u64,
    pub policy: &'static str,
    pub purpose: Purpose,
    pub sites: Vec<Vec<u32>>,
    pub wan: Duration,
    pub teeth: u32,
    pub cost: Duration,
    /// Number of pools, one after the other, each for the whole tree.
    pub pools: u32,
    pub has_faults: bool,
    /// Maximum bytes of the tasks that a node keeps for the case of a loss.
    pub log_bytes: u64,
}

/// For each pool of a run, the times at which it was open and its root was done.
pub type Spans = Vec<(Duration, Option<Duration>)>;

/// A run of a case.
pub struct Ran {
    pub report: SimReport,
    pub losses: Vec<ToleratedLoss>,
    /// The warnings that tasks were not kept, if the case has a small log.
    pub not_kept: Vec<Warning>,
    pub spans: Spans,
    /// The visits to nodes of a tree that is counted.
    pub runs: Vec<Run>,
    /// Number of these visits.
    pub visits: usize,
}

impl Ran {
    /// The times at which the first pool was open and the last root was done.
    pub fn span(&self) -> (Duration, Duration) {
        (self.spans[0].0, self.spans.last().unwrap().1.unwrap())
    }

    /// Whether a loss was noticed while a root ran, and the other nodes had the time to answer.
    pub fn is_well_inside(&self, lost: &LostNode, wan: Duration) -> bool {
        let noticed = if lost.is_mistaken { lost.at } else { lost.at + SILENCE };
        let decided = noticed + 4 * wan + 10 * MS;
        let is_inside = |&(opened, done): &(Duration, Option<Duration>)| {
            opened + 2 * MS <= noticed && done.is_none_or(|done| decided < done)
        };
        self.spans.iter().any(is_inside)
    }
}

impl Case {
    /// Number of nodes of the tree to count, which is binomial.
    pub fn nodes(&self) -> u64 {
        1 << self.teeth
    }

    /// The tree whose best leaf the job finds, with about [`nodes`](Self::nodes) visits. In some
    /// cases several leaves are the best.
    fn leaves(&self) -> Leaves {
        let values = if self.seed.is_multiple_of(3) { 500 } else { 1 << 40 };
        Leaves::new(self.seed, self.teeth + 1, values, self.cost)
    }

    pub fn layout(&self) -> Layout {
        let sites = self.sites.iter().enumerate();
        Layout::new(sites.map(|(at, site)| (format!("s{at}"), site.clone())).collect())
    }

    /// Counts or searches the tree in each pool while these nodes are lost.
    pub fn run(&self, lost: Vec<LostNode>) -> Ran {
        self.run_while_leaving(lost, None)
    }

    /// The same, while a node is about to leave from that time on.
    pub fn run_while_leaving(
        &self,
        lost: Vec<LostNode>,
        leaving: Option<(Duration, NodeId)>,
    ) -> Ran {
        let losses: Arc<Mutex<Vec<ToleratedLoss>>> = Arc::default();
        let spans: Arc<Mutex<Spans>> = Arc::default();
        let warnings: Arc<Mutex<Vec<Warning>>> = Arc::default();
        let (tolerated, noted, case) = (losses.clone(), spans.clone(), self.clone());
        let told = warnings.clone();
        let job = Job::new("comb")
            .search::<Comb>()
            .tasks::<Comb>()
            .search::<Leaves>()
            .tasks::<Leaves>()
            .stealing(self.policy.parse::<StealingPolicyName>().unwrap())
            .seed(self.seed)
            .recover_tasks_locally(true)
            .log_bytes(self.log_bytes)
            .on_tolerated_loss(move |loss| tolerated.lock().unwrap().push(loss.clone()));
        // A listener makes the coordinator look for stalls, which changes the times of a run.
        let job = match self.log_bytes {
            LOG_BYTES => job,
            _ => job.on_warning(move |warning| told.lock().unwrap().push(warning.clone())),
        };
        let job = job.main(async move |grid| serve(&grid, &case, &noted).await);
        let wan = Link::wan().with_latency(Latency::from_micros(self.wan.as_micros() as u64));
        let spec = GridSpec::from_layout(&self.layout()).unwrap().with_wan(wan);
        let faults = FaultPlan::default()
            .with_frame_delay(0.1)
            .with_local_delay(0.1)
            .with_delay_max(MS)
            .with_reorder(true)
            .with_pauses(PauseFaults::new(0.001, MS));
        let options = SimOptions::with_seed(self.seed)
            .with_lost_nodes(lost)
            .with_silence(SILENCE)
            .with_faults(self.has_faults.then_some(faults))
            .with_time_limit(Duration::from_secs(600));
        take_runs();
        let simulation = Simulation::new(job, spec, options).unwrap();
        let report = match leaving {
            Some((at, node)) => simulation.pausing_at(Time::ZERO + at, vec![node]).run(),
            None => simulation.run(),
        };
        let losses = losses.lock().unwrap().clone();
        let spans = spans.lock().unwrap().clone();
        let mut not_kept = warnings.lock().unwrap().clone();
        not_kept.retain(|warning| matches!(warning, Warning::LoansNotKept { .. }));
        let runs = take_runs();
        Ran { report, losses, not_kept, spans, visits: runs.len(), runs }
    }
}

/// Main: counts or searches the tree in each pool.
async fn serve(grid: &Grid, case: &Case, spans: &Mutex<Spans>) -> Result<(), JobError> {
    let (comb, leaves) = (Comb::new(case.teeth, case.cost), case.leaves());
    for number in 0..case.pools {
        let counted = match case.purpose {
            Purpose::CountBySearch => search(grid, comb, spans).await?.0,
            Purpose::CountByTasks => fork(grid, comb, spans).await?,
            Purpose::BestBySearch => {
                leaves.check(search(grid, leaves, spans).await?)?;
                continue;
            }
            Purpose::BestByTasks => {
                leaves.check(fork(grid, leaves, spans).await?)?;
                continue;
            }
        };
        if counted != case.nodes() {
            return Err(format!("pool {number} counted {counted} nodes").into());
        }
    }
    Ok(())
}

async fn search<S: Search>(
    grid: &Grid,
    root: S,
    spans: &Mutex<Spans>,
) -> Result<S::Total, JobError> {
    let pool = grid.search_pool::<S>().await?;
    note(grid, spans, false).await?;
    let total = pool.run(root).await?;
    note(grid, spans, true).await?;
    pool.close();
    Ok(total)
}

async fn fork<T: Task>(grid: &Grid, root: T, spans: &Mutex<Spans>) -> Result<T::Output, JobError> {
    let pool = grid.task_pool::<T>().await?;
    note(grid, spans, false).await?;
    let output = pool.run(root).await?;
    note(grid, spans, true).await?;
    pool.statistics().await?;
    pool.close();
    Ok(output)
}

/// Notes that a pool is open, or that its root is done.
async fn note(grid: &Grid, spans: &Mutex<Spans>, is_done: bool) -> Result<(), JobError> {
    let now = Duration::from_nanos(grid.now().await?.0);
    let mut spans = spans.lock().unwrap();
    match spans.last_mut().filter(|_| is_done) {
        Some((_, done)) => *done = Some(now),
        None => spans.push((now, None)),
    }
    Ok(())
}

/// Draws a random case in which a tree is counted.
pub fn draw(seed: u64) -> Case {
    let mut dice = Dice::new(seed);
    let mut below = |bound: u64| dice.below(bound);
    let sites: Vec<Vec<u32>> = (0..1 + below(3))
        .map(|_| (0..2 + below(3)).map(|_| 1 + below(2) as u32).collect())
        .collect();
    Case {
        seed,
        policy: match seed % 3 {
            0 => STEALING_POLICIES[below(STEALING_POLICIES.len() as u64) as usize],
            _ => "directory",
        },
        purpose: match below(2) {
            0 => Purpose::CountBySearch,
            _ => Purpose::CountByTasks,
        },
        wan: Duration::from_micros(300 + below(6_000)),
        teeth: 10 + below(2) as u32,
        cost: Duration::from_micros(20 + below(200)),
        pools: 1 + (below(4) == 0) as u32,
        has_faults: below(2) == 0,
        log_bytes: LOG_BYTES,
        sites,
    }
}

/// Asserts that a job has ended with the loss of one of these nodes.
pub fn assert_lost(ran: &Ran, lost: &[LostNode], about: &dyn std::fmt::Debug) {
    let is_of_these = |node: &NodeId| lost.iter().any(|lost| lost.node == *node);
    match &ran.report.outcome {
        Err(JobError::NodeLost { node, .. }) if is_of_these(node) => {}
        other => panic!("{about:?}: {other:?}"),
    }
}

/// Four nodes at two sites.
pub fn four_nodes(purpose: Purpose) -> Case {
    Case {
        seed: 1,
        policy: "directory",
        purpose,
        sites: vec![vec![1, 2], vec![2, 1]],
        wan: 2 * MS,
        teeth: 12,
        cost: Duration::from_micros(100),
        pools: 1,
        has_faults: false,
        log_bytes: LOG_BYTES,
    }
}

/// Counts of the effects of losses.
#[derive(Debug, Default)]
pub struct Outcomes {
    /// Losses after which the job went on.
    pub tolerated: usize,
    /// Tolerated losses that were mistaken.
    pub mistaken: usize,
    /// Runs that went on after several losses.
    pub several: usize,
    /// Runs that visited more nodes than without the losses.
    pub repeated: usize,
    /// Runs that ended with the loss.
    pub ended: usize,
}

impl Outcomes {
    /// Loses random nodes, but not main's, while the job runs. Checks that the result is right, or
    /// that the job ends with a loss that it cannot tolerate.
    pub fn lose(&mut self, case: &Case) {
        let seed = case.seed;
        let calm = case.run(Vec::new());
        assert_eq!(calm.report.outcome, Ok(()), "seed {seed}: {case:?}");
        let (opened, done) = calm.span();
        let mut dice = Dice::new(!seed);
        let nodes = case.layout().node_count();
        // At least half of the nodes remain, among them main's.
        let most = nodes / 2;
        let mut victims: Vec<u32> = (1..nodes).collect();
        let lost: Vec<LostNode> = (0..1 + dice.below(most.min(3)))
            .map(|_| {
                let node = NodeId(victims.swap_remove(dice.below(victims.len())));
                let part = f64::from(dice.below(1000_u32)) / 1000.0;
                let at = opened + 2 * MS + (done - opened).mul_f64(part);
                let lost = LostNode::new(node, at);
                if dice.below(4_u32) == 0 { lost.mistaken() } else { lost }
            })
            .collect();

        let ran = case.run(lost.clone());

        let about = (seed, case, &lost);
        if ran.report.outcome.is_err() {
            // The job ends if it loses a node while main closes a pool, or opens the next one.
            assert_lost(&ran, &lost, &about);
            let is_inside = lost.iter().all(|lost| ran.is_well_inside(lost, case.wan));
            assert!(!is_inside, "{about:?}: {:?} in {:?}", ran.report.outcome, ran.spans);
            self.ended += 1;
            return;
        }
        let named: Vec<NodeId> = ran.losses.iter().map(|loss| loss.node).collect();
        assert!(
            named.iter().all(|node| lost.iter().any(|lost| lost.node == *node)),
            "{about:?}: {named:?}"
        );
        // Losses that were noticed well before the end were tolerated.
        let (_, end) = ran.span();
        for lost in lost.iter().filter(|lost| lost.at + SILENCE + 20 * case.wan + 20 * MS < end) {
            assert!(named.contains(&lost.node), "{about:?}: {named:?}, end {end:?}");
        }
        self.tolerated += named.len();
        self.several += usize::from(named.len() > 1);
        self.mistaken +=
            lost.iter().filter(|it| it.is_mistaken && named.contains(&it.node)).count();
        self.repeated += usize::from(ran.visits > calm.visits);
    }
}
