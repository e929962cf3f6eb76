//! Compares allreduce, reduce-scatter and alltoall of ranks over four sites with the flat
//! algorithms that MPICH uses (Thakur, Rabenseifner and Gropp, "Optimization of Collective
//! Communication Operations in MPICH", 2005, sections 4 and 5): recursive doubling, a ring, and
//! pairwise exchange. Over other grids it also compares barrier with dissemination, and allgather
//! with recursive doubling and a ring.
//!
//! ```text
//! cargo run --release -p gridspan-studies --example rank_collectives
//! cargo run --release -p gridspan-studies --example rank_collectives -- --real
//! cargo run --release -p gridspan-studies --example rank_collectives -- --grids
//! cargo run --release -p gridspan-studies --example rank_collectives -- --sweep [--quick]
//! ```
//!
//! The first command runs 4 sites of 8 nodes in virtual time, the second 4 sites of 2 nodes in real
//! time over emulated links. Sites are 20 ms apart. Each pair of sites has 1 Gbit/s each way; in
//! real time each pair of nodes has it, so that the column `alone` is no lower bound there. Both
//! print further tables for a grid in which all traffic between a site and the others shares an
//! uplink of 1 Gbit/s each way; in real time each of the two nodes of a site sends at most half of
//! that to the others, and what a site receives has no limit. The third command runs grids of other
//! shapes in virtual time, and compares with the best of the flat algorithms. The fourth does so
//! over many grids with several ranks on each PE ([`sweep`]), and names the cells in which the
//! operations of Gridspan are slowest relative to the flat ones. All algorithms are programs of
//! ranks over the same messages. Each operation is carried out several times in a row; a figure is
//! the mean time of one, over all ranks. In real time the algorithms take turns, in an order that
//! is reversed from round to round, and a figure is the median of the rounds. The last columns are
//! then the ratios of Gridspan to the flat algorithms: the median of the ratios of the rounds, with
//! its interval of 95 % (`gridspan_jobs::paired`).
//!
//! # The bound
//!
//! A result needs data of all sites, which takes one crossing. Each link must also carry the data
//! that only it can carry: for an allreduce the partial result of a site, for a reduce-scatter the
//! part of it that the ranks of the other site get, and for an alltoall the data that the ranks of
//! one site send to those of the other. The bound is the larger of both times. An operation that
//! begins when all links are idle and ends with its last byte takes at least their sum, the column
//! `alone`. Several in a row can take less, if ranks that have their results go on before the
//! others.
//!
//! An uplink carries what a site sends to all others together. Let there be `s` sites. Before some
//! site knows an element of the sum, each of the others has sent at least once for it. In an
//! allreduce each of the others then still has to receive it. So for each element the sites
//! together send at least `2 (s - 1)` times, and some site sends at least `2 (s - 1) / s` vectors.
//! For a reduce-scatter it is half of that. For an alltoall it is the data of the ranks of a site
//! for all ranks of other sites. The sites receive as much as they send.

mod flat;
mod measurement;
mod sweep;

use clap::Parser;
use gridspan_jobs::paired::MedianEstimate;
use gridspan_topology::{GridSpec, Latency, Layout, Link};
use measurement::{Algorithm, Measurement};
use std::process::ExitCode;

const SITES: u32 = 4;
const LATENCY_MS: f64 = 20.0;
/// Bytes per ms over the link between two sites, or over an uplink, each way.
const BYTES_PER_MS: f64 = 125_000.0;

#[derive(Parser)]
#[command(about = "Allreduce and alltoall over four sites, beside flat algorithms")]
struct Options {
    /// Run 2 nodes for each site in real time, in place of 8 in virtual time.
    #[arg(long)]
    real: bool,
    /// Run grids of other shapes in virtual time.
    #[arg(long, conflicts_with = "real")]
    grids: bool,
    /// Run many grids in virtual time, with several ranks on each PE.
    #[arg(long, conflicts_with_all = ["real", "grids"])]
    sweep: bool,
    /// Run only a few of the many grids.
    #[arg(long, requires = "sweep")]
    quick: bool,
    /// Number of operations of each kind and size.
    #[arg(long, default_value_t = 5)]
    repetitions: u32,
    /// Number of rounds in real time; with fewer than 6, the range replaces the interval.
    #[arg(long, default_value_t = 7, value_parser = clap::value_parser!(u32).range(1..=1000))]
    rounds: u32,
}

use Algorithm::{
    Allgather, Allreduce, Alltoall, Barrier, Dissemination, DoublingBlocks, Pairwise, PairwiseSums,
    RecursiveDoubling, ReduceScatter, Ring, RingOfBlocks,
};

