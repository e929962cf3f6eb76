//! Patch tests, the order of the error, and the same solution on any number of ranks.

use super::distribution::distribute;
use super::job::{FemOptions, FemOutcome, job_with};
use super::product::{Coupling, Exchange, Matrix};
use super::solver::Solver;
use clap::Parser;
use gridspan_balance::StrategyName;
use gridspan_kernels::fem::problem::{Equation, Problem, Solution};
use gridspan_ranks::{Comm, run_then};
use gridspan_runtime::driver::embedded;
use gridspan_runtime::{CheckpointEvery, Checkpoints, Job, RestorePlan, Time};
use gridspan_sim::{SimOptions, Simulation};
use gridspan_topology::GridSpec;
use std::collections::BTreeMap;
use std::sync::mpsc;
use std::time::Duration;

const EQUATIONS: [Equation; 2] = [Equation::Poisson, Equation::Elasticity];
const SEED: u64 = 7;

/// The unknowns of each node, by the bits of its position.
type Values = BTreeMap<[u64; 2], Vec<f64>>;

#[derive(Clone, Copy, Debug)]
struct Case {
    problem: Problem,
    size: u32,
    ranks: u32,
    exchange: Exchange,
}

impl Case {
    fn new(equation: Equation, size: u32, ranks: u32) -> Self {
        let problem = Problem { equation, solution: Solution::Smooth };
        Self { problem, size, ranks, exchange: Exchange::Neighbours }
    }

    /// Solves the problem almost to rounding.
    fn solve(self) -> Values {
        let Self { problem, size, ranks, exchange } = self;
        let (tell, told) = mpsc::channel();
        let function = move |world: Comm| async move {
            let (part, _) = distribute(&world, size, SEED).await?;
            let matrix = Matrix::new(part, problem, exchange, Duration::ZERO);
            let coupling = Coupling::new(&world, &matrix).await?;
            let mut solver = Solver::begin(&world, &matrix).await?;
            while solver.goes_on(1e-13, 10_000) {
                solver.step(&coupling, &matrix).await?;
            }
            let positions = matrix.part.positions.iter().map(|at| at.map(f64::to_bits));
            let values = solver.values().chunks_exact(problem.unknowns()).map(<[f64]>::to_vec);
            Ok(positions.zip(values).collect::<Vec<_>>())
        };
        let job = run_then(ranks, function, move |parts| {
            let values: Vec<_> = parts.into_iter().flatten().collect();
            assert_eq!(values.len(), ((size - 2) * (size - 2)) as usize);
            tell.send(values.into_iter().collect()).map_err(|error| error.to_string().into())
        });
        embedded::run(job, 2).unwrap();
        told.recv().unwrap()
    }
}

/// The largest difference of two solutions.
fn difference(one: &Values, other: &Values) -> f64 {
    assert!(one.keys().eq(other.keys()));
    let pairs = one.values().flatten().zip(other.values().flatten());
    pairs.map(|(one, other)| (one - other).abs()).fold(0.0, f64::max)
}

#[test]
fn a_linear_solution_is_exact() {
    for equation in EQUATIONS {
        for ranks in [1, 4] {
            let problem = Problem { equation, solution: Solution::Linear };
            let found = Case { problem, ..Case::new(equation, 14, ranks) }.solve();
            let exact = |(position, _): (&[u64; 2], _)| {
                let values = problem.value(position.map(f64::from_bits));
                (*position, values[..problem.unknowns()].to_vec())
            };
            let error = difference(&found, &found.iter().map(exact).collect());
            assert!(error < 1e-12, "{equation:?} on {ranks} ranks: {error:e}");
        }
    }
}

#[test]
fn one_to_seven_ranks_have_the_same_solution() {
    for equation in EQUATIONS {
        let alone = Case::new(equation, 15, 1).solve();
        for ranks in 2..=7 {
            let difference = difference(&alone, &Case::new(equation, 15, ranks).solve());
            assert!(difference < 1e-12, "{equation:?} on {ranks} ranks: {difference:e}");
        }
    }
}

#[test]
fn ranks_that_gather_the_whole_vector_have_the_same_bits() {
    for equation in EQUATIONS {
        let case = Case::new(equation, 15, 5);
        let gathered = Case { exchange: Exchange::Gather, ..case }.solve();
        assert_eq!(difference(&case.solve(), &gathered), 0.0);
    }
}

/// The job, and the receiver of its outcome.
fn job(arguments: &str) -> (Job, mpsc::Receiver<FemOutcome>) {
    let words = ["fem"].into_iter().chain(arguments.split_whitespace());
    let options = FemOptions::try_parse_from(words).unwrap();
    let (tell, told) = mpsc::channel();
    let job = job_with(options, move |outcome| {
        tell.send(outcome.clone()).map_err(|error| error.to_string().into())
    });
    (job, told)
}

