//! Talks to the agents of all hosts: first to a few at a time, then lets all send datagrams to each
//! other.
//!
//! The first part has a time limit for each host, in which `ssh` connects and the agent examines
//! its host. The agents then wait until all others have answered or failed.

use super::clock::ClockOffset;
use super::failure::Failure;
use super::pairs::peers;
use super::protocol::{Arrival, Facts, Order, Peer, Sent, VERSION};
use super::session::Session;
use super::subject::Subject;
use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::process::Command;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// Maximum number of concurrent connection attempts, as when nodes start.
const STARTS_IN_ALL_MAX: usize = 32;
/// Maximum number of concurrent attempts through one host or gateway: half of what the usual sshd
/// accepts (`MaxStartups 10:30:100` of sshd_config(5)), because it has other users.
const STARTS_MAX: usize = 5;
/// Pauses before further attempts to reach a host that drops connections.
const PAUSES: [Duration; 3] =
    [Duration::from_millis(500), Duration::from_secs(1), Duration::from_secs(2)];
/// Time in which datagrams arrive: longer than any round trip on earth and the delay of most
/// queues.
const SETTLE: Duration = Duration::from_secs(1);
/// The same on one machine.
const SETTLE_HERE: Duration = Duration::from_millis(100);
/// Seconds that a host may take beyond its time limit: fractions of a second, the end of its
/// process, and the time in which datagrams arrive.
const TURN_MORE_S: u64 = 5;

/// The findings of an agent.
#[derive(Debug)]
pub(super) struct Answers {
    /// Time until its first answer.
    pub(super) connected: Duration,
    pub(super) facts: Facts,
    pub(super) clock: Option<ClockOffset>,
    /// The datagrams that it has sent and received; `None` if it ended before it reported them.
    pub(super) datagrams: Option<(Sent, Vec<Arrival>)>,
}

/// The findings about all hosts.
#[derive(Debug)]
pub(super) struct Found {
    /// For each host, the answers of its agent.
    pub(super) hosts: Vec<Result<Answers, Failure>>,
    /// For each host, the hosts to which its agent had to send datagrams.
    pub(super) peers: Vec<BTreeSet<usize>>,
}

/// How agents are started.
pub(super) struct Agents<'a> {
    pub(super) subjects: &'a [Subject],
    /// Returns the command of the agent of a host.
    pub(super) command: &'a (dyn Fn(usize) -> Command + Sync),
    /// Text by which the datagrams are recognised.
    pub(super) token: &'a str,
    /// Time limit of each host.
    pub(super) timeout: Duration,
    /// Called when a host has answered or failed.
    pub(super) on_answer: &'a (dyn Fn() + Sync),
}

/// An agent that has answered.
type Begun = (Session, Answers);

/// Starts the agents, and collects their answers.
pub(super) fn survey(agents: &Agents<'_>) -> Found {
    let mut begun = begin_all(agents);
    let addresses: Vec<Vec<SocketAddr>> =
        agents.subjects.iter().zip(&begun).map(|(subject, it)| addresses(subject, it)).collect();
    let places: Vec<(usize, bool)> =
        agents.subjects.iter().map(|subject| (subject.site_number, subject.nodes > 1)).collect();
    let mut peers = peers(&places);
    for (from, to) in peers.iter_mut().enumerate() {
        to.retain(|&host| begun[from].is_ok() && !addresses[host].is_empty());
    }
    if peers.iter().any(|to| !to.is_empty()) {
        exchange(agents, &mut begun, &peers, &addresses);
    }
    close_all(&mut begun);
    Found { hosts: begun.into_iter().map(|it| it.map(|(_, answers)| answers)).collect(), peers }
}

/// Starts all agents, a few at a time, and collects their first answers.
fn begin_all(agents: &Agents<'_>) -> Vec<Result<Begun, Failure>> {
    let entries = agents.subjects.iter().map(|it| Some(it.ssh.as_ref()?.entry.clone())).collect();
    let starts = Starts::new(entries);
    let life_s = life_s(&starts.entries, agents.timeout);
    let count = agents.subjects.len();
    let begun: Vec<Mutex<Result<Begun, Failure>>> =
        (0..count).map(|_| Mutex::new(Err(Failure::TimedOut))).collect();
    thread::scope(|scope| {
        for _ in 0..count.min(STARTS_IN_ALL_MAX) {
            scope.spawn(|| {
                while let Some(host) = starts.next() {
                    let answer = begin(agents, host, life_s);
                    *lock(&begun[host]) = answer;
                    (agents.on_answer)();
                    starts.done(host);
                }
            });
        }
    });
    begun.into_iter().map(|it| it.into_inner().unwrap_or_else(PoisonError::into_inner)).collect()
}

