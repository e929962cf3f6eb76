//! Simulates the nodes and links of an experiment, event by event.

use super::{StealingExperiment, Tally};
use gridspan_balance::stealing::{
    Command, Grant, StealMessage, Stealing, UnknownStealingPolicy, stealing_policy,
};
use gridspan_topology::{NodeId, Time};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::Arc;
use std::time::Duration;

/// Time within which all nodes learn of a loss, at different times.
const DETECTION: Duration = Duration::from_millis(2);

/// Runs the experiment.
pub(super) fn run(
    experiment: &StealingExperiment,
    policy: &str,
) -> Result<Tally, UnknownStealingPolicy> {
    let mut engine = Engine::new(experiment, policy)?;
    for batch in 0..experiment.batches {
        engine.begin(batch);
        while engine.left > 0 && engine.step(Time::MAX) {}
    }
    engine.tally.done = engine.done;
    engine.tally.makespan = engine.now.since(Time::ZERO);
    let work = experiment.task.as_secs_f64() * engine.done as f64 / f64::from(experiment.nodes);
    engine.tally.efficiency = work / engine.tally.makespan.as_secs_f64();
    let counted = engine.tally.clone();
    let half = engine.now + experiment.idling / 2;
    while engine.step(half) {}
    let before = engine.tally.messages_all;
    while engine.step(half + experiment.idling / 2) {}
    Ok(Tally { messages_idling: engine.tally.messages_all - before, ..counted })
}

/// An event of a node.
enum What {
    /// A packet has arrived. It waits while the node handles earlier packets.
    Arrives(Packet),
    /// The node starts to handle a packet.
    Handles(Packet),
    /// A task is done.
    Done,
    /// The n-th timeout that the state machine has set expires.
    Wakes(u64),
    /// The node is lost.
    Dies,
    /// The node learns that another node is lost.
    Hears(NodeId),
}

struct Packet {
    from: NodeId,
    content: Content,
}

enum Content {
    Message(StealMessage),
    Tasks(u64, Grant),
}

/// One node: a queue of tasks, a worker, and the state machine under test.
struct Node {
    machine: Stealing,
    queue: u64,
    done: u64,
    is_busy: bool,
    is_lost: bool,
    /// Time at which the handler has finished its queue.
    free: Time,
    wakings: u64,
}

struct Engine<'a> {
    experiment: &'a StealingExperiment,
    nodes: Vec<Node>,
    load: Vec<Vec<u64>>,
    now: Time,
    /// Events ordered by time and then by number, with their positions in `events`.
    agenda: BinaryHeap<Reverse<(Time, u64, usize)>>,
    events: Vec<Option<(NodeId, What)>>,
    unused: Vec<usize>,
    count: u64,
    /// Number of unfinished tasks of the batch.
    left: u64,
    /// Number of tasks of the batch that have not been started.
    open: u64,
    done: u64,
    tally: Tally,
}

impl<'a> Engine<'a> {
    fn new(
        experiment: &'a StealingExperiment,
        policy: &str,
    ) -> Result<Self, UnknownStealingPolicy> {
        let places = Arc::new(experiment.places());
        let node = |node: u32| {
            let policy = stealing_policy(policy)?;
            let machine =
                Stealing::new(policy, NodeId(node), 1, Arc::clone(&places), experiment.seed);
            let (is_busy, is_lost, free) = (false, false, Time::ZERO);
            Ok(Node { machine, queue: 0, done: 0, is_busy, is_lost, free, wakings: 0 })
        };
        let tasks = experiment.tasks_per_node * u64::from(experiment.nodes);
        let (batches, seed) = (experiment.batches, experiment.seed);
        let mut engine = Self {
            experiment,
            nodes: (0..experiment.nodes).map(node).collect::<Result<_, _>>()?,
            load: experiment.spread.batches(experiment.nodes, tasks, batches, seed),
            now: Time::ZERO,
            agenda: BinaryHeap::new(),
            events: Vec::new(),
            unused: Vec::new(),
            count: 0,
            left: 0,
            open: 0,
            done: 0,
            tally: Tally::default(),
        };
        for &(time, node) in &experiment.losses {
            engine.plan(time, node, What::Dies);
        }
        Ok(engine)
    }

    /// Makes the tasks of a batch appear.
    fn begin(&mut self, batch: usize) {
        for at in 0..self.nodes.len() {
            let tasks = self.load[batch][at];
            self.left += tasks;
            self.open += tasks;
        }
        for at in 0..self.nodes.len() {
            let node = self.alive(NodeId::from(at));
            self.appear(node, self.load[batch][at]);
            if batch == 0 && !self.nodes[at].is_busy && !self.nodes[at].is_lost {
                self.nodes[at].machine.handle_idle(self.now);
                self.carry_out(NodeId::from(at), self.now);
            }
        }
    }

    /// Returns this node, or the next node that is not lost.
    fn alive(&self, node: NodeId) -> NodeId {
        let count = self.nodes.len();
        let from = node.index();
        let alive = (from..from + count).find(|at| !self.nodes[at % count].is_lost);
        NodeId::from(alive.unwrap_or(from) % count)
    }

    fn appear(&mut self, at: NodeId, tasks: u64) {
        if tasks > 0 {
            let node = &mut self.nodes[at.index()];
            node.queue += tasks;
            self.run_one(at);
            let node = &mut self.nodes[at.index()];
            node.machine.handle_stock(self.now, node.queue);
            self.carry_out(at, self.now);
        }
    }

    fn run_one(&mut self, at: NodeId) {
        let node = &mut self.nodes[at.index()];
        if !node.is_busy && node.queue > 0 {
            node.is_busy = true;
            node.queue -= 1;
            self.open -= 1;
            self.plan(self.now + self.experiment.task, at, What::Done);
        }
    }

