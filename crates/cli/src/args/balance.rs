//! Flags about balancing, and the command line of `gridctl balance`.

use super::values::period;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args, Subcommand, ValueEnum};
use gridspan_balance::stealing::{STEALING_POLICIES, StealingPolicyName};
use gridspan_balance::{NAMES, StrategyName};
use gridspan_bcast::{MODES, Mode};
use std::num::NonZeroU32;
use std::path::PathBuf;
use std::time::Duration;

/// How actors are balanced and tasks shared.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct BalanceFlags {
    /// Move actors by this strategy at sync points, and when links or the load of other programs
    /// change, whatever the program sets.
    #[arg(long, value_name = "STRATEGY", value_parser = strategies())]
    pub(crate) balance: Option<StrategyName>,
    /// Also ask the strategy at this interval, such as 5s.
    #[arg(long, value_name = "TIME", value_parser = period)]
    pub(crate) balance_every: Option<Duration>,
    /// Require that plans are worth their cost, and undo those that were not [default: on].
    #[arg(long, value_enum, value_name = "ON")]
    pub(crate) balance_gate: Option<Switch>,
    /// Let nodes without tasks obtain some by this policy, whatever the program sets.
    #[arg(long, value_name = "POLICY", value_parser = policies())]
    pub(crate) stealing: Option<StealingPolicyName>,
    /// Send broadcasts this way, whatever the program sets: as planned while the job runs, or over
    /// the layout's tree, a binomial tree, or a star.
    #[arg(long, value_name = "WAY", value_parser = modes())]
    pub(crate) broadcast: Option<Mode>,
    /// Write the measurements of each rebalance to this file, for `gridctl balance replay`.
    #[arg(long, value_name = "FILE")]
    pub(crate) balance_dump: Option<PathBuf>,
}

/// On or off.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Switch {
    /// On.
    On,
    /// Off.
    Off,
}

/// Commands of `gridctl balance`.
#[derive(Debug, Subcommand)]
pub(crate) enum BalanceVerb {
    /// Show the plans of strategies for recorded measurements.
    Replay(ReplayArgs),
    /// Convert a file of `--balance-dump` for the tools of another runtime.
    Export(ExportArgs),
}

/// File format of measurements for balancing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum SnapshotFormat {
    /// The format of `--balance-dump`.
    Dump,
    /// The format of DARMA/vt: files FILE.0.json, FILE.1.json, and so on, one per PE.
    Vt,
}

/// Arguments of `gridctl balance replay`.
#[derive(Debug, Args)]
pub(crate) struct ReplayArgs {
    /// A file of `--balance-dump`, or the common prefix of vt's files.
    pub(crate) file: PathBuf,
    /// Format of the file. The N-th rebalance of vt is its N-th phase.
    #[arg(long, value_name = "FORMAT", default_value = "dump")]
    pub(crate) format: SnapshotFormat,
    /// Plan by these strategies [default: greedy, refine, grid-cut and auto].
    #[arg(short, long, value_name = "NAME,…", value_delimiter = ',', value_parser = strategies())]
    pub(crate) strategy: Vec<StrategyName>,
    /// Use the N-th rebalance, from 1 [default: the last].
    #[arg(long, value_name = "N")]
    pub(crate) rebalance: Option<NonZeroU32>,
    /// Explain why each actor moves.
    #[arg(long)]
    pub(crate) why: bool,
    /// Seed randomised strategies.
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) seed: u64,
    /// Print one JSON object.
    #[arg(long)]
    pub(crate) json: bool,
}

/// Arguments of `gridctl balance export`.
#[derive(Debug, Args)]
pub(crate) struct ExportArgs {
    /// A file of `--balance-dump`.
    pub(crate) file: PathBuf,
    /// Common prefix of the files to write.
    pub(crate) to: PathBuf,
    /// Format of the files to write. The rebalance is phase 0 of vt.
    #[arg(long, value_name = "FORMAT", default_value = "vt")]
    pub(crate) format: SnapshotFormat,
    /// Use the N-th rebalance, from 1 [default: the last].
    #[arg(long, value_name = "N")]
    pub(crate) rebalance: Option<NonZeroU32>,
}

fn policies() -> impl TypedValueParser<Value = StealingPolicyName> {
    PossibleValuesParser::from(STEALING_POLICIES).try_map(|name| name.parse::<StealingPolicyName>())
}

fn modes() -> impl TypedValueParser<Value = Mode> {
    PossibleValuesParser::from(MODES).try_map(|name| name.parse::<Mode>())
}

pub(super) fn strategies() -> impl TypedValueParser<Value = StrategyName> {
    PossibleValuesParser::from(NAMES).try_map(|name| name.parse::<StrategyName>())
}
