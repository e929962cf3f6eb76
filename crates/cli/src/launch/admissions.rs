//! Decides which tasks of Slurm may enrol, and which node each of them runs.
//!
//! Each `srun` has a secret, and one place for each node that it starts. Slurm decides on which
//! host each task runs. So a place has no fixed task: the places of a host are numbered, and a task
//! gets the place with the number that the task has on its host. Each task enrols once; when all
//! have enrolled, the secret admits no other task.
//!
//! A process that knows the secret may take a place before its task does. The task is then refused,
//! and [`TaskRefusal::event`] says that the job must end.

use super::event::Event;
use crate::task::Hello;
use gridspan_runtime::net::EnrolmentSecret;
use gridspan_topology::NodeId;
use std::collections::BTreeMap;
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
    /// The places, by host and by number of the task on the host.
    places: BTreeMap<(String, u32), Place>,
    /// Numbers of the tasks that have enrolled, and their nodes.
    enrolled: BTreeMap<u32, NodeId>,
}

/// The place of a task.
#[derive(Debug)]
enum Place {
    /// A task may enrol as this node.
    Free(NodeId),
    /// A task has enrolled as this node.
    Taken(NodeId),
    /// Another `srun` is to start the node.
    Superseded,
}

/// Why a task is refused.
#[derive(Debug, PartialEq, Eq, Error)]
pub(super) enum TaskRefusal {
    /// It speaks another version.
    #[error("it is another build of gridctl than the launcher; use the same one on all hosts")]
    Version,
    /// Its secret is unknown, or void.
    #[error("no task is expected with this secret")]
    Secret,
    /// Another process has enrolled as this task, or in its place.
    #[error("another process has enrolled as task {task}")]
    Taken {
        task: u32,
        /// The node that the other process runs.
        node: NodeId,
    },
    /// Another `srun` is to start its node.
    #[error("task {task} is not needed any more")]
    Superseded { task: u32 },
    /// Slurm has placed more tasks on a host than its variables state.
    #[error(
        "no node is left for task {task} on host `{}`; allocate with --ntasks-per-node, so that all hosts \
         have the same number of tasks",
        .host.escape_debug()
    )]
    NoPlace { task: u32, host: String },
}

impl TaskRefusal {
    /// Returns the event that lets the job end, or go on without `nodes`: those nodes of the `srun`
    /// whose tasks have not enrolled. Returns `None` if the process did not know a secret, or if
    /// the job no longer needs the task.
    pub(super) fn event(&self, nodes: Vec<NodeId>) -> Option<Event> {
        match self {
            Self::Taken { node, .. } => Some(Event::EnrolledTwice { node: *node }),
            Self::Version | Self::NoPlace { .. } => {
                Some(Event::TaskRefused { nodes, reason: self.to_string() })
            }
            Self::Secret | Self::Superseded { .. } => None,
        }
    }
}

impl Admissions {
    /// Expects the tasks of an `srun` with this secret, one for each of these nodes and their
    /// hosts. Another `srun` that was to start one of them may not do so any more.
    pub(super) fn expect(&mut self, secret: EnrolmentSecret, nodes: &[(NodeId, &str)]) {
        nodes.iter().for_each(|&(node, _)| self.supersede(node));
        let mut tasks: BTreeMap<&str, u32> = BTreeMap::new();
        let mut places = BTreeMap::new();
        for &(node, host) in nodes {
            let local = tasks.entry(host).or_default();
            places.insert((host.to_owned(), *local), Place::Free(node));
            *local += 1;
        }
        self.steps.push(Places { secret, places, enrolled: BTreeMap::new() });
    }

    /// Stops expecting the task of a node.
    pub(super) fn supersede(&mut self, node: NodeId) {
        for place in self.steps.iter_mut().flat_map(|step| step.places.values_mut()) {
            if matches!(place, Place::Free(free) if *free == node) {
                *place = Place::Superseded;
            }
        }
    }

