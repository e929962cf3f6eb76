//! Exchange of parts of vectors within the columns and rows of a grid of ranks.

use gridspan_kernels::nas::rank_grid::RankGrid;
use gridspan_ranks::{Comm, RankError, wait_all};

/// Tags of the messages within a column and within a row of ranks.
const GATHER: u32 = 0;
const ADD: u32 = 1;

/// Gathers the elements of the ranks of this rank's column, in the order of the block's columns.
pub(super) async fn gather(
    grid: &RankGrid,
    world: &Comm,
    mine: &[f64],
) -> Result<Vec<f64>, RankError> {
    let others = grid.others_in_column();
    let leaving = others.iter().map(|other| (*other, mine.to_vec())).collect();
    let mut parts = exchange(world, leaving, &others, GATHER).await?;
    parts.insert(grid.row() as usize, mine.to_vec());
    Ok(parts.concat())
}

/// Adds up the products of the ranks of this rank's row, in the order of the ranks. Returns the
/// sums for the elements of this rank. `products` has one number for each row of its block.
pub(super) async fn add(
    grid: &RankGrid,
    world: &Comm,
    products: &[f64],
) -> Result<Vec<f64>, RankError> {
    let others = grid.others_in_row();
    let ranks: Vec<u32> = others.iter().map(|(_, rank)| *rank).collect();
    let part = |(column, rank): &(u32, u32)| (*rank, grid.part(products, *column));
    let leaving = others.iter().map(part).collect();
    let mut parts = exchange(world, leaving, &ranks, ADD).await?;
    parts.insert(grid.column() as usize, grid.part(products, grid.column()));
    Ok(grid.sum(&parts))
}

/// Sends the numbers in `leaving`, each list to its rank. Returns the numbers that the ranks in
/// `from` have sent, in the order of `from`.
async fn exchange(
    world: &Comm,
    leaving: Vec<(u32, Vec<f64>)>,
    from: &[u32],
    tag: u32,
) -> Result<Vec<Vec<f64>>, RankError> {
    let arriving = from.iter().map(|rank| world.irecv::<f64>(*rank, tag));
    let arriving = arriving.collect::<Result<Vec<_>, _>>()?;
    let leaving = leaving.into_iter().map(|(to, numbers)| world.isend_vec(numbers, to, tag));
    let leaving = leaving.collect::<Result<Vec<_>, _>>()?;
    let arrived = wait_all(arriving).await?;
    wait_all(leaving).await?;
    Ok(arrived.into_iter().map(|(numbers, _)| numbers).collect())
}
