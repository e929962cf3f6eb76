//! Tests the transport in virtual time: the layer above must not notice the faults of the network.

use crate::world::{Weather, World};
use bytes::{BufMut, Bytes, BytesMut};
use gridspan_runtime::net::{FrameClass, LossReason, TransportEvent};
use gridspan_runtime::session::PlantedSessionFault;
use gridspan_topology::NodeId;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

const SMALL: u8 = 1;
const BULK: u8 = 2;

/// Numbers of small and of bulk frames sent, by sender and receiver.
type Sent = BTreeMap<(NodeId, NodeId), [u64; 2]>;

fn frame(kind: u8, number: u64, bytes: usize) -> Bytes {
    let mut frame = BytesMut::with_capacity(9 + bytes);
    frame.put_u8(kind);
    frame.put_u64_le(number);
    frame.put_bytes(number as u8, bytes);
    frame.freeze()
}

fn send_something(world: &mut World, sent: &mut Sent) {
    let nodes = world.layout.node_count();
    let from = NodeId(world.below(nodes));
    let to = NodeId((from.0 + 1 + world.below(nodes - 1)) % nodes);
    if world.below(20) == 0 {
        let counts = sent.entry((from, to)).or_default();
        let number = counts[1];
        counts[1] += 1;
        let bytes = 70_000 + world.below(200_000) as usize;
        world.send(from, to, FrameClass::Bulk, frame(BULK, number, bytes));
    } else {
        for _ in 0..=world.below(3) {
            let counts = sent.entry((from, to)).or_default();
            let number = counts[0];
            counts[0] += 1;
            let bytes = world.below(2_000) as usize;
            world.send(from, to, FrameClass::Small, frame(SMALL, number, bytes));
        }
    }
}

/// Breaks a connection. If `severe`, may instead partition a node from all others, or stop it for
/// less than 1.3 s. Returns whether a node was partitioned or stopped.
fn trouble(world: &mut World, severe: bool) -> bool {
    let nodes = world.layout.node_count();
    let node = NodeId(world.below(nodes));
    let other = NodeId((node.0 + 1 + world.below(nodes - 1)) % nodes);
    match world.below(4) {
        0 if severe => world.part(&[node]),
        1 if severe => {
            let millis = 100 + world.below(1_200);
            world.stop(node, Duration::from_millis(millis.into()));
        }
        _ => {
            let now = world.now;
            world.transport(node).break_connection(now, other);
            return false;
        }
    }
    severe
}

/// Sends frames under faults for `rounds` of 100 ms, then waits until all are acknowledged. Returns
/// an error that names the problem, if any.
fn run(seed: u64, nodes: u32, rounds: u32, fault: PlantedSessionFault) -> Result<World, String> {
    let mut world = World::with_fault(nodes, seed, fault);
    world.weather = Weather::ROUGH;
    let mut sent = Sent::new();
    // A partition ends after 1.5 s, and no severe fault comes in the 1.5 s after that.
    let mut since_trouble = 30;
    for _ in 0..rounds {
        for _ in 0..3 {
            send_something(&mut world, &mut sent);
        }
        since_trouble += 1;
        let until = world.now + Duration::from_millis(100);
        // Faults happen while frames and acknowledgements are on their way.
        for _ in 0..world.below(3) {
            let millis = world.below(40);
            world.run_for(Duration::from_millis(millis.into()));
            if trouble(&mut world, since_trouble >= 30) {
                since_trouble = 0;
            }
        }
        if since_trouble == 15 {
            world.parted.clear();
        }
        world.run_for(until - world.now);
    }
    world.parted.clear();
    world.weather = Weather::FINE;
    let is_calm = world.run_until(Duration::from_secs(20), |world| {
        world.members.iter().flatten().all(|member| member.transport.is_flushed())
    });
    if !is_calm {
        return Err("frames stay unacknowledged".to_owned());
    }
    check(&world, &sent)?;
    Ok(world)
}

