//! `grid-cut`: cuts the object graph, first over sites, then inside each site.
//!
//! Koenig and Kalé (2007), "Optimizing Distributed Application Performance Using Dynamic Grid
//! Topology-Aware Load Balancing", section 4.1, cut the object graph over sites by messages alone,
//! and then each site's objects over its PEs by load and messages. Here every level of the
//! hierarchy is a phase, and there are five differences, which measurements show to matter. Each
//! phase also balances load, with the capacity of each group as a real number. Groups keep their
//! actors where a move saves too little. Actors that cannot move hold the actors that talk to them.
//! The strategy compares a cut from scratch with an improvement of the present placement. Finally
//! it evens out imbalance that saves no messages.

use crate::cost::{CostModel, predict};
use crate::cutter::{Cut, CutError, Cutter, Graph, Tie};
use crate::plan::Plan;
use crate::snapshot::Snapshot;
use crate::snapshot::objects::{object_graph, pulls, tie};
use crate::strategies::capacity::Capacity;
use crate::strategies::groups::GroupTree;
use crate::strategies::local_search::LocalSearch;
use crate::strategies::strategy::Strategy;
use crate::strategies::tighten::{Crossing, tighten};
use gridspan_topology::PeId;

/// Cuts the object graph level by level.
///
/// ```
/// use gridspan_balance::{GridCut, Strategy};
///
/// assert_eq!(GridCut::default().name(), "grid-cut");
/// assert_eq!(GridCut::default().flat().name(), "flat-cut"); // without regard to sites
/// ```
#[derive(Clone, Debug)]
pub struct GridCut {
    seed: u64,
    /// Part of its share by which a PE's final load may exceed the share.
    tolerance: f64,
    /// Whether all PEs are parts of one cut, regardless of their sites.
    is_flat: bool,
}

/// Part of the tolerance that a phase above the last may use.
const UPPER_PART: f64 = 0.5;
/// Factor by which the value of staying is reduced in phases above the last, because messages
/// between groups cost more than messages inside.
const UPPER_PULL: u64 = 16;
/// Minimum tolerance of a phase, even where the phases above have used all of it.
const TOLERANCE_MIN: f64 = 0.002;
/// A cut from scratch must cost less than this fraction of the cost of an improved present
/// placement, since a smaller difference may be chance.
const SCRATCH_WORTH: f64 = 0.98;
/// A cycle between sites that takes at least this part of a step may, with its waits, take as long
/// as the step.
const FELT: f64 = 0.75;
/// Maximum number of actors of a small graph. In larger graphs, a handler is a small part of a
/// step, and exchanging handlers gains little.
const SMALL: usize = 20_000;
/// Maximum number of parts for several cuts of a small graph, which then take little time.
const FEW_PARTS: usize = 8;
/// Maximum number of cuts from scratch of a small graph.
const ATTEMPTS: u64 = 4;
/// Maximum number of actors of a graph, and its number of V-cycles; larger graphs have none.
/// V-cycles improve the cuts of small graphs. Cuts of large graphs are good enough without them,
/// and a V-cycle takes long there.
const V_CYCLES: [(usize, u32); 2] = [(SMALL, 2), (200_000, 1)];

impl GridCut {
    /// Creates the strategy with a tolerance of 0.03 for each PE.
    pub fn new(seed: u64) -> Self {
        Self { seed, tolerance: 0.03, is_flat: false }
    }

    /// Cuts over all PEs at once, without regard to distances: the baseline of Koenig and Kalé
    /// (2007).
    #[must_use]
    pub fn flat(mut self) -> Self {
        self.is_flat = true;
        self
    }
}

impl Default for GridCut {
    fn default() -> Self {
        Self::new(0)
    }
}

impl Strategy for GridCut {
    fn name(&self) -> &'static str {
        if self.is_flat { "flat-cut" } else { "grid-cut" }
    }

    fn seed(&mut self, seed: u64) {
        self.seed = seed;
    }

    fn plan(&mut self, snapshot: &Snapshot) -> Plan {
        let capacity = Capacity::of(snapshot);
        let Ok(graph) = object_graph(snapshot, &capacity.works) else { return Plan::none() };
        let pulls = pulls(snapshot.actors.iter(), &graph);
        let mut phases = Phases {
            snapshot,
            pulls,
            shares: capacity.shares,
            total: graph.total_load() as f64,
            tolerance: self.tolerance,
            upper_pull: UPPER_PULL,
            seed: self.seed,
            start: None,
            mapping: snapshot.actors.iter().map(|actor| actor.pe).collect(),
        };
        let names: Vec<u32> = (0..graph.len() as u32).collect();
        let tree = match self.is_flat {
            true => GroupTree::of_pes((0..snapshot.pes.len() as u32).collect()),
            false => GroupTree::of(snapshot),
        };
        phases.place(&tree, &graph, &names);
        let site = |pe| if self.is_flat { 0 } else { snapshot.layout.site_of(pe).0 };
        let sites: Vec<u32> = snapshot.layout.pes().map(site).collect();
        phases.search_locally(&graph, &sites, tree.pes());
        phases.exchange_handlers(&graph, &sites);
        Plan::to_mapping(snapshot, &phases.mapping)
    }
}

