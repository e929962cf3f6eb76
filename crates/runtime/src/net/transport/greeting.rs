//! The start of a transport's connections: dialling, accepting, and checking the other side's
//! identity.

use super::super::hello::{Hello, HelloRefusal};
use super::*;
use crate::session::PlantedSessionFault;
use gridspan_topology::Latency;

impl Transport {
    /// Handles the first packet of a new connection: accepts it, ignores it if there is no place,
    /// or requests a proof of its address if there are many handshakes.
    pub(super) fn admit(&mut self, now: Instant, incoming: Incoming) {
        let greeting = self.links.greeting();
        let limits = &self.config.limits;
        let address = incoming.remote_address();
        let node = self.node_at(address);
        let is_full = greeting >= limits.handshakes_max;
        let is_proven = incoming.remote_address_validated();
        if !self.is_closed && greeting >= limits.retry_above && !is_proven {
            self.links.retry(incoming);
        } else if self.is_closed
            || (node.is_none() && self.strangers_left == 0)
            || (is_full && !self.evict_handshake())
        {
            tracing::debug!(%address, greeting, "new connection ignored");
            self.links.ignore(incoming);
            // The upkeep resets the number of handshakes that may begin.
            self.upkeep_at(now + UPKEEP_EVERY);
        } else {
            self.strangers_left -= u32::from(node.is_none() && self.strangers_left > 0);
            let path = PathKind::of(&self.config, node, address);
            let window = node.and_then(|node| self.peers[node].window);
            let mut server = self.server.clone();
            server.transport_config(Arc::new(quic_config(&self.config, path, window)));
            let accepted = self.links.accept((now, self.time()), incoming, Arc::new(server));
            if let Err(problem) = accepted {
                self.report_refusal(address, None, HelloRefusal::Handshake(problem));
            }
            self.upkeep_at(now + UPKEEP_EVERY);
        }
    }

    /// Ends the oldest handshake from an address that is not a node's, to make room for another.
    /// Handshakes of nodes stay: in a job with more nodes than places they would evict each other.
    /// Returns whether there is room now.
    fn evict_handshake(&mut self) -> bool {
        let known = &self.nodes_by_address;
        let Some(handle) = self.links.oldest_greeting(|address| !known.contains_key(&address))
        else {
            return false;
        };
        tracing::debug!("the oldest handshake was evicted");
        self.replace(handle);
        true
    }

    /// Dials a node, if its address is known.
    pub(super) fn dial(&mut self, node: NodeId) {
        let time = self.time();
        let peer = &mut self.peers[node];
        let Some(address) = peer.address else { return };
        peer.trying_since.get_or_insert(time);
        let path = PathKind::of(&self.config, Some(node), address);
        let mut client = ClientConfig::new(self.client.clone());
        client.transport_config(Arc::new(quic_config(&self.config, path, peer.window)));
        let name = identity::node_name(&self.config.identity.job, node);
        tracing::debug!(%node, %address, "dial");
        let now = (self.now, time);
        match self.links.connect(now, client, (node, address), &name) {
            Ok(handle) => {
                self.peers[node].phase = Phase::Dialling { handle, since: time };
                self.upkeep_at(self.now + UPKEEP_EVERY);
            }
            Err(error) => {
                self.report_refusal(
                    address,
                    Some(node),
                    HelloRefusal::Handshake(error.to_string()),
                );
                self.give_up_or_redial(node, time);
            }
        }
    }

    /// Schedules the next dial after a connection or dial has failed.
    pub(super) fn wait_and_redial(&mut self, node: NodeId) {
        let (me, now, share) = (self.node(), self.time(), self.dice.unit());
        let until = self.peers[node].failed(me, node, now, share);
        self.upkeep_at(self.now + until.since(now));
    }

    /// Sends the hello to the node that this one dialled.
    pub(super) fn say_hello(&mut self, handle: ConnectionHandle) {
        let Some(node) = self.links.get(handle).and_then(|link| link.dialled) else { return };
        self.write_hello(handle, node);
    }

    fn write_hello(&mut self, handle: ConnectionHandle, to: NodeId) {
        let identity = &self.config.identity;
        let peer = &mut self.peers[to];
        let hello = Hello {
            job: identity.job.clone(),
            node: identity.node,
            incarnation: identity.incarnation,
            to,
            session_with: peer.incarnation,
            connections: peer.connections,
            received: peer.session.receiver.resume(),
        };
        let Some(link) = self.links.get_mut(handle) else { return };
        match hello.write() {
            Ok(bytes) => link.say_hello(&bytes),
            Err(error) => {
                tracing::error!(%to, %error, "no connection");
                link.close(self.now, HelloRefusal::Malformed.code(), &error.to_string());
            }
        }
        self.links.wake(handle);
    }

