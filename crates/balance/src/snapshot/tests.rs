//! Tests of snapshots.

use super::*;
use crate::fixtures::{actor, snapshot};

#[test]
fn a_measured_snapshot_is_valid() {
    assert_eq!(snapshot(&[0, 1, 2, 3]).validate(), Ok(()));
}

#[test]
fn a_snapshot_stored_as_json_is_read_back_unchanged() {
    let mut snapshot = snapshot(&[0, 1, 2, 3]);
    snapshot.actors[0].id.index = u128::MAX;
    snapshot.pes[1].speed = 0.1;

    let stored = serde_json::to_string(&snapshot).unwrap();

    assert_eq!(serde_json::from_str::<Snapshot>(&stored).unwrap(), snapshot);
}

#[test]
fn inconsistent_snapshots_are_refused() {
    let refusal = |change: fn(&mut Snapshot)| {
        let mut snapshot = snapshot(&[0, 1, 2]);
        change(&mut snapshot);
        snapshot.validate().unwrap_err()
    };
    assert_eq!(refusal(|s| s.pes.truncate(3)), SnapshotError::PeCount { pes: 3, layout: 4 });
    assert_eq!(refusal(|s| s.pes[2].speed = 0.0), SnapshotError::Speed { pe: PeId(2), speed: 0.0 });
    assert!(matches!(refusal(|s| s.pes[0].speed = f64::NAN), SnapshotError::Speed { .. }));
    assert_eq!(
        refusal(|s| s.pes[1].available = 1.5),
        SnapshotError::Available { pe: PeId(1), available: 1.5 }
    );
    assert_eq!(refusal(|s| s.version = 7), SnapshotError::Version { found: 7 });
    assert_eq!(
        refusal(|s| s.hierarchy = Some(Hierarchy::from_layout(&Layout::single(1)))),
        SnapshotError::NotInHierarchy { node: NodeId(1) }
    );
    assert_eq!(
        refusal(|s| s.actors[1].pe = PeId(4)),
        SnapshotError::NoSuchPe { actor: actor(1), pe: PeId(4) }
    );
    assert_eq!(
        refusal(|s| s.actors[1].id = actor(0)),
        SnapshotError::ActorTwice { actor: actor(0) }
    );
    assert_eq!(
        refusal(|s| s.edges[1].to = 3),
        SnapshotError::NoSuchActor { edge: 1, from: 1, to: 3, actors: 3 }
    );
}

#[test]
fn replicas_are_listed_in_the_order_of_their_actors() {
    let replica = |n| Replica { actor: actor(n), at: PeId(3), serves: vec![] };
    let validated = |actors: [u128; 2]| {
        let replicas = actors.map(replica).to_vec();
        Snapshot { replicas, ..snapshot(&[0, 1, 2]) }.validate()
    };

    assert_eq!(validated([0, 1]), Ok(()));
    let what = "the replicas are not in the order of their actors";
    assert_eq!(validated([1, 0]), Err(SnapshotError::Replicas { what }));
}

#[test]
fn optional_fields_may_be_missing_in_json() {
    let mut stored = serde_json::to_value(snapshot(&[0, 1])).unwrap();
    for field in ["steps", "has_step_order", "hierarchy", "links"] {
        stored.as_object_mut().unwrap().remove(field);
    }
    stored["pes"][0].as_object_mut().unwrap().remove("idle");
    stored["pes"][0].as_object_mut().unwrap().remove("available");

    let read: Snapshot = serde_json::from_value(stored).unwrap();

    assert_eq!(read.validate(), Ok(()));
    assert_eq!((read.step_count(), read.hierarchy), (1, None));
    assert_eq!(read.pes[0].available, 1.0);
}

#[test]
fn loads_add_up_on_each_pe() {
    let millis: Vec<u128> =
        snapshot(&[0, 2, 0, 3]).load_per_pe().iter().map(Duration::as_millis).collect();

    assert_eq!(millis, [1 + 3, 0, 2, 4]);
}

#[test]
fn an_edge_is_wide_area_when_its_ends_are_in_different_sites() {
    // PEs 0 and 1 are in one site, 2 and 3 in the other.
    let snapshot = snapshot(&[0, 1, 2, 3]);

    let crossing: Vec<u32> = snapshot.wide_area_edges().map(|edge| edge.from).collect();

    assert_eq!(crossing, [1]);
}
