//! Topology inference: how well it finds the groups of known networks, compared with other methods,
//! and its cost. The closest groups are those of the finest level.
//!
//! `cargo bench --bench topology`; a word after `--` selects figures, as in `-- sampled`. The seeds
//! are 1 to 5, as in the tests of `gridspan-topology`; the constants of the methods were chosen
//! with seeds from 1000 on.

#[allow(dead_code, reason = "each bench uses a part")]
#[path = "support/suite.rs"]
mod suite;

use gridspan_studies::figures::{ComputedValue, FigureUnit};
use gridspan_studies::networks::{Baseline, NetworkShape, Synthetic};
use gridspan_topology::{Hierarchy, Inference, ProbeCount, RttMatrix, adjusted_rand_index, infer};
use std::time::{Duration, Instant};
use suite::{Contender, Sample, Suite};

/// Goal for a full matrix: the adjusted Rand index of the closest groups. The number of levels must
/// be right too.
const FULL_FINE: f64 = 0.95;
/// Goal for a sampled inference: the adjusted Rand index of the closest groups.
const SAMPLED_FINE: f64 = 0.93;
/// Goal for a sampled inference: the adjusted Rand index of the sites.
const SAMPLED_COARSE: f64 = 0.99;
/// Goal for a sampled inference: the mean number of probes per node.
const SAMPLED_PROBES: f64 = 100.0;
/// Goal for the time of an inference from a full matrix.
const FULL_TIME: Duration = Duration::from_millis(50);
/// Goal for the time of a sampled inference.
const SAMPLED_TIME: Duration = Duration::from_secs(2);

fn main() {
    let mut suite = Suite::new("topology");
    let seeds: Vec<u64> = (1..=suite.choose(5, 1)).collect();
    if suite.wants("full matrix") {
        for nodes in suite.choose(&[64, 256][..], &[64][..]) {
            full(&mut suite, *nodes, &seeds);
        }
    }
    if suite.wants("sampled") {
        for nodes in suite.choose(&[1024, 4096][..], &[512][..]) {
            sampled(&mut suite, *nodes, &seeds);
        }
    }
    times(&mut suite);
    suite.finish();
}

/// Agreement of a hierarchy with the truth.
#[derive(Clone, Copy, Default)]
struct Score {
    /// Adjusted Rand index of the closest groups.
    fine: f64,
    /// Adjusted Rand index of the level that agrees best with the sites.
    coarse: f64,
    /// Number of levels found minus the true number.
    extra_levels: f64,
}

impl Score {
    fn of(levels: &[Vec<u32>], network: &Synthetic, shape: NetworkShape) -> Self {
        let whole = vec![0; network.clusters().len()];
        let sites = network.sites();
        let coarse = levels.iter().map(|level| adjusted_rand_index(level, &sites));
        Self {
            fine: adjusted_rand_index(levels.last().unwrap_or(&whole), network.clusters()),
            coarse: coarse.fold(0.0, f64::max),
            extra_levels: levels.len() as f64 + 1.0 - shape.levels() as f64,
        }
    }

    fn mean(scores: &[Self]) -> Self {
        let mean = |part: fn(&Self) -> f64| {
            scores.iter().map(part).sum::<f64>() / scores.len().max(1) as f64
        };
        Self {
            fine: mean(|score| score.fine),
            coarse: mean(|score| score.coarse),
            extra_levels: mean(|score| score.extra_levels),
        }
    }

    fn show(self) -> String {
        format!("{:.3} / {:.3} ({:+.1})", self.fine, self.coarse, self.extra_levels)
    }
}

/// Returns the groups of each level below the whole, coarsest first.
fn levels(hierarchy: &Hierarchy) -> Vec<Vec<u32>> {
    let group = |node, level| hierarchy.group_of(node, level).map_or(0, |group| group.0);
    let of = |level| hierarchy.nodes().map(|node| group(node, level)).collect();
    (1..hierarchy.depth()).map(of).collect()
}

