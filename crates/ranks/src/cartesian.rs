//! Cartesian topologies: ranks as the points of a grid.

use crate::comm::Comm;
use crate::error::RankError;
use std::ops::Deref;

/// A communicator whose ranks are the points of a grid, in row-major order. There is no neighbour
/// beyond a border; a periodic axis wraps around instead.
///
/// ```
/// use gridspan::ranks::{self, Cartesian, dims_create};
///
/// let job = ranks::run(6, async |world| {
///     let dims = dims_create(world.size(), &[0, 0])?;
///     assert_eq!(dims, [3, 2]);
///     let grid: Cartesian = world.cartesian(&dims, &[true, false]).await?.ok_or("left out")?;
///     let (up, down) = grid.shift(0, 1)?;
///     let mut number = [grid.rank()];
///     grid.sendrecv_replace(&mut number, down, 0, up, 0).await?;
///     assert_eq!(number, [(grid.rank() + 4) % 6]);
///     // Beyond the border there is no rank.
///     let (left, _) = grid.shift(1, 1)?;
///     assert_eq!(left.is_none(), grid.coords(grid.rank())?[1] == 0);
///     Ok(())
/// });
/// # gridspan::embed::Runner::on_threads(2).run(job).unwrap();
/// ```
#[derive(Clone, Debug)]
pub struct Cartesian {
    comm: Comm,
    dims: Vec<u32>,
    is_periodic: Vec<bool>,
}

impl Deref for Cartesian {
    type Target = Comm;

    fn deref(&self) -> &Comm {
        &self.comm
    }
}

impl Cartesian {
    /// The number of points along each axis.
    pub fn dims(&self) -> &[u32] {
        &self.dims
    }

    /// Whether each axis wraps around.
    pub fn is_periodic(&self) -> &[bool] {
        &self.is_periodic
    }

    /// The coordinates of a rank.
    ///
    /// # Errors
    ///
    /// [`RankError::NoSuchRank`] for a rank that is not in the grid.
    pub fn coords(&self, rank: u32) -> Result<Vec<u32>, RankError> {
        self.comm.check(rank, self.comm.at("coords"))?;
        Ok(self.coords_of(rank))
    }

    /// The coordinates of a rank that is in the grid.
    fn coords_of(&self, rank: u32) -> Vec<u32> {
        let mut rest = rank;
        let mut coords = vec![0; self.dims.len()];
        for (coord, extent) in coords.iter_mut().zip(&self.dims).rev() {
            *coord = rest % extent;
            rest /= extent;
        }
        coords
    }

    /// The rank at these coordinates; `None` beyond a border, or for another number of axes.
    pub fn rank_at(&self, coords: &[i64]) -> Option<u32> {
        if coords.len() != self.dims.len() {
            return None;
        }
        let mut rank = 0;
        for ((coord, extent), is_periodic) in coords.iter().zip(&self.dims).zip(&self.is_periodic) {
            let extent = i64::from(*extent);
            let coord = if *is_periodic { coord.rem_euclid(extent) } else { *coord };
            if !(0..extent).contains(&coord) {
                return None;
            }
            rank = rank * extent + coord;
        }
        Some(rank as u32)
    }

    /// The ranks from which this rank receives, and to which it sends, when data move by `distance`
    /// along an axis. Both can be given to sends and receives as they are.
    ///
    /// # Errors
    ///
    /// [`RankError::NoSuchAxis`] for an axis that does not exist.
    pub fn shift(
        &self,
        axis: usize,
        distance: i64,
    ) -> Result<(Option<u32>, Option<u32>), RankError> {
        let axes = self.dims.len();
        if axis >= axes {
            return Err(RankError::NoSuchAxis { at: self.comm.at("shift"), axis, axes });
        }
        // Taken modulo the extent of a periodic axis, so that no coordinate overflows.
        let distance = match self.is_periodic[axis] {
            true => distance % i64::from(self.dims[axis]),
            false => distance,
        };
        let mine = self.coords_of(self.rank());
        let at = |distance: i64| self.rank_beside(&mine, axis, distance);
        Ok((at(distance.saturating_neg()), at(distance)))
    }

