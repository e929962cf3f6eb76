//! `gridctl plan`: what a job would do on a grid, predicted from recordings of it.
//!
//! | module | content |
//! | --- | --- |
//! | `record` | a short simulated run, if there is no recording |
//! | `comparison` | the grid itself and changes of it, predicted one by one |
//! | `text` | output for people |

mod comparison;
mod record;
mod text;

use crate::args::PlanArgs;
use crate::error::CliError;
use crate::grid;
use crate::output;
use crate::progress::Progress;
use crate::recorded;
use comparison::Comparison;
use gridspan_plan::{ActorPlacement, JobModel, SizedRecording};
use gridspan_record::Recording;
use gridspan_topology::GridSpec;
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
    described.map(|described| described.spec).ok_or(CliError::PlanFor)
}

fn compared(args: &PlanArgs, grid: &GridSpec) -> Result<Comparison, CliError> {
    let (recordings, is_own) = recordings(args, grid)?;
    let model = model(args, grid, recordings.as_slice(), is_own)?;
    let placement = match args.balance {
        None => ActorPlacement::Created,
        Some(name) => ActorPlacement::Strategy { name: name.to_string(), seed: args.seed },
    };
    let job = recordings.last().map(|recording| recording.header.job.clone());
    let job = job.unwrap_or_default();
    Comparison::new(&job, &model, grid, &placement, args)
}

/// Returns the recordings that the arguments name, or else a simulated one, and whether it is
/// simulated.
fn recordings(args: &PlanArgs, grid: &GridSpec) -> Result<(Vec<Recording>, bool), CliError> {
    match (&args.program, args.recordings.is_empty()) {
        (Some(_), false) => Err(CliError::PlanOfTwo),
        (None, true) => Err(CliError::PlanOf),
        (None, false) => {
            let read = args.recordings.iter().map(|source| recorded::read(&source.folder));
            Ok((read.collect::<Result<Vec<_>, _>>()?, false))
        }
        (Some(program), true) => {
            let nodes = grid.layout().pe_count();
            let recording = record::simulated(&format!("1x{nodes}"), args.seed, program)?;
            Ok((vec![recording], true))
        }
    }
}

fn model(
    args: &PlanArgs,
    grid: &GridSpec,
    recordings: &[Recording],
    is_own: bool,
) -> Result<JobModel, CliError> {
    if let Some(size) = args.size {
        let sizes: Option<Vec<f64>> = args.recordings.iter().map(|source| source.size).collect();
        let (Some(sizes), [first, second]) = (sizes, recordings) else {
            return Err(CliError::PlanSizes);
        };
        let sized = [
            SizedRecording { recording: first, size: sizes[0] },
            SizedRecording { recording: second, size: sizes[1] },
        ];
        return Ok(JobModel::of_size(sized, size)?);
    }
    let all: Vec<&Recording> = recordings.iter().collect();
    let model = JobModel::of(&all)?;
    if is_own
        && model.is_of_tasks()
        && let Some(program) = &args.program
        && let Some(spec) = two_sites(grid)
    {
        // One site does not show what stealing between sites takes.
        let recording = record::simulated(&spec, args.seed, program)?;
        return Ok(JobModel::of(&[&recording])?);
    }
    Ok(model)
}

/// Describes two sites with about the PEs and the longest latency of a grid, if it has several.
fn two_sites(grid: &GridSpec) -> Option<String> {
    let layout = grid.layout();
    let all = || layout.sites();
    let pairs = all().flat_map(|from| all().map(move |to| (from, to)));
    let far = pairs.filter(|(from, to)| from != to);
    let latency = far.map(|(from, to)| grid.link_between(from, to).latency.duration()).max()?;
    let nodes = layout.pe_count().div_ceil(2);
    Some(format!("2x{nodes},wan={}us", latency.as_micros().max(1)))
}

#[cfg(test)]
mod tests {
    use super::two_sites;
    use gridspan_topology::GridSpec;

    #[test]
    fn tasks_are_recorded_on_two_sites_as_far_apart_as_those_of_the_grid() {
        let grid = GridSpec::from_emulate("3x2,wan=20ms").unwrap();
        let spec = two_sites(&grid).unwrap();
        assert_eq!(spec, "2x3,wan=20000us");
        assert!(GridSpec::from_emulate(&spec).is_ok());
        assert_eq!(two_sites(&GridSpec::single(4)), None);
    }
}
