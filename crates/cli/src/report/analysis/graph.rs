//! The actors before and after one rebalance: where they ran, and the bytes between these places.
//!
//! The spans say where an actor ran: before the rebalance, the PE of its last span since the
//! previous rebalance; afterwards, the PE of its last span until the next one. An actor needs a
//! kept span on each side; the others are left out, since their places are not known. Bytes are
//! counted in two windows of equal length, directly before and after the rebalance.

use super::events::{Events, Rebalance};
use super::history::History;
use super::kinds::Kinds;
use super::places::Places;
use super::profile::Profile;
use super::traffic::Traffic;
use placed::{PlacedActor, actors};
use serde::Serialize;
use std::cmp::Reverse;
use std::collections::BTreeMap;

mod placed;

pub(crate) use placed::GraphSource;

/// Maximum number of regions: a reader cannot tell more of them apart in a picture. If there are
/// more places, the last region stands for all others.
const REGIONS_MAX: usize = 12;
/// Number of actors above which a dot stands for several of them.
const DOTS_MAX: usize = 600;
/// Maximum number of rows of the table of moves.
const GROUPS_MAX: usize = 500;
/// Name of the region for all others.
const OTHERS: &str = "others";

/// What the regions of a graph are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum RegionKind {
    /// Sites.
    Site,
    /// Nodes of the only site.
    Node,
    /// PEs of the only node.
    Pe,
}

impl RegionKind {
    /// Returns the largest kind of place of which the job has several.
    fn of(places: &Places) -> Self {
        match (places.site_count(), places.node_count()) {
            (2.., _) => Self::Site,
            (_, 2..) => Self::Node,
            _ => Self::Pe,
        }
    }

    fn number(self, places: &Places, pe: usize) -> usize {
        match self {
            Self::Site => places.site_of(pe),
            Self::Node => places.node_of(pe),
            Self::Pe => pe,
        }
    }

    fn name(self, places: &Places, number: usize) -> String {
        match self {
            Self::Site => places.site_name(number).to_owned(),
            Self::Node => places.node_label(number).to_owned(),
            Self::Pe => format!("PE {number}"),
        }
    }
}

/// A place of actors. Pairs have the values before and after the rebalance.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub(crate) struct Region {
    pub(crate) name: String,
    /// Number of actors there, of those whose places are known.
    pub(crate) actors: [usize; 2],
    /// Share of the time of its PEs that handlers took.
    pub(crate) busy_share: [Option<f64>; 2],
}

/// Bytes from one region to another one, before and after the rebalance.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct RegionLink {
    pub(crate) from: usize,
    pub(crate) to: usize,
    pub(crate) bytes: [f64; 2],
}

/// Actors of one type that moved between the same regions.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct MovedGroup {
    /// Name of their type.
    pub(crate) kind: String,
    /// Their region before; equal to `to` for a move between PEs of one region.
    pub(crate) from: usize,
    /// Their region afterwards.
    pub(crate) to: usize,
    pub(crate) actors: usize,
    /// Their time in handlers between the previous rebalance and this one, in kept spans.
    pub(crate) load_ns: u64,
}

/// One actor, or several with the same places.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Dot {
    /// Region before.
    pub(crate) from: usize,
    /// Region afterwards.
    pub(crate) to: usize,
    /// Whether their PE has changed.
    pub(crate) has_moved: bool,
    pub(crate) actors: usize,
    /// Their time in handlers, in kept spans, before and after.
    pub(crate) load_ns: [u64; 2],
}

