//! The periodic work of a transport: heartbeats, redials, and the detection of lost nodes.

use super::super::hello::HelloRefusal;
use super::super::link::Link;
use super::*;
use crate::address::id::MAIN_PE;
use quinn_proto::TransportErrorCode;

/// If nodes fall silent together, this node heard the last of each within this number of beats: one
/// for the phase of their beats, one for the delay of each, one for packets that were under way.
const TOGETHER_BEATS: u32 = 3;
/// Number of beats of silence after which the port of a node is checked, and a closed port means
/// that the node is lost. Shorter gaps occur while the node still sends packets.
const CHECK_BEATS: u32 = 3;
/// Time between two checks of a port.
const CHECK_EVERY: Duration = Duration::from_secs(1);

impl Transport {
    /// Sends the last acknowledgements to all nodes, for a caller that is about to
    /// [`close`](Self::close).
    pub fn acknowledge_all(&mut self) {
        for node in self.peers.nodes() {
            self.send_beat(node);
        }
    }

    /// Schedules the upkeep for `due` or earlier.
    pub(super) fn upkeep_at(&mut self, due: Instant) {
        if !self.is_closed {
            self.upkeep_due = Some(self.upkeep_due.map_or(due, |earlier| earlier.min(due)));
        }
    }

    pub(super) fn do_upkeep(&mut self) {
        let now = self.time();
        self.upkeep_due = None;
        self.strangers_left = STRANGERS_MAX;
        self.report_refusals();
        let slept = self.local.poll(now);
        if slept > Duration::ZERO {
            tracing::debug!(?slept, "this node did not run");
        }
        for handle in self.links.handles() {
            self.look_after_link(handle, now);
        }
        for node in self.peers.nodes() {
            if let Some(detector) = &mut self.peers[node].detector {
                detector.forgive(slept, now);
            }
            self.look_after(node, now);
        }
        if self.links.handles().next().is_some() {
            self.upkeep_at(self.now + UPKEEP_EVERY);
        }
    }

    /// Returns at most `max` nodes whose ports should be checked now: once when they connect, and
    /// while they are silent. The others wait for the next call.
    pub fn take_ports_to_check(&mut self, max: usize) -> Vec<NodeId> {
        let (now, beats) = (self.time(), self.config.detector.beat * CHECK_BEATS);
        let mut taken = Vec::new();
        while taken.len() < max
            && let Some(node) = self.ports_to_check.pop_first()
        {
            if let Some(peer) = self.peers.get_mut(node) {
                let is_heard = |detector: &Detector| detector.silence(now) < beats;
                peer.is_port_known |= peer.detector.as_ref().is_some_and(is_heard);
            }
            taken.push(node);
        }
        taken
    }

    /// Whether packets of a node have been missing for so long that its port is checked.
    pub fn is_silent(&self, node: NodeId) -> bool {
        let (now, beats) = (self.time(), self.config.detector.beat * CHECK_BEATS);
        let detector = self.peers.get(node).and_then(|peer| peer.detector.as_ref());
        detector.is_some_and(|detector| detector.silence(now) >= beats)
    }

    /// Handles an answer that no process has the port of a node: if the node is silent, it is lost.
    /// If packets arrive from the node, the answer comes from a firewall or from a router that
    /// translates addresses, and later answers do not count. Neither do they if the port was never
    /// checked while packets arrived.
    pub fn port_closed(&mut self, now: Instant, node: NodeId) {
        self.now = self.now.max(now);
        let now = self.time();
        let beats = self.config.detector.beat * CHECK_BEATS;
        let Some(peer) = self.peers.get_mut(node) else { return };
        let Some(detector) = peer.detector.as_ref().filter(|_| peer.phase != Phase::Lost) else {
            return;
        };
        let silence = detector.silence(now);
        if silence < beats {
            peer.is_port_hidden = true;
        } else if peer.is_port_known && !peer.is_port_hidden {
            self.lose(node, LossReason::PortClosed { silence });
        }
    }

