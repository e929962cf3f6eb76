//! A node refuses peers that break the rules. It reports the reason, and its state does not change.
//!
//! Tests of 0-RTT and session tickets are beside the TLS settings, tests of lines from the launcher
//! beside the bootstrap, and tests of memory for announced lengths beside the frame reader.

use crate::world::{World, address};
use bytes::{Bytes, BytesMut};
use gridspan_runtime::net::{
    Authority, FrameClass, HelloRefusal, Identity, LossReason, Transport, TransportConfig,
    TransportEvent,
};
use gridspan_runtime::{LossCause, RefusalCause};
use gridspan_topology::NodeId;
use quinn_proto::crypto::rustls::QuicClientConfig;
use quinn_proto::{
    ClientConfig, Connection, ConnectionError, ConnectionHandle, DatagramEvent, Dir, Endpoint,
    EndpointConfig, Event, StreamId,
};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

const A: NodeId = NodeId(0);
const B: NodeId = NodeId(1);

/// A foreign QUIC client that can send anything.
struct Raw {
    endpoint: Endpoint,
    connection: Connection,
    handle: ConnectionHandle,
    address: SocketAddr,
    is_connected: bool,
    ended: Option<ConnectionError>,
}

impl Raw {
    /// Dials node A of `world` and trusts the authority of `world`. Presents the certificate of
    /// `identity` if `with_certificate`.
    fn dial(world: &World, identity: &Identity, with_certificate: bool, protocol: &str) -> Self {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut roots = rustls::RootCertStore::empty();
        let pem = world.authority.issue(A, 1).unwrap().authority;
        roots.add(CertificateDer::from_pem_slice(pem.as_bytes()).unwrap()).unwrap();
        let builder = rustls::ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&rustls::version::TLS13])
            .unwrap()
            .with_root_certificates(roots);
        let mut tls = if with_certificate {
            let chain =
                vec![CertificateDer::from_pem_slice(identity.certificate.as_bytes()).unwrap()];
            let key = PrivateKeyDer::from_pem_slice(identity.key.as_bytes()).unwrap();
            builder.with_client_auth_cert(chain, key).unwrap()
        } else {
            builder.with_no_client_auth()
        };
        tls.alpn_protocols = vec![protocol.as_bytes().to_vec()];
        let config = ClientConfig::new(Arc::new(QuicClientConfig::try_from(tls).unwrap()));
        let mut endpoint = Endpoint::new(Arc::new(EndpointConfig::default()), None, false, None);
        let name = "n0.virtual.gridspan.invalid";
        let (handle, connection) = endpoint.connect(world.now, config, address(A), name).unwrap();
        let address = ([10, 9, 9, 9], 9).into();
        Self { endpoint, connection, handle, address, is_connected: false, ended: None }
    }

    /// Exchanges packets with the world for `rounds` times 5 ms.
    fn run(&mut self, world: &mut World, rounds: usize) {
        for _ in 0..rounds {
            let mut buffer = vec![];
            while let Some(transmit) = self.connection.poll_transmit(world.now, 1, &mut buffer) {
                world.inject(self.address, A, buffer[..transmit.size].to_vec());
                buffer.clear();
            }
            world.run_for(Duration::from_millis(5));
            for packet in std::mem::take(&mut world.strays) {
                let data = BytesMut::from(&packet[..]);
                let mut answer = vec![];
                let event =
                    self.endpoint.handle(world.now, address(A), None, None, data, &mut answer);
                if let Some(DatagramEvent::ConnectionEvent(_, event)) = event {
                    self.connection.handle_event(event);
                }
            }
            self.connection.handle_timeout(world.now);
            while let Some(event) = self.connection.poll_endpoint_events() {
                if let Some(event) = self.endpoint.handle_event(self.handle, event) {
                    self.connection.handle_event(event);
                }
            }
            while let Some(event) = self.connection.poll() {
                match event {
                    Event::Connected => self.is_connected = true,
                    Event::ConnectionLost { reason } => self.ended = Some(reason),
                    _ => {}
                }
            }
        }
    }

    fn write(&mut self, dir: Dir, bytes: &[u8]) -> StreamId {
        let stream = self.connection.streams().open(dir).unwrap();
        assert_eq!(self.connection.send_stream(stream).write(bytes), Ok(bytes.len()));
        stream
    }

    /// The reason for the end of the connection, as text.
    fn reason(&self) -> String {
        self.ended.as_ref().map_or_else(|| "it did not end".to_owned(), ToString::to_string)
    }
}

