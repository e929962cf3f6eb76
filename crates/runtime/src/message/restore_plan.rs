//! Decides which PEs read the parts of an image, and where their members continue.
//!
//! After a loss or a change of the nodes, each PE that is left keeps its members, up to its share
//! of the load, which is in proportion to its capacity. The other members go to the PEs with the
//! least load for their capacity, first at their own site. The load of a PE is the work of its
//! members since they were last balanced, if the job measures that, and their number otherwise.

use crate::message::capacities::Capacities;
use crate::message::{Image, RestoreTarget};
use gridspan_topology::{GridSpec, Layout, NodeId, PeId};
use serde::{Deserialize, Serialize};
use std::cmp::Reverse;
use std::collections::{BTreeMap, VecDeque};

/// If every PE takes over members of the image, a PE may keep a load that exceeds its share by a
/// tenth, since measured loads vary.
const TOLERANCE: u64 = 10;

/// The PEs that read the parts of an image, and where the members of the parts continue.
///
/// ```
/// use gridspan_runtime::{Layout, PeId, RestorePlan};
///
/// // Two PEs read the parts of four.
/// let before = Layout::new(vec![("delft".to_owned(), vec![2, 2])]);
/// let plan = RestorePlan::restart(&before, &Layout::single(2));
/// assert_eq!(plan.readers, [0, 1, 0, 1].map(PeId));
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct RestorePlan {
    /// The PE that reads each part, by the PE that wrote it.
    pub readers: Vec<PeId>,
    /// Where the members of each part continue, by the PE that wrote it.
    pub targets: Vec<RestoreTarget>,
    /// The nodes that have each part in memory, by the PE that wrote it; empty if that is not known.
    /// If they are fewer than the job keeps copies, the reader sends copies to others.
    #[serde(default)]
    pub holders: Vec<Vec<NodeId>>,
    /// Whether the job has continued from the checkpoint before, and has completed no other since.
    /// Main then makes the next one at its first progress point.
    #[serde(default)]
    pub is_again: bool,
}

impl RestorePlan {
    /// A plan for a new start, where every process can read all parts: members continue where they
    /// were if both layouts have the same number of PEs, and at their homes otherwise.
    pub fn restart(before: &Layout, layout: &Layout) -> Self {
        let pes = layout.pe_count();
        let is_same = before.pe_count() == pes;
        let target = |pe| if is_same { RestoreTarget::On(pe) } else { RestoreTarget::Homes };
        Self {
            readers: before.pes().map(|pe| PeId(pe.0 % pes)).collect(),
            targets: before.pes().map(target).collect(),
            holders: Vec::new(),
            is_again: false,
        }
    }

    /// A plan for the nodes that go on after a loss or a change. Both lists have an entry for each
    /// node of the image: `successors` the node of `grid` whose PEs take over its members, and
    /// `holders` the node of `grid` that has its parts. An entry is `None` if there is no such
    /// node; missing entries, and nodes that `grid` does not have, count as `None`.
    ///
    /// PEs get members in proportion to their speed. If the balancer had measured different speeds
    /// before the checkpoint, these count, and otherwise [those of the grid](GridSpec::speed).
    ///
    /// # Errors
    ///
    /// The nodes of the image whose parts no node has.
    pub fn recovery(
        image: &Image,
        grid: &GridSpec,
        successors: &[Option<NodeId>],
        holders: &[Option<NodeId>],
    ) -> Result<Self, Vec<NodeId>> {
        let (before, layout) = (image.layout(), grid.layout());
        let own = pes_for(before, layout, successors);
        let capacities = Capacities::of(image, grid, &own);
        Self::of_works(before, layout, &capacities, &own, holders)
    }

    /// The same plan, with new copies of the parts that too few nodes have. Once these are made, the
    /// job survives as many further losses as before, even without another checkpoint. `before` is
    /// the layout of the image, and `holders` gives the nodes that go on and have the parts of a
    /// node.
    #[must_use]
    pub fn held_by(mut self, before: &Layout, holders: impl Fn(NodeId) -> Vec<NodeId>) -> Self {
        self.holders = before.pes().map(|pe| holders(before.node_of(pe))).collect();
        self
    }

