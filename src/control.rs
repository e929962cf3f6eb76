//! Messages from a process of a job to the launcher that started it, in lines of its standard
//! output.
//!
//! # Form
//!
//! A control line is [`MARK`], whose first character programs do not print, followed by JSON. The
//! line with the address at which a node listens starts with [`MARK`] too, and is defined in
//! [`gridspan_runtime::net::bootstrap`]. All other lines are output of the program.
//!
//! The process writes control lines without the lock of standard output, which the program may
//! hold. So a control line may come in the middle of a line of the program, and a long control line
//! is written in pieces. [`OutputDemux`] puts the parts of both kinds of lines together again.
//!
//! # Failure
//!
//! A launcher treats an invalid line with the mark as output, so that nothing is lost when launcher
//! and program are different builds.

mod demux;
mod output;

use crate::advice;
use crate::binding::{Cpu, cpus};
use crate::build::build;
use crate::links::LinkReport;
pub use crate::recorded::RecordedPart;
use crate::simulated::Summary;
pub use demux::{MARK, OutputDemux, OutputItem};
use gridspan_balance::BalanceReport;
use gridspan_runtime::driver::cores;
use gridspan_runtime::message::telemetry::TelemetrySample;
use gridspan_runtime::pe::Records;
use gridspan_runtime::{
    BroadcastReport, CheckpointReport, Checkpoints, CopiesRemade, Diagnosis, GuestEvent, Holding,
    Job, JobError, NodeId, ToleratedLoss, Warning,
};
use gridspan_topology::Layout;
#[cfg(feature = "net")]
pub(crate) use output::ControlOutput;
use serde::{Deserialize, Serialize};
use std::io::{self, Write};
use std::sync::atomic::{AtomicUsize, Ordering};

/// Maximum length of the message of a failure, in bytes.
const TEXT_BYTES_MAX: usize = 8 << 10;
/// Maximum number of broadcasts of a run that a process reports to the launcher: many times as many
/// as the report of a run lists.
const BROADCASTS_MAX: usize = 20_000;
/// Number of edges after which a process reports broadcasts without their trees, so that all trees
/// take at most a few megabytes of a recording.
const ALL_EDGES_MAX: usize = 100_000;
/// Maximum number of edges that a process reports of a broadcast, so that a control line stays
/// below 64 KiB. The edges are listed tree by tree, each from its root; the last ones are left out.
const EDGES_MAX: usize = 600;

/// The content of a control line.
///
/// ```
/// use gridspan::Warning;
/// use gridspan::control::{Control, MARK};
///
/// let warning = Control::Warning(Warning::NotRestartable);
/// let mut line = Vec::new();
/// warning.print(&mut line)?;
/// let content = line.strip_prefix(MARK.as_bytes()).unwrap();
/// assert_eq!(Control::parse(content), Some(warning));
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Control {
    /// The job failed.
    Failed(Failure),
    /// The job was simulated.
    Simulated(Summary),
    /// The progress of the simulation of the job, sent every second.
    Simulating {
        /// The virtual time, in nanoseconds.
        virtual_ns: u64,
        /// Number of processed events.
        events: u64,
    },
    /// Actors have been moved, and the effect is known.
    Balanced(BalanceReport),
    /// A checkpoint is complete.
    Checkpoint(CheckpointReport),
    /// The checkpoint from which the job continues has all its copies again.
    CopiesRemade(CopiesRemade),
    /// A large broadcast has reached all of its nodes. Sent only if the job is recorded.
    Broadcast(BroadcastReport),
    /// An event of a node that joined the running job.
    Guest(GuestEvent),
    /// A problem of the job, which continues.
    Warning(Warning),
    /// The parts of checkpoints that this process has, after [`RECOVER`].
    ///
    /// [`RECOVER`]: gridspan_runtime::net::bootstrap::RECOVER
    Holds(Holdings),
    /// The job has stopped after a [checkpoint](Pause), and waits for its next run.
    Paused(Pause),
    /// The program makes checkpoints, so that the job can go on after a loss of nodes.
    Recovers,
    /// The job has tasks, and may go on without a lost node that had only tasks. The coordinator
    /// decides: it answers a [notice](gridspan_runtime::net::bootstrap::LossNotice) of a loss with
    /// [`Tolerated`](Self::Tolerated) or [`Failed`](Self::Failed).
    RepeatsTasks,
    /// The job goes on without a lost node.
    Tolerated(ToleratedLoss),
    /// This process was requested by SIGTERM to leave the job.
    Leaving,
    /// The job cannot be stopped for a change of its nodes, for this reason.
    Unchangeable(String),
    /// This process's part of the job is done. Sent only by processes that outlive their launcher.
    Done,
    /// The estimates of the links, sent every two seconds and when links have changed.
    Links(LinkReport),
    /// This process runs, and has received a request to find out what the job waits for.
    Awake {
        /// Number of the request.
        number: u64,
        /// The nodes that it suspects because they are silent, with the seconds of their silence.
        silent: Vec<(NodeId, u64)>,
    },
    /// What the job waits for.
    Diagnosed {
        /// Number of the request.
        number: u64,
        /// The answer.
        diagnosis: Diagnosis,
    },
    /// Identifies the build of the program of this process, as when nodes compare their builds.
    /// Sent only if the job is recorded.
    Build(u64),
    /// The processors that this process may use, if the job is recorded.
    Processors {
        /// The hardware threads on which it may run.
        cpus: Vec<Cpu>,
        /// Number of hardware threads whose time its control group allows it to use at once, if
        /// that is less than the length of `cpus`.
        quota: Option<u32>,
    },
    /// A part of what a PE has recorded.
    Recorded(RecordedPart),
    /// The answer to a request for a [sample](gridspan_runtime::net::bootstrap::SampleOrder).
    Sampled {
        /// Number of the request.
        number: u64,
        /// The latest sample of the job's counters, if there is one.
        sample: Option<Box<TelemetrySample>>,
    },
    /// The program has taken forwarded [standard input](crate::input).
    InputTaken {
        /// Number that the launcher has given to this process.
        number: u64,
        /// Number of bytes since this process began. If the program takes no more, some of the
        /// last ones may be lost.
        taken: u64,
        /// Whether the program takes no more.
        is_closed: bool,
    },
}

