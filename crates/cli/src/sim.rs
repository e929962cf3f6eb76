//! `gridctl sim`: runs a job in virtual time.

use crate::args::SimArgs;
use crate::dry_run;
use crate::error::CliError;
use crate::grid;
use crate::launch::{self, Launch, Processes, RecordPlan};
use crate::program::Program;
use crate::progress::{Progress, SIMULATING};
use crate::run::{check_dump, settings, variables};
use crate::surroundings::Surroundings;
use gridspan::variables::DRIVER;
use gridspan::{Driver, Start};
use std::io;
use std::process::ExitCode;

/// Simulates a job with these flags. The job prints to standard output, and the summary of the
/// simulation and its progress go to standard error, so that standard output is the same for the
/// same seed.
pub(crate) fn run(args: &SimArgs, verbose: u8) -> Result<ExitCode, CliError> {
    let program = Program::resolve(args.program.as_ref())?;
    let grid = grid::of_sim(args)?;
    let mut settings = settings(args.seed, &args.balance)?;
    settings.time_limit = args.time_limit.or(settings.time_limit);
    let mut record = None;
    if !args.dry_run {
        check_dump(&settings)?;
        record = RecordPlan::new(&args.recording, &grid.spec, settings.seed)?;
        settings.record = record.as_ref().map(|record| record.settings(true));
    }
    let mut variables = variables(&grid, &settings, verbose);
    variables.push((DRIVER, "sim".into()));
    // A user's program may turn out to be no job. Only a launcher notices that, because it reads
    // the reports of a job.
    let is_alone = !args.json && args.recording.record.is_none() && program.is_built_in();
    if args.dry_run || !is_alone {
        let processes = Processes::Single { variables };
        let launch = Launch {
            json: args.json,
            is_simulated: true,
            record,
            ..Launch::new(&program, &grid.spec, processes)
        };
        if args.dry_run {
            dry_run::print(&launch, is_alone, args.json, &mut io::stdout().lock())?;
            return Ok(ExitCode::SUCCESS);
        }
        return launch::run(launch).map(|ended| ExitCode::from(ended.code));
    }
    let start = Start::new(Driver::Simulated(grid.spec)).with_settings(settings);
    let progress = Progress::begin_lines(SIMULATING.to_owned());
    let shown = progress.clone();
    let observe = move |virtual_time, events| shown.say_simulated(virtual_time, events);
    let run = |job| gridspan::run_observed(job, &start, observe);
    let code = program.run_or_become(run, &variables, &Surroundings::default());
    progress.end();
    code
}
