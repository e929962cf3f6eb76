//! Decides when the nodes of a job learn the addresses of the others, when they must end, and which
//! of them failed first.
//!
//! # Start
//!
//! Every node reports where it listens; when all have, the supervisor introduces them: each gets
//! the addresses of all. A node has failed if it ends before that, or does not report within 30 s
//! after the last process started. While an `srun` has started no task, the limit is 300 s. The
//! user may set another limit.
//!
//! # Failure
//!
//! When a node fails, the others have a second to notice and end by themselves; then the supervisor
//! asks them to end, and five seconds later it kills them. It kills lost nodes without asking,
//! since waiting for a stopped or stuck node is useless. All nodes report the failure of a job, and
//! some of them have only lost their connection to the node that failed. Therefore the supervisor
//! blames the first report, or the first end of a process, that is not such a loss. At the user's
//! first request to end the job, it immediately asks the nodes to end; at the second, it kills
//! them. The loss of the terminal or of the reader of the output counts as a first request, never
//! as the second. Nodes of a recorded job have half a minute each time, since they then send their
//! records.
//!
//! # Recovery
//!
//! If the job has checkpoints to go back to, the loss of nodes does not end it. The supervisor
//! kills the lost nodes. Nodes that are cut off from each other report each other as lost; see
//! `loss_reports`. The remaining nodes stop, say which parts of checkpoints they have, get another
//! bundle and are introduced again; see `recovery`. If another node is lost meanwhile, the recovery
//! begins again. If nodes leave or join on request, another run of the job begins, too; see
//! `change`.
//!
//! A job of tasks may go on without a lost node that has nothing but tasks. The coordinator of the
//! tasks decides: the launcher tells the node of main that the process of a node has ended. The job
//! answers that it goes on, or that the loss has made it fail. If it has failed, the recovery
//! begins. See `losing`.
//!
//! # Diagnosis
//!
//! On request, the nodes find out what the job waits for, and the supervisor names those that do
//! not answer; see `diagnosing`.
//!
//! The supervisor performs no I/O: it takes events, returns [`Command`]s, and has time as an
//! argument.

use super::change::{Changes, Stage};
use super::diagnosing::Diagnosing;
use super::event::{Blame, Command, Event, Exit, Outcome};
use super::recovery::Runs;
use super::sampling::Sampling;
use crate::signals::exit_code;
use gridspan::control::Holdings;
use gridspan_runtime::session::crowding_factor;
use gridspan_topology::{NodeId, Time};
use loss_reports::LossReports;
use recovery_summary::RecoverySummary;
use repeating::Repeating;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::SocketAddr;
use std::time::Duration;

mod changing;
mod diagnosing;
mod ending;
mod going_on;
mod growing;
mod judging;
mod losing;
mod loss_reports;
mod members;
mod patience;
mod recovery_summary;
mod repeating;
mod sampling;
mod taking_over;
mod way;

pub(super) use way::Way;

