//! Tests of what a transport knows of other nodes, without packets.

use super::super::hello::Hello;
use super::super::identity::Authority;
use super::*;
use crate::session::DetectorSettings;
use gridspan_topology::SiteId;
use quinn_proto::{Dir, Side, StreamId, VarInt};
use std::ops::Range;

/// The transport of node 0 in a job of two founders, and the number of the first guest.
fn transport() -> (Transport, NodeId) {
    let layout = Layout::new(vec![("a".to_owned(), vec![1, 1])]);
    let guest = layout.guest(SiteId(0), 0).unwrap();
    let identity = Authority::new("job").unwrap().issue(NodeId(0), 1).unwrap();
    let config = TransportConfig::new(layout, identity, [7; 32]);
    (Transport::new(config, Instant::now()).unwrap(), guest)
}

fn address(port: u16) -> SocketAddr {
    SocketAddr::from(([10, 0, 0, 1], port))
}

#[test]
fn a_node_that_moves_leaves_its_old_address_to_the_node_that_has_taken_it() {
    let (mut transport, guest) = transport();
    transport.set_address(NodeId(1), address(1));
    transport.set_address(guest, address(1));

    transport.set_address(NodeId(1), address(2));

    assert_eq!(transport.node_at(address(1)), Some(guest));
    assert_eq!(transport.node_at(address(2)), Some(NodeId(1)));
    transport.set_address(guest, address(3));
    assert_eq!(transport.node_at(address(1)), None);
}

/// Runs the upkeep after each of these times. Returns those after which a port is to be checked.
fn checked_after(transport: &mut Transport, all_millis: &[u64]) -> Vec<u64> {
    let is_checked = |millis: &&u64| {
        transport.now = transport.began + Duration::from_millis(**millis);
        transport.do_upkeep();
        !transport.take_ports_to_check(1).is_empty()
    };
    all_millis.iter().filter(is_checked).copied().collect()
}

#[test]
fn the_port_of_a_silent_guest_is_checked_unless_a_firewall_hides_it() {
    // One upkeep per beat, so that the node has run all the time.
    let times: Vec<u64> = (200..=2_200).step_by(200).collect();
    for (is_port_hidden, expected) in [(false, vec![600, 1_600]), (true, vec![])] {
        let (mut transport, guest) = transport();
        transport.set_address(guest, address(1));
        let detector = Detector::new(DetectorSettings::default(), Time::ZERO);
        transport.peers[guest].detector = Some(detector);
        transport.peers[guest].is_port_hidden = is_port_hidden;

        assert_eq!(checked_after(&mut transport, &times), expected);
    }
}

/// The transport of a node in a job of three founders, which has been silent towards the others
/// from the beginning.
fn founder_of_three(node: u32) -> Transport {
    let layout = Layout::new(vec![("a".to_owned(), vec![1, 1, 1])]);
    let identity = Authority::new("job").unwrap().issue(NodeId(node), 1).unwrap();
    let config = TransportConfig::new(layout, identity, [7; 32]);
    let mut transport = Transport::new(config, Instant::now()).unwrap();
    for other in transport.others() {
        transport.set_address(other, address(1 + other.0 as u16));
        let detector = Detector::new(DetectorSettings::default(), Time::ZERO);
        transport.peers[other].detector = Some(detector);
    }
    transport
}

#[test]
fn the_node_of_main_checks_the_ports_of_founders_and_they_check_its_port() {
    let cases: [(u32, &[u32]); 3] = [(0, &[1, 2]), (1, &[0]), (2, &[0])];
    for (node, expected) in cases {
        let mut transport = founder_of_three(node);
        for millis in (200..=600).step_by(200) {
            transport.now = transport.began + Duration::from_millis(millis);
            transport.do_upkeep();
        }

        let mut checked = Vec::new();
        // One at a time: no node is forgotten if there is no room for more checks.
        while let [other] = transport.take_ports_to_check(1)[..] {
            checked.push(other.0);
        }
        assert_eq!(checked, expected);
    }
}

#[test]
fn a_node_is_silent_after_three_beats_without_a_packet() {
    let mut transport = founder_of_three(0);
    for (millis, is_silent) in [(0, false), (599, false), (600, true)] {
        transport.now = transport.began + Duration::from_millis(millis);
        assert_eq!(transport.is_silent(NodeId(1)), is_silent, "after {millis} ms");
    }
}

#[test]
fn a_closed_port_is_evidence_only_if_it_seemed_open_while_the_node_was_heard() {
    let at = |transport: &Transport, millis| transport.began + Duration::from_millis(millis);
    // When the port is checked and seems closed, and whether the node is lost at the last answer.
    let cases: [(Option<u64>, &[u64], bool); 4] = [
        (Some(100), &[700], true),
        (Some(100), &[120, 700], false),
        (Some(700), &[700], false),
        (None, &[700], false),
    ];
    for (checked, closed, is_lost) in cases {
        let (mut transport, other) = (founder_of_three(0), NodeId(1));
        if let Some(millis) = checked {
            transport.now = at(&transport, millis);
            transport.ports_to_check.insert(other);
            assert_eq!(transport.take_ports_to_check(9), [other]);
        }
        for &millis in closed {
            let now = at(&transport, millis);
            transport.port_closed(now, other);
        }

        let silence = Duration::from_millis(700);
        let reason = LossReason::PortClosed { silence };
        let expected = is_lost.then_some(TransportEvent::Lost { node: other, reason });
        assert_eq!(transport.poll_event(), expected, "{checked:?} {closed:?}");
    }
}

