//! The command line of `gridctl rpc`.

use clap::{Args, Subcommand, ValueEnum};
use gridspan_topology::{Bandwidth, ByteCount, Latency, Link};
use std::net::{IpAddr, SocketAddr};
use std::num::NonZeroU32;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

/// The name by which plain GridRPC is asked for, which maps no group.
pub(crate) const INDIVIDUAL: &str = "gridrpc";

/// What to do with remote calls.
#[derive(Debug, Subcommand)]
pub(crate) enum RpcVerb {
    /// Map a workflow to the servers of a grid, heuristic by heuristic, and execute it in simulated
    /// time; or on real servers.
    Run(RpcRunArgs),
    /// Serve functions, or be the registry of those who do, until it is told to end.
    Serve(RpcServeArgs),
    /// List the servers of a registry.
    Ls(RpcListArgs),
    /// Call a function.
    Call(RpcCallArgs),
}

/// What to serve, and where.
#[derive(Debug, Args)]
#[command(after_help = SERVE_HELP)]
pub(crate) struct RpcServeArgs {
    /// Execute calls on so many PEs, each one call at a time. Default: one for each core.
    #[arg(short = 'n', long, value_name = "N")]
    pub(crate) pes: Option<NonZeroU32>,
    /// Call the server so. Default: the host's name and the process id.
    #[arg(long, value_name = "NAME")]
    pub(crate) name: Option<String>,
    /// Each PE is so many times as fast as others.
    #[arg(long, value_name = "TIMES", default_value_t = 1.0, value_parser = speed)]
    pub(crate) speed: f64,
    /// Keep so much data of groups in memory, and what is beyond in a file without a name.
    #[arg(long, value_name = "SIZE", default_value = "1GiB", value_parser = memory, conflicts_with = "registry")]
    pub(crate) memory: u64,
    /// In which folder that file is. Default: where the system keeps what is temporary.
    #[arg(long, value_name = "FOLDER", conflicts_with = "registry")]
    pub(crate) spill_to: Option<PathBuf>,
    /// Listen here; with port 0 the system chooses one.
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:0")]
    pub(crate) listen: SocketAddr,
    /// Tell others to come to this address, where they do not reach the one listened at.
    #[arg(long, value_name = "IP", conflicts_with = "join")]
    pub(crate) advertise: Option<IpAddr>,
    /// Write the token here, and a key beside it by which a later daemon takes the place of this
    /// one. Default: in the user's own folder, while the daemon is there.
    #[arg(long, value_name = "FILE")]
    pub(crate) token: Option<PathBuf>,
    /// Serve nothing: be the registry of servers that join.
    #[arg(long, conflicts_with_all = ["pes", "speed", "join"])]
    pub(crate) registry: bool,
    /// Join the registry, or the server, whose token this is.
    #[arg(long, value_name = "TOKEN", conflicts_with_all = ["listen", "token"])]
    pub(crate) join: Option<PathBuf>,
}

/// Whose servers.
#[derive(Debug, Args)]
pub(crate) struct RpcListArgs {
    /// The token of a daemon. Default: that of the latest that this user started here.
    #[arg(long, value_name = "FILE")]
    pub(crate) token: Option<PathBuf>,
    /// Print JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

/// What to call.
#[derive(Debug, Args)]
#[command(after_help = CALL_HELP)]
pub(crate) struct RpcCallArgs {
    /// The function.
    pub(crate) function: String,
    /// Its arguments in JSON, such as `[1, 2]`; `@FILE` for what is in a file, and `@-` for the
    /// standard input.
    #[arg(default_value = "null", allow_hyphen_values = true)]
    pub(crate) arguments: String,
    /// The token of a daemon. Default: that of the latest that this user started here.
    #[arg(long, value_name = "FILE")]
    pub(crate) token: Option<PathBuf>,
    /// How long each server that is tried has to answer.
    #[arg(long, value_name = "TIME", default_value = "1h", value_parser = gridspan_topology::parse_duration)]
    pub(crate) timeout: Duration,
}

const SERVE_HELP: &str = "\
Whoever has the token may call the functions and join as a server: copy it as you would a private key.

Examples:
  gridctl rpc serve                                 functions of this machine, for this user
  gridctl rpc serve --registry --listen 10.0.0.1:7000 --token grid.token
  gridctl rpc serve --join grid.token               on another machine

Ctrl-C ends it once what it executes has ended; a second one at once.
Exit codes: 0 told to end, 1 it cannot listen or nobody answers, 2 usage.";

const CALL_HELP: &str = "\
Examples:
  gridctl rpc call add '[1, 2]'
  gridctl rpc call solve '[[[2, 0], [0, 4]], [1, 1]]'
  gridctl rpc call primes 1000000 --token grid.token --timeout 30s
  generate | gridctl rpc call dot @-                arguments beyond what a command line may hold

Exit codes: 0 done, 1 the call failed or nobody answers, 2 usage.";

fn times(text: &str) -> Result<f64, &'static str> {
    let times: f64 = text.parse().unwrap_or(0.0);
    let is_sensible = (1e-6..=1e6).contains(&times);
    is_sensible.then_some(times).ok_or("write a number from 0.000001 to 1000000")
}

fn speed(text: &str) -> Result<f64, &'static str> {
    let speed: f64 = text.parse().unwrap_or(0.0);
    let is_sensible = (1e-3..=1e3).contains(&speed);
    is_sensible.then_some(speed).ok_or("write a number from 0.001 to 1000")
}

fn memory(text: &str) -> Result<u64, String> {
    let ByteCount(bytes) = text.parse().map_err(|error| format!("{error}"))?;
    Ok(bytes)
}