fn check(world: &World, sent: &Sent) -> Result<(), String> {
    for (node, event) in &world.events {
        if let TransportEvent::Lost { .. } | TransportEvent::Refused { .. } = event {
            return Err(format!("{node} reports {event:?}"));
        }
    }
    for (&(from, to), &[small, bulk]) in sent {
        let received = world.received.get(&(to, from)).map_or(&[][..], |frames| frames);
        let mut next = 0;
        let mut seen = BTreeSet::new();
        for bytes in received {
            let number = u64::from_le_bytes(bytes[1..9].try_into().unwrap());
            if bytes[9..].iter().any(|&byte| byte != number as u8) {
                return Err(format!("{from} to {to}: frame {number} is damaged"));
            }
            match bytes[0] {
                SMALL if number == next => next += 1,
                SMALL => return Err(format!("{from} to {to}: small {number}, not {next}")),
                _ if !seen.insert(number) => {
                    return Err(format!("{from} to {to}: bulk {number} twice"));
                }
                _ => {}
            }
        }
        if (next, seen.len() as u64) != (small, bulk) {
            let (n, b) = (next, seen.len());
            return Err(format!("{from} to {to}: {n} of {small} small, {b} of {bulk} bulk"));
        }
    }
    Ok(())
}

#[test]
fn every_frame_arrives_exactly_once_on_a_faulty_network() {
    for seed in 0..10 {
        if let Err(problem) = run(seed, 8, 100, PlantedSessionFault::None) {
            panic!("seed {seed}: {problem}");
        }
    }
}

#[test]
fn sixty_four_nodes_exchange_frames() {
    if let Err(problem) = run(1, 64, 40, PlantedSessionFault::None) {
        panic!("{problem}");
    }
}

#[test]
fn the_same_seed_gives_the_same_run() {
    for seed in [3, 4] {
        let [first, second] = [0, 1].map(|_| run(seed, 6, 30, PlantedSessionFault::None).unwrap());
        let differs = first.log.iter().zip(&second.log).position(|(a, b)| a != b);
        if let Some(at) = differs {
            panic!("seed {seed}, line {at}: {} | {}", first.log[at], second.log[at]);
        }
        assert_eq!(first.log.len(), second.log.len());
        assert!(first.log.len() > 100);
    }
}

#[test]
fn planted_bugs_are_found() {
    for fault in [
        PlantedSessionFault::ResendWithoutSequence,
        PlantedSessionFault::ForgottenReceiveState,
        PlantedSessionFault::AcknowledgeBeforeApply,
    ] {
        let found = (0..20).find(|&seed| run(seed, 4, 60, fault).is_err());
        assert!(found.is_some(), "{fault:?} was not found in 20 seeds");
    }
}

#[test]
fn all_nodes_declare_a_silent_node_lost_and_accept_its_next_incarnation() {
    let mut world = World::new(4, 7);
    let victim = NodeId(3);
    for node in [0, 1, 2].map(NodeId) {
        world.send(node, victim, FrameClass::Auto, frame(SMALL, 0, 10));
    }
    world.run_for(Duration::from_secs(2));
    let crashed = world.now;
    world.crash(victim);
    world.run_for(Duration::from_millis(1_300));
    let suspected = |event: &TransportEvent| *event == TransportEvent::Suspected(victim);
    assert_eq!(world.events.iter().filter(|(_, event)| suspected(event)).count(), 3);
    assert!(!world.transport(NodeId(0)).is_lost(victim));
    let all_know = world.run_until(Duration::from_secs(5), |world| {
        [0, 1, 2].map(NodeId).iter().all(|&node| world.transport(node).is_lost(victim))
    });
    assert!(all_know && world.now - crashed <= Duration::from_millis(3_500), "{:?}", world.log);
    let refused = world.transport(NodeId(0)).send(victim, FrameClass::Auto, Bytes::new());
    assert!(refused.is_err());

    world.start(victim, 2);
    world.send(victim, NodeId(0), FrameClass::Auto, frame(SMALL, 0, 10));
    world.run_for(Duration::from_secs(1));
    world.send(NodeId(0), victim, FrameClass::Auto, frame(SMALL, 0, 10));
    world.run_for(Duration::from_secs(1));
    assert_eq!(world.received[&(NodeId(0), victim)].len(), 1);
    assert_eq!(world.received[&(victim, NodeId(0))].len(), 2, "one for each incarnation");
    let lost = |event: &TransportEvent| matches!(event, TransportEvent::Lost { .. });
    assert_eq!(world.events.iter().filter(|(_, event)| lost(event)).count(), 3, "once each");
}

