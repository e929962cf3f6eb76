//! The PEs, nodes and sites of a recording, by number and by name.

use gridspan_record::Recording;

/// The places of a recorded job. An invalid number stands for the first place.
#[derive(Clone, Debug)]
pub(crate) struct Places {
    sites: Vec<String>,
    /// Name and site of each node.
    nodes: Vec<(String, usize)>,
    /// Node and speed of each PE.
    pes: Vec<(usize, f64)>,
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
        }
    }

    /// Number of PEs.
    pub(crate) fn pe_count(&self) -> usize {
        self.pes.len()
    }

    /// Number of nodes.
    pub(crate) fn node_count(&self) -> usize {
        self.nodes.len()
    }

    /// Number of sites.
    pub(crate) fn site_count(&self) -> usize {
        self.sites.len()
    }

    /// The node of a PE.
    pub(crate) fn node_of(&self, pe: usize) -> usize {
        self.pes.get(pe).map_or(0, |(node, _)| *node)
    }

    /// The site of a PE.
    pub(crate) fn site_of(&self, pe: usize) -> usize {
        self.site_of_node(self.node_of(pe))
    }

    /// The site of a node.
    pub(crate) fn site_of_node(&self, node: usize) -> usize {
        self.nodes.get(node).map_or(0, |(_, site)| *site)
    }

    /// The speed of a PE; an ordinary one has 1.
    pub(crate) fn speed(&self, pe: usize) -> f64 {
        self.pes.get(pe).map_or(1.0, |(_, speed)| *speed)
    }

    /// The PEs of a site.
    pub(crate) fn pes_at(&self, site: usize) -> Vec<usize> {
        (0..self.pe_count()).filter(|&pe| self.site_of(pe) == site).collect()
    }

    /// The PEs of a node.
    pub(crate) fn pes_on(&self, node: usize) -> Vec<usize> {
        (0..self.pe_count()).filter(|&pe| self.node_of(pe) == node).collect()
    }

    /// The name of a site.
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

#[cfg(test)]
mod tests {
    use super::super::fixtures::recording;
    use super::Places;

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
    fn numbers_that_lead_nowhere_do_no_harm() {
        let places = Places::of(&gridspan_record::Recording::default());
        assert_eq!((places.pe_count(), places.site_of(7), places.speed(7)), (0, 0, 1.0));
        assert_eq!(places.pe_name(7), "PE 7");
    }
}
