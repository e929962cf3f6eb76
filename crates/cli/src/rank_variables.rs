//! The variables that tell the process of a node which node it is, for programs and scripts around
//! it, as `OMPI_COMM_WORLD_RANK` does for MPI.

use crate::roster::Roster;
use gridspan::variables::{LOCAL_NODE, LOCAL_NODES, NODE, NODES, SITE};
use gridspan_topology::NodeId;
use std::ffi::OsString;

/// Returns the variables of a node of a job.
pub(crate) fn rank_variables(roster: &Roster, node: NodeId) -> [(&'static str, OsString); 5] {
    let is_there = |other: &NodeId| roster.host(*other) == roster.host(node);
    let of_host: Vec<NodeId> = roster.nodes().filter(is_there).collect();
    let local = of_host.iter().filter(|other| **other < node).count();
    let number = |number: usize| OsString::from(number.to_string());
    [
        (NODE, number(node.index())),
        (NODES, number(roster.nodes().len())),
        (SITE, roster.site_name(node).into()),
        (LOCAL_NODE, number(local)),
        (LOCAL_NODES, number(of_host.len())),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use gridspan_topology::GridSpec;

    #[test]
    fn a_node_knows_its_number_in_the_job_and_on_its_host() {
        let text = "[site.a]\nhosts = [\"x\", \"y\", \"x\"]\n[site.b]\nhosts = [\"x\"]";
        let roster = GridSpec::from_toml(text).unwrap().into();
        let shown = |node| {
            let all = rank_variables(&roster, NodeId(node));
            all.map(|(name, value)| format!("{name}={}", value.to_string_lossy())).join(" ")
        };
        let ending = "GRIDSPAN_LOCAL_NODE=1 GRIDSPAN_LOCAL_NODES=3";
        assert_eq!(shown(2), format!("GRIDSPAN_NODE=2 GRIDSPAN_NODES=4 GRIDSPAN_SITE=a {ending}"));
        assert!(shown(1).ends_with("GRIDSPAN_LOCAL_NODE=0 GRIDSPAN_LOCAL_NODES=1"));
        assert!(shown(3).contains("GRIDSPAN_SITE=b GRIDSPAN_LOCAL_NODE=2"));
    }
}