    /// Checks the other side's hello and opens the link, or refuses it. Ignores the hello if this
    /// side has ended the link meanwhile.
    pub(super) fn handle_hello(&mut self, handle: ConnectionHandle, hello: &Hello) {
        if self.links.get(handle).is_none_or(|link| link.is_ended_here) {
            return;
        }
        if let Err(refusal) = self.check_hello(handle, hello) {
            self.refuse(handle, refusal);
            return;
        }
        let node = hello.node;
        if self.config.layout.is_guest(node)
            && self.peers.get(node).is_none_or(|peer| peer.address.is_none())
            && let Some(address) = self.links.get(handle).map(|link| link.address)
        {
            self.set_address(node, address);
        }
        self.forget_earlier(handle, hello);
        match self.links.get(handle).map(|link| link.dialled.is_some()) {
            Some(true) => self.open_dialled(handle, hello),
            Some(false) => self.open_accepted(handle, hello),
            None => {}
        }
    }

    /// Declares the earlier incarnation of a restarted node lost, and forgets its session. If this
    /// node dialled the link of the hello, that link has reached the new incarnation and stays. Any
    /// other dial to the node ends as replaced.
    fn forget_earlier(&mut self, handle: ConnectionHandle, hello: &Hello) {
        let (node, incarnation) = (hello.node, hello.incarnation);
        if self.peers[node].incarnation.is_none_or(|known| known >= incarnation) {
            return;
        }
        if let Phase::Dialling { handle: dial, .. } = self.peers[node].phase {
            self.peers[node].phase = Phase::Idle;
            if dial != handle {
                self.replace(dial);
            }
        }
        if self.peers[node].phase != Phase::Lost {
            self.lose(node, LossReason::Restarted { incarnation });
        }
        let retained = self.config.limits.retained_bytes_max;
        self.peers[node].reset(retained, self.config.fault);
        if let Some(link) = self.links.get(handle)
            && link.dialled.is_some()
        {
            let since = self.time();
            self.peers[node].phase = Phase::Dialling { handle, since };
        }
    }

    /// Opens a link that this node dialled, unless another one has replaced it.
    fn open_dialled(&mut self, handle: ConnectionHandle, hello: &Hello) {
        let is_current = matches!(self.peers[hello.node].phase,
            Phase::Dialling { handle: current, .. } if current == handle);
        if is_current {
            self.open(handle, hello, hello.connections);
        } else {
            self.replace(handle);
        }
    }

    /// Opens a link that the other side dialled, and ends another link to the same node. If the
    /// rules of `peer.rs` keep the other link, ends the new one instead.
    fn open_accepted(&mut self, handle: ConnectionHandle, hello: &Hello) {
        let node = hello.node;
        let (me, now, beat) = (self.node(), self.time(), self.config.detector.beat);
        let Some(round_trip) = self.links.get(handle).map(|link| link.connection.rtt()) else {
            return;
        };
        let peer = &self.peers[node];
        if !peer.admits((me, node), hello.connections, now, (beat, round_trip)) {
            tracing::debug!(%node, "a second connection is refused");
            self.replace(handle);
            return;
        }
        if let Phase::Dialling { handle: other, .. } | Phase::Open { handle: other } = peer.phase {
            self.abandon(other);
            self.replace(other);
        }
        // A hello may state any number, so the sum must not overflow.
        let connections = self.peers[node].connections.max(hello.connections).saturating_add(1);
        self.peers[node].incarnation = Some(hello.incarnation);
        self.peers[node].connections = connections;
        self.write_hello(handle, node);
        self.open(handle, hello, connections);
    }

