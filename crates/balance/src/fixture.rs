//! A small snapshot for the tests of this crate.

use crate::plan::Plan;
use crate::snapshot::{ActorKey, ActorLoad, Edge, PeLoad, Snapshot};
use crate::study::{by_hash, grid_2d, snapshot_of};
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
        pace: None,
    };
    let edge_of = |n| Edge { from: n, to: n + 1, messages: 10, bytes: 1000 };
    Snapshot::new(
        pe_of_actor.iter().enumerate().map(load_of).collect(),
        (0..count.saturating_sub(1) as u32).map(edge_of).collect(),
        vec![PeLoad::default(); 4],
        Layout::new(vec![("a".to_owned(), vec![2]), ("b".to_owned(), vec![2])]),
    )
}

/// A mesh of 3,600 actors of the same work on eight PEs of speed 1, 2 and 4; loads are as measured
/// there.
pub(crate) fn uneven(layout: Layout) -> Snapshot {
    let mut snapshot = snapshot_of(&grid_2d(60, 60), layout, &by_hash(3600, 8));
    for (at, pe) in snapshot.pes.iter_mut().enumerate() {
        pe.speed = [1.0, 2.0, 4.0][at % 3];
    }
    for actor in &mut snapshot.actors {
        actor.load = actor.load.div_f64([1.0, 2.0, 4.0][actor.pe.index() % 3]);
    }
    snapshot
}

/// Panics if a plan for [`uneven`] PEs gives one of them over 3 % more than its share.
pub(crate) fn check_shares(snapshot: &Snapshot, plan: &Plan) {
    let mapping = plan.mapping(snapshot).expect("a plan for this snapshot");
    let speeds: f64 = snapshot.pes.iter().map(|pe| pe.speed).sum();
    for (pe, load) in snapshot.pes.iter().enumerate() {
        let count = mapping.iter().filter(|mapped| mapped.index() == pe).count() as f64;
        let fair = mapping.len() as f64 * load.speed / speeds;
        assert!(count <= fair * 1.03 + 1.0, "PE {pe}: {count} of {fair}");
    }
}