    fn plan(&mut self, time: Time, node: NodeId, what: What) {
        self.count += 1;
        let slot = self.unused.pop().unwrap_or(self.events.len());
        if slot == self.events.len() {
            self.events.push(None);
        }
        self.events[slot] = Some((node, what));
        self.agenda.push(Reverse((time, self.count, slot)));
    }

    /// Handles the next event if it is not later than `until`, and returns whether there was one.
    fn step(&mut self, until: Time) -> bool {
        let Some(&Reverse((time, _, slot))) = self.agenda.peek() else { return false };
        if time > until {
            return false;
        }
        self.agenda.pop();
        self.unused.push(slot);
        self.now = time;
        if let Some((at, what)) = self.events[slot].take() {
            self.happen(at, what);
        }
        true
    }

    fn happen(&mut self, at: NodeId, what: What) {
        let node = &mut self.nodes[at.index()];
        match what {
            What::Arrives(packet) if node.is_lost => self.save(&packet),
            What::Handles(packet) if node.is_lost => self.save(&packet),
            _ if node.is_lost => {}
            What::Arrives(packet) => {
                let begin = node.free.max(self.now);
                node.free = begin + StealingExperiment::HANDLER;
                if begin == self.now {
                    self.handle(at, packet);
                } else {
                    self.plan(begin, at, What::Handles(packet));
                }
            }
            What::Handles(packet) => self.handle(at, packet),
            What::Done => self.finish(at),
            What::Wakes(number) if number == node.wakings => {
                node.machine.handle_timeout(self.now);
                self.carry_out(at, self.now);
            }
            What::Wakes(_) => {}
            What::Dies => self.lose(at),
            What::Hears(lost) => {
                node.machine.handle_lost(self.now, lost);
                self.carry_out(at, self.now);
            }
        }
    }

    fn handle(&mut self, at: NodeId, Packet { from, content }: Packet) {
        match content {
            Content::Message(message) => {
                self.nodes[at.index()].machine.handle_message(self.now, from, message);
            }
            Content::Tasks(tasks, grant) => {
                self.nodes[at.index()].queue += tasks;
                self.run_one(at);
                let node = &mut self.nodes[at.index()];
                node.machine.handle_received(self.now, from, tasks, node.queue, grant);
            }
        }
        self.carry_out(at, self.now + StealingExperiment::HANDLER);
    }

    fn finish(&mut self, at: NodeId) {
        self.left -= 1;
        self.done += 1;
        self.nodes[at.index()].is_busy = false;
        self.run_one(at);
        let node = &mut self.nodes[at.index()];
        node.done += 1;
        node.machine.note_done(node.done);
        if !node.is_busy {
            node.machine.handle_idle(self.now);
        } else if node.queue == 0 || (node.queue + 1).is_power_of_two() {
            node.machine.handle_stock(self.now, node.queue);
        }
        self.carry_out(at, self.now);
    }

    /// Carries out the commands of the state machine. Its messages leave at `time`.
    fn carry_out(&mut self, at: NodeId, time: Time) {
        loop {
            let commands: Vec<Command> = self.nodes[at.index()].machine.commands().collect();
            if commands.is_empty() {
                return;
            }
            for command in commands {
                match command {
                    Command::Send { to, message } => {
                        let is_attempt = u64::from(message.is_attempt());
                        self.tally.attempts_all += is_attempt;
                        self.tally.attempts += if self.open > 0 { is_attempt } else { 0 };
                        self.send(at, to, Content::Message(message), time);
                    }
                    Command::Grant { to, amount, grant } => {
                        let node = &mut self.nodes[at.index()];
                        let tasks = amount.of(node.queue);
                        node.queue -= tasks;
                        node.machine.handle_given(self.now, to, tasks, node.queue, grant);
                        if tasks > 0 {
                            self.send(at, to, Content::Tasks(tasks, grant), time);
                        }
                    }
                    Command::WakeAt(due) => {
                        let node = &mut self.nodes[at.index()];
                        node.wakings += 1;
                        let number = node.wakings;
                        self.plan(due.max(self.now), at, What::Wakes(number));
                    }
                }
            }
        }
    }

    fn send(&mut self, from: NodeId, to: NodeId, content: Content, time: Time) {
        let is_open = u64::from(self.open > 0);
        let each = self.experiment.nodes / self.experiment.sites;
        let is_far = from.0 / each != to.0 / each;
        self.tally.messages_all += 1;
        self.tally.messages += is_open;
        self.tally.wide_area_all += u64::from(is_far);
        self.tally.wide_area += u64::from(is_far) * is_open;
        let way = if is_far { self.experiment.wide_area } else { StealingExperiment::LOCAL };
        self.plan(time + way, to, What::Arrives(Packet { from, content }));
    }

    fn lose(&mut self, at: NodeId) {
        let node = &mut self.nodes[at.index()];
        node.is_lost = true;
        let waiting = std::mem::take(&mut node.queue);
        let running = u64::from(std::mem::take(&mut node.is_busy));
        self.open += running;
        for other in 0..self.nodes.len() {
            let part = other as u32 * 7919 % 97;
            let time = self.now + DETECTION * part / 97;
            self.plan(time, NodeId::from(other), What::Hears(at));
        }
        self.appear(self.alive(at), waiting + running);
    }

    /// Makes tasks that reach a lost node appear elsewhere.
    fn save(&mut self, packet: &Packet) {
        if let Content::Tasks(tasks, _) = packet.content {
            self.appear(self.alive(packet.from), tasks);
        }
    }
}
