//! The loop around a transport with its socket and clock, which runs on its own thread or inline in
//! another loop.
//!
//! One [`turn`](NetLoop::turn) sends due packets, receives, waits if there is nothing to do, and
//! reports events. Answers that the caller sends in response leave at the start of the next turn,
//! in one packet with the acknowledgement of the frames that they answer.
//!
//! A node is silent while no caller turns its loop. A caller whose own work can take longer than a
//! second between two turns must run the loop on a separate thread, or other nodes suspect this
//! node, and declare it lost, by default after three seconds.

use super::emulator::Emulator;
use super::event::TransportEvent;
use super::port_checks::PortChecks;
use super::probe_packet::is_probe;
use super::prober::Prober;
use super::sampler::Sampler;
use super::send_costs::SendCosts;
use super::transport::Transport;
use super::udp::{Outbound, UdpPort, Waker};
use crate::message::probe::{ProbeOrder, ProbeReport};
use quinn_proto::{EcnCodepoint, Transmit};
use std::io;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

/// Sends per turn, of up to 64 KiB each: packets that arrive meanwhile must not wait for longer
/// than a millisecond.
const SENDS_PER_TURN: usize = 16;

/// Longest wait for room in the kernel's buffer before another attempt to send. Timers run late by
/// at most this time.
const ROOM_PATIENCE: Duration = Duration::from_millis(5);

/// Time allowed for the last packets over emulated links; other nodes declare a silent node lost
/// after the same time.
const FAREWELL: Duration = Duration::from_secs(3);
/// Number of copies of the last packet of a connection, which contains the reason for the end. QUIC
/// does not send this packet again. If all copies are lost, the other node only finds the port
/// closed.
const FAREWELL_COPIES: u32 = 3;

/// A transport with its socket.
pub struct NetLoop {
    transport: Transport,
    port: UdpPort,
    emulator: Option<Emulator>,
    prober: Prober,
    sampler: Sampler,
    port_checks: PortChecks,
    send_costs: SendCosts,
    buffer: Vec<u8>,
    /// Packets that the kernel had no room for; their bytes are in `buffer`.
    stuck: Option<Batch>,
    /// Sum of the times for which the loop has waited for packets.
    waited: Duration,
}

/// Source of packets to send.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Source {
    Probes,
    Connections,
}

impl Source {
    fn other(self) -> Self {
        match self {
            Self::Probes => Self::Connections,
            Self::Connections => Self::Probes,
        }
    }
}

/// Where the packets in the buffer go, and how.
#[derive(Clone, Copy, Debug)]
struct Batch {
    destination: SocketAddr,
    ecn: Option<EcnCodepoint>,
    segment_size: Option<usize>,
}

impl NetLoop {
    /// Joins a transport, a socket and, if links between sites are emulated, an emulator.
    pub fn new(transport: Transport, port: UdpPort, emulator: Option<Emulator>) -> Self {
        let now = Instant::now();
        let prober = Prober::new(transport.node(), transport.probe_key(), now);
        let sampler = Sampler::new(now);
        Self {
            transport,
            port,
            emulator,
            prober,
            sampler,
            port_checks: PortChecks::default(),
            send_costs: SendCosts::default(),
            buffer: vec![],
            stuck: None,
            waited: Duration::ZERO,
        }
    }

    /// Returns for how long the loop has waited for packets so far.
    pub fn waited(&self) -> Duration {
        self.waited
    }

    /// Measures the paths to other nodes; [`TransportEvent::Probed`] follows.
    pub fn probe(&mut self, order: ProbeOrder) {
        self.prober.order(Instant::now(), order);
    }

    /// Returns the transport.
    pub fn transport(&mut self) -> &mut Transport {
        &mut self.transport
    }

    /// Returns the emulator, if links are emulated.
    pub fn emulator(&self) -> Option<&Emulator> {
        self.emulator.as_ref()
    }

    /// Returns the address on which packets are received.
    ///
    /// # Errors
    ///
    /// If the system does not report it.
    pub fn local_address(&self) -> io::Result<SocketAddr> {
        self.port.local_address()
    }

    /// Returns a waker that ends a wait from another thread.
    pub fn waker(&self) -> Waker {
        self.port.waker()
    }