#[test]
fn an_outage_within_the_accepted_silence_loses_nothing() {
    let mut world = World::new(3, 12);
    let (a, b, near) = (NodeId(0), NodeId(2), NodeId(1));
    let minute = Duration::from_secs(60);
    world.lost_after = BTreeMap::from([(a, minute), (b, minute)]);
    for node in world.layout.nodes() {
        world.start(node, 1);
    }
    for (from, to) in [(a, b), (near, b), (a, near)] {
        world.send(from, to, FrameClass::Small, frame(SMALL, 0, 10));
    }
    world.run_for(Duration::from_secs(5));

    world.parted = BTreeSet::from([(a, b), (b, a)]);
    world.send(a, b, FrameClass::Small, frame(SMALL, 1, 10));
    world.send(b, a, FrameClass::Bulk, frame(BULK, 0, 100_000));
    world.run_for(Duration::from_secs(50));
    assert!(world.losses().is_empty(), "{:?}", world.losses());
    world.heal();
    world.run_for(Duration::from_secs(3));

    assert_eq!(world.received[&(b, a)], [frame(SMALL, 0, 10), frame(SMALL, 1, 10)]);
    assert_eq!(world.received[&(a, b)], [frame(BULK, 0, 100_000)]);
    world.part(&[b]);
    world.part(&[near]);
    let cut = world.now;
    let is_lost = |world: &mut World| world.losses().contains(&(a, near));
    assert!(world.run_until(minute, is_lost), "a node with the default is lost");
    assert!(world.now - cut < Duration::from_millis(3_300), "{:?}", world.now - cut);
    assert!(!world.losses().contains(&(a, b)));
    let is_lost = |world: &mut World| world.losses().contains(&(a, b));
    assert!(world.run_until(minute * 2, is_lost), "and the other after a minute");
    let silence = world.now - cut;
    assert!(silence > Duration::from_secs(59) && silence < Duration::from_secs(61), "{silence:?}");
}

#[test]
fn the_first_report_of_a_partition_names_all_lost_nodes() {
    let mut world = World::new(5, 3);
    for (from, to) in [(1, 0), (2, 0), (3, 0), (4, 0)].map(|(a, b)| (NodeId(a), NodeId(b))) {
        world.send(from, to, FrameClass::Auto, frame(b'S', 1, 100));
    }
    world.run_for(Duration::from_secs(5));

    let cut = world.now;
    world.part(&[NodeId(2), NodeId(3), NodeId(4)]);
    world.run_for(Duration::from_millis(3_600));

    let lost: Vec<_> = (world.events.iter())
        .filter_map(|(at, event)| match event {
            TransportEvent::Lost { node, reason: LossReason::Silent { others, .. } } => {
                (*at == NodeId(0)).then(|| (*node, others.clone()))
            }
            _ => None,
        })
        .collect();
    assert!(world.now - cut < Duration::from_secs(4));
    let (first, others) = &lost[0];
    let mut all: Vec<NodeId> = others.iter().copied().chain([*first]).collect();
    all.sort_unstable();
    assert_eq!(all, [NodeId(2), NodeId(3), NodeId(4)]);
    assert_eq!(lost.len(), 3, "each is lost once");
    assert!(lost[2].1.is_empty(), "no node that was lost before is named again");
}

#[test]
fn a_restart_before_the_detector_notices_ends_the_old_session() {
    let mut world = World::new(2, 8);
    let (a, b) = (NodeId(0), NodeId(1));
    world.send(a, b, FrameClass::Auto, frame(SMALL, 0, 10));
    world.run_for(Duration::from_millis(500));
    world.crash(b);
    world.start(b, 2);
    world.send(b, a, FrameClass::Auto, frame(SMALL, 0, 10));
    world.run_for(Duration::from_secs(2));
    let reason = LossReason::Restarted { incarnation: 2 };
    let events: Vec<_> = world.events.iter().filter(|(node, _)| *node == a).collect();
    let lost = TransportEvent::Lost { node: b, reason };
    let connected = TransportEvent::Connected(b);
    assert_eq!(events, [&(a, connected.clone()), &(a, lost), &(a, connected)]);
    assert_eq!(world.received[&(a, b)].len(), 1);
}

