//! All QUIC connections of one node: assigns packets to connections, and decides which connection
//! transmits next, and when.
//!
//! This module connects quinn's endpoint with its connections. It does not know nodes or sessions.

use super::config::{TransportConfig, endpoint_config};
use super::link::{Link, LinkEvent, Stage};
use bytes::BytesMut;
use gridspan_topology::{NodeId, Time};
use quinn_proto::{
    ClientConfig, ConnectError, ConnectionHandle, DatagramEvent, EcnCodepoint, Endpoint, Incoming,
    ServerConfig, Transmit,
};
use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Instant;

/// Largest number of bytes in one segmented send: the kernel refuses more than 64 KiB.
const BATCH_BYTES_MAX: usize = 65_000;
/// Largest number of waiting answers to packets that belong to no connection; further ones are
/// dropped, as on a network.
const RESPONSES_MAX: usize = 64;

/// The connections of one node.
pub(super) struct Connections {
    endpoint: Endpoint,
    links: Vec<Option<Entry>>,
    /// Links that may have events of quinn.
    touched: VecDeque<ConnectionHandle>,
    /// Links that may have something to transmit.
    transmitting: VecDeque<ConnectionHandle>,
    responses: VecDeque<(Transmit, Vec<u8>)>,
    scratch: Vec<u8>,
    /// Number of handshakes that have begun.
    handshakes: u64,
}

struct Entry {
    link: Link,
    is_touched: bool,
    is_transmitting: bool,
    deadline: Option<Instant>,
}

impl Connections {
    pub(super) fn new(server: ServerConfig, transport: &TransportConfig) -> Self {
        let config = Arc::new(endpoint_config(transport));
        Self {
            endpoint: Endpoint::new(config, Some(Arc::new(server)), true, None),
            links: vec![],
            touched: VecDeque::new(),
            transmitting: VecDeque::new(),
            responses: VecDeque::new(),
            scratch: vec![],
            handshakes: 0,
        }
    }

    /// Returns the number of handshakes that have begun: of connections that this side has dialled
    /// or accepted, including those that failed.
    pub(super) fn handshakes(&self) -> u64 {
        self.handshakes
    }

    /// Returns the link of a handle, if it still exists.
    pub(super) fn get_mut(&mut self, handle: ConnectionHandle) -> Option<&mut Link> {
        self.links.get_mut(handle.0)?.as_mut().map(|entry| &mut entry.link)
    }

    /// Returns the link of a handle, if it still exists.
    pub(super) fn get(&self, handle: ConnectionHandle) -> Option<&Link> {
        self.links.get(handle.0)?.as_ref().map(|entry| &entry.link)
    }

    /// Returns all handles in use.
    pub(super) fn handles(&self) -> impl Iterator<Item = ConnectionHandle> + use<> {
        let used: Vec<_> = (0..self.links.len()).filter(|&at| self.links[at].is_some()).collect();
        used.into_iter().map(ConnectionHandle)
    }

    /// Returns the number of links that the other side dialled and that still lack a hello.
    pub(super) fn greeting(&self) -> usize {
        let is_greeting =
            |entry: &&Entry| entry.link.stage == Stage::Greeting && entry.link.dialled.is_none();
        self.links.iter().flatten().filter(is_greeting).count()
    }

    /// Whether a link lacks a hello that `address` dialled at a time for which `is_counted` holds.
    pub(super) fn is_greeting_from(
        &self,
        address: SocketAddr,
        is_counted: impl Fn(Time) -> bool,
    ) -> bool {
        self.links.iter().flatten().any(|Entry { link, .. }| {
            let is_greeting = link.stage == Stage::Greeting && link.dialled.is_none();
            is_greeting && link.address == address && is_counted(link.opened)
        })
    }

