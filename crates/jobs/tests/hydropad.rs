//! Hydropad by single calls and as a group: the same bits, also after a loss, and little data
//! through the client.
#![allow(missing_docs, clippy::unwrap_used)]

mod common;

use common::{SITES, built_in, emulated, everywhere, simulate};
use gridspan_jobs::hydropad::functions::Hydropad;
use gridspan_jobs::hydropad::grouped::{self, InitialState};
use gridspan_jobs::hydropad::job::serve;
use gridspan_kernels::hydropad::clock::HydroRun;
use gridspan_kernels::hydropad::problem::Problem;
use gridspan_rpc::calls::{RpcError, with_rpc};
use gridspan_rpc::group::Mapper;
use gridspan_runtime::driver::embedded;
use gridspan_runtime::{
    CheckpointEvery, CheckpointStore, Checkpoints, Grid, Image, Job, NodeId, RestorePlan, Time,
};
use gridspan_sim::{SimOptions, SimReport, Simulation};
use gridspan_topology::GridSpec;
use gridspan_workflow::heuristics::HeftC;
use std::sync::mpsc;

#[test]
fn all_forms_agree_bit_for_bit_under_every_driver() {
    everywhere(|| built_in("hydropad", "-n 10 --steps 7 --window 3 --form all"));
}

#[test]
fn any_heuristic_and_any_speeds_give_the_same_bits() {
    for heuristic in ["greedy", "heft", "portfolio", "random"] {
        let words = format!(
            "-n 10 --steps 5 --window 2 --form all --start sent --heuristic {heuristic} --speeds 0.5,2,1"
        );
        simulate(built_in("hydropad", &words), SITES).outcome.unwrap();
    }
}

#[test]
fn a_run_to_the_final_scale_factor_is_verified() {
    let words = "-n 12 --particles 16 --steps 500 --window 20 --form group";
    simulate(built_in("hydropad", words), "1x3").outcome.unwrap();
}

/// Returns the bytes that a client sends and receives, if it is alone in its site and two servers
/// are in another.
fn client_bytes(words: &str) -> u64 {
    let place = "site.client.hosts = ['c']\nsite.servers.hosts = ['s1', 's2']";
    let spec = GridSpec::from_toml(place).unwrap();
    let job = built_in("hydropad", words);
    let report = Simulation::new(job, spec, SimOptions::default()).unwrap().run();
    assert_eq!(report.outcome, Ok(()));
    report.wide_area_bytes
}

#[test]
fn the_data_of_a_group_does_not_go_through_the_client() {
    let cells = 16_u64.pow(3);

    let plain = client_bytes("-n 16 --steps 11 --form plain");
    let sent = client_bytes("-n 16 --steps 11 --form group --start sent");
    let made = client_bytes("-n 16 --steps 11 --form group --start made");

    // A step of plain calls moves 18 numbers for each cell and 12 for each particle; an initial
    // state has 7 and 6.
    assert!(plain > 11 * 30 * 8 * cells, "{plain}");
    assert!(sent < 13 * 8 * cells + 50_000, "{sent}");
    assert!(made < 50_000, "{made}");
}

#[test]
fn the_memory_of_the_client_of_a_group_does_not_grow_with_the_steps() {
    let (tell, told) = mpsc::channel();
    // The problem begins earlier than the others, so that it takes more steps.
    let problem = Problem { begins_at: 0.02, ..Problem::cube(12, 12) };
    let plan = HydroRun { problem, steps: 60, window: 5 };
    let job = with_rpc::<Hydropad>(Job::new("hydropad")).main(async move |grid: Grid| {
        let failed = |error: RpcError| error.to_string();
        let services = serve(&grid, &[1.0, 1.0]).await.map_err(failed)?;
        let mapper = Mapper::new(&services);
        let outcome =
            grouped::run(&grid, &mapper, &HeftC::default(), &plan, InitialState::Sent).await;
        tell.send(outcome.map_err(failed)?).map_err(|error| error.to_string())?;
        Ok(())
    });
    let report = Simulation::new(job, GridSpec::single(3), SimOptions::default()).unwrap().run();
    assert_eq!(report.outcome, Ok(()));
    let outcome = told.recv().unwrap();

    let (first, later) = outcome.held_bytes.split_first().unwrap();
    assert!(outcome.steps() >= 50 && later.len() >= 10, "{}", outcome.steps());
    // The initial state has thirteen numbers per cell, and a step a few numbers in total.
    assert!(*first > 13 * 8 * 12_u64.pow(3), "{first}");
    assert!(later.iter().all(|&held| held == later[0] && held < 5_000), "{later:?}");
}

