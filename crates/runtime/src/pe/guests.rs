//! Guests: nodes that join a running job, work on its tasks, leave or are lost.
//!
//! Everything but tasks is among the founders: a guest is the home of no actor, and in no tree. So all that can be lost with
//! one is tasks, and those who lent them keep them until their results are in (`tasks/ledger.rs`).
//!
//! **Joining.** A guest knocks at the root, which makes workers there for every pool that is open, tells all nodes, and
//! has the guest begin once all of them know: nobody drops its requests for want of knowing it.
//!
//! **While running.** Workers speak with those of guests in *errands*, which are no messages of actors: they have no
//! numbers, and are no part of what quiescence counts. A task that a guest owes is: see [`Core::await_result`]. Whatever else a guest
//! sends is dropped.
//!
//! **Leaving.** The root tells all nodes that they get nothing from the guest any more, then the guest, which hands
//! back what it has not begun, and says goodbye when nobody waits for anything of it, or after [`GRACE`].
//!
//! **Gone.** When a guest has said goodbye, or any node finds that it does not answer, the root tells all nodes.
//! They do again what it still owes, and drop what still comes of it. A guest that was lost in error learns that it is not needed.
//! A job that does not tolerate the loss of guests ends.

use super::core::Core;
use super::guest_event::GuestEvent;
use super::state::{Entry, Notice, Stage, Tell, Visiting};
use crate::codec;
use crate::envelope::Header;
use crate::error::JobError;
use crate::id::{ActorId, CollectionId, Sender};
use crate::index::{ActorIndex, Ix1};
use crate::parcel::Parcel;
use crate::wire::{Control, Packet, Visit};
use bytes::Bytes;
use gridspan_topology::{GUEST_PES_MAX, NodeId, PeId};
use std::collections::BTreeSet;
use std::time::Duration;

/// How long a guest that leaves waits for the results of tasks that it has begun and others work on. What it owes
/// then is done again.
const GRACE: Duration = Duration::from_secs(20);

impl Core {
    /// Whether this PE is of a guest.
    pub(crate) fn is_guest(&self) -> bool {
        self.common.layout.is_guest(self.common.layout.node_of(self.me))
    }

    /// Whether what has come is to be dropped: another node's guest sends nothing but this.
    pub(super) fn is_uninvited(&self, from: PeId, control: Option<&Control>) -> bool {
        let layout = &self.common.layout;
        let is_foreign = !layout.contains(from) && layout.node_of(from) != layout.node_of(self.me);
        let is_for_guests = matches!(
            control,
            Some(Control::Visit(_) | Control::Errand { .. } | Control::Failed { .. })
        );
        is_foreign && !is_for_guests
    }

    /// Asks the root to take part, and has others told where this node can be reached, in a form that only drivers
    /// know. Runs on the first PE of a guest.
    pub fn knock(&mut self, contact: String) {
        let layout = &self.common.layout;
        let pes = layout.place(layout.node_of(self.me)).pes.len() as u32;
        let fingerprint = self.common.fingerprint;
        self.post(Self::ROOT, Control::Visit(Visit::Knock { fingerprint, pes, contact }));
    }

    /// Asks the root to be let go. Runs on the first PE of a guest.
    pub fn leave(&mut self) {
        self.post(Self::ROOT, Control::Visit(Visit::Leave));
    }

    /// A node does not answer. Without a founder the job cannot go on; a guest that cannot reach one is of no use.
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

    /// Has the member of a collection on this PE told of guests and places.
    pub(crate) fn join_crew(&mut self, collection: CollectionId, tell: Tell<Self>) {
        self.guests.crews.insert(collection, tell);
        if self.me == Self::ROOT {
            self.tell_hierarchy();
            for guest in self.guests.up_to(Stage::Present) {
                self.equip(guest, collection);
            }
        }
    }

