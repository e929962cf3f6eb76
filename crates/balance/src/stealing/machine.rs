//! The machine of one node: takes events, and returns commands for its host.

use super::command::{Command, Grant};
use super::layout::StealingLayout;
use super::message::{StealMessage, TASKS_MAX};
use super::policy::{StealingPolicy, Turn};
use gridspan_topology::dice::{Dice, GOLDEN_GAMMA};
use gridspan_topology::{NodeId, Time};
use std::sync::Arc;

/// The stealing of one node. It reads no clock and sends nothing; after each call the host carries
/// out the [`Stealing::commands`].
pub struct Stealing {
    policy: Box<dyn StealingPolicy>,
    me: NodeId,
    workers: u32,
    is_idle: bool,
    stock: u64,
    /// Grants that the host has been asked for and has not reported yet.
    promised: Vec<(NodeId, u64)>,
    done: u64,
    places: Arc<StealingLayout>,
    dice: Dice,
    commands: Vec<Command>,
}

impl Stealing {
    /// Creates the machine of node `me`, which runs `workers` tasks at once and counts as busy. Its
    /// dice depend on `seed` and its number, so that all nodes can have the same seed.
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

    /// Returns the nodes that take part, as this node knows them.
    pub fn places(&self) -> &Arc<StealingLayout> {
        &self.places
    }

    /// Returns whether the host last reported that the node is idle.
    pub fn is_idle(&self) -> bool {
        self.is_idle
    }

    /// Takes the commands for the host, in order; the host must carry out all of them after each
    /// call.
    pub fn commands(&mut self) -> std::vec::Drain<'_, Command> {
        self.commands.drain(..)
    }

    /// Sets the number of tasks that the node has run so far. Call it before any other report from
    /// which a policy may compute the time of a task: that the node is idle, or that its stock
    /// changed.
    pub fn note_done(&mut self, tasks: u64) {
        self.done = tasks;
    }

    /// Reports that the node has no tasks to run or to take. Call it once each time that the node
    /// becomes idle.
    pub fn handle_idle(&mut self, now: Time) {
        if !self.is_idle {
            (self.is_idle, self.stock) = (true, 0);
            self.promised.clear();
            self.turn(now, |policy, turn| policy.idle(turn));
        }
    }

    /// Reports that the node works and that `stealable` tasks could be taken away from it. Call it
    /// when that number becomes zero, becomes greater than zero, or passes a power of two, and when
    /// an idle node finds work that no other node sent; more calls are allowed.
    pub fn handle_stock(&mut self, now: Time, stealable: u64) {
        let stealable = self.left_of(stealable);
        if self.is_idle || stealable != self.stock {
            (self.is_idle, self.stock) = (false, stealable);
            self.turn(now, |policy, turn| policy.stock(turn));
        }
    }

    /// Handles a message. A message from a node that does not take part is dropped; nodes named in
    /// it that do not take part are removed.
    pub fn handle_message(&mut self, now: Time, from: NodeId, mut message: StealMessage) {
        if from != self.me && self.places.contains(from) {
            message.keep(&self.places);
            self.turn(now, |policy, turn| policy.message(from, message, turn));
        }
    }

    /// Reports that tasks have arrived and are in the host's queues, of which `stealable` could be
    /// taken away now. Without tasks, the call has no effect.
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

    /// Reports that a [`Command::Grant`] was carried out: `tasks` tasks left, and `stealable`
    /// remain.
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

    /// Reports that a node is lost or has left.
    pub fn handle_lost(&mut self, now: Time, node: NodeId) {
        if node != self.me && Arc::make_mut(&mut self.places).remove(node) {
            self.turn(now, |policy, turn| policy.places_changed(Some(node), turn));
        }
    }

    /// Reports that a node has joined the site of `near`.
    pub fn handle_joined(&mut self, now: Time, node: NodeId, near: NodeId) {
        if Arc::make_mut(&mut self.places).add(node, near) {
            self.turn(now, |policy, turn| policy.places_changed(None, turn));
        }
    }

    /// Replaces the places, because nodes joined or the hierarchy changed.
    pub fn handle_places(&mut self, now: Time, places: Arc<StealingLayout>) {
        self.places = places;
        self.turn(now, |policy, turn| policy.places_changed(None, turn));
    }

    /// Reports that the time of the last [`Command::WakeAt`] has come.
    pub fn handle_timeout(&mut self, now: Time) {
        self.turn(now, |policy, turn| policy.woken(turn));
    }

    /// Returns the number of tasks that remain once all promised ones have left.
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