/// Runs the job in virtual time.
fn outcome(arguments: &str, emulate: &str) -> FemOutcome {
    let (job, told) = job(arguments);
    let spec = GridSpec::from_emulate(emulate).unwrap();
    Simulation::new(job, spec, SimOptions::with_seed(3)).unwrap().run().outcome.unwrap();
    told.recv().unwrap()
}

#[test]
fn the_error_is_of_second_order() {
    for problem in ["poisson", "elasticity"] {
        let outcomes = [17, 33, 65, 129].map(|size| {
            outcome(
                &format!("--problem {problem} --size {size} --ranks 2 --tolerance 1e-10"),
                "1x2",
            )
        });
        for pair in outcomes.windows(2) {
            // The mean edge is half as long.
            let order = (pair[0].error / pair[1].error).log2();
            assert!((1.8..2.2).contains(&order), "{problem}: {order}");
        }
    }
}

#[test]
fn the_bound_of_the_error_holds_for_any_mesh_and_is_not_much_too_large() {
    for problem in ["poisson", "elasticity"] {
        for (size, seed) in (0..8).flat_map(|seed| [8, 16, 48].map(|size| (size, seed))) {
            let words = format!("--problem {problem} --size {size} --seed {seed} --ranks 2");
            let FemOutcome { error, error_max, .. } = outcome(&words, "1x2");
            let ratio = error / error_max;
            assert!((0.2..0.6).contains(&ratio), "{words}: {ratio}");
        }
    }
}

#[test]
fn the_forms_have_as_many_ranks_as_those_of_the_paper() {
    for problem in ["poisson", "elasticity"] {
        let words = format!("--problem {problem} --size 24 --tolerance 1e-10");
        let sparse = outcome(&format!("{words} --form sparse"), "1x4");
        let redundant = outcome(&format!("{words} --form redundant"), "1x3");

        assert_eq!([sparse.ranks, redundant.ranks], [3, 9]);
        assert!((sparse.error / redundant.error - 1.0).abs() < 1e-6);
        // "The sparse decomposition wins, since it has lower communication overhead."
        assert!(sparse.received < redundant.received);
        assert!(sparse.time < redundant.time, "{:?}, {:?}", sparse.time, redundant.time);
    }
    assert_eq!(outcome("--size 8 --form sparse", "1x1").ranks, 1);
}

#[test]
fn neighbours_hide_the_latency_that_a_gathered_vector_waits_for() {
    let words = "--size 32 --ranks-per-pe 1 --compute 2us";
    let neighbours = outcome(words, "2x2,wan=4ms");
    let gathered = outcome(&format!("{words} --exchange gather"), "2x2,wan=4ms");

    assert_eq!(neighbours.steps, gathered.steps);
    assert!(4 * neighbours.received < gathered.received);
    // A step waits for two reductions in both cases, and with `gather` also for the vector.
    let saved = (gathered.time - neighbours.time) / neighbours.steps;
    assert!(saved > Duration::from_millis(2), "{saved:?}");
}

#[test]
fn a_step_charges_each_entry_of_the_matrix_once() {
    let entries = |problem: &str| {
        let [short, long] = ["10us", "20us"].map(|cost| {
            outcome(&format!("--problem {problem} --size 32 --ranks 1 --compute {cost}"), "1x1")
        });
        let more = long.time - short.time;
        more.as_secs_f64() / f64::from(long.steps) / 10e-6
    };

    let (poisson, elasticity) = (entries("poisson"), entries("elasticity"));

    // A node has six neighbours on average, a few of which are on the boundary.
    assert!(poisson > 6.5 * 900.0 && poisson < 7.0 * 900.0, "{poisson}");
    assert!((elasticity / poisson - 4.0).abs() < 1e-3, "{elasticity}");
}

/// Numbers that change if any bit of the solution changes.
fn bits(outcome: &FemOutcome) -> [u64; 3] {
    [outcome.error.to_bits(), outcome.residual.to_bits(), outcome.steps.into()]
}

#[test]
fn ranks_that_move_after_each_step_have_the_same_bits() {
    let rotate = || "rotate".parse::<StrategyName>().unwrap();
    for problem in ["poisson", "elasticity"] {
        let words = format!("--problem {problem} --size 12 --ranks 5");
        let (stays, told) = job(&words);
        embedded::run(stays, 2).unwrap();
        let expected = bits(&told.recv().unwrap());
        let moving = || {
            let (job, told) = job(&format!("{words} --migrate-every 1"));
            (job.strategy(rotate()), told)
        };

        let (threads, on_threads) = moving();
        embedded::run(threads, 3).unwrap();
        let (quic, over_quic) = moving();
        embedded::run_emulated(quic, &GridSpec::from_emulate("2x1x1,wan=1ms").unwrap()).unwrap();
        let (virtual_time, in_virtual_time) = moving();
        let spec = GridSpec::from_emulate("2x2x1,wan=3ms").unwrap();
        let report = Simulation::new(virtual_time, spec, SimOptions::with_seed(3)).unwrap().run();

        report.outcome.unwrap();
        for told in [on_threads, over_quic, in_virtual_time] {
            assert_eq!(bits(&told.recv().unwrap()), expected, "{problem}");
        }
        // All five ranks have moved after nearly every step.
        let steps = expected[2];
        assert!(report.statistics.migrations > 4 * steps, "{}", report.statistics.migrations);
    }
}

