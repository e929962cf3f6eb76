//! Destruction of members, and insertion of new members under their indices.
//!
//! **Start.** The PE on which a member ends sends the member's counters to its home, as its
//! tombstone (`tombstones`).
//!
//! **Steady state.** A PE that knows that the member is gone forwards messages for the member to
//! the member's home, which counts them in their order and drops them. The home does the same with
//! messages for a member that never existed, once they have waited long enough. The home drops a
//! message without waiting for the broadcasts that the sender sent before.
//!
//! **Return.** A new member takes over the counters of the tombstone, and the messages there that
//! wait for earlier messages. Every message is dropped or handled once, and the order is kept. An
//! insertion that arrives before the tombstone waits for it.

use super::channels::{BROADCAST, Channels};
use super::directory::Place;
use super::state::UNKNOWN_MEMBER_HOLD;
use crate::address::id::{ActorId, COORDINATOR, KindId};
use crate::error::{JobError, Misuse};
use crate::message::{Control, Insertion, Tombstone};
use crate::pe::collective::is_stream;
use crate::pe::core::Core;
use crate::pe::members::member::Member;
use crate::pe::migrate;

impl Core {
    /// Removes a destroyed member and drops the messages in its mailbox.
    pub(crate) fn remove_member(&mut self, id: ActorId, kind: KindId, slot: u32) {
        let Some((member, mailbox)) = self.take_out(kind, slot) else { return };
        self.free[kind.index()].push(slot);
        self.deferred.remove(&id);
        self.note_dropped(id, mailbox.len() as u64, "it was destroyed");
        self.announce_death(kind, member);
    }

    /// Sends a member's tombstone to its home, and reports its end to the coordinator.
    fn announce_death(&mut self, kind: KindId, mut member: Member) {
        let Member { id, reductions, syncs, .. } = member;
        // A plan that was made while the member lived may have announced one more move.
        let epoch = member.epoch.saturating_add(2);
        if let Some(channels) = &mut member.channels {
            let before = channels.held.len();
            let is_for_all = |source: ActorId| source.collection == BROADCAST || is_stream(source);
            channels.held.retain(|(source, _, _), _| !is_for_all(*source));
            let lost = before - channels.held.len();
            self.note_dropped(id, lost as u64, "it was destroyed");
        }
        let Some(home) = self.home(id) else { return };
        if home == self.me {
            // Set at once: the next message may arrive before a packet from this PE to itself.
            self.set_tombstone(id, epoch, member.channels);
        } else {
            self.delivery.learn(id, Place { gone: true, ..Place::at(home, epoch) });
            let (record, held) = (migrate::record(&member), migrate::held(&member));
            let tombstone = Tombstone { id, kind, epoch, record, held };
            self.post(home, Control::Tombstone(Box::new(tombstone)));
        }
        self.post(COORDINATOR, Control::Destroyed { id, reductions, syncs });
    }

    /// Takes the tombstone of a member whose home this is.
    pub(crate) fn handle_tombstone(&mut self, tombstone: &Tombstone) {
        let Tombstone { id, kind, epoch, ref record, ref held } = *tombstone;
        match migrate::channels(self, kind, record, held) {
            Ok(channels) => self.set_tombstone(id, epoch, channels),
            Err(error) => self.fail(JobError::Protocol(error.to_string())),
        }
    }

    /// Stores a tombstone. From now on messages for the member are dropped, until a new member
    /// takes its index.
    fn set_tombstone(&mut self, id: ActorId, epoch: u32, channels: Option<Box<Channels>>) {
        if let Some(channels) = channels {
            let dropped = self.delivery.tombstones.set(id, channels);
            self.note_dropped(id, dropped, "it was destroyed");
        }
        let here = Place { gone: true, ..Place::at(self.me, epoch) };
        self.delivery.learn(id, here);
        self.release_awaiting(id);
        if let Some((timer, insertion)) = self.delivery.tombstones.insertions.remove(&id) {
            self.timers.cancel(timer);
            self.processed += 1;
            self.post(self.me, Control::Insert(insertion));
        }
    }

    /// Prepares an insertion on the home of the new member. Returns `None` if it is forwarded,
    /// waits, or fails.
    pub(crate) fn prepare_insertion(
        &mut self,
        mut insertion: Box<Insertion>,
    ) -> Option<Box<Insertion>> {
        let Insertion { id, at, .. } = *insertion;
        if !self.common.layout.contains(at) {
            self.fail(Misuse::InsertedNowhere { pe: at }.into());
            return None;
        }
        let here = self.resident(id).is_some()
            || self.departing.contains_key(&id)
            || self.arriving.contains(&id);
        let place = self.delivery.directory.place(id);
        if here || self.delivery.tombstones.insertions.contains_key(&id) {
            self.fail_occupied(id);
            return None;
        }
        if place.is_some_and(|place| !place.gone) {
            self.postpone(insertion);
            return None;
        }
        insertion.epoch =
            place.map_or(0, |place| place.epoch.saturating_add(1)).max(u32::from(at != self.me));
        if let Some(tombstone) = self.delivery.tombstones.take(id) {
            insertion.held = migrate::held_in(&tombstone);
            migrate::write_counters(&tombstone, &mut insertion.record);
        }
        if at == self.me {
            return Some(insertion);
        }
        let epoch = insertion.epoch;
        self.post(at, Control::Insert(insertion));
        self.learn(id, Place::at(at, epoch));
        None
    }

    /// Keeps an insertion until the member that currently has its index has ended. The job fails if
    /// that takes longer than [`UNKNOWN_MEMBER_HOLD`].
    fn postpone(&mut self, insertion: Box<Insertion>) {
        // The job is not quiescent while this waits.
        self.created += 1;
        let id = insertion.id;
        let too_late = Box::new(move |core: &mut Self| core.fail_occupied(id));
        let timer = self.timers.set(self.now + UNKNOWN_MEMBER_HOLD, too_late);
        self.delivery.tombstones.insertions.insert(id, (timer, insertion));
    }

    pub(in crate::pe) fn fail_occupied(&mut self, id: ActorId) {
        let (collection, member) = (id.collection.0, format!("{:?}", id.key));
        self.fail(Misuse::IndexTaken { collection, member }.into());
    }
}