#[test]
fn gaps_between_particles_are_refused_with_advice() {
    let job = built_in("hydropad", "-n 12 --particles 6");
    let error = embedded::run(job, 1).unwrap_err().to_string();
    assert!(error.contains("use at least as many"), "{error}");
    assert!(emulated(built_in("hydropad", "-n 10 --steps 0"), "2x1,wan=1ms").is_ok());
}

/// Two sites of two nodes with one PE each.
const FOUR_NODES: &str = "2x2x1,wan=1ms";

/// All forms, with a checkpoint at each progress point.
fn checkpointed() -> Job {
    let words = "-n 16 --steps 11 --window 1 --form all";
    let checkpoints = Checkpoints::every(CheckpointEvery::Points(1));
    built_in("hydropad", words).checkpoints(checkpoints)
}

/// Lets the job go on from its last checkpoint without a node of [`FOUR_NODES`]. Returns the number
/// of the checkpoint too.
fn recovered(lost: usize, stores: &[CheckpointStore]) -> (u64, SimReport) {
    let left = stores.iter().enumerate().filter(|(node, _)| *node != lost);
    let image = Image::gathered(left.map(|(_, store)| store)).unwrap().expect("a checkpoint");
    let number = image.number();
    let spec = GridSpec::from_emulate(FOUR_NODES).unwrap();
    let spec = spec.without(&[NodeId(lost as u32)]).unwrap();
    let successor =
        |node: usize| (node != lost).then(|| NodeId((node - usize::from(node > lost)) as u32));
    let nodes: Vec<Option<NodeId>> = (0..stores.len()).map(successor).collect();
    // The other node of the site has the copies.
    let holders: Vec<_> = nodes.iter().map(|node| node.or(nodes[lost ^ 1])).collect();
    let plan = RestorePlan::recovery(&image, &spec, &nodes, &holders).unwrap();
    let options = SimOptions::with_seed(107);
    let again = Simulation::restored(checkpointed(), spec, options, (image, plan)).unwrap();
    (number, again.run())
}

#[test]
fn all_forms_agree_bit_for_bit_without_a_node_that_is_lost() {
    let calm = simulate(checkpointed(), FOUR_NODES);
    assert_eq!(calm.outcome, Ok(()));
    let took_ns = calm.virtual_time.0;
    let mut within_the_group = 0;

    for (lost, percent) in [(1, 40), (0, 60), (2, 80), (3, 90), (0, 97)] {
        let spec = GridSpec::from_emulate(FOUR_NODES).unwrap();
        let first = Simulation::new(checkpointed(), spec, SimOptions::with_seed(7)).unwrap();
        let Ok(halted) = first.run_until(Time(took_ns / 100 * percent)) else {
            panic!("the job has ended after {percent} % of its time")
        };
        let (number, again) = recovered(lost, &halted.stores);

        assert_eq!(again.outcome, Ok(()), "without node {lost} after {percent} %");
        // The first two checkpoints come after the serial and the plain form.
        if number > 2 {
            within_the_group += 1;
            // Neither these forms nor the first windows are repeated.
            let (again_ns, rest) = (again.virtual_time.0, 100 - percent);
            assert!(again_ns < took_ns / 100 * (rest + 30), "{again_ns} of {took_ns} ns");
        }
    }

    assert!(within_the_group > 0, "no loss was within the group");
}
