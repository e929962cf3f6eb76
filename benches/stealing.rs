//! Work stealing between nodes: the experiment of Zhang et al. (2007), "Dynamic Load-Balancing and
//! High Performance Communication in Jcluster", section 5.1, with its policies, with others and
//! with the directory policy ("ours").
//!
//! `cargo bench --bench stealing`; a word after `--` selects figures: `flat`, `wide`, `thousand`.
//! It runs in virtual time, so that the numbers are the same on every machine. Charts like figures
//! 4 to 8 of the paper are written to `target/stealing`. Attempts count only while unstarted
//! tasks exist, and so do messages of the other policies. For our policy, all messages count,
//! including those with which nodes go to sleep. The constants of our policy were chosen with seed
//! 1; the tables are of seeds 2 to 4.

#[allow(dead_code, reason = "each bench uses a part")]
#[path = "support/suite.rs"]
mod suite;

use gridspan_studies::charts::{Curve, Panel, Scale, picture};
use gridspan_studies::stealing::{LoadSpread, StealingExperiment, Tally, four_sites};
use std::path::Path;
use std::time::Duration;
use suite::Suite;

/// Goal: attempts divided by those of `random`.
const ATTEMPTS_OF_RANDOM: f64 = 0.25;
/// Goal for binomial loads: attempts divided by those of `transitive`.
const ATTEMPTS_OF_TRANSITIVE: f64 = 0.45;
/// Goal: messages divided by those of `random-half`.
const MESSAGES_OF_HALF: f64 = 1.05;
/// Two makespans count as equal if their ratio is at most this number.
const SAME: f64 = 1.005;

const OURS: &str = "directory";
const FLAT: [&str; 6] = ["random", "shis", "transitive", "random-half", "lifeline", OURS];
const WIDE: [&str; 7] =
    ["random", "shis", "transitive", "random-half", "lifeline", "cluster-aware-half", OURS];

fn main() {
    let mut suite = Suite::new("stealing");
    if suite.wants("flat") {
        flat(&suite);
    }
    if suite.wants("wide") {
        wide(&suite);
    }
    if suite.wants("thousand") {
        thousand(&mut suite);
    }
    suite.finish();
}

fn seeds(suite: &Suite) -> std::ops::RangeInclusive<u64> {
    2..=suite.choose(4, 2)
}

/// Runs an experiment with each seed, and returns the means.
fn mean(
    experiment: &StealingExperiment,
    policy: &str,
    seeds: std::ops::RangeInclusive<u64>,
) -> Mean {
    let mut mean = Mean::default();
    let share = 1.0 / seeds.clone().count() as f64;
    for seed in seeds {
        let experiment = StealingExperiment { seed, ..experiment.clone() };
        let tally: Tally = experiment.run(policy).expect("the policies are listed");
        let is_ours = policy == OURS;
        mean.attempts += share * tally.attempts as f64;
        let messages = if is_ours { tally.messages_all } else { tally.messages };
        mean.messages += share * messages as f64;
        let wide_area = if is_ours { tally.wide_area_all } else { tally.wide_area };
        mean.wide_area += share * wide_area as f64;
        mean.makespan += share * tally.makespan.as_secs_f64();
        mean.efficiency += share * tally.efficiency;
    }
    mean
}

#[derive(Clone, Copy, Default)]
struct Mean {
    attempts: f64,
    messages: f64,
    wide_area: f64,
    makespan: f64,
    efficiency: f64,
}

fn show(count: f64) -> String {
    match count {
        count if count < 1e4 => format!("{count:.0}"),
        count if count < 1e6 => format!("{:.1}k", count / 1e3),
        count => format!("{:.2}M", count / 1e6),
    }
}

fn at_most(value: f64, goal: f64) -> String {
    format!("{value:.3} (goal {goal}{})", if value <= goal { "" } else { ", MISSED" })
}

fn geometric_mean(values: &[f64]) -> f64 {
    (values.iter().map(|value| value.ln()).sum::<f64>() / values.len().max(1) as f64).exp()
}

/// Returns the makespan of our policy, the last one, divided by the least makespan of the others.
fn against_best(means: &[Mean]) -> f64 {
    let (ours, others) = means.split_last().expect("ours is among them");
    ours.makespan / others.iter().map(|other| other.makespan).fold(f64::INFINITY, f64::min)
}

