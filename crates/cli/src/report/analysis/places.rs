//! The PEs, nodes and sites of a recording, by number and by name.

use gridspan_record::{PeRecord, Recording, What};
use std::collections::{BTreeMap, BTreeSet};

/// The places of a recorded job. A PE with an invalid number is on node 0, and such a node is at
/// site 0; the name of a node or site with an invalid number is `?`.
#[derive(Clone, Debug)]
pub(crate) struct Places {
    sites: Vec<String>,
    /// Name and site of each node.
    nodes: Vec<(String, usize)>,
    /// Node and speed of each PE.
    pes: Vec<(usize, f64)>,
    /// The crowding of each node's host, if it has more PEs than hardware threads.
    crowding: Vec<Option<Crowding>>,
    /// The times at which nodes left the job, by node.
    left: BTreeMap<usize, Vec<u64>>,
}

/// More PEs on a host than it has hardware threads for them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Crowding {
    pub(crate) host: String,
    /// Number of the job's PEs there.
    pub(crate) pes: usize,
    /// Number of hardware threads that they could use.
    pub(crate) hardware_threads: usize,
}

impl Places {
    /// The places of this recording.
    pub(crate) fn of(recording: &Recording) -> Self {
        let header = &recording.header;
        let node = |node: &gridspan_record::RecordedNode| (node.name.clone(), node.site as usize);
        let is_speed = |speed: f64| speed.is_finite() && speed > 0.0;
        let pe = |pe: &gridspan_record::RecordedPe| {
            (pe.node as usize, if is_speed(pe.speed) { pe.speed } else { 1.0 })
        };
        Self {
            sites: header.sites.clone(),
            nodes: header.nodes.iter().map(node).collect(),
            pes: header.pes.iter().map(pe).collect(),
            crowding: crowding(recording),
            left: left(recording),
        }
    }

    /// Returns when the process that made a record began, and when its node left the job; the
    /// latter is `u64::MAX` if the node stayed.
    pub(crate) fn lifetime(&self, record: &PeRecord) -> [u64; 2] {
        let left = self.left.get(&self.node_of(record.pe as usize)).into_iter().flatten();
        // A process that began later belongs to a node that has come back.
        let ended_ns = left.copied().filter(|at_ns| *at_ns > record.began_ns).min();
        [record.began_ns, ended_ns.unwrap_or(u64::MAX)]
    }

    /// The crowding of a node's host; `None` if it has hardware threads for all PEs, or their
    /// number is not known.
    pub(crate) fn crowding(&self, node: usize) -> Option<&Crowding> {
        self.crowding.get(node)?.as_ref()
    }

    pub(crate) fn pe_count(&self) -> usize {
        self.pes.len()
    }

    pub(crate) fn node_count(&self) -> usize {
        self.nodes.len()
    }

    pub(crate) fn site_count(&self) -> usize {
        self.sites.len()
    }

    pub(crate) fn node_of(&self, pe: usize) -> usize {
        self.pes.get(pe).map_or(0, |(node, _)| *node)
    }

    pub(crate) fn site_of(&self, pe: usize) -> usize {
        self.site_of_node(self.node_of(pe))
    }

    pub(crate) fn site_of_node(&self, node: usize) -> usize {
        self.nodes.get(node).map_or(0, |(_, site)| *site)
    }

    /// The speed of a PE; an ordinary one has 1.
    pub(crate) fn speed(&self, pe: usize) -> f64 {
        self.pes.get(pe).map_or(1.0, |(_, speed)| *speed)
    }

    pub(crate) fn pes_at(&self, site: usize) -> Vec<usize> {
        (0..self.pe_count()).filter(|&pe| self.site_of(pe) == site).collect()
    }

    pub(crate) fn site_name(&self, site: usize) -> &str {
        self.sites.get(site).map_or("?", String::as_str)
    }

    /// The name of a node, with its site if there are several, such as `node b/1 at site b`.
    pub(crate) fn node_name(&self, node: usize) -> String {
        let name = self.nodes.get(node).map_or("?", |(name, _)| name.as_str());
        match self.site_count() {
            0 | 1 => format!("node {name}"),
            _ => format!("node {name} at site {}", self.site_name(self.site_of_node(node))),
        }
    }

    /// The short name of a node, for axes.
    pub(crate) fn node_label(&self, node: usize) -> &str {
        self.nodes.get(node).map_or("?", |(name, _)| name.as_str())
    }

    /// The name of a PE, with its node if there are several, such as `PE 3 (node b/1 at site b)`.
    pub(crate) fn pe_name(&self, pe: usize) -> String {
        match self.node_count() {
            0 | 1 => format!("PE {pe}"),
            _ => format!("PE {pe} ({})", self.node_name(self.node_of(pe))),
        }
    }

