//! `gridctl`: runs and simulates Gridspan jobs, and shows the grids they run on.

mod args;
mod attach;
mod balance;
mod bcast;
mod bench;
mod channel;
mod checkpoint;
mod detach;
mod dry_run;
mod error;
mod fetch;
mod grid;
mod hosts;
mod invitation;
mod job_folder;
mod jobs;
mod join;
mod launch;
mod logging;
mod names;
mod nodes;
mod output;
mod private;
mod probe;
mod program;
mod quantity;
mod request;
mod rpc;
mod run;
mod sharing;
mod signals;
mod sim;
mod status;
mod style;
mod surroundings;
mod svg;
mod table;
mod topo;

use args::{Cli, Verb};
use clap::Parser;
use std::process::ExitCode;

fn main() -> ExitCode {
    output::end_without_reader();
    let cli = Cli::parse();
    logging::init(cli.verbose);
    let outcome = match cli.verb {
        Verb::Run(args) => run::run(&args, cli.verbose),
        Verb::Join(args) => join::run(&args),
        Verb::Attach(args) => attach::run(&args),
        Verb::Stop(args) => attach::stop(&args),
        Verb::Nodes(args) => nodes::list(&args),
        Verb::Drain(args) => nodes::drain(&args),
        Verb::Add(args) => nodes::add(&args),
        Verb::Sim(args) => sim::run(&args, cli.verbose),
        Verb::Topo(args) => topo::run(&args, cli.verbose),
        Verb::Balance(verb) => balance::run(&verb),
        Verb::Bcast(args) => bcast::run(&args),
        Verb::Rpc(verb) => rpc::run(&verb),
        Verb::Checkpoint(verb) => checkpoint::run(&verb),
        Verb::Bench(verb) => bench::run(&verb, cli.verbose),
        Verb::Jobs => jobs::list(&mut std::io::stdout().lock()),
        Verb::Job(args) => program::run_here(&args.command),
    };
    outcome.unwrap_or_else(|error| {
        error.report();
        error.exit_code()
    })
}
