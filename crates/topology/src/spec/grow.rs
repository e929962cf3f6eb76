//! Adds nodes and sites to grids.

use crate::id::{NodeId, SiteId};
use crate::link::Link;
use crate::spec::grid::GridSpec;
use crate::spec::site::{HostSpec, SiteSpec};
use crate::spec::stored::{GridSpecError, Parts};
use crate::spec::timeline::{Change, TimelineError};

impl GridSpec {
    /// Returns the grid with one more node on each of these hosts, which are given with the names
    /// of their sites. A new node becomes the last of its site. A new site becomes the last of the
    /// grid: the link inside it is that of the first site, and its links to other sites are the
    /// grid's `wan`.
    ///
    /// The numbers of nodes of later sites change. So this also returns the new number of each
    /// node: first those of the old nodes, by their old numbers, then those of the new ones.
    ///
    /// # Errors
    ///
    /// [`GridSpecError`] if the name of a site or a host is invalid, if nodes of one host at two
    /// sites would have the same port, or if there are too many sites, hosts or PEs.
    ///
    /// ```
    /// use gridspan_topology::{GridSpec, HostSpec, NodeId};
    ///
    /// let grid = GridSpec::from_emulate("2x1,wan=8ms").expect("a shape and a latency");
    /// let (grid, numbers) = grid.with_nodes(&[("a".to_owned(), HostSpec::new("a2", 1))])?;
    /// assert_eq!(numbers, [0, 2, 1].map(NodeId));
    /// assert_eq!(grid.host(NodeId(1)), "a2");
    /// # Ok::<(), gridspan_topology::GridSpecError>(())
    /// ```
    pub fn with_nodes(
        self,
        nodes: &[(String, HostSpec)],
    ) -> Result<(Self, Vec<NodeId>), GridSpecError> {
        let lan = *self.link_between(SiteId(0), SiteId(0));
        let mut parts = Parts::from(self);
        // The site of each node, and its position there.
        let mut places: Vec<(usize, usize)> = Vec::new();
        for (at, site) in parts.sites.iter().enumerate() {
            places.extend((0..site.hosts.len()).map(|position| (at, position)));
        }
        for (name, host) in nodes {
            let known = parts.sites.iter().position(|site| site.name == *name);
            let at = known.unwrap_or_else(|| {
                parts.sites.push(SiteSpec::new(name.clone(), vec![], lan));
                parts.sites.len() - 1
            });
            let hosts = &mut parts.sites[at].hosts;
            places.push((at, hosts.len()));
            hosts.push(host.clone());
        }
        let mut first = Vec::with_capacity(parts.sites.len());
        let mut before = 0;
        for site in &parts.sites {
            first.push(before);
            before += site.hosts.len();
        }
        let number = |&(site, position): &(usize, usize)| NodeId::from(first[site] + position);
        let numbers: Vec<NodeId> = places.iter().map(number).collect();
        for load in &mut parts.foreign_loads {
            load.node = numbers[load.node.index()];
        }
        Ok((Self::try_from(parts)?, numbers))
    }

