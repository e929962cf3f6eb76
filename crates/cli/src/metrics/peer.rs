//! Finds the user at the other end of a connection over the loopback interface, in the kernel's
//! table of connections; see proc_net(5).

use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::net::{IpAddr, SocketAddr};

/// The table of connections of IPv4.
const TCP: &str = "/proc/net/tcp";
/// The table of connections of IPv6. It also has a connection to an IPv4 address if the client's
/// socket is for both versions.
const TCP6: &str = "/proc/net/tcp6";
/// States of a connection whose socket may be open: ESTABLISHED, FIN_WAIT1, FIN_WAIT2 and
/// CLOSE_WAIT.
const OWNED: [&str; 4] = ["01", "04", "05", "08"];
/// The inode of a connection that no process holds. Such a line does not name the user of the
/// process that held the connection.
const NO_INODE: &str = "0";

/// Opens the table of connections to an address.
///
/// # Errors
///
/// If the system has no such table: only Linux has one.
pub(super) fn open_table(own: SocketAddr) -> io::Result<File> {
    File::open(match own {
        SocketAddr::V4(_) => TCP,
        SocketAddr::V6(_) => TCP6,
    })
}

/// Returns the user of the process that has connected from `peer` to `own`; `None` if it has
/// closed the connection.
pub(super) fn user_of(peer: SocketAddr, own: SocketAddr) -> io::Result<Option<u32>> {
    let user = user_in(BufReader::new(open_table(own)?), &hexadecimal(peer), &hexadecimal(own))?;
    if let (None, Some(peer), Some(own)) = (user, mapped(peer), mapped(own))
        && let Ok(table) = File::open(TCP6)
    {
        return user_in(BufReader::new(table), &hexadecimal(peer), &hexadecimal(own));
    }
    Ok(user)
}

/// The IPv4-mapped IPv6 address that an IPv6 socket has in place of an IPv4 address.
fn mapped(address: SocketAddr) -> Option<SocketAddr> {
    match address.ip() {
        IpAddr::V4(ip) => Some(SocketAddr::new(ip.to_ipv6_mapped().into(), address.port())),
        IpAddr::V6(_) => None,
    }
}

fn user_in(table: impl BufRead, peer: &str, own: &str) -> io::Result<Option<u32>> {
    for line in table.lines() {
        let line = line?;
        if let Some(user) = user_in_line(&line, peer, own) {
            return Ok(Some(user));
        }
    }
    Ok(None)
}

fn user_in_line(line: &str, peer: &str, own: &str) -> Option<u32> {
    // After the number of the line: both addresses, the state, three other columns, the user, a
    // timeout, the inode.
    let mut fields = line.split_ascii_whitespace().skip(1);
    let is_it = fields.next()? == peer && fields.next()? == own && OWNED.contains(&fields.next()?);
    let user = fields.nth(3).filter(|_| is_it)?;
    let inode = fields.nth(1)?;
    user.parse().ok().filter(|_| inode != NO_INODE)
}

/// Writes an address as the kernel does: words of 32 bits in the byte order of the machine.
fn hexadecimal(address: SocketAddr) -> String {
    let octets = match address.ip() {
        IpAddr::V4(ip) => ip.octets().to_vec(),
        IpAddr::V6(ip) => ip.octets().to_vec(),
    };
    let words = octets.chunks_exact(4).map(|word| {
        let word = u32::from_ne_bytes([word[0], word[1], word[2], word[3]]);
        format!("{word:08X}")
    });
    format!("{}:{:04X}", words.collect::<String>(), address.port())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{TcpListener, TcpStream};

    const TABLE: &str = "\
  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 0100007F:24F8 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1000        0 101 1
   1: 0100007F:24F8 0100007F:C350 01 00000000:00000000 00:00000000 00000000  1000        0 102 1
   2: 0100007F:C350 0100007F:24F8 01 00000000:00000000 00:00000000 00000000  1001        0 103 1
   3: 0100007F:C351 0100007F:24F8 06 00000000:00000000 03:00000F2A 00000000     0        0 0 3
   4: 0100007F:C353 0100007F:24F8 05 00000000:00000000 00:00000000 00000000  1002        0 104 1
   5: 0100007F:C354 0100007F:24F8 05 00000000:00000000 00:00000000 00000000     0        0 0 1
";

    #[test]
    fn the_line_of_the_other_end_has_its_user() {
        let user = |peer| user_in(TABLE.as_bytes(), peer, "0100007F:24F8").unwrap();
        assert_eq!(user("0100007F:C350"), Some(1001));
        assert_eq!(user("0100007F:C351"), None, "a closed connection has no user");
        assert_eq!(user("0100007F:C352"), None);
        assert_eq!(user("0100007F:C353"), Some(1002), "a client that sends no more");
        assert_eq!(user("0100007F:C354"), None, "a client that has ended");
    }

    #[test]
    fn a_client_with_a_socket_for_both_versions_has_its_user() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let own = listener.local_addr().unwrap();
        let Ok(client) = TcpStream::connect(mapped(own).unwrap()) else {
            println!("skipped: there is no IPv6");
            return;
        };
        let (_accepted, peer) = listener.accept().unwrap();
        assert!(peer.is_ipv4() && client.local_addr().unwrap().is_ipv6(), "{peer}");
        match user_of(peer, own) {
            Ok(found) => assert_eq!(found, Some(rustix::process::getuid().as_raw())),
            Err(error) => println!("skipped: this system has no table of connections: {error}"),
        }
    }

    #[test]
    fn a_client_of_this_process_has_its_user() {
        for address in ["127.0.0.1:0", "[::1]:0"] {
            let Ok(listener) = TcpListener::bind(address) else {
                println!("skipped: there is no {address}");
                continue;
            };
            let own = listener.local_addr().unwrap();
            let client = TcpStream::connect(own).unwrap();
            let peer = client.local_addr().unwrap();
            let found = match user_of(peer, own) {
                Ok(found) => found,
                Err(error) => {
                    println!("skipped: this system has no table of connections: {error}");
                    continue;
                }
            };
            assert_eq!(found, Some(rustix::process::getuid().as_raw()), "{address}");
            drop(client);
            let other = SocketAddr::new(peer.ip(), 1);
            assert_eq!(user_of(other, own).unwrap(), None);
        }
    }
}
