//! Differences of two profiles, the most important first.

use super::profile::{CountUnit, PairTraffic, PePlace, PeTime, Profile, TimeKind};
use std::collections::{BTreeMap, BTreeSet};

/// Minimum share of a difference that a place must have to be named.
const SHARE_OF_PLACE: f64 = 2.0 / 3.0;

/// A number in both recordings.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Both {
    /// In the first one.
    pub(super) a: f64,
    /// In the second one.
    pub(super) b: f64,
}

impl Both {
    /// By how much the second one is larger.
    pub(super) fn difference(self) -> f64 {
        self.b - self.a
    }

    /// The difference in percent of the first one; `None` if that is zero.
    pub(super) fn percent(self) -> Option<f64> {
        (self.a != 0.0).then(|| 100.0 * self.difference() / self.a.abs())
    }
}

/// A kind of time: the mean over the PEs, in nanoseconds.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct TimeDifference {
    pub(super) kind: TimeKind,
    pub(super) ns: Both,
}

/// The traffic from one site to another.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct TrafficDifference {
    /// Names of the sites.
    pub(super) sites: [String; 2],
    pub(super) messages: Both,
    pub(super) bytes: Both,
}

/// A count of what the runtime did, in both recordings.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct CountDifference {
    pub(super) name: &'static str,
    pub(super) unit: CountUnit,
    pub(super) values: Both,
}

/// Where most of a difference is.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Place {
    /// At no place in particular.
    Everywhere,
    Site(String),
    Node(String),
    Pe(u32),
}

/// Returns the time of the jobs.
pub(super) fn ends(a: &Profile, b: &Profile) -> Both {
    Both { a: a.end_ns as f64, b: b.end_ns as f64 }
}

/// Returns the kinds of time by their difference: first those that differ in the direction of the
/// whole, the largest first, then the others.
pub(super) fn times(a: &Profile, b: &Profile) -> Vec<TimeDifference> {
    let kinds: BTreeSet<&TimeKind> =
        [a, b].into_iter().flat_map(|profile| &profile.pes).flat_map(|pe| pe.ns.keys()).collect();
    let direction = ends(a, b).difference();
    let row = |kind: &TimeKind| {
        let [a, b] = [a, b].map(|profile| profile.mean_ns(kind));
        TimeDifference { kind: kind.clone(), ns: Both { a, b } }
    };
    let mut rows: Vec<TimeDifference> = kinds.into_iter().map(row).collect();
    let explained = |row: &TimeDifference| match direction {
        0.0 => row.ns.difference().abs(),
        _ => row.ns.difference() * direction.signum(),
    };
    rows.sort_by(|a, b| explained(b).total_cmp(&explained(a)));
    rows
}

/// Returns the traffic between sites and inside of them, with the largest difference in bytes
/// first.
pub(super) fn traffic(a: &Profile, b: &Profile) -> Vec<TrafficDifference> {
    let pairs: BTreeSet<&[String; 2]> = a.traffic.keys().chain(b.traffic.keys()).collect();
    let of = |traffic: &BTreeMap<[String; 2], PairTraffic>, sites: &[String; 2]| {
        traffic.get(sites).copied().unwrap_or_default()
    };
    let row = |sites: &[String; 2]| {
        let (a, b) = (of(&a.traffic, sites), of(&b.traffic, sites));
        TrafficDifference {
            sites: sites.clone(),
            messages: Both { a: a.messages as f64, b: b.messages as f64 },
            bytes: Both { a: a.bytes as f64, b: b.bytes as f64 },
        }
    };
    let mut rows: Vec<TrafficDifference> = pairs.into_iter().map(row).collect();
    let size = |row: &TrafficDifference| row.bytes.difference().abs();
    rows.sort_by(|a, b| size(b).total_cmp(&size(a)));
    rows
}

/// Returns what the runtime did in either recording, in the order of profiles.
pub(super) fn counts(a: &Profile, b: &Profile) -> Vec<CountDifference> {
    let rows = a.counts.iter().zip(&b.counts).map(|(a, b)| CountDifference {
        name: a.name,
        unit: a.unit,
        values: Both { a: a.value as f64, b: b.value as f64 },
    });
    rows.filter(|row| row.values != Both { a: 0.0, b: 0.0 }).collect()
}

/// Returns the smallest place that has most of the difference of a kind of time. Places with equal
/// names in the two recordings count as the same place.
pub(super) fn place(kind: &TimeKind, a: &Profile, b: &Profile) -> Place {
    let levels: [fn(&PePlace) -> Place; 3] = [
        |pe| Place::Site(pe.site.clone()),
        |pe| Place::Node(pe.node.clone()),
        |pe| Place::Pe(pe.pe),
    ];
    // Each PE's part of the difference of the means.
    let mut parts: Vec<(&PePlace, f64)> = vec![];
    for (profile, sign) in [(a, -1.0), (b, 1.0)] {
        let pes = profile.pes.len().max(1) as f64;
        let ns = |pe: &PeTime| pe.ns.get(kind).copied().unwrap_or_default();
        parts.extend(profile.pes.iter().map(|pe| (&pe.place, sign * ns(pe) / pes)));
    }
    let whole: f64 = parts.iter().map(|(_, ns)| ns).sum();
    let mut found = Place::Everywhere;
    for level in levels {
        let mut sums: BTreeMap<Place, f64> = BTreeMap::new();
        for (pe, ns) in &parts {
            *sums.entry(level(pe)).or_default() += ns * whole.signum();
        }
        let largest = sums.iter().max_by(|(_, a), (_, b)| a.total_cmp(b));
        let Some((place, _)) = largest.filter(|(_, ns)| **ns >= SHARE_OF_PLACE * whole.abs())
        else {
            break;
        };
        if sums.len() > 1 {
            found = place.clone();
        }
        parts.retain(|(pe, _)| level(pe) == *place);
    }
    found
}
