//! Execution of a workflow on servers of a registry, with emulated computing.

use crate::client::by_name::Client;
use crate::client::connector::{Connector, tell};
use crate::client::platform::platform;
use crate::client::task_client::{Supply, dice};
use crate::execution::driver::execute_group;
use crate::execution::events::{Contact, GroupEvents, Plan};
use crate::lock::lock;
use crate::wire::messages::{ListedServer, Request, Times, Work};
use crate::wire::token::RemoteError;
use crate::wire::transfer::BYTES_MAX;
use bytes::Bytes;
use gridspan_rpc::group::AssumedLinks;
use gridspan_topology::{Link, LinkSample};
use gridspan_workflow::execution::Execution;
use gridspan_workflow::execution::TaskFailure;
use gridspan_workflow::stragglers::StragglerPolicy;
use gridspan_workflow::{DataId, Mapping, Platform, ServerId, TaskGraph, TaskId};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use thiserror::Error;

/// Reason why a workflow was not executed.
#[derive(Debug, Error)]
pub enum EmulatedRunError {
    /// The registry, or all servers behind it, cannot be reached.
    #[error(transparent)]
    Registry(#[from] RemoteError),
    /// A task can no longer be executed.
    #[error("`{task}` was not executed: {reason}")]
    GivenUp {
        /// The task.
        task: String,
        /// The reason.
        reason: String,
    },
}

/// Size in bytes of the segments in which the client's data is sent.
const SEGMENT_BYTES: u64 = 1 << 20;

/// Connected servers, and the known links to them. When it is dropped, the servers drop all data of
/// its groups.
pub struct EmulatedRun {
    servers: Vec<ListedServer>,
    contacts: Vec<Contact>,
    samples: Vec<LinkSample>,
    /// Pairs of servers of which the second did not reach the first.
    apart: Mutex<BTreeSet<(ServerId, ServerId)>>,
    relayed: Relayed,
}

/// Sizes in bytes of the data that the client forwards between servers, by the numbers of the group
/// and the datum.
type Relayed = Arc<Mutex<BTreeMap<(u64, u32), u64>>>;

impl EmulatedRun {
    /// Connects to the servers of a registry, and leaves out those that cannot be reached. `data`
    /// gives the sizes of the client's data in bytes, by the numbers of the data.
    ///
    /// # Errors
    ///
    /// Those of [`Client::list`]. It is no error if no server can be reached.
    pub async fn gather(client: &Client, data: BTreeMap<u32, u64>) -> Result<Self, RemoteError> {
        // All data is the same segment, repeated.
        let segment = Bytes::from(vec![0; SEGMENT_BYTES as usize]);
        let relayed = Relayed::default();
        let passed_on = relayed.clone();
        let supplied: Supply = Arc::new(move |group, asked| {
            let passed_on = || lock(&passed_on).get(&(group, asked)).copied();
            let bytes = data.get(&asked).copied().or_else(passed_on);
            let bytes = bytes.filter(|bytes| *bytes <= BYTES_MAX)?;
            Some(segments(&segment, bytes))
        });
        let (mut servers, mut contacts, mut samples) = (Vec::new(), Vec::new(), Vec::new());
        let connector = Connector::new(client.clone(), supplied);
        for (listed, contact, sample) in connector.with_all(client.list().await?).await {
            servers.push(listed);
            contacts.push(contact);
            samples.push(sample);
        }
        Ok(Self { servers, contacts, samples, apart: Mutex::default(), relayed })
    }

    /// Returns the servers.
    pub fn servers(&self) -> &[ListedServer] {
        &self.servers
    }

    /// Returns the platform of the servers for a mapping. Links are as measured; unmeasured links
    /// have the usual values of local networks and wide areas. Servers that did not reach each
    /// other are marked as apart. Request the platform again before each execution, so that these
    /// servers do not try again to reach each other.
    pub fn platform(&self) -> Platform {
        let assumed = AssumedLinks { lan: Link::lan(), wan: Link::wan(), measures: true };
        let platform = platform(&self.servers, &self.samples, &assumed, &|_| 1.0);
        platform.with_apart(lock(&self.apart).iter().copied())
    }