#[test]
fn a_node_that_dials_one_that_has_restarted_loses_its_earlier_incarnation_only() {
    let mut world = World::new(2, 13);
    let (a, b) = (NodeId(0), NodeId(1));
    world.send(a, b, FrameClass::Auto, frame(SMALL, 0, 10));
    world.run_for(Duration::from_millis(500));
    world.crash(b);
    world.start(b, 2);
    let now = world.now;
    world.transport(a).break_connection(now, b);
    world.run_for(Duration::from_secs(1));
    world.send(a, b, FrameClass::Auto, frame(SMALL, 1, 10));
    world.send(b, a, FrameClass::Auto, frame(SMALL, 0, 10));
    world.run_for(Duration::from_secs(5));

    let events_of = |node: NodeId| -> Vec<TransportEvent> {
        let events = world.events.iter().filter(|(at, _)| *at == node);
        events.map(|(_, event)| event.clone()).collect()
    };
    let lost = TransportEvent::Lost { node: b, reason: LossReason::Restarted { incarnation: 2 } };
    let connected = TransportEvent::Connected(b);
    assert_eq!(events_of(a), [connected.clone(), lost, connected]);
    let both = [TransportEvent::Connected(a), TransportEvent::Connected(a)];
    assert_eq!(events_of(b), both, "one for each incarnation");
    assert_eq!(world.received[&(b, a)], [frame(SMALL, 0, 10), frame(SMALL, 1, 10)]);
    assert_eq!(world.received[&(a, b)], [frame(SMALL, 0, 10)]);
}

#[test]
fn both_sides_of_a_long_partition_declare_each_other_lost_for_good() {
    let mut world = World::new(4, 9);
    for (from, to) in [(0, 2), (1, 3), (0, 1), (2, 3)] {
        world.send(NodeId(from), NodeId(to), FrameClass::Auto, frame(SMALL, 0, 10));
    }
    world.run_for(Duration::from_secs(2));
    world.part(&[NodeId(2), NodeId(3)]);
    world.run_for(Duration::from_secs(5));
    for (from, to) in [(0, 2), (2, 0), (1, 3), (3, 1)] {
        assert!(world.transport(NodeId(from)).is_lost(NodeId(to)), "{from} {to}");
    }
    world.parted.clear();
    world.run_for(Duration::from_secs(5));
    assert!(world.transport(NodeId(0)).is_lost(NodeId(2)), "the lost stay lost");
    assert!(!world.transport(NodeId(0)).is_lost(NodeId(1)), "nodes on one side stay connected");
}

#[test]
fn a_node_that_was_stopped_neither_suspects_others_nor_is_lost() {
    let mut world = World::new(3, 10);
    for (from, to) in [(0, 1), (1, 2), (2, 0)] {
        world.send(NodeId(from), NodeId(to), FrameClass::Auto, frame(SMALL, 0, 10));
    }
    world.run_for(Duration::from_secs(2));
    world.stop(NodeId(0), Duration::from_millis(2_500));
    world.run_for(Duration::from_secs(6));
    let blamed = world.events.iter().any(|(node, event)| {
        *node == NodeId(0)
            && matches!(event, TransportEvent::Suspected(_) | TransportEvent::Lost { .. })
    });
    assert!(!blamed, "{:?}", world.log);
    let lost = world.events.iter().any(|(_, event)| matches!(event, TransportEvent::Lost { .. }));
    assert!(!lost, "nor is it lost itself");
}

#[test]
fn a_node_that_stops_reading_stalls_its_senders_and_is_not_suspected() {
    let mut world = World::new(2, 11);
    world.limits.receive_window = 1 << 20;
    let (a, b) = (NodeId(0), NodeId(1));
    for node in [a, b] {
        world.start(node, 1);
    }
    world.send(a, b, FrameClass::Auto, frame(SMALL, 0, 10));
    world.run_for(Duration::from_millis(500));
    world.transport(b).pause_reading(true);
    for number in 1..400 {
        world.send(a, b, FrameClass::Small, frame(SMALL, number, 20_000));
    }
    world.run_for(Duration::from_secs(6));
    let arrived = world.received[&(b, a)].len();
    assert_eq!(arrived, 1);
    let sent = world.transport(a).stats(b).bytes_sent;
    assert!(sent < 2 << 20, "{sent} bytes crossed the network");
    world.transport(b).pause_reading(false);
    world.run_for(Duration::from_secs(5));
    assert_eq!(world.received[&(b, a)].len(), 400);
    let events = world.events.iter().filter(|(_, e)| !matches!(e, TransportEvent::Connected(_)));
    assert_eq!(events.count(), 0, "no node was suspected meanwhile");
}

