//! The reference model: invariants of members and messages, checked during the run.
//!
//! Actors cross the network as bytes, so they cannot hold a reference to the model. The model is a
//! thread-local instead: one simulation runs on one thread from beginning to end. Senders and
//! handlers call the model as they run, and the model records the first violation. Whenever the
//! coordinator finds quiescence, the model checks that nothing is missing.

use super::action_counts::ActionCounts;
use super::bonds::Bonds;
use super::broadcasts::{Broadcasts, LARGE_AMID_ONE_IN};
use super::interleaving::Interleaving;
use super::items::Items;
use super::notes::Notes;
use super::numbered::Numbered;
use super::orders::load;
use super::rounds::{Contribution, Kind, Rounds, Total, contribution};
use super::unordered::Unordered;
use bytes::Bytes;
use gridspan_runtime::{ActorId, CollectionId, Key, PeId};
use gridspan_topology::dice::Dice;
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

thread_local! {
    static LEDGER: RefCell<Option<Ledger>> = const { RefCell::new(None) };
}

/// Sender of the messages of main.
pub(super) const MAIN: ActorId = ActorId { collection: CollectionId(u32::MAX), key: Key(0) };

/// State of a member in the model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Life {
    /// Its insertion was requested; `again` if there was another member of this index before.
    Expected { again: bool },
    /// It lives; the number of its moves, and the PE where it was last seen.
    Here { moves: u32, pe: PeId },
    /// It was destroyed.
    Gone,
}

/// A message on its way.
#[derive(Clone, Copy, Debug)]
struct Sent {
    number: u64,
    /// Whether it must be handled. Otherwise its receiver did not exist or has been destroyed, or
    /// was to be inserted at the index of a destroyed member: the message may be dropped, or
    /// handled by a later member of that index.
    due: bool,
}

pub(super) struct Ledger {
    pub(super) dice: Dice,
    members: BTreeMap<ActorId, Life>,
    /// Messages that were sent and not yet handled, in order, by sender, receiver and priority.
    channels: BTreeMap<(ActorId, ActorId, i32), VecDeque<Sent>>,
    /// Sender and priority of each message, by number.
    messages: Vec<(ActorId, i32)>,
    /// Open timers and questions by token, with the member that will receive the message or the
    /// answer once.
    open: BTreeMap<u64, ActorId>,
    /// Open timers and questions of members that are gone. A later member of the same index may
    /// receive the message or the answer.
    orphaned: BTreeSet<u64>,
    tokens: u64,
    broadcasts: Broadcasts,
    unordered: Unordered,
    interleaving: Interleaving,
    pub(super) rounds: Rounds,
    pub(super) notes: Notes,
    pub(super) items: Items,
    /// Collections whose members are created by the first message to them.
    pub(super) on_demand: BTreeSet<CollectionId>,
    pub(super) bonds: Bonds,
    pub(super) actions: ActionCounts,
    /// Probability that an arriving member is refused. It is 0 until the job has begun, because the
    /// runtime finds the structure of types by decoding values, once per process.
    pub(super) refusal: f64,
    problem: Option<String>,
}

/// Installs a new model on this thread, for a job that is balanced or not.
pub(super) fn install(dice: Dice, is_balanced: bool) {
    let ledger = Ledger {
        dice,
        members: BTreeMap::new(),
        channels: BTreeMap::new(),
        messages: Vec::new(),
        open: BTreeMap::new(),
        orphaned: BTreeSet::new(),
        tokens: 0,
        broadcasts: Broadcasts::default(),
        unordered: Unordered::default(),
        interleaving: Interleaving::default(),
        rounds: Rounds::new(is_balanced),
        notes: Notes::default(),
        items: Items::default(),
        on_demand: BTreeSet::new(),
        bonds: Bonds::default(),
        actions: ActionCounts::default(),
        refusal: 0.0,
        problem: None,
    };
    LEDGER.set(Some(ledger));
}

/// Removes and returns the model of this thread. `None` if there is none.
pub(super) fn take() -> Option<Ledger> {
    LEDGER.take()
}

/// Calls `look` with the model of this thread. Panics if there is none.
pub(super) fn with<R>(look: impl FnOnce(&mut Ledger) -> R) -> R {
    LEDGER
        .with_borrow_mut(|ledger| look(ledger.as_mut().expect("a campaign has installed a model")))
}

