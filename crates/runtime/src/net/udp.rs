//! A UDP socket with segmentation offload, batches and ECN, which a thread can wait for.
//!
//! The kernel splits one large send into packets (GSO) and joins packets into one receive (GRO),
//! which is worth a factor of four in speed for packets of 1,452 bytes. A wait is one `ppoll` over
//! the socket and a wake-up channel, with a timeout in nanoseconds.

use crate::error::StartError;
use bytes::BytesMut;
use quinn_proto::EcnCodepoint;
use quinn_udp::{RecvMeta, UdpSockRef, UdpSocketState};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::collections::BTreeMap;
use std::io::{self, IoSliceMut, Read, Write};
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use thiserror::Error;

/// Size in bytes of the kernel's buffer in each direction. The usual 208 KB overflow while a busy
/// receiver pauses; the kernel may grant less.
const SOCKET_BUFFER_BYTES: usize = 4 << 20;
/// Receives per system call, each of up to 64 KiB of joined packets.
const BATCH: usize = 8;
/// Largest number of batches that are read before anything is sent.
const BATCHES_MAX: usize = 8;
/// Bytes after which no further batch is read, so that bulk is acknowledged first.
const BATCHED_BYTES_MAX: usize = 16 << 10;
/// Bytes of the buffer of one receive.
const RECEIVE_BYTES: usize = 64 << 10;
/// Largest number of senders that are remembered. A job has fewer nodes, but any host can send.
const REACHED_MAX: usize = 16 << 10;

/// A socket could not be opened.
#[derive(Debug, Error)]
#[error("cannot receive at {address}: {source}; choose another address")]
pub struct PortError {
    /// The requested address.
    pub address: SocketAddr,
    /// The error of the system.
    pub source: io::Error,
}

impl From<PortError> for StartError {
    fn from(error: PortError) -> Self {
        Self::Port { reason: error.to_string() }
    }
}

/// Packets to send to one address.
#[derive(Clone, Copy, Debug)]
pub struct Outbound<'a> {
    /// The address to send to.
    pub destination: SocketAddr,
    /// The congestion mark.
    pub ecn: Option<EcnCodepoint>,
    /// One packet, or several of `segment_size` of which the last may be shorter.
    pub contents: &'a [u8],
    /// The size of each packet, if there are several.
    pub segment_size: Option<usize>,
}

/// A UDP socket on which a thread can wait.
pub struct UdpPort {
    socket: UdpSocket,
    state: UdpSocketState,
    woken: UnixStream,
    waker: Waker,
    buffer: Box<[u8]>,
    /// The local address at which each sender has reached this port, if the port listens on all
    /// interfaces: answers must come from that address, which the kernel might not choose on a host
    /// with several.
    reached: Option<BTreeMap<SocketAddr, IpAddr>>,
}

impl UdpPort {
    /// Opens a socket; port 0 chooses a free one.
    ///
    /// # Errors
    ///
    /// [`PortError`] if the address is taken, or this machine does not have it.
    pub fn bind(address: SocketAddr) -> Result<Self, PortError> {
        Self::open(address).map_err(|source| PortError { address, source })
    }

    fn open(address: SocketAddr) -> io::Result<Self> {
        let socket = UdpSocket::bind(address)?;
        let state = UdpSocketState::new(UdpSockRef::from(&socket))?;
        socket.set_nonblocking(true)?;
        // The kernel may refuse; smaller buffers cost speed only.
        let _ = state.set_send_buffer_size(UdpSockRef::from(&socket), SOCKET_BUFFER_BYTES);
        let _ = state.set_recv_buffer_size(UdpSockRef::from(&socket), SOCKET_BUFFER_BYTES);
        let (woken, wake) = UnixStream::pair()?;
        woken.set_nonblocking(true)?;
        wake.set_nonblocking(true)?;
        let waker = Waker { shared: Arc::new(Wake { is_woken: AtomicBool::new(false), wake }) };
        let buffer = vec![0; BATCH * RECEIVE_BYTES].into_boxed_slice();
        let is_everywhere = socket.local_addr()?.ip().is_unspecified();
        let reached = is_everywhere.then(BTreeMap::new);
        Ok(Self { socket, state, woken, waker, buffer, reached })
    }

    /// Returns the address on which packets are received.
    ///
    /// # Errors
    ///
    /// If the system does not report it.
    pub fn local_address(&self) -> io::Result<SocketAddr> {
        self.socket.local_addr()
    }

