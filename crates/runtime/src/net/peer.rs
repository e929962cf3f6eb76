//! One other node as seen by this node: its session, its connection, and whether it is alive.
//!
//! # Which side dials
//!
//! The side that first has a frame dials. A side that knows that the other one dials waits for that
//! dial for [`AWAIT`], so that one handshake suffices ([`Phase::Awaiting`]). If no connection has
//! come by then, and none is under way, the usual rule holds again: the other side may be unable to
//! dial this one.
//!
//! If both dial at once, the connection that the node with the lower number dialled stays, and each
//! side can decide that by itself:
//!
//! - While both dial, the lower node refuses the connection of the higher node, and the higher node
//!   drops its own dial and accepts that of the lower node. A dial older than [`COLLISION_BEATS`]
//!   and [`HANDSHAKE_ROUND_TRIPS`] no longer counts, in case only one direction works.
//! - While a connection is open, a new one replaces it if the other side has given up the old one.
//!   The other side has done so if it dialled the old one itself, or if its hello counts the old
//!   one as an earlier connection. Otherwise the hello is older than the open connection, and is
//!   refused.
//!
//! # Failure
//!
//! A broken connection is dialled again after a pause that doubles from [`PAUSE_MIN`] to
//! [`PAUSE_MAX`], with a random share so that nodes do not act in step. The lower node starts; the
//! higher waits [`HIGHER_WAITS`] longer.

use crate::session::{Detector, PlantedSessionFault, Session};
use gridspan_topology::{NodeId, Time};
use quinn_proto::ConnectionHandle;
use std::net::SocketAddr;
use std::time::Duration;

/// Time for which a node awaits the first dial of another. The nodes of a job start within less,
/// and a node that is done waits for longer until its last frames are acknowledged.
const AWAIT: Duration = Duration::from_millis(500);
/// Time, in periods of the heartbeat, for which a dial by the lower node makes it refuse a
/// connection from the higher node: longer than a handshake, unless the path is very long.
const COLLISION_BEATS: u32 = 5;
/// Round trips of a dial: one for the handshake, one for the hellos, and one to prove the address.
/// On a path so long that these take longer than the beats of a dial or of a collision, they count.
const HANDSHAKE_ROUND_TRIPS: u32 = 3;
/// First pause before a broken connection is dialled again.
const PAUSE_MIN: Duration = Duration::from_millis(20);
/// Longest pause: by default the detector declares a node lost after 3 s, and several attempts must
/// fit.
const PAUSE_MAX: Duration = Duration::from_millis(500);
/// Additional time that the higher node waits: about one handshake within a continent.
const HIGHER_WAITS: Duration = Duration::from_millis(100);
/// Beats, by default 1.2 s, after which a dial is replaced by another. A lost first packet is sent
/// again after 0.3 s and 0.9 s. QUIC doubles this pause after each attempt, and a new dial begins
/// with the short one again, so it succeeds soon after a network recovers.
const DIAL_BEATS: u32 = 6;
/// Number of times that failed dials double the time for the next dial, as long as the node was
/// never reached. With short dials only, a busy node might complete no handshake.
const DIAL_DOUBLINGS_MAX: u32 = 2;

/// State of the connection with the other node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// There is no connection, and none is needed.
    Idle,
    /// There is no connection, and the other node dials. This node may dial from `until` on.
    Awaiting { until: Time },
    /// A dial is under way.
    Dialling { handle: ConnectionHandle, since: Time },
    /// A connection is open, and frames flow over it.
    Open { handle: ConnectionHandle },
    /// There is no connection; the next dial follows at `until`.
    Waiting { until: Time },
    /// The current incarnation of the other node was declared lost.
    Lost,
}

/// One other node.
#[derive(Debug)]
pub(super) struct Peer {
    pub(super) address: Option<SocketAddr>,
    pub(super) phase: Phase,
    pub(super) session: Session,
    /// Incarnation of the node to which the session belongs, once known.
    pub(super) incarnation: Option<u64>,
    /// Number of connections that the session had.
    pub(super) connections: u64,
    /// Whether this node dialled the latest connection.
    pub(super) dialled_latest: bool,
    pub(super) detector: Option<Detector>,
    /// Failures since a connection was last opened.
    attempts: u32,
    /// Time of the first dial since a connection was last opened.
    pub(super) trying_since: Option<Time>,
    /// Whether a refusal was reported since the last success.
    pub(super) is_refusal_reported: bool,
    /// Time at which a heartbeat, with an acknowledgement, is due.
    pub(super) beat_due: Time,
    /// Time from which its port may be checked again.
    pub(super) check_due: Time,
    /// Whether its port was checked while packets arrived from it.
    pub(super) is_port_known: bool,
    /// Whether its port seemed closed while packets arrived from it: a firewall answers for it.
    pub(super) is_port_hidden: bool,
    /// First congestion window of the next connection, if the path is known.
    pub(super) window: Option<u64>,
}