/// A correct hello of node B, in its first incarnation, to node A.
fn hello_of_b() -> Vec<u8> {
    let mut body = vec![];
    body.extend_from_slice(&[7]);
    body.extend_from_slice(b"virtual");
    // The fields of `Hello` after the job: node 1, incarnation 1, to node 0, no session, and no
    // connections and frames so far.
    body.extend_from_slice(&[1, 1, 0, 0, 0, 0, 0, 0]);
    let mut hello = b"GSPN\x00\x01\x00".to_vec();
    hello.push(body.len() as u8);
    hello.extend_from_slice(&body);
    hello
}

/// A world in which node B does not run, and an identity of B for another client.
fn world_without_b() -> (World, Identity) {
    let mut world = World::new(3, 5);
    world.crash(B);
    let identity = world.authority.issue(B, 1).unwrap();
    (world, identity)
}

fn refusals(world: &World, at: NodeId) -> Vec<&HelloRefusal> {
    world
        .events
        .iter()
        .filter_map(|(node, event)| match event {
            TransportEvent::Refused { reason, .. } if *node == at => Some(reason),
            _ => None,
        })
        .collect()
}

/// Asserts that A has reported nothing but refusals, that no frame was received, and that A still
/// receives frames from node 2.
fn nothing_changed(world: &mut World) {
    assert!(world.received.is_empty(), "frames reached the layer above");
    let other = |event: &TransportEvent| !matches!(event, TransportEvent::Refused { .. });
    let changed: Vec<_> = world.events.iter().filter(|(n, e)| *n == A && other(e)).collect();
    assert!(changed.is_empty(), "{changed:?}");
    let friend = NodeId(2);
    world.send(friend, A, FrameClass::Auto, Bytes::from_static(b"friend"));
    world.run_for(Duration::from_secs(2));
    assert_eq!(world.received[&(A, friend)].len(), 1);
}

/// Puts a transport with `identity` in B's place and makes it send a frame to A.
fn impostor(world: &mut World, identity: Identity) {
    let config = TransportConfig::new(world.layout.clone(), identity, [9; 32]);
    world.enter(B, Transport::new(config, world.now).unwrap());
    world.send(B, A, FrameClass::Auto, Bytes::from_static(b"intruder"));
    world.run_for(Duration::from_secs(2));
}

#[test]
fn a_correct_client_is_accepted() {
    let (mut world, identity) = world_without_b();
    let mut raw = Raw::dial(&world, &identity, true, "gridspan/1/virtual");
    raw.run(&mut world, 10);
    assert!(raw.is_connected);
    raw.write(Dir::Bi, &hello_of_b());
    raw.run(&mut world, 10);
    raw.write(Dir::Uni, &[1, 0, 2, b'h', b'i']);
    raw.run(&mut world, 10);
    assert_eq!(world.received[&(A, B)], [Bytes::from_static(b"hi")]);
}

#[test]
fn a_client_without_a_certificate_is_refused() {
    let (mut world, identity) = world_without_b();
    let mut raw = Raw::dial(&world, &identity, false, "gridspan/1/virtual");
    raw.run(&mut world, 40);
    assert!(raw.reason().contains("certificate"), "{}", raw.reason());
    assert!(matches!(refusals(&world, A)[..], [HelloRefusal::Handshake(_)]));
    nothing_changed(&mut world);
}

