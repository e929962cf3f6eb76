//! Starts the processes of a job and attends to them until they end.
//!
//! | module | purpose |
//! | --- | --- |
//! | `supervisor` | decides which nodes are introduced, asked to end, killed and blamed |
//! | `pacing` | decides when each process is started or restarted |
//! | `plan` | describes a launch |
//! | `starter`, `guests` | start processes; invite the nodes that may join later |
//! | `tasks`, `step` | start nodes as tasks of Slurm, by `srun` |
//! | `enrolment`, `admissions`, `task` | accept tasks; decide which; the connection to one |
//! | `child`, `process` | one process and its pipes |
//! | `bridge`, `bridge_command`, `bridge_state`, `keeping`, `slots`, `mirror` | the bridge to a kept node |
//! | `keepers`, `quorum`, `reaching` | whether the keepers of a job let it go on, and with which nodes |
//! | `takeover`, `own_name` | how another launcher takes over a job whose nodes are kept |
//! | `followed`, `reader` | read its output, from pipes or from files |
//! | `lines`, `queue`, `printer` | pass the output of processes to the user |
//! | `recovery` | decides how the job goes on after a loss |
//! | `change`, `requests` | nodes that leave and join on request |
//! | `diagnosing` | finds out why the job is slow or does not go on |
//! | `known`, `journal`, `sampling` | the known links of the job, its last events, samples of its counters |
//! | `recording`, `record_plan` | write the recording of a job |
//! | `report` | reports to the user, and their form for scripts |
//!
//! The loop here feeds events to the supervisor and carries out its commands. Only this loop waits
//! for the processes that it has started, so that a signal can never reach an unrelated process
//! with the id of one that has ended. A detached job has a folder, from which another launcher goes
//! on.

mod admissions;
mod bridge;
mod bridge_command;
mod bridge_state;
mod change;
mod child;
mod diagnosing;
mod enrolment;
mod event;
mod followed;
mod guests;
mod journal;
mod keepers;
mod keeping;
mod known;
mod lines;
mod mirror;
mod own_name;
mod pacing;
mod plan;
mod printer;
mod process;
mod queue;
mod quorum;
mod reaching;
mod reader;
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

use crate::error::CliError;
use crate::job_folder::{JobFolder, Saved, Stage};
use crate::log_file::LogLimit;
use crate::process_id::ProcessId;
use crate::request::{Answer, JobEventKind};
use crate::sharing::Sharing;
use crate::signals;
use crate::status::StatusFile;
use child::Child;
use event::{Blame, Command, Event, Exit, Outcome, Waiting, code_of};
use gridspan::EXIT_FAILED;
use gridspan::control::Failure;
use gridspan::keeper::LauncherId;
use gridspan::links::LinkReport;
use gridspan_runtime::net::NodePublicKey;
use gridspan_runtime::net::bootstrap::{Addresses, LEAVE, RECOVER, RestoreOrder, diagnose_line};
use gridspan_topology::{NodeId, Time};
use guests::Invited;
use journal::Journal;
use keepers::{Decision, Keepers};
use known::Known;
pub(crate) use lines::LineSplitter;
use pacing::{Pacing, Retry};
pub(crate) use plan::{Kept, Launch, Membership, PlannedNode, Processes, job_name};
use printer::{Prefixes, Printer, Style, node_names};
use queue::Queue;
use reader::Outlets;
pub(crate) use record_plan::RecordPlan;
use recording::Recording;
use recovery::Runs;
use report::{FirstFailure, Report, StartedNode};
use requests::Requests;
use starter::Starter;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant};
pub(crate) use supervisor::OnLoss;
use supervisor::{Supervisor, Way};
pub(crate) use takeover::take_over;
pub(crate) use tasks::srun_commands;

/// Time that an interrupted launcher waits for a reader of its output that may have stopped
/// reading.
const INTERRUPTED_PATIENCE: Duration = Duration::from_millis(500);

/// Interval between checks whether connections are open.
const LOOK: Duration = Duration::from_millis(5);

/// Time that tasks of Slurm have to start once one of their step has: hosts differ in the scripts
/// that the site runs before tasks.
const TASK_PATIENCE: Duration = Duration::from_secs(120);

/// A job that has ended.
pub(crate) struct Ended {
    /// The exit code.
    pub(crate) code: u8,
    /// The last known links of the job.
    pub(crate) links: Option<LinkReport>,
    /// Whether the job has ended for this launcher only: why another one may let it go on, or does.
    pub(crate) abandoned: Option<CliError>,
}

