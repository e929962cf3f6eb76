//! Exchanges actors so that those that talk across sites share a PE with short handlers.
//!
//! A PE does not interrupt a handler, so a message that arrives meanwhile waits until the handler
//! ends. The mean wait is the sum of `h²/2T` over the PE's handlers, where `h` is the time of a
//! handler and `T` that of a step (the mean residual life of renewal theory). Where latency is only
//! just hidden, PEs are never idle, and the messages of the longest cycle between sites wait at
//! both ends of the cycle. There they also wait for the other receivers of the same message on that
//! PE.
//!
//! So this search exchanges the ends of the longest cycles, or the long handlers beside them, for
//! actors of the same load on PEs of the same site. The number of messages between sites stays the
//! same, and no PE gets noticeably fuller than the fullest one was. The work of an actor in a step
//! counts as one handler, which is exact for actors that wait for all their messages before they
//! compute.

use crate::strategies::local_search::{LocalSearch, Search, Trail, nearest};

/// Maximum number of partner PEs that are considered.
const PES: usize = 12;
/// Maximum number of actors of a partner PE that are considered as the first one to take.
const ACTORS: usize = 8;
/// Number of the longest handlers of a PE that are considered.
const LONG: usize = 3;
/// Maximum number of actors for which one is exchanged.
const TAKES: usize = 3;
/// Fraction of a PE's target by which the PE may get fuller than the fullest one, and by which
/// exchanged loads may differ.
const SLACK: f64 = 1e-3;
/// Minimum fraction by which an exchange must shorten the longest cycle.
const LEAST: f64 = 1e-4;
/// The search ends when the present state is worse than the best one by this part of a step.
const PATIENCE: f64 = 0.01;
/// Maximum number of exchanges, as a multiple of the number of PEs.
const EXCHANGES: usize = 8;

impl LocalSearch<'_> {
    /// Makes all exchanges that pay.
    pub(crate) fn exchange_handlers(&mut self) {
        let (actors, rounds) = (self.pe_of.len(), self.targets.len() * EXCHANGES);
        let mut exchange = HandlerExchange::new(Search::new(self));
        let Some(mut longest) = exchange.longest() else { return };
        let mut trail = Trail::new(actors, exchange.part(longest.0), PATIENCE);
        for _ in 0..rounds {
            let Some(trade) = exchange.choose(longest) else { break };
            for (vertex, to) in trade.moves() {
                let extra = exchange.search.extra(vertex, to);
                trail.push(vertex, exchange.pe(vertex) as u32, extra);
                exchange.shift(vertex, to);
            }
            let Some(now) = exchange.longest() else { break };
            longest = now;
            if !trail.goes_on(exchange.part(now.0)) {
                break;
            }
        }
        trail.take_back(self.pe_of);
    }
}

/// An exchange of one actor of a PE for some actors of another PE with about the same total load.
#[derive(Clone, Copy, Debug)]
struct Trade {
    from: usize,
    gives: u32,
    to: usize,
    takes: [Option<u32>; TAKES],
}

impl Trade {
    fn moves(self) -> impl Iterator<Item = (u32, usize)> {
        let back = self.takes.into_iter().flatten().map(move |taken| (taken, self.from));
        std::iter::once((self.gives, self.to)).chain(back)
    }
}

struct HandlerExchange<'a, 'b> {
    search: Search<'a, 'b>,
    /// Actors of other sites with which each actor exchanges messages.
    far: Vec<Vec<u32>>,
    /// Actors of each PE that exchange messages with other sites.
    border: Vec<Vec<u32>>,
    /// Sum of the squares of loads on each PE.
    squares: Vec<f64>,
    /// Maximum fullness of a PE.
    full: f64,
}

impl<'a, 'b> HandlerExchange<'a, 'b> {
    fn new(search: Search<'a, 'b>) -> Self {
        let local = &*search.local;
        let pes = local.targets.len();
        let (mut border, mut squares) = (vec![Vec::new(); pes], vec![0.0; pes]);
        let mut far = vec![Vec::new(); local.pe_of.len()];
        let site = |vertex: u32| local.sites[local.pe_of[vertex as usize] as usize];
        for vertex in 0..local.pe_of.len() as u32 {
            let pe = local.pe_of[vertex as usize] as usize;
            squares[pe] += (local.graph.load(vertex) as f64).powi(2);
            let ends = local.graph.neighbours(vertex).map(|(end, _)| end);
            far[vertex as usize] = ends.filter(|&end| site(end) != site(vertex)).collect();
            if !far[vertex as usize].is_empty() {
                border[pe].push(vertex);
            }
        }
        let full = search.fullest().map_or(0.0, |pe| search.fullness(pe)) * (1.0 + SLACK);
        Self { search, far, border, squares, full }
    }

