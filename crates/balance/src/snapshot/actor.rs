//! Actors as strategies know them: their names, loads and replicas.

use gridspan_topology::PeId;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::time::Duration;

/// Which actor, in a form that says nothing about its type.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ActorKey {
    /// The number of its collection.
    pub collection: u32,
    /// Its index in the collection, packed into one number.
    pub index: u128,
}

impl fmt::Display for ActorKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "actor {}.{}", self.collection, self.index)
    }
}

/// One actor in the measured window.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ActorLoad {
    /// Which actor.
    pub id: ActorKey,
    /// Where it lives.
    pub pe: PeId,
    /// The CPU time it used on that PE.
    pub load: Duration,
    /// How many bytes its state takes when it migrates.
    pub bytes: u64,
    /// Whether it may be moved.
    pub migratable: bool,
    /// What it takes for a message, if that is known for this window and the one before.
    #[serde(default)]
    pub pace: Option<HandlingTime>,
}

/// What an actor takes for a message on average, in processor time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HandlingTime {
    /// In this window, where it lives now.
    pub now: Duration,
    /// In the last window before it in which it handled anything.
    pub before: Duration,
    /// Where it lived then.
    pub pe_before: PeId,
}

/// The replica of an actor.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Replica {
    /// Whose.
    pub actor: ActorKey,
    /// On which PE.
    pub at: PeId,
    /// To whom it sends; the primary sends to all others. Ascending.
    pub serves: Vec<ActorKey>,
}