/// Prints the scores of all methods on all shapes, from the round trips of all pairs.
fn full(suite: &mut Suite, nodes: u32, seeds: &[u64]) {
    println!("\nFull matrix, {nodes} nodes, mean of {} seeds:", seeds.len());
    println!(
        "agreement (ARI) of the closest groups / of the sites (levels found minus true levels)\n"
    );
    let names: Vec<_> = NetworkShape::ALL.iter().map(|shape| shape.name()).collect();
    println!("| method | {} |\n| --- {}|", names.join(" | "), "| --- ".repeat(names.len()));
    let row = |name: &str, find: &dyn Fn(&RttMatrix) -> Vec<Vec<u32>>, has_goal: bool| {
        let networks = |shape| seeds.iter().map(move |&seed| Synthetic::new(shape, nodes, seed));
        let cells: Vec<String> = NetworkShape::ALL
            .iter()
            .map(|&shape| cell(shape, networks(shape), find, has_goal))
            .collect();
        println!("| {name} | {} |", cells.join(" | "));
    };
    row("**ours**", &|matrix| levels(&infer(matrix)), true);
    for baseline in Baseline::ALL {
        row(baseline.name(), &|matrix| baseline.partitions(matrix), false);
    }
    let uneven = NetworkShape::ALL.iter().map(|&shape| {
        let network = |&seed: &u64| Synthetic::new(shape, nodes, seed).with_uneven_clusters();
        cell(shape, seeds.iter().map(network), &|matrix| levels(&infer(matrix)), false)
    });
    println!("| ours, clusters of 1 to 36 parts | {} |", uneven.collect::<Vec<_>>().join(" | "));
    closest_groups(suite, nodes, seeds);
}

/// Records the adjusted Rand index of the closest groups on the shape whose levels are hardest to
/// distinguish.
fn closest_groups(suite: &mut Suite, nodes: u32, seeds: &[u64]) {
    let shape = NetworkShape::HardThreeLevel;
    let mean = |find: &dyn Fn(&RttMatrix) -> Vec<Vec<u32>>| {
        let networks = seeds.iter().map(|&seed| Synthetic::new(shape, nodes, seed));
        let score = |network: Synthetic| Score::of(&find(&network.matrix()), &network, shape).fine;
        networks.map(score).sum::<f64>() / seeds.len() as f64
    };
    let ours = mean(&|matrix| levels(&infer(matrix)));
    let mut value = ComputedValue::new(format!("{ours:.3}"));
    for baseline in Baseline::ALL {
        let theirs = mean(&|matrix| baseline.partitions(matrix));
        value = value.beside(baseline.name(), format!("{theirs:.3}"));
    }
    let value = value.goal(format!("at least {FULL_FINE}"), ours >= FULL_FINE);
    suite.value(&format!("full matrix, {}, {nodes} nodes", shape.name()), value);
}

fn cell(
    shape: NetworkShape,
    networks: impl Iterator<Item = Synthetic>,
    find: &dyn Fn(&RttMatrix) -> Vec<Vec<u32>>,
    has_goal: bool,
) -> String {
    let score = |network: Synthetic| Score::of(&find(&network.matrix()), &network, shape);
    let scores: Vec<Score> = networks.map(score).collect();
    let mean = Score::mean(&scores);
    // Other shapes have no fixed number of levels: continents, and sites that happen to be close,
    // are levels too.
    let is_counted = matches!(
        shape,
        NetworkShape::TwoLevel | NetworkShape::ThreeLevel | NetworkShape::HardThreeLevel
    );
    if !has_goal || !is_counted {
        return mean.show();
    }
    let levels_right = scores.iter().all(|score| score.extra_levels == 0.0);
    let met = mean.fine >= FULL_FINE && levels_right;
    format!("{}, >= {FULL_FINE} (+0) {}", mean.show(), judged(met))
}

fn judged(met: bool) -> &'static str {
    if met { "met" } else { "MISSED" }
}

/// Prints the scores of our method with the probes that it requests, and for up to 1,024 nodes
/// those of the baselines with all pairs.
fn sampled(suite: &mut Suite, nodes: u32, seeds: &[u64]) {
    println!(
        "\nSampled, {nodes} nodes, mean of {} seeds; a probe is one sample and counts at both ends:\n",
        seeds.len()
    );
    println!(
        "| network | fine / coarse ARI (levels found minus true levels) | probes per node: mean, most | rounds | goals |"
    );
    println!("| --- | --- | --- | --- | --- |");
    for shape in NetworkShape::ALL {
        let networks: Vec<Synthetic> =
            seeds.iter().map(|&seed| Synthetic::new(shape, nodes, seed)).collect();
        let (fine, probes) = sampled_row(shape.name(), shape, &networks, seeds);
        if shape == NetworkShape::EightByEight {
            let value = ComputedValue::new(format!("{fine:.3}, {probes:.0} probes a node"));
            let goal = format!("at least {SAMPLED_FINE}, at most {SAMPLED_PROBES} probes");
            let is_met = fine >= SAMPLED_FINE && probes <= SAMPLED_PROBES;
            suite.value(&format!("sampled, 8x8, {nodes} nodes"), value.goal(goal, is_met));
        }
    }
    let uneven = |&seed: &u64| {
        Synthetic::new(NetworkShape::EightByEight, nodes, seed).with_uneven_clusters()
    };
    let networks: Vec<Synthetic> = seeds.iter().map(uneven).collect();
    sampled_row("8x8, clusters of 1 to 36 parts", NetworkShape::EightByEight, &networks, seeds);
    if nodes > 1024 {
        return;
    }
    for baseline in Baseline::ALL {
        let find = |matrix: &RttMatrix| baseline.partitions(matrix);
        let network = Synthetic::new(NetworkShape::EightByEight, nodes, seeds[0]);
        let score = cell(NetworkShape::EightByEight, std::iter::once(network), &find, false);
        let name = NetworkShape::EightByEight.name();
        let (baseline, probes) = (baseline.name(), nodes - 1);
        println!(
            "| {name}, {baseline}, all pairs, one seed | {score} | {probes}, {probes} | 1 | |"
        );
    }
}

