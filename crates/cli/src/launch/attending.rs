//! The loop of a launcher: feeds events to the supervisor, and carries out its commands.

use super::child::Child;
use super::event::{Command, Event, Exit, Outcome};
use super::keepers::Decision;
use super::pacing::Retry;
use super::printer::await_printed;
use super::reaching;
use super::recording::{Lacking, Recording};
use super::report::{FirstFailure, Report};
use super::work::Work;
use crate::request::{Answer, JobEventKind, Request};
use crate::signals;
use gridspan_runtime::net::NodePublicKey;
use gridspan_runtime::net::bootstrap::{Addresses, LEAVE, RECOVER, diagnose_line};
use gridspan_topology::{NodeId, Time};
use std::sync::mpsc::RecvTimeoutError;
use std::time::Duration;

/// Time that an interrupted launcher waits for the reader of its output, which may have stopped
/// reading.
const INTERRUPTED_PATIENCE: Duration = Duration::from_millis(500);

impl Work<'_> {
    /// Attends to the processes until all have ended.
    pub(super) fn attend(&mut self) -> Outcome {
        loop {
            // One signal may announce the ends of several processes.
            self.notice_exits();
            while let Some(node) = self.pacing.poll(self.now()) {
                self.start(node);
            }
            if let Err(error) = self.starter.launch_tasks() {
                // `notice_exits` finds the tasks that ended with this error.
                self.reports.push(Report::Warning { text: error.to_string() });
            }
            self.supervisor.await_srun(self.starter.awaits_srun(), self.now());
            let lost = self.supervisor.take_lost();
            self.record(|recording| recording.note_lost(&lost));
            while let Some(command) = self.supervisor.poll_command() {
                self.carry_out(command);
            }
            if let Some(outcome) = self.supervisor.outcome() {
                // A failure here does not count if another launcher has taken over the job.
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
                    // Too few keepers may agree because they have accepted another launcher.
                    let other = reaching::taken_over_by(&self.children, Duration::ZERO);
                    return match other {
                        Some(other) => self.yield_to(&other),
                        None => self.abandon(reason),
                    };
                }
                Some(Decision::Ask(run, half)) => self.ask_witness(run, half),
                None => {}
            }
            if let Some(outcome) = self.lose_unreachable() {
                return outcome;
            }
            self.await_event();
        }
    }

    /// Waits until an event happens or something is due, and handles it.
    fn await_event(&mut self) {
        let paced = self.pacing.poll_timeout(self.now());
        let overdue = reaching::time_until_overdue(&self.children);
        let overdue = overdue.map(|time| self.now() + time);
        let due = [self.supervisor.poll_timeout(), paced, self.agreement_due(), overdue];
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
            Ok(Event::Settled { run, half }) => self.settled(run, half),
            Ok(Event::Enrolled { node, key }) => self.enrol(node, key),
            Ok(event) => self.handle(event, now),
            Err(_) => {
                for event in self.pacing.handle_timeout(now) {
                    self.pass_on(event, now);
                }
                self.supervisor.handle_timeout(now);
            }
        }
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
            Event::Requested { id, request } => match self.admit(id, request) {
                Ok(event) => event,
                Err(reason) => {
                    let answer = Answer::Refused(reason);
                    return self.requests.iter().for_each(|requests| requests.answer(id, &answer));
                }
            },
            event => event,
        };
        if matches!(&event, Event::Requested { request: Request::KillNodes { .. }, .. }) {
            self.supervisor.set_unreached(reaching::unreached(&self.children));
        }
        let (events, retry) = self.pacing.handle(event, now);
        if let Some(Retry { node, entry, pause, number, of }) = retry {
            self.children[node.index()] = None;
            let name = self.supervisor.name(node);
            let text = format!(
                "{name}: `{entry}` dropped the ssh connection; opening it again in {pause:?} ({number} of {of})"
            );
            self.reports.push(Report::Warning { text });
        }
        events.into_iter().for_each(|event| self.pass_on(event, now));
    }

    /// Passes an event to the supervisor. A process that has ended takes no more input. If the
    /// pacing starts a process again over a new connection, it drops the `Exited` event.
    fn pass_on(&mut self, event: Event, now: Time) {
        if let Event::Exited { node, .. } = event {
            self.starter.end_input(node);
        }
        self.supervisor.handle(event, now);
    }

    /// Stops all processes and the launcher until the launcher is continued. If nodes run on other
    /// hosts, only warns.
    fn stop(&mut self) {
        if self.starter.is_elsewhere() {
            let text = "a job with nodes on other hosts cannot be stopped: those would consider this machine lost";
            return self.reports.push(Report::Warning { text: text.to_owned() });
        }
        self.children.iter().flatten().for_each(Child::stop);
        signals::stop();
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

    /// Sends the bundle to a node whose task has enrolled.
    fn enrol(&mut self, node: NodeId, key: NodePublicKey) {
        self.starter.enrolled(node, key);
        self.supervisor.started(self.now());
        self.pass_bundle(node);
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
            Command::TellLost(node, notice) => match notice.to_line() {
                Ok(line) => self.tell(node, &line),
                Err(error) => tracing::error!(%error, "cannot tell of the loss"),
            },
            Command::Diagnose(node, number) => self.tell(node, &diagnose_line(number)),
            Command::Sample(node, order) => match order.to_line() {
                Ok(line) => self.tell(node, &line),
                Err(error) => tracing::error!(%error, "cannot ask for a sample"),
            },
            Command::TellObserved(id, sample, losses, run) => {
                let observed = self.journal.observed(sample, losses, run);
                let answer = Answer::Observed(Box::new(observed));
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
            Command::Kill(node) => {
                // If its host is cut off, its end may be noticed late.
                self.starter.end_input(node);
                self.ending(node).into_iter().for_each(Child::kill);
            }
            Command::TellExit(node, exit) => {
                self.record(|recording| recording.note_exit(node, exit));
                self.reports.push(Report::exited(node, exit));
            }
            Command::TellLoss(text) => {
                self.journal.note(JobEventKind::Membership, &text);
                self.reports.push(Report::Loss { text });
            }
            Command::TellStopping => self.reports.push(Report::Stopping),
        }
    }

    /// Reports the outcome, waits until all is printed, and returns the exit code. If the user
    /// requested the end, waits for at most [`INTERRUPTED_PATIENCE`] after each event.
    pub(super) fn conclude(&mut self, outcome: Outcome) -> u8 {
        // If this launcher was abandoned, the job may go on, and this is not its exit code.
        if let Some(requests) = self.requests.take().filter(|_| self.abandoned.is_none()) {
            requests.end(outcome.code);
        }
        if let Some(recording) = &self.recording {
            let failure = outcome.blame.as_ref().map(|blame| blame.message.as_str());
            let folder = recording.folder().display().to_string();
            self.reports.push(match recording.end(outcome.code, failure) {
                Ok(Lacking { missing, partial, events: (dropped_events, events) }) => {
                    Report::Recorded { folder, missing, partial, dropped_events, events }
                }
                Err(error) => {
                    let text = format!("the recording in {folder} is not complete: {error}");
                    Report::Warning { text }
                }
            });
        }
        let children = &self.children;
        // A single process runs all nodes.
        let last =
            |node: NodeId| children.get(node.index()).or(children.last()).and_then(Option::as_ref);
        let failure = outcome.blame.map(|blame| FirstFailure {
            stderr: last(blame.node).map(Child::last_lines).unwrap_or_default(),
            node: blame.node,
            message: blame.message,
            hint: blame.hint,
        });
        let seconds = self.begin.elapsed().as_secs_f64();
        let (exit_code, lost_nodes) = (outcome.code, self.supervisor.losses());
        self.reports.push(Report::Finished { exit_code, seconds, failure, lost_nodes });
        self.reports.close();
        let patience = if outcome.is_interrupted { INTERRUPTED_PATIENCE } else { Duration::MAX };
        if !self.is_printed {
            await_printed(&self.incoming, patience);
        }
        self.note_end(outcome.code);
        // The connections to tasks end first.
        self.children.clear();
        self.starter.end_tasks();
        outcome.code
    }

    /// Notes in the folder that the job has ended, and then lets the keepers forget its nodes,
    /// unless another launcher may need the state.
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
