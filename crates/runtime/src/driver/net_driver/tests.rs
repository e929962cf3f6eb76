//! The end of a node: which packets end it, and frames that the transport does not accept at once.

use super::*;
use crate::address::id::{COORDINATOR, MAIN_PE};
use crate::driver::CheckpointKeeper;
use crate::driver::coordinator::CoordinatorDriver;
use crate::driver::inbox::Taken;
use crate::job::program::Program;
use crate::message::{Control, Packet};
use crate::net::bootstrap::{Joined, NodeBundle, issue};
use crate::net::{Authority, TransportLimits, UdpPort};
use crate::{Job, Limits};
use bytes::Bytes;
use gridspan_topology::{GridSpec, Layout, PeId, SiteId};
use std::net::Ipv4Addr;
use std::sync::Arc;

fn switch(program: &Program, node: NodeId) -> Arc<Switch> {
    let (limits, begin) = (program.limits(), Instant::now());
    let host = program.coordinator_host(node);
    Switch::new(
        program.layout().clone(),
        node,
        vec![Inbox::new(Box::new(|| {}))],
        None,
        program.relay(node),
        CoordinatorDriver::new(host, limits.hard_bytes, begin),
        (limits, CheckpointKeeper::default(), begin, false),
    )
}

/// Two nodes, each of which keeps at most this many unacknowledged bytes for the other.
fn nodes(retained_bytes_max: u64, limits: Limits) -> Vec<(NetDriver, Arc<Switch>)> {
    let layout = Layout::new(vec![("a".to_owned(), vec![1, 1])]);
    let spec = GridSpec::from_layout(&layout).unwrap();
    let bundles = issue(&Authority::new("ending").unwrap(), &spec).unwrap();
    let bind = |_: &NodeBundle| UdpPort::bind((Ipv4Addr::LOCALHOST, 0).into()).unwrap();
    let ports: Vec<UdpPort> = bundles.iter().map(bind).collect();
    let addresses: Vec<SocketAddr> =
        ports.iter().map(|port| port.local_address().unwrap()).collect();
    let job = Job::new("ending").limits(limits).main(async |_| Ok::<(), JobError>(()));
    let program = Program::new(job, layout).unwrap();
    let start = |(bundle, port): (NodeBundle, UdpPort)| {
        let node = bundle.identity.node;
        let joined = Joined { bundle, port, addresses: addresses.clone() };
        let limits = TransportLimits { retained_bytes_max, ..TransportLimits::default() };
        let net = joined.into_loop(limits, None).unwrap();
        (NetDriver::new(net), switch(&program, node))
    };
    bundles.into_iter().zip(ports).map(start).collect()
}

#[test]
fn frames_that_wait_for_the_transport_are_sent_before_the_end() {
    // Room for one frame at a time.
    let nodes = nodes(1_500, Limits::default());
    let [(own, own_switch), (other, other_switch)] = &nodes[..] else { panic!("two nodes") };
    for _ in 0..3 {
        own.send(NodeId(1), Frame::from(vec![0_u8; 1_000]), false);
    }
    let is_over = AtomicBool::new(false);

    thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Ordering::SeqCst) {
                let mut net = lock(&other.net);
                other.turn(&mut net, other_switch, Duration::from_millis(10), None);
            }
        });
        own.finish(own_switch);
        is_over.store(true, Ordering::SeqCst);
    });

    assert_eq!(own.backlog_bytes(), 0);
    assert_eq!(other.received_bytes.load(Ordering::Relaxed), 3_000);
}

#[test]
fn two_nodes_that_have_stopped_reading_end_without_waiting_for_each_other() {
    // With this limit a node always has too many bytes to read more.
    let nodes = nodes(1_500, Limits::default().with_soft_bytes(0));
    for (at, (driver, switch)) in nodes.iter().enumerate() {
        assert!(switch.is_congested());
        driver.send(NodeId(1 - at as u32), Frame::from(vec![0_u8; 1_000]), false);
    }
    let begin = Instant::now();

    thread::scope(|scope| {
        for (driver, switch) in &nodes {
            scope.spawn(move || driver.finish(switch));
        }
    });

    assert!(begin.elapsed() < FLUSH, "{:?}", begin.elapsed());
}

#[test]
fn the_coordinator_can_end_the_pes_of_a_node_and_a_guest_cannot() {
    let layout = Layout::new(vec![("a".to_owned(), vec![1, 1])]);
    let job = Job::new("guarded").main(async |_| Ok::<(), JobError>(()));
    let program = Program::new(job, layout).unwrap();
    let node = switch(&program, NodeId(0));
    let guest = program.layout().guest(SiteId(0), 0).unwrap();
    let ends = |from: NodeId, sender: PeId| {
        let stop = Packet::control(Control::Stop { outcome: Ok(()) });
        node.receive(from, &Bytes::from(stop.into_frame(sender, MAIN_PE))).unwrap();
        let mut taken = Taken::default();
        node.inbox(MAIN_PE).take(&mut taken, true);
        taken.actions.len()
    };

    assert_eq!(ends(guest, program.layout().leader(guest)), 0);
    assert_eq!(ends(NodeId(1), COORDINATOR), 1);
}
