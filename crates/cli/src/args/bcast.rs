//! The command line of `gridctl bcast`.

use clap::{Args, ValueEnum};
use gridspan_topology::{ByteCount, parse_duration};
use std::path::PathBuf;
use std::time::Duration;

/// Arguments of `gridctl bcast`.
#[derive(Debug, Args)]
#[command(after_help = BCAST_HELP)]
pub(crate) struct BcastArgs {
    /// Plan for the grid of this file.
    #[arg(short, long, value_name = "FILE", group = "place")]
    pub(crate) grid: Option<PathBuf>,
    /// Plan for sites and links given in short: `SITESxHOSTS[xPES]` and options, such as
    /// 4x8,wan=32ms, or a grid file.
    #[arg(short, long, value_name = "SPEC", group = "place")]
    pub(crate) emulate: Option<String>,
    /// Sizes of messages, of 1B to 1TB.
    #[arg(short, long, value_name = "SIZE,…", value_delimiter = ',', value_parser = size,
          default_value = "1kB,100kB,1MB")]
    pub(crate) bytes: Vec<u64>,
    /// Broadcast from this node: its number, or the name of its host [default: the first].
    #[arg(short, long, value_name = "NODE")]
    pub(crate) root: Option<String>,
    /// Plan by these strategies [default: all].
    #[arg(short, long, value_name = "NAME,…", value_delimiter = ',', value_parser = plans())]
    pub(crate) strategy: Vec<String>,
    /// Links that transfers between sites share; a grid file does not state them. `site-pairs`:
    /// one per pair of sites; `site-uplinks`: one from each site to all others; `cluster-pairs`:
    /// one per pair of clusters.
    #[arg(
        long,
        value_name = "WHAT",
        value_enum,
        default_value = "site-pairs",
        hide_possible_values = true
    )]
    pub(crate) sharing: SharingName,
    /// Time that a node takes to start a message or a segment.
    #[arg(long, value_name = "TIME", value_parser = initiation, default_value = "20us")]
    pub(crate) initiation: Duration,
    /// Time that each searching strategy may take per size, up to 1min.
    #[arg(long, value_name = "TIME", value_parser = effort, default_value = "100ms")]
    pub(crate) effort: Duration,
    /// Seed randomised strategies.
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) seed: u64,
    /// Also show the trees of the fastest strategy for each size.
    #[arg(long)]
    pub(crate) tree: bool,
    /// Also draw the trees of the fastest strategy for the last size into FILE; `-` prints the
    /// picture alone.
    #[arg(long, value_name = "FILE")]
    pub(crate) svg: Option<PathBuf>,
    /// Print one JSON object, with all trees.
    #[arg(long)]
    pub(crate) json: bool,
}

const BCAST_HELP: &str = "\
Times are predicted by a simulation in which concurrent transfers share the network fairly. They are
comparable with each other and with the bound, before which no broadcast can be complete.

Strategies:
  star, binomial, hierarchical         know only the layout; hierarchical as in MPICH-G2
  mateescu, basic-sa, driver-sa, clustered-sa
                                       the published ones, by their own cost model
  annealed                             our search by that cost model
  static-pipeline                      in segments over a tree that needs no search
  pipelined, striped                   in segments over the best tree, or over several

Examples:
  gridctl bcast --grid grid.toml                        all strategies, three sizes
  gridctl bcast -e 4x8,wan=32ms -b 8MB --root b1        from the first node of the second site
  gridctl bcast -e 4x8 -b 1MB -s striped --tree         the trees of one strategy
  gridctl bcast -e 4x8 -b 1MB -s striped --svg plan.svg and drawn

Exit codes: 0 done, 1 a picture cannot be written, 2 usage or a file that cannot be read.";

/// Links that transfers between sites share.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum SharingName {
    /// A link for each pair of clusters.
    ClusterPairs,
    /// A link for each pair of sites.
    SitePairs,
    /// A link for each site to all others.
    SiteUplinks,
}

/// Largest value of `--bytes`, in bytes: more than the memory of most nodes.
const MESSAGE_BYTES_MAX: u64 = 1_000_000_000_000;
/// Largest value of `--effort`.
const EFFORT_MAX: Duration = Duration::from_secs(60);
/// Largest value of `--initiation`.
const INITIATION_MAX: Duration = Duration::from_secs(1);

fn size(text: &str) -> Result<u64, String> {
    let ByteCount(bytes) = text.parse().map_err(|error| format!("{error}"))?;
    let is_sensible = (1..=MESSAGE_BYTES_MAX).contains(&bytes);
    is_sensible.then_some(bytes).ok_or_else(|| "write a size of 1B to 1TB".to_owned())
}

fn initiation(text: &str) -> Result<Duration, String> {
    time_within(text, Duration::ZERO, INITIATION_MAX, "write a time up to 1s, such as 20us")
}

fn effort(text: &str) -> Result<Duration, String> {
    let least = Duration::from_millis(1);
    time_within(text, least, EFFORT_MAX, "write a time of 1ms to 1min, such as 100ms")
}

fn time_within(
    text: &str,
    least: Duration,
    most: Duration,
    advice: &str,
) -> Result<Duration, String> {
    let time = parse_duration(text).map_err(|error| error.to_string())?;
    let is_sensible = (least..=most).contains(&time);
    is_sensible.then_some(time).ok_or_else(|| advice.to_owned())
}

fn plans() -> clap::builder::PossibleValuesParser {
    gridspan_bcast::strategies::NAMES.into()
}
