//! A second process for the network benches: the binary of the bench, started again.
//!
//! The first process writes lines to the standard input of the second and reads lines from its
//! output. The second ends when its input does, so that it never outlives the first.

use gridspan_runtime::Job;
use gridspan_runtime::driver::cluster;
use gridspan_runtime::net::bootstrap::{self, Addresses, Joined, issue, listening_address};
use gridspan_runtime::net::{Authority, UdpPort};
use gridspan_topology::GridSpec;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use std::io::{self, BufRead, BufReader, Write};
use std::net::{Ipv4Addr, SocketAddr};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

/// The first argument of a second process; its role and its core follow.
pub(crate) const NODE: &str = "--node";

/// The role of a second process that is node 1 of a job.
pub(crate) const JOB: &str = "job";

/// The cores on which the two processes run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cores {
    /// Both on one core: no core has to be woken, so only work is measured.
    One,
    /// Each on a separate core.
    Two,
}

impl Cores {
    fn second(self) -> usize {
        match self {
            Self::One => 0,
            Self::Two => 1,
        }
    }
}

/// The second process.
pub(crate) struct Second {
    child: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
}

impl Second {
    /// Starts a second process with a role.
    pub(crate) fn start(role: &str, cores: Cores) -> Self {
        let path = std::env::current_exe().expect("the bench knows its own path");
        let mut child = Command::new(path)
            .args([NODE, role, &cores.second().to_string()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("the bench starts a second time");
        let input = child.stdin.take();
        let output = child.stdout.take().expect("its output was piped");
        Self { child, input, output: BufReader::new(output) }
    }

    /// Writes `line`, which ends with a newline.
    pub(crate) fn say(&mut self, line: &str) {
        let input = self.input.as_mut().expect("its input is open until it is dropped");
        input.write_all(line.as_bytes()).expect("the second process reads");
    }

    /// Reads a line.
    pub(crate) fn hear(&mut self) -> String {
        let mut line = String::new();
        self.output.read_line(&mut line).expect("the second process writes text");
        assert!(!line.is_empty(), "the second process ended early");
        line
    }

    /// Reads the address at which the second process listens.
    pub(crate) fn address(&mut self) -> SocketAddr {
        let line = self.hear();
        listening_address(&line).unwrap_or_else(|| panic!("the second process said {line}"))
    }
}

impl Drop for Second {
    fn drop(&mut self) {
        drop(self.input.take());
        // The process ends with its input; its standard error explains a failure.
        let _ = self.child.wait();
    }
}

/// Prints the address at which this second process listens.
pub(crate) fn listening(address: SocketAddr) {
    println!("{}{address}", bootstrap::LISTENING);
}

/// Makes this process exit when its input ends, that is, when the first process exits or closes it.
pub(crate) fn end_with_input() {
    let launcher = io::BufReader::new(io::stdin());
    bootstrap::watch_launcher(launcher, |_| (), || std::process::exit(0)).expect("a thread starts");
}

/// Returns the role of this process if it is a second process, and moves it to its core.
pub(crate) fn role() -> Option<String> {
    let mut arguments = std::env::args().skip(1);
    arguments.next().filter(|first| first == NODE)?;
    let role = arguments.next()?;
    pin(arguments.next()?.parse().ok()?);
    Some(role)
}

/// Moves this thread, and the threads that it starts, to one core. If the system refuses, the
/// figures are noisier.
fn pin(core: usize) {
    let mut cores = CpuSet::new();
    cores.set(core);
    let _ = sched_setaffinity(None, &cores);
}

/// Runs `run` on the first core.
pub(crate) fn on_first_core<T>(run: impl FnOnce() -> T) -> T {
    let before = sched_getaffinity(None);
    pin(0);
    let result = run();
    if let Ok(before) = before {
        let _ = sched_setaffinity(None, &before);
    }
    result
}

/// Runs a job of two nodes: main and node 0 here, node 1 in a second process, which runs
/// [`second_node`] with the same definition.
pub(crate) fn run_job(job: Job, spec: &GridSpec, emulate: bool, cores: Cores) {
    on_first_core(|| {
        let authority = Authority::new("bench").expect("the name is allowed");
        let mut bundles = issue(&authority, spec).expect("certificates are issued");
        bundles.iter_mut().for_each(|bundle| bundle.emulate = emulate);
        let [bundle, other] = <[_; 2]>::try_from(bundles).expect("the grid has two nodes");
        let mut second = Second::start(JOB, cores);
        second.say(&other.to_line().expect("a bundle is JSON"));
        let there = second.address();
        let port = UdpPort::bind((Ipv4Addr::LOCALHOST, 0).into()).expect("a port is free");
        let here = port.local_address().expect("the socket has an address");
        let addresses = vec![here, there];
        second.say(&Addresses(addresses.clone()).to_line().expect("addresses are JSON"));
        cluster::run(job, Joined { bundle, port, addresses }).expect("the job ends well");
    });
}

/// Runs node 1 of a job.
pub(crate) fn second_node(job: Job) {
    let joined = bootstrap::join(&mut io::stdin().lock(), &mut io::stdout().lock());
    let joined = joined.expect("the first process sends a bundle");
    end_with_input();
    cluster::run(job, joined).expect("the job ends well");
}