    /// Returns the grid with a copy of a site, which becomes the last site. The copy has the hosts
    /// of the site (with `suffix` added to their names), its clusters, its uplink, its links to all
    /// other sites, and the changes of these links, but no foreign load. `between` is the link
    /// between the site and its copy. Panics if the grid has no such site.
    ///
    /// # Errors
    ///
    /// [`GridSpecError`] if the name of the copy is invalid or in use, if the name of one of its
    /// hosts is invalid, if `suffix` is empty but the site sets ports, or if there are too many
    /// sites, hosts, PEs or changes.
    ///
    /// ```
    /// use gridspan_topology::{GridSpec, Link, NodeId, SiteId};
    ///
    /// let grid = GridSpec::from_emulate("2x1,wan=8ms").expect("a shape and a latency");
    /// let grid = grid.with_copy(SiteId(1), "c", "-too", Link::wan())?;
    /// assert_eq!(grid.host(NodeId(2)), "b1-too");
    /// assert_eq!(grid.link_between(SiteId(0), SiteId(2)).latency.to_string(), "8ms");
    /// # Ok::<(), gridspan_topology::GridSpecError>(())
    /// ```
    pub fn with_copy(
        &self,
        of: SiteId,
        name: &str,
        suffix: &str,
        between: Link,
    ) -> Result<Self, GridSpecError> {
        let copy = SiteId(self.layout.site_count());
        let mut parts = Parts::from(self.clone());
        let mut site = parts.sites[of.index()].clone();
        name.clone_into(&mut site.name);
        site.hosts.iter_mut().for_each(|host| host.name.push_str(suffix));
        parts.sites.push(site);
        let mut grid = Self::try_from(parts)?;
        for other in self.layout.sites() {
            let [there, back] = match other == of {
                true => [between; 2],
                false => [*self.link_between(of, other), *self.link_between(other, of)],
            };
            grid.set_link(copy, other, there);
            grid.set_link(other, copy, back);
        }
        let ends = |change: &Change| (change.from == of, change.to == of);
        for change in &self.timeline {
            let (from, to) = match ends(change) {
                (false, false) => continue,
                (true, true) => (copy, copy),
                (true, false) => (copy, change.to),
                (false, true) => (change.from, copy),
            };
            let change = Change { from, to, ..*change };
            let refuse = |error: TimelineError| GridSpecError::Change { reason: error.to_string() };
            grid.insert_change(change).map_err(refuse)?;
        }
        Ok(grid)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::site::SiteError;
    use crate::units::Time;

    fn node(site: &str, host: &str, pes: u32) -> (String, HostSpec) {
        (site.to_owned(), HostSpec::new(host, pes))
    }

    fn grid() -> GridSpec {
        GridSpec::from_toml(
            r#"
            timeline = ["at 1s link a-b loss=1%", "at 1s node b1 load=1"]
            wan = { latency = "8ms" }
            [site.a]
            hosts = ["a1"]
            lan = { latency = "50us" }
            [site.b]
            hosts = ["b1", "b1"]
            port = 7000
            uplink = "2gbit"
            cluster.x = { hosts = ["x1"], lan = { latency = "5us" } }
            [[link]]
            between = ["a", "b"]
            latency = "32ms"
            "#,
        )
        .unwrap()
    }

    #[test]
    fn new_nodes_follow_those_of_their_site_and_others_keep_their_hosts_and_links() {
        let old = grid();

        let more = [node("a", "a2", 3), node("c", "c1", 2), node("b", "b1", 1)];
        let (grid, numbers) = old.clone().with_nodes(&more).unwrap();

        let hosts: Vec<&str> = grid.hosts().map(|(_, host)| host).collect();
        assert_eq!(hosts, ["a1", "a2", "b1", "b1", "x1", "b1", "c1"]);
        assert_eq!(numbers, [0, 2, 3, 4, 1, 6, 5].map(NodeId));
        assert_eq!(grid.layout().place(NodeId(1)).pes, 1..4);
        assert_eq!(grid.port(NodeId(5)), Some(7002), "the third of its host");
        assert_eq!(grid.cluster_of(NodeId(4)), old.cluster_of(NodeId(3)));
        assert_eq!(grid.link(NodeId(1), NodeId(5)), old.link(NodeId(0), NodeId(1)));
        assert_eq!(grid.link(NodeId(1), NodeId(6)).latency.to_string(), "8ms", "that of `wan`");
        assert_eq!(grid.link(NodeId(6), NodeId(6)).latency.to_string(), "50us");
        let loaded = |spec: &GridSpec, node| spec.foreign_loads(NodeId(node)).count();
        assert_eq!([2, 3, 4, 5].map(|node| loaded(&grid, node)), [1, 1, 0, 0]);
        let uplinks = [0, 1, 2].map(|site| grid.uplink(SiteId(site)));
        assert_eq!(uplinks, [None, old.uplink(SiteId(1)), None]);
        let all: Vec<NodeId> = numbers[4..].to_vec();
        assert_eq!(grid.without(&all), Some(old));
    }

    #[test]
    fn a_copy_of_a_site_has_its_clusters_links_and_changes() {
        let old = grid();

        let grid = old.with_copy(SiteId(1), "c", "-2", Link::lan()).unwrap();

        let hosts: Vec<&str> = grid.hosts().map(|(_, host)| host).collect();
        assert_eq!(hosts, ["a1", "b1", "b1", "x1", "b1-2", "b1-2", "x1-2"]);
        let [x, x2] = [3, 6].map(|node| grid.cluster_of(NodeId(node)).unwrap());
        assert_eq!((grid.cluster_name(x2), x == x2), ("x", false));
        assert_eq!(grid.link(NodeId(6), NodeId(6)), old.link(NodeId(3), NodeId(3)));
        assert_eq!(grid.link_between(SiteId(2), SiteId(1)), &Link::lan());
        for time in [Time(0), Time(2_000_000_000)] {
            let link = |spec: &GridSpec, from, to| spec.link_at(time, NodeId(from), NodeId(to));
            assert_eq!(link(&grid, 0, 4), link(&old, 0, 1));
            assert_eq!(link(&grid, 6, 0), link(&old, 3, 0));
        }
        assert!(grid.uplink(SiteId(2)).is_some());
        assert_eq!(grid.uplink(SiteId(2)), old.uplink(SiteId(1)));
        let all: Vec<NodeId> = (4..7).map(NodeId).collect();
        assert_eq!(grid.without(&all), Some(old));
    }

    #[test]
    fn invalid_nodes_are_refused() {
        let refused = |site: &str, host: &str, pes| {
            grid().with_nodes(&[node(site, host, pes)]).map(|(_, numbers)| numbers)
        };
        let host = SiteError::HostName { name: "-x".to_owned() };
        assert_eq!(refused("a", "-x", 1), Err(host.into()));
        assert_eq!(refused("a b", "x", 1), Err(SiteError::Name { name: "a b".into() }.into()));
        assert_eq!(refused("a", "x", 0), Err(SiteError::NoPes { host: "x".to_owned() }.into()));
        assert_eq!(refused("a", "x", 1 << 20), Err(SiteError::TooManyPes.into()));
    }
}
