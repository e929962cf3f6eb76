//! Allreduce, reduce-scatter and alltoall of ranks over four sites, beside the flat algorithms that
//! MPICH uses (Thakur, Rabenseifner and Gropp, "Optimization of Collective Communication Operations
//! in MPICH", 2005, sections 4 and 5): recursive doubling, a ring, and pairwise exchange. Over
//! other grids also barrier and allgather, beside dissemination and the same two.
//!
//! ```text
//! cargo run --release -p gridspan-studies --example rank_collectives
//! cargo run --release -p gridspan-studies --example rank_collectives -- --real
//! cargo run --release -p gridspan-studies --example rank_collectives -- --grids
//! ```
//!
//! The first command runs 4 sites of 8 nodes in virtual time, the second 4 sites of 2 nodes in real
//! time over emulated links. Sites are 20 ms apart, and each pair has 1 Gbit/s each way. The third
//! runs grids of other shapes in virtual time, and compares with the best of the flat algorithms.
//! All algorithms are programs of ranks over the same messages. Each operation is carried out
//! several times in a row; a figure is the mean time of one, over all ranks.
//!
//! # The bound
//!
//! A result needs data of all sites, which takes one crossing, and each link must carry the data
//! that only it can carry: for an allreduce the partial result of a site, for a reduce-scatter the
//! part of it that the ranks of the other site get, and for an alltoall the data of the ranks of
//! one site for those of the other. The bound is the larger of both times. An operation that begins
//! when all links are idle and ends with its last byte takes at least their sum, the column
//! `alone`. Several in a row can take less, if ranks that have their results go on before the
//! others.

use clap::Parser;
use gridspan::ranks::{Comm, RankError, ops, run_then};
use gridspan_runtime::driver::embedded;
use gridspan_sim::{SimOptions, Simulation};
use gridspan_topology::{GridSpec, Latency, Layout, Link};
use std::process::ExitCode;
use std::sync::mpsc;
use std::time::Duration;

const SITES: u32 = 4;
const LATENCY_MS: f64 = 20.0;
/// Bytes per ms over the link between two sites, each way.
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
    /// Number of operations of each kind and size.
    #[arg(long, default_value_t = 5)]
    repetitions: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Algorithm {
    Allreduce,
    RecursiveDoubling,
    Ring,
    ReduceScatter,
    PairwiseSums,
    Alltoall,
    Pairwise,
    Barrier,
    Dissemination,
    Allgather,
    DoublingBlocks,
    RingOfBlocks,
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
    let result = if options.grids { other_grids(&options) } else { study(&options) };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(reason) => {
            eprintln!("{reason}");
            ExitCode::FAILURE
        }
    }
}

