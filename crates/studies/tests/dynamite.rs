//! Short programs under the kind of load of Iskra et al. (2000): moving tasks helps where nodes are
//! free, and costs no time where none are. The example `dynamite` makes the tables of the paper.
#![allow(missing_docs, clippy::unwrap_used, dead_code)]

#[path = "../examples/dynamite/profile.rs"]
mod profile;
#[path = "../examples/dynamite/run.rs"]
mod run;
#[path = "../examples/dynamite/task.rs"]
mod task;

use gridspan_topology::Bandwidth;
use profile::{GRAIL, NAS, Profile};
use run::{cycle, run};
use std::time::Duration;

/// Returns a program of two minutes with load that stays for half a minute.
fn short(profile: &Profile) -> Profile {
    let (alone, stay) = (Duration::from_secs(120), Duration::from_secs(30));
    Profile { alone, stay, bytes: 1_000_000, ..*profile }
}

fn seconds(profile: &Profile, strategy: &str, is_loaded: bool) -> f64 {
    let load = if is_loaded { cycle(profile) } else { Vec::new() };
    let lan = Bandwidth::from_bits_per_second(1_000_000_000);
    run(profile, strategy, &load, lan).unwrap().time.as_secs_f64()
}

#[test]
fn moving_tasks_away_from_load_loses_little_time_if_nodes_are_free() {
    // `cg`, whose tasks wait for each other, and `ep`, whose tasks never communicate.
    for profile in [short(&NAS[0]), short(&NAS[1])] {
        let alone = seconds(&profile, "none", false);
        let none = seconds(&profile, "none", true) / alone - 1.0;
        let vacate = seconds(&profile, "vacate", true) / alone - 1.0;

        assert!(none > 0.15, "{}: {none}", profile.name);
        // The runtime detects load within about two seconds, up to four times in two minutes.
        assert!(vacate < 0.1 && vacate < none / 2.0, "{}: {none} {vacate}", profile.name);
    }
}

#[test]
fn no_time_is_lost_if_every_processor_has_three_tasks() {
    let profile = short(&GRAIL[1]);

    let (none, vacate) = (seconds(&profile, "none", true), seconds(&profile, "vacate", true));

    assert!(vacate <= none * 1.005, "{none} {vacate}");
}

#[test]
fn monitoring_costs_almost_no_time_without_load() {
    let profile = short(&NAS[4]);

    let (none, auto) = (seconds(&profile, "none", false), seconds(&profile, "auto", false));

    assert!(auto <= none * 1.002, "{none} {auto}");
}
