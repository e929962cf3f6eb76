//! Random programs under random load, on which a strategy must never lose time.

use super::profile::Profile;
use super::run::Episode;
use gridspan_topology::dice::Dice;
use std::time::Duration;

/// Mean time between loads on a node, in seconds.
const PAUSE: f64 = 300.0;
/// Time for which load is drawn, divided by the run time without load.
const LONGEST: f64 = 3.5;

/// Returns a program of two to six tasks, on the same number of nodes or up to four more, and loads
/// that begin and end on all nodes. The same seed gives the same result.
pub(crate) fn scenario(seed: u64) -> (Profile, Vec<Episode>) {
    let mut dice = Dice::new(seed);
    let tasks = 2 + dice.below(5_u32);
    let alone = 300.0 + 600.0 * dice.unit();
    let profile = Profile {
        name: "random",
        tasks,
        nodes: tasks + dice.below(5),
        pes: 1,
        cycle: 0,
        stay: Duration::ZERO,
        alone: Duration::from_secs_f64(alone),
        compute: if dice.below(5_u32) == 0 { 1.0 } else { 0.3 + 0.65 * dice.unit() },
        bytes: 2_000_000 + dice.below(38_000_000_usize),
        published_none: 0.0,
        published_dynamite: 0.0,
    };
    let stay = 20.0 + 280.0 * dice.unit();
    let mut load = Vec::new();
    for node in 0..profile.nodes {
        let mut from = dice.exponential(PAUSE);
        while from < alone * LONGEST {
            let until = from + dice.exponential(stay).max(1.0);
            load.push(Episode { node, from, until, processes: 1 + dice.below(2) });
            from = until + dice.exponential(PAUSE).max(1.0);
        }
    }
    (profile, load)
}
