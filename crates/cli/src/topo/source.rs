//! Sources of a topology: a file, a measurement, or a running job.

use super::topology::{Source, Topology};
use crate::args::{PlaceArgs, RttUnitName, TopoArgs};
use crate::error::{CliError, TopoCommandError};
use crate::grid::Place;
use crate::launch::{self, Launch};
use crate::nodes;
use crate::program::Program;
use crate::progress::Progress;
use crate::run::processes;
use gridspan::Settings;
use gridspan::bounded_file::read_text;
use gridspan::variables::load_grid;
use gridspan_topology::{NodeId, RttMatrix, RttUnit};
use std::io::ErrorKind;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

/// Largest size of a matrix file in bytes: 16 for each entry of the largest matrix (8192 nodes).
const MATRIX_BYTES_MAX: u64 = 1 << 30;

/// Time to wait for the measurement of links by a job that has just started.
const LIVE_PATIENCE: Duration = Duration::from_secs(10);
/// Interval between checks whether the job has measured its links.
const LIVE_LOOK: Duration = Duration::from_millis(100);

/// Returns the topology that the flags request.
pub(crate) fn topology(args: &TopoArgs, verbose: u8) -> Result<Topology, CliError> {
    let place = &args.place;
    let starts_nodes = args.probe || place.is_given() && place.grid.is_none();
    if let Some(flag) = place.way_flag().filter(|_| !starts_nodes) {
        return Err(TopoCommandError::NoNodes { flag }.into());
    }
    match (&args.file, &place.grid) {
        (Some(path), _) if args.probe && has_ending(path, &["toml"]) => {
            measured(&PlaceArgs { grid: Some(path.clone()), ..place.clone() }, verbose)
        }
        (Some(path), _) if !args.probe => of_file(path, args.unit),
        (None, Some(path)) if !args.probe => {
            Ok(Topology::described(path.display().to_string(), load_grid(path)?))
        }
        _ if place.is_given() => measured(place, verbose),
        _ if args.probe => Err(TopoCommandError::NoPlace.into()),
        _ => live(args.job.as_deref()),
    }
}

/// Starts nodes, makes them measure, and ends them.
fn measured(args: &PlaceArgs, verbose: u8) -> Result<Topology, CliError> {
    let program = Program::probe();
    let place = Place::of_run(args, true)?;
    let processes = processes(&place, args.ssh.as_deref(), Settings::default(), verbose)?;
    let progress = Progress::begin(format!("measuring {args}"), None);
    let launch = Launch {
        progress: Some(progress.clone()),
        ..Launch::new(&program, &place.grid.spec, processes)
    };
    let ended = launch::run(launch);
    progress.end();
    let ended = ended?;
    match ended.links {
        Some(links) if ended.code == 0 => {
            let source = Source::Measured(args.to_string());
            Ok(Topology::measured(source, place.grid.spec, links, Duration::ZERO))
        }
        _ => Err(TopoCommandError::NotMeasured { code: ended.code }.into()),
    }
}

/// Returns the topology that a running job knows: the job of this name, or the latest.
fn live(id: Option<&str>) -> Result<Topology, CliError> {
    let begin = Instant::now();
    loop {
        let job = nodes::find(id)?;
        let waited = job.age();
        if let Some(links) = job.links {
            return Ok(Topology::measured(Source::Job(job.id), job.grid, links, waited));
        }
        if job.grid.layout().node_count() == 1 {
            return Err(TopoCommandError::NoLinks { id: job.id }.into());
        }
        if begin.elapsed() > LIVE_PATIENCE {
            return Err(TopoCommandError::NotMeasuredYet { id: job.id }.into());
        }
        thread::sleep(LIVE_LOOK);
    }
}

/// Reads a grid file, recognised by its ending. All other files are files of round trips.
fn of_file(path: &Path, unit: RttUnitName) -> Result<Topology, CliError> {
    let name = path.display().to_string();
    if has_ending(path, &["toml"]) {
        return Ok(Topology::described(name, load_grid(path)?));
    }
    let text = read_text(path, MATRIX_BYTES_MAX).map_err(|error| match error.kind() {
        ErrorKind::InvalidData => {
            CliError::Topo(TopoCommandError::BinaryMatrix { path: path.to_owned() })
        }
        _ => CliError::Read { path: path.to_owned(), error },
    })?;
    let unit = match unit {
        RttUnitName::S => RttUnit::Seconds,
        RttUnitName::Ms => RttUnit::Milliseconds,
        RttUnitName::Us => RttUnit::Microseconds,
    };
    let names = column_names(&text);
    // If the first line has names, the values are comma-separated, whatever the ending of the file.
    let is_csv = names.is_some() || has_ending(path, &["csv"]);
    let matrix =
        if is_csv { RttMatrix::from_csv(&text, unit) } else { RttMatrix::from_rows(&text, unit) };
    let matrix =
        matrix.map_err(|error| TopoCommandError::Matrix { path: path.to_owned(), error })?;
    let nodes = || (0..matrix.nodes()).map(NodeId::from);
    if !nodes().any(|from| nodes().any(|to| matrix.rtt(from, to).is_some())) {
        return Err(TopoCommandError::EmptyMatrix { path: path.to_owned() }.into());
    }
    let names = names.or_else(|| {
        let names = if is_csv { None } else { RttMatrix::names_of_rows(&text) };
        names.map(|names| names.iter().map(|name| plain(name)).collect())
    });
    let names = names.filter(|names| names.len() == matrix.nodes());
    Ok(Topology::inferred(name, matrix, names))
}

fn has_ending(path: &Path, endings: &[&str]) -> bool {
    let ending = path.extension().unwrap_or_default();
    endings.iter().any(|known| ending.eq_ignore_ascii_case(known))
}

/// Returns the names of the columns of comma-separated values, if the first line has names.
fn column_names(text: &str) -> Option<Vec<String>> {
    let is_said = |line: &&str| !line.trim().is_empty() && !line.trim_start().starts_with('#');
    let line = text.strip_prefix('\u{feff}').unwrap_or(text).lines().find(is_said)?;
    let field = |field: &str| field.trim().trim_matches('"').trim().to_owned();
    let mut fields = line.split(',').map(field);
    if !line.contains(',') || fields.next()?.parse::<f64>().is_ok() {
        return None;
    }
    Some(fields.map(|name| plain(&name)).collect())
}

/// Replaces control characters, because names come from any source and terminals interpret these
/// characters.
fn plain(name: &str) -> String {
    name.replace(char::is_control, "?")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn column_names_are_read_from_the_first_line_only() {
        let names = |text| column_names(text).map(|names| names.join(" "));
        assert_eq!(names("# about\n,a,\"b\"\na,0,1\nb,1,0\n").as_deref(), Some("a b"));
        assert_eq!(names("site,a,b\na,0,1").as_deref(), Some("a b"));
        assert_eq!(names("0,1\n1,0\n"), None);
        assert_eq!(names("0 1\n1 0\n"), None);
        assert_eq!(names(",a\u{1b}[31m\n").as_deref(), Some("a?[31m"));
        assert_eq!(names(""), None);
    }
}
