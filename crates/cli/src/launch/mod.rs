//! Starts the processes of a job and stays with them to the end.
//!
//! | part | what it does |
//! | --- | --- |
//! | `supervisor` | decides: who is introduced, asked to end, killed, blamed |
//! | `child` | one process and its pipes |
//! | `lines`, `queue`, `printer` | from what processes print to what the user sees |
//! | `known` | what the job knows of its links |
//! | `report` | what the user is told, and its form for scripts |
//!
//! The loop here feeds events to the supervisor and carries out its commands. It alone waits for
//! processes, so that a signal can never reach a stranger who got the number of one that has ended.

mod child;
mod event;
mod known;
mod lines;
mod printer;
mod queue;
mod report;
mod supervisor;

use crate::error::CliError;
use crate::hosts::Hosts;
use crate::invitation::{Contents, Invitation};
use crate::program::Program;
use crate::status::StatusFile;
use child::{Child, Origin, Outlets};
use event::{Command, Event, Outcome};
use gridspan::Settings;
use gridspan::links::LinkReport;
use gridspan::variables::{DRIVER, REPORT};
use gridspan_runtime::net::Authority;
use gridspan_runtime::net::bootstrap::{Addresses, NodeBundle, issue};
use gridspan_topology::{GridSpec, NodeId, Time};
use known::Known;
use printer::{Prefixes, Style, node_names};
use queue::Queue;
use report::{FirstFailure, Report, StartedNode};
use signal_hook::consts::{SIGCHLD, SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};
use supervisor::Supervisor;

/// How long an interrupted launcher waits for a reader of its output that may have stopped reading.
const INTERRUPTED_PATIENCE: Duration = Duration::from_millis(500);

/// A job to launch.
pub(crate) struct Launch<'a> {
    /// What to run.
    pub(crate) program: &'a Program,
    /// Where.
    pub(crate) spec: &'a GridSpec,
    /// As which processes.
    pub(crate) processes: Processes,
    /// Whether to print JSON.
    pub(crate) json: bool,
    /// Whether others may see that it runs and what it knows of its links, and the user is told of
    /// links that change.
    pub(crate) is_listed: bool,
    /// How many nodes may join at each site while it runs.
    pub(crate) guests: u32,
}

/// A job that has ended.
pub(crate) struct Ended {
    /// The exit code.
    pub(crate) code: u8,
    /// What it knew of its links.
    pub(crate) links: Option<LinkReport>,
}

