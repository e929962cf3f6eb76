//! What a simulation found.

use crate::faults::{FaultCounts, QuicCounts};
use crate::log::LogEntry;
use gridspan_runtime::JobError;
use gridspan_runtime::pe::{PendingWork, Statistics};
use gridspan_topology::Time;

/// Why a simulation could not begin. Nothing ran; correct what is named.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SimError {
    /// The job's definition is wrong.
    #[error("the job cannot run: {0}")]
    Job(#[from] JobError),
    /// A guest is to join a site that does not exist; sites are numbered from 0.
    #[error("there is no place for a guest in site {site}")]
    NoPlace {
        /// The number of the site.
        site: u32,
    },
    /// The nodes are to talk over QUIC, and cannot have certificates.
    #[error("cannot give the nodes certificates: {0}")]
    Certificates(String),
}

/// How a simulation came to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// Main returned, or the job failed.
    Finished,
    /// All PEs were idle, nothing was on its way, and main still waited.
    Stalled,
    /// The time limit passed.
    TimeLimit,
}

/// A run in figures: the same for the same job, grid and options.
#[derive(Clone, Debug)]
pub struct SimReport {
    /// How the job ended. A job that stalled or took too long has failed.
    pub outcome: Result<(), JobError>,
    /// Why the simulation ended.
    pub ending: Ending,
    /// When it ended, in virtual time.
    pub virtual_time: Time,
    /// Events that were simulated.
    pub events: u64,
    /// Messages that were handled.
    pub messages: u64,
    /// Packets between PEs, of one node or of two.
    pub packets: u64,
    /// Packets to other nodes, each one frame.
    pub frames: u64,
    /// Frames to other sites.
    pub wide_area_frames: u64,
    /// Their bytes.
    pub wide_area_bytes: u64,
    /// What all PEs did, summed.
    pub statistics: Statistics,
    /// What was unfinished when main returned, or when the simulation gave up, summed.
    pub pending: PendingWork,
    /// How often each kind of fault happened.
    pub faults: FaultCounts,
    /// What happened on QUIC connections, if nodes talk over QUIC.
    pub quic: QuicCounts,
    /// A hash over all packets: when, from where, to where, and, between nodes, what bytes. Over
    /// QUIC it has the times and sizes of all datagrams, too.
    pub log_hash: u64,
    /// All packets, if [`SimOptions::log`](crate::SimOptions::log) asked for them.
    pub log: Vec<LogEntry>,
}
