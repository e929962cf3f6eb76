//! Replays the graph of a job on a grid, event by event (trace-driven simulation, as by Zheng,
//! Kakulapati and Kalé, "BigSim: A Parallel Simulator for Performance Prediction of Extremely Large
//! Parallel Machines", IPDPS 2004).
//!
//! A free PE takes the ready message that the runtime would take: messages without a step first,
//! then those of the oldest step, and among equals the one that came first. It accepts the packets
//! that have arrived, handles the message, and if that completes a firing of the actor, computes
//! that, too. Then its messages leave, all those to one PE as a packet, one packet after the other.
//! The model of links is that of the simulator.

use crate::costs::Costs;
use crate::error::ForecastError;
use crate::growth::Growth;
use crate::trace::{JobTrace, NO_BARRIER, Request};
use gridspan_topology::{GridSpec, Layout, NodeId, NodeLinks, PeId, SiteId, Time};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};

/// The PE of main.
const MAIN: usize = 0;

/// A job to replay, with its grid and the places of its actors.
pub(crate) struct Setting<'a> {
    /// The graph of the job.
    pub(crate) trace: &'a JobTrace,
    /// The costs of its messages.
    pub(crate) costs: &'a Costs,
    /// Factors of the compute time of handlers and of the bytes of messages.
    pub(crate) growth: &'a Growth,
    pub(crate) grid: &'a GridSpec,
    /// The PE of each actor.
    pub(crate) places: &'a [u32],
}

/// The results of a replay. Times are in nanoseconds since the start.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Replayed {
    /// When the job ended.
    pub(crate) end_ns: u64,
    /// When each round was done.
    pub(crate) round_done_ns: Vec<u64>,
    /// Time of each PE in handlers.
    pub(crate) busy_ns: Vec<f64>,
    /// Packets and bytes from one site to another.
    pub(crate) links: BTreeMap<(SiteId, SiteId), (u64, u64)>,
}

/// Replays a job.
pub(crate) fn replay(setting: &Setting<'_>) -> Result<Replayed, ForecastError> {
    let mut replay = Replay::new(setting);
    replay.pass_barriers();
    while let Some(Reverse((now, _, event))) = replay.events.pop() {
        match event {
            Event::Arrived { pe, messages } => replay.arrive(now, pe as usize, messages, true),
            Event::Due { pe, handling } => replay.arrive(now, pe as usize, vec![handling], false),
            Event::Ended { pe } => replay.end(now, pe as usize)?,
            Event::Free { pe } => {
                replay.pes[pe as usize].is_busy = false;
                replay.begin(now, pe as usize);
            }
            Event::Barrier { number } => replay.send_from_main(now, number)?,
        }
    }
    if replay.barrier < setting.trace.barriers.len() {
        let handlings = setting.trace.handlings.len() as u64 - replay.handled;
        return Err(ForecastError::Stuck { handlings });
    }
    replay.found.end_ns = replay.passed_ns;
    Ok(replay.found)
}

/// An event of the replay.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    /// A packet arrives at a PE.
    Arrived { pe: u32, messages: Vec<u32> },
    /// A timer of a PE sends a message.
    Due { pe: u32, handling: u32 },
    /// The handler of a PE ends.
    Ended { pe: u32 },
    /// A PE has sent the messages of its handler.
    Free { pe: u32 },
    /// Main sends the messages after a barrier.
    Barrier { number: u32 },
}

/// A PE.
#[derive(Default)]
struct Processor {
    speed: f64,
    /// Ready messages: step, number of arrival, handling.
    ready: BinaryHeap<Reverse<(Option<u64>, u64, u32)>>,
    /// Packets that have arrived and are not accepted yet.
    packets: u32,
    is_busy: bool,
    /// The running handling, and the handlings of the messages that it will send.
    running: Option<(u32, Vec<u32>)>,
}