const ALLREDUCE_BYTES: [usize; 5] = [8, 1 << 10, 16 << 10, 128 << 10, 1 << 20];
const REDUCE_SCATTER_BYTES: [usize; 4] = [1 << 10, 16 << 10, 128 << 10, 1 << 20];
const ALLTOALL_BYTES: [usize; 4] = [8, 1 << 10, 8 << 10, 64 << 10];
const ALLGATHER_BYTES: [usize; 3] = [8, 1 << 10, 64 << 10];

/// One site reaches the others over slower links.
const SLOW: &str = "4x4,wan=20ms,rate=1gbit; at 1ms link a-d rate=100mbit; \
                    at 1ms link b-d rate=100mbit; at 1ms link c-d rate=100mbit";

fn main() -> ExitCode {
    let options = Options::parse();
    let result = match (options.sweep, options.grids) {
        (true, _) => sweep::run(options.quick),
        (false, true) => other_grids(&options),
        (false, false) => study(&options),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(reason) => {
            eprintln!("{reason}");
            ExitCode::FAILURE
        }
    }
}

/// What has the rate of 1 Gbit/s each way, and limits an operation.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Limit {
    /// Each pair of sites has it.
    Pairs,
    /// The uplink of each site has it, too.
    Uplinks,
}

fn study(options: &Options) -> Result<(), String> {
    tables(options, Limit::Pairs)?;
    println!();
    tables(options, Limit::Uplinks)
}

fn tables(options: &Options, limit: Limit) -> Result<(), String> {
    let nodes = if options.real { 2 } else { 8 };
    let time = if options.real { "real" } else { "virtual" };
    // In real time each node has the uplink alone, and gets an equal part of it here.
    let mbit = if options.real { 1000 / nodes } else { 1000 };
    let (sharing, uplink) = match limit {
        Limit::Pairs => ("each pair of sites", String::new()),
        Limit::Uplinks => ("each site", format!(",uplink={mbit}mbit")),
    };
    println!("{SITES} sites of {nodes} nodes, {LATENCY_MS} ms apart, in {time} time: ms each");
    println!("1 Gbit/s each way for {sharing}");
    let spec = format!("{SITES}x{nodes},wan={LATENCY_MS}ms,rate=1gbit{uplink}");
    let spec = GridSpec::from_emulate(&spec).map_err(|error| error.to_string())?;
    let kinds = [
        ("allreduce", &[Allreduce, RecursiveDoubling, Ring][..], &ALLREDUCE_BYTES[..]),
        ("reduce-scatter", &[ReduceScatter, PairwiseSums][..], &REDUCE_SCATTER_BYTES[..]),
        ("alltoall, for each pair", &[Alltoall, Pairwise][..], &ALLTOALL_BYTES[..]),
    ];
    for (kind, algorithms, sizes) in kinds {
        println!("{kind}");
        print!("{:>10}", "bytes");
        algorithms.iter().for_each(|algorithm| print!("{:>20}", format!("{algorithm:?}")));
        print!("{:>10}{:>10}{:>14}", "bound", "alone", "over 1.15b+2");
        if options.real {
            let other = |algorithm: &Algorithm| print!("{:>24}", format!("over {algorithm:?}"));
            algorithms[1..].iter().for_each(other);
        }
        println!();
        for &bytes in sizes {
            let times = in_turns(options, &spec, algorithms, bytes)?;
            let medians: Vec<f64> =
                times.iter().map(|times| MedianEstimate::of(times).median).collect();
            print!("{bytes:>10}");
            medians.iter().for_each(|ms| print!("{ms:>20.2}"));
            let transfer = transfer(algorithms[0], nodes, bytes, limit);
            let (bound, alone) = (LATENCY_MS.max(transfer), LATENCY_MS + transfer);
            let over = medians[0] / (1.15 * bound + 2.0);
            print!("{bound:>10.2}{alone:>10.2}{over:>14.2}");
            if options.real {
                let ratio = |theirs: &Vec<f64>| MedianEstimate::of_paired_ratio(&times[0], theirs);
                times[1..].iter().for_each(|it| print!("{:>24}", ratio(it).to_string()));
            }
            println!();
        }
    }
    println!("over 1.15b+2: the first column over 1.15 times the bound and 2 ms");
    Ok(())
}

