//! The allocations of Slurm whose tasks are the nodes of a job: the one in which the job began, and
//! those that were added later.

use super::allocation::{Allocation, StepPlan};
use gridspan_topology::NodeId;
use std::collections::BTreeSet;

/// Allocations, each with the number of its first node. The nodes of one have consecutive numbers,
/// in the order of its hosts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Allocations(Vec<(NodeId, Allocation)>);

impl From<Allocation> for Allocations {
    fn from(allocation: Allocation) -> Self {
        Self(vec![(NodeId(0), allocation)])
    }
}

impl Allocations {
    /// Adds an allocation, whose first node has this number.
    pub(crate) fn add(&mut self, first: NodeId, allocation: Allocation) {
        self.0.push((first, allocation));
    }

    /// Returns how to start these nodes: by one `srun` for each allocation, or for each of its
    /// components.
    pub(crate) fn steps(&self, nodes: &BTreeSet<NodeId>) -> Vec<StepPlan<'_>> {
        self.0.iter().flat_map(|(first, allocation)| allocation.steps(*first, nodes)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::super::allocation::Variables;
    use super::super::srun::arguments;
    use super::*;

    fn allocation(set: &[(&str, &str)]) -> Allocation {
        let set = set.iter().map(|&(name, value)| (name.to_owned(), value.to_owned()));
        let variables: Variables = set.collect();
        Allocation::from_variables(&variables).unwrap().unwrap()
    }

    #[test]
    fn the_nodes_of_each_allocation_are_started_by_an_srun() {
        let own = [
            ("SLURM_JOB_ID", "7"),
            ("SLURM_JOB_NODELIST", "n[1-2]"),
            ("SLURM_JOB_CPUS_PER_NODE", "2(x2)"),
        ];
        let other = [
            ("SLURM_JOB_ID", "9"),
            ("SLURM_JOB_NODELIST", "n[3-4]"),
            ("SLURM_JOB_CPUS_PER_NODE", "4(x2)"),
            ("SLURM_TASKS_PER_NODE", "2(x2)"),
            ("SLURM_CPUS_PER_TASK", "2"),
        ];
        let mut all = Allocations::from(allocation(&own));
        // Two other nodes have joined before.
        all.add(NodeId(4), allocation(&other).of_job("9".to_owned()));
        let steps = all.steps(&[1, 4, 6, 7].map(NodeId).into());
        let nodes: Vec<_> = steps.iter().map(|step| step.nodes.clone()).collect();
        assert_eq!(nodes[0], [(NodeId(1), "n2")]);
        assert_eq!(nodes[1], [(NodeId(4), "n3"), (NodeId(6), "n4"), (NodeId(7), "n4")]);
        let lines: Vec<_> = steps.iter().map(|step| arguments(step, false).join(" ")).collect();
        assert!(!lines[0].contains("--jobid"), "{}", lines[0]);
        assert!(lines[1].starts_with("--jobid=9 --overlap"), "{}", lines[1]);
        assert!(lines[1].contains("--ntasks=3 --nodelist=n3,n4"), "{}", lines[1]);
        assert_eq!((steps[0].is_of_own_job(), steps[1].is_of_own_job()), (true, false));
    }
}