/// The actors before and after the rebalance with the largest gain.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct RebalanceGraph {
    pub(crate) rebalance: Rebalance,
    pub(crate) region_kind: RegionKind,
    pub(crate) regions: Vec<Region>,
    /// The pairs of different regions between which bytes were sent.
    pub(crate) links: Vec<RegionLink>,
    /// Length of each of the two windows in which bytes and busy times count; `None` if a side has
    /// no whole column.
    pub(crate) window_ns: Option<u64>,
    /// Whether the bytes are estimates, because spans were dropped.
    pub(crate) are_bytes_estimated: bool,
    /// Actors whose places are known.
    pub(crate) actors_known: usize,
    /// Those of them that moved.
    pub(crate) moved_known: usize,
    /// The moves, the group with the most actors first.
    pub(crate) moves: Vec<MovedGroup>,
    pub(crate) dots: Vec<Dot>,
    /// Busy time of the busiest PE over the mean of all, before and after.
    pub(crate) unevenness: [Option<f64>; 2],
}

impl RebalanceGraph {
    /// The graph of the rebalance with the largest gain. `None` if no rebalance moved actors.
    pub(crate) fn of(source: GraphSource<'_>, events: &Events) -> Option<Self> {
        let GraphSource { places, profile, traffic, .. } = source;
        let (number, rebalance) = chosen(&events.rebalances)?;
        let earlier = number.checked_sub(1).and_then(|before| events.rebalances.get(before));
        let since_ns = earlier.map_or(0, moved_by).max(profile.active[0]);
        let before = [since_ns, rebalance.at_ns];
        let after = [moved_by(rebalance), rebalance.until_ns.min(profile.active[1])];
        let actors = actors(source, before, after);
        let region_kind = RegionKind::of(places);
        let (mut regions, region_of) = regions(places, region_kind, &actors);
        for actor in &actors {
            for (side, pe) in actor.pes.into_iter().enumerate() {
                regions[region_of[pe]].actors[side] += 1;
            }
        }
        let windows = windows(before, after, traffic.column_ns);
        let mut unevenness = [None; 2];
        for (side, window) in windows.iter().flatten().enumerate() {
            unevenness[side] = add_busy(&mut regions, &region_of, profile, *window, side);
        }
        let links = match region_kind {
            RegionKind::Site => windows.map(|it| links_of_sites(traffic, places, &region_of, it)),
            RegionKind::Node => windows.map(|it| links_of_nodes(source.history, &region_of, it)),
            // The sizes of messages inside of a process are not known.
            RegionKind::Pe => None,
        };
        Some(Self {
            rebalance: rebalance.clone(),
            region_kind,
            links: links.unwrap_or_default(),
            window_ns: windows.map(|[[from_ns, to_ns], _]| to_ns - from_ns),
            are_bytes_estimated: region_kind == RegionKind::Node && source.history.share < 1.0,
            actors_known: actors.len(),
            moved_known: actors.iter().filter(|actor| actor.has_moved()).count(),
            moves: moves(&actors, &region_of, source.kinds),
            dots: dots(&actors, &region_of),
            unevenness,
            regions,
        })
    }

    /// Whether the last region stands for all places without a separate region.
    pub(crate) fn has_others(&self) -> bool {
        let last = self.regions.last().filter(|_| self.regions.len() == REGIONS_MAX);
        last.is_some_and(|region| region.name == OTHERS)
    }
}

/// Returns the rebalance with the largest gain; if no gain is known, the one that moved the most
/// actors. Of equal ones, returns the first.
fn chosen(rebalances: &[Rebalance]) -> Option<(usize, &Rebalance)> {
    let gain = |rebalance: &Rebalance| rebalance.gain().unwrap_or(f64::NEG_INFINITY);
    rebalances
        .iter()
        .enumerate()
        .min_by(|(_, a), (_, b)| gain(b).total_cmp(&gain(a)).then_with(|| b.moved.cmp(&a.moved)))
}

/// Returns when the job went on after a rebalance.
fn moved_by(rebalance: &Rebalance) -> u64 {
    rebalance.at_ns.saturating_add(rebalance.took_ns)
}

