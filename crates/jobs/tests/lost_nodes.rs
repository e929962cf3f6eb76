//! Jobs of tasks go on without a lost node: each compares its result, such as the optimum of a
//! branch and bound, with a known one.
#![allow(clippy::unwrap_used)]

mod common;

use common::built_in;
use gridspan_runtime::{Job, JobError, NodeId};
use gridspan_sim::{LostNode, SimOptions, SimReport, Simulation};
use gridspan_topology::GridSpec;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// Four nodes with one PE each.
const SITES: &str = "2x2x1,wan=1ms";

fn run(job: Job, lost: Vec<LostNode>) -> SimReport {
    let spec = GridSpec::from_emulate(SITES).unwrap();
    let silence = Duration::from_millis(1);
    let options = SimOptions::default().with_lost_nodes(lost).with_silence(silence);
    Simulation::new(job, spec, options).unwrap().run()
}

/// Runs a job once for each node but main's and each of two times, and loses that node at that
/// time. Returns the number of losses that the job tolerated.
fn lose(name: &str, words: &str) -> usize {
    let calm = run(built_in(name, words), Vec::new());
    assert_eq!(calm.outcome, Ok(()), "{name}");
    let took = Duration::from_nanos(calm.virtual_time.0);
    let tolerated = Arc::new(AtomicUsize::new(0));
    for (node, part) in (1..4).flat_map(|node| [0.3, 0.6].map(|part| (NodeId(node), part))) {
        let told = tolerated.clone();
        let job = built_in(name, words)
            .recover_tasks_locally(true)
            .on_tolerated_loss(move |_| _ = told.fetch_add(1, Ordering::Relaxed));
        let lost = LostNode::new(node, took.mul_f64(part));
        match run(job, vec![lost]).outcome {
            Ok(()) => {}
            // The opening and the closing of the pool need all nodes.
            Err(JobError::NodeLost { node: lost, .. }) if lost == node => {}
            Err(other) => panic!("{name} without {node} after {part} of its time: {other}"),
        }
    }
    tolerated.load(Ordering::Relaxed)
}

#[test]
fn the_optima_of_branch_and_bound_are_found_without_a_lost_node() {
    let (tours, knapsacks) = (lose("tsp", ""), lose("knapsack", "--items 30"));
    println!("tolerated: {tours} losses in tsp, {knapsacks} in knapsack");
    assert!(tours > 0, "no loss of tsp was tolerated");
}

#[test]
fn jobs_without_a_bound_have_their_results_without_a_lost_node() {
    for (name, words) in
        [("fib", "-n 16"), ("queens", "-n 8 --grain 4"), ("mandelbrot", "--size 64 --steps 200")]
    {
        println!("tolerated: {} losses in {name}", lose(name, words));
    }
}
