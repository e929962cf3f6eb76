//! The costs of operations in virtual time, faults and limits.

use crate::faults::{FaultPlan, LostNode};
use crate::guests::GuestPlan;
use gridspan_topology::Bandwidth;
use std::time::Duration;

/// The settings of a simulation. The network and the load of other users are not among them; they
/// are part of the [`GridSpec`](gridspan_topology::GridSpec).
///
/// ```
/// # use gridspan_runtime::{Grid, Job};
/// # use gridspan_topology::GridSpec;
/// # use std::time::Duration;
/// # let job = Job::new("pause").main(async |grid: Grid| {
/// #     Ok(grid.sleep(Duration::from_secs(2)).await?)
/// # });
/// # let grid = GridSpec::from_emulate("2x2,wan=32ms").unwrap();
/// use gridspan_sim::{SimOptions, Simulation};
///
/// let options = SimOptions::with_seed(7)
///     .with_processors(1)
///     .with_message_cost(Duration::from_micros(2));
/// let report = Simulation::new(job, grid, options)?.run();
/// assert_eq!(report.outcome, Ok(()));
/// # Ok::<(), gridspan_sim::SimError>(())
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct SimOptions {
    /// Seeds jitter, loss and faults. Default 0.
    pub seed: u64,
    /// Time of a PE for a message whose handler charges nothing. Default 1 µs.
    pub message_cost: Duration,
    /// Time of a PE to accept a packet from another PE, before it handles anything. Default 200 ns.
    pub packet_cost: Duration,
    /// Time of a PE to send a packet to a PE of the same node. Default 100 ns.
    pub local_send_cost: Duration,
    /// Time of a PE to encode a frame and send it to another node. Default 500 ns.
    pub remote_send_cost: Duration,
    /// Rate at which a PE encodes its part of a checkpoint, and decodes the parts that it reads
    /// before it continues from one. Copies on their way are charged to the links in any case.
    /// Default unlimited.
    pub checkpoint_rate: Bandwidth,
    /// Number of processors of each node, which its PEs and other users' processes share fairly.
    /// Default one for each PE.
    pub processors: Option<u32>,
    /// The faults. Default none.
    pub faults: Option<FaultPlan>,
    /// Guests that join while the job runs. Default none.
    pub guests: Vec<GuestPlan>,
    /// Nodes of the layout that are lost while the job runs. Refused over QUIC, see
    /// [`FaultPlan::quic`]. Default none.
    pub lost_nodes: Vec<LostNode>,
    /// Time until others notice that a node has died; over QUIC, the transport decides. Default
    /// 3 s.
    pub silence: Duration,
    /// Whether to keep a [`LogEntry`](crate::LogEntry) of 32 bytes for each packet. The hash of the
    /// log is computed in any case. Default false.
    pub log: bool,
    /// The virtual time after which a job that still runs is ended with an error. The job's own
    /// time limit holds if it is shorter. Default one day.
    pub time_limit: Duration,
}

impl Default for SimOptions {
    fn default() -> Self {
        Self {
            seed: 0,
            message_cost: Duration::from_micros(1),
            packet_cost: Duration::from_nanos(200),
            local_send_cost: Duration::from_nanos(100),
            remote_send_cost: Duration::from_nanos(500),
            checkpoint_rate: Bandwidth::UNLIMITED,
            processors: None,
            faults: None,
            guests: Vec::new(),
            lost_nodes: Vec::new(),
            silence: Duration::from_secs(3),
            log: false,
            time_limit: Duration::from_secs(86_400),
        }
    }
}

impl SimOptions {
    /// The defaults with another seed.
    pub fn with_seed(seed: u64) -> Self {
        Self { seed, ..Self::default() }
    }

    /// Sets the time of a PE for a message whose handler charges nothing.
    #[must_use]
    pub fn with_message_cost(mut self, message_cost: Duration) -> Self {
        self.message_cost = message_cost;
        self
    }

    /// Sets the time of a PE to accept a packet from another PE.
    #[must_use]
    pub fn with_packet_cost(mut self, packet_cost: Duration) -> Self {
        self.packet_cost = packet_cost;
        self
    }

    /// Sets the time of a PE to send a packet to a PE of the same node.
    #[must_use]
    pub fn with_local_send_cost(mut self, local_send_cost: Duration) -> Self {
        self.local_send_cost = local_send_cost;
        self
    }

    /// Sets the time of a PE to encode a frame and send it to another node.
    #[must_use]
    pub fn with_remote_send_cost(mut self, remote_send_cost: Duration) -> Self {
        self.remote_send_cost = remote_send_cost;
        self
    }

    /// Sets the rate at which a PE encodes and decodes checkpoints.
    #[must_use]
    pub fn with_checkpoint_rate(mut self, checkpoint_rate: Bandwidth) -> Self {
        self.checkpoint_rate = checkpoint_rate;
        self
    }

    /// Sets the number of processors of each node.
    #[must_use]
    pub fn with_processors(mut self, processors: impl Into<Option<u32>>) -> Self {
        self.processors = processors.into();
        self
    }

    /// Sets the faults.
    #[must_use]
    pub fn with_faults(mut self, faults: impl Into<Option<FaultPlan>>) -> Self {
        self.faults = faults.into();
        self
    }

    /// Sets the guests that join while the job runs.
    #[must_use]
    pub fn with_guests(mut self, guests: Vec<GuestPlan>) -> Self {
        self.guests = guests;
        self
    }

    /// Sets the nodes of the layout that are lost while the job runs.
    #[must_use]
    pub fn with_lost_nodes(mut self, lost_nodes: Vec<LostNode>) -> Self {
        self.lost_nodes = lost_nodes;
        self
    }

    /// Sets the time until others notice that a node has died.
    #[must_use]
    pub fn with_silence(mut self, silence: Duration) -> Self {
        self.silence = silence;
        self
    }

    /// Sets whether to keep an entry of the log for each packet.
    #[must_use]
    pub fn with_log(mut self, log: bool) -> Self {
        self.log = log;
        self
    }

    /// Sets the virtual time after which a job that still runs is ended with an error.
    #[must_use]
    pub fn with_time_limit(mut self, time_limit: Duration) -> Self {
        self.time_limit = time_limit;
        self
    }
}
