//! Reproduces tables 1 and 2 of Iskra et al. (2000), "Performance Measurements on Dynamite/DPVM",
//! in the simulator: parallel programs while the load of other programs moves from node to node.
//!
//! `cargo run --release -p gridspan-studies --example dynamite [-- --lan 100mbit --scenarios 100]`

mod profile;
mod run;
mod scenario;
mod task;

use clap::Parser;
use gridspan_topology::Bandwidth;
use profile::{GRAIL, NAS, Profile};
use run::{Episode, Outcome, cycle, run};
use scenario::scenario;
use std::process::ExitCode;

#[derive(Parser)]
struct Options {
    /// Bandwidth at which a task moves from one node to another.
    #[arg(long, default_value = "1gbit")]
    lan: Bandwidth,
    /// The strategies, compared with `none`.
    #[arg(long, value_delimiter = ',', default_value = "vacate,auto")]
    strategies: Vec<String>,
    /// Only programs whose names contain this.
    #[arg(long, default_value = "")]
    only: String,
    /// Run this number of random programs under random load instead.
    #[arg(long, default_value_t = 0)]
    scenarios: u64,
    /// Print every scenario, and the outcome of each plan that was carried out in it.
    #[arg(long)]
    explain: bool,
    /// The seed of the first random program.
    #[arg(long, default_value_t = 0)]
    seed: u64,
}

fn main() -> ExitCode {
    let options = Options::parse();
    let done = if options.scenarios > 0 { scenarios(&options) } else { tables(&options) };
    match done {
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

fn scenarios(options: &Options) -> Result<(), String> {
    println!("{} random programs beside random load, against not moving", options.scenarios);
    println!("{:12}{:>9}{:>12}{:>12}{:>10}", "", "losses", "worst, %", "mean, %", "moves");
    for strategy in &options.strategies {
        let (mut losses, mut worst, mut sum, mut moves) = (0, (f64::MIN, 0), 0.0, 0);
        for seed in options.seed..options.seed + options.scenarios {
            let (profile, load) = scenario(seed);
            let none = run(&profile, "none", &load, options.lan)?;
            let balanced = run(&profile, strategy, &load, options.lan)?;
            if options.explain {
                println!("{seed}: {profile:?}\n{load:?}");
                balanced.plans.iter().for_each(|plan| println!("  {plan}"));
                println!("  {:?} without, {:?} with", none.time, balanced.time);
            }
            let loss = (balanced.time.as_secs_f64() / none.time.as_secs_f64() - 1.0) * 100.0;
            losses += u64::from(loss > 0.0);
            worst = if loss > worst.0 { (loss, seed) } else { worst };
            sum += loss;
            moves += balanced.moves;
        }
        let mean = sum / options.scenarios as f64;
        let (worst, seed) = worst;
        println!(
            "{strategy:12}{losses:>9}{worst:>12.2}{mean:>12.1}{moves:>10}   (worst: seed {seed})"
        );
    }
    Ok(())
}

fn row(profile: &Profile, options: &Options) -> Result<(), String> {
    let load = cycle(profile);
    let with = |strategy: &str, load: &[Episode]| run(profile, strategy, load, options.lan);
    let alone = with("none", &[])?;
    let percent =
        |outcome: &Outcome| (outcome.time.as_secs_f64() / alone.time.as_secs_f64() - 1.0) * 100.0;
    let none = with("none", &load)?;
    print!(
        "{:18}{:9.0}{:9.0}{:9.1}",
        profile.name,
        profile.published_none,
        profile.published_dynamite,
        percent(&none)
    );
    for strategy in &options.strategies {
        let balanced = with(strategy, &load)?;
        let monitored = with(strategy, &[])?;
        print!("{:10.2}{:8}{:11.3}", percent(&balanced), balanced.moves, percent(&monitored));
    }
    println!();
    Ok(())
}
