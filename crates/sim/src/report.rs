//! The results of a simulation.

use crate::faults::{FaultCounts, QuicCounts};
use crate::log::LogEntry;
use gridspan_runtime::pe::{PeStatistics, PendingWork};
use gridspan_runtime::{JobError, NodeId, StartError};
use gridspan_topology::Time;

/// A simulation could not start. Nothing ran; correct the named problem.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SimError {
    /// The job's definition is invalid.
    #[error("the job cannot run: {0}")]
    Job(#[from] StartError),
    /// A guest's site does not exist; sites are numbered from 0.
    #[error("a guest cannot join site {site}: the grid has no such site")]
    NoPlace {
        /// The number of the site.
        site: u32,
    },
    /// No certificates could be created for nodes that communicate over QUIC.
    #[error("cannot give the nodes certificates: {0}")]
    Certificates(String),
    /// The options lose nodes of the layout, but nodes communicate over QUIC, where only guests can
    /// be lost.
    #[error("over QUIC, only guests can be lost: leave out `lost_nodes` or the faults of QUIC")]
    LostNodesOverQuic,
    /// A node that is to be lost is not in the layout; nodes are numbered from 0.
    #[error("{node} cannot be lost: the grid has no such node")]
    NoSuchNode {
        /// The node.
        node: NodeId,
    },
}

impl From<SimError> for JobError {
    fn from(error: SimError) -> Self {
        match error {
            SimError::Job(error) => error,
            error => StartError::Simulation { reason: error.to_string() },
        }
        .into()
    }
}

/// How a simulation ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Ending {
    /// Main returned, or the job failed.
    Finished,
    /// All PEs were idle, nothing was on its way, and main still waited.
    Stalled,
    /// The time limit passed.
    TimeLimit,
    /// The run was stopped from outside.
    Halted,
}

/// The results of a run: the same for the same job, grid and options.
///
/// ```
/// # use gridspan_runtime::{Grid, Job};
/// # use gridspan_topology::GridSpec;
/// # use std::time::Duration;
/// # let job = Job::new("pause").main(async |grid: Grid| {
/// #     Ok(grid.sleep(Duration::from_secs(2)).await?)
/// # });
/// # let grid = GridSpec::from_emulate("2x2,wan=32ms").unwrap();
/// use gridspan_sim::{Ending, SimOptions, Simulation};
///
/// let report = Simulation::new(job, grid, SimOptions::default())?.run();
/// assert_eq!(report.ending, Ending::Finished);
/// println!("{} events, {} bytes between sites", report.events, report.wide_area_bytes);
/// # Ok::<(), gridspan_sim::SimError>(())
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct SimReport {
    /// Outcome of the job. A job that stalled or exceeded the time limit has failed.
    pub outcome: Result<(), JobError>,
    /// Why the simulation ended.
    pub ending: Ending,
    /// Virtual time at the end.
    pub virtual_time: Time,
    /// Number of simulated events.
    pub events: u64,
    /// Number of handled messages.
    pub messages: u64,
    /// Number of packets between PEs, within a node and between nodes.
    pub packets: u64,
    /// Number of packets to other nodes, each one frame.
    pub frames: u64,
    /// Number of frames to other sites.
    pub wide_area_frames: u64,
    /// Number of bytes of those frames.
    pub wide_area_bytes: u64,
    /// Statistics of all PEs, summed.
    pub statistics: PeStatistics,
    /// Unfinished work when main returned, or when the simulation gave up, summed.
    pub pending: PendingWork,
    /// Number of faults of each kind.
    pub faults: FaultCounts,
    /// Counts of events on QUIC connections, if nodes use QUIC.
    pub quic: QuicCounts,
    /// A hash over all packets: their times, senders, receivers and, between nodes, bytes. Over
    /// QUIC it includes the times and sizes of all datagrams.
    pub log_hash: u64,
    /// All packets, if [`SimOptions::log`](crate::SimOptions::log) asked for them.
    pub log: Vec<LogEntry>,
}