/// Time that a node has to report where it listens: enough for a cold start from a slow disk.
const START_PATIENCE: Duration = Duration::from_secs(30);
/// Time that `srun` has to start the first task: it may wait for another step of the allocation,
/// for scripts that the site runs before tasks, and for hosts that do not answer.
const SRUN_PATIENCE: Duration = Duration::from_secs(300);
/// Time that nodes have to stop when others are lost: far longer than nearly any handler takes.
const STOP_PATIENCE: Duration = Duration::from_secs(120);
/// Time that nodes have to end by themselves after one has failed. News of the failure crosses the
/// longest link in a tenth of this time.
const SETTLE: Duration = Duration::from_secs(1);
/// Time that nodes have to end when asked to.
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
    /// Number of nodes of the grid that each process has: all of them if there is one process.
    nodes_of_process: u32,
    phase: Phase,
    interrupted: Option<i32>,
    /// The first failure, and whether it may be the consequence of another one.
    blame: Option<(bool, Blame)>,
    /// Exit code of the job: 0 until it fails.
    code: u8,
    commands: VecDeque<Command>,
    /// Whether a simulation has yet to report its end.
    awaits_simulation: bool,
    /// Times that a process has to start and to end, and that its output may take to end.
    patience: Patience,
    /// Whether there is an `srun` without an enrolled task.
    awaits_srun: bool,
    /// The runs of the job; `None` if it cannot go on after losses or with other nodes.
    recovery: Option<Recovery>,
    /// What a loss makes the job repeat.
    repeating: Repeating,
    /// Whether the job may go on without a lost node that has only tasks.
    repeats_tasks: bool,
    /// Nodes whose processes have ended, while the job decides whether it goes on without them.
    /// Each has the reason, and the time at which the recovery begins if the job has not decided.
    doubts: BTreeMap<NodeId, (String, Time)>,
    /// Kept nodes whose keepers cannot be reached, as of the last request to kill nodes.
    unreached: BTreeSet<NodeId>,
    /// Reports of losses that the launcher does not believe yet.
    loss_reports: LossReports,
    changes: Changes,
    diagnosing: Diagnosing,
    /// Time that a node has to leave after SIGTERM.
    drain_deadline: Duration,
    /// Whether checkpoints are stored in a folder.
    has_folder: bool,
    /// Whether members may not leave: guests may join, and the loss of a guest ends the job.
    is_fixed: bool,
    /// Whether the nodes have keepers, at least half of which must agree to each run.
    is_kept: bool,
    /// Whether a signal has requested the launcher to stop the job with a checkpoint.
    is_stop_requested: bool,
    /// Number of orders to stop the job so far.
    pauses: u64,
    /// Number of runs that have begun so far.
    run: u64,
    /// Number of nodes that were lost so far.
    losses: u64,
    /// The nodes that were lost since the last call of [`take_lost`](Self::take_lost).
    lost: Vec<NodeId>,
    sampling: Sampling,
}

/// The runs of the job, and the beginning of the next one.
struct Recovery {
    runs: Runs,
    on_loss: OnLoss,
    /// The parts of checkpoints of the nodes that have stopped.
    holdings: BTreeMap<NodeId, Holdings>,
    /// When the first loss of the present recovery was noticed.
    began: Time,
    /// The nodes that are started in place of lost ones, until they are introduced.
    replacing: BTreeSet<NodeId>,
    /// What the user learns when the job goes on.
    summary: RecoverySummary,
}

/// What happens when nodes are lost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum OnLoss {
    /// The job goes on with the nodes that remain.
    Shrink,
    /// Lost nodes are started again.
    Replace,
    /// The job ends, unless the node of main reports that the program makes checkpoints.
    #[default]
    AsProgram,
    /// The job ends.
    Fail,
}

impl OnLoss {
    /// Whether the job goes on after a loss.
    pub(crate) fn recovers(self) -> bool {
        matches!(self, Self::Shrink | Self::Replace)
    }
}

#[derive(Clone, Copy)]
struct Patience {
    start: Duration,
    /// To start, if the user has set it.
    start_limit: Option<Duration>,
    drain: Duration,
    /// To end by themselves after a failure.
    settle: Duration,
    /// To end after they were asked to, or have left.
    grace: Duration,
}