/// Which processes a job consists of.
pub(crate) enum Processes {
    /// One for each node; they meet over the network.
    Nodes {
        /// Whether the links between sites are emulated.
        is_emulated: bool,
        /// Where they are started.
        hosts: Hosts,
        /// What overrides the program's own settings.
        settings: Box<Settings>,
        /// Further variables.
        variables: Vec<(&'static str, OsString)>,
    },
    /// One for the whole job, told by variables how to run it.
    Single {
        /// The variables.
        variables: Vec<(&'static str, OsString)>,
    },
}

/// Runs the job to its end.
pub(crate) fn run(launch: &Launch<'_>) -> Result<Ended, CliError> {
    let (events, incoming) = channel();
    // Before the first process, so that no end is missed.
    forward_signals(events.clone())?;
    let reports = Arc::new(Queue::new());
    let style = match (launch.json, &launch.processes) {
        (true, _) => Style::Json,
        (false, Processes::Nodes { .. }) => Style::Text(Prefixes::new(launch.spec)),
        (false, Processes::Single { .. }) => Style::Text(Prefixes::none()),
    };
    let known = Arc::new(Known::new(launch.spec.clone(), launch.is_listed, status_file(launch)));
    let outlets =
        Outlets { events: events.clone(), reports: reports.clone(), known: known.clone() };
    let begin = Instant::now();
    let (children, invited) = start(launch, &outlets)?;
    let started = |node: NodeId| {
        // A single process runs all nodes.
        let child = children.get(node.index()).unwrap_or(&children[0]);
        StartedNode::new(launch.spec, node, child.pid())
    };
    let nodes = launch.spec.layout().nodes().map(started).collect();
    // The first processes may have printed something by now.
    reports.push_first(Report::Started { job: launch.program.name(), nodes });
    let queue = reports.clone();
    thread::Builder::new()
        .name("printer".to_owned())
        .spawn(move || printer::run(&style, &queue, &events))
        .map_err(CliError::system("start a thread"))?;
    let must_meet = matches!(launch.processes, Processes::Nodes { .. });
    let mut names = node_names(launch.spec);
    names.truncate(children.len());
    let mut supervisor = Supervisor::new(names, must_meet, Time(0));
    if let Processes::Nodes { hosts, .. } = &launch.processes {
        for node in launch.spec.layout().nodes() {
            supervisor.set_host(node, hosts.remote(node).map(str::to_owned));
        }
    }
    let id = job_name(launch.program);
    let mut work =
        Work { id, children, invited, supervisor, reports, incoming, begin, is_printed: false };
    let outcome = work.attend();
    let links = known.end();
    Ok(Ended { code: work.conclude(outcome), links })
}

/// The file that tells others of the job. A job can do without.
fn status_file(launch: &Launch<'_>) -> Option<StatusFile> {
    if !launch.is_listed {
        return None;
    }
    let created = StatusFile::create(job_name(launch.program), launch.spec.clone());
    created.inspect_err(|error| tracing::info!(%error, "nobody will see that this job runs")).ok()
}

/// Starts all processes. If one cannot be started, those before it are killed. Returns those who may join later, too.
fn start(launch: &Launch<'_>, outlets: &Outlets) -> Result<(Vec<Child>, Invited), CliError> {
    let path = launch.program.path()?;
    let here = Hosts::here();
    let start = |node, hosts: &Hosts, variables: &[(&'static str, OsString)]| {
        let command = hosts.command(node, launch.program.command(variables)?, variables)?;
        let path = match hosts.remote(node) {
            Some(_) => PathBuf::from(command.get_program()),
            None => path.clone(),
        };
        let origin = Origin { node, address: hosts.address(node) };
        Child::start(origin, command, outlets).map_err(|error| CliError::Start { path, error })
    };
    match &launch.processes {
        Processes::Single { variables } => {
            let mut variables = variables.clone();
            variables.push((REPORT, "lines".into()));
            Ok((vec![start(NodeId(0), &here, &variables)?], Invited::default()))
        }
        Processes::Nodes { is_emulated, hosts, settings, variables } => {
            let settings = serde_json::to_value(settings).map_err(encoding)?;
            let mut variables = variables.clone();
            variables.push((DRIVER, "node".into()));
            let mut children = vec![];
            let authority = Authority::new(&job_name(launch.program))?;
            let founders = issue(&authority, launch.spec)?;
            let complete = |bundle: &mut NodeBundle| {
                bundle.emulate = *is_emulated;
                bundle.settings = settings.clone();
            };
            for mut bundle in founders {
                complete(&mut bundle);
                bundle.listen = hosts.listen(bundle.identity.node);
                let child = start(bundle.identity.node, hosts, &variables)?;
                child.tell(bundle.to_line().map_err(encoding)?);
                children.push(child);
            }
            let mut guests = issue_guests(&authority, launch.spec, launch.guests)?;
            guests.iter_mut().for_each(complete);
            let command = Some(launch.program.command(&variables)?);
            Ok((children, Invited { command, guests }))
        }
    }
}

/// The nodes that may join the job while it runs, and what they run.
#[derive(Default)]
struct Invited {
    command: Option<std::process::Command>,
    guests: Vec<NodeBundle>,
}

impl Invited {
    /// Lays invitations where `gridctl join` finds them.
    fn invite(&mut self, id: &str, addresses: &Addresses) -> std::io::Result<()> {
        let Some(command) = self.command.as_ref().filter(|_| !self.guests.is_empty()) else {
            return Ok(());
        };
        let contents = Contents::of(Path::new(command.get_program()))?;
        for bundle in std::mem::take(&mut self.guests) {
            Invitation::new(command, contents.clone(), bundle, addresses.clone())?.write(id)?;
        }
        Ok(())
    }
}

/// So many guests at each site.
fn issue_guests(
    authority: &Authority,
    spec: &GridSpec,
    guests: u32,
) -> Result<Vec<NodeBundle>, CliError> {
    let sites = spec.layout().sites();
    let all = sites.flat_map(|site| (0..guests).filter_map(move |n| spec.layout().guest(site, n)));
    let issue = |guest| {
        let mut bundle = NodeBundle::issue(authority, spec, guest, 1)?;
        bundle.guest = Some(1);
        Ok(bundle)
    };
    all.map(issue).collect()
}

fn encoding(error: serde_json::Error) -> CliError {
    CliError::System { what: "describe the job to its nodes", error: error.into() }
}

/// A name for certificates, such as `ring-4711`: the program's, as far as it is of the letters that
/// are possible, and this process's number.
fn job_name(program: &Program) -> String {
    let name = program.name().to_ascii_lowercase();
    let name = name.replace(|letter: char| !letter.is_ascii_alphanumeric(), "-");
    let name: String = name.trim_matches('-').chars().take(24).collect();
    let name = if name.is_empty() { "job" } else { &name };
    format!("{name}-{}", std::process::id())
}

/// Turns signals into events from now on.
fn forward_signals(events: Sender<Event>) -> Result<(), CliError> {
    let failed = CliError::system("watch for signals");
    let mut signals = Signals::new([SIGINT, SIGTERM, SIGHUP, SIGCHLD]).map_err(&failed)?;
    let forward = move || {
        for signal in signals.forever() {
            let event = match signal {
                SIGCHLD => Event::ChildrenChanged,
                signal => Event::Interrupted { signal },
            };
            if events.send(event).is_err() {
                return;
            }
        }
    };
    thread::Builder::new().name("signals".to_owned()).spawn(forward).map_err(&failed)?;
    Ok(())
}

/// The loop between processes and supervisor.
struct Work {
    id: String,
    children: Vec<Child>,
    invited: Invited,
    supervisor: Supervisor,
    reports: Arc<Queue<Report>>,
    incoming: Receiver<Event>,
    begin: Instant,
    /// Whether there will be no more output: all is printed, or nobody wants it.
    is_printed: bool,
}

impl Work {
    /// Attends to the processes until all have ended.
    fn attend(&mut self) -> Outcome {
        loop {
            // A process may have ended before signals were watched for, or several at one signal.
            self.notice_exits();
            while let Some(command) = self.supervisor.poll_command() {
                self.carry_out(command);
            }
            if let Some(outcome) = self.supervisor.outcome() {
                return outcome;
            }
            let event = match self.supervisor.poll_timeout() {
                Some(due) => self.incoming.recv_timeout(due.since(self.now())),
                None => self.incoming.recv().map_err(RecvTimeoutError::from),
            };
            let now = self.now();
            match event {
                Ok(Event::Printed) => self.is_printed = true,
                Ok(event) => self.supervisor.handle(event, now),
                Err(_) => self.supervisor.handle_timeout(now),
            }
        }
    }

    fn now(&self) -> Time {
        Time(u64::try_from(self.begin.elapsed().as_nanos()).unwrap_or(u64::MAX))
    }

    fn notice_exits(&mut self) {
        let now = self.now();
        for (node, child) in self.children.iter_mut().enumerate() {
            if let Some(exit) = child.take_exit() {
                let node = NodeId::from(node);
                self.supervisor.handle(Event::Exited { node, exit }, now);
            }
        }
    }

    fn carry_out(&mut self, command: Command) {
        match command {
            Command::Introduce(addresses) => self.introduce(&Addresses(addresses)),
            Command::Ask(node) => self.children[node.index()].ask(),
            Command::Kill(node) => self.children[node.index()].kill(),
            Command::TellExit(node, exit) => self.reports.push(Report::exited(node, exit)),
            Command::TellStopping => self.reports.push(Report::Stopping),
        }
    }

    fn introduce(&mut self, addresses: &Addresses) {
        match addresses.to_line() {
            Ok(line) => self.children.iter().for_each(|child| child.tell(line.clone())),
            Err(error) => tracing::error!(%error, "cannot describe the addresses"),
        }
        if let Err(error) = self.invited.invite(&self.id, addresses) {
            let text = format!("nobody can join this job: {error}");
            self.reports.push(Report::Warning { text });
        }
    }

    /// Tells how it ended, and waits until all is printed; not for long if the user wants the end.
    fn conclude(mut self, outcome: Outcome) -> u8 {
        let children = &self.children;
        let failure = outcome.blame.map(|blame| FirstFailure {
            stderr: children[blame.node.index().min(children.len() - 1)].last_lines(),
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
        outcome.code
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gridspan_runtime::net::check_job_name;

    #[test]
    fn any_program_gives_a_job_name_that_certificates_take() {
        for path in ["./a.out", "/usr/bin/My Program", "./ü", &format!("./{}", "x".repeat(300))] {
            let program = Program::File { path: path.into(), arguments: vec![] };
            assert!(check_job_name(&job_name(&program)).is_ok(), "{path}");
        }
    }
}