    /// Returns the oldest link that the other side dialled and that still lacks a hello, among
    /// those whose address may be evicted.
    pub(super) fn oldest_greeting(
        &self,
        may_be_evicted: impl Fn(SocketAddr) -> bool,
    ) -> Option<ConnectionHandle> {
        let links = self.links.iter().enumerate();
        let greeting = links.filter_map(|(at, entry)| {
            let link = &entry.as_ref()?.link;
            let is_greeting = link.stage == Stage::Greeting && link.dialled.is_none();
            (is_greeting && may_be_evicted(link.address)).then_some((link.opened, at))
        });
        greeting.min().map(|(_, at)| ConnectionHandle(at))
    }

    /// Dials `node`.
    pub(super) fn connect(
        &mut self,
        now: (Instant, Time),
        config: ClientConfig,
        (node, address): (NodeId, SocketAddr),
        name: &str,
    ) -> Result<ConnectionHandle, ConnectError> {
        let (handle, connection) = self.endpoint.connect(now.0, config, address, name)?;
        self.handshakes += 1;
        self.insert(handle, Link::new(connection, Some(node), now.1));
        Ok(handle)
    }

    /// Passes a packet to its connection. Returns a new connection, which must be passed to one of
    /// [`accept`](Self::accept), [`retry`](Self::retry) and [`ignore`](Self::ignore).
    pub(super) fn handle_datagram(
        &mut self,
        now: Instant,
        from: SocketAddr,
        ecn: Option<EcnCodepoint>,
        data: BytesMut,
    ) -> Option<Incoming> {
        self.scratch.clear();
        match self.endpoint.handle(now, from, None, ecn, data, &mut self.scratch) {
            Some(DatagramEvent::ConnectionEvent(handle, event)) => {
                if let Some(entry) = self.links.get_mut(handle.0).and_then(Option::as_mut) {
                    entry.link.connection.handle_event(event);
                    self.touch(handle);
                }
                None
            }
            Some(DatagramEvent::NewConnection(incoming)) => Some(incoming),
            Some(DatagramEvent::Response(transmit)) => {
                self.respond(transmit);
                None
            }
            None => None,
        }
    }

    /// Accepts a new connection.
    ///
    /// # Errors
    ///
    /// Returns the reason if the connection cannot be accepted.
    pub(super) fn accept(
        &mut self,
        now: (Instant, Time),
        incoming: Incoming,
        config: Arc<ServerConfig>,
    ) -> Result<(), String> {
        self.scratch.clear();
        match self.endpoint.accept(incoming, now.0, &mut self.scratch, Some(config)) {
            Ok((handle, connection)) => {
                self.handshakes += 1;
                self.insert(handle, Link::new(connection, None, now.1));
                Ok(())
            }
            Err(error) => {
                // A late packet of a handshake that has ended, and noise, need no answer.
                let Some(transmit) = error.response else {
                    tracing::debug!(cause = %error.cause, "packet dropped");
                    return Ok(());
                };
                self.respond(transmit);
                Err(error.cause.to_string())
            }
        }
    }

    /// Makes the other side of a new connection prove that it receives packets at its address.
    pub(super) fn retry(&mut self, incoming: Incoming) {
        self.scratch.clear();
        match self.endpoint.retry(incoming, &mut self.scratch) {
            Ok(transmit) => self.respond(transmit),
            Err(error) => self.endpoint.ignore(error.into_incoming()),
        }
    }

    /// Ignores a new connection.
    pub(super) fn ignore(&mut self, incoming: Incoming) {
        self.endpoint.ignore(incoming);
    }

    /// Marks a link that may have something to transmit.
    pub(super) fn wake(&mut self, handle: ConnectionHandle) {
        if let Some(entry) = self.links.get_mut(handle.0).and_then(Option::as_mut)
            && !std::mem::replace(&mut entry.is_transmitting, true)
        {
            self.transmitting.push_back(handle);
        }
    }

    /// Passes the events of one marked link to `on_event`, and returns the link; `None` if no link
    /// is marked. Call [`settle`](Self::settle) once the events are handled.
    pub(super) fn poll(
        &mut self,
        on_event: &mut dyn FnMut(ConnectionHandle, LinkEvent),
    ) -> Option<ConnectionHandle> {
        let handle = self.touched.pop_front()?;
        if let Some(entry) = self.links.get_mut(handle.0).and_then(Option::as_mut) {
            entry.is_touched = false;
            entry.link.poll(&mut |event| on_event(handle, event));
            self.wake(handle);
        }
        Some(handle)
    }

