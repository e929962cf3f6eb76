//! The command line of `gridctl plan`.

use super::balance::strategies;
use super::program::Command;
use clap::Args;
use gridspan_balance::StrategyName;
use gridspan_plan::Variation;
use std::num::NonZeroU32;
use std::path::PathBuf;
use std::str::FromStr;

/// Largest factor of `--times` and `--what-if`.
const FACTOR_MAX: f64 = 1e9;

/// Arguments of `gridctl plan`.
#[derive(Debug, Args)]
#[command(
    override_usage = "gridctl plan [OPTIONS] --recording DIR\n       gridctl plan [OPTIONS] PROGRAM [ARGS]...",
    subcommand_value_name = "PROGRAM",
    subcommand_help_heading = "Program",
    disable_help_subcommand = true,
    after_help = PLAN_HELP
)]
pub(crate) struct PlanArgs {
    /// Predict from this recording, the folder of `--record`. For a job of tasks, several
    /// recordings give a better model. With --size, write the size of the problem in each of two
    /// recordings, as in `--recording r1=4000 --recording r2=8000`.
    #[arg(long = "recording", value_name = "DIR[=SIZE]")]
    pub(crate) recordings: Vec<PlanSource>,
    /// Predict for one node of N PEs.
    #[arg(short, long, value_name = "N", group = "place")]
    pub(crate) pes: Option<NonZeroU32>,
    /// Predict for the grid of this file.
    #[arg(short, long, value_name = "FILE", group = "place")]
    pub(crate) grid: Option<PathBuf>,
    /// Predict for sites and links given in short: `SITESxHOSTS[xPES]` and options, such as
    /// 4x8,wan=20ms,rate=1gbit.
    #[arg(short, long, value_name = "SPEC", group = "place")]
    pub(crate) emulate: Option<String>,
    /// Predict for FACTOR times as many steps as were recorded.
    #[arg(long, value_name = "FACTOR", default_value_t = 1.0, value_parser = factor)]
    pub(crate) times: f64,
    /// Predict for a problem of this size, in the unit of the sizes of --recording.
    #[arg(long, value_name = "SIZE", value_parser = factor, requires = "recordings")]
    pub(crate) size: Option<f64>,
    /// Move actors by this strategy, once, from where they are created.
    #[arg(long, value_name = "STRATEGY", value_parser = strategies())]
    pub(crate) balance: Option<StrategyName>,
    /// Compare with this change only: `latency*F`, `rate*F`, `sites+1` or `sites-1`. Repeat it for
    /// more [default: several of each].
    #[arg(long, value_name = "CHANGE")]
    pub(crate) what_if: Vec<Change>,
    /// Seed the recorded run and the strategy.
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) seed: u64,
    /// Print one JSON object.
    #[arg(long)]
    pub(crate) json: bool,
    /// A program to simulate and record first, on as many PEs as the grid has, and its arguments.
    /// Give it few steps.
    #[command(subcommand)]
    pub(crate) program: Option<Command>,
}

/// A recording to predict from.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct PlanSource {
    /// Its folder.
    pub(crate) folder: PathBuf,
    /// The size of its problem.
    pub(crate) size: Option<f64>,
}

impl FromStr for PlanSource {
    type Err = String;

    /// A text is a folder and a size if a number follows its last `=`, and else only a folder.
    fn from_str(text: &str) -> Result<Self, String> {
        let sized = text.rsplit_once('=').and_then(|(folder, size)| {
            size.parse::<f64>().ok().filter(|size| size.is_finite())?;
            Some((folder, size))
        });
        match sized {
            Some(("", _)) => Err("write a folder before the size, such as r1=4000".to_owned()),
            Some((folder, size)) => Ok(Self { folder: folder.into(), size: Some(factor(size)?) }),
            None => Ok(Self { folder: text.into(), size: None }),
        }
    }
}

/// A change to compare with.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Change {
    /// Its name.
    pub(crate) name: String,
    /// What changes.
    pub(crate) variation: Variation,
}

impl FromStr for Change {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let variation = match text.split_once('*') {
            Some(("latency", by)) => Variation::Latency(factor(by)?),
            Some(("rate", by)) => Variation::Bandwidth(factor(by)?),
            None if text == "sites+1" => Variation::OneMoreSite,
            None if text == "sites-1" => Variation::OneSiteLess,
            _ => return Err("write latency*2, rate*2, sites+1 or sites-1".to_owned()),
        };
        Ok(Self { name: text.to_owned(), variation })
    }
}

fn factor(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(factor) if factor > 0.0 && factor <= FACTOR_MAX => Ok(factor),
        _ => Err("write a number above 0, up to 1e9, such as 2 or 0.5".to_owned()),
    }
}

const PLAN_HELP: &str = "\
A recording is replayed on the grid: the same handlers and messages, over its links. The time of a
job of tasks follows from a formula instead. Record in virtual time, on as many PEs as the grid has
or a multiple: then each actor is where it would be created. Record few steps, and use --times.

Without a recording, gridctl simulates PROGRAM on one site first. For a plan over several sites, it
simulates programs of tasks and of ranks on as many, since their messages depend on the sites.

Examples:
  gridctl plan -e 4x8,wan=20ms leanmd --steps 20
  gridctl sim -e 1x32 --record r leanmd --steps 20
  gridctl plan --recording r --grid grid.toml --times 50
  gridctl plan --recording r -e 4x8,wan=20ms --balance auto --what-if latency*2
  gridctl plan --recording r1=4000 --recording r2=8000 --size 64000 -e 4x8

Exit codes: 0 predicted, 1 the program failed, 2 usage, or a recording that does not suffice.";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn recordings_have_sizes_and_changes_have_names() {
        let source = |text: &str| text.parse::<PlanSource>();
        assert_eq!(source("r1=4000").unwrap().size, Some(4000.0));
        let plain = source("a=b/r1").unwrap();
        assert_eq!((plain.folder.to_str(), plain.size), (Some("a=b/r1"), None));
        for wrong in ["=3", "r1=0", "r1=-4", "r1=1e10"] {
            assert!(source(wrong).is_err(), "{wrong}");
        }
        let change = |text: &str| text.parse::<Change>().map(|change| change.variation);
        assert_eq!(change("latency*0.5"), Ok(Variation::Latency(0.5)));
        assert_eq!(change("sites+1"), Ok(Variation::OneMoreSite));
        for wrong in ["latency", "latency*0", "latency*x", "sites*2", "sites+2", "rate*-1"] {
            assert!(change(wrong).is_err(), "{wrong}");
        }
    }
}
