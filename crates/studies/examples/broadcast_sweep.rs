//! Compares broadcasts of the runtime with the best known plan, over random networks in virtual
//! time.
//!
//! `cargo run --release -p gridspan-studies --example broadcast_sweep -- --networks 40 --seed 7`
//!
//! - `--networks N`: number of networks. Default 20.
//! - `--seed S`: seed of the networks. Default 1; each line gives the number of its network.
//! - `--only N`: run this network alone, and print the time of each round.
//! - `--rounds R`: number of broadcasts in each network, at least 1. The median is over those from
//!   the eleventh on. Default 30.
//!
//! Each line is a JSON object: the sites, the size, the root, the median time with plans and with
//! the layout's tree, and the time of the best strategy of `gridctl bcast`. A time ends when the
//! last member has the message. The last line sums up.

use gridspan_bcast::strategies::{NAMES, Request, by_name};
use gridspan_bcast::{Mode, NetworkEstimate, SearchBudget, Sharing};
use gridspan_runtime::{Actor, Context, Ix1, Job, JobError, Op, Per, To};
use gridspan_sim::{SimOptions, Simulation};
use gridspan_topology::dice::{Dice, GOLDEN_GAMMA};
use gridspan_topology::{Bandwidth, GridSpec, Latency, Layout, Link};
use serde::{Deserialize, Serialize};
use std::process::ExitCode;
use std::sync::mpsc;
use std::time::Duration;

/// Number of broadcasts after which plans have to be good.
const LEARNING: usize = 10;
/// Number of evaluations of each strategy that searches.
const EFFORT: u64 = 20_000;
/// The time to initiate a message in the model, as in `gridctl bcast`.
const INITIATION_S: f64 = 2e-5;
/// Minimum size in bytes: smaller messages depend on the latencies alone.
const BYTES_MIN: f64 = 1e3;
/// Maximum size in bytes.
const BYTES_MAX: f64 = 3e6;

/// A member on each node, which reports when it has a message.
#[derive(Serialize, Deserialize)]
struct Listener;

#[derive(Clone, Serialize, Deserialize)]
enum Message {
    /// To one member: broadcast this number of bytes.
    Begin(usize),
    /// The payload of a broadcast, and the time at which it started.
    Data(u64, Vec<u8>),
}

impl Actor for Listener {
    type Index = Ix1;
    type Init = ();
    type Message = Message;

    fn create((): (), _cx: &mut Context<'_, Self>) -> Self {
        Self
    }

    fn handle(&mut self, message: Message, cx: &mut Context<'_, Self>) {
        let now = cx.now().as_nanos();
        match message {
            Message::Begin(bytes) => {
                let all = cx.collection();
                cx.broadcast(&all, Message::Data(now, vec![1; bytes]));
            }
            Message::Data(began, _) => cx.contribute(Op::Max, now - began, To::main()),
        }
    }
}

fn main() -> ExitCode {
    let mut args = std::env::args().skip(1);
    let (mut networks, mut seed, mut rounds, mut only) = (20, 1, 30, None);
    while let Some(option) = args.next() {
        let value = args.next().and_then(|value| value.parse::<u64>().ok());
        match (option.as_str(), value) {
            ("--networks", Some(value)) => networks = value,
            ("--seed", Some(value)) => seed = value,
            ("--rounds", Some(value @ 1..)) => rounds = value as usize,
            ("--only", Some(value)) => only = Some(value),
            _ => {
                eprintln!("see the head of examples/broadcast_sweep.rs for the options");
                return ExitCode::from(2);
            }
        }
    }
    let (mut to_best, mut to_tree) = (Vec::new(), Vec::new());
    for number in (0..networks).filter(|number| only.is_none_or(|only| only == *number)) {
        let case = Case::new(seed, number);
        let best_s = case.best_s();
        let [planned, tree] = [Mode::Planned, Mode::Layout].map(|mode| case.play(rounds, mode));
        let (planned_s, tree_s) = (late_s(&planned), late_s(&tree));
        to_best.push(planned_s / best_s);
        to_tree.push(planned_s / tree_s);
        println!(
            "{{\"seed\":{seed},\"network\":{number},\"sites\":{:?},\"bytes\":{},\"root\":{},\
             \"planned_s\":{planned_s:.6},\"tree_s\":{tree_s:.6},\"best_s\":{best_s:.6},\
             \"to_best\":{:.3},\"to_tree\":{:.3}}}",
            case.sites,
            case.bytes,
            case.root,
            planned_s / best_s,
            planned_s / tree_s
        );
        if only.is_some() {
            println!("{{\"planned_s\":{planned:?},\"tree_s\":{tree:?}}}");
        }
    }
    let share = |ratios: &[f64], most: f64| {
        ratios.iter().filter(|&&ratio| ratio <= most).count() as f64 / ratios.len().max(1) as f64
    };
    let worst = |ratios: &[f64]| ratios.iter().copied().fold(0.0, f64::max);
    println!(
        "{{\"seed\":{seed},\"networks\":{},\"to_best_within_1.15\":{:.3},\"to_best_worst\":{:.3},\
         \"to_tree_within_1.01\":{:.3},\"to_tree_worst\":{:.3}}}",
        to_best.len(),
        share(&to_best, 1.15),
        worst(&to_best),
        share(&to_tree, 1.01),
        worst(&to_tree)
    );
    ExitCode::SUCCESS
}

