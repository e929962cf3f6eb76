//! The job: times of messages between two ranks, and of collective operations of all ranks.
//!
//! It prints three kinds of figures, as MPI's users know them from the OSU micro-benchmarks (Panda
//! and others, Ohio State University):
//!
//! - one way: half of a round trip between the first and the last rank, each of which sends its own
//!   buffer and receives into it, unless [`Handling`] says otherwise;
//! - bandwidth: the first rank sends [`WINDOW`] messages at a time to the last one, which has
//!   posted their receives and then sends one byte back;
//! - collective operations: all ranks call one operation after the other, and the figure is the
//!   mean time from one to the next. So a rank that does not need the others, such as the root of a
//!   broadcast, does not wait for them.
//!
//! The sections ping-pong, barrier and alltoall of the Java Grande Forum MPJ benchmark suite are
//! among these.
//!
//! A measurement begins after a barrier. The first rank times the messages. The time of a
//! collective operation is the mean over the ranks, each by its own clock: ranks leave a barrier up
//! to one crossing of the wide area apart, and a rank that begins earlier waits longer for the
//! others. The time of a gather is that of the slowest rank, because only the root waits. With the
//! mean, a gather would appear so short that the repetitions grow until the other ranks send the
//! root more than its memory holds.
//!
//! The number of repetitions is doubled until a measurement is long enough. The results of a round
//! trip and of the collective operations are checked before they are measured.

mod operation;

use crate::entry::{Entry, measurement_seconds, message_size, parse};
use crate::pingpong::ladder::{WINDOW, next_repetitions};
use crate::rank_clock::{clock, now};
use clap::Parser;
use gridspan_ranks::{Comm, RankError, RankFunctions, ops};
use gridspan_runtime::{Grid, Job, JobError};
use operation::Operation::{Barrier, Gather, RoundTrip, Window};
use operation::{Data, Handling, Operation, verify};
use serde::{Deserialize, Serialize};

const ABOUT: &str = "Messages between two ranks, and collective operations of all ranks";

pub(crate) const ENTRY: Entry =
    Entry { name: "ranks", about: ABOUT, build: |arguments| Ok(job(parse("ranks", arguments)?)) };

/// Largest size of a message in bytes: the receiver may hold a window of them.
const BYTES_MAX: u64 = 4 << 20;
/// Largest size in bytes of the messages that the ranks of a PE hold for all ranks: the limit that
/// the OSU Micro-Benchmarks have for a process by default.
const PE_BYTES_MAX: u64 = 512 << 20;

#[derive(Clone, Debug, Parser)]
#[command(about = ABOUT)]
struct Options {
    /// Sizes of the messages, such as 8B,1kB,1MB; at most 4MiB. In gather, scatter, allgather and
    /// alltoall, the size of a rank's block; in reduce_scatter, of the vector that is divided.
    #[arg(long, value_name = "SIZE,…", value_delimiter = ',', value_parser = size,
          default_value = "8B,1kB,64kB,1MB")]
    bytes: Vec<usize>,
    /// Number of ranks, at least 2. By default one for each PE. The messages of a PE's ranks to all
    /// ranks have at most 512 MiB.
    #[arg(long, value_parser = clap::value_parser!(u32).range(2..=1 << 20))]
    ranks: Option<u32>,
    /// Minimum seconds of each measurement; at most 60.
    #[arg(long, default_value_t = 0.05, value_parser = measurement_seconds)]
    seconds: f64,
    /// How ranks handle the messages of a round trip.
    #[arg(long, default_value = "keep")]
    handling: Handling,
    /// Only messages between two ranks, without collective operations.
    #[arg(long)]
    no_collectives: bool,
    /// Print one JSON object for each figure instead of tables.
    #[arg(long)]
    json: bool,
}

fn size(text: &str) -> Result<usize, String> {
    message_size(text, BYTES_MAX)
}

