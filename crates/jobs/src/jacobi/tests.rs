//! Values against a serial run, and the masking of latency.

use super::job::{JacobiOptions, JacobiOutcome, job_with};
use super::solver::{Exchange, Neighbourhood, Plan, Solver};
use clap::Parser;
use gridspan_balance::StrategyName;
use gridspan_kernels::jacobi::problem::{Equation, Problem};
use gridspan_ranks::{Comm, run_then};
use gridspan_runtime::driver::embedded;
use gridspan_runtime::{CheckpointEvery, Checkpoints, Job, RestorePlan, Time};
use gridspan_sim::{SimOptions, Simulation};
use gridspan_topology::GridSpec;
use std::collections::BTreeMap;
use std::sync::{Arc, mpsc};
use std::time::Duration;

/// The bits of the values of all inner points.
type Values = BTreeMap<[u32; 3], u64>;

/// Steps over the whole grid, point by point, in plain loops.
fn serial(problem: Problem, steps: u64) -> Values {
    let all = problem.size + 2;
    let planes = if problem.axes == 2 { 1..2 } else { 0..all };
    let places: Vec<[u32; 3]> =
        planes.flat_map(|z| (0..all).flat_map(move |y| (0..all).map(move |x| [z, y, x]))).collect();
    let mut values: BTreeMap<[u32; 3], f64> =
        places.iter().map(|&place| (place, problem.start(place))).collect();
    for _ in 0..steps {
        let before = values.clone();
        for (&[z, y, x], value) in &mut values {
            if problem.is_boundary([z, y, x]) {
                continue;
            }
            let mut sum = (before[&[z, y, x - 1]] + before[&[z, y, x + 1]])
                + (before[&[z, y - 1, x]] + before[&[z, y + 1, x]]);
            if problem.axes == 3 {
                sum += before[&[z - 1, y, x]] + before[&[z + 1, y, x]];
            }
            *value = (sum + problem.source([z, y, x])) / (2.0 * problem.axes as f64);
        }
    }
    values.retain(|&place, _| !problem.is_boundary(place));
    values.into_iter().map(|(place, value)| (place, value.to_bits())).collect()
}

fn plan(problem: Problem, exchange: Exchange, per_tile: u32) -> Plan {
    let point_cost = Duration::from_micros(3);
    let (steps, check, waits, migrate_every) = (9, 4, false, 0);
    Plan { problem, steps, check, exchange, point_cost, waits, per_tile, migrate_every }
}

/// A job that compares the values of its ranks with those of the serial run.
fn compared(plan: Plan, ranks: u32, expected: &Arc<Values>) -> Job {
    let expected = expected.clone();
    let function = move |world: Comm| async move {
        let around = Neighbourhood::new(&world, plan).await?;
        let mut solver = Solver::begin(&world, plan, &around).await?;
        assert!(!solver.advance(&world, &around).await?);
        let steps: Vec<u64> = solver.changes.iter().map(|(step, _)| *step).collect();
        assert_eq!(steps, [4, 8, 9]);
        let points = solver.subdomain.points();
        Ok(points.map(|(place, value)| (place, value.to_bits())).collect::<Vec<_>>())
    };
    run_then(ranks, function, move |parts| {
        let found: Vec<_> = parts.into_iter().flatten().collect();
        assert_eq!(found.len(), expected.len());
        assert!(found.into_iter().collect::<Values>() == *expected, "{plan:?} on {ranks} ranks");
        Ok(())
    })
}

fn simulate(job: Job, emulate: &str) {
    let spec = GridSpec::from_emulate(emulate).unwrap();
    let simulation = Simulation::new(job, spec, SimOptions::with_seed(3)).unwrap();
    simulation.run().outcome.unwrap();
}

/// Runs a job on two sites of one node with two PEs each, in this process, over QUIC.
fn emulate(job: Job) {
    embedded::run_emulated(job, &GridSpec::from_emulate("2x1x2,wan=2ms").unwrap()).unwrap();
}

/// Compares runs of one to twelve ranks, in tiles of three ranks if possible and else of one.
fn equals_the_serial_run(problem: Problem) {
    let expected = Arc::new(serial(problem, 9));
    for exchange in [Exchange::Blocking, Exchange::Overlap] {
        for ranks in 1..=12 {
            let per_tile = if ranks % 3 == 0 { 3 } else { 1 };
            let plan = plan(problem, exchange, per_tile);
            embedded::run(compared(plan, ranks, &expected), 2).unwrap();
            simulate(compared(plan, ranks, &expected), "2x2,wan=3ms");
            if ranks >= 11 {
                emulate(compared(plan, ranks, &expected));
            }
        }
    }
}

#[test]
fn ranks_in_two_dimensions_have_the_bits_of_a_serial_run() {
    equals_the_serial_run(Problem { equation: Equation::Laplace, axes: 2, size: 13 });
    equals_the_serial_run(Problem { equation: Equation::Poisson, axes: 2, size: 12 });
}

