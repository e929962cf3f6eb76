//! Start of a node process, which receives its identity and the addresses of the other nodes over a
//! pipe from its launcher, and answers on its standard output.
//!
//! # Start
//!
//! 1. The launcher writes one line to a pipe that the process reads: its [`NodeBundle`] in JSON.
//! 2. The process opens its socket and prints one line: [`LISTENING`] and the address.
//! 3. When all processes have printed it, the launcher writes one more line: the [`Addresses`] of
//!    all nodes.
//!
//! Keys travel over that pipe only: other users can read the arguments and the environment of a
//! process, and a program that is not a job may print its standard input. A node that has no such
//! pipe, because it is started through `ssh`, uses standard input.
//!
//! # Steady state
//!
//! The pipe stays open and silent, except for these lines of the launcher:
//!
//! - [`LEAVE`]: a guest, which is a node that has joined the running job, leaves the job. A founder
//!   that has stopped ends.
//! - [`RECOVER`]: a node stops its run.
//! - A [`PauseOrder`]: the node of main stops the job after a checkpoint.
//! - A [`LossNotice`]: the process of another node has ended.
//! - A [`SampleOrder`]: the node of main answers with the latest sample of the job's counters.
//! - A [`diagnose_line`]: all nodes together find out what the job waits for.
//! - A line that begins with [`INPUT`] brings standard input to a node that cannot inherit it.
//!
//! The launcher of a guest is `gridctl join`, which knows the addresses already and sends the lines
//! of steps 1 and 3 at once. The launcher passes on the output of the program unchanged; only the
//! line of step 2 begins with a character that programs do not print.
//!
//! # Failure
//!
//! The end of the pipe means that the launcher has ended, and the process must end
//! ([`watch_launcher`]). A line that is too long, malformed or missing ends the process with an
//! error before it has connected to another node.

use super::config::{TransportConfig, TransportLimits};
use super::emulator::Emulator;
use super::identity::{Authority, Identity, IdentityError};
use super::net_loop::NetLoop;
use super::transport::Transport;
use super::udp::{PortError, UdpPort};
use crate::message::{EncodedManifest, RestorePlan};
use crate::session::{DetectorSettings, crowding_factor};
use gridspan_topology::{GridSpec, NodeId};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::io::{self, BufRead, Read, Write};
use std::net::{Ipv4Addr, SocketAddr};
use std::time::{Duration, Instant};
use thiserror::Error;

mod requests;

pub use requests::{
    CANCEL, INPUT, LEAVE, LauncherLines, LauncherRequest, Lines, LossNotice, PauseOrder, RECOVER,
    SampleOrder, diagnose_line, watch_launcher,
};
use requests::{LINE_BYTES_MAX, to_line};

/// Prefix of the line in which a process states where it listens.
pub const LISTENING: &str = "\u{1e}gridspan listening ";

/// The version of the bundle; launcher and node must agree.
const BUNDLE_VERSION: u32 = 1;
/// Bounds of a first congestion window in bytes: a few packets, and a size at which the initial
/// bursts of a node to all others at once are acceptable.
const WINDOW_BOUNDS: (u64, u64) = (32 << 10, 4 << 20);

