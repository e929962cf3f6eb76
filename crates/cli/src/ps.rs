//! `gridctl ps`: lists the jobs of this user that run, and detached ones that have ended.

use crate::args::PsArgs;
use crate::error::CliError;
use crate::job_folder::{JobFolder, machine};
use crate::job_state::JobState;
use crate::output;
use crate::quantity::ago;
use crate::roster::Roster;
use crate::status::{self, Status, unix_ms_of};
use crate::style::Style;
use crate::table::{Align, Table};
use gridspan_topology::NodeId;
use serde::Serialize;
use std::io;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, SystemTime};

/// A job, for scripts.
#[derive(Serialize)]
struct Listed {
    job: String,
    program: String,
    state: &'static str,
    exit_code: Option<u8>,
    /// In milliseconds of Unix time.
    began_ms: u64,
    ended_ms: Option<u64>,
    nodes: usize,
    pes: usize,
    detached: bool,
    /// The machine of its launcher.
    machine: String,
    /// The folder of a detached job.
    folder: Option<PathBuf>,
    /// The state, for people.
    #[serde(skip)]
    shown: String,
}

/// Lists the jobs.
pub(crate) fn run(args: &PsArgs) -> Result<ExitCode, CliError> {
    let jobs = jobs().map_err(CliError::system("look for jobs"))?;
    let text = match args.json {
        true => serde_json::to_string(&jobs)
            .map(|text| text + "\n")
            .map_err(io::Error::from)
            .map_err(CliError::system("print the list"))?,
        false => text(&jobs),
    };
    output::print(&text, "print the list")
}

/// Returns all jobs, the latest last.
fn jobs() -> io::Result<Vec<Listed>> {
    let running = status::running()?;
    // A user without a home has no detached jobs.
    let folders = JobFolder::all().unwrap_or_default();
    let mut jobs = vec![];
    for folder in &folders {
        let status = running.iter().find(|status| status.id == folder.id);
        match (Listed::of_folder(folder, status), status) {
            (Ok(job), _) => jobs.push(job),
            (Err(_), Some(status)) => jobs.push(Listed::of_status(status)),
            // The folder is from another version of gridctl, or was removed meanwhile.
            (Err(error), None) => tracing::info!(%error, "{} is not listed", folder.id),
        }
    }
    let is_detached = |status: &&Status| folders.iter().any(|folder| folder.id == status.id);
    let attached = running.iter().filter(|status| !is_detached(status));
    jobs.extend(attached.map(Listed::of_status));
    jobs.sort_by(|a, b| (a.began_ms, &a.job).cmp(&(b.began_ms, &b.job)));
    Ok(jobs)
}

impl Listed {
    fn of_status(status: &Status) -> Self {
        let (nodes, pes) = size(&status.grid.clone().into(), None);
        let state = JobState::Running;
        Self {
            job: status.id.clone(),
            program: status.program.clone(),
            state: state.name(),
            exit_code: None,
            began_ms: status.began_ms,
            ended_ms: None,
            nodes,
            pes,
            detached: false,
            machine: machine(),
            folder: None,
            shown: state.to_string(),
        }
    }

    fn of_folder(folder: &JobFolder, status: Option<&Status>) -> io::Result<Self> {
        let state = JobState::of(folder)?;
        let (start, saved) = (folder.start()?, folder.saved()?);
        let members = saved.as_ref().and_then(|saved| saved.runs.last());
        let (nodes, pes) = match status {
            Some(status) => size(&status.grid.clone().into(), None),
            None => size(&folder.roster()?, members.map(|(_, members)| &**members)),
        };
        let shown = match start.machine == machine() {
            true => state.to_string(),
            false => format!("{state} on {}", start.machine),
        };
        Ok(Self {
            job: folder.id.clone(),
            program: start.program,
            state: state.name(),
            exit_code: state.exit_code(),
            began_ms: unix_ms_of(folder.began()?),
            ended_ms: match state {
                JobState::Ended(_) => Some(unix_ms_of(folder.ended()?)),
                _ => None,
            },
            nodes,
            pes,
            detached: true,
            machine: start.machine,
            folder: Some(folder.path().to_owned()),
            shown,
        })
    }
}

/// Numbers of nodes and PEs of these members, or of all nodes.
fn size(roster: &Roster, members: Option<&[NodeId]>) -> (usize, usize) {
    let is_member = |node: &NodeId| members.is_none_or(|members| members.contains(node));
    let pes = roster.nodes().filter(is_member).map(|node| roster.pes(node) as usize);
    pes.fold((0, 0), |(nodes, all), pes| (nodes + 1, all + pes))
}

fn text(jobs: &[Listed]) -> String {
    let titles = ["job", "program", "started", "nodes", "PEs", "state"].map(str::to_owned).to_vec();
    let align = |column| if matches!(column, 3 | 4) { Align::Right } else { Align::Left };
    let mut table = Table::new(titles, align);
    let now = unix_ms_of(SystemTime::now());
    for job in jobs {
        table.row(vec![
            job.job.clone(),
            job.program.clone(),
            ago(Duration::from_millis(now.saturating_sub(job.began_ms))),
            job.nodes.to_string(),
            job.pes.to_string(),
            job.shown.clone(),
        ]);
    }
    table.render(Style::of_stdout().is_coloured)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::roster::NewNode;
    use gridspan_topology::{GridSpec, HostSpec};

    #[test]
    fn the_members_of_a_job_are_counted_with_their_pes() {
        let mut roster = Roster::from(GridSpec::from_emulate("2x2x3").unwrap());
        assert_eq!(size(&roster, None), (4, 12));
        assert_eq!(size(&roster, Some(&[NodeId(0), NodeId(3)])), (2, 6));
        roster.add(&[NewNode { site: "a".to_owned(), host: HostSpec::new("x", 5) }]).unwrap();
        let with_added = [NodeId(0), NodeId(3), NodeId(4)];
        assert_eq!(size(&roster, Some(&with_added)), (3, 11), "a node was added");
    }
}