/// Prints a row, and returns the mean adjusted Rand index of the closest groups and the mean number
/// of probes per node.
fn sampled_row(
    name: &str,
    shape: NetworkShape,
    networks: &[Synthetic],
    seeds: &[u64],
) -> (f64, f64) {
    let runs: Vec<Run> =
        networks.iter().zip(seeds).map(|(network, &seed)| run(network, seed)).collect();
    let score =
        |(run, network): (&Run, &Synthetic)| Score::of(&levels(&run.hierarchy), network, shape);
    let mean = Score::mean(&runs.iter().zip(networks).map(score).collect::<Vec<_>>());
    let probes = runs.iter().map(|run| run.probes.mean).sum::<f64>() / runs.len() as f64;
    let most = runs.iter().map(|run| run.probes.max).max().unwrap_or(0);
    let rounds = runs.iter().map(|run| run.rounds).max().unwrap_or(0);
    let agrees = mean.fine >= SAMPLED_FINE && mean.coarse >= SAMPLED_COARSE;
    let judged = judged(agrees && probes <= SAMPLED_PROBES);
    let goals = format!(">= {SAMPLED_FINE} / {SAMPLED_COARSE}, <= {SAMPLED_PROBES}: {judged}");
    println!("| {name} | {} | {probes:.0}, {most} | {rounds} | {goals} |", mean.show());
    (mean.fine, probes)
}

/// A finished sampled inference.
struct Run {
    hierarchy: Hierarchy,
    probes: ProbeCount,
    rounds: usize,
    /// The time of the inference, without that of the network.
    time: Duration,
}

fn run(network: &Synthetic, seed: u64) -> Run {
    let mut inference = Inference::new(network.nodes() as usize, seed);
    let (mut rounds, mut time) = (0, Duration::ZERO);
    loop {
        let begin = Instant::now();
        let probes = inference.next_probes();
        time += begin.elapsed();
        if probes.is_empty() {
            break;
        }
        rounds += 1;
        let measure = |(a, b)| (a, b, network.measure(a, b, 0));
        let answers: Vec<_> = probes.into_iter().map(measure).collect();
        let begin = Instant::now();
        answers.into_iter().for_each(|(a, b, rtt)| inference.answer(a, b, rtt));
        time += begin.elapsed();
    }
    let probes = inference.probe_count();
    let begin = Instant::now();
    let hierarchy = inference.finish();
    time += begin.elapsed();
    Run { hierarchy, probes, rounds, time }
}

fn times(suite: &mut Suite) {
    let nodes = suite.choose(256, 64);
    let matrix = Synthetic::new(NetworkShape::EightByEight, nodes, 1).matrix();
    let matrix = &matrix;
    let ours = || Sample::of(1, || drop(std::hint::black_box(infer(matrix))));
    let mut contenders = vec![Contender::new("ours", ours).limit(FULL_TIME)];
    for baseline in Baseline::ALL {
        let run = move || Sample::of(1, || drop(std::hint::black_box(baseline.partitions(matrix))));
        contenders.push(Contender::new(baseline.name(), run));
    }
    suite.compare(&format!("time, full matrix of {nodes}"), FigureUnit::Time, contenders);
    for nodes in suite.choose(&[1024, 4096][..], &[512][..]) {
        let network = Synthetic::new(NetworkShape::EightByEight, *nodes, 1);
        let ours = || Sample { elapsed: run(&network, 1).time, operations: 1 };
        let title = format!("time, sampled of {nodes}");
        suite.single(&title, FigureUnit::Time, Some(SAMPLED_TIME), ours);
    }
}
