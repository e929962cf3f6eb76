//! Why the name server refuses a request.

use crate::port::RankPort;
use serde::{Deserialize, Serialize};

/// Why a request to spawn, to connect, or about a name was refused. Nothing was done.
///
/// ```
/// use gridspan::ranks::{self, RankError, RankRefusal};
///
/// let job = ranks::run(1, async |world| {
///     match world.unpublish_name("heat").await {
///         Err(RankError::Refused { refusal: RankRefusal::NoSuchService { .. }, .. }) => Ok(()),
///         other => other,
///     }
/// });
/// # gridspan::embed::Runner::on_threads(1).run(job).unwrap();
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[non_exhaustive]
pub enum RankRefusal {
    /// The root of a collective operation has given no port.
    #[error("the root has no port")]
    NoPort,
    /// The port was never opened, or is closed.
    #[error("{port} is not open; use one that `open_port` has returned")]
    PortNotOpen {
        /// The port.
        port: RankPort,
    },
    /// The port was closed while the group waited for another.
    #[error("{port} was closed meanwhile")]
    PortClosed {
        /// The port.
        port: RankPort,
    },
    /// Another port, or the same, is published as this service.
    #[error("the service {service:?} is published, with {port}; unpublish it first")]
    ServiceExists {
        /// The name of the service.
        service: String,
        /// Its port.
        port: RankPort,
    },
    /// No port is published as this service.
    #[error("no service {service:?} is published")]
    NoSuchService {
        /// The name of the service.
        service: String,
    },
    /// The name of a service or a group is too long.
    #[error("a name of {bytes} bytes; use at most {max}")]
    NameTooLong {
        /// Number of bytes of the name.
        bytes: u64,
        /// The largest number of bytes of a name.
        max: u64,
    },
    /// The groups that were to be connected have a common rank.
    #[error("rank {rank} of the job is in both groups")]
    RankInBothGroups {
        /// The number of the rank in the job.
        rank: u32,
    },
    /// A group was to have no ranks.
    #[error("a group has at least one rank")]
    EmptyGroup,
    /// Ranks that wait for the group have named another number of ranks.
    #[error("the group {group:?} is to have {expected} ranks, not {found}")]
    OtherGroupSize {
        /// The name of the group.
        group: String,
        /// Number of ranks that the others have named.
        expected: u32,
        /// Number of ranks that this rank has named.
        found: u32,
    },
    /// Another request of this rank waits for the group.
    #[error("this rank waits for the group {group:?} already")]
    WaitsAlready {
        /// The name of the group.
        group: String,
    },
    /// The number of ranks to spawn is zero or too large.
    #[error("{ranks} ranks; spawn at least 1, and at most {max} in this call")]
    SpawnCount {
        /// Number of ranks that were to be spawned.
        ranks: u64,
        /// The largest number of ranks that the call can spawn.
        max: u32,
    },
    /// The values for the spawned ranks have another type than the ranks of the job are built from.
    #[error("the ranks of this job are built from values of type {expected}")]
    OtherInit {
        /// The type of [`Rank::Init`](crate::Rank::Init).
        expected: String,
    },
    /// The values for the spawned ranks do not encode.
    #[error("the values for the spawned ranks do not encode: {reason}")]
    InitNotEncoded {
        /// The reason.
        reason: String,
    },
    /// The job has no such site.
    #[error("there is no site {site} among {sites}")]
    NoSuchSite {
        /// The number of the site.
        site: u32,
        /// Number of sites.
        sites: u32,
    },
    /// The job has no such PE.
    #[error("there is no PE {pe} among {pes}")]
    NoSuchPe {
        /// The number of the PE.
        pe: u32,
        /// Number of PEs.
        pes: u32,
    },
    /// No rank can live at the site.
    #[error("site {site} has no PE")]
    NoPeAtSite {
        /// The number of the site.
        site: u32,
    },
    /// The numbers of communicators for spawned, connected and joined groups are used up. Spawn
    /// and connect less often.
    #[error("a run can have at most 2^29 - 1 spawns, connections and groups")]
    NoNumberLeft,
    /// The request got no answer.
    #[error("the request was dropped")]
    Dropped,
}

impl RankRefusal {
    /// Bytes on the heap.
    pub(crate) fn heap_bytes(&self) -> usize {
        match self {
            Self::ServiceExists { service: text, .. }
            | Self::NoSuchService { service: text }
            | Self::OtherGroupSize { group: text, .. }
            | Self::WaitsAlready { group: text }
            | Self::OtherInit { expected: text }
            | Self::InitNotEncoded { reason: text } => text.len(),
            _ => 0,
        }
    }
}
