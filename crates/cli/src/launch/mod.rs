//! Starts the processes of a job and attends to them until they end.
//!
//! | module | purpose |
//! | --- | --- |
//! | `supervisor` | decides which nodes are introduced, asked to end, killed and blamed |
//! | `pacing` | decides when each process is started or restarted |
//! | `plan`, `host_shares` | describe a launch, and the share of each node in the cores of its host |
//! | `starter`, `guests` | start processes; invite the nodes that may join later |
//! | `tasks`, `step` | start nodes as tasks of Slurm, by `srun` |
//! | `enrolment`, `unenrolled`, `admissions`, `task` | accept tasks; decide which; the connection to one |
//! | `child`, `process`, `line_queue` | one process, its pipes, and the lines for it |
//! | `bridge`, `bridge_command`, `bridge_state`, `keeping`, `slots`, `mirror` | the bridge to a kept node |
//! | `work`, `attending`, `agreement` | the loop; what another launcher needs, and the agreement of keepers |
//! | `keepers`, `quorum`, `reaching` | decide, by the keepers of a job, whether it goes on, and with which nodes |
//! | `witness` | the place that decides between two halves of them |
//! | `takeover`, `own_name` | how another launcher takes over a job whose nodes are kept |
//! | `followed`, `reader` | read its output, from pipes or from files |
//! | `input_flow` | forward the standard input to a node that cannot inherit it |
//! | `lines`, `queue`, `printer`, `node_logs` | pass the output of processes to the user, and into files |
//! | `recovery` | decides how the job goes on after a loss |
//! | `change`, `requests` | nodes that leave and join on request |
//! | `growth` | nodes that are added to a running job |
//! | `diagnosing` | finds out why the job is slow or does not go on |
//! | `known`, `journal`, `sampling` | the known links of the job, its last events, samples of its counters |
//! | `recording`, `record_plan`, `record_parts` | write the recording of a job |
//! | `ending_summary` | what happened during the job, for a line at its end |
//! | `report` | reports to the user, and their form for scripts |
//!
//! The loop in `attending` feeds events to the supervisor and carries out its commands. Only this
//! loop waits for the processes that it has started, so that a signal can never reach an unrelated
//! process with the id of one that has ended. A detached job has a folder, from which another
//! launcher goes on.

mod admissions;
mod agreement;
mod attending;
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
use crate::job_folder::Saved;
use crate::log_file::LogLimit;
use crate::sharing::Sharing;
use crate::status::StatusFile;
use child::Child;
use ending_summary::EndingSummary;
use event::{Event, code_of};
use gridspan::links::LinkReport;
use gridspan_topology::{NodeId, Time};
pub(crate) use host_shares::host_shares;
use input_flow::InputFlow;
use journal::Journal;
use keepers::Keepers;
use known::Known;
pub(crate) use lines::LineSplitter;
use node_logs::NodeLogs;
use pacing::Pacing;
pub(crate) use plan::{InputWay, Kept, Launch, Membership, PlannedNode, Processes, job_name};
use printer::{Prefixes, Printer, Style};
use queue::Queue;
use quorum::WitnessPlace;
use reader::Outlets;
pub(crate) use record_plan::RecordPlan;
use recording::Recording;
use recovery::Runs;
use report::{Report, StartedNode};
use requests::Requests;
use starter::Starter;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};
pub(crate) use supervisor::OnLoss;
use supervisor::Supervisor;
pub(crate) use takeover::take_over;
pub(crate) use tasks::srun_commands;
pub(crate) use witness::JobWitness;
use work::{Work, processes};

/// Interval between checks whether connections are open.
const LOOK: Duration = Duration::from_millis(5);

/// Time for tasks of Slurm to start after the first task of their step: sites run scripts before
/// tasks, which take longer on some hosts.
const TASK_PATIENCE: Duration = Duration::from_secs(120);

/// Time to read the output of a process from its file after its end. The output ends with the file,
/// so that this only bounds how slowly the launcher may read.
const FILE_PATIENCE: Duration = Duration::from_secs(3600);
/// Time for the nodes of a recorded job to send their records, which may be a gigabyte over a slow
/// link. Nodes that hang delay the end of a failed job by this time.
const RECORD_PATIENCE: Duration = Duration::from_secs(30);

