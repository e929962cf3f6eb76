//! quinn without a runtime above it: ping-pong over a pair of streams, and bulk over one.

use crate::nodes::{Cores, Second, end_with_input, listening, on_first_core};
use crate::suite::Sample;
use quinn::congestion::{BbrConfig, CubicConfig};
use quinn::{
    ClientConfig, Connection, Endpoint, EndpointConfig, MtuDiscoveryConfig, RecvStream,
    ServerConfig, TokioRuntime, TransportConfig, VarInt,
};
use rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer};
use std::future::Future;
use std::io::{self, BufRead};
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The role of the process that answers.
pub(crate) const ROLE: &str = "bare-quinn";

const SMALL_BYTES: usize = 64;
/// Size of one write of a bulk transfer.
const BULK_BYTES: usize = 1 << 20;
/// Idle timeout of a connection.
const PATIENCE: Duration = Duration::from_secs(60);

/// The configuration of quinn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tuning {
    /// The defaults of quinn.
    Default,
    /// Large windows and socket buffers, packets of 6,500 bytes and segmentation offload: as
    /// Gridspan does within a machine.
    Machine,
    /// [`Machine`](Self::Machine) with packets of 65,000 bytes, which need segmentation offload to
    /// be off.
    Jumbo,
    /// Large windows and socket buffers, Cubic, and packet sizes for the internet.
    WideArea,
    /// [`WideArea`](Self::WideArea) with BBR, which does not reduce its rate for single losses.
    WideAreaBbr,
}

impl Tuning {
    const ALL: [Self; 5] =
        [Self::Default, Self::Machine, Self::Jumbo, Self::WideArea, Self::WideAreaBbr];

    fn transport(self) -> Arc<TransportConfig> {
        let mut config = TransportConfig::default();
        config.max_idle_timeout(PATIENCE.try_into().ok());
        if self == Self::Default {
            return Arc::new(config);
        }
        let window = VarInt::from_u32(64 << 20);
        config.stream_receive_window(window).receive_window(window).send_window(16 << 20);
        let mut cubic = CubicConfig::default();
        let mut discovery = MtuDiscoveryConfig::default();
        match self {
            Self::Machine => {
                discovery.upper_bound(6_500);
                cubic.initial_window(4 << 20);
            }
            Self::Jumbo => {
                config.initial_mtu(65_000).enable_segmentation_offload(false);
                discovery.upper_bound(65_000);
                cubic.initial_window(4 << 20);
            }
            Self::Default | Self::WideArea | Self::WideAreaBbr => {}
        }
        config.mtu_discovery_config(Some(discovery));
        match self {
            Self::WideAreaBbr => {
                config.congestion_controller_factory(Arc::new(BbrConfig::default()))
            }
            _ => config.congestion_controller_factory(Arc::new(cubic)),
        };
        Arc::new(config)
    }

    fn socket(self) -> UdpSocket {
        let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port is free");
        if self != Self::Default {
            let bytes = 4 << 20;
            rustix::net::sockopt::set_socket_recv_buffer_size(&socket, bytes).expect("it may grow");
            rustix::net::sockopt::set_socket_send_buffer_size(&socket, bytes).expect("it may grow");
        }
        socket
    }

    fn endpoint(self, server: Option<ServerConfig>) -> Endpoint {
        let mut config = EndpointConfig::default();
        config.max_udp_payload_size(65_527).expect("no more than UDP can hold");
        Endpoint::new(config, server, self.socket(), Arc::new(TokioRuntime))
            .expect("the endpoint starts")
    }
}

