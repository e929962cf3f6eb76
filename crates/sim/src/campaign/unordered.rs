//! The model of unordered broadcasts: each member handles each once.

use gridspan_runtime::{ActorId, CollectionId};
use std::collections::{BTreeMap, BTreeSet};

/// A member of a collection.
#[derive(Default)]
struct Member {
    /// Number of broadcasts to all collections that were sent before the member was created. The
    /// member must not miss later ones.
    sent_before: u64,
    handled: BTreeSet<u64>,
    gone: bool,
}

/// Unordered broadcasts to all collections.
#[derive(Default)]
pub(super) struct Unordered {
    sent: BTreeMap<u64, CollectionId>,
    members: BTreeMap<ActorId, Member>,
}

impl Unordered {
    /// Records a broadcast that is about to be sent, and returns its number.
    pub(super) fn sent(&mut self, to: CollectionId) -> u64 {
        let number = self.count();
        self.sent.insert(number, to);
        number
    }

    /// Number of broadcasts sent.
    pub(super) fn count(&self) -> u64 {
        self.sent.len() as u64
    }

    pub(super) fn joined(&mut self, id: ActorId) {
        let sent_before = self.count();
        self.members.insert(id, Member { sent_before, ..Member::default() });
    }

    pub(super) fn left(&mut self, id: ActorId) {
        if let Some(member) = self.members.get_mut(&id) {
            member.gone = true;
        }
    }

    /// Records that a member handles a broadcast. Checks that it is for the collection of the
    /// member, and is handled for the first time.
    pub(super) fn handled(&mut self, id: ActorId, number: u64) -> Result<(), String> {
        let is_for_it = self.sent.get(&number) == Some(&id.collection);
        let member = self.members.get_mut(&id).filter(|_| is_for_it);
        match member.map(|member| member.handled.insert(number)) {
            Some(true) => Ok(()),
            Some(false) => Err(format!("{id:?} handled unordered broadcast {number} twice")),
            None => Err(format!("unordered broadcast {number} is not for {id:?}")),
        }
    }

    /// Checks that all members have handled the broadcasts that they must.
    pub(super) fn check(&self) -> Result<(), String> {
        for (id, member) in self.members.iter().filter(|(_, member)| !member.gone) {
            let due = self.sent.range(member.sent_before..);
            let mut due = due.filter(|(_, to)| **to == id.collection).map(|(number, _)| number);
            if let Some(missed) = due.find(|number| !member.handled.contains(number)) {
                return Err(format!("{id:?} missed unordered broadcast {missed}"));
            }
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

    #[test]
    fn members_must_handle_all_later_broadcasts_once_in_any_order() {
        let mut model = Unordered::default();
        model.joined(member(0));
        let numbers = [model.sent(FAMILY), model.sent(CollectionId(1)), model.sent(FAMILY)];
        model.joined(member(1));
        assert!(model.check().is_err(), "nothing was handled yet");
        assert_eq!(model.handled(member(0), numbers[2]), Ok(()));
        assert_eq!(model.handled(member(0), numbers[0]), Ok(()));
        assert_eq!(model.handled(member(1), numbers[2]), Ok(()), "it may come to a new member");
        assert_eq!(model.check(), Ok(()));
        assert!(model.handled(member(0), numbers[0]).is_err(), "twice");
        assert!(model.handled(member(0), numbers[1]).is_err(), "to another collection");
        model.sent(FAMILY);
        model.left(member(0));
        assert!(model.check().is_err(), "a member that stays has missed one");
        model.left(member(1));
        assert_eq!(model.check(), Ok(()));
    }
}