/// A job that has ended.
pub(crate) struct Ended {
    /// The exit code.
    pub(crate) code: u8,
    /// The last known links of the job.
    pub(crate) links: Option<LinkReport>,
    /// Set if the job has ended for this launcher only: why another launcher may continue it, or
    /// does.
    pub(crate) abandoned: Option<CliError>,
}

/// Runs the job to its end.
pub(crate) fn run(launch: Launch<'_>) -> Result<Ended, CliError> {
    let (events, incoming) = channel();
    // Signals are watched before the first process starts, so that no end is missed.
    event::forward_signals(events.clone())?;
    let reports = Arc::new(Queue::new());
    let printer = printer(&launch)?;
    let status = status_file(&launch);
    let known = Arc::new(Known::new(launch.roster.grid().clone(), launch.is_listed, status));
    let journal = Arc::new(Journal::new());
    let recording = Recording::begin(&launch)?.map(Arc::new);
    let input = (launch.input == InputWay::Forwarded).then(Arc::<InputFlow>::default);
    let outlets = Outlets {
        events: events.clone(),
        reports: reports.clone(),
        known: known.clone(),
        journal: journal.clone(),
        recording: recording.clone(),
        input: input.clone(),
    };
    let begin = Instant::now();
    let sharing = match open_connections(&launch, &incoming)? {
        Ok(sharing) => sharing,
        Err(signal) => {
            return Ok(Ended { code: code_of(signal), links: None, abandoned: None });
        }
    };
    if let Some(text) = note(&launch) {
        reports.push(Report::Warning { text });
    }
    if let Some(address) = launch.metrics.clone() {
        reports.push(Report::Metrics { address });
    }
    let (mut starter, invited) = Starter::new(launch, outlets, sharing)?;
    let entries = (0..starter.len()).map(|node| starter.launch().entry(NodeId::from(node)));
    let mut pacing = Pacing::new(entries);
    let saved = starter.launch().saved().cloned();
    let children = match &saved {
        Some(saved) => adopt(&starter, &mut pacing, saved)?,
        None => {
            let children = start(&mut starter, &mut pacing)?;
            // The first processes may have printed something by now.
            reports.push_first(started(starter.launch(), &children));
            children
        }
    };
    start_printer(printer, reports.clone(), events.clone())?;
    if let Some(input) = input {
        let forward = move || input.forward(io::stdin().lock());
        start_thread("standard-input", forward)?;
    }
    let launch = starter.launch();
    let supervisor = supervisor(launch, children.len());
    let requests = requests(launch, events.clone());
    let keepers = keepers(launch);
    let folder = launch.detached.as_ref().map(|(folder, _)| folder.clone());
    let witness = launch.kept.as_ref().and_then(|kept| kept.witness.clone());
    let launcher = launch.kept.as_ref().map(|kept| kept.launcher.clone()).unwrap_or_default();
    let has_quorum = launch.kept.as_ref().is_none_or(|kept| kept.has_quorum);
    let mut work = Work {
        id: launch.id.clone(),
        starter,
        pacing,
        children,
        invited,
        supervisor,
        reports,
        journal,
        recording,
        incoming,
        begin,
        is_printed: false,
        answers: events,
        requests,
        folder,
        last_saved: None,
        is_unsaved: false,
        keepers,
        witness,
        launcher,
        has_quorum,
        sent: None,
        abandoned: None,
        is_introducing: false,
        waiting: Vec::new(),
    };
    if let Some(saved) = &saved {
        work.take_over(saved);
    }
    let outcome = work.attend();
    let links = known.end();
    let code = work.conclude(outcome);
    Ok(Ended { code, links, abandoned: work.abandoned.take() })
}

/// What prints the reports of a job.
fn printer(launch: &Launch<'_>) -> Result<Printer, CliError> {
    let style = match (launch.json, &launch.processes) {
        (true, _) => Style::Json,
        (false, Processes::Nodes { .. }) => Style::Text(Prefixes::new(&launch.roster)),
        (false, Processes::Single { .. }) => Style::Text(Prefixes::none()),
    };
    let create = |folder: &PathBuf| {
        let logs = NodeLogs::create(folder, launch.roster.names());
        logs.map_err(|error| CliError::Write { path: folder.clone(), error })
    };
    let logs = launch.logs.as_ref().map(create).transpose()?;
    let has_nodes = matches!(launch.processes, Processes::Nodes { .. });
    let ending = (has_nodes && !launch.json).then(EndingSummary::default);
    let (shown, progress) = (launch.shown.clone(), launch.progress.clone());
    Ok(Printer { style, log: log_limit(launch)?, logs, shown, ending, progress })
}