impl Ledger {
    /// Records a violation, if it is the first.
    pub(super) fn violated(&mut self, what: String) {
        self.problem.get_or_insert(what);
    }

    pub(super) fn problem(&self) -> Option<&str> {
        self.problem.as_deref()
    }

    /// Members that live or are expected, in order.
    pub(super) fn living(&self, collection: CollectionId) -> Vec<ActorId> {
        let of = |(id, life): (&ActorId, &Life)| {
            (id.collection == collection && *life != Life::Gone).then_some(*id)
        };
        self.members.iter().filter_map(of).collect()
    }

    /// Members that live, in order.
    pub(super) fn present(&self, collection: CollectionId) -> Vec<ActorId> {
        let mut living = self.living(collection);
        living.retain(|id| self.place(*id).is_some());
        living
    }

    /// The PE where a member was last seen, if it lives.
    fn place(&self, id: ActorId) -> Option<PeId> {
        match self.members.get(&id) {
            Some(&Life::Here { pe, .. }) => Some(pe),
            _ => None,
        }
    }

    /// The living partners of a member, and the PEs where they were last seen.
    pub(super) fn partners(&self, id: ActorId) -> Vec<(ActorId, PeId)> {
        self.bonds.others(id).filter_map(|other| Some((other, self.place(other)?))).collect()
    }

    /// Whether the insertion of a partner of this member was requested and has not happened.
    pub(super) fn awaits_partners(&self, id: ActorId) -> bool {
        let is_expected = |id| matches!(self.members.get(&id), Some(Life::Expected { .. }));
        self.bonds.others(id).any(is_expected)
    }

    /// Whether a member of this identity neither lives nor is expected.
    pub(super) fn may_insert(&self, id: ActorId) -> bool {
        matches!(self.members.get(&id), None | Some(Life::Gone))
    }

    /// The indices that members of the base have had, and at which the base or a collection bound
    /// to it has no living or expected member.
    pub(super) fn lacking(&self, base: CollectionId) -> Vec<Key> {
        let ids = self.members.keys().filter(|id| id.collection == base).copied();
        let lacks =
            |id: &ActorId| self.bonds.others(*id).chain([*id]).any(|it| self.may_insert(it));
        ids.filter(lacks).map(|id| id.key).collect()
    }

    /// Checks that partners are on one PE.
    fn check_partners(&self) -> Result<(), String> {
        let base = self.bonds.base();
        for id in base.into_iter().flat_map(|base| self.present(base)) {
            let place = self.place(id);
            if let Some((other, pe)) =
                self.partners(id).into_iter().find(|&(_, pe)| Some(pe) != place)
            {
                return Err(format!("{other:?} is on {pe}, its partner {id:?} on {place:?}"));
            }
        }
        Ok(())
    }

    /// Number of actors that live: members, forwarders, readers and carriers.
    pub(super) fn living_count(&self) -> u64 {
        let here = self.members.values().filter(|life| matches!(life, Life::Here { .. }));
        here.count() as u64 + self.notes.forwarders_and_readers + self.items.carriers
    }

    /// Returns the index for a new member of a collection: a new one, or that of a destroyed
    /// member.
    pub(super) fn free_index<I: Numbered>(&mut self, collection: CollectionId, fresh: i32) -> I {
        let gone = |(id, life): (&ActorId, &Life)| {
            (id.collection == collection && *life == Life::Gone).then(|| I::from_key(id.key))
        };
        let gone: Vec<I> = self.members.iter().filter_map(gone).collect();
        match gone.is_empty() || self.dice.chance(0.5) {
            true => I::of(fresh + self.actions.insertions as i32),
            false => self.dice.one_of(&gone),
        }
    }

    pub(super) fn insertion_asked(&mut self, id: ActorId) {
        let again = self.members.contains_key(&id);
        self.members.insert(id, Life::Expected { again });
        self.actions.insertions += 1;
        self.actions.insertions_again += u64::from(again);
    }