    /// The name of the link in one direction, or of the network inside a site.
    pub(crate) fn link_name(&self, from: usize, to: usize) -> String {
        match from == to {
            true => format!("inside {}", self.site_name(from)),
            false => format!("{} → {}", self.site_name(from), self.site_name(to)),
        }
    }
}

/// The times at which nodes left the job, by node.
fn left(recording: &Recording) -> BTreeMap<usize, Vec<u64>> {
    let mut left: BTreeMap<usize, Vec<u64>> = BTreeMap::new();
    for event in &recording.events {
        if let What::Left { node } = &event.what {
            left.entry(*node as usize).or_default().push(event.at_ns);
        }
    }
    left
}

/// The crowding of each node's host. PEs of nodes without a record do not count, since these may
/// not have run.
fn crowding(recording: &Recording) -> Vec<Option<Crowding>> {
    let nodes = &recording.header.nodes;
    let missing: BTreeSet<u32> = recording.missing.iter().copied().collect();
    let mut pes: BTreeMap<&str, usize> = BTreeMap::new();
    for pe in &recording.header.pes {
        if !missing.contains(&pe.node)
            && let Some(node) = nodes.get(pe.node as usize)
        {
            *pes.entry(&node.host).or_default() += 1;
        }
    }
    let known = recording.header.hosts.iter();
    let threads: BTreeMap<&str, usize> =
        known.map(|host| (host.name.as_str(), host.hardware_threads as usize)).collect();
    let of = |host: &str| {
        let (pes, hardware_threads) = (*pes.get(host)?, *threads.get(host)?);
        let crowding = Crowding { host: host.to_owned(), pes, hardware_threads };
        (pes > hardware_threads).then_some(crowding)
    };
    nodes.iter().map(|node| of(&node.host)).collect()
}

#[cfg(test)]
mod tests {
    use super::super::fixtures::recording;
    use super::{Crowding, Places};
    use gridspan_record::{RecordedEvent, RecordedHost, What};

    #[test]
    fn a_host_is_crowded_by_the_pes_of_all_its_nodes_that_ran() {
        let mut recording = recording(1, 4);
        for (node, host) in ["x", "x", "x", "y"].into_iter().enumerate() {
            recording.header.nodes[node].host = host.to_owned();
        }
        assert_eq!(Places::of(&recording).crowding(0), None, "their processors are not known");
        let host =
            |name: &str| RecordedHost { name: name.to_owned(), cores: 1, hardware_threads: 2 };
        recording.header.hosts = vec![host("x"), host("y")];

        let places = Places::of(&recording);

        let crowded = Crowding { host: "x".to_owned(), pes: 3, hardware_threads: 2 };
        let found: Vec<_> = (0..4).map(|node| places.crowding(node).cloned()).collect();
        assert_eq!(found, [Some(crowded.clone()), Some(crowded.clone()), Some(crowded), None]);
        recording.missing = vec![1];
        assert_eq!(Places::of(&recording).crowding(0), None, "one of them was a spare");
    }

    #[test]
    fn names_say_where_a_pe_is() {
        let places = Places::of(&recording(2, 2));
        assert_eq!((places.pe_count(), places.node_count(), places.site_count()), (4, 4, 2));
        assert_eq!(places.pe_name(3), "PE 3 (node b/3 at site b)");
        assert_eq!(
            (places.link_name(0, 1), places.link_name(1, 1)),
            ("a → b".into(), "inside b".into())
        );
        assert_eq!(places.pes_at(1), [2, 3]);
        let alone = Places::of(&recording(1, 2));
        assert_eq!(alone.pe_name(1), "PE 1 (node a/1)");
    }

    #[test]
    fn a_record_ends_when_its_node_leaves_after_its_begin() {
        let mut recording = recording(1, 2);
        let left = |at_ns| RecordedEvent { at_ns, what: What::Left { node: 1 } };
        recording.events = vec![left(50), left(20)];
        let lifetime = |began_ns| {
            let mut recording = recording.clone();
            recording.pes[1].began_ns = began_ns;
            Places::of(&recording).lifetime(&recording.pes[1])
        };
        assert_eq!([lifetime(0), lifetime(30), lifetime(60)], [[0, 20], [30, 50], [60, u64::MAX]]);
        assert_eq!(Places::of(&recording).lifetime(&recording.pes[0]), [0, u64::MAX]);
    }

    #[test]
    fn numbers_that_lead_nowhere_do_no_harm() {
        let places = Places::of(&gridspan_record::Recording::default());
        assert_eq!((places.pe_count(), places.site_of(7), places.speed(7)), (0, 0, 1.0));
        assert_eq!(places.pe_name(7), "PE 7");
    }
}
