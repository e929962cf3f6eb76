//! The membership of guests: nodes that join a running job for its tasks.
//!
//! `pe/membership` describes how they work and leave.

use super::machine::Coordinator;
use super::state::membership::{Entry, Members};
use crate::address::id::{CollectionId, MAIN_PE};
use crate::address::index::{ActorIndex, Ix1};
use crate::error::{JobError, Warning};
use crate::message::codec;
use crate::message::payload::Payload;
use crate::message::{Control, MembershipEvent, MembershipMessage, Stage};
use crate::pe::GuestEvent;
use crate::schema::definition::Definition;
use bytes::Bytes;
use gridspan_topology::{GUEST_PES_MAX, NodeId, PeId};
use std::collections::BTreeSet;

impl Coordinator {
    /// Returns the first PEs of the present guests.
    pub(super) fn guest_leaders(&self) -> Vec<PeId> {
        let guests = self.members.up_to(Stage::Draining).into_iter();
        guests.map(|(guest, _)| self.common.layout.leader(guest)).collect()
    }

    /// Compares a node's program with that of the coordinator, and ends the job if their
    /// definitions differ, because no other check would detect that the node misreads values.
    pub(super) fn handle_greet(&mut self, from: PeId, definition: &Definition) {
        let layout = &self.common.layout;
        let node = layout.node_of(from);
        let site = layout.site_name(layout.site_of(from)).to_owned();
        let (own, host) = (&self.common.definition, definition.origin.host.clone());
        if let Some(difference) = own.difference(definition) {
            return self.fail(JobError::OtherProgram { node, site, host, difference });
        }
        if own.is_of_other_build(definition) {
            let warning = Warning::OtherBuild { node, site, host };
            self.common.watch.on_warning.iter().for_each(|tell| tell(&warning));
        }
        self.note_greeting(node);
    }

    /// Handles the opening of a pool: sends the hierarchy if that is due, and creates members of
    /// the pool's collection on the guests.
    pub(super) fn open_pool(&mut self, collection: CollectionId) {
        self.members.pools.insert(collection);
        self.tell_hierarchy();
        for guest in self.members.taking_part() {
            self.equip(guest, collection);
        }
    }

    /// Handles the closing of a pool: sends the `farewell` to its members on guests.
    pub(super) fn close_pool(&mut self, collection: CollectionId, farewell: &Bytes) {
        self.members.pools.remove(&collection);
        for (guest, pes) in self.members.taking_part() {
            for pe in self.pes_of(guest, pes) {
                let message = farewell.clone();
                self.post_uncounted(pe, Control::WorkerMessage { collection, message });
            }
        }
    }

    fn pes_of(&self, guest: NodeId, pes: u32) -> impl Iterator<Item = PeId> + use<> {
        let first = self.common.layout.leader(guest).0;
        (first..first + pes).map(PeId)
    }

    /// Creates the members of a collection on the PEs of a guest. Messages that guests handle are
    /// not counted.
    fn equip(&mut self, (guest, pes): (NodeId, u32), collection: CollectionId) {
        let Some(info) = self.collections.get(&collection).map(|state| state.info.clone()) else {
            return;
        };
        for pe in self.pes_of(guest, pes) {
            let inits = vec![(Ix1(pe.0 as i32).key(), ())];
            let inits = Payload::Bytes(codec::encode(&inits).into());
            self.post_uncounted(pe, Control::Create { info: info.clone(), inits, more: 0 });
        }
    }

    /// Sends the hierarchy to all nodes once it is known and a pool is open, because nodes share
    /// tasks by it.
    pub(super) fn tell_hierarchy(&mut self) {
        let Members { pools, is_hierarchy_told, .. } = &mut self.members;
        let Some(places) = self.survey.places.clone() else { return };
        if pools.is_empty() || std::mem::replace(is_hierarchy_told, true) {
            return;
        }
        let hierarchy = || Control::Hierarchy(Box::new(places.hierarchy.clone()));
        self.post_to_all(hierarchy);
        for guest in self.guest_leaders() {
            self.post(guest, hierarchy());
        }
    }

    pub(super) fn handle_membership(&mut self, from: PeId, message: &MembershipMessage) {
        let layout = self.common.layout.clone();
        let sender = layout.node_of(from);
        match message {
            MembershipMessage::Join { fingerprint, pes, contact } => {
                self.admit(sender, *fingerprint, (*pes, contact));
            }
            MembershipMessage::Acknowledge { node } => self.note_known(*node, from),
            MembershipMessage::Leave => self.drain(sender),
            MembershipMessage::Drained => {
                self.end_membership(sender, Stage::Left, &GuestEvent::Left { guest: sender });
            }
            // A guest may report only itself.
            MembershipMessage::Unreachable { node, error }
                if *node == sender || !layout.is_guest(sender) =>
            {
                match layout.is_guest(*node) {
                    true => self.lose_guest(*node, error),
                    false => self.lose_founder(*node, error),
                }
            }
            MembershipMessage::Spares { node, need } if !layout.is_guest(sender) => {
                self.note_answer(sender, *node, *need);
            }
            MembershipMessage::Needs { node } if !layout.is_guest(sender) => {
                self.end_for_need(*node);
            }
            MembershipMessage::Rest { nodes } if sender == layout.node_of(MAIN_PE) => {
                self.let_rest(nodes);
            }
            _ => {}
        }
    }