impl Peer {
    pub(super) fn new(retained_bytes_max: u64, fault: PlantedSessionFault) -> Self {
        Self {
            address: None,
            phase: Phase::Idle,
            session: Session::new(retained_bytes_max, fault),
            incarnation: None,
            connections: 0,
            dialled_latest: false,
            detector: None,
            attempts: 0,
            trying_since: None,
            is_refusal_reported: false,
            beat_due: Time::MAX,
            check_due: Time::ZERO,
            is_port_known: false,
            is_port_hidden: false,
            window: None,
        }
    }

    /// Resets the session; a later incarnation of the node starts a new one.
    pub(super) fn reset(&mut self, retained_bytes_max: u64, fault: PlantedSessionFault) {
        let fresh = Self::new(retained_bytes_max, fault);
        let (address, incarnation, window) = (self.address, self.incarnation, self.window);
        *self = Self { address, incarnation, window, ..fresh };
    }

    pub(super) fn open_link(&self) -> Option<ConnectionHandle> {
        match self.phase {
            Phase::Open { handle } => Some(handle),
            _ => None,
        }
    }

    /// Awaits the first dial of the other node, unless this node has begun to dial. Returns the
    /// time until which it waits.
    pub(super) fn await_dial(&mut self, now: Time) -> Option<Time> {
        if self.phase != Phase::Idle || self.detector.is_some() {
            return None;
        }
        let until = now + AWAIT;
        self.phase = Phase::Awaiting { until };
        Some(until)
    }

    /// Whether to accept a connection that the other side dialled, with `connections` in its hello
    /// and this `round_trip`; see the rules of the module.
    pub(super) fn admits(
        &self,
        (me, them): (NodeId, NodeId),
        connections: u64,
        now: Time,
        (beat, round_trip): (Duration, Duration),
    ) -> bool {
        match self.phase {
            Phase::Dialling { since, .. } => {
                let handshake = round_trip.saturating_mul(HANDSHAKE_ROUND_TRIPS);
                them < me || now.since(since) > handshake.max(beat * COLLISION_BEATS)
            }
            Phase::Open { .. } => !self.dialled_latest || connections >= self.connections,
            Phase::Idle | Phase::Awaiting { .. } | Phase::Waiting { .. } => true,
            Phase::Lost => false,
        }
    }

    /// Returns the time after which a dial is replaced by another.
    pub(super) fn dial_timeout(&self, beat: Duration) -> Duration {
        let (doublings, round_trip) = match &self.detector {
            None => (self.attempts.min(DIAL_DOUBLINGS_MAX), Duration::ZERO),
            Some(detector) => (0, detector.round_trip()),
        };
        let handshake = round_trip.saturating_mul(HANDSHAKE_ROUND_TRIPS);
        handshake.max(beat * (DIAL_BEATS << doublings))
    }

    /// Records that a connection is open.
    pub(super) fn opened(&mut self, handle: ConnectionHandle, dialled: bool, connections: u64) {
        self.phase = Phase::Open { handle };
        self.dialled_latest = dialled;
        self.connections = connections;
        self.attempts = 0;
        self.trying_since = None;
        self.is_refusal_reported = false;
    }