    pub(super) fn created(&mut self, id: ActorId, pe: PeId) {
        let before = self.members.insert(id, Life::Here { moves: 0, pe });
        if matches!(before, Some(Life::Here { .. })) {
            self.violated(format!("{id:?} was created a second time, on {pe}"));
        }
        if self.on_demand.contains(&id.collection) {
            self.created_on_demand(id);
        }
        self.broadcasts.joined(id);
        self.unordered.joined(id);
        self.interleaving.joined(id);
        self.rounds.joined(id);
    }

    /// Counts a member created on demand, and checks that a message to it is on its way.
    fn created_on_demand(&mut self, id: ActorId) {
        let mut channels = self.channels.iter();
        let is_demanded = channels.any(|((_, to, _), sent)| *to == id && !sent.is_empty());
        self.actions.on_demand += 1;
        if !is_demanded {
            self.violated(format!("{id:?} was created, but no message to it is on its way"));
        }
    }

    /// Checks that the running member is where the model expects it, so that it exists once.
    pub(super) fn runs(&mut self, id: ActorId, pe: PeId, moves: u32) {
        let here = Life::Here { moves, pe };
        let known = self.members.get(&id).copied();
        if known != Some(here) {
            self.violated(format!("{id:?} runs as {here:?}, but the model knows {known:?}"));
        }
    }

    pub(super) fn arrived(&mut self, id: ActorId, pe: PeId, moves: u32) {
        let known = self.members.get(&id).copied();
        if !matches!(known, Some(Life::Here { moves: before, .. }) if before + 1 == moves) {
            self.violated(format!(
                "{id:?} arrived on {pe} with move number {moves} after {known:?}"
            ));
        }
        self.members.insert(id, Life::Here { moves, pe });
        self.actions.migrations += 1;
    }

    /// Notes that a member ends itself. A second time in one handler has no effect, even if the
    /// handler has inserted a successor under the index in between.
    pub(super) fn destroyed(&mut self, id: ActorId) {
        if matches!(self.members.get(&id), Some(Life::Expected { .. })) {
            return;
        }
        self.members.insert(id, Life::Gone);
        for ((_, to, _), queue) in &mut self.channels {
            if *to == id {
                queue.iter_mut().for_each(|sent| sent.due = false);
            }
        }
        let orphaned = &mut self.orphaned;
        self.open.retain(|token, whom| *whom != id || !orphaned.insert(*token));
        self.broadcasts.left(id);
        self.unordered.left(id);
        self.rounds.left(id);
        self.actions.destructions += 1;
    }

    /// Records a broadcast that is about to be requested, and returns its number and payload. One
    /// in `large_one_in` is large.
    pub(super) fn asked_broadcast(
        &mut self,
        from: ActorId,
        to: CollectionId,
        large_one_in: u64,
    ) -> (u64, Bytes) {
        self.actions.broadcasts += 1;
        let number = self.broadcasts.asked(from, to);
        self.interleaving.broadcast_asked(from, to, number);
        let load = self.broadcasts.load(number, large_one_in, &mut self.dice);
        self.actions.large_broadcasts += u64::from(!load.is_empty() && from != MAIN);
        (number, load)
    }

    /// Records an unordered broadcast that is about to be sent, and returns its number and payload.
    pub(super) fn sent_unordered(&mut self, to: CollectionId) -> (u64, Bytes) {
        self.actions.unordered_broadcasts += 1;
        let number = self.unordered.sent(to);
        let is_large = self.dice.below(LARGE_AMID_ONE_IN) == 0;
        (number, if is_large { load(number) } else { Bytes::new() })
    }

    /// Checks that a member handles an unordered broadcast once, and that its payload, if any, is
    /// complete.
    pub(super) fn handled_unordered(&mut self, id: ActorId, number: u64, came: &[u8]) {
        if let Err(problem) = self.unordered.handled(id, number) {
            self.violated(problem);
        }
        if !came.is_empty() && came != load(number) {
            self.violated(format!("unordered broadcast {number} arrived with other bytes"));
        }
    }

