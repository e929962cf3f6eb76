//! The index and the initial placement of pair actors.

use std::fmt;

use gridspan_runtime::{ActorIndex, Key, Layout, PeId, PlacementMap};

/// Places a pair on the home PE of one of its cells, if cells are placed in blocks.
pub const BESIDE_A_CELL: PlacementMap = PlacementMap::new("beside-a-cell", beside_a_cell);

/// A pair of cells, by their numbers.
///
/// A placement map computes the PE of a cell from the cell's number and the total number of cells.
/// The index contains these numbers, not coordinates, because the map does not know the dimensions
/// of the grid. Keys sort like pairs: by A, then by B.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PairIx {
    /// Total number of cells.
    pub cells: u32,
    /// Number of cell A, the lower one.
    pub a: u32,
    /// Number of cell B; equal to `a` for the pair of a cell with itself.
    pub b: u32,
}

impl fmt::Debug for PairIx {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cells {} and {}", self.a, self.b)
    }
}

impl ActorIndex for PairIx {
    fn key(self) -> Key {
        Key(u128::from(self.cells) << 64 | u128::from(self.a) << 32 | u128::from(self.b))
    }

    fn from_key(Key(key): Key) -> Self {
        Self { cells: (key >> 64) as u32, a: (key >> 32) as u32, b: key as u32 }
    }
}

/// The PE of the map [`BESIDE_A_CELL`].
///
/// A hash chooses the cell for each pair. If the lower one were always chosen, the first PE would
/// have all pairs across the boundaries of its block, and the last PE none of those across its own.
fn beside_a_cell(key: Key, layout: &Layout) -> PeId {
    let PairIx { cells, a, b } = PairIx::from_key(key);
    let tossed =
        (a.wrapping_mul(0x9e37_79b9) ^ b.wrapping_mul(0x85eb_ca6b)).wrapping_mul(0xc2b2_ae35);
    let cell = if tossed >> 31 == 0 { a } else { b };
    PeId((u64::from(cell) * u64::from(layout.pe_count()) / u64::from(cells.max(1))) as u32)
}

#[cfg(test)]
mod tests {
    use gridspan_kernels::leanmd::decomposition::Cells;
    use gridspan_runtime::driver::embedded;
    use gridspan_runtime::{Actor, Context, Ix3, Job, Op, Placement, To};
    use serde::{Deserialize, Serialize};

    use super::*;

    #[test]
    fn keys_sort_like_pairs_and_convert_back() {
        let pairs = [(0, 0), (0, 1), (0, 70_000), (1, 1), (1, 2), (70_000, 70_001)];
        let indices = pairs.map(|(a, b)| PairIx { cells: 1 << 20, a, b });
        assert!(indices.map(PairIx::key).is_sorted());
        assert_eq!(indices.map(|index| PairIx::from_key(index.key())), indices);
    }

    #[test]
    fn each_pe_gets_about_half_of_the_pairs_between_two_blocks() {
        let cells = Cells::with_dims([48.0; 3], [6; 3], 5.0).unwrap();
        let layout = Layout::single(2);
        let (mut between, mut first) = (0, 0);
        for pair in cells.pairs() {
            let [a, b] = [pair.a, pair.b].map(|cell| cells.number(cell) as u32);
            if (a < 108) != (b < 108) {
                between += 1;
                let place = beside_a_cell(PairIx { cells: 216, a, b }.key(), &layout);
                first += u32::from(place == PeId(0));
            }
        }
        assert_eq!(between, 2 * 36 * 9);
        assert!((260..390).contains(&first), "{first}");
    }

    /// Contributes the PE on which it was created.
    #[derive(Serialize, Deserialize)]
    struct Here<const CELL: bool>;

    impl Actor for Here<true> {
        type Index = Ix3;
        type Init = ();
        type Message = ();

        fn create((): (), cx: &mut Context<'_, Self>) -> Self {
            cx.contribute(Op::Concat, u64::from(cx.pe().0), To::main());
            Self
        }

        fn handle(&mut self, (): (), _cx: &mut Context<'_, Self>) {}
    }

    impl Actor for Here<false> {
        type Index = PairIx;
        type Init = ();
        type Message = ();

        fn create((): (), cx: &mut Context<'_, Self>) -> Self {
            cx.contribute(Op::Concat, u64::from(cx.pe().0), To::main());
            Self
        }

        fn handle(&mut self, (): (), _cx: &mut Context<'_, Self>) {}
    }

    #[test]
    fn every_pair_starts_on_the_pe_of_one_of_its_cells() {
        let job = Job::new("test").actor::<Here<true>>().actor::<Here<false>>();
        let job = job.placement(BESIDE_A_CELL).main(async |grid| {
            let cells = Cells::with_dims([12.0; 3], [3, 4, 4], 3.0).unwrap();
            let members = grid.create::<Here<true>>(Ix3::grid(3, 4, 4), |_| ()).await?;
            let pairs: Vec<_> = cells.pairs();
            let number = |cell| cells.number(cell) as u32;
            let indices: Vec<_> = pairs
                .iter()
                .map(|pair| PairIx { cells: 48, a: number(pair.a), b: number(pair.b) })
                .collect();
            let beside = Placement::Custom(BESIDE_A_CELL);
            let units = grid.create_placed::<Here<false>>(beside, indices, |_| ()).await?;
            let places: Vec<u64> = members.reduction(Op::Concat).await?;
            let units: Vec<u64> = units.reduction(Op::Concat).await?;
            for (pair, place) in pairs.iter().zip(units) {
                assert!([pair.a, pair.b].map(|cell| places[cells.number(cell)]).contains(&place));
            }
            Ok(())
        });
        embedded::run(job, 5).unwrap();
    }
}
