//! `gridctl plan`: what a job would do on a grid, predicted from recordings of it.
//!
//! | module | content |
//! | --- | --- |
//! | `record` | a short simulated run, if there is no recording |
//! | `recorded_sites` | what a recording shows only of the sites on which it was made |
//! | `comparison` | the grid itself and changes of it, predicted one by one |
//! | `text` | output for people |

mod comparison;
mod record;
mod recorded_sites;
mod text;

use crate::args::PlanArgs;
use crate::error::{CliError, PlanCommandError};
use crate::grid;
use crate::output;
use crate::progress::Progress;
use crate::recorded;
use comparison::Comparison;
use gridspan_plan::{ActorPlacement, JobModel, SizedRecording};
use gridspan_record::Recording;
use gridspan_topology::GridSpec;
use recorded_sites::{check_calls, needs_sites, note_on_sites};
use std::io;
use std::process::ExitCode;

/// Name of the operation in errors.
const PRINT: &str = "print the plan";

/// Predicts a job on a grid, and prints the result.
pub(crate) fn run(args: &PlanArgs) -> Result<ExitCode, CliError> {
    let grid = place(args)?;
    let progress = Progress::begin("predicting".to_owned(), None);
    let comparison = compared(args, &grid);
    progress.end();
    let comparison = comparison?;
    let text = match args.json {
        true => {
            serde_json::to_string(&comparison)
                .map_err(|error| CliError::System { what: PRINT, error: io::Error::from(error) })?
                + "\n"
        }
        false => text::render(&comparison),
    };
    output::print(&text, PRINT)
}

/// Returns the grid to predict for.
fn place(args: &PlanArgs) -> Result<GridSpec, CliError> {
    if let Some(pes) = args.pes {
        return Ok(GridSpec::single(pes.get()));
    }
    let described = grid::described(args.grid.as_deref(), args.emulate.as_deref())?;
    described.map(|described| described.spec).ok_or(CliError::Plan(PlanCommandError::NoGrid))
}

fn compared(args: &PlanArgs, grid: &GridSpec) -> Result<Comparison, CliError> {
    let recordings = recordings(args, grid)?;
    let Some(last) = recordings.last() else { return Err(PlanCommandError::NothingToPlan.into()) };
    let model = model(args, &recordings)?;
    check_calls(last, grid)?;
    let placement = match args.balance {
        None => ActorPlacement::Created,
        Some(name) => ActorPlacement::Strategy { name: name.to_string(), seed: args.seed },
    };
    let mut comparison = Comparison::new(last, &model, grid, &placement, args)?;
    comparison.notes.extend(note_on_sites(last, model.is_of_tasks(), grid));
    Ok(comparison)
}

/// Returns the recordings that the arguments name, or else a simulated one.
fn recordings(args: &PlanArgs, grid: &GridSpec) -> Result<Vec<Recording>, CliError> {
    match (&args.program, args.recordings.is_empty()) {
        (Some(_), false) => Err(PlanCommandError::TwoSources.into()),
        (None, true) => Err(PlanCommandError::NothingToPlan.into()),
        (None, false) => {
            let read = args.recordings.iter().map(|source| recorded::read(&source.folder));
            Ok(read.collect::<Result<Vec<_>, _>>()?)
        }
        (Some(program), true) => {
            let nodes = grid.layout().pe_count();
            let recording = record::simulated(&format!("1x{nodes}"), args.seed, program)?;
            match needs_sites(&recording, grid)? {
                None => Ok(vec![recording]),
                Some(spec) => Ok(vec![record::simulated(&spec, args.seed, program)?]),
            }
        }
    }
}

fn model(args: &PlanArgs, recordings: &[Recording]) -> Result<JobModel, CliError> {
    if let Some(size) = args.size {
        let sizes: Option<Vec<f64>> = args.recordings.iter().map(|source| source.size).collect();
        let (Some(sizes), [first, second]) = (sizes, recordings) else {
            return Err(PlanCommandError::NoSizes.into());
        };
        let sized = [
            SizedRecording { recording: first, size: sizes[0] },
            SizedRecording { recording: second, size: sizes[1] },
        ];
        return Ok(JobModel::of_size(sized, size)?);
    }
    let all: Vec<&Recording> = recordings.iter().collect();
    Ok(JobModel::of(&all)?)
}
