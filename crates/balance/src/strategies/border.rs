//! `border`: for meshes, where no cut can greatly reduce the wide-area messages.
//!
//! Koenig and Kalé (2007), "Optimizing Distributed Application Performance Using Dynamic Grid
//! Topology-Aware Load Balancing", section 6: actors that talk across the wide area are spread
//! evenly over the PEs of their site, so that each PE has as much local work as possible while
//! their messages travel. No actor changes its site.

use crate::plan::Plan;
use crate::snapshot::Snapshot;
use crate::strategies::capacity::Capacity;
use crate::strategies::load_evening::LoadEvening;
use crate::strategies::strategy::Strategy;
use gridspan_topology::PeId;

/// Spreads border actors first, and then evens out loads with the other actors.
///
/// ```
/// use gridspan_balance::{MakeStrategy, Border, Strategy};
///
/// assert_eq!(Border.make(7).name(), "border"); // with the seed of the job
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct Border;

/// Maximum ratio of a PE's wide-area messages, or of its load, to its share.
const SLACK: f64 = 1.03;
/// Weight of a wide-area message. The room of a PE is rounded down to a whole weight, which loses
/// less than a thousandth of a message.
const PARTS: u64 = 1000;

impl Strategy for Border {
    fn name(&self) -> &'static str {
        "border"
    }

    fn plan(&mut self, snapshot: &Snapshot) -> Plan {
        let capacity = Capacity::of(snapshot);
        let mut wide_area = vec![0_u64; snapshot.actors.len()];
        for edge in snapshot.wide_area_edges() {
            for end in [edge.from, edge.to] {
                let sum = &mut wide_area[end as usize];
                *sum = sum.saturating_add(edge.messages.saturating_mul(PARTS)).min(1 << 50);
            }
        }
        let mut pe_of: Vec<u32> = snapshot.actors.iter().map(|actor| actor.pe.0).collect();
        spread(snapshot, &capacity, &wide_area, |at| wide_area[at] > 0, &mut pe_of);
        spread(snapshot, &capacity, &capacity.works, |at| wide_area[at] == 0, &mut pe_of);
        let mapping: Vec<PeId> = pe_of.into_iter().map(PeId).collect();
        Plan::to_mapping(snapshot, &mapping)
    }
}

/// Evens out `weights` over the PEs of each site by moving the actors for which `is_item` holds.
fn spread(
    snapshot: &Snapshot,
    capacity: &Capacity,
    weights: &[u64],
    is_item: impl Fn(usize) -> bool,
    pe_of: &mut [u32],
) {
    let pes = snapshot.pes.len();
    let sites: Vec<u32> = snapshot.layout.pes().map(|pe| snapshot.layout.site_of(pe).0).collect();
    let count = snapshot.layout.site_count() as usize;
    let (mut loads, mut items) = (vec![0.0; pes], Vec::new());
    let (mut site_loads, mut site_shares) = (vec![0.0; count], vec![0.0; count]);
    for (at, actor) in snapshot.actors.iter().enumerate() {
        let pe = pe_of[at] as usize;
        loads[pe] += weights[at] as f64;
        site_loads[sites[pe] as usize] += weights[at] as f64;
        if actor.migratable && is_item(at) {
            items.push((weights[at], at as u32));
        }
    }
    for pe in 0..pes {
        site_shares[sites[pe] as usize] += capacity.shares[pe];
    }
    let target = |pe: usize| {
        let site = sites[pe] as usize;
        if site_shares[site] > 0.0 {
            site_loads[site] * capacity.shares[pe] / site_shares[site]
        } else {
            loads[pe]
        }
    };
    let targets = (0..pes).map(target).collect();
    let closed = vec![false; pes];
    let may_leave_site = false;
    LoadEvening { pe_of, items, loads, targets, slack: SLACK, sites, may_leave_site, closed }.run();
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::snapshot;
    use crate::snapshot::Edge;

    #[test]
    fn border_actors_are_spread_and_no_actor_changes_its_site() {
        // Actors 0 to 3 on PE 0 talk to actors 8 to 11 on PE 2; the others talk to no actor.
        let mut snapshot = snapshot(&[0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3, 3]);
        snapshot.edges =
            (0..4).map(|n| Edge { from: n, to: n + 8, messages: 1, bytes: 1 }).collect();
        snapshot.actors.iter_mut().for_each(|a| a.load = std::time::Duration::from_millis(1));

        let mapping = Border.plan(&snapshot).mapping(&snapshot).unwrap();

        let on = |pe: u32, range: std::ops::Range<usize>| {
            mapping[range].iter().filter(|mapped| mapped.0 == pe).count()
        };
        assert_eq!([on(0, 0..4), on(1, 0..4), on(2, 8..12), on(3, 8..12)], [2, 2, 2, 2]);
        assert_eq!([on(0, 0..8), on(1, 0..8)], [4, 4], "loads are even too");
        for (pe, actor) in mapping.iter().zip(&snapshot.actors) {
            assert_eq!(snapshot.layout.site_of(*pe), snapshot.layout.site_of(actor.pe));
        }
    }
}
