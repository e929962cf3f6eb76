//! Balancing: the time of the cutter, its cuts compared with those of METIS, and the plans of
//! `grid-cut`.
//!
//! `cargo bench --bench balance`; a word after `--` selects figures: `cutter`, `cut`, `two-phase`,
//! `drift`, `uneven`, `measuring`. Graphs of a million actors run only with
//! `GRIDSPAN_BENCH_FULL=1`. Seeds are 1 to 8; the constants of the methods were chosen on seeds
//! from 1000.

#[path = "support/oracle.rs"]
mod oracle;
#[allow(dead_code, reason = "each bench uses a part")]
#[path = "support/suite.rs"]
mod suite;

use gridspan_balance::cutter::{Cutter, Graph};
use gridspan_balance::{GridCut, Plan, Refine, Snapshot, Strategy, StrategyName};
use gridspan_runtime::driver::embedded;
use gridspan_studies::figures::{ComputedValue, FigureUnit};
use gridspan_studies::graphs::{
    ObjectGraph, by_hash, drifted_leanmd, geometric, grid_2d, grid_3d, leanmd, snapshot_of,
    triangulation,
};
use gridspan_topology::{Layout, PeId};
use oracle::Oracle;
use std::time::Duration;
use suite::{Contender, Sample, Suite};

/// Goal for molecular dynamics: the edge weight that is cut, divided by that of METIS k-way.
const CUT_LEANMD: f64 = 0.95;
/// Goal for meshes: the edge weight that is cut, divided by that of METIS k-way.
const CUT_MESHES: f64 = 0.97;
/// Goal: the messages between two sites, divided by those of METIS in two phases.
const TWO_PHASE: f64 = 0.92;
/// Goal: the part of the actors that moves per epoch while loads drift.
const MOVED: f64 = 0.02;
/// Goal: the messages between sites, or between PEs, divided by those of a cut from scratch.
const CUT_OF_SCRATCH: f64 = 1.06;
/// Goal: the relative difference between a site's share of the load and its share of the capacity.
const SHARE: f64 = 0.02;
/// Goal for the measurement of loads: the time with it divided by the time without.
const MEASURING: f64 = 1.02;

fn main() {
    let mut suite = Suite::new("balance");
    times(&mut suite);
    measuring(&mut suite);
    if suite.wants("cut ") {
        cuts(&mut suite);
    }
    if suite.wants("two-phase") {
        two_phase(suite.choose(&[6, 19][..], &[6]), suite.choose(3, 1));
    }
    if suite.wants("drift") {
        drift(suite.choose(19, 6), suite.choose(8, 2));
    }
    if suite.wants("uneven") {
        uneven();
    }
    suite.finish();
}

/// Compares leanmd on one PE with and without the measurement of loads. On a busy machine, look at
/// the processor time.
fn measuring(suite: &mut Suite) {
    let steps = suite.choose("20", "2");
    let run = |strategy: &str| {
        let words = ["--quiet", "--steps", steps].map(str::to_owned);
        let leanmd = gridspan_jobs::find("leanmd").expect("it is built in");
        let job = (leanmd.build)(&words)
            .expect("the words are right")
            .strategy(strategy.parse::<StrategyName>().expect("it is a name"));
        Sample::of(1, || embedded::run(job, 1).expect("leanmd verifies itself"))
    };
    let contenders = vec![
        // `rotate` moves actors only at sync points, and this run has none.
        Contender::new("measured", || run("rotate")),
        Contender::new("not measured", || run("none")).goal(MEASURING),
    ];
    suite.compare("measuring leanmd", FigureUnit::Time, contenders);
}

fn judge(value: f64, goal: f64) -> String {
    format!("{value:.3} (goal <= {goal}{})", if value <= goal { "" } else { ", MISSED" })
}

fn graph(objects: &ObjectGraph) -> Graph {
    objects.graph().expect("studies are graphs")
}

