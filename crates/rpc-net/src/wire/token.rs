//! Tokens: the address of a registry, and the certificates that admit callers.

use crate::wire::requests::OPEN_FIRST;
use gridspan_runtime::NodeId;
use gridspan_runtime::net::{Authority, Identity, IdentityError};
use quinn::{ClientConfig, ConnectionError, ServerConfig, TransportConfig, VarInt};
use serde::{Deserialize, Serialize};
use std::ffi::OsString;
use std::fs;
use std::io::{self, Read, Write};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use thiserror::Error;

/// Version of the file. Files of other versions are not used.
const VERSION: u32 = 1;
/// Largest size of a file in bytes: many times that of its certificates.
const FILE_BYTES_MAX: u64 = 1 << 20;
/// Time after which a silent side is considered lost, though not before three probe timeouts have
/// passed (RFC 9000, section 10.1).
const SILENCE: Duration = Duration::from_millis(1500);
/// Interval at which each side sends something: three times within [`SILENCE`], because packets may
/// be lost.
const KEEP_ALIVE: Duration = Duration::from_millis(400);
/// The sum is the longest time until a killed server is considered lost: the first packet that a
/// side sends after the last one received, at most [`KEEP_ALIVE`] later, restarts the timer.
const _: () = assert!(SILENCE.as_millis() + KEEP_ALIVE.as_millis() <= 2000);
/// Largest number of bytes of one connection that have arrived and are not read yet: enough for
/// several streams.
const UNREAD_BYTES_MAX: u32 = 32 << 20;
/// Largest number of bytes of one stream that have arrived and are not read yet: what a gigabit
/// link carries in a round trip of 100 ms.
const UNREAD_STREAM_BYTES_MAX: u32 = 12 << 20;
/// Largest number of handshakes that have arrived and are not accepted yet.
const INCOMING_MAX: usize = 1024;
/// Largest number of bytes of early packets that are kept for one such handshake.
const INCOMING_BYTES: u64 = 16 << 10;
/// Largest number of bytes of early packets that are kept for all of them.
const INCOMING_BYTES_TOTAL: u64 = 1 << 20;
/// Error codes of QUIC for TLS alerts (RFC 9001, section 4.8), such as those that refuse a
/// certificate.
const TLS_CODES: std::ops::Range<u64> = 0x100..0x200;

/// Reason why a registry cannot be opened or reached.
#[derive(Debug, Error)]
pub enum RemoteError {
    /// A token cannot be read or written.
    #[error("cannot use the token {path}: {error}")]
    Token {
        /// Its path.
        path: PathBuf,
        /// The reason.
        error: io::Error,
    },
    /// Certificates cannot be made or used.
    #[error("cannot use the token's certificates: {0}")]
    Identity(#[from] IdentityError),
    /// The registry, a server or a client has no socket, threads or random numbers.
    #[error("cannot use the network: {0}; if the address is in use, choose another")]
    Listen(io::Error),
    /// The servers of the registry have failed.
    #[error("the servers have failed: {0}")]
    Servers(String),
    /// The registry does not answer.
    #[error("nothing answers at {address}: {reason}; is its daemon still running?")]
    Away {
        /// Address of the registry in the token.
        address: SocketAddr,
        /// The observed error.
        reason: String,
    },
    /// The process at the address does not accept the token, or is not the one that the token
    /// names.
    #[error(
        "the token is stale: the process at {address} is not the daemon that wrote it, or has written another since \
         ({reason}); use its current token"
    )]
    Stale {
        /// Address of the registry in the token.
        address: SocketAddr,
        /// The observed error.
        reason: String,
    },
    /// The registry has no address at which others can reach it.
    #[error(
        "others cannot find a registry at {0}; with --advertise, give the address at which they reach this machine, or \
         listen there"
    )]
    Nowhere(SocketAddr),
    /// A daemon would open at another address than the earlier one with the same token, where
    /// servers and clients look for it.
    #[error(
        "the daemon with the token {} was at {address}, where its servers and clients look for it; leave out --listen \
         and --advertise, or write another token",
        .path.display()
    )]
    Elsewhere {
        /// The path of the token.
        path: PathBuf,
        /// The address at which the earlier daemon listened, or that its token states.
        address: SocketAddr,
    },
    /// The registry does not let a server join.
    #[error("the daemon does not let the server join: {0}")]
    Unwelcome(String),
    /// The requests exceed the bytes that may wait.
    #[error("the requests exceed what the daemon may keep at once; ask again later, or for less")]
    TooMuch,
    /// A message cannot be understood.
    #[error("the other side of the connection sent a message that cannot be understood: {0}")]
    Malformed(String),
}

