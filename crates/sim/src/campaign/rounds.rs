//! The model of reductions and sync points.

use gridspan_runtime::{ActorId, CollectionId, Op, Statistics};
use std::collections::{BTreeMap, BTreeSet};

/// The contribution of a member: a term of a sum, a number for statistics, a set and a list.
pub(super) type Contribution = (u64, f64, BTreeSet<u64>, Vec<u64>);

/// The result of a reduction.
pub(super) type Total = (u64, Statistics, BTreeSet<u64>, Vec<u64>);

/// The operations by which contributions are combined.
pub(super) fn ops() -> (Op, Op, Op, Op) {
    (Op::Sum, Op::Statistics, Op::Union, Op::Concat)
}

/// Number of different elements of the sets.
const ELEMENTS: u64 = 32;
/// The numbers for statistics are less than this.
const NUMBERS: u64 = 1009;

/// The contribution of a member with this value.
pub(super) fn contribution(value: u64) -> Contribution {
    (value, (value % NUMBERS) as f64, BTreeSet::from([value % ELEMENTS]), vec![value])
}

/// Whether a result is that of these values, in any order.
fn is_total_of(values: &[u64], (sum, statistics, set, list): &Total) -> bool {
    let sorted = |values: &[u64]| {
        let mut values = values.to_vec();
        values.sort_unstable();
        values
    };
    let numbers = || values.iter().map(|value| (value % NUMBERS) as f64);
    let mean = numbers().sum::<f64>() / values.len() as f64;
    *sum == values.iter().copied().fold(0, u64::wrapping_add)
        && sorted(list) == sorted(values)
        && *set == values.iter().map(|value| value % ELEMENTS).collect()
        && statistics.count == values.len() as u64
        && statistics.min == numbers().fold(f64::INFINITY, f64::min)
        && statistics.max == numbers().fold(f64::NEG_INFINITY, f64::max)
        && (statistics.mean - mean).abs() < 1e-6
}

/// Kind of a reduction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Kind {
    #[default]
    Plain,
    /// The result waits until main asks for it.
    ToMain,
    /// The reduction is over the section. Results of such reductions arrive in order.
    OfSection,
}

/// One reduction.
#[derive(Default)]
struct Round {
    /// The values that members have contributed.
    values: Vec<u64>,
    /// Number of times that the result was received.
    results: u64,
    /// The broadcast that carries the result, if it goes to all members of a collection.
    broadcast: Option<u64>,
    kind: Kind,
}

/// Maximum number of sync points that a member may be ahead of others.
const SYNCS_AHEAD: u64 = 3;

/// The members of a collection on their way to and from a sync point.
#[derive(Default)]
struct Sync {
    waiting: BTreeSet<ActorId>,
    /// Number of sync points that were started.
    begun: u64,
    /// Number of sync points that each member has reached, or that began before its creation.
    reached: BTreeMap<ActorId, u64>,
}

/// All reductions and sync points.
#[derive(Default)]
pub(super) struct Rounds {
    rounds: Vec<Round>,
    syncs: BTreeMap<CollectionId, Sync>,
    /// The last reduction over the section whose result has arrived.
    last_of_section: u64,
    /// Whether the job is never balanced, so that no member waits for others at a sync point.
    is_unbalanced: bool,
}

impl Rounds {
    pub(super) fn new(is_balanced: bool) -> Self {
        Self { is_unbalanced: !is_balanced, ..Self::default() }
    }

    /// Returns the number of the next reduction.
    pub(super) fn next(&self) -> u64 {
        self.rounds.len() as u64
    }

    /// Starts a reduction whose result goes to one receiver, or to all by a broadcast.
    pub(super) fn begin(&mut self, broadcast: Option<u64>, kind: Kind) {
        self.rounds.push(Round { broadcast, kind, ..Round::default() });
    }

    pub(super) fn contributed(&mut self, round: u64, value: u64) -> Result<(), String> {
        let state = self.round(round)?;
        if state.results > 0 {
            return Err(format!("reduction {round} had its result before its last contribution"));
        }
        state.values.push(value);
        Ok(())
    }

    /// Checks the result at a receiver. Returns the broadcast that carried it, if any.
    pub(super) fn result(&mut self, round: u64, total: &Total) -> Result<Option<u64>, String> {
        let last = self.last_of_section;
        let state = self.round(round)?;
        state.results += 1;
        if state.kind == Kind::OfSection && round < last {
            return Err(format!("reduction {round} over the section came after {last}"));
        }
        if !is_total_of(&state.values, total) {
            let values = &state.values;
            return Err(format!("reduction {round} of {values:?} gave {total:?}"));
        }
        let Round { broadcast, kind, .. } = *state;
        if kind == Kind::OfSection {
            self.last_of_section = round;
        }
        Ok(broadcast)
    }

    fn round(&mut self, round: u64) -> Result<&mut Round, String> {
        self.rounds.get_mut(round as usize).ok_or(format!("there is no reduction {round}"))
    }

