//! `gridctl rpc`: maps a workflow to servers, and shows its simulated or real execution; serves
//! functions, and calls them.
//!
//! | module | purpose |
//! | --- | --- |
//! | `inputs` | turns files and flags into a task graph and a platform |
//! | `trial` | one heuristic's mapping, and its execution |
//! | `live` | executes mappings on real servers |
//! | `text` | output for people |
//! | `json` | output for scripts |
//! | `serve` | a daemon: a server or a registry |
//! | `toolbox` | the functions that a server serves |
//! | `call` | lists servers, and calls functions |
//! | `svg` | a picture: when each server computed |

mod call;
mod inputs;
mod json;
mod live;
mod serve;
mod svg;
mod text;
mod toolbox;
mod trial;

use crate::args::{INDIVIDUAL, RpcRunArgs, RpcVerb};
use crate::error::CliError;
use crate::output::show;
use crate::progress::Progress;
use crate::style::Style;
use gridspan_rpc_net::Client;
use gridspan_workflow::heuristics::NAMES;
use inputs::Inputs;
use std::process::ExitCode;
use trial::Trial;

/// Heuristic that tries all mappings, and therefore is not used by default.
const EXHAUSTIVE: &str = "exhaustive";

pub(crate) fn run(verb: &RpcVerb) -> Result<ExitCode, CliError> {
    match verb {
        RpcVerb::Run(args) => map(args),
        RpcVerb::Serve(args) => serve::run(args),
        RpcVerb::Ls(args) => call::list(args),
        RpcVerb::Call(args) => call::call(args),
    }
}

fn map(args: &RpcRunArgs) -> Result<ExitCode, CliError> {
    if let Some(token) = &args.token {
        let on_servers = async |client: &Client| live::run(client, args).await;
        let (inputs, trials) = call::visit(Some(token), on_servers)?;
        return show_trials(args, &inputs, &trials);
    }
    let inputs = Inputs::new(args)?;
    let names: Vec<&str> = match args.heuristic.is_empty() {
        true => {
            NAMES.iter().copied().filter(|name| *name != EXHAUSTIVE).chain([INDIVIDUAL]).collect()
        }
        false => args.heuristic.iter().map(String::as_str).collect(),
    };
    let progress = Progress::begin("mapping".to_owned(), Some(names.len() as u64));
    let trials = names.into_iter().map(|name| Trial::new(&inputs, name, args));
    let trials = trials.inspect(|_| progress.advance()).collect::<Result<Vec<_>, _>>();
    progress.end();
    show_trials(args, &inputs, &trials?)
}

/// Shows the executions.
fn show_trials(args: &RpcRunArgs, inputs: &Inputs, trials: &[Trial]) -> Result<ExitCode, CliError> {
    let by_time = |one: &&Trial, other: &&Trial| {
        one.execution.makespan_s.total_cmp(&other.execution.makespan_s)
    };
    let shortest = trials.iter().min_by(by_time);
    let picture = args.svg.as_ref().zip(shortest);
    let picture = picture.map(|(path, trial)| (path, svg::render(inputs, trial)));
    let text = || match args.json {
        true => json::render(inputs, trials, shortest),
        false => text::render(inputs, trials, shortest, Style::of_stdout()),
    };
    show(picture, text, "print the mappings")
}