    /// The rank at this distance from these coordinates along an axis.
    fn rank_beside(&self, coords: &[u32], axis: usize, distance: i64) -> Option<u32> {
        let mut coords: Vec<i64> = coords.iter().map(|coord| i64::from(*coord)).collect();
        coords[axis] = coords[axis].saturating_add(distance);
        self.rank_at(&coords)
    }

    /// The neighbours at distance one: below and above along each axis. With [`site`](Comm::site) a
    /// rank finds those at other sites, to send to them first.
    pub fn neighbours(&self) -> Vec<Option<u32>> {
        let mine = self.coords_of(self.rank());
        let both = |axis: usize| [-1, 1].map(|distance| self.rank_beside(&mine, axis, distance));
        (0..self.dims.len()).flat_map(both).collect()
    }

    /// Divides the grid into smaller grids, which have only the axes for which `is_kept` is true:
    /// one grid for each combination of coordinates along the other axes. A collective operation.
    ///
    /// # Errors
    ///
    /// [`RankError::OneForEachAxis`] if `is_kept` does not have one entry for each axis.
    pub async fn sub(&self, is_kept: &[bool]) -> Result<Cartesian, RankError> {
        let at = self.comm.at("sub");
        let (found, axes) = (is_kept.len(), self.dims.len());
        if found != axes {
            return Err(RankError::OneForEachAxis { at, found, axes });
        }
        let coords = self.coords_of(self.rank());
        let mut colour = 0;
        for ((coord, extent), is_kept) in coords.iter().zip(&self.dims).zip(is_kept) {
            if !is_kept {
                colour = colour * extent + coord;
            }
        }
        let part = self.comm.split(Some(colour), i64::from(self.rank())).await?;
        let comm = part.ok_or("a rank of the grid is in no part")?;
        let kept = |axis: &usize| is_kept[*axis];
        let axes: Vec<usize> = (0..self.dims.len()).filter(kept).collect();
        Ok(Self {
            comm,
            dims: axes.iter().map(|axis| self.dims[*axis]).collect(),
            is_periodic: axes.iter().map(|axis| self.is_periodic[*axis]).collect(),
        })
    }
}

impl Comm {
    /// Makes a grid of the first ranks. Ranks for which there is no point get `None`. A collective
    /// operation. The ranks keep their order, in which ranks of a site mostly lie together: MPI's
    /// `reorder` has no counterpart.
    ///
    /// # Errors
    ///
    /// [`RankError::UnfitGrid`] if the grid has more points than there are ranks, or none, and
    /// [`RankError::OneForEachAxis`] if `dims` and `is_periodic` differ in length.
    pub async fn cartesian(
        &self,
        dims: &[u32],
        is_periodic: &[bool],
    ) -> Result<Option<Cartesian>, RankError> {
        let at = self.at("cartesian");
        let points: u64 =
            dims.iter().fold(1, |all, extent| u64::saturating_mul(all, (*extent).into()));
        let (axes, found) = (dims.len(), is_periodic.len());
        if found != axes {
            return Err(RankError::OneForEachAxis { at, found, axes });
        }
        let ranks = self.size();
        if !(1..=u64::from(ranks)).contains(&points) {
            return Err(RankError::UnfitGrid { at, dims: dims.to_vec(), ranks });
        }
        let is_in = u64::from(self.rank()) < points;
        let comm = self.split(is_in.then_some(0), 0).await?;
        let (dims, is_periodic) = (dims.to_vec(), is_periodic.to_vec());
        Ok(comm.map(|comm| Cartesian { comm, dims, is_periodic }))
    }
}

