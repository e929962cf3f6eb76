//! The plan of a group for its servers, and the receiver of its events.

use crate::wire::messages::{Source, Times, Work};
use crate::wire::requests::LongRequests;
use gridspan_workflow::execution::Execution;
use gridspan_workflow::execution::TaskFailure;
use gridspan_workflow::stragglers::StragglerPolicy;
use gridspan_workflow::{DataId, Mapping, Platform, ServerId, TaskGraph, TaskId};
use quinn::Connection;

/// A server that executes tasks of groups.
#[derive(Clone, Debug)]
pub(crate) struct Contact {
    pub(crate) connection: Connection,
    /// How other servers reach this server.
    pub(crate) source: Source,
    /// The unanswered orders on the connection.
    pub(crate) orders: LongRequests,
}

/// A group to execute.
#[derive(Clone, Copy)]
pub(crate) struct Plan<'a> {
    pub(crate) graph: &'a TaskGraph,
    pub(crate) platform: &'a Platform,
    pub(crate) mapping: &'a Mapping,
    pub(crate) straggler_policy: StragglerPolicy,
    /// The group's number, which no other group has.
    pub(crate) group: u64,
    /// Whether it is a single call. A server that has refused it, or whose answer was not valid,
    /// may have executed it, and does not get it again.
    pub(crate) is_single: bool,
}

/// Describes the tasks of a group, and receives its events. A receiver that does not keep track of
/// the data of servers ignores the events that have a default.
pub(crate) trait GroupEvents {
    /// Returns the work of a task.
    fn work(&self, task: TaskId) -> Work;
    /// Returns the arguments of a task, in order.
    fn inputs(&self, task: TaskId) -> Vec<DataId>;
    /// Returns the number that identifies data in the group.
    fn version(&self, data: DataId) -> u32;
    /// Returns the size in bytes of data that was made, or that existed before.
    fn bytes(&self, data: DataId) -> u64;
    /// Whether a server must still have data at the end of the execution.
    fn is_kept(&self, data: DataId) -> bool;
    /// Called when an order is sent to a server.
    fn ordered(&mut self, server: ServerId);
    /// Called when a server has made the outputs of a task.
    fn made(&mut self, task: TaskId, server: ServerId, times: &Times);
    /// Called when a server has fetched data.
    fn has(&mut self, _data: DataId, _server: ServerId) {}
    /// Called when a server no longer has data.
    fn has_not(&mut self, _data: DataId, _server: ServerId) {}
    /// Called when server `to` does not reach server `from`, which has data.
    fn part(&mut self, _from: ServerId, _to: ServerId) {}
    /// Called when data has come to the client, for servers that will request it.
    fn relayed(&mut self, _data: DataId, _bytes: Vec<u8>) {}
    /// Called when no server will request relayed data any longer.
    fn spent(&mut self, _data: DataId) {}
    /// Called when a task has failed: `first`, or one that depends on it.
    fn failed(&mut self, _task: TaskId, _first: TaskId, _failure: &TaskFailure) {}
}

/// The execution of a group, and the first task that failed, with its reason.
pub(crate) type GroupOutcome = (Execution, Option<(TaskId, TaskFailure)>);