impl RemoteError {
    /// Returns the error for a connection that has ended.
    pub(crate) fn away(address: SocketAddr, error: &ConnectionError) -> Self {
        let code = match error {
            ConnectionError::TransportError(error) => u64::from(error.code),
            ConnectionError::ConnectionClosed(close) => u64::from(close.error_code),
            _ => 0,
        };
        let reason = error.to_string();
        match TLS_CODES.contains(&code) {
            true => Self::Stale { address, reason },
            false => Self::Away { address, reason },
        }
    }
}

/// The address of a registry, and the certificate of its callers. It contains a private key.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Token {
    version: u32,
    /// Address of the registry.
    pub address: SocketAddr,
    identity: Identity,
}

/// The daemon's own key.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Key {
    version: u32,
    address: SocketAddr,
    identity: Identity,
}

impl Token {
    /// Creates a token and the daemon's key for it, for a registry at an address.
    pub(crate) fn new(address: SocketAddr) -> Result<(Self, Key), RemoteError> {
        let authority = Authority::new("registry")?;
        let [own, callers] = [0, 1].map(|node| authority.issue(NodeId(node), 1));
        let key = Key { version: VERSION, address, identity: own? };
        Ok((Self { version: VERSION, address, identity: callers? }, key))
    }

    /// Replaces the address of the registry.
    pub(crate) fn at(self, address: SocketAddr) -> Self {
        Self { address, ..self }
    }

    /// Reads a token from its file.
    ///
    /// # Errors
    ///
    /// [`RemoteError::Token`] if the file cannot be read, or is not a token of this version.
    pub fn read(path: &Path) -> Result<Self, RemoteError> {
        let token: Self = read(path)?;
        match token.version == VERSION {
            true => Ok(token),
            false => Err(of_token(path)(io::Error::other("it is of another version of gridspan"))),
        }
    }

    /// Writes the token to a file that only its user can read.
    pub(crate) fn write(&self, path: &Path) -> Result<(), RemoteError> {
        write(path, self)
    }

    /// Returns the configuration with which a caller connects to the registry.
    pub(crate) fn client(&self) -> Result<ClientConfig, RemoteError> {
        let mut config = ClientConfig::new(self.identity.quic_client()?);
        config.transport_config(transport());
        Ok(config)
    }

    /// Returns the configuration with which a server that has joined accepts the daemon, and other
    /// holders of the token.
    pub(crate) fn server(&self) -> Result<ServerConfig, RemoteError> {
        Ok(server(ServerConfig::with_crypto(self.identity.quic_server()?)))
    }

    /// Returns the names in the certificates of the daemon, and of holders of the token.
    pub(crate) fn names(&self) -> [String; 2] {
        names(&self.identity)
    }
}

fn names(identity: &Identity) -> [String; 2] {
    [0, 1].map(|node| identity.name_of(NodeId(node)))
}

impl Key {
    /// Reads the key and the former address of the registry; `None` if there is no key of this
    /// version.
    pub(crate) fn read(path: &Path) -> Result<Option<Self>, RemoteError> {
        if !path.exists() {
            return Ok(None);
        }
        let key: Self = read(path)?;
        Ok((key.version == VERSION).then_some(key))
    }

    pub(crate) fn write(&self, path: &Path) -> Result<(), RemoteError> {
        write(path, self)
    }

