//! The claims of Zhang et al. (2007), and properties of the directory policy, on small jobs; the
//! bench has the figures of large jobs.

use super::*;
use gridspan_balance::stealing::STEALING_POLICIES;

fn run(experiment: &StealingExperiment, policy: &str) -> Tally {
    experiment.run(policy).unwrap()
}

#[test]
fn attempts_decrease_from_random_over_shis_and_transitive_to_directory() {
    for spread in [LoadSpread::Eighth, LoadSpread::BinomialThird, LoadSpread::BinomialEighth] {
        let attempts = ["random", "shis", "transitive", "directory"]
            .map(|policy| run(&StealingExperiment::new(256, spread), policy).attempts);

        assert!(attempts.is_sorted_by(|more, less| more > less), "{}: {attempts:?}", spread.name());
    }
}

#[test]
fn every_policy_does_every_task_once_and_is_reproducible() {
    let experiment = StealingExperiment {
        batches: 2,
        ..StealingExperiment::new(32, LoadSpread::BinomialThird)
            .on_sites(4, Duration::from_millis(5))
    };
    for &policy in STEALING_POLICIES {
        let tally = run(&experiment, policy);

        assert_eq!(tally.done, 2 * 5 * 32, "{policy}");
        assert_eq!(tally, run(&experiment, policy), "{policy}");
    }
}

#[test]
fn the_directory_policy_sends_nothing_while_all_nodes_are_idle() {
    let flat = StealingExperiment::new(64, LoadSpread::BinomialEighth);
    let far = flat.clone().on_sites(4, Duration::from_millis(20));
    for experiment in [flat, far] {
        let idling = Duration::from_secs(2);
        let tally = run(&StealingExperiment { idling, ..experiment }, "directory");

        assert_eq!(tally.messages_idling, 0);
    }
}

#[test]
fn all_tasks_are_done_although_nodes_are_lost() {
    // Over all seeds, the lost nodes include those that keep directories, heads of sites, and nodes
    // that hold or steal tasks.
    for seed in 0..20_u32 {
        let losses: Vec<(Time, NodeId)> = [0, 8, 5, 9, 1]
            .iter()
            .enumerate()
            .map(|(at, &node)| {
                let time = 3_000_000 * u64::from(seed) + 7_100_000 * at as u64;
                (Time(time), NodeId((node + seed) % 31))
            })
            .collect();
        for sites in [1, 4] {
            let experiment = StealingExperiment {
                batches: 3,
                losses: losses.clone(),
                seed: u64::from(seed),
                ..StealingExperiment::new(32, LoadSpread::BinomialEighth)
                    .on_sites(sites, Duration::from_millis(5))
            };
            // Policies that poll take long to simulate.
            let others = ["random", "transitive", "cluster-aware", "lifeline"];
            let others = others.into_iter().filter(|_| seed < 2);
            for policy in others.chain(["directory"]) {
                let tally = run(&experiment, policy);

                assert_eq!(tally.done, 3 * 5 * 32, "{policy}, seed {seed}, {sites} sites");
                // 27 nodes need 60 ms for each of the three batches; three times that leaves room
                // for losses and latencies.
                let is_in_time = tally.makespan < Duration::from_millis(3 * 180);
                assert!(policy != "directory" || is_in_time, "seed {seed}: {:?}", tally.makespan);
            }
        }
    }
}

#[test]
fn parts_of_a_large_site_share_their_work() {
    let experiment = StealingExperiment {
        batches: 2,
        ..StealingExperiment::new(4200, LoadSpread::BinomialEighth)
    };

    let tally = run(&experiment, "directory");

    // All tasks appear in the first of two parts, which alone would have an efficiency of 0.5.
    assert!(tally.efficiency > 0.8, "{}", tally.efficiency);
}