/// Starts the thread that prints reports.
fn start_printer(
    printer: Printer,
    reports: Arc<Queue<Report>>,
    events: Sender<Event>,
) -> Result<(), CliError> {
    start_thread("printer", move || printer.run(&reports, &events))
}

/// Starts a thread that ends with this process at the latest.
fn start_thread(name: &str, run: impl FnOnce() + Send + 'static) -> Result<(), CliError> {
    let spawned = thread::Builder::new().name(name.to_owned()).spawn(run);
    spawned.map(drop).map_err(CliError::system("start a thread"))
}

/// The supervisor of a job with this number of processes.
fn supervisor(launch: &Launch<'_>, processes: usize) -> Supervisor {
    let must_meet = matches!(launch.processes, Processes::Nodes { .. });
    let mut names = launch.roster.names();
    names.truncate(processes);
    let mut supervisor = Supervisor::new(names, must_meet, Time(0));
    if launch.is_simulated {
        supervisor.await_simulation();
    }
    if launch.record.is_some() {
        supervisor.set_end_patience(RECORD_PATIENCE);
    }
    let Processes::Nodes { settings, tasks, .. } = &launch.processes else {
        return supervisor;
    };
    let runs = match launch.saved() {
        Some(saved) => Runs::resume(launch.roster.clone(), saved),
        None => Runs::new(launch.roster.clone(), &launch.membership.spares),
    };
    supervisor.set_recovery(runs, launch.membership.on_loss);
    let has_folder = settings.checkpoint_folder.is_some();
    let deadline = launch.membership.drain_deadline;
    // Guests lose their nodes when a run ends.
    let tolerates_lost_guests = settings.tolerates_lost_guests.unwrap_or(false);
    let is_fixed = launch.guests > 0 && !tolerates_lost_guests;
    supervisor.set_draining(deadline, has_folder, is_fixed);
    supervisor.set_crowding(launch.processes.nodes_per_core(launch.roster.nodes()));
    if launch.detached.is_some() {
        supervisor.set_drain_patience(FILE_PATIENCE);
    }
    if tasks.is_some() {
        supervisor.set_start_patience(TASK_PATIENCE);
    }
    for node in launch.roster.nodes() {
        if let Some(way) = launch.way(node) {
            supervisor.set_way(node, way);
        }
    }
    supervisor
}

/// The socket for requests of other processes; `None` if it cannot be opened.
fn requests(launch: &Launch<'_>, events: Sender<Event>) -> Option<Requests> {
    if !launch.is_listed || !matches!(launch.processes, Processes::Nodes { .. }) {
        return None;
    }
    let folder = launch.status_folder();
    let listening = folder.and_then(|folder| Requests::listen(&folder, &launch.id, events));
    listening.inspect_err(|error| tracing::warn!(%error, "this job takes no requests")).ok()
}

/// The keepers of the nodes of a job that has them.
fn keepers(launch: &Launch<'_>) -> Option<Keepers> {
    let kept = launch.kept.as_ref()?;
    let agreed = launch.saved().map_or(0, |saved| saved.agreed);
    Some(Keepers::new(agreed, kept.ended.clone(), kept.witness.is_some()))
}

/// The note about sites whose loss a job with kept nodes does not survive.
fn note(launch: &Launch<'_>) -> Option<String> {
    let is_first = launch.kept.is_some() && launch.saved().is_none();
    let members: Vec<NodeId> = launch.members().collect();
    let goes_on = is_first && launch.membership.on_loss != OnLoss::Fail;
    let witness = launch.kept.as_ref().and_then(Kept::witness);
    let place = match witness.map(JobWitness::host) {
        None => WitnessPlace::None,
        Some(None) => WitnessPlace::Elsewhere,
        Some(Some(host)) => WitnessPlace::of_host(launch.spec, host),
    };
    goes_on.then(|| quorum::note(launch.spec, &members, place)).flatten()
}

