//! Reads the allocation of Slurm in which this process runs, from environment variables.
//!
//! If the user has asked for tasks (`--ntasks`, `--ntasks-per-node` or `--cpus-per-task`), each
//! task is one node. Otherwise each host has one node, with a PE for each of its CPUs.
//!
//! A heterogeneous allocation has several components, whose variables end in `_HET_GROUP_0` and so
//! on.

use super::node_list::{self, NodeListError};
use super::task_counts::{self, positive};
use gridspan_topology::{
    ClusterSpec, GridSpec, HostSpec, Link, MAX_HOSTS, NodeId, SiteError, SiteSpec,
};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use thiserror::Error;

/// Variables of the environment.
pub(crate) type Variables = BTreeMap<String, String>;

/// Name of the site if the name of Slurm's cluster is missing or is not valid for a site.
const SITE: &str = "slurm";
/// Largest number of components: that of Slurm (`MAX_HET_JOB_COMPS`).
const COMPONENTS_MAX: u32 = 128;

const NODES: &str = "SLURM_JOB_NODELIST";
const CPUS: &str = "SLURM_JOB_CPUS_PER_NODE";
const TASKS: &str = "SLURM_TASKS_PER_NODE";
const TASKS_IN_ALL: &str = "SLURM_NTASKS";
const TASKS_OF_NODE: &str = "SLURM_NTASKS_PER_NODE";
const CPUS_OF_TASK: &str = "SLURM_CPUS_PER_TASK";
const COMPONENTS: &str = "SLURM_HET_SIZE";

/// Hosts, and the tasks and CPUs on each of them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Allocation {
    /// Name of Slurm's cluster.
    cluster: String,
    /// Number of the allocation in Slurm, unless the launcher runs in it.
    job: Option<String>,
    /// One, or several if the allocation is heterogeneous.
    components: Vec<Component>,
}

/// The hosts that were allocated together.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Component {
    /// Number of the component of a heterogeneous allocation.
    pub(super) group: Option<u32>,
    pub(super) hosts: Vec<AllocatedHost>,
    /// CPUs that the user wants for each task.
    pub(super) cpus_per_task: Option<u32>,
}

/// A host of an allocation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct AllocatedHost {
    pub(super) name: String,
    pub(super) tasks: u32,
    /// CPUs of each task.
    cpus: u32,
}

/// Nodes that one `srun` starts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct StepPlan<'a> {
    /// Number of the allocation in Slurm, unless the launcher runs in it.
    pub(super) job: Option<&'a str>,
    /// The component to which all these nodes belong.
    pub(super) component: &'a Component,
    /// The nodes and their hosts; those of one host follow each other.
    pub(crate) nodes: Vec<(NodeId, &'a str)>,
}

impl StepPlan<'_> {
    /// Whether the launcher runs in this allocation. If so, the launcher's environment variables
    /// describe the allocation.
    pub(crate) fn is_of_own_job(&self) -> bool {
        self.job.is_none()
    }

    /// Whether Slurm binds each task to the cores that it gives to the task.
    pub(crate) fn is_bound(&self) -> bool {
        self.component.cpus_per_task.is_some()
    }
}

/// The variables do not describe an allocation. Nothing was started.
#[derive(Debug, PartialEq, Eq, Error)]
pub(crate) enum AllocationError {
    /// A node list cannot be read.
    #[error("{name}: {error}")]
    Nodes {
        /// The variable.
        name: String,
        /// The reason.
        error: NodeListError,
    },
    /// A variable has no value of the right form.
    #[error("{name}={value:?} is not {expected}")]
    Value {
        /// The variable.
        name: String,
        /// Its value.
        value: String,
        /// What it should be.
        expected: &'static str,
    },
    /// A variable is missing.
    #[error("{name} is not set")]
    Missing {
        /// The variable.
        name: String,
    },
    /// There are more tasks than a grid has nodes.
    #[error("the allocation has more than {MAX_HOSTS} tasks")]
    TooManyTasks,
    /// `srun` has started several launchers.
    #[error("srun has started gridctl {tasks} times")]
    SeveralLaunchers {
        /// Number of tasks of the step.
        tasks: u32,
    },
}