    fn pe(&self, vertex: u32) -> usize {
        self.search.local.pe_of[vertex as usize] as usize
    }

    fn load(&self, vertex: u32) -> f64 {
        self.search.local.graph.load(vertex) as f64
    }

    /// Returns a time as a part of a step.
    fn part(&self, time: f64) -> f64 {
        let targets = &self.search.local.targets;
        time / targets.iter().copied().fold(f64::MIN_POSITIVE, f64::max)
    }

    /// Returns the time for which a message from another site stays at an actor and at its other
    /// receivers on the same PE.
    fn stay(&self, vertex: u32, sender: u32) -> f64 {
        let (pe, load) = (self.pe(vertex), self.load(vertex));
        let step = self.search.local.targets[pe].max(f64::MIN_POSITIVE);
        let beside = self.far[sender as usize].iter().filter(|&&end| self.pe(end) == pe);
        let handled: f64 = beside.map(|&end| self.load(end)).sum();
        handled + (self.squares[pe] - load * load).max(0.0) / (2.0 * step)
    }

    /// Returns the longest cycle through an actor, without its latency, and its two ends.
    fn cycle(&self, vertex: u32) -> Option<(f64, u32, u32)> {
        let ends = self.far[vertex as usize].iter();
        let cycle = |&end: &u32| (self.stay(vertex, end) + self.stay(end, vertex), vertex, end);
        ends.map(cycle).max_by(|a, b| a.0.total_cmp(&b.0))
    }

    /// Returns the longest cycle of all.
    fn longest(&self) -> Option<(f64, u32, u32)> {
        let cycles = self.border.iter().flatten().filter_map(|&vertex| self.cycle(vertex));
        cycles.max_by(|a, b| a.0.total_cmp(&b.0))
    }

    /// Returns the exchange that shortens the longest cycle most: another place for one of its
    /// ends, or for a handler for which an end waits.
    fn choose(&mut self, (longest, a, b): (f64, u32, u32)) -> Option<Trade> {
        let mut best: Option<(f64, Trade)> = None;
        for end in [a, b] {
            let from = self.pe(end);
            let long = self.search.members[from].iter().rev().map(|member| member.1);
            let long: Vec<u32> = long.filter(|&vertex| vertex != end).take(LONG).collect();
            let is_movable = self.search.local.is_movable[end as usize];
            for gives in is_movable.then_some(end).into_iter().chain(long) {
                for to in self.partners(from, gives == end) {
                    for takes in self.fitting(to, self.load(gives)) {
                        let trade = Trade { from, gives, to, takes };
                        let limit = best.map_or(longest * (1.0 - LEAST), |best| best.0);
                        if let Some(after) = self.appraise(trade, limit) {
                            best = Some((after, trade));
                        }
                    }
                }
            }
        }
        best.map(|best| best.1)
    }

    /// Returns some PEs of the same site: those with the shortest waits if `is_end`, otherwise
    /// those with the shortest cycles.
    fn partners(&self, pe: usize, is_end: bool) -> Vec<usize> {
        let local = &*self.search.local;
        let fits =
            |&to: &usize| to != pe && local.sites[to] == local.sites[pe] && local.targets[to] > 0.0;
        let key = |to: usize| match is_end {
            true => self.squares[to] / local.targets[to],
            false => self.longest_at(to),
        };
        let others = (0..self.squares.len()).filter(fits);
        let mut found: Vec<(f64, usize)> = others.map(|to| (key(to), to)).collect();
        found.sort_by(|a, b| a.0.total_cmp(&b.0));
        found.truncate(PES);
        found.into_iter().map(|(_, to)| to).collect()
    }

    /// Returns sets of actors of a PE, each with a total load near `wanted`. The first actor of a
    /// set is one of the heaviest that are not too heavy, and each further one is nearest to the
    /// remaining load.
    fn fitting(&self, pe: usize, wanted: f64) -> Vec<[Option<u32>; TAKES]> {
        let members = &self.search.members[pe];
        let error = self.search.local.targets[pe] * SLACK;
        let end = members.partition_point(|member| member.0 as f64 <= wanted + error);
        let fit = |&(load, first): &(i64, u32)| {
            let mut takes = [None; TAKES];
            takes[0] = Some(first);
            let mut left = wanted - load as f64;
            for at in 1..TAKES {
                if left.abs() <= error {
                    break;
                }
                let near = nearest(members, left, TAKES);
                let free = near.iter().filter(|member| !takes.contains(&Some(member.1)));
                let off = |member: &&(i64, u32)| (member.0 as f64 - left).abs();
                let &(load, next) = free.min_by(|a, b| off(a).total_cmp(&off(b)))?;
                takes[at] = Some(next);
                left -= load as f64;
            }
            (left.abs() <= error).then_some(takes)
        };
        members[end.saturating_sub(ACTORS)..end].iter().filter_map(fit).collect()
    }

