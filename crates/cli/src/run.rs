//! `gridctl run`: runs a job in real time.

use crate::args::{DriverName, RunArgs};
use crate::error::CliError;
use crate::grid::{Described, Place, all_here, sharing};
use crate::launch::{self, Launch, Processes};
use crate::program::Program;
use crate::{dry_run, logging};
use gridspan::variables::{BALANCE, SEED, cores};
use gridspan::{Driver, Settings, Start};
use std::ffi::OsString;
use std::io;
use std::process::ExitCode;

/// Runs a job as the flags say.
pub(crate) fn run(args: &RunArgs, verbose: u8) -> Result<ExitCode, CliError> {
    let program = Program::resolve(args.program.as_ref())?;
    let Place { driver, grid, is_emulated } = Place::of_run(args, &program)?;
    let spec = &grid.spec;
    let here = match driver {
        DriverName::Cluster if !is_emulated => all_here(spec),
        _ => Ok(()),
    };
    if here.is_ok()
        && let Some(note) = sharing(spec.layout().pe_count(), cores())
    {
        // Only a courtesy.
        let _ = io::Write::write_all(&mut io::stderr(), format!("{note}\n").as_bytes());
    }
    if args.dry_run {
        dry_run::print(spec, args.json, &mut io::stdout().lock())?;
        return Ok(ExitCode::SUCCESS);
    }
    here?;
    let settings = settings(args.seed, args.balance.as_ref())?;
    let processes = match driver {
        DriverName::Cluster => {
            Processes::Nodes { is_emulated, settings, variables: log_variable(verbose) }
        }
        DriverName::Embedded => {
            let variables = variables(&grid, &settings, verbose);
            if !args.json {
                let driver = Driver::Embedded(grid.spec);
                let start = Start { driver, settings, report_lines: false };
                return program.run_or_become(&start, &variables);
            }
            Processes::Single { variables }
        }
    };
    launch::run(&Launch { program: &program, spec, processes, json: args.json })
}

/// The settings that flags ask for, or else the environment.
pub(crate) fn settings(seed: Option<u64>, balance: Option<&String>) -> Result<Settings, CliError> {
    let environment = Settings::from_environment()?;
    Ok(Settings {
        seed: seed.or(environment.seed),
        strategy: balance.cloned().or(environment.strategy),
    })
}

/// The variables that tell a program of the user's own the same as a [`Start`].
pub(crate) fn variables(
    grid: &Described,
    settings: &Settings,
    verbose: u8,
) -> Vec<(&'static str, OsString)> {
    let mut variables = log_variable(verbose);
    variables.push(grid.variable.clone());
    variables.extend(settings.seed.map(|seed| (SEED, seed.to_string().into())));
    variables.extend(settings.strategy.iter().map(|name| (BALANCE, name.into())));
    variables
}

/// What `-v` means for another process.
fn log_variable(verbose: u8) -> Vec<(&'static str, OsString)> {
    let directives = logging::directives(verbose);
    directives.map(|directives| (logging::VARIABLE, directives.into())).into_iter().collect()
}
