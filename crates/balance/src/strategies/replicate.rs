//! `replicate`: `grid-cut`, and replicas for the deterministic actors between the sites.
//!
//! A deterministic actor that talks with two sites is computed at both, wherever it lives. So for
//! the cut over sites, the strategy divides the work of a deterministic actor equally among the
//! actors with which it talks, and the work counts at their sites. A second cut starts from these
//! sites, ignores the work of actors between sites, and places all other actors inside their sites.
//! Then each site places the replicas on its PEs, the heaviest first: on the PE that already has
//! the actor if that PE has room, otherwise on the PE with most room.

use crate::plan::Plan;
use crate::snapshot::{ActorKey, Edge, Replica, Snapshot};
use crate::strategies::capacity::Capacity;
use crate::strategies::grid_cut::GridCut;
use crate::strategies::strategy::Strategy;
use gridspan_topology::{PeId, SiteId};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

/// Cuts over sites, and computes actors between them at both.
///
/// ```
/// use gridspan_balance::{MakeStrategy, Replicate, Strategy};
///
/// assert_eq!(Replicate::default().make(7).name(), "replicate"); // with the seed of the job
/// ```
#[derive(Clone, Debug, Default)]
pub struct Replicate {
    cut: GridCut,
}

/// Part by which a PE may exceed its share and still keep an actor that it has.
const TOLERANCE: f64 = 0.02;

/// Sites of the replicas of each deterministic actor, by its position.
type Between = BTreeMap<u32, Vec<SiteId>>;

impl Replicate {
    /// Creates the strategy; `seed` is that of the cut's dice.
    pub fn new(seed: u64) -> Self {
        Self { cut: GridCut::new(seed) }
    }

    /// Returns the PEs of actors, and the replicas.
    fn place(&mut self, snapshot: &Snapshot) -> Option<(Vec<PeId>, Vec<Replica>)> {
        let folded = folded(snapshot);
        let mut mapping = self.cut.plan(&folded).mapping(&folded).ok()?;
        let site = |pe| snapshot.layout.site_of(pe);
        for (pe, actor) in mapping.iter_mut().zip(&snapshot.actors) {
            if site(*pe) == site(actor.pe) {
                *pe = actor.pe;
            }
        }
        let between =
            self::between(snapshot, &mapping).into_iter().filter(|(_, sites)| sites.len() > 1);
        let left_out: BTreeSet<u32> = between.map(|(at, _)| at).collect();
        let rest = without(snapshot, &mapping, &left_out);
        let mut mapping = self.cut.plan(&rest).mapping(&rest).ok()?;
        let between = self::between(snapshot, &mapping);
        let seconds = place_replicas(snapshot, &mut mapping, &between, &left_out);
        let replicas = replicas(snapshot, &mapping, &seconds);
        Some((mapping, replicas))
    }
}

/// Returns the snapshot with the work of deterministic actors divided among the actors with which
/// they talk in at least every second step.
fn folded(snapshot: &Snapshot) -> Snapshot {
    let deterministic: BTreeSet<u32> = snapshot.deterministic.iter().copied().collect();
    let mut partners: BTreeMap<u32, BTreeSet<u32>> = BTreeMap::new();
    for edge in often(snapshot) {
        for (deterministic, other) in [(edge.from, edge.to), (edge.to, edge.from)] {
            partners.entry(deterministic).or_default().insert(other);
        }
    }
    let speed = |at: u32| snapshot.pes[snapshot.actors[at as usize].pe.index()].speed;
    let mut folded = snapshot.clone();
    for (at, partners) in partners.iter().filter(|(at, _)| deterministic.contains(at)) {
        let actor = snapshot.actors[*at as usize];
        let own = &mut folded.actors[*at as usize].load;
        *own = own.saturating_sub(actor.load);
        for &partner in partners {
            let part = actor.scaled_load(speed(*at) / speed(partner) / partners.len() as f64);
            let sum = &mut folded.actors[partner as usize].load;
            *sum = sum.saturating_add(part);
        }
    }
    folded
}

