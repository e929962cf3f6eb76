//! One QUIC connection, from the handshake through the hello to frames.
//!
//! # Start
//!
//! The side that dialled opens the two-way stream when the handshake is complete and sends its
//! hello on it; the other side answers there. Both sides then finish the stream and never use it
//! again.
//!
//! # Steady state
//!
//! Frames travel on one-way streams ([`Outgoing`], [`Incoming`]), heartbeats in datagrams.
//! A link reads these streams only after it has accepted the hello of the other side.
//!
//! # Failure
//!
//! A link ends with its connection, for any reason, and is not used again. It reports the reason
//! once, unless this side has ended the link.

use super::hello::{Hello, HelloRefusal};
use super::incoming::Incoming;
use super::outgoing::Outgoing;
use super::wire::{WireError, read_beat};
use crate::session::Received;
use bytes::{Bytes, BytesMut};
use gridspan_topology::{NodeId, Time};
use quinn_proto::{
    Connection, ConnectionError, Dir, Event, ReadError, StreamEvent, StreamId, VarInt,
};
use rustls::pki_types::CertificateDer;
use std::net::SocketAddr;
use std::time::Instant;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    /// The handshake or the hello is under way.
    Greeting,
    /// Both hellos were accepted: frames flow.
    Open,
    /// The link has ended.
    Closed,
}

#[derive(Debug)]
pub(super) enum LinkEvent {
    /// The handshake is complete, and this side has to send its hello.
    HelloDue,
    /// The other side sent its hello, or other bytes in its place.
    Hello(Result<Hello, HelloRefusal>),
    /// The other side sent a heartbeat, and has received these frames.
    Beat(Received),
    /// The other side sent bytes that a correct node does not send.
    Misbehaved(WireError),
    /// The connection ended.
    Ended(ConnectionError),
}

/// One connection.
pub(super) struct Link {
    pub(super) connection: Connection,
    pub(super) address: SocketAddr,
    /// The node that this side dialled; `None` if the other side dialled.
    pub(super) dialled: Option<NodeId>,
    /// The node at the other end, once its hello was accepted.
    pub(super) peer: Option<NodeId>,
    pub(super) stage: Stage,
    pub(super) opened: Time,
    pub(super) outgoing: Outgoing,
    pub(super) incoming: Incoming,
    hello_stream: Option<StreamId>,
    hello: BytesMut,
    is_hello_read: bool,
    /// Whether this side has ended the link. A hello that arrived before, but was not handled yet,
    /// must not open it.
    pub(super) is_ended_here: bool,
    /// Number of QUIC frames that had arrived at the last call of [`was_heard`](Self::was_heard).
    frames_seen: u64,
}

impl Link {
    pub(super) fn new(connection: Connection, dialled: Option<NodeId>, opened: Time) -> Self {
        Self {
            address: connection.remote_address(),
            connection,
            dialled,
            peer: None,
            stage: Stage::Greeting,
            opened,
            outgoing: Outgoing::default(),
            incoming: Incoming::default(),
            hello_stream: None,
            hello: BytesMut::new(),
            is_hello_read: false,
            is_ended_here: false,
            frames_seen: 0,
        }
    }

