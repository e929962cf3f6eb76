//! Enrolment of nodes that have no private channel to their launcher.
//!
//! A launcher such as `srun` copies one standard input to all processes that it starts. All
//! processes can read each line, so no line contains a node's key.
//!
//! # Start
//!
//! 1. The launcher opens an [`EnrolmentListener`], and writes an [`EnrolmentToken`] to the common
//!    standard input: a one-time secret, and the digest of the certificate of the job's
//!    [`Authority`].
//! 2. A process connects by TLS 1.3. It accepts only a server whose certificate is issued by the
//!    authority with this digest, so that no other process of the network can pose as the launcher.
//! 3. It makes a [`NodeKey`](super::NodeKey), and sends the secret and the public half. The
//!    launcher compares the secret, and answers with a [certificate](Authority::certify).
//!
//! The launcher decides how often it accepts a secret. This protocol ends with the certificate;
//! both sides then use the connection for other data.
//!
//! # Failure
//!
//! The launcher disconnects a process that does not complete the handshake in time, or has another
//! secret. A process that reads the secret and connects first can take the place of a node. The
//! launcher then refuses the node, and must end the job: it cannot know which of the two processes
//! it has started.

use super::identity::{Authority, IdentityError, provider};
use super::secure_stream::SecureStream;
use ring::digest::{SHA256, digest};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{CertificateError, DigitallySignedStruct, RootCertStore, SignatureScheme};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Name in the certificate of the launcher. A node has another one.
const LAUNCHER_NAME: &str = "launcher.gridspan.invalid";
/// The beginning of the line with a token, with its version.
const TOKEN: &str = "gridspan-enrolment-1";
/// Name of the protocol.
const PROTOCOL: &[u8] = b"gridspan-enrolment/1";
const BYTES: usize = 32;

/// The secret by which the launcher recognises processes that it has started.
#[derive(Clone, Serialize, Deserialize)]
pub struct EnrolmentSecret([u8; BYTES]);

impl EnrolmentSecret {
    /// Makes a random secret.
    ///
    /// # Errors
    ///
    /// [`IdentityError`] if the system has no random bytes.
    pub fn new() -> Result<Self, IdentityError> {
        let mut bytes = [0; BYTES];
        let filled = provider().secure_random.fill(&mut bytes);
        filled.map_err(|_| rustls::Error::FailedToGetRandomBytes)?;
        Ok(Self(bytes))
    }

    /// Whether both are equal. It compares digests, so that its time does not reveal how many bytes
    /// are equal.
    pub fn is(&self, other: &Self) -> bool {
        digest(&SHA256, &self.0).as_ref() == digest(&SHA256, &other.0).as_ref()
    }
}

impl fmt::Debug for EnrolmentSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("EnrolmentSecret")
    }
}

/// What a process must know to enrol.
#[derive(Clone, Debug)]
pub struct EnrolmentToken {
    /// The one-time secret.
    pub secret: EnrolmentSecret,
    /// SHA-256 of the certificate of the job's authority.
    authority: [u8; BYTES],
}

impl EnrolmentToken {
    /// Makes a token with this secret for the nodes of a job.
    pub fn new(secret: EnrolmentSecret, authority: &Authority) -> Self {
        Self { secret, authority: digest_of(&authority.certificate()) }
    }

    /// Returns the token as the line of a common standard input.
    pub fn to_line(&self) -> String {
        format!("{TOKEN} {} {}\n", hex(&self.secret.0), hex(&self.authority))
    }

    /// Reads a line; `None` if it is not a token.
    pub fn from_line(line: &str) -> Option<Self> {
        let mut words = line.split_whitespace();
        if words.next() != Some(TOKEN) {
            return None;
        }
        let secret = EnrolmentSecret(from_hex(words.next()?)?);
        let authority = from_hex(words.next()?)?;
        words.next().is_none().then_some(Self { secret, authority })
    }

