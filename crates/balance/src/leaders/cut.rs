//! The two phases of `grid-cut`: the top cuts the coarse graph over sites, and each leader cuts its
//! site's actors over its PEs.

use super::note::{CoarseVertex, Part, Terms};
use crate::cutter::Graph;
use crate::snapshot::objects::weight_max;
use crate::snapshot::{ActorKey, ActorLoad, PeLoad, Snapshot};
use crate::strategies::grid_cut::Phases;
use crate::strategies::groups::GroupTree;
use gridspan_topology::{Layout, PeId, SiteId};
use std::collections::BTreeMap;
use std::time::Duration;

/// Fraction of its share by which a PE's load may exceed the share in the final cut.
const TOLERANCE: f64 = 0.03;
/// Fraction of its share by which a site's load may exceed the share: half of [`TOLERANCE`].
const SITE_TOLERANCE: f64 = 0.015;
/// Factor by which the value of staying is reduced in all phases but the last, because messages
/// between sites cost more than messages inside a site.
const SITE_PULL: u64 = 16;

/// Input of the two phases: the PEs of a job and the terms.
pub(super) struct Places<'a> {
    pub(super) layout: &'a Layout,
    pub(super) terms: &'a Terms,
    pub(super) seed: u64,
}

impl Places<'_> {
    /// Returns the target sites of the vertices of each site's part. The first round also cuts from
    /// scratch; later ones only improve.
    pub(super) fn cut_over_sites(&self, parts: &BTreeMap<u32, Part>, round: u32) -> Vec<Vec<u32>> {
        let sites = self.layout.site_count();
        let mut first = vec![0_u32; sites as usize + 1];
        for site in 0..sites {
            let vertices = parts.get(&site).map_or(0, |part| part.vertices.len());
            first[site as usize + 1] = first[site as usize] + vertices as u32;
        }
        let vertices =
            || parts.iter().flat_map(|(&site, part)| part.vertices.iter().map(move |v| (site, v)));
        let target = |vertex: &CoarseVertex| PeId(vertex.target.min(sites - 1));
        let actor = |(at, (site, vertex)): (usize, (u32, &CoarseVertex))| ActorLoad {
            id: ActorKey { collection: site, index: at as u128 },
            pe: if vertex.is_fixed { target(vertex) } else { PeId(site) },
            load: Duration::from_nanos(vertex.work),
            bytes: 0,
            migratable: !vertex.is_fixed,
            pace: None,
        };
        let actors: Vec<ActorLoad> = vertices().enumerate().map(actor).collect();
        let name = |site| self.layout.site_name(site).to_owned();
        let layout = Layout::new(self.layout.sites().map(|site| (name(site), vec![1])).collect());
        let pes = vec![PeLoad::default(); sites as usize];
        let snapshot = Snapshot::new(actors, Vec::new(), pes, layout);
        let start: Vec<PeId> = vertices().map(|(_, vertex)| target(vertex)).collect();
        let tree = GroupTree::of(&self.snapshot(Vec::new())).above_sites(self.layout);
        let share = |site| self.layout.pes_in(site).map(|pe| self.share(pe)).sum();
        let mut phases = Phases {
            snapshot: &snapshot,
            pulls: vertices().map(|(_, vertex)| vertex.pull / SITE_PULL).collect(),
            shares: self.layout.sites().map(share).collect(),
            total: self.terms.total,
            tolerance: SITE_TOLERANCE,
            upper_pull: 1,
            seed: self.seed,
            start: (round > 0).then_some(start.as_slice()),
            mapping: start.clone(),
        };
        let names: Vec<u32> = (0..snapshot.actors.len() as u32).collect();
        phases.place(&tree, &coarse_graph(parts, &first), &names);
        let of_site = |site: usize| first[site] as usize..first[site + 1] as usize;
        let targets = |site| phases.mapping[of_site(site)].iter().map(|pe| pe.0).collect();
        (0..sites as usize).map(targets).collect()
    }

    /// Returns the PE of each of the actors that a site will have. The graph `busy` is `graph` with
    /// the time for messages to other sites added to the actors' work.
    pub(super) fn cut_site(
        &self,
        site: u32,
        actors: Vec<ActorLoad>,
        (graph, busy): (&Graph, &Graph),
        pulls: Vec<u64>,
    ) -> Vec<PeId> {
        let pes: Vec<u32> = self.layout.pes_in(SiteId(site)).collect();
        let snapshot = self.snapshot(actors);
        let names: Vec<u32> = (0..snapshot.actors.len() as u32).collect();
        let mapping = snapshot.actors.iter().map(|actor| actor.pe).collect();
        let tree = GroupTree::of(&snapshot).within(&pes);
        let mut phases = Phases {
            snapshot: &snapshot,
            pulls,
            shares: self.terms.shares.clone(),
            total: self.terms.total,
            tolerance: TOLERANCE,
            upper_pull: SITE_PULL,
            seed: self.seed,
            start: None,
            mapping,
        };
        phases.place(&tree, graph, &names);
        phases.search_locally(busy, &vec![site; snapshot.pes.len()], &pes);
        phases.mapping
    }

    fn share(&self, pe: u32) -> f64 {
        self.terms.shares.get(pe as usize).copied().unwrap_or(0.0)
    }

    fn snapshot(&self, actors: Vec<ActorLoad>) -> Snapshot {
        let layout = self.layout.clone();
        let hierarchy = self.terms.hierarchy.clone();
        Snapshot { hierarchy, ..Snapshot::new(actors, vec![], self.terms.pes.clone(), layout) }
    }
}

/// Returns the graph of all parts. `first` has the number of the first vertex of each site.
fn coarse_graph(parts: &BTreeMap<u32, Part>, first: &[u32]) -> Graph {
    let vertex = |site: u32, number: u32| {
        let (begin, end) = (*first.get(site as usize)?, *first.get(site as usize + 1)?);
        begin.checked_add(number).filter(|&vertex| vertex < end)
    };
    let mut edges = Vec::new();
    for (&site, part) in parts {
        let inner = part.edges.iter().map(|&(a, b, weight)| (a, site, b, weight));
        let all = inner.chain(part.crossing.iter().copied());
        edges.extend(all.filter_map(|(a, other, b, weight)| {
            Some((vertex(site, a)?, vertex(other, b)?, weight))
        }));
    }
    let most = weight_max(edges.len());
    edges.iter_mut().for_each(|edge| edge.2 = edge.2.min(most));
    let vertices = || parts.values().flat_map(|part| &part.vertices);
    let loads_max = weight_max(vertices().count());
    let loads: Vec<u64> = vertices().map(|vertex| vertex.work.min(loads_max)).collect();
    Graph::new(&loads, &edges).unwrap_or_default()
}
