//! Exchange of planes of a grid between ranks.

use gridspan_kernels::nas::planes::Planes;
use gridspan_kernels::nas::share::Shares;
use gridspan_ranks::{Comm, RankError, wait_all};
use std::collections::BTreeMap;
use std::ops::Range;

/// Fetches the planes that this rank needs, and sends other ranks the planes that they need.
/// `needs` returns the planes that a rank needs. They may include its own, and numbers beyond the
/// borders, which wrap around.
pub(super) async fn fetch(
    planes: &mut Planes,
    world: &Comm,
    needs: impl Fn(u32) -> Range<i64>,
) -> Result<(), RankError> {
    let (me, ranks) = (world.rank(), world.size());
    let shares = Shares { count: planes.extent as u32, ranks };
    planes.drop_copies();
    let mut sends = Vec::new();
    // On fine levels only the owners of adjacent planes need planes of this rank; on coarse levels
    // any rank may.
    for other in (0..ranks).filter(|other| *other != me) {
        let mine = planes.own_among(needs(other));
        if !mine.is_empty() {
            sends.push(world.isend_vec(mine, other, 0)?);
        }
    }
    let mut wanted: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
    for plane in planes.numbers(needs(me)) {
        let owner = shares.owner(plane);
        if owner != me {
            wanted.entry(owner).or_default().push(plane);
        }
    }
    // All receives begin at once, because a long message is sent only when its receiver asks for
    // it.
    let arriving = wanted.keys().map(|owner| world.irecv::<f64>(*owner, 0));
    let arriving = arriving.collect::<Result<Vec<_>, _>>()?;
    let arrived = wait_all(arriving).await?;
    for (numbers, (values, _)) in wanted.into_values().zip(arrived) {
        planes.keep_copies(&numbers, &values);
    }
    wait_all(sends).await?;
    Ok(())
}

/// Fetches the planes next to those of this rank.
pub(super) async fn fetch_halo(planes: &mut Planes, world: &Comm) -> Result<(), RankError> {
    let shares = Shares { count: planes.extent as u32, ranks: world.size() };
    let needs = |rank| {
        let own = shares.of(rank);
        match own.is_empty() {
            true => 0..0,
            false => i64::from(own.start) - 1..i64::from(own.end) + 1,
        }
    };
    fetch(planes, world, needs).await
}