/// The phases of a cut. Placement and local search use only the snapshot's layout, the PEs of its
/// actors, and whether these actors may move.
pub(crate) struct Phases<'a> {
    pub(crate) snapshot: &'a Snapshot,
    pub(crate) pulls: Vec<u64>,
    pub(crate) shares: Vec<f64>,
    pub(crate) total: f64,
    pub(crate) tolerance: f64,
    /// Factor by which the value of staying is reduced in phases above the last.
    pub(crate) upper_pull: u64,
    pub(crate) seed: u64,
    /// A mapping to improve; `None` to cut from scratch and also improve the present placement.
    pub(crate) start: Option<&'a [PeId]>,
    pub(crate) mapping: Vec<PeId>,
}

impl Phases<'_> {
    /// Places the actors `names`, whose object graph is `graph`, on PEs of a group.
    pub(crate) fn place(&mut self, group: &GroupTree, graph: &Graph, names: &[u32]) {
        let parts = group.parts();
        let part_of_pe = group.part_of_pe(self.shares.len());
        if parts.len() <= 1 {
            if let Some(&pe) = group.pes().first() {
                names.iter().for_each(|&name| self.mapping[name as usize] = PeId(pe));
            }
            return;
        }
        let is_last = parts.iter().all(|part| part.pes().len() == 1);
        let divisor = if is_last { 1 } else { self.upper_pull };
        let ties: Vec<Tie> = names
            .iter()
            .map(|&name| {
                let actor = &self.snapshot.actors[name as usize];
                let home = part_of_pe[actor.pe.index()];
                tie(home, self.pulls[name as usize] / divisor, actor.migratable)
            })
            .collect();
        let start = self.start.map(|start| {
            let part = |&name: &u32| part_of_pe[start[name as usize].index()].unwrap_or(0);
            names.iter().map(part).collect::<Vec<u32>>()
        });
        let cut = self.cut(group, &parts, graph, &ties, start.as_deref());
        let Ok(cut) = cut else { return };
        for (number, part) in parts.iter().enumerate() {
            let inside: Vec<u32> = (0..names.len() as u32)
                .filter(|&vertex| cut.part[vertex as usize] == number as u32)
                .collect();
            let inner_names: Vec<u32> = inside.iter().map(|&v| names[v as usize]).collect();
            if part.pes().len() == 1 {
                let pe = PeId(part.pes()[0]);
                inner_names.iter().for_each(|&name| self.mapping[name as usize] = pe);
            } else {
                self.place(part, &graph.induced(&inside), &inner_names);
            }
        }
    }

    /// Levels the imbalance that the phases have left on these PEs, without more messages between
    /// sites. `sites` has the site of each PE.
    pub(crate) fn search_locally(&mut self, graph: &Graph, sites: &[u32], pes: &[u32]) {
        self.improve(graph, sites, pes, |mut search| search.run());
    }

    /// Separates actors that talk across sites from long handlers, if a step waits for these
    /// actors.
    fn exchange_handlers(&mut self, graph: &Graph, sites: &[u32]) {
        if self.mapping.len() <= SMALL && self.is_latency_felt() {
            let pes: Vec<u32> = (0..self.shares.len() as u32).collect();
            self.improve(graph, sites, &pes, |mut search| search.exchange_handlers());
        }
    }

    fn improve(
        &mut self,
        graph: &Graph,
        sites: &[u32],
        pes: &[u32],
        run: impl FnOnce(LocalSearch<'_>),
    ) {
        let actors = &self.snapshot.actors;
        let mut pe_of: Vec<u32> = self.mapping.iter().map(|pe| pe.0).collect();
        let mut targets = vec![0.0; self.shares.len()];
        for &pe in pes {
            targets[pe as usize] = self.shares[pe as usize] * self.total;
        }
        run(LocalSearch {
            graph,
            pe_of: &mut pe_of,
            homes: &actors.iter().map(|actor| actor.pe.0).collect::<Vec<_>>(),
            is_movable: &actors.iter().map(|actor| actor.migratable).collect::<Vec<_>>(),
            targets: &targets,
            sites,
        });
        self.mapping = pe_of.into_iter().map(PeId).collect();
    }

    /// Returns whether the longest cycle between sites takes about as long as a step.
    fn is_latency_felt(&self) -> bool {
        let predicted = predict(self.snapshot, &self.mapping, &CostModel::default());
        predicted.round_trip >= predicted.compute.mul_f64(FELT)
    }

    /// Returns the kind of the edges between the PEs of a group.
    fn crossing(&self, group: &GroupTree) -> Crossing {
        let mut sites = group.pes().iter().map(|&pe| self.snapshot.layout.site_of(PeId(pe)));
        let first = sites.next();
        if sites.all(|site| Some(site) == first) { Crossing::Near } else { Crossing::Scarce }
    }

    /// Returns the better of a cut from scratch and an improvement of the present placement; if
    /// there are `given` parts, an improvement of these.
    fn cut(
        &self,
        group: &GroupTree,
        parts: &[GroupTree],
        graph: &Graph,
        ties: &[Tie],
        given: Option<&[u32]>,
    ) -> Result<Cut, CutError> {
        let share = |pes: &[u32]| pes.iter().map(|&pe| self.shares[pe as usize]).sum::<f64>();
        let mut shares: Vec<f64> = parts.iter().map(|part| share(part.pes())).collect();
        if shares.iter().all(|share| *share <= 0.0) {
            shares.fill(1.0);
        }
        // The part of the tolerance that the phases above have used is not available.
        let fair = share(group.pes()) * self.total;
        let used = if fair > 0.0 { graph.total_load() as f64 / fair } else { 1.0 };
        let left = ((1.0 + self.tolerance) / used.max(1.0) - 1.0).max(TOLERANCE_MIN);
        let is_last = parts.iter().all(|part| part.pes().len() == 1);
        let tolerance = if is_last { left } else { left * UPPER_PART };
        let cycles = V_CYCLES.iter().find(|(vertices, _)| graph.len() <= *vertices);
        let cutter = Cutter::with_shares(shares.clone())
            .tolerance(tolerance)
            .ties(ties)
            .v_cycles(cycles.map_or(0, |(_, cycles)| *cycles))
            .seed(self.seed);
        let crossing = self.crossing(group);
        if let Some(given) = given {
            let improved = cutter.recut(graph, given)?;
            return Ok(tighten(&cutter, graph, ties, improved, crossing));
        }
        let cost = |cut: &Cut| {
            let away = ties.iter().zip(&cut.part).filter(|(tie, part)| tie.home != **part);
            cut.weight as f64 + away.map(|(tie, _)| tie.pull as f64).sum::<f64>()
        };
        let fits = |cut: &Cut| cut.obstacle.is_none() || cut.imbalance <= 1.0 + tolerance;
        let improved = match ties.iter().all(|tie| tie.pull == 0) {
            true => None,
            false => Some(cutter.recut(graph, &start(graph, ties, &shares))?),
        };
        let mut scratch = cutter.cut(graph)?;
        let is_small = graph.len() <= SMALL && parts.len() <= FEW_PARTS;
        // If the first attempt is not better than the improvement, further ones rarely are.
        let is_enough = |cut: &Cut| fits(cut) && !(fits(&scratch) && cost(&scratch) < cost(cut));
        let is_tried = is_small && !improved.as_ref().is_some_and(is_enough);
        for attempt in 1..if is_tried { ATTEMPTS } else { 1 } {
            let other = cutter.clone().seed(self.seed.wrapping_add(attempt)).cut(graph)?;
            if cost(&other) < cost(&scratch) && other.obstacle.is_none() {
                scratch = other;
            }
        }
        let Some(improved) = improved else {
            return Ok(tighten(&cutter, graph, ties, scratch, crossing));
        };
        let is_worth = cost(&scratch) < cost(&improved) * SCRATCH_WORTH;
        let better = match (fits(&scratch), fits(&improved)) {
            (true, false) => scratch,
            (false, true) => improved,
            _ if is_worth => scratch,
            _ => improved,
        };
        Ok(tighten(&cutter, graph, ties, better, crossing))
    }
}

