//! What ranks ask the name server, and what it answers.

use super::placement::SpawnPlacement;
use super::port::RankPort;
use crate::content::Content;
use crate::site_links::SiteLinks;
use serde::{Deserialize, Serialize};

/// Bytes of a rank's number and place.
const PLACED_BYTES: usize = 12;

/// Ranks in the order of their group, and the site and the PE of each.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct PlacedRanks {
    /// Their numbers in the job.
    pub(crate) ranks: Vec<u32>,
    pub(crate) places: Vec<(u32, u32)>,
}

impl PlacedRanks {
    fn heap_bytes(&self) -> usize {
        PLACED_BYTES * self.ranks.len()
    }
}

/// Ranks to spawn.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Spawn {
    pub(crate) placement: SpawnPlacement,
    /// The values from which the ranks are built: an encoded list.
    pub(crate) inits: Content,
    pub(crate) parents: PlacedRanks,
    /// The links as the parents know them in this run. Rank 0 may not have begun the run yet.
    pub(crate) links: SiteLinks,
}

/// A request to the name server.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) enum ServerRequest {
    OpenPort,
    ClosePort(RankPort),
    Publish {
        service: String,
        port: RankPort,
    },
    Unpublish {
        service: String,
    },
    /// Asks for the port of a service: at once, or once there is one.
    Lookup {
        service: String,
        waits: bool,
    },
    /// Asks for a group that connects to a port.
    Accept(RankPort, PlacedRanks),
    /// Asks for a group that accepts at a port.
    Connect(RankPort, PlacedRanks),
    /// Asks for the group of this name, once it has this number of ranks. The asker lives at this
    /// site and PE.
    Join {
        group: String,
        ranks: u32,
        place: (u32, u32),
    },
    Spawn(Spawn),
    /// The asker no longer waits. Has no answer.
    Withdraw,
}

impl ServerRequest {
    /// Bytes on the heap.
    pub(crate) fn heap_bytes(&self) -> usize {
        match self {
            Self::Publish { service, .. }
            | Self::Unpublish { service }
            | Self::Lookup { service, .. } => service.len(),
            Self::Accept(_, group) | Self::Connect(_, group) => group.heap_bytes(),
            Self::Join { group, .. } => group.len(),
            Self::Spawn(spawn) => {
                let Spawn { inits, parents, links, .. } = spawn;
                inits.bytes.len() + parents.heap_bytes() + links.heap_bytes()
            }
            Self::OpenPort | Self::ClosePort(_) | Self::Withdraw => 0,
        }
    }
}

/// An answer of the name server, or of a rank that has ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) enum ServerReply {
    Done,
    /// The port that was opened or looked up, if there is one.
    Port(Option<RankPort>),
    /// The remote group, and the number of the communicator with it. The next number is that of
    /// both groups together.
    Linked {
        number: u32,
        remote: PlacedRanks,
    },
    /// The group that has gathered, and the number of its communicator.
    Gathered {
        number: u32,
        group: PlacedRanks,
    },
    /// Nothing was done, for this reason.
    Refused(String),
}

impl ServerReply {
    /// Bytes on the heap.
    pub(crate) fn heap_bytes(&self) -> usize {
        match self {
            Self::Linked { remote: group, .. } | Self::Gathered { group, .. } => group.heap_bytes(),
            Self::Refused(reason) => reason.len(),
            Self::Done | Self::Port(_) => 0,
        }
    }
}