#[test]
fn two_nodes_that_dial_each_other_at_once_keep_one_connection() {
    for seed in 0..10 {
        let mut world = World::new(2, seed);
        let (a, b) = (NodeId(0), NodeId(1));
        world.weather.jitter = Duration::from_millis(3);
        for (from, to) in [(a, b), (b, a)] {
            world.send(from, to, FrameClass::Auto, frame(SMALL, 0, 10));
        }
        world.run_for(Duration::from_secs(2));
        for (from, to) in [(a, b), (b, a)] {
            assert_eq!(world.received[&(to, from)].len(), 1, "seed {seed}");
            assert_eq!(world.transport(from).stats(to).connections, 1, "seed {seed}");
        }
        let only = |event: &TransportEvent| matches!(event, TransportEvent::Connected(_));
        assert!(world.events.iter().all(|(_, event)| only(event)), "{:?}", world.events);
    }
}

#[test]
fn nodes_of_which_one_awaits_the_dial_of_the_other_need_one_handshake() {
    let (a, b) = (NodeId(0), NodeId(1));
    let cases = [(2, a, b), (2, b, a), (200, a, b), (200, b, a)].repeat(3);
    for (seed, (latency_ms, awaiting, dialling)) in (0..).zip(cases) {
        let mut world = World::new(2, seed);
        world.weather.latency = Duration::from_millis(latency_ms);
        world.weather.jitter = Duration::from_millis(3);
        let now = world.now;
        world.transport(awaiting).await_dial(now, dialling);
        for (from, to) in [(a, b), (b, a)] {
            world.send(from, to, FrameClass::Auto, frame(SMALL, 0, 10));
        }
        world.run_for(Duration::from_secs(2));
        for (from, to) in [(a, b), (b, a)] {
            assert_eq!(world.received[&(to, from)].len(), 1, "seed {seed}");
            assert_eq!(world.transport(from).stats(to).connections, 1, "seed {seed}");
            assert_eq!(world.transport(from).handshakes(), 1, "seed {seed}");
        }
    }
}

#[test]
fn a_node_dials_another_with_frames_if_the_dial_that_it_awaits_does_not_come() {
    let mut world = World::new(3, 22);
    let [a, b, c] = [0, 1, 2].map(NodeId);
    let now = world.now;
    for other in [b, c] {
        world.transport(a).await_dial(now, other);
    }
    world.send(a, b, FrameClass::Auto, frame(SMALL, 0, 10));
    world.run_for(Duration::from_millis(400));
    assert_eq!(world.transport(a).handshakes(), 0);

    world.run_for(Duration::from_millis(200));
    assert_eq!(world.received[&(b, a)].len(), 1);
    let handshakes = [a, b, c].map(|node| world.transport(node).handshakes());
    assert_eq!(handshakes, [1, 1, 0], "no frame waits for the third node");

    world.send(a, c, FrameClass::Auto, frame(SMALL, 0, 10));
    world.run_for(Duration::from_millis(100));
    assert_eq!(world.received[&(c, a)].len(), 1, "frames to it wait no longer");
}

#[test]
fn a_connection_over_a_very_long_path_is_established_again_after_it_broke() {
    let mut world = World::new(2, 21);
    let (a, b) = (NodeId(0), NodeId(1));
    world.weather.latency = Duration::from_millis(350);
    for (number, broken) in [&[][..], &[(a, b)], &[(b, a)], &[(a, b), (b, a)]].iter().enumerate() {
        for &(node, other) in *broken {
            let now = world.now;
            world.transport(node).break_connection(now, other);
        }
        for (from, to) in [(a, b), (b, a)] {
            world.send(from, to, FrameClass::Small, frame(SMALL, number as u64, 10));
        }
        world.run_for(Duration::from_secs(5));
        for (from, to) in [(a, b), (b, a)] {
            let received = world.received.get(&(to, from)).map_or(0, Vec::len);
            assert_eq!(received, number + 1, "{broken:?}: {:?}", world.log);
        }
    }
    assert!(world.losses().is_empty(), "{:?}", world.losses());
}

