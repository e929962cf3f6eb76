//! Decides when the processes of a job are introduced to each other, when they must end, and which
//! of them failed first.
//!
//! # Start
//!
//! Every node reports where it listens; when all have, they are introduced to each other. A node
//! has failed if it ends before, or has not reported within 30 s after the last process started.
//!
//! # Failure
//!
//! When a node fails, the others have a second to notice and end by themselves; then they are asked
//! to end, and five seconds later they are killed. Lost nodes are killed instead of asked, since
//! waiting for a stopped or stuck node is useless. All nodes report the failure of a job, and some
//! of them have only lost their connection to the node that failed. Therefore the first report or
//! end of a process that is not such a loss is blamed. At the user's first request to end the job,
//! the nodes are asked to end at once; at the second, they are killed.
//!
//! The supervisor performs no I/O: it takes events, returns [`Command`]s, and has time as an
//! argument.

use super::event::{Blame, Command, Event, Exit, Outcome, code_of};
use gridspan::advice;
use gridspan::control::Failure;
use gridspan_runtime::session::crowding_factor;
use gridspan_topology::{NodeId, Time};
use std::collections::VecDeque;
use std::net::SocketAddr;
use std::time::Duration;

/// Time that a node has to report where it listens: enough for a cold start from a slow disk.
const START_PATIENCE: Duration = Duration::from_secs(30);
/// Time that nodes have to end by themselves after one has failed. News of the failure crosses the
/// widest link in a tenth of this time.
const SETTLE: Duration = Duration::from_secs(1);
/// Time that nodes have to end after they were asked to.
const GRACE: Duration = Duration::from_secs(5);
/// Time to wait for killed processes. They are gone unless the kernel is stuck.
const KILL_PATIENCE: Duration = Duration::from_secs(5);
/// Time for which output may follow the end of its process. A child that the process left behind
/// can keep the stream open for ever.
const DRAIN: Duration = Duration::from_secs(1);

/// Number of output streams: standard output and standard error.
const STREAMS: u8 = 2;

/// The state of all processes of a job.
pub(super) struct Supervisor {
    nodes: Vec<Node>,
    phase: Phase,
    interrupted: Option<i32>,
    /// The first failure, and whether it may be the consequence of another one.
    blame: Option<(bool, Blame)>,
    /// Exit code of the job: 0 until it fails.
    code: u8,
    commands: VecDeque<Command>,
    /// Whether the report of a simulation is awaited.
    awaits_simulation: bool,
    /// Time that a process has to start, and time that its output may take to end.
    patience: Patience,
}

#[derive(Clone, Copy)]
struct Patience {
    start: Duration,
    drain: Duration,
}

struct Node {
    name: String,
    /// The other machine that it runs on, and the command that logs in there.
    host: Option<(String, String)>,
    address: Option<SocketAddr>,
    exit: Option<(Exit, Time)>,
    open_streams: u8,
    /// Whether it has reported that the job failed.
    has_reported: bool,
    /// Whether other nodes have lost it. Then it cannot end by itself, since it receives nothing.
    is_lost: bool,
    /// Whether it was asked to end.
    is_asked: bool,
    /// Whether it had been asked when it ended, so that its end is no failure.
    was_asked: bool,
    /// Whether it has ended and its output has been read.
    is_over: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// Nodes have yet to report where they listen.
    Starting {
        until: Time,
    },
    Running,
    Ending {
        next: Step,
        at: Time,
    },
    /// No further step can be taken.
    GivenUp,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Ask,
    Kill,
    GiveUp,
}

