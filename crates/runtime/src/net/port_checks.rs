//! Checks whether the ports of silent nodes are closed, which shows that their processes have
//! ended.
//!
//! A check sends one byte from a socket that is connected to the port. If no process has the port,
//! the other host answers that it is unreachable (ICMP, RFC 792 and RFC 4443), and the system
//! reports this as a refused connection of the socket. A host that cannot be reached, and a process
//! that is stopped, do not answer. Hosts limit the rate of such answers, and other packets to the
//! port use up the limit, too. So the check repeats the byte while the node is silent. The system
//! chooses the port of the socket, so a host that does not see the byte can hardly forge an answer.
//!
//! A firewall that refuses new flows gives the same answer for a process that runs. So each port is
//! also checked once while packets of its node arrive. If it seems closed then, later answers do
//! not count. So the byte is not repeated while packets arrive: the answer to one that comes just
//! after the end of the process would look like that of a firewall. The first check comes after the
//! connection is open, so a port that is not open yet is never taken for a closed one. A node has
//! the same port as long as its run of the job lasts.

use gridspan_topology::NodeId;
use std::io::ErrorKind;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

/// Time for which an answer is awaited: longer than a round trip.
const ANSWER: Duration = Duration::from_secs(1);
/// Time after which the byte is sent again: a few times per second, since hosts commonly send one
/// answer per second beyond a burst.
const REPEAT_EVERY: Duration = Duration::from_millis(200);
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
    /// When the byte was last sent.
    sent: Instant,
    end: Instant,
}

impl Check {
    /// Returns whether there is an answer that the port is closed. Sends the byte again if the node
    /// is silent and it is time.
    fn is_closed(&mut self, now: Instant, is_silent: bool) -> bool {
        let is_refused = |done: std::io::Result<usize>| {
            done.is_err_and(|error| error.kind() == ErrorKind::ConnectionRefused)
        };
        if is_refused(self.socket.recv(&mut [0; 1])) {
            return true;
        }
        if !is_silent || now < self.sent + REPEAT_EVERY {
            return false;
        }
        self.sent = now;
        // The answer to an earlier byte may have come just now; sending then reports it.
        is_refused(self.socket.send(&[0]))
    }
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
                self.checks.push(Check { node, port, socket, sent: now, end: now + ANSWER });
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

    /// Returns the ports that are closed, with their nodes. `is_silent`: whether no packets of a
    /// node arrive, so that the byte may be repeated.
    pub(super) fn closed(
        &mut self,
        now: Instant,
        is_silent: impl Fn(NodeId) -> bool,
    ) -> Vec<(NodeId, SocketAddr)> {
        let mut closed = Vec::new();
        let is_early = |looked: Instant| now.saturating_duration_since(looked) < POLLING_INTERVAL;
        if self.checks.is_empty() || self.looked.is_some_and(is_early) {
            return closed;
        }
        self.looked = Some(now);
        self.checks.retain_mut(|check| {
            if check.is_closed(now, is_silent(check.node)) {
                closed.push((check.node, check.port));
                return false;
            }
            now < check.end
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
            let closed = checks.closed(Instant::now(), |_| false);
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
    fn a_check_notices_the_end_of_a_process_after_its_first_byte_only_if_the_node_is_silent() {
        for is_silent in [false, true] {
            let socket = UdpSocket::bind((HERE, 0)).unwrap();
            let (port, begin) = (socket.local_addr().unwrap(), Instant::now());
            let mut checks = PortChecks::default();
            checks.start(begin, NodeId(7), port, HERE);
            socket.recv(&mut [0; 1]).unwrap();
            drop(socket);

            let mut closed = (10..1_000).step_by(10).flat_map(|millis| {
                std::thread::sleep(Duration::from_millis(2));
                checks.closed(begin + Duration::from_millis(millis), |_| is_silent)
            });

            assert_eq!(closed.next(), is_silent.then_some((NodeId(7), port)));
        }
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
        assert!(checks.closed(now + ANSWER, |_| false).is_empty());
        assert!(checks.checks.is_empty());
        assert_eq!(checks.poll_timeout(), None);
    }
}