    /// Returns the number of packets that one send may contain.
    pub fn segments_max(&self) -> usize {
        self.state.max_gso_segments()
    }

    /// Sends packets; returns false if the kernel has no room now. A packet that the network
    /// refuses is lost, as on any network.
    ///
    /// # Errors
    ///
    /// If the socket fails.
    pub fn send(&self, outbound: Outbound<'_>) -> io::Result<bool> {
        let transmit = quinn_udp::Transmit {
            destination: outbound.destination,
            ecn: outbound.ecn.and_then(|ecn| quinn_udp::EcnCodepoint::from_bits(ecn as u8)),
            contents: outbound.contents,
            segment_size: outbound.segment_size,
            src_ip: self.reached.as_ref().and_then(|at| at.get(&outbound.destination).copied()),
        };
        match self.state.send(UdpSockRef::from(&self.socket), &transmit) {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Receives waiting packets without blocking; some may remain. Returns the number of packets
    /// received.
    ///
    /// # Errors
    ///
    /// If the socket fails. Refusals of packets sent before are no errors.
    pub fn receive(
        &mut self,
        on_packet: &mut dyn FnMut(SocketAddr, Option<EcnCodepoint>, BytesMut),
    ) -> io::Result<usize> {
        let (mut packets, mut bytes) = (0, 0);
        for _ in 0..BATCHES_MAX {
            let mut metas = [RecvMeta::default(); BATCH];
            let messages = self.receive_batch(&mut metas)?;
            packets += self.hand_up(&metas[..messages], on_packet);
            bytes += metas[..messages].iter().map(|meta| meta.len).sum::<usize>();
            if messages < BATCH || bytes > BATCHED_BYTES_MAX {
                break;
            }
        }
        Ok(packets)
    }

    /// Reads waiting messages into `buffer`. Returns their number.
    fn receive_batch(&mut self, metas: &mut [RecvMeta; BATCH]) -> io::Result<usize> {
        let mut parts = self.buffer.chunks_exact_mut(RECEIVE_BYTES);
        let mut slices: [IoSliceMut<'_>; BATCH] =
            std::array::from_fn(|_| IoSliceMut::new(parts.next().unwrap_or_default()));
        match self.state.recv(UdpSockRef::from(&self.socket), &mut slices, metas) {
            Ok(messages) => Ok(messages),
            Err(error) if is_temporary(&error) => Ok(0),
            Err(error) => Err(error),
        }
    }

    /// Splits the messages in `buffer` into packets, and passes these to `on_packet`. Returns the
    /// number of packets.
    fn hand_up(
        &mut self,
        metas: &[RecvMeta],
        on_packet: &mut dyn FnMut(SocketAddr, Option<EcnCodepoint>, BytesMut),
    ) -> usize {
        let mut packets = 0;
        for (meta, part) in metas.iter().zip(self.buffer.chunks_exact(RECEIVE_BYTES)) {
            if let (Some(reached), Some(here)) = (&mut self.reached, meta.dst_ip) {
                if reached.len() >= REACHED_MAX {
                    reached.clear();
                }
                reached.insert(meta.addr, here);
            }
            let ecn = meta.ecn.and_then(|ecn| EcnCodepoint::from_bits(ecn as u8));
            let mut data = BytesMut::from(&part[..meta.len]);
            while !data.is_empty() {
                let packet = data.split_to(meta.stride.clamp(1, data.len()));
                on_packet(meta.addr, ecn, packet);
                packets += 1;
            }
        }
        packets
    }

    /// Waits for a packet, for room to send if `writable`, or for a [`Waker`], at most `timeout`.
    ///
    /// # Errors
    ///
    /// If the system cannot wait. An interruption by a signal ends the wait without an error.
    pub fn wait(&mut self, timeout: Option<Duration>, writable: bool) -> io::Result<()> {
        let timeout = timeout.map(|timeout| Timespec {
            tv_sec: i64::try_from(timeout.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: timeout.subsec_nanos().into(),
        });
        let interest = if writable { PollFlags::IN | PollFlags::OUT } else { PollFlags::IN };
        let mut sources =
            [PollFd::new(&self.socket, interest), PollFd::new(&self.woken, PollFlags::IN)];
        match poll(&mut sources, timeout.as_ref()) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        if sources[1].revents().contains(PollFlags::IN) {
            let mut bytes = [0; 16];
            while matches!((&self.woken).read(&mut bytes), Ok(read) if read == bytes.len()) {}
            // The mark is cleared after the channel is drained. A wake in between finds the mark
            // set and writes nothing, but this wait ends anyway. In the opposite order, this loop
            // could drain the byte of such a wake and leave the mark set, so that later wakes
            // would write nothing.
            self.waker.shared.is_woken.store(false, Ordering::SeqCst);
        }
        Ok(())
    }

    /// Returns a waker that ends a [`wait`](Self::wait) from another thread.
    pub fn waker(&self) -> Waker {
        self.waker.clone()
    }
}

/// Whether an error does not concern the socket: the destination refused an earlier packet, or a
/// signal arrived.
fn is_temporary(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionRefused, ConnectionReset, Interrupted, WouldBlock};
    matches!(error.kind(), ConnectionRefused | ConnectionReset | Interrupted | WouldBlock)
}

/// Ends the wait of a [`UdpPort`] from any thread. Several wakes before the port wakes up cost as
/// much as one.
#[derive(Clone, Debug)]
pub struct Waker {
    shared: Arc<Wake>,
}

#[derive(Debug)]
struct Wake {
    is_woken: AtomicBool,
    wake: UnixStream,
}

impl Waker {
    /// Ends the current wait, or the next one if there is none.
    pub fn wake(&self) {
        if !self.shared.is_woken.swap(true, Ordering::SeqCst) {
            // The write fails only if the channel is full, which also ends the wait.
            let _ = (&self.shared.wake).write(&[1]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Instant;

    fn port() -> UdpPort {
        UdpPort::bind(([127, 0, 0, 1], 0).into()).unwrap()
    }

    // On other systems the loopback interface has one address.
    #[cfg(target_os = "linux")]
    #[test]
    fn answers_come_from_the_address_that_was_asked() {
        let mut everywhere = UdpPort::bind(([0, 0, 0, 0], 0).into()).unwrap();
        let number = everywhere.local_address().unwrap().port();
        let asking = UdpSocket::bind(("127.0.0.1", 0)).unwrap();
        asking.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        asking.send_to(b"?", ("127.0.0.2", number)).unwrap();
        let mut from = None;
        while from.is_none() {
            everywhere.wait(Some(Duration::from_secs(10)), false).unwrap();
            everywhere.receive(&mut |address, _, _| from = Some(address)).unwrap();
        }
        let destination = from.unwrap();
        let answer = Outbound { destination, ecn: None, contents: b"!", segment_size: None };
        assert!(everywhere.send(answer).unwrap());
        let (_, answered) = asking.recv_from(&mut [0; 8]).unwrap();
        assert_eq!(answered, ([127, 0, 0, 2], number).into());
    }

    #[test]
    fn segmented_and_single_packets_arrive_whole() {
        let (sender, mut receiver) = (port(), port());
        let destination = receiver.local_address().unwrap();
        let contents: Vec<u8> = (0..2_500).map(|at| (at / 1_000) as u8).collect();
        let segments = sender.segments_max();
        for part in
            if segments > 2 { vec![&contents[..]] } else { contents.chunks(1_000).collect() }
        {
            let segment_size = (part.len() > 1_000).then_some(1_000);
            let outbound = Outbound { destination, ecn: None, contents: part, segment_size };
            assert!(sender.send(outbound).unwrap());
        }
        let mut received = vec![];
        while received.len() < 3 {
            receiver.wait(Some(Duration::from_secs(5)), false).unwrap();
            receiver.receive(&mut |_, _, data| received.push((data.len(), data[0]))).unwrap();
        }
        assert_eq!(received, [(1_000, 0), (1_000, 1), (500, 2)]);
    }

    #[test]
    fn a_waker_or_a_timeout_ends_a_wait() {
        let mut port = port();
        let waker = port.waker();
        let begin = Instant::now();
        waker.wake();
        waker.wake();
        port.wait(Some(Duration::from_secs(20)), false).unwrap();
        assert!(begin.elapsed() < Duration::from_secs(10));
        port.wait(Some(Duration::from_micros(300)), false).unwrap();
        let thread = std::thread::spawn(move || waker.wake());
        port.wait(Some(Duration::from_secs(20)), false).unwrap();
        thread.join().unwrap();
        assert!(begin.elapsed() < Duration::from_secs(10));
    }
}
