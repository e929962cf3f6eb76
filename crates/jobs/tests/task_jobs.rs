//! The jobs of tasks on several numbers of PEs; each job verifies itself.
#![allow(missing_docs, clippy::unwrap_used)]

mod common;

use common::built_in;
use gridspan_kernels::tsp::SAMPLES;
use gridspan_runtime::driver::embedded;
use std::fs::{self, File};
use std::io::BufReader;

/// Runs a job on this many PEs.
fn run(name: &str, words: &str, pes: u32) {
    embedded::run(built_in(name, words), pes)
        .unwrap_or_else(|error| panic!("{name} {words} on {pes} PEs: {error}"));
}

#[test]
fn fork_and_join_compute_the_fibonacci_numbers() {
    for (n, pes) in [(0, 1), (1, 2), (20, 1), (20, 3)] {
        run("fib", &format!("-n {n}"), pes);
        run("fib", &format!("-n {n} --rounds 3"), pes);
    }
}

#[test]
fn searches_of_any_grain_place_the_queens() {
    for (n, grain, pes) in [(1, 1, 1), (8, 1, 3), (10, 5, 2), (6, 18, 2)] {
        run("queens", &format!("-n {n} --grain {grain}"), pes);
    }
}

#[test]
fn searches_count_every_node_of_a_tree_once() {
    for (tree, pes) in [("T1", 2), ("T3", 3)] {
        run("uts", &format!("--tree {tree}"), pes);
    }
}

#[test]
fn knapsacks_are_packed_for_the_optimum() {
    for (grain, pes) in [(16, 2), (0, 1)] {
        run("knapsack", &format!("--grain {grain}"), pes);
    }
    for (items, grain, pes) in [(24, 8, 3), (1, 5, 1)] {
        for seed in 0..3 {
            run("knapsack", &format!("--items {items} --seed {seed} --grain {grain}"), pes);
        }
    }
    let entry = gridspan_jobs::find("knapsack").unwrap();
    let error = (entry.build)(&["--seed", "2"].map(str::to_owned)).err().unwrap().to_string();
    assert!(error.contains("--items"), "{error}");
}

#[test]
fn tours_have_the_published_lengths() {
    // Once each, since an unoptimised search takes long.
    for (sample, (grain, pes)) in SAMPLES.iter().zip([(9, 1), (12, 3)].into_iter().cycle()) {
        run("tsp", &format!("--sample {} --grain {grain}", sample.name), pes);
    }
}

#[test]
fn the_mandelbrot_set_has_the_known_number_of_steps() {
    run("mandelbrot", "--size 512 --steps 1000", 2);
}

#[test]
fn a_picture_of_another_size_is_verified_by_some_rows_and_written() {
    let path = std::env::temp_dir().join(format!("mandelbrot-{}.png", std::process::id()));
    let words = ["--size", "64", "--steps", "200", "--out", path.to_str().unwrap()];
    let entry = gridspan_jobs::find("mandelbrot").unwrap();
    let job = (entry.build)(&words.map(str::to_owned)).unwrap();
    embedded::run(job, 3).unwrap();
    let reader = png::Decoder::new(BufReader::new(File::open(&path).unwrap())).read_info().unwrap();
    assert_eq!((reader.info().width, reader.info().height), (64, 64));
    fs::remove_file(path).unwrap();
}
