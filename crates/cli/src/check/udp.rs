//! Datagrams between the agents of `gridctl check`.
//!
//! Each agent receives at the ports of its nodes, from the beginning, and sends on request.
//! Agents do not answer datagrams: each reports what has arrived, so that each direction is checked
//! alone. Like those of QUIC, the datagrams must not be fragmented. They come from a separate port,
//! so that a firewall does not take them for answers.

use super::protocol::{Arrival, Order, PORTS_MAX, Peer, PortState, Refusal, SIZES, Sent};
use crate::small_thread::spawn;
use quinn_udp::{UdpSockRef, UdpSocketState};
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

/// Beginning of each datagram; the token and the number of the sending host follow.
const MARK: &[u8] = b"gridctl check\n";
/// Largest number of pairs of a sending host and a port that are kept.
const ARRIVALS_MAX: usize = 4096;
/// Number of times that each datagram is sent, since some are lost.
const ROUNDS: usize = 3;
/// Pause between two rounds, longer than most bursts of losses.
const ROUND_PAUSE: Duration = Duration::from_millis(150);
/// Number of datagrams after which the sender pauses, so that no queue overflows: they fit into the
/// smallest usual buffer of a socket (200 kB).
const BURST: usize = 64;
const BURST_PAUSE: Duration = Duration::from_millis(2);
/// Pause after an error of a socket, so that a lasting error does not take a core.
const ERROR_PAUSE: Duration = Duration::from_millis(100);

/// The source address and the sizes of the datagrams from a host to a port.
type Arrivals = BTreeMap<(u32, u16), (IpAddr, BTreeSet<u16>)>;

/// Receives datagrams, by a thread for each port, until the process ends.
pub(super) struct Receiver {
    arrivals: Arc<Mutex<Arrivals>>,
}

impl Receiver {
    /// Opens the ports. Also returns their states, in the order of the ports.
    pub(super) fn open(order: &Order) -> (Self, Vec<PortState>) {
        let arrivals = Arc::<Mutex<Arrivals>>::default();
        let ports = order.ports.iter().take(PORTS_MAX).zip(0..);
        let state = |(&port, position)| {
            let opened = open(order, port, position, &arrivals);
            match opened {
                Ok(port) => PortState { port, error: None },
                Err(error) => PortState { port, error: Some(error.to_string()) },
            }
        };
        let states = ports.map(state).collect();
        (Self { arrivals }, states)
    }

    /// Returns what has arrived.
    pub(super) fn arrivals(&self) -> Vec<Arrival> {
        let arrivals = self.arrivals.lock().unwrap_or_else(PoisonError::into_inner);
        let all = arrivals.iter().map(|(&(from, port), (address, sizes))| Arrival {
            from,
            port,
            address: *address,
            bytes: sizes.iter().copied().collect(),
        });
        all.collect()
    }
}

/// Opens a port and starts a thread that receives there. Returns the number of the port.
fn open(
    order: &Order,
    port: u16,
    position: u16,
    arrivals: &Arc<Mutex<Arrivals>>,
) -> io::Result<u16> {
    let socket = UdpSocket::bind((order.listen, port))?;
    let port = socket.local_addr()?.port();
    let (token, arrivals) = (order.token.clone(), arrivals.clone());
    spawn("datagrams", move || receive(&socket, position, &token, &arrivals))?;
    Ok(port)
}

fn receive(socket: &UdpSocket, port: u16, token: &str, arrivals: &Mutex<Arrivals>) {
    let mut buffer = [0; 2048];
    loop {
        match socket.recv_from(&mut buffer) {
            Ok((length, source)) => {
                if let Some((from, bytes)) = read(&buffer[..length], token) {
                    note(arrivals, (from, port), source.ip().to_canonical(), bytes);
                }
            }
            Err(_) => thread::sleep(ERROR_PAUSE),
        }
    }
}

fn note(arrivals: &Mutex<Arrivals>, key: (u32, u16), address: IpAddr, bytes: u16) {
    let mut arrivals = arrivals.lock().unwrap_or_else(PoisonError::into_inner);
    if arrivals.len() < ARRIVALS_MAX || arrivals.contains_key(&key) {
        let (last, sizes) = arrivals.entry(key).or_insert_with(|| (address, BTreeSet::new()));
        *last = address;
        sizes.insert(bytes);
    }
}

/// Returns a datagram of this size.
fn datagram(token: &str, from: u32, bytes: u16) -> Vec<u8> {
    let mut datagram = [MARK, token.as_bytes(), &from.to_le_bytes()].concat();
    datagram.resize(bytes.into(), 0);
    datagram
}

/// Reads the sending host and the size of a datagram. Returns `None` for one of another check, or
/// of another program.
fn read(datagram: &[u8], token: &str) -> Option<(u32, u16)> {
    let bytes = SIZES.into_iter().find(|&size| usize::from(size) == datagram.len())?;
    let rest = datagram.strip_prefix(MARK)?.strip_prefix(token.as_bytes())?;
    let (from, _) = rest.split_first_chunk()?;
    Some((u32::from_le_bytes(*from), bytes))
}