impl Allocation {
    /// Reads the variables; `None` if there is no allocation.
    pub(crate) fn from_variables(variables: &Variables) -> Result<Option<Self>, AllocationError> {
        let has = |name: &str| variables.get(name).is_some_and(|value| !value.is_empty());
        if !has("SLURM_JOB_ID") || !has(NODES) && !has(COMPONENTS) {
            return Ok(None);
        }
        let tasks = variables.get("SLURM_STEP_NUM_TASKS").and_then(|tasks| positive(tasks));
        if let Some(tasks) = tasks.filter(|&tasks| tasks > 1 && has("SLURM_PROCID")) {
            return Err(AllocationError::SeveralLaunchers { tasks });
        }
        let groups = number(variables, COMPONENTS)?;
        let groups = match groups {
            None => vec![None],
            Some(groups) if groups <= COMPONENTS_MAX => (0..groups).map(Some).collect(),
            Some(groups) => {
                let value = groups.to_string();
                let expected = "a number of components up to 128";
                return Err(AllocationError::Value {
                    name: COMPONENTS.to_owned(),
                    value,
                    expected,
                });
            }
        };
        let mut components = Vec::new();
        let mut left = MAX_HOSTS;
        for group in groups {
            let component = Component::from_variables(variables, group, left)?;
            let tasks = component.hosts.iter().map(|host| u64::from(host.tasks)).sum::<u64>();
            let tasks = usize::try_from(tasks).unwrap_or(usize::MAX);
            left = left.checked_sub(tasks).ok_or(AllocationError::TooManyTasks)?;
            components.push(component);
        }
        let cluster = variables.get("SLURM_CLUSTER_NAME").filter(|name| is_site_name(name));
        let cluster = cluster.cloned().unwrap_or_else(|| SITE.to_owned());
        Ok(Some(Self { cluster, job: None, components }))
    }

    /// Returns the grid of the nodes: one site. If there are several components, each is a cluster.
    pub(crate) fn grid(&self) -> Result<GridSpec, SiteError> {
        let mut site = SiteSpec::new(&self.cluster, vec![], Link::lan());
        let has_clusters = self.components.len() > 1;
        for (number, component) in self.components.iter().enumerate() {
            if has_clusters {
                let name = format!("group{number}");
                site.clusters.push(ClusterSpec::new(name, Link::lan()));
            }
            let cluster = has_clusters.then_some(number as u32);
            for host in &component.hosts {
                let mut node = HostSpec::new(&host.name, host.cpus);
                node.cluster = cluster;
                site.hosts.extend(std::iter::repeat_n(node, host.tasks as usize));
            }
        }
        GridSpec::new(vec![site])
    }

    /// Returns the allocation for a launcher that runs elsewhere, with its number in Slurm.
    pub(crate) fn of_job(self, job: String) -> Self {
        Self { job: Some(job), ..self }
    }

    /// Creates an allocation with one node on each host, which has all these CPUs of the host.
    pub(super) fn of_hosts(hosts: Vec<(String, u32)>, job: String) -> Self {
        let host = |(name, cpus)| AllocatedHost { name, tasks: 1, cpus };
        let hosts = hosts.into_iter().map(host).collect();
        let component = Component { group: None, hosts, cpus_per_task: None };
        Self { cluster: SITE.to_owned(), job: Some(job), components: vec![component] }
    }

    /// Returns the host of each node, with its PEs.
    pub(crate) fn hosts(&self) -> impl Iterator<Item = HostSpec> {
        let all = self.components.iter().flat_map(|component| &component.hosts);
        let nodes = |host: &AllocatedHost| {
            std::iter::repeat_n(HostSpec::new(&host.name, host.cpus), host.tasks as usize)
        };
        all.flat_map(nodes)
    }

    /// Returns how to start these nodes: by one `srun`, or by one for each component. `first` is
    /// the number of the first node of the allocation. Several components of one `srun` would share
    /// its standard input, and each would read a part of it.
    pub(super) fn steps(&self, first: NodeId, nodes: &BTreeSet<NodeId>) -> Vec<StepPlan<'_>> {
        let mut number = first.0;
        let mut steps = Vec::new();
        for component in &self.components {
            let job = self.job.as_deref();
            let mut step = StepPlan { job, component, nodes: Vec::new() };
            for host in &component.hosts {
                let of_host = (number..number + host.tasks).map(NodeId);
                number += host.tasks;
                let wanted = of_host.filter(|node| nodes.contains(node));
                step.nodes.extend(wanted.map(|node| (node, host.name.as_str())));
            }
            if !step.nodes.is_empty() {
                steps.push(step);
            }
        }
        steps
    }
}

