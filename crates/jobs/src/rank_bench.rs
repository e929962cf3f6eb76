//! The job: times of messages between two ranks, and of collective operations of all ranks.
//!
//! Three kinds of figures, as MPI's users know them from the OSU micro-benchmarks (Panda and
//! others, Ohio State University):
//!
//! - one way: half of a round trip between the first and the last rank, each of which sends its own
//!   buffer and receives into it, unless [`Handling`] says otherwise;
//! - bandwidth: the first rank sends [`WINDOW`] messages at a time to the last one, which has
//!   posted their receives and then sends one byte back;
//! - collective operations: all ranks call one operation after the other, and the figure is the
//!   mean time from one to the next. So a rank that does not need the others, such as the root of a
//!   broadcast, does not wait for them.
//!
//! A measurement begins after a barrier. The first rank times the messages. The time of a
//! collective operation is the mean over the ranks, each by its own clock: ranks leave a barrier up
//! to one crossing of the wide area apart, and a rank that begins earlier waits longer for the
//! others.
//!
//! The number of repetitions is doubled until a measurement is long enough. Each operation's result
//! is checked before it is measured.

use crate::entry::{Entry, message_size, parse};
use crate::pingpong::ladder::next_repetitions;
use crate::rank_clock::{clock, now};
use clap::{Parser, ValueEnum};
use gridspan_ranks::{Comm, RankError, RankFunctions, ops, wait_all};
use gridspan_runtime::{Grid, Job, JobError};
use serde::{Deserialize, Serialize};

const ABOUT: &str = "Messages between two ranks, and collective operations of all ranks";

pub(crate) const ENTRY: Entry =
    Entry { name: "ranks", about: ABOUT, build: |arguments| Ok(job(parse("ranks", arguments)?)) };

/// Number of messages that are under way at the same time when the bandwidth is measured.
const WINDOW: u32 = 64;
/// Largest size of a message in bytes: the receiver may hold a window of them.
const BYTES_MAX: u64 = 4 << 20;

/// Largest size in bytes of the messages that the ranks of a PE hold for all ranks: the limit that
/// the OSU Micro-Benchmarks have for a process by default.
const PE_BYTES_MAX: u64 = 512 << 20;

#[derive(Clone, Debug, Parser)]
#[command(about = ABOUT)]
struct Options {
    /// Sizes of the messages, such as 8B,1kB,1MB; at most 4MiB. In allgather and alltoall, the size
    /// of the block that a rank has for all ranks, or for each of them.
    #[arg(long, value_name = "SIZE,…", value_delimiter = ',', value_parser = size,
          default_value = "8B,1kB,64kB,1MB")]
    bytes: Vec<usize>,
    /// Number of ranks, at least 2. By default one for each PE. The messages of a PE's ranks to all
    /// ranks have at most 512 MiB.
    #[arg(long, value_parser = clap::value_parser!(u32).range(2..=1 << 20))]
    ranks: Option<u32>,
    /// Minimum seconds of each measurement; at most 60.
    #[arg(long, default_value_t = 0.05)]
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

/// How ranks handle the messages of a round trip.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Handling {
    /// Send a buffer and receive into it.
    Keep,
    /// Send a buffer, and test for the answer all the time, so that the PE never sleeps.
    Poll,
    /// Also overwrite the buffer before each send, and read all of it after each receive.
    Touch,
    /// Pass vectors to the runtime and take vectors from it, without copies within a process.
    Move,
}

/// An operation that is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
enum Operation {
    RoundTrip,
    Window,
    Barrier,
    Bcast,
    Reduce,
    Allreduce,
    Allgather,
    Alltoall,
}

use Operation::{Allgather, Allreduce, Alltoall, Barrier, Bcast, Reduce, RoundTrip, Window};

impl Operation {
    /// The collective operations with data.
    const COLLECTIVE: [Self; 5] = [Bcast, Reduce, Allreduce, Allgather, Alltoall];