/// A node could not join its job.
#[derive(Debug, Error)]
pub enum BootstrapError {
    /// The pipe or standard output failed.
    #[error("cannot talk to the launcher: {0}")]
    Io(#[from] io::Error),
    /// The pipe ended.
    #[error("the launcher ended before it sent {0}: start the node through the launcher")]
    Ended(&'static str),
    /// A line is longer than any line of a launcher.
    #[error("{what} is longer than {LINE_BYTES_MAX} bytes: start the node through the launcher")]
    TooLong {
        /// Which line.
        what: &'static str,
    },
    /// A line cannot be parsed.
    #[error("{what} is malformed ({source}): use launcher and node of one build")]
    Malformed {
        /// Which line.
        what: &'static str,
        /// The error of the parser.
        source: serde_json::Error,
    },
    /// Launcher and node have different versions.
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
    /// The launcher begins the recovery again.
    #[error("another node was lost while the job recovered")]
    Again,
    /// The job goes on without this node.
    #[error("the job goes on without this node")]
    Left,
    /// The certificate cannot be used.
    #[error(transparent)]
    Identity(#[from] IdentityError),
}

/// All data that a node needs to take part. Contains its private key, which `Debug` omits.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct NodeBundle {
    version: u32,
    /// Identity of the node in its job.
    pub identity: Identity,
    /// The job's sites, hosts and links.
    pub spec: GridSpec,
    /// Seed of all randomness in the transport except cryptography.
    pub seed: [u8; 32],
    /// Whether links between sites, and slower processors, are emulated.
    pub emulate: bool,
    /// Address on which to receive packets; by default a free port of the loopback interface.
    pub listen: Option<SocketAddr>,
    /// Number of PEs with which the node joins, if it is a guest of a running job.
    #[serde(default)]
    pub guest: Option<u32>,
    /// Largest number of nodes that share a core of any machine; 0 if unknown.
    #[serde(default)]
    pub nodes_per_core: u32,
    /// A random number for the run of the job, equal on all nodes.
    #[serde(default)]
    pub run: u64,
    /// The checkpoint from which the job continues after a loss.
    #[serde(default)]
    pub restore: Option<RestoreOrder>,
    /// Settings of the launcher for the layers above; opaque here.
    #[serde(default)]
    pub settings: serde_json::Value,
}

/// The order to continue from a checkpoint whose parts the nodes have in memory, or can read from
/// the place where the job stores its checkpoints.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RestoreOrder {
    /// The manifest of the checkpoint.
    pub manifest: EncodedManifest,
    /// The PEs that read the parts, and where the members continue.
    pub plan: RestorePlan,
    /// Whether nodes first read parts from the place where the job stores its checkpoints. They
    /// answer no other node meanwhile.
    #[serde(default)]
    pub reads_stored: bool,
}

/// Addresses on which the nodes receive packets, by node number.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Addresses(pub Vec<SocketAddr>);

impl NodeBundle {
    /// Issues a bundle for one incarnation of `node`, with a fresh certificate and seed.
    ///
    /// # Errors
    ///
    /// [`IdentityError`] if the certificate or the seed cannot be made.
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
            run: 0,
            restore: None,
            settings: serde_json::Value::Null,
        })
    }

    /// Returns the bundle as the line that the launcher writes.
    ///
    /// # Errors
    ///
    /// If the bundle cannot be encoded as JSON.
    pub fn to_line(&self) -> Result<String, serde_json::Error> {
        to_line(self)
    }

    fn check(&self) -> Result<(), BootstrapError> {
        if self.version != BUNDLE_VERSION {
            return Err(BootstrapError::Version(self.version));
        }
        match (self.spec.layout().is_guest(self.identity.node), self.guest.is_some()) {
            (true, false) => Err(BootstrapError::Inconsistent("its node is not in its grid")),
            (false, true) => {
                Err(BootstrapError::Inconsistent("it is for a guest, but its node is in its grid"))
            }
            _ => Ok(()),
        }
    }
}

impl Addresses {
    /// Returns the addresses as the line that the launcher writes.
    ///
    /// # Errors
    ///
    /// If the addresses cannot be encoded as JSON.
    pub fn to_line(&self) -> Result<String, serde_json::Error> {
        to_line(self)
    }
}

