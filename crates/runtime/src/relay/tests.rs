//! Tests of relays without a network between them.

use super::*;
use crate::address::id::COORDINATOR;
use crate::address::id::{ActorId, CollectionId, KindId};
use crate::message::SEGMENT_BYTES;
use crate::message::frame::Frame;
use crate::message::payload::Payload;
use crate::message::{Control, MembershipEvent, MulticastSegment, MulticastTarget, is_for_relay};
use gridspan_bcast::{Draft, DraftStripe, Mode, Sending, SubPlan};
use gridspan_topology::SiteId;
use std::time::Duration;

const BYTES_MAX: u64 = 1 << 20;

/// Creates the relays of a grid with two PEs on each node.
fn relays(sites: &[usize]) -> Vec<Relay> {
    let site = |(n, &nodes): (usize, &usize)| (format!("s{n}"), vec![2; nodes]);
    let layout = Arc::new(Layout::new(sites.iter().enumerate().map(site).collect()));
    let tree = Mode::Layout.tree(&layout, NodeId(0));
    let new = |node| Relay::new(node, layout.clone(), (Mode::Layout, &tree), BYTES_MAX);
    layout.nodes().map(new).collect()
}

/// Delivers all frames, the newest first. Returns the packets that PEs and the coordinator
/// received, in order.
fn settle(relays: &mut [Relay], first: NodeId, mut out: Vec<RelayCommand>) -> Vec<(u32, Packet)> {
    let mut got = Vec::new();
    let mut frames = Vec::new();
    let (mut at, mut time) = (first, 0);
    loop {
        for command in out.drain(..) {
            match command {
                RelayCommand::Send { to, frame, .. } => frames.push((at, to, frame.into_bytes())),
                RelayCommand::Deliver { to, packet, .. } => got.push((to.0, packet)),
                RelayCommand::Act(_) => panic!("no frame here is invalid"),
            }
        }
        let Some((from, to, frame)) = frames.pop() else { return got };
        if !is_for_relay(&frame) {
            let (_, to, packet) = Packet::from_frame(&frame).unwrap();
            got.push((to.0, packet));
            continue;
        }
        at = to;
        time += 1_000_000;
        relays[to.index()].receive(Time(time), from, &frame, &mut out).unwrap();
    }
}

fn publication(bytes: usize, version: u64) -> Packet {
    let value: Bytes = (0..bytes).map(|at| (at % 251) as u8).collect::<Vec<u8>>().into();
    let control = Control::Publish { id: 7, value };
    let (control, plan) = (OutgoingControl::new(&control), PlanId { root: NodeId(0), version });
    Packet::spread(Spread::TreeBroadcast { control, plan, flow: 0 })
}

#[test]
fn a_tree_broadcast_of_any_size_reaches_every_pe_of_every_other_node_once() {
    for bytes in [0, 1, SEGMENT_BYTES as usize, 300_001] {
        let mut relays = relays(&[2, 3, 1]);
        let mut out = Vec::new();
        relays[0].take(Time(0), PeId(0), publication(bytes, 0), &mut out);

        let mut got = settle(&mut relays, NodeId(0), out);

        let reports = got.extract_if(.., |(pe, _)| *pe == COORDINATOR.0).count();
        assert_eq!(reports, if bytes > 30_000 { 5 } else { 0 });
        let mut pes: Vec<u32> = got.iter().map(|(pe, _)| *pe).collect();
        pes.sort_unstable();
        assert_eq!(pes, (2..12).collect::<Vec<u32>>());
        for (_, packet) in got {
            let Content::Control(control) = packet.0 else { panic!("not a control packet") };
            let Control::Publish { id: 7, value } = *control else { panic!("{control:?}") };
            assert_eq!(value.len(), bytes);
            assert!(value.iter().enumerate().all(|(at, &byte)| byte == (at % 251) as u8));
        }
        assert!(relays.iter().all(|relay| relay.bytes() == 0));
    }
}

