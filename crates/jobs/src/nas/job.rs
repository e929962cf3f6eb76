//! The job: runs one kernel on ranks, and compares its values with the published ones.

use super::class::{KernelResult, ProblemClass};
use super::{cg, ep, ft, is, mg};
use crate::entry::{Entry, parse};
use clap::{Parser, ValueEnum};
use gridspan_ranks::{Comm, RankError, RankFunctions};
use gridspan_runtime::{Grid, Job, JobError};
use serde::{Deserialize, Serialize};

const ABOUT: &str = "Kernels of the NAS Parallel Benchmarks, as ranks that exchange messages";

pub(crate) const ENTRY: Entry =
    Entry { name: "nas", about: ABOUT, build: |arguments| Ok(job(parse("nas", arguments)?)) };

/// A kernel.
#[derive(Clone, Copy, Debug, ValueEnum, Serialize, Deserialize)]
enum Kernel {
    Ep,
    Is,
    Cg,
    Mg,
    Ft,
}

#[derive(Clone, Copy, Debug, Parser)]
#[command(about = ABOUT)]
struct Options {
    /// The kernel.
    #[arg(default_value = "ep")]
    kernel: Kernel,
    /// The size of the problem.
    #[arg(long, default_value = "S")]
    class: ProblemClass,
    /// Number of ranks.
    #[arg(long, default_value_t = 8, value_parser = clap::value_parser!(u32).range(1..=1 << 20))]
    ranks: u32,
}

fn job(options: Options) -> Job {
    let function = move |world: Comm| run(world, options);
    let (job, functions) = RankFunctions::add(Job::new("nas"), function);
    job.restartable_main(async move |grid: Grid| {
        let results = functions.run(&grid, options.ranks).await?;
        conclude(options, grid.layout().pe_count(), results)
    })
}

/// Runs the kernel; rank 0 has the result.
async fn run(world: Comm, options: Options) -> Result<Option<KernelResult>, RankError> {
    let class = options.class;
    let is_first = world.rank() == 0;
    let result = match options.kernel {
        Kernel::Ep => ep::run(world, class).await?,
        Kernel::Is => is::run(world, class).await?,
        Kernel::Cg => cg::run(world, class).await?,
        Kernel::Mg => mg::run(world, class).await?,
        Kernel::Ft => ft::run(world, class).await?,
    };
    Ok(is_first.then_some(result))
}

fn conclude(
    options: Options,
    pes: u32,
    results: Vec<Option<KernelResult>>,
) -> Result<(), JobError> {
    let Options { kernel, class, ranks } = options;
    let Some(result) = results.into_iter().flatten().next() else {
        return Err("no rank has a result".into());
    };
    let name = kernel.to_possible_value().map(|value| value.get_name().to_owned());
    println!(
        "nas {} class {class:?}: {ranks} ranks on {pes} PEs, {:.3} s, {:.2} Mop/s",
        name.unwrap_or_default(),
        result.seconds,
        result.mega_operations / result.seconds
    );
    for check in &result.checks {
        let (name, found, published) = (&check.name, check.found, check.published);
        println!("{name}: {found:.13e}, published {published:.13e}");
    }
    let wrong: Vec<&str> = result
        .checks
        .iter()
        .filter(|check| !check.is_right())
        .map(|check| check.name.as_str())
        .collect();
    match wrong.is_empty() && !result.checks.is_empty() {
        true => {
            println!("verified: yes ({} values)", result.checks.len());
            Ok(())
        }
        false => Err(format!("verified: no ({} differ)", wrong.join(", ")).into()),
    }
}