    /// Sends due packets and receives; waits at most `timeout` (`None`: without limit) if there is
    /// nothing to do. Returns the number of events.
    ///
    /// # Errors
    ///
    /// If the socket fails. Packets that the network refuses are lost without an error.
    pub fn turn(
        &mut self,
        timeout: Option<Duration>,
        on_event: &mut dyn FnMut(TransportEvent),
    ) -> io::Result<usize> {
        let begin = Instant::now();
        let is_more = self.transmit(begin)?;
        let mut events = self.dispatch(on_event);
        let mut now = begin;
        let mut packets = self.receive(&mut now)?;
        if packets == 0 && events == 0 && !is_more && timeout != Some(Duration::ZERO) {
            let end = timeout.map(|timeout| begin + timeout);
            let deadline = self.next_due(begin).into_iter().chain(end).min();
            packets = self.await_packets(&mut now, deadline)?;
        }
        if self.transport.poll_timeout().is_some_and(|due| due <= now) {
            self.transport.handle_timeout(now);
        }
        self.check_ports(now)?;
        if packets > 0 || events == 0 {
            events += self.dispatch(on_event);
        }
        self.sample(now, on_event);
        Ok(events)
    }

    /// Returns the time of the next work. While the kernel has no room for packets, those that are
    /// due cannot leave, and do not count.
    fn next_due(&mut self, now: Instant) -> Option<Instant> {
        if self.stuck.is_some() {
            return Some(now + ROOM_PATIENCE);
        }
        let of_emulator = self.emulator.as_ref().and_then(Emulator::poll_timeout);
        let of_checks = self.port_checks.poll_timeout();
        let all = [self.transport.poll_timeout(), of_emulator, self.prober.poll_timeout()];
        all.into_iter().chain([of_checks]).flatten().min()
    }

    /// Checks the ports of nodes, as the transport requests.
    fn check_ports(&mut self, now: Instant) -> io::Result<()> {
        let closed = self.port_checks.closed(now, |node| self.transport.is_silent(node));
        for (node, port) in closed {
            if self.transport.address_of(node) == Some(port) {
                self.transport.port_closed(now, node);
            }
        }
        for node in self.transport.take_ports_to_check(self.port_checks.room()) {
            if let Some(port) = self.transport.address_of(node) {
                self.port_checks.start(now, node, port, self.port.local_address()?.ip());
            }
        }
        Ok(())
    }

    fn sample(&mut self, now: Instant, on_event: &mut dyn FnMut(TransportEvent)) {
        if now >= self.sampler.due() {
            let transport = &self.transport;
            let stats = transport
                .others()
                .map(|node| (node, transport.stats(node), transport.take_acknowledged(node)));
            let samples = self.sampler.look(now, stats);
            if !samples.is_empty() {
                on_event(TransportEvent::Sampled(samples));
            }
        }
    }

    /// Turns until all frames sent are acknowledged, for at most `patience`. Returns whether they
    /// are.
    ///
    /// # Errors
    ///
    /// Those of [`turn`](Self::turn).
    pub fn flush(
        &mut self,
        patience: Duration,
        on_event: &mut dyn FnMut(TransportEvent),
    ) -> io::Result<bool> {
        let end = Instant::now() + patience;
        while !self.transport.is_flushed() {
            let Some(left) = end.checked_duration_since(Instant::now()) else { return Ok(false) };
            self.turn(Some(left), on_event)?;
        }
        Ok(true)
    }

    /// Sends the last acknowledgements and `reason` to all nodes, and ends all connections.
    ///
    /// # Errors
    ///
    /// If the socket fails.
    pub fn close(&mut self, reason: &str) -> io::Result<()> {
        self.transport.acknowledge_all();
        while self.transmit(Instant::now())? && self.stuck.is_none() {}
        self.transport.close(Instant::now(), reason);
        self.send_farewells(Instant::now())?;
        // Packets on emulated links must still arrive, unless they are stuck behind a queue.
        let end = Instant::now() + FAREWELL;
        while let Some(due) = self.emulator.as_ref().and_then(Emulator::poll_timeout) {
            if due > end {
                break;
            }
            std::thread::sleep(due.saturating_duration_since(Instant::now()));
            self.transmit(Instant::now())?;
        }
        Ok(())
    }

    /// Sends the last packets of all connections, as far as the kernel has room.
    fn send_farewells(&mut self, now: Instant) -> io::Result<()> {
        if let Some(stuck) = self.stuck.take()
            && !self.send(stuck)?
        {
            return Ok(());
        }
        self.buffer.clear();
        while let Some(packet) = self.poll_connections(now, 1) {
            for _ in 0..FAREWELL_COPIES {
                if !self.pass(now, packet)? {
                    return Ok(());
                }
            }
            self.buffer.clear();
        }
        Ok(())
    }