#[test]
fn a_node_of_another_authority_is_refused_by_both_sides() {
    let (mut world, _) = world_without_b();
    let foreign = Authority::new("virtual").unwrap().issue(B, 1).unwrap();
    impostor(&mut world, foreign);
    // B does not trust A either, so B ends the handshake first.
    assert!(matches!(refusals(&world, B)[..], [HelloRefusal::Handshake(_), ..]));
    assert!(!refusals(&world, A).is_empty());
    nothing_changed(&mut world);
}

#[test]
fn a_node_of_another_job_is_refused() {
    let (mut world, mut identity) = world_without_b();
    identity.job = "other".to_owned();
    impostor(&mut world, identity);
    assert!(!refusals(&world, A).is_empty());
    nothing_changed(&mut world);
}

#[test]
fn a_node_that_dials_with_the_certificate_of_another_node_is_refused() {
    let (mut world, _) = world_without_b();
    let mut identity = world.authority.issue(NodeId(2), 1).unwrap();
    identity.node = B;
    impostor(&mut world, identity);
    let expected = HelloRefusal::Certificate { claimed: B, incarnation: 1 };
    assert_eq!(refusals(&world, A), [&expected]);
    let (cause, text) = (RefusalCause::Certificate, expected.to_string());
    let by_peer = LossReason::Refused(HelloRefusal::ByPeer { cause, text });
    assert_eq!(by_peer.cause(), LossCause::Refused(RefusalCause::Certificate));
    assert!(world.events.contains(&(B, TransportEvent::Lost { node: A, reason: by_peer })));
    nothing_changed(&mut world);
}

#[test]
fn a_dialled_node_with_the_certificate_of_another_node_is_refused() {
    let (mut world, _) = world_without_b();
    let mut identity = world.authority.issue(NodeId(2), 1).unwrap();
    identity.node = B;
    let config = TransportConfig::new(world.layout.clone(), identity, [9; 32]);
    world.enter(B, Transport::new(config, world.now).unwrap());
    world.send(A, B, FrameClass::Auto, Bytes::from_static(b"secret"));
    world.run_for(Duration::from_secs(2));
    assert!(
        matches!(refusals(&world, A)[..], [HelloRefusal::Handshake(text)] if text.contains("name"))
    );
    nothing_changed(&mut world);
}

#[test]
fn an_older_incarnation_of_a_node_is_refused() {
    let mut world = World::new(3, 6);
    world.start(B, 2);
    world.send(B, A, FrameClass::Auto, Bytes::from_static(b"second life"));
    world.run_for(Duration::from_secs(1));
    world.crash(B);
    world.start(B, 1);
    world.send(B, A, FrameClass::Auto, Bytes::from_static(b"first life"));
    world.run_for(Duration::from_secs(1));
    assert_eq!(refusals(&world, A), [&HelloRefusal::Incarnation { theirs: 1, known: 2 }]);
    assert_eq!(world.received[&(A, B)], [Bytes::from_static(b"second life")]);
}

#[test]
fn a_lost_node_does_not_come_back_in_the_same_incarnation() {
    let mut world = World::new(3, 7);
    world.send(B, A, FrameClass::Auto, Bytes::from_static(b"before"));
    world.run_for(Duration::from_secs(1));
    world.stop(B, Duration::from_secs(6));
    world.run_for(Duration::from_secs(5));
    assert!(world.transport(A).is_lost(B));
    world.run_for(Duration::from_secs(3));
    if !world.transport(B).is_lost(A) {
        world.send(B, A, FrameClass::Auto, Bytes::from_static(b"after"));
        world.run_for(Duration::from_secs(3));
    }
    assert_eq!(world.received[&(A, B)].len(), 1);
    assert!(world.transport(B).is_lost(A), "B knows that it was declared lost");
}