impl Supervisor {
    /// Creates a supervisor of processes with these names, the first of which start at `now`. The
    /// nodes of a job must meet before they begin; a single process need not.
    pub(super) fn new(names: Vec<String>, must_meet: bool, now: Time) -> Self {
        let node = |name| Node {
            name,
            host: None,
            address: None,
            exit: None,
            open_streams: STREAMS,
            has_reported: false,
            is_lost: false,
            is_asked: false,
            was_asked: false,
            is_over: false,
        };
        let patience = Patience { start: START_PATIENCE, drain: DRAIN };
        let phase = if must_meet {
            Phase::Starting { until: now + patience.start }
        } else {
            Phase::Running
        };
        Self {
            nodes: names.into_iter().map(node).collect(),
            phase,
            interrupted: None,
            blame: None,
            code: 0,
            commands: VecDeque::new(),
            awaits_simulation: false,
            patience,
        }
    }

    /// Sets the number of nodes that share a core, which extends timeouts that begin later: those
    /// of the start and of output.
    pub(super) fn set_crowding(&mut self, nodes_per_core: u32) {
        let factor = crowding_factor(nodes_per_core);
        let patience = Patience { start: START_PATIENCE * factor, drain: DRAIN * factor };
        if let Phase::Starting { until } = &mut self.phase {
            *until += patience.start.saturating_sub(self.patience.start);
        }
        self.patience = patience;
    }

    /// Expects a simulation: a process that ends without reporting one has failed.
    pub(super) fn await_simulation(&mut self) {
        self.awaits_simulation = true;
    }

    /// Sets the other machine that a node runs on, and the command that logs in there.
    pub(super) fn set_host(&mut self, node: NodeId, host: String, login: String) {
        self.nodes[node.index()].host = Some((host, login));
    }

    pub(super) fn name(&self, node: NodeId) -> &str {
        &self.nodes[node.index()].name
    }

    /// Records that another process was started, which restarts the timeout of the start.
    pub(super) fn started(&mut self, now: Time) {
        if let Phase::Starting { until } = &mut self.phase {
            *until = now + self.patience.start;
        }
    }

    pub(super) fn handle(&mut self, event: Event, now: Time) {
        match event {
            Event::Listening { node, address } => {
                self.nodes[node.index()].address.get_or_insert(address);
                self.introduce();
            }
            Event::Failed { node, failure } => self.reported(node, failure, now),
            Event::Simulated => self.awaits_simulation = false,
            Event::StreamEnded { node } => {
                let node = &mut self.nodes[node.index()];
                node.open_streams = node.open_streams.saturating_sub(1);
            }
            Event::Exited { node, exit } => self.exited(node, exit, now),
            Event::Interrupted { signal } => self.interrupt(signal, now),
            Event::OutputFailed => {
                let message = "the output cannot be written".to_owned();
                self.fail(NodeId(0), 1, message, "make room, or send it elsewhere", now);
            }
            Event::ChildrenChanged
            | Event::Printed
            | Event::StopWanted
            | Event::ConnectionDropped { .. } => {}
        }
        self.settle(now);
    }

    /// Returns when to call [`handle_timeout`](Self::handle_timeout) if no event happens before.
    pub(super) fn poll_timeout(&self) -> Option<Time> {
        let phase = match self.phase {
            Phase::Starting { until } => Some(until),
            Phase::Ending { at, .. } => Some(at),
            Phase::Running | Phase::GivenUp => None,
        };
        let drains = self.nodes.iter().filter(|node| !node.is_over);
        drains.filter_map(|node| Some(node.exit?.1 + self.patience.drain)).chain(phase).min()
    }

    pub(super) fn handle_timeout(&mut self, now: Time) {
        match self.phase {
            Phase::Starting { until } if until <= now => {
                let silent = self.nodes.iter().position(|node| node.address.is_none());
                let node = NodeId::from(silent.unwrap_or(0));
                let name = &self.nodes[node.index()].name;
                let seconds = self.patience.start.as_secs();
                let message = format!("{name} did not join the job within {seconds} s");
                self.fail(node, 1, message, NOT_A_JOB, now);
            }
            Phase::Ending { next, at } if at <= now => match next {
                Step::Ask => self.ask_all(now),
                Step::Kill => self.kill_all(now),
                Step::GiveUp => self.phase = Phase::GivenUp,
            },
            _ => {}
        }
        self.settle(now);
    }

