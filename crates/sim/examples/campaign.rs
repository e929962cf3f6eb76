//! Runs a fault campaign.
//!
//! `cargo run --release -p gridspan-sim --example campaign -- --seeds 500`
//!
//! - `--seeds N` or `--seeds A..B`: the seeds. Default 0..100.
//! - `--seconds S`: virtual seconds of each seed. Default 60.
//! - `--threads T`: number of threads. Default one per core.
//! - `--plant BUG`: `hold-skipped`, `epoch-ignored`, `broadcasts-apart`, `numbers-mixed`,
//!   `streams-uncounted`, `right-kept`, `one-round`, `one-phase-round`,
//!   `transfer-drops-held`, `demanded-again`, `partners-left-behind`,
//!   `resend-without-sequence`, `forgotten-receive-state`, `acknowledge-before-apply` or
//!   `not-resumed`.
//! - `--only quic`: only the seeds whose nodes communicate over QUIC in virtual time, which is
//!   every tenth. Default all.

use gridspan_sim::campaign::{Campaign, Planted};
use std::ops::Range;
use std::process::ExitCode;
use std::time::Instant;

fn main() -> ExitCode {
    let campaign = match campaign(std::env::args().skip(1)) {
        Ok(campaign) => campaign,
        Err(problem) => {
            eprintln!("{problem}; see the head of examples/campaign.rs for the options");
            return ExitCode::from(2);
        }
    };
    let begin = Instant::now();
    let report = campaign.run();
    if report.runs == 0 {
        eprintln!("no seed was run: the range is empty, or none of its seeds is over QUIC");
        return ExitCode::from(2);
    }
    println!("{report}\n  {:.1} s on {} threads", begin.elapsed().as_secs_f64(), campaign.threads);
    if report.failure.is_none() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn campaign(mut args: impl Iterator<Item = String>) -> Result<Campaign, String> {
    let mut campaign = Campaign::new(0..100);
    campaign.threads = std::thread::available_parallelism().map_or(1, usize::from);
    while let Some(option) = args.next() {
        let value = args.next().ok_or(format!("{option} needs a value"))?;
        match option.as_str() {
            "--seeds" => campaign.seeds = seeds(&value)?,
            "--seconds" => campaign.virtual_seconds = number(&value)?,
            "--threads" => campaign.threads = number(&value)? as usize,
            "--plant" => {
                campaign.planted = Planted::by_name(&value)
                    .ok_or(format!("there is no bug {value}; give one of {}", Planted::names()))?;
            }
            "--only" => match value.as_str() {
                "quic" => campaign.only_quic = true,
                _ => return Err(format!("there is no kind of seeds {value}; give quic")),
            },
            _ => return Err(format!("there is no option {option}")),
        }
    }
    Ok(campaign)
}

fn number(text: &str) -> Result<u64, String> {
    text.parse().map_err(|_| format!("{text} is not a number"))
}

fn seeds(text: &str) -> Result<Range<u64>, String> {
    match text.split_once("..") {
        Some((first, end)) => Ok(number(first)?..number(end)?),
        None => Ok(0..number(text)?),
    }
}
