//! What another launcher needs to attend to a detached job, and how it begins.
//!
//! A running job goes on undisturbed, but forgets requests to change its nodes. If a recovery or a
//! change of its nodes was under way when its launcher ended, the new launcher asks all members
//! which parts of checkpoints they have, and the job goes back to the last checkpoint. The new
//! launcher stops a job that was to stop, and ends a job whose first run had not begun, or that was
//! ending.

use super::super::event::{Blame, Command};
use super::{Node, Phase, STOP_PATIENCE, Step, Supervisor};
use crate::job_folder::{Saved, Stage};
use gridspan_topology::{NodeId, Time};
use signal_hook::consts::SIGTERM;

impl Supervisor {
    /// What another launcher needs, except for the processes.
    pub(in super::super) fn saved(&self) -> Saved {
        let stage = match self.phase {
            Phase::Starting { .. } if !self.is_recovering() => Stage::Starting,
            // The node of main says when the job has stopped.
            Phase::Running => Stage::Running,
            Phase::Ending { .. } | Phase::GivenUp => Stage::Ending,
            _ => Stage::Changing,
        };
        let nodes = |is_one: fn(&Node) -> bool| {
            let nodes = self.nodes.iter().enumerate().filter(|(_, node)| is_one(node));
            nodes.map(|(id, _)| NodeId::from(id)).collect()
        };
        let mut saved = Saved {
            stage,
            is_stopping: self.interrupted.is_some() || self.changes.will_stop(),
            left: self.left(),
            given_up: nodes(|node| node.is_given_up),
            spares: nodes(|node| node.is_spare),
            pauses: self.pauses,
            ..Saved::default()
        };
        if let Some(recovery) = &self.recovery {
            recovery.runs.save(&mut saved);
            saved.recovers = recovery.on_loss.recovers();
        }
        saved
    }

    /// Begins to attend to the job of a launcher that has ended. Call [`Self::set_recovery`]
    /// before.
    pub(in super::super) fn take_over(&mut self, saved: &Saved, now: Time) {
        for (id, node) in self.nodes.iter_mut().enumerate() {
            let id = NodeId::from(id);
            let is_left = saved.left.contains(&id);
            (node.is_left, node.is_over) = (!is_left, !is_left);
            node.is_given_up = saved.given_up.contains(&id);
            node.is_spare = saved.spares.contains(&id);
        }
        self.pauses = saved.pauses;
        if saved.recovers {
            self.recover_as_program();
        }
        self.phase = Phase::Running;
        let text = "the launcher of this job has ended; this one attends to it now";
        self.commands.push_back(Command::TellRecovery(text.to_owned()));
        match saved.stage {
            Stage::Running if saved.is_stopping && self.has_folder => self.stop(now),
            _ if saved.is_stopping => self.interrupt(SIGTERM, now),
            Stage::Running => {}
            Stage::Changing => {
                let left = self.left();
                self.commands.extend(left.into_iter().map(Command::Recover));
                if let Some(recovery) = &mut self.recovery {
                    recovery.began = now;
                }
                self.phase = Phase::Recovering { until: now + STOP_PATIENCE };
            }
            Stage::Starting | Stage::Ending => {
                let when = match saved.stage {
                    Stage::Starting => "before the job had begun",
                    _ => "while the job was ending",
                };
                let node = self.members().first().copied().unwrap_or(NodeId(0));
                let message = format!("the launcher ended {when}");
                self.blame(false, 1, Blame { node, message, hint: None }, now);
                self.phase = Phase::Ending { next: Step::Ask, at: now };
            }
        }
    }
}
