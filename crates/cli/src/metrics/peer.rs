//! The user whose process has the other end of a connection of the loopback interface, from the
//! kernel's table of connections; see proc_net(5).

use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::net::{IpAddr, SocketAddr};

/// State of a connection that both ends have open. The owner of others is not always listed.
const ESTABLISHED: &str = "01";

/// Opens the table of connections to an address.
///
/// # Errors
///
/// If the system has none; only Linux does.
pub(super) fn open_table(own: SocketAddr) -> io::Result<File> {
    File::open(match own {
        SocketAddr::V4(_) => "/proc/net/tcp",
        SocketAddr::V6(_) => "/proc/net/tcp6",
    })
}

/// Returns the user of the process that has connected from `peer` to `own`; `None` if it has
/// closed the connection.
pub(super) fn user_of(peer: SocketAddr, own: SocketAddr) -> io::Result<Option<u32>> {
    user_in(BufReader::new(open_table(own)?), &hexadecimal(peer), &hexadecimal(own))
}

fn user_in(table: impl BufRead, peer: &str, own: &str) -> io::Result<Option<u32>> {
    for line in table.lines() {
        let line = line?;
        // After the number of the line: both addresses, the state, four other columns, the user.
        let mut fields = line.split_ascii_whitespace().skip(1);
        if [peer, own, ESTABLISHED].iter().all(|&wanted| fields.next() == Some(wanted)) {
            return Ok(fields.nth(3).and_then(|user| user.parse().ok()));
        }
    }
    Ok(None)
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
";

    #[test]
    fn the_line_of_the_other_end_has_its_user() {
        let user = |peer| user_in(TABLE.as_bytes(), peer, "0100007F:24F8").unwrap();
        assert_eq!(user("0100007F:C350"), Some(1001));
        assert_eq!(user("0100007F:C351"), None, "a closed connection has no user");
        assert_eq!(user("0100007F:C352"), None);
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
