//! The tie of a vertex to its home part: the cost of leaving it, unless the vertex must stay.

use super::graph::Graph;

/// Home of a vertex, and the cost of leaving it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tie {
    /// The home part.
    pub home: u32,
    /// Cost of being in another part, in the unit of edge weights; [`Tie::FIXED`] if the vertex
    /// must stay.
    pub pull: u64,
}

impl Tie {
    /// Pull of a vertex that must be in its home part.
    pub const FIXED: u64 = u64::MAX;
    /// Tie of a vertex that may be in any part at no cost.
    pub const FREE: Self = Self { home: 0, pull: 0 };

    /// Creates a tie that fixes a vertex to `home`.
    pub const fn fixed(home: u32) -> Self {
        Self { home, pull: Self::FIXED }
    }

    /// Returns whether the vertex must stay.
    #[inline]
    pub const fn is_fixed(self) -> bool {
        self.pull == Self::FIXED
    }

    /// Returns the cost saved by being in `part`; 0 for a fixed vertex.
    #[inline]
    pub(super) const fn worth_in(self, part: u32) -> i64 {
        if self.home == part && !self.is_fixed() { self.pull as i64 } else { 0 }
    }

    /// Returns the tie of two vertices that are merged, as a vote: equal homes add up their pulls;
    /// otherwise the home with the stronger pull remains, with the difference of the pulls.
    pub(super) fn merged(self, other: Self) -> Self {
        if self.is_fixed() || (other.pull == 0 && !other.is_fixed()) {
            return self;
        }
        if other.is_fixed() || self.pull == 0 {
            return other;
        }
        if self.home == other.home {
            return Self { home: self.home, pull: self.pull + other.pull };
        }
        let (strong, weak) = if self.pull >= other.pull { (self, other) } else { (other, self) };
        Self { home: strong.home, pull: strong.pull - weak.pull }
    }
}

/// A graph with the ties of its vertices: either none, or one for each.
#[derive(Clone, Debug, Default)]
pub(super) struct Problem {
    pub(super) graph: Graph,
    pub(super) ties: Vec<Tie>,
}

impl Problem {
    pub(super) fn len(&self) -> usize {
        self.graph.len()
    }

    #[inline]
    pub(super) fn tie(&self, vertex: u32) -> Tie {
        self.ties.get(vertex as usize).copied().unwrap_or(Tie::FREE)
    }

    #[inline]
    pub(super) fn is_fixed(&self, vertex: u32) -> bool {
        self.tie(vertex).is_fixed()
    }

    /// Returns the cost of a partition: the cut, and the pulls of vertices that are away from home.
    pub(super) fn cost(&self, part: &[u32]) -> i64 {
        self.graph.cut(part) as i64 + self.pulls(part)
    }

    /// Returns the sum of the pulls of vertices that are away from home.
    pub(super) fn pulls(&self, part: &[u32]) -> i64 {
        let away = self.ties.iter().zip(part).filter(|(tie, part)| tie.home != **part);
        away.filter(|(tie, _)| !tie.is_fixed()).map(|(tie, _)| tie.pull as i64).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ties_of_merged_vertices_are_counted_as_votes() {
        let tie = |home, pull| Tie { home, pull };

        assert_eq!(tie(1, 5).merged(tie(1, 2)), tie(1, 7));
        assert_eq!(tie(1, 5).merged(tie(2, 7)), tie(2, 2));
        assert_eq!(tie(1, 5).merged(Tie::fixed(0)), Tie::fixed(0));
        assert_eq!(Tie::FREE.merged(tie(3, 1)), tie(3, 1));
    }
}
