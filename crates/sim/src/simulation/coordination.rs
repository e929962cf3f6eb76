//! The coordinator in virtual time. It does not block PEs, and can run while all PEs of its node
//! are inside handlers. It accepts and sends packets at the same cost as a PE.

use super::{Detected, Event, OnDetection, Outgoing, Simulation};
use crate::station::panic_message;
use gridspan_runtime::coordinator::{
    Coordinator, CoordinatorCommand, CoordinatorEvent, CoordinatorHost,
};
use gridspan_runtime::message::{CoordinatorPlace, Packet};
use gridspan_runtime::{COORDINATOR, JobError, NodeId, PeId, Time};
use gridspan_topology::Speed;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

impl Simulation {
    /// Sets a callback for the moments at which the coordinator detects a state. Main learns of it
    /// later, when the job may have changed.
    pub(crate) fn on_detection(&mut self, tell: OnDetection) {
        self.on_detection = Some(tell);
    }

    /// The coordinator, unless it is on its way from one node to another.
    pub(super) fn coordinator(&self) -> Option<&Coordinator> {
        self.hosts[self.coordinator_at].coordinator()
    }

    /// Sends a packet of a PE to the coordinator: directly if the coordinator is on the PE's node,
    /// otherwise to the last place of the coordinator that the PE's node knows.
    pub(super) fn send_to_coordinator(
        &mut self,
        (node, pe, speed): (NodeId, PeId, Speed),
        packet: Packet,
        leaves: &mut Time,
        frames: &mut Vec<Outgoing>,
    ) {
        if !self.hosts[node].passes_on() {
            *leaves += speed.takes(self.options.local_send_cost);
            return self.send_local(*leaves, pe, COORDINATOR, packet);
        }
        let event = CoordinatorEvent::Packet { from: pe, packet };
        let commands = self.guard(node, |host, now| host.handle(now, event));
        self.carry_out_of((node, speed), commands, leaves, frames);
    }

    /// Calls `act` on the coordinator host of a node, and returns its commands. As in real time, a
    /// panic, such as one in a strategy or in a reducer of the job, ends the job.
    fn guard(
        &mut self,
        node: NodeId,
        act: impl FnOnce(&mut CoordinatorHost, Time) -> Vec<CoordinatorCommand>,
    ) -> Vec<CoordinatorCommand> {
        let now = self.now;
        let host = &mut self.hosts[node];
        let panic = match catch_unwind(AssertUnwindSafe(|| act(host, now))) {
            Ok(commands) => return commands,
            Err(panic) => panic,
        };
        let error = JobError::CoordinatorPanicked { reason: panic_message(&*panic) };
        let mut try_end = || {
            let failed = CoordinatorEvent::Failed(error.clone());
            catch_unwind(AssertUnwindSafe(|| host.handle(now, failed)))
        };
        // A listener of the job may panic meanwhile; the second attempt does not call it.
        try_end().or_else(|_| try_end()).unwrap_or_default()
    }

    /// Delivers a packet that has arrived to the coordinator host of a node.
    pub(super) fn deliver_to_host(&mut self, node: NodeId, from: PeId, packet: Packet) {
        if self.dead.contains(&node) {
            return;
        }
        let until = self.nodes[node].paused_until;
        if until > self.now {
            let (packet, to) = (packet, COORDINATOR);
            self.queue.push(until, Event::Packet { node, from, to, packet });
            return;
        }
        let event = CoordinatorEvent::Packet { from, packet };
        let was_here = self.hosts[node].coordinator().is_some();
        let before = self.detected(node);
        let commands = self.guard(node, |host, now| host.handle(now, event));
        if !was_here && self.hosts[node].coordinator().is_some() {
            self.coordinator_at = node;
        }
        if let (Some(before), Some(after), Some(tell)) =
            (before, self.detected(node), &self.on_detection)
        {
            for ((what, before), (_, after)) in before.into_iter().zip(after) {
                if after > before {
                    // The answers to main are on their way, and count as created messages.
                    let mut pending = self.pending_now();
                    pending.created -= after - before;
                    tell(what, &pending);
                }
            }
        }
        self.obey_coordinator(node, commands, self.options.packet_cost);
    }

    /// Numbers of detections so far, if the coordinator is on this node and there is a callback for
    /// detections.
    fn detected(&self, node: NodeId) -> Option<[(Detected, u64); 2]> {
        self.on_detection.as_ref()?;
        let coordinator = self.hosts[node].coordinator()?;
        Some([
            (Detected::Quiescence, coordinator.quiescences()),
            (Detected::Completion, coordinator.completions()),
        ])
    }

