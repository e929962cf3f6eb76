//! Planes of a grid, divided among ranks in blocks that differ by at most one plane.

use std::ops::Range;

/// `count` planes over `ranks` ranks; ranks may have none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shares {
    /// Number of planes.
    pub count: u32,
    /// Number of ranks.
    pub ranks: u32,
}

impl Shares {
    /// The planes of a rank.
    pub fn of(self, rank: u32) -> Range<u32> {
        let bound =
            |rank: u32| (u64::from(rank) * u64::from(self.count) / u64::from(self.ranks)) as u32;
        bound(rank)..bound(rank + 1)
    }

    /// The rank that has a plane.
    pub fn owner(self, plane: u32) -> u32 {
        let (ranks, count) = (u64::from(self.ranks), u64::from(self.count));
        (((u64::from(plane) + 1) * ranks - 1) / count) as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_plane_has_one_owner() {
        for (count, ranks) in [(2, 7), (32, 5), (8, 8), (7, 3), (1, 1)] {
            let shares = Shares { count, ranks };
            let mut next = 0;
            for rank in 0..ranks {
                let planes = shares.of(rank);
                assert_eq!(planes.start, next);
                assert!(planes.clone().all(|plane| shares.owner(plane) == rank));
                next = planes.end;
            }
            assert_eq!(next, count);
        }
    }
}
