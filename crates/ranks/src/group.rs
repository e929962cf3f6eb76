//! Groups of ranks, from which communicators are made.

use crate::collective::operation::Operation;
use crate::comm::Comm;
use crate::error::{CallSite, RankError, SERVED_FROM};
use crate::local::Local;
use crate::ops;
use crate::scope::Scope;
use std::collections::{BTreeMap, BTreeSet};
use std::future::poll_fn;
use std::sync::Arc;

/// An ordered set of ranks of the job, by their [numbers](Comm::world_rank).
///
/// ```
/// use gridspan::ranks::{self, RankGroup, ops};
///
/// let job = ranks::run(5, async |world| {
///     let even: RankGroup = world.group().include(&[0, 2, 4])?;
///     if let Some(comm) = world.create(&even).await? {
///         assert_eq!(comm.allreduce(&[world.rank()], ops::sum).await?, [6]);
///     }
///     let odd = world.group().difference(&even);
///     assert_eq!(odd.world_ranks(), [1, 3]);
///     Ok(())
/// });
/// # gridspan::embed::Runner::on_threads(2).run(job).unwrap();
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RankGroup {
    ranks: Vec<u32>,
}

impl RankGroup {
    pub(crate) fn of(ranks: Vec<u32>) -> Self {
        Self { ranks }
    }

    /// Number of ranks.
    pub fn size(&self) -> u32 {
        self.ranks.len() as u32
    }

    /// The numbers of the ranks in the job, in the order of the group.
    pub fn world_ranks(&self) -> &[u32] {
        &self.ranks
    }

    /// The position in the group of a rank of the job.
    pub fn position(&self, world_rank: u32) -> Option<u32> {
        let at = self.ranks.iter().position(|rank| *rank == world_rank)?;
        Some(at as u32)
    }

    /// The ranks at these positions, in this order.
    ///
    /// # Errors
    ///
    /// [`RankError::NoSuchPosition`], or [`RankError::PositionTwice`] for one that occurs twice.
    pub fn include(&self, positions: &[u32]) -> Result<Self, RankError> {
        let (mut ranks, mut named) = (Vec::new(), BTreeSet::new());
        for position in positions {
            match self.ranks.get(*position as usize) {
                Some(rank) if named.insert(*rank) => ranks.push(*rank),
                Some(_) => return Err(RankError::PositionTwice { position: *position }),
                None => {
                    let (position, size) = (*position, self.size());
                    return Err(RankError::NoSuchPosition { position, size });
                }
            }
        }
        Ok(Self { ranks })
    }

    /// The ranks at all other positions, in the order of the group.
    ///
    /// # Errors
    ///
    /// Those of [`include`](Self::include).
    pub fn exclude(&self, positions: &[u32]) -> Result<Self, RankError> {
        Ok(self.difference(&self.include(positions)?))
    }

    /// The ranks of this group, and then those of the other that are not in it.
    pub fn union(&self, other: &Self) -> Self {
        let mut ranks = self.ranks.clone();
        ranks.extend(other.difference(self).ranks);
        Self { ranks }
    }

    /// The ranks of this group that are also in the other.
    pub fn intersection(&self, other: &Self) -> Self {
        let others = other.set();
        let is_shared = |rank: &&u32| others.contains(rank);
        Self { ranks: self.ranks.iter().filter(is_shared).copied().collect() }
    }

    /// The ranks of this group that are not in the other.
    pub fn difference(&self, other: &Self) -> Self {
        let others = other.set();
        let is_left = |rank: &&u32| !others.contains(rank);
        Self { ranks: self.ranks.iter().filter(is_left).copied().collect() }
    }

    /// For the rank at each of these positions, its position in the other group, if it is there.
    pub fn translate(&self, positions: &[u32], other: &Self) -> Vec<Option<u32>> {
        let others: BTreeMap<u32, u32> = other.ranks.iter().copied().zip(0..).collect();
        let rank = |position: &u32| self.ranks.get(*position as usize);
        positions.iter().map(|at| others.get(rank(at)?).copied()).collect()
    }

    /// The ranks as a set, because looking up many of them in the list takes quadratic time.
    fn set(&self) -> BTreeSet<u32> {
        self.ranks.iter().copied().collect()
    }
}