    fn check_hello(&self, handle: ConnectionHandle, hello: &Hello) -> Result<(), HelloRefusal> {
        let identity = &self.config.identity;
        let claimed = hello.node;
        if hello.job != identity.job {
            return Err(HelloRefusal::Job { theirs: hello.job.clone() });
        }
        let link = self.links.get(handle).ok_or(HelloRefusal::Malformed)?;
        let is_known = self.peers.get(claimed).is_some() || self.config.layout.is_guest(claimed);
        if !is_known
            || claimed == identity.node
            || hello.to != identity.node
            || link.dialled.is_some_and(|dialled| dialled != claimed)
        {
            return Err(HelloRefusal::Node { claimed });
        }
        let (presented, theirs) = (link.presented(), hello.incarnation);
        if !identity::certifies(&presented, &identity.job, claimed, theirs) {
            return Err(HelloRefusal::Certificate { claimed, incarnation: theirs });
        }
        // For the first connection of a guest, the certificate is sufficient.
        let Some(peer) = self.peers.get(claimed) else { return Ok(()) };
        match peer.incarnation {
            Some(known) if known > theirs => Err(HelloRefusal::Incarnation { theirs, known }),
            Some(known) if known == theirs && peer.phase == Phase::Lost => Err(HelloRefusal::Lost),
            None if peer.phase == Phase::Lost => Err(HelloRefusal::Lost),
            _ => Ok(()),
        }
    }

    /// Resumes the session and lets frames flow, once both hellos are accepted.
    fn open(&mut self, handle: ConnectionHandle, hello: &Hello, connections: u64) {
        let node = hello.node;
        let now = self.time();
        let peer = &mut self.peers[node];
        // Frames that the other side received from an earlier incarnation of this node are not of
        // this session.
        let is_resumed = hello.session_with == Some(self.config.identity.incarnation);
        let received = if is_resumed { hello.received.clone() } else { Default::default() };
        let sender = &mut peer.session.sender;
        let resumed = match self.config.fault {
            PlantedSessionFault::NotResumed => sender.acknowledge(&received),
            _ => sender.resume(&received),
        };
        if resumed.is_err() {
            self.refuse(handle, HelloRefusal::Malformed);
            return;
        }
        let Some(link) = self.links.get_mut(handle) else { return };
        link.peer = Some(node);
        link.stage = Stage::Open;
        let dialled = link.dialled.is_some();
        let rtt = Latency(link.connection.rtt());
        peer.incarnation = Some(hello.incarnation);
        peer.opened(handle, dialled, connections);
        peer.beat_due = now + self.config.detector.beat;
        tracing::debug!(%node, connections, ?rtt, dialled, "connection open");
        if peer.detector.is_none() {
            peer.detector = Some(Detector::new(self.config.detector_of(node), now));
            tracing::info!(%node, incarnation = hello.incarnation, "connected");
            if self.checks_port_of(node) {
                self.ports_to_check.insert(node);
            }
            self.events.push_back(TransportEvent::Connected(node));
        }
        self.heard(node);
        self.upkeep_at(self.now + UPKEEP_EVERY);
        self.links.wake(handle);
        self.links.touch(handle);
    }

    /// Ends a link that another one replaces.
    pub(super) fn replace(&mut self, handle: ConnectionHandle) {
        if let Some(link) = self.links.get_mut(handle) {
            link.close(self.now, CODE_REPLACED, "replaced");
            self.links.wake(handle);
        }
    }

    /// Ends a link with a refusal.
    pub(super) fn refuse(&mut self, handle: ConnectionHandle, refusal: HelloRefusal) {
        let Some(link) = self.links.get_mut(handle) else { return };
        let (address, dialled) = (link.address, link.dialled);
        link.close(self.now, refusal.code(), &refusal.to_string());
        self.links.wake(handle);
        self.report_refusal(address, dialled, refusal);
        if let Some(node) = dialled
            && matches!(self.peers[node].phase, Phase::Dialling { handle: h, .. } if h == handle)
        {
            self.wait_and_redial(node);
        }
    }

    pub(super) fn report_refusal(
        &mut self,
        address: SocketAddr,
        node: Option<NodeId>,
        reason: HelloRefusal,
    ) {
        if node.is_some() {
            // Pauses between dials grow, so that these reports are rare.
            self.events.push_back(TransportEvent::Refused { address, node, reason, count: 1 });
            return;
        }
        let due = self.refusals.add(self.now, address, reason);
        self.report_refusals();
        self.upkeep_at(due);
    }

    /// Reports the refused connections of unknown addresses, if a report is due.
    pub(super) fn report_refusals(&mut self) {
        if let Some((count, address, reason)) = self.refusals.poll(self.now) {
            let node = None;
            self.events.push_back(TransportEvent::Refused { address, node, reason, count });
        }
    }
}
