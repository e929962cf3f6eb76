//! A program that measures a link of a lab with datagrams, and answers them on the other host.

use std::io::{BufRead, BufReader, ErrorKind};
use std::net::UdpSocket;
use std::process::{Child, Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

/// The first argument of this program when it measures.
pub(crate) const VERB: &str = "measure";
/// The port at which it answers.
const PORT: u16 = 7000;
/// Time after which a datagram that has not come is lost: far longer than any delay in the tests.
const PATIENCE: Duration = Duration::from_millis(500);
/// Bytes of the headers of IPv4 and UDP.
const HEADER_BYTES: usize = 28;

/// Measures, or answers.
pub(crate) fn run(words: &[String]) -> ExitCode {
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match words[..] {
        ["answer"] => answer(),
        [what, host, count] => {
            let count: u32 = count.parse().unwrap();
            let other = Other::start(host);
            match what {
                "round-trips" => round_trips(&other.socket, count),
                "lost" => lost(&other.socket, count),
                "spread" => spread(&other.socket, count),
                "over-time" => over_time(&other.socket, Duration::from_millis(count.into())),
                _ => panic!("{what}"),
            }
        }
        _ => panic!("{words:?}"),
    }
    ExitCode::SUCCESS
}

/// This program on another host, and a socket that is connected to it.
struct Other {
    process: Child,
    socket: UdpSocket,
}

impl Other {
    fn start(host: &str) -> Self {
        let own = std::env::current_exe().unwrap();
        let mut ssh = Command::new("ssh");
        ssh.arg(host).arg(own).args([VERB, "answer"]).stdin(Stdio::null()).stdout(Stdio::piped());
        let mut process = ssh.spawn().unwrap();
        let mut ready = String::new();
        BufReader::new(process.stdout.take().unwrap()).read_line(&mut ready).unwrap();
        assert_eq!(ready, "ready\n");
        let socket = UdpSocket::bind("0.0.0.0:0").unwrap();
        socket.connect((host, PORT)).unwrap();
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        Self { process, socket }
    }
}

impl Drop for Other {
    fn drop(&mut self) {
        // The `ssh` of a lab becomes the process on the other host, which may have ended.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Sends small datagrams back. To a large one, it answers with the time in microseconds since the
/// first large one, and with the number of large ones so far.
fn answer() {
    let socket = UdpSocket::bind(("0.0.0.0", PORT)).unwrap();
    println!("ready");
    let mut datagram = [0; 2000];
    let (mut began, mut large) = (None, 0_u64);
    loop {
        let (bytes, from) = socket.recv_from(&mut datagram).unwrap();
        if bytes <= 100 {
            socket.send_to(&datagram[..bytes], from).unwrap();
            continue;
        }
        large += 1;
        let began = *began.get_or_insert_with(Instant::now);
        let micros = began.elapsed().as_micros() as u64;
        let report = [micros.to_le_bytes(), large.to_le_bytes()].concat();
        socket.send_to(&report, from).unwrap();
    }
}

/// Sends a number and waits for it. `None` if it does not come back.
fn echo(socket: &UdpSocket, number: u32) -> Option<Duration> {
    let began = Instant::now();
    socket.send(&number.to_le_bytes()).unwrap();
    loop {
        match received(socket) {
            Some(back) if back == number => return Some(began.elapsed()),
            // An echo that came after its time limit.
            Some(_) => {}
            None => return None,
        }
    }
}

/// Waits for an echo.
fn received(socket: &UdpSocket) -> Option<u32> {
    let mut number = [0; 4];
    match socket.recv(&mut number) {
        Ok(_) => Some(u32::from_le_bytes(number)),
        Err(error) if [ErrorKind::WouldBlock, ErrorKind::TimedOut].contains(&error.kind()) => None,
        Err(error) => panic!("{error}"),
    }
}

fn millis(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e3
}

/// Prints the median round trip in milliseconds.
fn round_trips(socket: &UdpSocket, count: u32) {
    let mut times: Vec<Duration> = (0..count).filter_map(|number| echo(socket, number)).collect();
    times.sort_unstable();
    println!("{:.4}", millis(times[times.len() / 2]));
}

/// Prints the numbers of the datagrams that were lost, on the way there or back.
fn lost(socket: &UdpSocket, count: u32) {
    let mut is_back = vec![false; count as usize];
    let mut note = |number: u32| is_back[number as usize] = true;
    for number in 0..count {
        socket.send(&number.to_le_bytes()).unwrap();
        // A few at a time, so that no buffer overflows.
        if number % 20 == 19 {
            std::thread::sleep(Duration::from_millis(5));
            socket.set_nonblocking(true).unwrap();
            std::iter::from_fn(|| received(socket)).for_each(&mut note);
            socket.set_nonblocking(false).unwrap();
        }
    }
    std::iter::from_fn(|| received(socket)).for_each(&mut note);
    let numbers = is_back.iter().enumerate().filter(|(_, is_back)| !**is_back);
    let numbers: Vec<String> = numbers.map(|(number, _)| number.to_string()).collect();
    println!("{}", numbers.join(" "));
}

/// Sends packets of 1500 bytes at once. Prints the time between the arrivals of the first and the
/// last one in milliseconds, and the number of those that have arrived.
fn spread(socket: &UdpSocket, count: u32) {
    let packet = vec![0; 1500 - HEADER_BYTES];
    for _ in 0..count {
        socket.send(&packet).unwrap();
    }
    let (mut micros, mut arrived) = (0, 0);
    let mut report = [0; 16];
    while socket.recv(&mut report).is_ok() {
        let number = |at: usize| u64::from_le_bytes(report[at..at + 8].try_into().unwrap());
        micros = micros.max(number(0));
        arrived = arrived.max(number(8));
    }
    println!("{} {arrived}", micros as f64 / 1e3);
}

/// Prints round trips in milliseconds, one after the other, for this time.
fn over_time(socket: &UdpSocket, time: Duration) {
    let began = Instant::now();
    let mut number = 0;
    while began.elapsed() < time {
        number += 1;
        println!("{:.4}", millis(echo(socket, number).unwrap()));
    }
}
