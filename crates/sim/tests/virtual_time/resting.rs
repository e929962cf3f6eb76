//! Nodes of the layout that are about to leave while a job has only pools of tasks: they give their
//! tasks back. No task is lost or counted twice, also if such a node is lost meanwhile.

use crate::common::comb::{Comb, Run, take_runs};
use crate::common::losses::{Case, Purpose, Ran, assert_lost, draw};
use gridspan_runtime::{Grid, Job, Layout, NodeId};
use gridspan_sim::{LostNode, SimOptions, Simulation};
use gridspan_topology::dice::Dice;
use gridspan_topology::{GridSpec, Time};
use std::time::Duration;

const MS: Duration = Duration::from_millis(1);

/// A random case with a longer job, a node that leaves, and when it is asked to.
fn draw_leaving(seed: u64) -> (Case, Ran, Duration, NodeId) {
    let purpose = match seed % 4 {
        0 => Purpose::CountBySearch,
        1 => Purpose::CountByTasks,
        2 => Purpose::BestBySearch,
        _ => Purpose::BestByTasks,
    };
    let case = Case { purpose, teeth: 12, ..draw(seed) };
    let calm = case.run(Vec::new());
    assert_eq!(calm.report.outcome, Ok(()), "seed {seed}: {case:?}");
    let (opened, done) = calm.span();
    let mut dice = Dice::new(!seed);
    let at = opened + (done - opened) * (1 + dice.below(4_u32)) / 8;
    let node = NodeId(1 + dice.below(case.layout().node_count() - 1));
    (case, calm, at, node)
}

/// Number of runs on a node after that time.
fn runs_there(runs: &[Run], layout: &Layout, node: NodeId, after: Duration) -> usize {
    let is_there =
        |run: &&Run| layout.node_of(run.pe) == node && Duration::from_nanos(run.ns) > after;
    runs.iter().filter(is_there).count()
}

#[test]
fn a_node_that_is_about_to_leave_begins_no_task_and_each_task_counts_once() {
    let (mut busy, mut tolerated) = (0, 0);
    for seed in 0..60 {
        let (case, calm, at, node) = draw_leaving(seed);
        let ran = case.run_while_leaving(Vec::new(), Some((at, node)));

        // Main has checked the result.
        assert_eq!(ran.report.outcome, Ok(()), "seed {seed}: {case:?}");
        assert!(ran.losses.is_empty(), "seed {seed}: {:?}", ran.losses);
        let (layout, known) = (case.layout(), at + 2 * case.wan + 8 * MS);
        assert_eq!(runs_there(&ran.runs, &layout, node, known), 0, "seed {seed}: {case:?}");
        busy += usize::from(runs_there(&calm.runs, &layout, node, known) > 0);
        // Between sites, backups repeat tasks.
        if case.sites.len() == 1 && seed % 4 < 2 {
            let nodes = case.nodes() * u64::from(case.pools);
            assert_eq!(ran.visits as u64, nodes, "seed {seed}: {case:?}");
        }

        // The same, and that node or another one is lost.
        let mut dice = Dice::new(seed);
        let others: Vec<NodeId> = layout.nodes().skip(1).collect();
        let of_lost = if seed % 3 == 0 { others[dice.below(others.len())] } else { node };
        let left = calm.span().1.saturating_sub(at);
        let lost = LostNode::new(of_lost, at + left * dice.below(64_u32) / 64);
        let lost = if dice.below(4_u32) == 0 { lost.mistaken() } else { lost };
        let ran = case.run_while_leaving(vec![lost], Some((at, node)));
        let about = (seed, &case, &lost, at, node);
        tolerated += ran.losses.len();
        if ran.report.outcome.is_err() {
            assert_lost(&ran, &[lost], &about);
            assert!(!ran.is_well_inside(&lost, case.wan), "{about:?}: {:?}", ran.spans);
        }
    }
    assert!(busy >= 5 && tolerated > 20, "{busy} would have gone on, {tolerated} losses");
}

const TASKS: u64 = 1000;

/// Runs a stream of independent tasks at one site. The last node is lost. Returns all runs.
fn stream(leaves: Option<Duration>, lost: Duration) -> (Vec<Run>, Layout) {
    let job = Job::new("stream").tasks::<Comb>().recover_tasks_locally(true);
    let job = job.main(async |grid: Grid| {
        let pool = grid.task_pool::<Comb>().await?;
        let mut stream = pool.stream((0..TASKS).map(|_| Comb::new(0, 2 * MS)));
        let mut outputs = 0;
        while let Some(next) = stream.next().await {
            let (_, output) = next?;
            outputs += output;
        }
        pool.close();
        match outputs {
            TASKS => Ok(()),
            _ => Err(format!("{outputs} outputs").into()),
        }
    });
    let layout = Layout::new(vec![("s".to_owned(), vec![2, 2, 1, 2])]);
    let spec = GridSpec::from_layout(&layout).unwrap();
    let lost = LostNode::new(NodeId(3), lost);
    let options = SimOptions::default().with_lost_nodes(vec![lost]).with_silence(5 * MS);
    take_runs();
    // At an endless time the job has ended.
    let at = leaves.map_or(Time::MAX, |at| Time::ZERO + at);
    let simulation = Simulation::new(job, spec, options).unwrap().pausing_at(at, vec![NodeId(3)]);
    assert_eq!(simulation.run().outcome, Ok(()));
    (take_runs(), layout)
}

#[test]
fn the_loss_of_a_node_that_has_given_its_tasks_back_repeats_nothing() {
    let (leaves, lost) = (80 * MS, 160 * MS);
    let (runs, layout) = stream(Some(leaves), lost);
    assert_eq!(runs.len() as u64, TASKS);
    assert_eq!(runs_there(&runs, &layout, NodeId(3), leaves + 10 * MS), 0);
    assert!(runs_there(&runs, &layout, NodeId(3), Duration::ZERO) > 5);

    let (runs, _) = stream(None, lost);
    assert!(runs.len() as u64 > TASKS, "a node that works loses the tasks that it runs");
}