    /// Replaces the address of the registry.
    pub(crate) fn at(self, address: SocketAddr) -> Self {
        Self { address, ..self }
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns the configuration with which the daemon connects to servers that have joined.
    pub(crate) fn client(&self) -> Result<ClientConfig, RemoteError> {
        let mut config = ClientConfig::new(self.identity.quic_client()?);
        config.transport_config(transport());
        Ok(config)
    }

    /// Returns the names in the certificates of the daemon, and of holders of the token.
    pub(crate) fn names(&self) -> [String; 2] {
        names(&self.identity)
    }

    /// Returns the configuration with which the registry accepts callers.
    pub(crate) fn server(&self) -> Result<ServerConfig, RemoteError> {
        Ok(server(ServerConfig::with_crypto(self.identity.quic_server()?)))
    }
}

/// Returns the path of the daemon's key, beside its token.
pub(crate) fn key_path(token: &Path) -> PathBuf {
    // The ending is appended, so that no two tokens have the same key, and none is its own key.
    let mut name = OsString::from(token);
    name.push(".key");
    name.into()
}

fn server(mut config: ServerConfig) -> ServerConfig {
    config.transport_config(transport());
    config.max_incoming(INCOMING_MAX);
    config.incoming_buffer_size(INCOMING_BYTES).incoming_buffer_size_total(INCOMING_BYTES_TOTAL);
    config
}

fn transport() -> Arc<TransportConfig> {
    let mut transport = TransportConfig::default();
    let silence = VarInt::from_u32(SILENCE.as_millis() as u32);
    transport.max_idle_timeout(Some(silence.into())).keep_alive_interval(Some(KEEP_ALIVE));
    transport.max_concurrent_bidi_streams(VarInt::from_u32(OPEN_FIRST));
    transport.max_concurrent_uni_streams(VarInt::from_u32(0));
    transport.receive_window(VarInt::from_u32(UNREAD_BYTES_MAX));
    transport.stream_receive_window(VarInt::from_u32(UNREAD_STREAM_BYTES_MAX));
    Arc::new(transport)
}

fn of_token(path: &Path) -> impl FnOnce(io::Error) -> RemoteError {
    let path = path.to_owned();
    |error| RemoteError::Token { path, error }
}

fn read<T: serde::de::DeserializeOwned>(path: &Path) -> Result<T, RemoteError> {
    let mut text = Vec::new();
    // The path may lead to a device without end.
    let file = fs::File::open(path).map_err(of_token(path))?;
    file.take(FILE_BYTES_MAX + 1).read_to_end(&mut text).map_err(of_token(path))?;
    if text.len() as u64 > FILE_BYTES_MAX {
        return Err(of_token(path)(io::Error::other("it is larger than a token")));
    }
    serde_json::from_slice(&text).map_err(|error| of_token(path)(error.into()))
}

fn write<T: Serialize>(path: &Path, value: &T) -> Result<(), RemoteError> {
    let written = || {
        // The file is written as a whole or not at all, because a process may wait for it. It is a
        // new file, which no other user could open before.
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
        let mut file = tempfile::NamedTempFile::new_in(folder.unwrap_or(Path::new(".")))?;
        file.write_all(&serde_json::to_vec(value)?)?;
        file.persist(path).map(drop).map_err(|error| error.error)
    };
    written().map_err(of_token(path))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::MetadataExt;

    #[test]
    fn every_token_has_a_separate_key() {
        let keys = ["grid", "grid.token", "grid.key"].map(|token| key_path(Path::new(token)));

        assert_eq!(keys, ["grid.key", "grid.token.key", "grid.key.key"].map(PathBuf::from));
    }

    #[test]
    fn a_device_without_end_is_no_token() {
        let error = Token::read(Path::new("/dev/zero")).unwrap_err();
        assert!(error.to_string().ends_with("it is larger than a token"), "{error}");
    }

    #[test]
    fn a_token_is_private_even_if_it_replaces_a_public_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("grid.token");
        for before in ["grid.token", "grid.new"] {
            fs::write(folder.path().join(before), "open to all").unwrap();
        }
        let (token, _) = Token::new(([127, 0, 0, 1], 7).into()).unwrap();

        token.write(&path).unwrap();

        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
        assert_eq!(Token::read(&path).unwrap().address.port(), 7);
        assert_eq!(fs::read(folder.path().join("grid.new")).unwrap(), b"open to all");
    }
}