/// Starts the first processes of a job.
fn start(starter: &mut Starter<'_>, pacing: &mut Pacing) -> Result<Vec<Option<Child>>, CliError> {
    for &spare in &starter.launch().membership.spares {
        pacing.cancel(spare);
    }
    let mut children: Vec<_> = (0..starter.len()).map(|_| None).collect();
    while let Some(node) = pacing.poll(Time(0)) {
        // If a process cannot be started, the earlier ones are killed when they are dropped.
        children[node.index()] = Some(starter.start(node)?);
    }
    let launch = starter.launch();
    if let Some((folder, _)) = &launch.detached {
        // A process without a bundle ends with this launcher; others must be known to the next one.
        let saved = Saved::starting(launch.members().collect(), processes(&children));
        folder.save(&saved).map_err(CliError::system("save the state of the job"))?;
    }
    starter.launch_tasks()?;
    for (node, child) in children.iter().enumerate() {
        if let Some(child) = child {
            starter.pass_bundle(NodeId::from(node), child)?;
        }
    }
    Ok(children)
}

/// Reports which nodes a job starts.
fn started(launch: &Launch<'_>, children: &[Option<Child>]) -> Report {
    let started = |node: NodeId| {
        // A single process runs all nodes.
        let child = children.get(node.index()).unwrap_or(&children[0]);
        StartedNode::new(launch.spec, node, child.as_ref().and_then(Child::pid))
    };
    let nodes = launch.members().map(started).collect();
    Report::Started { job: launch.program.name(), nodes }
}

/// Adopts the processes of a job whose launcher has ended. Kills those of nodes that are no members
/// any more. If that fails, the processes go on.
fn adopt(
    starter: &Starter<'_>,
    pacing: &mut Pacing,
    saved: &Saved,
) -> Result<Vec<Option<Child>>, CliError> {
    let adopted = (0..starter.len()).map(|node| {
        let node = NodeId::from(node);
        pacing.cancel(node);
        let Some(mut child) = starter.adopt(node, saved)? else { return Ok(None) };
        if saved.left.contains(&node) {
            return Ok(Some(child));
        }
        if let Some(bridge) = child.bridge() {
            // Its keeper may have to agree to the next run.
            bridge.kill_later();
            return Ok(Some(child));
        }
        child.kill();
        Ok(None)
    });
    adopted.collect()
}

/// Opens the connections that nodes on other hosts share, before the first process of the job
/// starts. If the user interrupts this, returns the signal instead.
fn open_connections(
    launch: &Launch<'_>,
    incoming: &Receiver<Event>,
) -> Result<Result<Sharing, i32>, CliError> {
    let hosts = match &launch.processes {
        // The shared connections end with this process.
        _ if launch.detached.is_some() => return Ok(Ok(Sharing::default())),
        Processes::Nodes { hosts, .. } if hosts.elsewhere().next().is_some() => hosts,
        _ => return Ok(Ok(Sharing::default())),
    };
    let is_stopped = AtomicBool::new(false);
    thread::scope(|scope| {
        let opening = thread::Builder::new()
            .name("connections".to_owned())
            .spawn_scoped(scope, || Sharing::open(hosts, &is_stopped))
            .map_err(CliError::system("start a thread"))?;
        let mut interrupted = None;
        while !opening.is_finished() {
            // Other events have no effect before the job has started.
            if let Ok(Event::Interrupted { signal }) = incoming.recv_timeout(LOOK) {
                interrupted = Some(signal);
                is_stopped.store(true, Ordering::Relaxed);
            }
        }
        let sharing = opening.join().unwrap_or_default();
        Ok(interrupted.map_or(Ok(sharing), Err))
    })
}

/// Limits the file to which the launcher of a detached job prints.
fn log_limit(launch: &Launch<'_>) -> Result<Option<LogLimit>, CliError> {
    let Some((folder, _)) = &launch.detached else { return Ok(None) };
    let limit = LogLimit::new(&folder.output(), launch.log_limit);
    limit.map(Some).map_err(CliError::system("limit the output of the job"))
}

/// Creates the file that describes the job to other commands. A job can run without it.
fn status_file(launch: &Launch<'_>) -> Option<StatusFile> {
    if !launch.is_listed {
        return None;
    }
    let created = launch.status_folder().and_then(|folder| {
        let (id, program) = (launch.id.clone(), launch.program.name());
        let (whole, reach) = (launch.roster.clone(), launch.processes.reach());
        StatusFile::create_in(&folder, id, program, whole, reach)
    });
    created.inspect_err(|error| tracing::info!(%error, "this job is not listed")).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
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