struct Replay<'a> {
    setting: &'a Setting<'a>,
    layout: &'a Layout,
    links: NodeLinks,
    pes: Vec<Processor>,
    /// Number of handlings that each firing still needs.
    needs: Vec<u32>,
    /// The next firing of each actor.
    next_firing: Vec<u32>,
    /// For each barrier, the number of handlings for which it still waits.
    waits: Vec<u32>,
    /// For each barrier, when main knows of all its handlings that have ended; 0 before the first.
    known_ns: Vec<u64>,
    /// The next barrier.
    barrier: usize,
    /// When the last barrier was passed.
    passed_ns: u64,
    /// When each barrier was passed.
    passed: Vec<u64>,
    longest_round_trip_ns: f64,
    events: BinaryHeap<Reverse<(u64, u64, Event)>>,
    /// Number of the next event or arrival.
    next: u64,
    handled: u64,
    found: Replayed,
}

impl<'a> Replay<'a> {
    fn new(setting: &'a Setting<'a>) -> Self {
        let (trace, layout) = (setting.trace, setting.grid.layout());
        let processor = |pe: PeId| Processor {
            speed: setting.grid.speed(layout.node_of(pe)).factor(),
            ..Processor::default()
        };
        let mut replay = Self {
            setting,
            layout,
            links: NodeLinks::new(setting.grid.clone(), 0),
            pes: layout.pes().map(processor).collect(),
            needs: trace.firings.iter().map(|firing| firing.needs).collect(),
            next_firing: trace.actors.iter().map(|actor| actor.firings.start).collect(),
            waits: trace.barriers.iter().map(|barrier| barrier.waits).collect(),
            known_ns: vec![0; trace.barriers.len()],
            barrier: 0,
            passed_ns: 0,
            passed: Vec::with_capacity(trace.barriers.len()),
            longest_round_trip_ns: 0.0,
            events: BinaryHeap::new(),
            next: 0,
            handled: 0,
            found: Replayed {
                round_done_ns: vec![0; trace.rounds as usize],
                busy_ns: vec![0.0; layout.pe_count() as usize],
                ..Replayed::default()
            },
        };
        let trips = layout.pes().map(|pe| {
            let pe = pe.0 as usize;
            replay.latency_ns(MAIN, pe) + replay.latency_ns(pe, MAIN)
        });
        replay.longest_round_trip_ns = trips.max().unwrap_or(0) as f64;
        replay
    }

    fn node(&self, pe: usize) -> NodeId {
        self.layout.node_of(PeId(pe as u32))
    }

    /// Latency from one PE to another.
    fn latency_ns(&self, from: usize, to: usize) -> u64 {
        let latency = match (self.node(from), self.node(to)) {
            _ if from == to => return 0,
            (one, other) if one == other => self.setting.grid.loopback(),
            (one, other) => self.setting.grid.link(one, other).latency,
        };
        u64::try_from(latency.duration().as_nanos()).unwrap_or(u64::MAX)
    }

    fn schedule(&mut self, at: u64, event: Event) {
        self.events.push(Reverse((at, self.next, event)));
        self.next += 1;
    }

    /// Adds messages that are ready on a PE.
    fn arrive(&mut self, now: u64, pe: usize, messages: Vec<u32>, is_packet: bool) {
        self.pes[pe].packets += u32::from(is_packet);
        messages.into_iter().for_each(|handling| self.make_ready(pe, handling));
        self.begin(now, pe);
    }

    /// Adds a message to those that are ready on a PE.
    fn make_ready(&mut self, pe: usize, handling: u32) {
        let step = self.setting.trace.handlings[handling as usize].step;
        self.pes[pe].ready.push(Reverse((step, self.next, handling)));
        self.next += 1;
    }