    /// Writes the next packets to send, at most `segments` of equal size, to `buffer`. `write`
    /// fills the streams of a link before the link is polled.
    pub(super) fn poll_transmit(
        &mut self,
        now: Instant,
        segments: usize,
        buffer: &mut Vec<u8>,
        write: &mut dyn FnMut(&mut Link) -> bool,
    ) -> Option<Transmit> {
        if let Some((transmit, bytes)) = self.responses.pop_front() {
            buffer.extend_from_slice(&bytes);
            return Some(transmit);
        }
        while let Some(handle) = self.transmitting.pop_front() {
            let Some(entry) = self.links.get_mut(handle.0).and_then(Option::as_mut) else {
                continue;
            };
            if !write(&mut entry.link) {
                self.touch(handle);
            }
            let Some(entry) = self.links.get_mut(handle.0).and_then(Option::as_mut) else {
                continue;
            };
            let mtu = usize::from(entry.link.connection.current_mtu());
            let segments = segments.min(BATCH_BYTES_MAX / mtu).max(1);
            match entry.link.connection.poll_transmit(now, segments, buffer) {
                Some(transmit) => {
                    self.transmitting.push_back(handle);
                    return Some(transmit);
                }
                None => {
                    entry.is_transmitting = false;
                    self.settle(handle);
                }
            }
        }
        None
    }

    /// Returns the time at which [`handle_timeout`](Self::handle_timeout) must be called.
    pub(super) fn poll_timeout(&self) -> Option<Instant> {
        self.links.iter().flatten().filter_map(|entry| entry.deadline).min()
    }

    /// Whether a call of [`poll_transmit`](Self::poll_transmit) or [`poll`](Self::poll) is due now.
    pub(super) fn is_busy(&self) -> bool {
        !self.touched.is_empty() || !self.transmitting.is_empty() || !self.responses.is_empty()
    }

    /// Runs the timers that are due.
    pub(super) fn handle_timeout(&mut self, now: Instant) {
        for at in 0..self.links.len() {
            if let Some(entry) = &mut self.links[at]
                && entry.deadline.is_some_and(|deadline| deadline <= now)
            {
                entry.link.connection.handle_timeout(now);
                self.touch(ConnectionHandle(at));
            }
        }
    }

    /// Marks a link that may have events.
    pub(super) fn touch(&mut self, handle: ConnectionHandle) {
        if let Some(entry) = self.links.get_mut(handle.0).and_then(Option::as_mut)
            && !std::mem::replace(&mut entry.is_touched, true)
        {
            self.touched.push_back(handle);
        }
    }

    fn insert(&mut self, handle: ConnectionHandle, link: Link) {
        if self.links.len() <= handle.0 {
            self.links.resize_with(handle.0 + 1, || None);
        }
        self.links[handle.0] =
            Some(Entry { link, is_touched: false, is_transmitting: false, deadline: None });
        self.touch(handle);
    }

    /// Exchanges events between a connection and the endpoint, updates the deadline of the link,
    /// and removes the link if it has ended.
    pub(super) fn settle(&mut self, handle: ConnectionHandle) {
        let Some(entry) = self.links.get_mut(handle.0).and_then(Option::as_mut) else { return };
        while let Some(event) = entry.link.connection.poll_endpoint_events() {
            if let Some(event) = self.endpoint.handle_event(handle, event) {
                entry.link.connection.handle_event(event);
            }
        }
        entry.deadline = entry.link.connection.poll_timeout();
        if entry.link.connection.is_drained() && !entry.is_touched {
            self.links[handle.0] = None;
        }
    }

    fn respond(&mut self, transmit: Transmit) {
        if self.responses.len() < RESPONSES_MAX {
            let bytes = self.scratch[..transmit.size].to_vec();
            self.responses.push_back((transmit, bytes));
        }
    }
}