/// Returns the edges that carry at least one message in two steps.
fn often(snapshot: &Snapshot) -> impl Iterator<Item = &Edge> {
    let edges = snapshot.edges.iter();
    edges.filter(|edge| edge.messages.saturating_mul(2) >= snapshot.step_count())
}

/// Returns the snapshot with actors placed by `mapping`, and without the work of those left out.
fn without(snapshot: &Snapshot, mapping: &[PeId], left_out: &BTreeSet<u32>) -> Snapshot {
    let mut rest = snapshot.clone();
    for (at, (actor, &pe)) in rest.actors.iter_mut().zip(mapping).enumerate() {
        let speed = |pe: PeId| snapshot.pes[pe.index()].speed;
        let is_out = left_out.contains(&(at as u32));
        let ratio = if is_out { 0.0 } else { speed(actor.pe) / speed(pe) };
        (actor.pe, actor.load) = (pe, actor.scaled_load(ratio));
    }
    rest
}

impl Strategy for Replicate {
    fn name(&self) -> &'static str {
        "replicate"
    }

    fn seed(&mut self, seed: u64) {
        self.cut.seed(seed);
    }

    fn plan(&mut self, snapshot: &Snapshot) -> Plan {
        let Some((mapping, wanted)) = self.place(snapshot) else { return Plan::none() };
        let mut plan = Plan::to_mapping(snapshot, &mapping);
        let moving: BTreeSet<ActorKey> = plan.moves.iter().map(|step| step.actor).collect();
        let has = |replicas: &[Replica], replica: &Replica| {
            replicas
                .binary_search_by_key(&replica.actor, |replica| replica.actor)
                .is_ok_and(|at| replicas[at] == *replica)
        };
        let is_kept = |replica: &&Replica| {
            has(&snapshot.replicas, replica) && !moving.contains(&replica.actor)
        };
        plan.begin = wanted.iter().filter(|replica| !is_kept(replica)).cloned().collect();
        let is_over =
            |replica: &&Replica| !moving.contains(&replica.actor) && !has(&wanted, replica);
        plan.end = snapshot.replicas.iter().filter(is_over).cloned().collect();
        plan
    }
}

/// Returns the sites at which deterministic actors should live, for those that should not stay as
/// they are. An actor that talks with two sites in at least every second step gets both, the site
/// of its primary first, unless it only passes messages on from one to the other. An actor that
/// talks with one site and lives at another gets the site with which it talks.
fn between(snapshot: &Snapshot, mapping: &[PeId]) -> Between {
    let site = |at: u32| snapshot.layout.site_of(mapping[at as usize]);
    let deterministic: BTreeSet<u32> = snapshot.deterministic.iter().copied().collect();
    let mut heard: BTreeMap<u32, BTreeSet<SiteId>> = BTreeMap::new();
    let mut told: BTreeMap<u32, BTreeSet<SiteId>> = BTreeMap::new();
    for edge in often(snapshot) {
        if deterministic.contains(&edge.to) {
            heard.entry(edge.to).or_default().insert(site(edge.from));
        }
        if deterministic.contains(&edge.from) {
            told.entry(edge.from).or_default().insert(site(edge.to));
        }
    }
    let mut found = Between::new();
    for (at, heard) in heard {
        let Some(told) = told.get(&at) else { continue };
        let all: Vec<SiteId> = heard.union(told).copied().collect();
        let actor = &snapshot.actors[at as usize];
        // An actor that has a replica keeps its primary; one that gets a replica lives where the
        // cut placed it.
        let home = match replica_of(snapshot, actor.id) {
            Some(_) => snapshot.layout.site_of(actor.pe),
            None => site(at),
        };
        let sites = match all[..] {
            [one] if one != home => vec![one],
            // An actor that only passes messages on from one site to the other has no crossing to
            // save.
            [_, _] if heard.len() + told.len() == 2 => continue,
            [a, b] if home == b => vec![b, a],
            [a, b] => vec![a, b],
            _ => continue,
        };
        if actor.migratable {
            found.insert(at, sites);
        }
    }
    found
}