    /// Begins the next handler of a PE, if it is free and has a message.
    fn begin(&mut self, now: u64, pe: usize) {
        if self.pes[pe].is_busy {
            return;
        }
        let Some(Reverse((_, _, handling))) = self.pes[pe].ready.pop() else { return };
        let trace = self.setting.trace;
        let of = &trace.handlings[handling as usize];
        let mut work = of.work_ns;
        let mut sends = Vec::new();
        let mut round = of.round;
        for firing in self.fire(of.actor, of.needed_by) {
            let firing = &trace.firings[firing as usize];
            work += firing.work_ns;
            sends.extend_from_slice(&firing.sends);
            round = round.max(firing.round);
        }
        let processor = &mut self.pes[pe];
        let speed = processor.speed;
        let accepting =
            f64::from(std::mem::take(&mut processor.packets)) * self.setting.costs.packet_ns;
        let work = work * self.setting.growth.work_of(trace.kind_of(of.actor));
        processor.is_busy = true;
        processor.running = Some((handling, sends));
        self.found.busy_ns[pe] += work / speed;
        let ends = now.saturating_add(((accepting + work) / speed) as u64);
        if let Some(round) = round {
            let done = &mut self.found.round_done_ns[round as usize];
            *done = (*done).max(ends);
        }
        self.schedule(ends, Event::Ended { pe: pe as u32 });
    }

    /// Counts a handling, and returns the firings of its actor that it completes.
    fn fire(&mut self, actor: u32, needed_by: u32) -> std::ops::Range<u32> {
        let trace = self.setting.trace;
        self.needs[needed_by as usize] = self.needs[needed_by as usize].saturating_sub(1);
        if trace.firings[needed_by as usize].is_independent {
            return needed_by..needed_by + 1;
        }
        let first = self.next_firing[actor as usize];
        let end = trace.actors[actor as usize].firings.end;
        let mut next = first;
        while next < end && self.needs[next as usize] == 0 {
            next += 1;
        }
        self.next_firing[actor as usize] = next;
        first..next
    }

    /// Ends the handler of a PE.
    fn end(&mut self, now: u64, pe: usize) -> Result<(), ForecastError> {
        let Some((handling, sends)) = self.pes[pe].running.take() else { return Ok(()) };
        self.handled += 1;
        let leaves = self.send(now, pe, &sends)?;
        let barrier = self.setting.trace.handlings[handling as usize].barrier;
        if barrier != NO_BARRIER {
            let barrier = barrier as usize;
            self.waits[barrier] = self.waits[barrier].saturating_sub(1);
            let known = leaves.saturating_add(self.latency_ns(pe, MAIN));
            self.known_ns[barrier] = self.known_ns[barrier].max(known);
            self.pass_barriers();
        }
        self.schedule(leaves, Event::Free { pe: pe as u32 });
        Ok(())
    }

    /// Sends messages of a handler that has ended. Returns when the last packet has left.
    fn send(&mut self, now: u64, pe: usize, sends: &[u32]) -> Result<u64, ForecastError> {
        let packet_ns = self.setting.costs.packet_ns / self.pes[pe].speed;
        let (mut sent, mut leaves) = (0.0, now);
        let mut crossed = BTreeSet::new();
        for (to, messages) in self.packets(sends) {
            if to == pe {
                self.arrive_here(now, pe, messages);
                continue;
            }
            sent += 1.0;
            leaves = now.saturating_add((packet_ns * sent) as u64);
            let bytes = self.bytes(pe, to, &messages, &mut crossed);
            self.carry(leaves, pe, to, messages, bytes)?;
        }
        Ok(leaves)
    }

    /// Groups messages by the PEs of their receivers.
    fn packets(&self, sends: &[u32]) -> BTreeMap<usize, Vec<u32>> {
        let mut packets: BTreeMap<usize, Vec<u32>> = BTreeMap::new();
        for handling in sends {
            let actor = self.setting.trace.handlings[*handling as usize].actor;
            let to = self.setting.places[actor as usize] as usize;
            packets.entry(to).or_default().push(*handling);
        }
        packets
    }

    /// Makes messages of a PE to itself ready at once, and those of timers after their delay.
    fn arrive_here(&mut self, now: u64, pe: usize, messages: Vec<u32>) {
        for handling in messages {
            match self.setting.trace.handlings[handling as usize].delay_ns {
                0 => self.make_ready(pe, handling),
                delay_ns => {
                    let due = now.saturating_add(delay_ns);
                    self.schedule(due, Event::Due { pe: pe as u32, handling });
                }
            }
        }
    }