/// The parts of checkpoints that a process has.
///
/// ```
/// use gridspan::control::{Control, Holdings};
///
/// let nothing = Holdings::default();
/// assert!(nothing.checkpoints.is_empty());
/// Control::Holds(nothing).tell(); // to the launcher that reads standard output
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Holdings {
    /// The checkpoints of which the process has parts.
    pub checkpoints: Vec<Holding>,
    /// Whether main can begin again.
    pub is_restartable: bool,
    /// How the job makes checkpoints, if the process has said so.
    #[serde(default)]
    pub settings: Option<Checkpoints>,
}

/// A stop of a job after a checkpoint.
///
/// ```
/// use gridspan::control::{Control, Pause};
///
/// let pause = Pause::new(1, 7);
/// Control::Paused(pause).tell(); // to the launcher that reads standard output
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Pause {
    /// Number of the [order](gridspan_runtime::net::bootstrap::PauseOrder).
    pub order: u64,
    /// Number of the checkpoint.
    pub checkpoint: u64,
    /// Why the checkpoint could not be written to the folder of the job, if it has one.
    pub error: Option<String>,
}

/// The failure of a job, as known to one of its processes.
///
/// ```
/// use gridspan::control::{Control, Failure};
/// use gridspan::topology::NodeId;
///
/// let failure = Failure::new("the disk is full", Some("free some space"), Some(NodeId(3)));
/// assert!(!failure.is_loss());
/// Control::Failed(failure).tell(); // to the launcher that reads standard output
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Failure {
    /// The error.
    pub message: String,
    /// Advice on what to do.
    pub hint: Option<String>,
    /// The node where the error arose, if known.
    pub node: Option<NodeId>,
    /// The lost nodes. The launcher may know better why they were lost. Empty if the job failed for
    /// another reason.
    #[serde(default)]
    pub lost: Vec<NodeId>,
    /// Whether the job failed because another program listens on the node's port.
    #[serde(default)]
    pub is_port_taken: bool,
}

impl Control {
    /// Prints the line in one piece and flushes it. Fails if `to` does.
    pub fn print(&self, to: &mut impl Write) -> io::Result<()> {
        let json = serde_json::to_string(self)?;
        writeln!(to, "{MARK}{json}")?;
        to.flush()
    }

    /// Prints the line to standard output, even while other code holds its lock.
    pub fn tell(&self) {
        let tell = || output::write(&serde_json::to_vec(self)?);
        // Without a launcher the line has no reader, so an error does not matter.
        let _: io::Result<()> = tell();
    }

