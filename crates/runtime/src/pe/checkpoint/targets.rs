//! The PEs on which the members of an image continue.
//!
//! If several PEs take over a part, each gets runs of consecutive members, because these are often
//! neighbours and should stay together.

use crate::address::id::{ActorId, CollectionId};
use crate::message::{MemberImage, RestoreTarget};
use crate::pe::core::Core;
use gridspan_topology::PeId;
use std::collections::BTreeMap;

impl Core {
    /// Chooses the PEs of the members of a segment of `part`, if several PEs take over the part.
    /// Members that are bound to each other get the same one.
    pub(super) fn assign_targets(
        &mut self,
        part: PeId,
        members: &[MemberImage],
        target: &RestoreTarget,
    ) {
        let (RestoreTarget::Over(shares) | RestoreTarget::Shared(shares)) = target else { return };
        let mut bases: BTreeMap<CollectionId, Vec<ActorId>> = BTreeMap::new();
        for member in members {
            let base = self.base_of(member.id);
            // The first member that is bound to a base decides the position of the base.
            if self.has_target(member.id.collection)
                && !self.checkpointing.restoring.targets.contains_key(&base)
            {
                self.checkpointing.restoring.targets.insert(base, self.me);
                bases.entry(base.collection).or_default().push(base);
            }
        }
        let dealt = self.checkpointing.restoring.dealt.entry(part).or_default();
        for bases in bases.into_values() {
            let numbers = numbers(bases.len() as u64, shares, dealt);
            let targets = numbers.flat_map(|(pe, number)| (0..number).map(move |_| pe));
            self.checkpointing.restoring.targets.extend(bases.into_iter().zip(targets));
        }
    }

    /// The PE on which a member of a part continues. `None` if its group has ended.
    pub(super) fn target_of(&mut self, id: ActorId, target: &RestoreTarget) -> Option<PeId> {
        let id = self.checkpointing.restoring.restoration.as_ref()?.receiver(id)?;
        let has_target = self.has_target(id.collection);
        let chosen = match target {
            RestoreTarget::On(pe) if has_target => Some(*pe),
            RestoreTarget::Over(_) | RestoreTarget::Shared(_) if has_target => {
                self.checkpointing.restoring.targets.get(&self.base_of(id)).copied()
            }
            _ => None,
        };
        Some(chosen.or_else(|| self.home(id)).unwrap_or(self.me))
    }

    /// Whether a member continues on the PE that the plan gives, and not at its home.
    pub(super) fn has_target(&self, collection: CollectionId) -> bool {
        let info = self.collections.get(collection).map(|local| &local.info);
        info.is_some_and(|it| it.migratable() || self.common.keeps_members(it.kind))
    }
}

/// Returns how many of `all` members each PE gets, in proportion to the shares, and adds these
/// numbers to `dealt`. The remainder goes to the PEs that have the fewest relative to their shares.
fn numbers<'a>(
    all: u64,
    shares: &'a [(PeId, u64)],
    dealt: &mut BTreeMap<PeId, u64>,
) -> impl Iterator<Item = (PeId, u64)> + use<'a> {
    let sum = shares.iter().map(|&(_, share)| u128::from(share)).sum::<u128>().max(1);
    let whole = |&(_, share): &(PeId, u64)| (u128::from(all) * u128::from(share) / sum) as u64;
    let mut numbers: Vec<u64> = shares.iter().map(whole).collect();
    let mut left = all - numbers.iter().sum::<u64>().min(all);
    for (&(pe, _), number) in shares.iter().zip(&numbers) {
        *dealt.entry(pe).or_default() += number;
    }
    while left > 0 && !shares.is_empty() {
        let had = |(pe, share): (PeId, u64)| {
            // The members per unit of share, scaled by the sum of the shares to compare integers.
            let next = u128::from(dealt.get(&pe).copied().unwrap_or_default()) + 1;
            next * sum / u128::from(share.max(1))
        };
        let least = (0..shares.len()).min_by_key(|&at| had(shares[at])).unwrap_or_default();
        numbers[least] += 1;
        *dealt.entry(shares[least].0).or_default() += 1;
        left -= 1;
    }
    shares.iter().map(|&(pe, _)| pe).zip(numbers)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dealt(all: &[u64], shares: &[(u32, u64)]) -> Vec<u64> {
        let shares: Vec<_> = shares.iter().map(|&(pe, share)| (PeId(pe), share)).collect();
        let mut before = BTreeMap::new();
        for &all in all {
            let given: u64 = numbers(all, &shares, &mut before).map(|(_, number)| number).sum();
            assert_eq!(given, all);
        }
        shares.iter().map(|(pe, _)| before[pe]).collect()
    }

    #[test]
    fn members_are_dealt_in_proportion_to_shares() {
        assert_eq!(dealt(&[100], &[(0, 1), (1, 1), (2, 2)]), [25, 25, 50]);
        assert_eq!(dealt(&[7], &[(0, 1), (1, 1)]), [4, 3]);
        assert_eq!(dealt(&[0], &[(0, 1)]), [0]);
    }

    #[test]
    fn segments_with_one_member_each_are_shared_too() {
        assert_eq!(dealt(&[1; 40], &[(0, 3), (1, 1)]), [30, 10]);
        assert_eq!(dealt(&[3, 3, 3], &[(5, 1), (6, 1)]), [5, 4]);
    }
}