    /// Returns the longest cycle at the two PEs after a trade, if it is below the limit and neither
    /// PE gets too full.
    fn appraise(&mut self, trade: Trade, limit: f64) -> Option<f64> {
        let (from, to) = (trade.from, trade.to);
        trade.moves().for_each(|(vertex, pe)| self.shift(vertex, pe));
        let fullest = self.search.fullness(from).max(self.search.fullness(to));
        let is_fine = fullest <= self.full;
        let longest = if is_fine { self.longest_at(from).max(self.longest_at(to)) } else { limit };
        for (vertex, pe) in trade.moves() {
            self.shift(vertex, if pe == to { from } else { to });
        }
        (longest < limit).then_some(longest)
    }

    /// Returns the longest cycle with an end on a PE.
    fn longest_at(&self, pe: usize) -> f64 {
        self.border[pe].iter().filter_map(|&end| self.cycle(end)).map(|at| at.0).fold(0.0, f64::max)
    }

    fn shift(&mut self, vertex: u32, to: usize) {
        let (from, square) = (self.pe(vertex), self.load(vertex).powi(2));
        self.search.shift(vertex, to);
        self.squares[from] -= square;
        self.squares[to] += square;
        if !self.far[vertex as usize].is_empty() {
            self.border[from].retain(|&end| end != vertex);
            self.border[to].push(vertex);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cutter::Graph;
    use crate::snapshot::objects::MESSAGE_WEIGHT;

    const ELSEWHERE: u32 = 9;

    /// Four PEs in two sites with 100 ms each; loads in ms, and pairs of actors that send messages.
    fn exchanged(loads: &[u64], talks: &[(u32, u32)], place: &[u32], homes: &[u32]) -> Vec<u32> {
        let loads: Vec<u64> = loads.iter().map(|ms| ms * 1_000_000).collect();
        let edges: Vec<_> = talks.iter().map(|&(from, to)| (from, to, MESSAGE_WEIGHT)).collect();
        let graph = Graph::new(&loads, &edges).unwrap();
        let mut pe_of = place.to_vec();
        LocalSearch {
            graph: &graph,
            pe_of: &mut pe_of,
            homes,
            is_movable: &vec![true; loads.len()],
            targets: &[1e8; 4],
            sites: &[0, 0, 1, 1],
        }
        .exchange_handlers();
        pe_of
    }

    /// Actor 0 talks to actor 6 in the other site, and shares a PE with an actor of 90 ms. Actor 2
    /// has the same load as actor 0, talks to no actor and shares a PE with shorter ones.
    const LOADS: [u64; 11] = [10, 90, 10, 30, 30, 30, 20, 20, 20, 40, 100];
    const PLACE: [u32; 11] = [0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3];

    #[test]
    fn a_border_actor_gets_away_from_a_long_handler() {
        let after = exchanged(&LOADS, &[(0, 6)], &PLACE, &[ELSEWHERE; 11]);

        assert_ne!(after[0], after[1], "{after:?}");
        let mut sums = [0; 4];
        after.iter().zip(LOADS).for_each(|(&pe, load)| sums[pe as usize] += load);
        assert_eq!(sums, [100; 4]);
        let site = |pe: u32| pe / 2;
        assert!(after.iter().zip(PLACE).all(|(&pe, before)| site(pe) == site(before)));
    }

    #[test]
    fn without_messages_between_sites_all_actors_stay() {
        assert_eq!(exchanged(&LOADS, &[(0, 1)], &PLACE, &[ELSEWHERE; 11]), PLACE);
    }

    #[test]
    fn actors_stay_where_an_exchange_gains_less_than_moving_costs() {
        // The mean waits are (60² + 30²) / 200 = 22.5 ms and (55² + 35²) / 200 = 21.3 ms; moving
        // two of ten must save 5 ms, a quarter of their part of a step.
        let loads = [10, 60, 30, 10, 55, 35, 30, 70, 50, 50];
        let place = [0, 0, 0, 1, 1, 1, 2, 2, 3, 3];

        assert_eq!(exchanged(&loads, &[(0, 6)], &place, &place), place);
        assert_ne!(exchanged(&loads, &[(0, 6)], &place, &[ELSEWHERE; 10]), place);
    }

    #[test]
    fn receivers_of_the_same_message_are_separated() {
        // Actors 0 and 1 both receive from actor 8.
        let loads =
            [20, 20, 20, 20, 20, 20, 20, 20, 20, 20, 20, 20, 20, 20, 20, 20, 20, 20, 20, 20];
        let mut place: Vec<u32> = (0..20).map(|at| at / 5).collect();
        place.swap(8, 12);

        let after = exchanged(&loads, &[(8, 0), (8, 1)], &place, &[ELSEWHERE; 20]);

        assert_ne!(after[0], after[1], "{after:?}");
    }
}
