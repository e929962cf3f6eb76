//! The end of the job: the node to blame, and the commands that end its processes.

use super::super::event::{Blame, Command};
use super::{KILL_PATIENCE, Phase, SETTLE, Step, Supervisor};
use gridspan_topology::{NodeId, Time};
use signal_hook::consts::{SIGHUP, SIGKILL, SIGPIPE};

impl Supervisor {
    pub(super) fn fail(&mut self, node: NodeId, code: u8, message: String, hint: &str, now: Time) {
        let hint = Some(hint.to_owned());
        self.blame(false, code, Blame { node, message, hint }, now);
    }

    pub(super) fn blame(&mut self, is_consequence: bool, code: u8, blame: Blame, now: Time) {
        let is_first = match &self.blame {
            None => true,
            Some((was_consequence, _)) => *was_consequence && !is_consequence,
        };
        if is_first {
            self.blame = Some((is_consequence, blame));
            self.code = code;
        }
        if matches!(self.phase, Phase::Starting { .. } | Phase::Running | Phase::Recovering { .. })
        {
            // Nodes that wait for the launcher do not end by themselves.
            let is_running = matches!(self.phase, Phase::Running);
            let settle = if is_running { self.patience.settle } else { SETTLE };
            self.phase = Phase::Ending { next: Step::Ask, at: now + settle };
        }
    }

    /// Fails the job, because one of two processes that have enrolled as a node may belong to
    /// another user.
    pub(super) fn enrolled_twice(&mut self, node: NodeId, now: Time) {
        let name = &self.nodes[node.index()].name;
        let message = format!(
            "two processes enrolled as node {name}; one of them was not started by this job"
        );
        let hint = "find out who else runs processes on the hosts of the allocation, or can read \
                    the standard input of srun, before you start the job again";
        self.fail(node, 1, message, hint, now);
    }

    /// Asks the nodes to end, or kills them at the second request.
    pub(super) fn interrupt(&mut self, signal: i32, now: Time) {
        let is_requested = self.interrupted.is_some() || self.is_stop_requested;
        if is_requested && [SIGHUP, SIGPIPE].contains(&signal) {
            // This is not another request of the user: Ctrl-C also ends the reader of the output,
            // and when a terminal vanishes, both the shell and the system send SIGHUP.
            return;
        }
        if self.interrupted.is_some() {
            self.kill_all(now);
            return;
        }
        self.interrupted = Some(signal);
        self.commands.push_back(Command::TellStopping);
        self.ask_all(now);
    }

    /// Kills all nodes at the user's request.
    pub(super) fn kill(&mut self, now: Time) {
        self.interrupted = Some(SIGKILL);
        let text = "`gridctl kill` kills all nodes";
        self.commands.push_back(Command::TellRecovery(text.to_owned()));
        self.kill_all(now);
    }

    pub(super) fn ask_all(&mut self, now: Time) {
        for (id, node) in self.nodes.iter_mut().enumerate() {
            if node.exit.is_none() && !std::mem::replace(&mut node.is_asked, true) {
                let id = NodeId::from(id);
                let (ask, kill) = (Command::Ask(id), Command::Kill(id));
                self.commands.push_back(if node.is_lost { kill } else { ask });
            }
        }
        self.phase = Phase::Ending { next: Step::Kill, at: now + self.patience.grace };
    }

    pub(super) fn kill_all(&mut self, now: Time) {
        for (id, node) in self.nodes.iter_mut().enumerate() {
            if node.exit.is_none() {
                node.is_asked = true;
                self.commands.push_back(Command::Kill(NodeId::from(id)));
            }
        }
        self.phase = Phase::Ending { next: Step::GiveUp, at: now + KILL_PATIENCE };
    }

    /// Kills processes that have left the job and do not end.
    pub(super) fn kill_late(&mut self, now: Time) {
        for (id, node) in self.nodes.iter_mut().enumerate() {
            if node.ends_until.take_if(|until| *until <= now).is_some() && node.exit.is_none() {
                self.commands.push_back(Command::Kill(NodeId::from(id)));
            }
        }
    }
}
