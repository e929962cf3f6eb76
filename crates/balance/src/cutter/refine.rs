//! Refinement of a partition into many parts: greedy rounds, then local searches with rollback.
//!
//! The local searches are those of Sanders and Schulz (2011), as in KaMinPar and Mt-KaHyPar: each
//! begins at a few border vertices, moves the best vertex even at a cost, continues with its
//! neighbours, gives up after a number of moves without success, and returns to its best state.

use super::heap::GainHeap;
use super::order::random_order;
use super::state::{Choice, State};
use gridspan_topology::dice::Dice;

/// Limits on the work of a refinement; they depend on the size of the graph.
#[derive(Clone, Copy, Debug)]
pub(super) struct Effort {
    /// Maximum number of greedy rounds.
    pub(super) greedy_rounds: usize,
    /// Maximum number of rounds of local searches.
    pub(super) search_rounds: usize,
    /// Number of moves without success that end a search.
    pub(super) patience: usize,
    /// Average number of times that a round of searches may look at each edge.
    pub(super) looks_per_edge: usize,
}

/// Vertices with more neighbours stay out of the searches: each of their moves looks at all
/// neighbours.
const DEGREE_MAX: usize = 2000;
/// Number of border vertices at which a search begins.
const SEEDS: usize = 4;
/// Search rounds end when a round saves less than this part of the cost.
const WORTH: f64 = 0.002;

/// Improves a partition; no part that has room becomes overfull.
pub(super) fn refine(state: &mut State<'_>, effort: Effort, dice: &mut Dice) {
    if state.parts() < 2 {
        return;
    }
    for _ in 0..effort.greedy_rounds {
        let moved = greedy_round(state, dice);
        if moved * 200 < state.part.len() {
            break;
        }
    }
    if effort.search_rounds == 0 {
        return;
    }
    let mut search = Search {
        heap: GainHeap::new(state.part.len()),
        is_done: vec![false; state.part.len()],
        target: vec![0; state.part.len()],
        moves: Vec::new(),
        patience: effort.patience,
        looks: 0,
    };
    let looks = state.problem.graph.edge_count().saturating_mul(2 * effort.looks_per_edge);
    for _ in 0..effort.search_rounds {
        search.looks = looks;
        let saved = search.round(state, dice);
        if (saved as f64) < state.cost() as f64 * WORTH || saved == 0 {
            break;
        }
    }
}

/// Moves each vertex to its best part if that lowers the cost, or if it evens out the loads at the
/// same cost. Returns the number of moves.
fn greedy_round(state: &mut State<'_>, dice: &mut Dice) -> usize {
    let mut moved = 0;
    for vertex in random_order(dice, state.part.len()) {
        if !state.is_border(vertex) && state.problem.tie(vertex).pull == 0 {
            continue;
        }
        let Some(choice) = state.choice(vertex) else { continue };
        let here = state.part[vertex as usize];
        let load = state.problem.graph.load(vertex);
        let evens = choice.gain == 0 && state.room(choice.to) - load > state.room(here);
        if choice.gain > 0 || evens {
            state.shift(vertex, choice.to);
            moved += 1;
        }
    }
    moved
}

struct Search {
    heap: GainHeap,
    /// Vertices whose move in this round was kept, or which were the seed of a finished search.
    is_done: Vec<bool>,
    /// Best part of each vertex in the heap when it was last computed.
    target: Vec<u32>,
    moves: Vec<(u32, u32)>,
    patience: usize,
    /// Number of edges at which this round may still look. It limits the searches in graphs with
    /// hubs: there nearly every vertex is at the border, and searches from all of them would cost
    /// far more than they gain.
    looks: usize,
}

impl Search {
    /// Searches from all border vertices. Returns the cost saved.
    fn round(&mut self, state: &mut State<'_>, dice: &mut Dice) -> i64 {
        self.is_done.fill(false);
        let mut seeds: Vec<u32> = (0..state.part.len() as u32)
            .filter(|&v| state.is_border(v) || state.problem.tie(v).pull > 0)
            .filter(|&v| self.may_move(state, v))
            .collect();
        // Vertices with close numbers are often neighbours, so a run of them is a good set of
        // seeds.
        for run in seeds.chunks_mut(SEEDS) {
            dice.shuffle(run);
        }
        let runs = seeds.len().div_ceil(SEEDS);
        let mut saved = 0;
        for run in random_order(dice, runs) {
            let begin = run as usize * SEEDS;
            let end = (begin + SEEDS).min(seeds.len());
            if self.looks == 0 {
                break;
            }
            saved += self.search(state, &seeds[begin..end]);
        }
        saved
    }

    fn may_move(&self, state: &State<'_>, vertex: u32) -> bool {
        !self.is_done[vertex as usize]
            && !state.problem.is_fixed(vertex)
            && state.problem.graph.degree(vertex) <= DEGREE_MAX
    }

    /// Makes one local search. Returns the cost saved, at least 0.
    fn search(&mut self, state: &mut State<'_>, seeds: &[u32]) -> i64 {
        self.heap.clear();
        self.moves.clear();
        for &seed in seeds {
            if self.is_done[seed as usize] {
                continue;
            }
            self.enter(state, seed);
        }
        let (mut saved, mut best, mut kept) = (0, 0, 0);
        while let Some((gain, vertex)) = self.heap.pop() {
            let Some(choice) = self.look(state, vertex) else { continue };
            let next = self.heap.peek().map_or(i64::MIN, |top| top.0);
            if choice.gain < gain && choice.gain < next {
                self.target[vertex as usize] = choice.to;
                self.heap.set(vertex, choice.gain);
                continue;
            }
            let from = state.part[vertex as usize];
            self.moves.push((vertex, from));
            state.shift(vertex, choice.to);
            self.is_done[vertex as usize] = true;
            saved += choice.gain;
            if saved > best {
                (best, kept) = (saved, self.moves.len());
            } else if self.moves.len() - kept >= self.patience {
                break;
            }
            self.look_around(state, vertex, from);
        }
        for &(vertex, from) in self.moves[kept..].iter().rev() {
            state.shift(vertex, from);
            self.is_done[vertex as usize] = false;
        }
        for seed in seeds {
            self.is_done[*seed as usize] = true;
        }
        best
    }

    /// Updates the neighbours of a vertex that moved. The gains of neighbours in the heap are only
    /// estimated, since they are computed again before they count.
    fn look_around(&mut self, state: &mut State<'_>, vertex: u32, from: u32) {
        let to = state.part[vertex as usize];
        for (end, weight) in state.problem.graph.neighbours(vertex) {
            if self.heap.contains(end) {
                let here = state.part[end as usize];
                if here == from {
                    self.heap.add(end, weight);
                } else if here == to {
                    self.heap.add(end, -weight);
                } else if self.target[end as usize] == to {
                    self.heap.add(end, weight);
                } else if self.target[end as usize] == from {
                    self.heap.add(end, -weight);
                }
            } else if self.may_move(state, end) {
                self.enter(state, end);
            }
        }
    }

    /// Looks at all edges of a vertex.
    fn look(&mut self, state: &mut State<'_>, vertex: u32) -> Option<Choice> {
        self.looks = self.looks.saturating_sub(state.problem.graph.degree(vertex));
        state.choice(vertex)
    }

    fn enter(&mut self, state: &mut State<'_>, vertex: u32) {
        if let Some(choice) = self.look(state, vertex) {
            self.target[vertex as usize] = choice.to;
            self.heap.set(vertex, choice.gain);
        }
    }
}