/// Sends datagrams of all sizes to all ports of all peers, several times.
pub(super) fn send(order: &Order, peers: &[Peer]) -> Sent {
    let (socket, may_fragment) = match sender(order.listen) {
        Ok(sender) => sender,
        Err(error) => {
            let refusals = peers.iter().map(|peer| refusal(peer.host, SIZES[0], &error));
            return Sent { refusals: refusals.collect(), may_fragment: true };
        }
    };
    let datagrams = SIZES.map(|bytes| (bytes, datagram(&order.token, order.host, bytes)));
    let mut refused: BTreeMap<(u32, u16), io::Error> = BTreeMap::new();
    let mut count = 0;
    for round in 0..ROUNDS {
        if round > 0 {
            thread::sleep(ROUND_PAUSE);
        }
        for peer in peers {
            for (bytes, datagram) in &datagrams {
                for address in &peer.addresses {
                    count += 1;
                    if count % BURST == 0 {
                        thread::sleep(BURST_PAUSE);
                    }
                    match socket.send_to(datagram, address) {
                        Ok(_) => refused.remove(&(peer.host, *bytes)),
                        Err(error) => refused.insert((peer.host, *bytes), error),
                    };
                }
            }
        }
    }
    let refusals = refused.iter().map(|(&(host, bytes), error)| refusal(host, bytes, error));
    Sent { refusals: refusals.collect(), may_fragment }
}

fn refusal(host: u32, bytes: u16, error: &io::Error) -> Refusal {
    Refusal { host, bytes, reason: error.to_string() }
}

/// Opens a socket to send from, and returns whether its datagrams may be fragmented.
fn sender(address: IpAddr) -> io::Result<(UdpSocket, bool)> {
    let socket = UdpSocket::bind(SocketAddr::new(address, 0))?;
    // This forbids fragments where the system can, and makes the socket non-blocking.
    let may_fragment = match UdpSocketState::new(UdpSockRef::from(&socket)) {
        Ok(state) => state.may_fragment(),
        Err(_) => true,
    };
    socket.set_nonblocking(false)?;
    Ok((socket, may_fragment))
}

#[cfg(test)]
mod tests {
    use super::super::protocol::VERSION;
    use super::*;
    use std::net::Ipv4Addr;
    use std::time::Instant;

    fn order(host: u32, token: &str, ports: Vec<u16>) -> Order {
        let listen = Ipv4Addr::LOCALHOST.into();
        Order { version: VERSION, host, listen, ports, token: token.to_owned(), life_s: 0 }
    }

    fn peer(host: u32, states: &[PortState]) -> Peer {
        let address = |state: &PortState| (Ipv4Addr::LOCALHOST, state.port).into();
        Peer { host, addresses: states.iter().map(address).collect() }
    }

    #[test]
    fn only_datagrams_of_this_check_are_read() {
        for size in SIZES {
            let datagram = datagram("abc", 7, size);
            assert_eq!(datagram.len(), usize::from(size));
            assert_eq!(read(&datagram, "abc"), Some((7, size)));
            assert_eq!(read(&datagram, "abd"), None);
            assert_eq!(read(&datagram[1..], "abc"), None);
        }
        assert_eq!(read(&[0; 100], "abc"), None);
        assert_eq!(read(&[], ""), None);
        let short = [MARK, &[b'x'; 100 - MARK.len()]].concat();
        assert_eq!(read(&short, &"x".repeat(100 - MARK.len())), None, "there is no number");
    }

    #[test]
    fn datagrams_of_all_sizes_arrive_on_this_machine_at_all_ports() {
        let order = order(3, "token", vec![0, 0]);
        let (receiver, states) = Receiver::open(&order);
        assert!(states.iter().all(|state| state.error.is_none()), "{states:?}");

        let sent = send(&order, &[peer(9, &states)]);

        assert!(sent.refusals.is_empty(), "{sent:?}");
        let begin = Instant::now();
        let is_complete =
            |all: &[Arrival]| all.len() == 2 && all.iter().all(|arrival| arrival.bytes == SIZES);
        while !is_complete(&receiver.arrivals()) {
            assert!(begin.elapsed() < Duration::from_secs(10), "{:?}", receiver.arrivals());
            thread::sleep(Duration::from_millis(10));
        }
        let first = &receiver.arrivals()[0];
        assert_eq!((first.from, first.port, first.address), (3, 0, Ipv4Addr::LOCALHOST.into()));
    }

    #[test]
    fn a_port_in_use_is_reported() {
        let other = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = other.local_addr().unwrap().port();
        let (_, states) = Receiver::open(&order(0, "token", vec![port]));
        assert_eq!(states[0].port, port);
        assert!(states[0].error.as_ref().is_some_and(|error| error.contains("in use")));
    }

    #[test]
    fn what_the_system_does_not_send_is_reported() {
        // Linux refuses to send to port 0.
        let peer = Peer { host: 5, addresses: vec![(Ipv4Addr::LOCALHOST, 0).into()] };
        let sent = send(&order(0, "token", vec![]), &[peer]);
        let refused: Vec<_> =
            sent.refusals.iter().map(|refusal| (refusal.host, refusal.bytes)).collect();
        assert_eq!(refused, SIZES.map(|bytes| (5, bytes)), "{sent:?}");
    }
}