fn study(options: &Options) -> Result<(), String> {
    let nodes = if options.real { 2 } else { 8 };
    let time = if options.real { "real" } else { "virtual" };
    println!("{SITES} sites of {nodes} nodes, {LATENCY_MS} ms apart, in {time} time: ms each");
    let spec = format!("{SITES}x{nodes},wan={LATENCY_MS}ms,rate=1gbit");
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
        println!("{:>10}{:>10}{:>14}", "bound", "alone", "over 1.15b+2");
        for &bytes in sizes {
            print!("{bytes:>10}");
            let mut ours = None;
            for &algorithm in algorithms {
                let ms = measure(options, &spec, algorithm, bytes)?;
                ours.get_or_insert(ms);
                print!("{ms:>20.2}");
            }
            let transfer = transfer(algorithms[0], nodes, bytes);
            let (bound, alone) = (LATENCY_MS.max(transfer), LATENCY_MS + transfer);
            let over = ours.unwrap_or_default() / (1.15 * bound + 2.0);
            println!("{bound:>10.2}{alone:>10.2}{over:>14.2}");
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

/// The time in ms for which a link between two sites is busy, at least.
fn transfer(algorithm: Algorithm, nodes: u32, bytes: usize) -> f64 {
    let blocks = match algorithm {
        Alltoall => f64::from(nodes * nodes),
        ReduceScatter => 1.0 / f64::from(SITES),
        _ => 1.0,
    };
    blocks * bytes as f64 / BYTES_PER_MS
}

/// The time of one operation in ms, as the mean over all ranks.
fn measure(
    options: &Options,
    spec: &GridSpec,
    algorithm: Algorithm,
    bytes: usize,
) -> Result<f64, String> {
    let (tell, told) = mpsc::channel();
    let repetitions = options.repetitions;
    let rank = move |world: Comm| time_of_one(world, algorithm, bytes, repetitions);
    let job = run_then(spec.layout().pe_count(), rank, move |times: Vec<f64>| {
        let mean = times.iter().sum::<f64>() / times.len() as f64;
        tell.send(mean).map_err(|error| error.to_string().into())
    });
    let outcome = match options.real {
        true => embedded::run_emulated(job, spec),
        false => {
            let simulation = Simulation::new(job, spec.clone(), SimOptions::default());
            simulation.map_err(|error| error.to_string())?.run().outcome
        }
    };
    outcome.map_err(|error| format!("{algorithm:?} of {bytes} bytes: {error}"))?;
    told.recv().map_err(|error| error.to_string())
}

/// Carries the operation out several times. Returns the mean time in ms.
async fn time_of_one(
    world: Comm,
    algorithm: Algorithm,
    bytes: usize,
    repetitions: u32,
) -> Result<f64, RankError> {
    world.barrier().await?;
    let begin = now_ms(&world).await;
    for _ in 0..repetitions {
        once(&world, algorithm, bytes).await?;
    }
    Ok((now_ms(&world).await - begin) / f64::from(repetitions))
}

/// The time; `Comm::now` is that of the beginning of a turn of the PE.
async fn now_ms(world: &Comm) -> f64 {
    world.sleep(Duration::from_nanos(1)).await;
    world.now().as_secs_f64() * 1e3
}

/// Carries the operation out once, and checks its result.
async fn once(world: &Comm, algorithm: Algorithm, bytes: usize) -> Result<(), RankError> {
    let (me, size) = (u64::from(world.rank()), u64::from(world.size()));
    let is_right = match algorithm {
        Allreduce | RecursiveDoubling | Ring => {
            let mine = vec![me + 1; (bytes / 8).max(1)];
            let total = match algorithm {
                RecursiveDoubling => recursive_doubling(world, mine).await?,
                Ring => ring(world, mine).await?,
                _ => world.allreduce(&mine, ops::sum).await?,
            };
            total.iter().all(|number| *number == size * (size + 1) / 2)
        }
        ReduceScatter | PairwiseSums => {
            let block = (bytes / 8 / size as usize).max(1);
            let mine = vec![me + 1; block * size as usize];
            let sums = match algorithm {
                PairwiseSums => pairwise_sums(world, &mine, block).await?,
                _ => world.reduce_scatter(&mine, &vec![block; size as usize], ops::sum).await?,
            };
            sums.len() == block && sums.iter().all(|number| *number == size * (size + 1) / 2)
        }
        Alltoall | Pairwise => {
            let block = |to: u64| std::iter::repeat_n((me * size + to) as u8, bytes);
            let mine: Vec<u8> = (0..size).flat_map(block).collect();
            let got = match algorithm {
                Pairwise => pairwise(world, &mine, bytes).await?,
                _ => world.alltoall(&mine).await?,
            };
            let expected = |from: u64| std::iter::repeat_n((from * size + me) as u8, bytes);
            got.into_iter().eq((0..size).flat_map(expected))
        }
        Allgather | DoublingBlocks | RingOfBlocks => {
            let mine = vec![me as u8; bytes];
            let got = match algorithm {
                DoublingBlocks => doubling_blocks(world, &mine).await?,
                RingOfBlocks => ring_of_blocks(world, &mine).await?,
                _ => world.allgather(&mine).await?,
            };
            let expected = |from: u64| std::iter::repeat_n(from as u8, bytes);
            got.into_iter().eq((0..size).flat_map(expected))
        }
        // Another test checks that no rank leaves before the last one comes.
        Barrier => world.barrier().await.is_ok(),
        Dissemination => dissemination(world).await.is_ok(),
    };
    match is_right {
        true => Ok(()),
        false => Err("the result is wrong".into()),
    }
}

fn add(mine: &mut [u64], theirs: &[u64]) {
    mine.iter_mut().zip(theirs).for_each(|(mine, theirs)| *mine += theirs);
}

/// In step `j` ranks exchange their partial results with the rank `2^j` away. The number of ranks
/// is a power of two.
async fn recursive_doubling(world: &Comm, mut mine: Vec<u64>) -> Result<Vec<u64>, RankError> {
    let mut theirs = vec![0; mine.len()];
    let mut distance = 1;
    while distance < world.size() {
        let partner = world.rank() ^ distance;
        world.sendrecv(&mine, partner, distance, &mut theirs, partner, distance).await?;
        add(&mut mine, &theirs);
        distance *= 2;
    }
    Ok(mine)
}

/// Blocks go around a ring and are added up on the way, and the sums go around again.
async fn ring(world: &Comm, mut mine: Vec<u64>) -> Result<Vec<u64>, RankError> {
    let (me, size) = (world.rank(), world.size());
    let (right, left) = ((me + 1) % size, (me + size - 1) % size);
    let length = mine.len();
    let block = |number: u32| {
        let at = |number: u32| length * number as usize / size as usize;
        at(number % size)..at(number % size + 1)
    };
    for step in 0..2 * (size - 1) {
        let (out, back) = (block(me + 2 * size - step), block(me + 2 * size - step - 1));
        let mut theirs = vec![0; back.len()];
        world.sendrecv(&mine[out], right, step, &mut theirs, left, step).await?;
        match step < size - 1 {
            true => add(&mut mine[back], &theirs),
            false => mine[back].copy_from_slice(&theirs),
        }
    }
    Ok(mine)
}

/// In step `j` a rank sends the rank `j` after it the block of that rank, and adds the block that
/// it receives from the rank `j` before it.
async fn pairwise_sums(world: &Comm, mine: &[u64], block: usize) -> Result<Vec<u64>, RankError> {
    let (me, size) = (world.rank(), world.size());
    let of = |rank: u32| rank as usize * block..(rank as usize + 1) * block;
    let mut sums = mine[of(me)].to_vec();
    let mut theirs = vec![0; block];
    for step in 1..size {
        let (to, from) = ((me + step) % size, (me + size - step) % size);
        world.sendrecv(&mine[of(to)], to, step, &mut theirs, from, step).await?;
        add(&mut sums, &theirs);
    }
    Ok(sums)
}

/// In step `j` a rank sends to the rank `j` after it, and receives from the one `j` before it.
async fn pairwise(world: &Comm, mine: &[u8], bytes: usize) -> Result<Vec<u8>, RankError> {
    let (me, size) = (world.rank(), world.size());
    let block = |rank: u32| rank as usize * bytes..(rank as usize + 1) * bytes;
    let mut got = vec![0; mine.len()];
    got[block(me)].copy_from_slice(&mine[block(me)]);
    for step in 1..size {
        let (to, from) = ((me + step) % size, (me + size - step) % size);
        world.sendrecv(&mine[block(to)], to, step, &mut got[block(from)], from, step).await?;
    }
    Ok(got)
}

/// In step `j` ranks exchange all their blocks with the rank `2^j` away. The number of ranks is a
/// power of two.
async fn doubling_blocks(world: &Comm, mine: &[u8]) -> Result<Vec<u8>, RankError> {
    let (me, bytes) = (world.rank(), mine.len());
    let mut all = vec![0; bytes * world.size() as usize];
    all[me as usize * bytes..][..bytes].copy_from_slice(mine);
    let mut distance = 1;
    while distance < world.size() {
        let partner = me ^ distance;
        let known = |rank: u32| {
            let begin = (rank & !(distance - 1)) as usize * bytes;
            begin..begin + distance as usize * bytes
        };
        let out = all[known(me)].to_vec();
        let back = &mut all[known(partner)];
        world.sendrecv(&out, partner, distance, back, partner, distance).await?;
        distance *= 2;
    }
    Ok(all)
}

/// Blocks go around a ring.
async fn ring_of_blocks(world: &Comm, mine: &[u8]) -> Result<Vec<u8>, RankError> {
    let (me, size, bytes) = (world.rank(), world.size(), mine.len());
    let (right, left) = ((me + 1) % size, (me + size - 1) % size);
    let block = |rank: u32| (rank % size) as usize * bytes..((rank % size) as usize + 1) * bytes;
    let mut all = vec![0; bytes * size as usize];
    all[block(me)].copy_from_slice(mine);
    for step in 0..size - 1 {
        let out = all[block(me + size - step)].to_vec();
        let back = &mut all[block(me + size - step - 1)];
        world.sendrecv(&out, right, step, back, left, step).await?;
    }
    Ok(all)
}

/// In step `j` a rank notifies the rank `2^j` after it, and waits for the one as far before it.
async fn dissemination(world: &Comm) -> Result<(), RankError> {
    let (me, size) = (world.rank(), world.size());
    let mut distance = 1;
    while distance < size {
        let (to, from) = ((me + distance) % size, (me + size - distance) % size);
        world.sendrecv(&[0_u8], to, distance, &mut [0_u8], from, distance).await?;
        distance *= 2;
    }
    Ok(())
}