/// Creates a plan of two trees over three nodes, with segments of 1000 bytes.
fn striped(version: u64) -> BroadcastPlan {
    let stripe = |edges: [(u32, u32); 2], share| DraftStripe { edges: edges.to_vec(), share };
    let stripes = vec![stripe([(0, 1), (1, 2)], 0.5), stripe([(0, 2), (2, 1)], 0.5)];
    let draft = Draft { stripes, segment_bytes: 1000, sending: Sending::Concurrent };
    let nodes: Vec<NodeId> = (0..3).map(NodeId).collect();
    let id = PlanId { root: NodeId(0), version };
    BroadcastPlan::from_draft(id, &draft, &nodes, Duration::ZERO).unwrap()
}

#[test]
fn a_retired_plan_is_known_until_its_broadcasts_are_complete() {
    let mut relays = relays(&[1, 2]);
    let known = |relays: &[Relay], version| {
        let plan = PlanId { root: NodeId(0), version };
        relays.iter().filter(|relay| relay.plans.get(plan).is_some()).count()
    };
    let publish = |relays: &mut [Relay], version, retired| {
        let plan = Some(Box::new(striped(version)));
        let mut out = Vec::new();
        let packet = Packet::spread(Spread::Plan { plan, retired });
        relays[0].take(Time(0), PeId(0), packet, &mut out);
        settle(relays, NodeId(0), out).len()
    };
    assert_eq!(publish(&mut relays, 1, Vec::new()), 2, "both other nodes confirm the plan");

    let mut out = Vec::new();
    relays[0].take(Time(0), PeId(0), publication(40_000, 1), &mut out);
    let to_first =
        |command: &&RelayCommand| matches!(command, RelayCommand::Send { to: NodeId(1), .. });
    assert_eq!((out.len(), out.iter().filter(to_first).count()), (41, 21));
    // Nothing has arrived yet, so the plan is still needed.
    assert_eq!(publish(&mut relays, 2, vec![striped(1).id()]), 2);
    assert_eq!((known(&relays, 1), known(&relays, 2)), (2, 3));

    let got = settle(&mut relays, NodeId(0), out);

    assert_eq!(got.iter().filter(|(pe, _)| (2..COORDINATOR.0).contains(pe)).count(), 4);
    assert_eq!(known(&relays, 1), 0);
}

#[test]
fn the_root_sends_segments_of_one_value_without_copying_it() {
    let mut relays = relays(&[1, 2]);
    let value: Bytes = vec![7; 200_000].into();
    let control = Control::Publish { id: 7, value: value.clone() };
    let (control, plan) = (OutgoingControl::new(&control), PlanId { root: NodeId(0), version: 0 });
    let packet = Packet::spread(Spread::TreeBroadcast { control, plan, flow: 0 });

    let mut out = Vec::new();
    relays[0].take(Time(0), PeId(0), packet, &mut out);

    let sent = out.iter().map(|command| match command {
        RelayCommand::Send { frame, .. } => &frame.body,
        RelayCommand::Deliver { .. } | RelayCommand::Act(_) => panic!("not a frame"),
    });
    let mut at = value.as_ptr();
    for body in sent {
        assert_eq!(body.as_ptr(), at);
        at = at.wrapping_add(body.len());
    }
    assert_eq!(at, value.as_ptr().wrapping_add(value.len()));
}

#[test]
fn a_segment_is_passed_on_before_the_next_arrives() {
    let mut relays = relays(&[1, 2]);
    let mut out = Vec::new();
    relays[0].take(Time(0), PeId(0), publication(200_000, 0), &mut out);
    let RelayCommand::Send { to: NodeId(1), frame, .. } = out.swap_remove(0) else {
        panic!("not to the other site")
    };
    let frame = frame.into_bytes();

    let mut passed = Vec::new();
    relays[1].receive(Time(1), NodeId(0), &frame, &mut passed).unwrap();

    let [RelayCommand::Send { to: NodeId(2), frame: same, is_bulk: true }] = &passed[..] else {
        panic!("{} commands", passed.len())
    };
    assert!(same.head.is_empty());
    assert_eq!(same.body.as_ptr(), frame.as_ptr(), "the bytes are not copied");
}

