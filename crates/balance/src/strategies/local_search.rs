//! Levels the fullest PEs of a finished placement by few moves and exchanges that send no more
//! messages between sites.
//!
//! A cutter keeps within a tolerance, and the fullest PE determines the time of a step where
//! latency is hidden. The last few per cent depend on single actors, not on cuts. Therefore the
//! fullest PE repeatedly gives an actor to a PE with room, or exchanges an actor for a lighter one.
//! The load of a PE is its work and the time in which it sends and receives
//! ([`CostModel::message_overhead`]), so that a more even placement with more messages is no
//! better. Finally, the last moves are undone if they have not lowered the load of the fullest PE
//! by as much as moving costs.

use crate::cost::CostModel;
use crate::cutter::Graph;
use crate::snapshot::objects::MESSAGE_WEIGHT;

/// A placement, and the allowed moves.
#[derive(Debug)]
pub(crate) struct LocalSearch<'a> {
    /// The actors, with loads in nanoseconds on a PE of speed 1, and their messages.
    pub(crate) graph: &'a Graph,
    /// The PE of each vertex; changed by the search.
    pub(crate) pe_of: &'a mut [u32],
    /// The present PE of each vertex.
    pub(crate) homes: &'a [u32],
    pub(crate) is_movable: &'a [bool],
    /// Target load of each PE.
    pub(crate) targets: &'a [f64],
    /// The site of each PE; the weight that crosses sites does not increase.
    pub(crate) sites: &'a [u32],
}

/// Fraction by which steps must become shorter to justify moving all actors; in proportion for
/// fewer actors. Actors that move are packed and sent, and answer no messages meanwhile.
pub(crate) const WORTH: f64 = 0.25;
/// The search ends when the fullest PE exceeds the mean by no more than this fraction.
const GOAL: f64 = 5e-4;
/// Factor on the cost of added messages. It makes the search prefer, among actions that help
/// equally, those that add the fewest messages, even if messages take hardly any time.
const TALK: f64 = 10.0;
/// The search ends when the present state is worse than the best one by this part of a step.
const PATIENCE: f64 = 0.05;
/// Maximum number of PEs with room that are considered.
const PES: usize = 6;
/// Maximum number of actors of a PE that are considered.
const ACTORS: usize = 48;

/// An actor that leaves the fullest PE, and one that comes in exchange.
#[derive(Clone, Copy, Debug)]
struct Action {
    to: usize,
    gives: u32,
    takes: Option<u32>,
    score: f64,
}

/// A placement that the search changes, with the load of each PE.
pub(crate) struct Search<'a, 'b> {
    pub(crate) local: &'b mut LocalSearch<'a>,
    /// Nanoseconds for which each PE computes, sends and receives.
    busy: Vec<f64>,
    /// Actors that may move from each PE, by load.
    pub(crate) members: Vec<Vec<(i64, u32)>>,
    /// Nanoseconds that an edge of weight 1 between two PEs costs each of them.
    overhead: f64,
    /// Fullness of the fullest PE at which the search ends.
    goal: f64,
}

impl LocalSearch<'_> {
    /// Makes all moves that pay.
    pub(crate) fn run(&mut self) {
        let actors = self.pe_of.len();
        let mut search = Search::new(self);
        let first = search.fullest().map_or(0.0, |pe| search.fullness(pe));
        let mut trail = Trail::new(actors, first, PATIENCE);
        while let Some(from) = search.fullest() {
            let Some(action) = search.choose(from) else { break };
            let taken = action.takes.map(|taken| (taken, from));
            for (vertex, to) in std::iter::once((action.gives, action.to)).chain(taken) {
                trail.push(vertex, search.local.pe_of[vertex as usize], search.extra(vertex, to));
                search.shift(vertex, to);
            }
            if !trail.goes_on(search.fullest().map_or(0.0, |pe| search.fullness(pe))) {
                break;
            }
        }
        trail.take_back(self.pe_of);
    }
}

/// The moves of a search in order, and its best state. A gain is reduced by the cost of packing and
/// sending the actors that move.
pub(crate) struct Trail {
    actors: f64,
    /// Actors that moved, and the PEs that they left.
    moves: Vec<(u32, u32)>,
    /// Number of actors away from home, minus that number at the beginning.
    extra: i64,
    best: f64,
    kept: usize,
    patience: f64,
}

