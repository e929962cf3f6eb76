//! A TLS connection over TCP on which one thread reads while others write.
//!
//! The socket never blocks. A thread that has nothing to read, or no room to write, waits for the
//! socket without the lock of the TLS state, so that it stops no other thread. TCP's keepalive
//! probes detect within 30 s that the other host is gone, unless data is on its way to it: then TCP
//! retransmits for about a quarter of an hour. Both sides send heartbeats where that is too long.

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::sockopt;
use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Silence after which the other host is probed, and the interval between probes.
const PROBE_AFTER: Duration = Duration::from_secs(15);
const PROBE_EVERY: Duration = Duration::from_secs(5);
/// Number of unanswered probes after which the connection has ended: 30 s of silence in all.
const PROBES: u32 = 3;

/// An encrypted connection to one other process.
pub struct SecureStream {
    tcp: TcpStream,
    tls: Mutex<rustls::Connection>,
    /// Held while bytes that belong together are written.
    writing: Mutex<()>,
}

impl SecureStream {
    /// Secures a connection of TCP. Fails if the other side is not the expected one, or does not
    /// answer before `until`.
    pub(super) fn new(tcp: TcpStream, tls: rustls::Connection, until: Instant) -> io::Result<Self> {
        tcp.set_nonblocking(true)?;
        tcp.set_nodelay(true)?;
        sockopt::set_socket_keepalive(&tcp, true)?;
        sockopt::set_tcp_keepidle(&tcp, PROBE_AFTER)?;
        sockopt::set_tcp_keepintvl(&tcp, PROBE_EVERY)?;
        sockopt::set_tcp_keepcnt(&tcp, PROBES)?;
        let stream = Self { tcp, tls: Mutex::new(tls), writing: Mutex::new(()) };
        stream.shake_hands(until)?;
        Ok(stream)
    }

    fn shake_hands(&self, until: Instant) -> io::Result<()> {
        loop {
            self.flush(Some(until))?;
            let is_fed = {
                let mut tls = self.lock();
                if !tls.is_handshaking() && !tls.wants_write() {
                    return Ok(());
                }
                self.feed(&mut tls)?
            };
            match is_fed {
                Some(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Some(_) => {}
                None => self.wait(PollFlags::IN, Some(until))?,
            }
        }
    }

    /// Returns a reader of the connection, which fails with [`io::ErrorKind::TimedOut`] at `until`.
    pub fn reader(&self, until: Option<Instant>) -> SecureReader<'_> {
        SecureReader { stream: self, until }
    }

    /// Writes all bytes. The bytes of another call come before or after all of them.
    ///
    /// # Errors
    ///
    /// If the connection has ended or fails; a part may be written then.
    pub fn write_all(&self, mut bytes: &[u8]) -> io::Result<()> {
        let _writing = self.writing.lock().unwrap_or_else(PoisonError::into_inner);
        while !bytes.is_empty() {
            // A full buffer takes nothing.
            let taken = self.lock().writer().write(bytes)?;
            bytes = &bytes[taken..];
            self.flush(None)?;
        }
        Ok(())
    }

    /// Ends the connection in both directions. Threads that read or write notice it.
    pub fn shutdown(&self) {
        {
            let mut tls = self.lock();
            tls.send_close_notify();
            // The other side may have gone.
            let _ = tls.write_tls(&mut &self.tcp);
        }
        let _ = self.tcp.shutdown(Shutdown::Both);
    }

    /// Returns the local address of the connection, at which the other side has reached this
    /// process.
    ///
    /// # Errors
    ///
    /// If the system does not report it.
    pub fn local_address(&self) -> io::Result<SocketAddr> {
        self.tcp.local_addr()
    }

    /// Reads decrypted bytes. Never waits only for room to write: if both sides did, neither would
    /// read.
    fn read(&self, to: &mut [u8], until: Option<Instant>) -> io::Result<usize> {
        loop {
            let (is_fed, must_write) = {
                let mut tls = self.lock();
                match tls.reader().read(to) {
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                    read => return read,
                }
                let is_fed = self.feed(&mut tls)?;
                // A key update must be answered.
                (is_fed, !self.write_pending(&mut tls)?)
            };
            // The end of the stream shows in the next round.
            if is_fed.is_none() {
                let or_room = if must_write { PollFlags::OUT } else { PollFlags::empty() };
                self.wait(PollFlags::IN | or_room, until)?;
            }
        }
    }

    /// Reads what has arrived on the socket. Returns the number of bytes: 0 at the end, and `None`
    /// if there is nothing yet.
    fn feed(&self, tls: &mut rustls::Connection) -> io::Result<Option<usize>> {
        let read = match tls.read_tls(&mut &self.tcp) {
            Ok(read) => read,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(None),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => return Ok(Some(1)),
            Err(error) => return Err(error),
        };
        if let Err(error) = tls.process_new_packets() {
            // Tells the other side why.
            let _ = tls.write_tls(&mut &self.tcp);
            return Err(io::Error::new(io::ErrorKind::InvalidData, error));
        }
        Ok(Some(read))
    }

    /// Writes what TLS has to send.
    fn flush(&self, until: Option<Instant>) -> io::Result<()> {
        loop {
            if self.write_pending(&mut self.lock())? {
                return Ok(());
            }
            self.wait(PollFlags::OUT, until)?;
        }
    }

    /// Writes what TLS has to send and the socket has room for. Returns whether that was all.
    fn write_pending(&self, tls: &mut rustls::Connection) -> io::Result<bool> {
        while tls.wants_write() {
            match tls.write_tls(&mut &self.tcp) {
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
                Err(error) => return Err(error),
            }
        }
        Ok(true)
    }

    fn wait(&self, what: PollFlags, until: Option<Instant>) -> io::Result<()> {
        loop {
            let left = until.map(|until| until.saturating_duration_since(Instant::now()));
            if left == Some(Duration::ZERO) {
                return Err(io::ErrorKind::TimedOut.into());
            }
            let timeout = left.map(|left| Timespec {
                tv_sec: i64::try_from(left.as_secs()).unwrap_or(i64::MAX),
                tv_nsec: left.subsec_nanos().into(),
            });
            match poll(&mut [PollFd::new(&self.tcp, what)], timeout.as_ref()) {
                Ok(0) | Err(rustix::io::Errno::INTR) => {}
                Ok(_) => return Ok(()),
                Err(error) => return Err(error.into()),
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, rustls::Connection> {
        self.tls.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Reads from a [`SecureStream`].
pub struct SecureReader<'a> {
    stream: &'a SecureStream,
    until: Option<Instant>,
}

impl Read for SecureReader<'_> {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        self.stream.read(to, self.until)
    }
}