#[test]
fn an_incomplete_broadcast_does_not_count_once_a_founder_is_lost() {
    let mut relays = relays(&[1, 2]);
    let mut out = Vec::new();
    relays[0].take(Time(0), PeId(0), publication(200_000, 0), &mut out);
    let RelayCommand::Send { to: NodeId(1), frame, .. } = out.swap_remove(0) else {
        panic!("not to the other site")
    };
    relays[1].receive(Time(1), NodeId(0), &frame.into_bytes(), &mut Vec::new()).unwrap();
    let guest = relays[1].layout.guest(SiteId(0), 0).unwrap();
    let mut bytes_after = |node, stage| {
        let event = Spread::MembershipEvent(MembershipEvent { node, stage });
        relays[1].take(Time(2), PeId(2), Packet::spread(event), &mut Vec::new());
        relays[1].bytes()
    };

    assert!(bytes_after(guest, Stage::Lost) > 0);
    assert_eq!(bytes_after(NodeId(2), Stage::Suspended), 0);
}

fn multicast() -> Multicast {
    Multicast {
        kind: KindId(1),
        collection: CollectionId(4),
        source: ActorId::system(PeId(0)),
        priority: 3,
        after: 0,
        origin: PeId(0),
        targets: Vec::new(),
        message: Payload::Bytes(Bytes::from_static(b"hello")),
    }
}

#[test]
fn a_multicast_reaches_the_pes_of_its_targets() {
    let mut relays = relays(&[2, 3]);
    let target = |pe| MulticastTarget { pe: PeId(pe), members: Vec::new() };
    let multicast = Multicast { targets: [3, 6, 7, 9].map(target).to_vec(), ..multicast() };
    let mut out = Vec::new();
    relays[0].take(Time(0), PeId(0), Packet::spread(Spread::Multicast(multicast)), &mut out);

    let got = settle(&mut relays, NodeId(0), out);

    let mut pes = Vec::new();
    for (pe, packet) in got {
        let Content::Control(control) = packet.0 else { panic!("not a control packet") };
        let Control::Multicast(multicast) = *control else { panic!("{control:?}") };
        assert_eq!((multicast.collection, multicast.priority), (CollectionId(4), 3));
        assert_eq!(multicast.targets[0].pe, PeId(pe));
        assert_eq!(&multicast.message.to_bytes()[..], b"hello");
        pes.push(pe);
    }
    pes.sort_unstable();
    assert_eq!(pes, [3, 6, 7, 9]);
}

/// Creates a multicast of `bytes` bytes to `pes`, over the trees of `plan`.
fn segmented(plan: &BroadcastPlan, pes: &[u32], bytes: usize) -> Packet {
    let target = |&pe: &u32| MulticastTarget { pe: PeId(pe), members: Vec::new() };
    let message: Bytes = (0..bytes).map(|at| (at % 251) as u8).collect::<Vec<u8>>().into();
    let targets = pes.iter().map(target).collect();
    let multicast = Multicast { targets, message: Payload::Bytes(message), ..multicast() };
    let multicast = OutgoingControl::new(&Control::Multicast(multicast));
    let sub_plan = Arc::new(SubPlan::over(plan, &pes.iter().map(|pe| NodeId(pe / 2)).collect()));
    Packet::spread(Spread::SegmentedMulticast {
        multicast,
        sub_plan,
        report: Some(FlowId::Multicast(8)),
    })
}

#[test]
fn a_large_multicast_travels_in_segments_through_nodes_that_store_nothing() {
    let mut relays = relays(&[1, 2]);
    let mut out = Vec::new();
    relays[0].take(Time(0), PeId(1), segmented(&striped(1), &[5], 40_000), &mut out);
    let through = out.iter().find_map(|command| match command {
        RelayCommand::Send { to: NodeId(1), frame, .. } => Some(frame.clone().into_bytes()),
        _ => None,
    });
    let mut passed = Vec::new();
    relays[1].receive(Time(1), NodeId(0), &through.unwrap(), &mut passed).unwrap();
    assert!(matches!(passed[..], [RelayCommand::Send { to: NodeId(2), is_bulk: false, .. }]));
    assert_eq!(relays[1].bytes(), 0);

    let mut got = settle(&mut relays, NodeId(0), out);

    assert!(relays.iter().all(|relay| relay.bytes() == 0));
    let reports: Vec<_> = got.extract_if(.., |(pe, _)| *pe == COORDINATOR.0).collect();
    let [(_, Packet(Content::Control(report)))] = &reports[..] else { panic!("not one report") };
    let Control::Carried { flow: FlowId::Multicast(8), arrivals, node, after } = &**report else {
        panic!("{report:?}")
    };
    // Each frame takes a millisecond here; the last frame is the report.
    assert!(*node == NodeId(2) && *after > Duration::ZERO);
    let mut from: Vec<u32> = arrivals.iter().map(|arrival| arrival.from.0).collect();
    from.sort_unstable();
    assert_eq!(from, [0, 1], "straight over one tree, through the relay over the other");
    let [(5, Packet(Content::Control(control)))] = &got[..] else { panic!("not to PE 5 alone") };
    let Control::Multicast(multicast) = &**control else { panic!("{control:?}") };
    assert_eq!((multicast.priority, multicast.targets.len()), (3, 1));
    let Payload::Bytes(message) = &multicast.message else { panic!("a value") };
    assert!(message.len() == 40_000 && message[39_999] == (39_999 % 251) as u8);
}

