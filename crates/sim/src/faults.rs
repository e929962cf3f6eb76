//! The faults of a simulation.

use gridspan_runtime::session::PlantedSessionFault;
use gridspan_runtime::{NodeId, PeId, Time};
use gridspan_topology::dice::Dice;
use std::collections::BTreeMap;
use std::time::Duration;

/// Faults, all drawn from the seed of the simulation. The default has none. Except for planted
/// bugs, they leave the delivery guarantee intact, so that a correct runtime hides every one.
///
/// ```
/// # use gridspan_runtime::{Grid, Job};
/// # use gridspan_topology::GridSpec;
/// # use std::time::Duration;
/// # let job = Job::new("pause").main(async |grid: Grid| {
/// #     Ok(grid.sleep(Duration::from_secs(2)).await?)
/// # });
/// # let grid = GridSpec::from_emulate("2x2,wan=32ms").unwrap();
/// use gridspan_sim::{FaultPlan, SimOptions, Simulation};
///
/// // One frame in ten is late, and others overtake it.
/// let faults = FaultPlan::default()
///     .with_frame_delay(0.1)
///     .with_delay_max(Duration::from_millis(50))
///     .with_reorder(true);
/// let options = SimOptions::with_seed(1).with_faults(faults);
/// let report = Simulation::new(job, grid, options)?.run();
/// assert_eq!(report.outcome, Ok(()));
/// # Ok::<(), gridspan_sim::SimError>(())
/// ```
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct FaultPlan {
    /// The probability that a frame to another node is delayed.
    pub frame_delay: f64,
    /// The probability that a packet to another PE of the same node is delayed.
    pub local_delay: f64,
    /// The longest delay of a frame or packet.
    pub delay_max: Duration,
    /// Whether other frames and packets may overtake delayed ones. If not, later ones with the same
    /// sender and receiver wait.
    pub reorder: bool,
    /// Pauses of nodes.
    pub pauses: Option<PauseFaults>,
    /// Runs the frames between nodes through the session machine, over connections that fail. The
    /// session then handles the frames: `frame_delay` does not apply.
    pub sessions: Option<SessionFaults>,
    /// Runs the frames between nodes over QUIC in virtual time, through the production transport;
    /// `sessions` does not apply. Delays, loss and the rates of links then apply to datagrams.
    pub quic: Option<QuicFaults>,
}

impl FaultPlan {
    /// Sets the probability that a frame to another node is delayed.
    #[must_use]
    pub fn with_frame_delay(mut self, frame_delay: f64) -> Self {
        self.frame_delay = frame_delay;
        self
    }

    /// Sets the probability that a packet to another PE of the same node is delayed.
    #[must_use]
    pub fn with_local_delay(mut self, local_delay: f64) -> Self {
        self.local_delay = local_delay;
        self
    }

    /// Sets the longest delay of a frame or packet.
    #[must_use]
    pub fn with_delay_max(mut self, delay_max: Duration) -> Self {
        self.delay_max = delay_max;
        self
    }

    /// Sets whether other frames and packets may overtake delayed ones.
    #[must_use]
    pub fn with_reorder(mut self, reorder: bool) -> Self {
        self.reorder = reorder;
        self
    }

    /// Makes nodes pause.
    #[must_use]
    pub fn with_pauses(mut self, pauses: impl Into<Option<PauseFaults>>) -> Self {
        self.pauses = pauses.into();
        self
    }

    /// Runs the frames through the session machine, over connections that fail.
    #[must_use]
    pub fn with_sessions(mut self, sessions: impl Into<Option<SessionFaults>>) -> Self {
        self.sessions = sessions.into();
        self
    }

    /// Runs the frames over QUIC, over a network that fails.
    #[must_use]
    pub fn with_quic(mut self, quic: impl Into<Option<QuicFaults>>) -> Self {
        self.quic = quic.into();
        self
    }
}

/// Nodes that pause: all PEs of a node do nothing for a while, and then continue.
///
/// ```
/// use gridspan_sim::{FaultPlan, PauseFaults};
/// use std::time::Duration;
///
/// let pauses = PauseFaults::new(0.001, Duration::from_millis(20))
///     .with_shortest(Duration::from_millis(5))
///     .with_apart(Duration::from_millis(100));
/// let faults = FaultPlan::default().with_pauses(pauses);
/// # assert!(faults.quic.is_none());
/// ```
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct PauseFaults {
    /// The probability that a node pauses after the turn of one of its PEs.
    pub probability: f64,
    /// The shortest pause.
    pub shortest: Duration,
    /// The longest pause.
    pub longest: Duration,
    /// The least time from the start, or from the end of a pause, to the next pause of the node.
    pub apart: Duration,
}

