//! The model of broadcasts: all members of a collection handle each broadcast once, in one order.

use bytes::Bytes;
use gridspan_runtime::{ActorId, CollectionId};
use gridspan_topology::dice::Dice;
use std::collections::BTreeMap;

/// One in this number of the broadcasts of main is large.
pub(super) const LARGE_ONE_IN: u64 = 50;
/// One in this number of the broadcasts of members, and of unordered broadcasts, is large. Large
/// ones go directly from their node to all others.
pub(super) const LARGE_AMID_ONE_IN: u64 = 4;
/// The payload of a large broadcast has fewer bytes than this, which may be several segments.
const LOAD_MAX: u64 = 200_000;

/// The record of a member.
#[derive(Default)]
struct Member {
    log: Vec<u64>,
    /// Number of broadcasts to all collections that were requested before the member was created.
    /// The member must not miss later ones.
    asked_before: u64,
    /// Whether it was created before the first broadcast to its collection.
    founder: bool,
    gone: bool,
}

/// Broadcasts of one collection.
#[derive(Default)]
struct CollectionState {
    /// Sender of each broadcast, and its place among the broadcasts of that sender, by number.
    asked: BTreeMap<u64, (ActorId, u64)>,
    /// Number of broadcasts of each sender.
    by_sender: BTreeMap<ActorId, u64>,
    members: BTreeMap<ActorId, Member>,
}

/// Broadcasts of all collections.
#[derive(Default)]
pub(super) struct Broadcasts {
    collections: BTreeMap<CollectionId, CollectionState>,
    asked: u64,
    /// Payload size in bytes of each large broadcast.
    loads: BTreeMap<u64, usize>,
}

impl Broadcasts {
    /// Records a broadcast that is about to be requested, and returns its number.
    pub(super) fn asked(&mut self, from: ActorId, collection: CollectionId) -> u64 {
        let number = self.asked;
        self.asked += 1;
        let state = self.collections.entry(collection).or_default();
        let place = state.by_sender.entry(from).or_default();
        state.asked.insert(number, (from, *place));
        *place += 1;
        number
    }

    /// Records and returns the payload of a broadcast: for one in `large_one_in`, up to 200,000
    /// bytes; otherwise none.
    pub(super) fn load(&mut self, number: u64, large_one_in: u64, dice: &mut Dice) -> Bytes {
        if dice.below(large_one_in) != 0 {
            return Bytes::new();
        }
        let load = vec![number as u8; dice.below(LOAD_MAX) as usize];
        self.loads.insert(number, load.len());
        load.into()
    }

    /// Checks that a broadcast arrived with the payload that was recorded.
    pub(super) fn check_load(&self, number: u64, load: &[u8]) -> Result<(), String> {
        let (asked, came) = (self.loads.get(&number).copied().unwrap_or(0), load.len());
        match came == asked && load.iter().all(|&byte| byte == number as u8) {
            true => Ok(()),
            false => Err(format!(
                "broadcast {number} was sent with {asked} bytes and arrived with {came} bytes, or with other content"
            )),
        }
    }

    pub(super) fn joined(&mut self, id: ActorId) {
        let asked_before = self.asked;
        let state = self.collections.entry(id.collection).or_default();
        let founder = state.asked.is_empty();
        let member = Member { asked_before, founder, ..Member::default() };
        state.members.insert(id, member);
    }

    pub(super) fn left(&mut self, id: ActorId) {
        if let Some(state) = self.collections.get_mut(&id.collection)
            && let Some(member) = state.members.get_mut(&id)
        {
            member.gone = true;
        }
    }

    pub(super) fn handled(&mut self, id: ActorId, number: u64) {
        if let Some(state) = self.collections.get_mut(&id.collection)
            && let Some(member) = state.members.get_mut(&id)
        {
            member.log.push(number);
        }
    }

    /// Checks that all members have handled the broadcasts that they must, in one order.
    pub(super) fn check(&self) -> Result<(), String> {
        self.collections.values().try_for_each(CollectionState::check)
    }
}

impl CollectionState {
    fn check(&self) -> Result<(), String> {
        // A member that was created before the first broadcast and still lives has handled all, so
        // its order is the reference.
        let founder = self.members.values().find(|member| member.founder && !member.gone);
        let Some(Member { log: order, .. }) = founder else { return Ok(()) };
        self.check_order(order)?;
        self.members.iter().try_for_each(|(id, member)| self.check_member(*id, member, order))
    }

