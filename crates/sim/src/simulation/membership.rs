//! Guests in virtual time, which join, leave, die, or are declared lost; and losses of founders.

use super::{Event, Simulation};
use crate::faults::LostNode;
use crate::guests::{Departure, GuestPlan, GuestStep};
use crate::node::Node;
use crate::report::SimError;
use crate::station::Station;
use gridspan_runtime::coordinator::CoordinatorHost;
use gridspan_runtime::pe::{Action, Core, Pe};
use gridspan_runtime::relay::Relay;
use gridspan_runtime::{JobError, Layout, LossCause, NodeId, PeId, Program, SiteId, Time};
use gridspan_topology::Speed;
use std::collections::BTreeMap;

/// A guest with its machines.
pub(super) struct PreparedGuest {
    guest: NodeId,
    plan: GuestPlan,
    machines: Vec<Pe>,
    relay: Relay,
    host: CoordinatorHost,
}

/// Creates the planned guests, numbered in each site in the order of the plans.
pub(super) fn prepare(
    program: &Program,
    plans: &[GuestPlan],
) -> Result<Vec<PreparedGuest>, SimError> {
    let mut numbers = BTreeMap::<SiteId, u32>::new();
    let prepare = |&plan: &GuestPlan| {
        let number = numbers.entry(plan.site).or_default();
        let guest = program.layout().guest(plan.site, *number);
        let guest = guest.ok_or(SimError::NoPlace { site: plan.site.0 })?;
        *number += 1;
        let (machines, relay, host) = program.guest_node(guest, plan.pes);
        Ok(PreparedGuest { guest, plan, machines, relay, host })
    };
    plans.iter().map(prepare).collect()
}

/// Checks that all nodes that are to be lost are in the layout.
pub(super) fn check_lost(lost: &[LostNode], layout: &Layout) -> Result<(), SimError> {
    let is_missing = |node: &NodeId| node.0 >= layout.node_count();
    match lost.iter().map(|lost| lost.node).find(is_missing) {
        Some(node) => Err(SimError::NoSuchNode { node }),
        None => Ok(()),
    }
}

impl Simulation {
    /// Schedules the arrivals and departures of guests.
    pub(super) fn expect(&mut self, guests: Vec<PreparedGuest>) {
        for PreparedGuest { guest, plan, machines, relay, host } in guests {
            self.nodes.add(guest, Node::guest());
            self.relays.add(guest, relay);
            self.hosts.add(guest, host);
            for machine in machines {
                self.stations.add(machine.id(), Station::new(machine, Speed::ORDINARY));
            }
            let joins = Event::Guest(guest, GuestStep::Joins);
            self.queue.push(Time::ZERO + plan.joins, joins);
            if let Some((at, how)) = plan.departs {
                let departs = Event::Guest(guest, GuestStep::Departs(how));
                self.queue.push(Time::ZERO + at.max(plan.joins), departs);
            }
        }
    }

    /// Schedules the losses of founders.
    pub(super) fn expect_losses(&mut self) {
        let lost = self.options.lost_nodes.clone();
        for LostNode { node, at, is_mistaken } in lost {
            let how = if is_mistaken { Departure::Mistaken } else { Departure::Killed };
            self.queue.push(Time::ZERO + at, Event::Guest(node, GuestStep::Departs(how)));
        }
    }

    /// Whether a PE is finished. Either its node has died; or the PE has ended, and belongs to a
    /// guest or to a node that was declared lost in error.
    pub(super) fn is_over(&self, pe: PeId) -> bool {
        let node = self.layout.node_of(pe);
        let ends_alone = self.layout.is_guest(node) || self.mistaken.contains(&node);
        self.dead.contains(&node) || ends_alone && self.stations[pe].machine.outcome().is_some()
    }

    pub(super) fn step_guest(&mut self, guest: NodeId, step: GuestStep) {
        let leader = self.layout.leader(guest);
        match step {
            GuestStep::Joins => {
                let contact = self.join(guest);
                self.schedule_action(leader, |core| core.join(contact));
            }
            GuestStep::Departs(Departure::Leaves) => self.schedule_action(leader, Core::leave),
            // Over QUIC, the transports declare it lost.
            GuestStep::Departs(Departure::Mistaken) if self.quic.is_some() => self.cut_off(guest),
            GuestStep::Departs(Departure::Mistaken) => {
                if !self.layout.is_guest(guest) {
                    self.mistaken.insert(guest);
                }
                self.miss(guest);
            }
            GuestStep::Missed => self.miss(guest),
            GuestStep::Departs(Departure::Killed) => {
                self.dead.insert(guest);
                if let Some(quic) = &mut self.quic {
                    return quic.kill(guest);
                }
                let at = self.now + self.options.silence;
                self.queue.push(at, Event::Guest(guest, GuestStep::Missed));
            }
        }
    }

    /// Makes every other founder report a node as silent. If all founders are dead, ends the job
    /// with the loss.
    fn miss(&mut self, guest: NodeId) {
        let site = self.layout.site_name(self.layout.site_of_node(guest)).to_owned();
        let (cause, reason, others) = (LossCause::Silent, "it is silent".to_owned(), Vec::new());
        let error = JobError::NodeLost { node: guest, site, cause, reason, others };
        let layout = self.layout.clone();
        if !layout.is_guest(guest) && layout.nodes().all(|node| self.dead.contains(&node)) {
            // No node is left that could end the job.
            self.broken.get_or_insert(error);
            return;
        }
        for node in layout.nodes().filter(|&node| node != guest) {
            let error = error.clone();
            let leader = self.layout.leader(node);
            self.schedule_action(leader, move |core| core.node_lost(guest, error));
        }
    }

    /// Schedules an action for a PE.
    pub(super) fn schedule_action(
        &mut self,
        pe: PeId,
        action: impl FnOnce(&mut Core) + Send + 'static,
    ) {
        self.schedule_boxed_action(pe, Box::new(action));
    }

    /// Like `schedule_action`, for a boxed action.
    pub(super) fn schedule_boxed_action(&mut self, pe: PeId, action: Action) {
        self.stations[pe].actions.push(action);
        self.schedule_turn(pe);
    }
}