impl Component {
    fn from_variables(
        variables: &Variables,
        group: Option<u32>,
        hosts_max: usize,
    ) -> Result<Self, AllocationError> {
        let ending = group.map(|group| format!("_HET_GROUP_{group}")).unwrap_or_default();
        let named = |name: &str| format!("{name}{ending}");
        let value = |name: &str| variables.get(&named(name)).filter(|value| !value.is_empty());
        let list = value(NODES).ok_or_else(|| AllocationError::Missing { name: named(NODES) })?;
        let names = node_list::expand(list, hosts_max)
            .map_err(|error| AllocationError::Nodes { name: named(NODES), error })?;
        let counts =
            |name: &str| {
                let Some(text) = value(name) else { return Ok(None) };
                let expected = "a number for each node, such as 2(x3),1";
                task_counts::expand(text, hosts_max).map(Some).ok_or_else(|| {
                    AllocationError::Value { name: named(name), value: text.clone(), expected }
                })
            };
        let cpus_per_task = number(variables, &named(CPUS_OF_TASK))?;
        let tasks_of_node = number(variables, &named(TASKS_OF_NODE))?;
        let wants_tasks =
            cpus_per_task.is_some() || tasks_of_node.is_some() || value(TASKS_IN_ALL).is_some();
        // In a step of the allocation, such as an interactive one, this variable has the counts of
        // the step.
        let is_whole = |counts: &Vec<u32>| counts.len() == names.len();
        let tasks = match counts(TASKS)?.filter(|_| wants_tasks).filter(is_whole) {
            Some(tasks) => tasks,
            None => vec![tasks_of_node.unwrap_or(1); names.len()],
        };
        let cpus = match counts(CPUS)? {
            Some(cpus) if cpus.len() == names.len() => cpus,
            Some(_) => {
                let value = value(CPUS).cloned().unwrap_or_default();
                let expected = "a number for each node of the allocation";
                return Err(AllocationError::Value { name: named(CPUS), value, expected });
            }
            None => tasks.clone(),
        };
        let host = |((name, tasks), cpus): ((String, u32), u32)| AllocatedHost {
            name,
            tasks,
            cpus: cpus_per_task.unwrap_or((cpus / tasks).max(1)),
        };
        let hosts = names.into_iter().zip(tasks).zip(cpus).map(host).collect();
        Ok(Self { group, hosts, cpus_per_task })
    }

    /// Returns the largest number of tasks on a host.
    pub(super) fn tasks_of_host_max(&self) -> u32 {
        self.hosts.iter().map(|host| host.tasks).max().unwrap_or(1)
    }
}

/// Reads a variable whose value is a positive number.
fn number(variables: &Variables, name: &str) -> Result<Option<u32>, AllocationError> {
    let Some(text) = variables.get(name).filter(|text| !text.is_empty()) else { return Ok(None) };
    positive(text).map(Some).ok_or_else(|| AllocationError::Value {
        name: name.to_owned(),
        value: text.clone(),
        expected: "a number from 1",
    })
}