/// Finds PEs for both replicas of actors between sites, and for the actors that the cut has left
/// out. Enters primaries in `mapping` and returns the second replicas.
fn place_replicas(
    snapshot: &Snapshot,
    mapping: &mut [PeId],
    between: &Between,
    left_out: &BTreeSet<u32>,
) -> BTreeMap<u32, PeId> {
    let Capacity { works, shares } = Capacity::of(snapshot);
    let work = |at: u32| works[at as usize] as f64;
    let mut busy = vec![0.0; shares.len()];
    let mut replicas: Vec<(u32, (SiteId, bool))> = Vec::new();
    for at in 0..mapping.len() as u32 {
        let pe = mapping[at as usize];
        match between.get(&at) {
            Some(sites) => {
                replicas.extend(sites.iter().enumerate().map(|(n, &site)| (at, (site, n == 0))));
            }
            None if left_out.contains(&at) => {
                replicas.push((at, (snapshot.layout.site_of(pe), true)));
            }
            None => busy[pe.index()] += work(at),
        }
    }
    replicas.sort_by_key(|&(at, end)| (Reverse(works[at as usize]), at, end));
    let mut fair = BTreeMap::new();
    for site in snapshot.layout.sites() {
        let pes = || snapshot.layout.pes_in(site).map(|pe| pe as usize);
        let more =
            replicas.iter().filter(|replica| replica.1.0 == site).map(|replica| work(replica.0));
        let all = pes().map(|pe| busy[pe]).sum::<f64>() + more.sum::<f64>();
        let share: f64 = pes().map(|pe| shares[pe]).sum();
        fair.insert(site, all / share.max(f64::MIN_POSITIVE));
    }
    let mut seconds = BTreeMap::new();
    for (at, (site, is_first)) in replicas {
        let full =
            |pe: u32| (busy[pe as usize] + work(at)) / shares[pe as usize].max(f64::MIN_POSITIVE);
        let now = present_replica(snapshot, at, site);
        let kept = now.filter(|pe| full(pe.0) <= fair[&site] * (1.0 + TOLERANCE));
        let emptiest = || snapshot.layout.pes_in(site).min_by(|&a, &b| full(a).total_cmp(&full(b)));
        let Some(pe) = kept.or_else(|| emptiest().map(PeId)) else { continue };
        busy[pe.index()] += work(at);
        if is_first {
            mapping[at as usize] = pe;
        } else {
            seconds.insert(at, pe);
        }
    }
    seconds
}

fn replica_of(snapshot: &Snapshot, actor: ActorKey) -> Option<&Replica> {
    let at = snapshot.replicas.binary_search_by_key(&actor, |replica| replica.actor).ok()?;
    snapshot.replicas.get(at)
}

/// Returns the PE at a site that has the actor or its replica now.
fn present_replica(snapshot: &Snapshot, at: u32, site: SiteId) -> Option<PeId> {
    let actor = &snapshot.actors[at as usize];
    let second = replica_of(snapshot, actor.id).map(|replica| replica.at);
    std::iter::once(actor.pe).chain(second).find(|&pe| snapshot.layout.site_of(pe) == site)
}

