//! Finds the failure that ended a job, from reports of failures and the ends of processes.

use super::super::event::{Blame, Command, Exit};
use super::{Node, Phase, SETTLE, Step, Supervisor, Way};
use crate::names::abbreviated;
use gridspan::advice;
use gridspan::control::Failure;
use gridspan_topology::{NodeId, Time};

impl Supervisor {
    /// Fails the job, which has not begun in time because some nodes do not listen.
    pub(super) fn fail_silent(&mut self, now: Time) {
        let is_silent = |(_, node): &(usize, &Node)| node.address.is_none() && !node.is_left;
        let silent: Vec<(usize, &Node)> = self.nodes.iter().enumerate().filter(is_silent).collect();
        let names = abbreviated(silent.iter().map(|(_, node)| node.name.as_str()));
        let seconds = self.start_patience().as_secs_f64();
        let (message, hint) = match self.awaits_srun {
            true => {
                let name = silent.first().map_or("", |(_, node)| node.name.as_str());
                let message = format!("{name}: srun has started no task within {seconds} s");
                (message, NO_TASK.to_owned())
            }
            false => {
                let way = silent.iter().find_map(|(_, node)| node.way.as_ref());
                let message = format!("{names} did not join the job within {seconds} s");
                (message, not_joined(way))
            }
        };
        let first = silent.first().map_or(0, |(number, _)| *number);
        self.fail(NodeId::from(first), 1, message, &hint, now);
    }

    /// Translates node numbers of the present run into those of the supervisor.
    fn translated(&self, mut failure: Failure) -> Failure {
        let members = self.members();
        let process = |node: NodeId| members.get(node.index()).copied();
        failure.lost = failure.lost.iter().filter_map(|&node| process(node)).collect();
        failure.node = failure.node.and_then(process);
        failure
    }

    /// Handles the report of a node that the job has failed.
    pub(super) fn reported(&mut self, reporter: NodeId, failure: Failure, now: Time) {
        if self.recovery.is_some() && !self.left().contains(&reporter) {
            // The job goes on without it.
            return;
        }
        let mut failure = self.translated(failure);
        if failure.is_port_taken {
            failure.node = Some(reporter);
        }
        if self.is_new(reporter) {
            return self.lose_new(reporter, &failure.message, now);
        }
        if failure.is_loss() && self.may_recover() {
            // In other phases, the report is about the previous run. A node that the others have
            // given up reports its own loss, but the others decide about that.
            let is_own = self.repeats_tasks && failure.lost.contains(&reporter);
            if matches!(self.phase, Phase::Running) && !is_own {
                self.loss_reports.add(reporter, &failure.lost, &failure.message, now);
                self.believe(now);
            }
            return;
        }
        let node = &mut self.nodes[reporter.index()];
        node.has_reported = true;
        if node.is_asked {
            return;
        }
        let is_loss = failure.is_loss();
        let Failure { message, hint, node, lost, .. } = failure;
        for id in lost {
            if let Some(node) = self.nodes.get_mut(id.index())
                && !std::mem::replace(&mut node.is_lost, true)
            {
                self.losses += 1;
                self.lost.push(id);
            }
        }
        if is_loss && self.blame.is_none() {
            self.commands.push_back(Command::TellLoss(message.clone()));
        }
        // A failure without a node is most often that of main, which runs on the first member.
        let node = node.filter(|node| node.index() < self.nodes.len());
        let node = node.or(self.members().first().copied()).unwrap_or(NodeId(0));
        self.blame(is_loss, 1, Blame { node, message, hint }, now);
    }

