//! Measures round trips and rates to other nodes with separate packets, and answers the probes of
//! other nodes.
//!
//! # Steady state
//!
//! One order is processed at a time. For round trips, each target receives pings in rounds. They
//! end when [`PINGS`] consecutive rounds have improved no round trip, or after [`PINGS_MAX`]
//! rounds. The shortest round trip counts, so that one quiet moment is enough. A target that is
//! [`PINGS`] answers behind is skipped: otherwise many nodes could flood a slow one with pings. For
//! trains, each target receives a train of packets, one target after the other, and reports the
//! time between the arrivals of the first and the last packet.
//!
//! # Failure
//!
//! Packets may be lost. A target that has not answered [`PATIENCE`] after the last packet gets one
//! more round, and then counts as silent. The prober ignores packets of other jobs, and packets
//! that answer no probe of this node.

use super::probe_packet::{Kind, PING_BYTES, ProbePacket, TRAIN_BYTES};
use crate::message::probe::{ProbeKind, ProbeOrder, Probed};
use gridspan_topology::{Bandwidth, NodeId};
use ring::hmac;
use std::collections::{BTreeMap, VecDeque};
use std::time::{Duration, Instant};

/// Least number of pings to each target, and number of consecutive rounds without a better round
/// trip after which probing ends. It is this large because quiet moments on both sides are rare
/// where nodes share cores.
const PINGS: u32 = 8;
/// Largest number of pings to each target.
const PINGS_MAX: u32 = 64;
/// Share by which a round trip must be shorter to count as better.
const BETTER: f64 = 0.05;
/// Time between two pings of this node: 5,000 packets a second do not load any network.
const PACE: Duration = Duration::from_micros(200);
/// Least time between two pings to one target, so that both do not meet the same busy moment.
const ROUND: Duration = Duration::from_millis(10);
/// Time between trains to different targets.
const TRAIN_PAUSE: Duration = Duration::from_millis(50);
/// Shortest duration of a train that yields a rate. If a train arrives faster, the link is too fast
/// to measure, or the receiver polled late and found all packets at once.
const SPAN_MIN: Duration = Duration::from_micros(500);
/// Time to wait for the last answers.
const PATIENCE: Duration = Duration::from_millis(1_500);
/// Largest number of trains that arrive at the same time; more are not measured.
const TRAINS_MAX: usize = 64;
/// Largest number of waiting answers; further ones are dropped, as on a network.
const ANSWERS_MAX: usize = 1024;

/// The part of a node that sends and answers probes.
pub(super) struct Prober {
    me: NodeId,
    key: hmac::Key,
    began: Instant,
    orders: VecDeque<ProbeOrder>,
    running: Option<Running>,
    answers: VecDeque<(NodeId, Vec<u8>)>,
    trains: BTreeMap<(NodeId, u64), Arriving>,
    done: VecDeque<(u64, Vec<Probed>)>,
}

/// The order that is being processed.
struct Running {
    order: ProbeOrder,
    found: Vec<Probed>,
    /// The last round whose ping each target has answered.
    answered: Vec<u32>,
    /// Targets that still have to receive packets, as positions in `found`.
    queue: VecDeque<usize>,
    /// Number of packets sent of the train to the first target in `queue`.
    train: u16,
    /// Time at which that train began.
    train_at: Instant,
    next_at: Instant,
    /// Time at which the last round began.
    round_at: Instant,
    rounds: u32,
    /// The last round that improved some round trip.
    improved: u32,
    is_second_try: bool,
}

/// A train of another node that is arriving.
struct Arriving {
    first: Instant,
    last: Instant,
    bytes: u64,
}

impl Prober {
    pub(super) fn new(me: NodeId, secret: &[u8; 32], now: Instant) -> Self {
        Self {
            me,
            key: hmac::Key::new(hmac::HMAC_SHA256, secret),
            began: now,
            orders: VecDeque::new(),
            running: None,
            answers: VecDeque::new(),
            trains: BTreeMap::new(),
            done: VecDeque::new(),
        }
    }

    /// Queues an order.
    pub(super) fn order(&mut self, now: Instant, order: ProbeOrder) {
        self.orders.push_back(order);
        self.begin_next(now);
    }