/// Returns the greatest load of a part divided by its share.
fn imbalance(graph: &Graph, part: &[u32], parts: u32) -> f64 {
    let mut loads = vec![0; parts as usize];
    part.iter().zip(graph.loads()).for_each(|(&part, load)| loads[part as usize] += load);
    let most = loads.into_iter().max().unwrap_or(0);
    most as f64 * f64::from(parts) / graph.total_load() as f64
}

fn geometric_mean(values: &[f64]) -> f64 {
    (values.iter().map(|value| value.ln()).sum::<f64>() / values.len() as f64).exp()
}

/// Compares the time of a cut into 128 parts with that of METIS.
fn times(suite: &mut Suite) {
    let is_full = std::env::var_os("GRIDSPAN_BENCH_FULL").is_some();
    for (side, limit_ms) in [(6, 60), (19, 450), (41, 1200)] {
        let is_skipped = side > suite.choose(if is_full { 41 } else { 19 }, 6);
        let title = format!("cutter, {} actors", 15 * side * side * side);
        if is_skipped || !suite.wants(&title) {
            continue;
        }
        let graph = graph(&leanmd(side, 1));
        let oracle = Oracle::new(&graph);
        let ours =
            || Sample::of(1, || drop(std::hint::black_box(Cutter::new(128).seed(1).cut(&graph))));
        let metis = || Sample { elapsed: oracle.k_way(128, 1, true).1, operations: 1 };
        let contenders = vec![
            Contender::new("ours", ours).limit(Duration::from_millis(limit_ms)),
            Contender::new("METIS k-way", metis),
        ];
        suite.compare(&title, FigureUnit::Time, contenders);
    }
}

/// Prints the edge weight that is cut, divided by that of METIS k-way, at a tolerance of 3 %.
fn cuts(suite: &mut Suite) {
    let seeds = 1..=suite.choose(3_u64, 1);
    let molecules: Vec<(&str, ObjectGraph)> =
        suite.choose(&[6, 19][..], &[6]).iter().map(|&side| ("LeanMD", leanmd(side, 1))).collect();
    let scale = suite.choose(4, 1);
    let meshes = vec![
        ("2-D grid", grid_2d(50 * scale, 60 * scale)),
        ("3-D grid", grid_3d(8 * scale)),
        ("triangulation", triangulation(50 * scale, 1)),
        ("geometric graph", geometric(2500 * scale * scale, 10.0, 1)),
    ];
    println!("\nCut relative to METIS k-way (greatest imbalance: ours / METIS)\n");
    println!("| graph | vertices | k = 2 | 8 | 32 | 128 |\n| --- | --- | --- | --- | --- | --- |");
    for (kind, graphs, goal) in
        [("molecular dynamics", molecules, CUT_LEANMD), ("meshes", meshes, CUT_MESHES)]
    {
        let mut ratios = Vec::new();
        for (name, objects) in &graphs {
            let graph = graph(objects);
            let oracle = Oracle::new(&graph);
            let cells = [2, 8, 32, 128].map(|parts| {
                let (mut ours, mut theirs, mut worst) = (0.0, 0.0, [0.0_f64; 2]);
                for seed in seeds.clone() {
                    let cut = Cutter::new(parts).seed(seed).cut(&graph).expect("this can be cut");
                    let (part, _) = oracle.k_way(parts, seed, true);
                    ours += cut.weight as f64;
                    theirs += graph.cut(&part) as f64;
                    worst[0] = worst[0].max(cut.imbalance);
                    worst[1] = worst[1].max(imbalance(&graph, &part, parts));
                }
                ratios.push(ours / theirs);
                format!("{:.3} ({:.3} / {:.3})", ours / theirs, worst[0], worst[1])
            });
            println!("| {name} | {} | {} |", graph.len(), cells.join(" | "));
        }
        let mean = geometric_mean(&ratios);
        println!("| **{kind}, geometric mean** | | {} | | | |", judge(mean, goal));
        let value = ComputedValue::default().beside("METIS k-way", "").ratio(format!("{mean:.3}"));
        let value = value.goal(format!("at most {goal}"), mean <= goal);
        suite.value(&format!("cut of {kind}, 2 to 128 parts"), value);
    }
}