    fn name(self) -> &'static str {
        match self {
            RoundTrip => "round trip",
            Window => "window",
            Barrier => "barrier",
            Bcast => "bcast",
            Reduce => "reduce",
            Allreduce => "allreduce",
            Allgather => "allgather",
            Alltoall => "alltoall",
        }
    }

    async fn once(self, world: &Comm, data: &mut Data) -> Result<(), RankError> {
        match self {
            RoundTrip => round_trip(world, &mut data.bytes, data.handling).await,
            Window => window(world, &data.bytes).await,
            Barrier => world.barrier().await,
            Bcast => world.bcast(&mut data.bytes, 0).await,
            Reduce => world.reduce(&data.numbers, ops::sum, 0).await.map(drop),
            Allreduce => world.allreduce(&data.numbers, ops::sum).await.map(drop),
            Allgather => world.allgather(&data.bytes).await.map(drop),
            Alltoall => world.alltoall(&data.blocks).await.map(drop),
        }
    }
}

/// The data that a rank sends.
struct Data {
    /// One message.
    bytes: Vec<u8>,
    handling: Handling,
    /// The same number of bytes, as numbers; at least one number.
    numbers: Vec<u64>,
    /// A message for each rank, if there are collective operations.
    blocks: Vec<u8>,
}

impl Data {
    fn new(world: &Comm, bytes: usize, plan: &Plan) -> Self {
        let ranks = if plan.is_collective { world.size() as usize } else { 0 };
        Self {
            bytes: pattern(world.rank(), bytes),
            handling: plan.handling,
            numbers: vec![u64::from(world.rank()); (bytes / 8).max(1)],
            blocks: pattern(world.rank(), bytes).repeat(ranks),
        }
    }
}

/// The bytes of a rank.
fn pattern(rank: u32, bytes: usize) -> Vec<u8> {
    (0..bytes).map(|at| (at as u32).wrapping_mul(7).wrapping_add(rank) as u8).collect()
}

/// The rank with which this one exchanges messages, if it is the first or the last.
fn partner(world: &Comm) -> Option<u32> {
    let last = world.size() - 1;
    match world.rank() {
        0 => Some(last),
        rank if rank == last => Some(0),
        _ => None,
    }
}

async fn round_trip(
    world: &Comm,
    bytes: &mut Vec<u8>,
    handling: Handling,
) -> Result<(), RankError> {
    let Some(partner) = partner(world) else { return Ok(()) };
    if world.rank() == 0 {
        send(world, bytes, partner, handling).await?;
        receive(world, bytes, partner, handling).await
    } else {
        receive(world, bytes, partner, handling).await?;
        send(world, bytes, partner, handling).await
    }
}

async fn send(
    world: &Comm,
    bytes: &mut Vec<u8>,
    to: u32,
    handling: Handling,
) -> Result<(), RankError> {
    match handling {
        Handling::Keep | Handling::Poll => world.send(bytes, to, 0).await,
        Handling::Touch => {
            let last = bytes.last().map_or(0, |byte| byte.wrapping_add(1));
            bytes.fill(last);
            world.send(bytes, to, 0).await
        }
        Handling::Move => world.send_vec(std::mem::take(bytes), to, 0).await,
    }
}

async fn receive(
    world: &Comm,
    bytes: &mut Vec<u8>,
    from: u32,
    handling: Handling,
) -> Result<(), RankError> {
    match handling {
        Handling::Keep => world.recv_into(bytes, from, 0).await.map(drop),
        Handling::Poll => {
            let mut receiving = world.irecv_into(bytes, from, 0)?;
            // Each test lets the PE go on once.
            while receiving.test().await?.is_none() {}
            Ok(())
        }
        Handling::Touch => {
            world.recv_into(bytes, from, 0).await?;
            let sum: u64 = bytes.iter().map(|byte| u64::from(*byte)).sum();
            let last = bytes.last().map_or(0, |byte| u64::from(*byte));
            match sum == last * bytes.len() as u64 {
                true => Ok(()),
                false => Err("verified: no (a message was mixed with an older one)".into()),
            }
        }
        Handling::Move => {
            *bytes = world.recv(from, 0).await?.0;
            Ok(())
        }
    }
}

