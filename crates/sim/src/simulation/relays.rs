//! The relays of nodes in virtual time. They do not block PEs.

use super::{Arrival, Event, Outgoing, Simulation};
use bytes::Bytes;
use gridspan_runtime::message::{Packet, is_agent_message, is_for_relay};
use gridspan_runtime::relay::RelayCommand;
use gridspan_runtime::{DecodeError, NodeId, PeId, Time};
use std::time::Duration;

impl Simulation {
    /// Hands a packet for many nodes from a PE, or from the coordinator, to the relay of its node.
    /// The sender pays the cost of sending each frame.
    pub(super) fn hand_over(
        &mut self,
        (node, from, send_cost): (NodeId, PeId, Duration),
        packet: Packet,
        leaves: &mut Time,
        frames: &mut Vec<Outgoing>,
    ) {
        let mut out = Vec::new();
        self.relays[node].take(self.now, from, packet, &mut out);
        for command in out {
            match command {
                RelayCommand::Send { to, frame, is_bulk } => {
                    let frame = frame.into_bytes();
                    *leaves += send_cost;
                    frames.push(Outgoing { leaves: *leaves, from: node, to, is_bulk, frame });
                }
                RelayCommand::Deliver { from, to, packet } => {
                    self.send_local(*leaves, from, to, packet);
                }
                RelayCommand::Act(action) => {
                    self.schedule_boxed_action(self.layout.leader(node), action);
                }
            }
        }
        self.plan_relay(node);
    }

    /// Handles a frame from another node.
    pub(super) fn receive(&mut self, arrival: Arrival) {
        let Arrival { from, to, ref frame } = arrival;
        if self.is_over(self.layout.leader(to)) {
            return;
        }
        let result = if is_for_relay(frame) {
            // The thread that drives the network pauses with its node.
            let until = self.nodes[to].paused_until;
            if until > self.now {
                self.queue.push(until, Event::Frame(arrival));
                return;
            }
            let (sender, receiver) = (self.layout.leader(from), self.layout.leader(to));
            self.log.add(self.now, sender, receiver, Some(frame));
            self.carry(from, to, frame)
        } else {
            Packet::from_frame(frame).map(|(sender, receiver, packet)| {
                self.log.add(self.now, sender, receiver, Some(frame));
                self.deliver(to, sender, receiver, packet);
            })
        };
        if let Err(error) = result {
            self.schedule_action(self.layout.leader(to), move |core| core.blame(from, error));
        }
    }

    /// Passes a frame to a relay.
    fn carry(&mut self, from: NodeId, to: NodeId, frame: &Bytes) -> Result<(), DecodeError> {
        let mut out = Vec::new();
        self.relays[to].receive(self.now, from, frame, &mut out)?;
        if is_agent_message(frame) {
            let free = &mut self.nodes[to].relay_free;
            *free = (*free).max(self.now) + self.options.message_cost;
        }
        self.carry_out(to, out);
        Ok(())
    }

    /// Carries out the commands of a relay.
    fn carry_out(&mut self, node: NodeId, out: Vec<RelayCommand>) {
        // A relay sends one frame after the other.
        let mut leaves = self.nodes[node].relay_free.max(self.now);
        let mut frames = Vec::new();
        for command in out {
            match command {
                RelayCommand::Send { to, frame, is_bulk } => {
                    let frame = frame.into_bytes();
                    leaves += self.options.remote_send_cost;
                    frames.push(Outgoing { leaves, from: node, to, is_bulk, frame });
                }
                RelayCommand::Deliver { from, to, packet } => self.deliver(node, from, to, packet),
                RelayCommand::Act(action) => {
                    self.schedule_boxed_action(self.layout.leader(node), action);
                }
            }
        }
        self.nodes[node].relay_free = leaves;
        self.leave_at(leaves, frames);
        self.plan_relay(node);
    }

    /// Wakes a relay for its due work. Ignores an event that was replaced by an earlier one.
    pub(super) fn wake_relay(&mut self, node: NodeId, number: u64) {
        let is_planned = |due: &mut (Time, u64)| *due == (self.now, number);
        if self.nodes[node].relay_due.take_if(is_planned).is_none()
            || self.is_over(self.layout.leader(node))
        {
            return;
        }
        let until = self.nodes[node].paused_until;
        if until > self.now {
            self.nodes[node].relay_due = Some((until, self.queue.push(until, Event::Relay(node))));
            return;
        }
        let mut out = Vec::new();
        self.relays[node].wake(self.now, &mut out);
        self.carry_out(node, out);
    }

    /// Schedules the relay's next wake-up, if one of its agents needs it.
    pub(super) fn plan_relay(&mut self, node: NodeId) {
        let Some(due) = self.relays[node].next_wakeup().map(|due| due.max(self.now)) else {
            return;
        };
        if self.nodes[node].relay_due.is_none_or(|(planned, _)| due < planned) {
            let number = self.queue.push(due, Event::Relay(node));
            self.nodes[node].relay_due = Some((due, number));
        }
    }
}