#[test]
fn a_handshake_is_counted_at_both_ends_and_only_for_nodes_that_talk() {
    let mut world = World::new(4, 14);
    let [a, b, c, d] = [0, 1, 2, 3].map(NodeId);
    for (from, to) in [(a, b), (b, a), (a, c)] {
        world.run_for(Duration::from_secs(1));
        world.send(from, to, FrameClass::Auto, frame(SMALL, 0, 10));
    }
    world.run_for(Duration::from_secs(1));
    let handshakes = [a, b, c, d].map(|node| world.transport(node).handshakes());
    assert_eq!(handshakes, [2, 1, 1, 0]);
    let now = world.now;
    world.transport(a).break_connection(now, b);
    world.run_for(Duration::from_secs(5));
    let handshakes = [a, b, c, d].map(|node| world.transport(node).handshakes());
    assert!(handshakes[0] > 2 && handshakes[1] > 1, "a broken connection needs another handshake");
    assert_eq!(handshakes[2..], [1, 0]);
}

#[test]
fn a_node_that_never_answers_is_lost_after_the_connect_patience() {
    for is_awaited in [false, true] {
        let mut world = World::new(2, 12);
        let (a, b) = (NodeId(0), NodeId(1));
        world.crash(b);
        if is_awaited {
            let now = world.now;
            world.transport(a).await_dial(now, b);
        }
        world.send(a, b, FrameClass::Auto, frame(SMALL, 0, 10));
        world.run_for(Duration::from_secs(26));
        let reason = LossReason::Unreachable(world.limits.connect_patience);
        let lost = (a, TransportEvent::Lost { node: b, reason });
        assert!(world.events.contains(&lost), "{is_awaited}: {:?}", world.events);
    }
}

#[test]
fn closing_a_transport_notifies_the_other_node() {
    let mut world = World::new(2, 13);
    world.send(NodeId(0), NodeId(1), FrameClass::Auto, frame(SMALL, 0, 10));
    world.run_for(Duration::from_secs(1));
    let now = world.now;
    world.transport(NodeId(0)).close(now, "the job is done");
    world.run_for(Duration::from_secs(1));
    let reason = LossReason::Closed("the job is done".to_owned());
    assert!(world.events.contains(&(NodeId(1), TransportEvent::Lost { node: NodeId(0), reason })));
}

#[test]
fn a_small_frame_behind_bulk_that_fills_the_window_arrives() {
    let mut world = World::new(2, 5);
    world.limits.receive_window = 1 << 20;
    let (a, b) = (NodeId(0), NodeId(1));
    for node in [a, b] {
        world.start(node, 1);
    }
    for number in 0..100 {
        world.send(a, b, FrameClass::Bulk, frame(BULK, number, 100_000));
    }
    // Once this holds, the window is full, and no small frame has opened a stream.
    let has_begun = |world: &mut World| world.transport(a).stats(b).bytes_sent > 1 << 20;
    assert!(world.run_until(Duration::from_secs(5), has_begun));
    world.send(a, b, FrameClass::Small, frame(SMALL, 0, 10));

    world.run_for(Duration::from_secs(10));

    check(&world, &Sent::from([((a, b), [1, 100])])).unwrap();
}

#[test]
fn bulk_frames_of_two_nodes_that_do_not_fit_the_budget_at_once_all_arrive() {
    let mut world = World::new(3, 6);
    let (receiver, senders) = (NodeId(0), [NodeId(1), NodeId(2)]);
    // One frame fits, and each takes more than one round trip.
    world.limits.assembly_bytes_max = 2_500_000;
    world.start(receiver, 1);
    for from in senders {
        world.send(from, receiver, FrameClass::Small, frame(SMALL, 0, 10));
        for number in 0..3 {
            world.send(from, receiver, FrameClass::Bulk, frame(BULK, number, 2_000_000));
        }
    }

    let is_flushed = |world: &mut World| {
        world.members.iter().flatten().all(|member| member.transport.is_flushed())
    };
    assert!(world.run_until(Duration::from_secs(20), is_flushed));

    check(&world, &Sent::from(senders.map(|from| ((from, receiver), [1, 3])))).unwrap();
}
