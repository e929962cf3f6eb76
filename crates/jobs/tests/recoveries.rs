//! Jobs with progress points go on from their last checkpoint without a node that is lost, and
//! their results are those of a run in which nothing fails. Each job compares its result with a
//! known one; that of finite elements is compared bit by bit here.
#![allow(missing_docs, clippy::unwrap_used)]

mod common;

use clap::Parser;
use common::built_in;
use gridspan_jobs::fem::job::{FemOptions, FemOutcome, job_with};
use gridspan_runtime::{
    CheckpointEvery, CheckpointStore, Checkpoints, Image, Job, NodeId, RestorePlan, Time,
};
use gridspan_sim::{SimOptions, SimReport, Simulation};
use gridspan_topology::GridSpec;
use std::sync::mpsc::channel;

/// Two sites of two nodes with one PE each.
const FOUR_NODES: &str = "2x2x1,wan=4ms";

/// The nodes that are lost, each with the part of its time that the job has run by then.
const LOSSES: [(usize, u64); 2] = [(1, 50), (0, 90)];

/// A job with a checkpoint at each progress point.
fn checkpointed(job: Job) -> Job {
    job.checkpoints(Checkpoints::every(CheckpointEvery::Points(1)))
}

fn start(job: Job) -> Simulation {
    let spec = GridSpec::from_emulate(FOUR_NODES).unwrap();
    Simulation::new(job, spec, SimOptions::with_seed(7)).unwrap()
}

/// Lets a job go on without a node of [`FOUR_NODES`], or begin again if it has made no checkpoint.
/// Returns whether it goes on from one, too.
fn recovered(job: Job, lost: usize, stores: &[CheckpointStore]) -> (bool, SimReport) {
    let spec = GridSpec::from_emulate(FOUR_NODES).unwrap();
    let spec = spec.without(&[NodeId(lost as u32)]).unwrap();
    let options = SimOptions::with_seed(107);
    let left = stores.iter().enumerate().filter(|(node, _)| *node != lost);
    let Some(image) = Image::gathered(left.map(|(_, store)| store)).unwrap() else {
        return (false, Simulation::new(job, spec, options).unwrap().run());
    };
    let successor =
        |node: usize| (node != lost).then(|| NodeId((node - usize::from(node > lost)) as u32));
    let nodes: Vec<Option<NodeId>> = (0..stores.len()).map(successor).collect();
    // The other node of the site has the copies.
    let holders: Vec<_> = nodes.iter().map(|node| node.or(nodes[lost ^ 1])).collect();
    let plan = RestorePlan::recovery(&image, &spec, &nodes, &holders).unwrap();
    (true, Simulation::restored(job, spec, options, (image, plan)).unwrap().run())
}

/// Runs a job to its end, and then once for each of the [`LOSSES`].
fn lose(name: &str, make: impl Fn() -> Job) {
    let calm = start(checkpointed(make())).run();
    assert_eq!(calm.outcome, Ok(()), "{name}");
    let mut from_checkpoints = 0;
    for (lost, percent) in LOSSES {
        let at = Time(calm.virtual_time.0 / 100 * percent);
        let Ok(halted) = start(checkpointed(make())).run_until(at) else {
            panic!("{name} has ended after {percent} % of its time")
        };

        let (is_from_checkpoint, again) = recovered(checkpointed(make()), lost, &halted.stores);

        assert_eq!(again.outcome, Ok(()), "{name} without node {lost} after {percent} %");
        from_checkpoints += u32::from(is_from_checkpoint);
    }
    assert!(from_checkpoints > 0, "{name} has always begun again");
}

#[test]
fn meshes_and_particles_have_their_results_after_a_loss() {
    for (name, words) in [
        ("stencil", "-n 50 --blocks 4 --iterations 60 --report-every 5"),
        ("pic", "--cells 40 --particles 3000 --steps 40 --blocks 5 --report-every 4"),
    ] {
        lose(name, || built_in(name, words));
    }
}

#[test]
fn nas_kernels_have_the_published_values_after_a_loss() {
    for kernel in ["ep", "is", "mg", "ft"] {
        let words = format!("{kernel} --class S --ranks 4 --migrate-every 1");
        lose(kernel, || built_in("nas", &words));
    }
}

/// Numbers that change if any bit of the solution changes.
fn bits(outcome: &FemOutcome) -> [u64; 3] {
    [outcome.error.to_bits(), outcome.residual.to_bits(), outcome.steps.into()]
}

#[test]
fn finite_elements_have_the_same_bits_after_a_loss() {
    let (tell, told) = channel();
    let words = "fem --size 16 --ranks 6 --compute 100us --migrate-every 6";
    lose("fem", || {
        let tell = tell.clone();
        let options = FemOptions::try_parse_from(words.split(' ')).unwrap();
        job_with(options, move |outcome| {
            tell.send(bits(outcome)).map_err(|_| "nothing listens".into())
        })
    });

    let all: Vec<[u64; 3]> = told.try_iter().collect();
    assert_eq!(all, [all[0]; 1 + LOSSES.len()]);
}
