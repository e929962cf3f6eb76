//! Frames between nodes: directly over the modelled network, in sessions over connections that
//! break, or over QUIC.

use super::{Arrival, Event, Outgoing, Simulation};
use crate::connection::{Command, ConnectionEvent};
use crate::former_run::LateFrame;
use crate::quic::{self, DatagramPath, QuicEvent, QuicNetwork};
use gridspan_runtime::message::{Packet, is_for_relay};
use gridspan_runtime::net::LossReason;
use gridspan_runtime::{COORDINATOR, JobError, NodeId, PeId, Time};

impl Simulation {
    /// Sends frames of one node.
    pub(super) fn leave(&mut self, frames: Vec<Outgoing>) {
        let Some(from) = frames.first().map(|frame| frame.from) else { return };
        if self.quic.is_none() {
            return frames.into_iter().for_each(|frame| self.send_remote(frame));
        }
        let until = self.nodes[from].paused_until;
        if until > self.now {
            // The transport pauses with its node.
            self.queue.push(until, Event::Leave(frames));
            return;
        }
        if self.dead.contains(&from) {
            return;
        }
        for frame in frames {
            self.count(&frame);
            let Outgoing { from, to, is_bulk, frame, .. } = frame;
            if let Some(quic) = &mut self.quic {
                quic.send(self.now, (from, to), is_bulk, frame, &self.network);
            }
        }
        self.on_quic(|quic, now, path| quic.pump(now, from, path));
    }

    fn send_remote(&mut self, outgoing: Outgoing) {
        if self.dead.contains(&outgoing.from) {
            return;
        }
        self.count(&outgoing);
        let Outgoing { leaves, from, to, frame, .. } = outgoing;
        if let Some(connections) = &mut self.connections {
            connections.send(leaves, (from, to), frame, &mut self.network);
            self.obey_connections();
        } else if let Some(at) = self.arrival(leaves, from, to, frame.len() as u64) {
            self.queue.push(at, Event::Frame(Arrival { from, to, frame }));
        }
    }

    /// Counts a frame. If the run is to be stopped, keeps a copy for the next one.
    fn count(&mut self, Outgoing { from, to, frame, .. }: &Outgoing) {
        if self.halts_at.is_some() {
            self.sent.note(self.now, (*from, *to), frame);
        }
        self.counts.packets += 1;
        self.counts.frames += 1;
        if self.network.spec().is_wide_area(*from, *to) {
            self.counts.wide_area_frames += 1;
            self.counts.wide_area_bytes += frame.len() as u64;
        }
    }

    fn arrival(&mut self, leaves: Time, from: NodeId, to: NodeId, bytes: u64) -> Option<Time> {
        let at = self.network.carry(leaves, from, to, bytes)?;
        Some(self.delays.as_mut().map_or(at, |delays| delays.frame(from, to, at)))
    }

    /// Handles a frame that a lost node of the previous run sends again. The node that receives it
    /// must refuse it.
    pub(super) fn receive_late(&mut self, late: LateFrame) {
        let Some(former) = &mut self.former else { return };
        match former.accepts(&late) {
            Ok(false) => return,
            Ok(true) => {}
            Err(reason) => {
                self.broken.get_or_insert(JobError::Network { reason });
                return;
            }
        }
        let LateFrame { from, node, frame, .. } = late;
        // As in real time, the node drops a frame for a PE of another node, and a frame whose
        // sender has a number beyond the layout of this run.
        let is_here = |pe| pe == COORDINATOR || self.layout.node_of(pe) == node;
        let is_sound = is_for_relay(&frame)
            || Packet::from_frame(&frame).is_ok_and(|(_, receiver, _)| is_here(receiver));
        if is_sound && !self.layout.is_guest(from) {
            self.receive(Arrival { from, to: node, frame });
        }
    }

    pub(super) fn handle_connection_event(&mut self, event: ConnectionEvent) {
        if let Some(connections) = &mut self.connections {
            connections.handle(self.now, event, &mut self.network);
            self.obey_connections();
        }
    }

    fn obey_connections(&mut self) {
        let Some(connections) = &mut self.connections else { return };
        for command in connections.take_commands() {
            match command {
                Command::Schedule(at, event) => {
                    self.queue.push(at.max(self.now), Event::Connection(event));
                }
                Command::Deliver((from, to), frame) => self.receive(Arrival { from, to, frame }),
                Command::Fail(reason) => {
                    self.broken.get_or_insert(JobError::Protocol(reason));
                }
            }
        }
    }