    /// Records that the connection or dial failed. `share` is any number from 0 to 1. Returns the
    /// time of the next dial.
    pub(super) fn failed(&mut self, me: NodeId, them: NodeId, now: Time, share: f64) -> Time {
        let pause = (PAUSE_MIN * 2u32.pow(self.attempts.min(8))).min(PAUSE_MAX);
        self.attempts += 1;
        let extra = if me < them { Duration::ZERO } else { HIGHER_WAITS };
        let until = now + pause.mul_f64(0.75 + share / 2.0) + extra;
        self.phase = Phase::Waiting { until };
        until
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOW: NodeId = NodeId(1);
    const HIGH: NodeId = NodeId(2);
    const BEAT: Duration = Duration::from_millis(200);
    const NEAR: (Duration, Duration) = (BEAT, Duration::from_millis(20));

    fn peer(phase: Phase) -> Peer {
        Peer { phase, connections: 5, ..Peer::new(1000, PlantedSessionFault::None) }
    }

    #[test]
    fn the_lower_nodes_dial_wins_if_both_nodes_dial_at_once() {
        let dialling = peer(Phase::Dialling { handle: ConnectionHandle(0), since: Time::ZERO });
        let early = Time(1_000_000);
        assert!(!dialling.admits((LOW, HIGH), 5, early, NEAR), "the lower refuses");
        assert!(dialling.admits((HIGH, LOW), 5, early, NEAR), "the higher yields");
        let late = Time(2_000_000_000);
        assert!(dialling.admits((LOW, HIGH), 5, late, NEAR), "but not for ever");
        for longer in [(BEAT * 5, NEAR.1), (BEAT, Duration::from_millis(700))] {
            assert!(!dialling.admits((LOW, HIGH), 5, late, longer), "for longer: {longer:?}");
        }
    }

    #[test]
    fn only_a_first_dial_is_awaited_and_admitted_meanwhile() {
        let mut new = peer(Phase::Idle);
        let until = Time::ZERO + AWAIT;
        assert_eq!(new.await_dial(Time::ZERO), Some(until));
        assert_eq!(new.phase, Phase::Awaiting { until });
        for (me, them) in [(LOW, HIGH), (HIGH, LOW)] {
            assert!(new.admits((me, them), 0, Time::ZERO, NEAR));
        }
        let settings = crate::session::DetectorSettings::default();
        let known = Some(Detector::new(settings, Time::ZERO));
        let handle = ConnectionHandle(0);
        for mut other in [
            peer(Phase::Dialling { handle, since: Time::ZERO }),
            peer(Phase::Open { handle }),
            Peer { detector: known, ..peer(Phase::Idle) },
        ] {
            let phase = other.phase;
            assert_eq!(other.await_dial(Time::ZERO), None);
            assert_eq!(other.phase, phase);
        }
    }

    #[test]
    fn an_open_connection_is_replaced_only_by_a_hello_that_is_newer() {
        let open = Phase::Open { handle: ConnectionHandle(0) };
        let dialled = Peer { dialled_latest: true, ..peer(open) };
        assert!(
            !dialled.admits((LOW, HIGH), 4, Time::ZERO, NEAR),
            "said before the fifth was open"
        );
        assert!(dialled.admits((LOW, HIGH), 5, Time::ZERO, NEAR), "the fifth is over there");
        assert!(
            peer(open).admits((LOW, HIGH), 4, Time::ZERO, NEAR),
            "a new dial gives up the last"
        );
    }

    #[test]
    fn pauses_grow_to_their_bound_and_the_higher_node_waits_longer() {
        let mut peer = peer(Phase::Idle);
        let pauses: Vec<_> =
            (0..10).map(|_| peer.failed(LOW, HIGH, Time::ZERO, 0.0).as_nanos()).collect();
        assert!(pauses.is_sorted());
        assert_eq!((pauses[0], pauses[9]), (15_000_000, 375_000_000));
        assert_eq!(peer.failed(HIGH, LOW, Time::ZERO, 0.0).as_nanos(), 475_000_000);
    }

    #[test]
    fn dials_to_a_node_that_was_never_reached_get_more_time_up_to_a_bound() {
        let mut peer = peer(Phase::Idle);
        let timeouts: Vec<_> = (0..4)
            .map(|_| {
                let timeout = peer.dial_timeout(BEAT);
                peer.failed(LOW, HIGH, Time::ZERO, 0.0);
                timeout.as_millis()
            })
            .collect();
        assert_eq!(timeouts, [1_200, 2_400, 4_800, 4_800]);
        let settings = crate::session::DetectorSettings::default();
        peer.detector = Some(Detector::new(settings, Time::ZERO));
        assert_eq!(peer.dial_timeout(BEAT).as_millis(), 1_200);
    }

    #[test]
    fn a_dial_over_a_long_path_gets_the_time_that_its_round_trips_take() {
        for (round_trip, timeout) in [(400, 1_200), (700, 2_100)] {
            let settings = crate::session::DetectorSettings::default();
            let mut detector = Detector::new(settings, Time::ZERO);
            detector.measured(Duration::from_millis(round_trip));
            let known = Peer { detector: Some(detector), ..peer(Phase::Idle) };
            assert_eq!(known.dial_timeout(BEAT).as_millis(), timeout);
        }
    }
}
