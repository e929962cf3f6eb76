//! Actors with replicas in checkpoints: the replicas end before a checkpoint, and begin again after
//! it. A job that goes on from there repeats and loses no message.

use crate::cells::{Cells, PAIRS, Postponed};
use crate::{Act, BUSY, SLOW, play};
use gridspan_runtime::pe::PlantedFault;
use gridspan_runtime::{CheckpointEvery, Checkpoints, Job, JobError, RestorePlan, Time};
use gridspan_sim::{FaultPlan, PauseFaults, SimOptions, SimReport, Simulation};
use gridspan_topology::GridSpec;
use std::time::Duration;

const ONCE: &[Act] = &[Act::Begin(3)];

/// Cells whose pairs often lag behind their second replicas.
const UNEVEN: Cells = Cells { steps: 100, rebalances: 12, busy_turns: 200, ..SLOW };

fn grid(text: &str) -> GridSpec {
    GridSpec::from_emulate(text).unwrap()
}

fn job(cells: Cells, postponed: &Postponed, acts: &'static [Act]) -> Job {
    let checkpoints = Checkpoints::every(CheckpointEvery::Points(1));
    play(cells.restartable_job(postponed), acts).checkpoints(checkpoints)
}

fn options(seed: u64) -> SimOptions {
    let faults = FaultPlan::default()
        .with_frame_delay(0.2)
        .with_local_delay(0.1)
        .with_delay_max(Duration::from_millis(20))
        .with_reorder(seed.is_multiple_of(2))
        // A primary whose node pauses lags behind its second replica.
        .with_pauses(PauseFaults::new(0.01, Duration::from_millis(300)));
    SimOptions::with_seed(seed).with_faults(faults)
}

/// Runs on two sites until a moment that depends on the seed, and then from the last checkpoint on
/// another grid.
fn restarted(seed: u64, fault: PlantedFault, text: &str) -> SimReport {
    let postponed = Postponed::default();
    let first = job(UNEVEN, &postponed, ONCE).planted_fault(fault);
    let first = Simulation::new(first, grid("2x2,wan=15ms"), options(seed)).unwrap();
    let at = Time(1_300_000_000 + seed % 37 * 57_000_000);
    let Ok(halted) = first.run_until(at) else { panic!("it has ended before {at}") };
    let image = halted.checkpoint().unwrap().expect("checkpoints were made");
    let plan = RestorePlan::restart(image.layout(), grid(text).layout());
    // The fault is not planted again, so only the image can show it.
    let again = job(UNEVEN, &postponed, if text.contains(',') { ONCE } else { &[] });
    let again = Simulation::restored(again, grid(text), options(seed + 100), (image, plan));
    let report = again.unwrap().run();
    let postponed = postponed.lock().unwrap();
    assert!(postponed.iter().all(is_late), "seed {seed}: {postponed:?}");
    report
}

/// Whether a checkpoint was postponed because the one before is not stored, such as by a node that
/// pauses.
fn is_late(reason: &String) -> bool {
    reason == "the checkpoint before is still being encoded or stored"
}

#[test]
fn replicas_postpone_no_checkpoint_and_begin_again_after_it() {
    for seed in 0..4 {
        let postponed = Postponed::default();
        let job = job(UNEVEN, &postponed, ONCE);
        let report = Simulation::new(job, grid("2x2,wan=15ms"), options(seed)).unwrap().run();
        assert_eq!(report.outcome, Ok(()), "seed {seed}: {:?}", report.ending);
        let postponed = postponed.lock().unwrap();
        assert!(postponed.iter().all(is_late), "seed {seed}: {postponed:?}");
        // One rebalance started the replicas, and each later checkpoint started them again.
        let replicas = report.statistics.replicas;
        assert!(replicas >= 4 * u64::from(PAIRS), "seed {seed}: {replicas}");
    }
}

#[test]
fn results_are_right_while_checkpoints_are_made_and_replicas_and_actors_move() {
    for seed in 0..4 {
        let cells = Cells { steps: 150, migrates: true, ..UNEVEN };
        let postponed = Postponed::default();
        let job = job(cells, &postponed, BUSY);
        let report = Simulation::new(job, grid("2x2,wan=15ms"), options(seed)).unwrap().run();
        assert_eq!(report.outcome, Ok(()), "seed {seed}: {:?}", report.ending);
        assert_eq!(*postponed.lock().unwrap(), Vec::<String>::new(), "seed {seed}");
    }
}

#[test]
fn a_job_with_replicas_goes_on_from_a_checkpoint_on_other_grids() {
    for seed in 0..16 {
        let texts = ["2x2,wan=15ms", "3x2x2,wan=15ms", "1x1x2", "2x1x2,wan=15ms"];
        let text = texts[seed as usize % texts.len()];
        let report = restarted(seed, PlantedFault::None, text);
        assert_eq!(report.outcome, Ok(()), "seed {seed}, {text}: {:?}", report.ending);
    }
}

#[test]
fn a_primary_that_is_encoded_while_it_lags_behind_is_found() {
    let outcome = |seed| restarted(seed, PlantedFault::TrailingIgnored, "2x2,wan=15ms").outcome;
    let is_found = |outcome: &Result<(), JobError>| outcome.is_err();
    let found = (0..100).map(outcome).find(is_found);
    println!("found: {found:?}");
    assert!(found.is_some(), "no seed has found it");
}