/// Returns the replicas, each of which serves the actors at its site.
fn replicas(snapshot: &Snapshot, mapping: &[PeId], seconds: &BTreeMap<u32, PeId>) -> Vec<Replica> {
    let site = |pe: PeId| snapshot.layout.site_of(pe);
    let mut served: BTreeMap<u32, BTreeSet<ActorKey>> = BTreeMap::new();
    // The primary serves the actors to which a replica seldom sends, so that a rare message does
    // not end the replica.
    let often = |edge: &&Edge| edge.messages.saturating_mul(2) >= snapshot.step_count();
    for edge in snapshot.edges.iter().filter(often) {
        if let Some(&at) = seconds.get(&edge.from)
            && site(mapping[edge.to as usize]) == site(at)
        {
            served.entry(edge.from).or_default().insert(snapshot.actors[edge.to as usize].id);
        }
    }
    let replica = |(at, serves): (u32, BTreeSet<ActorKey>)| Replica {
        actor: snapshot.actors[at as usize].id,
        at: seconds[&at],
        serves: serves.into_iter().collect(),
    };
    let mut replicas: Vec<Replica> = served.into_iter().map(replica).collect();
    replicas.sort_by_key(|replica| replica.actor);
    replicas
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cost::CostModel;
    use crate::cost::replicas::predict_with;
    use crate::fixtures::{by_hash, leanmd, snapshot_of, with_wide_area};
    use gridspan_topology::Layout;
    use std::time::Duration;

    /// Molecules with 896 deterministic pair actors, over a link with a latency of 128 ms.
    fn molecules(pes: u32) -> Snapshot {
        let layout = Layout::new(vec![("a".to_owned(), vec![pes]), ("b".to_owned(), vec![pes])]);
        let snapshot = snapshot_of(&leanmd(4, 31), layout, &by_hash(960, 2 * pes));
        let mut snapshot = with_wide_area(snapshot, Duration::from_millis(128));
        snapshot.deterministic = (64..960).collect();
        snapshot
    }

    fn carried_out(snapshot: &Snapshot, plan: &Plan) -> Snapshot {
        let mut after = snapshot.clone();
        let mapping = plan.mapping(snapshot).unwrap();
        after.actors.iter_mut().zip(mapping).for_each(|(actor, pe)| actor.pe = pe);
        after.replicas = plan.replicas(snapshot);
        after
    }

    #[test]
    fn molecules_wait_for_one_crossing_instead_of_two_and_all_pes_are_even() {
        let snapshot = molecules(16);
        let mut replicate = Replicate::new(1);
        let plan = replicate.plan(&snapshot);
        assert_eq!(plan.validate(&snapshot), Ok(()));
        let replicas = plan.replicas(&snapshot);
        let mapping = plan.mapping(&snapshot).unwrap();
        let model = CostModel::default();
        let one = GridCut::new(1).plan(&snapshot).mapping(&snapshot).unwrap();
        let without = predict_with(&snapshot, &one, &[], &model);
        let with = predict_with(&snapshot, &mapping, &replicas, &model);

        // Two planes between the sites, each crossed by 9 of the pairs of its 16 cells.
        assert!((280..=310).contains(&replicas.len()), "{} replicas", replicas.len());
        assert!(without.step > Duration::from_millis(256), "{:?}", without.step);
        assert!(with.round_trip < Duration::from_millis(128 + 80), "{:?}", with.round_trip);
        // 4.15 s on 32 PEs, and the work of the actors between sites once more.
        let [mean, busiest] = [with.mean, with.compute].map(|time| time.as_secs_f64());
        assert!((0.160..0.185).contains(&mean), "{mean} s");
        // A cell with its part of its pairs is 1.6 % of all work, more than the tolerance of the
        // cut over sites.
        assert!(busiest < mean * 1.06, "{busiest} s after {mean} s");
    }

    #[test]
    fn a_placement_with_replicas_is_kept() {
        let snapshot = molecules(4);
        let after = carried_out(&snapshot, &Replicate::new(1).plan(&snapshot));

        let again = Replicate::new(1).plan(&after);

        assert!(
            again.changes() < 960 / 20,
            "{} {} {} changes",
            again.moves.len(),
            again.begin.len(),
            again.end.len()
        );
    }

    #[test]
    fn loads_that_do_not_fit_become_the_longest_duration() {
        let mut snapshot = molecules(4);
        snapshot.actors.iter_mut().for_each(|actor| actor.load = Duration::MAX);
        snapshot.pes[0].speed = 1e300;

        let folded = folded(&snapshot);
        let rest = without(&snapshot, &[PeId(1); 960], &BTreeSet::new());

        // The first 64 actors are cells, which take the work of their pairs.
        assert!(folded.actors[..64].iter().all(|cell| cell.load == Duration::MAX));
        assert!(rest.actors.iter().all(|actor| actor.load == Duration::MAX));
    }

    #[test]
    fn replicas_end_if_no_actor_is_deterministic_any_more() {
        let snapshot = molecules(4);
        let mut after = carried_out(&snapshot, &Replicate::new(1).plan(&snapshot));
        after.deterministic.clear();

        let plan = Replicate::new(1).plan(&after);

        assert_eq!(plan.replicas(&after), []);
        assert_eq!(plan.validate(&after), Ok(()));
    }
}