/// Fills the zeros of `dims` so that the product is `ranks`, with extents that differ as little as
/// possible, the larger first.
///
/// ```
/// use gridspan::ranks::dims_create;
///
/// assert_eq!(dims_create(24, &[0, 0, 0]), Ok(vec![4, 3, 2]));
/// assert_eq!(dims_create(24, &[0, 2]), Ok(vec![12, 2]));
/// assert!(dims_create(7, &[2, 0]).is_err());
/// ```
///
/// # Errors
///
/// [`RankError::NoSuchGrid`] if the given extents do not divide `ranks`.
pub fn dims_create(ranks: u32, dims: &[u32]) -> Result<Vec<u32>, RankError> {
    let given: u64 =
        dims.iter().fold(1, |all, extent| u64::saturating_mul(all, (*extent).max(1).into()));
    let free = dims.iter().filter(|extent| **extent == 0).count();
    let rest = u64::from(ranks) / given.max(1);
    if ranks == 0 || rest.saturating_mul(given) != u64::from(ranks) || (free == 0 && rest != 1) {
        return Err(RankError::NoSuchGrid { ranks, dims: dims.to_vec() });
    }
    let mut extents = closest_factors(rest as u32, free).into_iter();
    let fill = |extent: &u32| if *extent == 0 { extents.next().unwrap_or(1) } else { *extent };
    Ok(dims.iter().map(fill).collect())
}

/// Factors of a number in descending order: the largest as small as possible, and so on.
fn closest_factors(number: u32, count: usize) -> Vec<u32> {
    factors_up_to(number, (number, count), &divisors(number)).unwrap_or_default()
}

/// The divisors of a number, in ascending order.
fn divisors(number: u32) -> Vec<u32> {
    let low = (1..=number.isqrt()).filter(|divisor| number.is_multiple_of(*divisor));
    let mut divisors: Vec<u32> = low.flat_map(|divisor| [divisor, number / divisor]).collect();
    divisors.sort_unstable();
    divisors.dedup();
    divisors
}

/// Finds `count` factors, each at most `most`, whose product is `number`. Returns them in
/// descending order, with the largest factor as small as possible, and so on; `None` if there are
/// none. `divisors` has all divisors of `number` in ascending order, and may have other numbers.
fn factors_up_to(number: u32, (most, count): (u32, usize), divisors: &[u32]) -> Option<Vec<u32>> {
    if number == 1 {
        return Some(vec![1; count]);
    }
    // Every number is less than the 32nd power of 2.
    let power = count.min(32) as u32;
    let is_large_enough =
        |factor: u32| u64::from(factor).saturating_pow(power) >= u64::from(number);
    let candidates = divisors.iter().copied().take_while(|factor| *factor <= most);
    let mut largest =
        candidates.filter(|factor| number.is_multiple_of(*factor) && is_large_enough(*factor));
    largest.find_map(|factor| {
        let mut factors = vec![factor];
        factors.extend(factors_up_to(number / factor, (factor, count - 1), divisors)?);
        Some(factors)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn extents_differ_as_little_as_possible() {
        for (ranks, axes, expected) in [
            (1, 2, vec![1, 1]),
            (7, 2, vec![7, 1]),
            (16, 2, vec![4, 4]),
            (12, 2, vec![4, 3]),
            (60, 3, vec![5, 4, 3]),
            (64, 3, vec![4, 4, 4]),
            (128, 3, vec![8, 4, 4]),
            (180, 3, vec![6, 6, 5]),
            (1_000_000, 4, vec![40, 40, 25, 25]),
            (30, 5, vec![5, 3, 2, 1, 1]),
        ] {
            assert_eq!(dims_create(ranks, &vec![0; axes]), Ok(expected));
        }
        assert_eq!(dims_create(6, &[2, 3]), Ok(vec![2, 3]));
        assert!(dims_create(6, &[2, 2]).is_err() && dims_create(0, &[0]).is_err());
    }

    #[test]
    fn large_numbers_and_many_axes_take_little_time() {
        const PRIME: u32 = (1 << 31) - 1;
        assert_eq!(dims_create(PRIME, &[0, 0, 0]), Ok(vec![PRIME, 1, 1]));
        let mut powers = vec![2; 31];
        powers.resize(100_000, 1);
        assert_eq!(dims_create(1 << 31, &vec![0; 100_000]), Ok(powers));
        // 2^13 · 3^6 · 5 · 7 · 11
        assert_eq!(dims_create(2_299_207_680, &[0; 6]), Ok(vec![42, 40, 36, 36, 33, 32]));
    }
}