    /// Handles the events of quinn. Notes readable streams in [`Incoming`] and free windows in
    /// [`Outgoing`], and passes all other events to `on_event`.
    pub(super) fn poll(&mut self, on_event: &mut dyn FnMut(LinkEvent)) {
        while let Some(event) = self.connection.poll() {
            match event {
                Event::Connected if self.dialled.is_some() => on_event(LinkEvent::HelloDue),
                Event::Connected | Event::HandshakeDataReady | Event::DatagramsUnblocked => {}
                // A connection that has ended can still be reset by its peer.
                Event::ConnectionLost { reason } => {
                    if std::mem::replace(&mut self.stage, Stage::Closed) != Stage::Closed {
                        on_event(LinkEvent::Ended(reason));
                    }
                }
                Event::DatagramReceived => {
                    while let Some(datagram) = self.connection.datagrams().recv() {
                        on_event(match read_beat(&datagram) {
                            Ok(received) => LinkEvent::Beat(received),
                            Err(error) => LinkEvent::Misbehaved(error),
                        });
                    }
                }
                Event::Stream(StreamEvent::Opened { dir: Dir::Uni }) => {
                    while let Some(stream) = self.connection.streams().accept(Dir::Uni) {
                        self.incoming.open(stream);
                    }
                }
                Event::Stream(StreamEvent::Opened { dir: Dir::Bi }) => {
                    while let Some(stream) = self.connection.streams().accept(Dir::Bi) {
                        self.hello_stream.get_or_insert(stream);
                    }
                    self.read_hello(on_event);
                }
                Event::Stream(StreamEvent::Readable { id }) if id.dir() == Dir::Bi => {
                    self.read_hello(on_event);
                }
                Event::Stream(StreamEvent::Readable { id }) => self.incoming.mark(id),
                Event::Stream(StreamEvent::Writable { .. } | StreamEvent::Available { .. }) => {
                    self.outgoing.unblock();
                }
                Event::Stream(StreamEvent::Stopped { .. } | StreamEvent::Finished { .. }) => {}
            }
        }
    }

    /// Sends the hello. A hello is far smaller than the first window, so quinn accepts it as a
    /// whole; otherwise the other side would time out and end the link.
    pub(super) fn say_hello(&mut self, hello: &[u8]) {
        let Some(stream) = self.hello_stream.or_else(|| self.connection.streams().open(Dir::Bi))
        else {
            return;
        };
        self.hello_stream = Some(stream);
        let mut stream = self.connection.send_stream(stream);
        let _ = stream.write(hello);
        let _ = stream.finish();
    }

    /// Sends a heartbeat. If the buffer is full, it replaces an older one or is dropped.
    pub(super) fn send_beat(&mut self, beat: Bytes) {
        if let Err(error) = self.connection.datagrams().send(beat, true) {
            tracing::debug!(%error, "a heartbeat was not sent");
        }
    }

    /// Whether authenticated data of the other side, such as acknowledgements, has arrived since
    /// the last call.
    pub(super) fn was_heard(&mut self) -> bool {
        let frames = self.connection.stats().frame_rx;
        let seen = frames.acks + frames.datagram + frames.stream + frames.ping;
        std::mem::replace(&mut self.frames_seen, seen) != seen
    }

    /// Ends the link; the other side receives `code` and `reason`.
    pub(super) fn close(&mut self, now: Instant, code: VarInt, reason: &str) {
        if self.stage != Stage::Closed {
            self.stage = Stage::Closed;
            self.is_ended_here = true;
            self.connection.close(now, code, Bytes::copy_from_slice(reason.as_bytes()));
        }
    }

    /// Returns the certificates that the other side presented and TLS has verified.
    pub(super) fn presented(&self) -> Vec<CertificateDer<'static>> {
        self.connection
            .crypto_session()
            .peer_identity()
            .and_then(|identity| identity.downcast().ok())
            .map_or_else(Vec::new, |chain: Box<Vec<CertificateDer<'static>>>| *chain)
    }

    fn read_hello(&mut self, on_event: &mut dyn FnMut(LinkEvent)) {
        let Some(stream) = self.hello_stream else { return };
        let mut recv = self.connection.recv_stream(stream);
        let Ok(mut chunks) = recv.read(true) else { return };
        let outcome = loop {
            if self.is_hello_read {
                match chunks.next(usize::MAX) {
                    Ok(Some(_)) => continue,
                    _ => break None,
                }
            }
            match chunks.next(usize::MAX) {
                Ok(Some(chunk)) => {
                    self.hello.extend_from_slice(&chunk.bytes);
                    match Hello::read(&self.hello) {
                        Ok(None) => {}
                        Ok(Some(hello)) => break Some(Ok(hello)),
                        Err(refusal) => break Some(Err(refusal)),
                    }
                }
                Ok(None) | Err(ReadError::Reset(_)) => break Some(Err(HelloRefusal::Malformed)),
                Err(ReadError::Blocked) => break None,
            }
        };
        let _ = chunks.finalize();
        if let Some(outcome) = outcome {
            self.is_hello_read = true;
            self.hello = BytesMut::new();
            on_event(LinkEvent::Hello(outcome));
        }
    }
}
