//! Object graphs as snapshots of jobs.

use super::graphs::ObjectGraph;
use crate::snapshot::{ActorKey, ActorLoad, Edge, PeLoad, SiteLink, Snapshot};
use gridspan_topology::{Bandwidth, Latency, Layout, PeId};
use std::time::Duration;

/// How many bytes a message of a study has: little, so that numbers of messages decide.
pub const MESSAGE_BYTES: u64 = 100;

/// The snapshot of one step of a job with these objects, one on each PE of `place`. Half of the
/// messages of an edge go each way. States have 1000 bytes.
pub fn snapshot_of(objects: &ObjectGraph, layout: Layout, place: &[PeId]) -> Snapshot {
    let actor = |(at, (&load, &pe)): (usize, (&u64, &PeId))| ActorLoad {
        id: ActorKey { collection: 1, index: at as u128 },
        pe,
        load: Duration::from_micros(load),
        bytes: 1000,
        migratable: true,
        pace: None,
    };
    let half = |from, to, messages| Edge { from, to, messages, bytes: messages * MESSAGE_BYTES };
    let edges = objects.edges.iter().flat_map(|&(a, b, messages)| {
        let forth = messages.div_ceil(2);
        [half(a, b, forth), half(b, a, messages - forth)]
    });
    let actors = objects.loads.iter().zip(place).enumerate().map(actor).collect();
    let edges = edges.filter(|edge| edge.messages > 0).collect();
    let pes = layout.pes().map(|_| PeLoad::default()).collect();
    Snapshot::new(actors, edges, pes, layout)
}

/// The same with one latency between all sites, without a limit of bandwidth.
#[must_use]
pub fn with_wide_area(mut snapshot: Snapshot, latency: Duration) -> Snapshot {
    let sites = || snapshot.layout.sites();
    let pairs = sites().flat_map(|from| sites().map(move |to| (from, to)));
    let latency = Latency(latency);
    let link = |(from, to)| SiteLink { from, to, latency, bandwidth: Bandwidth::UNLIMITED };
    snapshot.links = pairs.filter(|(from, to)| from != to).map(link).collect();
    snapshot
}

/// Objects in blocks of equal number on PEs in order.
pub fn by_block(objects: usize, pes: u32) -> Vec<PeId> {
    (0..objects as u64).map(|at| PeId((at * u64::from(pes) / objects as u64) as u32)).collect()
}

/// Objects anywhere, as a hash of their numbers says.
pub fn by_hash(objects: usize, pes: u32) -> Vec<PeId> {
    let hash = |at: u64| {
        let mixed = (at + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        (mixed ^ (mixed >> 31)).wrapping_mul(0xBF58_476D_1CE4_E5B9) >> 32
    };
    (0..objects as u64).map(|at| PeId(((hash(at) * u64::from(pes)) >> 32) as u32)).collect()
}
