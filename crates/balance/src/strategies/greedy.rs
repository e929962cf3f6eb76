//! `greedy`: GreedyLB. Evens out loads, at any cost in messages and moves.

use crate::plan::Plan;
use crate::snapshot::Snapshot;
use crate::strategies::capacity::Capacity;
use crate::strategies::strategy::Strategy;
use gridspan_topology::PeId;
use std::collections::{BTreeMap, BTreeSet};

/// Places the heaviest actors first, each where it would end soonest. It considers only loads,
/// speeds and background (Charm++'s GreedyLB, the reference in Koenig and Kalé (2007), "Optimizing
/// Distributed Application Performance Using Dynamic Grid Topology-Aware Load Balancing", section
/// 5.2).
///
/// ```
/// use gridspan_balance::{MakeStrategy, Greedy, Strategy};
///
/// assert_eq!(Greedy.make(7).name(), "greedy"); // with the seed of the job
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct Greedy;

impl Strategy for Greedy {
    fn name(&self) -> &'static str {
        "greedy"
    }

    fn plan(&mut self, snapshot: &Snapshot) -> Plan {
        let works = Capacity::of(snapshot).works;
        let mut ends: Vec<f64> =
            snapshot.pes.iter().map(|pe| pe.background.as_nanos() as f64).collect();
        let mut movable: Vec<usize> = Vec::new();
        for (at, actor) in snapshot.actors.iter().enumerate() {
            if actor.migratable {
                movable.push(at);
            } else {
                let pe = actor.pe.index();
                ends[pe] += works[at] as f64 / snapshot.pes[pe].effective_speed();
            }
        }
        movable.sort_by_key(|&at| (std::cmp::Reverse(works[at]), at));
        // PEs of the same speed are ordered by their end; only the first of each speed can be best.
        let mut queues: BTreeMap<u64, BTreeSet<(u64, u32)>> = BTreeMap::new();
        for (pe, load) in snapshot.pes.iter().enumerate() {
            // Positive floating-point numbers sort like their bit patterns.
            let speed = load.effective_speed().to_bits();
            queues.entry(speed).or_default().insert((ends[pe].to_bits(), pe as u32));
        }
        let mut mapping: Vec<PeId> = snapshot.actors.iter().map(|actor| actor.pe).collect();
        for at in movable {
            let end = |(speed, queue): (&u64, &BTreeSet<(u64, u32)>)| {
                let &(end, pe) = queue.first()?;
                let speed = f64::from_bits(*speed);
                Some((f64::from_bits(end) + works[at] as f64 / speed, speed, end, pe))
            };
            let soonest = queues.iter().filter_map(end);
            let best = soonest.reduce(|a, b| if b.0 < a.0 { b } else { a });
            let Some((end, speed, before, pe)) = best else { break };
            if let Some(queue) = queues.get_mut(&speed.to_bits()) {
                queue.remove(&(before, pe));
                queue.insert((end.to_bits(), pe));
            }
            mapping[at] = PeId(pe);
        }
        Plan::to_mapping(snapshot, &mapping)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::snapshot;

    #[test]
    fn the_heaviest_actors_go_where_they_end_soonest() {
        // 1 to 8 ms; the heaviest cannot move and is on PE 3.
        let snapshot = snapshot(&[0, 0, 0, 0, 0, 0, 0, 3]);

        let mapping = Greedy.plan(&snapshot).mapping(&snapshot).unwrap();

        let mut loads = [0; 4];
        mapping.iter().zip(1..).for_each(|(pe, load)| loads[pe.index()] += load);
        assert_eq!(loads, [9, 9, 9, 9]);
    }

    #[test]
    fn a_fast_pe_gets_more() {
        let mut snapshot = snapshot(&[0; 41]);
        snapshot.pes[2].speed = 3.0;

        let mapping = Greedy.plan(&snapshot).mapping(&snapshot).unwrap();

        let load: usize = (0..41).filter(|&at| mapping[at].0 == 2).map(|at| at + 1).sum();
        // Half of 861, within one actor.
        assert!(load.abs_diff(430) < 42, "{load}");
    }
}
