//! Tests of the telemetry of many nodes, with a network between them that takes a while.

use super::*;
use crate::message::telemetry::{LinkReading, PeReading, SAMPLE_BYTES_MAX, TypeReading};
use gridspan_topology::{Layout, SiteId};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

/// The counters of a node that handles a message in each millisecond.
#[derive(Default)]
struct Counters {
    orders: AtomicU64,
    now_ms: AtomicU64,
    is_silent: Mutex<bool>,
}

impl NodeReadings for Counters {
    fn order(&self) {
        self.orders.fetch_add(1, Ordering::Relaxed);
    }

    fn read(&self) -> NodeReading {
        let ms = self.now_ms.load(Ordering::Relaxed);
        let counts = TelemetryCounts {
            busy_us: ms * 250,
            idle_us: ms * 750,
            handled: ms,
            actors: 3,
            ..TelemetryCounts::default()
        };
        let types = vec![TypeReading { actors: 3, handled: ms, waiting: 1 }];
        let pe = PeReading { counts, newest_step: ms / 10, types, is_late: false };
        let links = vec![LinkReading { to: SiteId(0), messages: ms, bytes: ms * 100 }];
        let spent = TelemetryTime { wall_ns: 7 * ms, processor_ns: 3 * ms };
        NodeReading { pes: vec![pe; 2], links, memory_bytes: 1 << 20, spent }
    }

    fn clock(&self) -> TelemetryTime {
        TelemetryTime::default()
    }
}

/// The nodes of a job, and the messages between them.
struct Net {
    layout: Layout,
    nodes: Vec<(Telemetry, Arc<Counters>)>,
    /// Messages by the time at which they arrive.
    arriving: BTreeMap<(Time, u64), (NodeId, NodeId, Vec<u8>)>,
    sent: u64,
    now: Time,
}

/// Time that a message takes.
const LATENCY: Duration = Duration::from_millis(5);
const LEASE: TelemetryLease = TelemetryLease { period_ms: 1000, focus: None };

impl Net {
    fn new(sites: &[usize]) -> Self {
        let site = |(n, &nodes): (usize, &usize)| (format!("s{n}"), vec![2; nodes]);
        let layout = Layout::new(sites.iter().enumerate().map(site).collect());
        let node = |_| {
            let (mut telemetry, counters) = (Telemetry::default(), Arc::<Counters>::default());
            telemetry.set_readings(counters.clone());
            telemetry.set_type_names(vec!["jobs::Cell"]);
            (telemetry, counters)
        };
        let nodes = layout.nodes().map(node).collect();
        Self { layout, nodes, arriving: BTreeMap::new(), sent: 0, now: Time::ZERO }
    }

