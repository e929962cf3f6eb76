//! What nodes' carriers do in virtual time. They keep no PE from what it is doing.

use super::{Arrival, Event, Outgoing, Simulation};
use bytes::Bytes;
use gridspan_runtime::carrier::{Carriage, Carrier};
use gridspan_runtime::wire::Packet;
use gridspan_runtime::{DecodeError, JobError, NodeId, PeId, Time};

impl Simulation {
    /// Gives the carrier of a PE's node what the PE has for many nodes; each frame takes the PE as long to send
    /// as one of its own.
    pub(super) fn hand_over(
        &mut self,
        (node, pe): (NodeId, PeId),
        packet: Packet,
        leaves: &mut Time,
        frames: &mut Vec<Outgoing>,
    ) {
        let Some(carrier) = self.carriers.get_mut(node.index()) else { return };
        let mut out = Vec::new();
        carrier.take(pe, packet, &mut out);
        for carriage in out {
            match carriage {
                Carriage::Send { to, frame, .. } => {
                    *leaves += self.options.remote_send_cost;
                    frames.push(Outgoing { leaves: *leaves, from: node, to, frame });
                }
                Carriage::Deliver { from, to, packet } => {
                    self.send_local(*leaves, from, to, packet);
                }
            }
        }
    }

    /// Takes a frame from another node.
    pub(super) fn receive(&mut self, arrival: Arrival) {
        let Arrival { from, to, ref frame } = arrival;
        let result = if Carrier::is_concerned(frame) {
            // The thread that drives the network stands still with its node.
            let until = self.nodes[to].paused_until;
            if until > self.now {
                self.queue.push(until, Event::Frame(arrival));
                return;
            }
            let (sender, receiver) = (self.layout.leader(from), self.layout.leader(to));
            self.log.add(self.now, sender, receiver, Some(frame));
            self.carry(from, to, frame)
        } else {
            Packet::from_frame(frame).map(|(from, to, packet)| {
                self.log.add(self.now, from, to, Some(frame));
                self.deliver(from, to, packet);
            })
        };
        if let Err(error) = result {
            self.broken.get_or_insert(JobError::Protocol(error.to_string()));
        }
    }

    /// Lets a carrier take a frame.
    fn carry(&mut self, from: NodeId, to: NodeId, frame: &Bytes) -> Result<(), DecodeError> {
        let Some(carrier) = self.carriers.get_mut(to.index()) else { return Ok(()) };
        let mut out = Vec::new();
        carrier.receive(self.now, from, frame, &mut out)?;
        // A carrier sends one frame after the other.
        let mut leaves = self.nodes[to].carrier_free.max(self.now);
        let mut frames = Vec::new();
        for carriage in out {
            match carriage {
                Carriage::Send { to: next, frame, .. } => {
                    leaves += self.options.remote_send_cost;
                    frames.push(Outgoing { leaves, from: to, to: next, frame });
                }
                Carriage::Deliver { from, to, packet } => self.deliver(from, to, packet),
            }
        }
        self.nodes[to].carrier_free = leaves;
        if !frames.is_empty() {
            self.queue.push(self.now, Event::Leave(frames));
        }
        Ok(())
    }
}
