//! `mirror`: `grid-cut`, and second seats for the pure actors between the sites.
//!
//! A pure actor that talks with two sites is computed at both. What is left is cut as `grid-cut` does, without the work of
//! these: both sites have it, so it does not count for where the cut goes. Then each site gives its PEs the seats that come
//! on top, the heaviest first, to whom has most room, as long as the one that has the actor already does not.

use crate::capacity::Capacity;
use crate::grid_cut::GridCut;
use crate::plan::Plan;
use crate::snapshot::{ActorKey, Edge, Snapshot, Twin};
use crate::strategy::Strategy;
use gridspan_topology::{PeId, SiteId};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// Cuts by sites and computes what is between them twice.
#[derive(Clone, Debug)]
pub struct Mirror {
    cut: GridCut,
}

/// Which actors are between sites depends on the cut, and the cut on which work it leaves out. So often at most.
const ROUNDS: u32 = 3;
/// A PE that has an actor keeps it as long as it has no more than this above its share.
const TOLERANCE: f64 = 0.01;

/// Pure actors between two sites: position, the site of the first seat and that of the second.
type Between = BTreeMap<u32, (SiteId, SiteId)>;

impl Mirror {
    /// The cut throws dice with this seed.
    pub fn new(seed: u64) -> Self {
        Self { cut: GridCut::new(seed) }
    }

    /// Where actors are after a cut, and who is between sites then.
    fn cut(&mut self, snapshot: &Snapshot) -> Option<(Vec<PeId>, Between)> {
        let mut mapping = self.cut.plan(snapshot).mapping(snapshot).ok()?;
        let mut between = between(snapshot, &mapping);
        for _ in 0..ROUNDS {
            if between.is_empty() {
                break;
            }
            let mut rest = snapshot.clone();
            between.keys().for_each(|&at| rest.actors[at as usize].load = Duration::ZERO);
            mapping = self.cut.plan(&rest).mapping(&rest).ok()?;
            let next = self::between(snapshot, &mapping);
            let is_settled = next.keys().eq(between.keys());
            between = next;
            if is_settled {
                break;
            }
        }
        Some((mapping, between))
    }
}

impl Strategy for Mirror {
    fn name(&self) -> &'static str {
        "mirror"
    }

    fn plan(&mut self, snapshot: &Snapshot) -> Plan {
        let Some((mut mapping, between)) = self.cut(snapshot) else { return Plan::none() };
        let seconds = place_seats(snapshot, &mut mapping, &between);
        let wanted = twins(snapshot, &mapping, &seconds);
        let mut plan = Plan::to_mapping(snapshot, &mapping);
        let moving: BTreeSet<ActorKey> = plan.moves.iter().map(|step| step.actor).collect();
        let has = |twins: &[Twin], twin: &Twin| {
            twins
                .binary_search_by_key(&twin.actor, |twin| twin.actor)
                .is_ok_and(|at| twins[at] == *twin)
        };
        let is_kept = |twin: &&Twin| has(&snapshot.twins, twin) && !moving.contains(&twin.actor);
        plan.begin = wanted.iter().filter(|twin| !is_kept(twin)).cloned().collect();
        let is_over = |twin: &&Twin| !moving.contains(&twin.actor) && !has(&wanted, twin);
        plan.end = snapshot.twins.iter().filter(is_over).cloned().collect();
        plan
    }
}

/// The pure actors that hear from one site and tell another something in most steps, and talk with no third.
fn between(snapshot: &Snapshot, mapping: &[PeId]) -> Between {
    let site = |at: u32| snapshot.layout.site_of(mapping[at as usize]);
    let often = |edge: &&Edge| edge.messages.saturating_mul(2) >= snapshot.step_count();
    let pure: BTreeSet<u32> = snapshot.pure.iter().copied().collect();
    let mut heard: BTreeMap<u32, BTreeSet<SiteId>> = BTreeMap::new();
    let mut told: BTreeMap<u32, BTreeSet<SiteId>> = BTreeMap::new();
    for edge in snapshot.edges.iter().filter(often) {
        if pure.contains(&edge.to) {
            heard.entry(edge.to).or_default().insert(site(edge.from));
        }
        if pure.contains(&edge.from) {
            told.entry(edge.from).or_default().insert(site(edge.to));
        }
    }
    let mut found = Between::new();
    for (at, heard) in heard {
        let Some(told) = told.get(&at) else { continue };
        let all: Vec<SiteId> = heard.union(told).copied().collect();
        let &[a, b] = &all[..] else { continue };
        // Whoever only gathers, or only hands out, has no crossing to save.
        let is_cycle = heard.len() + told.len() > 2;
        let actor = &snapshot.actors[at as usize];
        if is_cycle && actor.migratable {
            let home = snapshot.layout.site_of(actor.pe);
            found.insert(at, if home == b { (b, a) } else { (a, b) });
        }
    }
    found
}