impl PauseFaults {
    /// Pauses with this probability after each turn, up to `longest`.
    pub fn new(probability: f64, longest: Duration) -> Self {
        Self { probability, shortest: Duration::ZERO, longest, apart: Duration::ZERO }
    }

    /// Sets the shortest pause. If it exceeds the longest one, all pauses take this time.
    #[must_use]
    pub fn with_shortest(mut self, shortest: Duration) -> Self {
        self.shortest = shortest;
        self
    }

    /// Sets the least time from the start, or from the end of a pause, to the next pause of the
    /// node.
    #[must_use]
    pub fn with_apart(mut self, apart: Duration) -> Self {
        self.apart = apart;
        self
    }
}

/// Connections between nodes that fail.
///
/// ```
/// use gridspan_sim::{FaultPlan, SessionFaults};
///
/// let fragile = SessionFaults::default().with_disconnect(0.05);
/// let faults = FaultPlan::default().with_sessions(fragile);
/// # assert!(faults.quic.is_none());
/// ```
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct SessionFaults {
    /// Frames of at least this many bytes go as bulk and overtake others.
    pub bulk_bytes: usize,
    /// The probability that an acknowledgement is lost.
    pub acknowledgement_loss: f64,
    /// The probability that a frame, or an acknowledgement, arrives twice.
    pub duplicate: f64,
    /// The probability that a connection breaks while a given frame is under way.
    pub disconnect: f64,
    /// The probability that a frame under way on a broken connection still arrives, later.
    pub late: f64,
    /// The longest time until a broken connection is established again.
    pub outage_max: Duration,
    /// The probability that all connections between two sites break along with one between them.
    pub partition: f64,
    /// The longest time until all these are established again.
    pub partition_max: Duration,
    /// The bug in the session, if any.
    pub planted: PlantedSessionFault,
}

impl Default for SessionFaults {
    /// Connections that break about once in a hundred frames.
    fn default() -> Self {
        Self {
            bulk_bytes: 256,
            acknowledgement_loss: 0.1,
            duplicate: 0.05,
            disconnect: 0.01,
            late: 0.3,
            outage_max: Duration::from_millis(200),
            partition: 0.0,
            partition_max: Duration::ZERO,
            planted: PlantedSessionFault::None,
        }
    }
}

impl SessionFaults {
    /// Sets the number of bytes from which frames go as bulk and overtake others.
    #[must_use]
    pub fn with_bulk_bytes(mut self, bulk_bytes: usize) -> Self {
        self.bulk_bytes = bulk_bytes;
        self
    }

    /// Sets the probability that an acknowledgement is lost.
    #[must_use]
    pub fn with_acknowledgement_loss(mut self, acknowledgement_loss: f64) -> Self {
        self.acknowledgement_loss = acknowledgement_loss;
        self
    }

    /// Sets the probability that a frame, or an acknowledgement, arrives twice.
    #[must_use]
    pub fn with_duplicate(mut self, duplicate: f64) -> Self {
        self.duplicate = duplicate;
        self
    }

    /// Sets the probability that a connection breaks while a given frame is under way.
    #[must_use]
    pub fn with_disconnect(mut self, disconnect: f64) -> Self {
        self.disconnect = disconnect;
        self
    }

    /// Sets the probability that a frame under way on a broken connection still arrives.
    #[must_use]
    pub fn with_late(mut self, late: f64) -> Self {
        self.late = late;
        self
    }

    /// Sets the longest time until a broken connection is established again.
    #[must_use]
    pub fn with_outage_max(mut self, outage_max: Duration) -> Self {
        self.outage_max = outage_max;
        self
    }

    /// Sets the probability that all connections between two sites break along with one between
    /// them, and the longest time until all these are established again.
    #[must_use]
    pub fn with_partitions(mut self, probability: f64, longest: Duration) -> Self {
        (self.partition, self.partition_max) = (probability, longest);
        self
    }
}

/// A network under QUIC that fails. Nodes count as lost after 3 s of silence: partitions must be
/// shorter.
///
/// ```
/// # use gridspan_runtime::{Grid, Job};
/// # use gridspan_topology::GridSpec;
/// # use std::time::Duration;
/// # let job = Job::new("pause").main(async |grid: Grid| {
/// #     Ok(grid.sleep(Duration::from_secs(2)).await?)
/// # });
/// # let grid = GridSpec::from_emulate("2x2,wan=32ms").unwrap();
/// use gridspan_sim::{FaultPlan, QuicFaults, SimOptions, Simulation};
///
/// let lossy = QuicFaults::default().with_loss(0.02);
/// let faults = FaultPlan::default().with_quic(lossy);
/// let options = SimOptions::with_seed(1).with_faults(faults);
/// let report = Simulation::new(job, grid, options)?.run();
/// assert_eq!(report.outcome, Ok(()));
/// assert!(report.quic.datagrams > 0);
/// # Ok::<(), gridspan_sim::SimError>(())
/// ```
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct QuicFaults {
    /// Frames of more than this many bytes go as bulk and overtake others.
    pub bulk_bytes: u64,
    /// The probability that a datagram is lost, besides the loss of its link.
    pub loss: f64,
    /// The probability that a datagram arrives twice.
    pub duplicate: f64,
    /// The probability that a connection breaks soon after a given frame was sent.
    pub disconnect: f64,
    /// The probability that, when a connection between two sites would break, the sites instead do
    /// not reach each other for a while. The connection stays unless the transport gives it up.
    pub partition: f64,
    /// The longest partition.
    pub partition_max: Duration,
    /// The bug in the transport or the session, if any.
    pub planted: PlantedSessionFault,
}

