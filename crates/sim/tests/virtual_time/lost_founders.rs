//! Nodes of the layout that are lost while a job has only a pool of tasks: the others repeat their
//! tasks, and the count of the tree is exact. The job ends with the loss where it needs the node.

use crate::common::comb::{Comb, take_runs};
use gridspan_balance::stealing::{STEALING_POLICIES, StealingPolicyName};
use gridspan_runtime::{
    CheckpointEvery, Checkpoints, Goal, Grid, Job, JobError, Merge, NodeId, PeId, Search,
    SearchContext, Step, Task, TaskContext, ToleratedLoss,
};
use gridspan_sim::{FaultPlan, LostNode, PauseFaults, SimOptions, SimReport, Simulation};
use gridspan_topology::dice::Dice;
use gridspan_topology::{GridSpec, Latency, Layout, Link};
use serde::{Deserialize, Serialize};
use std::sync::{Arc, Mutex};
use std::time::Duration;

const MS: Duration = Duration::from_millis(1);

/// Time until others notice that a node has died.
const SILENCE: Duration = Duration::from_millis(5);

/// A grid, and a tree to count there.
#[derive(Clone, Debug)]
struct Case {
    seed: u64,
    policy: &'static str,
    is_search: bool,
    sites: Vec<Vec<u32>>,
    wan: Duration,
    teeth: u32,
    cost: Duration,
    /// Number of pools, one after the other, each for the whole tree.
    pools: u32,
    has_faults: bool,
}

/// For each pool of a run, when it was open, and when its root was done.
type Spans = Vec<(Duration, Option<Duration>)>;

/// A run of a case.
struct Ran {
    report: SimReport,
    losses: Vec<ToleratedLoss>,
    spans: Spans,
    visits: usize,
}

impl Ran {
    /// When the first pool was open, and when the last root was done.
    fn span(&self) -> (Duration, Duration) {
        (self.spans[0].0, self.spans.last().unwrap().1.unwrap())
    }

    /// Whether a loss was noticed while a root ran, and the other nodes had the time to answer.
    fn is_well_inside(&self, lost: &LostNode, wan: Duration) -> bool {
        let noticed = if lost.is_mistaken { lost.at } else { lost.at + SILENCE };
        let decided = noticed + 4 * wan + 10 * MS;
        let is_inside = |&(opened, done): &(Duration, Option<Duration>)| {
            opened + 2 * MS <= noticed && done.is_none_or(|done| decided < done)
        };
        self.spans.iter().any(is_inside)
    }
}

impl Case {
    /// Number of nodes of the tree, which is binomial.
    fn nodes(&self) -> u64 {
        1 << self.teeth
    }

    fn layout(&self) -> Layout {
        let sites = self.sites.iter().enumerate();
        Layout::new(sites.map(|(at, site)| (format!("s{at}"), site.clone())).collect())
    }

    /// Counts the tree in each pool while these nodes are lost.
    fn run(&self, lost: Vec<LostNode>) -> Ran {
        let losses: Arc<Mutex<Vec<ToleratedLoss>>> = Arc::default();
        let spans: Arc<Mutex<Spans>> = Arc::default();
        let (tolerated, noted, case) = (losses.clone(), spans.clone(), self.clone());
        let job = Job::new("comb")
            .search::<Comb>()
            .tasks::<Comb>()
            .stealing(self.policy.parse::<StealingPolicyName>().unwrap())
            .seed(self.seed)
            .recover_tasks_locally(true)
            .on_tolerated_loss(move |loss| tolerated.lock().unwrap().push(loss.clone()));
        let job = job.main(async move |grid| count(&grid, &case, &noted).await);
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
        let report = Simulation::new(job, spec, options).unwrap().run();
        let losses = losses.lock().unwrap().clone();
        let spans = spans.lock().unwrap().clone();
        Ran { report, losses, spans, visits: take_runs().len() }
    }
}

