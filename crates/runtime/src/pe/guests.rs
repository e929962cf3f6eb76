//! Guests: nodes that join a running job, work on its tasks, leave or are lost.
//!
//! Everything but tasks is among the founders: a guest is the home of no actor, and in no tree. So
//! all that can be lost with one is tasks, and those who lent them keep them until their results
//! are in (`tasks/ledger.rs`).
//!
//! **Joining.** A guest knocks at the root, which makes workers there for every pool that is open,
//! tells all nodes, and has the guest begin once all of them know: nobody drops its requests for
//! want of knowing it.
//!
//! **While running.** Guests trade with founders only, and know of no other guest, which they need
//! not reach. Agents speak with those of guests as with all; workers in *worker messages*, which are no
//! messages of actors: they have no numbers, and are no part of what quiescence counts. Whatever
//! else a guest sends is dropped, and a guest that sends what makes no sense is lost.
//!
//! **Leaving.** The root tells all nodes that they get nothing from the guest any more, then the
//! guest, which hands back what it has not begun, and says goodbye when nobody waits for anything
//! of it, or after [`GRACE`].
//!
//! **Gone.** When a guest has said goodbye, or any node finds that it does not answer, the root
//! tells all nodes. They do again what it still owes, and drop what still comes of it, and all
//! tasks that have come through it (`tasks/lineage.rs`). A guest that was lost in error learns that
//! it is not needed. A job that does not tolerate the loss of guests ends, unless the guest had not
//! begun: it has got nothing.

use super::core::Core;
use super::guest_event::GuestEvent;
use super::state::{Entry, IsAllowed, Notice, PoolHooks, Stage, Tell, Visiting};
use crate::codec;
use crate::error::JobError;
use crate::id::CollectionId;
use crate::index::{ActorIndex, Ix1};
use crate::payload::Payload;
use crate::steal_agent::MembershipEvent;
use crate::wire::{Control, Packet, Spread, Visit};
use gridspan_topology::{GUEST_PES_MAX, Hierarchy, NodeId, PeId};
use std::collections::BTreeSet;
use std::fmt::Display;
use std::time::Duration;

/// How long a guest that leaves waits for the results of tasks that it has begun and others work
/// on. What it owes then is done again.
const GRACE: Duration = Duration::from_secs(20);

impl Core {
    /// Whether this PE is of a guest.
    pub(crate) fn is_guest(&self) -> bool {
        self.common.layout.is_guest(self.common.layout.node_of(self.me))
    }

    /// Whether a PE is of a guest that is not this node.
    pub(super) fn is_of_another_guest(&self, pe: PeId) -> bool {
        let layout = &self.common.layout;
        !layout.contains(pe) && layout.node_of(pe) != layout.node_of(self.me)
    }

    /// Whether what has come is to be dropped: a guest that is another node sends nothing but this.
    pub(super) fn is_uninvited(&self, from: PeId, control: Option<&Control>) -> bool {
        let is_for_guests = matches!(
            control,
            Some(Control::Visit(_) | Control::WorkerMessage { .. } | Control::Failed { .. })
        );
        !is_for_guests && self.is_of_another_guest(from)
    }

    /// Asks the root to take part, and has others told where this node can be reached, in a form
    /// that only drivers know. Runs on the first PE of a guest.
    pub fn knock(&mut self, contact: String) {
        let layout = &self.common.layout;
        let pes = layout.place(layout.node_of(self.me)).pes.len() as u32;
        let fingerprint = self.common.definition.fingerprint;
        self.post(Self::ROOT, Control::Visit(Visit::Knock { fingerprint, pes, contact }));
    }

    /// Asks the root to be let go. Runs on the first PE of a guest.
    pub fn leave(&mut self) {
        self.post(Self::ROOT, Control::Visit(Visit::Leave));
    }

    /// A node does not answer. Without a founder the job cannot go on; a guest that cannot reach
    /// one is of no use.
    pub fn node_lost(&mut self, node: NodeId, error: JobError) {
        let layout = &self.common.layout;
        if layout.is_guest(node) {
            self.post(Self::ROOT, Control::Visit(Visit::Lost { guest: node, error }));
        } else if node == layout.node_of(Self::ROOT) {
            self.handle_stop(Err(error));
        } else if self.is_guest() {
            // The root lets this guest go, or has ended the job just now.
            let guest = layout.node_of(self.me);
            self.post(Self::ROOT, Control::Visit(Visit::Lost { guest, error }));
        } else {
            self.fail(error);
        }
    }

    /// Has the member of a collection on this PE told of guests and places, and `is_allowed` asked
    /// of worker messages from other nodes.
    pub(crate) fn register_pool(
        &mut self,
        collection: CollectionId,
        tell: Tell<Self>,
        is_allowed: IsAllowed,
    ) {
        self.guests.pools.insert(collection, PoolHooks { tell, is_allowed });
        if self.me == Self::ROOT {
            self.tell_hierarchy();
            for guest in self.guests.up_to(Stage::Present) {
                self.equip(guest, collection);
            }
        }
    }