/// Compares the policies on one site of 32 to 4096 nodes.
fn flat(suite: &Suite) {
    let sizes: Vec<u32> = (5..=suite.choose(12, 6)).map(|bits| 1 << bits).collect();
    println!("\nOne site: attempts / messages / efficiency, and ours divided by others\n");
    println!("| nodes | load | {} | makespan / best |", FLAT.join(" | "));
    println!("| --- {}| --- | --- |", "| --- ".repeat(FLAT.len()));
    let (mut random, mut transitive, mut half, mut time) = (vec![], vec![], vec![], 0.0_f64);
    for spread in LoadSpread::ALL {
        let curve = |name: &str| Curve { name: name.to_owned(), points: vec![], is_bound: false };
        let mut curves = FLAT.map(curve);
        for &nodes in &sizes {
            let experiment = StealingExperiment::new(nodes, spread);
            let means = FLAT.map(|policy| mean(&experiment, policy, seeds(suite)));
            for (curve, mean) in curves.iter_mut().zip(&means) {
                curve.points.push((f64::from(nodes), mean.attempts));
            }
            let cells = means.map(|mean| {
                let (attempts, messages) = (show(mean.attempts), show(mean.messages));
                format!("{attempts} / {messages} / {:.3}", mean.efficiency)
            });
            let ours = means[5];
            random.push(ours.attempts / means[0].attempts);
            half.push(ours.messages / means[3].messages);
            if matches!(spread, LoadSpread::BinomialThird | LoadSpread::BinomialEighth) {
                transitive.push(ours.attempts / means[2].attempts);
            }
            let ratio = against_best(&means);
            time = time.max(ratio);
            println!(
                "| {nodes} | {} | {} | {} |",
                spread.name(),
                cells.join(" | "),
                at_most(ratio, SAME)
            );
        }
        draw(spread, curves.to_vec());
    }
    println!();
    println!("- attempts / random: {}", at_most(geometric_mean(&random), ATTEMPTS_OF_RANDOM));
    let binomial = at_most(geometric_mean(&transitive), ATTEMPTS_OF_TRANSITIVE);
    println!("- attempts / transitive, binomial loads: {binomial}");
    let most = half.iter().copied().fold(0.0, f64::max);
    println!("- all messages / random-half, worst: {}", at_most(most, MESSAGES_OF_HALF));
    println!("- makespan / best of others, worst: {}", at_most(time, SAME));
}

fn draw(spread: LoadSpread, curves: Vec<Curve>) {
    let title = format!("load {}", spread.name());
    let panel = Panel { title, axes: ["nodes", "attempts"], curves };
    let picture = picture("Steal attempts", Scale::Logarithmic, &[vec![panel]]);
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("target/stealing");
    let name = spread.name().replace(['/', '(', ')', ','], "-");
    let path = folder.join(format!("attempts-{}.svg", name.trim_matches('-')));
    let written = std::fs::create_dir_all(&folder).and_then(|()| std::fs::write(&path, picture));
    match written {
        Ok(()) => eprintln!("{}", path.display()),
        Err(error) => eprintln!("cannot write {}: {error}", path.display()),
    }
}

/// Compares the policies on two to eight sites.
fn wide(suite: &Suite) {
    let nodes = suite.choose(256, 32);
    println!("\n{nodes} nodes on several sites: messages between sites / efficiency\n");
    println!("| sites | one way | load | {} | makespan / best |", WIDE.join(" | "));
    println!("| --- | --- {}| --- | --- |", "| --- ".repeat(WIDE.len()));
    let mut time = Vec::new();
    for &sites in suite.choose(&[2, 4, 8][..], &[4]) {
        for &ms in suite.choose(&[5, 20, 100][..], &[20]) {
            for spread in LoadSpread::ALL {
                let way = Duration::from_millis(ms);
                let experiment = StealingExperiment::new(nodes, spread).on_sites(sites, way);
                let means = WIDE.map(|policy| mean(&experiment, policy, seeds(suite)));
                let cells =
                    means.map(|mean| format!("{} / {:.3}", show(mean.wide_area), mean.efficiency));
                let ratio = against_best(&means);
                time.push(ratio);
                let (load, ratio) = (spread.name(), at_most(ratio, SAME));
                println!("| {sites} | {ms} ms | {load} | {} | {ratio} |", cells.join(" | "));
            }
        }
    }
    let met = time.iter().filter(|&&ratio| ratio <= SAME).count();
    let mean = geometric_mean(&time);
    println!("\n- makespan / best of others: {met} of {} met, mean {mean:.3}", time.len());
}

/// Records the figures of [`four_sites`].
fn thousand(suite: &mut Suite) {
    let nodes = suite.choose(1024, 64);
    let seeds: Vec<u64> = seeds(suite).collect();
    for (title, value) in four_sites(nodes, &seeds).expect("the policies are listed") {
        suite.value(&title, value);
    }
}