/// Returns the regions, and the region of each PE. If there are too many, those with the most moves
/// and actors have a region each.
fn regions(places: &Places, kind: RegionKind, actors: &[PlacedActor]) -> (Vec<Region>, Vec<usize>) {
    let numbers: Vec<usize> = (0..places.pe_count()).map(|pe| kind.number(places, pe)).collect();
    // By number: moves, then actors.
    let mut weights: BTreeMap<usize, (usize, usize)> = BTreeMap::new();
    for number in &numbers {
        weights.entry(*number).or_default();
    }
    for actor in actors {
        for number in actor.pes.map(|pe| numbers[pe]) {
            let (moves, here) = weights.entry(number).or_default();
            *moves += usize::from(actor.has_moved());
            *here += 1;
        }
    }
    let mut ranking: Vec<(usize, (usize, usize))> = weights.into_iter().collect();
    ranking.sort_by_key(|(_, weight)| Reverse(*weight));
    let is_cut = ranking.len() > REGIONS_MAX;
    let own = if is_cut { REGIONS_MAX - 1 } else { ranking.len() };
    let mut shown: Vec<usize> = ranking.iter().take(own).map(|(number, _)| *number).collect();
    shown.sort_unstable();
    let region_of = numbers.iter().map(|number| shown.binary_search(number).unwrap_or(own));
    let region_of: Vec<usize> = region_of.collect();
    let names = shown.iter().map(|number| kind.name(places, *number));
    let names = names.chain(is_cut.then(|| OTHERS.to_owned()));
    (names.map(|name| Region { name, ..Region::default() }).collect(), region_of)
}

/// Returns windows of equal length directly before and after the rebalance, in whole columns.
/// `None` if a side has no whole column.
fn windows(before: [u64; 2], after: [u64; 2], column_ns: u64) -> Option<[[u64; 2]; 2]> {
    let columns = |[from_ns, to_ns]: [u64; 2]| [from_ns.div_ceil(column_ns), to_ns / column_ns];
    let ([first, end], [begin, last]) = (columns(before), columns(after));
    let count = end.saturating_sub(first).min(last.saturating_sub(begin));
    let ns = |column: u64| column.saturating_mul(column_ns);
    (count > 0).then(|| [[ns(end - count), ns(end)], [ns(begin), ns(begin + count)]])
}

/// Sets the busy shares of regions in a window, and returns the busy time of the busiest PE over
/// the mean.
fn add_busy(
    regions: &mut [Region],
    region_of: &[usize],
    profile: &Profile,
    [from_ns, to_ns]: [u64; 2],
    side: usize,
) -> Option<f64> {
    let [first, end] = [from_ns, to_ns].map(|ns| (ns / profile.column_ns) as usize);
    let mut sums = vec![(0.0, 0.0); regions.len()];
    let (mut most, mut all, mut count) = (0.0_f64, 0.0, 0.0);
    for (pe, times) in profile.recorded() {
        let columns = times.columns.iter().take(end).skip(first);
        let busy = columns.map(|times| times.busy_ns as f64).sum::<f64>();
        let (region_busy, pes) = &mut sums[region_of[pe]];
        (*region_busy, *pes) = (*region_busy + busy, *pes + 1.0);
        (most, all, count) = (most.max(busy), all + busy, count + 1.0);
    }
    let length = (to_ns - from_ns) as f64;
    for (region, (busy, pes)) in regions.iter_mut().zip(sums) {
        region.busy_share[side] = (pes > 0.0).then(|| busy / (pes * length));
    }
    (all > 0.0).then(|| most * count / all)
}

/// Sums of bytes by region.
type Sums = BTreeMap<(usize, usize), [f64; 2]>;

fn links(sums: Sums) -> Vec<RegionLink> {
    let used = sums
        .into_iter()
        .filter(|((from, to), bytes)| from != to && bytes.iter().any(|bytes| *bytes > 0.0));
    used.map(|((from, to), bytes)| RegionLink { from, to, bytes }).collect()
}