    /// Updates a node after one of its PEs has learned the coordinator's place.
    pub(super) fn note_coordinator(&mut self, pe: PeId, place: CoordinatorPlace) {
        let node = self.layout.node_of(pe);
        self.relays[node].set_coordinator(place);
        let event = CoordinatorEvent::Place(place);
        let commands = self.guard(node, |host, now| host.handle(now, event));
        self.obey_coordinator(node, commands, Duration::ZERO);
    }

    /// Wakes the coordinator for its due work. Ignores an event that was replaced by an earlier
    /// one.
    pub(super) fn wake_coordinator(&mut self, node: NodeId, number: u64) {
        let due = &mut self.nodes[node].coordinator_due;
        if due.take_if(|due| *due == (self.now, number)).is_none() || self.dead.contains(&node) {
            return;
        }
        let until = self.nodes[node].paused_until;
        if until > self.now {
            let event = self.queue.push(until, Event::Coordinator(node));
            self.nodes[node].coordinator_due = Some((until, event));
            return;
        }
        let commands = self.guard(node, CoordinatorHost::wake);
        self.obey_coordinator(node, commands, Duration::ZERO);
    }

    /// Carries out the commands of a coordinator host that was busy for `takes`.
    fn obey_coordinator(
        &mut self,
        node: NodeId,
        commands: Vec<CoordinatorCommand>,
        takes: Duration,
    ) {
        let mut leaves = self.nodes[node].coordinator_free.max(self.now) + takes;
        let mut frames = Vec::new();
        self.carry_out_of((node, Speed::ORDINARY), commands, &mut leaves, &mut frames);
        self.nodes[node].coordinator_free = leaves;
        self.leave_at(leaves, frames);
        self.plan_coordinator(node);
    }

    /// Carries out the commands of a coordinator host, one after the other.
    fn carry_out_of(
        &mut self,
        (node, speed): (NodeId, Speed),
        commands: Vec<CoordinatorCommand>,
        leaves: &mut Time,
        frames: &mut Vec<Outgoing>,
    ) {
        let send_cost = speed.takes(self.options.remote_send_cost);
        for command in commands {
            match command {
                CoordinatorCommand::Send { to, packet } if self.layout.node_of(to) == node => {
                    *leaves += speed.takes(self.options.local_send_cost);
                    self.send_local(*leaves, COORDINATOR, to, packet);
                }
                CoordinatorCommand::Send { to, packet } => {
                    *leaves += send_cost;
                    let there = self.layout.node_of(to);
                    let frame = packet.into_frame(COORDINATOR, to).into();
                    let (leaves, from) = (*leaves, node);
                    frames.push(Outgoing { leaves, from, to: there, is_bulk: false, frame });
                }
                CoordinatorCommand::Forward { node: to, frame } => {
                    *leaves += send_cost;
                    let (leaves, from, frame) = (*leaves, node, frame.into());
                    frames.push(Outgoing { leaves, from, to, is_bulk: false, frame });
                }
                CoordinatorCommand::Relay { from, packet } => {
                    self.hand_over((node, from, send_cost), packet, leaves, frames);
                }
                CoordinatorCommand::Plan(mut planning_job) => {
                    planning_job.run_evaluations(super::PLANNING);
                    let event = CoordinatorEvent::Planned(planning_job);
                    let commands = self.guard(node, |host, now| host.handle(now, event));
                    // The frames of earlier commands leave first.
                    self.leave_at(*leaves, std::mem::take(frames));
                    self.carry_out_of((node, speed), commands, leaves, frames);
                }
            }
        }
    }

    /// Schedules the coordinator's next wake-up, if it has work.
    fn plan_coordinator(&mut self, node: NodeId) {
        let due = self.hosts[node].next_wakeup().map(|due| due.max(self.now));
        let Some(due) = due else { return };
        if self.nodes[node].coordinator_due.is_none_or(|(planned, _)| due < planned) {
            let event = self.queue.push(due, Event::Coordinator(node));
            self.nodes[node].coordinator_due = Some((due, event));
        }
    }

    /// Schedules frames to leave. Over QUIC all leave at `last`, otherwise each at its `leaves`.
    pub(super) fn leave_at(&mut self, last: Time, frames: Vec<Outgoing>) {
        if !frames.is_empty() {
            let at = if self.quic.is_some() { last } else { self.now };
            self.queue.push(at, Event::Leave(frames));
        }
    }
}
