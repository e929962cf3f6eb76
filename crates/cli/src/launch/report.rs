//! Reports to the user about a job, and their form for scripts: one JSON object per line.
//!
//! | `event` | content |
//! | --- | --- |
//! | `started` | the job's name and its nodes, each with site, host, PEs and process id, if it has one yet |
//! | `added` | nodes that the grid does not name, each with site, host and PEs: they can join the job from now on |
//! | `listening` | a node's address |
//! | `output` | a line that a node printed, and on which `stream`: `stdout` or `stderr` |
//! | `exited` | how a node's process ended: by `code` or by `signal` |
//! | `link` | a link `from` one group `to` another has changed, `both_ways` or not: `before`, `after` |
//! | `balanced` | actors have been moved: how many, the traffic between sites, the predicted and the actual gain |
//! | `guest` | the number of a node that is no founder, and `what` it did: `joined`, is `leaving`, has `left` or was `lost` |
//! | `warning` | an irregularity of the grid or the job, such as a stall |
//! | `metrics` | the `address` that serves the metrics of the job |
//! | `loss` | which nodes were lost; `finished` follows |
//! | `recovery` | after nodes are lost, leave or join: the job goes back to a checkpoint, or stops; a second object says that the job goes on |
//! | `stopping` | the user has requested the end, and the nodes were asked to end |
//! | `simulated` | the summary of a simulation |
//! | `recorded` | the `folder` of the recording; the nodes whose recording is `missing`, or is `partial` because they were started again; the number of `events`, and of `dropped_events` that had no room |
//! | `finished` | the exit code, the seconds it took, and the first failure if there was one |
//!
//! Every object has a `version`, which changes when a script could break.

use super::event::Exit;
use super::plan::PlannedNode;
use crate::quantity::{bandwidth, digits};
use crate::roster::Roster;
use gridspan::simulated::Summary;
use gridspan_balance::BalanceReport;
use gridspan_runtime::GuestEvent;
use gridspan_topology::{Bandwidth, GridSpec, LinkEstimate, NodeId};
use serde::{Serialize, Serializer};
use std::net::SocketAddr;

/// The version of the objects.
pub(crate) const VERSION: u32 = 1;

/// Latencies that differ by at most this number of milliseconds count as equal, because a busy
/// machine causes such differences.
const LATENCY_NOISE_MS: f64 = 1.0;
/// Shares of lost packets that differ by at most this much count as equal.
const LOSS_NOISE: f64 = 0.02;

#[derive(Debug, Serialize)]
#[serde(tag = "event", rename_all = "lowercase")]
pub(super) enum Report {
    /// The first processes have been started.
    Started { job: String, nodes: Vec<StartedNode> },
    /// The job has more nodes, which take no part yet.
    Added { nodes: Vec<AddedNode> },
    /// A node reports where it listens.
    Listening { node: NodeId, address: SocketAddr },
    /// A node has printed a line.
    Output {
        node: NodeId,
        stream: Stream,
        #[serde(serialize_with = "as_text")]
        text: Vec<u8>,
    },
    /// A process has ended.
    Exited { node: NodeId, code: Option<i32>, signal: Option<i32> },
    /// A link has changed.
    Link { from: String, to: String, both_ways: bool, before: LinkNumbers, after: LinkNumbers },
    /// Actors have been moved.
    Balanced(BalanceReport),
    /// A guest has joined, is leaving, has left or was lost.
    Guest(GuestEvent),
    /// The grid or the job has an irregularity.
    Warning { text: String },
    /// Metrics are served.
    Metrics { address: String },
    /// Nodes were lost, and the job ends.
    Loss { text: String },
    /// Nodes were lost, or are leaving or joining. The text says to which point the job goes back,
    /// or why it stops. A later report says that the job goes on.
    Recovery { text: String },
    /// The nodes were asked to end.
    Stopping,
    /// The job has been simulated.
    Simulated(Summary),
    /// The progress of a simulation. The printer never prints it as an object.
    Simulating { virtual_ns: u64, events: u64 },
    /// The recording is written. It has no records of the `missing` nodes, only some records of the
    /// `partial` nodes, which were started again, and none of the events that had no room.
    Recorded {
        folder: String,
        missing: Vec<NodeId>,
        partial: Vec<NodeId>,
        dropped_events: u64,
        events: u64,
    },
    /// What happened during the job, for people.
    Summary { text: String },
    /// The job has ended.
    Finished { exit_code: u8, seconds: f64, failure: Option<FirstFailure>, lost_nodes: u64 },
}