impl Default for QuicFaults {
    /// Connections that break about once in a thousand frames.
    fn default() -> Self {
        Self {
            bulk_bytes: 1024,
            loss: 0.005,
            duplicate: 0.01,
            disconnect: 0.001,
            partition: 0.0,
            partition_max: Duration::from_millis(1_500),
            planted: PlantedSessionFault::None,
        }
    }
}

impl QuicFaults {
    /// Sets the number of bytes above which frames go as bulk and overtake others.
    #[must_use]
    pub fn with_bulk_bytes(mut self, bulk_bytes: u64) -> Self {
        self.bulk_bytes = bulk_bytes;
        self
    }

    /// Sets the probability that a datagram is lost, besides the loss of its link.
    #[must_use]
    pub fn with_loss(mut self, loss: f64) -> Self {
        self.loss = loss;
        self
    }

    /// Sets the probability that a datagram arrives twice.
    #[must_use]
    pub fn with_duplicate(mut self, duplicate: f64) -> Self {
        self.duplicate = duplicate;
        self
    }

    /// Sets the probability that a connection breaks soon after a given frame was sent.
    #[must_use]
    pub fn with_disconnect(mut self, disconnect: f64) -> Self {
        self.disconnect = disconnect;
        self
    }

    /// Sets the probability that two sites do not reach each other for a while, when a connection
    /// between them would break, and the longest such time.
    #[must_use]
    pub fn with_partitions(mut self, probability: f64, longest: Duration) -> Self {
        (self.partition, self.partition_max) = (probability, longest);
        self
    }
}

/// A node of the layout that is lost while the job runs. The job ends with
/// [`JobError::NodeLost`](gridspan_runtime::JobError::NodeLost), unless it goes on without the node.
///
/// ```
/// use gridspan_runtime::{Grid, Job, JobError, NodeId};
/// use gridspan_sim::{LostNode, SimOptions, Simulation};
/// use gridspan_topology::GridSpec;
/// use std::time::Duration;
///
/// let job = Job::new("pause").main(async |grid: Grid| {
///     Ok(grid.sleep(Duration::from_secs(9)).await?)
/// });
/// let grid = GridSpec::from_emulate("2x2,wan=32ms").unwrap();
/// let lost = LostNode::new(NodeId(3), Duration::from_secs(1));
/// let report = Simulation::new(job, grid, SimOptions::default().with_lost_nodes(vec![lost]))?.run();
/// assert!(matches!(report.outcome, Err(JobError::NodeLost { node: NodeId(3), .. })));
/// # Ok::<(), gridspan_sim::SimError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LostNode {
    /// The node.
    pub node: NodeId,
    /// When it dies, or is declared lost.
    pub at: Duration,
    /// Whether the node does not die: all other nodes declare it lost at once, but it runs until it
    /// learns of that.
    pub is_mistaken: bool,
}

impl LostNode {
    /// A node that dies at this time; the others notice it after [`SimOptions::silence`].
    ///
    /// [`SimOptions::silence`]: crate::SimOptions::silence
    pub fn new(node: NodeId, at: Duration) -> Self {
        Self { node, at, is_mistaken: false }
    }

    /// Lets the node run until it learns that the others have declared it lost. Not for the node of
    /// main.
    #[must_use]
    pub fn mistaken(mut self) -> Self {
        self.is_mistaken = true;
        self
    }
}

/// Counts of events on QUIC connections. All are zero if the nodes do not use QUIC.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct QuicCounts {
    /// Connections that carried a session, between founders.
    pub connections: u64,
    /// Datagrams that were sent.
    pub datagrams: u64,
    /// Of those, datagrams that were lost on links or by [`QuicFaults::loss`]. Datagrams that were
    /// dropped because sites or nodes did not reach each other do not count.
    pub datagrams_lost: u64,
    /// Number of times that a node suspected another.
    pub suspicions: u64,
    /// Number of times that a node declared another lost: only guests, unless the job fails.
    pub lost_nodes: u64,
}

