//! A small part of figure 2 of Koenig and Kalé (2007): the cut by sites hides more latency than the
//! strategy that uses loads only.
#![allow(missing_docs)]

#[allow(dead_code, reason = "the example uses the rest")]
#[path = "../examples/grid_latency/metis.rs"]
mod metis;
#[allow(dead_code, reason = "the example uses the rest")]
#[path = "../../../benches/support/oracle.rs"]
mod oracle;
#[allow(dead_code, reason = "the example uses the rest")]
#[path = "../examples/grid_latency/problem.rs"]
mod problem;
#[allow(dead_code, reason = "the example uses the rest")]
#[path = "../examples/grid_latency/run.rs"]
mod run;
#[allow(dead_code, reason = "the example uses the rest")]
#[path = "../examples/grid_latency/study.rs"]
mod study;

use gridspan_balance::cutter::Graph;
use problem::Problem;
use run::{Phases, Series, Time, median_step};
use std::time::Duration;
use study::{Figure, Knee, Outline, Point};

/// 4000 atoms in 96 cells with 1344 pairs, on eight PEs that compute for 100 ms in each step.
const PROBLEM: &str =
    "--system uniform --size 10 --contrast 2 --cutoff 2.7 --cells 4,4,6 --migrate-every 20";
const PHASES: Phases = Phases { steps: 16, balances: 2 };

#[test]
fn grid_cut_hides_more_latency_than_greedy_and_stays_near_the_bound() {
    let problem = Problem::new(PROBLEM, Duration::from_millis(800));
    let series = [Series::of("greedy"), Series::of("grid-cut")];
    let outline = Outline {
        title: String::new(),
        series: series.iter().map(|series| series.name).collect(),
        pes: vec![8],
        latencies: vec![1, 30, 40, 60],
        threads: 2,
        is_close: false,
        bound: &|pes, latency| problem.bound(pes, latency),
    };

    let figure = Figure::measure(outline, &|(at, pes, latency): Point| {
        let latency = Duration::from_millis(latency);
        median_step(&problem, series[at], (pes, latency), PHASES, Time::Virtual)
    });

    let [greedy, cut] = [0, 1].map(|at| figure.knee(at, 8));
    assert!(cut > greedy, "{}", figure.tables());
    assert!(matches!(cut, Knee::At(latency) if latency > 40.0), "{}", figure.tables());
    assert!(figure.step((1, 8, 1)) < problem.bound(8, Duration::ZERO).mul_f64(1.03));
    // A PE may get 3 % more than its share.
    assert_eq!(figure.slower(1, 0, 0.03), [], "{}", figure.tables());
}

#[test]
fn replicas_at_both_sites_hide_more_latency_than_any_placement() {
    let problem = Problem::new(PROBLEM, Duration::from_millis(800));
    let step = |latency| {
        let place = (8, Duration::from_millis(latency));
        median_step(&problem, Series::of("replicate"), place, PHASES, Time::Virtual)
    };

    let (near, far) = (step(1), step(90));

    assert!(far < problem.bound(8, Duration::from_millis(90)).mul_f64(0.8), "{far:?}");
    // The pairs across the two borders between the sites are computed twice. At each border, 16
    // cells have 9 such pairs each.
    let twice = near.as_secs_f64() / problem.bound(8, Duration::ZERO).as_secs_f64();
    assert!((1.1..1.3).contains(&twice), "{twice} times the work");
}
