//! Guests as separate processes over real sockets: they join a running search, leave it, and are
//! killed, and so are founders.

use gridspan_runtime::driver::cluster;
use gridspan_runtime::net::Authority;
use gridspan_runtime::net::bootstrap::{self, Addresses, NodeBundle, issue, listening_address};
use gridspan_runtime::{Job, Merge, Search, SearchContext};
use gridspan_topology::{GridSpec, Layout, SiteId};
use serde::{Deserialize, Serialize};
use std::io::{BufRead, BufReader, Write};
use std::net::SocketAddr;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

/// Environment variable of the processes that are nodes: whether the job tolerates lost guests
/// (`yes` or `no`).
const IS_NODE: &str = "GRIDSPAN_TEST_NODE";

/// A tree of `2^teeth` nodes, each of which takes a moment.
#[derive(Serialize, Deserialize)]
struct Comb {
    teeth: u32,
}

#[derive(Debug, Default, Serialize, Deserialize)]
struct Nodes(u64);

impl Merge for Nodes {
    fn merge(&mut self, other: Self) {
        self.0 += other.0;
    }
}

const TEETH: u32 = 16;
/// Time for each node of the tree: a single PE takes about ten seconds for all.
const MOMENT: Duration = Duration::from_micros(150);

impl Search for Comb {
    type Total = Nodes;

    fn visit(self, cx: &mut SearchContext<'_, Self>) {
        let begin = Instant::now();
        while begin.elapsed() < MOMENT {
            std::hint::spin_loop();
        }
        cx.total().0 += 1;
        (0..self.teeth).for_each(|teeth| cx.spawn(Self { teeth }));
    }
}

fn job(tolerates: bool) -> Job {
    let job = Job::new("comb").search::<Comb>().tolerate_lost_guests(tolerates);
    job.on_guests(|event| println!("EVENT {event}")).main(async |grid| {
        println!("BEGUN");
        let nodes = grid.run_search(Comb { teeth: TEETH }).await?;
        println!("COUNT {}", nodes.0);
        Ok(())
    })
}

/// Not a test, but the code of the processes that the tests start.
#[test]
fn node() {
    let Ok(tolerates) = std::env::var(IS_NODE) else { return };
    let joined = {
        let (mut from, mut to) = (std::io::stdin().lock(), std::io::stdout().lock());
        bootstrap::join(&mut from, &mut to).unwrap()
    };
    let outcome = cluster::run_with(job(tolerates == "yes"), joined, |leaver| {
        std::thread::spawn(move || {
            let mut line = String::new();
            if std::io::stdin().read_line(&mut line).is_ok() && line == "leave\n" {
                leaver.leave();
            }
        });
    });
    match outcome {
        Ok(()) => println!("OVER"),
        Err(error) => println!("FAILED {error}"),
    }
}

/// The process of a node.
struct Node {
    process: Child,
    stdin: ChildStdin,
    stdout: BufReader<ChildStdout>,
}

