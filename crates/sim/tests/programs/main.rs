//! Random programs give the same result whatever nodes they lose on the way.
//!
//! A seed gives a grid, a program and what happens to it. `PROGRAMS_SEEDS` selects the seeds,
//! `PROGRAMS_TRACE=1` prints what happens, and with `PROGRAMS_GO_ON=1` the test goes on after a
//! failure, to count them.
#![allow(missing_docs, clippy::unwrap_used)]

mod cells;
mod outcome;
#[path = "../losses/processes.rs"]
mod processes;
mod program;
mod shape;
mod story;
mod tasks;
mod world;

use std::ops::Range;
use story::{Story, story};

fn seeds() -> Range<u64> {
    let Ok(text) = std::env::var("PROGRAMS_SEEDS") else { return 0..40 };
    let number = |text: &str| text.parse().expect("PROGRAMS_SEEDS is a number or a range `A..B`");
    match text.split_once("..") {
        Some((first, end)) => number(first)..number(end),
        None => 0..number(&text),
    }
}

#[test]
fn random_programs_give_the_same_result_whatever_nodes_are_lost() {
    let mut sum = Story::default();
    let mut failed = Vec::new();
    let goes_on = std::env::var_os("PROGRAMS_GO_ON").is_some();
    let begin = std::time::Instant::now();
    for seed in seeds() {
        let began = std::time::Instant::now();
        let story = std::panic::catch_unwind(|| story(seed))
            .unwrap_or_else(|_| Story { problem: Some("a panic".to_owned()), ..Story::default() });
        if let Some(problem) = &story.problem {
            println!("FAILED seed {seed}: {problem}");
            failed.push(seed);
            assert!(
                goes_on,
                "seed {seed}: {problem}; PROGRAMS_SEEDS={seed}..{} repeats it",
                seed + 1
            );
        }
        if began.elapsed().as_secs() > 5 {
            println!("seed {seed} took {:?}", began.elapsed());
        }
        sum.add(story);
        if seed % 200 == 199 {
            println!("{seed} after {:?}: {sum:?}", begin.elapsed());
        }
    }
    println!("{sum:#?}");
    assert!(failed.is_empty(), "{failed:?}");
}
