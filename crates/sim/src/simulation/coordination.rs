//! The coordinator in virtual time. It keeps no PE from what it is doing, and goes on while all of
//! its node are inside of handlers; taking and sending packets costs it what they cost a PE.

use super::{Event, OnQuiescence, Outgoing, Simulation};
use gridspan_runtime::coordinator::{CoordinatorCommand, CoordinatorEvent};
use gridspan_runtime::message::Packet;
use gridspan_runtime::pe::PendingWork;
use gridspan_runtime::{COORDINATOR, PeId, Time};
use std::time::Duration;

impl Simulation {
    /// Has `tell` called with what is unfinished whenever the coordinator finds the job quiescent.
    /// Main hears of it later, when the job may be busy again.
    pub(crate) fn on_quiescence(&mut self, tell: OnQuiescence) {
        self.on_quiescence = Some(tell);
    }

    /// Gives the coordinator a packet that has arrived on its node.
    pub(super) fn deliver_to_coordinator(&mut self, from: PeId, packet: Packet) {
        let until = self.nodes[self.coordinator.node()].paused_until;
        if until > self.now {
            self.queue.push(until, Event::Packet { from, to: COORDINATOR, packet });
            return;
        }
        let event = CoordinatorEvent::Packet { from, packet };
        let before = self.coordinator.quiescences();
        let commands = self.coordinator.handle(self.now, event);
        let answers = self.coordinator.quiescences() - before;
        if answers > 0
            && let Some(tell) = &self.on_quiescence
        {
            // The answers themselves are on their way.
            let pending = self.pending_now();
            tell(&PendingWork { created: pending.created - answers, ..pending });
        }
        let takes = self.options.packet_cost;
        self.obey_coordinator(commands, takes);
    }

    /// Lets the coordinator do what is due. An event that was overtaken stays behind.
    pub(super) fn wake_coordinator(&mut self, number: u64) {
        if self.coordinator_due.take_if(|due| *due == (self.now, number)).is_none() {
            return;
        }
        let until = self.nodes[self.coordinator.node()].paused_until;
        if until > self.now {
            self.coordinator_due = Some((until, self.queue.push(until, Event::Coordinator)));
            return;
        }
        let commands = self.coordinator.wake(self.now);
        self.obey_coordinator(commands, Duration::ZERO);
    }

    /// Does what the coordinator wants, after it was busy for some time.
    fn obey_coordinator(&mut self, commands: Vec<CoordinatorCommand>, takes: Duration) {
        let node = self.coordinator.node();
        let mut leaves = self.coordinator_free.max(self.now) + takes;
        let mut frames = Vec::new();
        for command in commands {
            match command {
                CoordinatorCommand::Send { to, packet } if self.layout.node_of(to) == node => {
                    leaves += self.options.local_send_cost;
                    self.send_local(leaves, COORDINATOR, to, packet);
                }
                CoordinatorCommand::Send { to, packet } => {
                    leaves += self.options.remote_send_cost;
                    let there = self.layout.node_of(to);
                    let frame = packet.into_frame(COORDINATOR, to).into();
                    frames.push(Outgoing { leaves, from: node, to: there, is_bulk: false, frame });
                }
                CoordinatorCommand::Relay { from, packet } => {
                    let send_cost = self.options.remote_send_cost;
                    self.hand_over((node, from, send_cost), packet, &mut leaves, &mut frames);
                }
                CoordinatorCommand::Plan(mut planning_job) => {
                    planning_job.run_evaluations(super::PLANNING);
                    let event = CoordinatorEvent::Planned(planning_job);
                    let commands = self.coordinator.handle(self.now, event);
                    // What was commanded before leaves before.
                    self.leave_at(leaves, std::mem::take(&mut frames));
                    self.coordinator_free = leaves;
                    self.obey_coordinator(commands, Duration::ZERO);
                    leaves = self.coordinator_free;
                }
            }
        }
        self.coordinator_free = leaves;
        self.leave_at(leaves, frames);
        self.plan_coordinator();
    }

    /// Sees to it that the coordinator is woken when it has something to do.
    pub(super) fn plan_coordinator(&mut self) {
        let Some(due) = self.coordinator.next_wakeup().map(|due| due.max(self.now)) else { return };
        if self.coordinator_due.is_none_or(|(planned, _)| due < planned) {
            self.coordinator_due = Some((due, self.queue.push(due, Event::Coordinator)));
        }
    }

    /// Lets frames leave: links see them in the order in which they do, and over QUIC all at the
    /// end.
    pub(super) fn leave_at(&mut self, last: Time, frames: Vec<Outgoing>) {
        if !frames.is_empty() {
            let at = if self.quic.is_some() { last } else { self.now };
            self.queue.push(at, Event::Leave(frames));
        }
    }
}