#[test]
fn invalid_segments_of_multicasts_are_refused() {
    let mut receivers = relays(&[1, 2]);
    let tree = striped(1).stripes()[0].tree.clone();
    let (relays, report) = (Vec::new(), None);
    let good = MulticastSegment { flow: 0, stripe: 0, offset: 0, total: 4, tree, relays, report };
    let beyond = [(NodeId(0), NodeId(1)), (NodeId(1), NodeId(9))];
    let far =
        MulticastSegment { tree: Tree::from_edges(NodeId(0), &beyond).unwrap(), ..good.clone() };
    let huge = MulticastSegment { total: BYTES_MAX + 1, ..good.clone() };
    let past = MulticastSegment { offset: 3, ..good.clone() };
    for (from, origin, head) in
        [(2, 0, &good), (0, 2, &good), (0, 99, &good), (0, 0, &far), (0, 0, &huge), (0, 0, &past)]
    {
        let payload: (&[u8], Bytes) = (b"a", Bytes::from_static(b"b"));
        let frame = SpreadFrame::multicast_segment(PeId(origin), head, payload).into_bytes();
        let mut out = Vec::new();
        assert!(receivers[1].receive(Time(1), NodeId(from), &frame, &mut out).is_err());
        assert!(out.is_empty());
    }
}

#[test]
fn invalid_frames_are_refused() {
    let mut relays = relays(&[1, 2]);
    let mut refused = |from: u32, frame: Frame| {
        let (frame, mut out) = (frame.into_bytes(), Vec::new());
        let error = relays[1].receive(Time(1), NodeId(from), &frame, &mut out).unwrap_err();
        assert!(out.is_empty(), "{error}");
        error.to_string()
    };
    let plan = PlanId { root: NodeId(0), version: 0 };
    let good = SegmentHead { plan, stripe: 0, flow: 0, offset: 0, total: 4 };
    let segment =
        |origin, head| SpreadFrame::segment(PeId(origin), &head, (b"a", Bytes::from_static(b"b")));

    let other_plan = PlanId { root: NodeId(0), version: 9 };
    assert!(refused(0, segment(0, SegmentHead { plan: other_plan, ..good })).contains("not known"));
    assert!(refused(0, segment(99, good)).contains("does not exist"));
    assert!(refused(2, segment(0, good)).contains("does not lead from"));
    assert!(
        refused(0, segment(0, SegmentHead { stripe: 1, ..good })).contains("does not lead from")
    );
    let plan = PlanHead { plan: Some(striped(1)), retired: Vec::new() };
    assert!(refused(2, plan.into_frame(PeId(0))).contains("is not the parent of"));
    for pe in [PeId(99), COORDINATOR] {
        let target = MulticastTarget { pe, members: Vec::new() };
        let stranger = SpreadFrame::multicast(&multicast(), vec![target], Bytes::new());
        assert!(refused(0, stranger).contains("does not exist"));
    }
    let huge = SegmentHead { total: BYTES_MAX + 1, ..good };
    assert!(refused(0, segment(0, huge)).contains("exceed the limit"));
    assert!(
        refused(0, Bytes::from_static(b"\0\0\0\0\0\0\0\0\x03").into()).contains("cannot decode")
    );
}
