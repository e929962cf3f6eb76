//! The beginning of a job: what its launcher needs to attend to it, and its first processes.

use super::child::Child;
use super::ending_summary::EndingSummary;
use super::event::Event;
use super::guests::Invited;
use super::input_flow::InputFlow;
use super::journal::Journal;
use super::keepers::Keepers;
use super::known::Known;
use super::node_logs::NodeLogs;
use super::pacing::Pacing;
use super::plan::{InputWay, Kept, Launch, Processes};
use super::printer::{Prefixes, Printer, Style, await_printed};
use super::queue::Queue;
use super::quorum::{self, WitnessPlace};
use super::reader::Outlets;
use super::recording::Recording;
use super::recovery::Runs;
use super::report::{Report, StartedNode};
use super::requests::Requests;
use super::starter::Starter;
use super::supervisor::{OnLoss, Supervisor};
use super::witness::JobWitness;
use super::work::{Work, processes};
use crate::error::CliError;
use crate::job_folder::Saved;
use crate::log_file::LogLimit;
use crate::sharing::Sharing;
use crate::signals;
use crate::status::StatusFile;
use gridspan_topology::{NodeId, Time};
use std::io;
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender};
use std::thread;
use std::time::{Duration, Instant};

/// Interval between checks whether connections are open.
const LOOK: Duration = Duration::from_millis(5);

/// Time for tasks of Slurm to start after the first task of their step: sites run scripts before
/// tasks, which take longer on some hosts.
const TASK_PATIENCE: Duration = Duration::from_secs(120);

/// Time to read the output of a process from its file after the process has ended. The launcher
/// reads only what the file then has, so that this only bounds how slowly it may read.
const FILE_PATIENCE: Duration = Duration::from_secs(3600);
/// Time for the nodes of a recorded job to send their records, which may be a gigabyte over a slow
/// link. Nodes that hang delay the end of a failed job by this time.
const RECORD_PATIENCE: Duration = Duration::from_secs(30);

/// Creates the destinations of the output and the events of a job's processes.
pub(super) fn outlets(launch: &Launch<'_>, events: Sender<Event>) -> Result<Outlets, CliError> {
    let status = status_file(launch);
    Ok(Outlets {
        events,
        reports: Arc::new(Queue::new()),
        known: Arc::new(Known::new(launch.roster.grid().clone(), launch.is_listed, status)),
        journal: Arc::new(Journal::new()),
        recording: Recording::begin(launch)?.map(Arc::new),
        input: match launch.input {
            InputWay::Nowhere | InputWay::Inherited(_) => None,
            InputWay::Forwarded(node) => Some(Arc::new(InputFlow::to_node(node))),
            InputWay::ForwardedToAll => Some(Arc::new(InputFlow::to_all(launch.members()))),
        },
    })
}

/// Reports a note about the job, and the address of its metrics, before it starts.
pub(super) fn announce(launch: &Launch<'_>, reports: &Queue<Report>) {
    if let Some(text) = note(launch) {
        reports.push(Report::Warning { text });
    }
    if let Some(address) = launch.metrics.clone() {
        reports.push(Report::Metrics { address });
    }
}

/// The launcher of a job whose first processes, if it has any, were started or adopted.
pub(super) fn work<'a>(
    starter: Starter<'a>,
    (pacing, children, invited): (Pacing, Vec<Option<Child>>, Invited),
    outlets: Outlets,
    (incoming, begin): (Receiver<Event>, Instant),
) -> Work<'a> {
    let launch = starter.launch();
    let kept = launch.kept.as_ref();
    Work {
        id: launch.id.clone(),
        supervisor: supervisor(launch, children.len()),
        requests: requests(launch, outlets.events.clone()),
        folder: launch.detached.as_ref().map(|(folder, _)| folder.clone()),
        keepers: keepers(launch),
        witness: kept.and_then(|kept| kept.witness.clone()),
        launcher: kept.map(|kept| kept.launcher.clone()).unwrap_or_default(),
        has_quorum: kept.is_none_or(|kept| kept.has_quorum),
        starter,
        pacing,
        children,
        invited,
        reports: outlets.reports,
        journal: outlets.journal,
        recording: outlets.recording,
        incoming,
        begin,
        is_printed: false,
        answers: outlets.events,
        last_saved: None,
        is_unsaved: false,
        sent: None,
        abandoned: None,
        is_introducing: false,
        waiting: Vec::new(),
    }
}

