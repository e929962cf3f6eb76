//! Hydropad by single calls and as a group: the same bits, and little data through the client.
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
use gridspan_runtime::{Grid, Job};
use gridspan_sim::{SimOptions, Simulation};
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
