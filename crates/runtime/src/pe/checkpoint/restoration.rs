//! Differences between a checkpoint and the job that continues from it.

use crate::address::collection::Map;
use crate::address::id::{ActorId, CollectionId, KindId, SectionId};
use crate::address::index::{ActorIndex, Ix1, Key};
use crate::message::{ActorType, Manifest, MemberRecord, RestorePlan, RestoreTarget};
use gridspan_topology::{Layout, PeId};
use std::collections::BTreeMap;

/// A checkpoint as the job that continues from it sees it.
pub(crate) struct Restoration {
    /// The manifest, with the actor types and the layout of the present job.
    pub(crate) manifest: Manifest,
    /// The present number of each actor type of the checkpoint, if the job has it.
    pub(crate) kinds: Vec<Option<KindId>>,
    /// The types whose states have an earlier version in the checkpoint.
    pub(crate) earlier: BTreeMap<KindId, ActorType>,
    /// The groups with another number of members than at the checkpoint.
    pub(crate) groups: BTreeMap<CollectionId, ResizedGroup>,
    /// Whether the job has continued from the checkpoint before, and has completed no other since.
    pub(crate) is_again: bool,
}

impl Restoration {
    /// The present number of the actor type that had the number `then` in the checkpoint, if the
    /// job still has the type.
    pub(crate) fn kind(&self, then: KindId) -> Option<KindId> {
        self.kinds.get(then.index()).copied().flatten()
    }

    /// The member that continues for a member of the checkpoint: another one if its group has
    /// another size now, or `None` if the group has ended.
    pub(crate) fn receiver(&self, id: ActorId) -> Option<ActorId> {
        match self.groups.get(&id.collection) {
            None => Some(id),
            Some(group) => Some(ActorId { key: group.successor(id.key)?.1, ..id }),
        }
    }
}

/// Order of the former members of a group that continue as one member. The later ones are merged
/// into the first one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct FormerOrder {
    /// Whether the PE of the member is lost, so that the members of that PE are spread over others.
    is_spread: bool,
    number: u32,
}

/// The numbers of completed operations over a group.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct GroupCounts {
    pub(crate) reductions: u64,
    pub(crate) syncs: u64,
    pub(crate) sections: Vec<(SectionId, u64)>,
}

/// A group that has another number of members than at the checkpoint.
#[derive(Clone, Debug)]
pub(crate) struct ResizedGroup {
    pub(crate) kind: KindId,
    /// Number of members that the group gets; 0 if it has ended.
    pub(crate) members: u32,
    /// For each former member, by number: its order among the members that are merged with it, and
    /// the number of the member as which they continue.
    successors: Vec<(FormerOrder, u32)>,
    pub(crate) counts: GroupCounts,
}

impl ResizedGroup {
    pub(crate) fn ended(kind: KindId) -> Self {
        Self { kind, members: 0, successors: Vec::new(), counts: GroupCounts::default() }
    }

    /// A group with one member for each PE or node of `layout`. Each former member is merged into
    /// the member of the PE or node that takes over its former PE.
    pub(crate) fn new(
        (kind, map): (KindId, Map),
        (before, layout): (&Layout, &Layout),
        plan: &RestorePlan,
        counts: GroupCounts,
    ) -> Self {
        let is_per_node = map == Map::PerNode;
        let members = if is_per_node { layout.node_count() } else { layout.pe_count() };
        let former: Vec<PeId> = match is_per_node {
            true => before.nodes().map(|node| before.leader(node)).collect(),
            false => before.pes().collect(),
        };
        let of_pe = |pe: PeId| if is_per_node { layout.node_of(pe).0 } else { pe.0 };
        let successor = |(number, pe): (u32, &PeId)| {
            let (is_spread, to) = match plan.targets.get(pe.index()) {
                Some(RestoreTarget::On(pe)) => (false, of_pe(*pe)),
                Some(target @ (RestoreTarget::Over(shares) | RestoreTarget::Shared(shares))) => {
                    let to = shares.first().map_or(0, |(pe, _)| of_pe(*pe));
                    (matches!(target, RestoreTarget::Over(_)), to)
                }
                Some(RestoreTarget::Homes) | None => (false, number % members),
            };
            (FormerOrder { is_spread, number }, to)
        };
        Self { kind, members, successors: (0..).zip(&former).map(successor).collect(), counts }
    }