    /// Connects to the launcher at this address. Fails if another process answers, or none before
    /// `until`.
    pub fn connect(&self, address: SocketAddr, until: Instant) -> io::Result<SecureStream> {
        let config = self.client_config().map_err(io::Error::other)?;
        let name = ServerName::try_from(LAUNCHER_NAME).map_err(io::Error::other)?;
        let tls =
            rustls::ClientConnection::new(Arc::new(config), name).map_err(io::Error::other)?;
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        SecureStream::new(TcpStream::connect_timeout(&address, left)?, tls.into(), until)
    }

    fn client_config(&self) -> Result<rustls::ClientConfig, rustls::Error> {
        let verifier = AuthorityVerifier { authority: self.authority };
        let mut config = rustls::ClientConfig::builder_with_provider(provider())
            .with_protocol_versions(&[&rustls::version::TLS13])?
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(verifier))
            .with_no_client_auth();
        config.alpn_protocols = vec![PROTOCOL.to_vec()];
        config.resumption = rustls::client::Resumption::disabled();
        Ok(config)
    }
}

/// The port at which the launcher accepts the processes of its nodes.
pub struct EnrolmentListener {
    tcp: TcpListener,
    config: Arc<rustls::ServerConfig>,
}

impl EnrolmentListener {
    /// Opens a port on all interfaces, which the launcher secures with a certificate of the
    /// authority.
    ///
    /// # Errors
    ///
    /// [`EnrolmentError`] if the certificate cannot be made, or no port can be opened.
    pub fn bind(authority: &Authority) -> Result<Self, EnrolmentError> {
        let (certificate, key) = authority.issue_server(LAUNCHER_NAME)?;
        let chain = vec![certificate, authority.certificate()];
        let mut config = rustls::ServerConfig::builder_with_provider(provider())
            .with_protocol_versions(&[&rustls::version::TLS13])
            .and_then(|config| config.with_no_client_auth().with_single_cert(chain, key))
            .map_err(IdentityError::from)?;
        config.alpn_protocols = vec![PROTOCOL.to_vec()];
        config.send_tls13_tickets = 0;
        // Most systems also accept IPv4 at the unspecified address of IPv6.
        let tcp = TcpListener::bind((Ipv6Addr::UNSPECIFIED, 0))
            .or_else(|_| TcpListener::bind((Ipv4Addr::UNSPECIFIED, 0)))?;
        tcp.set_nonblocking(true)?;
        Ok(Self { tcp, config: Arc::new(config) })
    }

    /// Returns the port.
    ///
    /// # Errors
    ///
    /// If the system does not report it.
    pub fn port(&self) -> io::Result<u16> {
        Ok(self.tcp.local_addr()?.port())
    }