impl Node {
    fn start(bundle: &NodeBundle, tolerates: bool) -> (Self, SocketAddr) {
        let mut process = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "guests::node", "--nocapture", "--test-threads", "1"])
            .env(IS_NODE, if tolerates { "yes" } else { "no" })
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let stdin = process.stdin.take().unwrap();
        let stdout = BufReader::new(process.stdout.take().unwrap());
        let mut node = Self { process, stdin, stdout };
        node.tell(&bundle.to_line().unwrap());
        let address = loop {
            let line = node.line().unwrap();
            let mark = line.find('\u{1e}').map_or("", |at| &line[at..]);
            if let Some(address) = listening_address(mark) {
                break address;
            }
        };
        (node, address)
    }

    fn tell(&mut self, line: &str) {
        self.stdin.write_all(line.as_bytes()).unwrap();
        self.stdin.flush().unwrap();
    }

    fn line(&mut self) -> Option<String> {
        let mut line = String::new();
        let read = self.stdout.read_line(&mut line).unwrap();
        (read > 0).then(|| line.trim_end().to_owned())
    }

    /// Waits for the next line with this text, and returns the line from the text on.
    fn expect(&mut self, begin: &str) -> String {
        let seen = self.up_to(begin);
        let last = seen.last().map_or("", |line| &line[line.find(begin).unwrap_or(0)..]);
        last.to_owned()
    }

    /// Waits for the next line that contains this text, and returns the lines up to it.
    fn up_to(&mut self, text: &str) -> Vec<String> {
        let mut seen = Vec::new();
        while let Some(line) = self.line() {
            seen.push(line);
            if seen.last().is_some_and(|line| line.contains(text)) {
                return seen;
            }
        }
        panic!("no {text} in {seen:?}")
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Starts two founders of one PE each. Returns them, their addresses, and `guests` bundles for
/// guests that may join.
fn begin(guests: u32, tolerates: bool) -> (Vec<Node>, Addresses, Vec<NodeBundle>) {
    let layout = Layout::new(vec![("a".to_owned(), vec![1, 1])]);
    let spec = GridSpec::from_layout(&layout).unwrap();
    let authority = Authority::new("guests").unwrap();
    let bundles = issue(&authority, &spec).unwrap();
    let started = bundles.iter().map(|bundle| Node::start(bundle, tolerates));
    let (mut founders, addresses): (Vec<Node>, Vec<SocketAddr>) = started.unzip();
    let addresses = Addresses(addresses);
    for founder in &mut founders {
        founder.tell(&addresses.to_line().unwrap());
    }
    founders[0].expect("BEGUN");
    let invite = |number| {
        let guest = layout.guest(SiteId(0), number).unwrap();
        let mut bundle = NodeBundle::issue(&authority, &spec, guest, 1).unwrap();
        bundle.guest = Some(1);
        bundle
    };
    (founders, addresses, (0..guests).map(invite).collect())
}

fn join(bundle: &NodeBundle, addresses: &Addresses, tolerates: bool) -> Node {
    let (mut guest, _) = Node::start(bundle, tolerates);
    guest.tell(&addresses.to_line().unwrap());
    guest
}

#[test]
fn guests_join_leave_and_are_killed_and_the_count_is_exact() {
    let (mut founders, addresses, bundles) = begin(3, true);
    let mut guests: Vec<Node> =
        bundles.iter().map(|bundle| join(bundle, &addresses, true)).collect();
    for _ in &guests {
        founders[0].expect("EVENT guest");
    }
    std::thread::sleep(Duration::from_millis(300));

    guests[0].process.kill().unwrap();
    guests[1].tell("leave\n");
    guests[1].expect("OVER");

    let told = founders[0].up_to("COUNT");
    // These two events come in either order.
    for news in ["has left", "owed run again"] {
        assert!(told.iter().any(|line| line.contains(news)), "no {news} in {told:?}");
    }
    assert!(told.last().is_some_and(|line| line.ends_with(&format!("COUNT {}", 1 << TEETH))));
    founders[1].expect("OVER");
    guests[2].expect("OVER");
}

#[test]
fn the_closed_port_of_a_killed_founder_ends_the_job_before_its_silence_does() {
    // Main's node notices the end of another one, and the other one that of main's node.
    for victim in [1, 0] {
        let (mut founders, _, _) = begin(0, false);
        // They are connected, and each has checked the port of the other one.
        std::thread::sleep(Duration::from_millis(1_000));

        founders[victim].process.kill().unwrap();

        let failed = founders[1 - victim].expect("FAILED");
        let evidence = format!("FAILED lost node{victim} at site a: no process has its port any");
        assert!(failed.starts_with(&evidence), "{failed}");
    }
}

#[test]
fn a_killed_guest_ends_a_job_that_does_not_tolerate_it() {
    let (mut founders, addresses, bundles) = begin(1, false);
    let mut guest = join(&bundles[0], &addresses, false);
    founders[0].expect("has joined");

    guest.process.kill().unwrap();

    let failed = founders[1].expect("FAILED");
    let evidence = "FAILED lost node2 at site a: no process has its port any more";
    assert!(failed.starts_with(evidence), "{failed}");
}