    /// Sends due packets. Returns whether there may be more.
    fn transmit(&mut self, now: Instant) -> io::Result<bool> {
        if let Some(stuck) = self.stuck.take()
            && !self.send(stuck)?
        {
            return Ok(false);
        }
        let segments = self.port.segments_max();
        // The sources alternate: many nodes that probe this one must not delay its heartbeats.
        let mut first = Source::Connections;
        for _ in 0..SENDS_PER_TURN {
            self.buffer.clear();
            if let Some(emulator) = &mut self.emulator
                && let Some(batch) = emulator.poll_transmit(now, segments, &mut self.buffer)
            {
                let (destination, ecn) = (batch.destination, batch.ecn);
                if !self.send(Batch { destination, ecn, segment_size: batch.segment_size })? {
                    return Ok(false);
                }
                continue;
            }
            let begin = Instant::now();
            first = first.other();
            let Some((source, packet)) = self.poll_transmit(now, segments, first) else {
                return Ok(false);
            };
            if !self.pass(now, packet)? {
                return Ok(false);
            }
            if source == Source::Connections && packet.segment_size.is_none() {
                self.send_costs.add(begin.elapsed());
            }
        }
        Ok(true)
    }

    /// Writes the next packet to the buffer, preferably from `first`.
    fn poll_transmit(
        &mut self,
        now: Instant,
        segments: usize,
        first: Source,
    ) -> Option<(Source, Batch)> {
        [first, first.other()].into_iter().find_map(|source| {
            let packet = match source {
                Source::Probes => self.poll_probe(now),
                Source::Connections => self.poll_connections(now, segments),
            };
            Some((source, packet?))
        })
    }

    fn poll_probe(&mut self, now: Instant) -> Option<Batch> {
        loop {
            let (node, packet) = self.prober.poll_transmit(now)?;
            // A packet to a node whose address is unknown is dropped, as on a network.
            if let Some(destination) = self.transport.address_of(node) {
                self.buffer.extend_from_slice(&packet);
                return Some(Batch { destination, ecn: None, segment_size: None });
            }
        }
    }

    fn poll_connections(&mut self, now: Instant, segments: usize) -> Option<Batch> {
        let transmit = self.transport.poll_transmit(now, segments, &mut self.buffer)?;
        self.buffer.truncate(transmit.size);
        let Transmit { destination, ecn, segment_size, .. } = transmit;
        Some(Batch { destination, ecn, segment_size })
    }

    /// Puts the buffer on the emulated link to its destination, or sends it if there is none.
    /// Returns whether more can be sent.
    fn pass(&mut self, now: Instant, batch: Batch) -> io::Result<bool> {
        let Batch { destination, ecn, segment_size } = batch;
        if let Some(emulator) = &mut self.emulator
            && let Some(node) = self.transport.node_at(destination)
            && emulator.covers(node)
        {
            let size = segment_size.unwrap_or(self.buffer.len());
            emulator.send(now, node, destination, ecn, (&self.buffer, size));
            return Ok(true);
        }
        self.send(batch)
    }

    /// Sends the buffer, or keeps it for later. Returns whether it was sent.
    fn send(&mut self, batch: Batch) -> io::Result<bool> {
        let sent = self.port.send(Outbound {
            destination: batch.destination,
            ecn: batch.ecn,
            contents: &self.buffer,
            segment_size: batch.segment_size,
        })?;
        if !sent {
            self.stuck = Some(batch);
        }
        Ok(sent)
    }

    /// Handles arrived packets, and sets `now` if there are any. Returns their number.
    fn receive(&mut self, now: &mut Instant) -> io::Result<usize> {
        let (transport, prober) = (&mut self.transport, &mut self.prober);
        let mut is_first = true;
        self.port.receive(&mut |from, ecn, data| {
            if std::mem::take(&mut is_first) {
                *now = Instant::now();
            }
            if is_probe(&data) {
                prober.handle(*now, &data);
            } else {
                transport.handle_datagram(*now, from, ecn, data);
            }
        })
    }

    fn await_packets(&mut self, now: &mut Instant, deadline: Option<Instant>) -> io::Result<usize> {
        let begin = Instant::now();
        let left = deadline.map(|deadline| deadline.saturating_duration_since(begin));
        if left != Some(Duration::ZERO) {
            self.port.wait(left, self.stuck.is_some())?;
        }
        *now = Instant::now();
        self.waited += now.duration_since(begin);
        self.receive(now)
    }

    fn dispatch(&mut self, on_event: &mut dyn FnMut(TransportEvent)) -> usize {
        let mut events = 0;
        while let Some(event) = self.transport.poll_event() {
            on_event(event);
            events += 1;
        }
        while let Some((id, found)) = self.prober.poll_done() {
            let send_cost = self.send_costs.median();
            on_event(TransportEvent::Probed(ProbeReport { id, send_cost, found }));
            events += 1;
        }
        events
    }
}