/// Returns the printer of the job's reports.
pub(super) fn printer(launch: &Launch<'_>) -> Result<Printer, CliError> {
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

/// Starts the threads that print reports and that forward the standard input.
pub(super) fn start_threads(printer: Printer, outlets: &Outlets) -> Result<(), CliError> {
    let (reports, events) = (outlets.reports.clone(), outlets.events.clone());
    start_thread("printer", move || printer.run(&reports, &events))?;
    match outlets.input.clone() {
        Some(input) => start_thread("standard-input", move || input.forward(io::stdin().lock())),
        None => Ok(()),
    }
}

/// Prints what is queued for a job that cannot start, such as lines of the processes that were
/// started before the error.
pub(super) fn print_queued(printer: Printer, outlets: &Outlets, incoming: &Receiver<Event>) {
    let (reports, events) = (outlets.reports.clone(), outlets.events.clone());
    reports.close();
    match start_thread("printer", move || printer.run(&reports, &events)) {
        Ok(()) => await_printed(incoming, Duration::MAX),
        Err(error) => tracing::warn!(%error, "what the job has printed is lost"),
    }
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
        supervisor.set_nodes_of_process(launch.spec.layout().node_count());
        return supervisor;
    };
    let runs = match launch.saved() {
        Some(saved) => Runs::resume(launch.roster.clone(), saved),
        None => Runs::new(launch.roster.clone(), &launch.membership.spares),
    };
    supervisor.set_recovery(runs, launch.membership.on_loss);
    let has_folder = settings.checkpoint_folder.is_some();
    let deadline = launch.membership.drain_deadline;
    // A change of the members ends the run, and the guests of that run with it.
    let tolerates_lost_guests = settings.tolerates_lost_guests.unwrap_or(false);
    let is_fixed = launch.guests > 0 && !tolerates_lost_guests;
    supervisor.set_draining(deadline, has_folder, is_fixed);
    supervisor.set_crowding(launch.processes.nodes_per_core(launch.roster.nodes()));
    if launch.detached.is_some() {
        supervisor.set_drain_patience(FILE_PATIENCE);
    }
    if launch.kept.is_some() {
        supervisor.set_kept();
    }
    if tasks.is_some() {
        supervisor.set_start_patience(TASK_PATIENCE);
    }
    if let Some(limit) = launch.connect_timeout {
        supervisor.limit_start(limit, Time(0));
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
    if !launch.is_listed {
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
pub(super) fn start(
    starter: &mut Starter<'_>,
    pacing: &mut Pacing,
) -> Result<Vec<Option<Child>>, CliError> {
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
pub(super) fn started(launch: &Launch<'_>, children: &[Option<Child>]) -> Report {
    let started = |node: NodeId| {
        // A single process runs all nodes.
        let child = children.get(node.index()).unwrap_or(&children[0]);
        StartedNode::new(launch.spec, node, child.as_ref().and_then(Child::pid))
    };
    let nodes = launch.members().map(started).collect();
    Report::Started { job: launch.program.name(), nodes }
}

/// Adopts the processes of a job whose launcher has ended. Kills those of nodes that are no longer
/// members. If this launcher cannot adopt a process, the adopted ones go on.
pub(super) fn adopt(
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
/// starts. If the user interrupts this, breaks with the signal.
pub(super) fn open_connections(
    launch: &Launch<'_>,
    incoming: &Receiver<Event>,
) -> Result<ControlFlow<i32, Sharing>, CliError> {
    let hosts = match &launch.processes {
        // The shared connections end with this process.
        _ if launch.detached.is_some() => return Ok(ControlFlow::Continue(Sharing::default())),
        Processes::Nodes { hosts, .. } if hosts.elsewhere().next().is_some() => hosts,
        _ => return Ok(ControlFlow::Continue(Sharing::default())),
    };
    let is_stopped = AtomicBool::new(false);
    thread::scope(|scope| {
        let opening = thread::Builder::new()
            .name("connections".to_owned())
            .spawn_scoped(scope, || Sharing::open(hosts, &is_stopped))
            .map_err(CliError::system("start a thread"))?;
        let mut interrupted = None;
        while !opening.is_finished() {
            match incoming.recv_timeout(LOOK) {
                Ok(Event::Interrupted { signal }) => {
                    interrupted = Some(signal);
                    is_stopped.store(true, Ordering::Relaxed);
                }
                // The connections are opened in separate process groups, so these go on.
                Ok(Event::StopWanted) => signals::stop(),
                // Other events have no effect before the job has started.
                Ok(_) | Err(_) => {}
            }
        }
        let sharing = opening.join().unwrap_or_default();
        Ok(interrupted.map_or(ControlFlow::Continue(sharing), ControlFlow::Break))
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