/// The grids of other shapes, with their names.
fn shapes() -> Result<Vec<(&'static str, GridSpec)>, String> {
    let emulated = [
        ("2 sites of 3 nodes", "2x3,wan=20ms,rate=1gbit"),
        ("16 sites of 1 node", "16x1,wan=20ms,rate=1gbit"),
        ("1 site of 8 nodes", "1x8"),
        ("4 sites of 4 nodes, one over 100 Mbit/s", SLOW),
    ];
    let mut all = Vec::new();
    for (name, text) in emulated {
        all.push((name, GridSpec::from_emulate(text).map_err(|error| error.to_string())?));
    }
    let sites = [("a", 8), ("b", 4), ("c", 1)];
    let sites = sites.map(|(name, nodes)| (name.to_owned(), vec![1; nodes])).to_vec();
    let uneven = GridSpec::from_layout(&Layout::new(sites)).map_err(|error| error.to_string())?;
    let wan = Link::wan().with_latency(Latency::from_millis(20));
    all.push(("sites of 8, 4 and 1 nodes", uneven.with_wan(wan)));
    Ok(all)
}

/// Compares with the best of the flat algorithms over grids of other shapes.
fn other_grids(options: &Options) -> Result<(), String> {
    for (name, spec) in shapes()? {
        println!("{name}, in virtual time: ms each");
        println!("{:>26}{:>10}{:>10}{:>24}{:>8}", "", "bytes", "ours", "best flat", "over");
        let ranks = spec.layout().pe_count();
        let (reductions, gathers): (&[Algorithm], &[Algorithm]) = match ranks.is_power_of_two() {
            true => (&[RecursiveDoubling, Ring], &[DoublingBlocks, RingOfBlocks]),
            false => (&[Ring], &[RingOfBlocks]),
        };
        let cells = [
            ("allreduce", Allreduce, reductions, &ALLREDUCE_BYTES[..]),
            ("reduce-scatter", ReduceScatter, &[PairwiseSums][..], &REDUCE_SCATTER_BYTES[..]),
            ("alltoall, for each pair", Alltoall, &[Pairwise][..], &ALLTOALL_BYTES[..]),
            ("allgather, of each", Allgather, gathers, &ALLGATHER_BYTES[..]),
            ("barrier", Barrier, &[Dissemination][..], &[0][..]),
        ];
        for (kind, ours, others, sizes) in cells {
            for &bytes in sizes {
                let mine = measure(options, &spec, ours, bytes)?;
                let mut best = (f64::INFINITY, ours);
                for &other in others {
                    let ms = measure(options, &spec, other, bytes)?;
                    if ms < best.0 {
                        best = (ms, other);
                    }
                }
                let (ms, flat) = (best.0, format!("{:?} {:.2}", best.1, best.0));
                println!("{kind:>26}{bytes:>10}{mine:>10.2}{flat:>24}{:>8.2}", mine / ms);
            }
        }
    }
    Ok(())
}

/// The least time in ms for which a link between two sites, or the uplink of some site, is busy.
fn transfer(algorithm: Algorithm, nodes: u32, bytes: usize, limit: Limit) -> f64 {
    let (sites, others) = (f64::from(SITES), f64::from(SITES - 1));
    let blocks = match (algorithm, limit) {
        (Alltoall, Limit::Pairs) => f64::from(nodes * nodes),
        (Alltoall, Limit::Uplinks) => f64::from(nodes * nodes) * others,
        (ReduceScatter, Limit::Pairs) => 1.0 / sites,
        (ReduceScatter, Limit::Uplinks) => others / sites,
        (_, Limit::Pairs) => 1.0,
        (_, Limit::Uplinks) => 2.0 * others / sites,
    };
    blocks * bytes as f64 / BYTES_PER_MS
}

/// The times of one operation in ms by each algorithm, in the order of the rounds. Virtual time has
/// one round, since others would be the same.
fn in_turns(
    options: &Options,
    spec: &GridSpec,
    algorithms: &[Algorithm],
    bytes: usize,
) -> Result<Vec<Vec<f64>>, String> {
    let rounds = if options.real { options.rounds } else { 1 };
    let mut times = vec![Vec::new(); algorithms.len()];
    for round in 0..rounds {
        let mut turns: Vec<_> = algorithms.iter().zip(&mut times).collect();
        if round % 2 == 1 {
            turns.reverse();
        }
        for (&algorithm, times) in turns {
            times.push(measure(options, spec, algorithm, bytes)?);
        }
    }
    Ok(times)
}

/// The time of one operation in ms, with one rank on each PE.
fn measure(
    options: &Options,
    spec: &GridSpec,
    algorithm: Algorithm,
    bytes: usize,
) -> Result<f64, String> {
    let repetitions = options.repetitions;
    let measurement = Measurement { algorithm, bytes, repetitions, knows_links: false };
    measurement.mean_ms(spec, spec.layout().pe_count(), options.real)
}