    pub(super) fn poll_command(&mut self) -> Option<Command> {
        self.commands.pop_front()
    }

    /// Returns the outcome of the job, once all processes have ended or no further step can be
    /// taken.
    pub(super) fn outcome(&self) -> Option<Outcome> {
        if self.phase != Phase::GivenUp && !self.nodes.iter().all(|node| node.is_over) {
            return None;
        }
        if let Some(signal) = self.interrupted {
            let code = code_of(signal);
            return Some(Outcome { code, is_interrupted: true, blame: None });
        }
        let blame = self.blame.clone().map(|(_, blame)| blame);
        Some(Outcome { code: self.code, is_interrupted: false, blame })
    }

    fn introduce(&mut self) {
        if matches!(self.phase, Phase::Starting { .. })
            && let Some(addresses) = self.nodes.iter().map(|node| node.address).collect()
        {
            self.phase = Phase::Running;
            self.commands.push_back(Command::Introduce(addresses));
        }
    }

    fn reported(&mut self, reporter: NodeId, failure: Failure, now: Time) {
        let node = &mut self.nodes[reporter.index()];
        node.has_reported = true;
        if node.is_asked {
            return;
        }
        let is_loss = failure.is_loss();
        let Failure { message, hint, node, lost, .. } = failure;
        for node in lost {
            if let Some(node) = self.nodes.get_mut(node.index()) {
                node.is_lost = true;
            }
        }
        if is_loss && self.blame.is_none() {
            self.commands.push_back(Command::TellLoss(message.clone()));
        }
        // A failure without a node is most often that of main, which runs on node 0.
        let node = node.filter(|node| node.index() < self.nodes.len()).unwrap_or(NodeId(0));
        self.blame(is_loss, 1, Blame { node, message, hint }, now);
    }

    fn exited(&mut self, id: NodeId, exit: Exit, now: Time) {
        let node = &mut self.nodes[id.index()];
        node.exit = Some((exit, now));
        node.was_asked = node.is_asked;
    }

    /// Blames a process for its end if that is a failure, unless the process was asked to end or
    /// has reported that the job failed.
    fn judge(&mut self, id: NodeId, exit: Exit, now: Time) {
        let is_starting = matches!(self.phase, Phase::Starting { .. });
        let node = &self.nodes[id.index()];
        if node.was_asked || node.has_reported {
            return;
        }
        let name = node.name.clone();
        if let Some((message, hint)) =
            node.host.as_ref().and_then(|(host, login)| over_ssh(host, login, exit, is_starting))
        {
            return self.fail(id, 1, format!("{name}: {message}"), &hint, now);
        }
        match exit {
            Exit::Code(0) if is_starting => {
                self.fail(id, 1, format!("{name} ended before it joined the job"), NOT_A_JOB, now);
            }
            Exit::Code(0) if self.awaits_simulation => {
                let message = "the program ended and simulated nothing".to_owned();
                self.fail(id, 1, message, NOT_A_JOB, now);
            }
            Exit::Code(0) => {}
            Exit::Code(2) if is_starting => {
                let hint = "correct the arguments or the environment variables of the program";
                self.fail(id, 2, format!("{name} could not start: exit code 2"), hint, now);
            }
            Exit::Code(code) => {
                let message = format!("{name} ended on its own with exit code {code}");
                self.fail(id, 1, message, "its last output may show why", now);
            }
            Exit::Signal(signal) => {
                let message = format!("{name} was killed by {}", signal_name(signal));
                self.fail(id, 1, message, signal_hint(signal), now);
            }
        }
    }

    fn fail(&mut self, node: NodeId, code: u8, message: String, hint: &str, now: Time) {
        let hint = Some(hint.to_owned());
        self.blame(false, code, Blame { node, message, hint }, now);
    }