    /// Reads the rest of a line after [`MARK`], or returns `None` if it is not a control line.
    pub fn parse(text: &[u8]) -> Option<Self> {
        serde_json::from_slice(text).ok()
    }
}

impl Holdings {
    /// Creates the holdings of a process that does not say how the job makes checkpoints.
    pub fn new(checkpoints: Vec<Holding>, is_restartable: bool) -> Self {
        Self { checkpoints, is_restartable, settings: None }
    }
}

impl Pause {
    /// Creates a stop for this order, after this checkpoint, which was written without an error.
    pub fn new(order: u64, checkpoint: u64) -> Self {
        Self { order, checkpoint, error: None }
    }
}

impl Failure {
    /// Creates a failure, with its message truncated to 8 KiB.
    pub fn new(message: &str, hint: Option<&str>, node: Option<NodeId>) -> Self {
        let mut end = message.len().min(TEXT_BYTES_MAX);
        while !message.is_char_boundary(end) {
            end -= 1;
        }
        let message = message[..end].to_owned();
        Self {
            message,
            hint: hint.map(str::to_owned),
            node,
            lost: Vec::new(),
            is_port_taken: false,
        }
    }

    /// Creates the failure of an error.
    pub(crate) fn of(error: &JobError, layout: &Layout) -> Self {
        let node = advice::culprit(error, layout);
        let mut failure = Self::new(&error.to_string(), advice::hint(error), node);
        if let JobError::NodeLost { node, others, .. } = error {
            failure.lost = others.iter().copied().chain([*node]).collect();
        }
        failure
    }

    /// Whether the job failed because nodes were lost.
    pub fn is_loss(&self) -> bool {
        !self.lost.is_empty()
    }
}

/// Tells the launcher which build of the program this process runs, if the job is recorded and the
/// program can be read.
pub(crate) fn tell_build(records: Option<&Records>) {
    let build = records.map_or(0, |_| build());
    // 0 means an unknown build.
    if build != 0 {
        Control::Build(build).tell();
    }
}

/// Tells the launcher which processors this process may use, if the job is recorded and the system
/// names them. Call it before PEs are bound.
pub(crate) fn tell_processors(records: Option<&Records>) {
    if records.is_some()
        && let Ok(cpus) = cpus()
    {
        let quota = Some(cores()).filter(|&cores| (cores as usize) < cpus.len());
        Control::Processors { cpus, quota }.tell();
    }
}

/// Tells the launcher what the PEs of this process have recorded. Call it between runs.
pub(crate) fn tell_records(records: Option<&Records>) {
    for record in records.iter().flat_map(|records| records.take()) {
        for part in RecordedPart::of(record) {
            Control::Recorded(part).tell();
        }
    }
}

/// Makes a recorded job tell the launcher about its large broadcasts.
pub(crate) fn telling_broadcasts(job: Job, records: Option<&Records>) -> Job {
    match records {
        None => job,
        Some(_) => {
            let room = BroadcastRoom::default();
            job.on_broadcast(move |report| {
                if let Some(report) = room.admitted(report) {
                    Control::Broadcast(report).tell();
                }
            })
        }
    }
}

/// How many broadcasts and edges this process has reported to the launcher.
#[derive(Debug, Default)]
struct BroadcastRoom {
    broadcasts: AtomicUsize,
    edges: AtomicUsize,
}

impl BroadcastRoom {
    /// Counts a broadcast, and returns what to tell about it.
    fn admitted(&self, report: &BroadcastReport) -> Option<BroadcastReport> {
        if self.broadcasts.fetch_add(1, Ordering::Relaxed) >= BROADCASTS_MAX {
            return None;
        }
        let mut report = report.clone();
        report.edges.truncate(EDGES_MAX);
        if self.edges.fetch_add(report.edges.len(), Ordering::Relaxed) >= ALL_EDGES_MAX {
            report.edges = Vec::new();
        }
        Some(report)
    }
}

/// Makes the job report to the launcher its links, guests, tolerated losses, migrations,
/// checkpoints and warnings, and what it waits for.
pub(crate) fn telling(job: Job) -> Job {
    telling_moves(job, |report| Control::Balanced(report.clone()).tell())
        .on_warning(|warning| Control::Warning(warning.clone()).tell())
        .on_diagnosis(|number, diagnosis| {
            Control::Diagnosed { number, diagnosis: diagnosis.clone() }.tell();
        })
        .on_checkpoint(|report| Control::Checkpoint(report.clone()).tell())
        .on_copies_remade(|report| Control::CopiesRemade(report.clone()).tell())
        .on_guests(|event| Control::Guest(event.clone()).tell())
        .on_tolerated_loss(|loss| Control::Tolerated(loss.clone()).tell())
        .on_links(|links, changes| Control::Links(LinkReport::new(links, changes)).tell())
}

