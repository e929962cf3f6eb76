//! The time in seconds, with or without a wait for all ranks.

use gridspan_ranks::{Comm, RankError};
use std::time::Duration;

/// Waits for all ranks, and returns the time in seconds.
pub(crate) async fn clock(world: &Comm) -> Result<f64, RankError> {
    world.barrier().await?;
    Ok(now(world).await)
}

/// The time in seconds. `Comm::now` is the time at which the PE's turn began, so the sleep first
/// makes the PE begin a new turn.
pub(crate) async fn now(world: &Comm) -> f64 {
    world.sleep(Duration::from_nanos(1)).await;
    world.now().as_secs_f64()
}
