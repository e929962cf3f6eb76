//! A small snapshot for the tests of this crate.

use crate::snapshot::{ActorKey, ActorLoad, Edge, PeLoad, Snapshot};
use gridspan_topology::{Layout, PeId};
use std::time::Duration;

/// The key of the `n`th actor of collection 1.
pub(crate) fn actor(n: u128) -> ActorKey {
    ActorKey { collection: 1, index: n }
}

/// Two sites of one node with two PEs each, and an actor of as many milliseconds as its number
/// plus one on each of the given PEs. The last actor cannot migrate. Each actor sends 10 messages
/// of 100 bytes to the next.
pub(crate) fn snapshot(pe_of_actor: &[u32]) -> Snapshot {
    let count = pe_of_actor.len();
    let load_of = |(n, &pe): (usize, &u32)| ActorLoad {
        id: actor(n as u128),
        pe: PeId(pe),
        load: Duration::from_millis(n as u64 + 1),
        bytes: 1000,
        migratable: n + 1 < count,
    };
    let edge_of = |n| Edge { from: n, to: n + 1, messages: 10, bytes: 1000 };
    Snapshot::new(
        pe_of_actor.iter().enumerate().map(load_of).collect(),
        (0..count.saturating_sub(1) as u32).map(edge_of).collect(),
        vec![PeLoad::default(); 4],
        Layout::new(vec![("a".to_owned(), vec![2]), ("b".to_owned(), vec![2])]),
    )
}