/// Returns the number of seconds after which a check has ended, even if each host takes its time
/// limit: an agent that has answered may have to wait that long for the others. While a host waits
/// for its start, the number of attempts is at its maximum, in all or through the host's entry.
fn life_s(entries: &[Option<String>], timeout: Duration) -> u64 {
    let mut behind: BTreeMap<&str, usize> = BTreeMap::new();
    for entry in entries.iter().flatten() {
        *behind.entry(entry).or_default() += 1;
    }
    let most = behind.into_values().max().unwrap_or(0);
    let starts = entries.len().div_ceil(STARTS_IN_ALL_MAX) + most.div_ceil(STARTS_MAX);
    // After the starts before it, the last host starts, and all agents send and then report.
    let turns = u64::try_from(starts + 3).unwrap_or(u64::MAX);
    turns.saturating_mul(timeout.as_secs().saturating_add(TURN_MORE_S))
}

/// Starts an agent, and returns its first answers. Tries again if its host drops the connection.
fn begin(agents: &Agents<'_>, host: usize, life_s: u64) -> Result<Begun, Failure> {
    let until = Instant::now() + agents.timeout;
    let mut pauses = PAUSES.into_iter();
    loop {
        match (begin_once(agents, host, until, life_s), pauses.next()) {
            (Err(failure), Some(pause))
                if failure.is_passing() && Instant::now() + pause < until =>
            {
                thread::sleep(pause);
            }
            (begun, _) => return begun,
        }
    }
}

fn begin_once(
    agents: &Agents<'_>,
    host: usize,
    until: Instant,
    life_s: u64,
) -> Result<Begun, Failure> {
    let subject = &agents.subjects[host];
    let order = Order {
        version: VERSION,
        host: u32::try_from(host).unwrap_or(u32::MAX),
        listen: subject.listen,
        ports: subject.ports.clone(),
        token: agents.token.to_owned(),
        life_s,
    };
    let start = Instant::now();
    let mut session = Session::start((agents.command)(host))?;
    let facts = session.begin(order, until)?;
    let connected = start.elapsed();
    let clock = session.clock(until)?;
    Ok((session, Answers { connected, facts, clock, datagrams: None }))
}

/// Returns the addresses at which a host receives datagrams.
fn addresses(subject: &Subject, begun: &Result<Begun, Failure>) -> Vec<SocketAddr> {
    let (Ok((_, answers)), Ok(address)) = (begun, &subject.address) else { return vec![] };
    let open = answers.facts.ports.iter().filter(|port| port.error.is_none());
    open.map(|port| (*address, port.port).into()).collect()
}

/// Lets the agents send to their peers, and asks them what has arrived.
fn exchange(
    agents: &Agents<'_>,
    begun: &mut [Result<Begun, Failure>],
    peers: &[BTreeSet<usize>],
    addresses: &[Vec<SocketAddr>],
) {
    for (host, it) in begun.iter_mut().enumerate() {
        if let Ok((session, _)) = it {
            let peer = |&to: &usize| Peer {
                host: u32::try_from(to).unwrap_or(u32::MAX),
                addresses: addresses[to].clone(),
            };
            session.request_datagrams(peers[host].iter().map(peer).collect());
        }
    }
    let until = Instant::now() + agents.timeout;
    let live = |it: &mut Result<Begun, Failure>| match it {
        Ok((session, _)) => session.await_sent(until).ok(),
        Err(_) => None,
    };
    let sent: Vec<Option<Sent>> = begun.iter_mut().map(live).collect();
    let is_all_here = agents.subjects.iter().all(|subject| subject.ssh.is_none());
    thread::sleep(if is_all_here { SETTLE_HERE } else { SETTLE });
    let until = Instant::now() + agents.timeout;
    for (it, sent) in begun.iter_mut().zip(sent) {
        if let (Ok((session, answers)), Some(sent)) = (it, sent) {
            let arrivals = session.arrivals(until).ok();
            answers.datagrams = arrivals.map(|arrivals| (sent, arrivals));
        }
    }
}