    /// The opposite. Returns the PEs of guests that have members of the collection; on the root,
    /// that is.
    pub(crate) fn unregister_pool(&mut self, collection: CollectionId) -> Vec<PeId> {
        self.guests.pools.remove(&collection);
        self.pool_done(collection);
        let all = self.guests.up_to(Stage::Leaving);
        all.into_iter().flat_map(|(guest, pes)| self.pes_of(guest, pes)).collect()
    }

    fn pes_of(&self, guest: NodeId, pes: u32) -> impl Iterator<Item = PeId> + use<> {
        let first = self.common.layout.leader(guest).0;
        (first..first + pes).map(PeId)
    }

    /// Makes the members of a collection on the PEs of a guest.
    fn equip(&mut self, (guest, pes): (NodeId, u32), collection: CollectionId) {
        let Some(local) = self.collections.get(collection) else { return };
        let info = local.info.clone();
        for pe in self.pes_of(guest, pes) {
            let inits = vec![(Ix1(pe.0 as i32).key(), ())];
            let inits = Payload::Bytes(codec::encode(&inits).into());
            let create = Control::Create { info: info.clone(), inits, more: 0 };
            // Not posted, which would count it: nobody counts what guests handle.
            self.outbox.packet(pe, Packet::control(create));
        }
    }

    /// Something that a node has sent makes no sense: a guest is lost with that, and with a founder
    /// the job.
    pub fn blame(&mut self, node: NodeId, reason: impl Display) {
        let error = JobError::Protocol(format!("from {node}: {reason}"));
        match self.common.layout.is_guest(node) && node != self.common.layout.node_of(self.me) {
            true => self.node_lost(node, error),
            false => self.fail(error),
        }
    }

    /// Whether a guest is gone, as far as the root knows.
    pub(super) fn is_gone(&self, node: NodeId) -> bool {
        self.guests.book.get(&node).is_some_and(|entry| entry.stage == Stage::Gone)
    }

    /// Something is under way that main waits for: until it is there, the job is not quiescent.
    pub(crate) fn await_result(&mut self) {
        self.created += 1;
    }

    /// Main has it, or does not wait any more.
    pub(crate) fn settled(&mut self) {
        self.processed += 1;
    }

    /// Deals with news of guests.
    pub(super) fn handle_visit(&mut self, from: PeId, visit: Visit) {
        if self.me == Self::ROOT {
            self.host(from, &visit);
        }
        // The others are for the root, and these from nobody else.
        if from != Self::ROOT {
            return;
        }
        match visit {
            Visit::Came { guest, contact } => {
                self.guests.present.insert(guest);
                self.guests.contacts.push((guest, contact));
                // Before the root hears that this node knows the guest, so that no agent drops
                // what the guest asks for.
                self.tell_agents(MembershipEvent::Came(guest));
                self.notify(Notice::Came);
                self.post(Self::ROOT, Control::Visit(Visit::Noted { guest }));
            }
            Visit::Left { guest } => {
                self.guests.present.remove(&guest);
                self.tell_agents(MembershipEvent::Left(guest));
            }
            Visit::Gone { guest } => {
                self.guests.present.remove(&guest);
                self.guests.gone.insert(guest);
                self.tell_agents(MembershipEvent::Gone(guest));
                self.notify(Notice::Gone(guest));
            }
            Visit::Begin if self.guests.visit == Visiting::Coming => {
                self.guests.visit = Visiting::Working;
                self.notify(Notice::Begin);
            }
            Visit::Leave if self.is_guest() => self.begin_to_leave(),
            _ => {}
        }
    }

    /// Tells the agents of this node; by the same way as their opening, so that none that is
    /// opened misses it.
    fn tell_agents(&mut self, news: MembershipEvent) {
        self.outbox.packet(self.me, Packet::spread(Spread::MembershipEvent(news)));
    }

    pub(super) fn notify(&mut self, notice: Notice) {
        for (collection, hooks) in self.guests.pools.clone() {
            (hooks.tell)(self, collection, notice);
        }
    }

    fn begin_to_leave(&mut self) {
        let pools: BTreeSet<CollectionId> = self.guests.pools.keys().copied().collect();
        let is_free = pools.is_empty();
        self.guests.visit = Visiting::Leaving(pools);
        self.notify(Notice::Leave);
        match is_free {
            true => self.say_goodbye(),
            false => self.run_after(GRACE, Self::say_goodbye),
        }
    }

    /// Nobody waits for anything of the member of a collection here. Runs on the first PE of a
    /// guest that leaves.
    pub(crate) fn pool_done(&mut self, collection: CollectionId) {
        if let Visiting::Leaving(pools) = &mut self.guests.visit
            && pools.remove(&collection)
            && pools.is_empty()
        {
            self.say_goodbye();
        }
    }

    fn say_goodbye(&mut self) {
        self.post(Self::ROOT, Control::Visit(Visit::Goodbye));
    }

