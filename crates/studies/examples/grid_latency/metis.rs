//! METIS as a strategy, as in Koenig and Kalé (2007): onto all PEs at once, or in two phases.

use crate::Graph;
use crate::oracle::Oracle;
use gridspan_balance::{Plan, Snapshot, Strategy};
use gridspan_topology::PeId;

/// Cuts from scratch at each rebalance, ignoring the current places of actors.
#[derive(Clone)]
pub(crate) struct Metis {
    pub(crate) seed: u64,
    /// Whether to cut into sites first, without regard to loads, and then within each site.
    pub(crate) has_two_phases: bool,
}

impl Strategy for Metis {
    fn name(&self) -> &'static str {
        if self.has_two_phases { "metis-two-phase" } else { "metis" }
    }

    fn seed(&mut self, seed: u64) {
        self.seed = seed;
    }

    fn plan(&mut self, snapshot: &Snapshot) -> Plan {
        let loads: Vec<u64> =
            snapshot.actors.iter().map(|actor| actor.load.as_nanos() as u64).collect();
        let edges = snapshot.edges.iter().map(|edge| (edge.from, edge.to, edge.messages));
        let graph = Graph::new(&loads, &edges.collect::<Vec<_>>()).expect("a snapshot is a graph");
        let pes = snapshot.layout.pe_count();
        let part = match self.has_two_phases {
            false => Oracle::new(&graph).k_way(pes, self.seed, true).0,
            true => self.in_two_phases(&graph, snapshot.layout.site_count(), pes),
        };
        // Parts are mapped to PEs by number, as METIS returns them.
        let mapping: Vec<PeId> = part.into_iter().map(PeId).collect();
        Plan::to_mapping(snapshot, &mapping)
    }
}

impl Metis {
    /// Returns the PE of each actor. Sites must have equal numbers of PEs, numbered site by site.
    fn in_two_phases(&self, graph: &Graph, sites: u32, pes: u32) -> Vec<u32> {
        let inside = pes / sites;
        let site_of = Oracle::new(graph).k_way(sites, self.seed, false).0;
        let mut pe_of = vec![0; graph.len()];
        for site in 0..sites {
            let members: Vec<u32> =
                (0..graph.len() as u32).filter(|&at| site_of[at as usize] == site).collect();
            let part = Oracle::new(&graph.induced(&members)).k_way(inside, self.seed, true).0;
            for (&member, part) in members.iter().zip(part) {
                pe_of[member as usize] = site * inside + part;
            }
        }
        pe_of
    }
}