    fn blame(&mut self, is_consequence: bool, code: u8, blame: Blame, now: Time) {
        let is_first = match &self.blame {
            None => true,
            Some((was_consequence, _)) => *was_consequence && !is_consequence,
        };
        if is_first {
            self.blame = Some((is_consequence, blame));
            self.code = code;
        }
        if matches!(self.phase, Phase::Starting { .. } | Phase::Running) {
            self.phase = Phase::Ending { next: Step::Ask, at: now + SETTLE };
        }
    }

    fn interrupt(&mut self, signal: i32, now: Time) {
        if self.interrupted.is_some() {
            self.kill_all(now);
            return;
        }
        self.interrupted = Some(signal);
        self.commands.push_back(Command::TellStopping);
        self.ask_all(now);
    }

    fn ask_all(&mut self, now: Time) {
        for (id, node) in self.nodes.iter_mut().enumerate() {
            if node.exit.is_none() && !std::mem::replace(&mut node.is_asked, true) {
                let id = NodeId::from(id);
                let (ask, kill) = (Command::Ask(id), Command::Kill(id));
                self.commands.push_back(if node.is_lost { kill } else { ask });
            }
        }
        self.phase = Phase::Ending { next: Step::Kill, at: now + GRACE };
    }

    fn kill_all(&mut self, now: Time) {
        for (id, node) in self.nodes.iter_mut().enumerate() {
            if node.exit.is_none() {
                node.is_asked = true;
                self.commands.push_back(Command::Kill(NodeId::from(id)));
            }
        }
        self.phase = Phase::Ending { next: Step::GiveUp, at: now + KILL_PATIENCE };
    }

    /// Reports and judges nodes that have ended, once their output, which may explain the end, has
    /// been read or has taken too long.
    fn settle(&mut self, now: Time) {
        for id in 0..self.nodes.len() {
            let node = &mut self.nodes[id];
            let Some((exit, at)) = node.exit else { continue };
            if !node.is_over && (node.open_streams == 0 || at + self.patience.drain <= now) {
                node.is_over = true;
                let id = NodeId::from(id);
                self.commands.push_back(Command::TellExit(id, exit));
                self.judge(id, exit, now);
            }
        }
    }
}

const NOT_A_JOB: &str =
    "is the program linked with the `gridspan` crate, and does its main end in `gridspan::main`?";

/// Explains the exit code of `ssh`, or of the shell on the other host, by a message and a hint.
fn over_ssh(host: &str, login: &str, exit: Exit, is_starting: bool) -> Option<(String, String)> {
    Some(match exit {
        Exit::Code(255) if is_starting => (
            format!("ssh cannot start a node on host `{host}`"),
            format!("`{login} true` must work without a question"),
        ),
        Exit::Code(255) => (
            format!("the ssh connection to host `{host}` broke"),
            "check the network between this machine and the host, and whether the host still runs"
                .to_owned(),
        ),
        Exit::Code(126 | 127) if is_starting => (
            format!("host `{host}` cannot run the program"),
            "the program, and gridctl for a built-in job, must be at the same path on every host"
                .to_owned(),
        ),
        _ => return None,
    })
}

/// Returns the name of a signal, such as `SIGKILL (9)`.
fn signal_name(signal: i32) -> String {
    match signal_hook::low_level::signal_name(signal) {
        Some(name) => format!("{name} ({signal})"),
        None => format!("signal {signal}"),
    }
}

fn signal_hint(signal: i32) -> &'static str {
    match signal {
        signal_hook::consts::SIGKILL => {
            "if no user killed it, the machine ran out of memory; see `dmesg`"
        }
        signal_hook::consts::SIGABRT => advice::backtrace(),
        _ => "a debugger shows where, from its core dump; `coredumpctl debug` finds it",
    }
}

#[cfg(test)]
mod tests;