    /// Numbers of reductions with a result, and of sync points that were started.
    pub(super) fn completed(&self) -> (u64, u64) {
        let reductions = self.rounds.iter().filter(|round| round.results > 0).count() as u64;
        (reductions, self.syncs.values().map(|sync| sync.begun).sum())
    }

    /// Records that all members of a collection are asked to go to their sync point.
    pub(super) fn sync_begins(&mut self, collection: CollectionId) {
        self.syncs.entry(collection).or_default().begun += 1;
    }

    pub(super) fn joined(&mut self, id: ActorId) {
        let sync = self.syncs.entry(id.collection).or_default();
        // An inserted member counts as if it had reached the next sync point.
        sync.reached.insert(id, sync.begun + u64::from(sync.begun > 0));
    }

    pub(super) fn sync_reached(&mut self, id: ActorId) {
        let sync = self.syncs.entry(id.collection).or_default();
        sync.waiting.insert(id);
        *sync.reached.entry(id).or_default() += 1;
    }

    /// Checks a member that leaves its sync point: in a balanced job, all others must have reached
    /// the first, and be at most `SYNCS_AHEAD` behind.
    pub(super) fn sync_left(&mut self, id: ActorId) -> Result<(), String> {
        let sync = self.syncs.entry(id.collection).or_default();
        if !sync.waiting.remove(&id) {
            return Err(format!("{id:?} left a sync point where it did not wait"));
        }
        let reached = sync.reached.get(&id).copied().unwrap_or_default();
        let wanted = reached.saturating_sub(SYNCS_AHEAD).max(1);
        match sync.reached.iter().find(|(_, count)| **count < wanted) {
            Some((other, count)) if !self.is_unbalanced => Err(format!(
                "{id:?} left sync point {reached} when {other:?} had reached {count} only"
            )),
            _ => Ok(()),
        }
    }

    pub(super) fn left(&mut self, id: ActorId) {
        if let Some(sync) = self.syncs.get_mut(&id.collection) {
            sync.waiting.remove(&id);
            sync.reached.remove(&id);
        }
    }

    /// Checks that every reduction had its result, and that no member waits at a sync point.
    pub(super) fn check(&self) -> Result<(), String> {
        for (number, round) in self.rounds.iter().enumerate() {
            let Round { results, values, broadcast, kind } = round;
            // The receivers of a broadcast are checked with the broadcasts.
            let missing = *results == 0 && *kind != Kind::ToMain;
            if missing || (broadcast.is_none() && *results > 1) {
                let count = values.len();
                return Err(format!("reduction {number} of {count} had {results} results"));
            }
        }
        match self.syncs.values().find_map(|sync| sync.waiting.first()) {
            Some(id) => Err(format!("{id:?} waits at its sync point")),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_result_must_be_the_sum_and_come_after_all_contributions() {
        let mut rounds = Rounds::default();
        let round = rounds.next();
        rounds.begin(None, Kind::Plain);
        rounds.contributed(round, 2).unwrap();
        rounds.contributed(round, 3).unwrap();
        assert!(rounds.check().is_err(), "no result yet");
        let statistics = Statistics::of(&[2.0, 3.0]).unwrap();
        let right: Total = (5, statistics, BTreeSet::from([2, 3]), vec![3, 2]);
        assert_eq!(rounds.result(round, &right), Ok(None));
        assert_eq!(rounds.check(), Ok(()));
        assert!(rounds.contributed(round, 1).is_err(), "too late");
        let (sum, numbers, set, list) = &right;
        let mut miscounted = *numbers;
        miscounted.count = 3;
        for wrong in [
            (4, *numbers, set.clone(), list.clone()),
            (5, miscounted, set.clone(), list.clone()),
            (5, *numbers, BTreeSet::from([2]), list.clone()),
            (*sum, *numbers, set.clone(), vec![2, 2]),
        ] {
            assert!(rounds.result(round, &wrong).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn no_member_leaves_the_first_sync_point_before_all_reach_it_or_gets_far_ahead() {
        let member = |key| ActorId { collection: CollectionId(0), key: gridspan_runtime::Key(key) };
        let mut rounds = Rounds::new(true);
        (0..3).for_each(|key| rounds.joined(member(key)));
        rounds.sync_begins(CollectionId(0));
        rounds.sync_reached(member(0));
        rounds.sync_reached(member(1));
        assert!(rounds.sync_left(member(1)).is_err());
        rounds.sync_reached(member(2));
        assert_eq!(rounds.sync_left(member(0)), Ok(()));
        assert!(rounds.sync_left(member(0)).is_err(), "it has left already");
        for _ in 0..SYNCS_AHEAD {
            rounds.sync_reached(member(0));
            assert_eq!(rounds.sync_left(member(0)), Ok(()), "all have reached the first");
        }
        rounds.sync_reached(member(0));
        assert!(rounds.sync_left(member(0)).is_err(), "it is too far ahead");
    }
}
