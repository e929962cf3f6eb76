//! Events that report the stages of guests.

use gridspan_topology::NodeId;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::sync::Arc;

/// A change of a guest's state.
///
/// ```
/// use gridspan::{GuestEvent, Job};
///
/// let job = Job::new("open").tolerate_lost_guests(true).on_guests(|event| match event {
///     GuestEvent::Joined { guest, pes, .. } => println!("{guest} brings {pes} PEs"),
///     other => println!("{other}"),
/// });
/// # gridspan::embed::Runner::on_threads(1).run(job).unwrap();
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "what", rename_all = "lowercase")]
#[non_exhaustive]
pub enum GuestEvent {
    /// The guest takes part.
    Joined {
        /// The guest.
        guest: NodeId,
        /// The name of its site.
        site: String,
        /// Number of its PEs.
        pes: u32,
    },
    /// The guest takes no more tasks and hands back those that it has not begun.
    Leaving {
        /// The guest.
        guest: NodeId,
    },
    /// The guest has left.
    Left {
        /// The guest.
        guest: NodeId,
    },
    /// The guest does not answer, or has sent invalid data. The tasks that it owed are done again.
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
                write!(f, "{reason}; the tasks that guest {guest} owed run again")
            }
        }
    }
}

/// Called with each change of a guest's state.
pub(crate) type OnGuests = Arc<dyn Fn(&GuestEvent) + Send + Sync>;
