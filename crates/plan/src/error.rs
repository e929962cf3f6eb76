//! The reasons why a job cannot be predicted.

use thiserror::Error;

/// A recording or a grid from which nothing can be predicted.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ForecastError {
    /// The recording has neither handlers nor tasks.
    #[error("the recording has no handlers and no tasks; record the job itself, until it ends")]
    Empty,
    /// Spans were dropped, or PEs are missing, so that the causes of other spans are not known.
    #[error(
        "{percent} % of the handlers are missing in the recording; record fewer steps, or with a larger --record-bytes"
    )]
    Sampled {
        /// Share of the spans, in percent.
        percent: u32,
    },
    /// Tasks and actors of the job wait for each other.
    #[error(
        "actors wait for messages that tasks have sent; only jobs of actors alone, or mostly of tasks, can be predicted"
    )]
    ActorsOfTasks,
    /// Nodes were lost or changed while the job was recorded, or a node has no file.
    #[error(
        "nodes were lost, left or joined in the recorded run, or the file of a node is missing; record a run without such changes, and give the files of all nodes"
    )]
    NodesChanged,
    /// A job of tasks was recorded at one site, so that the effect of latency is not known.
    #[error(
        "the tasks were recorded at one site, which does not show the cost of stealing over a wide area; record the job on two sites"
    )]
    OneSite,
    /// The recordings of two sizes have different numbers of actors.
    #[error(
        "the recordings have {first} and {second} actors of type {kind}; record both sizes with the same number of actors"
    )]
    OtherActors {
        /// The type.
        kind: String,
        /// Number of its actors in the first recording.
        first: usize,
        /// Number of its actors in the second recording.
        second: usize,
    },
    /// The recordings are of different jobs.
    #[error("the recordings are of the jobs {first} and {second}; give recordings of one job")]
    OtherJob {
        /// The job of the first recording.
        first: String,
        /// The other job.
        second: String,
    },
    /// More steps are requested, but the recording has none.
    #[error(
        "the recording shows no steps, so that more of them cannot be predicted; record three steps or more, or leave out --times"
    )]
    NoSteps,
    /// The factor of the steps is not a number above 0.
    #[error("the factor of the steps must be a number above 0")]
    Times,
    /// A job of tasks was recorded in two sizes, from which its work at a third does not follow.
    #[error(
        "the work of a job of tasks does not follow from two sizes; record the size itself, and leave out --size"
    )]
    SizedTasks,
    /// A size is not a number above 0, or both recordings have the same size.
    #[error("sizes must be different numbers above 0; write the size that each recording has")]
    Sizes,
    /// There is no strategy of this name.
    #[error("there is no strategy `{name}`; `gridctl balance replay --help` lists them")]
    UnknownStrategy {
        /// The name.
        name: String,
    },
    /// A strategy cannot plan from the measurements, which are invalid, or it made a plan that does
    /// not fit them, which is a fault of the strategy.
    #[error("{name} cannot plan, or its plan does not fit: {reason}")]
    BadPlan {
        /// The strategy.
        name: String,
        /// What is wrong.
        reason: String,
    },
    /// A link of the grid loses everything.
    #[error("the link from {from} to {to} delivers nothing; give it a loss below 100 %")]
    CutLink {
        /// The sending site.
        from: String,
        /// The receiving site.
        to: String,
    },
    /// Some handlers of the recording wait for messages that it does not have.
    #[error(
        "{handlings} handlers of the recording wait for messages that it does not have; record the job again, with all of its nodes"
    )]
    Stuck {
        /// Number of handlers that were not reached.
        handlings: u64,
    },
}
