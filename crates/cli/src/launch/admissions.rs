//! Decides which tasks of Slurm may enrol, and which node each of them runs.
//!
//! Each `srun` has a secret, and places for its tasks: one for each node, by host. A task has the
//! place with its number on its host, since Slurm decides how it distributes tasks. It enrols once;
//! once all tasks have, the secret is worth nothing.

use crate::task::Hello;
use gridspan_runtime::net::EnrolmentSecret;
use gridspan_topology::NodeId;
use std::collections::{BTreeMap, BTreeSet};
use thiserror::Error;

/// The tasks that may enrol.
#[derive(Debug, Default)]
pub(super) struct Admissions {
    steps: Vec<Places>,
}

/// The places of the tasks of one `srun`.
#[derive(Debug)]
struct Places {
    secret: EnrolmentSecret,
    /// The node of each host and number of a task on the host, until a task has it.
    free: BTreeMap<(String, u32), NodeId>,
    /// Numbers of the tasks that have enrolled.
    enrolled: BTreeSet<u32>,
}

/// Why a task is refused.
#[derive(Debug, PartialEq, Eq, Error)]
pub(super) enum TaskRefusal {
    /// It speaks another version.
    #[error("it is another build of gridctl than the launcher; use the same one on all hosts")]
    Version,
    /// Its secret is unknown, or worth nothing any more.
    #[error("no task is expected with this secret")]
    Secret,
    /// The task has enrolled before.
    #[error("task {task} has enrolled already")]
    Again {
        /// Its number.
        task: u32,
    },
    /// Slurm has placed more tasks on a host than it has said.
    #[error(
        "no node is left for task {task} on host `{}`; allocate with --ntasks-per-node, so that all hosts \
         have the same number of tasks",
        .host.escape_debug()
    )]
    NoPlace {
        /// Its number.
        task: u32,
        /// Its host.
        host: String,
    },
}

impl Admissions {
    /// Expects the tasks of an `srun` with this secret, one for each of these nodes and their
    /// hosts. Another `srun` that was to start one of them may not do so any more.
    pub(super) fn expect(&mut self, secret: EnrolmentSecret, nodes: &[(NodeId, &str)]) {
        let is_other = |node: &NodeId| nodes.iter().all(|(other, _)| other != node);
        self.steps.iter_mut().for_each(|step| step.free.retain(|_, node| is_other(node)));
        self.steps.retain(|step| !step.free.is_empty());
        let mut tasks: BTreeMap<&str, u32> = BTreeMap::new();
        let mut free = BTreeMap::new();
        for &(node, host) in nodes {
            let local = tasks.entry(host).or_default();
            free.insert((host.to_owned(), *local), node);
            *local += 1;
        }
        self.steps.push(Places { secret, free, enrolled: BTreeSet::new() });
    }

    /// Returns the node of a task that says this, if it may enrol.
    pub(super) fn admit(&mut self, hello: &Hello) -> Result<NodeId, TaskRefusal> {
        if !hello.has_own_version() {
            return Err(TaskRefusal::Version);
        }
        let step = self.steps.iter().position(|step| step.secret.is(&hello.secret));
        let step = step.ok_or(TaskRefusal::Secret)?;
        let places = &mut self.steps[step];
        let task = hello.task;
        if places.enrolled.contains(&task) {
            return Err(TaskRefusal::Again { task });
        }
        let host = hello.host.clone();
        let node = places.free.remove(&(host.clone(), hello.local));
        let node = node.ok_or(TaskRefusal::NoPlace { task, host })?;
        places.enrolled.insert(task);
        if places.free.is_empty() {
            self.steps.remove(step);
        }
        Ok(node)
    }

    /// Expects no more task with this secret.
    pub(super) fn close(&mut self, secret: &EnrolmentSecret) {
        self.steps.retain(|step| !step.secret.is(secret));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gridspan_runtime::net::NodeKey;

    fn secret() -> EnrolmentSecret {
        EnrolmentSecret::new().unwrap()
    }

    fn hello(secret: &EnrolmentSecret, task: u32, local: u32, host: &str) -> Hello {
        let key = NodeKey::new().unwrap().public();
        Hello::new(secret.clone(), (task, local), host.to_owned(), key)
    }

    /// Expects two tasks on one host, and one on another.
    fn expecting(secret: &EnrolmentSecret) -> Admissions {
        let mut admissions = Admissions::default();
        let nodes = [(NodeId(4), "n1"), (NodeId(5), "n1"), (NodeId(6), "n2")];
        admissions.expect(secret.clone(), &nodes);
        admissions
    }

    #[test]
    fn tasks_get_the_nodes_of_their_hosts_however_slurm_numbers_them() {
        let secret = secret();
        let mut admissions = expecting(&secret);
        assert_eq!(admissions.admit(&hello(&secret, 2, 1, "n1")), Ok(NodeId(5)));
        assert_eq!(admissions.admit(&hello(&secret, 1, 0, "n2")), Ok(NodeId(6)));
        assert_eq!(admissions.admit(&hello(&secret, 0, 0, "n1")), Ok(NodeId(4)));
    }

    #[test]
    fn a_task_enrols_once_and_a_used_secret_is_worth_nothing() {
        let secret = secret();
        let mut admissions = expecting(&secret);
        let again = TaskRefusal::Again { task: 0 };
        assert_eq!(admissions.admit(&hello(&secret, 0, 0, "n1")), Ok(NodeId(4)));
        assert_eq!(admissions.admit(&hello(&secret, 0, 0, "n1")), Err(again));
        let host = "n1".to_owned();
        let taken = TaskRefusal::NoPlace { task: 1, host };
        assert_eq!(admissions.admit(&hello(&secret, 1, 0, "n1")), Err(taken), "a node twice");
        assert_eq!(admissions.admit(&hello(&secret, 1, 1, "n1")), Ok(NodeId(5)));
        assert_eq!(admissions.admit(&hello(&secret, 2, 0, "n2")), Ok(NodeId(6)));
        let late = admissions.admit(&hello(&secret, 3, 0, "n2"));
        assert_eq!(late, Err(TaskRefusal::Secret));
    }

    #[test]
    fn another_secret_and_a_closed_step_are_refused() {
        let (one, other) = (secret(), secret());
        let mut admissions = expecting(&one);
        let unknown = hello(&secret(), 0, 0, "n2");
        assert_eq!(admissions.admit(&unknown), Err(TaskRefusal::Secret));
        // Another srun is to start the third node.
        admissions.expect(other.clone(), &[(NodeId(6), "n2")]);
        let host = "n2".to_owned();
        let old = admissions.admit(&hello(&one, 2, 0, "n2"));
        assert_eq!(old, Err(TaskRefusal::NoPlace { task: 2, host }));
        admissions.close(&one);
        assert_eq!(admissions.admit(&hello(&one, 1, 1, "n1")), Err(TaskRefusal::Secret));
        assert_eq!(admissions.admit(&hello(&other, 0, 0, "n2")), Ok(NodeId(6)));
    }

    #[test]
    fn a_task_on_a_host_without_a_place_is_refused_with_advice() {
        let secret = secret();
        let refused = expecting(&secret).admit(&hello(&secret, 3, 1, "n2\u{1b}")).unwrap_err();
        let text = refused.to_string();
        assert!(text.contains("task 3 on host `n2\\u{1b}`; allocate with"), "{text}");
    }
}
