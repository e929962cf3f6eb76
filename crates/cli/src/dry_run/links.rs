//! The links of a grid that a job would run on, grouped by latency, bandwidth and other properties,
//! and the uplinks of its sites.

use crate::names::abbreviated;
use crate::quantity::digits;
use gridspan_topology::{Bandwidth, ByteCount, GridSpec, Link, NodeId, SiteId};
use serde::Serialize;
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// Largest number of groups; links of further ones are only counted.
const GROUPS_MAX: usize = 64;
/// Largest number of pairs that a group names; further ones are only counted.
const PAIRS_MAX: usize = 64;

/// What delays packets on the links.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum LinkKind {
    /// The emulator, in real time, between sites and between clusters.
    Emulated,
    /// The simulator, between all nodes.
    Simulated,
}

/// The links of a grid.
#[derive(Debug, Default)]
pub(super) struct LinkGroups {
    pub(super) groups: Vec<LinkGroup>,
    /// Number of links that are in no group, because there were too many groups.
    others: usize,
    /// The names of the sites that have an uplink of each rate. Empty for a single site, which uses
    /// none.
    uplinks: BTreeMap<Bandwidth, Vec<String>>,
}

/// Links with the same properties.
#[derive(Debug)]
pub(super) struct LinkGroup {
    link: Link,
    /// The first of the pairs.
    pairs: Vec<Pair>,
    /// Number of all pairs.
    count: usize,
}

/// The ends of a link: two sites, or twice the same site or cluster.
#[derive(Debug, PartialEq, Eq, Serialize)]
struct Pair {
    from: String,
    to: String,
    both_ways: bool,
}

impl LinkGroups {
    /// Groups the links of a grid at the start of a job.
    pub(super) fn of(spec: &GridSpec, kind: LinkKind) -> Self {
        let mut all = Self::default();
        for from in spec.layout().sites() {
            all.add_inside(spec, from, kind);
            for to in spec.layout().sites().skip(from.index() + 1) {
                let (there, back) = (spec.link_between(from, to), spec.link_between(to, from));
                if there == back {
                    all.add(there, || Pair::of(spec, [from, to], true));
                } else {
                    all.add(there, || Pair::of(spec, [from, to], false));
                    all.add(back, || Pair::of(spec, [to, from], false));
                }
            }
        }
        let has_others = spec.layout().site_count() > 1;
        for site in spec.layout().sites().filter(|_| has_others) {
            if let Some(rate) = spec.uplink(site) {
                let name = spec.layout().site_name(site).to_owned();
                all.uplinks.entry(rate).or_default().push(name);
            }
        }
        all
    }

    /// Adds the links between nodes of one site.
    fn add_inside(&mut self, spec: &GridSpec, site: SiteId, kind: LinkKind) {
        let mut clusters: BTreeMap<Option<u32>, Vec<NodeId>> = BTreeMap::new();
        for node in spec.layout().nodes_in(site) {
            clusters.entry(spec.cluster_of(node)).or_default().push(node);
        }
        let is_simulated = kind == LinkKind::Simulated;
        let outside = clusters.get(&None).map_or(0, Vec::len);
        if clusters.len() > 1 || (is_simulated && outside > 1) {
            self.add(spec.link_between(site, site), || Pair::of(spec, [site; 2], true));
        }
        if !is_simulated {
            return;
        }
        for (cluster, nodes) in &clusters {
            if let (&Some(cluster), &[first, second, ..]) = (cluster, &nodes[..]) {
                let site = spec.layout().site_name(site);
                let name = format!("{site}.{}", spec.cluster_name(cluster));
                let pair = Pair { from: name.clone(), to: name, both_ways: true };
                self.add(spec.link(first, second), || pair);
            }
        }
    }

    fn add(&mut self, link: &Link, pair: impl FnOnce() -> Pair) {
        if let Some(group) = self.groups.iter_mut().find(|group| group.link == *link) {
            group.count += 1;
            if group.pairs.len() < PAIRS_MAX {
                group.pairs.push(pair());
            }
        } else if self.groups.len() < GROUPS_MAX {
            self.groups.push(LinkGroup { link: *link, pairs: vec![pair()], count: 1 });
        } else {
            self.others += 1;
        }
    }

    /// Describes the links for people, a line for each group.
    pub(super) fn text(&self, kind: LinkKind) -> String {
        let what = match kind {
            LinkKind::Emulated => "emulated",
            LinkKind::Simulated => "simulated",
        };
        if self.groups.is_empty() {
            return format!("\nno {what} links\n");
        }
        let mut text = format!("\n{what} links, at the start:\n");
        for group in &self.groups {
            text += &format!("  {}  {}\n", describe(&group.link), group.names());
        }
        if self.others > 0 {
            text += &format!("  {} more links, with other properties\n", self.others);
        }
        for (rate, sites) in &self.uplinks {
            let sites = abbreviated(sites.iter().map(String::as_str));
            text += &format!("  uplink {rate}  {sites}\n");
        }
        text
    }

    /// Returns, for each rate of uplinks, the rate in bits per second and the sites.
    pub(super) fn uplinks_to_json(&self) -> impl Iterator<Item = Value> {
        self.uplinks
            .iter()
            .map(|(rate, sites)| json!({ "bandwidth_bps": rate.bits_per_second(), "sites": sites }))
    }
}