    /// Returns the node of the task that says `hello`, if it may enrol.
    pub(super) fn admit(&mut self, hello: &Hello) -> Result<NodeId, TaskRefusal> {
        let step = self.steps.iter_mut().find(|step| step.secret.is(&hello.secret));
        let step = step.ok_or(TaskRefusal::Secret)?;
        if !hello.has_own_version() {
            return Err(TaskRefusal::Version);
        }
        let task = hello.task;
        if let Some(&node) = step.enrolled.get(&task) {
            return Err(TaskRefusal::Taken { task, node });
        }
        let host = hello.host.clone();
        let node = match step.places.get(&(host.clone(), hello.local)) {
            Some(&Place::Free(node)) => node,
            Some(&Place::Taken(node)) => return Err(TaskRefusal::Taken { task, node }),
            Some(Place::Superseded) => return Err(TaskRefusal::Superseded { task }),
            None => return Err(TaskRefusal::NoPlace { task, host }),
        };
        step.places.insert((host, hello.local), Place::Taken(node));
        step.enrolled.insert(task, node);
        Ok(node)
    }

    /// The nodes whose tasks may enrol with this secret.
    pub(super) fn free(&self, secret: &EnrolmentSecret) -> Vec<NodeId> {
        let step = self.steps.iter().find(|step| step.secret.is(secret));
        let places = step.into_iter().flat_map(|step| step.places.values());
        let free = places.filter_map(|place| match place {
            Place::Free(node) => Some(*node),
            Place::Taken(_) | Place::Superseded => None,
        });
        free.collect()
    }

    /// Stops expecting tasks with this secret.
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
        let taken = |task, node| TaskRefusal::Taken { task, node: NodeId(node) };
        assert_eq!(admissions.admit(&hello(&secret, 0, 0, "n1")), Ok(NodeId(4)));
        let again = admissions.admit(&hello(&secret, 0, 1, "n1"));
        assert_eq!(again, Err(taken(0, 4)), "a task twice");
        let taken_first = taken(1, 4);
        assert_eq!(admissions.admit(&hello(&secret, 1, 0, "n1")), Err(taken_first), "a node twice");
        assert_eq!(admissions.admit(&hello(&secret, 1, 1, "n1")), Ok(NodeId(5)));
        assert_eq!(admissions.admit(&hello(&secret, 2, 0, "n2")), Ok(NodeId(6)));
        let late = admissions.admit(&hello(&secret, 3, 0, "n2"));
        assert_eq!(late, Err(taken(3, 6)), "all places are taken");
        admissions.close(&secret);
        let closed = admissions.admit(&hello(&secret, 3, 0, "n2"));
        assert_eq!(closed, Err(TaskRefusal::Secret));
    }

    #[test]
    fn only_refusals_of_needed_tasks_with_the_secret_end_the_job() {
        let taken = TaskRefusal::Taken { task: 1, node: NodeId(4) };
        assert_eq!(taken.event(vec![]), Some(Event::EnrolledTwice { node: NodeId(4) }));
        let no_place = TaskRefusal::NoPlace { task: 1, host: "n1".to_owned() };
        for refusal in [TaskRefusal::Version, no_place] {
            let event = refusal.event(vec![NodeId(4)]);
            let is_refused =
                matches!(&event, Some(Event::TaskRefused { nodes, .. }) if nodes == &[NodeId(4)]);
            assert!(is_refused, "{event:?}");
        }
        for refusal in [TaskRefusal::Secret, TaskRefusal::Superseded { task: 1 }] {
            assert_eq!(refusal.event(vec![]), None, "{refusal:?}");
        }
    }

    #[test]
    fn nodes_are_free_until_their_tasks_enrol_or_another_srun_starts_them() {
        let secret = secret();
        let mut admissions = expecting(&secret);
        assert_eq!(admissions.free(&secret), [4, 5, 6].map(NodeId));
        assert!(admissions.admit(&hello(&secret, 0, 0, "n1")).is_ok());
        admissions.supersede(NodeId(6));
        assert_eq!(admissions.free(&secret), [NodeId(5)]);
        admissions.close(&secret);
        assert_eq!(admissions.free(&secret), []);
    }

    #[test]
    fn another_secret_and_a_closed_step_are_refused() {
        let (one, other) = (secret(), secret());
        let mut admissions = expecting(&one);
        let unknown = hello(&secret(), 0, 0, "n2");
        assert_eq!(admissions.admit(&unknown), Err(TaskRefusal::Secret));
        // Another srun is to start the third node.
        admissions.expect(other.clone(), &[(NodeId(6), "n2")]);
        let old = admissions.admit(&hello(&one, 2, 0, "n2"));
        assert_eq!(old, Err(TaskRefusal::Superseded { task: 2 }));
        admissions.supersede(NodeId(5));
        let old = admissions.admit(&hello(&one, 1, 1, "n1"));
        assert_eq!(old, Err(TaskRefusal::Superseded { task: 1 }));
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
