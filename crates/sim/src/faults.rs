//! What may go wrong in a simulation.

use gridspan_runtime::{NodeId, PeId, Time, session};
use gridspan_topology::dice::Dice;
use std::collections::BTreeMap;
use std::time::Duration;

/// Faults, each drawn from the seed of the simulation. The default has none. All of them leave the
/// delivery promise intact, so that a correct runtime hides every one.
#[derive(Clone, Debug, Default)]
pub struct FaultPlan {
    /// The probability that a frame to another node is delayed.
    pub frame_delay: f64,
    /// The probability that a packet to another PE of the same node is delayed.
    pub local_delay: f64,
    /// The longest such delay.
    pub delay_max: Duration,
    /// Whether delayed frames and packets may be overtaken. Otherwise those behind them wait.
    pub reorder: bool,
    /// Nodes that stop for a while.
    pub pauses: Option<PauseFaults>,
    /// Runs the frames between nodes through the session machine, over connections that fail.
    /// Frames are then in the hands of the session: `frame_delay` does not apply.
    pub sessions: Option<SessionFaults>,
    /// Runs the frames between nodes over QUIC in virtual time, by the transport of production, and
    /// `sessions` does not apply. Delays, loss and the rates of links then apply to datagrams.
    pub quic: Option<QuicFaults>,
}

/// Nodes that stop for a while: all PEs of a node do nothing, and then go on.
#[derive(Clone, Copy, Debug)]
pub struct PauseFaults {
    /// The probability that a node stops after the turn of one of its PEs.
    pub probability: f64,
    /// The longest pause.
    pub longest: Duration,
}

/// Connections between nodes that fail.
#[derive(Clone, Copy, Debug)]
pub struct SessionFaults {
    /// Frames of at least this many bytes go as bulk and overtake others.
    pub bulk_bytes: usize,
    /// The probability that an acknowledgement is lost.
    pub acknowledgement_loss: f64,
    /// The probability that a frame, or an acknowledgement, arrives twice.
    pub duplicate: f64,
    /// The probability that a connection breaks while a given frame is under way.
    pub disconnect: f64,
    /// The probability that a frame under way on a broken connection still turns up, later.
    pub late: f64,
    /// The longest time before a broken connection is made again.
    pub outage_max: Duration,
    /// The probability that a connection between two sites takes all others between them along when
    /// it breaks.
    pub partition: f64,
    /// The longest time before those are made again.
    pub partition_max: Duration,
    /// The bug in the session, if any.
    pub planted: session::PlantedFault,
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
            planted: session::PlantedFault::None,
        }
    }
}

/// A network under QUIC that fails. Nodes are lost after 3 s of silence: partitions must be
/// shorter.
#[derive(Clone, Copy, Debug)]
pub struct QuicFaults {
    /// Frames of more than this many bytes go as bulk and overtake others.
    pub bulk_bytes: u64,
    /// The probability that a datagram is lost, besides what its link loses.
    pub loss: f64,
    /// The probability that a datagram arrives twice.
    pub duplicate: f64,
    /// The probability that a connection breaks soon after a given frame was sent.
    pub disconnect: f64,
    /// The probability that two sites do not reach each other for a while when a connection between
    /// them would break. The connection stays, as far as the transport makes it.
    pub partition: f64,
    /// The longest such while.
    pub partition_max: Duration,
    /// The bug in the transport or the session, if any.
    pub planted: session::PlantedFault,
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
            planted: session::PlantedFault::None,
        }
    }
}

/// What happened on QUIC connections. All zero where the nodes do not talk over QUIC.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QuicCounts {
    /// Connections that carried a session, between founders.
    pub connections: u64,
    /// Datagrams that were sent.
    pub datagrams: u64,
    /// Of those, datagrams that links lost. Those that a partition cut off are not among them.
    pub datagrams_lost: u64,
    /// How often a node suspected another.
    pub suspicions: u64,
    /// How often a node declared another lost: guests, unless a job fails.
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

/// How often each kind of fault happened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FaultCounts {
    /// Frames and packets that were delayed.
    pub delayed: u64,
    /// Frames and packets that were sent later than another that arrived after them.
    pub reordered: u64,
    /// Pauses of nodes.
    pub pauses: u64,
    /// Connections that broke.
    pub disconnects: u64,
    /// Times that two sites did not reach each other at all.
    pub partitions: u64,
    /// Frames, or datagrams, that were under way then.
    pub cut_off: u64,
    /// Of those, frames that turned up after all.
    pub late: u64,
    /// Frames and acknowledgements, or datagrams, that arrived twice.
    pub duplicated: u64,
    /// Acknowledgements that were lost.
    pub acknowledgements_lost: u64,
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
    }
}

/// Throws the dice for delays, and counts them.
pub(crate) struct Delays {
    plan: FaultPlan,
    dice: Dice,
    /// The latest arrival between two places so far.
    latest: BTreeMap<(u32, u32), Time>,
    pub(crate) counts: FaultCounts,
}

impl Delays {
    pub(crate) fn new(plan: FaultPlan, seed: u64) -> Self {
        let dice = Dice::new(seed ^ 0x6465_6c61_7973_0000);
        Self { plan, dice, latest: BTreeMap::new(), counts: FaultCounts::default() }
    }

    /// When a frame from one node to another arrives that would arrive at `at`.
    pub(crate) fn frame(&mut self, from: NodeId, to: NodeId, at: Time) -> Time {
        let probability = self.plan.frame_delay;
        self.arrival((!from.0, !to.0), probability, at)
    }

    /// When a packet between PEs of one node arrives that would arrive at `at`.
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

    /// How long a node stops after a turn of one of its PEs, if it does.
    pub(crate) fn pause(&mut self) -> Option<Duration> {
        let PauseFaults { probability, longest } = self.plan.pauses?;
        if !self.dice.chance(probability) {
            return None;
        }
        self.counts.pauses += 1;
        Some(self.dice.up_to(longest))
    }
}