    /// Whether this node checks the port of another one. All nodes check those of guests. The node
    /// of main checks those of all other founders, which check that of main's node.
    ///
    /// Any other two founders may learn at different times that the job is over. The first one then
    /// closes its port, and its farewell may be lost, so that the other one would count it as lost.
    /// Main's node learns of the end before the others, unless the coordinator has moved, and
    /// closes its port once the others know of it.
    pub(super) fn checks_port_of(&self, node: NodeId) -> bool {
        let layout = &self.config.layout;
        let (me, main) = (self.node(), layout.node_of(MAIN_PE));
        layout.is_guest(node) || (!layout.is_guest(me) && (me == main || node == main))
    }

    fn look_after(&mut self, node: NodeId, now: Time) {
        let beat = self.config.detector.beat;
        let checks_port = self.checks_port_of(node);
        let peer = &mut self.peers[node];
        if let Some(health) = peer.detector.as_mut().and_then(|detector| detector.poll(now)) {
            match health {
                Health::Suspected => {
                    tracing::info!(%node, "suspected");
                    self.events.push_back(TransportEvent::Suspected(node));
                    self.redial_silent(node);
                }
                Health::Lost => {
                    let detector = peer.detector.as_ref();
                    let silence = detector.map_or(Duration::ZERO, Detector::patience);
                    let others = self.as_silent_as(node, now);
                    self.lose(node, LossReason::Silent { silence, others });
                    return;
                }
                Health::Alive => {}
            }
        }
        let peer = &mut self.peers[node];
        let is_silent = |detector: &Detector| detector.silence(now) >= beat * CHECK_BEATS;
        if checks_port
            && !peer.is_port_hidden
            && peer.check_due <= now
            && peer.detector.as_ref().is_some_and(is_silent)
        {
            peer.check_due = now + CHECK_EVERY;
            self.ports_to_check.insert(node);
        }
        match peer.phase {
            Phase::Open { .. } if peer.beat_due <= now => self.send_beat(node),
            Phase::Open { .. } => {
                let due = self.now + peer.beat_due.since(now);
                self.upkeep_at(due);
            }
            Phase::Dialling { handle, since } if now.since(since) >= peer.dial_timeout(beat) => {
                if let Some(link) = self.links.get_mut(handle) {
                    link.close(self.now, CODE_REPLACED, "no answer in time");
                    self.links.wake(handle);
                }
                self.give_up_or_redial(node, now);
            }
            Phase::Waiting { until } if until <= now => {
                peer.phase = Phase::Idle;
                self.dial(node);
            }
            Phase::Waiting { until } => self.upkeep_at(self.now + until.since(now)),
            Phase::Awaiting { until } if until <= now => self.end_wait_for_dial(node, until),
            Phase::Awaiting { until } => self.upkeep_at(self.now + until.since(now)),
            Phase::Idle | Phase::Dialling { .. } | Phase::Lost => {}
        }
    }

    /// Dials a node whose dial was awaited `until` now, if there are frames for it. If its dial has
    /// arrived by then, waits for the hello, but for no longer than a dial takes.
    fn end_wait_for_dial(&mut self, node: NodeId, until: Time) {
        let (now, peer) = (self.time(), &mut self.peers[node]);
        let timeout = peer.dial_timeout(self.config.detector.beat);
        let is_recent = |opened: Time| opened <= until && now.since(opened) < timeout;
        if peer.address.is_some_and(|address| self.links.is_greeting_from(address, is_recent)) {
            return self.upkeep_at(self.now + UPKEEP_EVERY);
        }
        peer.phase = Phase::Idle;
        if !peer.session.sender.is_flushed() {
            self.dial(node);
        }
    }

    /// Returns the other nodes that fell silent together with `node`: a site that is cut off is
    /// lost as a whole, although its nodes are detected one by one.
    fn as_silent_as(&self, node: NodeId, now: Time) -> Vec<NodeId> {
        let phase = self.config.detector.beat * TOGETHER_BEATS;
        let is_silent = |other: NodeId| {
            let detector = self.peers[other].detector.as_ref();
            detector.is_some_and(|detector| detector.silence(now) + phase >= detector.patience())
        };
        let is_given_up = |other: NodeId| self.peers[other].phase == Phase::Lost;
        let others = self.peers.nodes().filter(|&other| other != node);
        others.filter(|&other| !is_given_up(other) && is_silent(other)).collect()
    }

