//! Two-way refinement: passes of Fiduccia and Mattheyses over a bisection, with rollback.

use super::heap::GainHeap;
use super::tie::Problem;

/// Maximum number of vertices of a graph in which each pass tries every vertex.
const ALL_MAX: usize = 64;

/// A graph cut in two.
#[derive(Clone, Debug)]
pub(super) struct Sides<'a> {
    pub(super) problem: &'a Problem,
    /// 0 or 1 for each vertex.
    pub(super) side: Vec<u32>,
    pub(super) loads: [i64; 2],
    /// Load that each side should not exceed.
    pub(super) limits: [i64; 2],
    /// Maximum load to which a move may fill each side: at least its limit, so that two vertices
    /// can change places.
    most: [i64; 2],
    cost: i64,
}

/// The quality of a bisection: less is better, in the order of the fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct SideRank {
    /// Load beyond the limits.
    pub(super) excess: i64,
    pub(super) cost: i64,
    /// Difference between the sides' remaining room.
    pub(super) unevenness: u64,
}

impl SideRank {
    /// Returns whether two ranks differ at most in their unevenness.
    pub(super) fn is_as_good(self, other: Self) -> bool {
        (self.excess, self.cost) == (other.excess, other.cost)
    }
}

impl<'a> Sides<'a> {
    pub(super) fn new(
        problem: &'a Problem,
        side: Vec<u32>,
        limits: [i64; 2],
        most: [i64; 2],
    ) -> Self {
        let mut loads = [0; 2];
        for (&side, &load) in side.iter().zip(problem.graph.loads()) {
            loads[side as usize] += load;
        }
        let cost = problem.cost(&side);
        Self { problem, side, loads, limits, most, cost }
    }

    pub(super) fn rank(&self) -> SideRank {
        self.rank_of(self.cost)
    }

    fn rank_of(&self, cost: i64) -> SideRank {
        let room = [self.limits[0] - self.loads[0], self.limits[1] - self.loads[1]];
        let excess = (-room[0]).max(0) + (-room[1]).max(0);
        SideRank { excess, cost, unevenness: room[0].abs_diff(room[1]) }
    }

    /// Returns the cost saved by moving a vertex to the other side.
    fn gain(&self, vertex: u32) -> i64 {
        let here = self.side[vertex as usize];
        let edges = self.problem.graph.neighbours(vertex);
        let gain: i64 =
            edges.map(|(end, w)| if self.side[end as usize] == here { -w } else { w }).sum();
        let tie = self.problem.tie(vertex);
        gain + tie.worth_in(1 - here) - tie.worth_in(here)
    }

    /// Makes up to `passes` passes, and stops after the first one that does not improve the
    /// bisection.
    pub(super) fn refine(&mut self, passes: usize, heaps: &mut [GainHeap; 2]) {
        for _ in 0..passes {
            if !self.pass(heaps) {
                break;
            }
        }
    }

    /// Moves each vertex at most once, the best first, and returns to the best state. Returns
    /// whether the bisection became better.
    fn pass(&mut self, heaps: &mut [GainHeap; 2]) -> bool {
        let vertices = self.problem.len();
        heaps.iter_mut().for_each(GainHeap::clear);
        // Two vertices of a small graph may change places though neither is at the border.
        let is_all = vertices <= ALL_MAX || self.rank().excess > 0;
        for vertex in 0..vertices as u32 {
            let here = self.side[vertex as usize];
            let mut edges = self.problem.graph.neighbours(vertex);
            let is_border = is_all
                || self.problem.tie(vertex).pull > 0
                || edges.any(|(end, _)| self.side[end as usize] != here);
            if is_border && !self.problem.is_fixed(vertex) {
                heaps[here as usize].set(vertex, self.gain(vertex));
            }
        }
        let begin = self.rank();
        let (mut best, mut cost, mut kept) = (begin, self.cost, 0);
        let mut moves: Vec<u32> = Vec::new();
        let mut is_moved = vec![false; vertices];
        let patience = (vertices / 8).clamp(24, 300);
        while let Some((gain, vertex)) = self.next(heaps) {
            self.shift(vertex);
            moves.push(vertex);
            is_moved[vertex as usize] = true;
            cost -= gain;
            let rank = self.rank_of(cost);
            if rank < best {
                (best, kept) = (rank, moves.len());
            } else if moves.len() - kept > patience {
                break;
            }
            self.tell_neighbours(vertex, &is_moved, heaps);
        }
        for &vertex in moves[kept..].iter().rev() {
            self.shift(vertex);
        }
        self.cost = best.cost;
        best < begin
    }

    /// Takes the best vertex that may move: from the side over its limit, or from either side if
    /// neither or both are over.
    fn next(&self, heaps: &mut [GainHeap; 2]) -> Option<(i64, u32)> {
        loop {
            let over = [self.loads[0] > self.limits[0], self.loads[1] > self.limits[1]];
            let tops = [heaps[0].peek(), heaps[1].peek()];
            let from = match (tops[0], tops[1]) {
                (Some(_), _) if over[0] && !over[1] => 0,
                (_, Some(_)) if over[1] && !over[0] => 1,
                (Some(a), Some(b)) if a.0 != b.0 => usize::from(b.0 > a.0),
                (Some(_), Some(_)) => {
                    let room = [self.limits[0] - self.loads[0], self.limits[1] - self.loads[1]];
                    usize::from(room[1] < room[0])
                }
                (Some(_), None) => 0,
                (None, Some(_)) => 1,
                (None, None) => return None,
            };
            let (gain, vertex) = heaps[from].pop()?;
            let load = self.problem.graph.load(vertex);
            if over[from] || self.loads[1 - from] + load <= self.most[1 - from] {
                return Some((gain, vertex));
            }
        }
    }

    fn shift(&mut self, vertex: u32) {
        let from = self.side[vertex as usize] as usize;
        let load = self.problem.graph.load(vertex);
        self.loads[from] -= load;
        self.loads[1 - from] += load;
        self.side[vertex as usize] = 1 - from as u32;
    }

    /// Updates the gains of the neighbours of a vertex that has moved: their moves to its new side
    /// gain more, and moves away from it gain less.
    fn tell_neighbours(&self, vertex: u32, is_moved: &[bool], heaps: &mut [GainHeap; 2]) {
        let to = self.side[vertex as usize];
        for (end, weight) in self.problem.graph.neighbours(vertex) {
            if is_moved[end as usize] || self.problem.is_fixed(end) {
                continue;
            }
            let side = self.side[end as usize];
            let heap = &mut heaps[side as usize];
            if heap.contains(end) {
                heap.add_twice(end, if side == to { -weight } else { weight });
            } else if side != to {
                heap.set(end, self.gain(end));
            }
        }
    }
}