/// A lock that a rank holds while it makes a communicator. The ranks of a communicator agree on a
/// number that none of them has used, so a rank makes one communicator at a time, in the order of
/// its calls.
///
/// A call numbers its collective operation before it takes the lock: otherwise an operation that
/// the rank begins meanwhile on the same communicator would come first, at some ranks only.
pub(crate) struct MakerTurn<'a>(&'a Local);

/// The place of a task in the queue for the lock; dropping it leaves the queue.
struct WaitingMaker<'a> {
    local: &'a Local,
    number: Option<u64>,
}

impl Drop for WaitingMaker<'_> {
    fn drop(&mut self) {
        if let Some(number) = self.number {
            self.local.with(|state| state.makers.forget(number));
        }
    }
}

impl<'a> MakerTurn<'a> {
    pub(crate) async fn take(local: &'a Local) -> Self {
        let mut waiting = WaitingMaker { local, number: None };
        poll_fn(|cx| local.with(|state| state.makers.poll(&mut waiting.number, cx.waker()))).await;
        Self(local)
    }

    /// The smallest number that this rank has not used.
    pub(crate) fn next(&self) -> u32 {
        self.0.with(|state| state.next_communicator)
    }

    /// Takes `count` numbers from `first` on, so that this rank uses no number below them again.
    ///
    /// # Errors
    ///
    /// [`RankError::NoNumberLeft`] if they do not lie below those of the name server. All ranks
    /// that have agreed on the numbers get it.
    pub(crate) fn end(self, at: CallSite, first: u32, count: usize) -> Result<(), RankError> {
        let next = u32::try_from(count).ok().and_then(|count| first.checked_add(count));
        let Some(next) = next.filter(|next| *next <= SERVED_FROM) else {
            return Err(RankError::NoNumberLeft { at });
        };
        self.0.with(|state| state.next_communicator = state.next_communicator.max(next));
        Ok(())
    }
}

impl Drop for MakerTurn<'_> {
    fn drop(&mut self) {
        self.0.with(|state| state.makers.end());
    }
}

/// # Groups and communicators
///
/// [`dup`](Self::dup), [`split`](Self::split), [`create`](Self::create) and
/// [`split_by_site`](Self::split_by_site) are collective operations: all ranks of this communicator
/// call them. Ranks that share several communicators make these calls in the same order. The other
/// functions send nothing.
///
/// A communicator has a number that none of its ranks has used, and a [`split`](Self::split) uses
/// one for each colour. There are 2^30 numbers. A call that would need more, also in another
/// function that makes a communicator, fails with [`RankError::NoNumberLeft`] at all ranks.
impl Comm {
    /// The ranks of this communicator.
    pub fn group(&self) -> RankGroup {
        let rank = |rank| self.world_rank(rank);
        RankGroup::of((0..self.size()).filter_map(rank).collect())
    }

    /// Makes another communicator over the same ranks.
    ///
    /// # Errors
    ///
    /// Only those of the messages that it sends and receives.
    pub async fn dup(&self) -> Result<Comm, RankError> {
        let operation = Operation::new(self, "dup");
        let turn = MakerTurn::take(&self.local).await;
        let next = vec![turn.next()];
        let number = operation.complete(|| operation.allreduce(next, ops::max)).await?[0];
        turn.end(operation.at, number, 1)?;
        let scope = Arc::new(Scope::clone(&self.scope));
        Ok(Comm::new(self.local.clone(), scope, number, self.rank()))
    }

    /// Divides the ranks into communicators, one for each colour. Keys give the order of the ranks
    /// in each; ranks with equal keys keep their order. A rank without a colour gets `None`.
    ///
    /// # Errors
    ///
    /// Only those of the messages that it sends and receives.
    pub async fn split(&self, colour: Option<u32>, key: i64) -> Result<Option<Comm>, RankError> {
        let operation = Operation::new(self, "split");
        let turn = MakerTurn::take(&self.local).await;
        let mine = colour.map_or(0, |colour| u64::from(colour) + 1);
        let mine = [mine, key as u64, u64::from(turn.next())];
        let all = operation.complete(|| operation.allgather_equal(vec![mine])).await?;
        let first = all.iter().map(|[_, _, next]| *next).max().unwrap_or(1) as u32;
        let mut members: BTreeMap<u64, Vec<(i64, u32)>> = BTreeMap::new();
        for (rank, [colour, key, _]) in all.iter().enumerate().filter(|(_, [c, ..])| *c > 0) {
            members.entry(*colour).or_default().push((*key as i64, rank as u32));
        }
        turn.end(operation.at, first, members.len())?;
        let Some(at) = members.keys().position(|colour| *colour == mine[0]) else {
            return Ok(None);
        };
        let mut members = members.remove(&mine[0]).unwrap_or_default();
        members.sort_unstable();
        let ranks = members.iter().filter_map(|(_, rank)| self.world_rank(*rank)).collect();
        Ok(self.part(ranks, first + at as u32))
    }