#[test]
fn ranks_in_three_dimensions_have_the_bits_of_a_serial_run() {
    equals_the_serial_run(Problem { equation: Equation::Poisson, axes: 3, size: 11 });
}

/// The job, and the receiver of its outcome.
fn job(arguments: &str) -> (Job, mpsc::Receiver<JacobiOutcome>) {
    let words = ["jacobi"].into_iter().chain(arguments.split_whitespace());
    let options = JacobiOptions::try_parse_from(words).unwrap();
    let (tell, told) = mpsc::channel();
    let job = job_with(options, move |outcome| {
        tell.send(outcome.clone()).map_err(|error| error.to_string().into())
    });
    (job, told)
}

/// Runs the job in virtual time at two sites of two PEs, 8 ms from each other.
fn outcome(arguments: &str) -> JacobiOutcome {
    let (job, told) = job(arguments);
    simulate(job, "2x2,wan=8ms,rate=100gbit,lanrate=100gbit");
    told.recv().unwrap()
}

#[test]
fn ranks_that_move_after_each_step_have_the_same_bits() {
    for words in [
        "--size 10 --ranks 6 --steps 12 --check 1 --equation poisson",
        "--dims 3 --size 6 --ranks 6 --steps 12 --check 1 --exchange blocking",
    ] {
        let stays = outcome(words);
        let moving = || {
            let (job, told) = job(&format!("{words} --migrate-every 1"));
            (job.strategy("rotate".parse::<StrategyName>().unwrap()), told)
        };

        let (threads, on_threads) = moving();
        embedded::run(threads, 3).unwrap();
        let (quic, over_quic) = moving();
        emulate(quic);
        let (virtual_time, in_virtual_time) = moving();
        let spec = GridSpec::from_emulate("2x2x1,wan=3ms").unwrap();
        let report = Simulation::new(virtual_time, spec, SimOptions::with_seed(3)).unwrap().run();

        report.outcome.unwrap();
        assert!(report.statistics.migrations > 5 * 10, "{}", report.statistics.migrations);
        for told in [on_threads, over_quic, in_virtual_time] {
            let moved = told.recv().unwrap();
            assert_eq!(moved.error.to_bits(), stays.error.to_bits(), "{words}");
            assert_eq!((moved.changes, moved.steps), (stays.changes.clone(), 12), "{words}");
        }
    }
}

#[test]
fn a_checkpoint_of_a_run_with_other_options_is_refused() {
    let grid = || GridSpec::from_emulate("2x1,wan=2ms").unwrap();
    let checked = |more: &str| {
        let (job, told) = job(&format!("--ranks 4 --compute 100us --migrate-every 2 {more}"));
        (job.checkpoints(Checkpoints::every(CheckpointEvery::Points(1))), told)
    };
    let words = "--size 8 --steps 40";
    let first = || Simulation::new(checked(words).0, grid(), SimOptions::with_seed(1)).unwrap();
    let half = Time(first().run().virtual_time.0 / 2);
    let Ok(halted) = first().run_until(half) else { panic!("the job has ended before {half}") };
    let image = halted.checkpoint().unwrap().expect("checkpoints were made");
    let continued = |words: &str| {
        let plan = RestorePlan::restart(image.layout(), grid().layout());
        let (job, _told) = checked(words);
        let (options, from) = (SimOptions::with_seed(2), (image.clone(), plan));
        Simulation::restored(job, grid(), options, from).unwrap().run().outcome
    };

    assert_eq!(continued(words), Ok(()));
    let others = ["--size 8 --steps 60", "--size 9 --steps 40"].map(str::to_owned);
    let more = ["--dims 3", "--equation poisson"].map(|more| format!("{words} {more}"));
    for words in others.into_iter().chain(more) {
        let error = continued(&words).unwrap_err().to_string();
        assert!(error.contains("the checkpoint was made with other options"), "{error}");
    }
}

#[test]
fn sixteen_ranks_on_each_pe_mask_the_latency_between_sites() {
    // A PE has 1024 points, so a step computes for 20.48 ms.
    let base = "--size 64 --steps 30 --check 0 --compute 20us";
    let step = |more: &str| outcome(&format!("{base} {more}")).step;
    let (compute, latency) = (Duration::from_micros(20_480), Duration::from_millis(8));

    let one = step("--ranks-per-pe 1 --exchange blocking");
    let sixteen = step("--ranks-per-pe 16 --exchange blocking");
    let overlapped = step("--ranks-per-pe 1 --exchange overlap");

    assert!(one >= compute + latency, "{one:?}");
    for masked in [sixteen, overlapped] {
        assert!(masked >= compute && masked < compute + latency / 4, "{masked:?}");
    }
}

#[test]
fn too_many_ranks_for_the_points_are_refused() {
    let words = ["jacobi", "--size", "4", "--ranks", "5"];
    let options = JacobiOptions::try_parse_from(words).unwrap();
    let error = embedded::run(job_with(options, |_| Ok(())), 2).unwrap_err();
    assert!(error.to_string().contains("use more points"), "{error}");
}
