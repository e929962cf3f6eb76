//! Boards with queens in their upper rows, of which none attacks another.

use serde::{Deserialize, Serialize};

/// Number of solutions on boards of 1 to 18 rows. Source: OEIS A000170.
const SOLUTIONS: [u64; 18] = [
    1,
    0,
    0,
    2,
    10,
    4,
    40,
    92,
    352,
    724,
    2680,
    14_200,
    73_712,
    365_596,
    2_279_184,
    14_772_512,
    95_815_104,
    666_090_624,
];

/// Returns the number of solutions on a board of `n` rows, from 1 to 18. Source: OEIS A000170.
pub fn solutions(n: u32) -> Option<u64> {
    SOLUTIONS.get(n.checked_sub(1)? as usize).copied()
}

/// A board with queens in its upper rows, represented by the fields of the next row that they
/// attack.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Queens {
    rows_left: u32,
    grain: u32,
    /// All fields of a row, as bits.
    all: u32,
    /// Fields attacked along the columns, as bits.
    columns: u32,
    /// Fields attacked along the diagonals downwards to the left, as bits.
    left: u32,
    /// Fields attacked along the diagonals downwards to the right, as bits.
    right: u32,
}

impl Queens {
    /// Creates an empty board of `n` rows. Boards with `grain` or fewer rows left are not split.
    ///
    /// # Panics
    ///
    /// If `n` is not from 1 to 32.
    pub fn none(n: u32, grain: u32) -> Self {
        assert!((1..=u32::BITS).contains(&n), "a board has 1 to 32 rows");
        let all = u32::MAX >> (u32::BITS - n);
        Self { rows_left: n, grain, all, columns: 0, left: 0, right: 0 }
    }

    /// Whether the board is not split.
    pub fn is_small(&self) -> bool {
        self.rows_left <= self.grain
    }

    /// Iterates over the boards with one more queen.
    pub fn split(self) -> impl Iterator<Item = Self> {
        let mut free = self.all & !(self.columns | self.left | self.right);
        std::iter::from_fn(move || {
            let queen = free & free.wrapping_neg();
            free ^= queen;
            (queen != 0).then(|| Self {
                rows_left: self.rows_left - 1,
                columns: self.columns | queen,
                left: (self.left | queen) << 1,
                right: (self.right | queen) >> 1,
                ..self
            })
        })
    }

    /// Returns the number of solutions below this board, and of boards examined.
    pub fn count(self) -> (u64, u64) {
        if self.rows_left == 0 {
            return (1, 1);
        }
        self.split().map(Self::count).fold((0, 1), |(a, b), (c, d)| (a + c, b + d))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_known_numbers_of_solutions_are_found() {
        for n in 1..=9 {
            assert_eq!(Queens::none(n, 0).count().0, SOLUTIONS[n as usize - 1], "{n} queens");
        }
    }
}
