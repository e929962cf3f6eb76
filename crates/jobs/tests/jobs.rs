//! The smaller jobs under all drivers; each job verifies itself.
#![allow(missing_docs)]

mod common;

use common::{SITES, built_in, emulated, everywhere, simulate};
use gridspan_balance::StrategyName;
use gridspan_jobs::{ENTRIES, find};
use gridspan_runtime::driver::embedded;

#[test]
fn entries_are_sorted_by_name_and_each_is_found() {
    assert!(ENTRIES.is_sorted_by(|a, b| a.name < b.name));
    assert!(ENTRIES.iter().all(|entry| find(entry.name).is_some_and(|e| e.name == entry.name)));
    assert!(find("nothing").is_none());
}

#[test]
fn every_job_can_be_built_without_arguments_and_has_a_help_text() {
    for entry in ENTRIES {
        assert_eq!((entry.build)(&[]).unwrap().name(), entry.name);
        let help = (entry.build)(&["--help".to_owned()]).err().unwrap();
        assert_eq!(help.exit_code(), 0, "{help}");
        assert!(help.to_string().contains(entry.about), "{help}");
    }
}

#[test]
fn stencils_cut_into_any_blocks_match_the_exact_solution() {
    everywhere(|| built_in("stencil", "-n 50 --blocks 4 --iterations 25"));
    for words in [
        "-n 13 --blocks 5 --iterations 9",
        "-n 6 --blocks 6 --iterations 3",
        "-n 20 --blocks 1 --iterations 30 --sync-every 7",
        "-n 2 --blocks 9 --iterations 1",
        "-n 9 --blocks 3 --iterations 0",
    ] {
        embedded::run(built_in("stencil", words), 2).unwrap();
        simulate(built_in("stencil", words), SITES).outcome.unwrap();
    }
}

#[test]
fn stencils_stay_exact_while_their_blocks_move() {
    for strategy in ["rotate", "random"] {
        let words = "-n 40 --blocks 5 --iterations 20 --sync-every 6";
        everywhere(|| {
            built_in("stencil", words)
                .strategy(strategy.parse::<StrategyName>().expect("it is a name"))
        });
    }
}

#[test]
fn every_particle_of_every_cloud_arrives() {
    for shape in ["geometric", "sinusoidal", "linear", "patch"] {
        let words = format!("--cells 40 --particles 3000 --steps 12 --blocks 5 --shape {shape}");
        embedded::run(built_in("pic", &words), 3).unwrap();
        simulate(built_in("pic", &words), SITES).outcome.unwrap();
    }
    everywhere(|| built_in("pic", "--cells 40 --particles 3000 --steps 12 --blocks 5"));
}

#[test]
fn particles_may_jump_over_blocks_move_down_or_share_a_single_block() {
    for words in [
        "-k 9 -m -7 --blocks 6 --particles 500",
        "-k 30 -m 45 --blocks 4 --particles 500",
        "-k 0 -m 0 --blocks 3 --particles 500",
        "--blocks 1 --particles 500",
        "--blocks 24 --particles 500",
        "--blocks 5 --particles 1",
    ] {
        let words = format!("--cells 24 --steps 15 {words}");
        embedded::run(built_in("pic", &words), 2).unwrap();
        simulate(built_in("pic", &words), SITES).outcome.unwrap();
    }
}

#[test]
fn particles_arrive_while_their_blocks_move() {
    for strategy in ["rotate", "random"] {
        let words = "--cells 40 --particles 3000 --steps 12 --blocks 5 --sync-every 4";
        everywhere(|| {
            built_in("pic", words).strategy(strategy.parse::<StrategyName>().expect("it is a name"))
        });
    }
}

#[test]
fn migrating_actors_lose_no_message() {
    let drill = || built_in("drill", "--lines 0 --migrations 3000");
    embedded::run(drill(), 3).unwrap();
    let report = simulate(drill(), SITES);
    assert_eq!((report.outcome, report.statistics.migrations), (Ok(()), 3000));
    emulated(drill(), "2x1x2,wan=2ms").unwrap();
    let error = embedded::run(drill(), 1).unwrap_err().to_string();
    assert!(error.contains("use several, such as -n 2"), "{error}");
}