    fn admit(&mut self, guest: NodeId, fingerprint: u64, (pes, contact): (u32, &str)) {
        let layout = self.common.layout.clone();
        let has_founders = layout.nodes_in(layout.site_of_node(guest)).next().is_some();
        let is_new = layout.is_guest(guest) && !self.members.guests.contains_key(&guest);
        if !is_new || !has_founders || pes == 0 || pes > GUEST_PES_MAX {
            return;
        }
        if self.losses.is_any() {
            // Guests exchange tasks with all founders.
            let error = JobError::Failed("the job has lost a node, and takes no guests".to_owned());
            return self.post(layout.leader(guest), Control::Stop { outcome: Err(error) });
        }
        if fingerprint != self.common.definition.fingerprint {
            let error = JobError::GuestOtherProgram { guest };
            return self.post(layout.leader(guest), Control::Stop { outcome: Err(error) });
        }
        let awaited: BTreeSet<PeId> = layout.nodes().map(|node| layout.leader(node)).collect();
        for &leader in &awaited {
            let contact = contact.to_owned();
            let announcement = MembershipMessage::Announce { node: guest, contact };
            self.post(leader, Control::Membership(announcement));
        }
        self.members.guests.insert(guest, Entry { pes, stage: Stage::Joining, awaited });
    }

    /// Notes that `by` knows a guest, which becomes active once all nodes know it.
    fn note_known(&mut self, guest: NodeId, by: PeId) {
        let Some(entry) = self.members.guests.get_mut(&guest) else { return };
        entry.awaited.remove(&by);
        if !entry.awaited.is_empty() || entry.stage != Stage::Joining {
            return;
        }
        entry.stage = Stage::Active;
        let pes = entry.pes;
        let layout = &self.common.layout;
        let site = layout.site_name(layout.site_of_node(guest)).to_owned();
        let leader = layout.leader(guest);
        // All nodes use the same places to decide which node to ask for tasks.
        if let Some(places) = self.survey.places.clone().filter(|_| self.members.is_hierarchy_told)
        {
            self.post(leader, Control::Hierarchy(Box::new(places.hierarchy.clone())));
        }
        // Every node, including this one, knows the guest's address by now.
        for collection in self.members.pools.clone() {
            self.equip((guest, pes), collection);
        }
        if self.term > 0 {
            self.post(leader, Control::CoordinatorAt(self.place()));
        }
        self.post(leader, reached(guest, Stage::Active));
        self.tell_of_guest(&GuestEvent::Joined { guest, site, pes });
    }

    fn drain(&mut self, guest: NodeId) {
        let Some(entry) = self.members.guests.get_mut(&guest) else { return };
        if entry.stage < Stage::Draining {
            entry.stage = Stage::Draining;
            self.tell_founders(guest, Stage::Draining);
            self.post(self.common.layout.leader(guest), reached(guest, Stage::Draining));
            self.tell_of_guest(&GuestEvent::Leaving { guest });
        }
    }

    /// Handles the failure of a node, which ends the job unless the node is a guest that has no
    /// tasks: it has left, or the coordinator has not admitted it.
    pub(super) fn handle_failed(&mut self, node: NodeId, error: JobError) {
        let stage = self.members.guests.get(&node).map(|entry| entry.stage);
        match stage {
            Some(Stage::Joining) => self.lose_guest(node, &error),
            Some(stage) if stage.is_gone() => {}
            None if self.common.layout.is_guest(node) => {
                let leader = self.common.layout.leader(node);
                self.post(leader, Control::Stop { outcome: Err(error) });
            }
            _ => self.stop(Err(error)),
        }
    }

    fn lose_guest(&mut self, guest: NodeId, error: &JobError) {
        let stage = match self.members.guests.get(&guest) {
            Some(entry) if !entry.stage.is_gone() => entry.stage,
            _ => return,
        };
        // A guest that is still joining holds no tasks, so its loss does not end the job.
        match self.common.tolerates_lost_guests || stage == Stage::Joining {
            true => {
                let event = GuestEvent::Lost { guest, reason: error.to_string() };
                self.end_membership(guest, Stage::Lost, &event);
            }
            false => self.stop(Err(error.clone())),
        }
    }

    fn end_membership(&mut self, guest: NodeId, stage: Stage, event: &GuestEvent) {
        let Some(entry) = self.members.guests.get_mut(&guest) else { return };
        if entry.stage.is_gone() {
            return;
        }
        entry.stage = stage;
        // Other guests may work on tasks that came through this guest.
        for leader in self.guest_leaders() {
            self.post(leader, reached(guest, stage));
        }
        self.tell_founders(guest, stage);
        let outcome = match event {
            GuestEvent::Lost { reason, .. } => {
                Err(JobError::GuestDeclaredLost { reason: reason.clone() })
            }
            _ => Ok(()),
        };
        self.post(self.common.layout.leader(guest), Control::Stop { outcome });
        self.tell_of_guest(event);
    }

    fn tell_founders(&mut self, node: NodeId, stage: Stage) {
        let layout = self.common.layout.clone();
        for founder in layout.nodes() {
            self.post(layout.leader(founder), reached(node, stage));
        }
    }

    fn tell_of_guest(&self, event: &GuestEvent) {
        for tell in &self.common.on_guests {
            tell(event);
        }
    }
}

fn reached(node: NodeId, stage: Stage) -> Control {
    Control::Membership(MembershipMessage::Reached(MembershipEvent { node, stage }))
}
