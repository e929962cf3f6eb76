//! Actors as strategies see them: keys, loads and replicas.

use gridspan_topology::PeId;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::time::Duration;

/// Identifies an actor without its type.
///
/// ```
/// use gridspan_balance::ActorKey;
///
/// assert_eq!(ActorKey { collection: 1, index: 7 }.to_string(), "actor 1.7");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ActorKey {
    /// Number of its collection.
    pub collection: u32,
    /// Index in the collection, packed into one number.
    pub index: u128,
}

impl fmt::Display for ActorKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "actor {}.{}", self.collection, self.index)
    }
}

/// One actor in the measured window.
///
/// ```
/// use gridspan_balance::{ActorKey, ActorLoad};
/// use gridspan_topology::PeId;
/// use std::time::Duration;
///
/// /// An actor that computes for a tenth of a second.
/// fn busy(index: u128, pe: u32) -> ActorLoad {
///     let id = ActorKey { collection: 0, index };
///     let mut actor = ActorLoad::new(id, PeId(pe), Duration::from_millis(100));
///     actor.bytes = 4_096;
///     actor
/// }
/// # assert_eq!(busy(3, 1).id.index, 3);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ActorLoad {
    /// The actor.
    pub id: ActorKey,
    /// The PE on which it lives.
    pub pe: PeId,
    /// CPU time that it used on that PE.
    pub load: Duration,
    /// Bytes of its state when it migrates.
    pub bytes: u64,
    /// Whether it may be moved.
    pub migratable: bool,
    /// Its processor time per message or unit of work, if it is known for this window and an
    /// earlier one.
    #[serde(default)]
    pub pace: Option<HandlingTime>,
}

impl ActorLoad {
    /// Creates an actor that may be moved and has no state.
    pub fn new(id: ActorKey, pe: PeId, load: Duration) -> Self {
        Self { id, pe, load, bytes: 0, migratable: true, pace: None }
    }

    /// Returns its load times a ratio, or the longest duration if that does not fit.
    pub(crate) fn scaled_load(&self, ratio: f64) -> Duration {
        Duration::try_from_secs_f64(self.load.as_secs_f64() * ratio).unwrap_or(Duration::MAX)
    }
}

/// Average processor time of an actor per message.
///
/// ```
/// use gridspan_balance::HandlingTime;
/// use gridspan_topology::PeId;
/// use std::time::Duration;
///
/// let [now, before] = [30, 20].map(Duration::from_micros);
/// let time = HandlingTime { now, before, pe_before: PeId(3) };
/// assert!(time.now > time.before, "a message takes longer here than it took on PE 3");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HandlingTime {
    /// Time per message or unit of work in this window, on its present PE.
    pub now: Duration,
    /// The same in the last earlier window in which it handled a message or did a unit.
    pub before: Duration,
    /// The PE on which it lived in that window.
    pub pe_before: PeId,
}

/// The replica of an actor.
///
/// ```
/// use gridspan_balance::{ActorKey, Replica};
/// use gridspan_topology::PeId;
///
/// let key = |index| ActorKey { collection: 0, index };
/// // The replica on PE 5 sends to two actors, the primary to all others.
/// let replica = Replica { actor: key(0), at: PeId(5), serves: vec![key(8), key(9)] };
/// assert!(replica.serves.is_sorted());
/// ```
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Replica {
    /// The replicated actor.
    pub actor: ActorKey,
    /// The PE of the replica.
    pub at: PeId,
    /// Receivers to which the replica sends, ascending; the primary sends to all others.
    pub serves: Vec<ActorKey>,
}
