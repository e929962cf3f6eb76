//! Two nodes over real sockets of this machine.

use bytes::Bytes;
use gridspan_runtime::Frame;
use gridspan_runtime::message::probe::{ProbeKind, ProbeOrder};
use gridspan_runtime::net::{
    Authority, Emulator, FrameClass, LossReason, NetLoop, Transport, TransportConfig,
    TransportEvent, UdpPort,
};
use gridspan_topology::{Bandwidth, GridSpec, Latency, Layout, Link, NodeId};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

const A: NodeId = NodeId(0);
const B: NodeId = NodeId(1);

/// Two nodes at two sites that know each other's address. If `link` is given, it is emulated
/// between them.
fn pair(link: Option<Link>) -> [NetLoop; 2] {
    let layout = Layout::new(vec![("a".to_owned(), vec![1]), ("b".to_owned(), vec![1])]);
    let authority = Authority::new("loopback").unwrap();
    let now = Instant::now();
    let mut nodes = [A, B].map(|node| {
        let identity = authority.issue(node, 1).unwrap();
        let mut config = TransportConfig::new(layout.clone(), identity, [7 + node.0 as u8; 32]);
        config.emulated = link.is_some();
        let transport = Transport::new(config, now).unwrap();
        let port = UdpPort::bind(([127, 0, 0, 1], 0).into()).unwrap();
        let emulator = link.map(|link| {
            let spec = GridSpec::from_layout(&layout).unwrap().with_wan(link);
            Emulator::new(spec, node, 1, now)
        });
        NetLoop::new(transport, port, emulator)
    });
    let addresses = [0, 1].map(|at| nodes[at].local_address().unwrap());
    for node in &mut nodes {
        node.transport().set_address(A, addresses[0]);
        node.transport().set_address(B, addresses[1]);
    }
    nodes
}

/// Answers every frame with the same frame until the other side closes.
fn echo(mut node: NetLoop) -> std::thread::JoinHandle<()> {
    std::thread::spawn(move || {
        let mut answers = vec![];
        let mut is_over = false;
        while !is_over {
            node.turn(Some(Duration::from_secs(1)), &mut |event| match event {
                TransportEvent::Frame { from, bytes } => answers.push((from, bytes)),
                TransportEvent::Lost { .. } => is_over = true,
                _ => {}
            })
            .unwrap();
            for (to, bytes) in answers.drain(..) {
                node.transport().send(to, FrameClass::Auto, bytes).unwrap();
            }
        }
    })
}

/// Sends a frame and waits for the answer. Returns the time that this takes.
fn ask(node: &mut NetLoop, frame: &Bytes) -> Duration {
    let begin = Instant::now();
    node.transport().send(B, FrameClass::Auto, frame.clone()).unwrap();
    let mut answered = false;
    while !answered {
        node.turn(Some(Duration::from_secs(10)), &mut |event| {
            if let TransportEvent::Frame { bytes, .. } = event {
                assert_eq!(bytes.len(), frame.len());
                answered = true;
            }
        })
        .unwrap();
        assert!(begin.elapsed() < Duration::from_secs(60), "no answer");
    }
    begin.elapsed()
}

#[test]
fn ten_thousand_small_frames_and_one_of_twenty_megabytes_arrive() {
    let [mut a, mut b] = pair(None);
    let receiver = std::thread::spawn(move || {
        let (mut small, mut large) = (vec![], 0);
        let mut is_over = false;
        while !is_over {
            b.turn(Some(Duration::from_secs(1)), &mut |event| match event {
                TransportEvent::Frame { bytes, .. } if bytes.len() > 1_000_000 => {
                    assert!(bytes.iter().all(|&byte| byte == 9));
                    large += bytes.len();
                }
                TransportEvent::Frame { bytes, .. } => {
                    small.push(u32::from_le_bytes(bytes[..4].try_into().unwrap()));
                }
                TransportEvent::Lost { .. } => is_over = true,
                _ => {}
            })
            .unwrap();
        }
        (small, large)
    });
    // The frame is in two pieces, like those that relays pass on.
    let large = Frame::new(vec![9; 1000], vec![9; (20 << 20) - 1000]);
    for number in 0..10_000u32 {
        if number == 5_000 {
            a.transport().send(B, FrameClass::Auto, large.clone()).unwrap();
        }
        let body = vec![0xff; number as usize % 200];
        let frame = Frame::new(number.to_le_bytes().to_vec(), body);
        a.transport().send(B, FrameClass::Auto, frame).unwrap();
        if number % 100 == 0 {
            a.turn(Some(Duration::ZERO), &mut |_| {}).unwrap();
        }
    }
    assert!(a.flush(Duration::from_secs(60), &mut |_| {}).unwrap());
    a.close("done").unwrap();
    let (small, large) = receiver.join().unwrap();
    assert_eq!(small, (0..10_000).collect::<Vec<_>>());
    assert_eq!(large, 20 << 20);
}

/// Time limit for the round trip of a megabyte.
const GOAL: Duration = Duration::from_millis(55);