    /// Bytes of a packet. A message that is sent once for many receivers crosses the link to a site
    /// with the first packet there: `crossed` has the types of these messages and the sites.
    fn bytes(
        &self,
        from: usize,
        to: usize,
        messages: &[u32],
        crossed: &mut BTreeSet<((u32, u32), SiteId)>,
    ) -> u64 {
        let trace = self.setting.trace;
        let site = self.layout.site_of(PeId(to as u32));
        let is_far = site != self.layout.site_of(PeId(from as u32));
        let mut casts_here = BTreeSet::new();
        let mut bytes = 0.0;
        for handling in messages {
            let of = &trace.handlings[*handling as usize];
            let kind = trace.kind_of(of.actor);
            let size = of.bytes as f64 * self.setting.growth.bytes_of(kind);
            let pair = of.from_kind.map(|from| (from, kind));
            match pair.filter(|pair| self.setting.costs.casts.contains(pair)) {
                // A cast comes to a PE once, whatever the number of its receivers there.
                Some(pair) if !casts_here.insert(pair) => {}
                Some(pair) if is_far && !crossed.insert((pair, site)) => {}
                _ => bytes += size,
            }
        }
        bytes as u64
    }

    /// Carries a packet to another PE.
    fn carry(
        &mut self,
        leaves: u64,
        from: usize,
        to: usize,
        messages: Vec<u32>,
        bytes: u64,
    ) -> Result<(), ForecastError> {
        let (here, there) = (self.node(from), self.node(to));
        let arrived = Event::Arrived { pe: to as u32, messages };
        if here == there {
            self.schedule(leaves.saturating_add(self.latency_ns(from, to)), arrived);
            return Ok(());
        }
        let sites = (self.layout.site_of_node(here), self.layout.site_of_node(there));
        let Some(at) = self.links.carry(Time(leaves), here, there, bytes) else {
            let name = |site| self.layout.site_name(site).to_owned();
            return Err(ForecastError::CutLink { from: name(sites.0), to: name(sites.1) });
        };
        if sites.0 != sites.1 {
            let link = self.found.links.entry(sites).or_default();
            *link = (link.0 + 1, link.1.saturating_add(bytes));
        }
        self.schedule(at.0.saturating_add(self.setting.costs.delay_ns as u64), arrived);
        Ok(())
    }

    /// Passes the barriers that no longer wait for anything.
    fn pass_barriers(&mut self) {
        let trace = self.setting.trace;
        while let Some(barrier) = trace.barriers.get(self.barrier)
            && self.waits[self.barrier] == 0
        {
            let known = self.passed_ns.max(self.known_ns[self.barrier]);
            let ready = known.saturating_add(self.round_trips_ns(barrier.round_trips));
            let answered = barrier.request.map_or(0, |request| self.answered_ns(request));
            self.passed_ns = ready.max(answered).saturating_add(barrier.rest_ns as u64);
            self.passed.push(self.passed_ns);
            let number = self.barrier as u32;
            self.barrier += 1;
            if !barrier.sends.is_empty() {
                self.schedule(self.passed_ns, Event::Barrier { number });
            }
        }
    }

    /// When a request of main is answered at the earliest.
    fn answered_ns(&self, request: Request) -> u64 {
        let after = request.after.and_then(|barrier| self.passed.get(barrier as usize));
        let asked = after.copied().unwrap_or(0).saturating_add(request.since_ns);
        asked.saturating_add(self.round_trips_ns(request.round_trips))
    }

    fn round_trips_ns(&self, count: u32) -> u64 {
        (f64::from(count) * self.longest_round_trip_ns) as u64
    }

    /// Sends the messages of main after a barrier. This takes no time of main's PE.
    fn send_from_main(&mut self, now: u64, number: u32) -> Result<(), ForecastError> {
        let trace = self.setting.trace;
        for (to, messages) in self.packets(&trace.barriers[number as usize].sends) {
            if to == MAIN {
                self.arrive(now, to, messages, false);
                continue;
            }
            // All receivers get the same message of main, which travels to each PE once.
            let bytes = messages.iter().map(|at| trace.handlings[*at as usize].bytes).max();
            self.carry(now, MAIN, to, messages, bytes.unwrap_or(0))?;
        }
        Ok(())
    }
}
