//! Hops from each actor to an actor that talks to another site. The scheduler handles messages for
//! near actors first, because these lead to messages between sites.

use crate::snapshot::{Edge, Snapshot};
use gridspan_topology::PeId;

/// Returns the hops of each actor to a wide-area edge, with actors placed by `mapping`: 0 for
/// actors that talk to another site, 1 for those that talk to these, and so on; `u8::MAX` stands
/// for all greater distances and for actors that never reach such an edge. Ignores the direction
/// of edges, and edges with fewer than one message per two steps. Takes time in proportion to
/// actors and edges. Panics if the mapping is shorter than the list of actors or names PEs that do
/// not exist.
pub fn border_hops(snapshot: &Snapshot, mapping: &[PeId]) -> Vec<u8> {
    let sites: Vec<_> = mapping.iter().map(|&pe| snapshot.layout.site_of(pe)).collect();
    let often = |edge: &&Edge| edge.messages.saturating_mul(2) >= snapshot.step_count();
    let edges = || snapshot.edges.iter().filter(often).map(|edge| (edge.from, edge.to));
    let is_across = |&(a, b): &(u32, u32)| sites[a as usize] != sites[b as usize];
    let border = edges().filter(is_across).flat_map(|(a, b)| [a, b]);
    hops_from(mapping.len(), border, edges())
}

/// Returns the hops of each of `actors` actors to one of `border`, over edges in either direction.
pub(crate) fn hops_from(
    actors: usize,
    border: impl Iterator<Item = u32>,
    edges: impl Iterator<Item = (u32, u32)>,
) -> Vec<u8> {
    let mut neighbours: Vec<Vec<u32>> = vec![Vec::new(); actors];
    for (a, b) in edges {
        neighbours[a as usize].push(b);
        neighbours[b as usize].push(a);
    }
    let mut hops = vec![u8::MAX; actors];
    border.for_each(|actor| hops[actor as usize] = 0);
    let mut front: Vec<u32> =
        (0..actors as u32).filter(|&actor| hops[actor as usize] == 0).collect();
    for distance in 1..u8::MAX {
        let mut next = Vec::new();
        for &neighbour in front.iter().flat_map(|&actor| &neighbours[actor as usize]) {
            if hops[neighbour as usize] == u8::MAX {
                hops[neighbour as usize] = distance;
                next.push(neighbour);
            }
        }
        front = next;
    }
    hops
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::snapshot;

    /// Actors 0 to 4 in a row.
    fn row(pes: [u32; 5]) -> Snapshot {
        let mut snapshot = snapshot(&pes);
        snapshot.edges =
            (0..4).map(|from| Edge { from, to: from + 1, messages: 10, bytes: 10 }).collect();
        snapshot
    }

    fn hops(snapshot: &Snapshot) -> Vec<u8> {
        let mapping: Vec<PeId> = snapshot.actors.iter().map(|actor| actor.pe).collect();
        border_hops(snapshot, &mapping)
    }

    #[test]
    fn hops_count_from_both_ends_of_a_wide_area_edge() {
        // PEs 0 and 1 are in one site, 2 and 3 in the other.
        assert_eq!(hops(&row([0, 1, 1, 0, 3])), [3, 2, 1, 0, 0]);
        assert_eq!(hops(&row([0, 2, 2, 0, 1])), [0, 0, 0, 0, 1]);
    }

    #[test]
    fn actors_without_a_path_to_another_site_have_the_greatest_distance() {
        assert_eq!(hops(&row([0, 1, 0, 1, 0])), [u8::MAX; 5]);
        let mut apart = row([0, 1, 1, 0, 3]);
        apart.edges.remove(1);
        assert_eq!(hops(&apart), [u8::MAX, u8::MAX, 1, 0, 0]);
    }

    #[test]
    fn a_rare_message_makes_no_border_actor() {
        let mut rare = row([0, 0, 0, 2, 2]);
        rare.steps = 10;
        rare.edges.push(Edge { from: 0, to: 4, messages: 1, bytes: 1 });
        assert_eq!(hops(&rare), [2, 1, 0, 0, 1]);
    }
}