/// The numbers of a link.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(super) struct LinkNumbers {
    latency_ms: f64,
    bandwidth_bps: Option<u64>,
    loss: f64,
}

/// A node of a started job.
#[derive(Debug, Serialize)]
pub(super) struct StartedNode {
    site: String,
    host: String,
    node: u32,
    first_pe: u32,
    pes: u32,
    /// `None` if its process is started later.
    pid: Option<u32>,
}

/// A node that was added to a job.
#[derive(Debug, Serialize)]
pub(super) struct AddedNode {
    site: String,
    host: String,
    node: u32,
    pes: u32,
    /// Index of the site in the grid of the roster, which includes the added nodes.
    #[serde(skip)]
    pub(super) site_number: usize,
}

impl AddedNode {
    /// A node of the roster.
    pub(super) fn new(roster: &Roster, node: NodeId) -> Self {
        Self {
            site: roster.site_name(node).to_owned(),
            host: roster.host(node).to_owned(),
            node: node.0,
            pes: roster.pes(node),
            site_number: roster.site(node).index(),
        }
    }

    /// Its name, such as `b/4`.
    pub(super) fn name(&self) -> String {
        format!("{}/{}", self.site, self.node)
    }
}

#[derive(Debug, Serialize)]
pub(super) struct FirstFailure {
    /// The node to blame.
    pub(super) node: NodeId,
    /// Description of the failure.
    pub(super) message: String,
    /// Advice on the next step.
    pub(super) hint: Option<String>,
    /// The node's last lines on standard error.
    pub(super) stderr: Vec<String>,
}

/// An output stream of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Stream {
    Stdout,
    Stderr,
}

impl Report {
    /// Returns the report that a process has ended.
    pub(super) fn exited(node: NodeId, exit: Exit) -> Self {
        match exit {
            Exit::Code(code) => Self::Exited { node, code: Some(code), signal: None },
            Exit::Signal(signal) => Self::Exited { node, code: None, signal: Some(signal) },
            Exit::Unknown | Exit::NotStarted | Exit::Unreachable | Exit::TakenOver => {
                Self::Exited { node, code: None, signal: None }
            }
        }
    }

    /// Returns the report as a line of JSON.
    pub(super) fn to_json_line(&self) -> String {
        #[derive(Serialize)]
        struct Versioned<'a> {
            version: u32,
            #[serde(flatten)]
            report: &'a Report,
        }
        let versioned = Versioned { version: VERSION, report: self };
        let mut line = serde_json::to_string(&versioned).expect("reports consist of plain data");
        line.push('\n');
        line
    }
}

impl LinkNumbers {
    /// Returns the numbers of an estimate.
    pub(super) fn new(estimate: &LinkEstimate) -> Self {
        Self {
            latency_ms: estimate.latency.duration().as_secs_f64() * 1e3,
            bandwidth_bps: estimate.bandwidth.map(Bandwidth::bits_per_second),
            loss: estimate.loss,
        }
    }

    /// Formats the numbers for people: latency, bandwidth, loss.
    fn rounded(&self) -> [String; 3] {
        let rate = self.bandwidth_bps.map(Bandwidth::from_bits_per_second).map(bandwidth);
        [
            format!("{} ms", digits(self.latency_ms)),
            rate.unwrap_or_else(|| "unknown bandwidth".to_owned()),
            format!("{:.0}% lost", self.loss * 100.0),
        ]
    }