    /// Makes a communicator of the ranks of a group. All ranks of a group pass that group; a rank
    /// that is not in the group that it passes gets `None`. If ranks pass different groups without
    /// common ranks, one call makes a communicator for each group.
    ///
    /// # Errors
    ///
    /// [`RankError::NotInCommunicator`] if a rank of the group is not in this communicator.
    pub async fn create(&self, group: &RankGroup) -> Result<Option<Comm>, RankError> {
        let is_foreign = |rank: &&u32| self.scope.position(**rank).is_none();
        if let Some(rank) = group.world_ranks().iter().find(is_foreign) {
            return Err(RankError::NotInCommunicator { at: self.at("create"), rank: *rank });
        }
        let mine = self.world_rank(self.rank()).and_then(|rank| group.position(rank));
        // Groups without common ranks differ in their first rank.
        let colour = mine.and_then(|_| group.world_ranks().first().copied());
        self.split(colour, i64::from(mine.unwrap_or(0))).await
    }

    /// Divides the ranks into one communicator for each site.
    ///
    /// # Errors
    ///
    /// Only those of the messages that it sends and receives.
    pub async fn split_by_site(&self) -> Result<Comm, RankError> {
        let part = self.split(Some(self.site(self.rank()).unwrap_or(0)), 0).await?;
        part.ok_or_else(|| "a rank is at no site".into())
    }

    /// The number of the site where a rank lives, as of the last migration point.
    pub fn site(&self, rank: u32) -> Option<u32> {
        (rank < self.size()).then(|| self.scope.place(rank).0)
    }

    /// The number of the PE where a rank lives, as of the last migration point.
    pub fn pe(&self, rank: u32) -> Option<u32> {
        (rank < self.size()).then(|| self.scope.place(rank).1)
    }

    /// The site of each rank.
    pub fn sites(&self) -> Vec<u32> {
        (0..self.size()).map(|rank| self.scope.place(rank).0).collect()
    }

    /// The name of a site, or an empty text if there is no such site.
    pub fn site_name(&self, site: u32) -> &str {
        self.scope.places().site_name(site)
    }

    /// The communicator with this number, of these ranks of the job; `None` if this rank is not one
    /// of them.
    pub(crate) fn part(&self, ranks: Vec<u32>, number: u32) -> Option<Comm> {
        let scope = Scope::listed(number, ranks, self.scope.places().clone());
        let rank = scope.position(self.local.rank)?;
        Some(Comm::new(self.local.clone(), scope.into(), number, rank))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_are_ordered_sets() {
        let all = RankGroup::of(vec![4, 7, 9, 2]);
        let some = all.include(&[3, 0]).unwrap();
        assert_eq!(some.world_ranks(), [2, 4]);
        assert_eq!(all.exclude(&[3, 0]).unwrap().world_ranks(), [7, 9]);
        let other = RankGroup::of(vec![5, 4]);
        assert_eq!(some.union(&other).world_ranks(), [2, 4, 5]);
        assert_eq!(some.intersection(&other).world_ranks(), [4]);
        assert_eq!(some.difference(&other).world_ranks(), [2]);
        assert_eq!(all.translate(&[0, 1, 9], &some), [Some(1), None, None]);
        assert!(all.include(&[4]).is_err() && all.include(&[0, 0]).is_err());
    }

    #[test]
    fn a_communicator_gets_no_number_of_the_name_server() {
        let local = Local::new(0);
        let end = |first, count| MakerTurn(&local).end(CallSite::new("split", 0), first, count);
        assert_eq!(end(5, 3), Ok(()));
        for (first, count) in [(SERVED_FROM, 1), (SERVED_FROM - 1, 2), (8, usize::MAX)] {
            assert!(matches!(end(first, count), Err(RankError::NoNumberLeft { .. })));
        }
        assert_eq!(MakerTurn(&local).next(), 8);
        assert_eq!((end(SERVED_FROM - 2, 2), end(SERVED_FROM, 0)), (Ok(()), Ok(())));
    }
}