/// Returns the median of the times after the first `LEARNING` rounds.
fn late_s(times_s: &[f64]) -> f64 {
    let mut late = times_s[LEARNING.min(times_s.len() - 1)..].to_vec();
    late.sort_by(f64::total_cmp);
    late[late.len() / 2]
}

/// A network, a size and a root.
struct Case {
    grid: GridSpec,
    sites: Vec<usize>,
    bytes: u64,
    root: u32,
}

impl Case {
    /// Returns the case with this number: 2 to 6 sites of 1 to 6 nodes, 1 to 80 ms apart, with 5 to
    /// 300 Mbit/s. In a third of the cases all links are equal; in another third the two directions
    /// of a link differ in bandwidth.
    fn new(seed: u64, number: u64) -> Self {
        let mut dice = Dice::new(seed.wrapping_mul(GOLDEN_GAMMA) ^ number);
        // Draws remainders, since `docs/src/broadcasts.md` quotes results of the cases that they
        // give.
        let sites: Vec<usize> =
            (0..2 + dice.remainder(5_u32)).map(|_| 1 + dice.remainder(6_usize)).collect();
        let named = sites.iter().enumerate().map(|(at, &nodes)| (format!("s{at}"), vec![1; nodes]));
        let layout = Layout::new(named.collect());
        let link = |dice: &mut Dice| {
            let latency = Latency::from_micros((dice.logarithmic(1.0, 80.0) * 1e3) as u64);
            let rate = Bandwidth::from_bits_per_second((dice.logarithmic(5.0, 300.0) * 1e6) as u64);
            Link::new(latency, rate)
        };
        let kind = dice.remainder(3_u32);
        let common = link(&mut dice);
        let mut grid = GridSpec::from_layout(&layout).expect("sites have nodes").with_wan(common);
        if kind > 0 {
            for from in layout.sites() {
                for to in layout.sites().filter(|to| to.0 > from.0) {
                    let there = link(&mut dice);
                    let mut back = there;
                    if kind == 2 {
                        back.bandwidth = link(&mut dice).bandwidth;
                    }
                    grid = grid.with_link(from, to, there).with_link(to, from, back);
                }
            }
        }
        let bytes = dice.logarithmic(BYTES_MIN, BYTES_MAX) as u64;
        let nodes = sites.iter().sum::<usize>() as u32;
        let root = if number.is_multiple_of(2) { 0 } else { dice.remainder(nodes) };
        Self { grid, sites, bytes, root }
    }

    /// Returns the predicted time of the best strategy in seconds.
    fn best_s(&self) -> f64 {
        let estimate = NetworkEstimate::from_grid(&self.grid, INITIATION_S, Sharing::SitePairs);
        let network = estimate.network();
        let sites: Vec<u32> = (0..estimate.clusters()).map(|at| estimate.site_of(at)).collect();
        let request = Request {
            network: &network,
            sites: &sites,
            root: self.root,
            bytes: self.bytes,
            seed: 1,
        };
        let takes_s = |name: &&str| {
            let strategy = by_name(name).expect("a name of the list");
            let draft = strategy.draft(&request, &SearchBudget::evaluations(EFFORT));
            draft.simulate(&network, self.bytes).completion_s
        };
        NAMES.iter().map(takes_s).fold(f64::INFINITY, f64::min)
    }

    /// Runs the broadcasts and returns the time of each in seconds.
    fn play(&self, rounds: usize, mode: Mode) -> Vec<f64> {
        let (out, results) = mpsc::channel();
        let (bytes, root) = (self.bytes as usize, Ix1(self.root as i32));
        let job = Job::new("sweep").broadcasts(mode).actor::<Listener>().main(async move |grid| {
            let members = grid.create_group::<Listener>(Per::Node, |_| ()).await?;
            for _ in 0..rounds {
                members.member(root).send(Message::Begin(bytes));
                let took_ns: u64 = members.reduction(Op::Max).await?;
                out.send(took_ns as f64 * 1e-9).map_err(|_| "the receiver is gone")?;
                grid.sleep(Duration::from_millis(50)).await?;
            }
            Ok(())
        });
        let run = Simulation::new(job, self.grid.clone(), SimOptions::default());
        let report = run.expect("a job fits any grid").run();
        assert_eq!(report.outcome, Ok::<(), JobError>(()));
        results.try_iter().collect()
    }
}