    /// The opposite. Returns the PEs of guests that have members of the collection; on the root, that is.
    pub(crate) fn leave_crew(&mut self, collection: CollectionId) -> Vec<PeId> {
        self.guests.crews.remove(&collection);
        self.crew_done(collection);
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
            let inits = Parcel::Bytes(codec::encode(&inits).into());
            let create = Control::Create { info: info.clone(), inits, more: 0 };
            // Not posted, which would count it: nobody counts what guests handle.
            self.outbox.packet(pe, Packet::control(create));
        }
    }

    /// Sends something to the member of a collection on another PE, outside of the order of messages.
    pub(crate) fn send_errand(&mut self, to: PeId, collection: CollectionId, order: Vec<u8>) {
        self.post(to, Control::Errand { collection, order: order.into() });
    }

    /// Hands an errand to the member here. One for a member that is no more is dropped.
    pub(super) fn handle_errand(&mut self, collection: CollectionId, order: Bytes) {
        let id = ActorId { collection, key: Ix1(self.me.0 as i32).key() };
        let Some((number, _)) = self.resident(id) else { return };
        let Some(kind) = self.kind(number) else { return };
        let header = Header {
            to: id,
            source: ActorId::system(self.me),
            sequence: self.channels(Sender::Pe).take_next(id, 0),
            priority: 0,
            epoch: 0,
            hops: 0,
            is_broadcast: false,
            origin: self.me,
            after: 0,
        };
        match kind.envelope(header, Parcel::Bytes(order)) {
            Ok(envelope) => {
                self.created += 1;
                kind.arrive(self, number, envelope);
            }
            Err(error) => self.fail(JobError::Protocol(error.to_string())),
        }
    }

    /// A guest owes something to this PE: until it is there, the job is not quiescent.
    pub(crate) fn await_result(&mut self) {
        self.created += 1;
    }

    /// It does not owe it any more.
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
            Visit::Welcome { guests } => {
                self.guests.present = guests.iter().map(|&(guest, _)| guest).collect();
                self.guests.contacts.extend(guests);
            }
            Visit::Came { guest, contact } => {
                self.guests.present.insert(guest);
                self.guests.contacts.push((guest, contact));
                self.notify(Notice::Came(guest));
                self.post(Self::ROOT, Control::Visit(Visit::Noted { guest }));
            }
            Visit::Left { guest } => {
                self.guests.present.remove(&guest);
                self.notify(Notice::Left(guest));
            }
            Visit::Gone { guest } => {
                self.guests.present.remove(&guest);
                self.guests.gone.insert(guest);
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

    pub(super) fn notify(&mut self, notice: Notice) {
        for (collection, tell) in self.guests.crews.clone() {
            tell(self, collection, notice);
        }
    }

    fn begin_to_leave(&mut self) {
        let crews: BTreeSet<CollectionId> = self.guests.crews.keys().copied().collect();
        let is_free = crews.is_empty();
        self.guests.visit = Visiting::Leaving(crews);
        self.notify(Notice::Leave);
        match is_free {
            true => self.say_goodbye(),
            false => self.run_after(GRACE, Self::say_goodbye),
        }
    }

    /// Nobody waits for anything of the member of a collection here. Runs on the first PE of a guest that leaves.
    pub(crate) fn crew_done(&mut self, collection: CollectionId) {
        if let Visiting::Leaving(crews) = &mut self.guests.visit
            && crews.remove(&collection)
            && crews.is_empty()
        {
            self.say_goodbye();
        }
    }

    fn say_goodbye(&mut self) {
        self.post(Self::ROOT, Control::Visit(Visit::Goodbye));
    }

    /// What only the root does.
    fn host(&mut self, from: PeId, visit: &Visit) {
        let guest = self.common.layout.node_of(from);
        match visit {
            Visit::Knock { fingerprint, pes, contact } => {
                self.admit(guest, *fingerprint, (*pes, contact));
            }
            Visit::Noted { guest } => self.note_known(*guest, from),
            Visit::Leave => self.let_leave(guest),
            Visit::Goodbye => self.bid_farewell(guest, &GuestEvent::Left { guest }),
            Visit::Lost { guest, error } => self.lose_guest(*guest, error),
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
        if fingerprint != self.common.fingerprint {
            let error = JobError::Failed(format!(
                "{guest} runs another program than the job that it is to join, or another version of it; use the job's build"
            ));
            return self.post(layout.leader(guest), Control::Stop { outcome: Err(error) });
        }
        let book = self.guests.book.iter().filter(|(_, entry)| entry.stage <= Stage::Present);
        let guests: Vec<(NodeId, String)> =
            book.map(|(&guest, entry)| (guest, entry.contact.clone())).collect();
        let others = layout.nodes().chain(guests.iter().map(|&(guest, _)| guest));
        let others = others.map(|node| layout.leader(node));
        let awaited: BTreeSet<PeId> = others.collect();
        let welcome = Visit::Welcome { guests };
        self.post(layout.leader(guest), Control::Visit(welcome));
        for collection in self.guests.crews.keys().copied().collect::<Vec<_>>() {
            self.equip((guest, pes), collection);
        }
        for &leader in &awaited {
            let contact = contact.to_owned();
            self.post(leader, Control::Visit(Visit::Came { guest, contact }));
        }
        let (stage, contact) = (Stage::Coming, contact.to_owned());
        self.guests.book.insert(guest, Entry { pes, contact, stage, awaited });
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
        self.post(layout.leader(guest), Control::Visit(Visit::Begin));
        self.tell_of_guest(&GuestEvent::Joined { guest, site, pes });
    }

    fn let_leave(&mut self, guest: NodeId) {
        let Some(entry) = self.guests.book.get_mut(&guest) else { return };
        if entry.stage < Stage::Leaving {
            entry.stage = Stage::Leaving;
            self.tell_others(guest, &Visit::Left { guest });
            self.post(self.common.layout.leader(guest), Control::Visit(Visit::Leave));
            self.tell_of_guest(&GuestEvent::Leaving { guest });
        }
    }

    fn lose_guest(&mut self, guest: NodeId, error: &JobError) {
        if self.guests.book.get(&guest).is_none_or(|entry| entry.stage == Stage::Gone) {
            return;
        }
        match self.common.tolerates_lost_guests {
            true => {
                self.bid_farewell(guest, &GuestEvent::Lost { guest, reason: error.to_string() })
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
        self.tell_others(guest, &Visit::Gone { guest });
        self.post(self.common.layout.leader(guest), Control::Stop { outcome: Ok(()) });
        let leader = self.common.layout.leader(guest);
        let waiting = self.guests.up_to(Stage::Coming);
        waiting.into_iter().for_each(|(other, _)| self.note_known(other, leader));
        self.tell_of_guest(event);
    }

    fn tell_others(&mut self, guest: NodeId, news: &Visit) {
        let layout = self.common.layout.clone();
        let guests = self.guests.up_to(Stage::Leaving).into_iter().map(|(other, _)| other);
        for other in layout.nodes().chain(guests).filter(|&other| other != guest) {
            self.post(layout.leader(other), Control::Visit(news.clone()));
        }
    }

    fn tell_of_guest(&self, event: &GuestEvent) {
        if let Some(tell) = &self.common.on_guests {
            tell(event);
        }
    }

    /// The first PEs of the guests that are still there.
    pub(super) fn guest_leaders(&self) -> Vec<PeId> {
        let guests = self.guests.up_to(Stage::Leaving).into_iter();
        guests.map(|(guest, _)| self.common.layout.leader(guest)).collect()
    }
}