    /// Returns the results of a completed order: its identifier, and the result of each target.
    pub(super) fn poll_done(&mut self) -> Option<(u64, Vec<Probed>)> {
        self.done.pop_front()
    }

    fn begin_next(&mut self, now: Instant) {
        while self.running.is_none()
            && let Some(order) = self.orders.pop_front()
        {
            let found: Vec<_> = order.targets.iter().map(|&node| Probed::nothing(node)).collect();
            if found.is_empty() {
                self.done.push_back((order.id, found));
                continue;
            }
            let queue = (0..found.len()).collect();
            let running = Running {
                order,
                answered: vec![0; found.len()],
                found,
                queue,
                train: 0,
                train_at: now,
                next_at: now,
                round_at: now,
                rounds: 1,
                improved: 1,
                is_second_try: false,
            };
            self.running = Some(running);
        }
    }

    /// Returns the time at which [`poll_transmit`](Self::poll_transmit) must be called; it may be
    /// past.
    pub(super) fn poll_timeout(&self) -> Option<Instant> {
        if !self.answers.is_empty() {
            // Answers are due at once, and this time is past.
            return Some(self.began);
        }
        self.running.as_ref().map(Running::due)
    }

    /// Returns the next packet to send.
    pub(super) fn poll_transmit(&mut self, now: Instant) -> Option<(NodeId, Vec<u8>)> {
        if let Some(answer) = self.answers.pop_front() {
            return Some(answer);
        }
        let stamp = now.saturating_duration_since(self.began).as_nanos() as u64;
        let running = self.running.as_mut()?;
        if now < running.due() {
            return None;
        }
        if let Some(&at) = running.queue.front() {
            let packet = running.next_packet(now, at, (self.me, stamp));
            let len = if packet.kind == Kind::Ping { PING_BYTES } else { TRAIN_BYTES };
            return Some((packet.to, packet.encode(len, &self.key)));
        }
        if running.begin_round(now) {
            return self.poll_transmit(now);
        }
        if let Some(Running { order, found, .. }) = self.running.take() {
            self.done.push_back((order.id, found));
        }
        self.begin_next(now);
        None
    }

    /// Handles a packet that starts like a probe ([`is_probe`](super::probe_packet::is_probe)).
    pub(super) fn handle(&mut self, now: Instant, data: &[u8]) {
        let Some(packet) = ProbePacket::decode(data, &self.key) else { return };
        if packet.to != self.me || packet.from == self.me {
            return;
        }
        match packet.kind {
            Kind::Ping => self.answer(Kind::Pong, packet, data.len()),
            Kind::Train => self.arrive(now, packet, data.len()),
            Kind::Pong | Kind::Arrived => self.note(now, packet),
        }
    }

    fn answer(&mut self, kind: Kind, packet: ProbePacket, len: usize) {
        if self.answers.len() < ANSWERS_MAX {
            let answer = ProbePacket { kind, from: self.me, to: packet.from, ..packet };
            self.answers.push_back((packet.from, answer.encode(len.min(PING_BYTES), &self.key)));
        }
    }

    fn arrive(&mut self, now: Instant, packet: ProbePacket, len: usize) {
        // A train whose last packet was lost is not reported; the next attempt starts a new one.
        self.trains.retain(|_, train| now.duration_since(train.last) < PATIENCE / 2);
        let key = (packet.from, packet.order);
        let has_room = self.trains.len() < TRAINS_MAX;
        if let Some(train) = self.trains.get_mut(&key) {
            train.last = now;
            train.bytes += len as u64;
        } else if has_room {
            self.trains.insert(key, Arriving { first: now, last: now, bytes: 0 });
        }
        if packet.count.checked_sub(1) == Some(packet.index)
            && let Some(train) = self.trains.remove(&key)
        {
            let span = train.last.duration_since(train.first).as_nanos() as u64;
            self.answer(Kind::Arrived, ProbePacket { span, bytes: train.bytes, ..packet }, len);
        }
    }

