//! Flags about checkpoints and losses, and the command line of `gridctl checkpoint`.

use super::values::{log_bytes, period};
use clap::{Args, Subcommand, ValueEnum};
use gridspan::CheckpointEvery;
use gridspan_topology::Bandwidth;
use std::path::PathBuf;
use std::time::Duration;

/// Flags about checkpoints.
#[derive(Debug, Args)]
#[command(next_help_heading = "Checkpoints and losses")]
pub(crate) struct CheckpointFlags {
    /// Make checkpoints this often, in memory: auto, a time such as 30s, or a number of main's
    /// progress points such as 100steps [default: what the program says; auto if --copies,
    /// --protect-sites, --copy-rate or --node-mtbf is given].
    #[arg(long, value_name = "WHEN", value_parser = every)]
    pub(crate) checkpoint_every: Option<CheckpointEvery>,
    /// Also store checkpoints in DIR, which all nodes share; the last two are kept. DIR may be the
    /// address of a place in an object store, such as s3://BUCKET/JOB.
    #[arg(long, value_name = "DIR")]
    pub(crate) checkpoint: Option<PathBuf>,
    /// Go on from the last checkpoint in DIR, on any number of nodes and PEs.
    #[arg(long, value_name = "DIR")]
    pub(crate) restart: Option<PathBuf>,
    /// Keep each part of a checkpoint on N nodes [default: 2].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) copies: Option<u32>,
    /// Keep the second copy at another site, and further ones at yet others.
    #[arg(long)]
    pub(crate) protect_sites: bool,
    /// Send copies from a site to other sites at most at RATE, such as 100mbit [default: as fast as
    /// the links allow].
    #[arg(long, value_name = "RATE")]
    pub(crate) copy_rate: Option<Bandwidth>,
    /// Assume this mean time between failures of a node, for `--checkpoint-every auto` [default: 30
    /// days].
    #[arg(long, value_name = "TIME", value_parser = period)]
    pub(crate) node_mtbf: Option<Duration>,
    /// Do WHAT when nodes are lost [default: shrink if --checkpoint-every or --checkpoint is given,
    /// or if the program makes checkpoints and its main can begin again; else fail].
    #[arg(long, value_enum, value_name = "WHAT")]
    pub(crate) on_loss: Option<OnLossFlag>,
    /// Keep at most SIZE of lent tasks on each node, to repeat them if the nodes that have borrowed
    /// them are lost; beyond that, such a loss takes the job back to its last checkpoint [default:
    /// what the program says, or 256MiB].
    #[arg(long, value_name = "SIZE", value_parser = log_bytes)]
    pub(crate) log_bytes: Option<u64>,
    /// Do not start this node (SITE/NUMBER), host or site; `gridctl add` or `--on-loss replace` may
    /// start it later.
    #[arg(long, value_name = "NODE")]
    pub(crate) spare: Vec<String>,
    /// Give a node that gets SIGTERM this TIME to leave, and a job that gets it this TIME to stop.
    #[arg(long, value_name = "TIME", value_parser = period, default_value = "25s")]
    pub(crate) drain_deadline: Duration,
}

/// What happens when nodes are lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum OnLossFlag {
    /// Go on with the nodes that remain: at once if the lost ones had only tasks, otherwise from
    /// the last checkpoint.
    Shrink,
    /// Start the lost nodes again, or spare nodes if their hosts do not answer, and go on from the
    /// last checkpoint.
    Replace,
    /// End the job.
    Fail,
}

/// Commands of `gridctl checkpoint`.
#[derive(Debug, Subcommand)]
pub(crate) enum CheckpointVerb {
    /// List the complete checkpoints.
    Ls(CheckpointArgs),
    /// Show where the actors of a checkpoint were.
    Show(CheckpointArgs),
    /// Read a checkpoint, or all, and check every byte.
    Verify(CheckpointArgs),
}

/// Arguments of the commands of `gridctl checkpoint`.
#[derive(Debug, Args)]
pub(crate) struct CheckpointArgs {
    /// The folder, or the address, of `gridctl run --checkpoint`.
    #[arg(value_name = "DIR")]
    pub(crate) folder: PathBuf,
    /// The number of the checkpoint [default: the last; for ls and verify, all].
    #[arg(long, value_name = "N")]
    pub(crate) number: Option<u64>,
    /// Print JSON, one object per line.
    #[arg(long)]
    pub(crate) json: bool,
}

/// Parses how often checkpoints are made.
fn every(text: &str) -> Result<CheckpointEvery, &'static str> {
    gridspan::variables::checkpoint_every(text)
        .ok_or("neither auto, nor a time such as 30s, nor a number of steps such as 100steps")
}