    /// Returns whether latency, bandwidth and loss differ: latency and bandwidth by more than
    /// `part` of their former values, and latency and loss by more than noise.
    fn differing(&self, after: &Self, part: f64) -> [bool; 3] {
        let differs = |old: f64, new: f64| (new - old).abs() > part * old;
        let rate = |numbers: &Self| numbers.bandwidth_bps.map(|bits| bits as f64);
        [
            (after.latency_ms - self.latency_ms).abs() > LATENCY_NOISE_MS
                && differs(self.latency_ms, after.latency_ms),
            rate(self).zip(rate(after)).is_some_and(|(old, new)| differs(old, new)),
            (self.loss - after.loss).abs() > LOSS_NOISE,
        ]
    }

    /// Whether latency, bandwidth or loss differs, as in [`differing`](Self::differing).
    pub(super) fn differs(&self, after: &Self, part: f64) -> bool {
        self.differing(after, part).contains(&true)
    }

    /// Describes the change of a link, such as `10.0 ms → 40.2 ms`. It names only what differs:
    /// latency and bandwidth by more than a tenth, latency and loss by more than noise.
    pub(super) fn change(&self, after: &Self) -> String {
        let texts = self.rounded().into_iter().zip(after.rounded());
        let changed = texts.zip(self.differing(after, 0.1)).filter(|(_, is_new)| *is_new);
        let changed: Vec<_> =
            changed.map(|((before, after), _)| format!("{before} → {after}")).collect();
        changed.join(", ")
    }
}

impl StartedNode {
    /// Describes a node of `spec` that runs as the process `pid`.
    pub(super) fn new(spec: &GridSpec, node: NodeId, pid: Option<u32>) -> Self {
        let PlannedNode { site, host, node, first_pe, pes } = PlannedNode::new(spec, node);
        Self { site: site.to_owned(), host: host.to_owned(), node, first_pe, pes, pid }
    }
}

fn as_text<S: Serializer>(bytes: &[u8], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&String::from_utf8_lossy(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_is_one_json_line_with_a_version() {
        let text = b"a\xff\"\x1b\nb".to_vec();
        let report = Report::Output { node: NodeId(3), stream: Stream::Stderr, text };

        let line = report.to_json_line();

        assert_eq!(line.matches('\n').count(), 1);
        let object: serde_json::Value = serde_json::from_str(&line).unwrap();
        let expected = serde_json::json!({
            "version": 1, "event": "output", "node": 3, "stream": "stderr",
            "text": "a\u{fffd}\"\u{1b}\nb",
        });
        assert_eq!(object, expected);
    }

    #[test]
    fn only_the_changed_numbers_of_a_link_are_named() {
        let link =
            |latency_ms, bandwidth_bps, loss| LinkNumbers { latency_ms, bandwidth_bps, loss };
        let before = link(10.0, Some(100_000_000), 0.0);
        assert_eq!(before.change(&link(40.2, Some(99_000_000), 0.0)), "10.0 ms → 40.2 ms");
        let slow = link(10.1, Some(10_000_000), 0.05);
        assert_eq!(before.change(&slow), "100 Mbit/s → 10.0 Mbit/s, 0% lost → 5% lost");
        assert_eq!(link(10.0, None, 0.0).change(&link(20.0, Some(1), 0.0)), "10.0 ms → 20.0 ms");
    }

    #[test]
    fn an_exit_has_a_code_or_a_signal() {
        let line = Report::exited(NodeId(0), Exit::Signal(9)).to_json_line();
        let object: serde_json::Value = serde_json::from_str(&line).unwrap();
        assert_eq!((&object["code"], &object["signal"]), (&serde_json::Value::Null, &9.into()));
    }
}