impl Options {
    /// Fails if the messages of `ranks` ranks do not fit into the memory of `pes` PEs.
    fn check_memory(&self, ranks: u32, pes: u32) -> Result<(), String> {
        // Each rank has a message for each other in alltoall, and receives as much.
        let messages = if self.no_collectives { 1 } else { u64::from(ranks) };
        let ranks_of_pe = u64::from(ranks.div_ceil(pes));
        let size = self.bytes.iter().copied().max().unwrap_or(0) as u64;
        let messages = ranks_of_pe.saturating_mul(messages);
        if messages.saturating_mul(size) <= PE_BYTES_MAX {
            return Ok(());
        }
        Err(format!(
            "the ranks of a PE would hold {messages} messages of {size} bytes, more than {} MiB; \
             use fewer ranks, more PEs, smaller --bytes, or --no-collectives",
            PE_BYTES_MAX >> 20
        ))
    }
}

/// Measures an operation. Returns the mean time of a repetition in ns.
async fn mean_ns(
    world: &Comm,
    operation: Operation,
    data: &mut Data,
    enough_ns: u64,
) -> Result<f64, RankError> {
    let mut repetitions = 1;
    loop {
        let begin = clock(world).await?;
        for _ in 0..repetitions {
            operation.once(world, data).await?;
        }
        let mine = ((now(world).await - begin) * 1e9) as u64;
        let elapsed_ns = match operation {
            RoundTrip | Window => world.bcast_value(Some(mine), 0).await?,
            Gather => world.allreduce(&[mine], ops::max).await?[0],
            _ => world.allreduce(&[mine], ops::sum).await?[0] / u64::from(world.size()),
        };
        match next_repetitions(repetitions, elapsed_ns, enough_ns) {
            Some(more) => repetitions = more,
            None => return Ok(elapsed_ns as f64 / repetitions as f64),
        }
    }
}

/// The measurements to make, and the least time of each.
#[derive(Clone)]
struct Plan {
    sizes: Vec<usize>,
    enough_ns: u64,
    handling: Handling,
    is_collective: bool,
}

/// The mean time of an operation.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Figure {
    operation: Operation,
    bytes: usize,
    ns: f64,
}

/// Measures everything; the first rank has the figures.
async fn measure(world: Comm, plan: Plan) -> Result<Vec<Figure>, RankError> {
    let mut figures = Vec::new();
    if plan.is_collective {
        let mut data = Data::new(&world, 1, plan.handling, true);
        let ns = mean_ns(&world, Barrier, &mut data, plan.enough_ns).await?;
        figures.push(Figure { operation: Barrier, bytes: 0, ns });
    }
    for &bytes in &plan.sizes {
        let data = || Data::new(&world, bytes, plan.handling, plan.is_collective);
        verify(&world, &data(), plan.is_collective).await?;
        let collective = if plan.is_collective { &Operation::COLLECTIVE[..] } else { &[] };
        for &operation in [RoundTrip, Window].iter().chain(collective) {
            // Each operation gets new data, because a round trip may leave other bytes, or none.
            let ns = mean_ns(&world, operation, &mut data(), plan.enough_ns).await?;
            figures.push(Figure { operation, bytes, ns });
        }
    }
    Ok(if world.rank() == 0 { figures } else { Vec::new() })
}

fn job(options: Options) -> Job {
    let plan = Plan {
        sizes: options.bytes.clone(),
        enough_ns: (options.seconds * 1e9) as u64,
        handling: options.handling,
        is_collective: !options.no_collectives,
    };
    let function = move |world: Comm| measure(world, plan.clone());
    let (job, functions) = RankFunctions::add(Job::new("ranks"), function);
    job.main(async move |grid: Grid| {
        let (pes, nodes) = (grid.layout().pe_count(), grid.layout().node_count());
        let ranks = options.ranks.unwrap_or(pes.max(2));
        options.check_memory(ranks, pes)?;
        let results = functions.run(&grid, ranks).await?;
        let figures = results.concat();
        if options.json {
            figures.iter().for_each(|figure| println!("{}", json(figure, ranks)));
            return Ok::<(), JobError>(());
        }
        println!("{ranks} ranks on {pes} PEs of {nodes} nodes");
        print_messages(&figures, ranks, &options.bytes);
        if options.no_collectives {
            println!("verified: yes (round trips with each size)");
        } else {
            print_collectives(&figures, &options.bytes);
            println!("verified: yes (round trips and collective operations with each size)");
        }
        Ok(())
    })
}