/// Main: counts the tree in several pools.
async fn count(grid: &Grid, case: &Case, spans: &Mutex<Spans>) -> Result<(), JobError> {
    let root = Comb::new(case.teeth, case.cost);
    for number in 0..case.pools {
        let note = async |is_done: bool| {
            let now = Duration::from_nanos(grid.now().await?.0);
            let mut spans = spans.lock().unwrap();
            match spans.last_mut().filter(|_| is_done) {
                Some((_, done)) => *done = Some(now),
                None => spans.push((now, None)),
            }
            Ok::<(), JobError>(())
        };
        let nodes = match case.is_search {
            true => {
                let pool = grid.search_pool::<Comb>().await?;
                note(false).await?;
                let nodes = pool.run(root).await?.0;
                note(true).await?;
                pool.close();
                nodes
            }
            false => {
                let pool = grid.task_pool::<Comb>().await?;
                note(false).await?;
                let nodes = pool.run(root).await?;
                note(true).await?;
                pool.statistics().await?;
                pool.close();
                nodes
            }
        };
        if nodes != case.nodes() {
            return Err(format!("pool {number} counted {nodes} nodes").into());
        }
    }
    Ok(())
}

/// Draws a random case.
fn draw(seed: u64) -> Case {
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
        is_search: below(2) == 0,
        wan: Duration::from_micros(300 + below(6_000)),
        teeth: 10 + below(2) as u32,
        cost: Duration::from_micros(20 + below(200)),
        pools: 1 + (below(4) == 0) as u32,
        has_faults: below(2) == 0,
        sites,
    }
}

/// Asserts that a job has ended with the loss of one of these nodes.
fn assert_lost(ran: &Ran, lost: &[LostNode], about: &dyn std::fmt::Debug) {
    let is_of_these = |node: &NodeId| lost.iter().any(|lost| lost.node == *node);
    match &ran.report.outcome {
        Err(JobError::NodeLost { node, .. }) if is_of_these(node) => {}
        other => panic!("{about:?}: {other:?}"),
    }
}

