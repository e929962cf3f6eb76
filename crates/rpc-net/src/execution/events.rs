//! What servers are to carry out, and who hears what becomes of it.

use crate::wire::messages::{Source, Times, Work};
use gridspan_workflow::execution::Execution;
use gridspan_workflow::execution::TaskFailure;
use gridspan_workflow::stragglers::StragglerPolicy;
use gridspan_workflow::{DataId, Mapping, Platform, ServerId, TaskGraph, TaskId};
use quinn::Connection;

/// A server that executes tasks of groups.
#[derive(Clone, Debug)]
pub(crate) struct Contact {
    pub(crate) connection: Connection,
    /// How other servers find it.
    pub(crate) source: Source,
}

/// What is to be carried out.
#[derive(Clone, Copy)]
pub(crate) struct Plan<'a> {
    pub(crate) graph: &'a TaskGraph,
    pub(crate) platform: &'a Platform,
    pub(crate) mapping: &'a Mapping,
    pub(crate) rescue: StragglerPolicy,
    /// The group's number, which no other has.
    pub(crate) group: u64,
}

/// What the tasks of a group are, and who hears what becomes of them.
pub(crate) trait GroupEvents {
    /// What a task does.
    fn work(&self, task: TaskId) -> Work;
    /// Its arguments, in order.
    fn inputs(&self, task: TaskId) -> Vec<DataId>;
    /// The number of data in the group.
    fn version(&self, data: DataId) -> u32;
    /// How large data is that was made, or is there.
    fn bytes(&self, data: DataId) -> u64;
    /// Whether a server is to have data at the end.
    fn is_kept(&self, data: DataId) -> bool;
    /// A server is given an order.
    fn ordered(&mut self, server: ServerId);
    /// A server has made what a task makes.
    fn made(&mut self, task: TaskId, server: ServerId, times: &Times);
    /// A server has fetched data.
    fn has(&mut self, data: DataId, server: ServerId);
    /// A server does not have data any more.
    fn has_not(&mut self, data: DataId, server: ServerId);
    /// A server does not reach another that has data.
    fn part(&mut self, from: ServerId, to: ServerId);
    /// Data has come to the client, for servers that will ask for it.
    fn relayed(&mut self, data: DataId, bytes: Vec<u8>);
    /// None will ask for it any more.
    fn spent(&mut self, data: DataId);
    /// A task has failed: the first, or one that depends on it.
    fn failed(&mut self, task: TaskId, first: TaskId, failure: &TaskFailure);
}

/// How a group went, and the first task that failed, with its reason.
pub(crate) type GroupOutcome = (Execution, Option<(TaskId, TaskFailure)>);
