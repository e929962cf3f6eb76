//! The variables that tell the process of a node which node it is, for programs and scripts around
//! it, as `OMPI_COMM_WORLD_RANK` does for MPI.

use gridspan::variables::{LOCAL_NODE, LOCAL_NODES, NODE, NODES, SITE};
use gridspan_topology::{GridSpec, NodeId};
use std::ffi::OsString;

/// Returns the variables of a node of a job with this grid.
pub(crate) fn rank_variables(spec: &GridSpec, node: NodeId) -> [(&'static str, OsString); 5] {
    let layout = spec.layout();
    let of_host = spec.hosts().filter(|(_, host)| *host == spec.host(node));
    let of_host: Vec<NodeId> = of_host.map(|(node, _)| node).collect();
    let local = of_host.iter().filter(|other| **other < node).count();
    let number = |number: usize| OsString::from(number.to_string());
    [
        (NODE, number(node.index())),
        (NODES, number(layout.node_count() as usize)),
        (SITE, layout.site_name(layout.site_of_node(node)).into()),
        (LOCAL_NODE, number(local)),
        (LOCAL_NODES, number(of_host.len())),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_knows_its_number_in_the_job_and_on_its_host() {
        let text = "[site.a]\nhosts = [\"x\", \"y\", \"x\"]\n[site.b]\nhosts = [\"x\"]";
        let spec = GridSpec::from_toml(text).unwrap();
        let shown = |node| {
            let all = rank_variables(&spec, NodeId(node));
            all.map(|(name, value)| format!("{name}={}", value.to_string_lossy())).join(" ")
        };
        let ending = "GRIDSPAN_LOCAL_NODE=1 GRIDSPAN_LOCAL_NODES=3";
        assert_eq!(shown(2), format!("GRIDSPAN_NODE=2 GRIDSPAN_NODES=4 GRIDSPAN_SITE=a {ending}"));
        assert!(shown(1).ends_with("GRIDSPAN_LOCAL_NODE=0 GRIDSPAN_LOCAL_NODES=1"));
        assert!(shown(3).contains("GRIDSPAN_SITE=b GRIDSPAN_LOCAL_NODE=2"));
    }
}