#[test]
fn more_blocks_than_memory_holds_are_refused() {
    let words = "--cells 1048576 --blocks 1048576";
    let error = embedded::run(built_in("pic", words), 1).unwrap_err().to_string();
    assert!(error.contains("--blocks takes 1 to 4096"), "{error}");
}

#[test]
fn a_patch_that_is_not_in_the_square_fails_with_advice() {
    let words = "--cells 20 --shape patch --patch 3,25,1,2";
    let error = embedded::run(built_in("pic", words), 1).unwrap_err().to_string();
    assert!(error.contains("a patch must lie inside the square"), "{error}");
}

#[test]
fn messages_of_all_small_sizes_return_unchanged() {
    everywhere(|| built_in("pingpong", "--seconds 0.0005 --max-bytes 50000"));
}

#[test]
fn a_bound_below_the_smallest_message_leaves_nothing_to_verify_and_is_refused() {
    let error = embedded::run(built_in("pingpong", "--max-bytes 31"), 1).unwrap_err().to_string();
    assert!(error.contains("`--max-bytes` takes 32 or more"), "{error}");
}

#[test]
fn the_largest_message_crosses_sites_unchanged() {
    common::emulated(built_in("pingpong", "--seconds 0"), "2x1,wan=2ms").unwrap();
    simulate(built_in("pingpong", "--seconds 0"), "2x1,wan=2ms").outcome.unwrap();
}

#[test]
fn a_message_takes_the_latency_of_the_link() {
    // A round trip and a trial of each size, at 30 ms each way.
    let report = simulate(built_in("pingpong", "--seconds 0 --max-bytes 1000"), "2x1,wan=30ms");
    report.outcome.unwrap();
    let trips = 7.0 * 2.0 * 0.060;
    let took = report.virtual_time.as_secs_f64();
    assert!(took > trips && took < 1.3 * trips + 0.3, "{took} s, {trips} s are latency");
}

#[test]
fn messages_of_all_pairs_arrive_whole() {
    everywhere(|| built_in("pingpong", "--pairs --bytes 1B,20kB --rounds 2 --seconds 0.0005"));
    let words = "--pairs --bytes 1kB --rounds 1 --seconds 0";
    simulate(built_in("pingpong", words), "3x2x2,wan=8ms").outcome.unwrap();
}

#[test]
fn the_token_of_the_ring_visits_every_actor() {
    everywhere(|| built_in("ring", "--members 30 --rounds 3"));
    for (members, pes) in [(1, 1), (1, 3), (64, 1), (10, 3), (5, 8)] {
        let words = format!("--members {members} --rounds 7");
        embedded::run(built_in("ring", &words), pes).unwrap();
    }
}

#[test]
fn ranks_of_two_pes_are_measured_and_verified() {
    for handling in ["keep", "poll", "touch", "move"] {
        let words = "--bytes 1B,1kB,100kB --ranks 5 --seconds 0.0005 --handling";
        embedded::run(built_in("ranks", &format!("{words} {handling}")), 2).unwrap();
    }
}

#[test]
fn a_drill_on_nodes_that_the_grid_does_not_have_is_refused() {
    for (words, named) in [
        ("--panic 1", "--panic"),
        ("--abort 1", "--abort"),
        ("--exit 7", "--exit"),
        ("--busy 1 --busy-from 1", "--busy-from"),
        ("--endless 1", "--endless"),
    ] {
        let error = embedded::run(built_in("drill", words), 1).unwrap_err().to_string();
        assert!(error.contains(&format!("`{named}` takes 0 to 0")), "{words}: {error}");
    }
}

#[test]
fn broadcasts_of_all_sizes_reach_every_node_in_both_ways() {
    everywhere(|| built_in("bcast", "--bytes 1B,1kB,200kB --rounds 2"));
}

#[test]
fn a_confirmed_broadcast_takes_a_round_trip() {
    // Each way has 3 uncounted rounds and 2 counted ones. A round takes 60 ms for the broadcast
    // with its confirmations, and as much for the verification. The separate measurements of the
    // reduction take longer than all rounds together.
    let report = simulate(built_in("bcast", "--bytes 1B --rounds 2"), "2x1,wan=30ms");
    report.outcome.unwrap();
    let took = report.virtual_time.as_secs_f64();
    assert!(took > 10.0 * 2.0 * 0.060 && took < 5.0, "{took} s");
}
