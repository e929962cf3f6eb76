//! `gridctl bench`: measures the runtime, with the same processes and links as `gridctl run`.

use crate::args::{
    BenchBcastArgs, BenchMessagesArgs, BenchRanksArgs, BenchTasksArgs, BenchVerb, Command,
    PlaceArgs,
};
use crate::error::CliError;
use crate::grid::Place;
use crate::launch::{self, Launch};
use crate::program::Program;
use crate::progress::Progress;
use crate::run::processes;
use gridspan::Settings;
use std::num::NonZeroU32;
use std::process::ExitCode;

/// Numbers of local processes that are measured if no place is given, for each benchmark.
const BCAST_NODES: &[u32] = &[2, 4, 8];
const RANKS_NODES: &[u32] = &[1, 2];
const MESSAGES_NODES: &[u32] = &[2];
const TASKS_NODES: &[u32] = &[1, 2];
/// One process of two PEs, which is measured before several processes.
const ONE_NODE_OF_TWO_PES: &str = "1x1x2";

/// A job that measures, and where it runs.
struct Bench<'a> {
    /// The job and its arguments.
    words: Vec<&'a str>,
    place: &'a PlaceArgs,
    /// Numbers of local processes, if no place is given.
    nodes: &'static [u32],
    /// A grid that is measured before these, if no place is given.
    before: Option<&'static str>,
    json: bool,
}

impl<'a> Bench<'a> {
    fn of_bcast(args: &'a BenchBcastArgs) -> Self {
        let words = vec!["bcast", "--bytes", &args.bytes, "--rounds", &args.rounds];
        Self { words, place: &args.place, nodes: BCAST_NODES, before: None, json: args.json }
    }

    fn of_ranks(args: &'a BenchRanksArgs) -> Self {
        let mut words = vec!["ranks", "--bytes", &args.bytes, "--seconds", &args.seconds];
        if let Some(ranks) = &args.ranks {
            words.extend(["--ranks", ranks]);
        }
        if args.no_collectives {
            words.push("--no-collectives");
        }
        Self { words, place: &args.place, nodes: RANKS_NODES, before: None, json: args.json }
    }

    fn of_messages(args: &'a BenchMessagesArgs) -> Self {
        let mut words = vec!["pingpong", "--pairs", "--bytes", &args.bytes];
        words.extend(["--rounds", &args.rounds, "--seconds", &args.seconds]);
        let before = Some(ONE_NODE_OF_TWO_PES);
        Self { words, place: &args.place, nodes: MESSAGES_NODES, before, json: args.json }
    }

    fn of_tasks(args: &'a BenchTasksArgs) -> Self {
        let words = vec!["fib", "--n", &args.fib, "--rounds", &args.rounds];
        Self { words, place: &args.place, nodes: TASKS_NODES, before: None, json: args.json }
    }

    /// Returns the places at which to measure, one after the other.
    fn places(&self) -> Vec<PlaceArgs> {
        if self.place.is_given() {
            return vec![self.place.clone()];
        }
        let local =
            |nodes: &u32| PlaceArgs { nodes: NonZeroU32::new(*nodes), ..self.place.clone() };
        let emulated =
            |grid: &str| PlaceArgs { emulate: Some(grid.to_owned()), ..self.place.clone() };
        self.before.map(emulated).into_iter().chain(self.nodes.iter().map(local)).collect()
    }
}

/// Runs the benchmark.
pub(crate) fn run(verb: &BenchVerb, verbose: u8) -> Result<ExitCode, CliError> {
    let mut bench = match verb {
        BenchVerb::Bcast(args) => Bench::of_bcast(args),
        BenchVerb::Ranks(args) => Bench::of_ranks(args),
        BenchVerb::Messages(args) => Bench::of_messages(args),
        BenchVerb::Tasks(args) => Bench::of_tasks(args),
    };
    if bench.json {
        bench.words.push("--json");
    }
    let command = Command::Program(bench.words.iter().map(Into::into).collect());
    let program = Program::resolve(Some(&command))?;
    for place in bench.places() {
        let what = format!("measuring over {place}");
        let place = Place::of_run(&place, true)?;
        let settings = Settings::from_environment()?;
        let processes = processes(&place, bench.place.ssh.as_deref(), settings, verbose)?;
        let spec = &place.grid.spec;
        let progress = Progress::begin(what, None);
        let launch = Launch {
            json: bench.json,
            is_listed: true,
            id: launch::listed_job_name(&program),
            progress: Some(progress.clone()),
            ..Launch::new(&program, spec, processes)
        };
        let ended = launch::run(launch);
        progress.end();
        let ended = ended?;
        if ended.code != 0 {
            return Ok(ExitCode::from(ended.code));
        }
    }
    Ok(ExitCode::SUCCESS)
}
