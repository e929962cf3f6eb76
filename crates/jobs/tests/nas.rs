//! The NAS kernels under the drivers, with few and many ranks; each compares its values with the
//! published ones.
#![allow(missing_docs, clippy::unwrap_used)]

mod common;

use common::{SITES, built_in, emulated, simulate};
use gridspan_balance::StrategyName;
use gridspan_runtime::driver::embedded;

fn kernel(name: &str, ranks: u32) {
    let job = || built_in("nas", &format!("{name} --class S --ranks {ranks}"));
    embedded::run(job(), 2).unwrap();
    simulate(job(), SITES).outcome.unwrap();
}

#[test]
fn deviates_have_the_published_sums() {
    for ranks in [1, 5, 16] {
        kernel("ep", ranks);
    }
}

#[test]
fn keys_have_the_published_ranks() {
    for ranks in [1, 2, 7, 16] {
        kernel("is", ranks);
    }
}

#[test]
fn the_eigenvalue_is_the_published_one() {
    for ranks in [1, 3, 12, 16] {
        kernel("cg", ranks);
    }
}

#[test]
fn a_step_of_conjugate_gradients_takes_two_crossings_of_the_wide_area() {
    let job = built_in("nas", "cg --class S --ranks 9");
    let report = simulate(job, "3x3,wan=20ms");
    report.outcome.unwrap();
    // 16 iterations of 25 steps, and two crossings for the residual of each.
    let crossings = 16.0 * (25.0 * 2.0 + 2.0);
    let seconds = report.virtual_time.as_secs_f64();
    assert!(seconds < 1.15 * 0.02 * crossings, "{seconds} s");
}

#[test]
fn the_residual_has_the_published_norm() {
    for ranks in [1, 3, 16] {
        kernel("mg", ranks);
    }
}

#[test]
fn the_spectral_solver_has_the_published_checksums() {
    for ranks in [1, 3, 16] {
        kernel("ft", ranks);
    }
}

#[test]
fn kernels_keep_their_values_when_their_ranks_move() {
    for name in ["ep", "is", "cg", "mg", "ft"] {
        let job = built_in("nas", &format!("{name} --class S --ranks 7 --migrate-every 1"));
        let report = simulate(job.strategy("rotate".parse::<StrategyName>().unwrap()), SITES);
        report.outcome.unwrap();
        assert!(report.statistics.migrations >= 7, "{name}: {}", report.statistics.migrations);
    }
}

#[test]
fn repeated_kernels_keep_their_values_when_their_ranks_move_between_runs() {
    for name in ["ep", "is", "cg", "mg", "ft"] {
        let words = format!("{name} --class S --ranks 4 --repeat 3 --migrate-every 2");
        let job = built_in("nas", &words).strategy("rotate".parse::<StrategyName>().unwrap());
        embedded::run(job, 3).unwrap();
    }
}

#[test]
fn kernels_have_the_published_values_over_quic() {
    for name in ["ep", "is", "cg", "mg", "ft"] {
        let job = built_in("nas", &format!("{name} --class S --ranks 7"));
        emulated(job, "2x1x2,wan=2ms").unwrap_or_else(|error| panic!("{name}: {error}"));
    }
    for name in ["cg", "mg"] {
        let words = format!("{name} --class S --ranks 7 --migrate-every 2");
        let job = built_in("nas", &words).strategy("rotate".parse::<StrategyName>().unwrap());
        emulated(job, "2x1x2,wan=2ms").unwrap_or_else(|error| panic!("{name}: {error}"));
    }
}