fn is_site_name(name: &str) -> bool {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || b".-_".contains(&byte);
    !name.is_empty() && name.len() <= 64 && name.bytes().all(fits)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn variables(set: &[(&str, &str)]) -> Variables {
        let own = [("SLURM_JOB_ID", "7"), ("SLURM_CLUSTER_NAME", "abacus")];
        let all = own.iter().chain(set);
        all.map(|&(name, value)| (name.to_owned(), value.to_owned())).collect()
    }

    fn allocation(set: &[(&str, &str)]) -> Allocation {
        Allocation::from_variables(&variables(set)).unwrap().unwrap()
    }

    /// Returns the host and the PEs of each node.
    fn nodes(set: &[(&str, &str)]) -> String {
        let spec = allocation(set).grid().unwrap();
        let node = |(node, host): (NodeId, &str)| {
            format!("{host}:{}", spec.layout().place(node).pes.len())
        };
        spec.hosts().map(node).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn without_tasks_each_host_has_a_node_with_all_its_cpus() {
        // As `salloc -N 3` sets them.
        let set = [(NODES, "n[1-2],fat1"), (CPUS, "8(x2),64"), (TASKS, "8(x2),64")];
        assert_eq!(nodes(&set), "n1:8 n2:8 fat1:64");
        let spec = allocation(&set).grid().unwrap();
        assert_eq!(spec.layout().site_name(gridspan_topology::SiteId(0)), "abacus");
    }

    #[test]
    fn each_task_that_the_user_wants_is_a_node() {
        let hosts = [(NODES, "n[1-3]"), (CPUS, "8(x3)")];
        let nodes = |more: &[(&str, &str)]| nodes(&[&hosts[..], more].concat());
        // `salloc -N 3 --ntasks-per-node=2 --cpus-per-task=3`
        let set =
            [(TASKS, "2(x3)"), (TASKS_OF_NODE, "2"), (CPUS_OF_TASK, "3"), (TASKS_IN_ALL, "6")];
        assert_eq!(nodes(&set), "n1:3 n1:3 n2:3 n2:3 n3:3 n3:3");
        // `salloc -n 5`
        assert_eq!(nodes(&[(TASKS, "2(x2),1"), (TASKS_IN_ALL, "5")]), "n1:4 n1:4 n2:4 n2:4 n3:8");
        // `salloc -N 3 -c 4 --exclusive`
        let set = [(TASKS, "2(x3)"), (CPUS_OF_TASK, "4")];
        assert_eq!(nodes(&set), "n1:4 n1:4 n2:4 n2:4 n3:4 n3:4");
        // More tasks than CPUs.
        assert_eq!(nodes(&[(TASKS, "1(x2),9"), (TASKS_IN_ALL, "11")]).matches("n3:1").count(), 9);
    }

    #[test]
    fn an_interactive_step_has_the_nodes_of_its_allocation() {
        let set = [
            (NODES, "n[1-2]"),
            (CPUS, "4(x2)"),
            (TASKS, "1"),
            (TASKS_IN_ALL, "1"),
            ("SLURM_STEP_NUM_TASKS", "1"),
            ("SLURM_PROCID", "0"),
        ];
        assert_eq!(nodes(&set), "n1:4 n2:4");
    }

    #[test]
    fn the_components_of_a_heterogeneous_allocation_are_clusters() {
        let set = [
            (COMPONENTS, "2"),
            ("SLURM_JOB_NODELIST_HET_GROUP_0", "n1"),
            ("SLURM_JOB_CPUS_PER_NODE_HET_GROUP_0", "2"),
            ("SLURM_JOB_NODELIST_HET_GROUP_1", "g[1-2]"),
            ("SLURM_JOB_CPUS_PER_NODE_HET_GROUP_1", "16(x2)"),
            ("SLURM_TASKS_PER_NODE_HET_GROUP_1", "2(x2)"),
            ("SLURM_CPUS_PER_TASK_HET_GROUP_1", "8"),
        ];
        assert_eq!(nodes(&set), "n1:2 g1:8 g1:8 g2:8 g2:8");
        let allocation = allocation(&set);
        let spec = allocation.grid().unwrap();
        let clusters = [0, 1, 4].map(|node| spec.layout().cluster_of(NodeId(node)));
        assert_eq!(clusters, [Some(0), Some(1), Some(1)]);

        let all: BTreeSet<NodeId> = spec.layout().nodes().collect();
        let steps = allocation.steps(NodeId(0), &all);
        assert_eq!(steps.len(), 2);
        let hosts: Vec<&str> = steps[1].nodes.iter().map(|(_, host)| *host).collect();
        assert_eq!(steps[0].nodes, [(NodeId(0), "n1")]);
        assert_eq!(hosts, ["g1", "g1", "g2", "g2"]);
        let one = allocation.steps(NodeId(0), &BTreeSet::from([NodeId(3)]));
        assert_eq!(one[0].nodes, [(NodeId(3), "g2")]);
        assert_eq!((one.len(), one[0].component.group), (1, Some(1)));
    }

    #[test]
    fn without_an_allocation_there_is_none() {
        let mut set = variables(&[(NODES, "n1")]);
        set.remove("SLURM_JOB_ID");
        for set in [set, Variables::new(), variables(&[]), variables(&[(NODES, "")])] {
            assert_eq!(Allocation::from_variables(&set), Ok(None));
        }
    }

    #[test]
    fn variables_that_contradict_are_refused() {
        let hosts = (NODES, "n[1-2]");
        let cases: [(&[(&str, &str)], &str); 7] = [
            (&[(NODES, "n[1-")], "SLURM_JOB_NODELIST: `n[1-`: the brackets"),
            (&[hosts, (CPUS, "many")], "SLURM_JOB_CPUS_PER_NODE=\"many\" is not a number for each"),
            (&[hosts, (CPUS, "4")], "SLURM_JOB_CPUS_PER_NODE=\"4\" is not a number for each node"),
            (&[hosts, (CPUS_OF_TASK, "0")], "SLURM_CPUS_PER_TASK=\"0\" is not a number from 1"),
            (&[(COMPONENTS, "2")], "SLURM_JOB_NODELIST_HET_GROUP_0 is not set"),
            (&[(COMPONENTS, "4000000000")], "SLURM_HET_SIZE=\"4000000000\" is not a number of"),
            (&[hosts, (TASKS_OF_NODE, "40000")], "more than 65536 tasks"),
        ];
        for (set, expected) in cases {
            let error = Allocation::from_variables(&variables(set)).unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        }
    }

    #[test]
    fn a_launcher_for_each_task_is_refused() {
        let set = [(NODES, "n1"), ("SLURM_STEP_NUM_TASKS", "4"), ("SLURM_PROCID", "2")];
        let refused = Allocation::from_variables(&variables(&set));
        assert_eq!(refused, Err(AllocationError::SeveralLaunchers { tasks: 4 }));
    }
}