impl Trail {
    /// Begins a search over `actors` actors at `value`, a part of a step that should become
    /// smaller. The search ends when the present state is worse than the best one by `patience`.
    pub(crate) fn new(actors: usize, value: f64, patience: f64) -> Self {
        let actors = actors.max(1) as f64;
        Self { actors, moves: Vec::new(), extra: 0, best: value, kept: 0, patience }
    }

    /// Records that an actor is about to leave a PE; `extra` more actors are away from home then.
    pub(crate) fn push(&mut self, vertex: u32, from: u32, extra: i64) {
        self.moves.push((vertex, from));
        self.extra += extra;
    }

    /// Records the value after the moves so far. Returns whether it is close enough to the best one
    /// to go on.
    pub(crate) fn goes_on(&mut self, value: f64) -> bool {
        let value = value + self.extra.max(0) as f64 / self.actors * WORTH;
        if value < self.best {
            (self.best, self.kept) = (value, self.moves.len());
        }
        value <= self.best + self.patience
    }

    /// Undoes the moves after the best state.
    pub(crate) fn take_back(mut self, pe_of: &mut [u32]) {
        for (vertex, pe) in self.moves.drain(self.kept..).rev() {
            pe_of[vertex as usize] = pe;
        }
    }
}

impl<'a, 'b> Search<'a, 'b> {
    pub(crate) fn new(local: &'b mut LocalSearch<'a>) -> Self {
        let pes = local.targets.len();
        let overhead =
            CostModel::default().message_overhead.as_nanos() as f64 / MESSAGE_WEIGHT as f64;
        let (mut busy, mut members) = (vec![0.0; pes], vec![Vec::new(); pes]);
        for vertex in 0..local.pe_of.len() as u32 {
            let pe = local.pe_of[vertex as usize];
            let (load, graph) = (local.graph.load(vertex), local.graph);
            let outside =
                graph.neighbours(vertex).filter(|edge| local.pe_of[edge.0 as usize] != pe);
            let outside: i64 = outside.map(|edge| edge.1).sum();
            busy[pe as usize] += load as f64 + outside as f64 * overhead;
            if local.is_movable[vertex as usize] && load > 0 {
                members[pe as usize].push((load, vertex));
            }
        }
        members.iter_mut().for_each(|members| members.sort_unstable());
        let used = || (0..pes).filter(|&pe| local.targets[pe] > 0.0);
        let share: f64 = used().map(|pe| local.targets[pe]).sum();
        let goal = used().map(|pe| busy[pe]).sum::<f64>() / share * (1.0 + GOAL);
        Self { local, busy, members, overhead, goal }
    }

    pub(crate) fn fullness(&self, pe: usize) -> f64 {
        self.busy[pe] / self.local.targets[pe]
    }

    pub(crate) fn fullest(&self) -> Option<usize> {
        let used = (0..self.busy.len()).filter(|&pe| self.local.targets[pe] > 0.0);
        used.max_by(|&a, &b| self.fullness(a).total_cmp(&self.fullness(b)))
    }

    /// Returns some of the PEs that have most room.
    fn emptiest(&self, is_wanted: impl Fn(usize) -> bool) -> Vec<usize> {
        let mut found: Vec<usize> = Vec::new();
        for pe in (0..self.busy.len()).filter(|&pe| self.local.targets[pe] > 0.0 && is_wanted(pe)) {
            let at = found.partition_point(|&other| self.fullness(other) <= self.fullness(pe));
            if at < PES {
                found.insert(at, pe);
                found.truncate(PES);
            }
        }
        found
    }

    /// Returns the increase in the number of actors away from home if `vertex` moves to `to`.
    pub(crate) fn extra(&self, vertex: u32, to: usize) -> i64 {
        let home = self.local.homes[vertex as usize];
        i64::from(to as u32 != home) - i64::from(self.local.pe_of[vertex as usize] != home)
    }

    /// Returns the total weight of all edges of `vertex`, of its edges to PE `a` and of those to
    /// PE `b`.
    fn edges(&self, vertex: u32, a: usize, b: usize) -> (f64, f64, f64) {
        let mut sums = (0, 0, 0);
        for (end, weight) in self.local.graph.neighbours(vertex) {
            let pe = self.local.pe_of[end as usize] as usize;
            sums.0 += weight;
            sums.1 += if pe == a { weight } else { 0 };
            sums.2 += if pe == b { weight } else { 0 };
        }
        (sums.0 as f64, sums.1 as f64, sums.2 as f64)
    }

