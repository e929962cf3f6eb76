//! Measurements between nodes, packet by packet, over the modelled network.

use gridspan_runtime::message::probe::{ProbeKind, ProbeOrder, Probed};
use gridspan_runtime::{NodeId, PeId, Time};
use gridspan_topology::NodeLinks;
use std::collections::BTreeMap;
use std::time::Duration;

/// The bytes of a ping, and of the answer to a train.
const PING_BYTES: u64 = 62;
/// Number of pings to each target; the least round trip counts.
const PINGS: u64 = 4;
/// Time between two pings to one target.
const ROUND: Duration = Duration::from_millis(10);
/// Time to wait for the last answers after the last packet.
const PATIENCE: Duration = Duration::from_millis(1_500);

/// An event of one packet that an order sends to a target.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Step {
    order: u64,
    target: usize,
    what: What,
}

#[derive(Clone, Copy, Debug)]
enum What {
    /// A packet leaves; it may be the last of a train.
    Leave { is_last: bool },
    /// A packet that left at time `left` has arrived.
    Arrive { left: Time, is_last: bool },
    /// The answer is back.
    Answer { left: Time },
    /// Answers that are not back by now count as lost.
    GiveUp,
}

/// An order in execution.
struct Running {
    pe: PeId,
    from: NodeId,
    order: ProbeOrder,
    found: Vec<Probed>,
    /// The first and the last arrival of each target's train, and the number of packets that
    /// arrived.
    trains: Vec<(Time, Time, u64)>,
    /// Number of answers that are not back: one for each ping or train.
    open: u64,
}

/// The results of an order.
pub(crate) struct Report {
    pub(crate) pe: PeId,
    pub(crate) id: u64,
    pub(crate) found: Vec<Probed>,
}

/// All orders in execution.
#[derive(Default)]
pub(crate) struct Probing {
    running: BTreeMap<u64, Running>,
}

impl Probing {
    /// Starts an order of a PE of node `from`. Returns its events with their times.
    pub(crate) fn begin(
        &mut self,
        now: Time,
        (pe, from): (PeId, NodeId),
        order: ProbeOrder,
    ) -> Vec<(Time, Step)> {
        let mut steps = Vec::new();
        let (packets, gap) = match order.kind {
            ProbeKind::RoundTrip => (PINGS, ROUND),
            ProbeKind::Train { gap } => (u64::from(order.kind.packets()), gap),
        };
        let is_train = order.kind != ProbeKind::RoundTrip;
        for target in 0..order.targets.len() {
            for packet in 0..packets {
                let is_last = packet + 1 == packets;
                let step = Step { order: order.id, target, what: What::Leave { is_last } };
                steps.push((now + gap * packet as u32, step));
            }
        }
        let targets = order.targets.len();
        let end = now + gap * packets as u32 + PATIENCE;
        steps.push((end, Step { order: order.id, target: 0, what: What::GiveUp }));
        let running = Running {
            pe,
            from,
            found: order.targets.iter().map(|&target| Probed::nothing(target)).collect(),
            trains: vec![(Time::MAX, Time::ZERO, 0); targets],
            open: targets as u64 * if is_train { 1 } else { packets },
            order,
        };
        self.running.insert(running.order.id, running);
        steps
    }

    /// Handles an event of a packet. Returns the next event, and the results of the order if it is
    /// complete.
    pub(crate) fn step(
        &mut self,
        now: Time,
        step: Step,
        network: &mut NodeLinks,
    ) -> (Option<(Time, Step)>, Option<Report>) {
        let Some(running) = self.running.get_mut(&step.order) else { return (None, None) };
        let (from, to) = (running.from, running.found[step.target].target);
        let is_train = running.order.kind != ProbeKind::RoundTrip;
        let mut next = None;
        match step.what {
            What::Leave { is_last } => {
                let bytes = if is_train { ProbeKind::TRAIN_BYTES } else { PING_BYTES };
                let arrives = network.carry(now, from, to, bytes);
                next = arrives.map(|at| (at, What::Arrive { left: now, is_last }));
            }
            What::Arrive { left, is_last } => {
                let (first, last, packets) = &mut running.trains[step.target];
                (*first, *last, *packets) = ((*first).min(now), now, *packets + 1);
                if !is_train || is_last {
                    let back = network.carry(now, to, from, PING_BYTES);
                    next = back.map(|at| (at, What::Answer { left }));
                }
            }
            What::Answer { left } => {
                running.note(step.target, now.since(left));
                running.open -= 1;
            }
            What::GiveUp => running.open = 0,
        }
        let report = if running.open == 0 { self.running.remove(&step.order) } else { None };
        let report =
            report.map(|Running { pe, order, found, .. }| Report { pe, id: order.id, found });
        (next.map(|(at, what)| (at, Step { what, ..step })), report)
    }
}

impl Running {
    fn note(&mut self, target: usize, round_trip: Duration) {
        let found = &mut self.found[target];
        found.round_trip = Some(found.round_trip.map_or(round_trip, |best| best.min(round_trip)));
        let (first, last, packets) = self.trains[target];
        if let ProbeKind::Train { gap } = self.order.kind {
            found.rate = ProbeKind::rate(packets, last.since(first));
            let sent = u64::from(self.order.kind.packets());
            found.sent = ProbeKind::rate(sent, gap * (sent - 1) as u32);
        }
    }
}
