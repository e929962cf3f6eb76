//! Compares the directory policy with the transitive policy of the paper on four sites. The figures
//! come from virtual time, so they are the same in every run.

use super::{LoadSpread, StealingExperiment};
use crate::figures::ComputedValue;
use gridspan_balance::stealing::UnknownStealingPolicy;
use std::time::Duration;

/// Goal: the least efficiency of the directory policy.
const EFFICIENCY: f64 = 0.5;
/// Goal: the most messages between sites of the directory policy, divided by those of the
/// transitive policy.
const WIDE_OF_TRANSITIVE: f64 = 0.05;

/// Runs the experiment on four sites with a latency of 20 ms between them, one way. Returns two
/// figures with their titles; each is the mean over the seeds. `nodes` is the number of nodes on
/// all sites together. Fails only if a policy has been renamed.
pub fn four_sites(
    nodes: u32,
    seeds: &[u64],
) -> Result<Vec<(String, ComputedValue)>, UnknownStealingPolicy> {
    let experiment = StealingExperiment::new(nodes, LoadSpread::BinomialEighth);
    let experiment = experiment.on_sites(4, Duration::from_millis(20));
    let (mut theirs, mut ours) = ([0.0; 2], [0.0; 2]);
    for &seed in seeds {
        let experiment = StealingExperiment { seed, ..experiment.clone() };
        let transitive = experiment.run("transitive")?;
        // For the directory policy, the messages that idle nodes send after the last task has begun
        // count too.
        let directory = experiment.run("directory")?;
        let share = 1.0 / seeds.len() as f64;
        theirs[0] += share * transitive.efficiency;
        theirs[1] += share * transitive.wide_area as f64;
        ours[0] += share * directory.efficiency;
        ours[1] += share * directory.wide_area_all as f64;
    }
    let efficiency = ComputedValue::new(format!("{:.3}", ours[0]))
        .beside("transitive", format!("{:.3}", theirs[0]))
        .ratio(format!("{:.2}", ours[0] / theirs[0]))
        .goal(format!("at least {EFFICIENCY}"), ours[0] >= EFFICIENCY);
    let ratio = ours[1] / theirs[1];
    let messages = ComputedValue::new(format!("{:.0}", ours[1]))
        .beside("transitive", format!("{:.0}", theirs[1]))
        .ratio(format!("{ratio:.3}"))
        .goal(format!("at most {WIDE_OF_TRANSITIVE} of it"), ratio <= WIDE_OF_TRANSITIVE);
    let title = |what: &str| format!("{what}, {nodes} nodes on four sites");
    Ok(vec![(title("efficiency"), efficiency), (title("messages between sites"), messages)])
}