    fn check_order(&self, order: &[u64]) -> Result<(), String> {
        let mut sorted = order.to_vec();
        sorted.sort_unstable();
        if !sorted.iter().eq(self.asked.keys()) {
            let (handled, asked) = (order.len(), self.asked.len());
            let missing = self.asked.iter().find(|(number, _)| !order.contains(number));
            return Err(format!(
                "{handled} of {asked} requested broadcasts were handled; missing: {missing:?}"
            ));
        }
        let mut next: BTreeMap<ActorId, u64> = BTreeMap::new();
        for number in order {
            let (from, place) = self.asked[number];
            let next = next.entry(from).or_default();
            if place != *next {
                return Err(format!("broadcast {number} of {from:?} came out of order"));
            }
            *next += 1;
        }
        Ok(())
    }

    fn check_member(&self, id: ActorId, member: &Member, order: &[u64]) -> Result<(), String> {
        let Member { log, asked_before, founder, gone } = member;
        let start = match log.first() {
            _ if *founder => 0,
            Some(first) => order.iter().position(|number| number == first).unwrap_or(order.len()),
            None => order.len(),
        };
        let same = order[start..].iter().zip(log).all(|(ordered, handled)| ordered == handled);
        let whole = start + log.len() == order.len();
        if !same || start + log.len() > order.len() || (!gone && !whole) {
            return Err(format!(
                "{id:?} handled the broadcasts {log:?} of {:?} (all: {order:?})",
                &order[start..]
            ));
        }
        if !gone && let Some(missed) = order[..start].iter().find(|number| *number >= asked_before)
        {
            return Err(format!(
                "{id:?} missed broadcast {missed}, which was requested after its creation"
            ));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gridspan_runtime::Key;

    const FAMILY: CollectionId = CollectionId(0);

    fn member(key: u128) -> ActorId {
        ActorId { collection: FAMILY, key: Key(key) }
    }

    fn run(logs: [&[u64]; 3]) -> Result<(), String> {
        let mut broadcasts = Broadcasts::default();
        broadcasts.joined(member(0));
        broadcasts.joined(member(1));
        broadcasts.asked(member(0), FAMILY);
        broadcasts.joined(member(2));
        broadcasts.asked(member(0), FAMILY);
        broadcasts.asked(member(1), FAMILY);
        for (key, log) in logs.iter().enumerate() {
            log.iter().for_each(|&number| broadcasts.handled(member(key as u128), number));
        }
        broadcasts.check()
    }

    #[test]
    fn one_order_is_accepted_and_a_late_member_may_miss_earlier_broadcasts() {
        assert_eq!(run([&[0, 2, 1], &[0, 2, 1], &[2, 1]]), Ok(()));
        assert_eq!(run([&[0, 1, 2], &[0, 1, 2], &[0, 1, 2]]), Ok(()));
    }

    #[test]
    fn a_collection_that_is_created_after_broadcasts_to_others_is_checked() {
        let late = ActorId { collection: CollectionId(1), key: Key(0) };
        let mut broadcasts = Broadcasts::default();
        broadcasts.joined(member(0));
        let first = broadcasts.asked(member(0), FAMILY);
        broadcasts.handled(member(0), first);
        broadcasts.joined(late);
        let second = broadcasts.asked(member(0), late.collection);
        assert!(broadcasts.check().is_err(), "it has not handled the broadcast");
        broadcasts.handled(late, second);
        assert_eq!(broadcasts.check(), Ok(()));
    }

    #[test]
    fn payloads_must_arrive_complete() {
        let (mut broadcasts, mut dice) = (Broadcasts::default(), Dice::new(1));
        let loads =
            (0..1000).map(|number| (number, broadcasts.load(number, LARGE_ONE_IN, &mut dice)));
        let loads: Vec<_> = loads.filter(|(_, load)| load.len() > 1).collect();
        assert!((5..60).contains(&loads.len()));
        for (number, load) in loads {
            assert_eq!(broadcasts.check_load(number, &load), Ok(()));
            assert!(broadcasts.check_load(number, &load[1..]).is_err());
            assert!(broadcasts.check_load(number + 1, &load).is_err());
        }
    }

    #[test]
    fn two_orders_gaps_and_repetitions_are_violations() {
        for logs in [
            [&[0, 2, 1][..], &[0, 1, 2], &[2, 1]],
            [&[1, 0, 2], &[1, 0, 2], &[2]],
            [&[0, 1], &[0, 1], &[1]],
            [&[0, 1, 2], &[0, 1, 1, 2], &[1, 2]],
            [&[0, 1, 2], &[0, 1, 2], &[2]],
            [&[0, 1, 2], &[0, 1, 2], &[]],
        ] {
            assert!(run(logs).is_err(), "{logs:?}");
        }
    }
}