/// Which workflow, which servers, and what to show.
#[derive(Debug, Args)]
#[command(after_help = RUN_HELP)]
pub(crate) struct RpcRunArgs {
    /// The workflow, in WfFormat.
    pub(crate) file: PathBuf,
    /// Each node of this grid file is a server, with a core for each PE.
    #[arg(short, long, value_name = "FILE", group = "place")]
    pub(crate) grid: Option<PathBuf>,
    /// Servers and links given in short: `SITESxHOSTS[xPES]` and options, such as 4x8x4,wan=32ms,
    /// or for a grid file.
    #[arg(short, long, value_name = "SPEC", group = "place")]
    pub(crate) emulate: Option<String>,
    /// Execute it on the servers of the registry whose token this is. They compute for as long as
    /// is said, data as large as is said goes from one to the other over links as they were
    /// measured, and the heuristic is `heft-c` if none is named.
    #[arg(long, value_name = "TOKEN", group = "place", conflicts_with_all = ["client", "star", "slow"])]
    pub(crate) token: Option<PathBuf>,
    /// Tasks compute so many times as fast as was recorded.
    #[arg(long, value_name = "TIMES", value_parser = times)]
    pub(crate) faster: Option<f64>,
    /// Map by these heuristics; `gridrpc` places each call by itself. Default: all but
    /// `exhaustive`.
    #[arg(short = 'H', long, value_name = "NAME,…", value_delimiter = ',', value_parser = heuristics())]
    pub(crate) heuristic: Vec<String>,
    /// The client has a link into the wide area of its own, such as 100mbit or 100mbit,20ms.
    /// Default: it is a host of the first site.
    #[arg(long, value_name = "RATE[,LATENCY]", value_parser = link)]
    pub(crate) client: Option<Link>,
    /// Servers speak with the client only.
    #[arg(long)]
    pub(crate) star: bool,
    /// This host is so many times slower than the heuristics know; repeat it for more.
    #[arg(long, value_name = "HOST=TIMES")]
    pub(crate) slow: Vec<Late>,
    /// What is done while the workflow is executed if servers are slow: `none`; `steal` what they
    /// have not begun; `copy`, and also begin late tasks again elsewhere. With a registry with six
    /// servers, one stopped for four fifths of the time, 64 tasks took 8.6, 3.8 and 3.2 s, with as
    /// many bytes of the client (medians of `gridctl rpc run --token T --rescue WHAT --json`).
    #[arg(
        long,
        value_name = "WHAT",
        value_enum,
        default_value = "copy",
        hide_possible_values = true
    )]
    pub(crate) rescue: RescueName,
    /// Seed heuristics that throw dice.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) seed: u64,
    /// Also draw when each server computed, of the shortest execution, into FILE; `-` prints the
    /// picture alone.
    #[arg(long, value_name = "FILE")]
    pub(crate) svg: Option<PathBuf>,
    /// Print one JSON object, with all tasks of the shortest execution.
    #[arg(long)]
    pub(crate) json: bool,
}

const RUN_HELP: &str = "\
A task computes as long as was recorded, on one core. Files that no task writes are at the client at first, and
those that no task reads go to it. Transfers that meet share the links fairly.

Heuristics:
  greedy, min-min, max-min,
  sufferage, heft   the published ones; each transfer has its links for itself
  heft-c            HEFT with links reserved, and relays inside sites
  portfolio         the best of several in a simulated execution
  exhaustive        the best of all mappings, for a few tasks
  random            dice
  gridrpc           no group: each call goes to the server that would end it
                    first, and everything goes through the client

Examples:
  gridctl rpc run -e 4x4x4,wan=40ms,rate=50mbit w.json           all heuristics
  gridctl rpc run -g grid.toml -H heft-c w.json --svg chart.svg  one, drawn
  gridctl rpc run -e 2x4 --slow a1=3 --rescue none w.json        with a host that is slow
  gridctl rpc run --token grid.token --faster 100 w.json         on servers that have joined a registry

Exit codes: 0 done, 1 a picture cannot be written, 2 usage or a file that cannot be read.";

/// What is done about slow servers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum RescueName {
    /// Nothing.
    None,
    /// Others take what they have not begun.
    Steal,
    /// And late tasks are begun again.
    Copy,
}

/// A host that is slower than it should be.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Late {
    /// The host.
    pub(crate) host: String,
    /// How many times.
    pub(crate) times: f64,
}

impl FromStr for Late {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, &'static str> {
        const ADVICE: &str = "write a host and a number from 0.001 to 1000, such as a1=3";
        let (host, times) = text.split_once('=').ok_or(ADVICE)?;
        let times: f64 = times.parse().map_err(|_| ADVICE)?;
        let is_sensible = (1e-3..=1e3).contains(&times);
        is_sensible.then(|| Self { host: host.to_owned(), times }).ok_or(ADVICE)
    }
}

fn link(text: &str) -> Result<Link, String> {
    let (rate, latency) = text.split_once(',').unwrap_or((text, "0s"));
    let rate: Bandwidth = rate.parse().map_err(|error| format!("{error}"))?;
    let latency: Latency = latency.parse().map_err(|error| format!("{error}"))?;
    let link = Link::new(latency, rate);
    link.validate().map(|()| link).map_err(|error| error.to_string())
}

fn heuristics() -> clap::builder::PossibleValuesParser {
    let names = gridspan_workflow::heuristics::NAMES.iter().copied();
    names.chain([INDIVIDUAL]).collect::<Vec<_>>().into()
}
