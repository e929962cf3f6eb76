//! The environment variables that say which node of which job a process is. Programs, and scripts
//! that start them, read these as they read `OMPI_COMM_WORLD_RANK` under Open MPI.

use crate::roster::Roster;
use gridspan::variables::{
    JOB, LOCAL_NODE, LOCAL_NODES, NODE, NODES, RUN, SITE, SITE_INDEX, SITES,
};
use gridspan_topology::NodeId;
use std::ffi::OsString;

/// Returns the variables of a node that is started in a run of the job of this name.
pub(crate) fn rank_variables(
    roster: &Roster,
    node: NodeId,
    (job, run): (&str, u32),
) -> [(&'static str, OsString); 9] {
    let is_there = |other: &NodeId| roster.host(*other) == roster.host(node);
    let of_host: Vec<NodeId> = roster.nodes().filter(is_there).collect();
    let local = of_host.iter().filter(|other| **other < node).count();
    let number = |number: usize| OsString::from(number.to_string());
    [
        (NODE, number(node.index())),
        (NODES, number(roster.nodes().len())),
        (SITE, roster.site_name(node).into()),
        (SITE_INDEX, number(roster.site(node).index())),
        (SITES, number(roster.grid().layout().site_count() as usize)),
        (LOCAL_NODE, number(local)),
        (LOCAL_NODES, number(of_host.len())),
        (JOB, job.into()),
        (RUN, number(run as usize)),
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
            let all = rank_variables(&roster, NodeId(node), ("ring-17", 3));
            all.map(|(name, value)| format!("{name}={}", value.to_string_lossy())).join(" ")
        };
        let of_site = "GRIDSPAN_SITE=a GRIDSPAN_SITE_INDEX=0 GRIDSPAN_SITES=2";
        let of_host = "GRIDSPAN_LOCAL_NODE=1 GRIDSPAN_LOCAL_NODES=3";
        let begin = format!("GRIDSPAN_NODE=2 GRIDSPAN_NODES=4 {of_site} {of_host}");
        assert_eq!(shown(2), format!("{begin} GRIDSPAN_JOB=ring-17 GRIDSPAN_RUN=3"));
        assert!(shown(1).contains("GRIDSPAN_LOCAL_NODE=0 GRIDSPAN_LOCAL_NODES=1"));
        let other = "GRIDSPAN_SITE=b GRIDSPAN_SITE_INDEX=1 GRIDSPAN_SITES=2 GRIDSPAN_LOCAL_NODE=2";
        assert!(shown(3).contains(other));
    }
}
