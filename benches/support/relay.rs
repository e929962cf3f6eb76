//! The emulated wide-area link as a separate hop, for programs that have no emulator: one socket
//! between client and server, with Gridspan's emulator in each direction.

use gridspan_runtime::net::{Emulator, Outbound, UdpPort};
use gridspan_topology::{GridSpec, NodeId};
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// Maximum time of one wait, so that the relay notices that it should stop.
const WAIT: Duration = Duration::from_millis(20);

/// A relay that runs until it is dropped.
pub(crate) struct Relay {
    address: SocketAddr,
    over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Relay {
    /// Relays between `server` and the client that sends to the relay, over the link of a grid of
    /// two nodes.
    pub(crate) fn start(spec: &GridSpec, server: SocketAddr, seed: u64) -> Self {
        let port = UdpPort::bind((Ipv4Addr::LOCALHOST, 0).into()).expect("a port is free");
        let address = port.local_address().expect("the socket has an address");
        let over = Arc::new(AtomicBool::new(false));
        let now = Instant::now();
        let link = |node| Emulator::new(spec.clone(), NodeId(node), seed + u64::from(node), now);
        let links = [link(0), link(1)];
        let ended = over.clone();
        let thread = thread::spawn(move || relay(port, links, server, &ended));
        Self { address, over, thread: Some(thread) }
    }

    /// Returns the address to which the client connects instead of the server.
    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.over.store(true, Ordering::SeqCst);
        if let Some(thread) = self.thread.take() {
            thread.join().expect("the relay does not panic");
        }
    }
}

/// `links[0]` leads to the server, `links[1]` to the client.
fn relay(mut port: UdpPort, mut links: [Emulator; 2], server: SocketAddr, over: &AtomicBool) {
    let mut client = None;
    let mut buffer = Vec::new();
    while !over.load(Ordering::SeqCst) {
        let now = Instant::now();
        for link in &mut links {
            buffer.clear();
            while let Some(batch) = link.poll_transmit(now, port.segments_max(), &mut buffer) {
                let outbound = Outbound {
                    destination: batch.destination,
                    ecn: batch.ecn,
                    contents: &buffer,
                    segment_size: batch.segment_size,
                };
                while !port.send(outbound).expect("the relay's socket sends") {
                    thread::yield_now();
                }
                buffer.clear();
            }
        }
        let received = port.receive(&mut |from, ecn, packet| {
            let size = packet.len();
            if from == server {
                if let Some(client) = client {
                    links[1].send(now, NodeId(0), client, ecn, (&packet, size));
                }
            } else {
                client = Some(from);
                links[0].send(now, NodeId(1), server, ecn, (&packet, size));
            }
        });
        if received.expect("the relay's socket receives") == 0 {
            let due = links.iter().filter_map(Emulator::poll_timeout).min();
            let left = due.map(|due| due.saturating_duration_since(Instant::now()));
            let wait = left.unwrap_or(WAIT).min(WAIT);
            if !wait.is_zero() {
                port.wait(Some(wait), false).expect("the relay's socket waits");
            }
        }
    }
}