    /// Calls `act` on a node, and sends the messages that result.
    fn call<R>(&mut self, node: NodeId, act: impl FnOnce(&mut Telemetry, &mut Post<'_>) -> R) -> R {
        let mut out = Vec::new();
        let (telemetry, counters) = &mut self.nodes[node.index()];
        counters.now_ms.store(self.now.0 / 1_000_000, Ordering::Relaxed);
        let (layout, now) = (&self.layout, self.now);
        let mut post = Post { node, layout, now, bytes_max: u64::MAX, out: &mut out };
        let result = act(telemetry, &mut post);
        for command in out {
            let RelayCommand::Send { to, frame, is_bulk: false } = command else {
                panic!("telemetry only sends small frames");
            };
            // Without the header of frames for relays.
            let message = frame.into_bytes()[9..].to_vec();
            self.sent += 1;
            self.arriving.insert((now + LATENCY, self.sent), (node, to, message));
        }
        result
    }

    /// Asks the root for the latest sample.
    fn ask(&mut self, lease: TelemetryLease) -> Option<TelemetrySample> {
        self.call(NodeId(0), |telemetry, post| telemetry.sample(lease, post))
    }

    /// Lets time pass, event by event.
    fn run_until(&mut self, end: Time) {
        loop {
            let due = |(telemetry, counters): &(Telemetry, Arc<Counters>)| {
                telemetry.due().filter(|_| !*counters.is_silent.lock().unwrap())
            };
            let wakeup = self.nodes.iter().filter_map(due).min();
            let arrival = self.arriving.keys().next().map(|&(at, _)| at);
            let next = wakeup.into_iter().chain(arrival).min().filter(|&next| next <= end);
            let Some(next) = next else { break };
            self.now = self.now.max(next);
            while let Some(entry) = self.arriving.first_entry()
                && entry.key().0 <= self.now
            {
                let (from, to, message) = entry.remove();
                self.call(to, |node, post| node.receive(from, &message, post)).unwrap();
            }
            for node in 0..self.nodes.len() {
                if due(&self.nodes[node]).is_some_and(|due| due <= self.now) {
                    self.call(NodeId::from(node), |telemetry, post| telemetry.wake(post));
                }
            }
        }
        self.now = end;
    }
}

fn seconds(seconds: u64) -> Time {
    Time(seconds * 1_000_000_000)
}

#[test]
fn all_nodes_are_in_the_sample_of_the_second_half_of_the_first_period() {
    let mut net = Net::new(&[3, 20, 1]);
    assert_eq!(net.ask(LEASE), None, "there is none yet");
    net.run_until(Time(600_000_000));

    let sample = net.ask(LEASE).unwrap();

    assert_eq!((sample.tick, sample.node_count(), sample.total().pes), (1, 24, 48));
    assert_eq!(sample.total().counts.actors, 24 * 6);
    assert_eq!(sample.nodes.iter().map(|node| node.busy_permille).max(), Some(250));
    assert_eq!(sample.type_names, ["jobs::Cell"]);
    assert_eq!(sample.types.iter().map(|it| it.waiting).sum::<u64>(), 48);
    // At half a period, and a part of it earlier at each level.
    assert_eq!(sample.at_us, 500_000);
    assert_eq!(sample.newest_step, 50);
    assert!(sample.nodes.iter().all(|node| node.counts.handled >= 2 * 300), "{sample:?}");
}

#[test]
fn each_node_sends_one_sample_a_period_and_counters_grow() {
    let mut net = Net::new(&[250; 4]);
    net.ask(LEASE);
    net.run_until(seconds(1));
    let first = net.ask(LEASE).unwrap();
    let sent = net.sent;
    net.run_until(seconds(2));
    let second = net.ask(LEASE).unwrap();

    // Each node but the root sends one sample up; the root renews the lease at its seven children.
    assert_eq!(net.sent - sent, 999 + 7);
    assert_eq!((first.tick, second.tick), (1, 2));
    assert_eq!((first.node_count(), second.node_count()), (1000, 1000));
    assert_eq!(second.received, 7, "four nodes of its site, and three sites");
    assert!(second.received_bytes <= SAMPLE_BYTES_MAX as u64, "{}", second.received_bytes);
    assert_eq!(second.depth, 6);
    let handled = |sample: &TelemetrySample| sample.total().counts.handled;
    assert_eq!(handled(&second) - handled(&first), 1000 * 2 * 1000, "a message a ms and PE");
    let sent_to = |sample: &TelemetrySample| sample.links.iter().map(|link| link.messages).sum();
    let (before, after): (u64, u64) = (sent_to(&first), sent_to(&second));
    assert_eq!(after - before, 1000 * 1000);
    assert_eq!((second.telemetry_ns, second.telemetry_ns_max), (1000 * 7000, 7000));
    assert_eq!((second.processor_ns, second.processor_ns_max), (1000 * 3000, 3000));
}

#[test]
fn a_lease_is_passed_on_when_a_third_of_it_has_passed_or_it_changes() {
    let mut net = Net::new(&[2]);
    // A lease of 1 s lasts 5 s.
    let mut sent = Vec::new();
    for ask in 0..9 {
        net.run_until(Time(ask * 500_000_000));
        let before = net.sent;
        net.ask(LEASE);
        sent.push(net.sent - before);
    }
    assert_eq!(sent, [1, 0, 0, 0, 1, 0, 0, 0, 1]);

    let before = net.sent;
    net.ask(TelemetryLease { focus: Some(NodeId(1)), ..LEASE });
    assert_eq!(net.sent - before, 1);
}

#[test]
fn without_a_renewal_all_work_ends() {
    let mut net = Net::new(&[2, 2]);
    net.ask(LEASE);
    net.run_until(seconds(30));

    assert!(net.nodes.iter().all(|(telemetry, _)| telemetry.due().is_none()));
    assert!(net.nodes.iter().all(|(telemetry, _)| telemetry.watched.is_none()));
    let orders = net.nodes[3].1.orders.load(Ordering::Relaxed);
    assert!((4..=6).contains(&orders), "{orders} in the five seconds of the lease");
    let sent = net.sent;
    net.run_until(seconds(60));
    assert_eq!(net.sent, sent);

    assert_eq!(net.ask(LEASE), None, "old samples are forgotten");
    net.run_until(seconds(61));
    assert_eq!(net.ask(LEASE).unwrap().node_count(), 4);
}

#[test]
fn the_sample_of_a_silent_node_is_dropped_after_some_periods() {
    let mut net = Net::new(&[2, 2]);
    let mut counts = Vec::new();
    for second in 1..=8 {
        net.ask(LEASE);
        *net.nodes[3].1.is_silent.lock().unwrap() = second > 2;
        net.run_until(seconds(second));
        counts.push(net.ask(LEASE).unwrap().node_count());
    }
    assert_eq!(counts[..4], [4, 4, 4, 4], "a late sample changes no sum");
    assert_eq!(counts[6..], [3, 3]);
}

#[test]
fn the_pes_of_one_node_of_a_large_job_are_listed_on_request() {
    let mut net = Net::new(&[200]);
    let lease = TelemetryLease { focus: Some(NodeId(150)), ..LEASE };
    net.ask(lease);
    net.run_until(seconds(1));

    let sample = net.ask(lease).unwrap();

    let pes: Vec<PeId> = sample.pes.iter().map(|pe| pe.pe).collect();
    assert_eq!(pes, [PeId(300), PeId(301)]);
    assert!(sample.nodes.iter().any(|node| node.node == NodeId(150) && node.is_focus));
}

#[test]
fn the_nodes_below_a_lost_one_stay_in_the_totals() {
    // Nodes 1 and 2 are inner nodes of the tree; node 20 is the leader of a site.
    let mut net = Net::new(&[20, 6]);
    let lost = [1, 20].map(NodeId);
    for second in 1..=12 {
        net.ask(LEASE);
        net.run_until(seconds(second));
        if second == 2 {
            for node in lost {
                *net.nodes[node.index()].1.is_silent.lock().unwrap() = true;
            }
        }
        if second == 4 {
            // The other nodes learn of the losses one after the other, those below first.
            for node in (0..26).rev().map(NodeId).filter(|node| !lost.contains(node)) {
                for gone in lost {
                    net.call(node, |telemetry, post| telemetry.lose(gone, post));
                }
                net.run_until(net.now + Duration::from_millis(30));
            }
        }
    }

    let sample = net.ask(LEASE).unwrap();

    assert_eq!((sample.node_count(), sample.total().counts.actors), (24, 24 * 6));
    assert!(sample.nodes.iter().all(|node| !lost.contains(&node.node)), "{:?}", sample.nodes);
    // A watcher that comes later sees them, too.
    net.run_until(seconds(60));
    assert_eq!(net.ask(LEASE), None);
    net.run_until(seconds(62));
    assert_eq!(net.ask(LEASE).unwrap().node_count(), 24);
}

#[test]
fn messages_of_other_nodes_than_neighbours_are_dropped_and_wrong_ones_refused() {
    let mut net = Net::new(&[20]);
    net.ask(LEASE);
    net.run_until(seconds(1));
    let root_received = |net: &Net| net.nodes[0].0.watched.as_ref().unwrap().received.0;
    let before = root_received(&net);
    let sample = TelemetryMessage::Sample(Box::default()).encode();
    let lease = TelemetryMessage::Lease(LEASE).encode();
    let mut give = |from, to, message: &[u8]| {
        net.call(NodeId(to), |node, post| node.receive(NodeId(from), message, post)).is_ok()
    };

    assert!(give(1, 0, &sample) && give(0, 1, &lease));
    assert!(give(5, 0, &sample), "its parent is node 1");
    assert!(give(1, 0, &lease), "leases come from above");
    assert!(!give(1, 0, b"nonsense"));
    assert!(!give(1, 0, &vec![0; SAMPLE_BYTES_MAX + 1]));
    assert_eq!(root_received(&net) - before, 1, "only the sample of node 1 counts");
}

#[test]
fn the_busy_share_is_that_of_the_time_between_two_samples() {
    let at = |busy_us, idle_us| TelemetryCounts { busy_us, idle_us, ..Default::default() };
    assert_eq!(busy_permille(&at(0, 0), &at(30, 70)), 300);
    assert_eq!(busy_permille(&at(30, 70), &at(130, 70)), 1000);
    assert_eq!(busy_permille(&at(30, 70), &at(30, 70)), 0, "no time has passed");
    assert_eq!(busy_permille(&at(30, 70), &at(10, 170)), 0, "an estimate was too high");
}