    fn note(&mut self, now: Instant, packet: ProbePacket) {
        let Some(running) = &mut self.running else { return };
        if running.order.id != packet.order {
            return;
        }
        let Some(at) = running.found.iter().position(|found| found.target == packet.from) else {
            return;
        };
        if packet.kind == Kind::Pong {
            let round = u32::from(packet.index).min(running.rounds);
            running.answered[at] = running.answered[at].max(round);
        }
        let found = &mut running.found[at];
        let sent = self.began + Duration::from_nanos(packet.stamp);
        let round_trip = now.saturating_duration_since(sent);
        if found.round_trip.is_none_or(|best| round_trip < best.mul_f64(1.0 - BETTER)) {
            running.improved = running.rounds;
        }
        found.round_trip = Some(found.round_trip.map_or(round_trip, |best| best.min(round_trip)));
        if packet.kind == Kind::Arrived {
            let span = Duration::from_nanos(packet.span);
            if span >= SPAN_MIN {
                let rate = packet.bytes as f64 * 8.0 / span.as_secs_f64();
                found.rate = Some(Bandwidth::from_bits_per_second(rate as u64));
            }
        }
    }
}

impl Running {
    /// Returns the next packet to the first target in the queue.
    fn next_packet(&mut self, now: Instant, at: usize, (me, stamp): (NodeId, u64)) -> ProbePacket {
        let (kind, gap) = match self.order.kind {
            ProbeKind::RoundTrip => (Kind::Ping, PACE),
            ProbeKind::Train { gap } => (Kind::Train, gap),
        };
        let (index, count) = (self.train, self.order.kind.packets());
        if index == 0 {
            self.train_at = now;
            self.next_at = now;
        }
        self.train += 1;
        // Relative to the schedule, so that a packet that leaves late does not delay the others.
        self.next_at += gap;
        if kind == Kind::Train && !gap.is_zero() {
            let span = now.duration_since(self.train_at);
            self.found[at].sent = ProbeKind::rate(u64::from(self.train), span);
        }
        if self.train == count {
            self.queue.pop_front();
            self.train = 0;
            self.next_at = now + if kind == Kind::Train { TRAIN_PAUSE } else { PACE };
        }
        // A pong returns the index, which gives the round to which it belongs.
        let index = if kind == Kind::Ping { self.rounds as u16 } else { index };
        let (to, order) = (self.found[at].target, self.order.id);
        ProbePacket { kind, from: me, to, order, index, count, stamp, span: 0, bytes: 0 }
    }

    /// Returns the time of the next step.
    fn due(&self) -> Instant {
        if !self.queue.is_empty() {
            return self.next_at;
        }
        let is_complete = self.found.iter().all(|found| found.round_trip.is_some());
        match self.order.kind {
            ProbeKind::RoundTrip if self.wants_more() => self.next_at.max(self.round_at + ROUND),
            // The last round may still improve the results.
            ProbeKind::RoundTrip if is_complete => {
                let slowest = self.found.iter().filter_map(|found| found.round_trip).max();
                self.next_at + slowest.unwrap_or_default().min(PATIENCE) + ROUND
            }
            ProbeKind::Train { .. } if is_complete => self.next_at,
            _ => self.next_at + PATIENCE,
        }
    }

    /// Whether another round of pings may improve the results.
    fn wants_more(&self) -> bool {
        self.rounds < (self.improved + PINGS).min(PINGS_MAX)
            && (0..self.found.len()).any(|at| self.keeps_up(at))
    }

    /// Whether a target has answered a ping of the last [`PINGS`] rounds.
    fn keeps_up(&self, at: usize) -> bool {
        self.rounds - self.answered[at] < PINGS
    }

    /// Starts another round. Returns whether it has targets.
    fn begin_round(&mut self, now: Instant) -> bool {
        let silent = |at: &usize| self.found[*at].round_trip.is_none();
        let all = 0..self.found.len();
        if self.order.kind == ProbeKind::RoundTrip && self.wants_more() {
            self.queue = all.filter(|&at| self.keeps_up(at)).collect();
        } else if !self.is_second_try {
            self.is_second_try = true;
            self.queue = all.filter(silent).collect();
        }
        self.rounds += 1;
        self.round_at = now;
        self.next_at = now;
        !self.queue.is_empty()
    }
}

#[cfg(test)]
mod tests;