#[test]
fn another_protocol_is_refused_before_the_hello() {
    let (mut world, identity) = world_without_b();
    let mut raw = Raw::dial(&world, &identity, true, "gridspan/2/virtual");
    raw.run(&mut world, 40);
    assert!(!raw.is_connected && raw.ended.is_some());
    nothing_changed(&mut world);
}

#[test]
fn a_malformed_hello_or_one_of_another_version_is_refused() {
    for (bytes, expected) in [
        (&b"GSPN\x00\x02\x00\x01\x00"[..], HelloRefusal::Version { theirs: 2 }),
        (&b"GET / HTTP/1.1\r\n"[..], HelloRefusal::Malformed),
        (&b"GSPN\x00\x01\xff\xff"[..], HelloRefusal::Malformed),
        (&b"GSPN\x00\x01\x00\x04aaaa"[..], HelloRefusal::Malformed),
    ] {
        let (mut world, identity) = world_without_b();
        let mut raw = Raw::dial(&world, &identity, true, "gridspan/1/virtual");
        raw.run(&mut world, 10);
        raw.write(Dir::Bi, bytes);
        raw.run(&mut world, 10);
        assert_eq!(refusals(&world, A), [&expected]);
        assert!(raw.reason().contains(&expected.to_string()), "{}", raw.reason());
        nothing_changed(&mut world);
    }
}

#[test]
fn frames_before_the_hello_are_dropped() {
    let (mut world, identity) = world_without_b();
    let mut raw = Raw::dial(&world, &identity, true, "gridspan/1/virtual");
    raw.run(&mut world, 10);
    raw.write(Dir::Uni, &[1, 0, 2, b'h', b'i']);
    raw.run(&mut world, 10);
    nothing_changed(&mut world);
}

#[test]
fn a_client_that_sends_no_hello_is_refused() {
    let (mut world, identity) = world_without_b();
    let mut raw = Raw::dial(&world, &identity, true, "gridspan/1/virtual");
    raw.run(&mut world, 1_400);
    assert_eq!(refusals(&world, A), [&HelloRefusal::Silent]);
    nothing_changed(&mut world);
}

#[test]
fn malformed_frames_end_the_connection_and_nothing_else() {
    // Two lengths of 4 GiB, a number of 70 bits, an unknown kind, and a frame out of order.
    let malformed: [&[u8]; 5] = [
        &[1, 0, 0x80, 0x80, 0x80, 0x80, 0x10],
        &[2, 0, 0x80, 0x80, 0x80, 0x80, 0x10],
        &[1, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff],
        &[77, 0, 0],
        &[1, 9, 1, 0],
    ];
    for bytes in malformed {
        let (mut world, identity) = world_without_b();
        let mut raw = Raw::dial(&world, &identity, true, "gridspan/1/virtual");
        raw.run(&mut world, 10);
        raw.write(Dir::Bi, &hello_of_b());
        raw.run(&mut world, 10);
        raw.write(Dir::Uni, bytes);
        raw.run(&mut world, 10);
        assert!(raw.ended.is_some(), "{bytes:?}");
        assert!(world.received.is_empty());
        world.send(NodeId(2), A, FrameClass::Auto, Bytes::from_static(b"friend"));
        world.run_for(Duration::from_secs(1));
        assert_eq!(world.received[&(A, NodeId(2))].len(), 1);
    }
}

#[test]
fn acknowledging_frames_that_were_never_sent_ends_the_connection() {
    let (mut world, identity) = world_without_b();
    let mut raw = Raw::dial(&world, &identity, true, "gridspan/1/virtual");
    raw.run(&mut world, 10);
    raw.write(Dir::Bi, &hello_of_b());
    raw.run(&mut world, 10);
    raw.connection.datagrams().send(Bytes::from_static(&[1, 9, 9]), false).unwrap();
    raw.run(&mut world, 10);
    assert!(raw.reason().contains("acknowledges"), "{}", raw.reason());
}