/// Makes the job call `tell` for each rebalance that has moved actors.
pub(crate) fn telling_moves(
    job: Job,
    tell: impl Fn(&BalanceReport) + Send + Sync + 'static,
) -> Job {
    job.on_balance(move |report| {
        if report.moved > 0 {
            tell(report);
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use gridspan_runtime::message::telemetry::LinkTelemetry;
    use gridspan_runtime::{PeId, Wait, WaitKind};

    #[test]
    fn a_printed_control_line_can_be_parsed() {
        let failed = Control::Failed(Failure::new("no\nluck", Some("try again"), Some(NodeId(3))));
        let awake = Control::Awake { number: 7, silent: vec![(NodeId(1), 4)] };
        let mut diagnosis = Diagnosis::default();
        (diagnosis.pes, diagnosis.fullest) = (2, Some((9, PeId(1))));
        diagnosis.waits.add(Wait::new(WaitKind::Question, 1).such_as("main asked\nCell"));
        let diagnosed = Control::Diagnosed { number: 7, diagnosis };
        let build = Control::Build(u64::MAX);
        for control in [failed, awake, diagnosed, build] {
            let mut line = vec![];

            control.print(&mut line).unwrap();

            assert_eq!(line.iter().filter(|&&byte| byte == b'\n').count(), 1);
            let text = line.strip_prefix(MARK.as_bytes()).unwrap();
            assert_eq!(Control::parse(text), Some(control));
        }
        assert_eq!(Control::parse(b"nonsense"), None);
    }

    #[test]
    fn a_sample_is_a_control_line() {
        let sample = TelemetrySample {
            tick: 3,
            links: vec![LinkTelemetry { bytes: u64::MAX, ..LinkTelemetry::default() }],
            type_names: vec!["jobs::Cell".to_owned()],
            ..TelemetrySample::default()
        };
        for sample in [None, Some(Box::new(sample))] {
            let sampled = Control::Sampled { number: 7, sample };
            let mut line = vec![];
            sampled.print(&mut line).unwrap();
            let text = line.strip_prefix(MARK.as_bytes()).unwrap();
            assert!(text.starts_with(b"{\"sampled\""), "launchers look for this beginning");
            assert_eq!(Control::parse(text), Some(sampled));
        }
    }

    #[test]
    fn many_broadcasts_are_told_without_their_trees_and_then_not_at_all() {
        let after = r#"{"secs":123456,"nanos":123456789}"#;
        let edge = |to| format!(r#"{{"from":99999,"to":{to},"tree":9,"after":{after}}}"#);
        let edges = (10_000..11_000).map(edge).collect::<Vec<_>>().join(",");
        let rest = format!(r#""bytes":40000,"reached":1000,"plan":0,"took":{after}"#);
        let text = format!(r#"{{"at":5,"root":0,{rest},"edges":[{edges}]}}"#);
        let report: BroadcastReport = serde_json::from_str(&text).unwrap();
        let room = BroadcastRoom::default();

        let told: Vec<_> = (0..BROADCASTS_MAX + 5).map(|_| room.admitted(&report)).collect();

        let with_trees = told.iter().flatten().filter(|report| report.edges.len() == EDGES_MAX);
        assert_eq!(with_trees.count(), ALL_EDGES_MAX.div_ceil(EDGES_MAX));
        assert_eq!(told.iter().flatten().count(), BROADCASTS_MAX);
        assert_eq!(told[200].as_ref().unwrap().reached, 1000);
        let mut line = vec![];
        Control::Broadcast(told[0].clone().unwrap()).print(&mut line).unwrap();
        assert!(line.len() < 64 << 10, "{} bytes", line.len());
    }

    #[test]
    fn a_long_message_is_cut_between_characters() {
        let failure = Failure::new(&"ä".repeat(TEXT_BYTES_MAX), None, None);
        assert_eq!(failure.message.len(), TEXT_BYTES_MAX);
        let failure = Failure::new(&format!("x{}", "ä".repeat(TEXT_BYTES_MAX)), None, None);
        assert_eq!(failure.message.len(), TEXT_BYTES_MAX - 1);
    }
}