/// Issues one bundle for each node of `spec`, all in their first incarnation.
///
/// # Errors
///
/// Those of [`NodeBundle::issue`].
pub fn issue(authority: &Authority, spec: &GridSpec) -> Result<Vec<NodeBundle>, IdentityError> {
    let issue = |node| NodeBundle::issue(authority, spec, node, 1);
    let mut bundles: Vec<_> = spec.layout().nodes().map(issue).collect::<Result<_, _>>()?;
    // The seeds are random and differ; the first one gives the number of the run.
    let seed = bundles.first().map(|bundle| bundle.seed).unwrap_or_default();
    let run = seed
        .chunks(8)
        .fold(0, |run, part| run ^ u64::from_le_bytes(part.try_into().unwrap_or_default()));
    bundles.iter_mut().for_each(|bundle| bundle.run = run);
    Ok(bundles)
}

/// Returns the address in the line in which a process states where it listens, and `None` for any
/// other line. If the process listens on all its interfaces, the launcher must replace the address
/// by one that the other nodes can reach.
pub fn listening_address(line: &str) -> Option<SocketAddr> {
    line.trim_end().strip_prefix(LISTENING)?.parse().ok()
}

/// A node that has its identity and the addresses of the other nodes.
pub struct Joined {
    /// The bundle from the launcher.
    pub bundle: NodeBundle,
    /// The node's socket.
    pub port: UdpPort,
    /// Addresses on which the nodes receive packets, by node number.
    pub addresses: Vec<SocketAddr>,
}