impl std::ops::AddAssign for QuicCounts {
    fn add_assign(&mut self, other: Self) {
        self.connections += other.connections;
        self.datagrams += other.datagrams;
        self.datagrams_lost += other.datagrams_lost;
        self.suspicions += other.suspicions;
        self.lost_nodes += other.lost_nodes;
    }
}

/// Number of faults of each kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct FaultCounts {
    /// Frames and packets that were delayed.
    pub delayed: u64,
    /// Frames and packets that overtook an earlier one.
    pub reordered: u64,
    /// Pauses of nodes.
    pub pauses: u64,
    /// Connections that broke.
    pub disconnects: u64,
    /// Number of times that two sites did not reach each other.
    pub partitions: u64,
    /// Frames that were under way when their connection broke, or datagrams that were dropped
    /// because sites or nodes did not reach each other.
    pub cut_off: u64,
    /// Of those, frames that arrived later.
    pub late: u64,
    /// Frames and acknowledgements, or datagrams, that arrived twice.
    pub duplicated: u64,
    /// Acknowledgements that were lost.
    pub acknowledgements_lost: u64,
    /// Frames that were refused because they came from a lost node of the previous run.
    pub refused: u64,
}

impl std::ops::AddAssign for FaultCounts {
    fn add_assign(&mut self, other: Self) {
        self.delayed += other.delayed;
        self.reordered += other.reordered;
        self.pauses += other.pauses;
        self.disconnects += other.disconnects;
        self.partitions += other.partitions;
        self.cut_off += other.cut_off;
        self.late += other.late;
        self.duplicated += other.duplicated;
        self.acknowledgements_lost += other.acknowledgements_lost;
        self.refused += other.refused;
    }
}

/// Draws delays, and counts them.
pub(crate) struct Delays {
    plan: FaultPlan,
    dice: Dice,
    /// The latest arrival so far by sender and receiver: PEs by number, nodes by inverted number.
    latest: BTreeMap<(u32, u32), Time>,
    pub(crate) counts: FaultCounts,
}

impl Delays {
    pub(crate) fn new(plan: FaultPlan, seed: u64) -> Self {
        let dice = Dice::new(seed ^ 0x6465_6c61_7973_0000);
        Self { plan, dice, latest: BTreeMap::new(), counts: FaultCounts::default() }
    }

    /// Returns the arrival time of a frame between nodes that would arrive at `at` without faults.
    pub(crate) fn frame(&mut self, from: NodeId, to: NodeId, at: Time) -> Time {
        let probability = self.plan.frame_delay;
        self.arrival((!from.0, !to.0), probability, at)
    }

    /// Returns the arrival time of a packet between PEs of a node that would arrive at `at` without
    /// faults.
    pub(crate) fn local(&mut self, from: PeId, to: PeId, at: Time) -> Time {
        let probability = self.plan.local_delay;
        self.arrival((from.0, to.0), probability, at)
    }

    fn arrival(&mut self, way: (u32, u32), probability: f64, mut at: Time) -> Time {
        if probability <= 0.0 {
            return at;
        }
        if self.dice.chance(probability) {
            at += self.dice.up_to(self.plan.delay_max);
            self.counts.delayed += 1;
        }
        let latest = self.latest.entry(way).or_default();
        if at < *latest {
            match self.plan.reorder {
                true => self.counts.reordered += 1,
                false => at = *latest,
            }
        }
        *latest = at.max(*latest);
        at
    }

    /// Draws the pause of a node after a turn of one of its PEs, if any. The node has run for `ran`
    /// since its last pause.
    pub(crate) fn pause(&mut self, ran: Duration) -> Option<Duration> {
        let PauseFaults { probability, shortest, longest, apart } = self.plan.pauses?;
        if ran < apart || !self.dice.chance(probability) {
            return None;
        }
        self.counts.pauses += 1;
        Some(shortest.saturating_add(self.dice.up_to(longest.saturating_sub(shortest))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn pauses_keep_to_their_limits_and_their_distance() {
        let pauses = PauseFaults::new(1.0, 20 * MS).with_shortest(15 * MS).with_apart(5 * MS);
        let mut delays = Delays::new(FaultPlan::default().with_pauses(pauses), 1);

        assert_eq!(delays.pause(4 * MS), None);
        for _ in 0..100 {
            let pause = delays.pause(5 * MS).unwrap();
            assert!((15 * MS..=20 * MS).contains(&pause), "{pause:?}");
        }
        assert_eq!(delays.counts.pauses, 100);
    }

    #[test]
    fn pauses_may_all_have_the_same_length() {
        let pauses = PauseFaults::new(1.0, 20 * MS).with_shortest(20 * MS);
        let mut delays = Delays::new(FaultPlan::default().with_pauses(pauses), 1);
        assert_eq!(delays.pause(Duration::ZERO), Some(20 * MS));
    }
}
