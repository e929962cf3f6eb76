//! Connections between nodes, which can break, with the session machine on both ends.
//!
//! A connection behaves like one of the production transport. Small frames share one stream and
//! arrive in order; each bulk frame has a separate stream and may overtake others. While the
//! connection stands no frame is lost, but acknowledgements may be, and frames may arrive twice.
//! When it breaks, all frames under way are cut off; some of them arrive later. After an outage
//! each side reports the frames that it has received. Each side still accepts frames that arrive
//! while its report travels. If the link is cut, the connection breaks, and is established again
//! when the link changes.
//!
//! Every connection stands from the beginning, and breaks only while a frame is under way. So an
//! idle network has no events, and a stalled job is detected.

use crate::faults::{FaultCounts, SessionFaults};
use bytes::Bytes;
use gridspan_runtime::session::{Class, FrameVerdict, Received, Receiver, Sender, Session};
use gridspan_runtime::{NodeId, Time};
use gridspan_topology::NodeLinks;
use gridspan_topology::dice::Dice;
use std::collections::BTreeMap;
use std::time::Duration;

/// Maximum delay of an acknowledgement, which covers all frames until then.
const ACKNOWLEDGEMENT_DELAY_MAX: Duration = Duration::from_millis(2);
/// Time from a lost acknowledgement to the next one.
const ACKNOWLEDGEMENT_AGAIN: Duration = Duration::from_millis(20);
/// Maximum extra delay of a bulk frame.
const BULK_DELAY_MAX: Duration = Duration::from_millis(5);

/// The sender and the receiver of frames.
type Way = (NodeId, NodeId);

pub(crate) enum ConnectionEvent {
    /// A bulk frame begins to arrive.
    Begins { way: Way, life: u64, number: u64 },
    /// A whole frame arrives. If `late`, it is a copy, or was cut off, and may arrive over a later
    /// connection.
    Arrives { way: Way, life: u64, class: Class, number: u64, frame: Bytes, late: bool },
    /// An acknowledgement of the frames that arrived this way is due.
    AcknowledgeNow { way: Way },
    /// The acknowledgement arrives.
    Acknowledged { way: Way, received: Received },
    /// The connection between two nodes breaks, or all between their sites.
    Breaks { way: Way, life: u64 },
    /// The connection is established again.
    Connects { way: Way, life: u64 },
    /// The sender receives the report of the receiver over the new connection.
    Resumes { way: Way, life: u64, received: Received },
}

/// A command to the simulation.
pub(crate) enum Command {
    /// Schedule an event at this time.
    Schedule(Time, ConnectionEvent),
    /// Deliver a frame that arrived this way.
    Deliver(Way, Bytes),
    /// The session violated its guarantee.
    Fail(String),
}

/// One direction of a connection: the sender on one node and the receiver on the other.
struct Direction {
    sender: Sender,
    receiver: Receiver,
    /// Whether the sender may write.
    open: bool,
    acknowledging: bool,
    /// When the last small frame arrives. Packets of a stream may be reordered, but not its frames.
    small_until: Time,
}

pub(crate) struct Connections {
    faults: SessionFaults,
    dice: Dice,
    directions: BTreeMap<Way, Direction>,
    /// Number of times that the connection between two nodes broke. The lower node comes first.
    lives: BTreeMap<Way, u64>,
    pub(crate) counts: FaultCounts,
    commands: Vec<Command>,
}

/// The two ends, the lower first.
fn pair((from, to): Way) -> Way {
    (from.min(to), from.max(to))
}

impl Connections {
    pub(crate) fn new(faults: SessionFaults, seed: u64) -> Self {
        Self {
            faults,
            dice: Dice::new(seed ^ 0x7365_7373_696f_6e73),
            directions: BTreeMap::new(),
            lives: BTreeMap::new(),
            counts: FaultCounts::default(),
            commands: Vec::new(),
        }
    }

    /// Takes the commands of the last call, in order.
    pub(crate) fn take_commands(&mut self) -> Vec<Command> {
        std::mem::take(&mut self.commands)
    }

    /// Queues a frame for another node, and writes queued frames.
    pub(crate) fn send(&mut self, now: Time, way: Way, frame: Bytes, network: &mut NodeLinks) {
        let class = match frame.len() < self.faults.bulk_bytes {
            true => Class::Small,
            false => Class::Bulk,
        };
        let direction = self.direction(way);
        if let Err(error) = direction.sender.push(class, frame) {
            self.commands.push(Command::Fail(error.to_string()));
        }
        self.write(now, way, network);
    }

