//! The command line of `gridctl bench`.

use super::place::PlaceArgs;
use clap::{Args, Subcommand};

/// Benchmarks.
#[derive(Debug, Subcommand)]
pub(crate) enum BenchVerb {
    /// Measure broadcasts of the runtime, and for comparison broadcasts over a binomial tree of
    /// actor messages.
    Bcast(BenchBcastArgs),
    /// Measure messages between two ranks, and collective operations of all ranks.
    Ranks(BenchRanksArgs),
    /// Measure messages of actors: on one PE, between PEs, between nodes, and between sites.
    Messages(BenchMessagesArgs),
    /// Measure the time of a small task, and the tasks that nodes steal from each other.
    Tasks(BenchTasksArgs),
}

/// Arguments of `gridctl bench bcast`.
#[derive(Debug, Args)]
#[command(after_help = BENCH_BCAST_HELP)]
pub(crate) struct BenchBcastArgs {
    /// Where to run.
    #[command(flatten)]
    pub(crate) place: PlaceArgs,
    /// Sizes of messages, of 1B to 48MiB.
    #[arg(short, long, value_name = "SIZE,…", default_value = "8B,1kB,1MB")]
    pub(crate) bytes: String,
    /// Measure N broadcasts of each size each way.
    #[arg(long, value_name = "N", default_value = "30")]
    pub(crate) rounds: String,
    /// Print events as JSON, one per line; the text of each result is a JSON object, with times in
    /// nanoseconds.
    #[arg(long)]
    pub(crate) json: bool,
}

/// Arguments of `gridctl bench ranks`.
#[derive(Debug, Args)]
#[command(after_help = BENCH_RANKS_HELP)]
pub(crate) struct BenchRanksArgs {
    /// Where to run.
    #[command(flatten)]
    pub(crate) place: PlaceArgs,
    /// Sizes of messages, of 1B to 4MiB.
    #[arg(short, long, value_name = "SIZE,…", default_value = "8B,1kB,64kB,1MB")]
    pub(crate) bytes: String,
    /// Number of ranks, at least 2. By default one for each PE.
    #[arg(long, value_name = "N")]
    pub(crate) ranks: Option<String>,
    /// Minimum seconds of each measurement; at most 60.
    #[arg(long, value_name = "S", default_value = "0.05")]
    pub(crate) seconds: String,
    /// Only messages between two ranks, without collective operations.
    #[arg(long)]
    pub(crate) no_collectives: bool,
    /// Print events as JSON, one per line; the text of each result is a JSON object, with times in
    /// nanoseconds.
    #[arg(long)]
    pub(crate) json: bool,
}

/// Arguments of `gridctl bench messages`.
#[derive(Debug, Args)]
#[command(after_help = BENCH_MESSAGES_HELP)]
pub(crate) struct BenchMessagesArgs {
    /// Where to run.
    #[command(flatten)]
    pub(crate) place: PlaceArgs,
    /// Sizes of messages, of 1B to 4MiB.
    #[arg(short, long, value_name = "SIZE,…", default_value = "8B,1kB,64kB,1MB")]
    pub(crate) bytes: String,
    /// Measure each size N times between each pair of actors.
    #[arg(long, value_name = "N", default_value = "10")]
    pub(crate) rounds: String,
    /// Minimum seconds of each measurement; at most 60.
    #[arg(long, value_name = "S", default_value = "0.02")]
    pub(crate) seconds: String,
    /// Print events as JSON, one per line; the text of each result is a JSON object, with times in
    /// nanoseconds.
    #[arg(long)]
    pub(crate) json: bool,
}

/// Arguments of `gridctl bench tasks`.
#[derive(Debug, Args)]
#[command(after_help = BENCH_TASKS_HELP)]
pub(crate) struct BenchTasksArgs {
    /// Where to run.
    #[command(flatten)]
    pub(crate) place: PlaceArgs,
    /// Index of the Fibonacci number that the tasks compute, at most 60.
    #[arg(long, value_name = "N", default_value = "30")]
    pub(crate) fib: String,
    /// Measure it N times.
    #[arg(long, value_name = "N", default_value = "10")]
    pub(crate) rounds: String,
    /// Print events as JSON, one per line; the text of each result is a JSON object, with times in
    /// nanoseconds.
    #[arg(long)]
    pub(crate) json: bool,
}

const BENCH_MESSAGES_HELP: &str = "\
Without a place, gridctl measures two PEs of one local process, and then two local processes.
The pairs of actors are: two on one PE, on two PEs of a node, on two nodes of each site, and on
nodes of every two sites. The time one way is half of a round trip. The rate is that of 64 messages,
after which the receiver answers. Both are medians with their 95 % bootstrap intervals; fewer than 6
rounds have their range in place of an interval. Within a process messages are passed by reference,
so that there is no rate of bytes. Contents are checked before each measurement.

Examples:
  gridctl bench messages                         in one process, and between two
  gridctl bench messages -g grid.toml -b 8B,1MB  over the hosts of a grid
  gridctl bench messages -e 3x2x2,wan=20ms       over emulated links";

const BENCH_TASKS_HELP: &str = "\
Without a place, gridctl measures one local process, and then two.
The time of a task is the time of the recursion divided by the number of its tasks: the median of
all rounds, with its 95 % bootstrap interval; fewer than 6 rounds have their range in place of an
interval. The tasks begin at the first PE, and others steal from it. Each result is checked.

Examples:
  gridctl bench tasks                      on one PE, and over two processes
  gridctl bench tasks -e 1x1x2             on two PEs of one process
  gridctl bench tasks -e 2x2,wan=10ms --fib 35
                                           over emulated links";

const BENCH_RANKS_HELP: &str = "\
Without a place, gridctl measures ranks of one local process, and then of two.
The time of a message is half of a round trip between the first and the last rank. The rate is that
of 64 messages, after which the receiver answers. The time of a collective operation is that from
one to the next, as the mean over the ranks. Since the root of a broadcast waits for no other rank,
broadcasts are timed by their rate. Each operation is checked before it is measured.

Examples:
  gridctl bench ranks                            in one process, and over two
  gridctl bench ranks -e 1x1x2 -b 8B,1MB         over two PEs of one process
  gridctl bench ranks -e 4x2,wan=20ms --ranks 16 over emulated links";

const BENCH_BCAST_HELP: &str = "\
Without a place, gridctl measures over 2, 4 and 8 local processes, one after the other.
Both ways take turns in the same run. The ratio is the median of the ratios of all rounds, with its
95 % bootstrap interval; fewer than 6 rounds have their range in place of an interval. A broadcast
is timed from sending to the end of a reduction that confirms that all members have it; the
reduction alone is measured too. Each member checks each message.

Examples:
  gridctl bench bcast                          over 2, 4 and 8 local processes
  gridctl bench bcast -n 4 -b 1MB --rounds 100 over 4
  gridctl bench bcast -e 2x2,wan=10ms          over emulated links";
