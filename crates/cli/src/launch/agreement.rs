//! Saves the state that another launcher needs to go on with the job, and asks the keepers to agree
//! to the next run. Each node of a detached job on several hosts has a keeper (`gridspan::keeper`).

use super::child::Child;
use super::event::{Blame, Event, Exit, Outcome};
use super::keepers::{Decision, Keepers, Loss};
use super::report::Report;
use super::work::{Work, processes};
use super::{own_name, reaching};
use crate::error::{CliError, DetachedJobError};
use crate::job_folder::{Saved, Stage};
use crate::small_thread::spawn;
use gridspan::EXIT_FAILED;
use gridspan::keeper::LauncherId;
use gridspan_topology::{NodeId, Time};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

impl Work<'_> {
    /// Takes over the job of a launcher that has ended.
    pub(super) fn take_over(&mut self, saved: &Saved) {
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

    /// Saves the state for another launcher, if it has changed.
    pub(super) fn save(&mut self) {
        let Some(folder) = &self.folder else { return };
        let mut saved = self.supervisor.saved();
        saved.processes = processes(&self.children);
        saved.added = self.starter.launch().added.clone();
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
                // The same state may have been sent before the run was proposed.
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
                tracing::error!(%error, "cannot save the state that another launcher needs");
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

    /// Sends the state for another launcher to the keepers, if enough of them have accepted this
    /// launcher.
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
    pub(super) fn decide(&mut self) -> Option<Decision> {
        let now = self.now();
        let runs = self.last_saved.as_ref().map(|saved| saved.runs.as_slice()).unwrap_or_default();
        let name = |node| self.supervisor.name(node).to_owned();
        let decision = self.keepers.as_mut()?.poll(runs, name, now);
        if matches!(decision, Some(Decision::Begin(..))) {
            self.tell_witness();
        }
        decision
    }

    /// Lets the witness settle on the majority with which a run has begun. Another thread waits for
    /// its answers: the run does not need them.
    fn tell_witness(&mut self) {
        let unsettled = self.keepers.as_mut().map(Keepers::take_unsettled).unwrap_or_default();
        let (Some(witness), Some(saved)) = (self.witness.clone(), &self.last_saved) else { return };
        for (run, majority) in unsettled {
            let Some((_, members)) = saved.runs.get(run) else { continue };
            let name = |&node: &NodeId| (node, self.supervisor.name(node).to_owned());
            let names: BTreeMap<NodeId, String> = members.iter().map(name).collect();
            let (members, reports, witness) =
                (members.clone(), self.reports.clone(), witness.clone());
            let tell = move || {
                if let Some(others) = witness.tell(run, &members, &majority) {
                    let others = others.iter().filter_map(|node| names.get(node));
                    let others = crate::names::abbreviated(others.map(String::as_str));
                    let text = format!(
                        "the witness has settled on {others} before, and none of them is among the nodes \
                         with which the job goes on here: if they go on, too, end one of the two parts"
                    );
                    reports.push(Report::Warning { text });
                }
            };
            if let Err(error) = spawn("witness", tell) {
                tracing::warn!(%error, "the witness does not learn which nodes go on");
            }
        }
    }

    /// Returns when to decide if no event happens before.
    pub(super) fn agreement_due(&self) -> Option<Time> {
        self.keepers.as_ref()?.poll_timeout(self.now())
    }

    /// Asks the witness to settle on a half of the members of a run. Another thread waits for the
    /// answer, since the witness may be slow.
    pub(super) fn ask_witness(&mut self, run: usize, half: BTreeSet<NodeId>) {
        let Some(witness) = self.witness.clone() else { return };
        let runs = self.last_saved.as_ref().map(|saved| saved.runs.as_slice()).unwrap_or_default();
        let members = runs.get(run).map(|(_, members)| members.clone()).unwrap_or_default();
        let answers = self.answers.clone();
        let ask = move || {
            let half = witness.settle(run, &members, &half);
            // The launcher may have ended.
            let _ = answers.send(Event::Settled { run, half });
        };
        if let Err(error) = spawn("witness", ask) {
            self.settled(run, Err(format!("cannot start a thread: {error}")));
        }
    }

    /// Notes the answer of the witness.
    pub(super) fn settled(&mut self, run: usize, half: Result<BTreeSet<NodeId>, String>) {
        if let Err(reason) = &half {
            tracing::warn!(run, %reason, "the witness does not answer");
        }
        let now = self.now();
        if let Some(keepers) = &mut self.keepers {
            keepers.settled(run, half, now);
        }
    }

    /// Ends this launcher, which may not continue the job. The nodes have stopped; a later launcher
    /// may reach more keepers.
    pub(super) fn abandon(&mut self, reason: String) -> Outcome {
        let hint = "`gridctl attach` tries again; `--ended NODE` if you know that a node, host or \
                    site has ended for good";
        let message = format!("this launcher may not let the job go on: {reason}");
        self.abandoned =
            Some(CliError::Detached(DetachedJobError::NoQuorum { job: self.id.clone(), reason }));
        self.failed(message, hint)
    }

    fn failed(&self, message: String, hint: &str) -> Outcome {
        let runs = self.last_saved.as_ref().and_then(|saved| saved.runs.last());
        let node = runs.and_then(|(_, members)| members.first().copied()).unwrap_or(NodeId(0));
        let blame = Some(Blame { node, message, hint: Some(hint.to_owned()) });
        Outcome { code: EXIT_FAILED, is_interrupted: false, blame }
    }

    /// Declares nodes lost that could not be reached for too long, if the job can go on without
    /// them. If it cannot, they may be reached later. Returns the outcome of this launcher if
    /// another one has taken over the job.
    pub(super) fn lose_unreachable(&mut self) -> Option<Outcome> {
        let now = self.now();
        let (keepers, saved) = (self.keepers.as_mut()?, self.last_saved.as_ref()?);
        let is_connected = |node| reaching::is_connected(&self.children, node);
        let may = keepers.may_go_on_with(&saved.runs, is_connected);
        if may && self.supervisor.may_recover() {
            if reaching::is_overdue(&self.children) {
                match keepers.poll_loss(&saved.runs, is_connected, now) {
                    Loss::Now => reaching::lose_overdue(&self.children),
                    Loss::Ask(run, half) => self.ask_witness(run, half),
                    Loss::Later => {}
                }
            }
            return None;
        }
        let other = reaching::taken_over_by(&self.children, reaching::TAKEN_PATIENCE)?;
        Some(self.yield_to(&other))
    }

    /// Ends this launcher, and the nodes that `other` has not taken over, since `other` attends to
    /// the job.
    pub(super) fn yield_to(&mut self, other: &LauncherId) -> Outcome {
        reaching::end_others(&self.children);
        let by = own_name::place(&other.name).to_owned();
        let message = format!("another launcher attends to this job, on {by}");
        self.abandoned =
            Some(CliError::Detached(DetachedJobError::Attended { job: self.id.clone(), by }));
        self.failed(message, "`gridctl attach` there shows the job")
    }
}