/// Runs the job to its end.
pub(crate) fn run(launch: &Launch<'_>) -> Result<Ended, CliError> {
    let (events, incoming) = channel();
    // Signals are watched before the first process starts, so that no end is missed.
    event::forward_signals(events.clone())?;
    let reports = Arc::new(Queue::new());
    let style = match (launch.json, &launch.processes) {
        (true, _) => Style::Json,
        (false, Processes::Nodes { .. }) => Style::Text(Prefixes::new(launch.spec)),
        (false, Processes::Single { .. }) => Style::Text(Prefixes::none()),
    };
    let log = log_limit(launch)?;
    let known = Arc::new(Known::new(launch.spec.clone(), launch.is_listed, status_file(launch)));
    let journal = Arc::new(Journal::new());
    let recording = Recording::begin(launch)?.map(Arc::new);
    let outlets = Outlets {
        events: events.clone(),
        reports: reports.clone(),
        known: known.clone(),
        journal: journal.clone(),
        recording: recording.clone(),
    };
    let begin = Instant::now();
    let sharing = match open_connections(launch, &incoming)? {
        Ok(sharing) => sharing,
        Err(signal) => {
            return Ok(Ended { code: code_of(signal), links: None, abandoned: None });
        }
    };
    if let Some(text) = note(launch) {
        reports.push(Report::Warning { text });
    }
    let (mut starter, invited) = Starter::new(launch, outlets, sharing)?;
    let entries = (0..starter.len()).map(|node| launch.entry(NodeId::from(node)));
    let mut pacing = Pacing::new(entries);
    let children = match launch.saved() {
        Some(saved) => adopt(&starter, &mut pacing, saved)?,
        None => {
            let children = start(launch, &mut starter, &mut pacing)?;
            // The first processes may have printed something by now.
            reports.push_first(started(launch, &children));
            children
        }
    };
    let queue = reports.clone();
    let printer = Printer { style, log, progress: launch.progress.clone() };
    thread::Builder::new()
        .name("printer".to_owned())
        .spawn({
            let events = events.clone();
            move || printer.run(&queue, &events)
        })
        .map_err(CliError::system("start a thread"))?;
    let must_meet = matches!(launch.processes, Processes::Nodes { .. });
    let mut names = node_names(launch.spec);
    names.truncate(children.len());
    let mut supervisor = Supervisor::new(names, must_meet, Time(0));
    if launch.is_simulated {
        supervisor.await_simulation();
    }
    if let Processes::Nodes { settings, .. } = &launch.processes {
        let runs = match launch.saved() {
            Some(saved) => Runs::resume(launch.spec.clone(), saved),
            None => Runs::new(launch.spec.clone(), &launch.membership.spares),
        };
        supervisor.set_recovery(runs, launch.membership.on_loss);
        let has_folder = settings.checkpoint_folder.is_some();
        let deadline = launch.membership.drain_deadline;
        supervisor.set_draining(deadline, has_folder, launch.guests > 0);
    }
    if let Processes::Nodes { hosts, tasks, .. } = &launch.processes {
        supervisor.set_crowding(launch.processes.nodes_per_core(launch.spec.layout().nodes()));
        if tasks.is_some() {
            supervisor.set_start_patience(TASK_PATIENCE);
        }
        for (node, host) in launch.spec.hosts() {
            if tasks.is_some() {
                supervisor.set_way(node, Way::Srun { host: host.to_owned() });
            } else if let (Some(host), Some(login)) = (hosts.remote(node), hosts.login(node)) {
                supervisor.set_way(node, Way::Ssh { host: host.to_owned(), login });
            }
        }
    }
    let id = launch.id.clone();
    let is_printed = false;
    let requests = match launch.is_listed && must_meet {
        true => launch
            .status_folder()
            .and_then(|folder| Requests::listen(&folder, &id, events))
            .inspect_err(|error| tracing::warn!(%error, "this job takes no requests"))
            .ok(),
        false => None,
    };
    let mut work = Work {
        id,
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
        is_printed,
        requests,
        folder: launch.detached.as_ref().map(|(folder, _)| folder.clone()),
        last_saved: None,
        is_unsaved: false,
        keepers: launch.kept.as_ref().map(|kept| {
            let agreed = launch.saved().map_or(0, |saved| saved.agreed);
            Keepers::new(agreed, kept.ended.clone())
        }),
        launcher: launch.kept.as_ref().map(|kept| kept.launcher.clone()).unwrap_or_default(),
        has_quorum: launch.kept.as_ref().is_none_or(|kept| kept.has_quorum),
        sent: None,
        abandoned: None,
        is_introducing: false,
        waiting: Vec::new(),
    };
    if let Some(saved) = launch.saved() {
        work.take_over(saved);
    }
    let outcome = work.attend();
    let links = known.end();
    let code = work.conclude(outcome);
    Ok(Ended { code, links, abandoned: work.abandoned.take() })
}