    /// Dials a silent node again, since a connection may not recover although the network does. Its
    /// window may be full of packets that the network lost: then not even heartbeats leave, and
    /// QUIC retries only after pauses that grow with the silence. Or a router on the path has
    /// forgotten the connection. A new connection also keeps the congestion window, which QUIC
    /// would reset after an outage.
    fn redial_silent(&mut self, node: NodeId) {
        let Some(handle) = self.peers[node].open_link() else { return };
        if let Some(link) = self.links.get_mut(handle) {
            link.close(self.now, CODE_REPLACED, "stuck");
            self.links.wake(handle);
            self.link_down(node);
        }
    }

    /// Declares a node lost that was never reached within the patience, or schedules the next dial.
    pub(super) fn give_up_or_redial(&mut self, node: NodeId, now: Time) {
        let patience = self.config.limits.connect_patience;
        let peer = &self.peers[node];
        let tried = peer.trying_since.map_or(Duration::ZERO, |since| now.since(since));
        if peer.detector.is_none() && tried >= patience {
            self.lose(node, LossReason::Unreachable(patience));
        } else {
            self.wait_and_redial(node);
        }
    }

    fn look_after_link(&mut self, handle: ConnectionHandle, now: Time) {
        let send_window_max = self.config.limits.send_window_max;
        let Some(link) = self.links.get_mut(handle) else { return };
        match link.stage {
            Stage::Greeting
                if link.dialled.is_none()
                    && now.since(link.opened) >= self.config.detector.beat * GREETING_BEATS =>
            {
                // If the address is a node's, the node gave up its dial, and the packet that closed
                // the connection was lost.
                let address = link.address;
                if self.node_at(address).is_some() {
                    self.replace(handle);
                } else {
                    self.refuse(handle, HelloRefusal::Silent);
                }
            }
            Stage::Open => {
                let window = 2 * link.connection.congestion_state().window();
                let window = window.clamp(SEND_WINDOW_MIN, send_window_max.max(SEND_WINDOW_MIN));
                link.connection.set_send_window(window);
                let round_trip = link.connection.rtt();
                if link.was_heard()
                    && let Some(node) = link.peer
                {
                    if let Some(detector) = &mut self.peers[node].detector {
                        detector.measured(round_trip);
                    }
                    self.heard(node);
                }
            }
            Stage::Greeting | Stage::Closed => {}
        }
    }

    /// Sends a heartbeat to `node`, with the frames received from it.
    pub(super) fn send_beat(&mut self, node: NodeId) {
        let due = self.time() + self.config.detector.beat;
        let peer = &mut self.peers[node];
        let Some(handle) = peer.open_link() else { return };
        let mut beat = BytesMut::with_capacity(32);
        write_beat(&mut beat, peer.session.receiver.received());
        peer.session.receiver.acknowledged();
        peer.beat_due = due;
        if let Some(link) = self.links.get_mut(handle) {
            link.send_beat(beat.freeze());
            self.links.wake(handle);
        }
    }

    /// Handles the end of a link that the other side or the network has caused.
    pub(super) fn link_ended(&mut self, handle: ConnectionHandle, reason: &ConnectionError) {
        self.abandon(handle);
        let Some(link) = self.links.get(handle) else { return };
        let (address, peer, dialled) = (link.address, link.peer, link.dialled);
        tracing::debug!(?peer, ?dialled, %address, %reason, "connection ended");
        if let ConnectionError::ApplicationClosed(close) = reason {
            let text = String::from_utf8_lossy(&close.reason).into_owned();
            if let Some(node) = peer.or(dialled) {
                if close.error_code == CODE_CLOSED && self.is_current(handle, node) {
                    return self.lose(node, LossReason::Closed(text));
                }
                if let Some(cause) = HelloRefusal::cause_of(close.error_code)
                    && self.is_current(handle, node)
                    && self.is_of_session(handle, node)
                {
                    let refusal = HelloRefusal::ByPeer { cause, text };
                    self.report_refusal(address, dialled, refusal.clone());
                    return self.lose(node, LossReason::Refused(refusal));
                }
            }
        }
        match (peer, dialled) {
            (Some(node), _) if self.is_current(handle, node) => self.link_down(node),
            (None, Some(node)) if self.is_current(handle, node) => {
                let is_new = !self.peers[node].is_refusal_reported;
                let is_handshake = !matches!(reason, ConnectionError::ApplicationClosed(_));
                if is_new && is_handshake && !is_withdrawal(reason) {
                    self.peers[node].is_refusal_reported = true;
                    self.report_refusal(
                        address,
                        Some(node),
                        HelloRefusal::Handshake(reason.to_string()),
                    );
                }
                self.give_up_or_redial(node, self.time());
            }
            (None, None) if !is_withdrawal(reason) => {
                self.report_refusal(address, None, HelloRefusal::Handshake(reason.to_string()));
            }
            _ => {}
        }
    }