    /// The order of a former member among those that are merged with it, and the key of the member
    /// as which they continue.
    pub(crate) fn successor(&self, former: Key) -> Option<(FormerOrder, Key)> {
        let number = u32::try_from(Ix1::from_key(former).0).unwrap_or_default();
        let known = self.successors.len().max(1);
        // An index beyond the former group counts modulo the size of that group.
        let &(order, to) = self.successors.get(number as usize % known)?;
        Some((order, Ix1(to as i32).key()))
    }

    /// The record of a member's part in the operations over its group.
    pub(crate) fn record(&self) -> MemberRecord {
        let GroupCounts { reductions, syncs, sections } = self.counts.clone();
        MemberRecord { reductions, syncs, section_reductions: sections, ..Default::default() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gridspan_topology::NodeId;

    fn successors(map: Map, before: &Layout, layout: &Layout, plan: &RestorePlan) -> Vec<u32> {
        let counts = GroupCounts::default();
        let group = ResizedGroup::new((KindId(0), map), (before, layout), plan, counts);
        group.successors.iter().map(|&(_, to)| to).collect()
    }

    #[test]
    fn members_go_where_their_pes_go_after_a_loss() {
        let before = Layout::new(vec![("a".into(), vec![2, 1]), ("b".into(), vec![1])]);
        let layout = Layout::new(vec![("a".into(), vec![2]), ("b".into(), vec![1])]);
        // Node 1, which had PE 2, is lost; node 0 of its site has its part.
        let successors_of = [Some(NodeId(0)), None, Some(NodeId(1))];
        let holders = [Some(NodeId(0)), Some(NodeId(0)), Some(NodeId(1))];
        let plan =
            RestorePlan::of_loads(&before, &[1; 4], &layout, &successors_of, &holders).unwrap();

        assert_eq!(successors(Map::PerPe, &before, &layout, &plan), [0, 1, 0, 2]);
        assert_eq!(successors(Map::PerNode, &before, &layout, &plan), [0, 0, 1]);
    }

    #[test]
    fn members_of_pes_that_go_on_come_before_those_of_lost_ones() {
        let before = Layout::new(vec![("a".into(), vec![1, 1, 1])]);
        let layout = Layout::new(vec![("a".into(), vec![1, 1])]);
        let successors = [None, Some(NodeId(0)), Some(NodeId(1))];
        let holders = [Some(NodeId(0)), Some(NodeId(0)), Some(NodeId(1))];
        let plan = RestorePlan::of_loads(&before, &[1; 4], &layout, &successors, &holders).unwrap();

        let counts = GroupCounts::default();
        let group = ResizedGroup::new((KindId(0), Map::PerPe), (&before, &layout), &plan, counts);

        let [lost, kept] = [0, 1].map(|number| group.successor(Ix1(number).key()).unwrap());
        assert_eq!(lost.1, kept.1);
        assert!(kept.0 < lost.0);
    }

    #[test]
    fn after_a_restart_members_are_dealt_out_in_turn() {
        let (before, layout) = (Layout::single(4), Layout::single(3));
        let plan = RestorePlan::restart(&before, &layout);
        assert_eq!(successors(Map::PerPe, &before, &layout, &plan), [0, 1, 2, 0]);
        let plan = RestorePlan::restart(&layout, &before);
        assert_eq!(successors(Map::PerPe, &layout, &before, &plan), [0, 1, 2]);
    }
}
