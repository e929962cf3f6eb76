//! The state of a launcher that attends to a job: the processes, the supervisor, and the state for
//! another launcher.
//!
//! | file | methods |
//! | --- | --- |
//! | here | those about one process, and the beginning of a run |
//! | `agreement` | save the state for another launcher, and ask the keepers of the nodes |
//! | `attending` | the loop, and the commands of the supervisor |

use super::child::Child;
use super::event::{Event, Exit, Waiting};
use super::guests::Invited;
use super::journal::Journal;
use super::keepers::Keepers;
use super::pacing::Pacing;
use super::queue::Queue;
use super::recording::Recording;
use super::report::Report;
use super::requests::Requests;
use super::starter::Starter;
use super::supervisor::Supervisor;
use super::witness::JobWitness;
use crate::error::CliError;
use crate::job_folder::{JobFolder, Saved};
use gridspan::control::Failure;
use gridspan::keeper::{LauncherId, ProcessId};
use gridspan_runtime::net::bootstrap::{Addresses, RestoreOrder};
use gridspan_topology::{NodeId, Time};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender};
use std::time::Instant;

/// A launcher that attends to a job.
pub(super) struct Work<'a> {
    pub(super) id: String,
    pub(super) starter: Starter<'a>,
    pub(super) pacing: Pacing,
    /// `None` for a process that has not been started, or is to be started again.
    pub(super) children: Vec<Option<Child>>,
    pub(super) invited: Invited,
    pub(super) supervisor: Supervisor,
    pub(super) reports: Arc<Queue<Report>>,
    pub(super) journal: Arc<Journal>,
    /// The recording of the job, if it is recorded.
    pub(super) recording: Option<Arc<Recording>>,
    pub(super) incoming: Receiver<Event>,
    pub(super) begin: Instant,
    /// Whether all output is printed, or its reader has closed it.
    pub(super) is_printed: bool,
    /// The requests of other processes; `None` if the job accepts none.
    pub(super) requests: Option<Requests>,
    /// The folder of a detached job.
    pub(super) folder: Option<JobFolder>,
    /// The state that was last saved in `folder`.
    pub(super) last_saved: Option<Saved>,
    /// Whether the last attempt to save the state has failed.
    pub(super) is_unsaved: bool,
    /// The keepers of the nodes of a job on several hosts.
    pub(super) keepers: Option<Keepers>,
    /// The place that decides between two halves of the nodes, if there is one.
    pub(super) witness: Option<JobWitness>,
    /// Sends the answers of the witness.
    pub(super) answers: Sender<Event>,
    /// This launcher, if there are keepers.
    pub(super) launcher: LauncherId,
    /// Whether enough keepers accept this launcher.
    pub(super) has_quorum: bool,
    /// The state that was last sent to the keepers, and its number.
    pub(super) sent: Option<(u64, Arc<[u8]>)>,
    /// Why this launcher ends before the job does.
    pub(super) abandoned: Option<CliError>,
    /// Whether addresses have yet to be written to members.
    pub(super) is_introducing: bool,
    /// Readers that wait until events are handled and saved.
    pub(super) waiting: Vec<Waiting>,
}

impl Work<'_> {
    pub(super) fn now(&self) -> Time {
        Time(u64::try_from(self.begin.elapsed().as_nanos()).unwrap_or(u64::MAX))
    }

    /// Adds to the recording of the job, if it is recorded.
    pub(super) fn record(&self, note: impl FnOnce(&Recording)) {
        if let Some(recording) = &self.recording {
            note(recording);
        }
    }

    /// Writes a line to the process of a node.
    pub(super) fn tell(&self, node: NodeId, line: &str) {
        self.children[node.index()].iter().for_each(|child| child.tell(line.to_owned()));
    }

    /// Fails the job because of an error of a node.
    pub(super) fn fail(&mut self, node: NodeId, error: &CliError) {
        let number = self.supervisor.number_in_run(node);
        let failure = Failure::new(&error.to_string(), error.hint().as_deref(), number);
        let now = self.now();
        self.supervisor.handle(Event::Failed { node, failure }, now);
    }

    /// Treats a node without a process as one that has ended with this exit.
    pub(super) fn end_processless(&mut self, node: NodeId, exit: Exit) {
        let now = self.now();
        self.starter.end_input(node);
        let exited = Event::Exited { node, exit };
        for event in [exited, Event::StreamEnded { node }, Event::StreamEnded { node }] {
            self.supervisor.handle(event, now);
        }
    }

    /// Cancels the start of a node that is to end, and returns its process, if it has one.
    pub(super) fn ending(&mut self, node: NodeId) -> Option<&mut Child> {
        if self.pacing.cancel(node) {
            self.end_processless(node, Exit::Code(0));
        }
        self.children[node.index()].as_mut()
    }

    /// Writes the bundle of a node, if there is one, to its process.
    pub(super) fn pass_bundle(&mut self, node: NodeId) {
        let child = self.children[node.index()].as_ref();
        let passed = child.map_or(Ok(()), |child| self.starter.pass_bundle(node, child));
        if let Err(error) = passed {
            self.fail(node, &error);
        }
    }

    /// Sends the members of the next run their bundles, and starts those without a process.
    pub(super) fn go_on(&mut self, members: &[NodeId], order: Option<&RestoreOrder>) {
        self.invited.revoke(&self.id);
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

    pub(super) fn introduce(&mut self, members: &[NodeId], addresses: &Addresses) {
        self.is_introducing = true;
        match addresses.to_line() {
            Ok(line) => members.iter().for_each(|&node| self.tell(node, &line)),
            Err(error) => tracing::error!(%error, "cannot describe the addresses"),
        }
        let guests = self.starter.take_guests();
        if let Err(error) = self.invited.invite(&self.id, guests, addresses) {
            let text = format!("no node can join this job: {error}");
            self.reports.push(Report::Warning { text });
        }
    }
}

/// The ids by which another launcher recognises the processes.
pub(super) fn processes(children: &[Option<Child>]) -> BTreeMap<NodeId, ProcessId> {
    let children = children.iter().enumerate();
    children.filter_map(|(node, child)| Some((NodeId::from(node), child.as_ref()?.id()?))).collect()
}