#[test]
fn a_node_with_an_address_that_cannot_be_dialled_is_lost_after_the_connect_patience() {
    let (mut transport, _) = transport();
    let (began, patience) = (transport.began, transport.config.limits.connect_patience);
    transport.set_address(NodeId(1), address(0));
    transport.connect(NodeId(1));
    let mut losses = Vec::new();
    for millis in (0..30_000).step_by(100) {
        let now = began + Duration::from_millis(millis);
        transport.handle_timeout(now);
        while let Some(event) = transport.poll_event() {
            if matches!(event, TransportEvent::Lost { .. }) {
                losses.push((now >= began + patience, event));
            }
        }
    }

    let (node, reason) = (NodeId(1), LossReason::Unreachable(patience));
    assert_eq!(losses, [(true, TransportEvent::Lost { node, reason })]);
}

/// A founder of a job with two nodes, which has a place for one handshake.
fn founder(authority: &Authority, node: u32, seed: u8, now: Instant) -> Transport {
    let layout = Layout::new(vec![("a".to_owned(), vec![1, 1])]);
    let identity = authority.issue(NodeId(node), 1).unwrap();
    let mut config = TransportConfig::new(layout, identity, [seed; 32]);
    config.limits.handshakes_max = 1;
    let mut transport = Transport::new(config, now).unwrap();
    if node != 0 {
        transport.set_address(NodeId(0), address(1));
        transport.connect(NodeId(0));
    }
    transport
}

/// The packets that a transport sends now, with their destinations.
fn addressed(transport: &mut Transport, now: Instant) -> Vec<(SocketAddr, BytesMut)> {
    let (mut packets, mut buffer) = (Vec::new(), Vec::new());
    while let Some(transmit) = transport.poll_transmit(now, 1, &mut buffer) {
        packets.push((transmit.destination, BytesMut::from(&buffer[..transmit.size])));
        buffer.clear();
    }
    packets
}

/// The packets that a transport sends now.
fn packets(transport: &mut Transport, now: Instant) -> Vec<BytesMut> {
    addressed(transport, now).into_iter().map(|(_, packet)| packet).collect()
}

/// Returns node 0, at which the hello of node 1 has arrived from an unknown address. It has not
/// handled the hello yet.
fn greeted(authority: &Authority, now: Instant) -> Transport {
    let [mut dialled, mut dialling] =
        [0, 1].map(|node| founder(authority, node, 1 + node as u8, now));
    for _ in 0..10 {
        let sent = packets(&mut dialling, now);
        let Phase::Dialling { handle, .. } = dialling.peers[NodeId(0)].phase else { panic!() };
        let is_handshaking = dialling.links.get(handle).unwrap().connection.is_handshaking();
        for packet in sent {
            dialled.handle_datagram(now, address(2), None, packet);
        }
        if !is_handshaking {
            return dialled;
        }
        for packet in packets(&mut dialled, now) {
            dialling.handle_datagram(now, address(1), None, packet);
        }
    }
    panic!("the handshake does not end")
}

#[test]
fn a_hello_does_not_open_a_link_that_was_evicted_before_it_was_handled() {
    let (authority, now) = (Authority::new("job").unwrap(), Instant::now());
    for is_evicted in [false, true] {
        let mut dialled = greeted(&authority, now);
        if is_evicted {
            let mut other = founder(&authority, 1, 7, now);
            // The first call dials.
            let first: Vec<_> = (0..2).flat_map(|_| packets(&mut other, now)).collect();
            assert!(!first.is_empty());
            for packet in first {
                dialled.handle_datagram(now, address(3), None, packet);
            }
        }

        let events: Vec<_> = std::iter::from_fn(|| dialled.poll_event()).collect();

        let is_open = events.contains(&TransportEvent::Connected(NodeId(1)));
        assert_eq!(is_open, !is_evicted, "{events:?}");
        assert_eq!(dialled.peers[NodeId(1)].open_link().is_some(), !is_evicted);
    }
}

#[test]
fn a_hello_may_state_any_number_of_earlier_connections() {
    let mut dialled = greeted(&Authority::new("job").unwrap(), Instant::now());
    let hello = Hello {
        job: "job".to_owned(),
        node: NodeId(1),
        incarnation: 1,
        to: NodeId(0),
        session_with: None,
        connections: u64::MAX,
        received: Default::default(),
    };

    dialled.handle_hello(ConnectionHandle(0), &hello);

    let peer = &dialled.peers[NodeId(1)];
    assert_eq!((peer.open_link(), peer.connections), (Some(ConnectionHandle(0)), u64::MAX));
}

