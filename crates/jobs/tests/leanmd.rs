//! The molecular dynamics job under all drivers: the same bits as a serial run, and published
//! values.
#![allow(missing_docs)]

mod common;

use gridspan_balance::{Random, Replicate, StrategyName};
use std::sync::mpsc;
use std::time::Duration;

use clap::Parser;
use common::{SITES, built_in, emulated, everywhere, simulate};
use gridspan_jobs::leanmd::args::Options;
use gridspan_jobs::leanmd::job::job_with;
use gridspan_jobs::leanmd::outcome::MdOutcome;
use gridspan_kernels::leanmd::io;
use gridspan_runtime::driver::embedded;
use gridspan_runtime::{CheckpointEvery, Checkpoints, Image, Job, JobError, RestorePlan, Time};
use gridspan_sim::{SimOptions, Simulation};
use gridspan_topology::GridSpec;

/// 500 atoms in 3 x 3 x 3 cells, which exchange atoms every few steps.
const CRYSTAL: &str = "--quiet --system uniform --size 5 --cells 3 --check-serial";
/// A small droplet in cells of very different work, some of them empty.
const DROPLET: &str = "--quiet --atoms 700 --cutoff 2.5 --cells 4,4,3 --check-serial";

#[test]
fn trajectories_equal_the_serial_one_bit_for_bit_under_every_driver() {
    everywhere(|| built_in("leanmd", &format!("{CRYSTAL} --steps 6 --report-every 4")));
}

#[test]
fn rare_changes_of_cells_give_the_same_bits() {
    everywhere(|| built_in("leanmd", &format!("{DROPLET} --steps 12 --migrate-every 5")));
}

#[test]
fn boxes_of_one_and_two_cells_per_axis_work() {
    for dims in ["1", "2", "1,2,3"] {
        let words = format!("--quiet --system uniform --size 5 --cells {dims} --check-serial");
        let job = || built_in("leanmd", &format!("{words} --steps 4 --migrate-every 2"));
        embedded::run(job(), 3).unwrap();
        simulate(job(), SITES).outcome.unwrap();
    }
}

#[test]
fn the_order_in_which_messages_are_handled_changes_no_bit() {
    // Without `--order`, older steps go first, as in the other tests.
    everywhere(|| built_in("leanmd", &format!("{CRYSTAL} --steps 6 --order arrival")));
}

#[test]
fn charged_work_has_the_messages_and_the_virtual_time_of_computed_work() {
    let run = |work: &str| {
        let words =
            format!("--quiet --atoms 700 --cutoff 2.5 --cells 4,4,3 --cost 200 --work {work}");
        let report = simulate(built_in("leanmd", &format!("{words} --steps 3")), SITES);
        report.outcome.unwrap();
        (report.messages, report.virtual_time.as_nanos() as f64)
    };
    let (computed, charged) = (run("compute"), run("charge"));
    assert_eq!(computed.0, charged.0);
    // Atoms hardly move in three steps.
    assert!((charged.1 / computed.1 - 1.0).abs() < 0.02, "{computed:?} and {charged:?}");
}

#[test]
fn charged_work_cannot_be_compared_with_a_serial_run() {
    let error = embedded::run(built_in("leanmd", &format!("{CRYSTAL} --work charge")), 1);
    assert!(error.unwrap_err().to_string().contains("leave out --work"));
}

#[test]
fn actors_that_move_at_random_change_no_bit() {
    everywhere(|| built_in("leanmd", &format!("{CRYSTAL} --steps 6 --migrate-randomly --seed 3")));
}

#[test]
fn moving_all_actors_at_sync_points_changes_no_bit() {
    for strategy in ["rotate", "random"] {
        let words = format!("{DROPLET} --steps 6 --sync-every 2");
        everywhere(|| {
            built_in("leanmd", &words)
                .strategy(strategy.parse::<StrategyName>().expect("it is a name"))
                .seed(5)
        });
        everywhere(|| {
            built_in("leanmd", &format!("{words} --migrate-randomly"))
                .strategy(strategy.parse::<StrategyName>().expect("it is a name"))
        });
    }
}

#[test]
fn replicated_pairs_change_no_bit() {
    let words = format!("{DROPLET} --steps 8 --sync-every 2");
    for more in ["", " --migrate-randomly"] {
        let job = || built_in("leanmd", &format!("{words}{more}"));
        let job = || job().strategy(Replicate::default()).balance_gate(false);
        assert!(simulate(job(), SITES).statistics.replicas > 100);
        everywhere(job);
    }
}

