//! Random groups and calls under random faults.
//! `cargo run --release -p gridspan-studies --example faults` runs more.
#![allow(missing_docs, clippy::unwrap_used)]

mod world;

const SEEDS: u64 = 40;

#[test]
fn groups_and_calls_end_with_right_results_or_errors_and_leave_no_data() {
    let (mut lost, mut restarted, mut stuck) = (0, 0, 0);
    for seed in 0..SEEDS {
        let (report, counts) = world::run(seed);
        assert_eq!(report.outcome, Ok(()), "seed {seed}");
        lost += counts.lost;
        restarted += counts.restarted;
        stuck += counts.stuck;
    }
    assert!(lost > 0 && restarted > 0 && stuck > 0);
}

#[test]
fn the_same_seed_gives_the_same_run() {
    let hashes = [7, 7].map(|seed| world::run(seed).0.log_hash);
    assert_eq!(hashes[0], hashes[1]);
}
