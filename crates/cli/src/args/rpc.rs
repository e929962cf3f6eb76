//! The command line of `gridctl rpc`.

use clap::{Args, Subcommand, ValueEnum};
use gridspan_topology::{Bandwidth, ByteCount, Latency, Link};
use std::net::{IpAddr, SocketAddr};
use std::num::NonZeroU32;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

/// Name that selects plain GridRPC instead of a heuristic: each call is mapped separately.
pub(crate) const INDIVIDUAL: &str = "gridrpc";

/// Commands of `gridctl rpc`.
#[derive(Debug, Subcommand)]
pub(crate) enum RpcVerb {
    /// Map a workflow to the servers of a grid, heuristic by heuristic, and execute it in simulated
    /// time or on real servers.
    Run(RpcRunArgs),
    /// Serve functions, or be the registry of servers, until stopped.
    Serve(RpcServeArgs),
    /// List the servers of a registry.
    Ls(RpcListArgs),
    /// Call a function.
    Call(RpcCallArgs),
}

/// Arguments of `gridctl rpc serve`.
#[derive(Debug, Args)]
#[command(after_help = SERVE_HELP)]
pub(crate) struct RpcServeArgs {
    /// Execute calls on N PEs, one call at a time each [default: one PE per core].
    #[arg(short, long, value_name = "N")]
    pub(crate) pes: Option<NonZeroU32>,
    /// Name of the server [default: the host's name and the process id].
    #[arg(long, value_name = "NAME")]
    pub(crate) name: Option<String>,
    /// Each PE is TIMES times as fast as others.
    #[arg(long, value_name = "TIMES", default_value_t = 1.0, value_parser = speed)]
    pub(crate) speed: f64,
    /// Keep up to SIZE of group data in memory, and the rest in an unnamed file.
    #[arg(long, value_name = "SIZE", default_value = "1GiB", value_parser = memory, conflicts_with = "registry")]
    pub(crate) memory: u64,
    /// Folder of that file [default: the system's folder for temporary files].
    #[arg(long, value_name = "DIR", conflicts_with = "registry")]
    pub(crate) spill_to: Option<PathBuf>,
    /// Listen here; with port 0 the system chooses one [default: where an earlier daemon with the
    /// token of --write-token listened, or 127.0.0.1:0].
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) listen: Option<SocketAddr>,
    /// Tell other processes this address, if they cannot reach the address of --listen.
    #[arg(long, value_name = "IP", conflicts_with = "join")]
    pub(crate) advertise: Option<IpAddr>,
    /// Write the token here, and a key beside it, with which a later daemon can replace this one
    /// [default: in the user's folder, while the daemon runs].
    #[arg(long = "write-token", value_name = "FILE")]
    pub(crate) token: Option<PathBuf>,
    /// Serve no functions: be the registry of servers that join.
    #[arg(long, conflicts_with_all = ["pes", "speed", "join"])]
    pub(crate) registry: bool,
    /// Join the registry or server of the token in this file.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["listen", "token"])]
    pub(crate) join: Option<PathBuf>,
}

/// Arguments of `gridctl rpc ls`.
#[derive(Debug, Args)]
pub(crate) struct RpcListArgs {
    /// Token of a daemon [default: that of the latest daemon that this user started here].
    #[arg(long, value_name = "FILE")]
    pub(crate) token: Option<PathBuf>,
    /// Print one JSON array, with an object for each server.
    #[arg(long)]
    pub(crate) json: bool,
}

/// Arguments of `gridctl rpc call`.
#[derive(Debug, Args)]
#[command(after_help = CALL_HELP)]
pub(crate) struct RpcCallArgs {
    /// The function.
    pub(crate) function: String,
    /// Its arguments in JSON, such as `[1, 2]`; `@FILE` reads them from a file, and `@-` from
    /// standard input.
    #[arg(default_value = "null", allow_hyphen_values = true)]
    pub(crate) arguments: String,
    /// Token of a daemon [default: that of the latest daemon that this user started here].
    #[arg(long, value_name = "FILE")]
    pub(crate) token: Option<PathBuf>,
    /// Give up on a server that has not answered after this time.
    #[arg(long, value_name = "TIME", default_value = "1h", value_parser = gridspan_topology::parse_duration)]
    pub(crate) timeout: Duration,
}

const SERVE_HELP: &str = "\
Anyone with the token may call the functions and join as a server: copy it as you would a private key.

Examples:
  gridctl rpc serve                                 functions of this machine, for this user
  gridctl rpc serve --registry --listen 10.0.0.1:7000 --write-token grid.token
  gridctl rpc serve --join grid.token               on another machine

Ctrl-C ends it after the calls in execution; a second one at once.
Exit codes: 0 stopped, 1 it cannot listen or nothing answers, 2 usage.";