    /// Handles the end of a process.
    pub(super) fn exited(&mut self, id: NodeId, exit: Exit, now: Time) {
        let node = &mut self.nodes[id.index()];
        node.exit = Some((exit, now));
        node.was_asked = node.is_asked;
        let was_asked = node.was_asked;
        // `settle` judges other ends once it has the output, which may explain them.
        if matches!(exit, Exit::Signal(_)) && !was_asked && self.may_recover() && !self.is_new(id) {
            self.lose_member(id, &ended(exit), now);
        }
        let is_recovering = matches!(self.phase, Phase::Recovering { .. })
            || self.is_recovering() && matches!(self.phase, Phase::Starting { .. });
        let is_member = !self.nodes[id.index()].is_left && !self.is_new(id);
        if exit == Exit::Code(0) && is_recovering && is_member {
            // The job was done before the loss; the others wait for another run.
            self.phase = Phase::Ending { next: Step::Ask, at: now + SETTLE };
        }
    }

    /// Blames a process for its end if that is a failure, unless the process was asked to end or
    /// has reported that the job failed.
    fn judge(&mut self, id: NodeId, exit: Exit, now: Time) {
        let is_starting = matches!(self.phase, Phase::Starting { .. });
        let node = &self.nodes[id.index()];
        if node.was_asked || node.has_reported || node.is_left || self.doubts.contains_key(&id) {
            return;
        }
        let name = node.name.clone();
        if self.is_new(id) {
            let known = node.way.as_ref().and_then(|way| way.explain(exit, true));
            let reason = known.map_or_else(|| ended(exit), |(message, _)| message);
            return self.lose_new(id, &reason, now);
        }
        if !matches!(exit, Exit::Code(0) | Exit::Signal(_)) && self.may_recover() {
            return self.lose_member(id, &ended(exit), now);
        }
        let way = self.nodes[id.index()].way.as_ref();
        if let Some((message, hint)) = way.and_then(|way| way.explain(exit, is_starting)) {
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
            Exit::Unknown => {
                let message = format!("{name} ended before its part of the job was done");
                self.fail(id, 1, message, "its last output may show why", now);
            }
            Exit::NotStarted | Exit::Unreachable | Exit::TakenOver => {
                let message = format!("{name} is lost: {}", ended(exit));
                self.fail(id, 1, message, "`gridctl attach` starts another launcher", now);
            }
        }
    }

    /// Reports and judges nodes that have ended, once their output, which may explain the end, has
    /// been read or has taken too long.
    pub(super) fn settle(&mut self, now: Time) {
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
        self.go_on(now);
    }
}

const NOT_A_JOB: &str =
    "is the program linked with the `gridspan` crate, and does its main end in `gridspan::main`?";

const NO_TASK: &str = "`squeue --steps` shows whether the step waits for another one of the \
                       allocation, and `srun --overlap hostname` how long a step takes; if the \
                       tasks run, their hosts must reach the launcher's host by TCP";

/// The hint for nodes that did not join, given the way to one that is not on this machine.
fn not_joined(way: Option<&Way>) -> String {
    let check = match way {
        // `gridctl check` has no `-n`, and without a place it would look at an allocation.
        None => {
            "`gridctl check --emulate 1x1`, with the same program, shows whether this machine is \
             ready"
        }
        Some(Way::Ssh { .. }) => {
            "`gridctl check`, with the same `--grid`, `--hostfile` and `--ssh` as this job and the \
             same program, shows whether the hosts are ready"
        }
        Some(Way::Srun { .. }) => {
            "`srun --overlap --label gridctl check --emulate 1x1`, with the same program, shows \
             whether each host is ready"
        }
    };
    // In each place, the program may also be no Gridspan job.
    format!(
        "{check}; `--connect-timeout` waits longer for slow hosts; the program must be linked with \
         the `gridspan` crate, and its main must end in `gridspan::main`"
    )
}

/// Says how a process ended.
pub(super) fn ended(exit: Exit) -> String {
    match exit {
        Exit::Code(code) => format!("it ended on its own with exit code {code}"),
        Exit::Signal(signal) => format!("it was killed by {}", signal_name(signal)),
        Exit::Unknown => "it ended before its part of the job was done".to_owned(),
        Exit::NotStarted => "srun did not start it".to_owned(),
        Exit::Unreachable => "its host cannot be reached".to_owned(),
        Exit::TakenOver => "another launcher attends to it".to_owned(),
    }
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