    /// Handles a violation of the protocol by the other side: ends the connection, and establishes
    /// another, on which the session resumes. A node that keeps violating the protocol slows down
    /// only its own connections.
    pub(super) fn misbehaved(&mut self, handle: ConnectionHandle, node: NodeId, problem: &str) {
        tracing::warn!(%node, problem, "connection closed: the node violated the protocol");
        if let Some(link) = self.links.get_mut(handle) {
            link.close(self.now, CODE_REPLACED, problem);
            self.links.wake(handle);
        }
        self.abandon(handle);
        if self.is_current(handle, node) {
            self.link_down(node);
        }
    }

    /// Handles a broken connection to a node: keeps its congestion window if that suits the path,
    /// and schedules the next dial.
    pub(super) fn link_down(&mut self, node: NodeId) {
        if let Some(handle) = self.peers[node].open_link() {
            self.abandon(handle);
            if let Some(link) = self.links.get(handle) {
                let path = link.connection.stats().path;
                let (least, most) = WINDOW_REMEMBERED;
                // A window with a loss of more than one packet in fifty was too large for the path.
                let is_good = path.lost_packets * 50 < path.sent_packets;
                let known = self.config.windows.get(&node).copied();
                let window = if is_good { Some(path.cwnd.clamp(least, most)) } else { known };
                self.peers[node].window = window;
            }
        }
        self.wait_and_redial(node);
    }

    /// Declares a node lost in its present incarnation.
    pub(super) fn lose(&mut self, node: NodeId, reason: LossReason) {
        let peer = &mut self.peers[node];
        let (phase, retained) = (peer.phase, self.config.limits.retained_bytes_max);
        peer.reset(retained, self.config.fault);
        peer.phase = Phase::Lost;
        if let Phase::Open { handle } | Phase::Dialling { handle, .. } = phase {
            self.abandon(handle);
            if let Some(link) = self.links.get_mut(handle) {
                let refusal = HelloRefusal::Lost;
                link.close(self.now, refusal.code(), &refusal.to_string());
                self.links.wake(handle);
            }
        }
        tracing::info!(%node, %reason, "lost");
        self.events.push_back(TransportEvent::Lost { node, reason });
    }

    /// Drops the frames that a link was receiving; the other side sends them again.
    pub(super) fn abandon(&mut self, handle: ConnectionHandle) {
        if let Some(link) = self.links.get_mut(handle) {
            link.incoming.abandon(&mut self.assembly);
        }
        self.retry_starved();
    }

    /// Whether the other side of a link has the certificate of the incarnation with which this node
    /// has a session: an earlier incarnation of a node must not end the session with a later one.
    fn is_of_session(&self, handle: ConnectionHandle, node: NodeId) -> bool {
        let Some(incarnation) = self.peers[node].incarnation else { return true };
        let presented = self.links.get(handle).map(Link::presented).unwrap_or_default();
        identity::certifies(&presented, &self.config.identity.job, node, incarnation)
    }

    fn is_current(&self, handle: ConnectionHandle, node: NodeId) -> bool {
        matches!(self.peers[node].phase,
            Phase::Open { handle: current } | Phase::Dialling { handle: current, .. }
                if current == handle)
    }
}

/// Whether a connection ended although neither node failed: another one replaces it, or one side
/// gave up waiting. During the handshake QUIC does not transmit the application's error code.
fn is_withdrawal(reason: &ConnectionError) -> bool {
    match reason {
        ConnectionError::ApplicationClosed(close) => close.error_code == CODE_REPLACED,
        ConnectionError::ConnectionClosed(close) => {
            close.error_code == TransportErrorCode::APPLICATION_ERROR
        }
        ConnectionError::Reset | ConnectionError::TimedOut | ConnectionError::LocallyClosed => true,
        _ => false,
    }
}