/// Says which sites a job with kept nodes does not survive, when it starts.
fn note(launch: &Launch<'_>) -> Option<String> {
    let is_first = launch.kept.is_some() && launch.saved().is_none();
    let members: Vec<NodeId> = launch.members().collect();
    let goes_on = is_first && launch.membership.on_loss != OnLoss::Fail;
    goes_on.then(|| quorum::note(launch.spec, &members)).flatten()
}

/// Starts the first processes of a job.
fn start(
    launch: &Launch<'_>,
    starter: &mut Starter<'_>,
    pacing: &mut Pacing,
) -> Result<Vec<Option<Child>>, CliError> {
    for &spare in &launch.membership.spares {
        pacing.cancel(spare);
    }
    let mut children: Vec<_> = (0..starter.len()).map(|_| None).collect();
    while let Some(node) = pacing.poll(Time(0)) {
        // If a process cannot be started, the earlier ones are killed when they are dropped.
        children[node.index()] = Some(starter.start(node)?);
    }
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

/// What another launcher recognises the processes by.
fn processes(children: &[Option<Child>]) -> BTreeMap<NodeId, ProcessId> {
    let children = children.iter().enumerate();
    children.filter_map(|(node, child)| Some((NodeId::from(node), child.as_ref()?.id()?))).collect()
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

/// Opens the connections that nodes on other hosts share, before the first process of the job is
/// started. If the user requests the end meanwhile, returns the signal instead.
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
        StatusFile::create_in(&folder, id, program, launch.spec.clone())
    });
    created.inspect_err(|error| tracing::info!(%error, "this job is not listed")).ok()
}

/// The loop between processes and supervisor.
struct Work<'a> {
    id: String,
    starter: Starter<'a>,
    pacing: Pacing,
    /// `None` for a process that has not been started, or is to be started again.
    children: Vec<Option<Child>>,
    invited: Invited,
    supervisor: Supervisor,
    reports: Arc<Queue<Report>>,
    journal: Arc<Journal>,
    /// The recording of the job, if it is recorded.
    recording: Option<Arc<Recording>>,
    incoming: Receiver<Event>,
    begin: Instant,
    /// Whether there will be no more output: all is printed, or the reader has closed the output.
    is_printed: bool,
    /// Where other processes request something; `None` if they cannot.
    requests: Option<Requests>,
    /// The folder of a detached job.
    folder: Option<JobFolder>,
    /// What was saved there last.
    last_saved: Option<Saved>,
    /// Whether the last attempt to save it has failed.
    is_unsaved: bool,
    /// The keepers of the nodes of a job on several hosts.
    keepers: Option<Keepers>,
    /// This launcher, if there are keepers.
    launcher: LauncherId,
    /// Whether enough keepers agree to this launcher.
    has_quorum: bool,
    /// What was sent to the keepers last, and its number.
    sent: Option<(u64, Arc<[u8]>)>,
    /// Why this launcher ends before the job does.
    abandoned: Option<CliError>,
    /// Whether addresses have yet to be written to members.
    is_introducing: bool,
    /// Readers that wait until events are handled and saved.
    waiting: Vec<Waiting>,
}