struct Node {
    name: String,
    /// How the launcher reaches it; `None` if it runs on this machine.
    way: Option<Way>,
    address: Option<SocketAddr>,
    exit: Option<(Exit, Time)>,
    open_streams: u8,
    /// Whether it has reported that the job failed.
    has_reported: bool,
    /// Whether other nodes have lost it. Then it cannot end by itself, since it receives nothing.
    is_lost: bool,
    /// Whether the launcher has asked it to end.
    is_asked: bool,
    /// Whether the launcher had asked it before it ended, so that its end is no failure.
    was_asked: bool,
    /// Whether the job goes on without it.
    is_left: bool,
    /// Whether it stays away after its loss, since it could not join, or had to leave.
    is_given_up: bool,
    /// Whether it has never been a member, and can take the place of a lost one.
    is_spare: bool,
    /// When its process, which has left the job, is killed if it still runs.
    ends_until: Option<Time>,
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
    /// Nodes have yet to stop and to say which parts of checkpoints they have.
    Recovering {
        until: Time,
    },
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
        let (settle, grace) = (SETTLE, GRACE);
        let (start, drain) = (START_PATIENCE, DRAIN);
        let patience = Patience { start, start_limit: None, drain, settle, grace };
        let phase = if must_meet {
            Phase::Starting { until: now + patience.start }
        } else {
            Phase::Running
        };
        Self {
            nodes: names.into_iter().map(Node::new).collect(),
            nodes_of_process: 1,
            phase,
            interrupted: None,
            blame: None,
            code: 0,
            commands: VecDeque::new(),
            awaits_simulation: false,
            patience,
            awaits_srun: false,
            recovery: None,
            repeating: Repeating::default(),
            repeats_tasks: false,
            doubts: BTreeMap::new(),
            unreached: BTreeSet::new(),
            loss_reports: LossReports::default(),
            changes: Changes::default(),
            diagnosing: Diagnosing::default(),
            drain_deadline: Duration::ZERO,
            has_folder: false,
            is_fixed: false,
            is_kept: false,
            is_stop_requested: false,
            pauses: 0,
            run: 0,
            losses: 0,
            lost: Vec::new(),
            sampling: Sampling::default(),
        }
    }

    /// Lets the job go on with other nodes, from its checkpoints. Nodes that are not members of the
    /// first run may join later.
    pub(super) fn set_recovery(&mut self, runs: Runs, on_loss: OnLoss) {
        for (id, node) in self.nodes.iter_mut().enumerate() {
            let is_spare = !runs.members().contains(&NodeId::from(id));
            (node.is_left, node.is_over, node.is_spare) = (is_spare, is_spare, is_spare);
        }
        self.recovery = Some(Recovery {
            runs,
            on_loss,
            holdings: BTreeMap::new(),
            began: Time(0),
            replacing: BTreeSet::new(),
            summary: RecoverySummary::default(),
        });
    }

    /// Sets the time that a node has to leave after SIGTERM; whether checkpoints are stored in a
    /// folder, so that SIGTERM of the launcher stops the job with one; and whether the members must
    /// stay, since guests may join and the loss of a guest ends the job.
    pub(super) fn set_draining(&mut self, deadline: Duration, has_folder: bool, is_fixed: bool) {
        self.drain_deadline = deadline;
        (self.has_folder, self.is_fixed) = (has_folder, is_fixed);
    }

    /// Notes that the nodes have keepers, so that those that join must not outnumber the members.
    pub(super) fn set_kept(&mut self) {
        self.is_kept = true;
    }

    /// Sets the number of nodes that share a core, which extends the timeouts of the start and of
    /// output.
    pub(super) fn set_crowding(&mut self, nodes_per_core: u32) {
        let factor = crowding_factor(nodes_per_core);
        let (start, drain) = (START_PATIENCE * factor, DRAIN * factor);
        // Other settings may have extended them further.
        let (start, drain) = (start.max(self.patience.start), drain.max(self.patience.drain));
        let patience = Patience { start, drain, ..self.patience };
        if let (Phase::Starting { until }, None) = (&mut self.phase, patience.start_limit) {
            *until += patience.start.saturating_sub(self.patience.start);
        }
        self.patience = patience;
    }

    /// Sets the number of nodes of the only process.
    pub(super) fn set_nodes_of_process(&mut self, nodes: u32) {
        self.nodes_of_process = nodes;
    }

    /// Expects a simulation: a process that ends without reporting one has failed.
    pub(super) fn await_simulation(&mut self) {
        self.awaits_simulation = true;
    }

    /// Sets how a node on another machine is reached.
    pub(super) fn set_way(&mut self, node: NodeId, way: Way) {
        self.nodes[node.index()].way = Some(way);
    }

    /// Sets the time that processes have to start, if it is longer than the present one.
    pub(super) fn set_start_patience(&mut self, patience: Duration) {
        if let (Phase::Starting { until }, None) = (&mut self.phase, self.patience.start_limit) {
            *until += patience.saturating_sub(self.patience.start);
        }
        self.patience.start = self.patience.start.max(patience);
    }

    /// Sets the kept nodes whose keepers cannot be reached. Their processes cannot be killed now.
    pub(super) fn set_unreached(&mut self, nodes: BTreeSet<NodeId>) {
        self.unreached = nodes;
    }

    /// Takes the nodes that were lost since the last call.
    pub(super) fn take_lost(&mut self) -> Vec<NodeId> {
        std::mem::take(&mut self.lost)
    }

    pub(super) fn name(&self, node: NodeId) -> &str {
        &self.nodes[node.index()].name
    }

    pub(super) fn handle(&mut self, event: Event, now: Time) {
        match event {
            // In other phases the address is obsolete: the node sent it before it learned that it
            // must stop.
            Event::Listening { node, address } if matches!(self.phase, Phase::Starting { .. }) => {
                self.nodes[node.index()].address.get_or_insert(address);
                self.introduce(now);
            }
            Event::Failed { node, failure } => self.reported(node, failure, now),
            Event::Holds { node, holdings } => self.note_holdings(node, holdings),
            Event::Paused(pause) => self.paused(&pause, now),
            Event::Checkpointed { checkpoint, age, pace } => {
                // A report of the run before may be late.
                let text = self.repeating.completed(checkpoint, age, now, self.is_running());
                let pace = pace.and_then(|pace| self.repeating.paced(pace));
                self.commands.extend(text.into_iter().chain(pace).map(Command::TellRecovery));
            }
            Event::CopiesRemade(report) => {
                let is_running = self.is_running();
                let text = is_running.then(|| self.repeating.remade(report.checkpoint, now));
                self.commands.extend(text.flatten().map(Command::TellRecovery));
            }
            Event::Recovers => self.recover_as_program(),
            Event::RepeatsTasks => self.repeats_tasks = true,
            Event::Tolerated(loss) => {
                if self.tolerate(loss) {
                    self.refuse_all_changes(now);
                }
            }
            Event::Leaving { node } => self.leave_on_signal(node, now),
            Event::Unchangeable { reason } => self.refuse_changes(&reason, now),
            Event::Requested { id, request } => self.request(id, request, now),
            Event::Awake { node, number, silent } => {
                self.diagnosing.note_awake(node, number, &silent);
                self.go_on_with_diagnosis(now);
            }
            Event::Diagnosed { number, diagnosis } => {
                self.diagnosing.note_found(number, *diagnosis);
                self.go_on_with_diagnosis(now);
            }
            Event::Sampled { number, sample } => self.sampled(number, sample),
            Event::Simulated => self.awaits_simulation = false,
            Event::StreamEnded { node } => {
                let node = &mut self.nodes[node.index()];
                node.open_streams = node.open_streams.saturating_sub(1);
            }
            Event::Exited { node, exit } => self.exited(node, exit, now),
            Event::Interrupted { signal } if self.stops_with_checkpoint(signal) => self.stop(now),
            Event::Interrupted { signal } => self.interrupt(signal, now),
            Event::OutputFailed => {
                let message = "the output cannot be written".to_owned();
                self.fail(NodeId(0), 1, message, "make room, or send it elsewhere", now);
            }
            Event::EnrolledTwice { node } => self.enrolled_twice(node, now),
            Event::TaskRefused { nodes, reason } => self.task_refused(nodes, &reason, now),
            Event::Listening { .. }
            | Event::Enrolled { .. }
            | Event::ChildrenChanged
            | Event::Written
            | Event::Saved { .. }
            | Event::Settled { .. }
            | Event::BridgeChanged
            | Event::Read(_)
            | Event::Printed
            | Event::StopWanted
            | Event::ConnectionDropped { .. } => {}
        }
        self.settle(now);
    }

    /// Returns when to call [`handle_timeout`](Self::handle_timeout) if no event happens before.
    pub(super) fn poll_timeout(&self) -> Option<Time> {
        let phase = match self.phase {
            Phase::Starting { until } | Phase::Recovering { until } => Some(until),
            Phase::Ending { at, .. } => Some(at),
            Phase::Running | Phase::GivenUp => None,
        };
        let drains = self.nodes.iter().filter(|node| !node.is_over);
        let drains = drains.filter_map(|node| Some(node.exit?.1 + self.patience.drain));
        let ends = self.nodes.iter().filter_map(|node| node.ends_until);
        let doubts = self.doubts.values().map(|(_, until)| *until);
        let due = drains.chain(phase).chain(ends).chain(doubts).chain(self.loss_reports.due());
        due.chain(self.change_due()).chain(self.diagnosis_due()).min()
    }

    pub(super) fn handle_timeout(&mut self, now: Time) {
        self.expire_changes(now);
        self.go_on_with_diagnosis(now);
        self.kill_late(now);
        self.end_doubts(now);
        self.believe_late(now);
        match self.phase {
            Phase::Starting { until } if until <= now && self.is_recovering() => {
                let is_silent = |node: &NodeId| self.nodes[node.index()].address.is_none();
                let silent: Vec<NodeId> = self.left().into_iter().filter(is_silent).collect();
                for node in silent {
                    let patience = self.start_patience();
                    let reason = match self.awaits_srun {
                        true => format!("srun did not start it within {patience:?}"),
                        false => format!("it did not start within {patience:?}"),
                    };
                    self.lose_in_recovery(node, &reason, now);
                }
            }
            Phase::Starting { until } if until <= now => self.fail_silent(now),
            Phase::Recovering { until } if until <= now => {
                // A node that does not stop is inside a handler, or hangs.
                let stopped = self.recovery.as_ref().map(|it| &it.holdings);
                let is_late = |node: &NodeId| stopped.is_none_or(|it| !it.contains_key(node));
                let late: Vec<NodeId> = self.left().into_iter().filter(is_late).collect();
                if late.is_empty() {
                    // All have stopped, so the recovery waits for the end of a lost node, which is
                    // to be started again.
                    let lost = self.members().into_iter();
                    let lost = lost.filter(|node| !self.nodes[node.index()].is_over);
                    let lost: Vec<NodeId> = lost.collect();
                    let node = lost.first().copied().unwrap_or(NodeId(0));
                    self.give_up_recovery(node, "its process does not end", now);
                }
                for node in late {
                    let reason = format!("it did not stop within {STOP_PATIENCE:?}");
                    self.lose_in_recovery(node, &reason, now);
                }
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
            let code = exit_code(signal);
            return Some(Outcome { code, is_interrupted: true, blame: None });
        }
        let blame = self.blame.clone().map(|(_, blame)| blame);
        Some(Outcome { code: self.code, is_interrupted: false, blame })
    }

    /// Number of nodes that were lost.
    pub(super) fn losses(&self) -> u64 {
        self.losses
    }

    fn introduce(&mut self, now: Time) {
        let members = self.members();
        let address = |node: &NodeId| self.nodes[node.index()].address;
        if matches!(self.phase, Phase::Starting { .. })
            && let Some(addresses) = members.iter().map(address).collect()
        {
            self.phase = Phase::Running;
            self.run += 1;
            let number = members.len();
            self.commands.push_back(Command::Introduce(members, addresses));
            self.note_begun(now);
            if let Some(recovery) = &mut self.recovery {
                recovery.replacing.clear();
            }
            if let Some(recovery) = self.recovery.as_mut().filter(|it| !it.holdings.is_empty()) {
                recovery.holdings.clear();
                let seconds = now.since(recovery.began).as_secs_f64();
                let nodes = if number == 1 { "node goes" } else { "nodes go" };
                let since = match self.changes.stage {
                    Stage::GoesOn => "the job stopped",
                    _ => "the loss was noticed",
                };
                let on = format!("{number} {nodes} on, {seconds:.2} s after {since}");
                let summary = std::mem::take(&mut recovery.summary).text();
                let text = summary.into_iter().chain([on]).collect::<Vec<_>>().join("; ");
                self.commands.push_back(Command::TellRecovery(text));
            }
            self.end_change();
        }
    }

    fn is_running(&self) -> bool {
        matches!(self.phase, Phase::Running)
    }

    /// Notes that the present run begins.
    fn note_begun(&mut self, now: Time) {
        let checkpoint = self.recovery.as_ref().map_or(0, |it| it.runs.checkpoint());
        self.repeating.begun(checkpoint, now);
    }
}

#[cfg(test)]
mod tests;