fn two_sites(pes: u32) -> Layout {
    Layout::new(vec![("a".to_owned(), vec![pes]), ("b".to_owned(), vec![pes])])
}

/// Returns the number of messages between the sites, the number between PEs, and the greatest load
/// divided by the mean.
fn crossing(snapshot: &Snapshot) -> (u64, u64, f64) {
    let wide_area = snapshot.wide_area_edges().map(|edge| edge.messages).sum();
    let pe = |actor: u32| snapshot.actors[actor as usize].pe;
    let between = snapshot.edges.iter().filter(|edge| pe(edge.from) != pe(edge.to));
    let loads: Vec<f64> = snapshot.load_per_pe().iter().map(Duration::as_secs_f64).collect();
    let most = loads.iter().copied().fold(0.0, f64::max);
    let even = loads.iter().sum::<f64>() / loads.len() as f64;
    (wide_area, between.map(|edge| edge.messages).sum(), most / even)
}

fn carry_out(snapshot: &mut Snapshot, plan: &Plan) {
    let mapping = plan.mapping(snapshot).expect("strategies make valid plans");
    snapshot.actors.iter_mut().zip(mapping).for_each(|(actor, pe)| actor.pe = pe);
}

/// Compares the messages between two sites of 64 PEs under the plan of `grid-cut` with those under
/// the cut of METIS that stands for the two phases of Koenig and Kalé (2007).
fn two_phase(sides: &[u32], seeds: u64) {
    println!("\nTwo sites of 64 PEs, actors hashed over all: messages between sites\n");
    println!("| actors | grid-cut | METIS in two phases | ratio | max/mean load |");
    println!("| --- | --- | --- | --- | --- |");
    for &side in sides {
        let objects = leanmd(side, 1);
        let graph = graph(&objects);
        let oracle = Oracle::new(&graph);
        let (mut ours, mut theirs, mut uneven) = (0.0, 0.0, 0.0_f64);
        for seed in 1..=seeds {
            let place = by_hash(objects.loads.len(), 128);
            let mut snapshot = snapshot_of(&objects, two_sites(64), &place);
            let plan = GridCut::new(seed).plan(&snapshot);
            carry_out(&mut snapshot, &plan);
            let (wide_area, _, load) = crossing(&snapshot);
            ours += wide_area as f64 / seeds as f64;
            uneven = uneven.max(load);
            // Phase 1 of Koenig and Kalé ignores loads; phase 2 moves nothing between sites.
            theirs += graph.cut(&oracle.k_way(2, seed, false).0) as f64 / seeds as f64;
        }
        let ratio = judge(ours / theirs, TWO_PHASE);
        println!("| {} | {ours:.0} | {theirs:.0} | {ratio} | {uneven:.3} |", graph.len());
    }
}

