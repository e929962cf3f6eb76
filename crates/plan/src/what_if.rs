//! Other grids to compare with: other latencies and bandwidths, one site more or one less.

use gridspan_topology::{Bandwidth, GridSpec, GridSpecError, Latency, Link, NodeId, SiteId};
use std::time::Duration;

/// A change of a grid.
///
/// ```
/// use gridspan_plan::Variation;
/// use gridspan_topology::{GridSpec, SiteId};
///
/// let grid = GridSpec::from_emulate("2x4,wan=20ms")?;
/// let far = Variation::Latency(2.0).of(&grid).unwrap();
/// assert_eq!(far.link_between(SiteId(0), SiteId(1)).latency.to_string(), "40ms");
/// let more = Variation::OneMoreSite.of(&grid).unwrap();
/// assert_eq!(more.layout().pe_count(), 12);
/// # Ok::<(), gridspan_topology::EmulateError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum Variation {
    /// The latency of each link between sites, times this factor.
    Latency(f64),
    /// The bandwidth of each link between sites, and of each uplink, times this factor.
    Bandwidth(f64),
    /// With a copy of the last site, which is as far from the last site as the site before it. Not
    /// possible if the grid would have too many sites, hosts, PEs or planned changes.
    OneMoreSite,
    /// Without the last site.
    OneSiteLess,
}

impl Variation {
    /// Returns the changed grid; `None` if the change has no effect on this grid, or is not
    /// possible.
    pub fn of(self, grid: &GridSpec) -> Option<GridSpec> {
        let sites = grid.layout().site_count();
        match self {
            Self::Latency(factor) if sites > 1 => {
                let is_far = |link: &Link| !link.latency.duration().is_zero();
                changed(grid, is_far, |link| link.with_latency(times(link.latency, factor)))
            }
            Self::Bandwidth(factor) if sites > 1 => with_bandwidths(grid, factor),
            Self::OneMoreSite => one_more(grid).ok(),
            Self::OneSiteLess if sites > 1 => {
                let last: Vec<NodeId> = grid.layout().nodes_in(SiteId(sites - 1)).collect();
                grid.without(&last)
            }
            _ => None,
        }
    }
}

fn times(latency: Latency, factor: f64) -> Latency {
    let seconds = latency.duration().as_secs_f64() * factor;
    Latency(Duration::try_from_secs_f64(seconds).unwrap_or(Link::MAX_DELAY).min(Link::MAX_DELAY))
}

/// Multiplies the bandwidths of links between sites, and of uplinks; `None` if all are unlimited.
fn with_bandwidths(grid: &GridSpec, factor: f64) -> Option<GridSpec> {
    let other = |rate: Bandwidth| {
        let bits = rate.bits_per_second() as f64 * factor;
        Bandwidth::from_bits_per_second(bits.max(1.0) as u64)
    };
    let is_limited = |link: &Link| !link.bandwidth.is_unlimited();
    let mut after = changed(grid, is_limited, |link| link.with_bandwidth(other(link.bandwidth)));
    for site in grid.layout().sites() {
        if let Some(rate) = grid.uplink(site) {
            after.get_or_insert_with(|| grid.clone()).set_uplink(site, Some(other(rate)));
        }
    }
    after
}

/// Applies `change` to the links between sites that `concerns` selects; `None` if there are none.
fn changed(
    grid: &GridSpec,
    concerns: impl Fn(&Link) -> bool,
    change: impl Fn(&Link) -> Link,
) -> Option<GridSpec> {
    let mut after = grid.clone();
    let mut has_changed = false;
    for from in grid.layout().sites() {
        for to in grid.layout().sites().filter(|to| *to != from) {
            let link = grid.link_between(from, to);
            if concerns(link) {
                after.set_link(from, to, change(link));
                has_changed = true;
            }
        }
    }
    has_changed.then_some(after)
}

