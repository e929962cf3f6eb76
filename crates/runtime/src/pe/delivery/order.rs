//! Order at a receiver: in which order messages and broadcasts pass into a member's mailbox.
//!
//! Messages of a sender pass in the order of their numbers, channel by channel ([`Channels`]);
//! broadcasts to a collection pass in one order for all members. Each message and broadcast states
//! how many of the other kind it comes after. So what one sender sends in one channel keeps its
//! order, whether it is for one member or for all.
//!
//! **A message after a broadcast** carries the number of broadcasts to the collection that its
//! sender had requested, up to the last one in the channel. The member lets the message pass when
//! it has taken the last of them: that broadcast has reached this PE, which counts broadcasts by
//! sender, and its number is below the next one that the member expects.
//!
//! **A broadcast after messages** names the members to which its sender has sent messages since its
//! previous broadcast in the channel, each with the number of messages so far. A named member lets
//! this broadcast and all later ones pass only when that many messages have passed there.
//!
//! **Why there is no deadlock.** By induction over the numbers of broadcasts: a broadcast waits for
//! those with lower numbers, and for messages that were sent before it. Such a message waits for
//! earlier ones of the same sender, and for broadcasts that the same sender requested still
//! earlier. These have lower numbers, since the coordinator numbers each sender's requests in
//! order.
//!
//! **Migration.** A member that arrives before it has taken all broadcasts of its PE is behind the
//! PE, which keeps only the last number of each sender. A message may then wait for a later
//! broadcast than necessary, but not for a broadcast that waits for the message: if the next
//! broadcast is held and comes after the message, the message passes. A member that is ahead of its
//! PE waits for the PE. Held messages move with the member.
//!
//! An inserted member takes no broadcast that is older than itself. Messages that were sent to it
//! before such a broadcast have no order relative to later broadcasts.

use super::channels::{Channels, broadcasts_of, channel};
use super::verdict::{Receiver, Until, Verdict, verdict};
use crate::address::id::{ActorId, KindId, Slot};
use crate::message::envelope::{AnyEnvelope, Header};
use crate::pe::collective::is_stream;
use crate::pe::core::Core;
use crate::pe::fault::PlantedFault;
use crate::pe::members::member::Member;

/// A candidate to pass next.
#[derive(Clone, Copy)]
enum Next {
    Broadcast,
    /// The next message from a sender, in a channel.
    Message(ActorId, i32),
}

impl Core {
    /// Lets `messages` consecutive messages to the member in `slot` pass if the turn of the `first`
    /// has come and the case is simple, and counts them. Returns whether they passed. If not,
    /// [`verdict`] decides. In the simple case nothing is held, so no held message waits for them.
    #[inline(always)]
    pub(super) fn pass_at_once(
        &mut self,
        kind: KindId,
        slot: u32,
        first: &Header,
        messages: u32,
    ) -> bool {
        let is_simple = self.replicas.is_empty()
            && self.common.fault == PlantedFault::None
            && (first.after == 0 || !self.waits(kind, slot, first));
        if !is_simple {
            return false;
        }
        let Some(member) = self.member(kind, slot) else { return false };
        if first.is_broadcast {
            return member.pass_broadcasts(first.sequence, messages);
        }
        let channels = member.channels.get_or_insert_default();
        channels.held.is_empty() && channels.pass(first, messages)
    }

    /// The state of the member in `slot` that matters for this message or broadcast.
    pub(super) fn here(&mut self, (kind, slot): (KindId, u32), header: &Header) -> Receiver {
        let fault = self.common.fault;
        let waits = header.after > 0
            && fault != PlantedFault::BroadcastsApart
            && self.waits(kind, slot, header);
        let is_skipped = fault == PlantedFault::HoldSkipped
            || fault == PlantedFault::StreamsUncounted && is_stream(header.source);
        let Some(member) = self.member(kind, slot).filter(|_| !is_skipped) else {
            return Receiver::Here { expected: header.sequence, waits: false };
        };
        let expected = match header.is_broadcast {
            true => member.broadcasts,
            false => *member.channels.get_or_insert_default().expected_from(header),
        };
        Receiver::Here { expected, waits }
    }

    /// Counts a message or broadcast as delivered to the member in `slot`.
    pub(super) fn count(&mut self, (kind, slot): (KindId, u32), header: &Header) {
        if self.common.fault == PlantedFault::StreamsUncounted && is_stream(header.source) {
            return;
        }
        if let Some(member) = self.member(kind, slot) {
            *match header.is_broadcast {
                true => &mut member.broadcasts,
                false => member.channels.get_or_insert_default().expected_from(header),
            } += 1;
        }
        if !self.replicas.is_empty() {
            self.note_handled_twice(header.to);
        }
    }

    /// Whether a message waits for an earlier broadcast of its sender or, if it is a broadcast, for
    /// earlier messages of its sender.
    #[cold]
    fn waits(&self, kind: KindId, slot: u32, header: &Header) -> bool {
        let Some(member) = self.member_in(Slot { kind, index: slot }) else { return false };
        let Header { source, after, .. } = *header;
        let channels = member.channels.as_deref();
        if header.is_broadcast {
            let passed = channels.map_or(0, |known| known.passed(source, header.priority));
            return passed < after;
        }
        let is_awaited = |known: &Channels| known.is_awaited(member.broadcasts, header);
        !self.has_taken(member, source, after) && !channels.is_some_and(is_awaited)
    }