    /// Returns the increase of the loads of two PEs if `vertex` moves from the first to the second.
    fn change(&self, vertex: u32, from: usize, to: usize) -> (f64, f64) {
        let (all, here, there) = self.edges(vertex, from, to);
        let load = self.local.graph.load(vertex) as f64;
        (-load + (2.0 * here - all) * self.overhead, load + (all - 2.0 * there) * self.overhead)
    }

    /// Returns the action that most likely helps the fullest PE with the fewest moves.
    fn choose(&self, from: usize) -> Option<Action> {
        let site = self.local.sites[from];
        if self.fullness(from) <= self.goal {
            return None;
        }
        let near = self.emptiest(|pe| pe != from && self.local.sites[pe] == site);
        let far = self.emptiest(|pe| self.local.sites[pe] != site);
        let mut best: Option<Action> = None;
        let mut look = |action: Option<Action>| {
            if let Some(action) = action
                && best.is_none_or(|best| action.score < best.score)
            {
                best = Some(action);
            }
        };
        for to in near.into_iter().chain(far) {
            let excess = self.busy[from] - self.goal * self.local.targets[from];
            let room = self.goal * self.local.targets[to] - self.busy[to];
            let half = (self.fullness(from) - self.fullness(to)) / 2.0 * self.local.targets[to];
            let wanted = excess.min(room.max(half)).max(0.0);
            for &(load, gives) in around(&self.members[from], wanted) {
                look(self.appraise(from, to, gives, None));
                // Exchanges the actor for one that is lighter by the wanted load.
                for &(_, takes) in nearest(&self.members[to], load as f64 - wanted, 1) {
                    look(self.appraise(from, to, gives, Some(takes)));
                }
            }
        }
        best
    }

    fn appraise(&self, from: usize, to: usize, gives: u32, takes: Option<u32>) -> Option<Action> {
        let (mut here, mut there) = self.change(gives, from, to);
        let mut extra = self.extra(gives, to);
        if let Some(takes) = takes {
            let back = self.change(takes, to, from);
            // Edges between the two stay between the PEs, but both changes count them as saved.
            let between = self.local.graph.neighbours(gives).filter(|edge| edge.0 == takes);
            let between = 2.0 * between.map(|edge| edge.1).sum::<i64>() as f64 * self.overhead;
            here += back.1 + between;
            there += back.0 + between;
            extra += self.extra(takes, from);
        }
        if self.local.sites[from] != self.local.sites[to]
            && self.crossing(from, to, gives, takes) > 0
        {
            return None;
        }
        let after = |pe: usize, more: f64| (self.busy[pe] + more) / self.local.targets[pe];
        let fullest = after(from, here).max(after(to, there));
        // A smaller difference is a rounding error.
        if fullest >= self.fullness(from) * (1.0 - 1e-6) {
            return None;
        }
        let talk = (here + there).max(0.0) / self.local.targets[to].min(self.local.targets[from]);
        let moves = extra as f64 * WORTH / self.local.pe_of.len().max(1) as f64;
        let score = fullest.max(self.goal) + talk * TALK + moves;
        Some(Action { to, gives, takes, score })
    }

    /// Returns the increase of the weight that crosses sites if one actor moves from one site to
    /// another, and one moves back.
    fn crossing(&self, from: usize, to: usize, gives: u32, takes: Option<u32>) -> i64 {
        let [here, there] = [from, to].map(|pe| self.local.sites[pe]);
        let more = |vertex: u32, from: u32, to: u32, other: Option<u32>| {
            let edges = self.local.graph.neighbours(vertex).filter(|edge| Some(edge.0) != other);
            let site = |end: u32| self.local.sites[self.local.pe_of[end as usize] as usize];
            let weight = |(end, weight): (u32, i64)| match site(end) {
                site if site == from => weight,
                site if site == to => -weight,
                _ => 0,
            };
            edges.map(weight).sum::<i64>()
        };
        let back = takes.map_or(0, |taken| more(taken, there, here, Some(gives)));
        more(gives, here, there, takes) + back
    }

    pub(crate) fn shift(&mut self, vertex: u32, to: usize) {
        let from = self.local.pe_of[vertex as usize] as usize;
        let (here, there) = self.change(vertex, from, to);
        self.busy[from] += here;
        self.busy[to] += there;
        self.local.pe_of[vertex as usize] = to as u32;
        let entry = (self.local.graph.load(vertex), vertex);
        if let Ok(at) = self.members[from].binary_search(&entry) {
            self.members[from].remove(at);
        }
        let at = self.members[to].partition_point(|member| *member < entry);
        self.members[to].insert(at, entry);
    }
}

