//! The steal agents of a node, and their messages with the agents of other nodes.

use super::command::RelayCommand;
use super::lines::{Lines, Room};
use crate::address::id::CollectionId;
use crate::error::JobError;
use crate::message::MembershipEvent;
use crate::message::codec::DecodeError;
use crate::message::steal_agent::{Nudge, StealAgent, StealCommand, StealEvent};
use crate::message::{AgentMessageHead, Control, Packet, SpreadFrame, Stage};
use bytes::Bytes;
use gridspan_topology::{Layout, NodeId, Time};
use std::collections::{BTreeMap, BTreeSet};

/// The steal agents of a node's pools.
#[derive(Default)]
pub(super) struct StealAgents {
    open: BTreeMap<CollectionId, Box<dyn StealAgent>>,
    /// Pools that were closed, so that late messages for them are dropped. The set grows like the
    /// coordinator's list of collections.
    closed: BTreeSet<CollectionId>,
    lines: Lines,
    pub(super) nudge: Option<Nudge>,
}

/// Context that the relay provides for calls of agents.
pub(super) struct Post<'a> {
    pub(super) node: NodeId,
    pub(super) layout: &'a Layout,
    pub(super) now: Time,
    /// Maximum number of bytes of waiting messages from one founder.
    pub(super) bytes_max: u64,
    pub(super) out: &'a mut Vec<RelayCommand>,
}

impl Post<'_> {
    fn room(&self) -> Room<'_> {
        Room { layout: self.layout, bytes_max: self.bytes_max }
    }
}

impl StealAgents {
    /// Handles an event from a worker of this node for the agent of a pool.
    pub(super) fn handle_event(
        &mut self,
        pool: CollectionId,
        event: StealEvent,
        post: &mut Post<'_>,
    ) {
        match event {
            StealEvent::Open(agent) => self.begin(pool, agent, post),
            StealEvent::Close => {
                self.open.remove(&pool);
                self.closed.insert(pool);
                self.lines.take_early(pool);
            }
            event => self.ask(pool, post, |agent, now, out| agent.handle_event(now, event, out)),
        }
    }

    /// Handles a new stage of a guest, or the suspension or loss of a founder.
    pub(super) fn handle_membership(&mut self, event: MembershipEvent, post: &mut Post<'_>) {
        if event.stage.is_gone() || event.stage == Stage::Suspended {
            self.lines.forget(event.node);
        }
        for pool in self.open.keys().copied().collect::<Vec<_>>() {
            self.ask(pool, post, |agent, now, out| agent.handle_membership(now, event, out));
        }
    }

    /// Handles a message from another node.
    ///
    /// # Errors
    ///
    /// Fails if the message does not decode, has arrived before, or would have to wait beyond the
    /// limit of its node or of all guests together.
    pub(super) fn receive(
        &mut self,
        from: NodeId,
        AgentMessageHead { pool, number }: AgentMessageHead,
        message: Bytes,
        post: &mut Post<'_>,
    ) -> Result<(), DecodeError> {
        if self.lines.is_gone(from) {
            return Ok(());
        }
        self.lines.enter(from, number, (pool, message), &post.room())?;
        while let Some((pool, message)) = self.lines.next(from) {
            self.accept(pool, from, message, post)?;
        }
        Ok(())
    }

    /// Returns the earliest time at which to wake an agent.
    pub(super) fn due(&self) -> Option<Time> {
        self.open.values().filter_map(|agent| agent.due()).min()
    }

    /// Wakes the agents that are due.
    pub(super) fn wake(&mut self, post: &mut Post<'_>) {
        let is_due = |agent: &dyn StealAgent| agent.due().is_some_and(|due| due <= post.now);
        let all = self.open.iter();
        let due: Vec<CollectionId> =
            all.filter(|(_, agent)| is_due(&***agent)).map(|(&pool, _)| pool).collect();
        for pool in due {
            self.ask(pool, post, |agent, now, out| agent.wake(now, out));
        }
    }

    /// Returns the bytes of messages that wait for earlier messages or for a pool.
    pub(super) fn bytes(&self) -> usize {
        self.lines.bytes()
    }

    fn begin(&mut self, pool: CollectionId, mut agent: Box<dyn StealAgent>, post: &mut Post<'_>) {
        if let Some(nudge) = &self.nudge {
            agent.connect(nudge);
        }
        self.open.insert(pool, agent);
        // Earlier events of workers were dropped, so the agent must look at the stock now.
        self.ask(pool, post, |agent, now, out| {
            agent.handle_event(now, StealEvent::StockChanged, out)
        });
        for (from, message) in self.lines.take_early(pool) {
            if let Err(error) = self.accept(pool, from, message, post) {
                post.out.push(RelayCommand::Act(Box::new(move |core| core.blame(from, error))));
            }
        }
    }

    fn accept(
        &mut self,
        pool: CollectionId,
        from: NodeId,
        message: Bytes,
        post: &mut Post<'_>,
    ) -> Result<(), DecodeError> {
        if !self.open.contains_key(&pool) {
            return match self.closed.contains(&pool) {
                true => Ok(()),
                false => self.lines.keep(from, (pool, message), &post.room()),
            };
        }
        let mut result = Ok(());
        self.ask(pool, post, |agent, now, out| {
            result = agent.receive(now, from, &message, out);
        });
        result
    }

    /// Calls `act` on the agent of a pool, if there is one, and passes the resulting commands on to
    /// the driver.
    fn ask(
        &mut self,
        pool: CollectionId,
        post: &mut Post<'_>,
        act: impl FnOnce(&mut dyn StealAgent, Time, &mut Vec<StealCommand>),
    ) {
        let Some(agent) = self.open.get_mut(&pool) else { return };
        let mut commands = Vec::new();
        act(&mut **agent, post.now, &mut commands);
        let leader = post.layout.leader(post.node);
        for command in commands {
            post.out.push(match command {
                StealCommand::ToAgent { to, message } => {
                    let Some(number) = self.lines.next_number(to) else { continue };
                    let head = AgentMessageHead { pool, number };
                    let frame = SpreadFrame::agent_message(leader, &head, message.into());
                    RelayCommand::Send { to, frame, is_bulk: false }
                }
                StealCommand::ToWorker { pe, message } => {
                    let packet =
                        Packet::control(Control::WorkerMessage { collection: pool, message });
                    RelayCommand::Deliver { from: leader, to: pe, packet }
                }
                StealCommand::Panicked { task, reason } => {
                    RelayCommand::Act(Box::new(move |core| {
                        let (pe, place) = (core.me, core.place_name());
                        core.fail(JobError::Panicked { actor: task.to_owned(), pe, place, reason });
                    }))
                }
            });
        }
    }
}

#[cfg(test)]
mod tests;
