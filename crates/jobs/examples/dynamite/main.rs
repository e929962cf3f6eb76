//! Paper 4 again ("Performance Measurements on Dynamite/DPVM", tables 1 and 2): parallel programs beside other
//! programs' load that goes from node to node, in the simulator.
//!
//! `cargo run --release -p gridspan-jobs --example dynamite [-- --lan 100mbit --scenarios 100]`

mod profile;
mod run;
mod task;

use clap::Parser;
use gridspan_topology::Bandwidth;
use profile::{GRAIL, NAS, Profile};
use run::{Episode, Outcome, cycle, run};
use std::process::ExitCode;

#[derive(Parser)]
struct Options {
    /// How fast a task moves from one node to another.
    #[arg(long, default_value = "1gbit")]
    lan: Bandwidth,
    /// The strategies beside `none`.
    #[arg(long, value_delimiter = ',', default_value = "vacate,auto")]
    strategies: Vec<String>,
    /// Only programs whose names contain this.
    #[arg(long, default_value = "")]
    only: String,
}

fn main() -> ExitCode {
    match tables(&Options::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(reason) => {
            eprintln!("{reason}");
            ExitCode::FAILURE
        }
    }
}

fn tables(options: &Options) -> Result<(), String> {
    println!("Slowdown by other programs' load, in %; state moves at {}", options.lan);
    print!("{:18}{:>9}{:>9}{:>9}", "", "paper:", "with", "here:");
    for strategy in &options.strategies {
        print!("{strategy:>10}{:>8}{:>8}{:>11}", "moves", "", "monitoring");
    }
    println!();
    let wanted = |profile: &&Profile| profile.name.contains(&options.only);
    for profile in NAS.iter().chain(&GRAIL).filter(wanted) {
        row(profile, options)?;
    }
    Ok(())
}

fn row(profile: &Profile, options: &Options) -> Result<(), String> {
    let begin = std::time::Instant::now();
    let load = cycle(profile);
    let with = |strategy: &str, load: &[Episode]| run(profile, strategy, load, options.lan);
    let alone = with("none", &[])?;
    let percent = |outcome: &Outcome| {
        (outcome.time.as_secs_f64() / alone.time.as_secs_f64() - 1.0) * 100.0
    };
    let none = with("none", &load)?;
    print!(
        "{:18}{:9.0}{:9.0}{:9.1}",
        profile.name, profile.published_none, profile.published_dynamite, percent(&none)
    );
    for strategy in &options.strategies {
        let balanced = with(strategy, &load)?;
        let monitored = with(strategy, &[])?;
        print!("{:10.2}{:8}{:11.3}", percent(&balanced), balanced.moves, percent(&monitored));
    }
    println!("   ({:.1} s, alone {:.0} s)", begin.elapsed().as_secs_f64(), alone.time.as_secs_f64());
    Ok(())
}