/// Returns some of the members with loads near `wanted`, or above.
fn around(members: &[(i64, u32)], wanted: f64) -> &[(i64, u32)] {
    let at = members.partition_point(|member| (member.0 as f64) < wanted);
    let end = (at + ACTORS * 3 / 4).min(members.len());
    &members[end.saturating_sub(ACTORS)..end]
}

/// Returns up to `count` members with loads just below `wanted`, and as many just above.
pub(crate) fn nearest(members: &[(i64, u32)], wanted: f64, count: usize) -> &[(i64, u32)] {
    let at = members.partition_point(|member| (member.0 as f64) < wanted);
    &members[at.saturating_sub(count)..(at + count).min(members.len())]
}

#[cfg(test)]
mod tests {
    use super::*;

    const ELSEWHERE: u32 = 9;

    /// Four PEs in two sites; loads in ms, and edges with numbers of messages.
    fn leveled(
        loads: &[u64],
        edges: &[(u32, u32, u64)],
        place: &[u32],
        homes: &[u32],
        fixed: &[usize],
    ) -> Vec<u32> {
        let loads: Vec<u64> = loads.iter().map(|ms| ms * 1_000_000).collect();
        let weigh = |&(from, to, messages): &(u32, u32, u64)| (from, to, messages * MESSAGE_WEIGHT);
        let graph = Graph::new(&loads, &edges.iter().map(weigh).collect::<Vec<_>>()).unwrap();
        let mut pe_of = place.to_vec();
        LocalSearch {
            graph: &graph,
            pe_of: &mut pe_of,
            homes,
            is_movable: &(0..loads.len()).map(|at| !fixed.contains(&at)).collect::<Vec<_>>(),
            targets: &[graph.total_load() as f64 / 4.0; 4],
            sites: &[0, 0, 1, 1],
        }
        .run();
        pe_of
    }

    #[test]
    fn an_exchange_levels_what_no_single_move_can() {
        // The PEs have loads of 110, 90, 100 and 100 ms.
        let loads = [60, 50, 40, 50, 100, 100];
        let place = [0, 0, 1, 1, 2, 3];

        let level = leveled(&loads, &[], &place, &[ELSEWHERE; 6], &[]);

        let mut sums = [0; 4];
        level.iter().zip(loads).for_each(|(&pe, load)| sums[pe as usize] += load);
        assert_eq!(sums, [100; 4]);
        assert_eq!(leveled(&loads, &[], &place, &[ELSEWHERE; 6], &[0, 1]), place, "both are fixed");
    }

    #[test]
    fn actors_stay_where_little_is_gained() {
        // The PEs have loads of 31, 29, 30 and 30 ms. Exchanging two of twelve actors would save a
        // thirtieth of a step.
        let loads = [10, 10, 11, 10, 10, 9, 10, 10, 10, 10, 10, 10];
        let place = [0, 0, 0, 1, 1, 1, 2, 2, 2, 3, 3, 3];

        assert_eq!(leveled(&loads, &[], &place, &place, &[]), place);
        assert_ne!(leveled(&loads, &[], &place, &[ELSEWHERE; 12], &[]), place);
    }

    #[test]
    fn messages_between_sites_do_not_increase_at_any_imbalance() {
        // Site 0 has twice as much work as site 1. Its actors talk to each other in the first case;
        // half of them talk to no actor in the second.
        let loads = [10; 12];
        let place = [0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 3, 3];
        let ring: Vec<_> = (0..8).map(|at| (at, (at + 1) % 8, 1)).collect();

        assert_eq!(leveled(&loads, &ring, &place, &[ELSEWHERE; 12], &[]), place);
        let pairs = [(0, 1, 1), (4, 5, 1)];
        let free = leveled(&loads, &pairs, &place, &[ELSEWHERE; 12], &[]);
        assert_eq!(free.iter().filter(|&&pe| pe > 1).count(), 6, "{free:?}");
    }

    #[test]
    fn a_pair_that_sends_for_longer_than_it_computes_is_not_separated() {
        // A message takes each end 2 us; 3,000 take 6 ms.
        let (loads, place) = ([4, 4, 5, 5, 5], [0, 0, 1, 2, 3]);
        let taken_apart = |messages| {
            let level = leveled(&loads, &[(0, 1, messages)], &place, &[ELSEWHERE; 5], &[]);
            level[0] != level[1]
        };

        assert!(!taken_apart(3000));
    }
}
