//! The effect of replicas on the time of a step. A replicated actor is deterministic, and two sites
//! compute it.
//!
//! For example, an actor receives positions from two sites and returns forces. Without a replica,
//! it costs two crossings of the wide area in each step. An actor that computes only from the
//! messages it receives may have a replica at the other site. Both replicas receive all messages,
//! and each replica answers the messages from its site. This saves one crossing, and costs the
//! work a second time.

use crate::cost::{CostModel, Prediction, predict};
use crate::snapshot::{ActorKey, ActorLoad, Edge, Replica, Snapshot};
use gridspan_topology::PeId;
use std::collections::{BTreeMap, BTreeSet};

/// Returns a snapshot in which replicas are separate actors, and the PE of each actor. The actors
/// of `snapshot` come first, then `replicas`, in their order. Messages to a replicated actor go to
/// both of its replicas; messages from it leave from the replica that serves the receiver. Replicas
/// of actors that the snapshot does not contain are left out.
pub fn with_replicas(
    snapshot: &Snapshot,
    mapping: &[PeId],
    replicas: &[Replica],
) -> (Snapshot, Vec<PeId>) {
    let position: BTreeMap<ActorKey, u32> =
        snapshot.actors.iter().enumerate().map(|(at, actor)| (actor.id, at as u32)).collect();
    let known =
        replicas.iter().filter_map(|replica| Some((*position.get(&replica.actor)?, replica)));
    let first = snapshot.actors.len() as u32;
    let mut actors = snapshot.actors.clone();
    let mut places = mapping.to_vec();
    let mut second: BTreeMap<u32, (u32, BTreeSet<u32>)> = BTreeMap::new();
    for (number, (at, replica)) in (first..).zip(known) {
        let actor = snapshot.actors[at as usize];
        let speed = |pe: PeId| snapshot.pes[pe.index()].speed;
        // The replica does the same work; the time for it depends on the speed of its PE.
        let load = actor.scaled_load(speed(actor.pe) / speed(replica.at));
        actors.push(ActorLoad { pe: replica.at, load, ..actor });
        places.push(replica.at);
        let serves = replica.serves.iter().filter_map(|key| position.get(key).copied());
        second.insert(at, (number, serves.collect()));
    }
    let mut edges = Vec::with_capacity(snapshot.edges.len());
    for edge in &snapshot.edges {
        let from = match second.get(&edge.from) {
            Some((number, serves)) if serves.contains(&edge.to) => *number,
            _ => edge.from,
        };
        edges.push(Edge { from, ..*edge });
        edges.extend(second.get(&edge.to).map(|&(to, _)| Edge { from, to, ..*edge }));
    }
    (
        Snapshot {
            actors,
            edges,
            replicas: Vec::new(),
            deterministic: Vec::new(),
            ..snapshot.clone()
        },
        places,
    )
}

/// Predicts a step like [`predict`], but with some actors replicated.
pub fn predict_with(
    snapshot: &Snapshot,
    mapping: &[PeId],
    replicas: &[Replica],
    model: &CostModel,
) -> Prediction {
    if replicas.is_empty() {
        return predict(snapshot, mapping, model);
    }
    let (expanded, places) = with_replicas(snapshot, mapping, replicas);
    predict(&expanded, &places, model)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cost::Bound;
    use crate::fixtures::with_wide_area;
    use crate::fixtures::{actor, snapshot};
    use std::time::Duration;

    const EXACT: CostModel = CostModel { message_overhead: Duration::ZERO, border_wait: 0.0 };

    /// Actor 1 receives from 0 (PE 0, site a) and 2 (PE 2, site b) and answers both. Actors 0, 1
    /// and 2 take 1, 2 and 3 ms.
    fn triangle() -> (Snapshot, Vec<PeId>) {
        let mut snapshot = snapshot(&[0, 1, 2]);
        let edge = |from, to| Edge { from, to, messages: 10, bytes: 100 };
        snapshot.edges = vec![edge(0, 1), edge(2, 1), edge(1, 0), edge(1, 2)];
        let mapping = snapshot.actors.iter().map(|actor| actor.pe).collect();
        (with_wide_area(snapshot, Duration::from_millis(50)), mapping)
    }

    #[test]
    fn messages_go_to_both_replicas_and_come_from_the_one_that_serves_the_receiver() {
        let (snapshot, mapping) = triangle();
        let replica = Replica { actor: actor(1), at: PeId(3), serves: vec![actor(2)] };

        let (expanded, places) = with_replicas(&snapshot, &mapping, &[replica]);

        let edges: Vec<_> = expanded.edges.iter().map(|edge| (edge.from, edge.to)).collect();
        assert_eq!(edges, [(0, 1), (0, 3), (2, 1), (2, 3), (1, 0), (3, 2)]);
        assert_eq!(places, [0, 1, 2, 3].map(PeId));
        assert_eq!(expanded.actors[3].load, Duration::from_millis(2));
    }

    #[test]
    fn the_load_of_a_replica_is_at_most_the_longest_duration() {
        let (mut snapshot, mapping) = triangle();
        snapshot.actors[1].load = Duration::MAX;
        snapshot.pes[1].speed = 4.0;
        let replica = Replica { actor: actor(1), at: PeId(3), serves: vec![] };

        let (expanded, _) = with_replicas(&snapshot, &mapping, &[replica]);

        assert_eq!(expanded.actors[3].load, Duration::MAX);
    }

    #[test]
    fn a_replica_saves_one_of_two_crossings_and_does_the_work_twice() {
        let (snapshot, mapping) = triangle();
        let replica = Replica { actor: actor(1), at: PeId(2), serves: vec![actor(2)] };
        let step = |replicas: &[Replica]| {
            let predicted = predict_with(&snapshot, &mapping, replicas, &EXACT);
            (predicted.step.as_millis(), predicted.bound, predicted.compute.as_millis())
        };

        // Without a replica, a step takes two crossings of 50 ms, and the work of 2 and 3 ms at the
        // ends. With a replica, it takes one crossing of 50 ms, and the work of one site: 1 and 2
        // ms, or 3 and 2 ms.
        assert_eq!(step(&[]), (105, Bound::RoundTrip, 3));
        assert_eq!(step(&[replica]), (55, Bound::RoundTrip, 5));
    }
}