/// Finds PEs for both seats of actors between sites. First seats are entered in `mapping`; returns the second.
fn place_seats(
    snapshot: &Snapshot,
    mapping: &mut [PeId],
    between: &Between,
) -> BTreeMap<u32, PeId> {
    let Capacity { works, shares } = Capacity::of(snapshot);
    let work = |at: u32| works[at as usize] as f64;
    let mut busy = vec![0.0; shares.len()];
    for at in (0..mapping.len() as u32).filter(|at| !between.contains_key(at)) {
        busy[mapping[at as usize].index()] += work(at);
    }
    let ends = |&(a, b): &(SiteId, SiteId)| [(a, true), (b, false)];
    let seats = between.iter().flat_map(|(&at, sites)| ends(sites).map(|end| (at, end)));
    let mut seats: Vec<(u32, (SiteId, bool))> = seats.collect();
    seats.sort_by_key(|&(at, end)| (Reverse(works[at as usize]), at, end));
    let mut fair = BTreeMap::new();
    for site in snapshot.layout.sites() {
        let pes = || snapshot.layout.pes_in(site).map(|pe| pe as usize);
        let more = seats.iter().filter(|seat| seat.1.0 == site).map(|seat| work(seat.0));
        let all = pes().map(|pe| busy[pe]).sum::<f64>() + more.sum::<f64>();
        let share: f64 = pes().map(|pe| shares[pe]).sum();
        fair.insert(site, all / share.max(f64::MIN_POSITIVE));
    }
    let mut seconds = BTreeMap::new();
    for (at, (site, is_first)) in seats {
        let full =
            |pe: u32| (busy[pe as usize] + work(at)) / shares[pe as usize].max(f64::MIN_POSITIVE);
        let now = present_seat(snapshot, at, site);
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

/// Where an actor sits at a site now.
fn present_seat(snapshot: &Snapshot, at: u32, site: SiteId) -> Option<PeId> {
    let actor = &snapshot.actors[at as usize];
    let twin = snapshot.twins.binary_search_by_key(&actor.id, |twin| twin.actor).ok();
    let second = twin.map(|twin| snapshot.twins[twin].at);
    std::iter::once(actor.pe).chain(second).find(|&pe| snapshot.layout.site_of(pe) == site)
}

/// The second seats, each of which serves those at its own site.
fn twins(snapshot: &Snapshot, mapping: &[PeId], seconds: &BTreeMap<u32, PeId>) -> Vec<Twin> {
    let site = |pe: PeId| snapshot.layout.site_of(pe);
    let mut served: BTreeMap<u32, BTreeSet<ActorKey>> = BTreeMap::new();
    for edge in &snapshot.edges {
        if let Some(&at) = seconds.get(&edge.from)
            && site(mapping[edge.to as usize]) == site(at)
        {
            served.entry(edge.from).or_default().insert(snapshot.actors[edge.to as usize].id);
        }
    }
    let twin = |(at, serves): (u32, BTreeSet<ActorKey>)| Twin {
        actor: snapshot.actors[at as usize].id,
        at: seconds[&at],
        serves: serves.into_iter().collect(),
    };
    let mut twins: Vec<Twin> = served.into_iter().map(twin).collect();
    twins.sort_by_key(|twin| twin.actor);
    twins
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cost::CostModel;
    use crate::seats::predict_with;
    use crate::study::{by_hash, leanmd, snapshot_of, with_wide_area};
    use gridspan_topology::Layout;

    /// Molecules whose 3,024 pair actors are pure, over a link of 128 ms one way.
    fn molecules(pes: u32) -> Snapshot {
        let layout = Layout::new(vec![("a".to_owned(), vec![pes]), ("b".to_owned(), vec![pes])]);
        let snapshot = snapshot_of(&leanmd(6, 31), layout, &by_hash(3240, 2 * pes));
        let mut snapshot = with_wide_area(snapshot, Duration::from_millis(128));
        snapshot.pure = (216..3240).collect();
        snapshot
    }

    fn carried_out(snapshot: &Snapshot, plan: &Plan) -> Snapshot {
        let mut after = snapshot.clone();
        let mapping = plan.mapping(snapshot).unwrap();
        after.actors.iter_mut().zip(mapping).for_each(|(actor, pe)| actor.pe = pe);
        after.twins = plan.twins(snapshot);
        after
    }

    #[test]
    fn molecules_wait_for_one_crossing_instead_of_two_and_all_pes_are_even() {
        let snapshot = molecules(64);
        let mut mirror = Mirror::new(1);
        let plan = mirror.plan(&snapshot);
        assert_eq!(plan.validate(&snapshot), Ok(()));

        let twins = plan.twins(&snapshot);
        let mapping = plan.mapping(&snapshot).unwrap();
        let model = CostModel::default();
        let one = GridCut::new(1).plan(&snapshot).mapping(&snapshot).unwrap();
        let without = predict_with(&snapshot, &one, &[], &model);
        let with = predict_with(&snapshot, &mapping, &twins, &model);

        // Two planes between the sites, each crossed by 9 of the pairs of its 36 cells (research/balance-report.md).
        assert!((600..=720).contains(&twins.len()), "{} twins", twins.len());
        assert!(without.step > Duration::from_millis(256), "{:?}", without.step);
        assert!(with.round_trip < Duration::from_millis(128 + 80), "{:?}", with.round_trip);
        // 14 s on 128 PEs, and 18 to 21 % more.
        let [mean, busiest] = [with.mean, with.compute].map(|time| time.as_secs_f64());
        assert!((0.125..0.140).contains(&mean), "{mean} s");
        assert!(busiest < mean * 1.03, "{busiest} s after {mean} s");
    }

    #[test]
    fn what_is_mirrored_stays_as_it_is() {
        let snapshot = molecules(8);
        let after = carried_out(&snapshot, &Mirror::new(1).plan(&snapshot));

        let again = Mirror::new(1).plan(&after);

        assert!(again.changes() < 3240 / 20, "{} changes", again.changes());
    }

    #[test]
    fn second_seats_end_where_nothing_is_pure_any_more() {
        let snapshot = molecules(8);
        let mut after = carried_out(&snapshot, &Mirror::new(1).plan(&snapshot));
        after.pure.clear();

        let plan = Mirror::new(1).plan(&after);

        assert_eq!(plan.twins(&after), []);
        assert_eq!(plan.validate(&after), Ok(()));
    }
}