    /// The same plan for a job that has continued from this checkpoint before, or has not.
    #[must_use]
    pub fn going_back_again(mut self, is_again: bool) -> Self {
        self.is_again = is_again;
        self
    }

    /// [`recovery`](Self::recovery) on PEs of equal capacity, with the load of each PE of `before`.
    #[cfg(test)]
    pub(crate) fn of_loads(
        before: &Layout,
        loads: &[u64],
        layout: &Layout,
        successors: &[Option<NodeId>],
        holders: &[Option<NodeId>],
    ) -> Result<Self, Vec<NodeId>> {
        let of_pes = vec![1; layout.pe_count() as usize];
        let capacities = Capacities { works: loads.to_vec(), of_pes };
        let own = pes_for(before, layout, successors);
        Self::of_works(before, layout, &capacities, &own, holders)
    }

    /// [`recovery`](Self::recovery) with `own`, the PE of `layout` that takes over each PE of
    /// `before`.
    fn of_works(
        before: &Layout,
        layout: &Layout,
        capacities: &Capacities,
        own: &[Option<PeId>],
        holders: &[Option<NodeId>],
    ) -> Result<Self, Vec<NodeId>> {
        let is_missing = |&node: &NodeId| known(layout, holders, node).is_none();
        let missing: Vec<NodeId> = before.nodes().filter(is_missing).collect();
        if !missing.is_empty() {
            return Err(missing);
        }
        let part = |(pe, (&own, &load)): (PeId, (&Option<PeId>, &u64))| {
            let node = before.node_of(pe);
            let site = before.site_name(before.site_of_node(node));
            Part { site, own, load, position: (pe.0 - before.place(node).pes.start) as usize }
        };
        let loads = own.iter().zip(&capacities.works);
        let parts: Vec<Part<'_>> = before.pes().zip(loads).map(part).collect();
        let readers = pes_for(before, layout, holders).into_iter().flatten().collect();
        let redistribution = Redistribution::new(&parts, layout, &capacities.of_pes);
        let targets = redistribution.targets(&parts);
        Ok(Self { readers, targets, holders: Vec::new(), is_again: false })
    }
}

/// The entry of the list `nodes` for node `of`, if `layout` has this node.
fn known(layout: &Layout, nodes: &[Option<NodeId>], of: NodeId) -> Option<NodeId> {
    let node = nodes.get(of.index()).copied().flatten();
    node.filter(|node| node.0 < layout.node_count())
}

/// The PE of `layout` for each PE of `before`, on the node that `nodes` has for its node.
fn pes_for(before: &Layout, layout: &Layout, nodes: &[Option<NodeId>]) -> Vec<Option<PeId>> {
    let pe_for = |pe: PeId| {
        let node = before.node_of(pe);
        let pes = layout.place(known(layout, nodes, node)?).pes.clone();
        let position = pe.0 - before.place(node).pes.start;
        Some(PeId(pes.start + position % pes.len() as u32))
    };
    before.pes().map(pe_for).collect()
}

/// The part of the image that one PE wrote.
struct Part<'a> {
    site: &'a str,
    /// The PE that takes over its members, if its node has a successor.
    own: Option<PeId>,
    load: u64,
    /// Its position among the PEs of its node.
    position: usize,
}

/// The distribution of the load of all parts over the PEs of a layout.
struct Redistribution {
    /// The PEs of each site.
    sites: BTreeMap<String, Vec<usize>>,
    /// The capacity of each PE.
    capacities: Vec<u64>,
    /// The load that each PE keeps or gets.
    filled: Vec<u64>,
    /// The load that each part keeps on the PE that takes over its members.
    kept: Vec<u64>,
    /// The loads that each part gives to other PEs, in the order of the part's members.
    given: Vec<Vec<(PeId, u64)>>,
}

/// The load that PEs should have for each unit of their capacity, as a fraction.
#[derive(Clone, Copy)]
struct Due {
    load: u128,
    capacity: u128,
}

