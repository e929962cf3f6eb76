//! The socket of the metrics server, which serves processes of the same user only.

use super::address::MetricsAddress;
use super::peer;
use rustix::process::getuid;
use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::os::unix::net::{UnixListener as StdUnixListener, UnixStream};
use std::path::Path;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, UnixListener};

/// A connection to a client.
pub(super) trait Connection: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Connection for T {}

/// An open socket.
pub(super) enum Listener {
    Tcp(TcpListener),
    Unix(UnixListener),
}

impl Listener {
    /// Opens a socket. Call it in the context of a runtime.
    ///
    /// # Errors
    ///
    /// If the system cannot open the socket, or does not report the users of the clients of a port.
    pub(super) fn open(address: &MetricsAddress) -> io::Result<Self> {
        match address {
            MetricsAddress::Tcp(address) => {
                peer::open_table(*address).map_err(|error| {
                    let text = format!("the user of a client cannot be found out: {error}");
                    io::Error::new(io::ErrorKind::Unsupported, text)
                })?;
                let listener = std::net::TcpListener::bind(address)?;
                listener.set_nonblocking(true)?;
                Ok(Self::Tcp(TcpListener::from_std(listener)?))
            }
            MetricsAddress::Unix(path) => {
                let listener = bind(path)?;
                // `accept` refuses a client of another user that connects before this.
                fs::set_permissions(path, Permissions::from_mode(0o600))?;
                listener.set_nonblocking(true)?;
                Ok(Self::Unix(UnixListener::from_std(listener)?))
            }
        }
    }

    /// Returns the address for clients. `address`: where the socket was opened.
    pub(super) fn place(&self, address: &MetricsAddress) -> io::Result<String> {
        match self {
            // The system may have chosen the port.
            Self::Tcp(listener) => Ok(format!("http://{}/metrics", listener.local_addr()?)),
            Self::Unix(_) => Ok(format!("{address}, path /metrics")),
        }
    }

    /// Waits for a client.
    ///
    /// # Errors
    ///
    /// [`io::ErrorKind::PermissionDenied`] if the client is of another user, or has ended.
    pub(super) async fn accept(&self) -> io::Result<Box<dyn Connection>> {
        match self {
            Self::Tcp(listener) => {
                let (stream, peer) = listener.accept().await?;
                check(peer::user_of(peer, stream.local_addr()?)?)?;
                Ok(Box::new(stream))
            }
            Self::Unix(listener) => {
                let (stream, _) = listener.accept().await?;
                check(Some(stream.peer_cred()?.uid()))?;
                Ok(Box::new(stream))
            }
        }
    }
}

/// Checks that this is the user of this process.
fn check(user: Option<u32>) -> io::Result<()> {
    let reason = match user {
        Some(user) if user == getuid().as_raw() => return Ok(()),
        Some(_) => "the client is of another user",
        None => "the user of the client is not known",
    };
    Err(io::Error::new(io::ErrorKind::PermissionDenied, reason))
}

/// Opens the socket at a path. Replaces a socket that an ended process of this user has left.
fn bind(path: &Path) -> io::Result<StdUnixListener> {
    match StdUnixListener::bind(path) {
        Err(error) if error.kind() == io::ErrorKind::AddrInUse && is_left(path)? => {
            fs::remove_file(path)?;
            StdUnixListener::bind(path)
        }
        bound => bound,
    }
}

/// Whether there is a socket of this user at which no process listens.
fn is_left(path: &Path) -> io::Result<bool> {
    let file = fs::symlink_metadata(path)?;
    let is_own = file.file_type().is_socket() && file.uid() == getuid().as_raw();
    let refused = |error: io::Error| error.kind() == io::ErrorKind::ConnectionRefused;
    Ok(is_own && UnixStream::connect(path).is_err_and(refused))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_socket_that_was_left_is_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("metrics.sock");
        let first = bind(&path).unwrap();
        assert_eq!(bind(&path).unwrap_err().kind(), io::ErrorKind::AddrInUse);

        drop(first);
        drop(bind(&path).unwrap());

        fs::remove_file(&path).unwrap();
        fs::write(&path, "something else").unwrap();
        assert_eq!(bind(&path).unwrap_err().kind(), io::ErrorKind::AddrInUse);
        assert_eq!(fs::read_to_string(&path).unwrap(), "something else");
    }

    #[test]
    fn clients_of_other_users_are_refused() {
        let own = getuid().as_raw();
        assert!(check(Some(own)).is_ok());
        let reason = |user| check(user).unwrap_err().to_string();
        assert_eq!(reason(Some(own + 1)), "the client is of another user");
        assert_eq!(reason(None), "the user of the client is not known");
    }
}
