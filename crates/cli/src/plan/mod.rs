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
use crate::error::{CliError, PlanCommandError};
use crate::grid;
use crate::output;
use crate::progress::Progress;
use crate::quantity::count;
use crate::recorded;
use comparison::Comparison;
use gridspan::ranks::is_rank_type;
use gridspan_plan::{ActorPlacement, JobModel, SizedRecording};
use gridspan_record::Recording;
use gridspan_rpc::calls::Registry;
use gridspan_topology::GridSpec;
use std::any::type_name;
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
    let model = model(args, &recordings)?;
    let placement = match args.balance {
        None => ActorPlacement::Created,
        Some(name) => ActorPlacement::Strategy { name: name.to_string(), seed: args.seed },
    };
    let job = recordings.last().map(|recording| recording.header.job.clone());
    let job = job.unwrap_or_default();
    let note = recordings.last().and_then(|last| note_on_sites(last, model.is_of_tasks(), grid));
    let mut comparison = Comparison::new(&job, &model, grid, &placement, args)?;
    comparison.notes.extend(note);
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

/// Describes the sites on which a job must be recorded, if its recording on one site does not show
/// what it does on several: how tasks are stolen over a wide area, which messages the collective
/// operations of ranks send, or which servers execute remote calls.
fn needs_sites(recording: &Recording, grid: &GridSpec) -> Result<Option<String>, CliError> {
    let Some(spec) = like(grid) else { return Ok(None) };
    let needs = match has_type(recording, is_rank_type) || has_type(recording, is_registry_type) {
        // The number of ranks or servers may depend on that of PEs, and the sites of `like` are
        // equal.
        true => has_equal_sites(grid),
        false => JobModel::of(&[recording])?.is_of_tasks(),
    };
    Ok(needs.then_some(spec))
}

/// Whether a recorded job has an actor of such a type.
fn has_type(recording: &Recording, is_such: fn(&str) -> bool) -> bool {
    let mut types = recording.pes.iter().flat_map(|record| &record.types);
    types.any(|name| is_such(name))
}

/// Whether an actor type of this name is the registry of remote calls.
fn is_registry_type(name: &str) -> bool {
    name == type_name::<Registry>()
}

/// Says what a recording on another number of sites does not show.
fn note_on_sites(recording: &Recording, is_of_tasks: bool, grid: &GridSpec) -> Option<String> {
    let recorded = recording.header.sites.len();
    let wanted = grid.layout().site_count() as usize;
    if recorded == wanted {
        return None;
    }
    let [here, there] = [recorded, wanted].map(|sites| count(sites, "site"));
    if has_type(recording, is_rank_type) {
        return Some(format!(
            "the ranks were recorded on {here}, and send other messages on {there}, since \
             collective operations follow the sites; record them on {there}"
        ));
    }
    if has_type(recording, is_registry_type) {
        return Some(format!(
            "the remote calls were recorded on {here}, and go to other servers on {there}; record \
             them on {there}"
        ));
    }
    (is_of_tasks && wanted > recorded && recorded > 1).then(|| {
        format!("the tasks were recorded on {here}; more sites lose more time than is predicted")
    })
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

/// Whether all sites of a grid have the same number of PEs.
fn has_equal_sites(grid: &GridSpec) -> bool {
    let layout = grid.layout();
    let pes = |site| layout.nodes_in(site).map(|node| layout.place(node).pes.len()).sum::<usize>();
    let mut each = layout.sites().map(pes);
    let first = each.next();
    each.all(|pes| Some(pes) == first)
}

/// Describes a grid of equal sites with about the PEs and the longest latency of this one; `None`
/// if this one has a single site.
fn like(grid: &GridSpec) -> Option<String> {
    let layout = grid.layout();
    let all = || layout.sites();
    let pairs = all().flat_map(|from| all().map(move |to| (from, to)));
    let far = pairs.filter(|(from, to)| from != to);
    let latency = far.map(|(from, to)| grid.link_between(from, to).latency.duration()).max()?;
    let sites = layout.site_count();
    let nodes = layout.pe_count().div_ceil(sites);
    Some(format!("{sites}x{nodes},wan={}us", latency.as_micros().max(1)))
}

#[cfg(test)]
mod tests {
    use super::{has_equal_sites, like, note_on_sites};
    use gridspan_record::{Header, PeRecord, Recording};
    use gridspan_rpc::calls::Registry;
    use gridspan_topology::GridSpec;
    use std::any::type_name;

    #[test]
    fn jobs_are_recorded_on_as_many_sites_as_far_apart_as_those_of_the_grid() {
        let grid = GridSpec::from_emulate("3x2,wan=20ms").unwrap();
        let spec = like(&grid).unwrap();
        assert_eq!(spec, "3x2,wan=20000us");
        assert!(GridSpec::from_emulate(&spec).is_ok());
        assert!(has_equal_sites(&grid));
        assert_eq!(like(&GridSpec::single(4)), None);
    }

    #[test]
    fn tasks_of_fewer_sites_are_noted() {
        let grid = GridSpec::from_emulate("4x2,wan=5ms").unwrap();
        let recorded = |sites: &[&str]| {
            let sites = sites.iter().map(|site| (*site).to_owned()).collect();
            Recording { header: Header { sites, ..Header::default() }, ..Recording::default() }
        };
        let note = note_on_sites(&recorded(&["a", "b"]), true, &grid).unwrap();
        assert!(note.contains("recorded on 2 sites"), "{note}");
        assert_eq!(note_on_sites(&recorded(&["a", "b"]), false, &grid), None);
        assert_eq!(note_on_sites(&recorded(&["a", "b", "c", "d"]), true, &grid), None);
    }

    #[test]
    fn remote_calls_of_another_number_of_sites_are_noted() {
        let types = vec![type_name::<Registry>().to_owned()];
        let recorded = |sites: &[&str]| Recording {
            header: Header {
                sites: sites.iter().map(|site| (*site).to_owned()).collect(),
                ..Header::default()
            },
            pes: vec![PeRecord { types: types.clone(), ..PeRecord::default() }],
            ..Recording::default()
        };
        let grid = GridSpec::from_emulate("3x2,wan=5ms").unwrap();
        let note = note_on_sites(&recorded(&["a", "b"]), false, &grid).unwrap();
        assert!(note.contains("record them on 3 sites"), "{note}");
        assert_eq!(note_on_sites(&recorded(&["a", "b", "c"]), false, &grid), None);
    }
}
