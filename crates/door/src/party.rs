//! Servers behind a door, for a workflow whose computing is emulated.

use super::conduct::{Contact, Errand, Plan, conduct};
use super::meeting::{meet, tell};
use super::owner::dice;
use super::token::DoorError;
use super::view::platform;
use super::visitor::Visitor;
use super::wire::{Listed, Question, Times, Work};
use bytes::Bytes;
use gridspan_rpc::group::Beliefs;
use gridspan_rpc::judge::{Execution, Rescue};
use gridspan_rpc::{DataId, Mapping, Platform, ServerId, TaskGraph, TaskId};
use gridspan_topology::{Link, LinkSample};
use std::collections::BTreeMap;
use std::sync::Arc;
use thiserror::Error;

/// Why a workflow was not executed.
#[derive(Debug, Error)]
pub enum PartyError {
    /// The door, or all servers behind it, cannot be reached.
    #[error(transparent)]
    Door(#[from] DoorError),
    /// A task cannot be executed any more.
    #[error("`{task}` was not executed: {reason}")]
    GivenUp {
        /// The task.
        task: String,
        /// Why.
        reason: String,
    },
}

/// Servers that were reached, and what is known of the ways to them. Once it is dropped they forget all groups.
pub struct Party {
    servers: Vec<Listed>,
    contacts: Vec<Contact>,
    samples: Vec<LinkSample>,
}

impl Party {
    /// Connects to the servers behind a door, of which those that cannot be reached are left out. `data` is what the client has:
    /// so many bytes each.
    pub async fn gather(visitor: &Visitor, data: BTreeMap<u32, u64>) -> Result<Self, DoorError> {
        // What the client would have is made as it is sent.
        let supplied = move |_, asked: u32| {
            let bytes: &u64 = data.get(&asked)?;
            Some(vec![Bytes::from(vec![0; *bytes as usize])])
        };
        let supplied: super::owner::Supply = Arc::new(supplied);
        let (mut servers, mut contacts, mut samples) = (Vec::new(), Vec::new(), Vec::new());
        for (listed, contact, sample) in meet(visitor, visitor.list().await?, &supplied).await {
            servers.push(listed);
            contacts.push(contact);
            samples.push(sample);
        }
        Ok(Self { servers, contacts, samples })
    }

    /// The servers.
    pub fn servers(&self) -> &[Listed] {
        &self.servers
    }

    /// What a mapping sees of them: links as they were measured, and where they were not as those of local networks and of wide
    /// areas usually are.
    pub fn platform(&self) -> Platform {
        let beliefs = Beliefs { lan: Link::lan(), wan: Link::wan(), measures: true };
        platform(&self.servers, &self.samples, &beliefs, &|_| 1.0)
    }

    /// Executes a workflow where it was mapped.
    pub async fn execute(
        &self,
        graph: &TaskGraph,
        platform: &Platform,
        mapping: &Mapping,
        rescue: Rescue,
    ) -> Result<Execution, PartyError> {
        let group = dice()?;
        let plan = Plan { graph, platform, mapping, rescue, group };
        let conducted = conduct(plan, &self.contacts, &mut Emulation { graph }).await;
        for contact in &self.contacts {
            tell(&contact.connection, Question::End(group));
        }
        let given_up = |task: TaskId, reason: String| {
            let task = graph.task(task).name.clone();
            PartyError::GivenUp { task, reason }
        };
        match conducted.map_err(|given| given_up(given.task, given.reason))? {
            (execution, None) => Ok(execution),
            (_, Some((task, reason))) => Err(given_up(task, reason)),
        }
    }
}

impl Drop for Party {
    fn drop(&mut self) {
        self.contacts.iter().for_each(|contact| contact.connection.close(0_u32.into(), b""));
    }
}

/// Tasks that compute for as long as they are said to.
struct Emulation<'a> {
    graph: &'a TaskGraph,
}

impl Errand for Emulation<'_> {
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

    fn made(&mut self, _task: TaskId, _server: ServerId, _times: &Times) {}

    fn has(&mut self, _data: DataId, _server: ServerId) {}

    fn has_not(&mut self, _data: DataId, _server: ServerId) {}

    fn failed(&mut self, _task: TaskId, _reason: &str) {}
}