    /// Whether a member here has taken `count` broadcasts of a sender. Returns false if that is not
    /// certain, since this PE keeps only the number of the sender's last broadcast.
    pub(super) fn has_taken(&self, member: &Member, source: ActorId, count: u64) -> bool {
        let local = self.collections.get(member.id.collection);
        let seen = local.and_then(|local| local.broadcasts.seen.get(&source));
        count == 0
            || seen.is_some_and(|seen| seen.count >= count && seen.number < member.broadcasts)
    }

    /// Holds a message or broadcast at the member in `slot`. Returns whether it was already held.
    pub(super) fn hold_at_member(
        &mut self,
        (kind, slot): (KindId, u32),
        until: Until,
        envelope: Box<dyn AnyEnvelope>,
    ) -> bool {
        let header = *envelope.header();
        let envelope = self.keep(kind, envelope);
        let Some(member) = self.member(kind, slot) else { return true };
        let held = &mut member.channels.get_or_insert_default().held;
        let is_repeated = held.insert(Channels::held_key(&header), envelope).is_some();
        if !is_repeated && until == Until::OtherKind {
            // The messages that `kept_blocked` lets pass have other causes.
            self.end_passing(&header);
            self.kept_blocked(kind, slot, &header);
        }
        is_repeated
    }

    /// Handles a held message or broadcast that is next in its own order and waits for the other
    /// kind.
    fn kept_blocked(&mut self, kind: KindId, slot: u32, header: &Header) {
        if header.is_broadcast {
            // It may free a message of its sender that waits for a later broadcast than necessary.
            let message = Next::Message(header.source, channel(header.priority));
            self.let_pass(kind, slot, vec![message]);
        } else {
            self.note_blocked(kind, slot, header);
        }
    }

    fn note_blocked(&mut self, kind: KindId, slot: u32, header: &Header) {
        let Some(member) = self.member(kind, slot) else { return };
        let way = (header.source, channel(header.priority));
        member.channels.get_or_insert_default().blocked.insert(way);
        let id = member.id;
        if let Some(local) = self.collections.get_mut(id.collection) {
            local.broadcasts.waiting.insert(id.key);
        }
    }

    /// Lets messages and broadcasts pass that waited for `passed`, which has just passed.
    #[inline]
    pub(super) fn release_held(&mut self, kind: KindId, slot: u32, passed: &Header) {
        let channels = self.member(kind, slot).and_then(|member| member.channels.as_deref());
        if channels.is_some_and(|channels| !channels.held.is_empty()) {
            self.release_after(kind, slot, passed);
        }
    }

    #[cold]
    fn release_after(&mut self, kind: KindId, slot: u32, passed: &Header) {
        let mut next = vec![Next::Broadcast];
        if passed.is_broadcast {
            next.extend(self.take_blocked(kind, slot));
        } else {
            next.push(Next::Message(passed.source, channel(passed.priority)));
        }
        self.let_pass(kind, slot, next);
    }

    /// Rechecks all held messages and broadcasts of a member, and lets those pass whose turn has
    /// come.
    pub(crate) fn release_blocked(&mut self, kind: KindId, slot: u32) {
        let mut next = vec![Next::Broadcast];
        next.extend(self.take_blocked(kind, slot));
        self.let_pass(kind, slot, next);
    }

    fn take_blocked(&mut self, kind: KindId, slot: u32) -> impl Iterator<Item = Next> + use<> {
        let channels = self.member(kind, slot).and_then(|member| member.channels.as_deref_mut());
        let blocked = channels.map(|channels| std::mem::take(&mut channels.blocked));
        blocked.into_iter().flatten().map(|(source, channel)| Next::Message(source, channel))
    }

    /// Lets held messages and broadcasts pass, beginning with these candidates and continuing with
    /// those that they free.
    fn let_pass(&mut self, kind: KindId, slot: u32, mut next: Vec<Next>) {
        while let Some(step) = next.pop() {
            let Some(member) = self.member(kind, slot) else { return };
            let (collection, broadcasts) = (member.id.collection, member.broadcasts);
            let Some(channels) = member.channels.as_deref() else { return };
            let key = match step {
                Next::Broadcast => (broadcasts_of(collection), 0, broadcasts),
                Next::Message(source, channel) => {
                    let expected = channels.expected.get((source, channel));
                    (source, channel, expected.unwrap_or(0))
                }
            };
            let Some(header) = channels.held.get(&key).map(|envelope| *envelope.header()) else {
                continue;
            };
            let receiver = self.here((kind, slot), &header);
            match verdict(self.me, &header, receiver) {
                Verdict::Deliver => {
                    self.count((kind, slot), &header);
                    self.make_ready(kind, slot, key);
                    next.push(Next::Broadcast);
                    match step {
                        Next::Broadcast => next.extend(self.take_blocked(kind, slot)),
                        message => next.push(message),
                    }
                }
                Verdict::Hold(Until::OtherKind) if header.is_broadcast => {
                    next.push(Next::Message(header.source, channel(header.priority)));
                }
                Verdict::Hold(Until::OtherKind) => self.note_blocked(kind, slot, &header),
                _ => {}
            }
        }
    }

    /// Puts the held message under this key into the mailbox.
    fn make_ready(&mut self, kind: KindId, slot: u32, key: (ActorId, i32, u64)) {
        let channels = self.member(kind, slot).and_then(|member| member.channels.as_deref_mut());
        let envelope = channels.and_then(|channels| channels.held.remove(&key));
        if let Some(envelope) = envelope {
            self.push_any(kind, slot, envelope.into_inner());
        }
    }
}
