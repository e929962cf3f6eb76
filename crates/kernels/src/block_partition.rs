//! One axis of a grid, cut into blocks whose sizes are as equal as possible.

use std::ops::Range;

use serde::{Deserialize, Serialize};

/// `count` blocks over `cells` cells, `count` at most `cells`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BlockPartition {
    cells: u32,
    count: u32,
}

impl BlockPartition {
    /// Cuts `cells` cells into `count` blocks, but into at least one block and at most one for each
    /// cell. Zero cells count as one.
    pub fn new(cells: u32, count: u32) -> Self {
        let cells = cells.max(1);
        Self { cells, count: count.clamp(1, cells) }
    }

    /// Number of blocks.
    pub fn count(&self) -> u32 {
        self.count
    }

    /// The range of cells in a block.
    pub fn range(&self, block: u32) -> Range<u32> {
        let bound =
            |block: u32| (u64::from(block) * u64::from(self.cells) / u64::from(self.count)) as u32;
        bound(block)..bound(block + 1)
    }

    /// The block that holds a cell.
    pub fn block_of(&self, cell: u32) -> u32 {
        // The last block that begins at or before the cell.
        let numerator = (u64::from(cell) + 1) * u64::from(self.count) - 1;
        (numerator / u64::from(self.cells)) as u32
    }

    /// The blocks, ascending, that contain the cells of `block` after a shift of all cells by
    /// `distance` along the periodic axis.
    pub fn after_shift(&self, block: u32, distance: i64) -> Vec<u32> {
        let cells = i64::from(self.cells);
        let moved = |cell: u32| (i64::from(cell) + distance).rem_euclid(cells) as u32;
        let mut blocks: Vec<u32> =
            self.range(block).map(|cell| self.block_of(moved(cell))).collect();
        blocks.sort_unstable();
        blocks.dedup();
        blocks
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_cover_all_cells_in_order_and_block_of_finds_them() {
        for (cells, count) in [(10, 3), (7, 7), (1000, 16), (5, 9), (1, 1)] {
            let partition = BlockPartition::new(cells, count);
            let mut next = 0;
            for block in 0..partition.count() {
                assert_eq!(partition.range(block).start, next);
                assert!(partition.range(block).all(|cell| partition.block_of(cell) == block));
                next = partition.range(block).end;
            }
            assert_eq!(next, cells);
        }
    }

    #[test]
    fn a_shifted_block_overlaps_one_or_two_blocks_of_equal_size() {
        let partition = BlockPartition::new(12, 4);
        assert_eq!(partition.after_shift(0, 3), [1]);
        assert_eq!(partition.after_shift(3, 4), [0, 1]);
        assert_eq!(partition.after_shift(0, -1), [0, 3]);
        assert_eq!(partition.after_shift(2, 24), [2]);
    }

    #[test]
    fn shifting_back_leads_from_targets_to_sources() {
        let partition = BlockPartition::new(23, 5);
        for distance in [1, 3, -7, 40] {
            for from in 0..5 {
                for to in 0..5 {
                    let goes = partition.after_shift(from, distance).contains(&to);
                    assert_eq!(goes, partition.after_shift(to, -distance).contains(&from));
                }
            }
        }
    }
}
