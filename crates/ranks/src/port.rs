//! The address at which a group of ranks accepts another.

use serde::{Deserialize, Serialize};
use std::fmt;

/// A port of a run of ranks, at which one group of ranks [accepts](crate::Comm::accept) others that
/// [connect](crate::Comm::connect).
///
/// A rank can send it to another, or publish it as a service.
///
/// ```
/// use gridspan::ranks::{self, RankPort};
///
/// let job = ranks::run(2, async |world| {
///     let alone = world.split(Some(world.rank()), 0).await?.ok_or("no part")?;
///     let other = if world.rank() == 0 {
///         let port: RankPort = world.open_port().await?;
///         world.send_value(&port, 1, 0).await?;
///         alone.accept(Some(port), 0).await?
///     } else {
///         let (port, _) = world.recv_value::<RankPort>(0, 0).await?;
///         alone.connect(Some(port), 0).await?
///     };
///     assert_eq!((other.rank(), other.remote_size()), (0, 1));
///     Ok(())
/// });
/// # gridspan::embed::Runner::on_threads(2).run(job).unwrap();
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct RankPort(pub(crate) u64);

impl fmt::Display for RankPort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "port {}", self.0)
    }
}
