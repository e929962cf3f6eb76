//! `gridctl`: runs and simulates Gridspan jobs, and shows the grids they run on.

mod add;
mod args;
mod attach;
mod balance;
mod batch;
mod bcast;
mod bench;
mod channel;
mod check;
mod checkpoint;
mod compare;
mod completions;
mod detach;
mod digest;
mod doctor;
mod dry_run;
mod error;
mod fetch;
mod grid;
mod host_file;
mod hosts;
mod invitation;
mod job_folder;
mod job_state;
mod join;
mod kill;
mod lab;
mod launch;
mod log_file;
mod logging;
mod logs;
mod manual;
mod metrics;
mod names;
mod node_program;
mod nodes;
mod output;
mod plan;
mod private;
mod probe;
mod program;
mod programs;
mod progress;
mod prune;
mod ps;
mod quantity;
mod rank_variables;
mod recorded;
mod report;
mod request;
mod roster;
mod rpc;
mod run;
mod sharing;
mod signals;
mod sim;
mod slurm;
mod small_thread;
mod standard_input;
mod status;
mod style;
mod surroundings;
mod svg;
mod table;
mod task;
mod text;
mod top;
mod topo;
mod trace;
mod wait;
mod witness;

use args::{Cli, Verb};
use clap::Parser;
use std::process::ExitCode;

fn main() -> ExitCode {
    output::end_without_reader();
    let cli = Cli::parse();
    logging::init(cli.verbose);
    signals::heed_children();
    let outcome = match cli.verb {
        Verb::Run(args) => run::run(&args, cli.verbose),
        Verb::Join(args) => join::run(&args),
        Verb::Attach(args) => attach::run(&args),
        Verb::Stop(args) => attach::stop(&args),
        Verb::Doctor(args) => doctor::run(&args),
        Verb::Top(args) => top::run(&args),
        Verb::Report(args) => report::run(&args),
        Verb::Plan(args) => plan::run(&args),
        Verb::Nodes(args) => nodes::list(&args),
        Verb::Drain(args) => nodes::drain(&args),
        Verb::Add(args) => add::add(&args),
        Verb::Check(args) => check::run(&args),
        Verb::CheckAgent(args) => check::serve(&args),
        Verb::WitnessAgent => witness::serve(),
        Verb::Sim(args) => sim::run(&args, cli.verbose),
        Verb::Trace(args) => trace::run(&args),
        Verb::Compare(args) => compare::run(&args),
        Verb::Topo(args) => topo::run(&args, cli.verbose),
        Verb::Balance(verb) => balance::run(&verb),
        Verb::Bcast(args) => bcast::run(&args),
        Verb::Rpc(verb) => rpc::run(&verb),
        Verb::Checkpoint(verb) => checkpoint::run(&verb),
        Verb::Bench(verb) => bench::run(&verb, cli.verbose),
        Verb::Lab(args) => lab::run(&args, cli.verbose),
        Verb::LabPart(part) => lab::run_part(&part),
        Verb::Ps(args) => ps::run(&args),
        Verb::Kill(args) => kill::run(&args),
        Verb::Wait(args) => wait::run(&args),
        Verb::Logs(args) => logs::run(&args),
        Verb::Prune(args) => prune::run(&args),
        Verb::Programs(args) => programs::list(&args),
        Verb::Completions(args) => completions::run(&args),
        Verb::Man(args) => manual::run(&args),
        Verb::Job(args) => program::run_here(&args.command),
        Verb::Task(args) => task::run(&args),
    };
    outcome.unwrap_or_else(|error| {
        error.report();
        error.exit_code()
    })
}