/// Lets loads drift, and compares improvements of the existing placement by `grid-cut` with those
/// by `refine` and with cuts from scratch.
fn drift(side: u32, epochs: u32) {
    // With this drift, a placement that is kept has a maximum load of 1.27 times the mean.
    const CELLS_PER_EPOCH: f64 = 0.28;
    let start = leanmd(side, 2);
    let count = start.loads.len();
    let mut first = snapshot_of(&start, two_sites(32), &by_hash(count, 64));
    let plan = GridCut::new(1).plan(&first);
    carry_out(&mut first, &plan);
    let (mut ours, mut refined) = (first.clone(), first.clone());
    let mut sums = [[0.0; 4]; 4];
    for epoch in 1..=epochs {
        let drifted = drifted_leanmd(side, 2, f64::from(epoch) * CELLS_PER_EPOCH);
        let loaded = |snapshot: &Snapshot| {
            let place: Vec<PeId> = snapshot.actors.iter().map(|actor| actor.pe).collect();
            snapshot_of(&drifted, two_sites(32), &place)
        };
        let mut add = |row: usize, snapshot: &Snapshot, moved: usize| {
            let (wide_area, between, load) = crossing(snapshot);
            let values = [wide_area as f64, between as f64, load, moved as f64 / count as f64];
            let mean = values.map(|value| value / f64::from(epochs));
            sums[row].iter_mut().zip(mean).for_each(|(sum, value)| *sum += value);
        };
        add(0, &loaded(&first), 0);
        let mut scratch = snapshot_of(&drifted, two_sites(32), &by_hash(count, 64));
        let plan = GridCut::new(u64::from(epoch)).plan(&scratch);
        carry_out(&mut scratch, &plan);
        add(1, &scratch, plan.moves.len());
        for (row, snapshot, strategy) in [
            (2, &mut refined, &mut Refine as &mut dyn Strategy),
            (3, &mut ours, &mut GridCut::new(u64::from(epoch))),
        ] {
            *snapshot = loaded(snapshot);
            let plan = strategy.plan(snapshot);
            carry_out(snapshot, &plan);
            add(row, snapshot, plan.moves.len());
        }
    }
    println!("\nDrifting loads, {count} actors on 2 x 32 PEs, mean of {epochs} epochs\n");
    println!("| | messages between sites | between PEs | max/mean load | moved |");
    println!("| --- | --- | --- | --- | --- |");
    for (name, [wide_area, between, load, moved]) in
        ["keep", "grid-cut from hashed actors", "refine", "grid-cut"].iter().zip(sums)
    {
        let part = moved * 100.0;
        println!("| {name} | {wide_area:.0} | {between:.0} | {load:.3} | {part:.2} % |");
    }
    let ratio = |column: usize| judge(sums[3][column] / sums[1][column], CUT_OF_SCRATCH);
    println!(
        "\nMoved: {}. Cut of scratch: sites {}, PEs {}.",
        judge(sums[3][3], MOVED),
        ratio(0),
        ratio(1)
    );
}

/// Compares the loads of sites and PEs with their capacities, on sites of 10 and 12 PEs with speeds
/// 1 to 4.
fn uneven() {
    let objects = leanmd(6, 3);
    let layout = Layout::new(vec![("a".to_owned(), vec![10]), ("b".to_owned(), vec![12])]);
    let mut snapshot = snapshot_of(&objects, layout, &by_hash(3240, 22));
    for (at, pe) in snapshot.pes.iter_mut().enumerate() {
        pe.speed = 1.0 + (at * 7 % 22) as f64 / 7.0;
    }
    let speeds: Vec<f64> = snapshot.pes.iter().map(|pe| pe.speed).collect();
    for actor in &mut snapshot.actors {
        actor.load = actor.load.div_f64(speeds[actor.pe.index()]);
    }
    let mapping = GridCut::new(1).plan(&snapshot).mapping(&snapshot).expect("plans are valid");
    let mut works = vec![0.0; 22];
    for (&load, pe) in objects.loads.iter().zip(mapping) {
        works[pe.index()] += load as f64;
    }
    let part = |values: &[f64], pes: std::ops::Range<usize>| {
        values[pes].iter().sum::<f64>() / values.iter().sum::<f64>()
    };
    let error =
        |pes: std::ops::Range<usize>| (part(&works, pes.clone()) / part(&speeds, pes) - 1.0).abs();
    let sites = [0..10, 10..22].map(error).into_iter().fold(0.0, f64::max);
    let pes = (0..22).map(|pe| part(&works, pe..pe + 1) / part(&speeds, pe..pe + 1));
    println!(
        "\nUneven sites (10 + 12 PEs, speeds 1 to 4), largest relative error of a site's share of the load: {};",
        judge(sites, SHARE)
    );
    println!("the fullest PE has {} of its share.", judge(pes.fold(0.0, f64::max), 1.03));
}
