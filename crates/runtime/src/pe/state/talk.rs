//! Whom one member talks to, and how much, for balancing.
//!
//! An actor of an iterative job talks to the same others in the same order, again and again. So the one that is
//! looked for is most often the one after the last, and no hash has to be computed.

use crate::id::ActorId;
use crate::wire::Talk;
use rustc_hash::FxHashMap;

/// Up to so many correspondents are searched one by one.
const SEARCHED_MAX: usize = 16;

/// The correspondents of a member, with what it has sent them since that was last taken.
#[derive(Default)]
pub(crate) struct Talks {
    list: Vec<Correspondent>,
    /// The one that is expected next.
    next: usize,
    /// Where each is, once there are many.
    positions: FxHashMap<ActorId, u32>,
}

struct Correspondent {
    to: ActorId,
    messages: u64,
    bytes: u64,
}

impl Talks {
    /// Notes a message. Says whether it is the first to that actor.
    #[inline]
    pub(crate) fn note(&mut self, to: ActorId, bytes: u64) -> bool {
        if let Some(expected) = self.list.get_mut(self.next)
            && expected.to == to
        {
            expected.messages += 1;
            expected.bytes += bytes;
            self.next = self.after(self.next);
            return false;
        }
        self.note_unexpected(to, bytes)
    }

    #[inline(never)]
    fn note_unexpected(&mut self, to: ActorId, bytes: u64) -> bool {
        let found = match self.positions.is_empty() {
            true => self.list.iter().position(|known| known.to == to),
            false => self.positions.get(&to).map(|&position| position as usize),
        };
        let position = found.unwrap_or(self.list.len());
        match self.list.get_mut(position) {
            Some(known) => {
                known.messages += 1;
                known.bytes += bytes;
            }
            None => {
                self.list.push(Correspondent { to, messages: 1, bytes });
                self.index(position);
            }
        }
        self.next = self.after(position);
        found.is_none()
    }

    /// The position that follows: after the last, it begins anew.
    #[inline]
    fn after(&self, position: usize) -> usize {
        if position + 1 < self.list.len() { position + 1 } else { 0 }
    }

    fn index(&mut self, newest: usize) {
        let begin = if self.positions.is_empty() { 0 } else { newest };
        if self.list.len() > SEARCHED_MAX {
            let positions = self.list.iter().enumerate().skip(begin);
            self.positions.extend(positions.map(|(position, known)| (known.to, position as u32)));
        }
    }

    /// Takes all counts of the member `from`. Whom it has not talked to since the last time is forgotten. Returns how
    /// many are left.
    pub(crate) fn take(&mut self, from: ActorId, into: &mut Vec<Talk>) -> usize {
        self.retain(|known| known.messages > 0);
        for Correspondent { to, messages, bytes } in &mut self.list {
            let (messages, bytes) = (std::mem::take(messages), std::mem::take(bytes));
            into.push(Talk { from, to: *to, messages, bytes });
        }
        self.list.len()
    }

    /// Forgets all with at most so many messages. Returns how many are left.
    pub(crate) fn forget(&mut self, messages: u64) -> usize {
        self.retain(|known| known.messages > messages);
        self.list.len()
    }

    fn retain(&mut self, keep: impl Fn(&Correspondent) -> bool) {
        self.next = 0;
        let before = self.list.len();
        self.list.retain(keep);
        if self.list.len() < before {
            self.positions.clear();
            self.index(0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::id::CollectionId;
    use crate::index::Key;

    fn actor(key: u128) -> ActorId {
        ActorId { collection: CollectionId(0), key: Key(key) }
    }

    fn taken(talks: &mut Talks) -> Vec<(u128, u64, u64)> {
        let mut all = Vec::new();
        talks.take(actor(0), &mut all);
        all.into_iter().map(|talk| (talk.to.key.0, talk.messages, talk.bytes)).collect()
    }

    #[test]
    fn messages_and_bytes_add_up_by_receiver_in_any_order() {
        let mut talks = Talks::default();
        let firsts: Vec<bool> =
            [5, 7, 5, 7, 7, 9].map(|to| talks.note(actor(to), 10 + to as u64)).into();

        assert_eq!(firsts, [true, true, false, false, false, true]);
        assert_eq!(taken(&mut talks), [(5, 2, 30), (7, 3, 51), (9, 1, 19)]);
        talks.note(actor(7), 1);
        assert_eq!(taken(&mut talks), [(7, 1, 1)], "the others are forgotten");
        assert_eq!(taken(&mut talks), []);
    }

    #[test]
    fn many_receivers_are_found_whatever_the_order() {
        let mut talks = Talks::default();
        for round in 0..10 {
            for to in 0..1000 {
                let to = (to * 7 + round * 13) % 1000;
                assert_eq!(talks.note(actor(to), 1), round == 0);
            }
        }
        talks.note(actor(3), 1);
        assert_eq!(talks.forget(10), 1);
        assert_eq!(taken(&mut talks), [(3, 11, 11)]);
        assert!(talks.note(actor(4), 1), "it was forgotten");
    }
}
