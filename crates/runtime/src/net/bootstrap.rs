//! How a node process learns who it is and where the others are, over a pipe from its launcher and
//! its standard output.
//!
//! # Start
//!
//! 1. The launcher writes one line to a pipe that the process reads: its [`NodeBundle`] in JSON.
//! 2. The process opens its socket and prints one line: [`LISTENING`] and the address.
//! 3. When all have, the launcher writes one more line: the [`Addresses`] of all nodes.
//!
//! Keys travel over that pipe only: arguments and the environment of a process can be read by
//! others, and a program that is no job may print its standard input. Where a node has no such
//! pipe, behind `ssh`, standard input is it.
//!
//! # Steady state
//!
//! The pipe stays open and silent; but a guest, a node that joins the running job, leaves when it
//! gets the line [`LEAVE`]. Its launcher is `gridctl join`, which knows the addresses already and
//! sends both lines at once. What the program prints passes the launcher as it is; only the one
//! line begins with the character that no program prints.
//!
//! # Failure
//!
//! The end of the pipe means that the launcher is gone: the process must end
//! ([`watch_launcher`]). A line that is too long, malformed or missing ends the process with an
//! error before it has opened anything to the network.

use super::config::{TransportConfig, TransportLimits};
use super::emulator::Emulator;
use super::identity::{Authority, Identity, IdentityError};
use super::net_loop::NetLoop;
use super::transport::Transport;
use super::udp::{PortError, UdpPort};
use crate::session::{DetectorSettings, crowding_factor};
use gridspan_topology::{GridSpec, NodeId};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::io::{self, BufRead, Read, Write};
use std::net::{Ipv4Addr, SocketAddr};
use std::thread::JoinHandle;
use std::time::Instant;
use thiserror::Error;

/// Begins the line in which a process says where it listens.
pub const LISTENING: &str = "\u{1e}gridspan listening ";

/// The line that has a guest leave.
pub const LEAVE: &str = "leave\n";

/// The version of the bundle; launcher and node must agree.
const BUNDLE_VERSION: u32 = 1;
/// The longest line of the launcher: the grid file of the largest job takes a tenth of it.
const LINE_BYTES_MAX: u64 = 64 << 20;

/// The bounds of a first congestion window: a few packets, and what the initial burst of a node to
/// all others at once may reasonably take.
const WINDOW_BOUNDS: (u64, u64) = (32 << 10, 4 << 20);

