//! `gridctl bench`: measures the runtime, with the same processes and links as `gridctl run`.

use crate::args::{BenchBcastArgs, BenchVerb, Command, PlaceArgs};
use crate::error::CliError;
use crate::grid::Place;
use crate::launch::{self, Launch};
use crate::program::Program;
use crate::run::processes;
use gridspan::Settings;
use std::num::NonZeroU32;
use std::process::ExitCode;

/// Numbers of local processes that are measured if no place is given.
const NODES: [u32; 3] = [2, 4, 8];

/// Runs the benchmark.
pub(crate) fn run(verb: &BenchVerb, verbose: u8) -> Result<ExitCode, CliError> {
    let BenchVerb::Bcast(args) = verb;
    let mut words = vec!["bcast", "--bytes", &args.bytes, "--rounds", &args.rounds];
    if args.json {
        words.push("--json");
    }
    let command = Command::Program(words.into_iter().map(Into::into).collect());
    let program = Program::resolve(Some(&command))?;
    for place in places(args) {
        let place = Place::of_run(&place, true)?;
        let settings = Settings::from_environment()?;
        let processes = processes(&place, args.place.ssh.as_deref(), settings, verbose)?;
        let spec = &place.grid.spec;
        let launch =
            Launch { json: args.json, is_listed: true, ..Launch::new(&program, spec, processes) };
        let ended = launch::run(&launch)?;
        if ended.code != 0 {
            return Ok(ExitCode::from(ended.code));
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Returns the places at which to measure, one after the other.
fn places(args: &BenchBcastArgs) -> Vec<PlaceArgs> {
    if args.place.is_given() {
        return vec![args.place.clone()];
    }
    let local = |nodes| PlaceArgs { nodes: NonZeroU32::new(nodes), ..args.place.clone() };
    NODES.map(local).into()
}
