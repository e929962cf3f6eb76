//! Which rank has which subdomain.
//!
//! The runtime places consecutive ranks on each PE, the same number on all. A Cartesian
//! communicator numbers its ranks row by row, so the ranks of a PE would be a strip of subdomains,
//! and if one of them was at the border between sites, all of them would be. Therefore the PEs form
//! a grid, and the ranks of each PE a tile.

use gridspan_ranks::{RankError, dims_create};

/// A grid of tiles, each a grid of subdomains.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Tiles {
    /// Tiles along each axis.
    outer: Vec<u32>,
    /// Subdomains of a tile along each axis.
    inner: Vec<u32>,
}

impl Tiles {
    /// Arranges `ranks` subdomains in tiles of `per_tile`, which must divide `ranks`.
    pub(super) fn new(axes: usize, ranks: u32, per_tile: u32) -> Result<Self, RankError> {
        let unknown = vec![0; axes];
        let outer = dims_create(ranks / per_tile.max(1), &unknown)?;
        Ok(Self { outer, inner: dims_create(per_tile, &unknown)? })
    }

    /// Subdomains along each axis.
    pub(super) fn dims(&self) -> Vec<u32> {
        self.outer.iter().zip(&self.inner).map(|(outer, inner)| outer * inner).collect()
    }

    /// The number of the subdomain of a rank, row by row over the whole grid.
    pub(super) fn subdomain_of(&self, rank: u32) -> u32 {
        let per_tile: u32 = self.inner.iter().product();
        let tile = coordinates(rank / per_tile, &self.outer);
        let within = coordinates(rank % per_tile, &self.inner);
        let axes = tile.iter().zip(&within).zip(self.outer.iter().zip(&self.inner));
        axes.fold(0, |number, ((tile, within), (outer, inner))| {
            number * outer * inner + tile * inner + within
        })
    }
}

/// The coordinates of a number that counts row by row.
fn coordinates(number: u32, dims: &[u32]) -> Vec<u32> {
    let mut rest = number;
    let mut coordinates = vec![0; dims.len()];
    for (coordinate, extent) in coordinates.iter_mut().zip(dims).rev() {
        *coordinate = rest % extent;
        rest /= extent;
    }
    coordinates
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn four_ranks_of_a_pe_are_a_square() {
        let tiles = Tiles::new(2, 8, 4).unwrap();
        assert_eq!(tiles.dims(), [4, 2]);
        let order: Vec<u32> = (0..8).map(|rank| tiles.subdomain_of(rank)).collect();
        assert_eq!(order, [0, 1, 2, 3, 4, 5, 6, 7]);
        let wide = Tiles { outer: vec![1, 2], inner: vec![2, 2] };
        let order: Vec<u32> = (0..8).map(|rank| wide.subdomain_of(rank)).collect();
        assert_eq!(order, [0, 1, 4, 5, 2, 3, 6, 7]);
    }

    #[test]
    fn each_subdomain_has_one_rank() {
        for (axes, ranks, per_tile) in [(2, 1, 1), (2, 2048, 16), (3, 128, 4), (3, 30, 5)] {
            let tiles = Tiles::new(axes, ranks, per_tile).unwrap();
            assert_eq!(tiles.dims().iter().product::<u32>(), ranks);
            let mut all: Vec<u32> = (0..ranks).map(|rank| tiles.subdomain_of(rank)).collect();
            all.sort_unstable();
            assert!(all.into_iter().eq(0..ranks));
        }
    }
}