    /// Executes a workflow as it was mapped.
    ///
    /// # Errors
    ///
    /// [`EmulatedRunError::GivenUp`] if a task reads or writes data of more than 8 GiB, or can no
    /// longer be executed; [`EmulatedRunError::Registry`] if the system has no random numbers.
    pub async fn execute(
        &self,
        graph: &TaskGraph,
        platform: &Platform,
        mapping: &Mapping,
        straggler_policy: StragglerPolicy,
    ) -> Result<Execution, EmulatedRunError> {
        check(graph)?;
        let group = dice()?;
        let plan = Plan { graph, platform, mapping, straggler_policy, group, is_single: false };
        let mut emulation = Emulation { graph, group, run: self };
        let outcome = execute_group(plan, &self.contacts, &mut emulation).await;
        lock(&self.relayed).retain(|(of, _), _| *of != group);
        for contact in &self.contacts {
            tell(&contact.connection, Request::End(group));
        }
        match outcome {
            (execution, None) => Ok(execution),
            (_, Some((task, failure))) => {
                let task = graph.task(task).name.clone();
                Err(EmulatedRunError::GivenUp { task, reason: failure.reason().to_owned() })
            }
        }
    }
}

impl Drop for EmulatedRun {
    fn drop(&mut self) {
        self.contacts.iter().for_each(|contact| contact.connection.close(0_u32.into(), b""));
    }
}

/// Returns `bytes` bytes as slices of one segment.
fn segments(segment: &Bytes, bytes: u64) -> Vec<Bytes> {
    let begins = (0..bytes).step_by(segment.len().max(1));
    let at = |begin: u64| segment.slice(..segment.len().min((bytes - begin) as usize));
    begins.map(at).collect()
}

/// Fails if a task makes or reads data for which no server has room.
fn check(graph: &TaskGraph) -> Result<(), EmulatedRunError> {
    for task in graph.tasks() {
        let all = task.inputs.iter().chain(&task.outputs).map(|&data| graph.datum(data));
        if let Some(data) = all.into_iter().find(|data| data.bytes > BYTES_MAX) {
            let (name, bytes) = (&data.name, data.bytes);
            let reason = format!(
                "`{name}` has {bytes} bytes, and a server has room for {BYTES_MAX}; scale the workflow's data down"
            );
            return Err(EmulatedRunError::GivenUp { task: task.name.clone(), reason });
        }
    }
    Ok(())
}

/// The tasks of a workflow, which compute for the stated time.
struct Emulation<'a> {
    graph: &'a TaskGraph,
    group: u64,
    run: &'a EmulatedRun,
}

impl GroupEvents for Emulation<'_> {
    fn work(&self, task: TaskId) -> Work {
        let of = self.graph.task(task);
        let bytes = of.outputs.iter().map(|&data| self.graph.datum(data).bytes).collect();
        Work::Emulated { work_s: of.work_s, bytes }
    }

    fn inputs(&self, task: TaskId) -> Vec<DataId> {
        self.graph.task(task).inputs.clone()
    }

    fn version(&self, data: DataId) -> u32 {
        data.0
    }

    fn bytes(&self, data: DataId) -> u64 {
        self.graph.datum(data).bytes
    }

    fn is_kept(&self, _data: DataId) -> bool {
        false
    }

    // All servers are notified when the group has ended.
    fn ordered(&mut self, _server: ServerId) {}

    fn made(&mut self, _task: TaskId, _server: ServerId, _times: &Times) {}

    fn has(&mut self, _data: DataId, _server: ServerId) {}

    fn has_not(&mut self, _data: DataId, _server: ServerId) {}

    fn part(&mut self, from: ServerId, to: ServerId) {
        lock(&self.run.apart).insert((from, to));
    }

    // All bytes of emulated tasks are the same, so only their number is kept.
    fn relayed(&mut self, data: DataId, bytes: Vec<u8>) {
        let key = (self.group, self.version(data));
        lock(&self.run.relayed).insert(key, bytes.len() as u64);
    }

    fn spent(&mut self, data: DataId) {
        let key = (self.group, self.version(data));
        lock(&self.run.relayed).remove(&key);
    }

    fn failed(&mut self, _task: TaskId, _first: TaskId, _failure: &TaskFailure) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn data_of_the_client_has_its_size_and_shares_one_segment() {
        let segment = Bytes::from(vec![0; 10]);

        let [none, exact, more] = [0, 20, 25].map(|bytes| segments(&segment, bytes));

        let sizes = |all: &[Bytes]| all.iter().map(Bytes::len).collect::<Vec<_>>();
        assert_eq!((sizes(&none), sizes(&exact)), (vec![], vec![10, 10]));
        assert_eq!(sizes(&more), [10, 10, 5]);
        assert!(more.iter().all(|part| part.as_ptr() == segment.as_ptr()));
    }
}