    /// Handles a scheduled event.
    pub(crate) fn handle(&mut self, now: Time, event: ConnectionEvent, network: &mut NodeLinks) {
        match event {
            ConnectionEvent::Begins { way, life, number } => {
                if life == self.life(way) {
                    self.direction(way).receiver.begin_bulk(number);
                    self.acknowledge_soon(now, way);
                }
            }
            ConnectionEvent::Arrives { way, life, class, number, frame, late } => {
                if life == self.life(way) || late {
                    self.arrive(now, way, class, number, frame, late);
                } else {
                    self.cut_off(
                        now,
                        ConnectionEvent::Arrives { way, life, class, number, frame, late },
                    );
                }
            }
            ConnectionEvent::AcknowledgeNow { way } => self.acknowledge(now, way, network),
            ConnectionEvent::Acknowledged { way, received } => {
                if let Err(error) = self.direction(way).sender.acknowledge(&received) {
                    self.commands.push(Command::Fail(error.to_string()));
                }
                self.write(now, way, network);
            }
            ConnectionEvent::Breaks { way, life } => self.break_connection(now, way, life, network),
            ConnectionEvent::Connects { way, life } => {
                if life == self.life(way) {
                    for way in [way, (way.1, way.0)] {
                        let received = self.direction(way).receiver.resume();
                        let at = now + network.latency(way.1, way.0);
                        self.schedule(at, ConnectionEvent::Resumes { way, life, received });
                    }
                }
            }
            ConnectionEvent::Resumes { way, life, received } => {
                if life == self.life(way) {
                    let direction = self.direction(way);
                    direction.open = true;
                    if let Err(error) = direction.sender.resume(&received) {
                        self.commands.push(Command::Fail(error.to_string()));
                    }
                    self.write(now, way, network);
                }
            }
        }
    }

    fn schedule(&mut self, at: Time, event: ConnectionEvent) {
        self.commands.push(Command::Schedule(at, event));
    }

    fn life(&self, way: Way) -> u64 {
        self.lives.get(&pair(way)).copied().unwrap_or_default()
    }

    fn direction(&mut self, way: Way) -> &mut Direction {
        let planted = self.faults.planted;
        self.directions.entry(way).or_insert_with(|| {
            // Each direction has one half of the session on each of its two nodes.
            let Session { sender, receiver } = Session::new(u64::MAX, planted);
            Direction {
                sender,
                receiver,
                open: true,
                acknowledging: false,
                small_until: Time::ZERO,
            }
        })
    }

    /// Writes the queued frames to the connection, if it stands.
    fn write(&mut self, now: Time, way: Way, network: &mut NodeLinks) {
        let life = self.life(way);
        for class in [Class::Small, Class::Bulk] {
            loop {
                let direction = self.direction(way);
                if !direction.open {
                    return;
                }
                let Some((number, frame)) = direction.sender.next(class) else { break };
                self.put_on_the_way(now, way, life, (class, number, frame.into_bytes()), network);
            }
        }
    }

    fn put_on_the_way(
        &mut self,
        now: Time,
        way: Way,
        life: u64,
        (class, number, frame): (Class, u64, Bytes),
        network: &mut NodeLinks,
    ) {
        let Some(mut at) = network.carry(now, way.0, way.1, frame.len() as u64) else {
            // The link is cut. Until it changes, frames wait at the sender.
            let again = network.spec().next_change(now, way.0, way.1);
            return self.lose(way, again, network);
        };
        if class == Class::Bulk {
            at += self.dice.up_to(BULK_DELAY_MAX);
            let begins = now + self.dice.up_to(at.since(now));
            self.schedule(begins, ConnectionEvent::Begins { way, life, number });
        } else {
            let until = &mut self.direction(way).small_until;
            at = at.max(*until);
            *until = at;
        }
        if self.dice.chance(self.faults.disconnect) {
            let breaks = now + self.dice.up_to(at.since(now));
            self.schedule(breaks, ConnectionEvent::Breaks { way, life });
        }
        if self.dice.chance(self.faults.duplicate) {
            self.counts.duplicated += 1;
            let again = at + self.dice.up_to(self.faults.outage_max);
            let (frame, late) = (frame.clone(), true);
            self.schedule(
                again,
                ConnectionEvent::Arrives { way, life, class, number, frame, late },
            );
        }
        let late = false;
        self.schedule(at, ConnectionEvent::Arrives { way, life, class, number, frame, late });
    }

