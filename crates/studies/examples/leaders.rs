//! Compares `grid-cut`, which plans with the whole object graph in one place, with `leader-cut`,
//! which never collects it.
//!
//! `cargo run --release -p gridspan-studies --example leaders -- [--sites N] [--pes N]
//! [--vertices N] [--blocks] SIDE...`: leanmd with SIDE cells along each side (19 are 102,885
//! actors, 41 are 1,033,815) on sites of `--pes` PEs each. Actors start at hashed places, or with
//! `--blocks` in blocks of equal number, and are balanced again after the loads have drifted. Bytes
//! are those of the encoding on the network.
#![allow(missing_docs, clippy::unwrap_used, clippy::print_stdout, reason = "a study, which prints")]

use gridspan_balance::leaders::Note;
use gridspan_balance::{
    CostModel, GridCut, LeaderCut, Plan, Prediction, Snapshot, Strategy, predict,
};
use gridspan_studies::graphs::{by_block, by_hash, drifted_leanmd, leanmd, snapshot_of};
use gridspan_topology::{Layout, PeId};
use std::collections::BTreeMap;
use std::time::Instant;

struct Options {
    sites: u32,
    pes: u32,
    vertices: Option<u32>,
    is_blocks: bool,
    sides: Vec<u32>,
}

fn options() -> Options {
    let mut options =
        Options { sites: 2, pes: 64, vertices: None, is_blocks: false, sides: vec![] };
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        let mut number = || words.next().unwrap().parse().unwrap();
        match word.as_str() {
            "--sites" => options.sites = number(),
            "--pes" => options.pes = number(),
            "--vertices" => options.vertices = Some(number()),
            "--blocks" => options.is_blocks = true,
            side => options.sides.push(side.parse().unwrap()),
        }
    }
    if options.sides.is_empty() {
        options.sides = vec![19, 41];
    }
    options
}

fn main() {
    let options = options();
    println!(
        "ACTORS     METHOD      WIDE-AREA  MAX/MEAN     MOVED   SECONDS  TOP: VERTICES  EDGES      BYTES  BETWEEN LEADERS"
    );
    for &side in &options.sides {
        let layout =
            Layout::new((0..options.sites).map(|s| (format!("s{s}"), vec![options.pes])).collect());
        let objects = leanmd(side, 1);
        let all = options.sites * options.pes;
        let place = match options.is_blocks {
            true => by_block(objects.loads.len(), all),
            false => by_hash(objects.loads.len(), all),
        };
        let snapshot = snapshot_of(&objects, layout.clone(), &place);
        let placed = compare(&snapshot, &options);
        let drifted = drifted_leanmd(side, 1, 0.5);
        for (snapshot, name) in placed.into_iter().zip(["grid-cut", "leader-cut"]) {
            let place: Vec<PeId> = snapshot.actors.iter().map(|actor| actor.pe).collect();
            println!("  after {name}, loads have drifted by half a cell:");
            compare(&snapshot_of(&drifted, layout.clone(), &place), &options);
        }
    }
}

/// Compares plans for a snapshot, and returns the snapshots after them.
fn compare(snapshot: &Snapshot, options: &Options) -> [Snapshot; 2] {
    row(snapshot, "as it is", &Plan::none(), 0.0);
    println!();
    let begin = Instant::now();
    let flat = GridCut::new(1).plan(snapshot);
    row(snapshot, "grid-cut", &flat, begin.elapsed().as_secs_f64());
    println!(
        "  {:>13}  {:>5}  {:>9}",
        snapshot.actors.len(),
        snapshot.edges.len(),
        flat_bytes(snapshot, &flat)
    );
    let mut strategy = LeaderCut::new(1);
    if let Some(vertices) = options.vertices {
        strategy = strategy.vertices(vertices);
    }
    let (mut bytes_top, mut bytes_between, mut most) = (0, 0, (0, 0));
    let mut rounds: BTreeMap<u32, (usize, usize)> = BTreeMap::new();
    let mut kinds: BTreeMap<String, usize> = BTreeMap::new();
    let begin = Instant::now();
    let (led, decision) = strategy.run(snapshot, &mut |from, to, note| {
        let bytes = postcard::to_stdvec(note).unwrap().len();
        *kinds
            .entry(format!("{note:?}").split('(').next().unwrap_or_default().to_owned())
            .or_default() += bytes;
        match (from, to) {
            (Some(_), Some(_)) => bytes_between += bytes,
            _ => bytes_top += bytes,
        }
        if let Note::Part(part) = note {
            let round = rounds.entry(part.round()).or_default();
            let (vertices, edges) = part.size();
            *round = (round.0 + vertices, round.1 + edges);
            most = (most.0.max(round.0), most.1.max(round.1));
        }
    });
    row(snapshot, "leader-cut", &led, begin.elapsed().as_secs_f64());
    println!("  {:>13}  {:>5}  {:>9}  {bytes_between:>9}", most.0, most.1, bytes_top);
    println!("  rounds {rounds:?} {kinds:?}");
    let mapping = led.mapping(snapshot).unwrap();
    let exact = predict(snapshot, &mapping, &CostModel::default());
    let figures = decision.unwrap();
    println!(
        "  a step by the sums of the sites: {:?}; by predict: {:?}; {} and {} messages",
        figures.step_after, exact.step, figures.traffic_after.messages, exact.wide_area.messages
    );
    [flat, led].map(|plan| {
        let mut after = snapshot.clone();
        let mapping = plan.mapping(snapshot).unwrap();
        after.actors.iter_mut().zip(mapping).for_each(|(actor, pe)| actor.pe = pe);
        after
    })
}

/// Returns the number of bytes between all PEs and a root that plans alone.
fn flat_bytes(snapshot: &Snapshot, plan: &Plan) -> usize {
    let actors: usize = snapshot.actors.iter().map(|a| postcard::to_stdvec(a).unwrap().len()).sum();
    let talks: usize = {
        let key = |at: u32| snapshot.actors[at as usize].id;
        let talk = |e: &gridspan_balance::Edge| (key(e.from), key(e.to), e.messages, e.bytes);
        snapshot.edges.iter().map(|edge| postcard::to_stdvec(&talk(edge)).unwrap().len()).sum()
    };
    actors + talks + postcard::to_stdvec(plan).unwrap().len()
}

fn row(snapshot: &Snapshot, name: &str, plan: &Plan, seconds: f64) {
    let mapping = plan.mapping(snapshot).unwrap();
    let Prediction { wide_area, .. } = predict(snapshot, &mapping, &CostModel::default());
    let mut loads = vec![0.0; snapshot.pes.len()];
    for (actor, pe) in snapshot.actors.iter().zip(&mapping) {
        loads[pe.index()] += actor.load.as_secs_f64();
    }
    let mean = loads.iter().sum::<f64>() / loads.len() as f64;
    let most = loads.iter().copied().fold(0.0, f64::max) / mean;
    print!(
        "{:<10} {name:<10} {:>10}  {most:>8.3}  {:>8}  {seconds:>8.2}",
        snapshot.actors.len(),
        wide_area.messages,
        plan.moves.len()
    );
}
