//! Who sends how much to whom, for balancing.
//!
//! **Bounds.** At most [`PAIRS_MAX`] pairs are kept. When there are more, the pairs that have talked least
//! are forgotten, as in lossy counting (G. S. Manku, R. Motwani, 2002): what is kept is what matters
//! for a cut.

use crate::id::ActorId;
use crate::wire::Talk;
use rustc_hash::FxHashMap;

/// Pairs of one PE; about 100 bytes each.
const PAIRS_MAX: usize = 1 << 18;

/// Counts by pair, since they were last taken.
#[derive(Default)]
pub(crate) struct Talks {
    pairs: FxHashMap<(ActorId, ActorId), (u64, u64)>,
}

impl Talks {
    /// Notes a message.
    pub(crate) fn note(&mut self, from: ActorId, to: ActorId, bytes: u64) {
        let (messages, sum) = self.pairs.entry((from, to)).or_default();
        *messages += 1;
        *sum += bytes;
        if self.pairs.len() > PAIRS_MAX {
            self.forget_the_quiet();
        }
    }

    /// Forgets pairs, those with the fewest messages first, until there is room for as many again.
    fn forget_the_quiet(&mut self) {
        let mut least = 1;
        while self.pairs.len() > PAIRS_MAX / 2 {
            self.pairs.retain(|_, (messages, _)| *messages > least);
            least *= 2;
        }
    }

    /// Takes all counts, in the order of the pairs.
    pub(crate) fn take(&mut self) -> Vec<Talk> {
        let pairs = std::mem::take(&mut self.pairs).into_iter();
        let mut talks: Vec<_> = pairs
            .map(|((from, to), (messages, bytes))| Talk { from, to, messages, bytes })
            .collect();
        talks.sort_unstable_by_key(|talk| (talk.from, talk.to));
        talks
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

    #[test]
    fn messages_and_bytes_add_up_by_direction() {
        let mut talks = Talks::default();
        talks.note(actor(2), actor(1), 10);
        talks.note(actor(1), actor(2), 3);
        talks.note(actor(1), actor(2), 4);
        let talk =
            |from, to, messages, bytes| Talk { from: actor(from), to: actor(to), messages, bytes };
        assert_eq!(talks.take(), [talk(1, 2, 2, 7), talk(2, 1, 1, 10)]);
        assert_eq!(talks.take(), []);
    }

    #[test]
    fn the_loud_are_kept_however_many_talk() {
        let mut talks = Talks::default();
        for round in 0..3 {
            (0..1000).for_each(|i| talks.note(actor(i % 100), actor(i % 100 + 1), 1));
            let quiet = 1_000 + round * PAIRS_MAX as u128;
            (0..PAIRS_MAX as u128).for_each(|key| talks.note(actor(quiet + key), actor(0), 1));
        }
        assert!(talks.pairs.len() <= PAIRS_MAX);
        let loud = talks.take().into_iter().filter(|talk| talk.from.key.0 < 100);
        assert_eq!(loud.map(|talk| talk.messages).sum::<u64>(), 3 * 1000);
    }
}