    /// What only the root does.
    fn host(&mut self, from: PeId, visit: &Visit) {
        let layout = self.common.layout.clone();
        let guest = layout.node_of(from);
        match visit {
            Visit::Knock { fingerprint, pes, contact } => {
                self.admit(guest, *fingerprint, (*pes, contact));
            }
            Visit::Noted { guest } => self.note_known(*guest, from),
            Visit::Leave => self.let_leave(guest),
            Visit::Goodbye => self.bid_farewell(guest, &GuestEvent::Left { guest }),
            // Of guests, each speaks for itself.
            Visit::Lost { guest: lost, error } if *lost == guest || !layout.is_guest(guest) => {
                self.lose_guest(*lost, error);
            }
            _ => {}
        }
    }

    fn admit(&mut self, guest: NodeId, fingerprint: u64, (pes, contact): (u32, &str)) {
        let layout = self.common.layout.clone();
        let has_founders = layout.nodes_in(layout.site_of_node(guest)).next().is_some();
        let is_new = layout.is_guest(guest) && !self.guests.book.contains_key(&guest);
        if !is_new || !has_founders || pes == 0 || pes > GUEST_PES_MAX {
            return;
        }
        if fingerprint != self.common.definition.fingerprint {
            let error = JobError::Failed(format!(
                "{guest} runs another program than the job that it is to join, or another version of it; use the job's build"
            ));
            return self.post(layout.leader(guest), Control::Stop { outcome: Err(error) });
        }
        let awaited: BTreeSet<PeId> = layout.nodes().map(|node| layout.leader(node)).collect();
        for collection in self.guests.pools.keys().copied().collect::<Vec<_>>() {
            self.equip((guest, pes), collection);
        }
        for &leader in &awaited {
            let contact = contact.to_owned();
            self.post(leader, Control::Visit(Visit::Came { guest, contact }));
        }
        self.guests.book.insert(guest, Entry { pes, stage: Stage::Coming, awaited });
    }

    /// Has a guest begin that everybody knows now.
    fn note_known(&mut self, guest: NodeId, by: PeId) {
        let Some(entry) = self.guests.book.get_mut(&guest) else { return };
        entry.awaited.remove(&by);
        if !entry.awaited.is_empty() || entry.stage != Stage::Coming {
            return;
        }
        entry.stage = Stage::Present;
        let pes = entry.pes;
        let layout = &self.common.layout;
        let site = layout.site_name(layout.site_of_node(guest)).to_owned();
        let leader = layout.leader(guest);
        // All go by the same places, so that they know whom to ask.
        if let Some(hierarchy) = self.hierarchy.clone() {
            self.post(leader, Control::Hierarchy(Box::new(Hierarchy::clone(&hierarchy))));
        }
        self.post(leader, Control::Visit(Visit::Begin));
        self.tell_of_guest(&GuestEvent::Joined { guest, site, pes });
    }

    fn let_leave(&mut self, guest: NodeId) {
        let Some(entry) = self.guests.book.get_mut(&guest) else { return };
        if entry.stage < Stage::Leaving {
            entry.stage = Stage::Leaving;
            self.tell_founders(&Visit::Left { guest });
            self.post(self.common.layout.leader(guest), Control::Visit(Visit::Leave));
            self.tell_of_guest(&GuestEvent::Leaving { guest });
        }
    }

    fn lose_guest(&mut self, guest: NodeId, error: &JobError) {
        let stage = match self.guests.book.get(&guest) {
            Some(entry) if entry.stage != Stage::Gone => entry.stage,
            _ => return,
        };
        // One that has not begun owes nothing: it never got in, which may be the network's fault.
        match self.common.tolerates_lost_guests || stage == Stage::Coming {
            true => {
                self.bid_farewell(guest, &GuestEvent::Lost { guest, reason: error.to_string() });
            }
            false => self.stop(Err(error.clone())),
        }
    }

    fn bid_farewell(&mut self, guest: NodeId, event: &GuestEvent) {
        let Some(entry) = self.guests.book.get_mut(&guest) else { return };
        if entry.stage == Stage::Gone {
            return;
        }
        entry.stage = Stage::Gone;
        // Other guests may work on what has come through this one.
        for (other, _) in self.guests.up_to(Stage::Leaving) {
            self.post(self.common.layout.leader(other), Control::Visit(Visit::Gone { guest }));
        }
        self.tell_founders(&Visit::Gone { guest });
        let outcome = match event {
            GuestEvent::Lost { reason, .. } => Err(JobError::Failed(format!(
                "the job goes on without this node, which was taken for lost ({reason}); join again with a new invitation"
            ))),
            _ => Ok(()),
        };
        self.post(self.common.layout.leader(guest), Control::Stop { outcome });
        self.tell_of_guest(event);
    }

    fn tell_founders(&mut self, news: &Visit) {
        let layout = self.common.layout.clone();
        for founder in layout.nodes() {
            self.post(layout.leader(founder), Control::Visit(news.clone()));
        }
    }

    fn tell_of_guest(&self, event: &GuestEvent) {
        for tell in &self.common.on_guests {
            tell(event);
        }
    }

    /// The first PEs of the guests that are still there.
    pub(super) fn guest_leaders(&self) -> Vec<PeId> {
        let guests = self.guests.up_to(Stage::Leaving).into_iter();
        guests.map(|(guest, _)| self.common.layout.leader(guest)).collect()
    }
}