/// Returns the bytes between sites, as PEs have counted them.
fn links_of_sites(
    traffic: &Traffic,
    places: &Places,
    region_of: &[usize],
    windows: [[u64; 2]; 2],
) -> Vec<RegionLink> {
    // A site without PEs has no actors, and gets no bytes.
    let pes = (0..places.pe_count()).map(|pe| (places.site_of(pe), region_of[pe]));
    let region_of: BTreeMap<usize, usize> = pes.collect();
    let mut sums = Sums::new();
    for ((from, to), link) in &traffic.links {
        let (Some(from), Some(to)) = (region_of.get(from), region_of.get(to)) else { continue };
        let sum = sums.entry((*from, *to)).or_default();
        for (bytes, window) in sum.iter_mut().zip(windows) {
            let [first, end] = window.map(|ns| (ns / traffic.column_ns) as usize);
            let columns = link.columns.iter().take(end).skip(first);
            *bytes += columns.map(|bytes| *bytes as f64).sum::<f64>();
        }
    }
    links(sums)
}

/// Returns the bytes between nodes, estimated from the messages of kept spans.
fn links_of_nodes(
    history: &History<'_>,
    region_of: &[usize],
    windows: [[u64; 2]; 2],
) -> Vec<RegionLink> {
    let weight = if history.share > 0.0 { 1.0 / history.share } else { 1.0 };
    let mut sums = Sums::new();
    for (pe, known) in history.pes.iter().enumerate() {
        for cause in known.spans.iter().filter_map(|kept| kept.span.cause.as_ref()) {
            let is_in = |[from_ns, to_ns]: &[u64; 2]| (*from_ns..*to_ns).contains(&cause.sent_ns);
            let Some(side) = windows.iter().position(is_in) else { continue };
            let Some(from) = region_of.get(cause.pe as usize) else { continue };
            let sum = sums.entry((*from, region_of[pe])).or_default();
            sum[side] += weight * f64::from(cause.bytes);
        }
    }
    links(sums)
}

/// Returns the moves by type and regions, the group with the most actors first.
fn moves(actors: &[PlacedActor], region_of: &[usize], kinds: &Kinds) -> Vec<MovedGroup> {
    let mut sums: BTreeMap<(usize, [usize; 2]), (usize, u64)> = BTreeMap::new();
    for actor in actors.iter().filter(|actor| actor.has_moved()) {
        let key = (actor.kind, actor.pes.map(|pe| region_of[pe]));
        let (count, load_ns) = sums.entry(key).or_default();
        *count += 1;
        *load_ns = load_ns.saturating_add(actor.load_ns[0]);
    }
    let group = |((kind, [from, to]), (actors, load_ns)): ((usize, [usize; 2]), (usize, u64))| {
        MovedGroup { kind: kinds.name(kind).to_owned(), from, to, actors, load_ns }
    };
    let mut groups: Vec<MovedGroup> = sums.into_iter().map(group).collect();
    groups.sort_by_key(|group| Reverse(group.actors));
    groups.truncate(GROUPS_MAX);
    groups
}

/// Returns a dot for each actor, or for several with the same places if there are many. Those that
/// stay are first.
fn dots(actors: &[PlacedActor], region_of: &[usize]) -> Vec<Dot> {
    let mut by_places: BTreeMap<(bool, [usize; 2]), Vec<&PlacedActor>> = BTreeMap::new();
    for actor in actors {
        let key = (actor.has_moved(), actor.pes.map(|pe| region_of[pe]));
        by_places.entry(key).or_default().push(actor);
    }
    let each = actors.len().div_ceil(DOTS_MAX).max(1);
    let mut dots = Vec::new();
    for ((has_moved, [from, to]), actors) in by_places {
        for chunk in actors.chunks(each) {
            let load = |side: usize| {
                chunk.iter().map(|actor| actor.load_ns[side]).fold(0, u64::saturating_add)
            };
            let load_ns = [load(0), load(1)];
            dots.push(Dot { from, to, has_moved, actors: chunk.len(), load_ns });
        }
    }
    dots
}

#[cfg(test)]
mod tests;
