//! Evens out weights over PEs with few moves: from PEs over their limit to those with most room,
//! near ones first. The common part of `refine`, `border` and `vacate`.

use std::collections::BTreeSet;

/// The weights to even out, and the allowed moves.
#[derive(Debug)]
pub(crate) struct LoadEvening<'a> {
    /// The PE of each actor; changed by [`LoadEvening::run`].
    pub(crate) pe_of: &'a mut [u32],
    /// Actors that may move: `(weight, actor)`.
    pub(crate) items: Vec<(u64, u32)>,
    /// Total weight of each PE, with the items.
    pub(crate) loads: Vec<f64>,
    /// Target weight of each PE.
    pub(crate) targets: Vec<f64>,
    /// Maximum weight of a PE, relative to its target.
    pub(crate) slack: f64,
    /// The site of each PE.
    pub(crate) sites: Vec<u32>,
    /// Whether an item may leave its site if the site has no room.
    pub(crate) may_leave_site: bool,
    /// PEs that take no items.
    pub(crate) closed: Vec<bool>,
}

/// Part of a target below which an excess is a rounding error.
const DUST: f64 = 1e-9;

impl LoadEvening<'_> {
    /// Moves items until no PE is over its limit, or no move helps.
    pub(crate) fn run(mut self) {
        let pes = self.loads.len();
        let mut members: Vec<Vec<(u64, u32)>> = vec![Vec::new(); pes];
        for &(weight, actor) in self.items.iter().filter(|item| item.0 > 0) {
            members[self.pe_of[actor as usize] as usize].push((weight, actor));
        }
        members.iter_mut().for_each(|members| members.sort_unstable());
        let mut over: Vec<usize> = (0..pes).filter(|&pe| self.excess(pe) > 0.0).collect();
        over.sort_by(|&a, &b| self.excess(b).total_cmp(&self.excess(a)));
        let mut rooms: BTreeSet<(u64, usize)> =
            (0..pes).map(|pe| (self.room_key(pe), pe)).collect();
        for pe in over {
            while self.excess(pe) > 0.0 && self.relieve(pe, &mut members, &mut rooms) {}
        }
    }

    fn excess(&self, pe: usize) -> f64 {
        self.loads[pe] - self.targets[pe] * self.slack * (1.0 + DUST)
    }

    /// Returns the room of a PE as a number that can be ordered.
    fn room_key(&self, pe: usize) -> u64 {
        if self.closed[pe] {
            0
        } else {
            (self.targets[pe] * self.slack - self.loads[pe]).max(0.0) as u64
        }
    }

    /// Moves one item away from `pe`; returns whether it could.
    fn relieve(
        &mut self,
        pe: usize,
        members: &mut [Vec<(u64, u32)>],
        rooms: &mut BTreeSet<(u64, usize)>,
    ) -> bool {
        let near = rooms.iter().rev().find(|entry| self.sites[entry.1] == self.sites[pe]);
        let far = rooms.iter().next_back().filter(|_| self.may_leave_site);
        let mut found = None;
        for &(room, to) in [near, far].into_iter().flatten().filter(|entry| entry.1 != pe) {
            found = self.choose(pe, to, room, &members[pe]).map(|at| (at, to));
            if found.is_some() {
                break;
            }
        }
        let Some((at, to)) = found else { return false };
        let (weight, actor) = members[pe].remove(at);
        for pe in [pe, to] {
            rooms.remove(&(self.room_key(pe), pe));
        }
        self.loads[pe] -= weight as f64;
        self.loads[to] += weight as f64;
        self.pe_of[actor as usize] = to as u32;
        let place = members[to].partition_point(|member| *member < (weight, actor));
        members[to].insert(place, (weight, actor));
        for pe in [pe, to] {
            rooms.insert((self.room_key(pe), pe));
        }
        true
    }

    /// Returns the lightest item that removes all excess and fits, or the heaviest that fits, or
    /// the heaviest with which the other PE is still less full than this one was.
    fn choose(&self, pe: usize, to: usize, room: u64, members: &[(u64, u32)]) -> Option<usize> {
        let enough = members.partition_point(|member| (member.0 as f64) < self.excess(pe));
        if members.get(enough).is_some_and(|member| member.0 <= room) {
            return Some(enough);
        }
        let fitting = members.partition_point(|member| member.0 <= room);
        if fitting > 0 {
            return Some(fitting - 1);
        }
        if self.closed[to] || self.targets[to] <= 0.0 {
            return None;
        }
        let fullness = self.loads[pe] / self.targets[pe].max(f64::MIN_POSITIVE);
        let most = fullness * (1.0 - 1e-6) * self.targets[to] - self.loads[to];
        members.partition_point(|member| (member.0 as f64) < most).checked_sub(1)
    }
}
