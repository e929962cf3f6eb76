//! What is told of guests unasked.

use gridspan_topology::NodeId;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::sync::Arc;

/// What has become of a guest.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "what", rename_all = "lowercase")]
pub enum GuestEvent {
    /// It takes part, with so many PEs.
    Joined {
        /// The guest.
        guest: NodeId,
        /// The name of its site.
        site: String,
        /// Its PEs.
        pes: u32,
    },
    /// It takes no more tasks and hands back those that it has.
    Leaving {
        /// The guest.
        guest: NodeId,
    },
    /// It has left.
    Left {
        /// The guest.
        guest: NodeId,
    },
    /// It does not answer. What it owed is done again.
    Lost {
        /// The guest.
        guest: NodeId,
        /// What was observed.
        reason: String,
    },
}

impl fmt::Display for GuestEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Joined { guest, site, pes } => {
                write!(f, "guest {guest} with {pes} PEs has joined at site {site}")
            }
            Self::Leaving { guest } => write!(f, "guest {guest} is leaving"),
            Self::Left { guest } => write!(f, "guest {guest} has left"),
            Self::Lost { guest, reason } => {
                write!(f, "{reason}; what guest {guest} owed is done again")
            }
        }
    }
}

/// Is told what becomes of guests.
pub(crate) type OnGuests = Arc<dyn Fn(&GuestEvent) + Send + Sync>;