impl Joined {
    /// Returns the node's transport with its socket, and the emulated links if the bundle requests
    /// them. `lost_after` is the silence after which a node is lost, unless the grid sets another
    /// one for the link from it; by default 3 s, more on crowded machines.
    ///
    /// # Errors
    ///
    /// Those of [`Transport::new`].
    pub fn into_loop(
        self,
        limits: TransportLimits,
        lost_after: Option<Duration>,
    ) -> Result<NetLoop, IdentityError> {
        let now = Instant::now();
        let Self { bundle, port, addresses } = self;
        let node = bundle.identity.node;
        let layout = bundle.spec.layout().clone();
        let mut config = TransportConfig::new(layout, bundle.identity, bundle.seed);
        config.limits = limits;
        config.emulated = bundle.emulate;
        config.detector = DetectorSettings::crowded(bundle.nodes_per_core);
        if let Some(silence) = lost_after {
            config.detector = config.detector.with_lost_after(silence);
        }
        config.lost_after = lost_after_of_links(&bundle.spec, node);
        config.limits.connect_patience *= crowding_factor(bundle.nodes_per_core);
        let longest = config.lost_after.values().copied().chain([config.detector.lost_after]).max();
        config.limits.connect_patience =
            config.limits.connect_patience.max(longest.unwrap_or_default());
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

/// Returns the silences after which `node` declares others lost, where the grid sets one for the
/// link from them. Guests use the setting of the job.
fn lost_after_of_links(spec: &GridSpec, node: NodeId) -> BTreeMap<NodeId, Duration> {
    let layout = spec.layout();
    let is_founder = !layout.is_guest(node);
    let others = layout.nodes().filter(|&other| other != node && is_founder);
    let silence_of = |other| Some((other, spec.link(other, node).lost_after?));
    others.filter_map(silence_of).collect()
}

/// Returns first congestion windows in bytes for the nodes of other sites, 1.25 times the
/// bandwidth-delay product of the emulated link, or of the uplink of a site if that is slower: QUIC
/// need not discover values that the grid file gives.
fn windows(spec: &GridSpec, node: NodeId) -> BTreeMap<NodeId, u64> {
    let others = spec.layout().nodes().filter(|&other| spec.is_wide_area(node, other));
    let window = |other| {
        let link = spec.link(node, other);
        let seconds = 2.0 * link.latency.duration().as_secs_f64();
        let bytes = spec.bandwidth(node, other).bits_per_second() as f64 / 8.0 * seconds * 1.25;
        (other, (bytes as u64).clamp(WINDOW_BOUNDS.0, WINDOW_BOUNDS.1))
    };
    others.map(window).collect()
}

/// Runs the node's side of the start: reads the bundle, opens the socket, prints its address, and
/// reads the addresses of all nodes.
///
/// # Errors
///
/// [`BootstrapError`] if the launcher ends first or sends an invalid line, or the socket cannot be
/// opened; [`BootstrapError::Again`] or [`BootstrapError::Left`] if the launcher sends that order
/// in place of a line.
pub fn join(from: &mut impl BufRead, to: &mut impl Write) -> Result<Joined, BootstrapError> {
    let bundle: NodeBundle = read_line(from, "the bundle")?;
    bundle.check()?;
    let port = UdpPort::bind(bundle.listen.unwrap_or((Ipv4Addr::LOCALHOST, 0).into()))?;
    // One write, so that output of the program does not come between.
    to.write_all(format!("{LISTENING}{}\n", port.local_address()?).as_bytes())?;
    to.flush()?;
    let Addresses(addresses) = read_line(from, "the addresses")?;
    if addresses.len() != bundle.spec.layout().node_count() as usize {
        return Err(BootstrapError::Inconsistent("there are not as many addresses as nodes"));
    }
    Ok(Joined { bundle, port, addresses })
}

fn read_line<T: DeserializeOwned>(
    from: &mut impl BufRead,
    what: &'static str,
) -> Result<T, BootstrapError> {
    let mut line = vec![];
    from.take(LINE_BYTES_MAX + 1).read_until(b'\n', &mut line)?;
    if line == RECOVER.as_bytes() {
        return Err(BootstrapError::Again);
    }
    if line == LEAVE.as_bytes() {
        return Err(BootstrapError::Left);
    }
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
    use crate::message::telemetry::TelemetryLease;
    use gridspan_topology::Layout;
    use std::io::Cursor;

    fn bundles() -> Vec<NodeBundle> {
        let layout = Layout::new(vec![("a".to_owned(), vec![1]), ("b".to_owned(), vec![1])]);
        let spec = GridSpec::from_layout(&layout).unwrap();
        issue(&Authority::new("start").unwrap(), &spec).unwrap()
    }

    #[test]
    fn a_node_reads_two_lines_and_writes_one_to_join() {
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
        assert!(joined.into_loop(TransportLimits::default(), None).is_ok());
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
    fn a_bundle_of_another_version_or_a_foreign_node_is_refused() {
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
        let Err(BootstrapError::Inconsistent(foreign)) = refused else { panic!("it joined") };
        bundle.identity.node = NodeId(1);
        bundle.guest = Some(1);
        let line = bundle.to_line().unwrap();
        let refused = join(&mut Cursor::new(line), &mut vec![]);
        let Err(BootstrapError::Inconsistent(no_guest)) = refused else { panic!("it joined") };
        assert_eq!(foreign, "its node is not in its grid");
        assert!(no_guest.contains("guest"), "{no_guest}");
    }

    #[test]
    fn debug_output_omits_keys_and_nodes_have_different_keys_and_seeds() {
        let bundles = bundles();
        assert!(!format!("{:?}", bundles[0]).contains("PRIVATE"));
        assert_ne!(bundles[0].seed, bundles[1].seed);
        assert_ne!(bundles[0].identity.key, bundles[1].identity.key);
    }

    #[test]
    fn a_node_joins_again_after_a_recovery() {
        let bundle = bundles().remove(0);
        let address: SocketAddr = ([127, 0, 0, 1], 4).into();
        let line = bundle.to_line().unwrap();
        let addresses = Addresses(vec![address, address]).to_line().unwrap();
        let lines = format!("{RECOVER}{line}{RECOVER}{line}{addresses}");
        let (send, receive) = std::sync::mpsc::channel();
        let told = move |request| send.send(request).unwrap();
        let mut lines = watch_launcher(Cursor::new(lines), told, || ()).unwrap();
        let mut join = || join(&mut lines, &mut vec![]);

        // Before the bundle, and before the addresses.
        assert!(matches!(join(), Err(BootstrapError::Again)));
        assert!(matches!(join(), Err(BootstrapError::Again)));
        assert_eq!(join().unwrap().bundle, bundle);
        assert_eq!(
            receive.iter().collect::<Vec<_>>(),
            [LauncherRequest::Recover, LauncherRequest::Recover]
        );
        assert!(matches!(join(), Err(BootstrapError::Ended("the bundle"))));
    }

    #[test]
    fn standard_input_is_handled_before_the_bundle_that_follows() {
        let line = bundles().remove(0).to_line().unwrap();
        let lines = format!("{INPUT}begin 1\n{line}{INPUT}part eA==\n");
        let (send, receive) = std::sync::mpsc::channel();
        let told = move |request| send.send(request).unwrap();
        let mut lines = watch_launcher(Cursor::new(lines), told, || ()).unwrap();
        let _: NodeBundle = read_line(&mut lines, "the bundle").unwrap();
        let input = |text: &str| LauncherRequest::Input(text.to_owned());
        assert_eq!(receive.try_recv(), Ok(input("begin 1")), "it was handled by then");
        assert_eq!(receive.recv(), Ok(input("part eA==")));
    }

    #[test]
    fn standard_input_requests_nothing() {
        // Base64 has the letters of all requests.
        let texts = ["part AAAArecover", "recover", "part leave", "part pause"];
        let lines: String = texts.iter().map(|text| format!("{INPUT}{text}\n")).collect();
        let (send, receive) = std::sync::mpsc::channel();
        let told = move |request| send.send(request).unwrap();
        drop(watch_launcher(Cursor::new(lines), told, || ()).unwrap());
        let inputs = texts.map(|text| LauncherRequest::Input(text.to_owned()));
        assert_eq!(receive.iter().collect::<Vec<_>>(), inputs);
    }

    #[test]
    fn the_cancelled_beginning_of_a_line_is_ignored() {
        let bundle = bundles().remove(0);
        let line = bundle.to_line().unwrap();
        let lines = format!("{}\u{18}{LEAVE}{}\u{18}{}\u{18}{line}", &line[..9], &line[..5], "{");
        let (send, receive) = std::sync::mpsc::channel();
        let told = move |request| send.send(request).unwrap();
        let mut lines = watch_launcher(Cursor::new(lines), told, || ()).unwrap();
        assert!(matches!(join(&mut lines, &mut vec![]), Err(BootstrapError::Left)));
        let read: NodeBundle = read_line(&mut lines, "the bundle").unwrap();
        assert_eq!(read, bundle);
        assert_eq!(receive.iter().collect::<Vec<_>>(), [LauncherRequest::Leave]);
    }

    /// The requests that are reported if a line comes while a node joins.
    fn requests_of(line: &str) -> Vec<LauncherRequest> {
        let address: SocketAddr = ([127, 0, 0, 1], 4).into();
        let addresses = Addresses(vec![address, address]).to_line().unwrap();
        let lines = format!("{}{line}{addresses}", bundles().remove(0).to_line().unwrap());
        let (send, receive) = std::sync::mpsc::channel();
        let told = move |request| send.send(request).unwrap();
        let mut lines = watch_launcher(Cursor::new(lines), told, || ()).unwrap();
        assert_eq!(join(&mut lines, &mut vec![]).unwrap().addresses, [address, address]);
        receive.iter().collect()
    }

    #[test]
    fn requests_during_the_start_are_reported_and_not_read_by_join() {
        let pause = PauseOrder { number: 7, leaving: vec![NodeId(3)], is_end: false };
        let lease = TelemetryLease { period_ms: 500, focus: Some(NodeId(2)) };
        let sample = SampleOrder { number: 9, lease };

        assert_eq!(requests_of(&diagnose_line(3)), [LauncherRequest::Diagnose(3)]);
        assert_eq!(requests_of(&sample.to_line().unwrap()), [LauncherRequest::Sample(sample)]);
        assert_eq!(requests_of(&pause.to_line().unwrap()), [LauncherRequest::Pause(pause)]);
    }
}
