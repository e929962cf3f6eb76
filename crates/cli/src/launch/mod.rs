//! Starts the processes of a job and attends to them until they end.
//!
//! | module | purpose |
//! | --- | --- |
//! | `supervisor` | decides which nodes are introduced, asked to end, killed and blamed |
//! | `pacing` | decides when each process is started or restarted |
//! | `plan`, `host_shares` | describe a launch, and the share of each node in the cores of its host |
//! | `beginning` | what the launcher needs, and the first processes |
//! | `starter`, `guests` | start processes; invite the nodes that may join later |
//! | `tasks`, `step` | start nodes as tasks of Slurm, by `srun` |
//! | `enrolment`, `unenrolled`, `admissions`, `task` | accept tasks; decide which; the connection to one |
//! | `child`, `process`, `line_queue` | one process, its pipes, and the lines for it |
//! | `bridge`, `bridge_command`, `bridge_state`, `keeping`, `slots`, `mirror` | the bridge to a kept node |
//! | `work`, `attending`, `agreement` | the loop; what another launcher needs, and the agreement of keepers |
//! | `keepers`, `quorum`, `reaching` | decide, by the keepers of a job, whether it goes on, and with which nodes |
//! | `witness` | the place that decides which of two halves of the nodes goes on |
//! | `takeover`, `own_name` | how another launcher takes over a job whose nodes are kept |
//! | `followed`, `reader` | read the output of a process, from pipes or from files |
//! | `input_flow` | forward the standard input to a node that cannot inherit it |
//! | `lines`, `queue`, `printer`, `node_logs` | pass the output of processes to the user, and into files |
//! | `recovery` | decides how the job goes on after a loss |
//! | `change`, `requests` | nodes that leave and join on request |
//! | `on_threads` | a job of one node on threads of this process, which takes requests, too |
//! | `growth` | nodes that are added to a running job |
//! | `diagnosing` | finds out why the job is slow or does not go on |
//! | `known`, `journal`, `sampling` | the known links of the job, its last events, samples of its counters |
//! | `recording`, `record_plan`, `record_parts`, `host_processors` | write the recording of a job |
//! | `ending_summary` | what happened during the job, for a line at its end |
//! | `report` | reports to the user, and their form for scripts |
//!
//! The loop in `attending` feeds events to the supervisor and carries out its commands. Only this
//! loop waits for the processes that it has started, so that a signal can never reach an unrelated
//! process with the id of one that has ended. A detached job has a folder, from which another
//! launcher can take over the job.

mod admissions;
mod agreement;
mod attending;
mod beginning;
mod bridge;
mod bridge_command;
mod bridge_state;
mod change;
mod child;
mod diagnosing;
mod ending_summary;
mod enrolment;
mod event;
mod followed;
mod growth;
mod guests;
mod host_processors;
mod host_shares;
mod input_flow;
mod journal;
mod keepers;
mod keeping;
mod known;
mod line_queue;
mod lines;
mod mirror;
mod node_logs;
mod on_threads;
mod own_name;
mod pacing;
mod plan;
mod printer;
mod process;
mod queue;
mod quorum;
mod reaching;
mod reader;
mod record_parts;
mod record_plan;
mod recording;
mod recovery;
mod report;
mod requests;
mod sampling;
mod slots;
mod starter;
mod step;
mod supervisor;
mod takeover;
mod task;
mod tasks;
mod unenrolled;
mod witness;
mod work;

use crate::error::CliError;
use crate::signals::exit_code;
use beginning::{
    adopt, announce, open_connections, outlets, print_queued, printer, start, start_threads,
    started, work,
};
use gridspan::links::LinkReport;
use gridspan_topology::NodeId;
pub(crate) use host_shares::host_shares;
pub(crate) use lines::LineSplitter;
pub(crate) use on_threads::run_on_threads;
use pacing::Pacing;
pub(crate) use plan::{
    InputWay, Kept, Launch, Membership, PlannedNode, Processes, listed_job_name, planned_job_name,
};
pub(crate) use record_plan::RecordPlan;
use starter::Starter;
use std::ops::ControlFlow;
use std::sync::mpsc::channel;
use std::time::Instant;
pub(crate) use supervisor::OnLoss;
pub(crate) use takeover::take_over;
pub(crate) use tasks::srun_commands;
pub(crate) use witness::JobWitness;

/// A job that has ended.
pub(crate) struct Ended {
    /// The exit code.
    pub(crate) code: u8,
    /// The last known links of the job.
    pub(crate) links: Option<LinkReport>,
    /// Why another launcher may continue the job, or does; `None` if the job has ended for good.
    pub(crate) abandoned: Option<CliError>,
}

/// Runs the job to its end.
pub(crate) fn run(launch: Launch<'_>) -> Result<Ended, CliError> {
    let (events, incoming) = channel();
    // Signals are watched before the first process starts, so that no end is missed.
    event::forward_signals(events.clone())?;
    let printer = printer(&launch)?;
    let outlets = outlets(&launch, events)?;
    let known = outlets.known.clone();
    let begin = Instant::now();
    let sharing = match open_connections(&launch, &incoming)? {
        ControlFlow::Continue(sharing) => sharing,
        ControlFlow::Break(signal) => {
            return Ok(Ended { code: exit_code(signal), links: None, abandoned: None });
        }
    };
    announce(&launch, &outlets.reports);
    let (mut starter, invited) = Starter::new(launch, outlets.clone(), sharing)?;
    let entries = (0..starter.len()).map(|node| starter.launch().entry(NodeId::from(node)));
    let mut pacing = Pacing::new(entries);
    let saved = starter.launch().saved().cloned();
    let children = match &saved {
        Some(saved) => adopt(&starter, &mut pacing, saved),
        None => start(&mut starter, &mut pacing).inspect(|children| {
            // The first processes may have printed something by now.
            outlets.reports.push_first(started(starter.launch(), children));
        }),
    };
    let children = match children {
        Ok(children) => children,
        Err(error) => {
            print_queued(printer, &outlets, &incoming);
            return Err(error);
        }
    };
    start_threads(printer, &outlets)?;
    let mut work = work(starter, (pacing, children, invited), outlets, (incoming, begin));
    if let Some(saved) = &saved {
        work.take_over(saved);
    }
    let outcome = work.attend();
    let links = known.end();
    let code = work.conclude(outcome);
    Ok(Ended { code, links, abandoned: work.abandoned.take() })
}

#[cfg(test)]
mod tests {
    use super::plan::job_name;
    use crate::program::Program;
    use gridspan_runtime::net::check_job_name;

    #[test]
    fn the_job_name_of_any_program_is_valid_in_certificates() {
        for path in ["./a.out", "/usr/bin/My Program", "./ü", &format!("./{}", "x".repeat(300))] {
            let program = Program::File { path: path.into(), arguments: vec![] };
            assert!(check_job_name(&job_name(&program)).is_ok(), "{path}");
        }
    }
}
