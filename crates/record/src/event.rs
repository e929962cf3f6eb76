//! Events of a whole job, and how it ended.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;

/// An event of the whole job.
///
/// ```
/// use gridspan_record::{RecordedEvent, What};
///
/// let lost = RecordedEvent { at_ns: 5_000_000, what: What::Lost { nodes: vec![3] } };
/// let line = serde_json::to_string(&lost).unwrap();
/// assert_eq!(line, r#"{"at_ns":5000000,"what":"lost","nodes":[3]}"#);
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RecordedEvent {
    /// Time in nanoseconds since the start of the job.
    pub at_ns: u64,
    /// Kind of the event.
    #[serde(flatten)]
    pub what: What,
}

/// Why actors were rebalanced. A recording stores it as text.
///
/// ```
/// use gridspan_record::RebalanceTrigger;
///
/// let text = serde_json::to_string(&RebalanceTrigger::Link).unwrap();
/// assert_eq!(text, r#""changed link""#);
/// assert_eq!(RebalanceTrigger::from("tide".to_owned()).to_string(), "tide");
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "String", into = "String")]
#[non_exhaustive]
pub enum RebalanceTrigger {
    /// All members of a collection had reached their sync point.
    SyncPoint,
    /// Main requested it.
    Request,
    /// The balancing period had elapsed.
    Period,
    /// A link had changed.
    Link,
    /// Other programs had begun or stopped using a PE.
    ForeignLoad,
    /// The last plan had made steps longer.
    Undo,
    /// Another cause, as text.
    Other(String),
}

impl fmt::Display for RebalanceTrigger {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::SyncPoint => "sync point",
            Self::Request => "request of main",
            Self::Period => "period",
            Self::Link => "changed link",
            Self::ForeignLoad => "foreign load",
            Self::Undo => "longer steps",
            Self::Other(text) => text.as_str(),
        })
    }
}

impl From<RebalanceTrigger> for String {
    fn from(trigger: RebalanceTrigger) -> Self {
        trigger.to_string()
    }
}

impl From<String> for RebalanceTrigger {
    fn from(text: String) -> Self {
        match &*text {
            "sync point" => Self::SyncPoint,
            "request of main" => Self::Request,
            "period" => Self::Period,
            "changed link" => Self::Link,
            "foreign load" => Self::ForeignLoad,
            "longer steps" => Self::Undo,
            _ => Self::Other(text),
        }
    }
}

/// The kinds of events. Times are in nanoseconds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "what", rename_all = "snake_case")]
#[non_exhaustive]
pub enum What {
    /// Actors were rebalanced.
    Balanced {
        /// Cause of the rebalance.
        trigger: RebalanceTrigger,
        /// The strategy that planned it.
        strategy: String,
        /// Number of actors that moved.
        moved: u64,
        /// Bytes of their state.
        bytes: u64,
        /// Share of the step time that the plan was predicted to save.
        predicted_gain: Option<f64>,
        /// Share of the step time that it saved.
        actual_gain: Option<f64>,
        /// Time for which it paused the job.
        pause_ns: u64,
    },
    /// A checkpoint was completed.
    Checkpoint {
        /// Its number.
        number: u64,
        /// Size in bytes.
        bytes: u64,
        /// Time that it took.
        duration_ns: u64,
        /// Time for which the job stood still, at the beginning of `duration_ns`. `None` in
        /// recordings of earlier versions.
        #[serde(default)]
        stopped_ns: Option<u64>,
    },
    /// Nodes were lost.
    Lost {
        /// Their numbers.
        nodes: Vec<u32>,
    },
    /// The job continues after a loss.
    Recovered {
        /// Steps that are computed again, if known.
        steps_repeated: Option<u64>,
        /// Time from the loss until the job continued.
        duration_ns: u64,
    },
    /// A node joined.
    Joined {
        /// Its number.
        node: u32,
    },
    /// A node left in an orderly way.
    Left {
        /// Its number.
        node: u32,
    },
    /// A link between sites changed.
    LinkChanged {
        /// Number of the sending site.
        from: u32,
        /// Number of the receiving site.
        to: u32,
        /// Latency one way, in microseconds.
        latency_us: f64,
        /// Bandwidth, if known.
        bytes_per_second: Option<f64>,
    },
    /// A warning that the user saw, or the notice that the recording drops events from then on.
    Warning {
        /// Its text.
        text: String,
    },
    /// The process of a node ended. The code and the signal are `None` if they are unknown.
    Exited {
        /// Its number.
        node: u32,
        /// Its exit code.
        code: Option<i32>,
        /// The signal that ended it.
        signal: Option<i32>,
    },
    /// A large broadcast or multicast, which began at the time of the event, has reached all of its
    /// nodes.
    Broadcast {
        /// Number of the node that it came from.
        root: u32,
        /// Size in bytes.
        bytes: u64,
        /// Number of nodes that it reached, without the root.
        reached: u64,
        /// Version of the plan of its trees; 0 if they follow the layout alone.
        plan: u64,
        /// Time until the last node had all of it.
        duration_ns: u64,
        /// The edges of its trees. Each edge follows the one that reaches its sender. Large trees
        /// lack the edges far from the root. Empty if the edges are unknown or if there were too
        /// many broadcasts.
        hops: Vec<RecordedHop>,
    },
}