#[test]
fn equal_simulated_runs_have_equal_logs() {
    let run = || {
        let words = format!("{DROPLET} --steps 4 --sync-every 2 --migrate-randomly");
        let report = simulate(built_in("leanmd", &words).strategy(Random::default()), SITES);
        report.outcome.unwrap();
        (report.log_hash, report.virtual_time, report.messages)
    };
    assert_eq!(run(), run());
}

#[test]
fn the_actors_find_the_energies_that_nist_published() {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../kernels/data/nist-lj-4.xyz");
    for (cutoff, truncation, energy, virial) in [
        (3.0, "truncated", -16.790, -46.249),
        (4.0, "truncated", -17.060, -47.869),
        (3.0, "force-shift", -15.001, -43.096),
    ] {
        for cells in ["1", "2", "2,1,2"] {
            let words = format!(
                "--quiet --input {file} --steps 0 --cutoff {cutoff} --truncation {truncation} --cells {cells}"
            );
            let start = outcome(&words, |job| embedded::run(job, 3).unwrap()).observations[0];
            assert!((start.sums.energy - energy).abs() < 5.1e-4, "{}", start.sums.energy);
            assert!((start.sums.virial - virial).abs() < 5.1e-4, "{}", start.sums.virial);
        }
    }
}

#[test]
fn the_crystal_starts_with_the_reference_energies() {
    let words = "--quiet --system uniform --size 5 --cells 3 --steps 0";
    let start = outcome(words, |job| embedded::run(job, 2).unwrap()).observations[0];
    assert_eq!(start.sums.pairs, 13_500);
    assert!((start.sums.energy / 500.0 + 5.6932782757).abs() < 5e-11);
    assert!((start.energy() / 500.0 + 3.5375982757).abs() < 5e-11);
}

#[test]
fn the_energy_error_of_the_job_falls_with_the_square_of_the_step() {
    let error = |dt: f64, steps: u32| {
        let words = format!(
            "--quiet --system uniform --size 5 --cells 3 --report-every 1 --dt {dt} --steps {steps}"
        );
        let outcome = outcome(&words, |job| embedded::run(job, 2).unwrap());
        let start = outcome.observations[0].energy();
        let errors =
            outcome.observations.iter().map(|state| ((state.energy() - start) / start).abs());
        errors.fold(0.0, f64::max)
    };
    let (coarse, fine) = (error(0.008, 10), error(0.004, 20));
    assert!((coarse / fine - 4.0).abs() < 0.4, "{coarse} and {fine}");
}

#[test]
fn a_run_with_far_too_long_steps_is_not_verified() {
    let words = "--quiet --system uniform --size 5 --cells 2 --dt 0.03 --temperature 8 --steps 10";
    let error = embedded::run(built_in("leanmd", words), 2).unwrap_err().to_string();
    assert!(error.contains("verified: no (energy error") || error.contains("atom"), "{error}");
}

#[test]
fn the_trajectory_file_holds_every_frame_and_ends_with_the_last_state() {
    let path = std::env::temp_dir().join(format!("gridspan-leanmd-{}.xyz", std::process::id()));
    let words = format!("{CRYSTAL} --steps 4 --every 2 --trajectory {}", path.display());
    emulated(built_in("leanmd", &words), "2x1,wan=2ms").unwrap();
    let text = std::fs::read_to_string(&path).unwrap();
    std::fs::remove_file(&path).unwrap();
    let frames: Vec<&str> = text.split("500\n").filter(|frame| !frame.is_empty()).collect();
    assert_eq!(frames.len(), 3);
    for (frame, step) in frames.iter().zip([0, 2, 4]) {
        assert!(frame.contains(&format!(" Step={step} ")), "{frame}");
        assert_eq!(frame.lines().count(), 501);
    }
    // The last frame has the kinetic energy of the last state.
    let last = format!("500\n{}", frames[2]);
    let system = io::read(last.as_bytes(), Some("last.xyz")).unwrap().into_system(None).unwrap();
    let kinetic = system.velocities.iter().flatten().map(|axis| axis * axis / 2.0).sum::<f64>();
    let words = format!("{CRYSTAL} --steps 4");
    let end = outcome(&words, |job| embedded::run(job, 1).unwrap()).observations[1];
    assert!((kinetic - end.motion.kinetic).abs() < 1e-9);
}

