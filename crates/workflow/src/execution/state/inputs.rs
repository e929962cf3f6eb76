//! How long data travels over idle links: inputs to a task, and outputs to their readers.

use super::ExecutionState;
use crate::execution::AttemptId;
use crate::execution::attempts::Attempt;
use crate::execution::input_waits::TransferTime;
use crate::id::{DataId, Endpoint, ServerId, TaskId};

/// Last part of the wait of an attempt, as a fraction of the wait. If another attempt has ended on
/// the server within this part, the attempt is assumed to have waited for a core.
const JUST_FREE: f64 = 0.01;

impl ExecutionState<'_> {
    /// Returns the seconds until all inputs of a task can be at a server, over idle links.
    pub(super) fn inputs_s(&self, task: TaskId, to: ServerId, transfer_s: TransferTime<'_>) -> f64 {
        let nearest_s = |&data: &DataId| {
            let way_s = |from| self.way_s(data, from, to, transfer_s);
            self.sources(data).map(way_s).fold(f64::INFINITY, f64::min)
        };
        self.graph.task(task).inputs.iter().map(nearest_s).fold(0.0, f64::max)
    }

    /// Returns the seconds until the outputs of a task can be wherever they are needed, over idle
    /// links: at the servers of the tasks that read them, and at the client if it wants them.
    pub(super) fn outputs_s(
        &self,
        task: TaskId,
        from: ServerId,
        transfer_s: TransferTime<'_>,
    ) -> f64 {
        let from = Endpoint::Server(from);
        let farthest_s = |&data: &DataId| {
            let datum = self.graph.datum(data);
            let readers = datum.consumers.iter().filter(|&&reader| !self.tasks.is_settled(reader));
            let way_s = |&reader| self.way_s(data, from, self.tasks.server(reader), transfer_s);
            let client_s = match datum.is_wanted {
                true => transfer_s(data, from, Endpoint::Client),
                false => 0.0,
            };
            readers.map(way_s).fold(client_s, f64::max)
        };
        self.graph.task(task).outputs.iter().map(farthest_s).fold(0.0, f64::max)
    }

    /// Returns the time of a transfer over idle links, through the client if a server does not
    /// reach the other.
    fn way_s(
        &self,
        data: DataId,
        from: Endpoint,
        to: ServerId,
        transfer_s: TransferTime<'_>,
    ) -> f64 {
        let (client, to_server) = (Endpoint::Client, Endpoint::Server(to));
        match self.data.is_direct(from, to) {
            true => transfer_s(data, from, to_server),
            false => transfer_s(data, from, client) + transfer_s(data, client, to_server),
        }
    }

    /// Estimates the transfer time of inputs, over idle links, for each attempt whose inputs now
    /// all exist.
    pub(super) fn note_possible(&mut self, transfer_s: TransferTime<'_>) {
        for (attempt, since_s) in std::mem::take(&mut self.attempts.complete) {
            let Attempt { task, server, .. } = *self.attempts.at(attempt);
            let inputs_s = self.inputs_s(task, server, transfer_s);
            self.attempts.set_possible(attempt, since_s, inputs_s);
        }
    }

    /// Notes the time that a beginning attempt has waited for its inputs, unless it has waited for
    /// a core: in that case, a core has become free just before.
    pub(super) fn note_wait(&mut self, attempt: AttemptId, now_s: f64) {
        let Attempt { server, possible_s, inputs_s, .. } = *self.attempts.at(attempt);
        let Some(possible_s) = possible_s.filter(|_| inputs_s > 0.0) else { return };
        let (waited_s, free_s) = (now_s - possible_s, now_s - self.last_end_s[server.index()]);
        if free_s > waited_s * JUST_FREE {
            self.waits.note(waited_s, inputs_s);
        }
    }
}
