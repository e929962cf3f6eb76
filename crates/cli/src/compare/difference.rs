//! Differences of two profiles, those that explain most first.

use super::profile::{CountUnit, PairTraffic, PePlace, Profile, TimeKind};
use std::collections::{BTreeMap, BTreeSet};

/// A difference is at a place if at least this share of it is there.
const SHARE_OF_PLACE: f64 = 2.0 / 3.0;

/// A number of both recordings.
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

/// A kind of time: the mean of a PE, in nanoseconds.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct TimeDifference {
    /// The kind.
    pub(super) kind: TimeKind,
    /// The times.
    pub(super) ns: Both,
}

/// The traffic from one site to another.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct TrafficDifference {
    /// Names of the sites.
    pub(super) sites: [String; 2],
    /// Messages.
    pub(super) messages: Both,
    /// Bytes.
    pub(super) bytes: Both,
}

/// Something that the runtime did.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct CountDifference {
    /// What.
    pub(super) name: &'static str,
    /// Its unit.
    pub(super) unit: CountUnit,
    /// The numbers.
    pub(super) values: Both,
}

/// Where most of a difference is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// At no place in particular.
    Everywhere,
    /// At a site.
    Site(String),
    /// On a node.
    Node(String),
    /// On a PE.
    Pe(u32),
}

/// Returns the time of the jobs.
pub(super) fn ends(a: &Profile, b: &Profile) -> Both {
    Both { a: a.end_ns as f64, b: b.end_ns as f64 }
}

/// Returns the kinds of time that differ in the direction of the whole first, by size, and those
/// that differ in the other direction last.
pub(super) fn times(a: &Profile, b: &Profile) -> Vec<TimeDifference> {
    let kinds: BTreeSet<&TimeKind> =
        [a, b].into_iter().flat_map(|profile| &profile.pes).flat_map(|pe| pe.ns.keys()).collect();
    let direction = ends(a, b).difference();
    let row = |kind: &TimeKind| {
        let [a, b] = [a, b].map(|profile| profile.mean_ns(kind, |_| true));
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

/// Returns the traffic between sites, and inside of them, by the difference of bytes.
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

/// Returns the smallest place that has most of the difference of a kind of time. Places have the
/// same names in both recordings.
pub(super) fn place(kind: &TimeKind, a: &Profile, b: &Profile) -> Place {
    let places = || [a, b].into_iter().flat_map(|profile| &profile.pes).map(|pe| &pe.place);
    let most = |is_there: &dyn Fn(&PePlace) -> bool| {
        let difference = |is_there: &dyn Fn(&PePlace) -> bool| {
            let [a, b] = [a, b].map(|profile| profile.mean_ns(kind, is_there));
            b - a
        };
        let whole = difference(&|_| true);
        difference(is_there) * whole.signum() >= SHARE_OF_PLACE * whole.abs()
    };
    let mut found = Place::Everywhere;

    let sites: BTreeSet<&str> = places().map(|place| place.site.as_str()).collect();
    let Some(site) = sites.iter().find(|site| most(&|place| place.site == **site)) else {
        return found;
    };
    if sites.len() > 1 {
        found = Place::Site((*site).to_owned());
    }
    let there = || places().filter(|place| place.site == *site);
    let nodes: BTreeSet<&str> = there().map(|place| place.node.as_str()).collect();
    let is_on = |place: &PePlace, node: &str| place.site == *site && place.node == node;
    let Some(node) = nodes.iter().find(|node| most(&|place| is_on(place, node))) else {
        return found;
    };
    if nodes.len() > 1 {
        found = Place::Node((*node).to_owned());
    }
    let pes: BTreeSet<u32> =
        there().filter(|place| place.node == *node).map(|place| place.pe).collect();
    let pe = pes.iter().find(|pe| most(&|place| is_on(place, node) && place.pe == **pe));
    match pe {
        Some(pe) if pes.len() > 1 => Place::Pe(*pe),
        _ => found,
    }
}