#[test]
fn the_trajectory_file_continues_at_the_checkpoint_and_no_refused_run_changes_it() {
    let path = std::env::temp_dir().join(format!("gridspan-restored-{}.xyz", std::process::id()));
    let words =
        |steps| format!("{CRYSTAL} --every 2 --trajectory {} --steps {steps}", path.display());
    let whole = checked(&words(20), None).run();
    whole.outcome.unwrap();
    let expected = std::fs::read_to_string(&path).unwrap();
    let half = Time(whole.virtual_time.0 / 2);
    let Ok(halted) = checked(&words(20), None).run_until(half) else { panic!("it has ended") };
    let image = halted.checkpoint().unwrap().expect("checkpoints were made");
    let continued = |words: &str| checked(words, Some(image.clone())).run().outcome;
    let at_half = std::fs::read_to_string(&path).unwrap();
    assert!(at_half.len() < expected.len() && expected.starts_with(&at_half));

    let other = continued(&words(24));
    let after_other = std::fs::read_to_string(&path).unwrap();
    // The first frame was complete long before the checkpoint.
    std::fs::write(&path, "500\n").unwrap();
    let too_short = continued(&words(20));
    let after_too_short = std::fs::read_to_string(&path).unwrap();
    std::fs::remove_file(&path).unwrap();
    let missing = continued(&words(20));
    let is_created = path.exists();
    std::fs::write(&path, &at_half).unwrap();
    let same = continued(&words(20));
    let after_same = std::fs::read_to_string(&path).unwrap();
    std::fs::remove_file(&path).unwrap();

    let text = |outcome: Result<(), JobError>| outcome.unwrap_err().to_string();
    let (other, too_short, missing) = (text(other), text(too_short), text(missing));
    assert!(other.contains("made with other options"), "{other}");
    assert_eq!(after_other, at_half);
    assert!(too_short.contains(" has 4 bytes, but had "), "{too_short}");
    assert_eq!(after_too_short, "500\n");
    assert!(missing.contains("cannot open ") && !is_created, "{missing}");
    same.unwrap();
    assert_eq!(after_same, expected);
}

/// The job in virtual time at two sites, with a checkpoint at every second progress point; it
/// continues from `image` if there is one.
fn checked(words: &str, image: Option<Image>) -> Simulation {
    let spec = GridSpec::from_emulate("2x1,wan=2ms").expect("a grid");
    let every = Checkpoints::every(CheckpointEvery::Points(2));
    let (job, options) = (built_in("leanmd", words).checkpoints(every), SimOptions::with_seed(7));
    match image {
        Some(image) => {
            let plan = RestorePlan::restart(image.layout(), spec.layout());
            Simulation::restored(job, spec, options, (image, plan)).expect("it fits the job")
        }
        None => Simulation::new(job, spec, options).expect("a job"),
    }
}

#[test]
fn pauses_take_their_time_and_change_no_bit() {
    let elapsed = |more: &str| {
        let words = format!("{CRYSTAL} --steps 6{more}");
        outcome(&words, |job| simulate(job, SITES).outcome.unwrap()).elapsed()
    };
    let (without, with) = (elapsed(""), elapsed(" --pause 50 --migrate-randomly"));
    // One before each step.
    let pauses = Duration::from_millis(6 * 50);
    assert!(without < pauses && with >= pauses, "{without:?} and {with:?}");
    assert!(with < without * 2 + pauses, "{without:?} and {with:?}");
    // Also before the steps after sync points.
    let synced = elapsed(" --pause 200 --sync-every 2");
    assert!(synced >= 4 * pauses, "{synced:?}");
}

#[test]
fn more_pes_take_less_virtual_time() {
    let median = |emulate: &str| {
        let words = "--quiet --atoms 3000 --steps 2";
        let outcome = outcome(words, |job| simulate(job, emulate).outcome.unwrap());
        outcome.median_step().as_secs_f64()
    };
    let (one, four) = (median("1x1"), median("1x1x4"));
    assert!(one / four > 2.0 && one / four <= 4.0, "{one} and {four}");
}

/// Returns the outcome of a run with the arguments in `words`.
fn outcome(words: &str, run: impl FnOnce(Job)) -> MdOutcome {
    let words = std::iter::once("leanmd").chain(words.split_whitespace());
    let (send, outcome) = mpsc::channel();
    run(job_with(Options::parse_from(words), move |_, outcome| {
        send.send(outcome.clone()).map_err(|_| "nothing listens".into())
    }));
    outcome.recv().expect("a verified run gives its outcome")
}
