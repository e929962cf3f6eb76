//! The address at which metrics are served: a port of this machine, or a socket in a folder.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::str::FromStr;

/// Beginning of the address of a socket in a folder.
const UNIX: &str = "unix:";
/// Name of the loopback interface in place of its address.
const LOCALHOST: &str = "localhost:";

/// Where metrics are served. Only this machine can reach it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum MetricsAddress {
    /// A port of the loopback interface.
    Tcp(SocketAddr),
    /// A socket at this path.
    Unix(PathBuf),
}

impl FromStr for MetricsAddress {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if let Some(path) = text.strip_prefix(UNIX) {
            return match path.is_empty() {
                true => Err("name a path, such as unix:/run/user/1000/job.sock"),
                false => Ok(Self::Unix(path.into())),
            };
        }
        let port = text.strip_prefix(LOCALHOST).unwrap_or(text);
        let address = match port.parse() {
            Ok(port) => SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), port),
            Err(_) => text
                .parse()
                .map_err(|_| "write a port, such as 9464, 127.0.0.1:9464 or unix:PATH")?,
        };
        match address.ip().is_loopback() {
            true => Ok(Self::Tcp(address)),
            false => Err("metrics are for processes of this machine, so write a port alone; from \
                          elsewhere, `ssh -L $XDG_RUNTIME_DIR/job.sock:127.0.0.1:PORT HOST` and \
                          `curl --unix-socket` reach it"),
        }
    }
}

impl fmt::Display for MetricsAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(address) => address.fmt(f),
            Self::Unix(path) => write!(f, "{UNIX}{}", path.display()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<String, &'static str> {
        text.parse().map(|address: MetricsAddress| address.to_string())
    }

    #[test]
    fn a_port_alone_is_one_of_the_loopback_interface() {
        assert_eq!(read("9464").as_deref(), Ok("127.0.0.1:9464"));
        assert_eq!(read("localhost:0").as_deref(), Ok("127.0.0.1:0"));
        for same in ["127.0.0.1:9464", "127.3.0.1:80", "[::1]:9464", "unix:a b/job.sock"] {
            assert_eq!(read(same).as_deref(), Ok(same));
        }
    }

    #[test]
    fn addresses_that_other_machines_reach_are_refused() {
        for other in ["0.0.0.0:9464", "[::]:9464", "10.0.0.1:9464", "[::ffff:10.0.0.1]:1"] {
            assert!(read(other).unwrap_err().contains("ssh -L"), "{other}");
        }
        for wrong in ["", ":", "unix:", "70000", "host:9464", "127.0.0.1"] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
    }
}