impl LinkGroup {
    fn names(&self) -> String {
        let names: Vec<String> = self.pairs.iter().map(Pair::name).collect();
        match names.first() {
            Some(first) if self.count > names.len() => {
                format!("{first} and {} more", self.count - 1)
            }
            _ => abbreviated(names.iter().map(String::as_str)),
        }
    }

    /// Returns the properties of the links, with units in their names, and the pairs. An unlimited
    /// value is `null`.
    pub(super) fn to_json(&self) -> Value {
        let Self { link, pairs, count } = self;
        let is_limited = |bandwidth: &Bandwidth| !bandwidth.is_unlimited();
        json!({
            "latency_ms": link.latency.duration().as_secs_f64() * 1e3,
            "bandwidth_bps":
                Some(link.bandwidth).filter(is_limited).map(Bandwidth::bits_per_second),
            "jitter_ms": link.jitter.as_secs_f64() * 1e3,
            "loss": link.loss,
            "queue_bytes":
                Some(link.queue_bytes).filter(|&bytes| bytes != Link::UNLIMITED_QUEUE),
            "reorder": link.reorder,
            "pairs": pairs,
            "count": count,
        })
    }
}

impl Pair {
    fn of(spec: &GridSpec, [from, to]: [SiteId; 2], both_ways: bool) -> Self {
        let name = |site| spec.layout().site_name(site).to_owned();
        Self { from: name(from), to: name(to), both_ways }
    }

    fn name(&self) -> String {
        let Self { from, to, both_ways } = self;
        match both_ways {
            true if from == to => format!("inside {from}"),
            true => format!("{from}-{to}"),
            false => format!("{from}>{to}"),
        }
    }
}

/// Describes a link in the words of a grid file.
fn describe(link: &Link) -> String {
    let mut text = format!("latency {}, bandwidth {}", link.latency, link.bandwidth);
    if !link.jitter.is_zero() {
        text += &format!(", jitter {:?}", link.jitter);
    }
    if link.loss > 0.0 {
        text += &format!(", loss {}%", digits(link.loss * 100.0));
    }
    if link.queue_bytes != Link::UNLIMITED_QUEUE {
        text += &format!(", queue {}", ByteCount(link.queue_bytes));
    }
    if link.reorder {
        text += ", reorders";
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_of_equal_numbers_are_one_line() {
        let spec = GridSpec::from_emulate("3x2,wan=32ms,loss=0.1%").unwrap();
        let groups = LinkGroups::of(&spec, LinkKind::Emulated);
        assert_eq!((groups.groups.len(), groups.groups[0].count), (1, 3));
        let text = groups.text(LinkKind::Emulated);
        assert!(
            text.contains("latency 32ms, bandwidth 1gbit, loss 0.100%  a-b, a-c, b-c\n"),
            "{text}"
        );
        let text = LinkGroups::of(&spec, LinkKind::Simulated).text(LinkKind::Simulated);
        assert!(text.contains("inside a, inside b, inside c\n"), "{text}");
    }

    #[test]
    fn uplinks_of_equal_rates_are_one_line() {
        let grid = |sites: &str| GridSpec::from_toml(sites).unwrap();
        let site = |name: &str, uplink: &str| {
            format!("[site.{name}]\nhosts = [\"{name}1\"]\nuplink = \"{uplink}\"\n")
        };
        let text = site("a", "2gbit") + &site("b", "1gbit") + &site("c", "2gbit");
        let spec = grid(&(text + &site("d", "unlimited")));
        let groups = LinkGroups::of(&spec, LinkKind::Emulated);
        let text = groups.text(LinkKind::Emulated);
        assert!(text.ends_with("  uplink 1gbit  b\n  uplink 2gbit  a, c\n"), "{text}");
        let first = groups.uplinks_to_json().next();
        assert_eq!(first, Some(json!({ "bandwidth_bps": 1_000_000_000, "sites": ["b"] })));
        // A single site has no traffic with others.
        let groups = LinkGroups::of(&grid(&site("a", "2gbit")), LinkKind::Emulated);
        assert_eq!(groups.text(LinkKind::Emulated), "\nno emulated links\n");
    }

    #[test]
    fn directions_and_clusters_are_told_apart() {
        let spec = GridSpec::from_toml(
            "[site.a.cluster.x]\nhosts = [\"x[1-2]\"]\n[site.a.cluster.y]\nhosts = [\"y1\"]\n\
             [site.b]\nhosts = [\"b1\"]",
        );
        let (slow, fast) = (Link::wan(), Link::lan());
        let spec = spec.unwrap().with_link(SiteId(0), SiteId(1), slow);
        let spec = spec.with_lan(fast);
        let mut back = spec;
        back.set_link(SiteId(1), SiteId(0), fast);
        let groups = LinkGroups::of(&back, LinkKind::Simulated);
        let names = |link: Link| -> Vec<String> {
            let of_link = groups.groups.iter().filter(|group| group.link == link);
            of_link.flat_map(|group| group.pairs.iter().map(Pair::name)).collect()
        };
        assert_eq!(names(slow), ["a>b"]);
        assert!(names(fast).contains(&"b>a".to_owned()), "{groups:?}");
        assert!(names(fast).contains(&"inside a".to_owned()), "{groups:?}");
        let emulated = LinkGroups::of(&back, LinkKind::Emulated);
        let inside = emulated.groups.iter().flat_map(|group| &group.pairs);
        let inside = inside.filter(|pair| pair.from == pair.to).count();
        assert_eq!(inside, 1, "clusters use the network of the machine");
    }
}
