//! `gridctl sim`: runs a job in virtual time.

use crate::args::SimArgs;
use crate::error::CliError;
use crate::grid;
use crate::launch::{self, Launch, Processes};
use crate::program::Program;
use crate::run::{settings, variables};
use gridspan::variables::DRIVER;
use gridspan::{Driver, Start};
use std::process::ExitCode;

/// Simulates a job as the flags say. The job prints to standard output; what the simulation
/// amounted to goes to standard error, so that the former is the same for the same seed.
pub(crate) fn run(args: &SimArgs, verbose: u8) -> Result<ExitCode, CliError> {
    let program = Program::resolve(args.program.as_ref())?;
    let grid = grid::of_sim(args)?;
    let settings = settings(args.seed, &args.balance)?;
    let mut variables = variables(&grid, &settings, verbose);
    variables.push((DRIVER, "sim".into()));
    if args.json {
        let processes = Processes::Single { variables };
        let (program, spec) = (&program, &grid.spec);
        let launch = Launch { program, spec, processes, json: true, is_listed: false, guests: 0 };
        return launch::run(&launch).map(|ended| ExitCode::from(ended.code));
    }
    let start = Start { driver: Driver::Simulated(grid.spec), settings, report_lines: false };
    program.run_or_become(&start, &variables)
}
