//! Reads the output of a process: passes on its lines, and acts on its control lines.

use super::event::{CheckpointPace, Event, Waiting};
use super::followed::Source;
use super::input_flow::InputFlow;
use super::journal::Journal;
use super::known::Known;
use super::lines::{LineSplitter, Tail};
use super::queue::Queue;
use super::recording::Recording;
use super::report::{Report, Stream};
use crate::request::JobEventKind;
use gridspan::control::{self, Control, OutputDemux, OutputItem};
use gridspan_runtime::net::bootstrap::listening_address;
use gridspan_topology::NodeId;
use std::io;
use std::mem;
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, PoisonError};

/// Number of bytes read at once.
const READ_BYTES: usize = 32 << 10;
/// Largest number of control lines of a process that are not [`FREQUENT`], such as its failure and
/// the summary of its simulation. Further ones are treated as output. Frequent lines have no limit:
/// most of their reports wait for space in the queue, as output does.
const CONTROLS_MAX: u32 = 8;
/// Beginnings of the frequent control lines, after the mark: about standard input, samples,
/// recordings, builds, diagnoses, broadcasts, links, moves, guests, warnings, checkpoints, the
/// recovery from losses, changes of the nodes, and the progress of a simulation.
const FREQUENT: [&[u8]; 21] = [
    b"{\"build\"",
    b"{\"processors\"",
    b"{\"input-taken\"",
    b"{\"sampled\"",
    b"{\"recorded\"",
    b"{\"awake\"",
    b"{\"diagnosed\"",
    b"{\"checkpoint\"",
    b"{\"copies-remade\"",
    b"{\"broadcast\"",
    b"{\"links\"",
    b"{\"balanced\"",
    b"{\"guest\"",
    b"{\"warning\"",
    b"{\"paused\"",
    b"{\"unchangeable\"",
    b"{\"tolerated\"",
    b"{\"simulating\"",
    b"\"leaving\"",
    HOLDS,
    b"listening ",
];
/// The beginning of the control line with the parts of checkpoints that a node has.
const HOLDS: &[u8] = b"{\"holds\"";
/// Prefixes of the lines in which OpenSSH reports that the other side closed a connection before it
/// could authenticate.
const DROPPED: [&str; 3] =
    ["kex_exchange_identification: ", "ssh_exchange_identification: ", "banner exchange: "];

/// Whether `ssh` reports a dropped connection that a retry may open.
fn was_dropped(line: &[u8]) -> bool {
    DROPPED.iter().any(|begin| line.starts_with(begin.as_bytes()))
}

/// Whether a control line holds for the whole job. The others are about one run of the job, which
/// may be over.
fn is_lasting(text: &[u8]) -> bool {
    matches!(Control::parse(text), Some(Control::Done | Control::Recovers))
}

/// The origin of output: the process of one node.
#[derive(Clone, Copy, Debug)]
pub(super) struct Origin {
    pub(super) node: NodeId,
    /// Address at which others reach the node; `None` if it runs on this machine.
    pub(super) address: Option<IpAddr>,
}

/// Destinations of a process's output.
#[derive(Clone)]
pub(super) struct Outlets {
    /// Events for the supervisor.
    pub(super) events: Sender<Event>,
    /// Reports for the user.
    pub(super) reports: Arc<Queue<Report>>,
    /// The known links of the job.
    pub(super) known: Arc<Known>,
    /// The last events of the job.
    pub(super) journal: Arc<Journal>,
    /// The recording of the job, if it is recorded.
    pub(super) recording: Option<Arc<Recording>>,
    /// The standard input on its way to nodes, if it is forwarded.
    pub(super) input: Option<Arc<InputFlow>>,
}

