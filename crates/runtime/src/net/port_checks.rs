//! Checks whether the ports of silent nodes are closed, which shows that their processes have
//! ended.
//!
//! A check sends one byte from a socket that is connected to the port. If no process has the port,
//! the other host answers that it is unreachable (ICMP, RFC 792 and RFC 4443), and the system
//! reports this as a refused connection of the socket. A host that cannot be reached, and a process
//! that is stopped, do not answer. Hosts limit the rate of such answers, so one may be missing. The
//! system chooses the port of the socket, so a host that does not see the byte can hardly forge an
//! answer.
//!
//! A firewall that refuses new flows gives the same answer for a process that runs. So each port is
//! also checked once while packets of its node arrive. If it seems closed then, later answers do
//! not count. The first check comes after the connection is open, so a port that is not open yet is
//! never taken for a closed one. A node has the same port as long as its run of the job lasts.

use gridspan_topology::NodeId;
use std::io::ErrorKind;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

/// Time for which an answer is awaited: longer than a round trip.
const ANSWER: Duration = Duration::from_secs(1);
/// Time between two looks for answers, each of which costs a system call per check.
const POLLING_INTERVAL: Duration = Duration::from_millis(10);
/// Largest number of checks under way, each of which has a socket.
const CHECKS_MAX: usize = 64;

/// The checks that are under way.
#[derive(Debug, Default)]
pub(super) struct PortChecks {
    checks: Vec<Check>,
    looked: Option<Instant>,
}

#[derive(Debug)]
struct Check {
    node: NodeId,
    port: SocketAddr,
    socket: UdpSocket,
    end: Instant,
}

impl PortChecks {
    /// Starts a check of the port of `node`, from the interface with the address `from`. Does
    /// nothing if too many are under way or the system allows none: then only the silence of the
    /// node can show that it is lost.
    pub(super) fn start(&mut self, now: Instant, node: NodeId, port: SocketAddr, from: IpAddr) {
        if self.checks.len() >= CHECKS_MAX {
            return;
        }
        let open = || {
            let socket = UdpSocket::bind((from, 0))?;
            socket.set_nonblocking(true)?;
            socket.connect(port)?;
            socket.send(&[0])?;
            Ok::<_, std::io::Error>(socket)
        };
        match open() {
            Ok(socket) => {
                self.looked.get_or_insert(now);
                self.checks.push(Check { node, port, socket, end: now + ANSWER });
            }
            Err(error) => tracing::debug!(%node, %error, "its port cannot be checked"),
        }
    }

    /// Returns the number of further checks that may start.
    pub(super) fn room(&self) -> usize {
        CHECKS_MAX.saturating_sub(self.checks.len())
    }

    /// Returns the time at which [`closed`](Self::closed) should be called.
    pub(super) fn poll_timeout(&self) -> Option<Instant> {
        let looked = self.looked.filter(|_| !self.checks.is_empty())?;
        Some(looked + POLLING_INTERVAL)
    }

    /// Returns the ports that are closed, with their nodes.
    pub(super) fn closed(&mut self, now: Instant) -> Vec<(NodeId, SocketAddr)> {
        let mut closed = Vec::new();
        let is_early = |looked: Instant| now.saturating_duration_since(looked) < POLLING_INTERVAL;
        if self.checks.is_empty() || self.looked.is_some_and(is_early) {
            return closed;
        }
        self.looked = Some(now);
        self.checks.retain(|check| match check.socket.recv(&mut [0; 1]) {
            Err(error) if error.kind() == ErrorKind::ConnectionRefused => {
                closed.push((check.node, check.port));
                false
            }
            _ => now < check.end,
        });
        closed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HERE: IpAddr = IpAddr::V4(std::net::Ipv4Addr::LOCALHOST);

    fn closed_within(patience: Duration, port: SocketAddr) -> Vec<(NodeId, SocketAddr)> {
        let begin = Instant::now();
        let mut checks = PortChecks::default();
        checks.start(begin, NodeId(7), port, HERE);
        loop {
            let closed = checks.closed(Instant::now());
            if !closed.is_empty() || begin.elapsed() > patience {
                return closed;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    #[test]
    fn only_a_port_without_a_process_is_closed() {
        let socket = UdpSocket::bind((HERE, 0)).unwrap();
        let port = socket.local_addr().unwrap();
        assert!(closed_within(Duration::from_millis(50), port).is_empty());
        drop(socket);
        assert_eq!(closed_within(Duration::from_secs(10), port), [(NodeId(7), port)]);
    }

    #[test]
    fn checks_end_and_are_few() {
        let socket = UdpSocket::bind((HERE, 0)).unwrap();
        let (port, now) = (socket.local_addr().unwrap(), Instant::now());
        let mut checks = PortChecks::default();
        for node in 0..2 * CHECKS_MAX as u32 {
            checks.start(now, NodeId(node), port, HERE);
        }
        assert_eq!((checks.checks.len(), checks.room()), (CHECKS_MAX, 0));
        assert_eq!(checks.poll_timeout(), Some(now + POLLING_INTERVAL));
        assert!(checks.closed(now + ANSWER).is_empty());
        assert!(checks.checks.is_empty());
        assert_eq!(checks.poll_timeout(), None);
    }
}
