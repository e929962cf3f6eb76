//! The share of each node in the PEs of its machine, so that nodes with bound PEs divide the cores.

use super::plan::Processes;
use crate::roster::Roster;
use gridspan::binding::HostShare;
use gridspan_topology::NodeId;
use std::collections::{BTreeMap, BTreeSet};

/// The owner of the processors of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Machine<'a> {
    /// This machine.
    Here,
    /// Another host.
    Host(&'a str),
    /// A task of Slurm with exclusive processors.
    Task(NodeId),
}

/// Returns the shares of these nodes, in their order.
pub(crate) fn host_shares(
    processes: &Processes,
    roster: &Roster,
    nodes: &[NodeId],
) -> Vec<HostShare> {
    let bound = bound_tasks(processes, nodes);
    let machine = |node: NodeId| match processes {
        _ if bound.contains(&node) => Machine::Task(node),
        Processes::Nodes { tasks: Some(_), .. } => Machine::Host(roster.host(node)),
        Processes::Nodes { hosts, .. } => hosts.remote(node).map_or(Machine::Here, Machine::Host),
        Processes::Single { .. } => Machine::Here,
    };
    let mut sums: BTreeMap<Machine<'_>, u32> = BTreeMap::new();
    let before = nodes.iter().map(|&node| {
        let sum = sums.entry(machine(node)).or_default();
        let before = *sum;
        *sum += roster.pes(node);
        before
    });
    let before: Vec<u32> = before.collect();
    let shares = nodes.iter().zip(before);
    shares.map(|(&node, before)| HostShare { before, pes: sums[&machine(node)] }).collect()
}

/// The nodes that Slurm binds to exclusive processors.
fn bound_tasks(processes: &Processes, nodes: &[NodeId]) -> BTreeSet<NodeId> {
    let Processes::Nodes { tasks: Some(allocations), .. } = processes else {
        return BTreeSet::new();
    };
    let steps = allocations.steps(&nodes.iter().copied().collect());
    let bound = steps.iter().filter(|step| step.is_bound());
    bound.flat_map(|step| step.nodes.iter().map(|(node, _)| *node)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hosts::Hosts;
    use crate::slurm::{Allocation, Variables};
    use gridspan::Settings;
    use gridspan_topology::GridSpec;

    fn shares(processes: &Processes, spec: &GridSpec, nodes: &[u32]) -> Vec<(u32, u32)> {
        let nodes: Vec<NodeId> = nodes.iter().map(|&node| NodeId(node)).collect();
        let shares = host_shares(processes, &spec.clone().into(), &nodes);
        shares.into_iter().map(|share| (share.before, share.pes)).collect()
    }

    fn nodes(hosts: Hosts, tasks: Option<Allocation>) -> Processes {
        let tasks = tasks.map(Into::into);
        let (settings, variables) = (Box::new(Settings::default()), vec![]);
        Processes::Nodes { is_emulated: false, hosts, tasks, settings, variables }
    }

    #[test]
    fn emulated_hosts_are_one_machine() {
        let spec = GridSpec::from_emulate("2x2x3").unwrap();
        let processes = nodes(Hosts::here(), None);
        assert_eq!(shares(&processes, &spec, &[0, 1, 2, 3]), [(0, 12), (3, 12), (6, 12), (9, 12)]);
        assert_eq!(
            shares(&processes, &spec, &[1, 3]),
            [(0, 6), (3, 6)],
            "a run without the others"
        );
    }

    #[test]
    fn names_of_this_machine_are_one_machine_and_other_hosts_are_not() {
        let text = "[site.a]\nhosts = [\"localhost\", \"127.0.0.2\", \"127.0.0.1\"]\npes = 2\n\
                    [site.b]\nhosts = [\"127.0.0.2\"]";
        let spec = GridSpec::from_toml(text).unwrap();
        let processes = nodes(Hosts::of(&spec, Some("ssh")).unwrap(), None);
        let expected = [(0, 4), (0, 3), (2, 4), (2, 3)];
        assert_eq!(shares(&processes, &spec, &[0, 1, 2, 3]), expected);
    }

    #[test]
    fn a_task_that_slurm_binds_has_its_processors_alone() {
        let set = |cpus_of_task: Option<&str>| {
            let set = [
                ("SLURM_JOB_ID", Some("7")),
                ("SLURM_JOB_NODELIST", Some("n[1-2]")),
                ("SLURM_JOB_CPUS_PER_NODE", Some("4(x2)")),
                ("SLURM_TASKS_PER_NODE", Some("2(x2)")),
                ("SLURM_NTASKS", Some("4")),
                ("SLURM_CPUS_PER_TASK", cpus_of_task),
            ];
            let set =
                set.into_iter().filter_map(|(name, value)| Some((name.into(), value?.into())));
            let variables: Variables = set.collect();
            let allocation = Allocation::from_variables(&variables).unwrap().unwrap();
            let spec = allocation.grid().unwrap();
            shares(&nodes(Hosts::here(), Some(allocation)), &spec, &[0, 1, 2, 3])
        };
        assert_eq!(set(Some("2")), [(0, 2); 4]);
        assert_eq!(set(None), [(0, 4), (2, 4), (0, 4), (2, 4)]);
    }
}