/// Reads one output stream of a process.
pub(super) struct Reader {
    pub(super) origin: Origin,
    pub(super) outlets: Outlets,
    /// The last lines of standard error; `None` for standard output.
    pub(super) tail: Option<Arc<Mutex<Tail>>>,
    /// Whether the node has said that its part of the job is done.
    pub(super) is_done: Arc<AtomicBool>,
    /// Whether the launcher must have handled and saved events before a line counts as read.
    pub(super) is_saved: bool,
    /// Dropped by each reader of a process at the end of its stream.
    pub(super) is_read: Option<Arc<()>>,
    /// Separates control lines from output.
    pub(super) demux: OutputDemux,
    /// Number of control lines so far, without frequent ones.
    pub(super) controls: u32,
    /// Whether the next line is old: an earlier launcher has acted on it, or should have.
    pub(super) is_old: bool,
}

impl Reader {
    /// Reads the stream to its end.
    pub(super) fn read(mut self, from: impl Source) {
        self.pass_on(from);
        self.is_read = None;
        // The launcher may have ended already.
        let _ = self.outlets.events.send(Event::StreamEnded { node: self.origin.node });
    }

    /// Passes on the lines of a stream that may end before the process.
    pub(super) fn pass_on(&mut self, mut from: impl Source) {
        let mut splitter = LineSplitter::default();
        let mut buffer = vec![0; READ_BYTES];
        loop {
            match from.read(&mut buffer) {
                Ok(0) => break,
                Ok(read) => {
                    let is_old = from.is_old();
                    if splitter.pending() == 0 {
                        self.is_old = is_old;
                    }
                    splitter.push(&buffer[..read], &mut |line| {
                        self.line(line);
                        self.is_old = is_old;
                    });
                    if from.is_noted() {
                        self.note_position(&mut from, splitter.pending());
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => break,
            }
        }
        splitter.finish(&mut |line| self.line(line));
        self.pass_on_unfinished();
    }

    /// Notes where another launcher would go on, unless that is inside a control line.
    fn note_position(&mut self, from: &mut impl Source, pending: usize) {
        // Another launcher must still find the line that says that the node is done.
        let is_over = self.tail.is_none() && self.is_done.load(Ordering::Acquire);
        if !is_over && !self.demux.is_inside_control() {
            self.pass_on_unfinished();
            from.note(pending);
        }
    }

    fn line(&mut self, line: &[u8]) {
        match &self.tail {
            None => self.stdout_line(line),
            Some(tail) => {
                if self.origin.address.is_some() && was_dropped(line) {
                    let node = self.origin.node;
                    // The launcher may have ended already.
                    let _ = self.outlets.events.send(Event::ConnectionDropped { node });
                }
                tail.lock().unwrap_or_else(PoisonError::into_inner).push(line);
                self.output(Stream::Stderr, line);
            }
        }
    }

    /// Acts on the control line that a line of standard output completes, or passes on the line.
    fn stdout_line(&mut self, line: &[u8]) {
        let mut demux = mem::take(&mut self.demux);
        demux.line(line, &mut |item| self.item(item));
        self.demux = demux;
    }

    /// Passes on the part of an unfinished line that the program has printed.
    fn pass_on_unfinished(&mut self) {
        let mut demux = mem::take(&mut self.demux);
        demux.pass_on(&mut |item| self.item(item));
        self.demux = demux;
    }

    fn item(&mut self, item: OutputItem<'_>) {
        match item {
            OutputItem::Line(line) => {
                self.record(|recording| recording.note_output(line));
                self.output(Stream::Stdout, line);
            }
            OutputItem::Control(line) => {
                if line[control::MARK.len()..].starts_with(HOLDS) {
                    // Another run of the job begins.
                    self.controls = 0;
                }
                if !(self.may_control(line) && self.control(line)) {
                    self.output(Stream::Stdout, line);
                }
            }
        }
    }

    /// Counts a control line, unless it is frequent. Returns whether control lines are still
    /// accepted.
    fn may_control(&mut self, line: &[u8]) -> bool {
        let text = &line[control::MARK.len()..];
        let is_frequent = FREQUENT.iter().any(|begin| text.starts_with(begin));
        self.controls += u32::from(!is_frequent);
        is_frequent || self.controls <= CONTROLS_MAX
    }

    /// Acts on a control line. Returns false if it is malformed.
    fn control(&self, line: &[u8]) -> bool {
        let text = &line[control::MARK.len()..];
        if self.is_old && !is_lasting(text) {
            return true;
        }
        if let Some(event) = self.listening(line) {
            self.send(event);
            return true;
        }
        let Some(control) = Control::parse(text) else { return false };
        let Some(control) = self.note(control) else { return true };
        let Some(event) = self.event_of(control) else { return false };
        self.send(event);
        true
    }

    /// The event that the node listens, if the line reports that.
    fn listening(&self, line: &[u8]) -> Option<Event> {
        let node = self.origin.node;
        let mut address = str::from_utf8(line).ok().and_then(listening_address)?;
        if let Some(host) = self.origin.address.filter(|_| address.ip().is_unspecified()) {
            address.set_ip(host);
        }
        self.outlets.reports.push(Report::Listening { node, address });
        Some(Event::Listening { node, address })
    }

    /// Acts on a control that is not for the supervisor. Returns any other.
    fn note(&self, control: Control) -> Option<Control> {
        match control {
            Control::Done => self.is_done.store(true, Ordering::Release),
            Control::Build(build) => {
                self.record(|recording| recording.note_build(self.origin.node, build));
            }
            Control::Processors { cpus, quota } => {
                self.record(|recording| recording.note_processors(self.origin.node, &cpus, quota));
            }
            Control::Recorded(part) => {
                self.record(|recording| recording.add(self.origin.node, &part));
            }
            Control::Links(links) => {
                self.record(|recording| recording.note_links(&links));
                for report in self.outlets.known.learn(links) {
                    self.outlets.reports.push_waiting(report, 0);
                }
            }
            Control::Warning(warning) => {
                let text = warning.to_string();
                self.record(|recording| recording.note_warning(&text));
                self.outlets.journal.note(JobEventKind::Warning, &text);
                let bytes = text.len();
                self.outlets.reports.push_waiting(Report::Warning { text }, bytes);
            }
            Control::Balanced(report) => {
                self.record(|recording| recording.note_balanced(&report));
                self.outlets.journal.note_rebalance(&report);
                self.outlets.reports.push_waiting(Report::Balanced(report), 0);
            }
            Control::InputTaken { number, taken, is_closed } => {
                if let Some(input) = &self.outlets.input {
                    input.taken(self.origin.node, number, taken, is_closed);
                }
            }
            // The user gets no report of each; programs that embed a job do.
            Control::Checkpoint(report) => {
                self.record(|recording| recording.note_checkpoint(&report));
                let (checkpoint, age) = (report.number, report.stored);
                let cost = report.stopped.saturating_add(report.work);
                let time_to_loss = report.time_to_loss;
                let pace = report.next_after;
                let pace = pace.map(|next_after| CheckpointPace { next_after, cost, time_to_loss });
                // The launcher may have ended already. Another one does not need this event.
                let _ = self.outlets.events.send(Event::Checkpointed { checkpoint, age, pace });
            }
            Control::CopiesRemade(report) => {
                let _ = self.outlets.events.send(Event::CopiesRemade(report));
            }
            Control::Broadcast(report) => {
                self.record(|recording| recording.note_broadcast(&report));
            }
            Control::Simulating { virtual_ns, events } => {
                let report = Report::Simulating { virtual_ns, events };
                self.outlets.reports.push_waiting(report, 0);
            }
            Control::Guest(event) => {
                self.outlets.journal.note(JobEventKind::Guest, &event.to_string());
                self.outlets.reports.push_waiting(Report::Guest(event), 0);
            }
            other => return Some(other),
        }
        None
    }

    /// The event for the supervisor that a control means; `None` for a control that no node sends.
    fn event_of(&self, control: Control) -> Option<Event> {
        let node = self.origin.node;
        Some(match control {
            Control::Failed(failure) => Event::Failed { node, failure },
            Control::Holds(holdings) => Event::Holds { node, holdings },
            Control::Paused(pause) => Event::Paused(pause),
            Control::Recovers => Event::Recovers,
            Control::RepeatsTasks => Event::RepeatsTasks,
            Control::Tolerated(loss) => Event::Tolerated(loss),
            Control::Leaving => Event::Leaving { node },
            Control::Unchangeable(reason) => Event::Unchangeable { reason },
            Control::Awake { number, silent } => Event::Awake { node, number, silent },
            Control::Diagnosed { number, diagnosis } => {
                Event::Diagnosed { number, diagnosis: Box::new(diagnosis) }
            }
            Control::Sampled { number, sample } => Event::Sampled { number, sample },
            Control::Simulated(summary) => {
                self.record(|recording| recording.note_simulated(&summary));
                self.outlets.reports.push(Report::Simulated(summary));
                Event::Simulated
            }
            _ => return None,
        })
    }

    /// Sends an event to the supervisor. Waits until it is handled, if it must be saved.
    fn send(&self, event: Event) {
        // The launcher may have ended already.
        let _ = self.outlets.events.send(event);
        if self.is_saved {
            let (waiting, handled) = Waiting::new();
            let _ = self.outlets.events.send(Event::Read(waiting));
            // Nothing is sent; the channel ends when the event is handled.
            let _ = handled.recv();
        }
    }

    /// Adds to the recording of the job, if it is recorded.
    fn record(&self, note: impl FnOnce(&Recording)) {
        if let Some(recording) = &self.outlets.recording {
            note(recording);
        }
    }

    fn output(&self, stream: Stream, line: &[u8]) {
        let report = Report::Output { node: self.origin.node, stream, text: line.to_vec() };
        self.outlets.reports.push_waiting(report, line.len());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gridspan::control::MARK;
    use gridspan_topology::GridSpec;
    use std::io::Write;
    use std::sync::mpsc::channel;

    /// A reader of the standard output of a process.
    fn reader(events: Sender<Event>, reports: Arc<Queue<Report>>) -> Reader {
        let outlets = Outlets {
            events,
            reports,
            known: Arc::new(Known::new(GridSpec::single(1), false, None)),
            journal: Arc::new(Journal::new()),
            recording: None,
            input: None,
        };
        Reader {
            origin: Origin { node: NodeId(0), address: None },
            outlets,
            tail: None,
            is_done: Arc::default(),
            is_saved: false,
            is_read: None,
            demux: OutputDemux::default(),
            controls: 0,
            is_old: false,
        }
    }

    #[test]
    fn the_progress_of_a_simulation_is_no_output_however_long_it_takes() {
        const SECONDS: u64 = 3 * CONTROLS_MAX as u64;
        let (events, _incoming) = channel();
        let reports = Arc::new(Queue::new());
        let mut reader = reader(events, reports.clone());
        let (from, mut to) = io::pipe().unwrap();
        for second in 0..SECONDS {
            Control::Simulating { virtual_ns: second, events: 64 }.print(&mut to).unwrap();
        }
        writeln!(to, "the result").unwrap();
        drop(to);

        reader.pass_on(from);

        let mut passed_on = vec![];
        assert!(reports.take(&mut passed_on));
        let (last, others) = passed_on.split_last().unwrap();
        assert!(matches!(last, Report::Output { text, .. } if text == b"the result"));
        assert_eq!(others.len() as u64, SECONDS);
        assert!(others.iter().all(|report| matches!(report, Report::Simulating { .. })));
    }

    #[test]
    fn all_losses_that_a_job_tolerates_are_noticed_however_many_there_are() {
        const LOSSES: u32 = 3 * CONTROLS_MAX;
        let (events, incoming) = channel();
        let mut reader = reader(events, Arc::new(Queue::new()));
        let (from, mut to) = io::pipe().unwrap();
        for node in 1..=LOSSES {
            let loss = format!(
                r#"{{"tolerated":{{"node":{node},"site":"b","reason":"it was silent","left":99}}}}"#
            );
            writeln!(to, "{MARK}{loss}").unwrap();
        }
        drop(to);

        reader.pass_on(from);

        drop(reader);
        let nodes = incoming.iter().map(|event| match event {
            Event::Tolerated(loss) => loss.node,
            other => panic!("{other:?}"),
        });
        assert!(nodes.eq((1..=LOSSES).map(NodeId)));
    }
}
