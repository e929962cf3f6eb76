//! One node's machine: what happens to it goes in, what its host is to do comes out.

use super::command::{Command, Grant};
use super::layout::StealingLayout;
use super::message::{StealMessage, TASKS_MAX};
use super::policy::{StealingPolicy, Turn};
use gridspan_topology::dice::{Dice, GOLDEN_GAMMA};
use gridspan_topology::{NodeId, Time};
use std::sync::Arc;

/// The stealing of one node. It reads no clock and sends nothing; after each call the host carries
/// out what [`Stealing::commands`] has.
pub struct Stealing {
    policy: Box<dyn StealingPolicy>,
    me: NodeId,
    workers: u32,
    is_idle: bool,
    stock: u64,
    /// What the host has been asked to give away and has not reported yet.
    promised: Vec<(NodeId, u64)>,
    done: u64,
    places: Arc<StealingLayout>,
    dice: Dice,
    commands: Vec<Command>,
}

impl Stealing {
    /// The machine of node `me`, which runs `workers` tasks at once and counts as busy. Its dice
    /// are thrown from `seed` and its own number, so that all nodes can be given the same seed.
    pub fn new(
        policy: Box<dyn StealingPolicy>,
        me: NodeId,
        workers: u32,
        places: Arc<StealingLayout>,
        seed: u64,
    ) -> Self {
        let own = seed ^ u64::from(me.0).wrapping_mul(GOLDEN_GAMMA);
        let dice = Dice::new(own);
        let workers = workers.max(1);
        let (is_idle, stock, done) = (false, 0, 0);
        let (promised, commands) = (vec![], vec![]);
        Self { policy, me, workers, is_idle, stock, promised, done, places, dice, commands }
    }

    /// The name of the policy.
    pub fn policy(&self) -> &'static str {
        self.policy.name()
    }

    /// Who takes part, as this node knows.
    pub fn places(&self) -> &Arc<StealingLayout> {
        &self.places
    }

    /// Whether the host said last that it has nothing to do.
    pub fn is_idle(&self) -> bool {
        self.is_idle
    }

    /// What the host is to do now, in this order; it takes all of it after each call.
    pub fn commands(&mut self) -> std::vec::Drain<'_, Command> {
        self.commands.drain(..)
    }

    /// The node has run so many tasks so far. Said before anything else happens of which a policy
    /// may conclude what a task takes: that the node is idle, or that its stock changed.
    pub fn note_done(&mut self, tasks: u64) {
        self.done = tasks;
    }

    /// The node has nothing to run and nothing to take. Said once, until it is busy again.
    pub fn handle_idle(&mut self, now: Time) {
        if !self.is_idle {
            (self.is_idle, self.stock) = (true, 0);
            self.promised.clear();
            self.turn(now, |policy, turn| policy.idle(turn));
        }
    }

    /// The node works, and so many tasks could be taken away from it. Said when that becomes zero
    /// or more than zero or passes a power of two, and when an idle node finds work that was not
    /// sent by another; it may be said more often.
    pub fn handle_stock(&mut self, now: Time, stealable: u64) {
        let stealable = self.left_of(stealable);
        if self.is_idle || stealable != self.stock {
            (self.is_idle, self.stock) = (false, stealable);
            self.turn(now, |policy, turn| policy.stock(turn));
        }
    }

    /// A message came. One from a node that does not take part, or that names one, is dropped or
    /// shortened.
    pub fn handle_message(&mut self, now: Time, from: NodeId, mut message: StealMessage) {
        if from != self.me && self.places.contains(from) {
            message.keep(&self.places);
            self.turn(now, |policy, turn| policy.message(from, message, turn));
        }
    }

    /// Tasks came and are in the host's queues, of which `stealable` could be taken away now. With
    /// no task at all nothing happens.
    pub fn handle_received(
        &mut self,
        now: Time,
        from: NodeId,
        tasks: u64,
        stealable: u64,
        grant: Grant,
    ) {
        if tasks > 0 {
            (self.is_idle, self.stock) = (false, self.left_of(stealable));
            self.turn(now, |policy, turn| policy.received(from, tasks.min(TASKS_MAX), grant, turn));
        }
    }

    /// A [`Command::Grant`] was carried out: so many tasks left, and `stealable` are still there.
    pub fn handle_given(
        &mut self,
        now: Time,
        to: NodeId,
        tasks: u64,
        stealable: u64,
        grant: Grant,
    ) {
        if let Some(place) = self.promised.iter().position(|&(promised, _)| promised == to) {
            self.promised.remove(place);
        }
        self.stock = self.left_of(stealable);
        self.turn(now, |policy, turn| policy.given(to, tasks, grant, turn));
    }

    /// A node is lost or has left.
    pub fn handle_lost(&mut self, now: Time, node: NodeId) {
        if node != self.me && Arc::make_mut(&mut self.places).remove(node) {
            self.turn(now, |policy, turn| policy.places_changed(Some(node), turn));
        }
    }

    /// A node has joined the site that `near` is in.
    pub fn handle_joined(&mut self, now: Time, node: NodeId, near: NodeId) {
        if Arc::make_mut(&mut self.places).add(node, near) {
            self.turn(now, |policy, turn| policy.places_changed(None, turn));
        }
    }

    /// Nodes joined, or the hierarchy is another.
    pub fn handle_places(&mut self, now: Time, places: Arc<StealingLayout>) {
        self.places = places;
        self.turn(now, |policy, turn| policy.places_changed(None, turn));
    }

    /// The time of the last [`Command::WakeAt`] has come.
    pub fn handle_timeout(&mut self, now: Time) {
        self.turn(now, |policy, turn| policy.woken(turn));
    }

    /// What is left of so many tasks when all that is promised will have left.
    fn left_of(&self, stealable: u64) -> u64 {
        let promised =
            self.promised.iter().fold(0u64, |sum, promised| sum.saturating_add(promised.1));
        stealable.saturating_sub(promised)
    }

    fn turn(&mut self, now: Time, act: impl FnOnce(&mut dyn StealingPolicy, &mut Turn<'_>)) {
        self.stock = self.stock.min(TASKS_MAX);
        let mut turn = Turn {
            now,
            me: self.me,
            workers: self.workers,
            is_idle: self.is_idle,
            stock: self.stock,
            done: self.done,
            places: &self.places,
            dice: &mut self.dice,
            promised: &mut self.promised,
            commands: &mut self.commands,
        };
        act(self.policy.as_mut(), &mut turn);
        self.stock = turn.stock;
    }
}
