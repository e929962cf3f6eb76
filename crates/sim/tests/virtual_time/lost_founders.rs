//! Losses of founders while a job has only a pool of tasks: the other nodes repeat the lost tasks,
//! and the count of the tree is exact. A job that needs the lost node ends with the loss.

use crate::common::comb::Comb;
use crate::common::losses::{Case, Outcomes, Purpose, SILENCE, assert_lost, draw, four_nodes};
use gridspan_runtime::{
    CheckpointEvery, Checkpoints, Grid, Job, JobError, NodeId, PeId, Step, Task, TaskContext,
    Warning,
};
use gridspan_sim::{LostNode, SimError, SimOptions, Simulation};
use gridspan_topology::GridSpec;
use serde::{Deserialize, Serialize};
use std::time::Duration;

const MS: Duration = Duration::from_millis(1);

#[test]
fn the_count_is_exact_whatever_nodes_but_mains_are_lost_while_a_pool_runs() {
    let mut outcomes = Outcomes::default();
    (0..150).for_each(|seed| outcomes.lose(&draw(seed)));
    println!("{outcomes:?}");
    let Outcomes { tolerated, mistaken, several, repeated, ended } = outcomes;
    assert!(tolerated > 100 && mistaken > 15, "{tolerated}, {mistaken}");
    assert!(several > 20 && repeated > 40 && ended < 30, "{several}, {repeated}, {ended}");
}

#[test]
fn the_loss_of_a_node_at_half_time_repeats_a_part_of_the_work() {
    for purpose in [Purpose::CountBySearch, Purpose::CountByTasks] {
        let case = four_nodes(purpose);
        let (opened, done) = case.run(Vec::new()).span();
        let mut sum = 0.0;
        for node in 1..4 {
            let ran = case.run(vec![LostNode::new(NodeId(node), (opened + done) / 2)]);
            assert_eq!(ran.report.outcome, Ok(()), "node {node}");
            assert_eq!((ran.losses.len(), ran.losses[0].left), (1, 3));
            let factor = ran.visits as f64 / case.nodes() as f64;
            println!("{purpose:?}, node {node}: {factor:.2} times the visits");
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
fn without_a_log_the_loss_of_a_node_with_tasks_ends_the_job_with_a_warning() {
    let case = Case { log_bytes: 0, ..four_nodes(Purpose::CountByTasks) };
    let (opened, done) = case.run(Vec::new()).span();
    let mut ended = 0;
    for (node, eighths) in [(1, 3), (2, 3), (3, 3), (1, 4), (2, 4), (3, 4)] {
        let lost = [LostNode::new(NodeId(node), opened + (done - opened) * eighths / 8)];
        let ran = case.run(lost.to_vec());
        if ran.report.outcome.is_ok() {
            // It had no tasks.
            assert!(ran.not_kept.is_empty(), "node {node}: {:?}", ran.not_kept);
            continue;
        }
        assert_lost(&ran, &lost, &node);
        assert!(ran.losses.is_empty(), "node {node}: {:?}", ran.losses);
        let [Warning::LoansNotKept { node: named, .. }] = &ran.not_kept[..] else {
            panic!("node {node}: {:?}", ran.not_kept)
        };
        assert_eq!(*named, NodeId(node));
        ended += 1;
    }
    assert!(ended >= 3, "{ended}");
}

#[test]
fn with_a_small_log_the_count_is_exact_or_the_job_ends_with_the_loss() {
    let (mut ended, mut went_on) = (0, 0);
    for seed in 0..60 {
        // A loan takes some hundred bytes.
        let log_bytes = [0, 400, 2_000, 1 << 20][seed as usize % 4];
        let case = Case { log_bytes, ..draw(seed) };
        let (opened, done) = case.run(Vec::new()).span();
        let lost = [LostNode::new(NodeId(1), (opened + done) / 2)];

        let ran = case.run(lost.to_vec());

        let about = (seed, &case);
        match &ran.report.outcome {
            Ok(()) => {
                assert!(ran.not_kept.is_empty(), "{about:?}: {:?}", ran.not_kept);
                went_on += 1;
            }
            _ => {
                assert_lost(&ran, &lost, &about);
                let is_large = log_bytes == 1 << 20;
                assert!(ran.not_kept.len() <= usize::from(!is_large), "{about:?}");
                ended += ran.not_kept.len();
            }
        }
    }
    assert!(ended > 0 && went_on > 0, "{ended} ended, {went_on} went on");
}

#[test]
fn a_node_that_is_lost_while_the_pool_opens_or_closes_ends_the_job_or_is_not_missed() {
    let case = four_nodes(Purpose::CountBySearch);
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
    let case = four_nodes(Purpose::CountByTasks);
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
    let case = four_nodes(Purpose::CountBySearch);
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
    let case = four_nodes(Purpose::CountBySearch);
    let spec = GridSpec::from_layout(&case.layout()).unwrap();
    let lost = LostNode::new(NodeId(3), 20 * MS);
    let options = SimOptions::default().with_lost_nodes(vec![lost]).with_silence(SILENCE);
    let report = Simulation::new(job, spec, options).unwrap().run();
    let is_loss = matches!(report.outcome, Err(JobError::NodeLost { node: NodeId(3), .. }));
    assert!(is_loss, "{:?}", report.outcome);
}

#[test]
fn a_job_that_loses_all_its_nodes_ends_with_a_loss() {
    for nodes in [1, 2] {
        let job = Job::new("pause").main(async |grid: Grid| {
            grid.sleep(Duration::from_secs(9)).await?;
            Ok(())
        });
        let spec = GridSpec::from_emulate(&format!("1x{nodes}")).unwrap();
        let lost = (0..nodes).map(|node| LostNode::new(NodeId(node), MS)).collect();
        let options = SimOptions::default().with_lost_nodes(lost);
        let outcome = Simulation::new(job, spec, options).unwrap().run().outcome;
        assert!(matches!(outcome, Err(JobError::NodeLost { .. })), "{nodes}: {outcome:?}");
    }
}

#[test]
fn the_loss_of_a_node_that_the_grid_does_not_have_is_refused() {
    let job = Job::new("empty").main(async |_| Ok::<(), JobError>(()));
    let spec = GridSpec::from_layout(&four_nodes(Purpose::CountBySearch).layout()).unwrap();
    let lost = [3, 4].map(|node| LostNode::new(NodeId(node), MS));
    let options = SimOptions::default().with_lost_nodes(lost.to_vec());
    let refusal = Simulation::new(job, spec, options).err();
    assert_eq!(refusal, Some(SimError::NoSuchNode { node: NodeId(4) }));
}

/// What main does after it has counted the tree without node 3.
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
    let case = four_nodes(Purpose::CountByTasks);
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

/// A node of a binary tree of tasks. Each leaf of the tree starts a root in the pool of combs.
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
        let case = four_nodes(Purpose::CountBySearch);
        let spec = GridSpec::from_layout(&case.layout()).unwrap();
        let lost = LostNode::new(NodeId(node), at * MS);
        let options = SimOptions::default().with_lost_nodes(vec![lost]).with_silence(MS);
        let outcome = Simulation::new(job, spec, options).unwrap().run().outcome;
        let is_loss = matches!(outcome, Err(JobError::NodeLost { .. }));
        assert!(outcome.is_ok() || is_loss, "node {node} at {at} ms: {outcome:?}");
    }
}