    /// Waits for the next connection for up to `patience`; `None` if there was none.
    ///
    /// # Errors
    ///
    /// If the system cannot wait for a connection, or accept it.
    pub fn accept(&self, patience: Duration) -> io::Result<Option<Unsecured>> {
        let timeout = Timespec {
            tv_sec: i64::try_from(patience.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: patience.subsec_nanos().into(),
        };
        match poll(&mut [PollFd::new(&self.tcp, PollFlags::IN)], Some(&timeout)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        match self.tcp.accept() {
            Ok((tcp, _)) => Ok(Some(Unsecured { tcp, config: self.config.clone() })),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
            Err(error) => Err(error),
        }
    }
}

/// A connection to a launcher, before the TLS handshake.
pub struct Unsecured {
    tcp: TcpStream,
    config: Arc<rustls::ServerConfig>,
}

impl Unsecured {
    /// Returns a handle that can end the connection while another thread secures it or reads from
    /// it.
    ///
    /// # Errors
    ///
    /// If the system has no room for another file descriptor.
    pub fn closer(&self) -> io::Result<EnrolmentCloser> {
        Ok(EnrolmentCloser(self.tcp.try_clone()?))
    }

    /// Completes the TLS handshake. Fails if it is not complete at `until`.
    pub fn secure(self, until: Instant) -> io::Result<SecureStream> {
        let tls = rustls::ServerConnection::new(self.config).map_err(io::Error::other)?;
        SecureStream::new(self.tcp, tls.into(), until)
    }
}

/// Ends a connection that another thread uses.
pub struct EnrolmentCloser(TcpStream);

impl EnrolmentCloser {
    /// Ends the connection in both directions. A thread that reads from it returns.
    pub fn close(&self) {
        // The other side may have ended it already.
        let _ = self.0.shutdown(Shutdown::Both);
    }
}

/// The launcher could not open a port for enrolments. It has started nothing.
#[derive(Debug, thiserror::Error)]
pub enum EnrolmentError {
    /// The certificate cannot be made.
    #[error(transparent)]
    Identity(#[from] IdentityError),
    /// The system refuses the port.
    #[error("cannot accept connections of nodes: {0}")]
    Io(#[from] io::Error),
}

/// Accepts a server whose certificate was issued by the authority with this digest.
#[derive(Debug)]
struct AuthorityVerifier {
    authority: [u8; BYTES],
}

impl ServerCertVerifier for AuthorityVerifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        let is_it = |certificate: &&CertificateDer<'_>| digest_of(certificate) == self.authority;
        let unknown = rustls::Error::InvalidCertificate(CertificateError::UnknownIssuer);
        let authority = intermediates.iter().find(is_it).ok_or(unknown)?;
        let mut roots = RootCertStore::empty();
        roots.add(authority.clone())?;
        let verifier = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider())
            .build()
            .map_err(|error| rustls::Error::General(error.to_string()))?;
        verifier.verify_server_cert(end_entity, &[], server_name, ocsp_response, now)
    }

    fn verify_tls12_signature(
        &self,
        _message: &[u8],
        _certificate: &CertificateDer<'_>,
        _signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Err(rustls::Error::General("only TLS 1.3 is used".to_owned()))
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let provider = provider();
        let known = &provider.signature_verification_algorithms;
        rustls::crypto::verify_tls13_signature(message, certificate, signature, known)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        provider().signature_verification_algorithms.supported_schemes()
    }
}

fn digest_of(certificate: &CertificateDer<'_>) -> [u8; BYTES] {
    let mut bytes = [0; BYTES];
    bytes.copy_from_slice(digest(&SHA256, certificate).as_ref());
    bytes
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn from_hex(text: &str) -> Option<[u8; BYTES]> {
    let mut bytes = [0; BYTES];
    let is_whole = text.len() == 2 * BYTES && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    if !is_whole {
        return None;
    }
    for (at, byte) in bytes.iter_mut().enumerate() {
        *byte = u8::from_str_radix(&text[2 * at..2 * at + 2], 16).ok()?;
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;
    use std::thread;

    fn soon() -> Instant {
        Instant::now() + Duration::from_secs(10)
    }

    fn token(authority: &Authority) -> EnrolmentToken {
        EnrolmentToken::new(EnrolmentSecret::new().unwrap(), authority)
    }

    /// Returns the address at which a listener is reached here.
    fn address(listener: &EnrolmentListener) -> SocketAddr {
        (Ipv4Addr::LOCALHOST, listener.port().unwrap()).into()
    }

    fn accepted(listener: &EnrolmentListener) -> io::Result<SecureStream> {
        listener.accept(Duration::from_secs(10))?.expect("a connection").secure(soon())
    }

    #[test]
    fn a_line_contains_the_whole_token_and_nothing_else_is_one() {
        let token = token(&Authority::new("heat").unwrap());
        let line = token.to_line();
        let read = EnrolmentToken::from_line(&line).unwrap();
        assert!(read.secret.is(&token.secret) && read.authority == token.authority);
        assert!(!read.secret.is(&EnrolmentSecret::new().unwrap()));
        assert!(line.len() < 200 && !line.contains("PRIVATE"));
        assert!(!format!("{token:?}").contains(&line[21..40]), "no secret is shown");
        let short = &line[..line.len() - 2];
        let long = line.replace('\n', " more\n");
        let other = line.replace("enrolment-1", "enrolment-2");
        let odd = line.replace(&line[21..23], "ü");
        for wrong in ["", "\n", short, &long, &other, &odd] {
            assert!(EnrolmentToken::from_line(wrong).is_none(), "{wrong:?}");
        }
    }

    #[test]
    fn both_sides_read_and_write_at_the_same_time() {
        let authority = Authority::new("heat").unwrap();
        let listener = EnrolmentListener::bind(&authority).unwrap();
        let (token, to) = (token(&authority), address(&listener));
        // More bytes than the buffers of the sockets and of TLS hold.
        let much = vec![7; 20 << 20];

        thread::scope(|scope| {
            let other = scope.spawn(|| {
                let stream = token.connect(to, soon()).unwrap();
                thread::scope(|scope| {
                    scope.spawn(|| stream.write_all(&much).unwrap());
                    let mut read = vec![0; much.len()];
                    stream.reader(None).read_exact(&mut read).unwrap();
                    assert!(read == much);
                });
                let rest = stream.reader(None).read(&mut [0]).unwrap_or(0);
                assert_eq!(rest, 0, "the other side has ended the connection");
            });
            let stream = accepted(&listener).unwrap();
            thread::scope(|scope| {
                scope.spawn(|| stream.write_all(&much).unwrap());
                let mut read = vec![0; much.len()];
                stream.reader(None).read_exact(&mut read).unwrap();
                assert!(read == much);
            });
            stream.shutdown();
            other.join().unwrap();
        });
    }

    #[test]
    fn a_launcher_of_another_authority_is_refused() {
        let [own, other] = ["heat", "heat"].map(|job| Authority::new(job).unwrap());
        let listener = EnrolmentListener::bind(&other).unwrap();
        let (token, to) = (token(&own), address(&listener));
        thread::scope(|scope| {
            let node = scope.spawn(|| token.connect(to, soon()));
            assert!(accepted(&listener).is_err());
            assert!(node.join().unwrap().is_err());
        });
    }

    #[test]
    fn silence_ends_a_handshake_and_a_read_in_time() {
        let authority = Authority::new("heat").unwrap();
        let listener = EnrolmentListener::bind(&authority).unwrap();
        let silent = TcpStream::connect(address(&listener)).unwrap();
        let pending = listener.accept(Duration::from_secs(10)).unwrap().unwrap();
        let begin = Instant::now();
        let refused = pending.secure(begin + Duration::from_millis(100)).err().unwrap();
        assert_eq!(refused.kind(), io::ErrorKind::TimedOut);
        assert!(begin.elapsed() < Duration::from_secs(5));
        drop(silent);

        let (token, to) = (token(&authority), address(&listener));
        thread::scope(|scope| {
            let node = scope.spawn(|| token.connect(to, soon()).unwrap());
            let stream = accepted(&listener).unwrap();
            let _node = node.join().unwrap();
            let until = Instant::now() + Duration::from_millis(100);
            let silence = stream.reader(Some(until)).read(&mut [0]).unwrap_err();
            assert_eq!(silence.kind(), io::ErrorKind::TimedOut);
        });
        assert!(listener.accept(Duration::ZERO).unwrap().is_none());
    }

    #[test]
    fn a_reader_is_freed_by_the_end_of_its_connection() {
        let authority = Authority::new("heat").unwrap();
        let listener = EnrolmentListener::bind(&authority).unwrap();
        let (token, to) = (token(&authority), address(&listener));
        let (stream, _node) = thread::scope(|scope| {
            let node = scope.spawn(|| token.connect(to, soon()).unwrap());
            (accepted(&listener).unwrap(), node.join().unwrap())
        });
        thread::scope(|scope| {
            let reader = scope.spawn(|| stream.reader(None).read(&mut [0]));
            thread::sleep(Duration::from_millis(50));
            stream.shutdown();
            assert_eq!(reader.join().unwrap().unwrap_or(0), 0);
        });
    }
}