const CALL_HELP: &str = "\
Examples:
  gridctl rpc call add '[1, 2]'
  gridctl rpc call solve '[[[2, 0], [0, 4]], [1, 1]]'
  gridctl rpc call primes 1000000 --token grid.token --timeout 30s
  generate | gridctl rpc call dot @-                arguments too long for a command line

Exit codes: 0 done, 1 the call failed or nothing answers, 2 usage.";

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

/// Arguments of `gridctl rpc run`.
#[derive(Debug, Args)]
#[command(after_help = RUN_HELP)]
pub(crate) struct RpcRunArgs {
    /// The workflow, in WfFormat.
    pub(crate) file: PathBuf,
    /// Use each node of this grid file as a server, with one core per PE.
    #[arg(short, long, value_name = "FILE", group = "place")]
    pub(crate) grid: Option<PathBuf>,
    /// Servers and links given in short: `SITESxHOSTS[xPES]` and options, such as 4x8x4,wan=32ms,
    /// or a grid file.
    #[arg(short, long, value_name = "SPEC", group = "place")]
    pub(crate) emulate: Option<String>,
    /// Token of a registry, to execute the workflow on its servers. Tasks take the time, and data
    /// have the size, that the workflow states; data go from server to server over links as
    /// measured. Default heuristic: `heft-c`.
    #[arg(long, value_name = "FILE", group = "place", conflicts_with_all = ["client", "star", "slow"])]
    pub(crate) token: Option<PathBuf>,
    /// Tasks compute TIMES times as fast as recorded.
    #[arg(long, value_name = "TIMES", value_parser = times)]
    pub(crate) faster: Option<f64>,
    /// Map by these heuristics; `gridrpc` places each call by itself [default: all but
    /// `exhaustive`].
    #[arg(short = 'H', long, value_name = "NAME,…", value_delimiter = ',', value_parser = heuristics())]
    pub(crate) heuristic: Vec<String>,
    /// Give the client its own link into the wide area, such as 100mbit or 100mbit,20ms [default:
    /// it is a host of the first site].
    #[arg(long, value_name = "RATE[,LATENCY]", value_parser = link)]
    pub(crate) client: Option<Link>,
    /// Let servers communicate with the client only.
    #[arg(long)]
    pub(crate) star: bool,
    /// This host is TIMES times slower than the heuristics know; repeat it for more.
    #[arg(long, value_name = "HOST=TIMES")]
    pub(crate) slow: Vec<Late>,
    /// Action on slow servers during the execution: `none`; `steal` tasks that they have not
    /// started; `copy`, which also starts late tasks again elsewhere.
    #[arg(
        long,
        value_name = "WHAT",
        value_enum,
        default_value = "copy",
        hide_possible_values = true
    )]
    pub(crate) stragglers: StragglerPolicyName,
    /// Seed randomised heuristics.
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) seed: u64,
    /// Also draw when each server computed in the shortest execution, into FILE; `-` prints the
    /// picture alone.
    #[arg(long, value_name = "FILE")]
    pub(crate) svg: Option<PathBuf>,
    /// Print one JSON object, with all tasks of the shortest execution.
    #[arg(long)]
    pub(crate) json: bool,
}

const RUN_HELP: &str = "\
A task computes for the recorded time, on one core. Files that no task writes start at the client, and
those that no task reads end there. Concurrent transfers share the links fairly.

Heuristics:
  greedy, min-min, max-min,
  sufferage, heft   the published ones; they assume no contention for links
  heft-c            HEFT with links reserved, and relays inside sites
  portfolio         the best of several in a simulated execution
  exhaustive        the best of all mappings, for a few tasks
  random            at random
  gridrpc           no group: each call goes to the server that would complete it
                    first, and all data goes through the client

Examples:
  gridctl rpc run -e 4x4x4,wan=40ms,rate=50mbit w.json           all heuristics
  gridctl rpc run -g grid.toml -H heft-c w.json --svg chart.svg  one, drawn
  gridctl rpc run -e 2x4 --slow a1=3 --stragglers none w.json    with a host that is slow
  gridctl rpc run --token grid.token --faster 100 w.json         on servers that have joined a registry

Exit codes: 0 done, 1 a picture cannot be written, 2 usage or a file that cannot be read.";

/// Actions on slow servers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum StragglerPolicyName {
    /// No action.
    None,
    /// Other servers take tasks that a slow server has not started.
    Steal,
    /// As `steal`, and late tasks are started again elsewhere.
    Copy,
}

/// A host that is slower than the heuristics know.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Late {
    /// The host.
    pub(crate) host: String,
    /// Factor by which it is slower.
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