    fn arrive(&mut self, now: Time, way: Way, class: Class, number: u64, frame: Bytes, late: bool) {
        let receiver = &mut self.direction(way).receiver;
        // A stream delivers nothing behind a gap. A late frame is not part of the stream.
        if late && class == Class::Small && number >= receiver.received().small {
            return;
        }
        match receiver.accept(class, number, frame.len() as u64) {
            FrameVerdict::Deliver => {
                self.commands.push(Command::Deliver(way, frame));
                self.acknowledge_soon(now, way);
            }
            FrameVerdict::Duplicate => {}
            FrameVerdict::OutOfOrder { expected } => {
                let (from, to) = way;
                self.commands.push(Command::Fail(format!(
                    "the session from {from} to {to} got {class:?} frame {number} when {expected} was due"
                )));
            }
        }
    }

    /// Cuts off a frame that was under way when its connection broke. It may still arrive later.
    fn cut_off(&mut self, now: Time, event: ConnectionEvent) {
        self.counts.cut_off += 1;
        if let ConnectionEvent::Arrives { way, life, class, number, frame, .. } = event
            && self.dice.chance(self.faults.late)
        {
            self.counts.late += 1;
            let at = now + self.dice.up_to(self.faults.outage_max * 2);
            let late = true;
            self.schedule(at, ConnectionEvent::Arrives { way, life, class, number, frame, late });
        }
    }

    fn acknowledge_soon(&mut self, now: Time, way: Way) {
        let direction = self.direction(way);
        if !direction.acknowledging {
            direction.acknowledging = true;
            let at = now + self.dice.up_to(ACKNOWLEDGEMENT_DELAY_MAX);
            self.schedule(at, ConnectionEvent::AcknowledgeNow { way });
        }
    }

    fn acknowledge(&mut self, now: Time, way: Way, network: &NodeLinks) {
        let direction = self.direction(way);
        direction.acknowledging = false;
        let received = direction.receiver.received().clone();
        direction.receiver.acknowledged();
        if self.dice.chance(self.faults.acknowledgement_loss) {
            self.counts.acknowledgements_lost += 1;
            self.direction(way).acknowledging = true;
            return self
                .schedule(now + ACKNOWLEDGEMENT_AGAIN, ConnectionEvent::AcknowledgeNow { way });
        }
        let at = now + network.latency(way.1, way.0);
        if self.dice.chance(self.faults.duplicate) {
            self.counts.duplicated += 1;
            let again = at + self.dice.up_to(self.faults.outage_max);
            let received = received.clone();
            self.schedule(again, ConnectionEvent::Acknowledged { way, received });
        }
        self.schedule(at, ConnectionEvent::Acknowledged { way, received });
    }

    fn break_connection(&mut self, now: Time, way: Way, life: u64, network: &mut NodeLinks) {
        if life != self.life(way) || !self.direction(way).open {
            return;
        }
        let spec = network.spec();
        let is_partition =
            spec.is_wide_area(way.0, way.1) && self.dice.chance(self.faults.partition);
        if !is_partition {
            let at = now + self.dice.up_to(self.faults.outage_max);
            return self.lose(way, Some(at), network);
        }
        self.counts.partitions += 1;
        let layout = spec.layout();
        let [here, there] = [way.0, way.1].map(|node| layout.site_of_node(node));
        let ways = layout
            .nodes_in(here)
            .flat_map(|one| layout.nodes_in(there).map(move |other| (one, other)));
        let ways: Vec<Way> = ways.collect();
        let at = now + self.dice.up_to(self.faults.partition_max);
        for way in ways {
            if self.direction(way).open {
                self.lose(way, Some(at), network);
            }
        }
    }

    /// Breaks a connection and establishes it at `again`, if it is given.
    fn lose(&mut self, way: Way, again: Option<Time>, network: &mut NodeLinks) {
        self.counts.disconnects += 1;
        let lives = self.lives.entry(pair(way)).or_default();
        *lives += 1;
        let life = *lives;
        for way in [way, (way.1, way.0)] {
            self.direction(way).open = false;
            network.forget_order(way.0, way.1);
        }
        if let Some(again) = again {
            self.schedule(again, ConnectionEvent::Connects { way, life });
        }
    }
}