/// A node could not join its job.
#[derive(Debug, Error)]
pub enum BootstrapError {
    /// The pipe or standard output failed.
    #[error("cannot edge to the launcher: {0}")]
    Io(#[from] io::Error),
    /// The pipe ended.
    #[error("the launcher ended before it sent {0}: start the node through the launcher")]
    Ended(&'static str),
    /// A line is longer than any that a launcher sends.
    #[error("{what} is longer than {LINE_BYTES_MAX} bytes: start the node through the launcher")]
    TooLong {
        /// Which line.
        what: &'static str,
    },
    /// A line makes no sense.
    #[error("{what} is malformed ({source}): use launcher and node of one build")]
    Malformed {
        /// Which line.
        what: &'static str,
        /// What is wrong.
        source: serde_json::Error,
    },
    /// Launcher and node are of different versions.
    #[error(
        "the launcher sent bundle version {0}, this node knows {BUNDLE_VERSION}: use one build"
    )]
    Version(u32),
    /// The bundle contradicts itself.
    #[error("the launcher's bundle contradicts itself: {0}")]
    Inconsistent(&'static str),
    /// The socket could not be opened.
    #[error(transparent)]
    Port(#[from] PortError),
    /// The certificate cannot be used.
    #[error(transparent)]
    Identity(#[from] IdentityError),
}

/// All that a node needs to take part. It contains its private key, which `Debug` does not show.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct NodeBundle {
    /// The version of this structure.
    version: u32,
    /// Who the node is, in which job.
    pub identity: Identity,
    /// The job's sites, hosts and links.
    pub spec: GridSpec,
    /// Drives everything random in the transport but the cryptography.
    pub seed: [u8; 32],
    /// Whether the links between sites are emulated.
    pub emulate: bool,
    /// Where to receive packets; a free port of the loopback interface if not given.
    pub listen: Option<SocketAddr>,
    /// With how many PEs the node joins, if it is a guest of a job that runs already.
    #[serde(default)]
    pub guest: Option<u32>,
    /// How many nodes share a core of the machine with the most; 0 if that is not known.
    #[serde(default)]
    pub nodes_per_core: u32,
    /// What the launcher wants to tell the layers above; opaque here.
    #[serde(default)]
    pub settings: serde_json::Value,
}

/// Where each node receives packets, by number.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Addresses(pub Vec<SocketAddr>);

impl NodeBundle {
    /// A bundle for one life of `node`, with a fresh certificate and seed.
    pub fn issue(
        authority: &Authority,
        spec: &GridSpec,
        node: NodeId,
        incarnation: u64,
    ) -> Result<Self, IdentityError> {
        let mut seed = [0; 32];
        rustls::crypto::ring::default_provider()
            .secure_random
            .fill(&mut seed)
            .map_err(|_| rustls::Error::FailedToGetRandomBytes)?;
        Ok(Self {
            version: BUNDLE_VERSION,
            identity: authority.issue(node, incarnation)?,
            spec: spec.clone(),
            seed,
            emulate: false,
            listen: None,
            guest: None,
            nodes_per_core: 0,
            settings: serde_json::Value::Null,
        })
    }

    /// The bundle as the line that the launcher writes.
    pub fn to_line(&self) -> Result<String, serde_json::Error> {
        to_line(self)
    }

    fn check(&self) -> Result<(), BootstrapError> {
        if self.version != BUNDLE_VERSION {
            return Err(BootstrapError::Version(self.version));
        }
        if self.spec.layout().is_guest(self.identity.node) != self.guest.is_some() {
            return Err(BootstrapError::Inconsistent("its node is not in its grid"));
        }
        Ok(())
    }
}

impl Addresses {
    /// The addresses as the line that the launcher writes.
    pub fn to_line(&self) -> Result<String, serde_json::Error> {
        to_line(self)
    }
}

/// One bundle for each node of `spec`, all in their first life.
pub fn issue(authority: &Authority, spec: &GridSpec) -> Result<Vec<NodeBundle>, IdentityError> {
    spec.layout().nodes().map(|node| NodeBundle::issue(authority, spec, node, 1)).collect()
}

/// The address in the line in which a process says where it listens; none in any other line. If the
/// process listens on all its interfaces, the launcher must put in the one that the others can
/// reach.
pub fn listening_address(line: &str) -> Option<SocketAddr> {
    line.trim_end().strip_prefix(LISTENING)?.parse().ok()
}

/// A node that knows who it is and where the others are.
pub struct Joined {
    /// What the launcher sent.
    pub bundle: NodeBundle,
    /// The node's socket.
    pub port: UdpPort,
    /// Where each node receives packets, by number.
    pub addresses: Vec<SocketAddr>,
}

impl Joined {
    /// The node's transport with its socket, and the emulated links if the launcher wants them.
    pub fn into_loop(self, limits: TransportLimits) -> Result<NetLoop, IdentityError> {
        let now = Instant::now();
        let Self { bundle, port, addresses } = self;
        let node = bundle.identity.node;
        let layout = bundle.spec.layout().clone();
        let mut config = TransportConfig::new(layout, bundle.identity, bundle.seed);
        config.limits = limits;
        config.emulated = bundle.emulate;
        config.detector = DetectorSettings::crowded(bundle.nodes_per_core);
        config.limits.connect_patience *= crowding_factor(bundle.nodes_per_core);
        if bundle.emulate {
            config.windows = windows(&bundle.spec, node);
        }
        let mut transport = Transport::new(config, now)?;
        for (other, address) in addresses.into_iter().enumerate() {
            if NodeId::from(other) != node {
                transport.set_address(NodeId::from(other), address);
            }
        }
        let [a, b, c, d, e, f, g, h, ..] = bundle.seed;
        let seed = u64::from_le_bytes([a, b, c, d, e, f, g, h]);
        let emulator = bundle.emulate.then(|| Emulator::new(bundle.spec, node, seed, now));
        Ok(NetLoop::new(transport, port, emulator))
    }
}

/// What the emulated links to the other sites hold, and a quarter more, as first congestion
/// windows: QUIC need not find out what the grid says.
fn windows(spec: &GridSpec, node: NodeId) -> BTreeMap<NodeId, u64> {
    let others = spec.layout().nodes().filter(|&other| spec.is_wide_area(node, other));
    let window = |other| {
        let link = spec.link(node, other);
        let seconds = 2.0 * link.latency.duration().as_secs_f64();
        let bytes = link.bandwidth.bits_per_second() as f64 / 8.0 * seconds * 1.25;
        (other, (bytes as u64).clamp(WINDOW_BOUNDS.0, WINDOW_BOUNDS.1))
    };
    others.map(window).collect()
}

/// The process's side: reads the bundle, opens the socket, says where, and reads the addresses.
pub fn join(from: &mut impl BufRead, to: &mut impl Write) -> Result<Joined, BootstrapError> {
    let bundle: NodeBundle = read_line(from, "the bundle")?;
    bundle.check()?;
    let port = UdpPort::bind(bundle.listen.unwrap_or((Ipv4Addr::LOCALHOST, 0).into()))?;
    writeln!(to, "{LISTENING}{}", port.local_address()?)?;
    to.flush()?;
    let Addresses(addresses) = read_line(from, "the addresses")?;
    if addresses.len() != bundle.spec.layout().node_count() as usize {
        return Err(BootstrapError::Inconsistent("there are not as many addresses as nodes"));
    }
    Ok(Joined { bundle, port, addresses })
}

/// Calls `on_end` from a thread of its own when the launcher is gone, and before that `on_leave`
/// when it writes [`LEAVE`]. What else the launcher still writes is ignored.
pub fn watch_launcher(
    mut from: impl Read + Send + 'static,
    mut on_leave: impl FnMut() + Send + 'static,
    on_end: impl FnOnce() + Send + 'static,
) -> io::Result<JoinHandle<()>> {
    std::thread::Builder::new().name("launcher-watch".to_owned()).spawn(move || {
        let (mut bytes, mut line) = ([0; 512], Vec::new());
        loop {
            match from.read(&mut bytes) {
                Ok(0) => break,
                Ok(read) => {
                    for &byte in &bytes[..read] {
                        if line.len() <= LEAVE.len() {
                            line.push(byte);
                        }
                        if byte == b'\n' && std::mem::take(&mut line) == LEAVE.as_bytes() {
                            on_leave();
                        }
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => break,
            }
        }
        on_end();
    })
}

fn to_line(value: &impl Serialize) -> Result<String, serde_json::Error> {
    let mut line = serde_json::to_string(value)?;
    line.push('\n');
    Ok(line)
}

fn read_line<T: DeserializeOwned>(
    from: &mut impl BufRead,
    what: &'static str,
) -> Result<T, BootstrapError> {
    let mut line = vec![];
    from.take(LINE_BYTES_MAX + 1).read_until(b'\n', &mut line)?;
    if line.len() as u64 > LINE_BYTES_MAX {
        return Err(BootstrapError::TooLong { what });
    }
    if line.last() != Some(&b'\n') {
        return Err(BootstrapError::Ended(what));
    }
    serde_json::from_slice(&line).map_err(|source| BootstrapError::Malformed { what, source })
}

#[cfg(test)]
mod tests {
    use super::*;
    use gridspan_topology::Layout;
    use std::io::Cursor;

    fn bundles() -> Vec<NodeBundle> {
        let layout = Layout::new(vec![("a".to_owned(), vec![1]), ("b".to_owned(), vec![1])]);
        let spec = GridSpec::from_layout(&layout).unwrap();
        issue(&Authority::new("start").unwrap(), &spec).unwrap()
    }

    #[test]
    fn a_node_joins_with_two_lines_in_and_one_out() {
        let bundle = bundles().remove(1);
        let addresses: Vec<SocketAddr> =
            vec![([127, 0, 0, 1], 4).into(), ([127, 0, 0, 1], 5).into()];
        let lines = bundle.to_line().unwrap() + &Addresses(addresses.clone()).to_line().unwrap();
        let mut said = vec![];
        let joined = join(&mut Cursor::new(lines), &mut said).unwrap();
        assert_eq!(joined.addresses, addresses);
        assert_eq!(joined.bundle, bundle);
        let said = String::from_utf8(said).unwrap();
        assert_eq!(listening_address(&said), joined.port.local_address().ok());
        assert_eq!(listening_address("gridspan listening 127.0.0.1:1"), None);
        assert!(joined.into_loop(TransportLimits::default()).is_ok());
    }

    #[test]
    fn a_node_without_a_launcher_does_not_start() {
        let mut nothing = Cursor::new(b"");
        assert!(matches!(
            join(&mut nothing, &mut vec![]),
            Err(BootstrapError::Ended("the bundle"))
        ));
        let mut nonsense = Cursor::new(b"{\"version\":1}\n");
        assert!(matches!(join(&mut nonsense, &mut vec![]), Err(BootstrapError::Malformed { .. })));
    }

    #[test]
    fn an_endless_line_is_refused() {
        let mut endless = io::BufReader::new(io::repeat(b'['));
        assert!(matches!(join(&mut endless, &mut vec![]), Err(BootstrapError::TooLong { .. })));
    }

    #[test]
    fn another_version_and_a_foreign_node_are_refused() {
        let mut bundle = bundles().remove(0);
        bundle.version = 2;
        let line = bundle.to_line().unwrap();
        assert!(matches!(
            join(&mut Cursor::new(line), &mut vec![]),
            Err(BootstrapError::Version(2))
        ));
        bundle.version = 1;
        bundle.identity.node = NodeId(2);
        let line = bundle.to_line().unwrap();
        let refused = join(&mut Cursor::new(line), &mut vec![]);
        assert!(matches!(refused, Err(BootstrapError::Inconsistent(_))));
    }

    #[test]
    fn keys_are_not_shown_and_nodes_differ() {
        let bundles = bundles();
        assert!(!format!("{:?}", bundles[0]).contains("PRIVATE"));
        assert_ne!(bundles[0].seed, bundles[1].seed);
        assert_ne!(bundles[0].identity.key, bundles[1].identity.key);
    }

    #[test]
    fn the_end_of_standard_input_is_noticed() {
        let (send, receive) = std::sync::mpsc::channel();
        watch_launcher(Cursor::new(b"whatever"), || (), move || send.send(()).unwrap()).unwrap();
        receive.recv_timeout(std::time::Duration::from_secs(10)).unwrap();
    }

    #[test]
    fn a_guest_is_told_to_leave_by_a_line_of_its_own() {
        let (send, receive) = std::sync::mpsc::channel();
        let (told, lines) = (send.clone(), Cursor::new(b"leaves\nleave\nnow leave\nleave"));
        watch_launcher(
            lines,
            move || told.send("leave").unwrap(),
            move || send.send("end").unwrap(),
        )
        .unwrap();
        assert_eq!(receive.iter().collect::<Vec<_>>(), ["leave", "end"]);
    }
}
