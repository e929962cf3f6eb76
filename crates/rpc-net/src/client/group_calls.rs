//! The calls of a window, which are calls of a group that are executed together, in the form in
//! which servers of a registry execute them.

use crate::client::store::ClientStore;
use crate::execution::events::GroupEvents;
use crate::wire::messages::{Times, Work};
use gridspan_rpc::group::{CallWindow, Done, Encoded, ServerPool, error_of};
use gridspan_workflow::execution::TaskFailure;
use gridspan_workflow::{DataId, ServerId, TaskId};
use std::collections::BTreeMap;

/// The calls of a window.
pub(crate) struct Calls<'w, 'a, 'b, S: ServerPool> {
    window: &'w CallWindow<'a, 'b, S>,
    kept: &'w ClientStore,
    /// Data by their numbers in the group.
    data: BTreeMap<u32, DataId>,
}

impl<'w, 'a, 'b, S: ServerPool> Calls<'w, 'a, 'b, S> {
    pub(crate) fn new(window: &'w CallWindow<'a, 'b, S>, kept: &'w ClientStore) -> Self {
        let all = (0..window.graph().data().len() as u32).map(DataId);
        let data = all.map(|data| (window.version(data), data)).collect();
        Self { window, kept, data }
    }
}

impl<S: ServerPool> GroupEvents for Calls<'_, '_, '_, S> {
    fn work(&self, task: TaskId) -> Work {
        let (function, signature) = (self.window.function(task), self.window.signature(task));
        Work::Function(function.to_owned(), signature.clone())
    }

    fn inputs(&self, task: TaskId) -> Vec<DataId> {
        let arguments = self.window.arguments(task).iter();
        arguments.filter_map(|version| self.data.get(version)).copied().collect()
    }

    fn version(&self, data: DataId) -> u32 {
        self.window.version(data)
    }

    fn bytes(&self, data: DataId) -> u64 {
        let known = self.kept.size(self.window.group(), self.window.version(data));
        known.unwrap_or(self.window.graph().datum(data).bytes)
    }

    fn is_kept(&self, data: DataId) -> bool {
        self.window.is_named(data)
    }

    fn ordered(&mut self, server: ServerId) {
        // Even if the order fails, the server may have data of the group now.
        self.window.touch(server);
    }

    fn made(&mut self, task: TaskId, server: ServerId, times: &Times) {
        let inputs = self.inputs(task);
        let input_bytes = inputs.iter().map(|&data| self.bytes(data)).fold(0, u64::saturating_add);
        let outputs = &self.window.graph().task(task).outputs;
        for (&data, &bytes) in outputs.iter().zip(&times.sizes) {
            self.kept.made(self.window.group(), self.window.version(data), bytes);
        }
        let took_s = Some(times.end_s - times.start_s);
        let outcome = Ok(times.sizes.clone());
        let done = Done { outcome, input_bytes, work_s: None, took_s };
        self.window.made(task, server, &done, &times.sizes);
    }

    fn has(&mut self, data: DataId, server: ServerId) {
        self.window.touch(server);
        self.window.has(data, server, false);
    }

    fn has_not(&mut self, data: DataId, server: ServerId) {
        self.window.has_not(data, server);
    }

    fn part(&mut self, from: ServerId, to: ServerId) {
        self.kept.part(self.window.number(from), self.window.number(to));
    }

    fn relayed(&mut self, data: DataId, bytes: Vec<u8>) {
        match Encoded::new(bytes) {
            Ok(value) => self.kept.offer(self.window.group(), self.window.version(data), value),
            // A server that requests the value learns that it is missing.
            Err(error) => tracing::warn!(%error, "cannot pass on"),
        }
    }

    fn spent(&mut self, data: DataId) {
        self.kept.withdraw(self.window.group(), self.window.version(data));
    }

    fn failed(&mut self, task: TaskId, first: TaskId, failure: &TaskFailure) {
        self.window.failed(task, &error_of(self.window.function(first), failure));
    }
}
