//! Datagrams over a link that loses some of them.

use gridspan_runtime::net::Emulator;
use gridspan_topology::{GridSpec, NodeId};
use std::error::Error;
use std::fmt;
use std::io::{BufRead, BufReader, ErrorKind};
use std::net::{Ipv4Addr, UdpSocket};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// The port at which the other host counts datagrams.
const PORT: u16 = 7000;
/// Time after which no further datagram can come: far longer than the delay of the link.
const PATIENCE: Duration = Duration::from_secs(1);
/// Number of datagrams in a burst, and the pause after a burst, so that no buffer overflows.
const BURST: u32 = 20;
const PAUSE: Duration = Duration::from_millis(5);
/// The seed of the emulator. A lab uses its default seed.
const SEED: u64 = 1;
/// The quantile of the standard normal distribution that 0.05 % of all values exceed.
const QUANTILE: f64 = 3.29;

/// The interval of 99.9 % of the number of lost datagrams, by the normal approximation of the
/// binomial distribution.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct BinomialInterval {
    low: f64,
    high: f64,
}

impl BinomialInterval {
    pub(crate) fn new(datagrams: u32, loss: f64) -> Self {
        let mean = f64::from(datagrams) * loss;
        let half = QUANTILE * (mean * (1.0 - loss)).sqrt();
        Self { low: mean - half, high: mean + half }
    }

    pub(crate) fn contains(self, lost: u32) -> bool {
        (self.low..=self.high).contains(&f64::from(lost))
    }
}

impl fmt::Display for BinomialInterval {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.0} to {:.0}", self.low.max(0.0).ceil(), self.high.floor())
    }
}

/// In a lab: sends datagrams to another host, where this program counts them, and prints how many
/// have arrived.
pub(crate) fn send(host: &str, datagrams: u32) -> Result<(), Box<dyn Error>> {
    let mut ssh = Command::new("ssh");
    ssh.arg(host).arg(std::env::current_exe()?).arg("--count");
    let mut counting = ssh.stdin(Stdio::null()).stdout(Stdio::piped()).spawn()?;
    let output = counting.stdout.take().ok_or("the output of ssh is not piped")?;
    let mut lines = BufReader::new(output).lines();
    let mut line = || -> Result<String, Box<dyn Error>> {
        Ok(lines.next().ok_or("the program on the other host has ended early")??)
    };
    let ready = line()?;
    if ready != "ready" {
        return Err(format!("the program on the other host says {ready}").into());
    }
    let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0))?;
    socket.connect((host, PORT))?;
    for number in 0..datagrams {
        socket.send(&number.to_le_bytes())?;
        if number % BURST == BURST - 1 {
            thread::sleep(PAUSE);
        }
    }
    println!("{}", line()?);
    match counting.wait()?.success() {
        true => Ok(()),
        false => Err("the program on the other host has failed".into()),
    }
}

/// In a lab: counts datagrams until no more arrive, and prints their number.
pub(crate) fn count() -> Result<(), Box<dyn Error>> {
    let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, PORT))?;
    println!("ready");
    // The first one may take a while on a busy machine.
    socket.set_read_timeout(Some(10 * PATIENCE))?;
    let mut arrived: u32 = 0;
    while receive(&socket)? {
        arrived += 1;
        socket.set_read_timeout(Some(PATIENCE))?;
    }
    println!("{arrived}");
    Ok(())
}

/// Sends datagrams over the emulated link from the first to the second node of a grid, as nodes of
/// `gridctl run --emulate` do. Returns how many were lost.
pub(crate) fn lost_in_emulation(spec: &str, datagrams: u32) -> Result<u32, Box<dyn Error>> {
    let (sender, receiver) =
        (UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?, UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?);
    let to = receiver.local_addr()?;
    receiver.set_nonblocking(true)?;
    let spec = GridSpec::from_emulate(spec)?;
    let mut emulator = Emulator::new(spec, NodeId(0), SEED, Instant::now());
    let (mut sent, mut arrived) = (0_u32, 0_u32);
    let mut last = Instant::now();
    while sent < datagrams || last.elapsed() < PATIENCE {
        for _ in 0..BURST.min(datagrams - sent) {
            last = Instant::now();
            let bytes = sent.to_le_bytes();
            emulator.send(last, NodeId(1), to, None, (&bytes[..], bytes.len()));
            sent += 1;
        }
        thread::sleep(PAUSE);
        let mut buffer = Vec::new();
        while let Some(due) = emulator.poll_transmit(Instant::now(), 1, &mut buffer) {
            sender.send_to(&buffer, due.destination)?;
            buffer.clear();
        }
        while receive(&receiver)? {
            arrived += 1;
        }
    }
    Ok(datagrams.saturating_sub(arrived))
}

/// Receives a datagram. Returns false if none comes within the timeout of the socket.
fn receive(socket: &UdpSocket) -> Result<bool, Box<dyn Error>> {
    match socket.recv(&mut [0; 16]) {
        Ok(_) => Ok(true),
        Err(error) if [ErrorKind::WouldBlock, ErrorKind::TimedOut].contains(&error.kind()) => {
            Ok(false)
        }
        Err(error) => Err(error.into()),
    }
}