    /// Records a message that is about to be sent to the members `to`, and returns its number.
    pub(super) fn sent(&mut self, from: ActorId, to: &[ActorId], priority: i32) -> u64 {
        let number = self.messages.len() as u64;
        self.messages.push((from, priority));
        if priority == 0 {
            self.interleaving.message_sent(from, number);
        }
        for &to in to {
            let due = match self.members.get(&to) {
                // In a collection on demand, the message creates its receiver.
                None | Some(Life::Gone) => self.on_demand.contains(&to.collection),
                Some(Life::Expected { again: true }) => false,
                Some(Life::Here { .. } | Life::Expected { again: false }) => true,
            };
            let sent = Sent { number, due };
            self.channels.entry((from, to, priority)).or_default().push_back(sent);
            self.actions.messages += 1;
        }
        number
    }

    /// Checks that a message is handled in order, and once.
    pub(super) fn handled(&mut self, id: ActorId, number: u64) {
        let Some(&(from, priority)) = self.messages.get(number as usize) else {
            return self.violated(format!("{id:?} handled message {number}, which was not sent"));
        };
        let queue = self.channels.entry((from, id, priority)).or_default();
        let way = format!("from {from:?} to {id:?} at priority {priority}");
        let Some(ahead) = queue.iter().position(|sent| sent.number == number) else {
            return self.violated(format!("message {number} {way} was handled twice"));
        };
        let overtaken = queue.drain(..=ahead).filter(|sent| sent.due && sent.number != number);
        let overtaken = overtaken.count();
        if overtaken > 0 {
            self.violated(format!("message {number} {way} overtook {overtaken} others"));
        }
        if let Err(problem) = self.interleaving.message_handled(id, number) {
            self.violated(problem);
        }
    }

    /// Checks that a large message is handled in order, and that its payload is complete.
    pub(super) fn handled_load(&mut self, id: ActorId, number: u64, came: &[u8]) {
        self.handled(id, number);
        if came != load(number) {
            let bytes = came.len();
            self.violated(format!(
                "message {number} arrived with a wrong payload of {bytes} bytes"
            ));
        }
    }

    /// Checks that a broadcast is handled in order, and that its payload is complete.
    pub(super) fn handled_broadcast(&mut self, id: ActorId, number: u64, load: &[u8]) {
        self.broadcasts.handled(id, number);
        let order = self.interleaving.broadcast_handled(id, number);
        if let Err(problem) = order.and_then(|()| self.broadcasts.check_load(number, load)) {
            self.violated(problem);
        }
    }

    /// Records a timer or a question, and returns its token. The member `whom` will receive the
    /// message or the answer once.
    pub(super) fn begun(&mut self, whom: ActorId) -> u64 {
        self.tokens += 1;
        let is_orphaned = matches!(
            self.members.get(&whom),
            // The handler in which `whom` was destroyed still runs. Another member may have been
            // requested at its index already.
            Some(Life::Gone | Life::Expected { again: true })
        );
        if is_orphaned {
            self.orphaned.insert(self.tokens);
        } else {
            self.open.insert(self.tokens, whom);
        }
        self.tokens
    }

    pub(super) fn ended(&mut self, token: u64, what: &str) {
        if self.open.remove(&token).is_none() && !self.orphaned.remove(&token) {
            self.violated(format!("{what} {token} came a second time"));
        }
    }

    /// Checks the answer to a question. No answer is a violation if there `must` be one.
    pub(super) fn answered(&mut self, token: u64, value: Option<u64>, must: bool) {
        self.ended(token, "answer");
        match value {
            Some(value) if value != !token => {
                self.violated(format!("question {token} got {value}"));
            }
            None if must => self.violated(format!("question {token} got no answer")),
            _ => {}
        }
    }

    /// Starts a reduction whose result goes to one receiver, or to all members of `to_all`. Returns
    /// its round.
    pub(super) fn round_begins(&mut self, to_all: Option<CollectionId>, kind: Kind) -> u64 {
        let round = self.rounds.next();
        // In the model, a result to all members is a broadcast by a sender that has no other
        // broadcasts.
        let sender = ActorId { key: Key(u128::from(round) + 1), ..MAIN };
        let broadcast = to_all.map(|collection| self.broadcasts.asked(sender, collection));
        self.rounds.begin(broadcast, kind);
        round
    }