/// Ends all agents. Those that do not end soon are killed.
fn close_all(begun: &mut [Result<Begun, Failure>]) {
    let until = Instant::now() + SETTLE;
    begun.iter_mut().flatten().for_each(|(session, _)| session.close());
    for (session, _) in begun.iter_mut().flatten() {
        while !session.has_ended() && Instant::now() < until {
            thread::sleep(Duration::from_millis(5));
        }
    }
}

/// Hosts to connect to, within the limits on concurrent attempts.
struct Starts {
    /// For each host, the host or gateway to connect to; `None` for this machine.
    entries: Vec<Option<String>>,
    state: Mutex<Queue>,
    /// Notified when a host has answered or failed.
    freed: Condvar,
}

#[derive(Default)]
struct Queue {
    waiting: BTreeSet<usize>,
    /// Number of attempts under way, by host or gateway.
    starting: BTreeMap<String, usize>,
}

impl Starts {
    fn new(entries: Vec<Option<String>>) -> Self {
        let queue = Queue { waiting: (0..entries.len()).collect(), ..Queue::default() };
        Self { entries, state: Mutex::new(queue), freed: Condvar::new() }
    }

    /// Waits until a connection to another host may begin, and returns that host. Returns `None`
    /// after the last one.
    fn next(&self) -> Option<usize> {
        let mut queue = lock(&self.state);
        while !queue.waiting.is_empty() {
            if let Some(host) = queue.take(&self.entries) {
                return Some(host);
            }
            queue = self.freed.wait(queue).unwrap_or_else(PoisonError::into_inner);
        }
        None
    }

    /// Notes that a host has answered or failed.
    fn done(&self, host: usize) {
        if let Some(entry) = &self.entries[host]
            && let Some(count) = lock(&self.state).starting.get_mut(entry)
        {
            *count = count.saturating_sub(1);
        }
        self.freed.notify_all();
    }
}

impl Queue {
    fn take(&mut self, entries: &[Option<String>]) -> Option<usize> {
        let has_room = |host: &&usize| {
            let entry = entries[**host].as_ref();
            entry.is_none_or(|it| self.starting.get(it).is_none_or(|&count| count < STARTS_MAX))
        };
        let host = *self.waiting.iter().find(has_room)?;
        self.waiting.remove(&host);
        if let Some(entry) = &entries[host] {
            *self.starting.entry(entry.clone()).or_default() += 1;
        }
        Some(host)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn agents_live_until_all_hosts_may_have_taken_their_time_limit() {
        let timeout = Duration::from_secs(20);
        let entries = |entry: Option<&str>, count: usize| vec![entry.map(str::to_owned); count];
        let behind = |count| entries(Some("head"), count);
        // 200 hosts that do not answer, five at a time, keep the others waiting for 800 s.
        assert!(life_s(&behind(200), timeout) >= 40 * 20 + 2 * 20);
        assert!(life_s(&entries(None, 3200), timeout) >= 100 * 20 + 2 * 20);
        assert!(life_s(&behind(1), timeout) < 200);
        let day = Duration::from_secs(86_400);
        assert!(life_s(&behind(2), day) >= 3 * 86_400);
        assert_eq!(life_s(&behind(9), Duration::MAX), u64::MAX);
    }

    #[test]
    fn at_most_five_hosts_behind_a_gateway_are_connected_to_at_a_time() {
        let mut entries = vec![Some("head".to_owned()); 8];
        entries.extend([None, Some("other".to_owned())]);
        let starts = Starts::new(entries);

        let first: Vec<_> = (0..7).map(|_| starts.next()).collect();

        let expected = [0, 1, 2, 3, 4, 8, 9].map(Some);
        assert_eq!(first, expected);
        starts.done(2);
        assert_eq!(starts.next(), Some(5));
        starts.done(0);
        starts.done(1);
        assert_eq!((starts.next(), starts.next(), starts.next()), (Some(6), Some(7), None));
    }
}
