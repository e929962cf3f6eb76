//! The command line of the `srun` that starts nodes.

use super::allocation::{Component, StepPlan};

/// The program that starts tasks.
pub(crate) const SRUN: &str = "srun";

/// Returns the options of the `srun` that starts the nodes of a step.
///
/// - `--jobid`: the allocation, if the launcher runs elsewhere.
/// - `--overlap`: the step may use CPUs that another step of the allocation has, such as the
///   interactive one in which the launcher runs.
/// - `--mpi=none`: nodes are not processes of MPI.
/// - `--wait=0`: after the first task ends, `srun` waits for the others without a limit, because a
///   node may leave the job early.
/// - `--kill-on-bad-exit`: if a loss ends the job, Slurm kills the other tasks once one fails.
///   Otherwise it keeps them, and `--no-kill` keeps the step when a host fails.
/// - `--cpu-bind`: tasks for which the user requests a number of CPUs are bound to these cores; a
///   task that has all CPUs of its host is not bound, whatever the site's default is.
pub(crate) fn arguments(step: &StepPlan<'_>, is_loss_fatal: bool) -> Vec<String> {
    let component = step.component;
    let hosts = hosts(step);
    let mut words: Vec<String> = step.job.map(|job| format!("--jobid={job}")).into_iter().collect();
    words.extend(["--overlap", "--mpi=none", "--wait=0"].map(str::to_owned));
    words.push(format!("--kill-on-bad-exit={}", u8::from(is_loss_fatal)));
    if !is_loss_fatal {
        words.push("--no-kill".to_owned());
    }
    words.extend(component.group.map(|group| format!("--het-group={group}")));
    words.push(format!("--nodes={}", hosts.len()));
    words.push(format!("--ntasks={}", step.nodes.len()));
    let of_host = match is_whole(component, &hosts) {
        true => component.tasks_of_host_max(),
        false => {
            let names: Vec<&str> = hosts.iter().map(|(name, _)| *name).collect();
            words.push(format!("--nodelist={}", names.join(",")));
            hosts.iter().map(|(_, tasks)| *tasks).max().unwrap_or(1)
        }
    };
    words.push(format!("--ntasks-per-node={of_host}"));
    match component.cpus_per_task {
        Some(cpus) => {
            words.extend([format!("--cpus-per-task={cpus}"), "--cpu-bind=cores".to_owned()]);
        }
        None => words.push("--cpu-bind=none".to_owned()),
    }
    words
}

/// Returns the hosts of a step, with the number of tasks on each.
fn hosts<'a>(step: &StepPlan<'a>) -> Vec<(&'a str, u32)> {
    let mut hosts: Vec<(&str, u32)> = Vec::new();
    for &(_, host) in &step.nodes {
        match hosts.last_mut() {
            Some((last, tasks)) if *last == host => *tasks += 1,
            _ => hosts.push((host, 1)),
        }
    }
    hosts
}

/// Whether these are all tasks of a component.
fn is_whole(component: &Component, hosts: &[(&str, u32)]) -> bool {
    let all = component.hosts.iter().map(|host| (host.name.as_str(), host.tasks));
    all.eq(hosts.iter().copied())
}

#[cfg(test)]
mod tests {
    use super::super::allocation::{Allocation, Variables};
    use super::*;
    use gridspan_topology::NodeId;

    /// Returns the command lines for these nodes of an allocation.
    fn lines(set: &[(&str, &str)], nodes: &[u32], is_loss_fatal: bool) -> Vec<String> {
        let all = set.iter().chain(&[("SLURM_JOB_ID", "7")]);
        let variables: Variables =
            all.map(|&(name, value)| (name.to_owned(), value.to_owned())).collect();
        let allocation = Allocation::from_variables(&variables).unwrap().unwrap();
        let nodes = nodes.iter().map(|&node| NodeId(node)).collect();
        let steps = allocation.steps(NodeId(0), &nodes);
        steps.iter().map(|step| arguments(step, is_loss_fatal).join(" ")).collect()
    }

    #[test]
    fn one_srun_starts_all_nodes() {
        let set = [("SLURM_JOB_NODELIST", "n[1-3]"), ("SLURM_JOB_CPUS_PER_NODE", "4(x3)")];
        let expected = "--overlap --mpi=none --wait=0 --kill-on-bad-exit=0 --no-kill --nodes=3 \
                        --ntasks=3 --ntasks-per-node=1 --cpu-bind=none";
        assert_eq!(lines(&set, &[0, 1, 2], false), [expected]);
        let fatal = lines(&set, &[0, 1, 2], true).remove(0);
        assert!(fatal.contains("--kill-on-bad-exit=1 --nodes=3"), "{fatal}");
    }

    #[test]
    fn some_nodes_are_started_on_their_hosts() {
        let set = [
            ("SLURM_JOB_NODELIST", "n[1-3]"),
            ("SLURM_JOB_CPUS_PER_NODE", "4(x3)"),
            ("SLURM_TASKS_PER_NODE", "2(x3)"),
            ("SLURM_CPUS_PER_TASK", "2"),
        ];
        let all = lines(&set, &[0, 1, 2, 3, 4, 5], false).remove(0);
        let ending = "--nodes=3 --ntasks=6 --ntasks-per-node=2 --cpus-per-task=2 --cpu-bind=cores";
        assert!(all.ends_with(ending), "{all}");
        let some = lines(&set, &[1, 4, 5], false).remove(0);
        let part = "--nodes=2 --ntasks=3 --nodelist=n1,n3 --ntasks-per-node=2";
        assert!(some.contains(part), "{some}");
        let one = lines(&set, &[3], false).remove(0);
        assert!(one.contains("--nodes=1 --ntasks=1 --nodelist=n2 --ntasks-per-node=1"), "{one}");
    }

    #[test]
    fn each_component_of_a_heterogeneous_allocation_has_an_srun() {
        let set = [
            ("SLURM_HET_SIZE", "2"),
            ("SLURM_JOB_NODELIST_HET_GROUP_0", "n1"),
            ("SLURM_JOB_CPUS_PER_NODE_HET_GROUP_0", "2"),
            ("SLURM_JOB_NODELIST_HET_GROUP_1", "g[1-2]"),
            ("SLURM_JOB_CPUS_PER_NODE_HET_GROUP_1", "16(x2)"),
        ];
        let lines = lines(&set, &[0, 1, 2], false);
        assert_eq!(lines.len(), 2);
        assert!(lines[0].contains("--het-group=0 --nodes=1 --ntasks=1"), "{}", lines[0]);
        assert!(lines[1].contains("--het-group=1 --nodes=2 --ntasks=2"), "{}", lines[1]);
    }
}
