//! Events of a whole job, and how it ended.

use serde::{Deserialize, Serialize};

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
    /// When, in nanoseconds since the start of the job.
    pub at_ns: u64,
    /// What.
    #[serde(flatten)]
    pub what: What,
}

/// The kinds of events. Times are in nanoseconds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "what", rename_all = "snake_case")]
#[non_exhaustive]
pub enum What {
    /// Actors were rebalanced.
    Balanced {
        /// Why.
        trigger: String,
        /// The strategy that planned it.
        strategy: String,
        /// Actors moved.
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
        /// Its bytes.
        bytes: u64,
        /// Time that it took.
        duration_ns: u64,
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
    /// A warning that the user saw.
    Warning {
        /// Its text.
        text: String,
    },
}

/// How a job ended. It is written last, so that a recording without it is that of a job that was
/// cut off.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobEnding {
    /// When, in nanoseconds since the start of the job.
    pub at_ns: u64,
    /// The exit code of `gridctl`.
    pub exit_code: u8,
    /// The error, if the job failed.
    pub failure: Option<String>,
}