    /// Records and returns the contribution of a member to a reduction.
    pub(super) fn contributed(&mut self, id: ActorId, round: u64) -> Contribution {
        let Key(key) = id.key;
        let member = (key ^ key >> 64) as u64;
        let value = (member + 1).wrapping_mul(round.wrapping_mul(0x9e37_79b9) + 1);
        if let Err(problem) = self.rounds.contributed(round, value) {
            self.violated(problem);
        }
        contribution(value)
    }

    /// Checks the result of a reduction at a receiver.
    pub(super) fn result(&mut self, id: ActorId, round: u64, total: &Total) {
        match self.rounds.result(round, total) {
            Ok(Some(broadcast)) => self.broadcasts.handled(id, broadcast),
            Ok(None) => {}
            Err(problem) => self.violated(problem),
        }
    }

    /// Checks that all items of a phase are consumed, when the coordinator has found it complete or
    /// main has learned of that.
    pub(super) fn completed(&mut self) {
        if let Err(problem) = self.items.check_completion() {
            self.violated(problem);
        }
    }

    /// Checks that nothing is on its way or missing, when the coordinator has found quiescence.
    pub(super) fn quiet(&mut self) {
        self.actions.quiescences += 1;
        // A message that is not due was dropped, or will never arrive.
        self.channels.values_mut().for_each(|queue| queue.retain(|sent| sent.due));
        self.channels.retain(|_, queue| !queue.is_empty());
        self.orphaned.clear();
        if let Some(((from, to, priority), queue)) = self.channels.first_key_value() {
            let count = queue.len();
            return self.violated(format!(
                "not quiet: {count} messages from {from:?} to {to:?} at priority {priority}"
            ));
        }
        if let Some((token, whom)) = self.open.first_key_value() {
            let problem = format!("not quiet: timer or question {token} of {whom:?} is open");
            return self.violated(problem);
        }
        if let Some(id) = self.expected_member() {
            return self.violated(format!("not quiet: {id:?} was not inserted yet"));
        }
        let checks = self.rounds.check().and_then(|()| self.broadcasts.check());
        let checks = checks.and_then(|()| self.unordered.check());
        let checks = checks.and_then(|()| self.check_partners());
        let result = checks.and_then(|()| self.notes.check());
        if let Err(problem) = result {
            self.violated(format!("not quiet: {problem}"));
        }
    }

    fn expected_member(&self) -> Option<ActorId> {
        let mut members = self.members.iter();
        members.find(|(_, life)| matches!(life, Life::Expected { .. })).map(|(id, _)| *id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn member(key: u128) -> ActorId {
        ActorId { collection: CollectionId(0), key: Key(key) }
    }

    fn ledger() -> Ledger {
        install(Dice::new(1), true);
        let mut ledger = take().unwrap();
        ledger.created(member(1), PeId(0));
        ledger.created(member(2), PeId(1));
        ledger
    }

    #[test]
    fn overtaken_and_repeated_messages_of_one_priority_are_violations() {
        let mut ledger = ledger();
        let first = ledger.sent(member(1), &[member(2)], 0);
        let urgent = ledger.sent(member(1), &[member(2)], -1);
        let second = ledger.sent(member(1), &[member(2)], 0);
        ledger.handled(member(2), urgent);
        assert_eq!(ledger.problem(), None);
        ledger.handled(member(2), second);
        assert!(ledger.problem().unwrap().contains("overtook 1"));
        ledger.problem = None;
        ledger.handled(member(2), first);
        ledger.handled(member(2), first);
        assert!(ledger.problem().unwrap().contains("twice"));
    }

    #[test]
    fn a_member_in_two_places_is_a_violation() {
        let mut ledger = ledger();
        ledger.arrived(member(1), PeId(1), 1);
        assert_eq!(ledger.problem(), None);
        ledger.runs(member(1), PeId(0), 0);
        assert!(ledger.problem().unwrap().contains("runs as"));
    }

    #[test]
    fn quiescence_with_a_message_on_its_way_is_a_violation_unless_its_receiver_is_gone() {
        let mut ledger = ledger();
        ledger.sent(member(1), &[member(2)], 0);
        ledger.destroyed(member(2));
        ledger.quiet();
        assert_eq!(ledger.problem(), None);
        ledger.sent(member(2), &[member(1)], 0);
        ledger.quiet();
        assert!(ledger.problem().unwrap().contains("1 messages"));
    }
}
