//! One axis of a grid cut into bands as equal as possible.

use std::ops::Range;

use serde::{Deserialize, Serialize};

/// `count` bands over `cells` cells, `count` at most `cells`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Bands {
    cells: u32,
    count: u32,
}

impl Bands {
    /// Cuts `cells` cells into `count` bands, at least one and at most one for each cell.
    pub fn new(cells: u32, count: u32) -> Self {
        let cells = cells.max(1);
        Self { cells, count: count.clamp(1, cells) }
    }

    /// How many bands there are.
    pub fn count(&self) -> u32 {
        self.count
    }

    /// The cells of a band.
    pub fn range(&self, band: u32) -> Range<u32> {
        let bound =
            |band: u32| (u64::from(band) * u64::from(self.cells) / u64::from(self.count)) as u32;
        bound(band)..bound(band + 1)
    }

    /// The band that holds a cell.
    pub fn band_of(&self, cell: u32) -> u32 {
        // The largest band that begins at or before the cell.
        let numerator = (u64::from(cell) + 1) * u64::from(self.count) - 1;
        (numerator / u64::from(self.cells)) as u32
    }

    /// The bands that the cells of `band` are in after all moved by `distance` around the periodic
    /// axis, ascending.
    pub fn after_shift(&self, band: u32, distance: i64) -> Vec<u32> {
        let cells = i64::from(self.cells);
        let moved = |cell: u32| (i64::from(cell) + distance).rem_euclid(cells) as u32;
        let mut bands: Vec<u32> = self.range(band).map(|cell| self.band_of(moved(cell))).collect();
        bands.sort_unstable();
        bands.dedup();
        bands
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bands_cover_all_cells_in_order_and_know_their_own() {
        for (cells, count) in [(10, 3), (7, 7), (1000, 16), (5, 9), (1, 1)] {
            let bands = Bands::new(cells, count);
            let mut next = 0;
            for band in 0..bands.count() {
                assert_eq!(bands.range(band).start, next);
                assert!(bands.range(band).all(|cell| bands.band_of(cell) == band));
                next = bands.range(band).end;
            }
            assert_eq!(next, cells);
        }
    }

    #[test]
    fn shifted_bands_end_up_in_one_or_two_others_of_equal_size() {
        let bands = Bands::new(12, 4);
        assert_eq!(bands.after_shift(0, 3), [1]);
        assert_eq!(bands.after_shift(3, 4), [0, 1]);
        assert_eq!(bands.after_shift(0, -1), [0, 3]);
        assert_eq!(bands.after_shift(2, 24), [2]);
    }

    #[test]
    fn a_band_is_a_target_of_exactly_its_sources() {
        let bands = Bands::new(23, 5);
        for distance in [1, 3, -7, 40] {
            for from in 0..5 {
                for to in 0..5 {
                    let goes = bands.after_shift(from, distance).contains(&to);
                    assert_eq!(goes, bands.after_shift(to, -distance).contains(&from));
                }
            }
        }
    }
}