fn block_on<T>(work: impl Future<Output = T>) -> T {
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    runtime.enable_all().build().expect("the runtime starts").block_on(work)
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn unhex(text: &str) -> Vec<u8> {
    let digits = text.as_bytes().chunks(2).filter_map(|pair| std::str::from_utf8(pair).ok());
    digits.filter_map(|pair| u8::from_str_radix(pair, 16).ok()).collect()
}

/// Answers one connection on one stream: echoes each message of `SMALL_BYTES`, and sends one byte
/// at the end of each incoming stream.
pub(crate) fn serve() {
    let mut line = String::new();
    io::stdin().lock().read_line(&mut line).expect("the first process sends a line");
    let mut words = line.split_whitespace();
    let mut word = || words.next().expect("tuning, certificate and key");
    let name = word();
    let tuning = Tuning::ALL.into_iter().find(|tuning| format!("{tuning:?}") == name);
    let tuning = tuning.expect("both processes are of one build");
    let certificate = CertificateDer::from(unhex(word()));
    let key = PrivatePkcs8KeyDer::from(unhex(word()));
    let mut config = ServerConfig::with_single_cert(vec![certificate], key.into())
        .expect("certificate and key belong together");
    config.transport_config(tuning.transport());
    block_on(async move {
        let endpoint = tuning.endpoint(Some(config));
        listening(endpoint.local_addr().expect("the socket has an address"));
        end_with_input();
        let incoming = endpoint.accept().await.expect("the endpoint is open");
        let connection = incoming.await.expect("the first process connects");
        answer(&connection).await;
        connection.closed().await;
    });
}

async fn answer(connection: &Connection) {
    let mut send = connection.open_uni().await.expect("a stream opens");
    let mut small = [0; SMALL_BYTES];
    while let Ok(mut receive) = connection.accept_uni().await {
        let mut is_bulk = false;
        while let Ok(Some(chunk)) = receive.read_chunk(BULK_BYTES, true).await {
            // A small message arrives whole, since it fits a packet; any longer chunk is bulk.
            is_bulk |= chunk.bytes.len() != SMALL_BYTES;
            if !is_bulk {
                small.copy_from_slice(&chunk.bytes);
                if send.write_all(&small).await.is_err() {
                    return;
                }
            }
        }
        if send.write_all(b"x").await.is_err() {
            return;
        }
    }
}

/// Runs `measure` on a connection to a second process. `relay` may put a relay in between, and then
/// returns the address of the relay.
fn with_connection<T, F: Future<Output = T>>(
    tuning: Tuning,
    cores: Cores,
    relay: impl FnOnce(SocketAddr) -> SocketAddr,
    measure: impl FnOnce(Connection) -> F,
) -> T {
    on_first_core(|| {
        let own = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()])
            .expect("a certificate is made");
        let certificate = own.cert.der().clone();
        let mut second = Second::start(ROLE, cores);
        let key = own.signing_key.serialize_der();
        second.say(&format!("{tuning:?} {} {}\n", hex(&certificate), hex(&key)));
        let address = relay(second.address());
        let mut roots = rustls::RootCertStore::empty();
        roots.add(certificate).expect("the certificate is well formed");
        let mut config = ClientConfig::with_root_certificates(Arc::new(roots))
            .expect("the certificate can be used");
        config.transport_config(tuning.transport());
        block_on(async move {
            let endpoint = tuning.endpoint(None);
            let connecting = endpoint.connect_with(config, address, "localhost");
            let connection = connecting.expect("the address is valid").await;
            let connection = connection.expect("the second process answers");
            let result = measure(connection.clone()).await;
            connection.close(0u32.into(), b"");
            endpoint.wait_idle().await;
            result
        })
    })
}

/// Sends 64 bytes there and back `round_trips` times.
pub(crate) fn ping_pong(round_trips: u64, cores: Cores) -> Sample {
    with_connection(
        Tuning::Default,
        cores,
        |address| address,
        async |connection: Connection| {
            let mut send = connection.open_uni().await.expect("a stream opens");
            let mut small = [1; SMALL_BYTES];
            send.write_all(&small).await.expect("the second process reads");
            let mut receive = connection.accept_uni().await.expect("the answer comes");
            receive.read_exact(&mut small).await.expect("the answer is as long");
            let mut begin = Instant::now();
            let warm_up = round_trips / 10;
            for trip in 0..warm_up + round_trips {
                if trip == warm_up {
                    begin = Instant::now();
                }
                send.write_all(&small).await.expect("the second process reads");
                receive.read_exact(&mut small).await.expect("the answer is as long");
            }
            Sample { elapsed: begin.elapsed(), operations: round_trips }
        },
    )
}

/// Sends `warm_up` MiB, then measures the time to send `mebibytes` MiB one way until all of it has
/// been read.
pub(crate) fn bulk(
    (warm_up, mebibytes): (u64, u64),
    tuning: Tuning,
    cores: Cores,
    relay: impl FnOnce(SocketAddr) -> SocketAddr,
) -> Sample {
    with_connection(tuning, cores, relay, async |connection: Connection| {
        // MTU discovery needs this time to find the largest packet.
        tokio::time::sleep(Duration::from_millis(200)).await;
        let mut receive = None;
        if warm_up > 0 {
            send_bulk(&connection, warm_up, &mut receive).await;
        }
        let begin = Instant::now();
        send_bulk(&connection, mebibytes, &mut receive).await;
        Sample { elapsed: begin.elapsed(), operations: mebibytes }
    })
}

/// Sends `mebibytes` MiB on a stream. `receive` is the stream of the answers, once it exists.
async fn send_bulk(connection: &Connection, mebibytes: u64, receive: &mut Option<RecvStream>) {
    let mut send = connection.open_uni().await.expect("a stream opens");
    let chunk = vec![7; BULK_BYTES];
    for _ in 0..mebibytes {
        send.write_all(&chunk).await.expect("the second process reads");
    }
    send.finish().expect("the stream is open");
    let answers = match receive {
        Some(answers) => answers,
        None => receive.insert(connection.accept_uni().await.expect("the answer comes")),
    };
    answers.read_exact(&mut [0]).await.expect("the answer is one byte");
}