/// Lets the time from `began` go on in steps of a millisecond. The packets that two transports send
/// in a step arrive in it: the first transport is at `address(1)`, the second at `address(port)`.
/// Returns the events of each.
fn run_both(
    pair: &mut [Transport; 2],
    port: u16,
    (began, steps): (Instant, Range<u64>),
) -> [Vec<TransportEvent>; 2] {
    let (mut events, addresses) = ([Vec::new(), Vec::new()], [address(1), address(port)]);
    for millis in steps {
        let now = began + Duration::from_millis(millis);
        let sent = pair.each_mut().map(|transport| {
            transport.handle_timeout(now);
            addressed(transport, now)
        });
        for (from, sent) in sent.into_iter().enumerate() {
            let to = 1 - from;
            for (_, packet) in sent.into_iter().filter(|(other, _)| *other == addresses[to]) {
                pair[to].handle_datagram(now, addresses[from], None, packet);
            }
        }
        for (transport, events) in pair.iter_mut().zip(&mut events) {
            events.extend(std::iter::from_fn(|| transport.poll_event()));
        }
    }
    events
}

#[test]
fn a_node_whose_router_forgets_its_connection_is_not_lost() {
    let (authority, began) = (Authority::new("job").unwrap(), Instant::now());
    let mut pair = [0, 1].map(|node| founder(&authority, node, 1 + node as u8, began));
    run_both(&mut pair, 2, (began, 0..1_000));

    // The router uses another port for the node, and drops packets to the earlier one.
    let events = run_both(&mut pair, 3, (began, 1_000..6_000)).concat();

    let is_lost = |event: &TransportEvent| matches!(event, TransportEvent::Lost { .. });
    assert!(!events.iter().any(is_lost), "{events:?}");
    assert_eq!(pair[1].stats(NodeId(0)).connections, 2);
}

#[test]
fn a_session_goes_on_after_the_other_side_has_stopped_a_stream() {
    let (authority, began) = (Authority::new("job").unwrap(), Instant::now());
    let mut pair = [0, 1].map(|node| founder(&authority, node, 1 + node as u8, began));
    pair[0].send(NodeId(1), FrameClass::Small, vec![1_u8]).unwrap();
    assert!(!pair[0].is_flushed(), "the address of the other side is not known");
    let first = run_both(&mut pair, 2, (began, 0..100));
    let handle = pair[1].peers[NodeId(0)].open_link().unwrap();
    let link = pair[1].links.get_mut(handle).unwrap();
    let stream = StreamId::new(Side::Server, Dir::Uni, 0);
    link.connection.recv_stream(stream).stop(VarInt::from_u32(0)).unwrap();
    pair[1].links.wake(handle);
    let between = run_both(&mut pair, 2, (began, 100..200));

    pair[0].send(NodeId(1), FrameClass::Small, vec![2_u8]).unwrap();
    let later = run_both(&mut pair, 2, (began, 200..1_200));

    let events = [0_usize, 1].map(|node| [&first[node][..], &between[node], &later[node]].concat());
    let frame = |byte: u8| TransportEvent::Frame { from: NodeId(0), bytes: vec![byte].into() };
    assert_eq!(events[0], [TransportEvent::Connected(NodeId(1))]);
    assert_eq!(events[1], [TransportEvent::Connected(NodeId(0)), frame(1), frame(2)]);
    assert!(pair[0].is_flushed());
    assert_eq!(pair[1].stats(NodeId(0)).connections, 2);
}

#[test]
fn frames_to_a_guest_without_an_address_wait_until_it_connects() {
    let (authority, began) = (Authority::new("job").unwrap(), Instant::now());
    let layout = Layout::new(vec![("a".to_owned(), vec![1, 1])]);
    let guest = layout.guest(SiteId(0), 0).unwrap();
    let mut pair = [NodeId(0), guest].map(|node| {
        let identity = authority.issue(node, 1).unwrap();
        let seed = [1 + u8::from(node == guest); 32];
        Transport::new(TransportConfig::new(layout.clone(), identity, seed), began).unwrap()
    });
    let frame = || vec![1_u8];
    assert!(pair[0].send(guest, FrameClass::Auto, frame()).is_err(), "it is unknown");
    pair[0].await_guest(guest);
    pair[0].send(guest, FrameClass::Auto, frame()).unwrap();
    let before = run_both(&mut pair, 2, (began, 0..10));
    assert!(before.iter().all(Vec::is_empty) && pair[0].is_flushed());

    pair[1].set_address(NodeId(0), address(1));
    pair[1].connect(NodeId(0));
    let [events, of_guest] = run_both(&mut pair, 2, (began, 10..500));

    let from = NodeId(0);
    let arrived = TransportEvent::Frame { from, bytes: frame().into() };
    assert_eq!(events, [TransportEvent::Connected(guest)]);
    assert_eq!(of_guest, [TransportEvent::Connected(from), arrived]);
    assert!(pair[0].is_flushed());
    assert_eq!(pair[0].address_of(guest), Some(address(2)));
}
