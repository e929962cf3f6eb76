//! Many ranks on few PEs: memory for each rank that waits, and the time of a barrier.
//!
//! ```text
//! cargo run --release -p gridspan-studies --example many_ranks
//! ```
//!
//! The memory is the growth of the process's resident memory from the start of the job until all
//! ranks have passed a first barrier, divided by their number. Linux only.

use clap::Parser;
use gridspan::embed::Runner;
use gridspan::ranks::{Comm, RankError, run_then};
use std::error::Error;
use std::process::ExitCode;
use std::sync::mpsc;

#[derive(Clone, Copy, Parser)]
#[command(about = "Memory and barriers of many ranks")]
struct Options {
    /// Number of ranks.
    #[arg(long, default_value_t = 100_000)]
    ranks: u32,
    /// Number of PEs, which are threads of this process.
    #[arg(long, default_value_t = 2)]
    pes: u32,
    /// Number of barriers.
    #[arg(long, default_value_t = 10)]
    barriers: u32,
}

fn main() -> ExitCode {
    match run(Options::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn run(options: Options) -> Result<(), Box<dyn Error>> {
    let Options { ranks, pes, barriers } = options;
    let before_kib = resident_kib();
    let (tell, told) = mpsc::channel();
    let job = run_then(
        ranks,
        move |world| measure(world, barriers),
        move |measured| {
            let first = measured.into_iter().flatten().next().ok_or("no rank has measured")?;
            tell.send(first).map_err(|error| error.to_string().into())
        },
    );
    Runner::on_threads(pes).run(job)?;
    let (resident_kib, seconds) = told.recv()?;
    let bytes = resident_kib.saturating_sub(before_kib) as f64 * 1024.0 / f64::from(ranks);
    let barrier_ms = seconds * 1e3 / f64::from(barriers);
    println!("{ranks} ranks on {pes} PEs: {bytes:.0} B a rank, {barrier_ms:.1} ms a barrier");
    Ok(())
}

/// The first rank returns the resident memory after a barrier, and the time of the next ones.
async fn measure(world: Comm, barriers: u32) -> Result<Option<(u64, f64)>, RankError> {
    world.barrier().await?;
    let memory_kib = if world.rank() == 0 { resident_kib() } else { 0 };
    let begin = world.now();
    for _ in 0..barriers {
        world.barrier().await?;
    }
    let seconds = world.now().since(begin).as_secs_f64();
    Ok((world.rank() == 0).then_some((memory_kib, seconds)))
}

/// The resident memory of this process; 0 where it is not known.
fn resident_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    line.and_then(|line| line.split_whitespace().next()?.parse().ok()).unwrap_or(0)
}
