//! What ranks ask the name server, and what it answers.

use super::placement::SpawnPlacement;
use crate::content::Content;
use crate::port::RankPort;
use crate::refusal::RankRefusal;
use crate::runs::Run;
use crate::site_links::SiteLinks;
use serde::{Deserialize, Serialize};

/// Bytes of a rank's number and place.
const PLACED_BYTES: usize = 12;
/// Bytes of a run of ranks.
const RUN_BYTES: usize = 8;

/// Ranks in the order of their group, and the site and the PE of each.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct PlacedRanks {
    /// Their numbers in the job.
    pub(crate) ranks: Vec<u32>,
    pub(crate) places: Vec<(u32, u32)>,
}

impl PlacedRanks {
    /// Bytes on the heap.
    pub(crate) fn heap_bytes(&self) -> usize {
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

/// Names an agreement: the number of the communicator and its first rank, because communicators
/// without common ranks may have the same number; the number of the agreement; whether it makes a
/// communicator.
pub(crate) type AgreementKey = (u32, u32, u64, bool);

/// A request for an agreement.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct AgreementRequest {
    pub(crate) key: AgreementKey,
    /// The ranks of the communicator, also those that have failed.
    pub(crate) members: Vec<Run>,
    pub(crate) flags: u64,
    /// The smallest number of a communicator that the asker has not used.
    pub(crate) next_communicator: u32,
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
    /// Asks for the port of a service. If `waits`, the answer comes once the service is published.
    Lookup {
        service: String,
        waits: bool,
    },
    /// Asks for a group that connects to a port. The ranks are the asker's group.
    Accept(RankPort, PlacedRanks),
    /// Asks for a group that accepts at a port. The ranks are the asker's group.
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
    /// Asks for what all living ranks of a communicator agree on.
    Agree(AgreementRequest),
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
                inits.bytes().len() + parents.heap_bytes() + links.heap_bytes()
            }
            Self::Agree(agreement) => RUN_BYTES * agreement.members.len(),
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
    /// The remote group, and the number of the communicator with it. The number after that belongs
    /// to an internal communicator of both groups together.
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
    Refused(RankRefusal),
    /// What the living ranks have agreed on: the flags that all of them have set, a communicator
    /// number that no rank of the communicator has used, and the list of the living ranks.
    Agreed {
        flags: u64,
        number: u32,
        survivors: Vec<Run>,
    },
}

impl ServerReply {
    /// Bytes on the heap.
    pub(crate) fn heap_bytes(&self) -> usize {
        match self {
            Self::Linked { remote: group, .. } | Self::Gathered { group, .. } => group.heap_bytes(),
            Self::Refused(refusal) => refusal.heap_bytes(),
            Self::Agreed { survivors, .. } => RUN_BYTES * survivors.len(),
            Self::Done | Self::Port(_) => 0,
        }
    }
}
