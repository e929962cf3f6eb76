//! The job: runs one kernel on ranks.

use super::cg::Cg;
use super::class::ProblemClass;
use super::ep::Ep;
use super::ft::Ft;
use super::is::Is;
use super::kernel::{Kernel, KernelRank, Plan};
use super::mg::Mg;
use crate::entry::{Entry, parse};
use crate::rank_limits::limits;
use clap::{Parser, ValueEnum};
use gridspan_ranks as ranks;
use gridspan_runtime::Job;

const ABOUT: &str = "Kernels of the NAS Parallel Benchmarks, as ranks that exchange messages";

pub(crate) const ENTRY: Entry =
    Entry { name: "nas", about: ABOUT, build: |arguments| Ok(job(parse("nas", arguments)?)) };

/// A kernel.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum KernelName {
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
    kernel: KernelName,
    /// The size of the problem.
    #[arg(long, default_value = "S")]
    class: ProblemClass,
    /// Number of ranks.
    #[arg(long, default_value_t = 8, value_parser = clap::value_parser!(u32).range(1..=1 << 20))]
    ranks: u32,
    /// Iterations between two points at which ranks may move and checkpoints are made; 0 for none.
    #[arg(long, value_name = "N", default_value_t = 0)]
    migrate_every: u32,
    /// Run the kernel this many times, one after the other, and print the total time.
    #[arg(long, value_name = "N", default_value_t = 1,
          value_parser = clap::value_parser!(u32).range(1..))]
    repeat: u32,
}

fn job(options: Options) -> Job {
    match options.kernel {
        KernelName::Ep => job_of::<Ep>(options),
        KernelName::Is => job_of::<Is>(options),
        KernelName::Cg => job_of::<Cg>(options),
        KernelName::Mg => job_of::<Mg>(options),
        KernelName::Ft => job_of::<Ft>(options),
    }
}

fn job_of<K: Kernel>(options: Options) -> Job {
    let Options { class, ranks, migrate_every, repeat, .. } = options;
    let plan = Plan { class, migrate_every, repeat };
    ranks::job::<KernelRank<K>>("nas", ranks, move |_| plan).limits(limits())
}