async fn window(world: &Comm, bytes: &[u8]) -> Result<(), RankError> {
    let Some(partner) = partner(world) else { return Ok(()) };
    if world.rank() == 0 {
        let sent = (0..WINDOW).map(|tag| world.isend(bytes, partner, tag));
        wait_all(sent.collect::<Result<Vec<_>, _>>()?).await?;
        world.recv::<u8>(partner, WINDOW).await?;
    } else {
        let received = (0..WINDOW).map(|tag| world.irecv::<u8>(partner, tag));
        wait_all(received.collect::<Result<Vec<_>, _>>()?).await?;
        world.send(&[0_u8], partner, WINDOW).await?;
    }
    Ok(())
}

/// Checks the results of the operations.
async fn verify(world: &Comm, data: &Data, is_collective: bool) -> Result<(), RankError> {
    let (bytes, ranks) = (data.bytes.len(), world.size());
    let mut buffer = data.bytes.clone();
    round_trip(world, &mut buffer, Handling::Keep).await?;
    if partner(world).is_some() && buffer != pattern(0, bytes) {
        return Err("verified: no (a round trip has changed the bytes)".into());
    }
    if !is_collective {
        return Ok(());
    }
    let mut buffer = data.bytes.clone();
    world.bcast(&mut buffer, 0).await?;
    let total = u64::from(ranks) * u64::from(ranks - 1) / 2;
    let at_root = world.reduce(&data.numbers, ops::sum, 0).await?;
    let at_all = world.allreduce(&data.numbers, ops::sum).await?;
    let each_of =
        |found: &[u8]| (0..ranks).flat_map(|rank| pattern(rank, bytes)).eq(found.iter().copied());
    let is_right = buffer == pattern(0, bytes)
        && at_root.iter().chain([&at_all]).flatten().all(|number| *number == total)
        && each_of(&world.allgather(&data.bytes).await?)
        && each_of(&world.alltoall(&data.blocks).await?);
    match is_right {
        true => Ok(()),
        false => Err("verified: no (a collective operation has a wrong result)".into()),
    }
}

/// Measures an operation. Returns the mean time of one in ns.
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
        let mut data = Data::new(&world, 1, &plan);
        let ns = mean_ns(&world, Barrier, &mut data, plan.enough_ns).await?;
        figures.push(Figure { operation: Barrier, bytes: 0, ns });
    }
    for &bytes in &plan.sizes {
        verify(&world, &Data::new(&world, bytes, &plan), plan.is_collective).await?;
        let collective = if plan.is_collective { &Operation::COLLECTIVE[..] } else { &[] };
        for &operation in [RoundTrip, Window].iter().chain(collective) {
            // A round trip may leave other bytes, or none.
            let mut data = Data::new(&world, bytes, &plan);
            let ns = mean_ns(&world, operation, &mut data, plan.enough_ns).await?;
            figures.push(Figure { operation, bytes, ns });
        }
    }
    Ok(if world.rank() == 0 { figures } else { Vec::new() })
}

fn job(options: Options) -> Job {
    let plan = Plan {
        sizes: options.bytes.clone(),
        enough_ns: (options.seconds.clamp(0.0, 60.0) * 1e9) as u64,
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
        if !options.no_collectives {
            print_collectives(&figures, &options.bytes);
        }
        println!("verified: yes (each operation with each size)");
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
    let row = |first: &str, cells: &[String]| {
        let cells: String = cells.iter().map(|cell| format!("  {cell:>10}")).collect();
        println!("{first:>10}{cells}");
    };
    row("bytes", &Operation::COLLECTIVE.map(|operation| operation.name().to_owned()));
    for &bytes in sizes {
        let us = |operation| format!("{:.1}", find(figures, operation, bytes) / 1e3);
        row(&bytes.to_string(), &Operation::COLLECTIVE.map(us));
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
    use gridspan_runtime::driver::embedded;

    #[test]
    fn ranks_of_two_pes_are_measured_and_verified() {
        for handling in ["keep", "poll", "touch", "move"] {
            let options =
                ["ranks", "--bytes", "1B,1kB,100kB", "--ranks", "5", "--seconds", "0.0005"];
            let options = options.into_iter().chain(["--handling", handling]);
            embedded::run(job(Options::parse_from(options)), 2).unwrap();
        }
    }

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