fn find(figures: &[Figure], operation: Operation, bytes: usize) -> f64 {
    let is_it = |figure: &&Figure| figure.operation == operation && figure.bytes == bytes;
    figures.iter().find(is_it).map_or(f64::NAN, |figure| figure.ns)
}

/// The rate of a window in bytes per ns, which is GB/s.
fn rate(bytes: usize, window_ns: f64) -> f64 {
    f64::from(WINDOW) * bytes as f64 / window_ns
}

fn print_messages(figures: &[Figure], ranks: u32, sizes: &[usize]) {
    println!("messages between rank 0 and rank {}", ranks - 1);
    println!("{:>10}  {:>12}  {:>12}", "bytes", "one way us", "MB/s");
    for &bytes in sizes {
        let one_way_us = find(figures, RoundTrip, bytes) / 2e3;
        let rate = rate(bytes, find(figures, Window, bytes)) * 1e3;
        println!("{bytes:>10}  {one_way_us:>12.3}  {rate:>12.1}");
    }
}

fn print_collectives(figures: &[Figure], sizes: &[usize]) {
    println!(
        "collective operations, us each; a barrier takes {:.1}",
        find(figures, Barrier, 0) / 1e3
    );
    let row = |first: &str, cells: Vec<String>| {
        let cells: String = cells.iter().map(|cell| format!("  {cell:>10}")).collect();
        println!("  {first:<15}{cells}");
    };
    row("bytes", sizes.iter().map(usize::to_string).collect());
    for operation in Operation::COLLECTIVE {
        let us = |bytes: &usize| format!("{:.1}", find(figures, operation, *bytes) / 1e3);
        row(operation.name(), sizes.iter().map(us).collect());
    }
}

fn json(figure: &Figure, ranks: u32) -> String {
    let Figure { operation, bytes, ns } = figure;
    let name = operation.name();
    let rate = match operation {
        Window => format!(",\"bytes_per_s\":{:.0}", rate(*bytes, *ns) * 1e9),
        _ => String::new(),
    };
    format!("{{\"ranks\":{ranks},\"operation\":\"{name}\",\"bytes\":{bytes},\"ns\":{ns:.1}{rate}}}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_whose_messages_exceed_the_memory_of_a_pe_are_refused() {
        let check = |words: &str, ranks, pes| {
            Options::parse_from(words.split(' ')).check_memory(ranks, pes)
        };

        assert_eq!(check("ranks --bytes 8B,1MiB", 512, 512), Ok(()));
        let error = check("ranks --bytes 8B,1MiB", 513, 513).unwrap_err();
        assert!(error.contains("513 messages of 1048576 bytes, more than 512 MiB"), "{error}");
        assert!(check("ranks --bytes 4MiB", 1 << 20, 2).is_err());
        assert_eq!(check("ranks --bytes 1MiB --no-collectives", 1024, 2), Ok(()));
        assert!(check("ranks --bytes 1MiB --no-collectives", 1025, 2).is_err());
    }

    #[test]
    fn sizes_are_checked_and_rates_count_the_window() {
        assert_eq!((size("1B"), size("4MiB")), (Ok(1), Ok(4 << 20)));
        assert!(size("0B").is_err() && size("5MB").is_err());
        assert_eq!(rate(1000, 64_000.0), 1.0);
        let figure = Figure { operation: Window, bytes: 1000, ns: 64_000.0 };
        assert_eq!(
            json(&figure, 2),
            "{\"ranks\":2,\"operation\":\"window\",\"bytes\":1000,\"ns\":64000.0,\
             \"bytes_per_s\":1000000000}"
        );
    }
}