#[test]
fn a_forged_address_receives_little_more_than_three_times_what_was_sent() {
    let (mut world, identity) = world_without_b();
    let mut raw = Raw::dial(&world, &identity, true, "gridspan/1/virtual");
    let mut first = vec![];
    let transmit = raw.connection.poll_transmit(world.now, 1, &mut first).unwrap();
    world.inject(raw.address, A, first[..transmit.size].to_vec());
    world.run_for(Duration::from_secs(20));
    let answered: usize = world.strays.iter().map(Vec::len).sum();
    // QUIC's rule lets the packet that reaches the limit exceed it.
    assert!(answered <= 3 * transmit.size + 1_452, "{answered} for {}", transmit.size);
}

#[test]
fn a_flood_of_handshakes_does_not_keep_nodes_of_the_job_out() {
    let (mut world, identity) = world_without_b();
    let friend = NodeId(2);
    world.send(friend, A, FrameClass::Auto, Bytes::from_static(b"before"));
    world.run_for(Duration::from_secs(1));
    let mut sent = 0;
    for number in 0..1_000u32 {
        let mut raw = Raw::dial(&world, &identity, true, "gridspan/1/virtual");
        let mut first = vec![];
        let transmit = raw.connection.poll_transmit(world.now, 1, &mut first).unwrap();
        let from = SocketAddr::from(([11, 0, (number >> 8) as u8, number as u8], 1));
        world.inject(from, A, first[..transmit.size].to_vec());
        sent += transmit.size;
        if number % 100 == 0 {
            world.send(friend, A, FrameClass::Auto, Bytes::from_static(b"during"));
            world.run_for(Duration::from_millis(10));
        }
    }
    // A new node of the job connects meanwhile, although it has to prove its address.
    world.start(B, 1);
    world.send(B, A, FrameClass::Auto, Bytes::from_static(b"newcomer"));
    world.run_for(Duration::from_secs(1));
    assert_eq!(world.received[&(A, B)].len(), 1);
    assert_eq!(world.received[&(A, friend)].len(), 11);
    world.run_for(Duration::from_secs(20));
    let answered: usize = world.strays.iter().map(Vec::len).sum();
    // Handshakes after the first few got a small request to prove their address, or no answer.
    assert!(answered < sent / 2, "{answered} for {sent}");
    assert!(refusals(&world, A).len() < 100, "the flood does not reach the log");
    let lost = |event: &TransportEvent| matches!(event, TransportEvent::Lost { .. });
    assert!(!world.events.iter().any(|(_, event)| lost(event)));
}

#[test]
fn half_open_handshakes_give_way_to_new_nodes_of_the_job() {
    let (mut world, identity) = world_without_b();
    let places = world.limits.handshakes_max;
    // Each client answers the request to prove its address, and sends nothing after that.
    for _ in 0..places + 20 {
        Raw::dial(&world, &identity, true, "gridspan/1/virtual").run(&mut world, 3);
    }

    world.start(B, 1);
    world.send(B, A, FrameClass::Auto, Bytes::from_static(b"newcomer"));
    world.run_for(Duration::from_millis(500));

    assert_eq!(world.received[&(A, B)].len(), 1);
}

#[test]
fn refused_clients_of_another_protocol_are_reported_once_a_second_with_their_number() {
    let (mut world, identity) = world_without_b();
    let began = world.now;
    for _ in 0..300 {
        Raw::dial(&world, &identity, true, "gridspan/2/virtual").run(&mut world, 2);
    }
    let seconds = world.now.duration_since(began).as_secs() as usize;
    world.run_for(Duration::from_secs(2));

    let counts = world.events.iter().filter_map(|(node, event)| match event {
        TransportEvent::Refused { count, .. } if *node == A => Some(*count),
        _ => None,
    });
    let counts: Vec<_> = counts.collect();
    assert_eq!(counts.iter().sum::<u64>(), 300);
    assert!((2..=seconds + 2).contains(&counts.len()), "{counts:?} in {seconds} s");
}