impl Due {
    /// The load of a PE of this capacity, rounded down.
    fn rounded_down(self, capacity: u64) -> u64 {
        (self.load * u128::from(capacity) / self.capacity) as u64
    }

    /// The load of a PE of this capacity, rounded up.
    fn rounded_up(self, capacity: u64) -> u64 {
        (self.load * u128::from(capacity)).div_ceil(self.capacity) as u64
    }
}

impl Redistribution {
    fn new(parts: &[Part<'_>], layout: &Layout, capacities: &[u64]) -> Self {
        let mut sites: BTreeMap<String, Vec<usize>> = BTreeMap::new();
        for pe in layout.pes() {
            let site = layout.site_name(layout.site_of_node(layout.node_of(pe)));
            sites.entry(site.to_owned()).or_default().push(pe.index());
        }
        let filled = vec![0; layout.pe_count() as usize];
        let given = vec![Vec::new(); parts.len()];
        let capacities = capacities.to_vec();
        let mut all = Self { sites, capacities, filled, kept: Vec::new(), given };
        let dues = all.dues(parts);
        all.keep(parts, &dues);
        all.give(parts, &dues);
        all
    }

    /// Returns for each site of the layout the load that its PEs should have. New sites get a share
    /// of all load, and each other site keeps the rest of its load. All sites share the load of
    /// sites that are gone.
    fn dues(&self, parts: &[Part<'_>]) -> BTreeMap<String, Due> {
        let all: u128 = parts.iter().map(|part| u128::from(part.load)).sum();
        let mut old: BTreeMap<&str, u128> = BTreeMap::new();
        for part in parts.iter().filter(|part| self.sites.contains_key(part.site)) {
            *old.entry(part.site).or_default() += u128::from(part.load);
        }
        let of =
            |pes: &[usize]| pes.iter().map(|&pe| u128::from(self.capacities[pe])).sum::<u128>();
        let of_all: u128 = self.capacities.iter().map(|&capacity| u128::from(capacity)).sum();
        let of_old: u128 = old.keys().map(|site| of(&self.sites[*site])).sum();
        let gone = all - old.values().sum::<u128>();
        let due = |(site, its): (&String, &Vec<usize>)| {
            let its = of(its);
            let due = match old.get(site.as_str()) {
                // Its own load and that of sites that are gone, less the share of new sites.
                Some(own) => Due { load: own * of_old + gone * its, capacity: its * of_all },
                None => Due { load: all, capacity: of_all },
            };
            (site.clone(), due)
        };
        self.sites.iter().map(due).collect()
    }

    /// Keeps the load of each part on its own PE, up to the share of the PE.
    fn keep(&mut self, parts: &[Part<'_>], dues: &BTreeMap<String, Due>) {
        let mut is_taken = vec![false; self.filled.len()];
        parts.iter().filter_map(|part| part.own).for_each(|pe| is_taken[pe.index()] = true);
        let is_exact = is_taken.contains(&false);
        for part in parts {
            let due = dues.get(part.site);
            let kept = part.own.map_or(0, |pe| {
                let due = due.map_or(0, |due| due.rounded_down(self.capacities[pe.index()]));
                let filled = &mut self.filled[pe.index()];
                let most = if is_exact { due } else { due + due / TOLERANCE + 1 };
                let kept = match *filled + part.load <= most {
                    true => part.load,
                    false => part.load.min(due.saturating_sub(*filled)),
                };
                *filled += kept;
                kept
            });
            self.kept.push(kept);
        }
    }

    /// Gives the rest of each part to the PEs with the least load for their capacity: at its site
    /// up to the shares of that site's PEs, then anywhere.
    fn give(&mut self, parts: &[Part<'_>], dues: &BTreeMap<String, Due>) {
        let mut rests: Vec<(usize, u64)> =
            (0..).zip(parts.iter().zip(&self.kept).map(|(part, kept)| part.load - kept)).collect();
        let sites: Vec<(String, Vec<usize>)> = self.sites.clone().into_iter().collect();
        for (site, pes) in sites {
            let mut own: Vec<(usize, u64)> =
                rests.iter().copied().filter(|&(part, _)| parts[part].site == site).collect();
            let due =
                |pe: usize| dues.get(&site).map_or(0, |due| due.rounded_up(self.capacities[pe]));
            let has_room: u64 = pes.iter().map(|&pe| due(pe).saturating_sub(self.filled[pe])).sum();
            let rest: u64 = own.iter().map(|(_, rest)| rest).sum();
            self.pour(&mut own, &pes, rest.min(has_room));
            for (part, rest) in own {
                rests[part].1 = rest;
            }
        }
        let all: Vec<usize> = (0..self.filled.len()).collect();
        let rest = rests.iter().map(|(_, rest)| rest).sum();
        self.pour(&mut rests, &all, rest);
    }

    /// Moves `amount` of the rests to these PEs, so that the least filled ones end equally full for
    /// their capacity. Parts and PEs are taken in their order, so that neighbours stay together.
    fn pour(&mut self, rests: &mut [(usize, u64)], pes: &[usize], amount: u64) {
        let mut places: VecDeque<(usize, u64)> = (self.rises(pes, amount))
            .filter(|&(_, rise)| rise > 0)
            .inspect(|&(pe, rise)| self.filled[pe] += rise)
            .collect();
        for (part, rest) in rests {
            while *rest > 0
                && let Some((pe, room)) = places.front_mut()
            {
                let moved = (*rest).min(*room);
                (*rest, *room) = (*rest - moved, *room - moved);
                self.given[*part].push((PeId::from(*pe), moved));
                if *room == 0 {
                    places.pop_front();
                }
            }
        }
    }

    /// The load that each of these PEs gets if `amount` fills the least filled ones to one level:
    /// the same load for each unit of capacity.
    fn rises(&self, pes: &[usize], amount: u64) -> impl Iterator<Item = (usize, u64)> + use<> {
        let of = |pe: usize| [self.filled[pe], self.capacities[pe]].map(u128::from);
        let mut lowest: Vec<usize> = pes.to_vec();
        lowest.sort_by(|&one, &other| {
            let ([filled, capacity], [its_filled, its_capacity]) = (of(one), of(other));
            (filled * its_capacity).cmp(&(its_filled * capacity))
        });
        let (mut load, mut capacity) = (u128::from(amount), 0_u128);
        let reached = lowest.iter().position(|&next| {
            // Whether the PEs before this one can take `amount` without rising above its level.
            let [its_filled, its_capacity] = of(next);
            let has_room = its_filled * capacity >= load * its_capacity;
            if !has_room {
                load += its_filled;
                capacity += its_capacity;
            }
            has_room
        });
        lowest.truncate(reached.unwrap_or(lowest.len()));
        let whole = |&pe: &usize| (load * of(pe)[1] / capacity) as u64;
        let mut levels: Vec<u64> = lowest.iter().map(whole).collect();
        // What is left goes to the PEs that lost most by rounding, and of equal ones to the first.
        let left = load.saturating_sub(levels.iter().map(|&level| u128::from(level)).sum());
        let mut order: Vec<usize> = (0..lowest.len()).collect();
        order.sort_by_key(|&at| Reverse(load * of(lowest[at])[1] % capacity));
        order.into_iter().take(left as usize).for_each(|at| levels[at] += 1);
        let rise = |(&pe, level): (&usize, u64)| (pe, level - self.filled[pe]);
        let mut rises: Vec<(usize, u64)> = lowest.iter().zip(levels).map(rise).collect();
        rises.sort_unstable();
        rises.into_iter()
    }

    /// Where the members of each part continue.
    fn targets(self, parts: &[Part<'_>]) -> Vec<RestoreTarget> {
        let Self { sites, filled, kept, given, .. } = self;
        let all: Vec<usize> = (0..filled.len()).collect();
        let target = |((part, kept), mut given): ((&Part<'_>, u64), Vec<(PeId, u64)>)| {
            let Some(own) = part.own else {
                if given.is_empty() {
                    // The part has no load, such as one with members of groups only. Such parts of
                    // a node go to different PEs.
                    let near = sites.get(part.site).unwrap_or(&all);
                    given.push((PeId::from(near[part.position % near.len()]), 1));
                }
                return RestoreTarget::Over(given);
            };
            let returned = given.iter().filter(|(pe, _)| *pe == own).map(|(_, share)| share);
            let kept = kept + returned.sum::<u64>();
            given.retain(|(pe, _)| *pe != own);
            if given.is_empty() {
                return RestoreTarget::On(own);
            }
            given.insert(0, (own, kept.max(1)));
            RestoreTarget::Shared(given)
        };
        parts.iter().zip(kept).zip(given).map(target).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn site(name: &str, pes: &[u32]) -> (String, Vec<u32>) {
        (name.to_owned(), pes.to_vec())
    }

    /// The plan for parts with these loads, and what each PE gets.
    fn planned(
        before: &Layout,
        loads: &[u64],
        layout: &Layout,
        successors: &[Option<u32>],
    ) -> (Vec<RestoreTarget>, Vec<u64>) {
        let equal = vec![1; layout.pe_count() as usize];
        planned_on(before, loads, (layout, &equal), successors)
    }

    /// The same for PEs with these capacities.
    fn planned_on(
        before: &Layout,
        loads: &[u64],
        (layout, capacities): (&Layout, &[u64]),
        successors: &[Option<u32>],
    ) -> (Vec<RestoreTarget>, Vec<u64>) {
        let successors: Vec<_> = successors.iter().map(|it| it.map(NodeId)).collect();
        let holders = vec![Some(NodeId(0)); successors.len()];
        let capacities = Capacities { works: loads.to_vec(), of_pes: capacities.to_vec() };
        let own = pes_for(before, layout, &successors);
        let plan = RestorePlan::of_works(before, layout, &capacities, &own, &holders).unwrap();
        let mut got = vec![0; layout.pe_count() as usize];
        for (target, &load) in plan.targets.iter().zip(loads) {
            match target {
                RestoreTarget::On(pe) => got[pe.index()] += load,
                RestoreTarget::Shared(shares) | RestoreTarget::Over(shares) if load > 0 => {
                    assert_eq!(shares.iter().map(|(_, share)| share).sum::<u64>(), load);
                    shares.iter().for_each(|&(pe, share)| got[pe.index()] += share);
                }
                _ => {}
            }
        }
        assert_eq!(got.iter().sum::<u64>(), loads.iter().sum::<u64>());
        (plan.targets, got)
    }

    #[test]
    fn lost_members_are_spread_over_their_site() {
        let before = Layout::new(vec![site("a", &[2, 1]), site("b", &[1])]);
        let layout = Layout::new(vec![site("a", &[1]), site("b", &[1])]);
        let successors = [None, Some(NodeId(0)), Some(NodeId(1))];
        let holders = [Some(NodeId(1)), Some(NodeId(0)), Some(NodeId(1))];
        let plan =
            |holders: &[_]| RestorePlan::of_loads(&before, &[8; 4], &layout, &successors, holders);

        let RestorePlan { readers, targets, .. } = plan(&holders).unwrap();

        assert_eq!(readers, [PeId(1), PeId(1), PeId(0), PeId(1)]);
        let lost = RestoreTarget::Over(vec![(PeId(0), 8)]);
        assert_eq!(
            targets,
            [lost.clone(), lost, RestoreTarget::On(PeId(0)), RestoreTarget::On(PeId(1))]
        );
        assert_eq!(plan(&[None, holders[1], holders[2]]), Err(vec![NodeId(0)]));
        assert_eq!(plan(&holders[..1]), Err(vec![NodeId(1), NodeId(2)]));
        assert_eq!(plan(&[holders[0], Some(NodeId(2)), holders[2]]), Err(vec![NodeId(1)]));
    }

    #[test]
    fn the_holders_of_a_node_are_those_of_all_its_parts() {
        let before = Layout::new(vec![site("a", &[2, 1])]);
        let plan = RestorePlan::restart(&before, &Layout::single(2));
        assert!(plan.holders.is_empty(), "they are not known");
        let holders = [vec![NodeId(0), NodeId(1)], vec![NodeId(1)]];
        let plan = plan.held_by(&before, |node| holders[node.index()].clone());
        assert_eq!(plan.holders, [&holders[0], &holders[0], &holders[1]].map(Vec::clone));
    }

    #[test]
    fn nodes_without_a_successor_in_the_layout_count_as_lost() {
        let before = Layout::new(vec![site("a", &[1, 1])]);
        let layout = Layout::new(vec![site("a", &[1])]);
        let plan = |successors: &[_]| {
            RestorePlan::of_loads(&before, &[3, 5], &layout, successors, &[Some(NodeId(0)); 2])
        };

        let one_is_lost = plan(&[Some(NodeId(0)), None]).unwrap();

        assert_eq!(one_is_lost.targets[1], RestoreTarget::Over(vec![(PeId(0), 5)]));
        assert_eq!(plan(&[Some(NodeId(0))]).unwrap(), one_is_lost);
        assert_eq!(plan(&[Some(NodeId(0)), Some(NodeId(1))]).unwrap(), one_is_lost);
    }

    #[test]
    fn the_least_loaded_pes_get_most_of_what_is_lost() {
        let before = Layout::new(vec![site("a", &[1, 1, 1, 1])]);
        let layout = Layout::new(vec![site("a", &[1, 1, 1])]);
        let lost_first = [None, Some(0), Some(1), Some(2)];
        let (_, got) = planned(&before, &[9, 3, 8, 10], &layout, &lost_first);
        assert_eq!(got, [10, 10, 10]);
    }

    #[test]
    fn loads_stay_even_after_many_losses_and_returns() {
        let all = Layout::new(vec![site("a", &[2, 2, 2, 2]), site("b", &[2, 2, 2, 2])]);
        let mut loads = vec![8; 16];
        for round in 0..100 {
            let lost = round * 5 % 8;
            let four_less = |at: usize| vec![2; 4 - usize::from(lost / 4 == at)];
            let some = Layout::new(vec![site("a", &four_less(0)), site("b", &four_less(1))]);
            let others: Vec<u32> = (0..8).filter(|&node| node != lost as u32).collect();
            let position = |node| others.iter().position(|&other| other == node);
            let left: Vec<_> =
                (0..8).map(|node| position(node).map(|position| position as u32)).collect();
            let (_, fewer) = planned(&all, &loads, &some, &left);
            let back: Vec<_> = others.iter().copied().map(Some).collect();
            loads = planned(&some, &fewer, &all, &back).1;
            assert!(fewer.iter().all(|load| (7..=11).contains(load)), "round {round}: {fewer:?}");
            assert!(loads.iter().all(|load| (7..=9).contains(load)), "round {round}: {loads:?}");
        }
    }

    #[test]
    fn nodes_that_join_get_equal_shares_of_their_site_or_of_all() {
        let before = Layout::new(vec![site("a", &[1, 1]), site("b", &[2])]);
        // Another node at site a: its three PEs share what two had.
        let layout = Layout::new(vec![site("a", &[1, 1, 1]), site("b", &[2])]);
        let (_, got) = planned(&before, &[30; 4], &layout, &[Some(0), Some(1), Some(3)]);
        assert_eq!(got, [20, 20, 20, 30, 30]);
        // A new site: five PEs share what four had.
        let layout = Layout::new(vec![site("a", &[1, 1]), site("b", &[2]), site("c", &[1])]);
        let (_, got) = planned(&before, &[30; 4], &layout, &[Some(0), Some(1), Some(2)]);
        assert_eq!(got, [24; 5]);
        // Another node takes over for one that leaves.
        let layout = Layout::new(vec![site("a", &[1, 1]), site("b", &[2])]);
        let (_, got) = planned(&before, &[30; 4], &layout, &[Some(0), Some(1), None]);
        assert_eq!(got, [30; 4]);
        // A site is gone: all others share what it had.
        let layout = Layout::new(vec![site("a", &[1, 1])]);
        let (_, got) = planned(&before, &[30; 4], &layout, &[Some(0), Some(1), None]);
        assert_eq!(got, [60; 2]);
    }

    #[test]
    fn what_cannot_be_divided_stays_at_its_site() {
        let before = Layout::new(vec![site("a", &[1, 1, 1]), site("b", &[1])]);
        let layout = Layout::new(vec![site("a", &[1, 1]), site("b", &[1])]);
        let (_, got) = planned(&before, &[3; 4], &layout, &[Some(0), Some(1), None, Some(2)]);
        assert_eq!(got, [5, 4, 3]);
    }

    #[test]
    fn loads_that_differ_little_stay_where_they_are() {
        let layout = Layout::new(vec![site("a", &[1, 1, 1])]);
        let (targets, _) = planned(&layout, &[95, 105, 100], &layout, &[Some(0), Some(1), Some(2)]);
        assert_eq!(targets, [0, 1, 2].map(|pe| RestoreTarget::On(PeId(pe))));
        let (targets, got) =
            planned(&layout, &[20, 180, 100], &layout, &[Some(0), Some(1), Some(2)]);
        assert_eq!(got, [100; 3]);
        assert_eq!(targets[1], RestoreTarget::Shared(vec![(PeId(1), 100), (PeId(0), 80)]));
    }

    #[test]
    fn slow_pes_keep_and_get_less() {
        let before = Layout::new(vec![site("a", &[1, 1, 1])]);
        let layout = Layout::new(vec![site("a", &[1, 1])]);
        let (targets, got) =
            planned_on(&before, &[20; 3], (&layout, &[4, 1]), &[None, Some(0), Some(1)]);
        assert_eq!(got, [48, 12]);
        assert_eq!(targets[2], RestoreTarget::Shared(vec![(PeId(1), 12), (PeId(0), 8)]));
        // A slow PE that has little gets its share, too, and what cannot be divided goes to the one
        // that lacks most.
        let (_, got) =
            planned_on(&before, &[20, 40, 1], (&layout, &[4, 1]), &[None, Some(0), Some(1)]);
        assert_eq!(got, [49, 12]);
    }

    #[test]
    fn slow_pes_that_join_get_less_of_their_site_or_of_all() {
        let before = Layout::new(vec![site("a", &[1, 1]), site("b", &[1])]);
        let all = [Some(0), Some(1), Some(3)];
        // Another node at site a, which keeps its load.
        let layout = Layout::new(vec![site("a", &[1, 1, 1]), site("b", &[1])]);
        let (_, got) = planned_on(&before, &[45; 3], (&layout, &[4, 4, 1, 4]), &all);
        assert_eq!(got, [40, 40, 10, 45]);
        // A new site.
        let layout = Layout::new(vec![site("a", &[1, 1]), site("b", &[1]), site("c", &[1])]);
        let all = [Some(0), Some(1), Some(2)];
        let (_, got) = planned_on(&before, &[65; 3], (&layout, &[4, 4, 4, 1]), &all);
        assert_eq!(got, [60, 60, 60, 15]);
    }

    #[test]
    fn only_the_ratios_of_capacities_matter() {
        let before = Layout::new(vec![site("a", &[2, 1, 1]), site("b", &[1, 2])]);
        let layout = Layout::new(vec![site("a", &[1, 2]), site("b", &[2])]);
        let loads = [7, 0, 13, 5, 11, 3, 2];
        let successors = [None, Some(0), Some(1), Some(2), None];
        let planned = |unit: u64, capacities: [u64; 5]| {
            let capacities = capacities.map(|capacity| capacity * unit);
            planned_on(&before, &loads, (&layout, &capacities), &successors)
        };
        for capacities in [[1; 5], [1, 2, 3, 1, 4]] {
            assert_eq!(planned(1, capacities), planned(1 << 14, capacities));
        }
    }

    #[test]
    fn parts_without_load_go_to_different_pes() {
        let before = Layout::new(vec![site("a", &[2, 2])]);
        let layout = Layout::new(vec![site("a", &[2])]);
        let (targets, _) = planned(&before, &[0; 4], &layout, &[None, Some(0)]);
        let lost = |pe| RestoreTarget::Over(vec![(PeId(pe), 1)]);
        assert_eq!(
            targets,
            [lost(0), lost(1), RestoreTarget::On(PeId(0)), RestoreTarget::On(PeId(1))]
        );
    }
}