/// Adds a copy of the last site.
fn one_more(grid: &GridSpec) -> Result<GridSpec, GridSpecError> {
    let layout = grid.layout();
    let names: Vec<&str> = layout.sites().map(|site| layout.site_name(site)).collect();
    let fresh = (1..).map(|n| format!("more{n}")).find(|name| !names.contains(&name.as_str()));
    // The copy is as far from the other sites as the last site is. A single site has no links.
    let last = SiteId(layout.site_count() - 1);
    let between = match last.0.checked_sub(1) {
        Some(before) => *grid.link_between(SiteId(before), last),
        None => Link::wan(),
    };
    grid.with_copy(last, &fresh.unwrap_or_default(), "-more", between)
}

#[cfg(test)]
mod tests {
    use super::*;
    use gridspan_topology::Time;

    #[test]
    fn a_site_more_is_as_far_away_as_the_last_one() {
        let grid = GridSpec::from_emulate("3x2,wan=20ms,speed=1:1/2").unwrap();
        let far = grid.link_between(SiteId(0), SiteId(2)).with_latency(Latency::from_millis(70));
        let grid = grid.with_link(SiteId(0), SiteId(2), far);

        let more = Variation::OneMoreSite.of(&grid).unwrap();

        let latency = |from, to| more.link_between(SiteId(from), SiteId(to)).latency.to_string();
        assert_eq!(more.layout().site_count(), 4);
        assert_eq!([latency(0, 3), latency(3, 0), latency(2, 3)], ["70ms", "20ms", "20ms"]);
        assert_eq!(more.speed(NodeId(7)), grid.speed(NodeId(5)));
        let less = Variation::OneSiteLess.of(&more).unwrap();
        assert_eq!(less.layout().pe_count(), 6);
        assert_eq!(less.link_between(SiteId(0), SiteId(2)), &far);
    }

    #[test]
    fn a_grid_with_a_site_more_keeps_its_clusters_and_planned_changes() {
        let text = "timeline = [\"at 60s link a-b rate=10mbit\"]\n\
                    [site.a]\nhosts = [\"a1\"]\n\
                    [site.b.cluster.x]\nhosts = [\"b1\"]\nlan = { latency = \"5us\" }\n";
        let grid = GridSpec::from_toml(text).unwrap();

        let more = Variation::OneMoreSite.of(&grid).unwrap();

        for node in [1, 2].map(NodeId) {
            assert_eq!(more.link(node, node).latency, Latency::from_micros(5));
            let later = more.link_at(Time(61_000_000_000), NodeId(0), node);
            assert_eq!(later.bandwidth.to_string(), "10mbit");
        }
    }

    #[test]
    fn a_bandwidth_is_that_of_links_and_of_uplinks() {
        let rates = |text: &str| {
            let twice = Variation::Bandwidth(2.0).of(&GridSpec::from_emulate(text).unwrap());
            let twice = twice.unwrap();
            let uplink = twice.uplink(SiteId(1)).map(|rate| rate.to_string());
            (twice.link_between(SiteId(0), SiteId(1)).bandwidth.to_string(), uplink)
        };
        let limited = |rate: &str, uplink: &str| (rate.to_owned(), Some(uplink.to_owned()));
        assert_eq!(rates("2x1,rate=3mbit"), ("6mbit".to_owned(), None));
        assert_eq!(rates("2x1,rate=3mbit,uplink=4mbit"), limited("6mbit", "8mbit"));
        assert_eq!(rates("2x1,rate=unlimited,uplink=4mbit"), limited("unlimited", "8mbit"));
    }

    #[test]
    fn what_has_no_effect_is_no_variation() {
        let single = GridSpec::single(4);
        let all = [Variation::Latency(2.0), Variation::Bandwidth(2.0), Variation::OneSiteLess];
        assert!(all.iter().all(|variation| variation.of(&single).is_none()));
        assert!(Variation::OneMoreSite.of(&single).is_some());
    }
}
