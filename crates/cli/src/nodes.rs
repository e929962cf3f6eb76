//! `gridctl nodes` and `drain`: the nodes of a running job, and those that leave it.

use crate::args::{DrainArgs, NodesArgs};
use crate::error::CliError;
use crate::progress::Progress;
use crate::request::{Answer, NodeState, Request, ask, ask_soon};
use crate::roster::Roster;
use crate::status::{self, Status};
use crate::style::Style;
use crate::table::{Align, Table};
use gridspan_topology::{GridSpec, NodeId};
use serde::Serialize;
use std::collections::BTreeSet;
use std::io::{self, Write};
use std::process::ExitCode;

/// A node of a job, as `gridctl nodes` lists it.
#[derive(Serialize)]
struct Listed<'a> {
    node: NodeId,
    name: String,
    host: &'a str,
    pes: u32,
    state: NodeState,
}

/// Lists the nodes of a job.
pub(crate) fn list(args: &NodesArgs) -> Result<ExitCode, CliError> {
    let job = find(args.job.as_deref())?;
    let Answer::Nodes(states) = answered(&job, &Request::Nodes)? else {
        return Err(unexpected());
    };
    let nodes = listed(&job.whole, &states);
    let mut to = io::stdout().lock();
    let printed = match args.json {
        true => serde_json::to_string(&nodes)
            .map_err(io::Error::from)
            .and_then(|text| writeln!(to, "{text}")),
        false => {
            let titles = ["node", "host", "PEs", "state"].map(str::to_owned).to_vec();
            let align = |column| if column == 2 { Align::Right } else { Align::Left };
            let mut table = Table::new(titles, align);
            for it in &nodes {
                let state = it.state.to_string();
                table.row(vec![it.name.clone(), it.host.to_owned(), it.pes.to_string(), state]);
            }
            to.write_all(table.render(Style::of_stdout().is_coloured).as_bytes())
        }
    };
    printed.map_err(CliError::system("print the list"))?;
    Ok(ExitCode::SUCCESS)
}

fn listed<'a>(roster: &'a Roster, states: &[NodeState]) -> Vec<Listed<'a>> {
    let listed = roster.nodes().zip(states).map(|(node, &state)| Listed {
        node,
        name: roster.name(node),
        host: roster.host(node),
        pes: roster.pes(node),
        state,
    });
    listed.collect()
}

/// Lets nodes leave a job.
pub(crate) fn drain(args: &DrainArgs) -> Result<ExitCode, CliError> {
    let job = find(args.job.as_deref())?;
    let nodes = named(&job.whole, &args.nodes)?;
    change(&job, &Request::Drain { nodes, deadline: args.deadline })
}

/// Sends a request to a job, and prints what it has done.
pub(crate) fn change(job: &Status, request: &Request) -> Result<ExitCode, CliError> {
    let progress = Progress::begin(format!("waiting for {}", job.id), None);
    let answer = answered(job, request);
    progress.end();
    match answer? {
        Answer::Done(text) => {
            writeln!(io::stdout(), "{text}").map_err(CliError::system("print the answer"))?;
            Ok(ExitCode::SUCCESS)
        }
        _ => Err(unexpected()),
    }
}

/// Sends a request and returns the answer, or an error if the job refuses.
fn answered(job: &Status, request: &Request) -> Result<Answer, CliError> {
    accepted(job, ask(job, request))
}

/// Like [`answered`], for a request that the launcher answers soon.
pub(crate) fn answered_soon(job: &Status, request: &Request) -> Result<Answer, CliError> {
    accepted(job, ask_soon(job, request))
}

/// Returns the answer to a request, or an error if the job refuses.
pub(crate) fn accepted(
    job: &Status,
    answer: io::Result<Option<Answer>>,
) -> Result<Answer, CliError> {
    let id = job.id.clone();
    match answer {
        Ok(Some(Answer::Refused(reason))) => Err(CliError::Refused { job: id, reason }),
        Ok(Some(answer)) => Ok(answer),
        Ok(None) => Err(CliError::Refused { job: id, reason: "it has ended".to_owned() }),
        Err(error) => Err(CliError::Unreachable { job: id, error }),
    }
}

pub(crate) fn unexpected() -> CliError {
    CliError::System {
        what: "read the answer of the job",
        error: io::ErrorKind::InvalidData.into(),
    }
}

/// Finds the running job of that name, or the latest one.
pub(crate) fn find(id: Option<&str>) -> Result<Status, CliError> {
    let running = status::running().map_err(CliError::system("look for running jobs"))?;
    let found = of_id_or_last(running, id, |status| &status.id);
    found.map_err(|running| CliError::NoJob { id: id.map(str::to_owned), running })
}

/// Returns the job of that name, or the last one if no name is given. If there is none, the error
/// is the names of all jobs.
pub(crate) fn of_id_or_last<J>(
    mut jobs: Vec<J>,
    id: Option<&str>,
    id_of: impl Fn(&J) -> &String,
) -> Result<J, Vec<String>> {
    let position = match id {
        Some(id) => jobs.iter().position(|job| id_of(job) == id),
        None => jobs.len().checked_sub(1),
    };
    match position {
        Some(position) => Ok(jobs.swap_remove(position)),
        None => Err(jobs.iter().map(|job| id_of(job).clone()).collect()),
    }
}

/// The name of a node of a grid, such as `a/0`.
pub(crate) fn name(grid: &GridSpec, node: NodeId) -> String {
    let layout = grid.layout();
    format!("{}/{}", layout.site_name(layout.site_of_node(node)), node.0)
}

/// Finds nodes by their names, by their hosts, or by their sites.
pub(crate) fn named(roster: &Roster, names: &[String]) -> Result<BTreeSet<NodeId>, CliError> {
    roster.named(names).map_err(|name| CliError::UnknownNode {
        what: "node or site",
        name: name.to_owned(),
        nodes: roster.names(),
    })
}