#[test]
fn the_count_is_exact_whatever_nodes_but_mains_are_lost_while_a_pool_runs() {
    let (mut tolerated, mut mistaken, mut repeated, mut second, mut ended) = (0, 0, 0, 0, 0);
    for seed in 0..150 {
        let case = draw(seed);
        let calm = case.run(Vec::new());
        assert_eq!(calm.report.outcome, Ok(()), "seed {seed}: {case:?}");
        let (opened, done) = calm.span();
        let mut dice = Dice::new(!seed);
        let nodes = case.layout().node_count();
        // At least half of the nodes are left, with main's.
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

        let about = (seed, &case, &lost);
        if ran.report.outcome.is_err() {
            // The job ends if it misses a node while main closes a pool, or opens the next one.
            assert_lost(&ran, &lost, &about);
            let is_inside = lost.iter().all(|lost| ran.is_well_inside(lost, case.wan));
            assert!(!is_inside, "{about:?}: {:?} in {:?}", ran.report.outcome, ran.spans);
            ended += 1;
            continue;
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
        tolerated += named.len();
        second += usize::from(named.len() > 1);
        mistaken += lost.iter().filter(|it| it.is_mistaken && named.contains(&it.node)).count();
        repeated += usize::from(ran.visits > calm.visits);
    }
    println!(
        "{tolerated} losses tolerated, {mistaken} of them mistaken; {second} runs with several"
    );
    println!("{repeated} runs visited more nodes than without losses");
    println!("{ended} ended with the loss");
    assert!(tolerated > 100 && mistaken > 15, "{tolerated}, {mistaken}");
    assert!(second > 20 && repeated > 40 && ended < 30, "{second}, {repeated}, {ended}");
}

/// Four nodes at two sites.
fn four_nodes(is_search: bool) -> Case {
    Case {
        seed: 1,
        policy: "directory",
        is_search,
        sites: vec![vec![1, 2], vec![2, 1]],
        wan: 2 * MS,
        teeth: 12,
        cost: Duration::from_micros(100),
        pools: 1,
        has_faults: false,
    }
}

#[test]
fn the_loss_of_a_node_at_half_time_repeats_a_part_of_the_work() {
    for is_search in [true, false] {
        let case = four_nodes(is_search);
        let (opened, done) = case.run(Vec::new()).span();
        let mut sum = 0.0;
        for node in 1..4 {
            let ran = case.run(vec![LostNode::new(NodeId(node), (opened + done) / 2)]);
            assert_eq!(ran.report.outcome, Ok(()), "node {node}");
            assert_eq!((ran.losses.len(), ran.losses[0].left), (1, 3));
            let factor = ran.visits as f64 / case.nodes() as f64;
            println!("search {is_search}, node {node}: {factor:.2} times the visits");
            assert!(factor < 1.7, "node {node}: {factor}");
            sum += factor;
            let (_, end) = ran.span();
            assert!(end < opened + 3 * (done - opened), "node {node}: {end:?} after {done:?}");
        }
        // A job that begins again at half time visits half of the nodes twice.
        assert!(sum / 3.0 < 1.4, "{sum}");
    }
}

#[test]
fn a_node_that_is_lost_while_the_pool_opens_or_closes_ends_the_job_or_is_not_missed() {
    let case = four_nodes(true);
    let (opened, done) = case.run(Vec::new()).span();
    let wan = case.wan.as_micros() as u64;
    let (mut ended, mut went_on) = (0, 0);
    for step in 0..40 {
        let shift = Duration::from_micros(step * wan / 10);
        for at in [shift, opened.saturating_sub(shift), done.saturating_sub(shift)] {
            let lost = [LostNode::new(NodeId(3), at)];
            let ran = case.run(lost.to_vec());
            match &ran.report.outcome {
                Ok(()) => went_on += 1,
                _ => {
                    assert_lost(&ran, &lost, &at);
                    ended += 1;
                }
            }
        }
    }
    assert!(ended > 5 && went_on > 40, "{ended} ended, {went_on} went on");
}

#[test]
fn the_losses_of_mains_node_and_of_the_coordinators_end_the_job() {
    let case = four_nodes(false);
    let (opened, done) = case.run(Vec::new()).span();
    let lost = [LostNode::new(NodeId(0), (opened + done) / 2)];
    let ran = case.run(lost.to_vec());
    assert_lost(&ran, &lost, &"main's node");
    assert!(ran.losses.is_empty());

    let root = Comb::new(12, Duration::from_micros(100));
    let job = Job::new("comb").tasks::<Comb>().recover_tasks_locally(true).coordinator_on(2);
    let job = job.main(async move |grid| {
        let nodes = grid.run_tasks(root).await?;
        Err(format!("counted {nodes} nodes without the coordinator").into())
    });
    let spec = GridSpec::from_layout(&case.layout()).unwrap();
    let lost = LostNode::new(NodeId(2), (opened + done) / 2);
    let options = SimOptions::default().with_lost_nodes(vec![lost]).with_silence(SILENCE);
    let report = Simulation::new(job, spec, options).unwrap().run();
    assert!(matches!(report.outcome, Err(JobError::NodeLost { .. })), "{:?}", report.outcome);
}

#[test]
fn more_than_half_of_the_nodes_are_not_spared() {
    let case = four_nodes(true);
    let (opened, done) = case.run(Vec::new()).span();
    let third = |node: u32| LostNode::new(NodeId(node), opened + (done - opened) * node / 6);
    let lost = [1, 2, 3].map(third);
    let ran = case.run(lost.to_vec());
    assert_lost(&ran, &lost, &"three of four nodes");
    assert_eq!(ran.losses.len(), 2);
}

#[test]
fn a_job_that_does_not_recover_tasks_ends_with_the_loss() {
    let root = Comb::new(12, Duration::from_micros(100));
    let job = Job::new("comb").search::<Comb>();
    let job = job.main(async move |grid| {
        grid.run_search(root).await?;
        Ok(())
    });
    let case = four_nodes(true);
    let spec = GridSpec::from_layout(&case.layout()).unwrap();
    let lost = LostNode::new(NodeId(3), 20 * MS);
    let options = SimOptions::default().with_lost_nodes(vec![lost]).with_silence(SILENCE);
    let report = Simulation::new(job, spec, options).unwrap().run();
    let is_loss = matches!(report.outcome, Err(JobError::NodeLost { node: NodeId(3), .. }));
    assert!(is_loss, "{:?}", report.outcome);
}

/// What main does when it has counted the tree without node 3.
#[derive(Clone, Copy, Debug)]
enum Then {
    Quiescence,
    Publish,
    RunThere,
    Actors,
    Progress,
    AnotherPool,
}

#[derive(Serialize, Deserialize)]
struct Idle;

impl gridspan_runtime::Actor for Idle {
    type Index = gridspan_runtime::Ix1;
    type Init = ();
    type Message = ();

    fn create((): (), _: &mut gridspan_runtime::Context<'_, Self>) -> Self {
        Self
    }

    fn handle(&mut self, (): (), _: &mut gridspan_runtime::Context<'_, Self>) {}
}

async fn act(grid: &Grid, then: Then, case: &Case) -> Result<(), JobError> {
    let root = Comb::new(case.teeth, case.cost);
    let pool = grid.task_pool::<Comb>().await?;
    let nodes = pool.run(root).await?;
    match then {
        Then::Quiescence => grid.quiescence().await?,
        Then::Publish => grid.publish(&7_u32).await.map(drop)?,
        Then::RunThere => pool.run_on(PeId(5), root).await.map(drop)?,
        Then::Actors => {
            drop(grid.create::<Idle>(gridspan_runtime::Ix1::range(4), |_| ()).await?);
        }
        Then::Progress => {
            pool.close();
            for step in 0..3_u32 {
                grid.progress(&step).await?;
            }
        }
        Then::AnotherPool => {
            pool.close();
            let again = grid.run_tasks(root).await?;
            assert_eq!(again, nodes);
        }
    }
    assert_eq!(nodes, case.nodes());
    Ok(())
}

#[test]
fn what_needs_a_lost_node_ends_the_job_with_the_loss_and_everything_else_goes_on() {
    let case = four_nodes(false);
    let (opened, done) = case.run(Vec::new()).span();
    for (then, goes_on) in [
        (Then::Quiescence, false),
        (Then::Publish, false),
        (Then::RunThere, false),
        (Then::Actors, false),
        (Then::Progress, true),
        (Then::AnotherPool, true),
    ] {
        let main_case = case.clone();
        let job = Job::new("comb")
            .tasks::<Comb>()
            .actor::<Idle>()
            .seed(case.seed)
            .recover_tasks_locally(true)
            .checkpoints(Checkpoints::every(CheckpointEvery::Points(1)))
            .restartable_main(async move |grid| act(&grid, then, &main_case).await);
        let spec = GridSpec::from_layout(&case.layout()).unwrap();
        let lost = LostNode::new(NodeId(3), (opened + done) / 2);
        let options = SimOptions::default().with_lost_nodes(vec![lost]).with_silence(SILENCE);
        let report = Simulation::new(job, spec, options).unwrap().run();
        match goes_on {
            true => assert_eq!(report.outcome, Ok(()), "{then:?}"),
            false => {
                let is_loss =
                    matches!(report.outcome, Err(JobError::NodeLost { node: NodeId(3), .. }));
                assert!(is_loss, "{then:?}: {:?}", report.outcome);
            }
        }
    }
}

#[derive(Default, Serialize, Deserialize)]
struct Best(i64);

impl Merge for Best {
    fn merge(&mut self, other: Self) {
        self.0 = self.0.max(other.0);
    }
}

/// A path that prunes by the best length that is known.
#[derive(Serialize, Deserialize)]
struct Path {
    length: i64,
    rest: u32,
}

impl Search for Path {
    type Total = Best;

    const GOAL: Goal = Goal::Maximise;

    fn visit(self, cx: &mut SearchContext<'_, Self>) {
        cx.charge(Duration::from_micros(100));
        cx.total().merge(Best(self.length));
        cx.improve(self.length);
        let most = self.length + 3 * i64::from(self.rest);
        if self.rest > 0 && cx.bound().is_none_or(|best| most > best) {
            // The shorter one is visited first, so that the best path is found late.
            for step in [3, 1] {
                cx.spawn(Self { length: self.length + step, rest: self.rest - 1 });
            }
        }
    }
}

#[test]
fn tasks_that_share_a_bound_are_not_repeated_by_others() {
    let job = Job::new("paths").search::<Path>().recover_tasks_locally(true);
    let job = job.main(async |grid| {
        let best = grid.run_search(Path { length: 0, rest: 16 }).await?;
        if best.0 == 48 { Ok(()) } else { Err(format!("{} is not 48", best.0).into()) }
    });
    let case = four_nodes(true);
    let spec = GridSpec::from_layout(&case.layout()).unwrap();
    let lost = LostNode::new(NodeId(3), 10 * MS);
    let options = SimOptions::default().with_lost_nodes(vec![lost]).with_silence(MS);
    let report = Simulation::new(job, spec, options).unwrap().run();
    let is_loss = matches!(report.outcome, Err(JobError::NodeLost { node: NodeId(3), .. }));
    assert!(is_loss, "{:?}", report.outcome);
}

/// A path of which only the longest one is offered to the others, when it is complete.
#[derive(Serialize, Deserialize)]
struct Longest {
    length: i64,
    rest: u32,
}

impl Longest {
    const STEPS: u32 = 11;
    /// The length of a path of steps of 3.
    const BEST: i64 = 33;
}

impl Search for Longest {
    type Total = Best;

    const GOAL: Goal = Goal::Maximise;

    fn visit(self, cx: &mut SearchContext<'_, Self>) {
        cx.charge(Duration::from_micros(100));
        if self.rest == 0 {
            cx.total().merge(Best(self.length));
            if self.length == Self::BEST {
                cx.improve(self.length);
            }
            return;
        }
        let most = self.length + 3 * i64::from(self.rest);
        if cx.bound().is_none_or(|best| most > best) {
            // The longest one is below the oldest tasks, which other nodes take.
            for step in [3, 1] {
                cx.spawn(Self { length: self.length + step, rest: self.rest - 1 });
            }
        }
    }
}

#[test]
fn the_best_value_is_in_the_total_though_its_finder_works_for_a_lost_node() {
    let case = four_nodes(true);
    let mut went_on = 0;
    for (seed, node, at) in (0..2_u64)
        .flat_map(|seed| (1..4_u32).map(move |node| (seed, node)))
        .flat_map(|(seed, node)| (4..64_u32).step_by(2).map(move |at| (seed, node, at)))
    {
        let job = Job::new("paths").search::<Longest>().seed(seed).recover_tasks_locally(true);
        let job = job.main(async |grid| {
            let best = grid.run_search(Longest { length: 0, rest: Longest::STEPS }).await?;
            match best.0 {
                Longest::BEST => Ok(()),
                other => Err(format!("{other} is not {}", Longest::BEST).into()),
            }
        });
        let spec = GridSpec::from_layout(&case.layout()).unwrap();
        let lost = LostNode::new(NodeId(node), at * MS);
        let options = SimOptions::with_seed(seed).with_lost_nodes(vec![lost]).with_silence(MS);
        match Simulation::new(job, spec, options).unwrap().run().outcome {
            Ok(()) => went_on += 1,
            Err(JobError::NodeLost { node: lost, .. }) if lost == NodeId(node) => {}
            Err(other) => panic!("seed {seed}, node {node} at {at} ms: {other}"),
        }
    }
    assert!(went_on > 20, "{went_on} of 180 went on");
}

/// A task whose children are roots of the pool of combs.
#[derive(Serialize, Deserialize)]
struct Caller {
    combs: gridspan_runtime::TaskPoolRef<Comb>,
    calls: u32,
}

impl Task for Caller {
    type Output = u64;
    type Join = u64;

    fn run(self, cx: &mut TaskContext<'_, Self>) -> Step<Self> {
        cx.charge(Duration::from_micros(100));
        match self.calls {
            0 => {
                cx.spawn_in(self.combs, Comb::new(4, Duration::from_micros(50)), |nodes| nodes);
            }
            calls => {
                for _ in 0..2 {
                    cx.spawn(Self { combs: self.combs, calls: calls - 1 });
                }
            }
        }
        Step::Sync(0)
    }

    fn collect(sum: &mut u64, _child: u32, output: u64) {
        *sum += output;
    }

    fn joined(sum: u64, _cx: &mut TaskContext<'_, Self>) -> Step<Self> {
        Step::Done(sum)
    }
}

#[test]
fn a_loss_among_pools_that_call_each_other_is_tolerated_or_ends_the_run() {
    for (node, at) in [(1, 4), (2, 7), (3, 10), (1, 15), (2, 20), (3, 30), (1, 40), (2, 50)] {
        let job = Job::new("calls").tasks::<Caller>().tasks::<Comb>().recover_tasks_locally(true);
        let job = job.main(async |grid| {
            let pool = grid.task_pool::<Comb>().await?;
            let callers = grid.task_pool::<Caller>().await?;
            let nodes = callers.run(Caller { combs: pool.reference(), calls: 7 }).await?;
            assert_eq!(nodes, (1 << 7) * (1 << 4));
            Ok(())
        });
        let case = four_nodes(true);
        let spec = GridSpec::from_layout(&case.layout()).unwrap();
        let lost = LostNode::new(NodeId(node), at * MS);
        let options = SimOptions::default().with_lost_nodes(vec![lost]).with_silence(MS);
        let outcome = Simulation::new(job, spec, options).unwrap().run().outcome;
        let is_loss = matches!(outcome, Err(JobError::NodeLost { .. }));
        assert!(outcome.is_ok() || is_loss, "node {node} at {at} ms: {outcome:?}");
    }
}