/// Returns the present parts of actors. An actor from elsewhere gets the part of the placed actor
/// to which it has the heaviest edge, or the emptiest part if there is none.
fn start(graph: &Graph, ties: &[Tie], shares: &[f64]) -> Vec<u32> {
    const NOWHERE: u32 = u32::MAX;
    let mut start: Vec<u32> =
        ties.iter().map(|tie| if tie.pull == 0 { NOWHERE } else { tie.home }).collect();
    let mut loads = vec![0.0; shares.len()];
    for (&part, &load) in start.iter().zip(graph.loads()).filter(|(part, _)| **part != NOWHERE) {
        loads[part as usize] += load as f64;
    }
    for vertex in 0..graph.len() as u32 {
        if start[vertex as usize] != NOWHERE {
            continue;
        }
        let placed = graph.neighbours(vertex).filter(|edge| start[edge.0 as usize] != NOWHERE);
        let strongest = placed.max_by_key(|edge| edge.1).map(|edge| start[edge.0 as usize]);
        let emptiest = || {
            let fullness = |part: &usize| loads[*part] / shares[*part].max(f64::MIN_POSITIVE);
            (0..shares.len()).min_by(|a, b| fullness(a).total_cmp(&fullness(b))).unwrap_or(0) as u32
        };
        let part = strongest.unwrap_or_else(emptiest);
        start[vertex as usize] = part;
        loads[part as usize] += graph.load(vertex) as f64;
    }
    start
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::{by_hash, grid_2d, leanmd, snapshot_of};
    use gridspan_topology::Layout;

    fn two_sites(pes: u32) -> Layout {
        Layout::new(vec![("a".to_owned(), vec![pes]), ("b".to_owned(), vec![pes])])
    }

    fn messages_crossing(snapshot: &Snapshot) -> u64 {
        snapshot.wide_area_edges().map(|edge| edge.messages).sum()
    }

    fn carried_out(snapshot: &Snapshot, plan: &Plan) -> Snapshot {
        let mut after = snapshot.clone();
        let mapping = plan.mapping(snapshot).unwrap();
        after.actors.iter_mut().zip(mapping).for_each(|(actor, pe)| actor.pe = pe);
        after
    }

    fn imbalance(snapshot: &Snapshot) -> f64 {
        let loads: Vec<f64> = snapshot.load_per_pe().iter().map(|l| l.as_secs_f64()).collect();
        loads.iter().copied().fold(0.0, f64::max) * loads.len() as f64 / loads.iter().sum::<f64>()
    }

    #[test]
    fn hashed_molecules_get_a_planar_cut_between_sites_and_even_pes() {
        let objects = leanmd(6, 11);
        let snapshot = snapshot_of(&objects, two_sites(8), &by_hash(3240, 16));
        assert!(messages_crossing(&snapshot) > 5000);

        let after = carried_out(&snapshot, &GridCut::new(1).plan(&snapshot));

        // The planar cut has 1296 messages.
        assert!(messages_crossing(&after) <= 1340, "{} messages", messages_crossing(&after));
        // The fullest PE determines the time of a step where latency is hidden; `greedy` has 1.00
        // at any cost.
        assert!(imbalance(&after) <= 1.01, "{}", imbalance(&after));
    }

    #[test]
    fn a_good_placement_is_kept() {
        let objects = leanmd(6, 12);
        let snapshot = snapshot_of(&objects, two_sites(8), &by_hash(3240, 16));
        let after = carried_out(&snapshot, &GridCut::new(1).plan(&snapshot));

        let again = GridCut::new(2).plan(&after);

        assert!(again.moves.len() <= 3240 / 50, "{} moves", again.moves.len());
    }

    #[test]
    fn halves_of_a_grid_stay_at_their_sites() {
        let objects = grid_2d(20, 20);
        for flip in [0, 2] {
            let place: Vec<_> = (0..400).map(|at| PeId((at / 100) ^ flip)).collect();
            let snapshot = snapshot_of(&objects, two_sites(2), &place);

            let plan = GridCut::new(3).plan(&snapshot);

            assert!(plan.moves.len() <= 200, "{} moves", plan.moves.len());
            let site = |pe| snapshot.layout.site_of(pe);
            let crossing = plan.moves.iter().filter(|step| site(step.from) != site(step.to));
            assert!(crossing.count() <= 8);
        }
    }

    #[test]
    fn immovable_actors_stay_and_keep_their_neighbours() {
        let objects = grid_2d(16, 16);
        let mut snapshot = snapshot_of(&objects, two_sites(2), &by_hash(256, 4));
        for (at, actor) in snapshot.actors.iter_mut().enumerate() {
            // Half of the first column is fixed in site b, half of the last in site a.
            if !(8..248).contains(&at) {
                (actor.pe, actor.migratable) = (PeId(if at < 128 { 3 } else { 0 }), false);
            }
        }

        let plan = GridCut::new(1).plan(&snapshot);

        assert_eq!(plan.validate(&snapshot), Ok(()));
        let after = carried_out(&snapshot, &plan);
        let site_of = |at: usize| after.layout.site_of(after.actors[at].pe).0;
        assert_eq!((site_of(17), site_of(239)), (1, 0));
    }

    #[test]
    fn uneven_sites_get_work_in_proportion_to_their_speed() {
        let layout = Layout::new(vec![("a".to_owned(), vec![3]), ("b".to_owned(), vec![5])]);
        let snapshot = crate::fixtures::uneven(layout);

        crate::fixtures::check_shares(&snapshot, &GridCut::new(1).plan(&snapshot));
    }
}