#[test]
fn repeated_solutions_have_the_same_bits_and_add_up_their_steps() {
    let once = outcome("--size 16 --ranks 3", "1x3");
    let thrice = outcome("--size 16 --ranks 3 --repeat 3 --migrate-every 7", "1x3");

    assert_eq!((thrice.error, thrice.residual), (once.error, once.residual));
    assert_eq!(thrice.steps, 3 * once.steps);
    assert!(thrice.time > 2 * once.time);
}

#[test]
fn a_checkpoint_is_restored_on_other_numbers_of_nodes_with_the_same_bits() {
    let words = "--size 20 --ranks 6 --compute 100us --migrate-every 3";
    let expected = bits(&outcome(words, "2x2x1,wan=2ms"));
    let checked = || {
        let (job, told) = job(words);
        (job.checkpoints(Checkpoints::every(CheckpointEvery::Points(2))), told)
    };
    let grid = |text| GridSpec::from_emulate(text).unwrap();
    for (seed, text) in [(1, "1x1x1"), (2, "1x3x1"), (3, "3x2x1,wan=2ms")] {
        let options = SimOptions::with_seed(seed);
        let first = Simulation::new(checked().0, grid("2x2x1,wan=2ms"), options).unwrap();
        let at = Time(2_000_000_000 + seed * 100_000_000);
        let Ok(halted) = first.run_until(at) else { panic!("the job has ended before {at}") };
        let image = halted.checkpoint().unwrap().expect("checkpoints were made");
        let plan = RestorePlan::restart(image.layout(), grid(text).layout());
        let options = SimOptions::with_seed(seed + 100);
        let (job, told) = checked();
        let second = Simulation::restored(job, grid(text), options, (image, plan)).unwrap();

        assert_eq!(second.run().outcome, Ok(()), "on {text}");
        assert_eq!(bits(&told.recv().unwrap()), expected, "on {text}");
    }
}

#[test]
fn a_checkpoint_of_a_run_with_other_options_is_refused() {
    let grid = || GridSpec::from_emulate("2x2x1,wan=2ms").unwrap();
    let checked = |more: &str| {
        let words = format!("--ranks 6 --compute 100us --migrate-every 3 {more}");
        let (job, told) = job(&words);
        (job.checkpoints(Checkpoints::every(CheckpointEvery::Points(2))), told)
    };
    let words = "--size 20";
    let first = Simulation::new(checked(words).0, grid(), SimOptions::with_seed(1)).unwrap();
    let at = Time(2_100_000_000);
    let Ok(halted) = first.run_until(at) else { panic!("the job has ended before {at}") };
    let image = halted.checkpoint().unwrap().expect("checkpoints were made");
    let continued = |words: &str| {
        let plan = RestorePlan::restart(image.layout(), grid().layout());
        let (job, _told) = checked(words);
        let (options, from) = (SimOptions::with_seed(2), (image.clone(), plan));
        Simulation::restored(job, grid(), options, from).unwrap().run().outcome
    };

    assert_eq!(continued(words), Ok(()));
    let others = ["--size 21", "--size 20 --tolerance 1e-3", "--size 20 --problem elasticity"];
    for words in others {
        let error = continued(words).unwrap_err().to_string();
        assert!(error.contains("the checkpoint was made with other options"), "{error}");
    }
}

fn fails(arguments: &str) -> String {
    let words = ["fem"].into_iter().chain(arguments.split_whitespace());
    let options = FemOptions::try_parse_from(words).unwrap();
    embedded::run(job_with(options, |_| Ok(())), 2).unwrap_err().to_string()
}

#[test]
fn a_solution_that_is_not_good_enough_is_not_verified() {
    let error = fails("--size 12 --steps-max 3");
    assert!(error.contains("verified: no (residual") && error.contains("--steps-max"), "{error}");
    let error = fails("--size 48 --tolerance 0.01");
    assert!(error.contains("verified: no (error"), "{error}");
}

#[test]
fn too_many_ranks_are_refused() {
    assert!(fails("--size 4 --ranks 5").contains("use more nodes or fewer ranks"));
    assert!(fails("--ranks-per-pe 4096").contains("use fewer for each PE"));
}

#[test]
fn arguments_out_of_range_are_refused_with_the_range() {
    for (arguments, advice) in [
        ("--size 2", "3..=1024"),
        ("--tolerance 0", "write a number from 1e-12 to 0.01"),
        ("--ranks 3 --form sparse", "cannot be used with"),
    ] {
        let words = ["fem"].into_iter().chain(arguments.split_whitespace());
        let error = FemOptions::try_parse_from(words).unwrap_err().to_string();
        assert!(error.contains(advice), "{error}");
    }
}