impl Work<'_> {
    /// Attends to the processes until all have ended.
    fn attend(&mut self) -> Outcome {
        loop {
            // One signal may announce the ends of several processes.
            self.notice_exits();
            while let Some(node) = self.pacing.poll(self.now()) {
                self.start(node);
            }
            if let Err(error) = self.starter.launch_tasks() {
                // Their ends are noticed.
                self.reports.push(Report::Warning { text: error.to_string() });
            }
            self.supervisor.await_srun(self.starter.awaits_srun(), self.now());
            let lost = self.supervisor.take_lost();
            self.record(|recording| recording.note_lost(&lost));
            while let Some(command) = self.supervisor.poll_command() {
                self.carry_out(command);
            }
            if let Some(outcome) = self.supervisor.outcome() {
                // What fails here has not failed for a launcher that has taken over the job.
                let other = reaching::taken_over_by(&self.children, Duration::ZERO);
                return match other.filter(|_| outcome.code != 0) {
                    Some(other) => self.yield_to(&other),
                    None => outcome,
                };
            }
            self.save();
            self.waiting.clear();
            match self.decide() {
                Some(Decision::Begin(members, order)) => {
                    self.go_on(&members, order.as_ref());
                    continue;
                }
                Some(Decision::Refused(reason)) => {
                    // Keepers that have accepted another launcher may be why too few agree.
                    let other = reaching::taken_over_by(&self.children, Duration::ZERO);
                    return match other {
                        Some(other) => self.yield_to(&other),
                        None => self.abandon(reason),
                    };
                }
                None => {}
            }
            if let Some(outcome) = self.lose_unreachable() {
                return outcome;
            }
            let paced = self.pacing.poll_timeout(self.now());
            let agreed = self.keepers.as_ref().and_then(Keepers::poll_timeout);
            let overdue = reaching::time_until_overdue(&self.children);
            let overdue = overdue.map(|time| self.now() + time);
            let due = [self.supervisor.poll_timeout(), paced, agreed, overdue];
            let event = match due.into_iter().flatten().min() {
                Some(due) => self.incoming.recv_timeout(due.since(self.now())),
                None => self.incoming.recv().map_err(RecvTimeoutError::from),
            };
            let now = self.now();
            match event {
                Ok(Event::Printed) => self.is_printed = true,
                Ok(Event::StopWanted) => self.stop(),
                Ok(Event::Read(waiting)) => self.waiting.push(waiting),
                Ok(Event::Saved { node, number }) => {
                    self.keepers.iter_mut().for_each(|keepers| keepers.saved(node, number));
                }
                Ok(Event::Enrolled { node, key }) => self.enrol(node, key),
                Ok(event) => self.handle(event, now),
                Err(_) => {
                    for event in self.pacing.handle_timeout(now) {
                        self.supervisor.handle(event, now);
                    }
                    self.supervisor.handle_timeout(now);
                }
            }
        }
    }

    /// Begins to attend to the job of a launcher that has ended.
    fn take_over(&mut self, saved: &Saved) {
        let now = self.now();
        self.supervisor.take_over(saved, now);
        for &node in &saved.left {
            if self.children[node.index()].is_none() {
                let is_kept = self.keepers.is_some();
                let exit = if is_kept { Exit::Unreachable } else { Exit::Unknown };
                self.end_processless(node, exit);
            }
        }
    }

    /// Saves what another launcher needs, if it has changed.
    fn save(&mut self) {
        let Some(folder) = &self.folder else { return };
        let mut saved = self.supervisor.saved();
        saved.processes = processes(&self.children);
        saved.launcher = self.launcher.clone();
        saved.agreed = self.keepers.as_ref().map_or(0, Keepers::agreed);
        saved.number = self.last_saved.as_ref().map_or(0, |last| last.number);
        self.is_introducing &= self.children.iter().flatten().any(Child::is_written_to);
        if self.is_introducing && saved.stage == Stage::Running {
            let before = self.last_saved.as_ref().map(|saved| saved.stage);
            saved.stage = before.unwrap_or(Stage::Starting);
        }
        if self.last_saved.as_ref() == Some(&saved) {
            if let (Some(keepers), Some((number, _))) = (&mut self.keepers, &self.sent)
                && *number == saved.number
            {
                // The run may have been proposed since.
                keepers.sent(*number);
            }
            return;
        }
        saved.number += 1;
        match folder.save(&saved) {
            Ok(()) => {
                self.send(&saved);
                (self.last_saved, self.is_unsaved) = (Some(saved), false);
            }
            Err(error) => {
                tracing::error!(%error, "another launcher could not attend to this job");
                if !self.is_unsaved {
                    let text = format!(
                        "cannot save the state of the job in {}: {error}; if this launcher ends, another one \
                         cannot go on from here",
                        folder.path().display()
                    );
                    self.reports.push(Report::Warning { text });
                }
                self.is_unsaved = true;
            }
        }
    }

    /// Sends what another launcher needs to the keepers, if enough of them agree to this one.
    fn send(&mut self, saved: &Saved) {
        let Some(keepers) = self.keepers.as_mut().filter(|_| self.has_quorum) else { return };
        let content: Arc<[u8]> = match saved.to_bytes() {
            Ok(bytes) => bytes.into(),
            Err(error) => return tracing::error!(%error, "cannot describe the job to its keepers"),
        };
        keepers.sent(saved.number);
        let bridges = reaching::bridges(&self.children);
        bridges.for_each(|bridge| bridge.save(saved.number, content.clone()));
        self.sent = Some((saved.number, content));
    }

    /// Decides whether the run that was proposed to the keepers begins.
    fn decide(&mut self) -> Option<Decision> {
        let now = self.now();
        let runs = self.last_saved.as_ref().map(|saved| saved.runs.as_slice()).unwrap_or_default();
        let name = |node| self.supervisor.name(node).to_owned();
        self.keepers.as_mut()?.poll(runs, name, now)
    }

    /// Ends this launcher, since it may not let the job go on. The nodes have stopped, and another
    /// launcher may have more luck.
    fn abandon(&mut self, reason: String) -> Outcome {
        let hint = "`gridctl attach` tries again; `--ended NODE` if you know that a node, host or \
                    site has ended for good";
        let message = format!("this launcher may not let the job go on: {reason}");
        self.abandoned = Some(CliError::NoQuorum { job: self.id.clone(), reason });
        self.failed(message, hint)
    }

    fn failed(&self, message: String, hint: &str) -> Outcome {
        let runs = self.last_saved.as_ref().and_then(|saved| saved.runs.last());
        let node = runs.and_then(|(_, members)| members.first().copied()).unwrap_or(NodeId(0));
        let blame = Some(Blame { node, message, hint: Some(hint.to_owned()) });
        Outcome { code: EXIT_FAILED, is_interrupted: false, blame }
    }

    /// Loses the nodes that could not be reached for too long, if the job can go on without them.
    /// If it cannot, they may be reached later. Returns the outcome for this launcher if another
    /// one has taken over the job.
    fn lose_unreachable(&mut self) -> Option<Outcome> {
        let (keepers, saved) = (self.keepers.as_ref()?, self.last_saved.as_ref()?);
        let is_connected = |node| reaching::is_connected(&self.children, node);
        let may = keepers.may_go_on_with(&saved.runs, is_connected);
        if may && self.supervisor.may_recover() {
            reaching::lose_overdue(&self.children);
            return None;
        }
        let other = reaching::taken_over_by(&self.children, reaching::TAKEN_PATIENCE)?;
        Some(self.yield_to(&other))
    }

    /// Ends this launcher, and the nodes that another one, which attends to the job, has not taken
    /// over.
    fn yield_to(&mut self, other: &LauncherId) -> Outcome {
        reaching::end_others(&self.children);
        let by = own_name::place(&other.name).to_owned();
        let message = format!("another launcher attends to this job, on {by}");
        self.abandoned = Some(CliError::Attended { job: self.id.clone(), by });
        self.failed(message, "`gridctl attach` there shows the job")
    }

    fn now(&self) -> Time {
        Time(u64::try_from(self.begin.elapsed().as_nanos()).unwrap_or(u64::MAX))
    }

    fn notice_exits(&mut self) {
        let (now, mut exited) = (self.now(), vec![]);
        self.starter.notice_ends_of_tasks();
        for (node, child) in self.children.iter_mut().enumerate() {
            if let Some(exit) = child.as_mut().and_then(Child::take_exit) {
                exited.push(Event::Exited { node: NodeId::from(node), exit });
            }
        }
        exited.into_iter().for_each(|event| self.handle(event, now));
    }

    /// Passes an event to the pacing and the supervisor.
    fn handle(&mut self, event: Event, now: Time) {
        let event = match event {
            Event::Failed { node, failure } => {
                Event::Failed { node, failure: self.starter.explained(node, failure, &self.id) }
            }
            event => event,
        };
        let (events, retry) = self.pacing.handle(event, now);
        if let Some(Retry { node, entry, pause, number, of }) = retry {
            self.children[node.index()] = None;
            let name = self.supervisor.name(node);
            let text = format!(
                "{name}: `{entry}` dropped the ssh connection; opening it again in {pause:?} ({number} of {of})"
            );
            self.reports.push(Report::Warning { text });
        }
        events.into_iter().for_each(|event| self.supervisor.handle(event, now));
    }

    /// Stops all processes and the launcher until the launcher is continued. If nodes run on other
    /// hosts, only warns.
    fn stop(&mut self) {
        if self.starter.is_elsewhere() {
            let text = "a job with nodes on other hosts cannot be stopped: those would consider this machine lost";
            return self.reports.push(Report::Warning { text: text.to_owned() });
        }
        self.children.iter().flatten().for_each(Child::stop);
        if let Err(error) = signals::stop() {
            tracing::error!(%error, "cannot stop");
        }
        self.children.iter().flatten().for_each(Child::go_on);
    }

    /// Starts a process while others run.
    fn start(&mut self, node: NodeId) {
        let now = self.now();
        match self.starter.start(node) {
            Ok(child) => {
                self.children[node.index()] = Some(child);
                self.supervisor.started(now);
                self.save();
                if let (Some(child), Some((number, state))) =
                    (&self.children[node.index()], &self.sent)
                    && let Some(bridge) = child.bridge()
                {
                    bridge.save(*number, state.clone());
                }
                self.pass_bundle(node);
            }
            Err(error) => {
                self.fail(node, &error);
                self.end_processless(node, Exit::Code(0));
            }
        }
    }

    /// Gives the task of a node that has enrolled its bundle.
    fn enrol(&mut self, node: NodeId, key: NodePublicKey) {
        self.starter.enrolled(node, key);
        self.supervisor.started(self.now());
        self.pass_bundle(node);
    }

    /// Writes the bundle of a node, if there is one, to its process.
    fn pass_bundle(&mut self, node: NodeId) {
        let child = self.children[node.index()].as_ref();
        let passed = child.map_or(Ok(()), |child| self.starter.pass_bundle(node, child));
        if let Err(error) = passed {
            self.fail(node, &error);
        }
    }

    /// Lets the job fail because of an error about a node.
    fn fail(&mut self, node: NodeId, error: &CliError) {
        let failure = Failure::new(&error.to_string(), error.hint().as_deref(), Some(node));
        let now = self.now();
        self.supervisor.handle(Event::Failed { node, failure }, now);
    }

    /// Treats a node without a process as one that has ended like this.
    fn end_processless(&mut self, node: NodeId, exit: Exit) {
        let now = self.now();
        let exited = Event::Exited { node, exit };
        for event in [exited, Event::StreamEnded { node }, Event::StreamEnded { node }] {
            self.supervisor.handle(event, now);
        }
    }

    /// Cancels the start of a node that is to end, and returns its process, if it has one.
    fn ending(&mut self, node: NodeId) -> Option<&mut Child> {
        if self.pacing.cancel(node) {
            self.end_processless(node, Exit::Code(0));
        }
        self.children[node.index()].as_mut()
    }

    fn carry_out(&mut self, command: Command) {
        match command {
            Command::Introduce(members, addresses) => {
                self.record(Recording::note_run);
                self.introduce(&members, &Addresses(addresses));
            }
            Command::Recover(node) => self.tell(node, RECOVER),
            Command::Pause(node, order) => match order.to_line() {
                Ok(line) => self.tell(node, &line),
                Err(error) => tracing::error!(%error, "cannot describe the change"),
            },
            Command::Diagnose(node, number) => self.tell(node, &diagnose_line(number)),
            Command::Sample(node, order) => match order.to_line() {
                Ok(line) => self.tell(node, &line),
                Err(error) => tracing::error!(%error, "cannot ask for a sample"),
            },
            Command::TellObserved(id, sample, losses) => {
                let answer = Answer::Observed(Box::new(self.journal.observed(sample, losses)));
                self.requests.iter().for_each(|requests| requests.answer(id, &answer));
            }
            Command::Leave(node) => self.tell(node, LEAVE),
            Command::Answer(id, answer) => {
                self.requests.iter().for_each(|requests| requests.answer(id, &answer));
            }
            Command::GoOn(members, order) => {
                self.record(|recording| recording.note_members(&members));
                let now = self.now();
                match &mut self.keepers {
                    Some(keepers) => keepers.propose(members, order, now),
                    None => self.go_on(&members, order.as_ref()),
                }
            }
            Command::TellRecovery(text) => {
                self.journal.note(JobEventKind::Membership, &text);
                self.reports.push(Report::Recovery { text });
            }
            Command::Ask(node) => self.ending(node).into_iter().for_each(|child| child.ask()),
            Command::Kill(node) => self.ending(node).into_iter().for_each(Child::kill),
            Command::TellExit(node, exit) => self.reports.push(Report::exited(node, exit)),
            Command::TellLoss(text) => {
                self.journal.note(JobEventKind::Membership, &text);
                self.reports.push(Report::Loss { text });
            }
            Command::TellStopping => self.reports.push(Report::Stopping),
        }
    }

    /// Adds to the recording of the job, if it is recorded.
    fn record(&self, note: impl FnOnce(&Recording)) {
        if let Some(recording) = &self.recording {
            note(recording);
        }
    }

    /// Writes a line to the process of a node.
    fn tell(&self, node: NodeId, line: &str) {
        self.children[node.index()].iter().for_each(|child| child.tell(line.to_owned()));
    }

    /// Gives the members of the next run their bundles, and starts those that have no process.
    fn go_on(&mut self, members: &[NodeId], order: Option<&RestoreOrder>) {
        if let Err(error) = self.starter.renew(members, order) {
            let failure = Failure::new(&error.to_string(), error.hint().as_deref(), None);
            let now = self.now();
            let node = members.first().copied().unwrap_or(NodeId(0));
            return self.supervisor.handle(Event::Failed { node, failure }, now);
        }
        for &node in members {
            let child = self.children[node.index()].as_ref();
            match child.is_some_and(Child::is_running) {
                true => self.pass_bundle(node),
                false => self.pacing.restart(node, self.now()),
            }
        }
    }

    fn introduce(&mut self, members: &[NodeId], addresses: &Addresses) {
        self.is_introducing = true;
        match addresses.to_line() {
            Ok(line) => members.iter().for_each(|&node| self.tell(node, &line)),
            Err(error) => tracing::error!(%error, "cannot describe the addresses"),
        }
        if let Err(error) = self.invited.invite(&self.id, addresses) {
            let text = format!("no node can join this job: {error}");
            self.reports.push(Report::Warning { text });
        }
    }

    /// Reports the outcome, waits until all is printed, and returns the exit code. If the user
    /// requested the end, waits for at most [`INTERRUPTED_PATIENCE`] after each event.
    fn conclude(&mut self, outcome: Outcome) -> u8 {
        // Processes that wait for the end learn the exit code, and others that the job has ended.
        if let Some(requests) = &self.requests {
            let waiting = self.supervisor.waiting_for_end().iter();
            waiting.for_each(|&id| requests.answer(id, &Answer::Ended(outcome.code)));
        }
        self.requests = None;
        if let Some(recording) = &self.recording {
            let failure = outcome.blame.as_ref().map(|blame| blame.message.as_str());
            let folder = recording.folder().display().to_string();
            self.reports.push(match recording.end(outcome.code, failure) {
                Ok(missing) => Report::Recorded { folder, missing },
                Err(error) => {
                    let text = format!("the recording in {folder} is not complete: {error}");
                    Report::Warning { text }
                }
            });
        }
        let children = &self.children;
        let last = |node: NodeId| children[node.index().min(children.len() - 1)].as_ref();
        let failure = outcome.blame.map(|blame| FirstFailure {
            stderr: last(blame.node).map(Child::last_lines).unwrap_or_default(),
            node: blame.node,
            message: blame.message,
            hint: blame.hint,
        });
        let seconds = self.begin.elapsed().as_secs_f64();
        self.reports.push(Report::Finished { exit_code: outcome.code, seconds, failure });
        self.reports.close();
        let patience = if outcome.is_interrupted { INTERRUPTED_PATIENCE } else { Duration::MAX };
        while !self.is_printed {
            match self.incoming.recv_timeout(patience) {
                Ok(Event::Printed | Event::Interrupted { .. }) | Err(_) => self.is_printed = true,
                Ok(_) => {}
            }
        }
        self.note_end(outcome.code);
        // The connections to tasks end first.
        self.children.clear();
        self.starter.end_tasks();
        outcome.code
    }

    /// Notes in the folder that the job has ended, and then lets its keepers forget it, unless
    /// another launcher may need what they have.
    fn note_end(&self, code: u8) {
        let Some(folder) = self.folder.as_ref().filter(|_| self.abandoned.is_none()) else {
            return;
        };
        match folder.note_exit(code) {
            Ok(()) if self.has_quorum => reaching::forget(&self.children),
            Ok(()) => {}
            // Another attempt follows, which reports the error.
            Err(error) => tracing::error!(%error, "cannot note the end of the job"),
        }
    }
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