#[test]
fn a_megabyte_makes_a_round_trip_in_55_ms_over_a_link_of_20_ms() {
    let link = Link::new(Latency::from_millis(10), Bandwidth::from_bits_per_second(1_000_000_000));
    let [mut a, b] = pair(Some(link));
    let echo = echo(b);
    let megabyte = Bytes::from(vec![1u8; 1_000_000]);
    ask(&mut a, &Bytes::from_static(b"warm"));
    // Repeat: the transport's best time shows only while the machine does nothing else.
    let mut times = Vec::new();
    while times.len() < 200 && times.last().is_none_or(|&last| last > GOAL) {
        times.push(ask(&mut a, &megabyte));
    }
    a.close("done").unwrap();
    echo.join().unwrap();
    println!("1 MB round trips: {times:?}");
    assert!(times.iter().any(|&time| time <= GOAL), "{times:?}");
}

/// Connects two nodes, and closes the socket of the second one without a farewell, as the end of
/// its process does. Returns for how long the first one takes to notice that, and the reason that
/// it reports. `is_main`: whether the first one is the node of main.
fn noticed(is_main: bool) -> (Duration, LossReason) {
    let [mut a, mut b] = pair(None);
    let mut other = B;
    if !is_main {
        (a, b, other) = (b, a, A);
    }
    a.transport().send(other, FrameClass::Auto, Bytes::from_static(b"frame")).unwrap();
    let (begin, mut has_arrived) = (Instant::now(), false);
    // After the frame they exchange some heartbeats.
    while !has_arrived || begin.elapsed() < Duration::from_millis(500) {
        let turn = Some(Duration::from_millis(1));
        a.turn(turn, &mut |_| {}).unwrap();
        b.turn(turn, &mut |event| {
            has_arrived |= matches!(event, TransportEvent::Frame { .. });
        })
        .unwrap();
        assert!(begin.elapsed() < Duration::from_secs(60), "the frame does not arrive");
    }
    drop(b);
    let (begin, mut lost) = (Instant::now(), None);
    loop {
        a.turn(Some(Duration::from_secs(1)), &mut |event| {
            if let TransportEvent::Lost { reason, .. } = event {
                lost = Some(reason);
            }
        })
        .unwrap();
        if let Some(reason) = lost.take() {
            return (begin.elapsed(), reason);
        }
        assert!(begin.elapsed() < Duration::from_secs(60), "the loss is not noticed");
    }
}

/// Time limit for noticing that the port of a node is closed.
const NOTICED_MAX: Duration = Duration::from_secs(1);

#[test]
fn the_closed_port_of_a_founder_is_noticed_within_a_second() {
    for is_main in [true, false] {
        // Repeat: other tests may take the processors.
        let mut times = Vec::new();
        while times.len() < 10 && times.last().is_none_or(|&last| last > NOTICED_MAX) {
            let (time, reason) = noticed(is_main);
            assert!(matches!(reason, LossReason::PortClosed { .. }), "{reason}");
            times.push(time);
        }
        assert!(times.iter().any(|&time| time <= NOTICED_MAX), "{times:?}");
    }
}

#[test]
fn a_node_that_is_probed_faster_than_it_answers_still_sends_frames() {
    let [mut a, mut b] = pair(None);
    let frames = Arc::new(AtomicUsize::new(0));
    let arrived = Arc::clone(&frames);
    let (connected, is_connected) = std::sync::mpsc::channel();
    let prober = std::thread::spawn(move || {
        let (mut is_connected, mut is_over) = (false, false);
        while !is_over {
            a.turn(Some(Duration::from_secs(1)), &mut |event| match event {
                TransportEvent::Frame { .. } => {
                    arrived.fetch_add(1, Ordering::SeqCst);
                }
                TransportEvent::Lost { .. } => is_over = true,
                _ => {}
            })
            .unwrap();
            if arrived.load(Ordering::SeqCst) > 0 && !std::mem::replace(&mut is_connected, true) {
                // 5,000 pings a second, for longer than this test takes.
                let targets = vec![B; 10_000];
                a.probe(ProbeOrder { id: 1, kind: ProbeKind::RoundTrip, targets });
                connected.send(()).unwrap();
            }
        }
    });
    let frame = Bytes::from_static(b"frame");
    b.transport().send(A, FrameClass::Auto, frame.clone()).unwrap();
    assert!(b.flush(Duration::from_secs(10), &mut |_| {}).unwrap());
    is_connected.recv().unwrap();

    // Between two turns 100 pings come, more than one turn answers.
    for _ in 0..20 {
        std::thread::sleep(Duration::from_millis(20));
        b.turn(Some(Duration::ZERO), &mut |_| {}).unwrap();
        b.transport().send(A, FrameClass::Auto, frame.clone()).unwrap();
    }
    let before_close = frames.load(Ordering::SeqCst);
    b.close("done").unwrap();
    prober.join().unwrap();

    assert!(before_close > 10, "{before_close} of 21 frames left among the answers");
}