    /// Handles an event of the network under QUIC. While its node is paused, delays the event.
    pub(super) fn handle_quic_event(&mut self, event: QuicEvent) {
        if let Some(node) = QuicNetwork::place(&event) {
            let until = self.nodes[node].paused_until;
            if until > self.now {
                self.queue.push(until, Event::Quic(event));
                return;
            }
        }
        if let Some(quic) = &mut self.quic {
            quic.note_queued(false);
        }
        if let QuicEvent::Arrives { way, datagram } = &event {
            self.log.add_datagram(self.now, *way, datagram.len());
        }
        self.on_quic(|quic, now, path| quic.handle(now, event, path));
    }

    /// Calls `act` on the transports, and carries out the commands that follow.
    fn on_quic(&mut self, act: impl FnOnce(&mut QuicNetwork, Time, &mut DatagramPath<'_>)) {
        if let Some(quic) = &mut self.quic {
            let mut path =
                DatagramPath { network: &mut self.network, delays: self.delays.as_mut() };
            act(quic, self.now, &mut path);
        }
        self.obey_quic();
    }

    pub(super) fn obey_quic(&mut self) {
        let Some(quic) = &mut self.quic else { return };
        for command in quic.take_commands() {
            match command {
                quic::Command::Schedule(at, event) => {
                    self.queue.push(at.max(self.now), Event::Quic(event));
                    if let Some(quic) = &mut self.quic {
                        quic.note_queued(true);
                    }
                }
                quic::Command::Deliver((from, to), frame) => {
                    self.receive(Arrival { from, to, frame });
                }
                quic::Command::Lose { at, node, reason } => self.lose(at, node, &reason),
                quic::Command::Fail(reason) => {
                    self.broken.get_or_insert(JobError::Protocol(reason));
                }
            }
        }
    }

    /// Handles the loss of a node, which the transport of another node has declared.
    fn lose(&mut self, at: NodeId, node: NodeId, reason: &LossReason) {
        let site = self.layout.site_name(self.layout.site_of_node(node)).to_owned();
        let others = match reason {
            LossReason::Silent { others, .. } => others.clone(),
            _ => Vec::new(),
        };
        let (cause, reason) = (reason.cause(), reason.to_string());
        let error = JobError::NodeLost { node, site, cause, reason, others };
        self.schedule_action(self.layout.leader(at), move |core| core.node_lost(node, error));
    }

    /// Passes the contact of a guest to a node's transport.
    pub(super) fn meet(&mut self, node: NodeId, guest: NodeId, contact: &str) {
        if let Some(quic) = &mut self.quic {
            quic.meet(node, guest, contact);
        }
    }

    /// Ends the transport of a guest whose PE has ended.
    pub(super) fn finish_transport(&mut self, pe: PeId) {
        let Some(quic) = &mut self.quic else { return };
        let node = self.layout.node_of(pe);
        if self.layout.is_guest(node) && self.stations[pe].machine.outcome().is_some() {
            quic.finish(self.now, node);
            self.obey_quic();
        }
    }

    /// Starts a guest's transport. Returns the address at which others reach it; empty without
    /// QUIC.
    pub(super) fn join(&mut self, guest: NodeId) -> String {
        let Some(quic) = &mut self.quic else { return String::new() };
        let joined = quic.join(self.now, guest);
        self.obey_quic();
        joined.unwrap_or_else(|reason| {
            self.broken.get_or_insert(JobError::Network { reason });
            String::new()
        })
    }

    /// Over QUIC, cuts off a live guest for long enough that all nodes declare it lost.
    pub(super) fn cut_off(&mut self, guest: NodeId) {
        if let Some(quic) = &mut self.quic {
            quic.cut_off(self.now, guest);
        }
    }

    /// Whether the job has stalled, although heartbeats continue. `event` is the next event.
    pub(super) fn only_transports_are_active(&mut self, now: Time, event: &Event) -> bool {
        let Some(quic) = &mut self.quic else { return false };
        let is_of_transport = matches!(event, Event::Quic(_));
        if !is_of_transport || quic.has_others(self.queue.len() + 1) {
            quic.note_activity(now);
        }
        is_of_transport && quic.is_stalled(now)
    }
}