impl What {
    /// Returns the name of the kind, as it is in the file of the events.
    ///
    /// ```
    /// use gridspan_record::What;
    ///
    /// assert_eq!(What::Lost { nodes: vec![3] }.kind(), "lost");
    /// ```
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Balanced { .. } => "balanced",
            Self::Checkpoint { .. } => "checkpoint",
            Self::Lost { .. } => "lost",
            Self::Recovered { .. } => "recovered",
            Self::Joined { .. } => "joined",
            Self::Left { .. } => "left",
            Self::LinkChanged { .. } => "link_changed",
            Self::Warning { .. } => "warning",
            Self::Exited { .. } => "exited",
            Self::Broadcast { .. } => "broadcast",
        }
    }
}

/// An edge of a tree of a broadcast.
///
/// ```
/// use gridspan_record::RecordedHop;
///
/// let hop = RecordedHop { from: 0, to: 3, tree: 0, after_ns: Some(12_000_000) };
/// let text = serde_json::to_string(&hop).unwrap();
/// assert_eq!(text, r#"{"from":0,"to":3,"tree":0,"after_ns":12000000}"#);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecordedHop {
    /// Number of the sending node.
    pub from: u32,
    /// Number of the receiving node.
    pub to: u32,
    /// Number of the tree: a plan may divide a broadcast among several.
    pub tree: u32,
    /// Time from the begin of the broadcast until the receiving node had all of it, by all trees.
    /// `None` for a node that only passes it on.
    pub after_ns: Option<u64>,
}

/// How a job ended. It is written last: a recording without it is of a job that was cut off.
///
/// ```
/// use gridspan_record::JobEnding;
///
/// let line = "verified: yes (fib(30) = 832040)".to_owned();
/// let ending = JobEnding { verified: Some(line), ..JobEnding::default() };
/// assert!(ending.is_verified());
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobEnding {
    /// Time in nanoseconds since the start of the job.
    pub at_ns: u64,
    /// The exit code of `gridctl`.
    pub exit_code: u8,
    /// The error, if the job failed.
    pub failure: Option<String>,
    /// Number of events that had no room in the recording, since version 3.
    #[serde(default)]
    pub dropped_events: u64,
    /// Number of dropped events of each kind ([`What::kind`]), since version 3. Events that were
    /// dropped before they reached the writer have no kind.
    #[serde(default)]
    pub dropped_kinds: BTreeMap<String, u64>,
    /// The line of output that begins with `verified:`, by which a job says whether its result is
    /// right. `None` if it printed no such line, or an earlier program made the recording.
    #[serde(default)]
    pub verified: Option<String>,
}

impl JobEnding {
    /// Whether the job has printed that its result is right, and has not failed. A job may fail
    /// after that line, for example when another of its results is wrong.
    pub fn is_verified(&self) -> bool {
        let is_done = self.exit_code == 0 && self.failure.is_none();
        is_done && self.verified.as_ref().is_some_and(|line| line.starts_with("verified: yes"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_that_fails_after_it_has_verified_its_result_is_not_verified() {
        let verified = Some("verified: yes (4 values)".to_owned());
        let done = JobEnding { verified, ..JobEnding::default() };
        assert!(done.is_verified());
        assert!(!JobEnding { exit_code: 1, ..done.clone() }.is_verified());
        let failure = Some("node1 was lost".to_owned());
        assert!(!JobEnding { failure, ..done }.is_verified());
    }

    #[test]
    fn triggers_are_read_as_they_are_written() {
        use RebalanceTrigger::{ForeignLoad, Link, Other, Period, Request, SyncPoint, Undo};
        for trigger in [SyncPoint, Request, Period, Link, ForeignLoad, Undo] {
            let text = serde_json::to_string(&trigger).unwrap();
            assert_eq!(serde_json::from_str::<RebalanceTrigger>(&text).unwrap(), trigger);
        }
        let other = serde_json::from_str::<RebalanceTrigger>("\"links\"").unwrap();
        assert_eq!(other, Other("links".to_owned()), "only whole texts count");
    }

    #[test]
    fn events_of_each_kind_are_written_with_its_name() {
        let (trigger, strategy) = (RebalanceTrigger::Period, String::new());
        let (predicted_gain, actual_gain) = (None, None);
        let all = [
            What::Balanced {
                trigger,
                strategy,
                moved: 0,
                bytes: 0,
                predicted_gain,
                actual_gain,
                pause_ns: 0,
            },
            What::Checkpoint { number: 1, bytes: 2, duration_ns: 3, stopped_ns: Some(1) },
            What::Lost { nodes: vec![] },
            What::Recovered { steps_repeated: None, duration_ns: 1 },
            What::Joined { node: 1 },
            What::Left { node: 1 },
            What::LinkChanged { from: 0, to: 1, latency_us: 1.0, bytes_per_second: None },
            What::Warning { text: String::new() },
            What::Exited { node: 1, code: None, signal: None },
            What::Broadcast {
                root: 0,
                bytes: 1,
                reached: 1,
                plan: 0,
                duration_ns: 1,
                hops: vec![],
            },
        ];
        for what in all {
            let json = serde_json::to_value(&what).unwrap();
            assert_eq!(json["what"], what.kind());
        }
    }
}
